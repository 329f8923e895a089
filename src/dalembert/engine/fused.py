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
from dalembert.engine.graph import _TEXT
from dalembert.engine.nodes import ALL, AT, ONE, Array, Call, Indices, Nodes, Work

FLAGS = ("-O3", "-ftree-vectorize", "-fno-tree-slp-vectorize")  # loops over neighbours, each by itself: bits stay what they are
TEXT = {**_TEXT, ca.OP_SQ: "{0} * {0}", ca.OP_TWICE: "{0} + {0}"}
EXACT = {
    ca.OP_ADD, ca.OP_SUB, ca.OP_MUL, ca.OP_DIV, ca.OP_NEG, ca.OP_INV, ca.OP_SQ, ca.OP_TWICE, ca.OP_SQRT, ca.OP_FABS, ca.OP_LT,
    ca.OP_LE, ca.OP_EQ, ca.OP_NE, ca.OP_NOT, ca.OP_AND, ca.OP_OR, ca.OP_IF_ELSE_ZERO, ca.OP_ASSIGN, ca.OP_FMIN, ca.OP_FMAX,
    ca.OP_SIGN,
}  # fmt: skip
LONG = 90_000  # characters of source beyond which a compiler takes its time
LONGEST = 64  # operations of one loop: more would not fit into registers
HEAD = """#include <math.h>
#include <string.h>
#define DA_EXPORT __attribute__((visibility("default")))
static inline double da_sign(double x) { return x > 0 ? 1.0 : x < 0 ? -1.0 : x; }
static void put(double *o, double **s, int **p, const long *n)
{
    for (long i = 0; i < n[0]; i++) o[i] = s[0][i];
    for (long i = 0; i < n[1]; i++) o[p[0][i]] = s[1][i];
}
static void add(double *o, double **s, int **p, const long *n)
{
    for (long i = 0; i < n[0]; i++) o[i] = s[0][i];
    for (long i = 0; i < n[1]; i++) o[p[0][i]] += s[1][i];
}
static void stack(double *o, double **s, int **p, const long *n)
{
    for (long j = 0; j < n[1]; j++)
        if (n[2 + j]) for (long i = 0; i < n[0]; i++) o[j * n[0] + i] = s[j][i];
        else for (long i = 0; i < n[0]; i++) o[j * n[0] + i] = s[j][0];
}
static void join(double *o, double **s, int **p, const long *n)
{
    for (long j = 0; j < n[0]; j++)
        for (long i = 0; i < n[1 + j]; i++) *o++ = s[j][i];
}
/* as NumPy adds up */
static double total(const double *a, const double *b, long n)
{
    if (n < 8) {
        double s = 0.0;
        for (long i = 0; i < n; i++) s += a[i] * b[i];
        return s;
    }
    if (n <= 128) {
        double r[8];
        long i;
        for (int j = 0; j < 8; j++) r[j] = a[j] * b[j];
        for (i = 8; i < n - n % 8; i += 8)
            for (int j = 0; j < 8; j++) r[j] += a[i + j] * b[i + j];
        double s = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
        for (; i < n; i++) s += a[i] * b[i];
        return s;
    }
    long half = n / 2;
    half -= half % 8;
    return total(a, b, half) + total(a + half, b + half, n - half);
}
static void dot(double *o, double **s, int **p, const long *n) { o[0] = total(s[0], s[1], n[0]); }
static void norm(double *o, double **s, int **p, const long *n) { o[0] = sqrt(total(s[0], s[1], n[0])); }
static void column_times(double *restrict o, double **s, int **p, const long *n)
{
    const double *restrict a = s[0], *restrict b = s[1];
    const int *restrict start = p[0], *restrict row = p[1];
    for (long i = 0; i < n[1]; i++) o[i] = 0.0;
    for (long j = 0; j < n[0]; j++)
        for (int k = start[j]; k < start[j + 1]; k++) o[row[k]] += a[k] * b[j];
}
static void row_times(double *restrict o, double **s, int **p, const long *n)
{
    const double *restrict a = s[0], *restrict b = s[1];
    const int *restrict start = p[0], *restrict column = p[1];
    for (long j = 0; j < n[0]; j++) {
        double sum = 0.0;
        for (int k = start[j]; k < start[j + 1]; k++) sum += a[k] * b[column[k]];
        o[j] = sum;
    }
}
static void products(double *restrict o, double **s, int **p, const long *n)
{
    const double *restrict a = s[0], *restrict b = s[1];
    const int *restrict start = p[0], *restrict i = p[1], *restrict j = p[2];
    for (long e = 0; e < n[0]; e++) {
        double sum = 0.0;
        for (int k = start[e]; k < start[e + 1]; k++) sum += a[i[k]] * b[j[k]];
        o[e] = sum;
    }
}
"""


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

    @property
    def loop(self) -> bool:
        return isinstance(self.work[0].op, int)


@dataclass
class Table:
    """The arguments of a function in C: arrays, lists of places, and sizes."""

    arrays: list[Array] = field(default_factory=list)
    indices: list[Indices] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)

    def array(self, a: Array) -> int:
        """The number of an array."""
        found = next((k for k, other in enumerate(self.arrays) if other is a), None)
        if found is None:
            self.arrays.append(a)
            found = len(self.arrays) - 1
        return found


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
        drafts = [[self._drafted(c, part, c.rare or not k) for k, part in enumerate(_grouped(c))] for c in chains]
        self.source = HEAD + "".join(body.replace("$name", name) for body, name in self._names.items()) + more
        self.flags = FLAGS if len(self.source) < LONG else ("-O1",)
        self.library = compiler.load(self.source, self.flags)
        self.calls: list[list[list[Call]]] = [
            [[self._bound(x) if isinstance(x, tuple) else x for x in calls] for calls in lists] for lists in drafts
        ]

    def _drafted(self, chain: Piece, parts: list[list[Part] | Call], rare: bool) -> list[tuple[str, Table] | Call]:
        out: list[tuple[str, Table] | Call] = []
        uses = _uses(chain)
        for group in parts:
            if not isinstance(group, list):
                out.append(group)
                continue
            table = Table()
            body = "".join(_loop(p, table, chain, uses) if p.loop else _routine(p.work[0], table, chain.nodes) for p in group)
            kind = "__attribute__((cold)) void" if rare else "void"
            body = f"{kind} $name(double **a, int **p, const long *n)\n{{\n{body}}}\n"
            out.append((self._names.setdefault(body, f"da_work{len(self._names)}"), table))
        return out

    def _bound(self, draft: tuple[str, Table]) -> Bound:
        name, table = draft
        function = self.library[name]
        function.argtypes, function.restype = [ctypes.c_void_p] * 3, None
        indices = [np.ascontiguousarray(i, dtype=np.int32) for i in table.indices]
        pointers = [np.array([x.ctypes.data for x in xs] or [0], dtype=np.uintp) for xs in (table.arrays, indices)]
        sizes = np.array(table.sizes or [0], dtype=np.dtype(ctypes.c_long))
        a, p, n = (x.ctypes.data for x in (*pointers, sizes))
        address = ctypes.cast(function, ctypes.c_void_p).value or 0
        return Bound(function, address, (a, p, n), (table, indices, pointers, sizes))


def _grouped(chain: Piece) -> list[list[list[Part] | Call]]:
    """The work of a chain in parts; those in a row that can be written are one group."""
    out: list[list[list[Part] | Call]] = []
    for calls in chain.work:
        groups: list[list[Part] | Call] = []
        for work in calls:
            if not writable(work):
                groups.append(work.call)
                continue
            if not groups or not isinstance(groups[-1], list):
                groups.append([])
            group = groups[-1]
            assert isinstance(group, list)
            if group and _fits(work, group[-1], chain.nodes):
                group[-1].work.append(work)
            else:
                group.append(Part([work]))
        out.append(groups)
    return out


def _fits(work: Work, part: Part, nodes: Nodes) -> bool:
    """Whether work can be done in a loop that is there: entry by entry, of values of the same entries."""
    first = part.work[0]
    if not (part.loop and isinstance(work.op, int) and work.sizes == first.sizes and len(part.work) < LONGEST):
        return False
    made = {other.out for other in part.work}
    roots = {nodes.root(k) for k in made}
    for k, how in zip(work.sources, work.reads, strict=True):
        if (k in made and how != ALL) or (k not in made and nodes.root(k) in roots):
            return False
    return nodes.root(work.out) not in roots


def _uses(chain: Piece) -> dict[int, list[int]]:
    """For each node the numbers of the pieces of work that read it or other parts of its memory."""
    out: dict[int, list[int]] = {}
    for work in (w for calls in chain.work for w in calls):
        for k in work.sources:
            out.setdefault(chain.nodes.root(k), []).append(id(work))
    return out


def _loop(part: Part, table: Table, chain: Piece, uses: dict[int, list[int]]) -> str:
    """A loop over the entries of arrays; what nobody else reads is not stored."""
    nodes, own = chain.nodes, {id(work) for work in part.work}
    made: dict[int, str] = {}
    lines = []
    for work in part.work:
        texts = []
        indices = iter(work.indices)
        for k, how in zip(work.sources, work.reads, strict=True):
            if k in made:
                texts.append(made[k])
                continue
            name = f"a[{table.array(nodes.arrays[k])}]"
            if how == AT:
                table.indices.append(next(indices))
                texts.append(how.format(name, f"p[{len(table.indices) - 1}]"))
            else:
                texts.append((ONE if how == ONE else ALL).format(name))
        assert isinstance(work.op, int)
        made[work.out] = f"t{len(made)}"
        lines.append(f"        const double {made[work.out]} = {TEXT[work.op].format(*texts)};\n")
        read = uses.get(nodes.root(work.out), [])
        if work.out in chain.exposed or work.out in nodes.foreign or not read or not set(read) <= own:
            lines.append(f"        a[{table.array(nodes.arrays[work.out])}][i] = {made[work.out]};\n")
    table.sizes.append(part.work[0].sizes[0])
    head = f"    {{\n    const long m = n[{len(table.sizes) - 1}];\n#pragma GCC ivdep\n    for (long i = 0; i < m; i++) {{\n"
    return f"{head}{''.join(lines)}    }}\n    }}\n"


def _routine(work: Work, table: Table, nodes: Nodes) -> str:
    """A call of a routine: its sources lie side by side in the table."""
    out = table.array(nodes.arrays[work.out])
    first, places, sizes = len(table.arrays), len(table.indices), len(table.sizes)
    table.arrays += [nodes.arrays[k] for k in work.sources]
    table.indices += work.indices
    table.sizes += work.sizes
    return f"    {work.op}(a[{out}], a + {first}, p + {places}, n + {sizes});\n"
