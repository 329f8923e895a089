"""What is refused before any work is done: functions that are not finite, singular masses, dependent or violated constraints."""

from __future__ import annotations

from collections.abc import Mapping

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from dalembert.engine.elimination import solve_definite, solve_pivoted
from dalembert.errors import InconsistentState, ModelError, SingularConstraints
from dalembert.methods.base import able
from dalembert.systems.base import System
from dalembert.systems.batch import batch, diagonal, nonzeros, places
from dalembert.systems.mechanical import Mechanical
from dalembert.systems.needs import Need

Array = NDArray[np.float64]
SX = ca.SX
TOLERANCE = 1e-9  # of a constraint's own scale, for what must hold exactly at the start
LARGEST = 60  # coordinates, up to which all is looked at by one function
STEEP = 1e45  # a slope of the energy, or more: a root of zero has one of 1e50, see `systems/elementary.py`
LOOSE = 1e-2  # for the velocity level of methods that do not keep it


def given_roles(system: System) -> list[str]:
    """What the user gave, but for what is drawn."""
    return [role for role in system.stated() if role != "points"]


def finite(system: System) -> SX:
    """All that must be finite wherever a system is: its functions, the energy and its derivative."""
    out = [system.expression(role) for role in given_roles(system)]
    if system.has_energy:
        out += [system.role("energy"), system.role("energy_slope")]
    return SX(ca.veccat(*(e.nz[:] for e in out)))


class Finite:
    """The same as one function of one vector: where it holds, there is no need to look at one after the other."""

    def __init__(self, system: System) -> None:
        arguments = {name: getattr(system, name) for name in system.arguments}
        self._zeros = {name: np.zeros(x.numel()) for name, x in arguments.items()}
        self._function = ca.Function("finite", [ca.veccat(*arguments.values(), system.par)], [finite(system)])

    def holds(self, at: Mapping[str, Array], par: Array, t: float, u: Array) -> bool:
        values = {**self._zeros, **at, "t": (t,), "u": u}
        found = batch(self._function, [np.concatenate([*(values[k] for k in self._zeros), par])], 1)[0]
        return bool((np.abs(found) < STEEP).all())


def check_functions(system: System, at: Mapping[str, Array], par: Array, t: float, u: Array) -> None:
    """Refuse nan and infinity in a model function, and in the derivative of the energy, at given values."""
    if system.n <= LARGEST and system.cache.get(Finite, "finite", lambda: Finite(system)).holds(at, par, t, u):
        return
    for role in given_roles(system):
        value = system.value(role, par, **at, t=t, u=u)
        numbers = nonzeros(value)
        if not np.isfinite(numbers).all():
            bad = int(np.argmin(np.isfinite(numbers)))
            row, column = value.sparsity().row()[bad] + 1, value.sparsity().get_col()[bad] + 1
            entry = f" (entry {row}{f', {column}' if value.shape[1] > 1 else ''})" if value.numel() > 1 else ""
            raise ModelError(
                f"{role} is {numbers[bad]}{entry} at t = {t:g}; check the function and its parameters at these values"
            )
    if system.has_energy and not np.isfinite(energy := float(system.value("energy", par, **at, t=t, u=u))):
        raise ModelError(f"the energy is {energy} at t = {t:g}; check masses, velocities and parameters: they are too large")
    if system.has_energy and not abs(energy) < STEEP and not _large(system, at, par):
        raise ModelError(f"the energy is {energy:.3g} at t = {t:g}; a division by a distance of zero is the usual cause")
    if "energy_slope" in system._functions or system.has_energy:
        slope = nonzeros(ca.densify(system.value("energy_slope", par, **at, t=t, u=u)))
        steep = ~np.isfinite(slope) | ((np.abs(slope) >= STEEP) & (not _large(system, at, par)))
        if steep.any():
            bad = int(np.argmax(steep))
            name = system.coordinates[bad % system.n]
            what = f"{name!r}" if bad < system.n else f"'momentum of {name}'"
            raise ModelError(
                f"the derivative of {system.energy_role} with respect to {what} is not finite at t = {t:g}; "
                "a distance of zero under a square root is the usual cause"
            )


def _large(system: System, at: Mapping[str, Array], par: Array) -> bool:
    """Whether there are large numbers in a state or among the parameters, which explain others."""
    return any((np.abs(x) > STEEP ** (1 / 3)).any() for x in (*(at[name] for name in system.state), par))


def check_mass(system: System, q: Array, par: Array) -> None:
    """Refuse a mass matrix that is singular or not positive definite."""
    if not isinstance(system, Mechanical):
        return
    M = system.value("mass", par, q=q)
    masses = diagonal(M)
    low, index = float(masses.min()), int(masses.argmin())
    singular = low <= 0
    if not singular and not M.sparsity().is_diag() and system.n <= 2000:
        root = np.sqrt(masses)  # masses of very different size are no reason to refuse: look at the shape only
        values, vectors = np.linalg.eigh(M.full() / np.outer(root, root))
        index = int(np.abs(vectors[:, 0]).argmax())
        low, singular = float(values[0] * masses[index]), bool(values[0] <= 1e-13)
    if singular:
        raise ModelError(
            f"the mass matrix is singular or not positive definite: its smallest eigenvalue is {low:.3g}, "
            f"in the direction of {system.coordinates[index]!r}; {system.heavier(index)} use {_without_mass(system)}"
        )


def _without_mass(system: System) -> str:
    """Methods that do not divide by masses."""
    return " or ".join(str(m) for m in able(system) if not m.needs & {Need.MASS, Need.INERTIA})


def check_rank(G: ca.DM, when: str) -> None:
    """Refuse linearly dependent constraints, naming the rows and their combination."""
    m = G.size1()
    norms = np.sqrt(nonzeros(ca.densify(ca.sum2(G**2))))
    if not np.isfinite(norms).all():
        row = int(np.argmin(np.isfinite(norms))) + 1
        raise ModelError(f"the derivative of holonomic constraint {row} of {m} is not finite {when}")
    if (norms == 0).any():
        row = int(np.argmin(norms)) + 1
        raise SingularConstraints(f"the gradient of constraint {row} of {m} vanishes {when}; restate it", (row,))
    if m > 300:
        from scipy.sparse import csc_matrix  # which small systems do not need

        rows, columns = places(G.sparsity())
        unit = csc_matrix((nonzeros(G) / norms[rows], (rows, columns)), shape=G.shape)
        product = (unit @ unit.T).tocsc()
        any_load = np.random.default_rng(0).normal(size=m)  # equal rows would carry equal loads: these show them
        for solve in (solve_definite, solve_pivoted):
            solution = solve(product, any_load)
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


def independent(rows: Array, tolerance: float = 1e-10) -> tuple[list[int], list[int]]:
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


def refuse(residual: Array, allowed: Array, names: tuple[str, str, str], remedy: str, nearest: str = "") -> None:
    """Refuse residuals above what is allowed; `names` are those of the value, of the residual, and of the level."""
    bad = np.flatnonzero(~(residual <= allowed))
    if len(bad):
        worst = bad[np.argmax(residual[bad] / allowed[bad])]
        others = f" (also {', '.join(str(i + 1) for i in bad if i != worst)})" if len(bad) > 1 else ""
        name, symbol, level = names
        raise InconsistentState(
            f"{name} violates constraint {worst + 1} of {len(residual)}{others} at the {level} level: "
            f"|{symbol}| = {residual[worst]:.1e} > {allowed[worst]:.0e}; "
            f"{nearest}start from da.consistent(system, {remedy})"
        )
