"""Newton's iteration: one rule for when it is done, whatever way a step is run."""

from __future__ import annotations

from collections.abc import Callable, MutableSequence
from dataclasses import dataclass

EPS = 2.0**-52
SMALL = 1e-8  # a residual of this part of its terms is small, whatever the tolerance


@dataclass(frozen=True)
class Rule:
    """When to stop, and when to take the Jacobian anew.

    An update's size is the Euclidean norm of the changes, each relative to its weight. The iteration is done when the
    *next* update, estimated from the last two as `size * size / previous`, is below `tolerance`: it ends at round-off
    without an iteration spent on proving it (Hairer, Wanner II, sec. IV.8; Hilden 2009, algorithm 2.1). Where updates
    stop shrinking (by `stagnation`) below `floor`, the iteration has reached the round-off of the residual and is done as
    well. Where they shrink by less than `refresh`, or the first one is larger than `refresh` itself, the Jacobian is taken
    anew.

    A solution is accepted only where its residual is small against the size of its own terms: below `limit`. An iteration
    that runs as usual, from a good guess with updates that shrink to round-off, needs no such look; it is taken where
    anything is out of the ordinary (a first update larger than 1, a later one larger than `refresh`, one that grew,
    stagnation), and wherever the caller asks for it.
    """

    tolerance: float = 4 * EPS
    max_iterations: int = 25
    refresh: float = 0.05
    stagnation: float = 0.5
    floor: float = 1e-7

    @property
    def limit(self) -> float:
        """The largest residual that is accepted, relative to the size of its terms."""
        return max(SMALL, 4 * self.tolerance)

    def bind(
        self,
        update: Callable[[], object],
        sizes: MutableSequence[float],
        factor: Callable[[], object],
        accept: Callable[[], object],
    ) -> Callable[[bool], int]:
        """The iteration as a function that returns the number of iterations, negative for failure.

        `update` changes the iterate and writes the size to `sizes[0]`; `factor` takes the Jacobian at the iterate; `accept`
        writes the size of the residual relative to its terms to `sizes[0]`. The argument of the iteration says whether to
        look at that in any case. The compiled loop repeats this rule word by word.
        """
        tolerance, refresh, stagnation, floor, limit = self.tolerance, self.refresh, self.stagnation, self.floor, self.limit
        last = self.max_iterations

        def iterate(look: bool) -> int:
            update()
            size, k = sizes[0], 1
            if not size <= tolerance:
                if not size <= refresh:
                    look = look or not size <= 1.0
                    factor()
                for k in range(2, last + 1):
                    previous = size
                    update()
                    size = sizes[0]
                    if size * size <= tolerance * previous or size <= tolerance:
                        break
                    if not size < 1e300:  # also catches nan
                        return -k
                    if size > stagnation * previous and size <= floor:
                        look = True
                        break
                    if size > refresh * previous:
                        look = look or size > previous or size > refresh
                        factor()
                else:
                    return -k
            if look:
                accept()
                return k if sizes[0] <= limit else -k
            return k

        return iterate
