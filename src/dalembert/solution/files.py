"""Solutions in files, and paths that can be written to."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from dalembert.engine.events import Hits
from dalembert.errors import MethodError
from dalembert.methods.base import Method
from dalembert.solution.base import WRITE, Solution
from dalembert.systems.base import System

FORMS = {  # of files that are written: what each is called, and how its name ends
    "output": ("a solution", (".nc", ".nc4", ".netcdf", ".h5")),
    "report": ("a report", (".html", ".htm")),
    "animation": ("an animation", (".gif", ".mp4")),
}


def target(path: object, what: str = "a file", suffixes: Sequence[str] = ()) -> Path:
    """A path that a file can be written to, checked before any work is done."""
    if not isinstance(path, (str, Path)) or not str(path):
        raise MethodError(f"a file name is expected, not {path!r}")
    out = Path(path)
    try:
        if "\0" in str(out):
            raise ValueError("it contains a zero byte")
        if out.is_dir():
            raise MethodError(f"{str(out)!r} is a directory; give a file name in it")
        if not out.parent.is_dir():
            raise MethodError(f"the directory {str(out.parent)!r} does not exist; make it first")
        if out.exists() and not out.is_file():
            raise MethodError(f"{str(out)!r} is no ordinary file and would be lost; give another name")
        if not os.access(out.parent, os.W_OK):
            raise MethodError(f"nothing can be written to the directory {str(out.parent)!r}")
    except MethodError:
        raise
    except (OSError, ValueError) as error:
        raise MethodError(f"{_short(out)} is no name for a file: {error}") from error
    if suffixes and out.suffix.lower() not in suffixes:
        raise MethodError(f"{what} ends in {' or '.join(dict.fromkeys(suffixes[:3]))}, which {out.name!r} does not")
    return out


def _short(path: Path) -> str:
    text = repr(str(path))
    return text if len(text) < 80 else text[:70] + "..." + text[-7:]


@contextmanager
def writing(path: Path) -> Iterator[Path]:
    """A temporary name beside a file, which takes its place when all went well and leaves nothing behind when not."""
    temporary = path.with_name(f".{path.stem}.part{path.suffix}")
    try:
        yield temporary
        temporary.replace(path)
    except OSError as error:
        raise MethodError(f"{str(path)!r} could not be written: {error.strerror or error}") from error
    finally:
        if temporary.exists():
            temporary.unlink()


def write(solution: Solution, path: str | Path, extra: object = None) -> Path:
    """A NetCDF file with the trajectory, the system's functions, the events, and anything else that can stand in JSON."""
    path = target(path, *FORMS["output"])
    data = solution.to_xarray()
    events = {
        name: {"t": hits.t.tolist(), "values": {key: values.tolist() for key, values in hits.values.items()}}
        for name, hits in solution.events.items()
    }
    meta = {
        "method": solution.method.spec(),
        "parameters": solution._par.tolist(),
        "stats": solution.stats,
        "system": solution.system.dumps(),
        "events": events,
        "extra": extra,
    }
    # a variable, not an attribute: attributes of a NetCDF file cannot be long
    data["dalembert"] = ("byte", np.frombuffer(json.dumps(meta).encode(), dtype=np.uint8))
    with writing(path) as temporary:
        data.to_netcdf(temporary, engine="netcdf4")
    return path


def load(path: str | Path) -> Solution:
    """Read a solution that `Solution.save` wrote."""
    return read(path)[0]


def read(path: str | Path) -> tuple[Solution, dict[str, Any]]:
    """A solution from a file, and what was stored with it."""
    import xarray as xr

    if not (isinstance(path, (str, Path)) and Path(path).is_file()):
        raise MethodError(f"there is no file {str(path)!r}")
    try:
        data = xr.load_dataset(path, engine="netcdf4")
        meta = json.loads(data["dalembert"].values.astype(np.uint8).tobytes())
    except (OSError, KeyError, ValueError) as error:
        raise MethodError(f"{str(path)!r} is not a solution written by dalembert: {error}") from error
    system = System.loads(meta["system"])
    method = Method.of_spec(meta["method"])
    intervals = len(data["time"]) - 1
    lam = data["lam"].values if "lam" in data else np.zeros((intervals, 0))
    u = data["u"].values if "u" in data else np.zeros((intervals + 1, 0))
    work = np.stack([data["supplied"].values, data["dissipated"].values], axis=1)
    solution = Solution.of(system)(
        system, method, np.array(meta["parameters"]), data["time"].values, {name: data[name].values for name in system.state},
        lam=lam, t_lam=data["time_lam"].values, work=work, u=u, step=float(data.attrs["step"]), stats=meta["stats"],
    )  # fmt: skip
    solution.events = {name: _hits(found, system) for name, found in meta.get("events", {}).items()}
    return solution, meta["extra"] or {}


def _hits(found: dict[str, Any], system: System) -> Hits:
    """Crossings read from a file; arrays without a row keep their columns."""
    t = np.array(found["t"], dtype=float)
    values = {name: np.array(rows, dtype=float).reshape(len(t), system.size_of(name)) for name, rows in found["values"].items()}
    return Hits(t, values)


WRITE.set(write)
