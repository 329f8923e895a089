"""Solutions in files.

A file is NetCDF with a line at its end: the number of the format, and a digest of all that stands before it. The digest is
compared before any other program sees the file, so that damage is found here. The model in it is data, see
`systems/operations.py`: nothing in a file is run.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dalembert.engine.controllers import Samples
from dalembert.engine.events import Hits
from dalembert.engine.run import Stat
from dalembert.errors import FileError
from dalembert.locks import Lock
from dalembert.methods.base import Method
from dalembert.solution import arc_files
from dalembert.solution.base import Array, Solution
from dalembert.solution.paths import FORMS, target, writing
from dalembert.solution.shown import WRITE
from dalembert.systems import plain
from dalembert.systems.base import System

if TYPE_CHECKING:
    import xarray


FORMAT = 2  # of files; 1 had functions as CasADi writes them, which may contain code
_SEAL = re.compile(rb"dalembert format (\d{1,9}) sha256 ([0-9a-f]{64})\n")
_LENGTH = 200  # bytes at the end of a file in which its seal is looked for
_LOCK = Lock()  # the libraries of NetCDF and HDF5 serve one thread at a time


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
        "step": float(solution.step),
        "stats": solution.stats,
        "multipliers": data["lam"].shape[1] if "lam" in data else 0,
        "system": solution.system.dumps(),
        "events": events,
        "samples": {name: {key: values.tolist() for key, values in vars(s).items()} for name, s in solution.samples.items()},
        "arcs": arc_files.written(solution),
        "extra": extra,
    }
    # a variable, not an attribute: attributes of a NetCDF file cannot be long
    data["dalembert"] = ("byte", np.frombuffer(json.dumps(meta).encode(), dtype=np.uint8))
    with writing(path) as temporary:
        _put(data, temporary)
        seal(temporary)
    return path


def _put(data: xarray.Dataset, path: Path) -> None:
    with _LOCK:
        try:
            data.to_netcdf(path, engine="netcdf4")
        except RuntimeError as error:  # what netCDF4 makes of a full disk
            raise OSError(str(error)) from error


def seal(path: Path) -> None:
    """Append the line that `read` looks for."""
    with path.open("rb+") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        file.write(f"dalembert format {FORMAT} sha256 {digest}\n".encode())


def _verify(path: Path) -> None:
    """Refuse a file that is not, to the last bit, what was written."""
    with path.open("rb") as file:
        first, length = file.read(4), file.seek(0, 2)
        file.seek(max(0, length - _LENGTH))
        found = list(_SEAL.finditer(end := file.read()))
        if not found or found[-1].end() != len(end):
            raise FileError(
                "it is damaged, was changed by another program, or was written by dalembert 0.1, whose files are no longer read"
                if first == b"\x89HDF" else "it is no file of dalembert's"
            )  # fmt: skip
        version, digest = int(found[-1][1]), found[-1][2].decode()
        if version != FORMAT:
            other = "a newer" if version > FORMAT else "an older"
            raise FileError(f"it was written by {other} version of dalembert (format {version}; this one reads {FORMAT})")
        file.seek(0)
        left, check = length - len(end) + found[-1].start(), hashlib.sha256()
        while left and (block := file.read(min(left, 1 << 20))):
            check.update(block)
            left -= len(block)
    if check.hexdigest() != digest:
        raise FileError("it is damaged: its content is not what was written")


@dataclass(frozen=True)
class _Content:
    """The arrays of a file and its plain data."""

    arrays: dict[str, Array]
    meta: object

    def array(self, name: str, shape: tuple[int, ...]) -> Array:
        if name not in self.arrays:
            raise FileError(f"{name!r} is missing")
        found = self.arrays[name]
        if found.shape != shape:
            raise FileError(f"{name!r} has the shape {found.shape}, where {shape} is expected")
        return found


def _content(path: Path) -> _Content:
    """Read a file whose seal is whole."""
    import netCDF4

    most = path.stat().st_size
    with _LOCK, netCDF4.Dataset(path, "r") as file:
        file.set_auto_maskandscale(False)
        arrays, text = {}, None
        for name, variable in file.variables.items():
            kind = np.uint8 if name == "dalembert" else np.float64
            if variable.dtype != kind:
                continue
            # nothing is compressed: what says that it is larger than the file was not written here
            if variable.size * variable.dtype.itemsize > most:
                raise FileError(f"{name!r} is larger than the file")
            if name == "dalembert":
                text = variable[:].tobytes()
            else:
                arrays[name] = np.array(variable[:], dtype=np.float64)
    if text is None:
        raise FileError("it is no file of dalembert's")
    return _Content(arrays, plain.parse(text))


def load(path: str | Path) -> Solution:
    """Read a solution that `Solution.save` wrote."""
    return read(path)[0]


def read(path: str | Path, system: System | None = None) -> tuple[Solution, dict[str, Any]]:
    """A solution from a file, and what was stored with it; of a given system, or of the one in the file."""
    if not isinstance(path, (str, Path)) or "\0" in str(path) or not Path(path).is_file():
        raise FileError(f"there is no file {str(path)!r}")
    try:
        _verify(Path(path))
        return plain.guarded("its content is not valid", lambda: _solution(_content(Path(path)), system))
    except (FileError, OSError) as error:
        raise FileError(f"{str(path)!r} cannot be read as a solution: {error}") from error


def _solution(content: _Content, system: System | None) -> tuple[Solution, dict[str, Any]]:
    meta = content.meta
    system = system or System.loads(plain.get(meta, "system", str))
    method = Method.of_spec(plain.get(meta, "method", list))
    rows = len(content.arrays.get("time", ()))
    t = content.array("time", (rows,))
    if not rows or not np.isfinite(t).all() or (np.diff(t) < 0).any():
        raise FileError("its times do not increase")
    intervals = rows - 1
    par = plain.array(plain.get(meta, "parameters", list), "parameters", (system.par.numel(),))
    multipliers = plain.size(plain.get(meta, "multipliers", int), "multipliers")
    work = [content.array(name, (intervals,)) for name in ("supplied", "dissipated")]
    solution = Solution.of(system)(
        system, method, par, t, {name: content.array(name, (rows, system.size_of(name))) for name in system.state},
        lam=content.array("lam", (intervals, multipliers)) if multipliers else np.zeros((intervals, 0)),
        t_lam=content.array("time_lam", (intervals,)), work=np.stack(work, axis=1),
        u=content.array("u", (rows, system.nu)) if system.nu else np.zeros((rows, 0)),
        step=plain.get(meta, "step", float), stats=stats(plain.get(meta, "stats", dict)),
    )  # fmt: skip
    solution.events = {str(name): _hits(found, system) for name, found in plain.get(meta, "events", dict).items()}
    solution.samples = {str(name): _samples(found) for name, found in plain.get(meta, "samples", dict).items()}
    arcs = plain.maybe(meta, "arcs", dict)
    return solution if arcs is None else arc_files.read(arcs, solution), plain.maybe(meta, "extra", dict) or {}


def stats(found: dict[str, object]) -> dict[str, Stat]:
    """Counts of work: plain values, among them those that every summary has (a run that was killed has none)."""
    found = {"steps": 0, "iterations": 0, "iterations_per_step": 0.0, "seconds": 0.0, "engine": "not finished", **found}
    for key in ("steps", "iterations"):
        plain.size(found.get(key), key, 0, 2**63)
    for key in ("iterations_per_step", "seconds", "setup_seconds", "compile_seconds"):
        plain.of(found.get(key, 0.0), key, float)
    plain.get(found, "engine", str)
    if "save_every" in found:
        plain.size(found["save_every"], "save_every", 1, 2**63)
    out = {name: value for name, value in found.items() if isinstance(value, (bool, int, float, str))}
    if len(out) < len(found):
        raise FileError("'stats' has an entry that is no plain value")
    return out


def _hits(found: object, system: System) -> Hits:
    """Crossings read from a file; arrays without a row keep their columns."""
    times = plain.get(found, "t", list)
    t = plain.array(times, "t", (len(times),))
    values = {}
    for name, rows in plain.get(found, "values", dict).items():
        if name not in system.variables:
            raise FileError(f"an event has {str(name)[:60]!r}, which is no part of the motion")
        values[str(name)] = plain.array(rows, str(name), (len(t), system.size_of(name)))
    return Hits(t, values)


def _samples(found: object) -> Samples:
    """Samples of a controller read from a file."""
    times = plain.get(found, "t", list)
    t, rows = plain.array(times, "t", (len(times),)), {}
    for name in ("y", "u", "state"):
        given = plain.get(found, name, list)
        width = len(plain.of(given[0], name, list)) if given else 0
        rows[name] = plain.array(given, name, (len(t), width)) if width else np.zeros((len(t), 0))
    return Samples(t, **rows)


WRITE.set(write)
