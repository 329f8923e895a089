"""Initial values: consistent ones from given ones, and errors that name the constraint and the number."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import casadi as ca
import numpy as np

from dalembert.engine.machine import solve_pivoted
from dalembert.engine.rounding import rounding_of
from dalembert.errors import ConvergenceError, InconsistentState, MethodError, ModelError, SingularConstraints, UnknownKeyword
from dalembert.systems.base import System

TOLERANCE = 1e-9  # of a constraint's own scale, for what must hold exactly at the start
LOOSE = 1e-2  # for the velocity level of methods that do not keep it


@dataclass(frozen=True)
class Consistent:
    """Consistent values `q`, `v` (and `p`), and the multipliers `lam` of the acceleration level.

    Unpacks as `q, v, lam = ...` and as keywords, `da.simulate(system, method, **da.consistent(...), ...)`.
    """

    q: np.ndarray
    v: np.ndarray
    p: np.ndarray
    lam: np.ndarray
    momenta: str = "v"

    @property
    def y(self) -> np.ndarray:
        """The differential variables of a semi-explicit system."""
        return self.q

    @property
    def z(self) -> np.ndarray:
        """Its algebraic variables."""
        return self.v

    def __iter__(self) -> Iterator[np.ndarray]:
        if self.momenta == "x":
            return iter((self.q,))
        return iter((self.y, self.z) if self.momenta == "z" else (self.q, getattr(self, self.momenta), self.lam))

    @property
    def x(self) -> np.ndarray:
        """The state of a port-Hamiltonian system."""
        return self.q

    def keys(self) -> tuple[str, ...]:
        if self.momenta == "x":
            return ("x",)
        return ("y", "z") if self.momenta == "z" else ("q", self.momenta)

    def __getitem__(self, key: str) -> np.ndarray:
        return np.asarray(getattr(self, key))


def vector(system: Any, name: str, value: Any) -> np.ndarray:
    """One initial value, its shape and its finiteness checked."""
    try:
        array = np.atleast_1d(np.array(value, dtype=float))
    except (TypeError, ValueError) as error:
        raise InconsistentState(f"{name} must be {system.n} numbers, not {value!r}") from error
    size = system.size_of(name)
    if array.shape != (size,):
        names = ", ".join(system.coordinates[:6]) + (", ..." if size > 6 else "")
        hint = f" ({names})" if size == system.n else ""
        raise InconsistentState(f"{name} has the shape {array.shape}; expected {size} numbers{hint}")
    if not np.isfinite(array).all():
        raise InconsistentState(
            f"{name} is not finite: its entry {int(np.argmin(np.isfinite(array))) + 1} is {array[~np.isfinite(array)][0]}"
        )
    return array


def number(name: str, value: Any) -> float:
    """One finite number."""
    try:
        out = float(value)
    except (TypeError, ValueError) as error:
        raise MethodError(f"{name} must be a number, not {value!r}") from error
    if not np.isfinite(out):
        raise MethodError(f"{name} must be finite, not {out:g}")
    return out


def inputs_of(system: Any, u: Any, t0: float) -> Callable[[np.ndarray], np.ndarray]:
    """Inputs as a function from times to rows, checked at the start."""
    nu = system.nu
    if u is None:
        return lambda t: np.zeros((len(t), nu))
    if not nu:
        raise MethodError(f"{system.name!r} has no inputs, but u was given; declare them with inputs=...")

    if isinstance(u, tuple) and len(u) == 2 and np.ndim(u[0]) == 1:
        return _held(nu, *u)

    def rows(t: np.ndarray) -> np.ndarray:
        if not callable(u):
            return np.broadcast_to(np.asarray(u, dtype=float).reshape(1, nu), (len(t), nu))
        return np.array([np.atleast_1d(u(float(s))) for s in t], dtype=float).reshape(len(t), nu)

    try:
        first = rows(np.array([t0]))
    except Exception as error:
        raise InconsistentState(
            f"u must give {nu} numbers for {system.name!r} (a constant or a function of t): {type(error).__name__}: {error}"
        ) from error
    if not np.isfinite(first).all():
        raise InconsistentState(f"u is not finite at t = {t0:g}: {first[0]}")
    return rows


def _held(nu: int, times: Any, values: Any) -> Callable[[np.ndarray], np.ndarray]:
    """Sampled inputs: each value holds from its time on."""
    t, u = np.asarray(times, dtype=float), np.asarray(values, dtype=float).reshape(len(times), -1)
    if u.shape[1] != nu or not np.isfinite(u).all() or not (np.diff(t) > 0).all():
        raise InconsistentState(f"u=(times, values) needs increasing times and {nu} finite values for each, not {u.shape}")
    return lambda s: u[np.clip(np.searchsorted(t, s + 1e-12 * np.abs(s), side="right") - 1, 0, len(t) - 1)]


def choose(
    system: Any, q: Any, v: Any, p: Any, par: np.ndarray, t: float = 0.0, u: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """`q` and the second half of the state, from what was given, the system's defaults, or rest."""
    if v is not None and p is not None:
        raise InconsistentState("give v or p, not both")
    second, other = (v, p) if system.momenta == "v" else (p, v)
    if q is None and "q" not in system.initial:
        what = "x=..." if system.kind == "port-hamiltonian" else f"q=... and {system.momenta}=..."
        raise InconsistentState(f"{system.name!r} has no default initial values: give {what}")
    if second is None and other is None and q is None:
        second = system.initial.get(system.momenta)
        if second is None and system.momenta == "v":
            other = system.initial.get("p")
    own, q = q is None, vector(system, "q", system.initial["q"] if q is None else q)
    if own and u is not None and system.kind == "port-hamiltonian":
        q = system.consistent_state(q, t, par, u)  # the algebraic part of the defaults follows the inputs
    if other is not None:
        if system.momenta == "p":
            raise InconsistentState("a Hamiltonian system starts from q and p; give p=... in place of v")
        M = system._functions["mass"](q, np.zeros(system.nv), np.zeros(system.nv), 0.0, np.zeros(system.nu), par)
        second = solve_pivoted(M, vector(system, "p", other))
    if second is None and system.kind == "dae":
        return q, algebraic(system, q, par, t, u)
    return q, vector(system, system.momenta, np.zeros(system.size_of(system.momenta)) if second is None else second)


def algebraic(system: Any, y: np.ndarray, par: np.ndarray, t: float = 0.0, u: np.ndarray | None = None) -> np.ndarray:
    """`z` from the equation that defines it (`g_y f(y, z) + g_t = 0` on index 2), by Newton's method from zero and from one."""
    hidden = system.role("drift")
    inputs = [system.q, system.v, system.p, system.t, system.u, system.par]
    f = ca.Function("hidden", inputs, [hidden, ca.jacobian(hidden, system.v)])
    for begin in (0.0, 1.0):
        z = np.full(system.m, begin)
        for _ in range(50):
            r, J = f(y, z, np.zeros(system.p.numel()), t, np.zeros(system.nu) if u is None else u, par)
            change = solve_pivoted(J, np.array(r).ravel())
            z = z - change
            if not np.isfinite(z).all():
                break
            if np.abs(change).max() <= 1e-14 * (1e-300 + np.abs(z).max()):
                return np.asarray(z)
    raise InconsistentState("z could not be found from the (hidden) constraint that defines it; give z=...")


def _consistent_dae(system: Any, y: np.ndarray, z: Any, t: float, par: np.ndarray, u: np.ndarray) -> Consistent:
    """The nearest `y` on all levels that do not contain `z`, and `z` from the one that does."""
    levels = system.levels()[:-1]
    if levels:
        stack = ca.vertcat(*levels)
        f = ca.Function("levels", [system.q, system.t, system.u, system.par], [stack, ca.jacobian(stack, system.q)])
        size = np.inf
        for _ in range(50):
            r, J = (np.array(x.full()) for x in f(y, t, u, par))
            check_rank(ca.DM(J), "at the given values")
            change = np.linalg.lstsq(J, r[:, 0], rcond=None)[0]
            y = y - change
            previous, size = size, float(np.abs(change).max())
            if size <= 4e-16 * max(1.0, float(np.abs(y).max())) or (size < 1e-12 and size >= 0.5 * previous):
                break
        else:
            raise ConvergenceError("no y near the given one satisfies the constraints", t=t, step=0.0, residual=size)
    return Consistent(y, algebraic(system, y, par, t, u), np.zeros(0), np.zeros(0), "z")


def arguments(system: Any, q: np.ndarray, second: np.ndarray, t: float, par: np.ndarray) -> dict[str, Any]:
    """The arguments of model functions at a state, velocity and momentum both."""
    if system.momenta == "v":
        return {"q": q, "v": second, "t": t}
    v = system.numeric("velocity", par, q=q, p=second, t=t)[0]
    return {"q": q, "p": second, "v": v, "t": t}


def check_functions(system: Any, at: Mapping[str, Any], par: np.ndarray) -> None:
    """Refuse nan and infinity in a model function at the initial values."""
    values = [np.asarray(at.get(k, np.zeros(system.size_of(k)))) for k in ("q", "v", "p")]
    values = [*values, at["t"], at.get("u", np.zeros(system.nu)), par]
    for role, function in system._functions.items():
        if role not in system.given or role == "points":
            continue
        value = function(*values)
        numbers = np.array(value.nonzeros())
        if not np.isfinite(numbers).all():
            bad = int(np.argmin(np.isfinite(numbers)))
            row, column = value.sparsity().row()[bad] + 1, value.sparsity().get_col()[bad] + 1
            entry = f" (entry {row}{f', {column}' if value.shape[1] > 1 else ''})" if value.numel() > 1 else ""
            raise ModelError(
                f"{role} is {numbers[bad]}{entry} at t = {float(at['t']):g}; "
                "check the function and its parameters at these values"
            )
    if system.kind == "dae":
        return
    energy = "potential" if system.kind == "mechanical" else "hamiltonian"
    if ("slope", energy) not in system._steps:
        slope = ca.densify(ca.gradient(system.expression(energy), ca.vertcat(system.q, system.p)))
        symbols = [system.q, system.v, system.p, system.t, system.u, system.par]
        system._steps["slope", energy] = ca.Function("slope", symbols, [slope])
    numbers = np.array(system._steps["slope", energy](*values)).ravel()
    if not np.isfinite(numbers).all():
        bad = int(np.argmin(np.isfinite(numbers)))
        name = system.coordinates[bad % system.n] if bad < system.n else f"momentum of {system.coordinates[bad - system.n]}"
        raise ModelError(
            f"the derivative of {energy} with respect to {name!r} is not finite at t = {float(at['t']):g}; "
            "a distance of zero under a square root is the usual cause"
        )


def check_start(system: Any, at: Mapping[str, Any], par: np.ndarray, method: Any) -> None:
    """All checks of initial values, before any work is done."""
    check_functions(system, at, par)
    if not method.any_mass:
        check_mass(system, at["q"], par)
    check_constraints(system, at, par, method.exact_levels)
    if system.kind == "port-hamiltonian":
        left = system.violated(at["q"], at["t"], par, at["u"])
        worst = int(np.abs(left).argmax())
        if abs(left[worst]) > 1e-8 * max(1.0, float(np.abs(at["q"]).max())):
            raise InconsistentState(
                f"equation {worst + 1} of {system.n} of {system.name!r} is algebraic and violated by {left[worst]:.3g} "
                f"at t = {at['t']:g}; da.consistent(system, x=..., u=...) gives a state that satisfies it"
            )


def check_mass(system: Any, q: np.ndarray, par: np.ndarray) -> None:
    """Refuse a mass matrix that is singular or not positive definite."""
    if system.kind != "mechanical":
        return
    f = system._functions["mass"]
    M = f(q, np.zeros(system.nv), np.zeros(system.nv), 0.0, np.zeros(system.nu), par)
    diagonal = np.array(ca.densify(ca.diag(M))).ravel()
    low, index = float(diagonal.min()), int(diagonal.argmin())
    singular = low <= 0
    if not singular and not M.sparsity().is_diag() and system.n <= 2000:
        root = np.sqrt(diagonal)  # masses of very different size are no reason to refuse: look at the shape only
        values, vectors = np.linalg.eigh(M.full() / np.outer(root, root))
        index = int(np.abs(vectors[:, 0]).argmax())
        low, singular = float(values[0] * diagonal[index]), bool(values[0] <= 1e-13)
    if singular:
        raise ModelError(
            f"the mass matrix is singular or not positive definite: its smallest eigenvalue is {low:.3g}, "
            f"in the direction of {system.coordinates[index]!r}; give that coordinate a mass, or remove it"
        )


def check_rank(G: ca.DM, when: str) -> None:
    """Refuse linearly dependent constraints, naming the rows and their combination."""
    m = G.size1()
    norms = np.sqrt(np.array(ca.densify(ca.sum2(G**2))).ravel())
    if not np.isfinite(norms).all():
        row = int(np.argmin(np.isfinite(norms))) + 1
        raise ModelError(f"the derivative of holonomic constraint {row} of {m} is not finite {when}")
    if (norms == 0).any():
        row = int(np.argmin(norms)) + 1
        raise SingularConstraints(f"the gradient of constraint {row} of {m} vanishes {when}; restate it", (row,))
    if m > 300:
        unit = (ca.diag(ca.DM(1 / norms)) @ G).sparse()
        solution = solve_pivoted((unit @ unit.T).tocsc(), np.ones(m))
        if np.isfinite(solution).all() and np.abs(solution).max() < 1e12:
            return
        if m > 3000:
            raise SingularConstraints(f"the {m} constraints are linearly dependent {when}; remove the redundant ones")
    dense = G.full()
    kept, extra = _independent(dense / norms[:, None])
    if not extra:
        return
    row = extra[0]
    weights, *_ = np.linalg.lstsq(dense[kept].T, dense[row], rcond=None)
    terms = [f"{w:+.3g} * row {k + 1}" for w, k in zip(weights, kept, strict=True) if abs(w) > 1e-8]
    numbers = ", ".join(str(i + 1) for i in extra)
    raise SingularConstraints(
        f"the constraints are linearly dependent {when} (rank {len(kept)} of {m}): "
        f"row {row + 1} = {' '.join(terms)}; remove constraint{'s' * (len(extra) > 1)} {numbers}",
        tuple(i + 1 for i in extra),
    )


def _independent(rows: np.ndarray, tolerance: float = 1e-10) -> tuple[list[int], list[int]]:
    """Rows of unit length that are independent of those before them, and the others (Gram-Schmidt, done twice)."""
    basis, kept, extra = np.zeros((0, rows.shape[1])), [], []
    for i, row in enumerate(rows):
        rest = row - basis.T @ (basis @ row)
        rest = rest - basis.T @ (basis @ rest)
        size = float(np.linalg.norm(rest))
        if size > tolerance:
            basis = np.vstack([basis, rest / size])
            kept.append(i)
        else:
            extra.append(i)
    return kept, extra


def jacobian(system: Any, at: Mapping[str, Any], par: np.ndarray, role: str = "jacobian") -> Any:
    """`G` at a state: of all constraints with respect to the velocities, or of the holonomic ones, `"normal"`, to `q`."""
    system.role(role)
    f = system._functions[role]
    zeros = [np.zeros(f.size1_in(name)) for name in ("v", "p")]
    return f(at["q"], *zeros, at["t"], np.zeros(system.nu), par)


def check_constraints(system: Any, at: Mapping[str, Any], par: np.ndarray, exact_levels: tuple[str, ...]) -> None:
    """Refuse values that violate a constraint, saying which and by how much."""
    if not system.m:
        return
    if system.kind == "dae":
        _check_dae(system, at, par)
        return
    G = jacobian(system, at, par)
    check_rank(G, "at the initial position")
    absolute = ca.fabs(G)

    def size(x: np.ndarray) -> np.ndarray:
        return np.array(ca.densify(absolute @ np.abs(x))).ravel()

    if system.mh:
        g = system.numeric("holonomic", par, **at)[0]
        rounding = 1e-13 * rounding_of(system._functions["holonomic"], [at["q"], at["t"], par], ("q", "t", "par"))
        # a method on the index-2 form lets positions drift a little: its own end must be a legal start
        tolerance = TOLERANCE if "position" in exact_levels else 1e-3
        own = np.array(ca.densify(ca.fabs(jacobian(system, at, par, "normal")) @ np.abs(at["q"]))).ravel()
        _refuse(np.abs(g), tolerance * own + rounding, "q", "g", system.m, "position")
    rate = system.numeric("drift", par, **at)[0]
    tolerance = TOLERANCE if "velocity" in exact_levels else LOOSE
    largest = np.full(system.nv, np.abs(at["v"]).max())
    moving = np.abs(system.numeric("rate", par, **at)[0])  # a system at rest on a moving constraint is measured by its motion
    allowed = tolerance * (size(at["v"]) + 1e-3 * size(largest) + moving) + 1e-300
    nearest = ""
    if system.momenta == "v" and system.nv <= 12 and not (np.abs(rate) <= allowed).all():
        M = system._functions["mass"](at["q"], np.zeros(system.nv), np.zeros(system.nv), 0.0, np.zeros(system.nu), par)
        projected = _kkt(M, G, G, ca.densify(M @ at["v"]), -system.numeric("rate", par, **at)[0])[0]
        nearest = f"the nearest velocity on the constraints is {np.array2string(projected, precision=6, separator=', ')}; "
    _refuse(np.abs(rate), allowed, system.momenta, "G v", system.m, "velocity", nearest)


def _check_dae(system: Any, at: Mapping[str, Any], par: np.ndarray) -> None:
    """Each level of the constraint, the last of which defines `z`, and that it does."""
    levels = system.levels()
    last = levels[-1]
    slopes = [ca.jacobian(level, system.q) for level in levels]
    inputs = [system.q, system.v, system.t, system.u, system.par]
    f = ca.Function("levels", inputs, [*levels, *slopes, ca.jacobian(last, system.v)])
    values = f(at["q"], at["v"], at["t"], at["u"], par)
    count = len(levels)
    size = np.abs(at["q"])
    names = {1: ["constraint"], 2: ["position", "hidden"], 3: ["position", "velocity", "hidden"]}[system.index]
    check_rank(values[-1] if system.index == 1 else values[count], "at the initial values")
    for k in range(count):
        allowed = np.array(ca.densify(ca.fabs(values[count + k]) @ size)).ravel()
        tolerance = 1e-9
        if k == count - 1:
            allowed = allowed + np.array(ca.densify(ca.fabs(values[-1]) @ np.abs(at["v"]))).ravel()
            tolerance = 1e-6
        symbol = "g" + "'" * k
        _refuse(
            np.abs(np.array(values[k]).ravel()),
            tolerance * allowed + 1e-13,
            "z" if k == count - 1 else "y",
            symbol,
            system.m,
            names[k],
        )


def _refuse(residual: np.ndarray, allowed: np.ndarray, name: str, symbol: str, m: int, level: str, nearest: str = "") -> None:
    bad = np.flatnonzero(~(residual <= allowed))
    if len(bad):
        worst = bad[np.argmax(residual[bad] / allowed[bad])]
        others = f" (also {', '.join(str(i + 1) for i in bad if i != worst)})" if len(bad) > 1 else ""
        raise InconsistentState(
            f"{name} violates constraint {worst + 1} of {m}{others} at the {level} level: "
            f"|{symbol}| = {residual[worst]:.1e} > {allowed[worst]:.0e}; "
            f"{nearest}start from da.consistent(system, q=..., {name if name != 'q' else 'v'}=...)"
        )


def _kkt(A: ca.DM, G: ca.DM, C: ca.DM, b: Any, d: Any) -> tuple[np.ndarray, np.ndarray]:
    """Solve `A x + G^T y = b`, `C x = d`."""
    matrix = ca.blockcat([[A, G.T], [C, ca.DM(C.size1(), C.size1())]])
    right = np.concatenate([np.array(b, dtype=float).ravel(), np.array(d, dtype=float).ravel()])
    solution = solve_pivoted(matrix, right)
    return solution[: A.size1()], solution[A.size1() :]


def multipliers(system: Any, at: Mapping[str, Any], par: np.ndarray, u: Any = None) -> np.ndarray:
    """`lam` of the acceleration level: `G v' + (G v)_q v + 2 G_t v + g_tt = 0` with `M v' = F - G^T lam`."""
    if not system.m:
        return np.zeros(0)
    A, F, C, d = _accelerations(system)(
        at["q"], at["v"], at.get("p", np.zeros(system.nv)), at["t"], np.zeros(system.nu) if u is None else u, par
    )
    G = jacobian(system, at, par)
    return _kkt(A, G, C, ca.densify(F), ca.densify(d))[1]


def _accelerations(s: Any) -> ca.Function:
    """`A a + G^T lam = F`, `C a = d` for `a = v'` (mechanical) or `a = p'` (Hamiltonian)."""
    if "accelerations" not in s._steps:
        G = s.role("jacobian")
        if s.kind == "mechanical":
            F = s.own_force() + s.applied(s.q, s.v, s.t, s.u) - s.damping(s.q, s.v, s.t)
            parts = [s.expression("mass"), F, G, -s.role("curvature")]
        else:
            H, velocity = s.expression("hamiltonian"), s.role("velocity")
            F = -ca.gradient(H, s.q) + s.applied(s.q, s.v, s.t, s.u, s.p) - s.damping(s.q, s.v, s.t, s.p)
            rest = ca.jtimes(velocity, s.q, s.v) + ca.jacobian(velocity, s.t)
            parts = [ca.SX.eye(s.n), F, G @ ca.jacobian(velocity, s.p), -s.role("curvature") - G @ rest]
        s._steps["accelerations"] = ca.Function("accelerations", [s.q, s.v, s.p, s.t, s.u, s.par], parts)
    return s._steps["accelerations"]  # type: ignore[no-any-return]


def consistent(
    system: Any,
    *,
    q: Any = None,
    v: Any = None,
    p: Any = None,
    x: Any = None,
    y: Any = None,
    z: Any = None,
    t0: float = 0.0,
    u: Any = None,
    parameters: Mapping[str, Any] | None = None,
    **unknown: Any,
) -> Consistent:
    """Consistent initial values near given ones.

    Positions are projected to `g(q, t0) = 0` along `M^-1 G^T` (nearest in the norm of the kinetic energy), velocities to
    `G v + g_t = 0` (and `A v + a = 0`) in the same way, and the multipliers follow from the acceleration level. For a
    port-Hamiltonian system the algebraic states follow from the algebraic equations (index 1); for a
    semi-explicit system `y` is projected to the nearest values on all levels, and `z` follows from the one that defines it.

    >>> start = da.consistent(system, q=[0.9, 0.1], v=[0.0, 1.0])
    >>> da.simulate(system, "rattle", **start, t_end=1.0, step=0.01)
    """
    if unknown:
        raise UnknownKeyword.of("consistent", unknown, consistent)
    if not isinstance(system, System):
        raise MethodError(f"the first argument must be a system such as da.Mechanical(...), not {type(system).__name__}")
    t0 = number("t0", t0)
    par = system.pack(parameters)
    inputs = inputs_of(system, u, t0)(np.array([t0]))[0]
    if system.kind == "dae":
        start = y if y is not None else q if q is not None else system.initial.get("q")
        if start is None:
            raise InconsistentState(f"{system.name!r} has no default initial values: give y=...")
        return _consistent_dae(system, vector(system, "q", start), z, t0, par, inputs)
    if system.kind == "port-hamiltonian":
        start = x if x is not None else q if q is not None else system.initial.get("q")
        if start is None:
            raise InconsistentState(f"{system.name!r} has no default initial values: give x=...")
        state = system.consistent_state(vector(system, "q", start), t0, par, inputs)  # type: ignore[attr-defined]
        return Consistent(state, np.zeros(0), np.zeros(0), np.zeros(0), "x")
    q, second = choose(system, q, v, p, par)
    check_functions(system, {**arguments(system, q, second, t0, par), "u": inputs}, par)
    check_mass(system, q, par)
    zeros = np.zeros(system.nv)
    at: dict[str, Any] = {"q": q, "t": float(t0)}
    if system.m:
        check_rank(jacobian(system, at, par), "at the given position")
        q = _project_position(system, q, float(t0), par) if system.mh else q
        at["q"] = q
        G = jacobian(system, at, par)
        check_rank(G, "at the projected position")
        rate = system.numeric("rate", par, **at)[0]
        if system.momenta == "v":
            A = system._functions["mass"](q, zeros, zeros, 0.0, np.zeros(system.nu), par)
            second = _kkt(A, G, G, ca.densify(A @ second), -rate)[0]
        else:
            for _ in range(30):
                here = arguments(system, q, second, float(t0), par)
                C = _accelerations(system)(q, here["v"], second, t0, np.zeros(system.nu), par)[2]
                mu = solve_pivoted(C @ G.T, np.array(ca.densify(G @ here["v"])).ravel() + rate)
                change = G.full().T @ mu
                second = second - change
                if np.abs(change).max() <= 1e-15 * (np.abs(second).max() + 1e-300):
                    break
    at = arguments(system, q, second, float(t0), par)
    lam = multipliers(system, at, par, inputs)
    momentum = second if system.momenta == "p" else system.numeric("momentum", par, q=q, v=second)[0]
    return Consistent(q, at["v"], momentum, lam, system.momenta)


def _project_position(system: Any, q: np.ndarray, t: float, par: np.ndarray) -> np.ndarray:
    zeros, start = np.zeros(system.nv), q
    previous = np.inf
    for _ in range(50):
        at = {"q": q, "t": t}
        g = system.numeric("holonomic", par, **at)[0]
        if system.kind == "mechanical":
            A = system._functions["mass"](q, zeros, zeros, 0.0, np.zeros(system.nu), par)
        if system.kind != "mechanical" or system.has("kinematics"):
            A = ca.DM.eye(system.n)
        G = jacobian(system, at, par, "normal")
        change = _kkt(A, G, G, np.zeros(system.n), -g)[0]
        size = float(np.abs(change).max())
        if not np.isfinite(size):
            break
        q = q + change
        if size <= 4e-16 * max(1.0, float(np.abs(q).max())) or (size < 1e-12 and size >= 0.5 * previous):
            return q
        previous = size
    worst = int(np.argmax(np.abs(system.numeric("holonomic", par, q=start, t=t)[0]))) + 1
    raise ConvergenceError(
        f"no position near the given one satisfies the constraints (constraint {worst} of {system.m} is the worst); "
        "start closer to the constraints",
        t=t,
        step=0.0,
        residual=previous,
    )
