"""How large things are: the sizes at which round-off begins, for Newton's test.

Accelerations of a step are defined to `eps |v| / h` by the velocities and to `eps |q| / h^2` by the positions. The positions'
part is taken with a small factor: it says where round-off may begin, not that digits may be given away before. Multipliers are
not measured at all: an index-3 step defines them to `cond(G M^-1 G^T) eps |q| / h^2` only, while what they do to the
accelerations, or to the constraint itself, is defined well.
"""

from __future__ import annotations

from typing import Any

import casadi as ca
import numpy as np

SX = ca.SX
POSITIONS = 1e-6


def typical(x: Any) -> Any:
    """The root mean square of the entries."""
    return ca.norm_2(ca.densify(x)) / np.sqrt(x.numel()) if x.numel() else SX(0.0)


def constant(value: Any, n: int) -> Any:
    """One size for n quantities."""
    return ca.repmat(value, n, 1)


def acceleration(s: Any, h: Any) -> Any:
    """The size of the accelerations of a mechanical system."""
    return typical(s.v) / h + POSITIONS * typical(s.q) / h**2


def velocity_and_rate(s: Any, h: Any) -> tuple[Any, Any]:
    """The sizes of the velocities and of the rates of the momenta of a Hamiltonian system."""
    velocity = s.role("velocity")
    light = typical(ca.diag(ca.jacobian(velocity, s.p))) + 1e-300  # one over a typical mass
    force = typical(ca.gradient(s.expression("hamiltonian"), s.q))
    speed = typical(velocity) + POSITIONS * typical(s.q) / h
    return speed, typical(s.p) / h + POSITIONS * (force + typical(s.q) / (h**2 * light))


def position_level(s: Any) -> Any:
    """The size of each position constraint, a part of `|G_j| |q|`: g_j cannot be computed better than to eps times this."""
    return ca.fabs(s.role("jacobian")) @ ca.fabs(s.q) / 8


def velocity_level(s: Any, velocity: Any, h: Any) -> Any:
    """The size of each velocity constraint, a part of `|G_j| |v|`; for a system at rest that of the motion in one step."""
    return ca.fabs(s.role("jacobian")) @ ca.fabs(velocity) / 8 + POSITIONS * position_level(s) / h
