"""The samples of a controller in a store: whole chunks of them lie in an array that grows, the rest in the record."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dalembert.engine.controllers import Samples
from dalembert.solution.base import Solution
from dalembert.solution.columns import Array, Column
from dalembert.systems import plain


@dataclass(frozen=True)
class Sampling:
    """Where the samples of a controller lie: time, what was measured, inputs, own state."""

    name: str
    sizes: list[int]
    column: Column

    @classmethod
    def of(cls, path: Path, number: int, found: object, chunk: int) -> Sampling:
        """From the record of a store."""
        sizes = [plain.size(n, "sizes") for n in plain.get(found, "sizes", list)]
        column = Column(path, f"samples{number}", (f"sample{number}", f"t_y_u_state{number}"), 1 + sum(sizes), chunk)
        return cls(plain.get(found, "name", str), sizes, column)

    @staticmethod
    def rows(samples: Samples) -> Array:
        """Samples as rows."""
        return np.hstack([samples.t[:, None], samples.y, samples.u, samples.state])

    def read(self, stored: int, late: object) -> Samples:
        """All samples: those in the array, and those in the record."""
        count = len(plain.of(late, "late samples", list))
        rest = plain.array(late, "late samples", (count, self.column.width or 1))
        rows = np.concatenate([self.column.read(0, stored), rest])
        t, *parts = np.split(rows, np.cumsum([1, *self.sizes])[:-1], axis=1)
        return Samples(t[:, 0], *parts)

    def put(self, solution: Solution, samples: Samples) -> None:
        """Give the samples up to its end to a solution."""
        inside = samples.t <= solution.t[-1]
        solution.samples[self.name] = Samples(*(a[inside] for a in vars(samples).values()))
