"""Repetition in what was written for a whole system: rows and terms of one shape, found and evaluated as elements are.

A model of many equal parts may be written with NumPy's operations on whole arrays. What it returns has many rows, or is a sum of
many terms, that are the same function of different coordinates. The operations are gone through once. Two values are of one
shape where they are made by the same operations of values of one shape; coordinates, parameters and constants stand for each
other. The rows of one shape are then followed side by side: their coordinates become the table of an element, their
parameters its places among those of the system, and constants that differ numbers of each repetition. What does not repeat
stays as it was written.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import casadi as ca
import numpy as np
from casadi import SX

from dalembert.systems.composed import MANY, Composed, large
from dalembert.systems.instructions import operation
from dalembert.systems.repeated import Indices, Numbers, Repeated

LEAST = 16  # repetitions that are worth an element
LONGEST = 400  # operations of one repetition
PART = 0.5  # of all operations that must be found to repeat
Q, V, T, U, PAR = range(5)  # arguments of what is listed
POWERS = (ca.OP_POW, ca.OP_CONSTPOW)
SUMS = (ca.OP_ADD, ca.OP_SUB)


class NodeLists:
    """The operations of a function as lists: node by node the operation, its operands, and the shape of its value."""

    def __init__(self, s: Composed, value: SX) -> None:
        self.arguments = [s.q, s.v, s.t, s.u, s.par]
        self.f = ca.Function("listed", self.arguments, [value], {"live_variables": False})
        self.op: list[int] = []
        self.left: list[int] = []  # of an argument which one it is
        self.right: list[int] = []  # of an argument the entry
        self.number: dict[int, float] = {}
        self.shape: list[int] = []  # -1 where it has none that may repeat
        self.size: list[int] = []  # operations, counted as often as they are used
        self.varies: list[bool] = []  # with a coordinate or velocity
        self.line: list[tuple[int, int]] = []  # where it stands in the function, and which output it is of a call there
        self.outputs: list[int] = [-1] * value.nnz()
        self._shapes: dict[object, int] = {}
        self._run(self.f)

    def _run(self, f: ca.Function) -> None:
        what, taken, add = f.instruction_id, f.instruction_input, self._add
        for k in range(f.n_instructions()):
            op = what(k)
            i = taken(k)
            if op == ca.OP_OUTPUT:
                self.outputs[f.instruction_output(k)[1]] = i[0]
                continue
            if op == ca.OP_CALL:
                for j, there in enumerate(f.instruction_output(k)):
                    if there >= 0:
                        self.line.append((k, j))
                        self._new(op, -1, -1, None, 1, any(self.varies[b] for b in i))
                continue
            self.line.append((k, -1))
            if op == ca.OP_INPUT:
                self._new(op, i[0], i[1], (op, i[0], i[1] if i[0] == U else 0), 1, i[0] in (Q, V))
            elif op == ca.OP_CONST:
                self.number[len(self.op)] = f.instruction_constant(k)
                self._new(op, -1, -1, op, 1, False)
            elif len(i) == 1:
                add(op, i[0])
            else:
                add(op, i[0], i[1])
        last = next(k for k in range(f.n_instructions() - 1, -1, -1) if what(k) != ca.OP_OUTPUT)
        assert f.instruction_output(last)[-1] in (-1, len(self.op) - 1)  # nodes have the numbers that operands are said by

    def _add(self, op: int, a: int, b: int = -1) -> int:
        """An operation on earlier nodes."""
        below = self.shape[a]
        key: object = None
        if b < 0:
            if below >= 0:
                key = (op, below)
            return self._new(op, a, b, key, 1 + self.size[a], self.varies[a])
        other = self.shape[b]
        if below >= 0 and other >= 0:
            key = (op, below, other, self.number[b]) if op in POWERS and b in self.number else (op, below, other)
        return self._new(op, a, b, key, 1 + self.size[a] + self.size[b], self.varies[a] or self.varies[b])

    def _new(self, op: int, a: int, b: int, key: object, size: int, varies: bool) -> int:
        self.op.append(op)
        self.left.append(a)
        self.right.append(b)
        if size > LONGEST:
            key, size = None, LONGEST
        self.shape.append(-1 if key is None else self._shapes.setdefault(key, len(self._shapes)))
        self.size.append(size)
        self.varies.append(varies)
        return len(self.op) - 1

    def terms(self, root: int) -> list[int]:
        """The nodes whose sum is a node, with the factors of sums multiplied into their terms."""
        out, most = list[int](), len(self.op)
        todo: list[tuple[int, tuple[object, ...]]] = [(root, ())]
        while todo:
            node, factors = todo.pop()
            op, a, b = self.op[node], self.left[node], self.right[node]
            if len(out) + len(todo) > most:  # sums that are used more than once
                return [root]
            if not self.varies[node]:
                out.append(self._scaled(node, factors))
            elif op in SUMS:
                todo += [(b, (ca.OP_NEG, -1, factors) if op == ca.OP_SUB else factors), (a, factors)]
            elif op in (ca.OP_NEG, ca.OP_TWICE):
                todo.append((a, (op, -1, factors)))
            elif op == ca.OP_MUL and not self.varies[a]:
                todo.append((b, (op, a, factors)))
            elif op in (ca.OP_MUL, ca.OP_DIV) and not self.varies[b]:
                todo.append((a, (op, b, factors)))
            else:
                out.append(self._scaled(node, factors))
        return out

    def _scaled(self, node: int, factors: tuple[object, ...]) -> int:
        while factors:
            op, by, factors = factors  # type: ignore[misc, assignment]
            assert isinstance(op, int)
            assert isinstance(by, int)
            node = self._add(op, by, node) if op == ca.OP_MUL else self._add(op, node, by)
        return node

    def groups(self, roots: Iterable[int]) -> list[Indices]:
        """Which of the roots are of one shape, where these are enough: their numbers."""
        members: dict[int, list[int]] = defaultdict(list)
        for i, root in enumerate(roots):
            if self.varies[root]:
                members[self.shape[root]].append(i)
        return [np.array(own) for shape, own in members.items() if shape >= 0 and len(own) >= LEAST]

    def expression(self, node: int) -> SX:
        """A node in the symbols of the system."""
        if self.op[node] == ca.OP_INPUT:
            return self.arguments[self.left[node]][self.right[node]]
        if node in self.number:
            return SX(self.number[node])
        if node < len(self.line):
            k, output = self.line[node]
            return self.written[k] if output < 0 else self.written[k].get_output(output)
        own = [k for k in (self.left[node], self.right[node]) if k >= 0]
        return operation(self.op[node], [self.expression(k) for k in own])  # factors of a term: never deep

    @cached_property
    def written(self) -> list[SX]:
        """The lines of the function as it was."""
        return ca.vertsplit(self.f.instructions_sx())  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Side:
    """Nodes of one shape side by side, followed down to their leaves: one local function, and its leaves row by row."""

    program: list[tuple[int, tuple[int, ...]]]  # an operation with the numbers of earlier values; or of a leaf its kind
    index: list[Indices]  # coordinates
    places: list[Indices]  # parameters
    numbers: list[Numbers]  # constants

    def value(self, q: list[SX], v: list[SX], t: SX, u: SX, par: list[SX], numbers: list[SX]) -> SX:
        """The local function of given leaves."""
        out: list[SX] = []
        for op, i in self.program:
            if op == ca.OP_INPUT:
                kind, k = i
                out.append(t if kind == T else u[k] if kind == U else (q, v, None, None, par)[kind][k])  # type: ignore[index]
            elif op == ca.OP_CONST:
                out.append(numbers[i[0]])
            else:
                out.append(operation(op, [out[k] for k in i]))
        return out[-1]


class Followed:
    """Finds the `Side` of nodes of one shape."""

    def __init__(self, listing: NodeLists, index: list[Indices]) -> None:
        self.l, self.op = listing, np.array(listing.op)
        self.left, self.right = np.array(listing.left), np.array(listing.right)
        self.index, self.places, self.numbers = index, list[Indices](), list[Numbers]()
        self.program: list[tuple[int, tuple[int, ...]]] = []
        self._known: dict[int, list[tuple[Indices, int]]] = defaultdict(list)

    def side(self, roots: Indices) -> Side:
        self._follow(roots)
        return Side(self.program, self.index, self.places, self.numbers)

    def _follow(self, nodes: Indices) -> int:
        """The number of a value in the program."""
        first = int(nodes[0])
        for column, number in self._known[first]:
            if np.array_equal(column, nodes):
                return number
        op, a, b = self.l.op[first], self.left[nodes], self.right[nodes]
        step: tuple[int, tuple[int, ...]]
        if op == ca.OP_INPUT:
            entry = self._leaf(self.index if a[0] in (Q, V) else self.places, b) if a[0] in (Q, V, PAR) else int(b[0])
            step = (op, (int(a[0]), entry))
        elif op == ca.OP_CONST:
            self.numbers.append(np.array([self.l.number[int(k)] for k in nodes]))
            step = (op, (len(self.numbers) - 1,))
        else:
            below = (a,) if self.l.right[first] < 0 else (a, b)
            step = (op, tuple(self._follow(column) for column in below))
        self.program.append(step)
        self._known[first].append((nodes, len(self.program) - 1))
        return len(self.program) - 1

    @staticmethod
    def _leaf(columns: list[Indices], entries: Indices) -> int:
        for k, column in enumerate(columns):
            if np.array_equal(column, entries):
                return k
        columns.append(entries)
        return len(columns) - 1


class Found(Repeated):
    """A part of a system that was found to repeat."""

    name = "repeated part"

    def __init__(self, system: Composed, role: str, side: Side, rows: Indices, index: Indices, where: Indices) -> None:
        """Of the repetitions `rows` of a side, whose coordinates are the entries `where` of the rows of `index`."""
        super().__init__(system, index)
        start = int(system.par.numel())
        same = [bool((x == x[0]).all()) for x in side.numbers]
        own = [x[rows] for x, alike in zip(side.numbers, same, strict=True) if not alike]
        self.numbers = np.concatenate(own) if own else np.zeros(0)
        places = [x[rows] for x in side.places]
        places += [start + i * len(rows) + np.arange(len(rows)) for i in range(len(own))]
        self.par = SX.sym("par", len(places))
        self.places = np.stack(places, axis=1).astype(np.int64) if places else np.zeros((len(rows), 0), dtype=np.int64)
        par = [self.par[k] for k in range(len(places))]
        left = iter(par[len(side.places) :])
        numbers = [SX(float(x[0])) if alike else next(left) for x, alike in zip(side.numbers, same, strict=True)]
        q, v = ([x[int(k)] for k in where] for x in (self.q, self.v))
        value = side.value(q, v, self.t, self.u, par, numbers)
        if role == "force":
            local = SX.zeros(self.size)
            local[int(where[0])] = value
            value = local
        self.roles = {role: value}
        self.rows = rows


def found(system: Composed, role: str, listing: NodeLists, roots: list[int], targets: Indices | None = None) -> list[Found]:
    """What repeats among roots. A force belongs to the coordinates `targets`."""
    out = []
    for members in listing.groups(roots):
        follow = Followed(listing, [] if targets is None else [targets[members]])
        side = follow.side(np.array([roots[i] for i in members]))
        for rows, index, where in _tables(np.stack(side.index, axis=1), system.dimension):
            if len(rows) >= LEAST:
                part = Found(system, role, side, rows, index, where)
                part.rows = members[rows]
                out.append(part)
    return out


def _tables(index: Indices, dimension: int | None) -> Iterable[tuple[Indices, Indices, Indices]]:
    """Rows whose coordinates are in one order: their numbers, the coordinates in order, and where those that were given are.

    Coordinates of particles are all those of the particle, where there is more than one: they are looked at as vectors.
    """
    order = np.argsort(index, axis=1, kind="stable")
    sorted_index = np.take_along_axis(index, order, axis=1)
    clear = (np.diff(sorted_index, axis=1) > 0).all(axis=1)
    d = dimension if dimension is not None and index.shape[1] > 1 else 1
    owner = sorted_index // d
    rank = np.concatenate([np.zeros((len(owner), 1), dtype=np.int64), np.cumsum(np.diff(owner, axis=1) > 0, axis=1)], axis=1)
    at = rank * d + sorted_index % d  # places in the whole particles
    kinds, kind = np.unique(np.hstack([order, at])[clear], axis=0, return_inverse=True)
    every = np.flatnonzero(clear)
    for number, (own, place) in enumerate(np.split(row, 2) for row in kinds):
        rows = every[np.ravel(kind) == number]
        first = np.flatnonzero(np.diff(place // d, prepend=-1))
        whole = (owner[np.ix_(rows, first)][:, :, None] * d + np.arange(d)).reshape(len(rows), -1)
        where = np.empty_like(place)
        where[own] = place
        yield rows, whole, where


def regroup(s: Composed) -> None:
    """Make what repeats in a system elements of it, where these are many."""
    if s.n <= MANY or s.nv != s.n:
        return
    parts, left, operations = list[Found](), dict[str, SX](), 0
    for role in ("potential", "holonomic", "force"):
        value = s.own(role)
        if not value.nnz():
            continue
        listing = NodeLists(s, value)
        operations += len(listing.op)
        terms = listing.terms(listing.outputs[0]) if role == "potential" else listing.outputs
        new = found(s, role, listing, terms, np.array(value.row()) if role == "force" else None)
        if not new:
            continue
        rest = np.setdiff1d(np.arange(len(terms)), np.concatenate([e.rows for e in new]))
        left[role] = _left(role, value, listing, terms, rest)
        parts += new
    if not parts or not large(s.n, (*s.repeated, *parts)):
        return
    if sum(e.count * e.local(role).n_instructions() for e in parts for role in e.roles) < PART * operations:
        return
    s.adopt(parts, left)


def _left(role: str, value: SX, listing: NodeLists, terms: list[int], rest: Indices) -> SX:
    """What does not repeat."""
    if role == "potential":
        return sum((listing.expression(terms[i]) for i in rest), SX(0.0))
    if role == "holonomic":
        return value[rest.tolist()]
    rows = np.array(value.row())[rest].tolist()
    out = SX(*value.shape)
    out[rows] = value[rows]
    return out
