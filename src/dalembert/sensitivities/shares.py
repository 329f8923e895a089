"""Which of the given inputs a step sees: for derivatives with respect to these."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dalembert.engine.inputs import Constant, Held, Inputs
from dalembert.engine.run import Array, Grid
from dalembert.engine.tape import Rows


class Shares:
    """The inputs of all steps as entries of a table.

    The table has one row for constant inputs, one for each sample, and for functions of time one for each interval between stored
    times: what is added to the function there.
    """

    def __init__(self, inputs: Inputs, grid: Grid, nu: int) -> None:
        self._grid, self.nu = grid, nu
        self._samples: Held | None = None
        self.size = len(grid.saved)
        if isinstance(inputs, Constant):
            self.size = 1
        elif isinstance(inputs, Held):
            self.size = len(inputs.times)
            self._samples = Held(inputs.times, np.arange(self.size, dtype=float)[:, None])
        self.shape = (nu,) if isinstance(inputs, Constant) else (self.size, nu)

    def _index(self, rows: Rows) -> NDArray[np.int64]:
        """The row of the table for each step and node."""
        if self.size == 1:
            return np.zeros((len(rows), len(rows.nodes)), dtype=np.int64)
        if self._samples is None:
            each = np.minimum((rows.numbers - 1) // self._grid.save_every, self.size - 1)
            return np.repeat(each[:, None], len(rows.nodes), axis=1)
        begin, end = rows.t, rows.t + rows.h
        return np.hstack([self._samples.within(begin + c * rows.h, begin, end) for c in rows.nodes]).astype(np.int64)

    def spread(self, tables: Array, rows: Rows) -> Array:
        """The directions of the inputs of each step, `(steps, directions, inputs at all nodes)`, from a table for each."""
        if not self.nu or not tables.any():
            return np.zeros((1, 1, self.nu * len(rows.nodes)))
        picked = tables[:, self._index(rows)]  # directions, steps, nodes, inputs
        return np.ascontiguousarray(picked.transpose(1, 0, 2, 3).reshape(len(rows), len(tables), -1))

    def collect(self, tables: Array, rows: Rows, slopes: Array) -> None:
        """Add slopes in the inputs of each step to the tables that these came from: the transpose of `spread`."""
        index, each = self._index(rows), slopes.reshape(len(rows), len(tables), len(rows.nodes), self.nu)
        for table, values in zip(tables, each.transpose(1, 0, 2, 3), strict=True):
            np.add.at(table, index, values)
