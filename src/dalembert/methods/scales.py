"""How large unknowns are: the sizes at which their round-off begins, for Newton's test.

Accelerations of a step are defined to `eps |v| / h` by the velocities and to `eps |q| / h^2` by the positions, multipliers
accordingly (an index-3 step defines them no better). The positions' part is taken with a small factor: it says where
round-off may begin, not that digits may be given away before.
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


def spread(*blocks: tuple[Any, int]) -> Any:
    """A column made of blocks: each value repeated as often as given."""
    return ca.vertcat(*(ca.repmat(SX(value), n, 1) if SX(value).is_scalar() else value for value, n in blocks if n))


def mechanical(s: Any, h: Any) -> tuple[Any, Any]:
    """Sizes of the accelerations (one) and of the multipliers (each), `M a / |G_j|` and the round-off of `g_j` itself."""
    acceleration = typical(s.v) / h + POSITIONS * typical(s.q) / h**2
    if not s.m:
        return acceleration, SX(0, 1)
    G, mass = s.role("jacobian"), ca.densify(ca.diag(s.expression("mass")))
    push = ca.fabs(G) @ mass / ca.sum2(G**2) * typical(s.v) / h
    stiff = ca.fabs(G) @ ca.fabs(s.q) / (G**2 @ (1 / mass))  # what makes g_j change by |G_j| |q|, times h^2
    return acceleration, push + 1e3 * POSITIONS * stiff / h**2


def hamiltonian(s: Any, h: Any) -> tuple[Any, Any, Any]:
    """Sizes of the velocities, of the rates of the momenta, and of the multipliers."""
    velocity = s.role("velocity")
    light = typical(ca.diag(ca.jacobian(velocity, s.p))) + 1e-300  # one over a typical mass
    speed = typical(velocity) + POSITIONS * typical(s.q) / h
    rate = (
        typical(s.p) / h
        + POSITIONS * typical(s.q) / (h**2 * light)
        + POSITIONS * typical(ca.gradient(s.expression("hamiltonian"), s.q))
    )
    if not s.m:
        return speed, rate, SX(0, 1)
    G = s.role("jacobian")
    return speed, rate, rate * ca.sum2(ca.fabs(G)) / ca.sum2(G**2)
