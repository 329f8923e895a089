"""Port-Hamiltonian systems in numbers: their algebraic equations, and the rank of `E`."""

from __future__ import annotations

from dataclasses import dataclass

import casadi as ca
import numpy as np

from dalembert.engine import kinds, newton
from dalembert.engine.checks import LOOSE, check_functions
from dalembert.engine.consistent import Consistent
from dalembert.engine.initial import own_values, vector
from dalembert.engine.kinds import Array, Given, Values
from dalembert.errors import ConvergenceError, DalembertError, InconsistentState, ModelError
from dalembert.methods.base import Method
from dalembert.systems.batch import batch
from dalembert.systems.closure import closure
from dalembert.systems.port_hamiltonian import PortHamiltonian


def _state(system: PortHamiltonian, given: Given) -> tuple[Array, bool]:
    """The state as given, or its default, and which of the two it is."""
    own_values(system, given)
    x = given.get("x")
    if x is None and "x" not in system.initial:
        raise InconsistentState(f"{system.name!r} has no default initial values: give x=...")
    return vector(system, "x", system.initial["x"] if x is None else x), x is None


@kinds.choose.register
def _(system: PortHamiltonian, given: Given, par: Array, t: float, u: Array) -> Values:
    x, default = _state(system, given)
    if default and np.any(u) and violated(system, x, t, par, 0 * u).relative <= 1e-9:
        x = consistent_state(system, x, t, par, u)  # defaults that are right without inputs: their algebraic part follows these
    elif default and violated(system, x, t, par, u).relative <= 1e-9:
        x = closed_state(system, x, t, par, u)
    return {"x": x}


@kinds.check.register
def _(system: PortHamiltonian, values: Values, par: Array, t: float, u: Array, method: Method) -> None:
    x = values["x"]
    check_functions(system, values, par, t, u)
    if system.has("constraint"):
        g = system.numeric("constraint", par, x=x, t=t)[0]
        if np.abs(g).max() > 1e-3 * max(1.0, float(np.abs(x).max()) ** 2):
            raise InconsistentState(
                f"x violates constraint {int(np.abs(g).argmax()) + 1} of {len(g)}: |g| = {np.abs(g).max():.1e}; "
                "start from da.consistent(system, x=...)"
            )
    # no tighter: methods keep these equations inside of a step, and their own end must be a legal start
    worst = violated(system, x, t, par, u)
    if worst.relative > LOOSE and abs(worst.residual) > 1e-12:
        raise InconsistentState(
            f"equation {worst.row + 1} of {system.n} of {system.name!r} is algebraic and violated by {worst.residual:.3g} "
            f"at t = {t:g}; da.consistent(system, x=..., u=...) gives a state that satisfies it"
        )


@dataclass(frozen=True)
class Violation:
    """The most violated algebraic row: its index, residual, and residual relative to the size of its terms."""

    row: int = 0
    residual: float = 0.0
    relative: float = 0.0


def violated(s: PortHamiltonian, x: Array, t: float, par: Array, u: Array) -> Violation:
    """The most violated row in which `E` has no rate. Near `x` the right-hand side is `A x + b`, with terms `|A| |x| + |b|`."""
    left = _left(s, x, t, par, u)
    if not left.size:
        return Violation()
    right = s.cache.get(ca.Function, "right side", lambda: _right(s))
    value, slope = (m[0] for m in batch(right, [x, [t], u, par], 1))
    slope = slope.reshape(s.n, s.n).T
    terms = np.abs(left.T) @ (np.abs(slope) @ np.abs(x) + np.abs(value - slope @ x))
    rest = left.T @ value
    relative = np.abs(rest) / np.maximum(terms, 1e-300)
    k = int(relative.argmax())
    return Violation(int(np.abs(left[:, k]).argmax()), float(rest[k]), float(relative[k]))


def _right(s: PortHamiltonian) -> ca.Function:
    """The right-hand side and its derivative by the state."""
    right = s.role("right")
    return ca.Function("right", s.symbols(), [right, ca.densify(ca.jacobian(right, s.x))])


def _left(s: PortHamiltonian, x: Array, t: float, par: Array, u: Array) -> Array:
    """The left null space of `E`, found once where that is constant."""

    def find() -> Array:
        return null_spaces(s.matrix("E", x, t, par, u))[0]

    return s.cache.get(np.ndarray, ("left null space of E", par.tobytes()), find) if s.constant_E else find()


@kinds.follows.register
def _(system: PortHamiltonian) -> bool:
    return bool(system.algebraic) and bool(ca.depends_on(system.role("right"), system.u))


@kinds.settled.register
def _(system: PortHamiltonian, values: Values, par: Array, t: float, u: Array) -> Values:
    x = values["x"]
    return {"x": x if violated(system, x, t, par, u).relative <= 1e-9 else consistent_state(system, x, t, par, u)}


@kinds.project.register
def _(system: PortHamiltonian, given: Given, par: Array, t: float, u: Array) -> Consistent:
    x, _ = _state(system, given)
    x = closed_state(system, consistent_state(system, x, t, par, u), t, par, u)
    return Consistent({"x": x}, system.state)


class _Closure:
    """The equations that define the algebraic states, as a function of `(x, t, u, par)`, with slopes and sizes."""

    def __init__(self, s: PortHamiltonian) -> None:
        found = closure(s)
        self.free, self.function = np.zeros((s.n, 0)), None
        if found is not None:
            rows, F = found
            self.free = np.asarray(ca.DM(F.V2).full())
            self.function = ca.Function("closure", s.symbols(), [rows, ca.jacobian(rows, s.x)])


def closed_state(s: PortHamiltonian, x: Array, t: float, par: Array, u: Array) -> Array:
    """The same state with the algebraic part that its equations, or their rates, define; as it is where they do not."""
    own = s.cache.get(_Closure, "closure", lambda: _Closure(s))
    if own.function is None:
        return x
    f, free = own.function, own.free

    def residual(a: Array) -> tuple[Array, Array]:
        rows, slopes = (np.asarray(m.full()) for m in f(x + free @ a, t, u, par))
        return rows[:, 0], slopes @ free

    def terms(a: Array) -> Array:
        y = x + free @ a
        rows, slopes = (np.asarray(m.full()) for m in f(y, t, u, par))
        return np.asarray(np.abs(slopes) @ np.abs(y) + np.abs(rows[:, 0] - slopes @ y) + 1e-12)

    try:
        a = newton.solve(residual, np.zeros(free.shape[1]), scale=1e-12, terms=terms, what="the hidden equations", t=t)
    except ConvergenceError:  # they do not define it here: the index is higher
        return x
    return np.asarray(x + free @ a)


def consistent_state(s: PortHamiltonian, x: Array, t: float, par: Array, u: Array) -> Array:
    """A state that satisfies the algebraic equations, by the algebraic states where these are defined, the nearest one else.

    The positions of a mechanism are brought to their constraint as well.
    """
    if not null_spaces(s.matrix("E", x, t, par, u))[0].size:
        return x
    f = _right(s)

    def residual(y: Array) -> tuple[Array, Array]:
        left, _ = null_spaces(s.matrix("E", y, t, par, u))
        value, slope = (np.asarray(m.full()) for m in f(y, t, u, par))
        r, J = left.T @ value[:, 0], left.T @ slope
        if s.has("constraint"):
            g = s.matrix("constraint", y, t, par, u)[:, 0]
            r, J = np.concatenate([r, g]), np.vstack([J, s.matrix("constraint_slope", y, t, par, u)])
        return r, J

    def change(y: Array, r: Array, J: newton.Matrix) -> Array:
        _, free = null_spaces(s.matrix("E", y, t, par, u))
        count = len(r) - s.m
        rows = np.array(J, dtype=float)
        step = free @ np.linalg.lstsq(rows[:count] @ free, r[:count], rcond=1e-10)[0]
        beyond = np.concatenate([r[:count] - rows[:count] @ step, r[count:]])  # what the algebraic states cannot satisfy
        if s.has("constraint"):
            rows[:count, s.positions] = 0.0  # positions answer to g alone, velocities to G v
        return np.asarray(step + np.linalg.lstsq(rows, beyond, rcond=1e-10)[0])

    def terms(y: Array) -> Array:
        left, _ = null_spaces(s.matrix("E", y, t, par, u))
        value, slope = (np.asarray(m.full()) for m in f(y, t, u, par))
        own = np.abs(left.T) @ (np.abs(slope) @ np.abs(y) + np.abs(value[:, 0] - slope @ y))
        if s.has("constraint"):
            own = np.concatenate([own, np.abs(s.matrix("constraint_slope", y, t, par, u)) @ np.abs(y)])
        return np.asarray(own) + 1e-12

    return newton.solve(residual, x, change=change, scale=1e-12, terms=terms, what="the algebraic equations", t=t)


@kinds.explain.register
def _(system: PortHamiltonian, values: Values, par: Array, t: float, h: float, u: Array) -> DalembertError | None:
    """Functions that are not finite, or a rank of `E` that has changed."""
    s, x = system, values["x"]
    for role in ("E", "J", "R", "hamiltonian", "z", "gradient"):
        if not np.isfinite(s.matrix(role, x, t, par, u)).all():
            return ModelError(f"{role} is not finite at t = {t:g}, x = {np.array2string(x, precision=4, threshold=8)}")
    S = np.linalg.svd(s.matrix("E", x, t, par, u), compute_uv=False)
    usual = max(np.linalg.matrix_rank(s.at("E", *sample), tol=1e-9) for sample in s.samples())
    rank = int((1e-7 * max(1.0, S[0] if S.size else 0.0) < S).sum())
    if rank < usual:
        return ModelError(
            f"the rank of E has fallen from {usual} to {rank} at t = {t:g}: the equations change their character there"
        )
    return None


@kinds.fault.register
def _(system: PortHamiltonian, values: Values, times: Array, par: Array) -> tuple[int, DalembertError] | None:
    """The first row at which the invertible block of a state-dependent `E` has become singular, or has passed through it."""
    blocks = None if system.constant_E else system.blocks()
    if blocks is None or not len(times):
        return None
    E = system.numeric("E", par, x=values["x"], t=times).reshape(len(times), system.n, system.n)
    core = E[:, blocks[0]][:, :, blocks[1]]
    sign, size = np.linalg.slogdet(core)
    bad = (sign != sign[0]) | (size < np.median(size) - 25)
    if not bad.any():
        return None
    k = int(np.argmax(bad))
    return k, ModelError(
        f"the rank of E falls below {len(blocks[0])} at about t = {times[k]:g}: the equations change their character there "
        "(error.solution holds what was computed before)"
    )


def null_spaces(E: Array) -> tuple[Array, Array]:
    """Bases of the left and the right null space, by singular values after rows and columns were scaled to size one."""
    rows = np.abs(E).max(axis=1, initial=0.0)
    rows = np.where(rows > 0, rows, 1.0)
    columns = np.abs(E / rows[:, None]).max(axis=0, initial=0.0)
    columns = np.where(columns > 0, columns, 1.0)
    U, S, Vt = np.linalg.svd(E / rows[:, None] / columns)
    rank = int((1e-12 * max(1.0, S[0] if S.size else 0.0) < S).sum())
    left, free = U[:, rank:] / rows[:, None], Vt[rank:].T / columns[:, None]
    return left / np.abs(left).max(axis=0, initial=1e-300), free / np.abs(free).max(axis=0, initial=1e-300)
