"""Tables in models: functions of one or two variables that are given by their values at points.

A table becomes one CasADi function that a step calls: it finds the cell, takes the data at its corners and evaluates a
polynomial. Nothing grows with the number of points but the memory, and derivatives of all orders are those of the polynomial.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field

import casadi as ca
import numpy as np
from casadi import MX
from numpy.typing import ArrayLike, NDArray

from dalembert.checking import one_of, reals
from dalembert.checking import text as checked_text
from dalembert.errors import FileError, ModelError, suggesting
from dalembert.systems import plain
from dalembert.systems.batch import batch
from dalembert.systems.symbolic import elementwise, is_symbolic

Array = NDArray[np.float64]
KINDS = ("linear", "cubic")
OUTSIDE = ("error", "extend", "hold", "periodic")
PREFIX = "da_table_"
_DERIVED = re.compile(rf"((?:fwd|adj)\d+_)*({PREFIX}\w+)")


@dataclass(frozen=True, eq=False)
class Lookup:
    """A table of values at grid points, as a function: `da.table(x, y)` or `da.table(x, y, z)` makes it.

    Called with symbols, inside of a model function, it gives symbols; called with numbers it gives numbers.
    """

    grids: tuple[Array, ...]
    values: Array
    kind: str
    outside: str
    name: str
    function: ca.Function = field(repr=False)

    def __call__(self, *at: object) -> object:
        if len(at) != len(self.grids):
            raise ModelError(f"{self} is a function of {len(self.grids)} variables, not of {len(at)}")
        if any(is_symbolic(x) for x in at):
            return elementwise(self.function, at)
        points = np.broadcast_arrays(*(reals("an argument of a table", x, ModelError) for x in at))
        columns = [x.reshape(-1, 1) for x in points]
        for axis, column in enumerate(columns):
            self.refuse(axis, column[:, 0])
        out: Array = batch(self.function, columns, columns[0].size)[0].reshape(points[0].shape)
        return out if out.ndim else float(out)

    def refuse(self, axis: int, x: Array, where: str = "") -> None:
        """Refuse values beyond the ends of a table that is not to be used there."""
        beyond = self.beyond(axis, x)
        if beyond.any():
            raise ModelError(self.complaint(axis, float(x[int(np.argmax(beyond))]), where))

    def beyond(self, axis: int, x: Array) -> NDArray[np.bool_]:
        """Which values leave the range of a checked table, by more than rounding."""
        low, high = self.limits(axis)
        return np.asarray((x < low) | (x > high))

    def limits(self, axis: int) -> tuple[float, float]:
        """Between which values it can be asked for, with a little room for rounding."""
        low, high = (float(x) for x in self.grids[axis][[0, -1]])
        slack = 1e-12 * max(abs(low), abs(high)) if self.checked else np.inf
        return low - slack, high + slack

    def complaint(self, axis: int, x: float, where: str = "") -> str:
        low, high = self.grids[axis][[0, -1]]
        which = f" in its variable {axis + 1}" if len(self.grids) > 1 else ""
        return (
            f"{self} is asked for {x:.6g}{which}{where}, outside of its range {low:g} .. {high:g}; give it more points, or "
            f"{' or '.join(f'outside={name!r}' for name in OUTSIDE[1 : 4 if len(self.grids) == 1 else 3])}"
        )

    @property
    def checked(self) -> bool:
        """Whether it may only be used inside of its range."""
        return self.outside == "error"

    def data(self) -> dict[str, object]:
        """The table as plain data; `read` is the inverse."""
        grids = [grid.tolist() for grid in self.grids]
        return {"grids": grids, "values": self.values.tolist(), "kind": self.kind, "outside": self.outside, "name": self.name}

    def __str__(self) -> str:
        return f"the table {self.name!r}" if self.name else f"a table of {' x '.join(str(len(g)) for g in self.grids)} points"


@suggesting
def table(
    x: ArrayLike, y: ArrayLike, z: ArrayLike | None = None, *, kind: str = "linear", outside: str = "error", name: str = ""
) -> Lookup:
    """A function by its values, for use in model functions: `y` at the points `x`, or `z[i, j]` at `(x[i], y[j])`.

    Parameters
    ----------
    kind
        `"linear"`: straight lines between the points, bilinear in two variables. `"cubic"`: the cubic spline through them, twice
        continuously differentiable ("not a knot" at the ends, periodic where the table is), its tensor product in two.
    outside
        Beyond the ends: `"error"` ends a run that is there at its start or at a kept time; `"extend"` goes on with the slope at
        the end; `"hold"` keeps the last value, as `np.interp` does; `"periodic"` repeats a table of one variable.
    name
        What errors call it.
    """
    one_of("kind", kind, KINDS, ModelError)
    one_of("outside", outside, OUTSIDE, ModelError)
    axes = [("x", x)] if z is None else [("x", x), ("y", y)]
    grids = tuple(_grid(label, points) for label, points in axes)
    label = "y" if z is None else "z"
    values = reals(f"{label} of a table", y if z is None else z, ModelError)
    shape = tuple(len(g) for g in grids)
    if values.shape != shape:
        raise ModelError(f"{label} of a table has the shape {values.shape}; its points are {' x '.join(map(str, shape))}")
    if outside == "periodic":
        _check_period(grids, values)
    return made(grids, values, kind, outside, checked_text("name", name, ModelError))


def _grid(label: str, points: ArrayLike) -> Array:
    grid = reals(f"{label} of a table", points, ModelError)
    if grid.ndim != 1 or len(grid) < 2:
        raise ModelError(f"{label} of a table is a list of two points at least, not an array of the shape {grid.shape}")
    rising = np.diff(grid) > 0
    if not rising.all():
        k = int(np.argmin(rising))
        raise ModelError(f"{label} of a table must increase: its entries {k + 1} and {k + 2} are {grid[k]:g} and {grid[k + 1]:g}")
    return grid


def _check_period(grids: tuple[Array, ...], values: Array) -> None:
    if len(grids) > 1:
        raise ModelError("outside='periodic' is for tables of one variable; reduce the argument of others in the model")
    if values[0] != values[-1]:
        raise ModelError(f"a periodic table must end as it begins: its first value is {values[0]:g}, its last {values[-1]:g}")


_KNOWN: dict[str, Lookup] = {}  # by the names of their functions, which tell one content from another


def made(grids: tuple[Array, ...], values: Array, kind: str, outside: str, name: str) -> Lookup:
    """The table of checked data; one object for equal tables."""
    digest = hashlib.sha256(f"{kind} {outside} {name} {values.shape}".encode())
    for part in (*grids, values):
        digest.update(np.ascontiguousarray(part).tobytes())
    key = PREFIX + digest.hexdigest()[:24]
    if key not in _KNOWN:
        frozen = tuple(_frozen(part) for part in (*grids, values))
        _KNOWN[key] = Lookup(frozen[:-1], frozen[-1], kind, outside, name, _function(key, grids, values, kind, outside))
    return _KNOWN[key]


def _frozen(values: Array) -> Array:
    out = values.copy()
    out.setflags(write=False)
    return out


def read(data: object) -> Lookup:
    """A table from the data of a file, checked as those of a user are."""
    grids = plain.get(data, "grids", list)
    kind, outside, name = (plain.get(data, key, str) for key in ("kind", "outside", "name"))
    if len(grids) not in (1, 2):
        raise FileError(f"a table has {len(grids)} variables")
    try:
        values = plain.get(data, "values", list)
        y, z = (values, None) if len(grids) == 1 else (grids[1], values)
        return table(grids[0], y, z, kind=kind, outside=outside, name=name)
    except ModelError as error:
        raise FileError(str(error)[:200]) from error


def known(function: ca.Function) -> tuple[Lookup, tuple[str, ...]] | None:
    """The table that a called function is, or a derivative of, with the derivatives taken in order: `("adj1", "fwd1")`."""
    match = _DERIVED.fullmatch(function.name())
    found = _KNOWN.get(match[2]) if match else None
    if match is None or found is None:
        return None
    steps = function.name()[: -len(match[2])].split("_")[:-1]
    return found, tuple(reversed(steps))


def derived(found: Lookup, steps: tuple[str, ...]) -> ca.Function:
    """A derivative of a table, as CasADi makes it."""
    out = found.function
    for step in steps:
        count = int(step[3:])
        out = out.forward(count) if step.startswith("fwd") else out.reverse(count)
    return out


def _function(key: str, grids: tuple[Array, ...], values: Array, kind: str, outside: str) -> ca.Function:
    """The table as one function of scalars."""
    inner = [MX.sym(f"x{k}") for k in range(len(grids))]
    value = _patch(inner, grids, _nodes(grids, values, kind, outside == "periodic"), kind)
    at = [MX.sym(f"x{k}") for k in range(len(grids))]
    if outside == "periodic":
        first, period = float(grids[0][0]), float(grids[0][-1] - grids[0][0])
        used = [at[0] - period * ca.floor((at[0] - first) / period)]
    elif outside == "error":
        used = at
    else:
        used = [ca.fmin(ca.fmax(x, float(g[0])), float(g[-1])) for x, g in zip(at, grids, strict=True)]
    slopes = [ca.jacobian(value, x) for x in inner] if outside == "extend" else []
    inside = ca.Function("inside", inner, [value, *slopes])
    found = inside.call(used, True, False)
    result = found[0]
    for slope, x, near in zip(found[1:], at, used, strict=False):
        result += slope * (x - near)
    return ca.Function(key, at, [result], {"never_inline": True})


def _nodes(grids: tuple[Array, ...], values: Array, kind: str, periodic: bool) -> Array:
    """What is kept at each point, one column each: its coordinates, the value, for cubic tables the derivatives, and zero."""
    points = [a.ravel() for a in np.meshgrid(*grids, indexing="ij")]
    if kind == "linear":
        return np.array([*points, values.ravel(), np.zeros(values.size)])
    parts = [values]
    for axis, grid in enumerate(grids):
        parts += [_slope(grid, part, axis, periodic) for part in parts]
    return np.array([*points, *(part.ravel() for part in parts), np.zeros(values.size)])


def _slope(grid: Array, values: Array, axis: int, periodic: bool) -> Array:
    from scipy.interpolate import CubicSpline  # an import of the package stays light

    ends = "periodic" if periodic else "not-a-knot"
    return np.asarray(CubicSpline(grid, values, axis=axis, bc_type=ends)(grid, 1), dtype=np.float64)


def _patch(x: list[MX], grids: tuple[Array, ...], nodes: Array, kind: str) -> MX:
    """The polynomial of the cell in which `x` lies: by values at its corners, and for cubic ones by their derivatives.

    It has a term of eighth order whose factor is zero, as CasADi cannot know. Where a derivative of a called function has fewer
    entries than the function before it, derivatives of what calls it come out wrong (CasADi 3.8): what a forward derivative
    leaves out keeps the seed of another.
    """
    count = nodes.shape[1]
    corner = ca.interpolant(
        "corner", "linear", [np.arange(count, dtype=float)], nodes.ravel(order="F"), {"lookup_mode": ["exact"]}
    )
    first: MX = MX(0)
    for at, grid in zip(x, grids, strict=True):
        index = ca.interpolant("index", "linear", [grid], np.arange(len(grid), dtype=float))
        cell = ca.fmax(0, ca.fmin(len(grid) - 2, ca.floor(index(at))))
        first = first * len(grid) + cell
    strides = [1] if len(grids) == 1 else [len(grids[1]), 1]
    last = corner(first + sum(strides))
    start = corner(first)
    weights = [_weights(at, start[k], last[k], kind) for k, at in enumerate(x)]
    total: MX = MX(0)
    for at in x:
        square = at * at
        total += start[-1] * ((square * square) * (square * square))
    for place in range(2 ** len(x)):
        bits = [(place >> k) & 1 for k in range(len(x))]
        data = corner(first + sum(b * s for b, s in zip(bits, strides, strict=True)))[len(x) : -1]
        for order in range(data.numel()):
            term = data[order]
            for k, bit in enumerate(bits):
                term = term * weights[k][bit][(order >> k) & 1]
            total += term
    return total


def _weights(x: MX, low: MX, high: MX, kind: str) -> tuple[tuple[MX, ...], tuple[MX, ...]]:
    """The factors of the values, and of the slopes, at the lower and at the upper end of a cell."""
    h = high - low
    s = (x - low) / h
    if kind == "linear":
        return (1 - s,), (s,)
    s2 = s * s
    rise = s2 * (3 - 2 * s)
    return (1 - rise, h * (s - 2 * s2 + s * s2)), (rise, h * (s * s2 - s2))
