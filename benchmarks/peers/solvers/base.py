"""What a peer has to offer."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from peers.equations import Array
from peers.problems import Problem


class Unsupported(Exception):
    """A problem that a peer cannot state; the message says why."""


class Failed(Exception):
    """A run that did not come to its end."""


@dataclass(frozen=True)
class Rows:
    """States of a problem at its times, and the number of steps behind them (0 where unknown)."""

    y: Array
    steps: int


@dataclass(frozen=True)
class Case:
    """A run made ready: `run` is what is timed, `read` turns its result into rows afterwards."""

    run: Callable[[], Any]
    read: Callable[[Any], Rows]


def clock(run: Callable[[], object]) -> tuple[float, object]:
    """CPU seconds of a call, and its result."""
    begun = time.process_time()
    result = run()
    return time.process_time() - begun, result


class Peer(Protocol):
    """A solver in its best form.

    `variants` gives names of variants with their knobs (steps or tolerances), coarse first; `prepare` makes one ready, everything
    that is done once included (building, compiling).
    """

    form: str  # one line: how the problem is given to it
    fixed_step: bool  # whether the knob is a step, so that cost is known beforehand

    def variants(self, problem: Problem) -> dict[str, tuple[float, ...]]:
        """Or `Unsupported`."""
        ...

    def prepare(self, problem: Problem, variant: str, knob: float) -> Case:
        """A run of a variant."""
        ...


def tolerances(loose: int, tight: int) -> tuple[float, ...]:
    """Powers of ten, every half below 1e-3."""
    return tuple(10.0 ** (-k / 2) for k in range(2 * loose, 2 * tight + 1))
