"""How large things are: the sizes at which round-off begins, for Newton's test.

Accelerations of a step are defined to `eps |v| / h` by the velocities and to `eps |q| / h^2` by the positions. The positions'
part is taken with a small factor: it says where round-off may begin, not that digits may be given away before. Multipliers are
not measured at all: an index-3 step defines them to `cond(G M^-1 G^T) eps |q| / h^2` only, while what they do to the
accelerations, or to the constraint itself, is defined well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import casadi as ca
import numpy as np
from casadi import SX

if TYPE_CHECKING:
    from dalembert.systems.constrained import Constrained
    from dalembert.systems.hamiltonian import Hamiltonian
    from dalembert.systems.mechanical import Mechanical
    from dalembert.systems.port_hamiltonian import PortHamiltonian

POSITIONS = 1e-6


def typical(x: SX) -> SX:
    """The root mean square of the entries."""
    return ca.norm_2(ca.densify(x)) / np.sqrt(x.numel()) if x.numel() else SX(0.0)


def constant(value: SX, n: int) -> SX:
    """One size for n quantities."""
    return ca.repmat(value, n, 1)


def reach(s: Constrained, G: SX) -> SX:
    """For each row of a constraint matrix its radius of curvature, `|G_j| / |dG_j/dq|`: a rod's length; zero where it is linear.

    `|G_j|` times this is the size of the terms of `g_j`, wherever the origin of the coordinates lies.
    """
    if not G.size1():
        return SX(0, 1)
    entries: SX = G.nz[:]
    rows = ca.Sparsity.triplet(G.size1(), entries.numel(), G.sparsity().row(), list(range(entries.numel())))
    bend = ca.sqrt(SX.ones(rows) @ ca.densify(ca.sum2(ca.jacobian(entries, s.q) ** 2)))
    size = ca.sqrt(ca.sum2(G**2))
    return ca.densify(ca.if_else(bend > 0, size / (bend + 1e-300), 0))


def length(s: Constrained) -> SX:
    """The size of the positions, and of the rods between them."""
    return typical(s.q) + typical(reach(s, s.role("jacobian")))


def velocity(s: Mechanical, free: SX, h: SX) -> SX:
    """The size of the velocities of a mechanical system in one step, with its free acceleration."""
    h = ca.fabs(h)
    return typical(s.v) + h * typical(free) + POSITIONS * length(s) / h


def acceleration(s: Mechanical, force: SX, h: SX) -> SX:
    """The size of the accelerations of a mechanical system under a force."""
    h = ca.fabs(h)  # sub-steps of a composition may go backwards
    mass = ca.densify(ca.diag(s.expression("mass")))
    free = force / ca.if_else(mass > 0, mass, 1)
    return typical(s.v) / h + typical(free) + POSITIONS * length(s) / h**2


def velocity_and_rate(s: Hamiltonian, h: SX) -> tuple[SX, SX, SX, SX]:
    """Sizes of a Hamiltonian system: velocities, rates of the momenta, the force alone, and one over a typical mass."""
    h = ca.fabs(h)  # sub-steps of a composition may go backwards
    rate = s.role("velocity")
    light = typical(ca.diag(ca.jacobian(rate, s.p))) + 1e-300
    force = typical(ca.gradient(s.expression("hamiltonian"), s.q))
    speed = typical(rate) + POSITIONS * length(s) / h + h * force * light
    return speed, typical(s.p) / h + force + POSITIONS * length(s) / (h**2 * light), force, light


def position_level(s: Constrained, velocity: SX, free: SX, h: SX) -> SX:
    """The size of each position constraint: `|G_j| |q|`, its own terms, and what the motion in one step adds to it."""
    h = ca.fabs(h)  # sub-steps of a composition may go backwards
    own = s.role("normal")
    G = ca.fabs(own)
    step = h * typical(velocity) + h**2 * typical(free)
    return (G @ ca.fabs(s.q) + ca.sum2(G) * (step + reach(s, own))) / 8


def velocity_level(s: Constrained, velocity: SX, free: SX, h: SX) -> SX:
    """The size of each velocity constraint: `|G_j| |v|`, and what the forces of one step add to it."""
    h = ca.fabs(h)  # sub-steps of a composition may go backwards
    G = ca.fabs(s.role("jacobian"))
    return (G @ ca.fabs(velocity) + ca.sum2(G) * (h * typical(free) + POSITIONS * length(s) / h)) / 8


def port_rate(s: PortHamiltonian, u: SX, h: SX) -> SX:
    """The size of the rates of a port-Hamiltonian system."""
    rate = typical(s.role("right", u=u)) + POSITIONS * typical(s.x) / ca.fabs(h) + 1e-300
    return rate + 1e-3 * typical(s.x)
