"""Controllers that look at a run at regular times, as a user gives them, and what they left behind."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dalembert.checking import flag, positive, reals, shown
from dalembert.errors import MethodError, ModelError, strict, suggest

Array = NDArray[np.float64]
OWN = ("t", "y", "u", "state")  # what a controller may ask for beside the parameters of the system


@strict
@dataclass(frozen=True)
class Sampled:
    """A controller of measured outputs, called every so many seconds; what it returns is held up to its next call.

    Parameters
    ----------
    controller
        A function with any of the arguments `t`, `y` (what is measured), `state` (its own), `u` (what it held so far) and the
        parameters of the system. It returns the inputs; where it has a state, the pair of inputs and its next state. It is plain
        Python; the first sample is at the start of the run.
    every
        The time between two samples. Equal steps must divide it; adaptive ones end there.
    outputs
        What is measured, a model function of the motion, `t` and parameters. The whole state where nothing is given.
    state
        What the controller keeps from sample to sample, at first: an array, passed and returned.
    traced
        Whether the controller is a model function as well: NumPy functions, no `if` on its arguments, and nothing that it
        remembers beside its state. It is then called once with symbols, and evaluated without Python. True says so; what it
        refers to is taken as it is at the first run: make another `Sampled` for other gains, or pass them as parameters of the
        system. False has it called at each sample. By default that is decided from its instructions: a formula of its
        arguments, numbers and arrays is traced, with the same results to rounding; whatever branches, loops, prints, remembers
        or calls anything else is called. `sol.stats["controllers"]` says which.
    """

    controller: Callable[..., object]
    every: float
    outputs: Callable[..., object] | None = None
    state: ArrayLike | None = None
    traced: bool | None = None

    def __post_init__(self) -> None:
        if not callable(self.controller):
            raise MethodError(f"a controller is a function of t, y and its state, not {shown(self.controller)}")
        if self.outputs is not None and not callable(self.outputs):
            raise MethodError(f"outputs is a function of the motion that returns what is measured, not {shown(self.outputs)}")
        object.__setattr__(self, "every", positive("every", self.every))
        if self.state is not None:
            object.__setattr__(self, "state", reals("state", self.state, MethodError))
        if self.traced is not None:
            flag("traced", self.traced)

    def arguments(self, parameters: Mapping[str, Array]) -> list[str]:
        """The names of the arguments that the controller asks for."""
        known = [*OWN, *parameters]
        try:
            found = list(inspect.signature(self.controller).parameters.values())
        except (TypeError, ValueError) as error:
            raise ModelError("the controller has no signature to match arguments with; wrap it in a lambda") from error
        out = []
        for argument in found:
            if argument.name in known and argument.kind not in (argument.VAR_POSITIONAL, argument.VAR_KEYWORD):
                out.append(argument.name)
            elif argument.default is argument.empty:
                hint = suggest(argument.name, known)
                raise ModelError(f"the controller has an unknown argument {argument.name!r}{hint}")
        if "state" in out and self.state is None:
            raise ModelError("the controller asks for a state, but none was given: da.Sampled(..., state=[0.0])")
        return out


@strict
@dataclass(frozen=True)
class Samples:
    """The samples of a controller, one row each: times, what was measured, what was held from then on, and its state then.

    `state` is the one before the call, flat; it has no column where the controller has none.
    """

    t: Array
    y: Array
    u: Array
    state: Array

    def __len__(self) -> int:
        return len(self.t)
