"""Newton's iteration: one rule for when it is done, whatever way a step is run."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

EPS = 2.0**-52


@dataclass(frozen=True)
class Rule:
    """When to stop, and when to take the Jacobian anew.

    An update's size is the Euclidean norm of the changes, each relative to its weight.
    The iteration is done when the *next*
    update, estimated from the last two as `size * size / previous size`, is below `tolerance`: it ends at round-off
    without an iteration spent on proving it (Hairer, Wanner II, sec. IV.8; Hilden 2009, algorithm 2.1). Where updates stop
    shrinking (by `stagnation`) below `floor`, the iteration has reached the round-off of the residual and is done as well.
    Where they shrink by less than `refresh`, or the first one is larger than `refresh` itself, the Jacobian is taken anew.
    """

    tolerance: float = 4 * EPS
    max_iterations: int = 25
    refresh: float = 0.05
    stagnation: float = 0.5
    floor: float = 1e-9

    def iterate(self, update: Callable[[], object], sizes: Sequence[float], factor: Callable[[], object]) -> tuple[int, float]:
        """Call `update` (which changes the iterate and writes `sizes[0]`) until done: iterations and last size.

        A negative number of iterations means failure. The compiled loop repeats this rule word by word.
        """
        previous, size = 1.0, math.inf
        for k in range(1, self.max_iterations + 1):
            update()
            size = sizes[0]
            if not size < 1e300:  # also catches nan
                return -k, size
            ratio = size / previous if k > 1 else 1.0
            if size * min(ratio, 1.0) <= self.tolerance:
                return k, size
            if k > 1 and ratio > self.stagnation and size <= self.floor:
                return k, size
            if (ratio if k > 1 else size) > self.refresh:
                factor()
            previous = size
        return -self.max_iterations, size
