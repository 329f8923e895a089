"""Systems with nonholonomic constraints, and exact solutions of some of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from dalembert.catalog.symbols import Array, Expression, Matrix, Symbols, Vector
from dalembert.checking import declared, positive, reals
from dalembert.errors import ModelError
from dalembert.systems import SI, Mechanical, Picture


@declared(ModelError)
def rolling_disk(m: float = 1.0, J: float = 1.0, I: float = 1.0, R: float = 0.25) -> Mechanical:
    """A vertical disk that rolls on a plane without slipping (Hilden 2009, sec. 1.3.5); `rolling_disk_solution` is exact."""

    def wheel(q: Symbols, R: Symbols) -> Matrix:
        """The rim, the centre, and the point of contact."""
        heading = (np.cos(q[2]), np.sin(q[2]))
        rim: list[list[Expression]] = []
        for k in range(24):
            a = 2 * np.pi * k / 24 - q[3] - np.pi / 2
            rim.append([q[0] + R * np.cos(a) * heading[0], q[1] + R * np.cos(a) * heading[1], R + R * np.sin(a)])
        return [*rim, [q[0], q[1], R], [q[0], q[1], 0.0]]

    return Mechanical(
        ("x", "y", "phi", "theta"),
        mass=lambda m, J, I: [m, m, J, I],
        nonholonomic=lambda q, v, R: [v[0] - R * np.cos(q[2]) * v[3], v[1] - R * np.sin(q[2]) * v[3]],
        parameters={"m": m, "J": J, "I": I, "R": R},
        name="rolling disk",
        initial={"q": [0.0, 0.0, 0.0, 0.0], "v": [R, 0.0, 2.0, 1.0]},
        picture=Picture(
            wheel, links=((24, 0), (24, 12)), bodies=(range(24),), trails=(25, 0), units=SI | {"phi": "rad", "theta": "rad"}
        ),
    )


@declared(ModelError)
def falling_disk(m: float = 1.0, R: float = 0.25, axial: float = 0.5, diametral: float = 0.25, g: float = 9.81) -> Mechanical:
    """A disk that rolls on a plane without slipping and may fall over (named in Hilden 2009, sec. 1.1.2).

    `x`, `y` is the point of contact, `phi` the heading, `theta` the lean from the vertical, `psi` the angle of rolling. The
    inertias about the axis and about a diameter are `axial` and `diametral` times `m R^2`. Upright, it rolls stably where
    `psi'^2 > diametral g / (axial (axial + 1) R)`: `g / (3 R)` for a uniform disk.
    """

    def mass(q: Symbols, m: Symbols, R: Symbols, axial: Symbols, diametral: Symbols) -> Matrix:
        """By the velocity of the centre and the angular velocity, along three axes each."""
        heading, lean = (np.cos(q[2]), np.sin(q[2])), (np.cos(q[3]), np.sin(q[3]))
        rows: list[tuple[Expression, list[Expression]]] = [
            (m, [1.0, 0.0, -R * lean[1] * heading[0], -R * lean[0] * heading[1], 0.0]),
            (m, [0.0, 1.0, -R * lean[1] * heading[1], R * lean[0] * heading[0], 0.0]),
            (m * R**2, [0.0, 0.0, 0.0, lean[1], 0.0]),
            (diametral * m * R**2, [0.0, 0.0, 0.0, 1.0, 0.0]),
            (diametral * m * R**2, [0.0, 0.0, lean[0], 0.0, 0.0]),
            (axial * m * R**2, [0.0, 0.0, -lean[1], 0.0, 1.0]),
        ]
        return [[sum(k * r[i] * r[j] for k, r in rows) for j in range(5)] for i in range(5)]

    def wheel(q: Symbols, R: Symbols) -> Matrix:
        """24 points of the rim, the centre, and the point of contact."""
        up = [-np.sin(q[3]) * np.sin(q[2]), np.sin(q[3]) * np.cos(q[2]), np.cos(q[3])]
        ahead, contact = [np.cos(q[2]), np.sin(q[2]), 0.0], [q[0], q[1], 0.0]
        centre = [c + R * u for c, u in zip(contact, up, strict=True)]
        angles = (q[4] + 2 * np.pi * k / 24 for k in range(24))
        rim = [[c + R * (np.sin(a) * f + np.cos(a) * u) for c, f, u in zip(centre, ahead, up, strict=True)] for a in angles]
        return [*rim, centre, contact]

    return Mechanical(
        ("x", "y", "phi", "theta", "psi"),
        mass=mass,
        potential=lambda q, m, R, g: m * g * R * np.cos(q[3]),
        nonholonomic=lambda q, v, R: [v[0] - R * np.cos(q[2]) * v[4], v[1] - R * np.sin(q[2]) * v[4]],
        parameters={"m": m, "R": R, "axial": axial, "diametral": diametral, "g": g},
        name="falling disk",
        initial={"q": [0.0, 0.0, 0.0, 0.2, 0.0], "v": [5.0 * R, 0.0, 0.0, 0.0, 5.0]},
        picture=Picture(
            wheel, links=((24, 0), (24, 12)), bodies=(range(24),), trails=(25,),
            units=SI | {"phi": "rad", "theta": "rad", "psi": "rad"},
        ),
    )  # fmt: skip


@declared(ModelError)
def rolling_disk_solution(
    t: ArrayLike,
    q: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0),
    omega: float = 2.0,
    Omega: float = 1.0,
    R: float = 0.25,
) -> Array:
    """Positions of the rolling disk with `phi' = omega`, `theta' = Omega`: the contact point goes round a circle."""
    t = np.asarray(t, dtype=float)
    x, y, phi, theta = q
    r = Omega * R / omega
    return np.stack(
        [
            r * (np.sin(omega * t + phi) - np.sin(phi)) + x,
            -r * (np.cos(omega * t + phi) - np.cos(phi)) + y,
            omega * t + phi,
            Omega * t + theta,
        ],
        axis=-1,
    )


@declared(ModelError)
def chaplygin_sleigh(m: float = 1.0, a: float = 1.0, I: float = 1.0, g: float = 0.1) -> Mechanical:
    """A sleigh on a knife edge, its centre of mass `a` ahead of it, on an incline along y (Hilden 2009, sec. 4.2)."""

    def mass(q: Symbols, m: Symbols, a: Symbols, I: Symbols) -> Matrix:
        s, c = np.sin(q[2]), np.cos(q[2])
        return [[m, 0.0, -m * a * s], [0.0, m, m * a * c], [-m * a * s, m * a * c, I + m * a**2]]

    return Mechanical(
        ("x", "y", "theta"),
        mass=mass,
        potential=lambda q, m, a, g: m * g * (q[1] + a * np.sin(q[2])),
        nonholonomic=lambda q, v: v[1] * np.cos(q[2]) - v[0] * np.sin(q[2]),
        parameters={"m": m, "a": a, "I": I, "g": g},
        name="Chaplygin sleigh",
        initial={"q": [1.0, 0.0, 0.0], "v": [0.0, 0.0, 0.0]},
        picture=Picture(
            lambda q, a: [
                [q[0], q[1]],
                [q[0] + a * np.cos(q[2]), q[1] + a * np.sin(q[2])],
                [q[0] - 0.3 * a * np.sin(q[2]), q[1] + 0.3 * a * np.cos(q[2])],
                [q[0] + 0.3 * a * np.sin(q[2]), q[1] - 0.3 * a * np.cos(q[2])],
            ],
            bodies=((1, 2, 3),),
            masses=(1,),
            trails=(0,),
        ),
    )


@declared(ModelError)
def contact_oscillator(eps: float = 0.0) -> Mechanical:
    """An oscillator with `x' + y z' = 0`, perturbed by `eps x^2 z^2 / 2` (McLachlan, Perlmutter 2006; Hilden 2009, sec. 4.3)."""
    return Mechanical(
        ("x", "y", "z"),
        mass=1.0,
        potential=lambda q, eps: (np.dot(q, q) + eps * q[0] ** 2 * q[2] ** 2) / 2,
        nonholonomic=lambda q, v: v[0] + q[1] * v[2],
        parameters={"eps": eps},
        name="contact oscillator",
        initial={"q": contact_start(-0.9 * np.sqrt(2), eps=eps)[0], "v": [0.0, 0.0, 0.0]},
        picture=Picture(lambda q: [[q[0], q[1], q[2]]], masses=(0,), trails=(0,)),
    )


@declared(ModelError)
def contact_start(z0: ArrayLike, b: float = 1.0, energy: float = 1.5, vz: float = 0.0, eps: float = 0.0) -> tuple[Array, Array]:
    """Consistent values with `y = b`, `y' = 0`, given `z` and energy (Hilden 2009, eqs. 4.8, 4.13, there for b = 1)."""
    z0 = reals("z0", z0, ModelError)
    left, stiffness = 2 * energy - (1 + b**2) * vz**2 - z0**2 - b**2, 1 + eps * z0**2
    if not (left * stiffness >= 0).all() or (stiffness == 0).any():
        raise ModelError(f"no x belongs to energy = {energy:g}, b = {b:g}, vz = {vz:g}, eps = {eps:g} at these z0")
    x0 = np.sqrt(left / stiffness)
    one = np.ones_like(z0)
    return np.stack([x0, b * one, z0], axis=-1), np.stack([-b * vz * one, 0 * one, vz * one], axis=-1)


@declared(ModelError)
def nonholonomic_particle() -> Mechanical:
    """A particle in space with `z' = y x'` in the potential `x^2 + y^2` (Cortes, Martinez 2001)."""
    return Mechanical(
        ("x", "y", "z"),
        mass=1.0,
        potential=lambda q: q[0] ** 2 + q[1] ** 2,
        nonholonomic=lambda q, v: v[2] - q[1] * v[0],
        dimension=3,
        name="nonholonomic particle",
        initial={"q": [1.0, 0.0, 0.0], "v": [0.0, 1.0, 0.0]},
        picture=Picture(lambda q: [[q[0], q[1], q[2]]], masses=(0,), trails=(0,)),
    )


@declared(ModelError)
def perlmutter_particles(n: int = 2) -> Mechanical:
    """Oscillators `(x, y_1..n, z_1..n)` with `x' + y . z' = 0` and a cubic coupling (after McLachlan, Perlmutter 2006)."""

    def potential(q: Symbols) -> object:
        y, z = q[1 : n + 1], q[n + 1 :]
        return (np.dot(q, q) + z[0] ** 2 * z[-1] ** 2 + np.sum(y**2 * z**2)) / 2

    start = np.concatenate([[1.0], np.linspace(0.5, 1.0, n), np.linspace(-0.5, 0.5, n)])
    return Mechanical(
        ("x", *(f"y{i}" for i in range(1, n + 1)), *(f"z{i}" for i in range(1, n + 1))),
        mass=1.0,
        potential=potential,
        nonholonomic=lambda q, v: v[0] + np.dot(q[1 : n + 1], v[n + 1 :]),
        name="Perlmutter's particles",
        initial={"q": start, "v": np.zeros(2 * n + 1)},
    )


@declared(ModelError)
def knife_edge(m: float = 1.0, J: float = 1.0, g: float = 9.81, slope: float = 0.2) -> Mechanical:
    """A skate on an incline that falls along x. It moves sideways along a cycloid; `knife_edge_solution` is exact."""
    return Mechanical(
        ("x", "y", "phi"),
        mass=lambda m, J: [m, m, J],
        potential=lambda q, m, g, slope: -m * g * np.sin(slope) * q[0],
        nonholonomic=lambda q, v: v[0] * np.sin(q[2]) - v[1] * np.cos(q[2]),
        parameters={"m": m, "J": J, "g": g, "slope": slope},
        name="knife edge on an incline",
        initial={"q": [0.0, 0.0, 0.0], "v": [0.0, 0.0, 1.0]},
        picture=Picture(
            lambda q: [
                [q[0] - 0.1 * np.cos(q[2]), q[1] - 0.1 * np.sin(q[2])],
                [q[0] + 0.1 * np.cos(q[2]), q[1] + 0.1 * np.sin(q[2])],
                [q[0], q[1]],
            ],
            links=((0, 1),),
            trails=(2,),
            units=SI | {"phi": "rad"},
        ),
    )


@declared(ModelError)
def knife_edge_solution(t: ArrayLike, omega: float = 1.0, g: float = 9.81, slope: float = 0.2) -> Array:
    """The cycloid that a knife edge draws, started at the origin at rest but turning with `omega` (Bloch 2003, sec. 1.6)."""
    t = np.asarray(t, dtype=float)
    c = g * np.sin(slope) / (2 * omega**2)
    return np.stack([c * np.sin(omega * t) ** 2, c * (omega * t - np.sin(2 * omega * t) / 2), omega * t], axis=-1)


@declared(ModelError)
def ball_on_turntable(m: float = 1.0, r: float = 0.1, Omega: float = 2.0) -> Mechanical:
    """A homogeneous ball that rolls on a turning table, an affine constraint; its centre goes round a circle.

    The last three velocities are the angular velocity in space; their coordinates are its integrals and have no other meaning.
    """
    positive("the radius r", r, ModelError)
    return Mechanical(
        ("x", "y", "a", "b", "c"),
        mass=lambda m, r: [m, m, 2 / 5 * m * r**2, 2 / 5 * m * r**2, 2 / 5 * m * r**2],
        nonholonomic=lambda q, v, r, Omega: [v[0] - r * v[3] + Omega * q[1], v[1] + r * v[2] - Omega * q[0]],
        parameters={"m": m, "r": r, "Omega": Omega},
        name="ball on a turntable",
        # at (0.5, 0) with velocity (0, 0.3)
        initial={"q": [0.5, 0.0, 0.0, 0.0, 0.0], "v": [0.0, 0.3, (Omega * 0.5 - 0.3) / r, 0.0, 0.0]},
        picture=Picture(lambda q: [[q[0], q[1]]], masses=(0,), trails=(0,), units=SI),
    )


@declared(ModelError)
def ball_on_turntable_solution(
    t: ArrayLike, q: tuple[float, float] = (0.5, 0.0), v: tuple[float, float] = (0.0, 0.3), Omega: float = 2.0
) -> Array:
    """The centre of the ball: the velocity turns with 2/7 of the table's rate (Earnshaw 1844)."""
    t, a = np.asarray(t, dtype=float), 2 / 7 * Omega
    s, c = np.sin(a * t) / a, (1 - np.cos(a * t)) / a
    return np.stack([q[0] + s * v[0] - c * v[1], q[1] + c * v[0] + s * v[1]], axis=-1)


@declared(ModelError)
def snakeboard(m: float = 6.0, J: float = 0.016, J0: float = 0.16, J1: float = 0.0013, r: float = 0.2) -> Mechanical:
    """A snakeboard: rotor angle psi, wheels turned by +phi and -phi, torques on both as inputs (Ostrowski 1995)."""

    def mass(m: Symbols, J: Symbols, J0: Symbols, J1: Symbols) -> Matrix:
        return [
            [m, 0, 0, 0, 0],
            [0, m, 0, 0, 0],
            [0, 0, J + J0 + 2 * J1, J0, 0],
            [0, 0, J0, J0, 0],
            [0, 0, 0, 0, 2 * J1],
        ]

    def wheels(q: Symbols, v: Symbols, r: Symbols) -> Vector:
        front, back = q[2] + q[4], q[2] - q[4]
        return [
            -np.sin(front) * v[0] + np.cos(front) * v[1] + r * np.cos(q[4]) * v[2],
            -np.sin(back) * v[0] + np.cos(back) * v[1] - r * np.cos(q[4]) * v[2],
        ]

    return Mechanical(
        ("x", "y", "theta", "psi", "phi"),
        mass=mass,
        nonholonomic=wheels,
        inputs=[[0, 0], [0, 0], [0, 0], [1, 0], [0, 1]],
        parameters={"m": m, "J": J, "J0": J0, "J1": J1, "r": r},
        name="snakeboard",
        initial={"q": [0.0, 0.0, 0.0, 0.0, 0.3], "v": [0.0, 0.0, 0.0, 0.0, 0.0]},
        picture=Picture(
            lambda q, r: [
                [q[0] - r * np.cos(q[2]), q[1] - r * np.sin(q[2])],
                [q[0] + r * np.cos(q[2]), q[1] + r * np.sin(q[2])],
                [q[0], q[1]],
            ],
            links=((0, 1),),
            masses=(0, 1),
            trails=(2,),
            units=SI | {"theta": "rad", "psi": "rad", "phi": "rad"},
        ),
    )


@declared(ModelError)
def cart_with_pendulum(m: float = 1.0, J: float = 0.1, bob: float = 0.4, l: float = 0.8, g: float = 9.81) -> Mechanical:
    """A two-wheeled cart that cannot slip sideways, with a spherical pendulum below it: both kinds of constraints at once."""
    return Mechanical(
        ("x", "y", "theta", "bx", "by", "bz"),
        mass=lambda m, J, bob: [m, m, J, bob, bob, bob],
        potential=lambda q, bob, g: bob * g * q[5],
        holonomic=lambda q, l: (q[3] - q[0]) ** 2 + (q[4] - q[1]) ** 2 + q[5] ** 2 - l**2,
        nonholonomic=lambda q, v: v[1] * np.cos(q[2]) - v[0] * np.sin(q[2]),
        parameters={"m": m, "J": J, "bob": bob, "l": l, "g": g},
        name="cart with pendulum",
        initial={"q": [0.0, 0.0, 0.0, 0.6 * l, 0.0, -0.8 * l], "v": [0.5, 0.0, 0.8, 0.5, 1.0, 0.0]},
        picture=Picture(
            lambda q: [[q[0], q[1], 0.0], [q[3], q[4], q[5]]], links=((0, 1),), masses=(0, 1), trails=(0, 1), units=SI
        ),
    )
