"""Initial values and inputs as they were given: chosen, checked for shape, and the arguments of model functions there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import casadi as ca
import numpy as np

from dalembert.engine.machine import solve_pivoted
from dalembert.errors import InconsistentState, MethodError


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
        if callable(u) and isinstance(error, TypeError) and "argument" in str(error):
            raise InconsistentState(
                f"u is a function of t alone ({error}); what depends on the motion belongs in force=... or feedback=..."
            ) from error
        raise InconsistentState(
            f"u must give {nu} numbers for {system.name!r} (a constant or a function of t): {type(error).__name__}: {error}"
        ) from error
    if not np.isfinite(first).all():
        raise InconsistentState(f"u is not finite at t = {t0:g}: {first[0]}")
    return rows


def _held(nu: int, times: Any, values: Any) -> Callable[[np.ndarray], np.ndarray]:
    """Sampled inputs: each value holds from its time on."""
    try:
        t, u = np.asarray(times, dtype=float), np.asarray(values, dtype=float)
    except (TypeError, ValueError) as error:
        raise InconsistentState(f"u=(times, values) needs numbers, one row of values for each time: {error}") from error
    if not len(t) or not np.isfinite(t).all():
        raise InconsistentState(f"u=(times, values) needs at least one time, and finite ones, not {times!r}")
    u = u[:, None] if u.ndim == 1 else u
    if u.ndim != 2 or len(u) != len(t):
        raise InconsistentState(f"u=(times, values) needs one row of values for each time: {len(t)} times, values {u.shape}")
    if u.shape[1] != nu or not np.isfinite(u).all() or not (np.diff(t) > 0).all():
        raise InconsistentState(f"u=(times, values) needs increasing times and {nu} finite values for each, not {u.shape}")
    return lambda s: u[np.clip(np.searchsorted(t, s + 1e-12 * np.abs(s), side="right") - 1, 0, len(t) - 1)]


def own_values(system: Any, given: Mapping[str, Any]) -> None:
    """Refuse initial values of another kind of system."""
    own = {"dae": ("y", "z", "q", "v"), "port-hamiltonian": ("x", "q")}.get(system.kind, ("q", "v", "p"))
    for name, value in given.items():
        if value is not None and name not in own:
            raise InconsistentState(f"{name} is no initial value of {system.name!r}: it starts from {', '.join(own[:2])}")


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
    if own and system.kind == "port-hamiltonian" and np.any(u) and system.violated(q, t, par, 0 * u)[2] <= 1e-9:  # type: ignore[operator]
        q = system.consistent_state(q, t, par, u)  # defaults that are right without inputs: their algebraic part follows these
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


def arguments(system: Any, q: np.ndarray, second: np.ndarray, t: float, par: np.ndarray) -> dict[str, Any]:
    """The arguments of model functions at a state, velocity and momentum both."""
    if system.momenta == "v":
        return {"q": q, "v": second, "t": t}
    v = system.numeric("velocity", par, q=q, p=second, t=t)[0]
    return {"q": q, "p": second, "v": v, "t": t}


def jacobian(system: Any, at: Mapping[str, Any], par: np.ndarray, role: str = "jacobian") -> Any:
    """`G` at a state: of all constraints with respect to the velocities, or of the holonomic ones, `"normal"`, to `q`."""
    system.role(role)
    f = system._functions[role]
    zeros = [np.zeros(f.size1_in(name)) for name in ("v", "p")]
    return f(at["q"], *zeros, at["t"], np.zeros(system.nu), par)


def kkt(A: ca.DM, G: ca.DM, C: ca.DM, b: Any, d: Any) -> tuple[np.ndarray, np.ndarray]:
    """Solve `A x + G^T y = b`, `C x = d`."""
    matrix = ca.blockcat([[A, G.T], [C, ca.DM(C.size1(), C.size1())]])
    right = np.concatenate([np.array(b, dtype=float).ravel(), np.array(d, dtype=float).ravel()])
    solution = solve_pivoted(matrix, right)
    return solution[: A.size1()], solution[A.size1() :]
