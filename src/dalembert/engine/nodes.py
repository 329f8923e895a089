"""Operations on whole arrays, each made once: what large steps are evaluated by.

A node is an array and the work that fills it. Nodes with the same operation and operands are one. Each is filled as seldom as
it can be: once for a run, where it depends on the step size and parameters alone; once for a solve; or at each iterate.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Sequence
from functools import cache
from itertools import pairwise

import casadi as ca
import numpy as np
from scipy.sparse import csc_matrix, csr_matrix

from dalembert.engine.entrywise import BINARY, UNARY
from dalembert.engine.patterns import Array, Indices, Pattern, Places, Product, grouped
from dalembert.engine.work import ALL, AT, ONE, Call, Scratch, Work

RUN, SOLVE, ITERATE = range(3)  # how often a node is filled


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
        self._joined: dict[int, tuple[tuple[int, ...], Indices]] = {}  # nodes that are others in a row, and where each begins
        self.segments: set[int] = set()  # parts of these, to which the others are copied

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
        key = "numbers", values.size, _digest(values)
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
        source, places = self.origin(source, places)
        a, n = self.arrays[source], len(places)
        if n == len(a) and np.array_equal(places, np.arange(n)):
            return source
        own = Places(places)
        number = self.filled(
            ("take", n, _digest(own.values)), (source,), n,
            lambda out, k: Work(
                lambda: np.take(a, own.wide, out=out, mode="clip"), k, (source,), ca.OP_ASSIGN, (AT,), (own,), (n,)
            ),
        )  # fmt: skip
        self._taken[number] = source, own.values
        return number

    def origin(self, source: int, places: Indices | None = None) -> tuple[int, Indices]:
        """Where entries of an array come from: the node that is no mere choice of others, and its entries."""
        if places is None:
            places = np.arange(len(self.arrays[source]), dtype=np.int32)
        while True:
            if source in self._taken:
                source, inner = self._taken[source]
                places = inner[places]
            elif source in self._joined and len(places):
                atoms, starts = self._joined[source]
                j = int(np.searchsorted(starts, places.min(), "right")) - 1
                if places.max() >= starts[j + 1]:
                    return source, places
                source, places = atoms[j], places - starts[j]
            else:
                return source, places

    def root(self, number: int) -> int:
        """What tells arrays apart that lie in different memory."""
        a = self.arrays[number]
        while isinstance(a.base, np.ndarray):
            a = a.base
        return id(a)

    def close(self, lists: list[list[Work]], exposed: set[int]) -> None:
        """Nothing is added any more: leave out work of lists, in the order in which they are done, that nobody looks at."""
        self._known.clear()
        self._taken.clear()  # with all lists of places
        self._joined.clear()
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
        self.work(source).append(_copy(a, out, number, source))

    # ---- parts ------------------------------------------------------------------------------------------

    def put(self, base: int, source: int, places: Indices, add: bool) -> int:
        """An array with some entries replaced, or added to."""
        if base in self.zeros and not add:
            return self.spread(source, places, len(self.arrays[base]))
        a, b, own = self.arrays[base], self.arrays[source], Places(places)

        def make(out: Array, number: int) -> Work:
            def call() -> None:
                out[:] = a
                if add:
                    np.add.at(out, own.wide, b)
                else:
                    out[own.wide] = b

            name = "add" if add else "put"
            return Work(call, number, (base, source), name, (), (own,), (len(a), len(places)))

        return self.filled(("put", _digest(own.values), add), (base, source), len(a), make)

    def spread(self, source: int, places: Indices, size: int) -> int:
        """An array with some entries given, the others zero."""
        n = len(places)
        chosen = np.full(size, n, dtype=np.int32)
        chosen[places] = np.arange(n)
        if (chosen < n).all():
            return self.take(source, chosen)
        return self.take(self.joined([source, self.constant(np.zeros(1))]), chosen)

    def joined(self, sources: Sequence[int]) -> int:
        """Arrays one after another."""
        return self._moved([(i, np.arange(len(self.arrays[i]), dtype=np.int32)) for i in sources])

    def tiled(self, source: int, times: int) -> int:
        """An array several times after itself."""
        return self.take(source, np.tile(np.arange(len(self.arrays[source])), times))

    def interleaved(self, sources: list[int], count: int) -> int:
        """The first entries of all arrays, then the second ones, and so on; one number stands for as many as others have."""
        r = len(sources)
        return self.take(self.stacked(sources, count), (np.arange(r) * count + np.arange(count)[:, None]).ravel())

    def stacked(self, sources: list[int], count: int) -> int:
        """All arrays one after another; one number stands for as many as others have."""
        every = np.arange(count, dtype=np.int32)
        return self._moved([(i, every if len(self.arrays[i]) == count else np.zeros_like(every)) for i in sources])

    def _moved(self, rows: list[tuple[int, Indices]]) -> int:
        """Entries of some arrays, then of others.

        What was chosen from them before is chosen here, once: from arrays that lie side by side.
        """
        origins = [self.origin(i, places) for i, places in rows]
        if len({source for source, _ in origins}) == 1:
            return self.take(origins[0][0], np.concatenate([places for _, places in origins]))
        atoms: dict[int, int] = {}  # with their sizes
        chosen = []
        for row, origin in zip(rows, origins, strict=True):
            # a part of a larger array stays what it is: that would have to be copied as a whole
            source, places = origin if len(self.arrays[origin[0]]) <= len(row[1]) else row
            inner, starts = self._joined.get(source, ((source,), np.zeros(1, dtype=np.int32)))
            atoms |= {i: len(self.arrays[i]) for i in inner}
            chosen.append((inner, starts, places))
        ends = np.cumsum(list(atoms.values()))
        begin = dict(zip(atoms, ends - list(atoms.values()), strict=True))
        whole = self._concatenated(tuple(atoms), np.concatenate([[0], ends]))
        parts = []
        for inner, starts, places in chosen:
            shifts = np.array([begin[i] for i in inner]) - starts[: len(inner)]
            own = np.searchsorted(starts[: len(inner)], places, "right") - 1 if len(inner) > 1 else 0
            parts.append(places + shifts[own])
        return self.take(whole, np.concatenate(parts))

    def _concatenated(self, atoms: tuple[int, ...], starts: Indices) -> int:
        """Whole arrays one after another, each copied as seldom as it can be."""
        key = "joined", atoms
        if key in self._known:
            return self._known[key]
        level = max(self.levels[i] for i in atoms)
        lasting = self._scratch is None or level < ITERATE
        array = np.zeros(int(starts[-1])) if lasting or self._scratch is None else self._scratch.take(int(starts[-1]))
        whole = self._known[key] = self._new(array, level)
        self._joined[whole] = atoms, starts
        for i, (begin, end) in zip(atoms, pairwise(starts), strict=True):
            a, own = self.arrays[i], array[begin:end]
            number = self._new(own, self.levels[i] if lasting else level)
            self.segments.add(number)
            self.work(number).append(_copy(a, own, number, i))
        return whole

    def part(self, source: int, begin: int, end: int) -> int:
        """A part of an array, in its place."""
        a = self.arrays[source]
        if (begin, end) == (0, len(a)):
            return source
        key = ("part", begin, end), (source,)
        if key not in self._known:
            self._known[key] = number = self._new(a[begin:end], self.levels[source])
            self._taken[number] = source, np.arange(begin, end, dtype=np.int32)
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
        name = "row_times" if turned else "products"  # the same sums: each row by itself, in the order of columns
        lists, sizes = ([p.starts, p.rows], (shape[0],)) if turned else grouped(*p.by_rows)

        def make(out: Array, number: int) -> Work:
            A = cache(lambda: (csr_matrix if turned else csc_matrix)((a, p.rows, p.starts), shape=shape))

            def call() -> None:
                A().data = a  # in its place, whatever the constructor did
                out[:] = A() @ b

            return Work(call, number, (matrix, vector), name, (), tuple(map(Places, lists)), sizes)

        return self.filled(("times", turned, _digest(p.starts), _digest(p.rows)), (matrix, vector), shape[0], make)

    def product(self, x: int, y: int, product: Product) -> int:
        """The product of two sparse matrices."""
        starts, first, second = product.lists
        if product.plain:
            return self.apply(ca.OP_MUL, [self.take(x, first), self.take(y, second)])
        (x, first), (y, second) = self.origin(x, first), self.origin(y, second)
        a, b, n = self.arrays[x], self.arrays[y], len(product.pattern.rows)
        lists, sizes = grouped(starts, first, second)
        own = tuple(map(Places, lists))

        def make(out: Array, number: int) -> Work:
            place = cache(lambda: np.repeat(lists[0].astype(np.intp), np.diff(starts)[lists[0]]))

            def call() -> None:
                out[:] = np.bincount(place(), weights=a[own[1].wide] * b[own[2].wide], minlength=n)

            return Work(call, number, (x, y), "products", (), own, sizes)

        return self.filled(("product", n, *map(_digest, lists)), (x, y), n, make)

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


def _copy(a: Array, out: Array, number: int, source: int) -> Work:
    return Work(lambda: np.copyto(out, a), number, (source,), ca.OP_ASSIGN, (ALL,), (), (len(a),))


def _digest(values: Array | Indices) -> bytes:
    """What stands for an array in a key."""
    return hashlib.blake2b(np.ascontiguousarray(values).data, digest_size=16).digest()
