"""The problems: equations for the peers, a model for dalembert, and how exact a run has to be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import casadi as ca
import numpy as np
from casadi import SX

import dalembert as da
from dalembert.systems.base import System
from peers.equations import Array, Equations, Explicit, Linear, Mechanics, Ode, as_ode, solve

G = 9.81


@dataclass(frozen=True)
class Problem:
    """A motion to compute: `rows` states at equal times up to `t_end`, each within a level.

    A level is met where the energy of every row, and each component of the state up to the time `check`, are within it
    (absolute).
    """

    name: str
    title: str
    make: Callable[[], tuple[Equations, Array]]
    system: Callable[[], System]
    t_end: float
    rows: int
    check: float
    levels: tuple[float, ...]
    kind: str = "holonomic"  # holonomic, nonholonomic, stiff, network
    minimal: Callable[[], tuple[Explicit, Array]] | None = None

    @property
    def energy_kept(self) -> bool:
        """Whether the energy of the first row is that of all."""
        return self.kind != "network"

    @cached_property
    def equations(self) -> Equations:
        """For the peers."""
        return self.make()[0]

    @cached_property
    def start(self) -> Array:
        """The first state."""
        return self.make()[1]

    @cached_property
    def forms(self) -> dict[str, Ode]:
        """Explicit forms by name: by hand, in minimal coordinates where there are some, and with multipliers eliminated."""
        e = self.equations
        name = "state space" if isinstance(e, Linear) else "multipliers eliminated"
        out = {name: as_ode(Explicit(e.y, e.ode(), e.y), self.start)}
        if self.minimal is not None:
            form, start = self.minimal()
            out = {"by hand": as_ode(form, start)} | out
        return out

    @property
    def times(self) -> Array:
        """Of the rows, the first one included."""
        return np.linspace(0.0, self.t_end, self.rows + 1)

    @property
    def checked(self) -> int:
        """The number of rows after the first whose states are compared."""
        return round(self.check / self.t_end * self.rows) if self.check else 0

    @cached_property
    def _energy(self) -> ca.Function:
        e = self.equations
        return ca.Function("energy", [e.y], [e.energy])

    def energies(self, y: Array) -> Array:
        """Of each row."""
        return np.asarray(self._energy.map(len(y))(y.T)).ravel()

    def constraints(self, y: Array) -> float:
        """The largest violation of a position constraint in any row, 0 where there is none."""
        e = self.equations
        if isinstance(e, Linear) or not e.g.numel():
            return 0.0
        return float(np.abs(np.asarray(ca.Function("g", [e.y], [e.g]).map(len(y))(y.T))).max())


def symbols(n: int) -> tuple[SX, SX]:
    """Coordinates and velocities."""
    return SX.sym("q", n), SX.sym("v", n)


def pendulum() -> tuple[Equations, Array]:
    q, v = symbols(2)
    model = Mechanics(q, v, SX.eye(2), G * q[1], ca.sumsqr(q) - 1)
    return model, np.array([1.0, 0, 0, 0])


def double_pendulum() -> tuple[Equations, Array]:
    q, v = symbols(4)
    p = SX.sym("p", 3)  # m1, m2, gravity
    g = ca.vertcat(q[0] ** 2 + q[1] ** 2 - 1, (q[2] - q[0]) ** 2 + (q[3] - q[1]) ** 2 - 1)
    model = Mechanics(q, v, ca.diag(ca.vertcat(p[0], p[0], p[1], p[1])), p[2] * (p[0] * q[1] + p[1] * q[3]), g, parameters=p)
    return model, np.array([1.0, 0, 2, 0, 0, 0, 0, 0])


MASSES = (3.0, 1.0, G)


def fixed(make: Callable[[], tuple[Equations, Array]], values: tuple[float, ...]) -> tuple[Equations, Array]:
    """A model with its parameters replaced by numbers."""
    model, start = make()
    assert isinstance(model, Mechanics)
    parts = (model.mass, model.potential, model.g)
    mass, potential, g = (ca.substitute(part, model.parameters, SX(ca.DM(values))) for part in parts)
    return Mechanics(model.q, model.v, mass, potential, g), start


def chain(n: int) -> tuple[Equations, Array]:
    q, v = symbols(2 * n)
    points = ca.vertcat(SX(1, 2), ca.reshape(q, 2, n).T)
    links = points[1:, :] - points[:-1, :]
    start = np.zeros((n, 2))
    start[:, 0] = np.arange(1, n + 1)
    model = Mechanics(q, v, SX.eye(2 * n), G * ca.sum1(q[1::2]), links[:, 0] ** 2 + links[:, 1] ** 2 - 1)
    return model, np.concatenate([start.ravel(), np.zeros(2 * n)])


def four_particles() -> tuple[Equations, Array]:
    q, v = symbols(12)
    p = [q[3 * i : 3 * i + 3] for i in range(4)]
    potential = 25 * (ca.sumsqr(p[2] - p[0]) - 1) ** 2 + 250 * (ca.sumsqr(p[3] - p[1]) - 1) ** 2
    g = ca.vertcat(ca.sumsqr(p[1] - p[0]) - 1, ca.sumsqr(p[3] - p[2]) - 1)
    mass = ca.diag(SX(ca.DM(np.repeat([1.0, 3.0, 2.3, 1.7], 3))))
    start = np.zeros(24)
    start[[3, 7, 9, 10]] = 1.0
    start[23] = 2 / 1.7
    return Mechanics(q, v, mass, potential, g), start


def rolling_disk() -> tuple[Equations, Array]:
    q, v = symbols(4)
    A = ca.vertcat(ca.horzcat(1, 0, 0, -0.25 * ca.cos(q[2])), ca.horzcat(0, 1, 0, -0.25 * ca.sin(q[2])))
    return Mechanics(q, v, SX.eye(4), SX(0.0), A=ca.sparsify(A)), np.array([0, 0, 0, 0, 0.25, 0, 2, 1.0])


def sleigh() -> tuple[Equations, Array]:
    q, v = symbols(3)
    s, c = ca.sin(q[2]), ca.cos(q[2])
    mass = ca.sparsify(ca.vertcat(ca.horzcat(1, 0, -s), ca.horzcat(0, 1, c), ca.horzcat(-s, c, 2)))
    A = ca.sparsify(ca.horzcat(-s, c, 0))
    return Mechanics(q, v, mass, 0.1 * (q[1] + s), A=A), np.array([1.0, 0, 0, 0, 0, 0])


def slider_crank() -> tuple[Equations, Array]:
    """A crank pin on a circle of radius 1, a rod of length 2, a slider on the x-axis; x1, y1, x2."""
    q, v = symbols(3)
    g = ca.vertcat(q[0] ** 2 + q[1] ** 2 - 1, (q[2] - q[0]) ** 2 + q[1] ** 2 - 4)
    mass = ca.diag(SX(ca.DM([2.0, 2.0, 1.0])))
    return Mechanics(q, v, mass, 2 * G * q[1], g), np.array([0, 1.0, np.sqrt(3.0), 3.0, 0, 3.0])


def slider_crank_system() -> System:
    return da.Mechanical(
        ("x1", "y1", "x2"), mass=[2.0, 2.0, 1.0], potential=lambda q: 2 * G * q[1],
        holonomic=lambda q: [q[0] ** 2 + q[1] ** 2 - 1, (q[2] - q[0]) ** 2 + q[1] ** 2 - 4], name="slider-crank",
        initial={"q": [0.0, 1.0, np.sqrt(3.0)], "v": [3.0, 0.0, 3.0]},
    )  # fmt: skip


STIFFNESS = 1e6


def stiff_springs() -> tuple[Equations, Array]:
    """A mass on a rod, and two more in a row on stiff springs."""
    q, v = symbols(6)
    p = [q[2 * i : 2 * i + 2] for i in range(3)]
    springs = sum(((ca.norm_2(b - a) - 1) ** 2 for a, b in ((p[0], p[1]), (p[1], p[2]))), SX(0.0))
    model = Mechanics(q, v, SX.eye(6), G * (q[1] + q[3] + q[5]) + STIFFNESS / 2 * springs, ca.sumsqr(p[0]) - 1)
    return model, np.array([1.0, 0, 2, 0, 3, 0, 0, 0, 0, 0, 0, 0])


def stiff_springs_system() -> System:
    def springs(q: Array) -> object:
        return sum((np.sqrt((q[i + 2] - q[i]) ** 2 + (q[i + 3] - q[i + 1]) ** 2) - 1) ** 2 for i in (0, 2))

    return da.Mechanical(
        ("x1", "y1", "x2", "y2", "x3", "y3"), mass=1.0, dimension=2,
        potential=lambda q: G * (q[1] + q[3] + q[5]) + STIFFNESS / 2 * springs(q),
        holonomic=lambda q: q[0] ** 2 + q[1] ** 2 - 1, name="stiff springs",
        initial={"q": [1.0, 0.0, 2.0, 0.0, 3.0, 0.0], "v": [0.0] * 6},
    )  # fmt: skip


SECTIONS = 10


def ladder() -> tuple[Equations, Array]:
    """Currents of the inductors, then voltages of the capacitors, of a ladder switched to 1 V."""
    n, R, L, C = SECTIONS, 1.0, 0.5, 0.2
    down = np.eye(n) - np.eye(n, k=-1)
    A = np.block([[-R / L * np.eye(n), -down / L], [down.T / C, np.zeros((n, n))]])
    b = np.zeros(2 * n)
    b[0] = 1 / L
    return Linear(A, b, np.diag(np.repeat([L, C], n))), np.zeros(2 * n)


def in_angles(masses: Sequence[float | SX], gravity: float | SX = G) -> tuple[Explicit, Array]:
    """Pendulum of several masses on rods of length 1, by the angles of the rods from the x-axis, written out by hand."""
    n = len(masses)
    a, w = symbols(n)
    below = [sum(masses[i:]) for i in range(n)]  # what hangs on each rod
    mass, force = SX(n, n), SX(n, 1)
    for i in range(n):
        force[i] = -gravity * below[i] * ca.cos(a[i])
        mass[i, i] = below[i]
        for j in range(i):
            c, s = below[i] * ca.cos(a[i] - a[j]), below[i] * ca.sin(a[i] - a[j])
            mass[i, j] = mass[j, i] = c
            force[i] -= s * w[j] ** 2
            force[j] += s * w[i] ** 2
    x, y = ca.cumsum(ca.cos(a)), ca.cumsum(ca.sin(a))
    q = ca.vec(ca.horzcat(x, y).T)
    return explicit(a, w, solve(mass, force), q), np.zeros(2 * n)


def explicit(s: SX, w: SX, acceleration: SX, q: SX) -> Explicit:
    """Minimal coordinates with the map to those of the problem."""
    return Explicit(ca.vertcat(s, w), ca.vertcat(w, acceleration), ca.vertcat(q, ca.jtimes(q, s, w)))


def particles_by_hand() -> tuple[Explicit, Array]:
    """Cartesian coordinates, each multiplier in closed form: no particle is on both rods."""
    q, v = symbols(12)
    m = (1.0, 3.0, 2.3, 1.7)
    p, w = ([x[3 * i : 3 * i + 3] for i in range(4)] for x in (q, v))
    force = [SX(3, 1)] * 4
    for a, b, K in ((0, 2, 100.0), (1, 3, 1000.0)):
        pull = K * (ca.sumsqr(p[b] - p[a]) - 1) * (p[b] - p[a])
        force[a], force[b] = force[a] + pull, force[b] - pull
    free = [force[i] / m[i] for i in range(4)]
    for a, b in ((0, 1), (2, 3)):
        d = p[b] - p[a]
        lam = (ca.sumsqr(w[b] - w[a]) + ca.dot(d, free[b] - free[a])) / (ca.sumsqr(d) * (1 / m[a] + 1 / m[b]))
        free[a], free[b] = free[a] + lam / m[a] * d, free[b] - lam / m[b] * d
    y = ca.vertcat(q, v)
    return Explicit(y, ca.vertcat(v, *free), y), four_particles()[1]


def disk_reduced() -> tuple[Explicit, Array]:
    """x, y, phi, theta and the two rates that are free: both are constant."""
    y = SX.sym("y", 6)
    v = ca.vertcat(0.25 * ca.cos(y[2]) * y[5], 0.25 * ca.sin(y[2]) * y[5], y[4], y[5])
    return Explicit(y, ca.vertcat(v, 0, 0), ca.vertcat(y[:4], v)), np.array([0, 0, 0, 0, 2.0, 1.0])


def sleigh_reduced() -> tuple[Explicit, Array]:
    """x, y, theta, the speed along the blade and the rate of turning."""
    y = SX.sym("y", 5)
    s, c, u, w = ca.sin(y[2]), ca.cos(y[2]), y[3], y[4]
    v = ca.vertcat(u * c, u * s, w)
    rates = ca.vertcat(w**2 - 0.1 * s, -(u * w + 0.1 * c) / 2)
    return Explicit(y, ca.vertcat(v, rates), ca.vertcat(y[:3], v)), np.array([1.0, 0, 0, 0, 0])


def crank_angle() -> tuple[Explicit, Array]:
    """The angle of the crank alone."""
    a, w = symbols(1)
    q = ca.vertcat(ca.cos(a), ca.sin(a), ca.cos(a) + ca.sqrt(4 - ca.sin(a) ** 2))
    slope = ca.jacobian(q, a)
    model = Mechanics(a, w, 2 + slope[2] ** 2, 2 * G * q[1])
    return explicit(a, w, solve(model.mass, model.force), q), np.array([np.pi / 2, -3.0])


def springs_with_angle() -> tuple[Explicit, Array]:
    """The angle of the rod, and the free masses as they are."""
    s, w = symbols(5)
    full, _ = stiff_springs()
    assert isinstance(full, Mechanics)
    q = ca.vertcat(ca.cos(s[0]), ca.sin(s[0]), s[1:])
    model = Mechanics(s, w, SX.eye(5), ca.substitute(full.potential, full.q, q))
    return explicit(s, w, model.force, q), np.array([0.0, 2, 0, 3, 0, 0, 0, 0, 0, 0])


PROBLEMS = {
    p.name: p
    for p in (
        Problem(
            "simple", "simple pendulum", pendulum, da.catalog.simple_pendulum, 100.0, 200, 10.0, (1e-3, 1e-6, 1e-9),
            minimal=partial(in_angles, (1.0,)),
        ),
        Problem(
            "double", "double pendulum", partial(fixed, double_pendulum, MASSES), da.catalog.double_pendulum, 240.0, 480, 5.0,
            (5e-3, 4.9e-5, 4.9e-8, 4.9e-11), minimal=partial(in_angles, (3.0, 1.0)),
        ),
        Problem(
            "chain", "pendulum of 5 links", partial(chain, 5), partial(da.catalog.chain, 5), 20.0, 80, 1.0, (1e-2, 1e-5, 1e-8),
            minimal=partial(in_angles, (1.0,) * 5),
        ),
        Problem(
            "four", "four particles", four_particles, da.catalog.four_particles, 1000.0, 1000, 5.0, (5e-3, 1.2e-6, 1.2e-9, 2e-11),
            minimal=particles_by_hand,
        ),
        Problem(
            "disk", "rolling disk", rolling_disk, da.catalog.rolling_disk, 100.0, 100, 100.0, (1e-4, 1e-7, 1e-10),
            "nonholonomic", disk_reduced,
        ),
        Problem(
            "sleigh", "Chaplygin sleigh", sleigh, da.catalog.chaplygin_sleigh, 50.0, 100, 20.0, (1e-4, 1e-7, 1e-10),
            "nonholonomic", sleigh_reduced,
        ),
        Problem(
            "crank", "slider-crank", slider_crank, slider_crank_system, 50.0, 100, 5.0, (1e-3, 1e-6, 1e-9), minimal=crank_angle,
        ),
        Problem(
            "stiff", "stiff springs", stiff_springs, stiff_springs_system, 10.0, 100, 1.0, (1e-2, 1e-4, 1e-6), "stiff",
            springs_with_angle,
        ),
        Problem(
            "network", "RLC network", ladder, partial(da.catalog.rlc_ladder, SECTIONS), 20.0, 100, 20.0, (1e-4, 1e-7, 1e-10),
            "network",
        ),
    )
}  # fmt: skip
