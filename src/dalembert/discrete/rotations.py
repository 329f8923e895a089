"""Discrete gradients of functions that rotations and translations leave as they are, whatever invariants they are made of.

A discrete gradient `D f(x0, x1)` gives a momentum map that is kept where it is orthogonal to the action at the midpoint,
`D f . (w x m) = 0` (Gonzalez 1999, eq. 17). Slopes through an expression are, for functions of invariants of degree at most two;
for a determinant or a triple product they are not. Here the part of the step that is a rotation is taken out first. With
`d = x1 - x0 = w x m + n`, `n` orthogonal to all rotations of `m`, and `T` the rotation by half the angle of the Cayley transform
of `w`,

    T^T x1 - T x0 = A n,  A = (T + T^T) / 2,    f(x1) - f(x0) = f(T^T x1) - f(T x0) = S(T x0, T^T x1) . A n

for the slopes `S`, because `f` does not see `T`. So `D f = P A S(T x0, T^T x1)`, with `P` the projection that gives `n = P d`, is
directional and orthogonal to rotations at once, smooth where `n` vanishes, and symmetric. Translations are taken out by the mean.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import casadi as ca
import numpy as np
from casadi import SX
from numpy.typing import NDArray

Array = NDArray[np.float64]
Slope = Callable[[Array, Array, list[Array]], Array]  # between two points, with further arguments
Vectors = tuple[tuple[int, ...], ...]
SAMPLES, SPREAD = 8, 0.3
EXACT, TOLERANCE = 1e-13, 1e-11  # relative, of sums that vanish by symmetry: of gradients, of slopes
DAMPING, SMALL = 1e-14, 1e-60  # of moments of inertia: points on a line have none about it


@dataclass(frozen=True)
class Action:
    """Rotations about `axes` of all vectors of a state together, and translations of the vectors of each of its parts.

    `parts` has the vectors of each part, each by its entries in the state. Axes are columns of three entries, and so are the
    directions of the translations, one matrix for each part: momenta turn with positions, but are not shifted.
    """

    parts: tuple[Vectors, ...]
    axes: Array
    shifts: tuple[Array, ...]

    @property
    def vectors(self) -> Vectors:
        return tuple(vector for part in self.parts for vector in part)

    @property
    def entries(self) -> list[int]:
        return [i for vector in self.vectors for i in vector]

    def points(self, x: SX) -> SX:
        """The vectors as columns of three entries."""
        return ca.horzcat(*(ca.vertcat(x[list(vector)], SX.zeros(3 - len(vector))) for vector in self.vectors))

    def state(self, points: SX, x: SX) -> SX:
        """`x` with its vectors replaced."""
        out = SX(x)
        for k, vector in enumerate(self.vectors):
            out[list(vector)] = points[: len(vector), k]
        return out

    def centred(self, points: SX) -> SX:
        """The points without the mean of their part along its translations."""
        out, ends = [], np.cumsum([len(part) for part in self.parts])
        for part, shifts, end in zip(self.parts, self.shifts, ends, strict=True):
            own = points[:, int(end) - len(part) : int(end)]
            out.append(own - ca.repmat(SX(shifts @ shifts.T) @ ca.sum2(own) / len(part), 1, len(part)))
        return ca.horzcat(*out)

    def moves(self, x: Array, slope: Array) -> Array:
        """`slope` along each rotation at `x` and each translation, relative to the size of its terms."""
        moment, forces, size, reach = np.zeros(3), [], 1e-300, 1e-300
        for part, shifts in zip(self.parts, self.shifts, strict=True):
            at, force = (np.zeros((len(part), 3)) for _ in range(2))
            places = np.array(part)
            at[:, : places.shape[1]], force[:, : places.shape[1]] = x[places], slope[places]
            moment += np.cross(at, force).sum(axis=0)
            forces.append(shifts.T @ force.sum(axis=0))
            size, reach = size + np.abs(force).sum(), max(reach, np.abs(at).max())
        return np.concatenate([self.axes.T @ moment / reach, *forces]) / size


def find(slope: Slope, size: int, others: list[int], parts: list[list[int]], seen: set[int]) -> Action | None:
    """The rotations and translations that leave a function as it is, found from its gradient at a few random points.

    `parts` of the state are read as vectors one after another, of the space and then of the plane; those that the function does
    not see are left out. None where no rotation does.
    """
    for d in (3, 2):
        split = (tuple(tuple(part[k : k + d]) for k in range(0, len(part), d)) for part in parts if len(part) % d == 0)
        vectors = tuple(own for part in split if (own := tuple(vector for vector in part if seen.intersection(vector))))
        action = _invariances(slope, size, others, vectors, d) if vectors else None
        if action is not None:
            return action
    return None


def _invariances(slope: Slope, size: int, others: list[int], parts: tuple[Vectors, ...], d: int) -> Action | None:
    rng, axes, shifts = np.random.default_rng(1), np.eye(3) if d == 3 else np.eye(3)[:, 2:], np.eye(3)[:, :d]
    candidates, found = Action(parts, axes, (shifts,) * len(parts)), []
    for _ in range(SAMPLES):
        x = rng.standard_normal(size)
        at = slope(x, x, [rng.uniform(0.5, 1.5, n) for n in others])
        if np.isfinite(at).all() and at.any():
            found.append(candidates.moves(x, at))
    if len(found) < SAMPLES / 2:
        return None
    first, *rest = np.split(np.array(found), axes.shape[1] + d * np.arange(len(parts)), axis=1)
    turning = _kernel(first)
    return Action(parts, axes @ turning, tuple(shifts @ _kernel(rows) for rows in rest)) if turning.size else None


def _kernel(rows: Array) -> Array:
    _, sizes, V = np.linalg.svd(rows, full_matrices=True)
    rank = int((sizes > EXACT * np.sqrt(len(rows))).sum())
    return np.asarray(V[rank:].T)


def keeps(action: Action, slope: Slope, size: int, others: list[int]) -> bool:
    """Whether slopes are orthogonal to the action at the midpoint already."""
    rng = np.random.default_rng(2)
    for _ in range(SAMPLES):
        x = rng.standard_normal(size)
        y = x + SPREAD * rng.standard_normal(size)
        moved = action.moves((x + y) / 2, slope(x, y, [rng.uniform(0.5, 1.5, n) for n in others]))
        if np.isfinite(moved).all() and np.abs(moved).max() > TOLERANCE:
            return False
    return True


class Turned:
    """A step with its rotation taken out: the ends to take slopes at, and what becomes of these."""

    def __init__(self, action: Action, x0: SX, dx: SX) -> None:
        self.action = action
        start, change = (action.centred(action.points(x)) for x in (x0, dx))
        self.m = start + change / 2
        K = SX(action.axes)
        inertia = K.T @ (ca.sumsqr(self.m) * SX.eye(3) - self.m @ self.m.T) @ K
        self.inertia = inertia + (DAMPING * ca.trace(inertia) + SMALL) * SX.eye(K.size2())
        self.K = K
        w = self._rotation(change)
        half = w / (1 + ca.sqrt(1 + ca.sumsqr(w) / 4))
        W, share = ca.skew(half), 1 / (1 + ca.sumsqr(half) / 4)
        self.A = SX.eye(3) + share / 2 * (W @ W)
        self.start = action.state((self.A + share * W) @ start, x0)
        self.end = action.state((self.A - share * W) @ (start + change), x0 + dx)

    def _rotation(self, points: SX) -> SX:
        """`w` of the rotation `w x m` next to a change of the points."""
        if not self.K.size2():
            return SX.zeros(3)
        moment = self.K.T @ sum((ca.cross(self.m[:, k], points[:, k]) for k in range(points.size2())), SX.zeros(3))
        return self.K @ _solved(self.inertia, moment)

    def back(self, slope: SX) -> SX:
        """`P A S`."""
        points = self.action.centred(self.A @ self.action.points(slope))
        w = self._rotation(points)
        columns = [points[:, k] - ca.cross(w, self.m[:, k]) for k in range(points.size2())]
        return self.action.state(ca.horzcat(*columns), slope)


def _solved(A: SX, b: SX) -> SX:
    """`A^-1 b` of a symmetric positive definite matrix with one or three rows, by Cramer's rule."""
    if A.size1() == 1:
        return b / A
    rows = [ca.cross(A[:, (k + 1) % 3], A[:, (k + 2) % 3]) for k in range(3)]
    return ca.vertcat(*(ca.dot(row, b) for row in rows)) / ca.dot(rows[0], A[:, 0])
