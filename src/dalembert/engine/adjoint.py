"""What a step does to small changes: tangents forwards, adjoints backwards, and both at once for second derivatives.

With all unknowns `x` of a step in one vector, `R(x, z) = 0` and `s1 = N(x, z)`, where `z` are state, parameters and inputs,

    tangent    R_x x' = -R_z z',           s1' = N_x x' + N_z z'
    adjoint    R_x^T w = N_x^T b,          z~ = N_z^T b - R_z^T w          with b, the slope of a cost in s1
    second     R_x^T w' = N_x^T b' + D_x,  z~' = N_z^T b' - R_z^T w' + D_z

where `D` is the derivative of `(L_x, L_z)` in the direction `(x', z')`, for `L = b^T N - w^T R` with `b` and `w` held. Systems
are solved by straight-line elimination, solve by solve with the pivots of the run, and backwards in the transposed order.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import casadi as ca

from dalembert.engine import elimination
from dalembert.engine.elimination import Order
from dalembert.engine.program import Program

SX = ca.SX


@dataclass(frozen=True)
class Sweep:
    """One step of a loop over a run.

    `prelude` gives what depends on `h` and parameters alone, the last argument of the function. `levels` say how often each of
    the first arguments changes: RUN never, STEP with the step, ITERATE with the step and the direction; those between are what
    the loop itself finds. The first results replace the arguments called `carried`, in their order; `added` further ones are
    added up over all steps, and those that are left are written, a row for each step.
    """

    name: str
    function: ca.Function
    prelude: ca.Function
    levels: tuple[int, ...]
    carried: tuple[str, ...]
    added: int
    backwards: bool

    @cached_property
    def names(self) -> list[str]:
        """Of the arguments that come from outside."""
        return [self.function.name_in(i) for i in range(len(self.levels))]


class Changes:
    """The expressions of a step, and the systems that its changes solve.

    `common` are state, time, step size, inputs and parameters; `solves` are unknowns and residuals of solves in succession.
    """

    def __init__(
        self, common: list[SX], solves: list[tuple[SX, SX]], after: SX, pivots: tuple[Order, ...] | None = None,
        levels: list[tuple[int, ...]] | None = None,
    ) -> None:  # fmt: skip
        self.common, self._pivots = common, pivots
        self._levels = levels or [(0,) * x.numel() for x, _ in solves]
        state, _, self.h, self.u, self.par = common
        self.blocks = [x for x, _ in solves]
        self.residuals = [ca.densify(residual) for _, residual in solves]
        self.N = after
        self.jacobians = [ca.jacobian(r, x) for r, x in zip(self.residuals, self.blocks, strict=True)]
        self.x = _column(*self.blocks)
        self.R = _column(*self.residuals)
        self.z = ca.vertcat(state, self.par, self.u)
        self.sizes = (int(state.numel()), int(self.par.numel()), int(self.u.numel()))

    @classmethod
    def of(cls, program: Program) -> Changes:
        """Those of a program's step, with its pivots."""
        step = program.step
        solves = [(x, solve.residual) for x, solve in zip(program.unknowns, step.solves, strict=True)]
        return cls(program.common, solves, ca.vertcat(*step.next.values()), program.orders, [s.levels for s in step.solves])

    @cached_property
    def orders(self) -> list[Order]:
        """The pivots of each solve."""
        if self._pivots is not None:
            return list(self._pivots)
        return [elimination.structural_order(J.sparsity(), at) for J, at in zip(self.jacobians, self._levels, strict=True)]

    def parts(self, z: SX) -> list[SX]:
        """State, parameters and inputs."""
        n, p, _ = self.sizes
        return [ca.densify(e) for e in (z[:n], z[n : n + p], z[n + p :])]

    def tangent(self, z: SX) -> tuple[SX, SX]:
        """The changes of the unknowns and of the next state."""
        found: list[SX] = []
        for k, (R, J, order) in enumerate(zip(self.residuals, self.jacobians, self.orders, strict=True)):
            right = ca.jtimes(R, ca.vertcat(self.z, *self.blocks[:k]), ca.vertcat(z, *found))
            found.append(-elimination.solve(J, right, order))
        x = _column(*found)
        return x, ca.densify(ca.jtimes(self.N, ca.vertcat(self.z, self.x), ca.vertcat(z, x)))

    def adjoint(self, b: SX, more: SX | None = None) -> tuple[SX, SX]:
        """The multipliers `w`, and the slope in `z`; `more` is added to the right-hand side."""
        cuts = [sum(x.numel() for x in self.blocks[:k]) for k in range(len(self.blocks) + 1)]
        found: list[SX] = []
        for k in reversed(range(len(self.blocks))):
            own = self._pulled(b, found, self.blocks[k])
            own = own if more is None else own + more[cuts[k] : cuts[k + 1]]
            transposed = [(j, i) for i, j in self.orders[k]]
            found.insert(0, elimination.solve(self.jacobians[k].T, own, transposed))
        return _column(*found), self._pulled(b, found, self.z)

    def _pulled(self, b: SX, w: list[SX], y: SX) -> SX:
        """`N_y^T b - R_y^T w` with the multipliers of the last solves; what both have in common is gone through once."""
        rows = [self.N, *self.residuals[len(self.residuals) - len(w) :]]
        return ca.densify(ca.jtimes(ca.vertcat(*rows), y, ca.vertcat(b, *(-part for part in w)), True))

    def curvature(self, b: SX, w: SX, x: SX, z: SX) -> tuple[SX, SX]:
        """The derivatives of `L_x` and `L_z` in the direction `(x, z)`."""
        own_b, own_w = SX.sym("b", b.numel()), SX.sym("w", w.numel())
        both = ca.vertcat(self.z, self.x)
        L = ca.dot(own_b, self.N) - ca.dot(own_w, self.R)
        D = ca.jtimes(ca.gradient(L, both), both, ca.vertcat(z, x))
        D = ca.substitute(ca.densify(D), ca.vertcat(own_b, own_w), ca.vertcat(b, w))
        return D[self.z.numel() :], D[: self.z.numel()]


def _column(*parts: SX) -> SX:
    return ca.vertcat(*parts) if parts else SX(0, 1)
