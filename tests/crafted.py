"""Files that would run code if anything in them were run: each way that CasADi and Python have for it."""

import pickle
import sys
from pathlib import Path

import casadi as ca

from dalembert.engine import compiler

C = """#include <stdio.h>
__attribute__((constructor)) static void enter(void) { FILE *f = fopen("%s", "w"); if (f) fclose(f); }
"""


class Opens:
    """Opens a file for writing when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def payloads(directory: Path, marker: Path) -> dict[str, str]:
    """Texts by what they are; reading one with `ca.Function.deserialize` or `pickle.loads` makes the marker."""
    import subprocess

    source, library = directory / "evil.c", directory / "evil.so"
    body = "int evil(const double** a, double** r, long long* i, double* w, int m) { if (r[0]) r[0][0] = 1; return 0; }\n"
    source.write_text(C % marker + body)
    command = compiler.find()
    assert command is not None
    subprocess.run([*command, "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
    x = ca.SX.sym("x")
    header = directory / "evil.h"
    header.write_text(C % marker)
    options = {"jit": True, "jit_serialize": "embed", "jit_options": {"compiler": command[0], "flags": ["-include", str(header)]}}
    callback = ca.Function("calls", [x], [ca.external("evil", str(library))(x)])
    out = {
        "external library": ca.external("evil", str(library)).serialize(),
        "function with jit": ca.Function("f", [x], [ca.sin(x)], options).serialize(),
        "function that calls a library": callback.serialize(),
        "pickle": pickle.dumps(Opens(marker), protocol=0).decode("latin-1"),
    }
    marker.unlink(missing_ok=True)  # it was made here as well
    return out


if __name__ == "__main__":
    import json

    for name, text in json.loads(Path(sys.argv[1]).read_text()).items():
        if name == "pickle":
            pickle.loads(text.encode("latin-1"))
        else:
            ca.Function.deserialize(text)
        print(name, Path(sys.argv[2]).exists())
        Path(sys.argv[2]).unlink(missing_ok=True)
