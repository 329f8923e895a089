"""Newton's iteration: one rule for when it is done, whatever way a step is run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

EPS = 2.0**-52


@dataclass(frozen=True)
class Rule:
    """When to stop, and when to take the Jacobian anew.

    An update's size is the Euclidean norm of the changes, each relative to its weight. The iteration is done when the
    *next* update, estimated from the last two as `size * size / previous`, is below `tolerance`: it ends at round-off
    without an iteration spent on proving it (Hairer, Wanner II, sec. IV.8; Hilden 2009, algorithm 2.1). Where updates
    stop shrinking (by `stagnation`) below `floor` (of the first, if that was large), the iteration has reached the
    round-off of the residual and is done as well. Where they shrink by less than `refresh`, or the first one is larger
    than `refresh` itself, the Jacobian is taken anew.
    """

    tolerance: float = 4 * EPS
    max_iterations: int = 25
    refresh: float = 0.05
    stagnation: float = 0.5
    floor: float = 1e-7

    def bind(self, update: Callable[[], object], sizes: Sequence[float], factor: Callable[[], object]) -> Callable[[], int]:
        """The iteration as a function of no arguments that returns the number of iterations, negative for failure.

        `update` changes the iterate and writes the size to `sizes[0]`; `factor` takes the Jacobian at the iterate. The
        compiled loop repeats this rule word by word.
        """
        tolerance, refresh, stagnation, floor = self.tolerance, self.refresh, self.stagnation, self.floor
        last = self.max_iterations

        def iterate() -> int:
            update()
            size = sizes[0]
            if size <= tolerance:
                return 1
            if size > refresh:
                factor()
            low = floor * size if size > 1.0 else floor
            for k in range(2, last + 1):
                previous = size
                update()
                size = sizes[0]
                if size * size <= tolerance * previous or size <= tolerance:
                    return k
                if not size < 1e300:  # also catches nan
                    return -k
                if size > stagnation * previous and size <= low:
                    return k
                if size > refresh * previous:
                    factor()
            return -last

        return iterate
