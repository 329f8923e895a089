"""How a system is drawn: points, links, bodies and trails, units for the axes, and a default picture."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypedDict

import casadi as ca
import numpy as np
from casadi import SX
from numpy.typing import NDArray

from dalembert.errors import ModelError, strict
from dalembert.systems import solids

if TYPE_CHECKING:
    from dalembert.systems.base import System

SI = {"time": "s", "length": "m", "energy": "J"}  # units of a picture
MOST = 60  # points of a system that names its coordinates
MANY = 5000  # points between which rods are looked for
Group = list[int]  # indices of the coordinates of one point


class Parts(TypedDict, total=False):
    """A picture without its points, as plain data."""

    links: tuple[tuple[int, ...], ...]
    masses: tuple[int, ...]
    trails: tuple[int, ...]
    bodies: tuple[tuple[int, ...], ...]
    units: dict[str, str]
    solids: list[solids.Data]


@strict
@dataclass(frozen=True)
class Picture:
    """What to draw of a system: points as a function of `q` (of `x` for a `PortHamiltonian`) and `t`, and what joins them.

    Parameters
    ----------
    points
        Returns one row of 2 or 3 coordinates for each point. By default the particles of the system, found by its `dimension`
        or by coordinates called `x, y` or `x1, y1, z1` or `x_A, y_A`. Points that a constraint keeps at a distance from each
        other, or from a pivot, are linked.
    links
        Pairs of points, drawn as rods.
    masses
        Points drawn as dots.
    trails
        Points whose path is drawn.
    bodies
        Polygons of three points or more, drawn as filled shapes.
    solids
        `da.Solid` objects: surfaces that move with frames which are points.
    units
        Of the axes: `{"time": "s", "length": "m", "energy": "J"}`, and by the name of any coordinate.
    """

    points: Callable[..., object] | None = None
    links: Iterable[Iterable[int]] = ()
    masses: Iterable[int] = ()
    trails: Iterable[int] = ()
    bodies: Iterable[Iterable[int]] = ()
    units: Mapping[str, str] = field(default_factory=dict)
    solids: Iterable[solids.Solid] = ()

    def __post_init__(self) -> None:
        try:
            for name in ("links", "bodies"):
                object.__setattr__(self, name, tuple(tuple(map(int, group)) for group in getattr(self, name)))
            for name in ("masses", "trails"):
                object.__setattr__(self, name, tuple(int(i) for i in getattr(self, name)))
            object.__setattr__(self, "units", {str(k): str(v) for k, v in dict(self.units).items()})
        except Exception as error:  # iteration and conversion run code of the values' own types
            raise ModelError(
                "in a picture, links are pairs of point numbers, bodies are lists of them, masses and trails are point numbers, "
                f"and units is a dictionary: {error}"
            ) from error
        object.__setattr__(self, "solids", solids.given(self.solids))
        if set(map(len, self._tuples("links"))) - {2} or min(map(len, self._tuples("bodies")), default=3) < 3:
            raise ModelError("in a picture, links have two points each and bodies at least three")

    def _tuples(self, name: str) -> tuple[tuple[int, ...], ...]:
        """Links or bodies, as they are kept."""
        out: tuple[tuple[int, ...], ...] = getattr(self, name)
        return out

    def parts(self) -> Parts:
        """All but the points, to be written to a file."""
        return {
            "links": tuple(tuple(link) for link in self.links), "masses": tuple(self.masses), "trails": tuple(self.trails),
            "bodies": tuple(tuple(ring) for ring in self.bodies), "units": dict(self.units),
            "solids": [solid.data() for solid in self.solids],
        }  # fmt: skip


def attach(system: System, picture: Picture | None) -> None:
    """Set the picture of a system, or the default one."""
    if picture is not None and not isinstance(picture, Picture):
        raise ModelError(f"picture must be a da.Picture(points=..., links=...), not {type(picture).__name__}")
    if picture is None or picture.points is None:
        system.picture = _default(system, picture or Picture())
        return
    system.picture = picture
    points = system._trace("picture.points", picture.points, (system.state[0], "t"))
    if points.shape[1] not in (2, 3):
        raise ModelError(f"picture.points must have 2 or 3 columns, got the shape {points.shape}")
    check(picture, points.shape[0])
    system._define("points", points)


def inherit(system: System, other: System) -> None:
    """Copy the picture of another system, whose coordinates are the first ones of this one."""
    system.picture = other.picture
    if "points" in other._functions:
        f, own = other._functions["points"], _state(system)
        values = {name: ca.SX.zeros(f.size1_in(name)) for name in other.arguments}
        values |= {other.state[0]: own[: other.n], "t": system.t}
        system._define("points", f(*values.values(), system.par))


def _state(system: System) -> SX:
    """The symbols on which points depend: positions, or the whole state."""
    out: SX = getattr(system, system.state[0])
    return out


def check(picture: Picture, rows: int) -> None:
    """Refuse a picture that joins points which are not there."""
    used = [i for name in ("links", "bodies") for group in getattr(picture, name) for i in group]
    used += [*picture.masses, *picture.trails, *(i for solid in picture.solids for i in solid.frame)]
    if used and not (min(used) >= 0 and max(used) < rows):
        raise ModelError(
            f"the picture has {rows} points, counted from 0, but uses point {min(used) if min(used) < 0 else max(used)}"
        )


def particles(system: System) -> list[Group]:
    """Coordinates that are points of the plane or of space: by `dimension`, or by names `x, y(, z)` with one ending."""
    if system.dimension in (2, 3):
        d = system.dimension
        groups: list[Group] = np.arange(system.n).reshape(-1, d).tolist()
        return groups
    where = {name: i for i, name in enumerate(system.coordinates)}
    endings = [name[1:] for name in where if re.fullmatch(r"x_?[A-Za-z0-9]{0,3}", name)]
    groups = [[where[a + end] for a in "xyz" if a + end in where] for end in endings]
    groups = [g for g in groups if len(g) > 1]
    return groups if len({len(g) for g in groups}) == 1 else []


def _default(system: System, given: Picture) -> Picture | None:
    """A picture of the particles of a system, completed by what is given; None if it has none."""
    groups = particles(system)
    if not groups or (len(groups) > MOST and system.dimension not in (2, 3)):
        return given if given.units else None
    points = ca.reshape(_state(system)[np.ravel(groups).tolist()], len(groups[0]), len(groups)).T
    joined = [pair for e in getattr(system, "repeated", ()) for pair in e.pairs()] if not given.links else []
    links, pivots = (joined, []) if given.links or joined or len(groups) > MANY else _rods(system, groups)
    count = len(groups)
    for k, (i, place) in enumerate(pivots):
        points = ca.vertcat(points, place)
        links.append((i, count + k))
    system._define("points", points)
    trails = range(count) if count <= 6 else ()
    picture = Picture(
        None,
        given.links or links,
        given.masses or (range(count) if count <= MOST or not (links or given.links or given.bodies or given.solids) else ()),
        given.trails or trails,
        given.bodies,
        given.units,
        given.solids,
    )
    check(picture, points.shape[0])
    return picture


def _rods(system: System, groups: list[Group]) -> tuple[list[tuple[int, int]], list[tuple[int, SX]]]:
    """Pairs of points at a constrained distance, and points at a constrained distance from a pivot, with its place.

    A constraint on the distance of `a` and `b` has the gradient `k (a - b)` by `a` and `-k (a - b)` by `b`; one on the
    distance from a pivot `c` has `k (a - c)`, where `c` may depend on time and parameters. This is tested at random values.
    """
    links: list[tuple[int, int]] = []
    pivots: list[tuple[int, SX]] = []
    if not system.has("holonomic"):
        return links, pivots
    x = _state(system)
    G = ca.sparsify(ca.jacobian(system.expression("holonomic"), x))
    owner = np.full(system.n, -1)
    for k, group in enumerate(groups):
        owner[group] = k
    rows, columns = (np.asarray(index, dtype=int) for index in G.sparsity().get_triplet())
    order = np.argsort(rows, kind="stable")
    cuts = np.flatnonzero(np.diff(rows[order])) + 1
    found: list[tuple[int, Group]] = []
    for entries in np.split(order, cuts) if len(order) else ():
        touched = sorted(set(owner[columns[entries]].tolist()))
        if touched[0] >= 0 and len(touched) < 3:
            found.append((int(rows[entries[0]]), touched))
    pairs = [(i, groups[own[0]], groups[own[1]]) for i, own in found if len(own) == 2]
    rigid = dict(zip((i for i, *_ in pairs), _parallel(system, G, pairs), strict=True))
    for i, own in found:
        if len(own) == 2:
            links += [(own[0], own[1])] if rigid[i] else []
            continue
        a = groups[own[0]]
        for find in (_origin, _centre, _meeting):
            place = find(system, G[i, a].T, a)
            if place is not None and _along(system, [(G[i, a].T, x[a] - place.T)]):
                pivots.append((own[0], place))
                break
    return links, pivots


def _places(
    pattern: ca.Sparsity, rows: NDArray[np.int64], columns: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Where entries stand among those of a pattern, and whether they do; SciPy, which has this too, takes long to import."""
    row, column = (np.asarray(index, dtype=np.int64) for index in pattern.get_triplet())
    keys, wanted = column * pattern.size1() + row, columns * pattern.size1() + rows
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return at, keys[at] == wanted


def _parallel(system: System, G: SX, pairs: list[tuple[int, Group, Group]]) -> NDArray[np.bool_]:
    """For rows of `G` and pairs of points: whether a row is along their difference, at a few random values."""
    if not pairs:
        return np.zeros(0, dtype=bool)
    f = ca.Function("f", [_state(system), system.t, system.par], [G])
    rows, a, b = (np.array(column) for column in zip(*pairs, strict=True))
    good = np.ones(len(pairs), dtype=bool)
    at, there = _places(f.sparsity_out(0), rows[:, None], np.hstack([a, b]))
    for q, t, par in _draws(system):
        g = np.where(there, np.array(f(q, t, par).nonzeros())[at], 0.0)
        apart = q[a] - q[b]
        good &= _proportional(g, np.hstack([apart, -apart]))
    return good


def _origin(system: System, gradient: SX, a: Group) -> SX | None:
    return ca.SX.zeros(1, len(a))


def _meeting(system: System, gradient: SX, a: Group) -> SX | None:
    """The point where the lines along a gradient meet: the pivot of any function of the distance, if it does not move."""
    f = ca.Function("f", [_state(system), system.t, system.par], [ca.densify(gradient)])
    rng = np.random.default_rng(2)
    rows, goal = [], []
    for q in rng.normal(size=(6, system.n)):
        g = np.asarray(f(q, 0.0, system.pack()).full()).ravel()
        size = float(np.linalg.norm(g))
        if not (np.isfinite(size) and size > 0):
            return None
        across = np.eye(len(a)) - np.outer(g, g) / size**2  # removes the part along the line
        rows.append(across)
        goal.append(across @ q[a])
    place, *_ = np.linalg.lstsq(np.vstack(rows), np.concatenate(goal), rcond=1e-10)
    return ca.SX(ca.DM(place)).T


def _centre(system: System, gradient: SX, a: Group) -> SX | None:
    """The point where a gradient that is linear in the position vanishes."""
    x = _state(system)
    slope = ca.jacobian(gradient, x)[:, a]
    if ca.depends_on(slope, x) or slope[0, 0].is_zero():
        return None
    at = ca.substitute(gradient, x[a], ca.SX.zeros(len(a)))
    return ca.densify(-at / slope[0, 0]).T


def _along(system: System, pairs: list[tuple[SX, SX]]) -> bool:
    """Whether gradients are parallel to differences, all with one factor, at a few random values."""
    gradient, apart = ca.vertcat(*(g for g, _ in pairs)), ca.vertcat(*(d for _, d in pairs))
    f = ca.Function("f", [_state(system), system.t, system.par], [ca.densify(gradient), ca.densify(apart)])
    return all(_proportional(*(np.asarray(m.full()).T for m in f(*values)))[0] for values in _draws(system))


def _draws(system: System) -> Iterator[tuple[NDArray[np.float64], float, NDArray[np.float64]]]:
    """Three random positions, times and parameters near those of the system."""
    rng, par = np.random.default_rng(1), system.pack()
    for _ in range(3):
        yield rng.normal(size=system.n), rng.normal(), par * (1 + 0.3 * rng.uniform(size=par.size)) + 0.1 * rng.uniform()


def _proportional(g: NDArray[np.float64], d: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Row by row, whether `g` is a multiple of `d`; what is not finite is not."""
    sizes = (d * d).sum(axis=1)
    clear = np.isfinite(g).all(axis=1) & np.isfinite(d).all(axis=1) & (sizes > 0)
    with np.errstate(all="ignore"):  # rows that are not clear
        rest = np.abs(g - ((g * d).sum(axis=1) / sizes)[:, None] * d).max(axis=1)
        return np.asarray(clear & (rest <= 1e-9 * np.abs(g).max(axis=1)))
