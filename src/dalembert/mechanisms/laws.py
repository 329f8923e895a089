"""What is between bodies, as functions of their frames: constraints, energies, damping and inputs."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field

import casadi as ca
import numpy as np
from casadi import SX

from dalembert.errors import ModelError
from dalembert.mechanisms import forces, joints
from dalembert.mechanisms.frames import Frame
from dalembert.mechanisms.rotations import Array

Frames = Sequence[Frame]
Data = Mapping[str, SX]
Numbers = Mapping[str, Array | str]


@dataclass(frozen=True)
class Law:
    """A function of frames and data; laws are the same where their keys are.

    `function(frames, held, data, t)`: what is differentiated depends on `frames`; `held` are the same frames, not
    differentiated.
    """

    key: Hashable
    function: Callable[[Frames, Frames, Data, SX], SX] = field(compare=False)


@dataclass(frozen=True, eq=False)
class Term:
    """Something between bodies.

    By its role the law gives: `"holonomic"` constraints; `"potential"` an energy; `"dissipation"` rows `(x, c)` with the power
    `c x'^2`, or `(x, c, d, s)` with that of dry friction beside it, `d tanh(x' / s) x'`; `"inertia"` rows `(x, i)` with the
    energy `i x'^2 / 2`; `"input"` an `x`, so that the input has the power `u x'`; `"nonholonomic"` an `x` with `x' = 0`;
    `"friction"` `(x, grip, speed)`, see `rubbing`; `"contact"`, `"slip"` and `"stored"` holonomic and nonholonomic constraints
    and energies with auxiliary variables, points of contact and counted angles, see `points`. `data` are numbers, or names of
    parameters.
    """

    name: str
    role: str
    bodies: tuple[str, ...]
    law: Law
    data: Mapping[str, Array | str]
    rows: tuple[int, ...] | None = None
    joint: str = ""  # whose force friction depends on
    counts: tuple[tuple[str, str], ...] = ()  # angles of joints, (joint, freedom), that it needs over all turns


class Parameters:
    """Parameters of a mechanism by name: `mass_rod`, `stiffness_leaf`, `gravity`."""

    def __init__(self, given: Mapping[str, float]) -> None:
        self.values: dict[str, Array] = {k: np.asarray(x) for k, x in given.items()}

    def add(self, quantity: str, owner: str, value: float | Array) -> str:
        """The name of a new parameter."""
        name = f"{quantity}_{re.sub(r'[^0-9A-Za-z_]', '_', owner)}" if owner else quantity
        if name in self.values:
            raise ModelError(f"two parameters would be called {name!r}; give {owner or quantity!r} another name")
        self.values[name] = np.asarray(value, dtype=float)
        return name


def coefficients(rows: SX, rates: SX) -> SX:
    """What the rates are multiplied by in the forces of rows `(x, c)` or `(x, c, d, s)`: `c`, with `d tanh(x' / s) / x'`."""
    if rows.size2() < 4:
        return rows[:, 1]
    y = rates / rows[:, 3]
    slow = ca.fabs(y) < 1e-4  # where the next term of the series is below round-off
    return rows[:, 1] + rows[:, 2] / rows[:, 3] * ca.if_else(slow, 1 - y**2 / 3, ca.tanh(y) / ca.if_else(slow, 1, y))


def resistance(rows: SX, slopes: SX, v: SX) -> SX:
    """The Rayleigh matrix of rows `(x, c)` or `(x, c, d, s)`, with the slopes of `x` by the velocities."""
    return slopes.T @ ca.diag(coefficients(rows, slopes @ v if rows.size2() == 4 else SX(0, 1))) @ slopes


def marked(frame: Frame, data: Data, which: str) -> Frame:
    """The frame of a joint on one of its bodies."""
    return frame.placed(data[f"point_{which}"], data[f"axes_{which}"])


def places(joint: joints.Joint | forces.Spring | forces.Bushing, end: str = "") -> dict[str, Array | str]:
    """The data of the two markers."""
    out: dict[str, Array | str] = {}
    for which, marker in (("a", joint.on_a), ("b", joint.on_b)):
        out |= {f"point_{which}{end}": marker.point, f"axes_{which}{end}": marker.axes}
    return out
