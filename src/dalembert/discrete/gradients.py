"""Discrete gradients: `D f(x0, x1) . (x1 - x0) = f(x1) - f(x0)` and `D f(x, x) = grad f(x)`.

Each is a function `pullback(f, x0, x1, seed, t0, t1)` that returns `D f^T seed` for a function `f(x, t)` of several
components (a discrete Jacobian row by row, Kinon et al. 2025, definition 6) together with `seed . D_t f`, where

    f(x1, t1) - f(x0, t0) = D f (x1 - x0) + D_t f (t1 - t0)   exactly.

Differences `f(x1) - f(x0)` come from `slopes`, never from subtracting two values, so that nothing is lost
when the points are close and nothing is 0/0 when they agree.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import casadi as ca
import numpy as np
from casadi import SX

from dalembert.discrete.assembled import Piece
from dalembert.discrete.differences import Difference, Ends
from dalembert.discrete.rotations import Action, Array, Turned, find, keeps
from dalembert.systems.composed import Parts

# added to |x1 - x0|^2: its square must not underflow, for the derivative of the quotient is taken too
TINY = 1e-150
BRANCHES = {
    ca.OP_IF_ELSE_ZERO, ca.OP_LT, ca.OP_LE, ca.OP_EQ, ca.OP_NE, ca.OP_AND, ca.OP_OR, ca.OP_NOT, ca.OP_SIGN,
    ca.OP_FLOOR, ca.OP_CEIL, ca.OP_FMIN, ca.OP_FMAX,
}  # fmt: skip


class Field:
    """A function `f(x, t; others)` given as an expression, with its derivatives and exact differences.

    `others` are the further symbols of the expression, `values` what stands for them in the step. `parts` are groups of entries
    of `x` that are made directional each by itself, one group of all by default: those of positions and velocities, say.
    `vectors` are groups that may be vectors of the space or the plane one after another, the parts by default. `elements` say of
    which parts, repeated or not, the function is made.
    """

    def __init__(
        self, expression: SX, x: SX, t: SX, others: tuple[SX, ...] = (), values: tuple[SX, ...] | None = None,
        parts: list[list[int]] | None = None, vectors: list[list[int]] | None = None, elements: Parts | None = None,
    ) -> None:  # fmt: skip
        self.others = list(others if values is None else values)
        self.parts = parts or [list(range(x.numel()))]
        self.vectors = vectors or self.parts
        self.x, self.t, self.expression, self.symbols = x, t, expression, others
        self.pieces = [] if elements is None or not elements.repeated else _pieces(elements)
        self.order = None if elements is None else elements.order

    @cached_property
    def value(self) -> ca.Function:
        return ca.Function("f", [self.x, self.t, *self.symbols], [self.expression])

    @cached_property
    def gradient(self) -> ca.Function:
        seed = SX.sym("seed", self.expression.numel())
        slope = ca.jtimes(self.expression, self.x, seed, True) if self.expression.numel() else SX(self.x.numel(), 1)
        return ca.Function("df", [self.x, self.t, seed, *self.symbols], [ca.densify(slope)])

    def at(self, x: SX, t: SX) -> SX:
        return self.value(x, t, *self.others)

    def grad(self, x: SX, t: SX, seed: SX) -> SX:
        """`seed . df/dx`, the exact gradient."""
        return self.gradient(x, t, seed, *self.others)

    def difference(self, ends: Ends) -> Difference:
        """The function at both ends, by exact differences in `(x, t)` together."""
        rest = None if ends.rest is None else (ca.vertcat(ends.rest[0], 0), ca.vertcat(ends.rest[1], 0))
        joint = ca.Function("f", [ca.vertcat(self.x, self.t), *self.symbols], [self.expression])
        return Difference(joint, ca.vertcat(ends.x0, ends.t0), ca.vertcat(ends.x1, ends.t1), self.others, rest)

    def end(self, ends: Ends) -> SX:
        """The values at the end, one after another."""
        if not self.pieces:
            return self.difference(ends).y1
        out = ca.vertcat(*(piece.end(ends, self.others[-1]) for piece in self.pieces))
        return out if self.order is None else out[self.order.tolist()]

    def assembled(self, D: Pullback, ends: Ends, seed: SX) -> tuple[SX, SX]:
        """The discrete gradients of all pieces, added up."""
        n, kind, start = ends.x0.numel(), type(ends.x0), 0
        if self.order is not None:
            seed = seed[np.argsort(self.order).tolist()]
        slope, rate = kind(n, 1), kind(1, 1)
        for piece in self.pieces:
            rows = piece.rows
            own, more = piece.pull(D, ends, seed if piece.added else seed[start : start + rows], self.others[-1])
            slope, rate, start = slope + own, rate + more, start + rows
        return ca.densify(slope), rate

    @cached_property
    def actions(self) -> list[Action]:
        """Rotations and translations that leave the function as it is: of each part by itself where the function is a sum."""

        def slope(x: Array, y: Array, others: list[Array]) -> Array:
            seed, t, *values = others
            return np.asarray(self.gradient(x, t, seed, *values).full()[:, 0])

        if not self.expression.numel() or self._branches():
            return []
        seen = set(ca.jacobian_sparsity(self.expression, self.x).get_col())
        found = (find(slope, self.x.numel(), self._sizes, parts, seen) for parts in self._apart())
        return [action for action in found if action is not None]

    @cached_property
    def broken(self) -> list[Action]:
        """Those to which slopes are not orthogonal."""
        if not self.actions:
            return []
        x0, x1, seed = (SX.sym("x", n) for n in (self.x.numel(), self.x.numel(), self.expression.numel()))
        free = Field(self.expression, self.x, self.t, self.symbols)
        pulled = ca.Function("S", [x0, x1, seed, self.t, *self.symbols], [_slopes(free, Ends(x0, x1, self.t, self.t), seed)[0]])

        def slope(x: Array, y: Array, others: list[Array]) -> Array:
            return np.asarray(pulled(x, y, *others).full()[:, 0])

        return [action for action in self.actions if not keeps(action, slope, self.x.numel(), self._sizes)]

    @property
    def _sizes(self) -> list[int]:
        return [self.expression.numel(), 1, *(s.numel() for s in self.symbols)]

    def _apart(self) -> list[list[list[int]]]:
        """Parts that may be treated one by one, or all at once where the function is not a sum of theirs."""
        if len(self.vectors) == 1:
            return [self.vectors]
        seed = SX.sym("seed", self.expression.numel())
        coupled = ca.DM(ca.jacobian_sparsity(ca.jtimes(self.expression, self.x, seed, True), self.x), 1).full() != 0
        for a, part in enumerate(self.vectors):
            if any(coupled[np.ix_(part, other)].any() for b, other in enumerate(self.vectors) if a != b):
                return [self.vectors]
        return [[part] for part in self.vectors]

    def _branches(self) -> bool:
        """Whether there are operations that a few points may not show."""
        f = self.value
        return any(f.instruction_id(k) in BRANCHES for k in range(f.n_instructions()))


def _pieces(of: Parts) -> list[Piece]:
    """What a function is made of: its own part, where there is one, and its elements."""
    x, t, par = (SX.sym(of.own.name_in(i), of.own.numel_in(i)) for i in range(3))
    own = of.own(x, t, par)
    first = [Piece(Field(own, x, t, (par,)), None, of)] if own.numel() and ca.depends_on(own, ca.vertcat(x, t)) else []
    return first + [Piece(Field(e.expression(of.role), e.variables(of.wide), e.t, (e.par,)), e, of) for e in of.repeated]


Pullback = Callable[[Field, Ends, SX], tuple[SX, SX]]


def _slopes(f: Field, ends: Ends, seed: SX) -> tuple[SX, SX]:
    """Slopes through the expression."""
    if f.pieces:
        return f.assembled(_slopes, ends, seed)
    both = f.difference(ends).pull(seed)
    return both[:-1], both[-1]


def equivariant(f: Field, ends: Ends, seed: SX) -> tuple[SX, SX]:
    """Slopes through the expression, orthogonal to the rotations and translations of `x` that leave `f` as it is.

    Slopes are orthogonal to them where `f` is built from invariants of degree at most two; elsewhere the rotation of the step is
    taken out first. `x` is read as `vectors` of the space or of the plane. An expression with branches is left to the slopes.
    What is made of elements is treated element by element: what leaves each of them as it is leaves their sum.
    """
    if f.pieces:
        return f.assembled(equivariant, ends, seed)
    slope, rate = _slopes(f, ends, seed)
    for action in f.broken:
        turned = Turned(action, ends.x0 if ends.rest is None else ends.x0 + ends.rest[0], ends.dx)
        own, rate = _slopes(f, Ends(turned.start, turned.end, ends.t0, ends.t1), seed)
        slope[action.entries] = turned.back(own)[action.entries]
    return slope, rate


def midpoint(f: Field, ends: Ends, seed: SX) -> tuple[SX, SX]:
    """The gradient at the midpoint: not a discrete gradient unless `f` is quadratic; for comparison."""
    base = f.grad(ends.xm, ends.tm, seed)
    rate = ca.Function("ft", [f.x, f.t, *f.symbols], [ca.jacobian(f.expression, f.t)])
    return base, ca.dot(rate(ends.xm, ends.tm, *f.others), seed)


def _corrected(base: SX, f: Field, ends: Ends, seed: SX, parts: list[list[int]], centred: bool = True) -> tuple[SX, SX]:
    """Add the multiple of `x1 - x0` that makes `base` directional (Gonzalez 1996, eq. 2.4), in each part.

    Where `base` is not `centred`, the result has no derivative at `x1 = x0`, where Newton's method begins: there it is that of
    the slopes, which have the same value.
    """
    slope, rate = _slopes(f, ends, seed)
    dx, out = ends.dx, SX(base)
    for part in parts:
        own = dx[part]
        value = base[part] + own * (ca.dot(slope[part] - base[part], own) / (ca.sumsqr(own) + TINY))
        out[part] = value if centred else ca.if_else(ca.sumsqr(own) == 0, slope[part], value)
    return out, rate


def gonzalez(f: Field, ends: Ends, seed: SX) -> tuple[SX, SX]:
    """Gonzalez's midpoint discrete gradient (Kinon et al. 2025, eq. 12), by components for a vector function, by parts of `x`."""
    return _corrected(f.grad(ends.xm, ends.tm, seed), f, ends, seed, f.parts)


def gonzalez_joint(f: Field, ends: Ends, seed: SX) -> tuple[SX, SX]:
    """The same with one correction for all parts: it mixes their units, and is less accurate where they differ in size."""
    return _corrected(f.grad(ends.xm, ends.tm, seed), f, ends, seed, [list(range(f.x.numel()))])


def gonzalez_left(f: Field, ends: Ends, seed: SX) -> tuple[SX, SX]:
    """Gonzalez's correction of `grad f(x0)`: it needs no point between the ends (Kinon et al. 2025, remark 5); of order one."""
    return _corrected(f.grad(ends.x0, ends.t0, seed), f, ends, seed, f.parts, centred=False)


def gonzalez_right(f: Field, ends: Ends, seed: SX) -> tuple[SX, SX]:
    """Gonzalez's correction of `grad f(x1)`: it needs no point between the ends (Kinon et al. 2025, remark 5); of order one."""
    return _corrected(f.grad(ends.x1, ends.t1, seed), f, ends, seed, f.parts, centred=False)


def mean_value(f: Field, ends: Ends, seed: SX, points: int = 4) -> tuple[SX, SX]:
    """Mean of the gradient along the segment, `int_0^1 grad f(x0 + s dx) ds`.

    Gauss quadrature with a few points (exact for polynomials up to degree `2 points`); what the
    quadrature leaves is put along `x1 - x0`, so that the difference is exact for every function.
    """
    nodes, weights = np.polynomial.legendre.leggauss(points)
    base = SX(0)
    for c, w in zip((1 + nodes) / 2, weights / 2, strict=True):
        base += w * f.grad(ends.x0 + c * ends.dx, ends.t0 + c * (ends.t1 - ends.t0), seed)
    return _corrected(base, f, ends, seed, f.parts)


def itoh_abe(f: Field, ends: Ends, seed: SX) -> tuple[SX, SX]:
    """Itoh and Abe's coordinate increments: component i changes from `(x1_1 .. x1_{i-1}, x0_i ..)` to `x1_i`.

    Not symmetric, so a method made with it is of order one.
    """
    n, x, t = f.x.numel(), f.x, f.t
    weights, others = SX.sym("seed", f.expression.numel()), f.symbols
    scalar = ca.dot(f.expression, weights)
    touched = ca.jacobian(f.expression, x).sparsity()
    out = []
    for i in range(n):
        if not touched.get_col().count(i):
            out.append(SX(0.0))
            continue
        before, after = list(range(i)), list(range(i + 1, n))
        along = ca.Function("f", [x[i], x[before], x[after], t, weights, *others], [scalar])
        fixed = [ends.x1[before], ends.x0[after], ends.t0, seed, *f.others]
        out.append(Difference(along, ends.x0[i], ends.x1[i], fixed).pull(SX(1.0)))
    along = ca.Function("f", [t, x, weights, *others], [scalar])
    rate = Difference(along, ends.t0, ends.t1, [ends.x1, seed, *f.others]).pull(SX(1.0))
    return ca.vertcat(*out), rate


GRADIENTS: dict[str, Pullback] = {
    "equivariant": equivariant,
    "gonzalez": gonzalez,
    "gonzalez-joint": gonzalez_joint,
    "gonzalez-left": gonzalez_left,
    "gonzalez-right": gonzalez_right,
    "mean-value": mean_value,
    "itoh-abe": itoh_abe,
}
# D f(x0, x1) = D f(x1, x0); methods made of others are of order one
SYMMETRIC = frozenset(GRADIENTS) - {"itoh-abe", "gonzalez-left", "gonzalez-right"}
