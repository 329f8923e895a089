"""What is refused before any work is done: functions that are not finite, singular masses, dependent or violated constraints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import casadi as ca
import numpy as np

from dalembert.engine.initial import jacobian, kkt
from dalembert.engine.machine import solve_pivoted
from dalembert.engine.rounding import rounding_of
from dalembert.errors import InconsistentState, ModelError, SingularConstraints
from dalembert.systems.needs import Need

TOLERANCE = 1e-9  # of a constraint's own scale, for what must hold exactly at the start
LOOSE = 1e-2  # for the velocity level of methods that do not keep it


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
    if method.needs & {Need.INERTIA, Need.MASS} or (Need.MOMENTA in method.needs and not getattr(system, "constant_mass", True)):
        check_mass(system, at["q"], par)
    check_constraints(system, at, par, method.exact_levels)
    if system.kind == "port-hamiltonian":
        if system.has("constraint"):
            g = system.numeric("constraint", par, q=at["q"], t=at["t"])[0]
            if np.abs(g).max() > 1e-3 * max(1.0, float(np.abs(at["q"]).max()) ** 2):
                raise InconsistentState(
                    f"x violates constraint {int(np.abs(g).argmax()) + 1} of {len(g)}: |g| = {np.abs(g).max():.1e}; "
                    "start from da.consistent(system, x=...)"
                )
        row, rest, relative = system.violated(at["q"], at["t"], par, at["u"])
        if (
            relative > LOOSE and abs(rest) > 1e-12
        ):  # no tighter: methods keep these equations inside of a step, and their own end must be a legal start
            raise InconsistentState(
                f"equation {row + 1} of {system.n} of {system.name!r} is algebraic and violated by {rest:.3g} at t = {at['t']:g}"
                "; da.consistent(system, x=..., u=...) gives a state that satisfies it"
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
    kept, extra = independent(dense / norms[:, None])
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


def independent(rows: np.ndarray, tolerance: float = 1e-10) -> tuple[list[int], list[int]]:
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
        refuse(np.abs(g), tolerance * own + rounding, "q", "g", system.m, "position")
    rate = system.numeric("drift", par, **at)[0]
    tolerance = TOLERANCE if "velocity" in exact_levels else LOOSE
    largest = np.full(system.nv, np.abs(at["v"]).max())
    moving = np.abs(system.numeric("rate", par, **at)[0])  # a system at rest on a moving constraint is measured by its motion
    allowed = tolerance * (size(at["v"]) + 1e-3 * size(largest) + moving) + 1e-300
    nearest = ""
    if system.momenta == "v" and system.nv <= 12 and not (np.abs(rate) <= allowed).all():
        M = system._functions["mass"](at["q"], np.zeros(system.nv), np.zeros(system.nv), 0.0, np.zeros(system.nu), par)
        projected = kkt(M, G, G, ca.densify(M @ at["v"]), -system.numeric("rate", par, **at)[0])[0]
        nearest = f"the nearest velocity on the constraints is {[float(x) for x in projected]}; "
    refuse(np.abs(rate), allowed, system.momenta, "G v", system.m, "velocity", nearest)


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
        refuse(
            np.abs(np.array(values[k]).ravel()),
            tolerance * allowed + 1e-13,
            "z" if k == count - 1 else "y",
            symbol,
            system.m,
            names[k],
        )


def refuse(residual: np.ndarray, allowed: np.ndarray, name: str, symbol: str, m: int, level: str, nearest: str = "") -> None:
    bad = np.flatnonzero(~(residual <= allowed))
    if len(bad):
        worst = bad[np.argmax(residual[bad] / allowed[bad])]
        others = f" (also {', '.join(str(i + 1) for i in bad if i != worst)})" if len(bad) > 1 else ""
        raise InconsistentState(
            f"{name} violates constraint {worst + 1} of {m}{others} at the {level} level: "
            f"|{symbol}| = {residual[worst]:.1e} > {allowed[worst]:.0e}; "
            f"{nearest}start from da.consistent(system, q=..., {name if name != 'q' else 'v'}=...)"
        )
