"""Mechanical and Hamiltonian systems in numbers: projections to the constraints, multipliers, checks."""

from __future__ import annotations

import casadi as ca
import numpy as np

from dalembert.engine import kinds, newton
from dalembert.engine.checks import LOOSE, TOLERANCE, check_functions, check_mass, check_rank, refuse
from dalembert.engine.consistent import Consistent
from dalembert.engine.elimination import solve_pivoted
from dalembert.engine.initial import own_values, vector
from dalembert.engine.kinds import Array, Given, Values
from dalembert.engine.massless import Massless
from dalembert.engine.rounding import rounding_of
from dalembert.engine.survey import well
from dalembert.errors import ConvergenceError, DalembertError, InconsistentState, MethodError
from dalembert.methods.base import Method
from dalembert.systems.batch import nonzeros
from dalembert.systems.constrained import Constrained
from dalembert.systems.hamiltonian import Hamiltonian
from dalembert.systems.mechanical import Mechanical
from dalembert.systems.needs import Need


@kinds.choose.register
def _(system: Constrained, given: Given, par: Array, t: float, u: Array) -> Values:
    own_values(system, given)
    q, v, p = (given.get(name) for name in ("q", "v", "p"))
    if v is not None and p is not None:
        raise InconsistentState("give v or p, not both")
    if q is None and "q" not in system.initial:
        raise InconsistentState(f"{system.name!r} has no default initial values: give q=... and {system.momenta}=...")
    second, other = (v, p) if system.momenta == "v" else (p, v)
    if second is None and other is None and q is None:
        second = system.initial.get(system.momenta)
        other = system.initial.get("p") if second is None and system.momenta == "v" else None
    q = vector(system, "q", system.initial["q"] if q is None else q)
    if other is not None:
        if isinstance(system, Hamiltonian):
            raise InconsistentState("a Hamiltonian system starts from q and p; give p=... in place of v")
        second = solve_pivoted(system.value("mass", par, q=q), vector(system, "p", other))
    rest = np.zeros(system.nv)
    return {"q": q, system.momenta: vector(system, system.momenta, rest if second is None else second)}


@kinds.complete.register
def _(system: Hamiltonian, values: Values, t: float, par: Array) -> Values:
    v = system.numeric("velocity", par, q=values["q"], p=values["p"], t=t)[0]
    return {**values, "v": v}


@kinds.check.register
def _(system: Constrained, values: Values, par: Array, t: float, u: Array, method: Method) -> None:
    at = kinds.complete(system, values, t, par)
    if well(system, at, par, t, u, method.exact_levels):
        return
    check_functions(system, at, par, t, u)
    varying = isinstance(system, Mechanical) and not system.constant_mass
    if method.needs & {Need.INERTIA, Need.MASS, *({Need.MOMENTA} if varying else ())}:
        check_mass(system, at["q"], par)
    if system.m:
        _check_levels(system, at, par, t, method.exact_levels)
    massless = Massless.of(system, at["q"], at["v"], t, u, par)
    if massless is not None:
        massless.check()


def _check_levels(s: Constrained, at: Values, par: Array, t: float, exact: tuple[str, ...]) -> None:
    """Refuse values that violate a constraint, saying which and by how much."""
    G = s.value("jacobian", par, q=at["q"], t=t)
    check_rank(G, "at the initial position")

    def size(matrix: ca.DM, x: Array) -> Array:
        return nonzeros(ca.densify(ca.fabs(matrix) @ np.abs(x)))

    if s.mh:
        g = s.numeric("holonomic", par, q=at["q"], t=t)[0]
        # a method on the index-2 form lets positions drift a little: its own end must be a legal start
        tolerance = TOLERANCE if "position" in exact else 1e-3
        normal = s.value("normal", par, q=at["q"], t=t) if s.mn or s.has("kinematics") else G
        # coordinates that are zero but for rounding are measured by the largest one
        allowed = tolerance * size(normal, at["q"]) + 1e-13 * size(normal, np.full(s.n, np.abs(at["q"]).max()))
        if not (np.abs(g) <= allowed).all():  # or no more than rounding
            allowed = allowed + 1e-13 * rounding_of(s.function("holonomic"), [at["q"], t, par], ("q", "t", "par"))
        refuse(np.abs(g), allowed, ("q", "g", "position"), f"q=..., {s.momenta}=...")
    rate, moving = s.numeric("drift", par, **at, t=t)[0], s.numeric("rate", par, q=at["q"], t=t)[0]
    tolerance = TOLERANCE if "velocity" in exact else LOOSE
    largest = np.full(s.nv, np.abs(at["v"]).max())
    # a system at rest on a moving constraint is measured by its motion
    allowed = tolerance * (size(G, at["v"]) + 1e-3 * size(G, largest) + np.abs(moving)) + 1e-300
    nearest = ""
    if isinstance(s, Mechanical) and s.nv <= 12 and not (np.abs(rate) <= allowed).all():
        projected = _project_velocity(s, at["q"], at["v"], t, par)
        nearest = f"the nearest velocity on the constraints is {[float(x) for x in projected]}; "
    refuse(np.abs(rate), allowed, (s.momenta, "G v", "velocity"), f"q=..., {s.momenta}=...", nearest)


def accelerations(s: Constrained, friction: bool = False) -> ca.Function:
    """`A a + G^T lam = F`, `C a = d` for `a = v'` (mechanical) or `a = p'` (Hamiltonian), as a function of all symbols.

    With `friction` the caller adds the part of the force that depends on `lam`; without, a system that has one is refused.
    """
    if s.friction is not None and not friction:
        raise MethodError(f"the force of {s.name!r} depends on multipliers, which this does not treat: leave the friction out")
    return s.cache.get(ca.Function, "accelerations", lambda: _accelerations(s))


def _accelerations(s: Constrained) -> ca.Function:
    G, F = s.role("jacobian"), s.force()
    if isinstance(s, Hamiltonian):
        velocity = s.role("velocity")
        rest = ca.jtimes(velocity, s.q, s.v) + ca.jacobian(velocity, s.t)
        parts = [ca.SX.eye(s.n), F, G @ ca.jacobian(velocity, s.p), -s.role("curvature") - G @ rest]
    else:
        parts = [s.expression("mass"), F, G, -s.role("curvature")]
    return ca.Function("accelerations", s.symbols(), parts)


def kkt(A: ca.DM | Array, G: ca.DM | Array, C: ca.DM | Array, b: Array | ca.DM, d: Array | ca.DM) -> tuple[Array, Array]:
    """Solve `A x + G^T y = b`, `C x = d`."""
    n, m = A.shape[0], C.shape[0]
    if isinstance(A, np.ndarray):
        matrix: ca.DM | Array = np.zeros((n + m, n + m))
        matrix[:n, :n], matrix[:n, n:], matrix[n:, :n] = A, G.T, C
    else:
        matrix = ca.blockcat([[A, G.T], [C, ca.DM(m, m)]])
    right = np.concatenate([np.array(b, dtype=float).ravel(), np.array(d, dtype=float).ravel()])
    solution = solve_pivoted(matrix, right)
    return solution[:n], solution[n:]


@kinds.multipliers.register
def _(system: Constrained, values: Values, par: Array, t: float, u: Array) -> Array:
    """`lam` of the acceleration level: `G v' + (G v)_q v + 2 G_t v + g_tt = 0` with `M v' = F - G^T lam`."""
    if not system.m:
        return np.zeros(0)
    at = kinds.complete(system, values, t, par)
    q, v, p = at["q"], at["v"], at.get("p", np.zeros(system.nv))
    A, F, C, d = accelerations(system, friction=True)(q, v, p, t, u, par)
    G = system.value("jacobian", par, q=at["q"], t=t)
    a, lam = kkt(A, G, C, ca.densify(F), ca.densify(d))
    if system.friction is None:
        return lam
    right, rubbing = np.array(ca.densify(ca.vertcat(F, d))).ravel(), _rubbing(system)
    frame = np.asarray(ca.blockcat([[A, G.T], [C, ca.DM(system.m, system.m)]]).full())

    def residual(x: Array) -> tuple[Array, Array]:
        force, slope = (np.asarray(e.full()) for e in rubbing(q, v, p, t, u, par, x[system.nv :]))
        full, J = right.copy(), frame.copy()
        full[: system.nv] += force.ravel()
        J[: system.nv, system.nv :] -= slope
        return frame @ x - full, J

    start = np.concatenate([a, lam])
    scale = float(np.abs(start).max(initial=0.0))
    return newton.solve(residual, start, scale=1e-3 * scale, what="the multipliers with friction", t=t)[system.nv :]


def _rubbing(s: Constrained) -> ca.Function:
    """The part of the force that depends on the multipliers, and its derivative by these."""

    def made() -> ca.Function:
        lam = ca.SX.sym("lam", s.m)
        force = s.rubbing(lam, s.v)
        return ca.Function("rubbing", [*s.symbols(), lam], [force, ca.densify(ca.jacobian(force, lam))])

    return s.cache.get(ca.Function, "rubbing", made)


@kinds.implied.register
def _(system: Constrained) -> kinds.Implied | None:
    A, F, C, d = (system.of_state(e) for e in accelerations(system, friction=True)(*system.symbols()))
    a, lam = ca.SX.sym("a", A.size1()), ca.SX.sym("lam", system.m)
    if system.friction is not None:
        F += system.of_state(system.rubbing(lam, system.v))
    residual = ca.vertcat(A @ a + system.of_state(system.role("jacobian")).T @ lam - F, C @ a - d)
    return kinds.Implied(ca.vertcat(a, lam), residual, {"lam": lam}) if system.m else None


@kinds.guess.register
def _(system: Constrained, values: Values, par: Array, t: float, u: Array) -> Array | None:
    at = kinds.complete(system, values, t, par)
    massless = Massless.of(system, at["q"], at["v"], t, u, par)
    return None if massless is None else massless.guess()


@kinds.project.register
def _(system: Constrained, given: Given, par: Array, t: float, u: Array) -> Consistent:
    """Positions along `M^-1 G^T`, nearest in the norm of the kinetic energy; velocities likewise; then multipliers."""
    values = kinds.choose(system, given, par, t, u)
    check_functions(system, kinds.complete(system, values, t, par), par, t, u)
    q, second = values["q"], values[system.momenta]
    massless = Massless.of(system, q, values.get("v", second), t, u, par)
    if massless is None:
        check_mass(system, q, par)
    else:
        q, second, lam = massless.values()
        return Consistent({"q": q, "v": second, "p": system.numeric("momentum", par, q=q, v=second)[0], "lam": lam}, system.state)
    if system.m:
        check_rank(system.value("jacobian", par, q=q, t=t), "at the given position")
        q = _project_position(system, q, t, par) if system.mh else q
        check_rank(system.value("jacobian", par, q=q, t=t), "at the projected position")
        if isinstance(system, Hamiltonian):
            second = _project_momentum(system, q, second, t, par)
        else:
            second = _project_velocity(system, q, second, t, par)
    at = kinds.complete(system, {"q": q, system.momenta: second}, t, par)
    at.setdefault("p", system.numeric("momentum", par, q=q, v=at["v"])[0] if system.momenta == "v" else second)
    lam = kinds.multipliers(system, {"q": q, system.momenta: second}, par, t, u)
    return Consistent({"q": q, "v": at["v"], "p": at["p"], "lam": lam}, system.state)


def _project_position(s: Constrained, q: Array, t: float, par: Array) -> Array:
    """The nearest position on the holonomic constraints."""

    def residual(x: Array) -> tuple[ca.DM, ca.DM]:
        return s.value("holonomic", par, q=x, t=t), s.value("normal", par, q=x, t=t)

    def change(x: Array, r: Array, J: newton.Matrix) -> Array:
        plain = not isinstance(s, Mechanical) or s.has("kinematics")
        A = ca.DM.eye(s.n) if plain else s.value("mass", par, q=x)
        return kkt(A, ca.DM(J), ca.DM(J), np.zeros(s.n), r)[0]

    def terms(x: Array) -> Array:
        return np.asarray(rounding_of(s.function("holonomic"), [x, t, par], ("q", "t", "par")))

    try:
        return newton.solve(residual, q, change=change, scale=1e-3, terms=terms, what="the position constraints", t=t)
    except ConvergenceError as error:
        worst = int(np.argmax(np.abs(s.numeric("holonomic", par, q=q, t=t)[0]))) + 1
        raise ConvergenceError(
            f"no position near the given one satisfies the constraints (constraint {worst} of {s.m} is the worst); "
            "start closer to the constraints",
            t=t, step=0.0, residual=error.residual,
        ) from error  # fmt: skip


def _project_velocity(s: Constrained, q: Array, v: Array, t: float, par: Array) -> Array:
    """The nearest velocity on the constraints, in the norm of the kinetic energy."""
    M, G = s.value("mass", par, q=q), s.value("jacobian", par, q=q, t=t)
    rate = s.numeric("rate", par, q=q, t=t)[0]
    return kkt(M, G, G, ca.densify(M @ v), -rate)[0]


def _project_momentum(s: Hamiltonian, q: Array, p: Array, t: float, par: Array) -> Array:
    """The momentum `p - G^T mu` whose velocity satisfies the constraints."""
    G, slope = s.value("jacobian", par, q=q, t=t), ca.Function("v_p", s.symbols(), [ca.jacobian(s.role("velocity"), s.p)])
    rate = s.numeric("rate", par, q=q, t=t)[0]

    def residual(x: Array) -> tuple[Array, ca.DM]:
        v = s.numeric("velocity", par, q=q, p=x, t=t)[0]
        return np.array(ca.densify(G @ v)).ravel() + rate, G @ slope(q, np.zeros(s.nv), x, t, np.zeros(s.nu), par)

    def change(x: Array, r: Array, J: newton.Matrix) -> Array:
        return np.asarray(G.full().T @ solve_pivoted(ca.DM(J) @ G.T, r))

    def terms(x: Array) -> Array:
        v = s.numeric("velocity", par, q=q, p=x, t=t)[0]
        return np.asarray(np.array(ca.densify(ca.fabs(G) @ np.abs(v))).ravel() + np.abs(rate) + 1e-12)

    scale = 1e-3 * (1.0 + float(np.abs(p).max(initial=0.0)))
    return newton.solve(residual, p, change=change, scale=scale, terms=terms, what="the velocity constraints", t=t)


@kinds.explain.register
def _(system: Constrained, values: Values, par: Array, t: float, h: float, u: Array) -> DalembertError | None:
    """Functions that are not finite, or dependent constraints, where the step began or where it was heading."""
    try:
        here = kinds.complete(system, values, t, par)
        Z = np.asarray(system.value("kinematics", par, q=here["q"]).full()) if system.has("kinematics") else np.eye(system.n)
        for at, when in ((here, t), ({**here, "q": here["q"] + h * Z @ here["v"]}, t + h)):
            check_functions(system, at, par, when, u)
            if system.m:
                check_rank(system.value("jacobian", par, q=at["q"], t=when), f"at t = {when:g}")
    except DalembertError as error:
        return error
    return None
