"""What an action of the user's changes: parts of the state, parameters, or the system, checked."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dalembert.checking import shown
from dalembert.engine.events import Event
from dalembert.errors import DalembertError, EventError, ModelError, suggest
from dalembert.systems.base import System

Array = NDArray[np.float64]
Values = dict[str, Array]


@dataclass(frozen=True)
class Change:
    """The system, the parts of the state that a run goes on with, and all parameters."""

    system: System
    values: Values
    parameters: dict[str, Array]


def act(event: Event, system: System, values: Values, t: float, par: Array) -> Change:
    """Call the action of an event at a state."""
    assert event.action is not None
    parameters = system.unpack(par)
    rows = system.completed({name: value[None] for name, value in values.items()}, t, par)
    known: dict[str, object] = {name: np.array(row[0]) for name, row in rows.items()}
    known |= {name: value.copy() if value.ndim else float(value) for name, value in parameters.items()} | {"t": t}
    arguments = _arguments(event.action, event.name, known)
    try:
        result = event.action(**arguments)
    except DalembertError:
        raise
    except Exception as error:
        raise EventError(f"the action of {event.name} failed at t = {t:g}: {type(error).__name__}: {error}") from error
    if result is None:
        return Change(system, values, parameters)
    if not isinstance(result, Mapping):
        raise EventError(
            f"the action of {event.name} must return a dictionary of what changes, such as {{{system.state[-1]!r}: ...}}, or "
            f"None, not {shown(result)}"
        )
    return _change(event, dict(result), system, values, parameters)


def _arguments(action: Callable[..., object], name: str, known: Mapping[str, object]) -> dict[str, object]:
    out = {}
    try:
        wanted = inspect.signature(action).parameters.values()
    except (TypeError, ValueError) as error:
        raise ModelError(f"the action of {name} has no signature to match arguments with; wrap it in a lambda") from error
    for argument in wanted:
        if argument.name in known:
            out[argument.name] = known[argument.name]
        elif argument.default is argument.empty:
            raise ModelError(f"the action of {name} has an unknown argument {argument.name!r}{suggest(argument.name, known)}")
    return out


def _change(event: Event, result: dict[str, object], system: System, values: Values, parameters: dict[str, Array]) -> Change:
    whose, after = f"the action of {event.name}", result.pop("system", system)
    if not isinstance(after, System):
        raise EventError(f"{whose} returns as its system {shown(after)}")
    if after.state != system.state or any(after.size_of(name) != system.size_of(name) for name in system.state):
        sizes = {name: (system.size_of(name), after.size_of(name) if name in after.state else 0) for name in system.state}
        raise EventError(f"{whose} goes on with {after.name!r}, whose state is not that of {system.name!r}: sizes {sizes}")
    kept = {name: value for name, value in parameters.items() if name in after.parameters}
    out, given = Change(after, dict(values), {**{k: v for k, v in after.parameters.items() if k not in kept}, **kept}), set[str]()
    for name, value in result.items():
        size = None if name not in (*system.state, *system.starts) else system.size_of(name)
        target = after.parameters.get(name)
        if size is None and target is None:
            raise EventError(f"{whose} returns {shown(name)}{suggest(str(name), [*system.starts, *after.parameters, 'system'])}")
        shape = (size,) if target is None else target.shape
        array = _numbers(whose, str(name), value, shape)
        if target is not None:
            out.parameters[name] = array
        else:
            out.values[name] = array
            given.add(name)
    if given - set(system.state):  # p in place of v
        out.values.pop(system.state[-1])
    return out


def _numbers(whose: str, name: str, value: object, shape: tuple[int | None, ...]) -> Array:
    try:
        array = np.array(value, dtype=float)
    except (TypeError, ValueError) as error:
        raise EventError(f"{whose} must return numbers as {name}, not {shown(value)}") from error
    if array.shape != shape and array.size != int(np.prod([n or 0 for n in shape])):
        raise EventError(f"{whose} returns {name} with the shape {array.shape}, where {shape} is expected")
    if not np.isfinite(array).all():
        raise EventError(f"{whose} returns {name} = {array}, which is not finite")
    return array.reshape([n or 0 for n in shape])
