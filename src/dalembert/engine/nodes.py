"""Operations on whole arrays, each made once: what large steps are evaluated by.

A node is an array and the work that fills it. Nodes with the same operation and operands are one. Each is filled as seldom as
it can be: once for a run, where it depends on the step size and parameters alone; once for a solve; or at each iterate.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from itertools import pairwise

import casadi as ca
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_matrix, csr_matrix

from dalembert.engine.patterns import Pattern, Product

Array = NDArray[np.float64]
Indices = NDArray[np.int64]
Call = Callable[[], object]
BLOCK = 1 << 18  # numbers of a block of memory at least
RUN, SOLVE, ITERATE = range(3)  # how often a node is filled
ALL, ONE, AT = "{}[i]", "{}[0]", "{}[{}[i]]"  # what of an operand belongs to entry `i`


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


@dataclass(frozen=True, eq=False)
class Work:
    """What fills a node, by NumPy; and how it is written in C, where it can be.

    `op` is an operation on entries, each operand by what of it belongs to one (`reads`), over `size` entries; or the name of a
    routine of `kernels.c`, with numbers `size` and more.
    """

    call: Call
    out: int
    sources: tuple[int, ...]
    op: int | str | None = None
    reads: tuple[str, ...] = ()
    indices: tuple[Indices, ...] = ()
    sizes: tuple[int, ...] = ()


class Scratch:
    """Memory for what is needed while one piece of work is done: the next one takes it again."""

    def __init__(self) -> None:
        self._blocks: list[Array] = []
        self._at = (0, 0)  # the next block, and the next entry of it

    def begin(self) -> None:
        """Another piece of work begins."""
        self._at = (0, 0)

    def take(self, size: int) -> Array:
        """An array that tells itself apart from others in the same memory."""
        block, entry = self._at
        while block < len(self._blocks) and entry + size > len(self._blocks[block]):
            block, entry = block + 1, 0
        if block == len(self._blocks):
            self._blocks.append(np.zeros(max(size, BLOCK)))
        self._at = block, entry + size
        own = memoryview(self._blocks[block].data)[entry : entry + size]
        return np.frombuffer(own) if size else np.zeros(0)


class Nodes:
    """Arrays by number, and the work that fills them, in order."""

    def __init__(self, scratch: Scratch | None = None) -> None:
        self._scratch = scratch  # where those lie that are filled at each iterate, if they need not stay
        self.arrays: list[Array] = []
        self.levels: list[int] = []
        self.fixed: list[Work] = []  # once for a run
        self.once: list[Work] = []  # once for a solve
        self.each: list[Work] = []  # at each iterate: of what is bound now
        self.zeros: set[int] = set()
        self._known: dict[Hashable, int] = {}
        self.foreign: set[int] = set()  # arrays that others fill, or look at
        self._taken: dict[int, tuple[int, Indices]] = {}  # nodes that are entries of others

    def mark(self) -> tuple[dict[Hashable, int], tuple[int, int, int]]:
        """Where things stand."""
        return dict(self._known), (len(self.fixed), len(self.once), len(self.each))

    def back(self, mark: tuple[dict[Hashable, int], tuple[int, int, int]]) -> None:
        """Forget what was made since."""
        self._known, (fixed, once, each) = mark
        del self.fixed[fixed:], self.once[once:], self.each[each:]

    def source(self, array: Array, level: int) -> int:
        """An array that others fill."""
        key = "array", array.__array_interface__["data"][0], array.size
        if key not in self._known:
            self._known[key] = self._new(array, level)
            self.foreign.add(self._known[key])
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

    def filled(self, key: Hashable, sources: tuple[int, ...], size: int, make: Callable[[Array, int], Work]) -> int:
        """A node: `make(array, number)` gives the work that fills it from its sources."""
        whole = (key, sources)
        if whole not in self._known:
            level = max((self.levels[i] for i in sources), default=RUN)
            array = self._scratch.take(size) if self._scratch is not None and level == ITERATE else np.zeros(size)
            number = self._new(array, level)
            self.work(number).append(make(array, number))
            self._known[whole] = number
        return self._known[whole]

    def work(self, *numbers: int) -> list[Work]:
        """Where work belongs that reads these nodes."""
        return (self.fixed, self.once, self.each)[max((self.levels[i] for i in numbers), default=RUN)]

    # ---- entry by entry ---------------------------------------------------------------------------------

    def apply(self, op: int, operands: list[int]) -> int:
        """An operation entry by entry; one number goes with all entries."""
        arrays = [self.arrays[i] for i in operands]
        if op in (ca.OP_ADD, ca.OP_SUB) and operands[1] in self.zeros and len(arrays[0]) >= len(arrays[1]):
            return operands[0]
        rule = (UNARY if len(operands) == 1 else BINARY)[op]
        size = 0 if any(not a.size for a in arrays) else max(a.size for a in arrays)
        reads = tuple(ALL if a.size == size else ONE for a in arrays)
        key, sources = (op,), tuple(operands)
        return self.filled(
            key, sources, size, lambda out, k: Work(_applied(rule, arrays, out), k, sources, op, reads, (), (size,))
        )

    def take(self, source: int, places: Indices) -> int:
        """Entries of an array."""
        while source in self._taken:
            source, inner = self._taken[source]
            places = inner[places]
        a, n = self.arrays[source], len(places)
        if n == len(a) and np.array_equal(places, np.arange(n)):
            return source
        number = self.filled(
            ("take", places.tobytes()), (source,), n,
            lambda out, k: Work(
                lambda: np.take(a, places, out=out, mode="clip"), k, (source,), ca.OP_ASSIGN, (AT,), (places,), (n,)
            ),
        )  # fmt: skip
        self._taken[number] = source, places
        return number

    def root(self, number: int) -> int:
        """What tells arrays apart that lie in different memory."""
        a = self.arrays[number]
        while isinstance(a.base, np.ndarray):
            a = a.base
        return id(a)

    def close(self, lists: list[list[Work]], exposed: set[int]) -> None:
        """Nothing is added any more: leave out work of lists, in the order in which they are done, that nobody looks at."""
        self._known.clear()  # with all lists of places
        self._taken.clear()
        needed = {self.root(k) for k in exposed | self.foreign}
        for work in reversed(lists):
            kept = []
            for w in reversed(work):
                if w.op is None or self.root(w.out) in needed:
                    kept.append(w)
                    needed |= {self.root(k) for k in w.sources}
            work[:] = kept[::-1]

    def copied(self, source: int, out: Array) -> None:
        """Copy a node to an array of others."""
        a, number = self.arrays[source], self.source(out, self.levels[source])
        work = Work(lambda: np.copyto(out, a), number, (source,), ca.OP_ASSIGN, (ALL,), (), (len(a),))
        self.work(source).append(work)

    # ---- parts ------------------------------------------------------------------------------------------

    def put(self, base: int, source: int, places: Indices, add: bool) -> int:
        """An array with some entries replaced, or added to."""
        a, b = self.arrays[base], self.arrays[source]

        def make(out: Array, number: int) -> Work:
            def call() -> None:
                out[:] = a
                if add:
                    np.add.at(out, places, b)
                else:
                    out[places] = b

            name = "add" if add else "put"
            return Work(call, number, (base, source), name, (), (places,), (len(a), len(places)))

        return self.filled(("put", places.tobytes(), add), (base, source), len(a), make)

    def joined(self, sources: list[int]) -> int:
        """Arrays one after another."""
        arrays = [self.arrays[i] for i in sources]
        sizes = [len(a) for a in arrays]
        parts = [self._taken.get(i) or (i, np.arange(n)) for i, n in zip(sources, sizes, strict=True)]
        if len(sources) > 1 and len({source for source, _ in parts}) == 1:  # all of one array
            return self.take(parts[0][0], np.concatenate([places for _, places in parts]))

        def make(out: Array, number: int) -> Work:
            return Work(lambda: np.concatenate(arrays, out=out), number, tuple(sources), "join", (), (), (len(sizes), *sizes))

        return self.filled("joined", tuple(sources), sum(sizes), make)

    def tiled(self, source: int, times: int) -> int:
        """An array several times after itself."""
        a = self.arrays[source]
        return self.take(source, np.tile(np.arange(len(a)), times))

    def interleaved(self, sources: list[int], count: int) -> int:
        """The first entries of all arrays, then the second ones, and so on; one number stands for as many as others have."""
        r = len(sources)
        if r == 1 and len(self.arrays[sources[0]]) == count:
            return sources[0]
        return self.take(self.stacked(sources, count), (np.arange(r) * count + np.arange(count)[:, None]).ravel())

    def stacked(self, sources: list[int], count: int) -> int:
        """All arrays one after another; one number stands for as many as others have."""
        arrays, r = [self.arrays[i] for i in sources], len(sources)

        def make(out: Array, number: int) -> Work:
            rows = list(zip(out.reshape(r, count), arrays, strict=True))

            def call() -> None:
                for row, a in rows:
                    row[:] = a

            sizes = (count, r, *(int(len(a) == count) for a in arrays))
            return Work(call, number, tuple(sources), "stack", (), (), sizes)

        return self.filled(("stacked", count), tuple(sources), count * r, make)

    def part(self, source: int, begin: int, end: int) -> int:
        """A part of an array, in its place."""
        a = self.arrays[source]
        if (begin, end) == (0, len(a)):
            return source
        key = ("part", begin, end), (source,)
        if key not in self._known:
            self._known[key] = number = self._new(a[begin:end], self.levels[source])
            self._taken[number] = source, np.arange(begin, end)
        return self._known[key]

    # ---- sums -------------------------------------------------------------------------------------------

    def reduced(self, what: str, sources: list[int]) -> int:
        """One number of arrays: the norm of one, or the sum of the products of two."""
        a, b = self.arrays[sources[0]], self.arrays[sources[-1]]

        def make(out: Array, number: int) -> Work:
            def call() -> None:
                out[0] = np.multiply(a, b).sum()
                if what == "norm":
                    out[0] = np.sqrt(out[0])

            return Work(call, number, (sources[0], sources[-1]), what, (), (), (len(a),))

        return self.filled(what, tuple(sources), 1, make)

    def times(self, matrix: int, pattern: Pattern, vector: int, turned: bool = False) -> int:
        """A sparse matrix, or its transpose, times a vector."""
        a, b, p = self.arrays[matrix], self.arrays[vector], pattern
        shape = p.shape[::-1] if turned else p.shape
        A = (csr_matrix if turned else csc_matrix)((a, p.rows.astype(np.int32), p.starts.astype(np.int32)), shape=shape)
        A.data = a  # in its place, whatever the constructor did

        def make(out: Array, number: int) -> Work:
            name = "row_times" if turned else "column_times"
            sources = (matrix, vector)
            return Work(lambda: np.copyto(out, A @ b), number, sources, name, (), (p.starts, p.rows), (p.shape[1], shape[0]))

        return self.filled(("times", turned, p.keys.tobytes()), (matrix, vector), shape[0], make)

    def product(self, x: int, y: int, product: Product) -> int:
        """The product of two sparse matrices."""
        a, b, n = self.arrays[x], self.arrays[y], len(product.pattern.rows)
        if product.plain:
            _, first, second = product.lists
            return self.apply(ca.OP_MUL, [self.take(x, first), self.take(y, second)])

        def make(out: Array, number: int) -> Work:
            starts, first, second = product.lists
            return Work(
                lambda: np.copyto(out, product(a, b)), number, (x, y), "products", (), (starts, first, second), (n,)
            )  # fmt: skip

        return self.filled(("product", product.key), (x, y), n, make)

    def called(self, function: ca.Function, sources: list[int], bind: Bind) -> list[int]:
        """The outputs of a function that CasADi evaluates."""
        sizes = [function.nnz_out(i) for i in range(function.n_out())]
        cuts = np.cumsum([0, *sizes])

        def make(out: Array, number: int) -> Work:
            call = bind(function, [self.arrays[i] for i in sources], np.split(out, cuts[1:-1]))
            return Work(call, number, tuple(sources))

        whole = self.filled(("called", function.__hash__()), tuple(sources), int(cuts[-1]), make)
        return [self.part(whole, int(a), int(b)) for a, b in pairwise(cuts)]


Bind = Callable[[ca.Function, list[Array], list[Array]], Call]


def _applied(rule: Callable[..., object], arrays: list[Array], out: Array) -> Call:
    if len(arrays) == 1:
        (a,) = arrays
        return lambda: rule(a, out=out)
    a, b = arrays
    return lambda: rule(a, b, out=out)
