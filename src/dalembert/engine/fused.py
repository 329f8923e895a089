"""The work of large steps in C: operations on the entries of arrays in common loops, sums by lists.

The source depends on what is done, not on how many entries there are: arrays, lists and sizes are arguments. So it is short,
compiled in a moment, and the same for systems of one kind and any size.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import casadi as ca
import numpy as np

from dalembert.engine import compiler
from dalembert.engine.emission import template
from dalembert.engine.graph import _TEXT
from dalembert.engine.nodes import Nodes
from dalembert.engine.patterns import Array, Places
from dalembert.engine.work import ALL, AT, Call, Work

FLAGS = ("-O3", "-ftree-vectorize", "-fno-tree-slp-vectorize")  # loops over neighbours, each by itself: bits stay what they are
TEXT = {**_TEXT, ca.OP_SQ: "{0} * {0}", ca.OP_TWICE: "{0} + {0}"}
EXACT = {
    ca.OP_ADD, ca.OP_SUB, ca.OP_MUL, ca.OP_DIV, ca.OP_NEG, ca.OP_INV, ca.OP_SQ, ca.OP_TWICE, ca.OP_SQRT, ca.OP_FABS, ca.OP_LT,
    ca.OP_LE, ca.OP_EQ, ca.OP_NE, ca.OP_NOT, ca.OP_AND, ca.OP_OR, ca.OP_IF_ELSE_ZERO, ca.OP_ASSIGN, ca.OP_FMIN, ca.OP_FMAX,
    ca.OP_SIGN,
}  # fmt: skip
LONG = 90_000  # characters of source beyond which a compiler takes its time
RARE = '__attribute__((cold, optimize("O1"))) '  # of what is done now and then
LONGEST = 64  # operations of one loop: more would not fit into registers
BACK = 24  # parts before which work may be done, where it belongs to an earlier loop


KERNELS = template("kernels.c").template


class Piece(Protocol):
    """What is written in C: lists of work on nodes, of which others look at some."""

    nodes: Nodes
    rare: bool  # whether it is done now and then only

    @property
    def work(self) -> list[list[Work]]: ...
    @property
    def exposed(self) -> set[int]: ...


@dataclass
class Part:
    """Pieces of work in a row that are done together: one loop over entries, or one routine."""

    work: list[Work]
    reads: list[tuple[int, int]]  # where in memory
    writes: list[tuple[int, int]]

    @property
    def loop(self) -> bool:
        return isinstance(self.work[0].op, int)

    def add(self, work: Work, reads: list[tuple[int, int]], writes: tuple[int, int]) -> None:
        """More work."""
        self.work.append(work)
        self.reads += reads
        self.writes.append(writes)


@dataclass
class Table:
    """The arguments of a function in C: arrays, lists of places, and sizes."""

    arrays: list[Array] = field(default_factory=list)
    indices: list[Places] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)

    def array(self, a: Array) -> int:
        """The number of an array."""
        found = next((k for k, other in enumerate(self.arrays) if other is a), None)
        if found is None:
            self.arrays.append(a)
            found = len(self.arrays) - 1
        return found

    def place(self, places: Places) -> str:
        """Which entry belongs to entry `i`: by a list, or without one where they follow each other evenly."""
        if places.even is None:
            self.indices.append(places)
            return f"p[{len(self.indices) - 1}][i]"
        begin, stride = places.even
        first = len(self.sizes)
        self.sizes += [begin] if stride == 1 else [begin, stride]
        return f"n[{first}] + i" if stride == 1 else f"n[{first}] + n[{first + 1}] * i"


def writable(work: Work) -> bool:
    """Whether a piece of work can be written in C."""
    return isinstance(work.op, str) or (isinstance(work.op, int) and work.op in TEXT)


def exact(pieces: Iterable[Piece]) -> bool:
    """Whether C gives the same bits as NumPy: no function is left to the mathematical library."""
    every = (work for piece in pieces for part in piece.work for work in part)
    return all(not isinstance(work.op, int) or work.op in EXACT for work in every)


@dataclass(frozen=True)
class Bound:
    """A function in C with its arguments."""

    function: Callable[[int, int, int], object]
    address: int
    arguments: tuple[int, int, int]
    kept: object

    def __call__(self) -> None:
        self.function(*self.arguments)


class Fused:
    """The work of chains as calls, most of them in C; `more` is source that comes with it."""

    def __init__(self, chains: Sequence[Piece], more: str = "") -> None:
        self._names: dict[str, str] = {}
        pages = [_Page(c) for c in chains]
        drafts = [[self._drafted(p, part, p.piece.rare or not k) for k, part in enumerate(p.parts())] for p in pages]
        self.source = "".join([KERNELS, *(body.replace("$name", name) for body, name in self._names.items()), more])
        often = len(self.source) - sum(len(body) for body in self._names if body.startswith(RARE))
        self.flags = FLAGS if len(self.source) < LONG else ("-O2" if often < LONG else "-O1",)
        self.library = compiler.load(self.source, self.flags)
        self.calls: list[list[list[Call]]] = [
            [[self._bound(x) if isinstance(x, tuple) else x for x in calls] for calls in lists] for lists in drafts
        ]

    def _drafted(self, page: _Page, parts: list[list[Part] | Call], rare: bool) -> list[tuple[str, Table] | Call]:
        out: list[tuple[str, Table] | Call] = []
        for group in parts:
            if not isinstance(group, list):
                out.append(group)
                continue
            table = Table()
            body = "".join(page.loop(p, table) if p.loop else page.routine(p.work[0], table) for p in group)
            body = f"{RARE if rare else ''}void $name(double **a, int **p, const long *n)\n{{\n{body}}}\n"
            out.append((self._names.setdefault(body, f"da_work{len(self._names)}"), table))
        return out

    def _bound(self, draft: tuple[str, Table]) -> Bound:
        name, table = draft
        function = self.library[name]
        function.argtypes, function.restype = [ctypes.c_void_p] * 3, None
        indices = [np.ascontiguousarray(i.values, dtype=np.int32) for i in table.indices]
        pointers = [np.array([x.ctypes.data for x in xs] or [0], dtype=np.uintp) for xs in (table.arrays, indices)]
        sizes = np.array(table.sizes or [0], dtype=np.dtype(ctypes.c_long))
        a, p, n = (x.ctypes.data for x in (*pointers, sizes))
        address = ctypes.cast(function, ctypes.c_void_p).value or 0
        return Bound(function, address, (a, p, n), (table, indices, pointers, sizes))


class _Page:
    """A piece as it is written: its work in parts, and where its nodes are stored."""

    def __init__(self, piece: Piece) -> None:
        self.piece, self.nodes = piece, piece.nodes
        self._seen = {*piece.exposed, *self.nodes.foreign}
        self._readers: dict[int, set[int]] = {}  # by what tells memory apart: the pieces of work that read it
        self._looks: dict[int, set[int]] = {}  # and the nodes by which it is looked at
        for work in (w for calls in piece.work for w in calls):
            for k in work.sources:
                self._readers.setdefault(self.nodes.root(k), set()).add(id(work))
                self._looks.setdefault(self.nodes.root(k), set()).add(k if writable(work) else -1)
        for k in self._seen:
            self._looks.setdefault(self.nodes.root(k), set()).add(-1)
        self._placed: dict[int, Array] = {}  # nodes that are stored right where they would be copied
        self._work = [self._direct(calls) for calls in piece.work]
        self._spans: dict[int, tuple[int, int]] = {}

    def _direct(self, calls: list[Work]) -> list[Work]:
        """Work without copies of what can be stored in its place."""
        made = {w.out for w in calls if writable(w) and w.out not in self.nodes.segments}
        out = []
        for w in calls:
            k = w.sources[0] if w.out in self.nodes.segments else -1
            if k in made and k not in self._placed and self._looks[self.nodes.root(k)] == {k}:
                self._placed[k] = self.nodes.arrays[w.out]
            else:
                out.append(w)
        return out

    def _array(self, k: int) -> Array:
        return self._placed.get(k, self.nodes.arrays[k])

    def _span(self, k: int) -> tuple[int, int]:
        """Where a node begins and ends in memory."""
        if k not in self._spans:
            a = self._array(k)
            self._spans[k] = a.ctypes.data, a.ctypes.data + a.nbytes
        return self._spans[k]

    def parts(self) -> list[list[list[Part] | Call]]:
        """All work in parts; those in a row that can be written are one group."""
        out: list[list[list[Part] | Call]] = []
        for calls in self._work:
            groups: list[list[Part] | Call] = []
            for work in calls:
                if not writable(work):
                    groups.append(work.call)
                    continue
                if not groups or not isinstance(groups[-1], list):
                    groups.append([])
                group = groups[-1]
                assert isinstance(group, list)
                self._enter(work, group)
            out.append(groups)
        return out

    def _enter(self, work: Work, group: list[Part]) -> None:
        """Enter work in the last loop where it fits, of those before which nothing is that it depends on; or at the end."""
        reads, writes = [self._span(k) for k in work.sources], self._span(work.out)
        for part in reversed(group[-BACK:]):
            if self._fits(work, part):
                part.add(work, reads, writes)
                return
            if any(_meet(own, by) for own in (*reads, writes) for by in part.writes) or any(
                _meet(writes, by) for by in part.reads
            ):
                break
        group.append(Part([work], [*reads], [writes]))

    def _fits(self, work: Work, part: Part) -> bool:
        """Whether work can be done in a loop that is there: entry by entry, of values of the same entries."""
        first = part.work[0]
        if not (part.loop and isinstance(work.op, int) and work.sizes == first.sizes and len(part.work) < LONGEST):
            return False
        made = {other.out for other in part.work}
        for k, how in zip(work.sources, work.reads, strict=True):
            if (k in made and how != ALL) or (k not in made and any(_meet(self._span(k), by) for by in part.writes)):
                return False
        return not any(_meet(self._span(work.out), by) for by in (*part.writes, *part.reads))

    def loop(self, part: Part, table: Table) -> str:
        """A loop over the entries of arrays; what nobody else reads is not stored."""
        own = {id(work) for work in part.work}
        made: dict[int, str] = {}
        lines = []
        for work in part.work:
            texts = []
            indices = iter(work.indices)
            for k, how in zip(work.sources, work.reads, strict=True):
                if k in made:
                    texts.append(made[k])
                    continue
                name = f"a[{table.array(self._array(k))}]"
                texts.append(f"{name}[{table.place(next(indices))}]" if how == AT else how.format(name))
            assert isinstance(work.op, int)
            made[work.out] = f"t{len(made)}"
            lines.append(f"        const double {made[work.out]} = {TEXT[work.op].format(*texts)};\n")
            read = self._readers.get(self.nodes.root(work.out), set())
            if work.out in self._seen or work.out in self._placed or not read or not read <= own:
                lines.append(f"        a[{table.array(self._array(work.out))}][i] = {made[work.out]};\n")
        table.sizes.append(part.work[0].sizes[0])
        head = f"    {{\n    const long m = n[{len(table.sizes) - 1}];\n#pragma GCC ivdep\n    for (long i = 0; i < m; i++) {{\n"
        return f"{head}{''.join(lines)}    }}\n    }}\n"

    def routine(self, work: Work, table: Table) -> str:
        """A call of a routine: its sources lie side by side in the table."""
        out = table.array(self._array(work.out))
        first, places, sizes = len(table.arrays), len(table.indices), len(table.sizes)
        table.arrays += [self._array(k) for k in work.sources]
        table.indices += work.indices
        table.sizes += work.sizes
        return f"    {work.op}(a[{out}], a + {first}, p + {places}, n + {sizes});\n"


def _meet(one: tuple[int, int], two: tuple[int, int]) -> bool:
    return one[0] < two[1] and two[0] < one[1]
