"""Contacts: a gap `g(q, t) >= 0` that closes with an impact, and may then hold as a constraint.

At an impact velocities jump along `M^-1 G_c^T` so that the normal velocity `G_c v + g_t` is reversed, times the restitution
(Newton's law), and so that the constraints of the system hold:

    M (v+ - v-) = G_c^T J - G^T Lam,    G_c v+ + g_t = -e (G_c v- + g_t),    G v+ = G v-.

Simultaneous contacts strike one after another, the fastest first, until none closes. A contact that holds is a holonomic
constraint; it releases where its multiplier `lam`, the force with which it pulls, exceeds its strength.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dalembert.checking import flag, number, shown
from dalembert.engine.events import Event
from dalembert.errors import MethodError, strict, suggesting

Array = NDArray[np.float64]
Gap = Callable[..., object]


@strict
@dataclass(frozen=True)
class Contact(Event):
    """A gap that closes; made by `da.impact`, `da.stop` or `da.latch`."""

    restitution: float = 1.0
    rest: bool = False  # whether it holds where bounces come to an end
    catches: bool = False  # whether it holds from its first closing on
    strength: float = 0.0  # the force with which it can pull
    friction: float = 0.0  # the tangential impulse is at most this times the normal one
    slip: Callable[..., object] | None = None  # what changes where the contact slips

    def __post_init__(self) -> None:
        super().__post_init__()
        e = number("restitution", self.restitution)
        if not 0 <= e <= 1:
            raise MethodError(f"restitution must lie between 0 (no rebound) and 1 (elastic), not {e:g}")
        flag("rest", self.rest)
        if number("friction", self.friction) < 0:
            raise MethodError(f"friction is a coefficient, at least 0, not {self.friction:g}")
        if self.slip is not None and not callable(self.slip):
            raise MethodError(f"slip is a function of q and t whose rate is the velocity of slipping, not {shown(self.slip)}")
        if (self.friction > 0) != (self.slip is not None):
            raise MethodError(
                "friction and slip belong together: friction=0.3, slip=lambda q: q[0] (its rate is the velocity of slipping)"
            )
        if not isinstance(self.strength, (int, float)) or not self.strength >= 0:
            raise MethodError(f"strength is a force, at least 0 (infinite: it never lets go), not {self.strength!r}")

    @property
    def acts(self) -> bool:
        return True

    @cached_property
    def holds(self) -> bool:
        """Whether it may become a constraint."""
        return self.rest or self.catches


@suggesting
def impact(
    gap: Gap, restitution: float = 1.0, *, rest: bool = False, friction: float = 0.0, slip: Gap | None = None, name: str = ""
) -> Contact:
    """An impact where `gap(q, t)` closes: the normal velocity is reversed, times `restitution`, between 0 and 1.

    With `friction` there is a tangential impulse of at most so many times the normal one: it ends the slipping where it can, else
    it acts against what is left of it (Coulomb's law for impulses). The rate of `slip(q, t)`, a number or a vector, is the
    velocity of slipping.

    Give it to `simulate` as one of `events`. Where bounces follow each other faster and faster (flights below a millionth of a
    step), the run ends with a `da.EventError`; with `rest=True` the bodies then stay in contact, and part where they would pull.
    """
    return Contact(gap, -1, name=name, restitution=restitution, rest=rest, friction=friction, slip=slip)


@suggesting
def stop(gap: Gap, restitution: float = 0.0, *, friction: float = 0.0, slip: Gap | None = None, name: str = "") -> Contact:
    """A stop where `gap(q, t)` closes: bodies stay in contact while they are pressed together, and part where they would pull.

    `friction` and `slip` are those of the impact, as in `da.impact`; while the contact holds, it slides without friction.
    """
    return Contact(gap, -1, name=name, restitution=restitution, rest=True, friction=friction, slip=slip)


@suggesting
def latch(gap: Gap, *, strength: float = np.inf, name: str = "") -> Contact:
    """A latch that catches where `gap(q, t)` closes, and holds it closed up to a pull of `strength` (the force along the gap)."""
    return Contact(gap, -1, name=name, restitution=0.0, catches=True, strength=strength)
