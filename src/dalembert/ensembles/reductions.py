"""What is kept of each member: all rows, or what a reduction makes of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dalembert.checking import shown
from dalembert.errors import MethodError, suggest
from dalembert.solution import Solution

Array = NDArray[np.float64]
Parts = dict[str, Array]  # values by name, `(..., rows, size)`; without the rows once they are reduced
Summary = Callable[[Parts], Parts]
Reduction = Callable[[Solution], ArrayLike]
Reductions = str | Reduction | Mapping[str, str | Reduction] | None


def _final(parts: Parts) -> Parts:
    return {name: values[..., -1, :] for name, values in parts.items()}


def _extrema(parts: Parts) -> Parts:
    low = {f"{name}_min": values.min(axis=-2) for name, values in parts.items()}
    return low | {f"{name}_max": values.max(axis=-2) for name, values in parts.items()}


SUMMARIES: dict[str, Summary] = {"final": _final, "extrema": _extrema}
NAMES = (*SUMMARIES, "events")


def parts_of(sol: Solution) -> Parts:
    """State and energy of a solution, one row a time."""
    return {**sol.parts, **({"energy": sol.energy[:, None]} if sol.system.has_energy else {})}


def of_events(sol: Solution) -> Parts:
    """How often each event happened, and when first."""
    out: Parts = {}
    for name, hits in sol.events.items():
        out[f"{name}_count"] = np.asarray(float(len(hits.t)))
        out[f"{name}_first"] = np.asarray(hits.t[0] if len(hits.t) else np.nan)
    return out


def parse(reduce: Reductions) -> dict[str, str | Reduction]:
    """Reductions by name, checked: one of `NAMES`, or a function of a solution."""
    if reduce is None:
        return {}
    items = dict(reduce) if isinstance(reduce, Mapping) else {reduce if isinstance(reduce, str) else "value": reduce}
    for what in items.values():
        if isinstance(what, str) and what not in NAMES:
            raise MethodError(f"reduce knows {', '.join(NAMES)} and functions of a solution, not {what!r}{suggest(what, NAMES)}")
        if not isinstance(what, str) and not callable(what):
            raise MethodError(f"reduce must be a function of a solution, or one of {', '.join(NAMES)}, not {shown(what)}")
    return {str(name): what for name, what in items.items()}


def only_final(functions: Mapping[str, str | Reduction]) -> bool:
    """Whether the last row is all that is needed."""
    return bool(functions) and all(what == "final" for what in functions.values())
