"""A function at one point after another, from and into arrays that are made once."""

from __future__ import annotations

import casadi as ca
import numpy as np
from numpy.typing import ArrayLike

from dalembert.engine.machine import bind
from dalembert.engine.run import Array

Matrix = Array | ca.DM


class Numbers:
    """The outputs of a function as matrices: arrays, or such of CasADi's where they are to be `sparse`."""

    def __init__(self, function: ca.Function, sparse: bool = False) -> None:
        self._function, self._sparse = function, sparse
        self._known = [np.zeros(function.nnz_in(i)) for i in range(function.n_in())]
        self._found = [np.zeros(function.nnz_out(i)) for i in range(function.n_out())]
        self._evaluate, self._kept = bind(function, self._known, self._found)
        self._shapes = [self._place(function.sparsity_out(i)) for i in range(function.n_out())]

    @staticmethod
    def _place(pattern: ca.Sparsity) -> tuple[tuple[int, int], list[int], list[int]]:
        return pattern.shape, pattern.row(), pattern.get_col()

    def __call__(self, *arguments: ArrayLike) -> list[Matrix]:
        for place, value in zip(self._known, arguments, strict=True):
            place[:] = value
        self._evaluate()
        if self._sparse:
            return [ca.DM(self._function.sparsity_out(i), values) for i, values in enumerate(self._found)]
        return [_full(*place, values) for place, values in zip(self._shapes, self._found, strict=True)]


def _full(shape: tuple[int, int], rows: list[int], columns: list[int], values: Array) -> Array:
    if len(values) == shape[0] * shape[1]:
        return values.reshape(shape[1], shape[0]).T.copy()
    out = np.zeros(shape)
    out[rows, columns] = values
    return out
