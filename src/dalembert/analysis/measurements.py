"""Measured data: times, values by name, their standard deviations, and where they lie between the steps of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import casadi as ca
import numpy as np

from dalembert.analysis.observed import Outputs, observed
from dalembert.checking import reals, shown
from dalembert.errors import MethodError, suggest
from dalembert.named import Array
from dalembert.systems.base import System

TIMES = ("t", "time")
DEGREE = 7  # of the polynomials between steps, at most
ON = 1e-9  # of a step: a time this near to the end of one is there
Observe = Mapping[str, str | Callable[..., object]]


@dataclass(frozen=True)
class Measurements:
    """Values at times, nan where none was measured, with standard deviations (one where unknown), and what they are of."""

    t: Array
    names: tuple[str, ...]
    values: Array
    sigma: Array
    known: bool  # whether standard deviations were given
    function: ca.Function  # (state, t, u, par) -> values, slopes by the state, slopes by the parameters

    @property
    def there(self) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
        """Which values were measured."""
        return np.isfinite(self.values)


def measurements(system: System, data: object, observe: Observe | None, sigma: object) -> Measurements:
    """Data as a user gives them, checked: a dictionary, an `xarray.Dataset` or a `DataFrame`."""
    t, columns = _columns(data)
    spec: dict[str, str | Callable[..., object]] = {name: (observe or {}).get(name, name) for name in columns}
    unused = [name for name in (observe or {}) if name not in columns]
    if unused:
        raise MethodError(f"observe has {unused[0]!r}, which is not measured{suggest(unused[0], columns)}")
    names, tables = list[str](), list[Array]()
    for name, values in columns.items():
        outputs: Outputs = {name: spec[name]}
        own = observed(system, outputs).names
        table = values[:, None] if values.ndim == 1 else values
        if table.shape != (len(t), len(own)):
            raise MethodError(f"{name!r} needs {len(t)} rows of {len(own)} numbers, not the shape {values.shape}")
        names += own
        tables.append(table)
    table = np.hstack(tables)
    if not np.isfinite(table).any():
        raise MethodError("there is no finite measured value")
    return Measurements(t, tuple(names), table, _deviations(sigma, names, table), sigma is not None, _function(system, spec))


def _columns(data: object) -> tuple[Array, dict[str, Array]]:
    """Times, and values by name."""
    given: dict[str, object]
    if hasattr(data, "data_vars") and hasattr(data, "coords"):  # an xarray.Dataset
        given = {k: data.coords[k].values for k in TIMES if k in data.coords}
        given |= {str(k): v.values for k, v in data.data_vars.items()}
    elif hasattr(data, "to_dict") and hasattr(data, "index"):  # a DataFrame
        given = {str(k): np.asarray(v) for k, v in data.to_dict(orient="list").items()}
        if not any(k in given for k in TIMES):
            given["t"] = np.asarray(data.index)
    elif isinstance(data, Mapping):
        given = {str(k): v for k, v in data.items()}
    else:
        raise MethodError(f"data must be a dictionary, an xarray.Dataset or a DataFrame with times, not {shown(data)}")
    key = next((k for k in TIMES if k in given), None)
    if key is None:
        raise MethodError(f"data needs times, called 't' or 'time'; it has {', '.join(given) or 'nothing'}")
    t = reals("the times of the data", given.pop(key), MethodError).ravel()
    if len(t) < 1 or not (np.diff(t) > 0).all():
        raise MethodError("the times of the data must increase")
    if not given:
        raise MethodError("data has times but no measured values")
    return t, {name: _numbers(name, value) for name, value in given.items()}


def _numbers(name: str, value: object) -> Array:
    """Measured numbers; nan stands for what is missing."""
    try:
        out = np.array(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise MethodError(f"the measured values of {name!r} must be numbers, not {shown(value)}") from error
    if np.isinf(out).any():
        raise MethodError(f"a measured value of {name!r} is infinite; leave out what is missing, or write nan")
    return out


def _deviations(sigma: object, names: list[str], table: Array) -> Array:
    """A standard deviation for each value."""
    if sigma is None:
        return np.ones_like(table)
    if not isinstance(sigma, Mapping):
        return np.broadcast_to(_positive("sigma", sigma), table.shape).copy()
    out = np.empty_like(table)
    for i, name in enumerate(names):
        key = name if name in sigma else name.rstrip("0123456789")
        if key not in sigma:
            raise MethodError(f"sigma has no standard deviation for {name!r}{suggest(name, sigma)}")
        out[:, i] = _positive(f"sigma of {name!r}", sigma[key])
    return out


def _positive(what: str, value: object) -> Array:
    out = reals(what, value, MethodError)
    if not (out > 0).all():
        raise MethodError(f"{what} must be positive, a standard deviation")
    return out


def _function(system: System, spec: Mapping[str, str | Callable[..., object]]) -> ca.Function:
    seen = observed(system, spec)
    x = ca.vertcat(*(getattr(system, name) for name in system.state))
    if ca.depends_on(seen.rows, seen.lam):
        raise MethodError("multipliers cannot be fitted to: they are defined inside of steps; measure a function of the state")
    slopes = [ca.densify(ca.jacobian(seen.rows, by)) for by in (x, system.par)]
    return ca.Function("measured", [x, system.t, system.u, system.par], [seen.rows, *slopes])


def places(times: Array, grid: Array) -> tuple[np.ndarray[tuple[int, int], np.dtype[np.int64]], Array]:
    """Weights of the polynomials through the states around each time: `x(t) = sum_k weights[k] x[rows[k]]`.

    A time at the end of a step has that state alone. The polynomials are of degree 7, so that they do not lower the order of the
    method.
    """
    count = min(DEGREE + 1, len(grid))
    h = grid[1] - grid[0] if len(grid) > 1 else 1.0
    near = np.clip(np.searchsorted(grid, times) - count // 2, 0, len(grid) - count)
    rows = near[:, None] + np.arange(count)
    nodes = grid[rows]
    weights = np.ones((len(times), count))
    for k in range(count):
        for j in range(count):
            if j != k:
                weights[:, k] *= (times - nodes[:, j]) / (nodes[:, k] - nodes[:, j])
    closest = np.abs(nodes - times[:, None]).argmin(axis=1)
    exact = np.abs(nodes[np.arange(len(times)), closest] - times) <= ON * h
    weights[exact] = np.eye(count)[closest[exact]]
    return rows.astype(np.int64), weights
