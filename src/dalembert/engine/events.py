"""Events as a user gives them, and what was found of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from dalembert.checking import listed, number, shown, text, whole
from dalembert.engine.run import Array
from dalembert.errors import MethodError, strict
from dalembert.named import Named


@strict
@dataclass(frozen=True)
class Event:
    """A function of `q`, `v`, `p` (or `x`; or `y`, `z`), `t` and parameters whose zeros are looked for.

    `direction` is +1 for crossings from below, -1 from above, 0 for both. A terminal event ends the run there; with `terminal=3`
    at its third crossing.

    `action` changes the motion there, and the run goes on: a function of the same arguments that returns a dictionary of what
    changes. Its keys are parts of the state (`"v"`, say), parameters, and `"system"` for another system of the same coordinates,
    which takes over from there. None changes nothing.
    """

    function: Callable[..., object]
    direction: int = 0
    terminal: int = False
    name: str = ""
    action: Callable[..., object] | None = None

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise MethodError(f"an event is a function of q, v, t and parameters, not {shown(self.function)}")
        if whole("direction", self.direction, least=-1) > 1:
            raise MethodError(f"direction must be 1 (from below), -1 (from above) or 0 (both), not {self.direction!r}")
        if not isinstance(self.terminal, bool):
            object.__setattr__(self, "terminal", whole("terminal", self.terminal, least=0))
        text("name", self.name)
        if self.action is not None and not callable(self.action):
            raise MethodError(
                f"an action is a function of q, v, t and parameters that returns what changes, not {shown(self.action)}"
            )

    @property
    def acts(self) -> bool:
        """Whether the motion changes at a crossing."""
        return self.action is not None


@dataclass(frozen=True)
class Hits(Named):
    """The crossings of one event: times, and the motion there by the names of its parts."""

    t: Array
    values: Mapping[str, Array]

    def __len__(self) -> int:
        return len(self.t)


def make(events: object) -> list[Event]:
    """Events from what `simulate` was given: one or several, functions or `Event` objects, with names of their own."""
    if isinstance(events, Mapping):  # as `sol.events` has them
        events = [replace(_event(e), name=str(k)) for k, e in events.items()]
    if callable(events) or isinstance(events, Event):
        events = [events]
    elif events is None:
        events = ()
    expected = "a function, an Event, or several of them"
    given: Sequence[Event | Callable[..., object]] = listed("events", events, MethodError, expected)  # type: ignore[arg-type]
    out = []
    for i, event in enumerate(given, 1):
        one = _event(event)
        name = one.name or getattr(one.function, "__name__", "").replace("<lambda>", "") or f"event {i}"
        out.append(replace(one, name=name))
    names = [e.name for e in out]
    if len(set(names)) < len(names):
        raise MethodError(f"two events are called {max(names, key=names.count)!r}; give them names, da.Event(f, name=...)")
    return out


def _event(given: object) -> Event:
    """An event; of a function with the attributes `terminal` and `direction`, as SciPy's `solve_ivp` takes them."""
    if isinstance(given, Event):
        return given
    direction, terminal = getattr(given, "direction", 0), getattr(given, "terminal", False)
    sign = number("direction", direction)
    return Event(given, int(math.copysign(1, sign)) if sign else 0, terminal)  # type: ignore[arg-type]  # which it checks
