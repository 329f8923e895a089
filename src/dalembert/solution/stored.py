"""A run in a store, read a part at a time: also while it goes on, and where it does not fit into memory."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dalembert.engine.controllers import Samples
from dalembert.engine.events import Hits
from dalembert.errors import FileError, MethodError
from dalembert.methods.base import Method
from dalembert.solution.base import Solution
from dalembert.solution.columns import Array, available
from dalembert.solution.files import stats
from dalembert.solution.record import Record, latest
from dalembert.solution.shelf import HELD, Gathered
from dalembert.systems import plain
from dalembert.systems.base import System

if TYPE_CHECKING:
    import xarray

Index = int | slice | tuple[int | slice, ...]


class Lazy:
    """An array with time first that is read, or computed, for the rows that are asked for: `a[k]`, `a[first:last:every]`."""

    def __init__(self, length: int, read: Callable[[slice], Array]) -> None:
        self._length, self._read = length, read

    def __len__(self) -> int:
        return self._length

    @cached_property
    def shape(self) -> tuple[int, ...]:
        return (self._length, *self._read(slice(0, min(2, self._length))).shape[1:])

    @property
    def dtype(self) -> np.dtype[np.float64]:
        return np.dtype(np.float64)

    def __getitem__(self, index: Index) -> Array:
        rows, *others = index if isinstance(index, tuple) else (index,)
        if isinstance(rows, slice):
            return np.asarray(self._read(rows)[(slice(None), *others)])
        k = range(self._length)[rows]  # an error where there is no such row
        return np.asarray(self._read(slice(k, k + 1))[(0, *others)])

    def __array__(self, dtype: object = None, copy: object = None) -> NDArray[np.float64]:
        return self._read(slice(None))


class Stored:
    """A run in a store, as far as it was written when this was made. `da.open` makes it.

    `run[first:last:every]` is a `Solution` of these rows, with the last of them. `t`, `q`, `lam`, `energy` and so on are arrays
    of which slices are read. `to_xarray()` is a dataset that reads when asked.
    """

    def __init__(self, path: Path, system: System | None = None) -> None:
        available()
        record = Record.read(path)
        self.path, self.system = path, system or record.system()
        self.record = record.sound(self.system)
        self.shelf, fixed, stand = self.record.shelf(self.system), self.record.fixed, self.record.stand
        self.rows = plain.size(stand.get("rows"), "rows", 0, 2**62)
        self.method = Method.of_spec(plain.get(fixed, "method", list))
        self._par = plain.array(plain.get(fixed, "parameters", list), "parameters", (self.system.par.numel(),))
        self.step, self.finished = plain.get(fixed, "step", float), plain.get(stand, "finished", bool)
        self.stats = stats(plain.get(stand, "stats", dict))

    # ---- rows -------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return self.rows + 1

    def __getitem__(self, rows: slice) -> Solution:
        """A solution of these rows; the last one is in it also where `every` does not lead to it."""
        if not isinstance(rows, slice):
            raise MethodError("a part of a run is a slice of its rows: run[first:last], run[::1000]")
        first, end, every = rows.indices(len(self))
        if every < 1 or end <= first:
            raise MethodError(f"there are no rows from {first} to {end} by {every}; the run has {len(self)}")
        out = self._part(first, end, every)
        low, high = out.t[0], out.t[-1]
        inside = {name: (hits.t >= low) & (hits.t <= high) for name, hits in self.events.items()}
        out.events = {
            name: Hits(hits.t[inside[name]], {key: values[inside[name]] for key, values in hits.values.items()})
            for name, hits in self.events.items()
        }
        return out

    def _part(self, first: int, end: int, every: int = 1) -> Solution:
        gathered = Gathered(self.shelf.before(first), end - 1 - first, every).add(self.shelf.blocks(first, end - 1))
        out = gathered.solution(self.system, self.method, self._par, self.step, self.stats)
        for one in self.record.samples():
            one.put(out, self.samples[one.name])
        return out

    def solution(self) -> Solution:
        """All rows where they fit well into memory (128 MiB), or every so manieth."""
        return self[:: self.shelf.stride(self.rows)]

    def _lazy(self, name: str) -> Lazy:
        interval = name in ("lam", "t_lam", "supplied", "dissipated", "power_balance")

        def read(rows: slice) -> Array:
            first, end, every = rows.indices(self.rows if interval else len(self))
            if every < 1 or end <= first:
                return np.asarray(getattr(self._part(0, 1), name)[:0])
            count = -(-(end - first) // every)
            if 8 * self.shelf.width * count > 16 * HELD:
                raise MethodError(
                    f"{count} rows of {name} need {8 * self.shelf.width * count / 2**30:.1f} GiB of memory to be made; ask for "
                    f"fewer: {name}[first:last:every]"
                )
            parts, at_once = [], max(1, self.shelf.chunk // every)
            for k in range(0, count, at_once):
                low, high = first + k * every, first + (min(count, k + at_once) - 1) * every + 1
                # what belongs to an interval needs the time after it as well
                parts.append(np.asarray(getattr(self._part(low, high + interval), name))[::every])
            return np.concatenate(parts)

        return Lazy(self.rows if interval else len(self), read)

    @property
    def t(self) -> Lazy:
        """Times."""
        return self._lazy("t")

    @property
    def t_lam(self) -> Lazy:
        """Times of the multipliers."""
        return self._lazy("t_lam")

    @property
    def q(self) -> Lazy:
        """Positions."""
        return self._lazy("q")

    @property
    def v(self) -> Lazy:
        """Velocities."""
        return self._lazy("v")

    @property
    def p(self) -> Lazy:
        """Momenta."""
        return self._lazy("p")

    @property
    def x(self) -> Lazy:
        """The whole state."""
        return self._lazy("x")

    @property
    def y(self) -> Lazy:
        """Outputs, or `y` of a semi-explicit system."""
        return self._lazy("y")

    @property
    def z(self) -> Lazy:
        """Algebraic variables, or costates."""
        return self._lazy("z")

    @property
    def u(self) -> Lazy:
        """Inputs."""
        return self._lazy("u")

    @property
    def lam(self) -> Lazy:
        """Multipliers."""
        return self._lazy("lam")

    @property
    def energy(self) -> Lazy:
        """Total energy, computed for the rows that are asked for."""
        return self._lazy("energy")

    @property
    def supplied(self) -> Lazy:
        """Work done on the system in each interval."""
        return self._lazy("supplied")

    @property
    def dissipated(self) -> Lazy:
        """Energy dissipated in each interval."""
        return self._lazy("dissipated")

    @property
    def power_balance(self) -> Lazy:
        """`H1 - H0 - supplied + dissipated` in each interval."""
        return self._lazy("power_balance")

    @cached_property
    def samples(self) -> dict[str, Samples]:
        """The samples of controllers, by the names of the inputs that they set."""
        given, stand = self.record.samples(), self.record.stand
        stored = plain.each(stand.get("stored samples", []), "stored samples", int)
        late = plain.of(stand.get("late samples", []), "late samples", list)
        return {one.name: one.read(*found) for one, *found in zip(given, stored, late, strict=True)}

    @cached_property
    def events(self) -> dict[str, Hits]:
        """Crossings by the name of their event; the latest, where there are more than fit well into memory."""
        return {name: self._hits(k) for k, name in enumerate(plain.each(self.record.fixed.get("events"), "events", str))}

    def _hits(self, number: int) -> Hits:
        """The crossings of an event: those of whole chunks lie in an array, the rest in the record."""
        column, stand = self.record.crossings(self.system)[number], self.record.stand
        stored = plain.each(stand.get("stored hits"), "stored hits", int)[number]
        late = plain.of(plain.get(stand, "late hits", list)[number], "late hits", list)
        rest = plain.array(late, "late hits", (len(late), column.width or 1))
        return crossings_of(self.system, self._par, np.concatenate([latest(column, stored), rest]))

    # ---- for other programs -----------------------------------------------------------------------------

    def to_xarray(self) -> xarray.Dataset:
        """The rows as an `xarray.Dataset`, which reads them when asked."""
        import xarray as xr

        others = ["model", *(column.name for column in self.record.series(self.system))]
        data = xr.open_zarr(self.path, chunks=None, consolidated=False, drop_variables=others, zarr_format=3)  # type: ignore[no-untyped-call]
        data = data.isel(time=slice(0, len(self)), interval=slice(0, self.rows))
        data = data.set_coords(["t", "t_lam"]).assign_coords(coordinate=list(self.system.coordinates))
        data.attrs = {"system": self.system.name, "method": str(self.method), "step": self.step}
        return data

    def __repr__(self) -> str:
        t = float(self.t[-1])
        state = "finished" if self.finished else "not finished"
        return f"<Stored run of {self.system.name!r} by {self.method}: {len(self)} times to t = {t:g}, {state}>"


def crossings_of(system: System, par: Array, rows: Array) -> Hits:
    """Crossings by the names of the parts, from rows of time and state."""
    cuts = np.cumsum([1, *(system.size_of(name) for name in system.state)])
    parts = dict(zip(system.state, np.split(rows, cuts, axis=1)[1:], strict=False))
    return Hits(rows[:, 0], system.completed(parts, rows[:, 0], par))


def open(path: str | Path) -> Stored:
    """A run that `simulate(..., store=path)` writes or has written, as far as it is: nothing is read before it is asked for."""
    if not isinstance(path, (str, Path)) or "\0" in str(path) or not Path(path).is_dir():
        hint = "; da.load reads a solution in a file" if isinstance(path, (str, Path)) and str(path).endswith(".nc") else ""
        raise FileError(f"there is no store {str(path)!r}{hint}")
    try:
        return plain.guarded("its content is not valid", lambda: Stored(Path(path)))
    except (FileError, OSError) as error:
        raise FileError(f"{str(path)!r} cannot be read as a store: {error}") from error
