"""What a fit found: values, covariance, residuals, a table and a picture of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from dalembert import markup
from dalembert.analysis.measurements import Measurements
from dalembert.errors import MethodError, suggest, suggesting
from dalembert.hooks import Hook
from dalembert.named import Array
from dalembert.solution import Solution
from dalembert.systems.base import System

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, repr=False)
class Fit:
    """What `da.fit` found; prints as a table.

    `names` are those of single numbers: an array parameter `k` has `k[1]`, `k[2]`, ... `covariance` is `(J^T J)^-1` of the
    residuals divided by their standard deviations; where these were not given, times the sum of squares over the degrees of
    freedom.
    """

    system: System
    names: tuple[str, ...]
    theta: Array
    guess: Array
    covariance: Array
    data: Measurements
    solution: Solution
    residual: Array  # model - measured, one column for each name; nan where nothing was measured
    parameters: dict[str, Array]
    evaluations: int
    message: str

    @property
    def values(self) -> dict[str, float]:
        """The fitted numbers by name."""
        return dict(zip(self.names, self.theta.tolist(), strict=True))

    @property
    def errors(self) -> dict[str, float]:
        """Standard errors by name."""
        return dict(zip(self.names, np.sqrt(np.diag(self.covariance)).tolist(), strict=True))

    def __getitem__(self, name: str) -> float:
        if name not in self.names:
            raise MethodError(f"{name!r} was not fitted{suggest(name, self.names)}")
        return self.values[name]

    @cached_property
    def correlation(self) -> Array:
        """The covariance divided by both standard errors."""
        size = np.sqrt(np.diag(self.covariance))
        return np.asarray(self.covariance / np.outer(size, size))

    @property
    def residuals(self) -> dict[str, Array]:
        """What the model has beyond the measured values, by name; nan where nothing was measured."""
        return dict(zip(self.data.names, self.residual.T, strict=True))

    @property
    def chi_square(self) -> float:
        """The sum of squares of residuals over standard deviations (one where these are not known)."""
        return float(np.nansum((self.residual / self.data.sigma) ** 2))

    @property
    def degrees_of_freedom(self) -> int:
        """Measured values less fitted ones."""
        return int(self.data.there.sum()) - len(self.theta)

    @property
    def deviation(self) -> float:
        """`sqrt(chi_square / degrees_of_freedom)`: the noise, where it is not known; about one, where it is and all is well."""
        return float(np.sqrt(self.chi_square / max(1, self.degrees_of_freedom)))

    @property
    def initial(self) -> dict[str, Array]:
        """The initial values of the fitted run."""
        return {name: rows[0] for name, rows in self.solution.parts.items()}

    @suggesting
    def plot(self) -> Figure:
        """Measured and fitted values over time, with the residuals below."""
        return PLOT(self)

    def _head(self) -> str:
        counts = f"{int(self.data.there.sum())} values, {self.degrees_of_freedom} degrees of freedom"
        return f"fit of {self.system.name} by {self.solution.method}, step {self.solution.step:g}: {counts}"

    def _rows(self) -> list[tuple[str, str, str, str]]:
        """Name, value, standard error and guess of what was free."""
        columns = zip(self.names, self.theta, self.errors.values(), self.guess, strict=True)
        return [(name, f"{value:.7g}", f"{error:.2g}", f"{guess:.5g}") for name, value, error, guess in columns]

    def _remarks(self) -> list[str]:
        """How well it fits, what is correlated, how it ended."""
        said = [f"noise {self.deviation:.3g}, estimated from the residuals"]
        if self.data.known:
            said = [f"chi-square {self.chi_square:.4g} for {self.degrees_of_freedom}: {self.deviation:.3f} of the stated noise"]
        strongest = np.abs(self.correlation - np.eye(len(self.names)))
        i, j = sorted(np.unravel_index(int(np.round(strongest, 9).argmax()), strongest.shape))
        if strongest[i, j] > 0.5:
            said.append(f"strongest correlation: {self.names[i]} and {self.names[j]}, {self.correlation[i, j]:.3f}")
        return [*said, f"{self.evaluations} evaluations: {self.message}"]

    def __str__(self) -> str:
        wide = max(len(name) for name in self.names)
        rows = [("", "value", "standard error", "guess"), *self._rows()]
        lines = [f"  {name:<{wide}}  {value:>13}  {error:>14}  {guess:>11}" for name, value, error, guess in rows]
        return "\n".join([self._head(), *lines, *(f"  {text}" for text in self._remarks())])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        table = markup.table(("", "value", "standard error", "guess"), self._rows())
        return markup.card(self._head(), table + "".join(markup.paragraph(text) for text in self._remarks()))


PLOT: Hook[[Fit], Figure] = Hook("Fit.plot", "dalembert.plotting")
