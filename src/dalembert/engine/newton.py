"""Newton's iteration: one rule for when a step is done, whatever way it is run, and one solver for everything else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from dalembert.engine.elimination import solve_pivoted
from dalembert.errors import ConvergenceError

EPS = 2.0**-52
TINY = 1e-300  # keeps the quotient of two zeros from being nan
SHORTEST = 2.0**-12  # of a Newton step that is taken where the whole of it leads further away
DAMPED = 60  # changes that are shortened in one solve
UNSEEN = 1e-16  # the square of a first change that found multipliers alone: these are not measured, what follows from them is
SMALL = 1e-8  # a residual of this part of its terms is small, whatever the tolerance
ROUNDED = 64 * EPS / SMALL  # of the terms of a row with all unknowns as large as its largest: rounding of that one is small


@dataclass(frozen=True)
class Rule:
    """When to stop, and when to take the Jacobian anew.

    An update's size is the Euclidean norm of the changes, each relative to its weight. The iteration is done when the
    *next* update, estimated from the last two as `size * size / previous`, is below `tolerance`: it ends at round-off
    without an iteration spent on proving it (Hairer, Wanner II, sec. IV.8; Hilden 2009, algorithm 2.1). Where updates
    stop shrinking (by `stagnation`) below `floor`, the iteration has reached the round-off of the residual and is done as
    well. Where they shrink by less than `refresh`, or the first one is larger than `refresh` itself, the Jacobian is taken
    anew.

    A solution is accepted only where its residual is small against the size of its own terms: below `limit`. An iteration
    that runs as usual, from a good guess with updates that shrink to round-off, needs no such look; it is taken where
    anything is out of the ordinary (a first update larger than 1, a later one larger than `refresh`, one that grew,
    stagnation), and wherever the caller asks for it.

    Linear equations need one update. Whether rounding leaves more to do is tried wherever the caller asks for a look: while a
    second update is below `exact`, one is all that is made.
    """

    tolerance: float = 4 * EPS
    max_iterations: int = 25
    refresh: float = 0.05
    stagnation: float = 0.5
    floor: float = 1e-7
    damped: bool = False  # whether the careful way shortens its changes, see `shortened`

    @property
    def limit(self) -> float:
        """The largest residual that is accepted, relative to the size of its terms."""
        return max(SMALL, 4 * self.tolerance)

    @property
    def exact(self) -> float:
        """The largest second update of linear equations that counts as none."""
        return max(16 * EPS, self.tolerance)

    def bind(self, parts: Parts) -> Callable[[bool], int]:
        """The iteration as a function that returns the number of iterations, negative for failure.

        Its argument says whether to look at the residual in any case. The compiled loop repeats this rule word by word.
        """
        begin, renew, update, accept, sizes = parts.begin, parts.renew, parts.update, parts.accept, parts.sizes
        looked, rate = parts.looked, parts.rate
        tolerance, refresh, stagnation, floor = (x * x for x in (self.tolerance, self.refresh, self.stagnation, self.floor))
        own = parts.floor
        exact, limit, last, linear, single = self.exact**2, self.limit**2, self.max_iterations, parts.linear, parts.single

        def iterate(look: bool) -> int:
            begin()
            size, k = sizes[0], 1
            if single[0] and not look:
                return k
            single[0] = 0.0
            if not size <= tolerance:
                change = update
                if not size <= refresh and not linear:
                    look = look or not size <= 1.0
                    change = renew
                for k in range(2, last + 1):
                    previous = size
                    change()
                    size, change = sizes[0], update
                    if (size * size <= tolerance * previous and size * rate[0] <= tolerance) or size <= tolerance:
                        break
                    if not size < 1e300:  # also catches nan
                        return -k
                    if size > stagnation * previous and size <= floor and size <= own[0]:
                        look = True
                        break
                    if size > refresh * previous and not linear:
                        look = look or size > previous or size > refresh
                        change = renew
                else:
                    return -k
                single[0] = float(linear and k == 2 and size <= exact)
            if look:
                looked[0] = True
                accept()
                return k if sizes[0] <= limit else -k
            return k

        return iterate


@dataclass(frozen=True)
class Parts:
    """The parts of an iteration, each of which works on arrays of its own.

    `begin` sets the first iterate and changes it once, with a Jacobian taken there; `renew` changes the iterate with one taken
    anew, `update` with the last one. All write the square of the size of the change to `sizes[0]`, `accept` that of
    the residual relative to its terms. `single` says whether one change is known to be enough. Where a solution is
    looked at, `looked[0]` is set: what follows from it in the same step is looked at as well.
    """

    begin: Callable[[], object]
    renew: Callable[[], object]
    update: Callable[[], object]
    accept: Callable[[], object]
    sizes: memoryview[float] | list[float]
    linear: bool = False
    single: memoryview[float] | list[float] = field(default_factory=lambda: [0.0])
    looked: list[bool] = field(default_factory=lambda: [False])
    rate: list[float] = field(default_factory=lambda: [0.0])  # how slowly old factors are known to converge, squared
    floor: list[float] = field(default_factory=lambda: [np.inf])  # changes that do not shrink are round-off below this, squared


Array = NDArray[np.float64]
Matrix = NDArray[np.float64] | ca.DM
Residual = Callable[[Array], tuple["Array | ca.DM", Matrix]]
Change = Callable[[Array, Array, Matrix], Array]


def newton_change(x: Array, r: Array, J: Matrix) -> Array:
    """`J^-1 r`, by partial pivoting; the smallest such change where `J` is not square."""
    if J.shape[0] == J.shape[1]:
        return solve_pivoted(J, r)
    return np.asarray(np.linalg.lstsq(_dense(J), r, rcond=None)[0])


def shortened(ahead: Callable[[float], float], size: float) -> float:
    """The largest part `2^-k` of a Newton change after which the next one, with the same Jacobian, is smaller.

    `ahead(part)` is the square of the size of that next change, `size` that of this one: the natural test of Deuflhard (Newton
    Methods for Nonlinear Problems, 2004, sec. 3.1), which does not depend on how the equations are scaled. Forces that saturate,
    such as dry friction, need it: a whole change leads from one side of the saturation to the other and back. Where no part
    helps, all of it is taken.
    """
    part = 1.0
    while part > SHORTEST**2:
        if ahead(part) <= (1 - part / 4) ** 2 * size:
            return part
        part /= 2
    return 1.0


def projection(weight: Callable[[Array], Array]) -> Change:
    """`W J^T (J W J^T)^-1 r` with a matrix `W(x)`: the smallest change in the norm of `W^-1`."""

    def change(x: Array, r: Array, J: Matrix) -> Array:
        G, W = _dense(J), weight(x)
        return np.asarray(W @ G.T @ solve_pivoted(G @ W @ G.T, r))

    return change


def solve(
    residual: Residual,
    x0: Array,
    *,
    change: Change = newton_change,
    scale: float = 0.0,
    terms: Callable[[Array], Array] | None = None,
    tolerance: float = 4 * EPS,
    max_iterations: int = 50,
    what: str = "the equations",
    t: float = 0.0,
) -> Array:
    """A zero of `residual(x) -> (r, J)` near `x0`; raises `ConvergenceError` where none is found.

    `change(x, r, J)` is what Newton's iteration subtracts; it is halved while the residual would grow. The iteration is done
    when the change is below `tolerance`, or stops shrinking near it, relative to the largest entry of `x` plus `scale`, which
    is needed for a solution at zero. It is accepted only where the residual is small against `terms(x)`, the sizes of the terms
    of its rows, or is what rounding of the unknowns of a row leaves; without them, against `|J| (max |x| + scale)`.
    """
    x = np.array(x0, dtype=np.float64)
    here = _Point(residual, x, scale, terms)
    previous, size = np.inf, np.inf
    for _ in range(max_iterations):
        if not here.r.size or not here.r.any():
            return here.x
        if not np.isfinite(here.ratio):
            raise ConvergenceError(f"{what} cannot be evaluated at x = {_text(here.x)}", t=t, step=0.0, residual=here.ratio)
        with np.errstate(all="ignore"):
            step = change(here.x, here.r, here.J)
        if not np.isfinite(step).all():
            raise ConvergenceError(
                f"{what} have a singular Jacobian at x = {_text(here.x)} (residual {here.ratio:.1e} of its terms)",
                t=t, step=0.0, residual=here.ratio,
            )  # fmt: skip
        previous, size = size, float(np.abs(step).max()) / (here.largest + TINY)
        with np.errstate(all="ignore"):
            ahead, factor = _halved(here, step, lambda y: _Point(residual, y, scale, terms))
        near = size <= SMALL and (factor < 1 or size >= 0.5 * previous)  # nothing more to be gained: round-off
        done = size <= tolerance or near
        here = here if factor < 1 and near else ahead
        if done and here.ratio <= max(SMALL, 4 * tolerance):
            return here.x
        if factor < SHORTEST:
            break
    raise ConvergenceError(
        f"{what} could not be solved: the residual is still {here.ratio:.1e} of its terms at x = {_text(here.x)}; "
        "start closer to a solution, if there is one",
        t=t, step=0.0, residual=here.ratio,
    )  # fmt: skip


class _Point:
    """A residual at one point, and its size relative to its terms."""

    def __init__(self, residual: Residual, x: Array, scale: float, terms: Callable[[Array], Array] | None) -> None:
        self.x = x
        with np.errstate(all="ignore"):
            r, self.J = residual(x)
            self.r = _dense(r).ravel()
            self.largest = float(np.abs(x).max(initial=0.0)) + scale
            slopes = np.abs(_dense(self.J)).sum(axis=1)
            self.rows = slopes * self.largest
            if terms is not None:
                self.rows = np.abs(terms(x)) + ROUNDED * slopes * (_largest(self.J, x) + scale)
            self.ratio = float((np.abs(self.r) / (self.rows + TINY)).max(initial=0.0))


def _halved(here: _Point, step: Array, at: Callable[[Array], _Point]) -> tuple[_Point, float]:
    """The point after a step, or after the largest part of it that makes the residual smaller; and which part that is."""
    factor, rows = 1.0, here.rows + TINY
    size = float(np.abs(here.r / rows).max())
    while True:
        ahead = at(here.x - factor * step)
        reached = float(np.abs(ahead.r / rows).max())
        if reached <= (1 - 1e-4 * factor) * size or (reached <= 64 * EPS and np.isfinite(ahead.ratio)) or factor < SHORTEST:
            return ahead, factor
        factor /= 2


def _largest(J: Matrix, x: Array) -> Array:
    """The largest of the unknowns that each row depends on."""
    at = ca.DM.ones(J.sparsity()).full() if isinstance(J, ca.DM) else np.ones(J.shape)
    return np.asarray((at * np.abs(x)).max(axis=1, initial=0.0))


def _dense(x: Matrix) -> Array:
    return np.asarray(x.full() if isinstance(x, ca.DM) else x, dtype=np.float64)


def _text(x: Array) -> str:
    return np.array2string(x, precision=4, threshold=8)
