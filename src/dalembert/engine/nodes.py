"""Operations on whole arrays, each made once: what large steps are evaluated by.

A node is an array and the call that fills it. Nodes with the same operation and operands are one. Each is filled as seldom as
it can be: once for a run, where it depends on the step size and parameters alone; once for a solve; or at each iterate.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

import casadi as ca
import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Indices = NDArray[np.int64]
Call = Callable[[], object]
RUN, SOLVE, ITERATE = range(3)  # how often a node is filled


def _where(a: Array, b: Array, out: Array) -> None:
    out[...] = 0.0
    np.copyto(out, b, where=a != 0)


def _twice(a: Array, out: Array) -> None:
    np.add(a, a, out=out)


def _both(a: Array, b: Array, out: Array) -> None:
    np.logical_and(a != 0, b != 0, out=out)


UNARY: dict[int, Callable[..., object]] = {
    ca.OP_NEG: np.negative, ca.OP_SQ: np.square, ca.OP_TWICE: _twice, ca.OP_INV: lambda a, out: np.divide(1.0, a, out=out),
    ca.OP_SQRT: np.sqrt, ca.OP_FABS: np.abs, ca.OP_SIN: np.sin, ca.OP_COS: np.cos, ca.OP_TAN: np.tan, ca.OP_ASIN: np.arcsin,
    ca.OP_ACOS: np.arccos, ca.OP_ATAN: np.arctan, ca.OP_SINH: np.sinh, ca.OP_COSH: np.cosh, ca.OP_TANH: np.tanh,
    ca.OP_ASINH: np.arcsinh, ca.OP_ACOSH: np.arccosh, ca.OP_ATANH: np.arctanh, ca.OP_EXP: np.exp, ca.OP_LOG: np.log,
    ca.OP_LOG1P: np.log1p, ca.OP_EXPM1: np.expm1, ca.OP_FLOOR: np.floor, ca.OP_CEIL: np.ceil, ca.OP_SIGN: np.sign,
    ca.OP_NOT: np.logical_not,
}  # fmt: skip
BINARY: dict[int, Callable[..., object]] = {
    ca.OP_ADD: np.add, ca.OP_SUB: np.subtract, ca.OP_MUL: np.multiply, ca.OP_DIV: np.divide, ca.OP_POW: np.power,
    ca.OP_CONSTPOW: np.power, ca.OP_FMIN: np.fmin, ca.OP_FMAX: np.fmax, ca.OP_ATAN2: np.arctan2, ca.OP_HYPOT: np.hypot,
    ca.OP_LT: np.less, ca.OP_LE: np.less_equal, ca.OP_EQ: np.equal, ca.OP_NE: np.not_equal, ca.OP_AND: _both,
    ca.OP_OR: np.logical_or, ca.OP_IF_ELSE_ZERO: _where, ca.OP_COPYSIGN: np.copysign, ca.OP_FMOD: np.fmod,
}  # fmt: skip


class Nodes:
    """Arrays by number, and the calls that fill them, in order."""

    def __init__(self) -> None:
        self.arrays: list[Array] = []
        self.levels: list[int] = []
        self.fixed: list[Call] = []  # calls of a run
        self.once: list[Call] = []  # of a solve
        self.each: list[Call] = []  # of an iterate: those of what is bound now
        self.zeros: set[int] = set()
        self._known: dict[Hashable, int] = {}
        self._keep: list[object] = []

    def mark(self) -> tuple[dict[Hashable, int], int, int]:
        """Where things stand."""
        return dict(self._known), len(self.fixed), len(self.once)

    def back(self, mark: tuple[dict[Hashable, int], int, int]) -> None:
        """Forget what was made since."""
        self._known, fixed, once = mark
        del self.fixed[fixed:], self.once[once:]
        self.each = []

    def source(self, array: Array, level: int) -> int:
        """An array that others fill."""
        key = "array", array.__array_interface__["data"][0], array.size
        if key not in self._known:
            self._keep.append(array)
            self._known[key] = self._new(array, level)
        return self._known[key]

    def constant(self, values: Array) -> int:
        """Numbers."""
        key = "numbers", values.tobytes()
        if key not in self._known:
            self._known[key] = self._new(values, RUN)
            if not values.any():
                self.zeros.add(self._known[key])
        return self._known[key]

    def _new(self, array: Array, level: int) -> int:
        self.arrays.append(array)
        self.levels.append(level)
        return len(self.arrays) - 1

    def made(self, key: Hashable, sources: tuple[int, ...], size: int, make: Callable[[Array], Call]) -> int:
        """A node: `make(array)` gives the call that fills it from its sources."""
        whole = (key, sources)
        if whole not in self._known:
            array = np.zeros(size)
            number = self._new(array, max((self.levels[i] for i in sources), default=RUN))
            self.calls(number).append(make(array))
            self._known[whole] = number
        return self._known[whole]

    def calls(self, *numbers: int) -> list[Call]:
        """The calls among which one that reads these nodes belongs."""
        return (self.fixed, self.once, self.each)[max((self.levels[i] for i in numbers), default=RUN)]

    # ---- operations -------------------------------------------------------------------------------------

    def apply(self, op: int, operands: list[int]) -> int:
        """An operation entry by entry; one number goes with all entries."""
        if (
            op in (ca.OP_ADD, ca.OP_SUB)
            and operands[1] in self.zeros
            and len(self.arrays[operands[0]]) >= len(self.arrays[operands[1]])
        ):
            return operands[0]
        rule = (UNARY if len(operands) == 1 else BINARY)[op]
        arrays = [self.arrays[i] for i in operands]
        size = 0 if any(not a.size for a in arrays) else max(a.size for a in arrays)
        return self.made((op,), tuple(operands), size, lambda out: _applied(rule, arrays, out))

    def take(self, source: int, places: Indices) -> int:
        """Entries of an array."""
        a = self.arrays[source]
        if len(places) == len(a) and np.array_equal(places, np.arange(len(a))):
            return source
        key = "take", places.tobytes()
        return self.made(key, (source,), len(places), lambda out: lambda: np.take(a, places, out=out, mode="clip"))

    def put(self, base: int, source: int, places: Indices, add: bool) -> int:
        """An array with some entries replaced, or added to."""
        a, b = self.arrays[base], self.arrays[source]

        def make(out: Array) -> Call:
            def call() -> None:
                out[:] = a
                if add:
                    np.add.at(out, places, b)
                else:
                    out[places] = b

            return call

        return self.made(("put", places.tobytes(), add), (base, source), len(a), make)

    def joined(self, sources: list[int]) -> int:
        """Arrays one after another."""
        arrays = [self.arrays[i] for i in sources]
        size = sum(map(len, arrays))
        return self.made("joined", tuple(sources), size, lambda out: lambda: np.concatenate(arrays, out=out))

    def tiled(self, source: int, times: int) -> int:
        """An array several times after itself."""
        a = self.arrays[source]

        def make(out: Array) -> Call:
            rows = out.reshape(times, len(a))
            return lambda: np.copyto(rows, a)

        return self.made(("tiled", times), (source,), times * len(a), make)

    def interleaved(self, sources: list[int], count: int) -> int:
        """The first entries of all arrays, then the second ones, and so on; one number stands for as many as others have."""
        arrays = [self.arrays[i] for i in sources]

        def make(out: Array) -> Call:
            table = out.reshape(count, len(arrays))

            def call() -> None:
                for j, a in enumerate(arrays):
                    table[:, j] = a

            return call

        return self.made(("interleaved", count), tuple(sources), count * len(arrays), make)

    def stacked(self, sources: list[int], count: int) -> int:
        """All arrays one after another; one number stands for as many as others have."""
        arrays = [self.arrays[i] for i in sources]

        def make(out: Array) -> Call:
            rows = list(zip(out.reshape(len(arrays), count), arrays, strict=True))

            def call() -> None:
                for row, a in rows:
                    row[:] = a

            return call

        return self.made(("stacked", count), tuple(sources), count * len(arrays), make)

    def reduced(self, what: str, sources: list[int]) -> int:
        """One number of arrays: the norm of one, or the sum of the products of two."""
        a, b = self.arrays[sources[0]], self.arrays[sources[-1]]

        def make(out: Array) -> Call:
            def call() -> None:
                out[0] = np.multiply(a, b).sum()
                if what == "norm":
                    out[0] = np.sqrt(out[0])

            return call

        return self.made(what, tuple(sources), 1, make)

    def called(
        self, function: ca.Function, sources: list[int], bind: Callable[[ca.Function, list[Array], list[Array]], Call]
    ) -> list[int]:
        """The outputs of a function that CasADi evaluates."""
        sizes = [function.nnz_out(i) for i in range(function.n_out())]
        whole = self.made(
            ("called", function.__hash__()), tuple(sources), sum(sizes),
            lambda out: bind(function, [self.arrays[i] for i in sources], np.split(out, np.cumsum(sizes)[:-1])),
        )  # fmt: skip
        return [self.part(whole, a, b) for a, b in zip(np.cumsum([0, *sizes]), np.cumsum(sizes), strict=False)]

    def part(self, source: int, begin: int, end: int) -> int:
        """A part of an array, in its place."""
        a = self.arrays[source]
        if (begin, end) == (0, len(a)):
            return source
        key = ("part", begin, end), (source,)
        if key not in self._known:
            self._known[key] = self._new(a[begin:end], self.levels[source])
        return self._known[key]


def _applied(rule: Callable[..., object], arrays: list[Array], out: Array) -> Call:
    if len(arrays) == 1:
        (a,) = arrays
        return lambda: rule(a, out=out)
    a, b = arrays
    return lambda: rule(a, b, out=out)
