"""What a manoeuvre is: inputs over time, and the run with them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dalembert import markup
from dalembert.errors import suggesting
from dalembert.hooks import Hook
from dalembert.named import Array
from dalembert.solution import Solution

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, repr=False)
class Manoeuvre(markup.Told):
    """Inputs that were found, each held from its time on, and the run with them: `da.simulate(..., u=found.inputs)`.

    `missed` is what is left of the end condition in that run, `defect` the largest difference between it and the states of the
    optimisation problem.
    """

    t: Array
    u: Array
    cost: float
    solution: Solution
    missed: float
    defect: float
    iterations: int
    message: str

    @property
    def inputs(self) -> tuple[Array, Array]:
        """Times and values, as `simulate` takes them for `u`."""
        return self.t, self.u

    @suggesting
    def plot(self) -> Figure:
        """Inputs and coordinates over time."""
        return PLOT(self)

    def _told(self) -> tuple[str, markup.Facts]:
        s = self.solution
        sizes = ", ".join(f"{a:.4g} .. {b:.4g}" for a, b in zip(self.u.min(axis=0), self.u.max(axis=0), strict=True))
        return f"manoeuvre of {s.system.name} by {s.method}, t = {s.t[0]:g} .. {s.t[-1]:g}, {len(self.t)} inputs held", [
            ("cost", f"{self.cost:.8g}"),
            ("inputs", sizes),
            ("end missed", f"{self.missed:.1e}"),
            ("iterations", f"{self.iterations}: {self.message}"),
        ]


PLOT: Hook[[Manoeuvre], Figure] = Hook("Manoeuvre.plot", "dalembert.plotting")
