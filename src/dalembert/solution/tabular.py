"""A solution by names: single variables, tables for pandas, datasets for xarray."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from dalembert.errors import MethodError, suggesting
from dalembert.solution import names as named

if TYPE_CHECKING:
    import pandas
    import xarray

    from dalembert.solution.base import Solution

Array = NDArray[np.float64]
Variables = dict[str, Any]  # as xarray takes them: (dimensions, values)
WHOLE = ("t", "q", "v", "p", "x", "y", "z", "u", "lam")  # arrays that can be asked for by their letter


class Tabular:
    """The part of a solution that gives variables by name."""

    @property
    def _run(self) -> Solution:
        return cast("Solution", self)

    @property
    def names(self) -> list[str]:
        """The variables that `sol[name]`, `to_dataframe` and `plot` know."""
        return list(named.columns(self._run))

    def __getitem__(self, name: str) -> Array:
        """A variable along the run by its name: a coordinate, `v_x1`, `a_x1`, `lam1`, `energy`, a port; or all of `q`."""
        if name in WHOLE and name not in named.columns(self._run):
            return np.asarray(getattr(self._run, name))
        return named.find(self._run, name).values

    def unit(self, name: str) -> str:
        """The unit of a variable, empty where the system states none."""
        return named.find(self._run, name).unit

    def _chosen(self, names: Sequence[str] | str | None) -> dict[str, named.Column]:
        """Named columns; without names, all that belong to the kept times."""
        if isinstance(names, str):
            names = [names]
        if names is not None:
            return {name: named.find(self._run, name) for name in names}
        found = {name: make() for name, make in named.columns(self._run).items()}
        return {name: column for name, column in found.items() if len(column.t) == len(self._run.t)}

    @suggesting
    def to_dataframe(self, names: Sequence[str] | str | None = None, *, long: bool = False) -> pandas.DataFrame:
        """A table for pandas with a row for each kept time and a column for each variable; `names` chooses them.

        `long` gives one row for each value instead: time, variable, value, unit. Multipliers and work have times of their own:
        ask for them by name, by themselves or with `long`.
        """
        import pandas as pd  # xarray brings it along

        chosen = self._chosen(names)
        if long:
            parts = [
                pd.DataFrame({"time": c.t, "variable": name, "value": c.values, "unit": c.unit}) for name, c in chosen.items()
            ]
            return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=["time", "variable", "value", "unit"])
        times = list({c.t.tobytes(): c.t for c in chosen.values()}.values()) or [self._run.t]
        if len(times) > 1:
            raise MethodError("these variables have different times; ask for them one after the other, or with long=True")
        frame = pd.DataFrame({name: c.values for name, c in chosen.items()}, index=pd.Index(times[0], name="time"))
        frame.attrs["units"] = {name: c.unit for name, c in chosen.items() if c.unit}
        return frame

    @suggesting
    def sel(self, *names: str, time: float | Array | slice | None = None) -> xarray.Dataset:
        """Named variables as a dataset, all without names; at the kept times nearest to `time`, or in a slice."""
        import xarray as xr

        chosen = self._chosen(names or None)
        data = xr.Dataset({name: ("time", c.values, _attributes(c.unit)) for name, c in chosen.items() if self._kept(name, c)})
        data = data.assign_coords(time=("time", self._run.t, _attributes(named.unit(self._run.system, "time"))))
        if time is None:
            return data
        return data.sel(time=time) if isinstance(time, slice) else data.sel(time=time, method="nearest")

    def _kept(self, name: str, column: named.Column) -> bool:
        if len(column.t) != len(self._run.t):
            raise MethodError(f"{name!r} has times of its own; use sol[{name!r}] with sol.t_lam, or sol.to_dataframe({name!r})")
        return True

    def to_xarray(self) -> xarray.Dataset:
        """The trajectory as an `xarray.Dataset` with named states, ports and constraints, and units as attributes."""
        import xarray as xr

        sol, system = self._run, self._run.system
        first, *others = system.state
        data: Variables = {first: (("time", "coordinate"), sol.parts[first])}
        data |= {name: (("time", f"{name}_index"), sol.parts[name]) for name in others}
        coords: Variables = {"time": sol.t, "coordinate": list(system.coordinates), "time_lam": sol.t_lam}
        data |= {"supplied": ("interval", sol.supplied), "dissipated": ("interval", sol.dissipated)}
        if system.nu:
            data["u"] = (("time", "port"), sol.u)
            coords["port"] = list(system.ports)
            if "y" not in system.state and sol.y.shape[1] == system.nu:
                data["y"] = (("time", "port"), sol.y)
        sol._variables(data, coords)
        out = xr.Dataset(data, coords, {"system": system.name, "method": str(sol.method), "step": sol.step})
        _set_units(out, sol)
        return out


def _attributes(unit: str) -> dict[str, str]:
    return {"units": unit} if unit else {}


def _set_units(data: xarray.Dataset, sol: Solution) -> None:
    """Units as attributes; those of coordinates along `coordinate`, since they may differ."""
    system = sol.system
    time, energy = (named.unit(system, kind) for kind in ("time", "energy"))
    for name, known in (("time", time), ("time_lam", time), *((e, energy) for e in ENERGIES)):
        if known and name in data.variables:
            data[name].attrs["units"] = known
    units = named.coordinate_units(system)
    if any(units):
        data.coords["unit"] = ("coordinate", units)
        if len(set(units)) == 1:
            data[system.state[0]].attrs["units"] = units[0]
            if "v" in data and data["v"].shape[1] == system.n:
                data["v"].attrs["units"] = named.per_time(system, units)[0]


ENERGIES = ("energy", "kinetic", "potential", "supplied", "dissipated")
