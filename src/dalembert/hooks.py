"""Functions that a low layer calls and a higher layer defines, so that no layer imports one above it.

A result has methods such as `plot()` whose code lies in a higher layer than its class. The module of the class declares a hook,
typed and called like the function, and the higher layer sets it when it is imported, at the latest by the first call:

    PLOT: Hook[[Convergence, Axes | None], Axes] = Hook("Convergence.plot", "dalembert.plotting")    # analysis/comparison.py

    comparison.PLOT.set(convergence)                                                                  # plotting/several.py
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Generic, ParamSpec, TypeVar

from dalembert.errors import DalembertError

P = ParamSpec("P")
R = TypeVar("R")


class Hook(Generic[P, R]):
    """A function that is set later, by `module`."""

    def __init__(self, name: str, module: str) -> None:
        self.name, self.module = name, module
        self._function: Callable[P, R] | None = None

    def set(self, function: Callable[P, R]) -> None:
        """Define what the hook does."""
        self._function = function

    def __call__(self, *arguments: P.args, **options: P.kwargs) -> R:
        if self._function is None:
            import_module(self.module)
        if self._function is None:
            raise DalembertError(f"{self.name} is to be defined by {self.module}, which does not do it")
        return self._function(*arguments, **options)
