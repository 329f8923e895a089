"""Equations of motion of a small model, as expressions that each solver can be given in its own form."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import casadi as ca
import numpy as np
from casadi import SX

Array = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


@dataclass(frozen=True)
class Mechanics:
    """`M(q) v' = F - G^T lam` with holonomic constraints `g(q)` and nonholonomic ones `A(q) v`; the state is (q, v)."""

    q: SX
    v: SX
    mass: SX
    potential: SX
    g: SX = field(default_factory=lambda: SX(0, 1))
    A: SX = field(default_factory=lambda: SX(0, 0))
    parameters: SX = field(default_factory=lambda: SX(0, 1))

    @property
    def y(self) -> SX:
        """The state."""
        return ca.vertcat(self.q, self.v)

    @property
    def energy(self) -> SX:
        """Kinetic and potential."""
        return self.v.T @ self.mass @ self.v / 2 + self.potential

    @cached_property
    def gradient(self) -> SX:
        """`G`, one row for each constraint."""
        held = ca.jacobian(self.g, self.q)
        return ca.vertcat(held, self.A) if self.A.numel() else held

    @property
    def force(self) -> SX:
        """`F`: of the potential, and of a mass that depends on q."""
        kinetic = self.v.T @ self.mass @ self.v / 2
        return ca.gradient(kinetic - self.potential, self.q) - ca.jacobian(self.mass @ self.v, self.q) @ self.v

    def acceleration_level(self, rate: float) -> SX:
        """What `G v'` has to be; with a rate, errors of the constraints decay as `exp(-rate t)` (Baumgarte 1972)."""
        speed = self.gradient @ self.v
        out = -ca.jacobian(speed, self.q) @ self.v
        if rate:
            held = self.g.numel()
            out -= ca.vertcat(2 * rate * speed[:held, :] + rate**2 * self.g, rate * speed[held:, :])
        return out

    def ode(self, rate: float = 0.0) -> SX:
        """`(q', v')` with the multipliers eliminated: the index-1 equations, solved."""
        free = solve(self.mass, self.force)
        G = self.gradient
        if not G.shape[0]:
            return ca.vertcat(self.v, free)
        inverse = solve(self.mass, G.T)
        lam = solve(G @ inverse, G @ free - self.acceleration_level(rate))
        return ca.vertcat(self.v, free - inverse @ lam)

    def index_one(self, rate: float = 0.0) -> tuple[SX, SX, SX]:
        """Multipliers, `(q', v')` with them, and the algebraic equations that define them."""
        lam = SX.sym("lam", self.gradient.shape[0])
        a = solve(self.mass, self.force - self.gradient.T @ lam)
        return lam, ca.vertcat(self.v, a), self.gradient @ a - self.acceleration_level(rate)


@dataclass(frozen=True)
class Linear:
    """`y' = A y + b` with the energy `y^T E y / 2`."""

    A: Array
    b: Array
    E: Array
    parameters: SX = field(default_factory=lambda: SX(0, 1))

    @cached_property
    def y(self) -> SX:
        """The state."""
        return SX.sym("y", len(self.b))

    @property
    def energy(self) -> SX:
        """Of the state."""
        return self.y.T @ SX(ca.DM(self.E)) @ self.y / 2

    def ode(self, rate: float = 0.0) -> SX:
        """The right-hand side."""
        return SX(ca.sparsify(ca.DM(self.A))) @ self.y + ca.DM(self.b)

    def index_one(self, rate: float = 0.0) -> tuple[SX, SX, SX]:
        """No algebraic part."""
        return SX(0, 1), self.ode(), SX(0, 1)


Equations = Mechanics | Linear


@dataclass(frozen=True)
class Explicit:
    """`y' = rhs(y)` with the map from y to the state of the problem."""

    y: SX
    rhs: SX
    full: SX


@dataclass(frozen=True)
class Ode:
    """An explicit form with its first state, as functions of y alone."""

    rhs: ca.Function
    full: ca.Function
    start: Array

    def rows(self, y: Array) -> Array:
        """States of the problem from those of the form, a row each."""
        return np.asarray(self.full.map(len(y))(y.T)).T


def as_ode(form: Explicit, start: Array) -> Ode:
    """Functions of an explicit form, with common subexpressions computed once."""
    rhs = ca.Function("rhs", [form.y], [ca.densify(form.rhs)], {"cse": True})
    return Ode(rhs, ca.Function("full", [form.y], [ca.densify(form.full)]), start)


def solve(matrix: SX, right: SX) -> SX:
    """Symmetric systems by elimination in the given order; what is zero is never touched, so bands stay bands."""
    n = matrix.shape[0]
    A = [[matrix[i, j] for j in range(n)] for i in range(n)]
    b = [right[i, :] for i in range(n)]
    for k in range(n):
        for i in range(k + 1, n):
            if _zero(A[i][k]):
                continue
            factor = A[i][k] / A[k][k]
            for j in range(k + 1, n):
                if not _zero(A[k][j]):
                    A[i][j] = A[i][j] - factor * A[k][j]
            b[i] = b[i] - factor * b[k]
    for k in reversed(range(n)):
        for j in range(k + 1, n):
            if not _zero(A[k][j]):
                b[k] = b[k] - A[k][j] * b[j]
        b[k] = b[k] / A[k][k]
    return ca.vertcat(*b)


def _zero(entry: SX) -> bool:
    return entry.nnz() == 0 or bool(entry.is_zero())


BINARY: Mapping[int, Callable[[object, object], object]] = {
    ca.OP_ADD: lambda a, b: a + b,  # type: ignore[operator]
    ca.OP_SUB: lambda a, b: a - b,  # type: ignore[operator]
    ca.OP_MUL: lambda a, b: a * b,  # type: ignore[operator]
    ca.OP_DIV: lambda a, b: a / b,  # type: ignore[operator]
}
UNARY: Mapping[int, Callable[[object], object]] = {
    ca.OP_NEG: lambda a: -a,  # type: ignore[operator]
    ca.OP_SQ: lambda a: a * a,  # type: ignore[operator]
    ca.OP_TWICE: lambda a: a + a,  # type: ignore[operator]
    ca.OP_INV: lambda a: 1.0 / a,  # type: ignore[operator]
    ca.OP_ASSIGN: lambda a: a,
}
NAMED = {ca.OP_SIN: "sin", ca.OP_COS: "cos", ca.OP_SQRT: "sqrt"}


def replay(
    function: ca.Function, arguments: Sequence[Sequence[object]], names: Mapping[str, Callable[[object], object]]
) -> list[object]:
    """The operations of a function of one output on other numbers: heyoka's expressions, JAX's tracers, long doubles."""
    work: list[object] = [0.0] * function.sz_w()
    out: list[object] = [0.0] * function.numel_out(0)
    for k in range(function.n_instructions()):
        op = function.instruction_id(k)
        a, to = function.instruction_input(k), function.instruction_output(k)
        if op == ca.OP_OUTPUT:
            out[to[1]] = work[a[0]]
        elif op == ca.OP_INPUT:
            work[to[0]] = arguments[a[0]][a[1]]
        elif op == ca.OP_CONST:
            work[to[0]] = function.instruction_constant(k)
        elif op in BINARY:
            work[to[0]] = BINARY[op](work[a[0]], work[a[1]])
        elif op == ca.OP_SQ and "square" in names:
            work[to[0]] = names["square"](work[a[0]])
        else:
            work[to[0]] = UNARY[op](work[a[0]]) if op in UNARY else names[NAMED[op]](work[a[0]])
    return out


def buffered(function: ca.Function) -> Callable[..., Array]:
    """A CasADi function of dense vectors called through its own memory, the fastest way from Python; the result is reused."""
    buffer, evaluate = function.buffer()
    given = [np.zeros(function.numel_in(i)) for i in range(function.n_in())]
    out = np.zeros(function.numel_out(0))
    for i, array in enumerate(given):
        buffer.set_arg(i, memoryview(array))
    buffer.set_res(0, memoryview(out))

    def call(*values: Array, alive: object = (buffer, function)) -> Array:  # both must outlive the calls
        for array, value in zip(given, values, strict=True):
            array[:] = value
        evaluate()
        return out

    return call
