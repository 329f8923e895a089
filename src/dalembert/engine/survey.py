"""A quick look at a start: one function says whether all is well. Where it does not, the checks one by one say why."""

from __future__ import annotations

import casadi as ca
import numpy as np

from dalembert.engine.checks import LOOSE, TOLERANCE, Array
from dalembert.systems.constrained import Constrained
from dalembert.systems.mechanical import Mechanical

LARGEST = 60  # coordinates, up to which matrices are looked at as dense ones
SX = ca.SX


def well(system: Constrained, at: dict[str, Array], par: Array, t: float, u: Array, exact: tuple[str, ...]) -> bool:
    """Whether nothing is wrong with a start; False also where that takes a closer look."""
    if system.n > LARGEST:
        return False
    return system.cache.get(Survey, "survey", lambda: Survey(system)).well(at, par, t, u, exact)


class Survey:
    """What must be finite at a start, and what must be small, of a mechanical or Hamiltonian system."""

    def __init__(self, s: Constrained) -> None:
        self._s = s
        roles = [role for role in s._functions if role in s.given and role != "points"]
        finite = [s.expression(role) for role in roles]
        if s.has_energy:
            finite += [s.role("energy"), s.role("energy_slope")]
        G, rest = (s.role("jacobian"), SX(0, s.n)) if s.m else (SX(0, s.n), SX(0, 1))
        g, normal = (s.expression("holonomic"), s.role("normal")) if s.mh else (rest, rest)
        drift, moving = (s.role("drift"), s.role("rate")) if s.m else (rest, rest)
        v = getattr(s, "v", s.q)
        sizes = [ca.fabs(normal) @ ca.fabs(s.q) if s.mh else rest, ca.fabs(G) @ ca.fabs(v) if s.m else rest]
        mass = s.expression("mass") if isinstance(s, Mechanical) else SX(0, 0)
        rows = [SX(ca.veccat(*(e.nz[:] for e in finite))), g, sizes[0], drift, sizes[1], ca.sum2(ca.fabs(G)), moving]
        outputs = [*(ca.densify(e) for e in rows), ca.densify(G), ca.densify(mass)]
        arguments = [getattr(s, name) for name in s.arguments]
        names = [f"o{i}" for i in range(len(outputs))]
        self._zeros = {name: np.zeros(getattr(s, name).numel()) for name in s.arguments}
        self._function = ca.Function("survey", [*arguments, s.par], outputs, [*s.arguments, "par"], names)

    def well(self, at: dict[str, Array], par: Array, t: float, u: Array, exact: tuple[str, ...]) -> bool:
        """Whether nothing is wrong with values; False also where that cannot be told here."""
        s, f = self._s, self._function
        given = {**self._zeros, **at, "t": np.array([t]), "u": u}
        values = f.call([*(given[name] for name in s.arguments), par])
        finite, g, size, drift, fast, weight, moving = (np.asarray(x.full()).ravel() for x in values[:7])
        if not np.isfinite(finite).all():
            return False
        if s.mh and not (np.abs(g) <= (TOLERANCE if "position" in exact else 1e-3) * size).all():
            return False
        if s.m:
            tolerance = TOLERANCE if "velocity" in exact else LOOSE
            allowed = tolerance * (fast + 1e-3 * weight * np.abs(at["v"]).max() + np.abs(moving)) + 1e-300
            if not (np.abs(drift) <= allowed).all() or not _independent(values[7].full()):
                return False
        return self._heavy(values[8].full())

    def _heavy(self, mass: Array) -> bool:
        """Whether all masses are positive."""
        if not mass.size:
            return True
        diagonal = np.diag(mass)
        if not (diagonal > 0).all() or not diagonal.max() < 1e13 * diagonal.min():
            return False
        if np.count_nonzero(mass) == len(diagonal):
            return True
        root = np.sqrt(diagonal)
        return bool(np.linalg.eigvalsh(mass / np.outer(root, root))[0] > 1e-12)


def _independent(G: Array) -> bool:
    """Whether rows are clearly independent of each other."""
    lengths = np.sqrt((G * G).sum(axis=1))
    if not (lengths > 0).all():
        return False
    unit = G / lengths[:, None]
    return len(G) == 1 or bool(np.linalg.eigvalsh(unit @ unit.T)[0] > 1e-12)
