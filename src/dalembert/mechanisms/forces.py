"""Springs, dampers, friction, motors and prescribed motions: what acts in a mechanism, as data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dalembert.mechanisms.frames import Marker
from dalembert.mechanisms.rotations import Array


@dataclass(frozen=True, eq=False)
class Spring:
    """Between two points: `V = k (l - l0)^2 / 2`, and a damper with the force `d l'` along the line."""

    name: str
    a: str
    b: str
    on_a: Marker
    on_b: Marker
    stiffness: float
    length: float
    damping: float


@dataclass(frozen=True, eq=False)
class TorsionSpring:
    """On a freedom `x` of a joint, an angle or a displacement: `V = k (x - x0)^2 / 2`, and a damper `d x'`.

    With `turns`, an angle is counted over all turns in any coordinates.
    """

    name: str
    joint: str
    freedom: str
    stiffness: float
    rest: float
    damping: float
    turns: bool = False


@dataclass(frozen=True, eq=False)
class Bushing:
    """An elastic joint of two frames: stiffnesses along and about the axes of `a`, and damping likewise.

    With the shift `d` of the origins in the axes of `a` and the small rotation `phi`, `V = d^T K d / 2 + phi^T C phi / 2`; for
    large rotations `phi_i` is the sine-like vector of the skew part of `A^T B`.
    """

    name: str
    a: str
    b: str
    on_a: Marker
    on_b: Marker
    stiffness: Array
    torsion: Array
    damping: Array
    torsion_damping: Array


@dataclass(frozen=True, eq=False)
class Friction:
    """In a joint: `viscous` times the rate, `dry` friction, and `coulomb` times the normal force that the joint itself carries.

    The normal force is the length of the constraint force across the freedom; a revolute joint has its friction torque at
    `radius`. `dry` is a force or torque that does not depend on the load. `speed` is the rate below which dry and Coulomb
    friction are regularised: `tanh(rate / speed)`.
    """

    name: str
    joint: str
    freedom: str
    viscous: float
    coulomb: float
    radius: float
    speed: float
    dry: float = 0.0


@dataclass(frozen=True, eq=False)
class Rotor:
    """What turns with a freedom `x` of a joint beside its bodies, behind a gear say: `T = inertia x'^2 / 2`."""

    name: str
    joint: str
    freedom: str
    inertia: float


@dataclass(frozen=True, eq=False)
class Motor:
    """A named input: the force along a freedom of a joint, or the torque about it. Its power is the input times the rate."""

    name: str
    joint: str
    freedom: str


@dataclass(frozen=True, eq=False)
class Force:
    """A named input: a force at a point of a body, along a direction of the world or of the body; or a torque."""

    name: str
    body: str
    point: Array
    direction: Array
    follows: bool
    torque: bool


@dataclass(frozen=True, eq=False)
class Motion:
    """A prescribed motion: a freedom of a joint is a function of `t` and of parameters of the mechanism."""

    name: str
    joint: str
    freedom: str
    function: Callable[..., object]


@dataclass(frozen=True, eq=False)
class Sensor:
    """A named output: what is measured (`"position"`, `"velocity"`, `"acceleration"` of a point, or `"distance"` of two)."""

    name: str
    measures: str
    body: str
    point: Array
    other: str | None = None
    other_point: Array | None = None


Part = Spring | TorsionSpring | Bushing | Friction | Rotor | Motor | Force | Motion
