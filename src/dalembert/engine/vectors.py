"""CasADi's functions of vectors as nodes: what a function of a large step computes, written as operations on whole arrays.

Where an element's local function is mapped over all repetitions, each of its operations becomes one on arrays with an entry for
each repetition.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import casadi as ca
import numpy as np

from dalembert.engine.entrywise import BINARY, UNARY
from dalembert.engine.nodes import Bind, Nodes
from dalembert.engine.patterns import Indices, Pattern, Product
from dalembert.engine.work import Scratch, Work
from dalembert.systems.batch import nonzeros

SHORT = 200  # operations of a function of single numbers, up to which each is a node


class Unknown(Exception):
    """An operation that is not known here: CasADi evaluates the whole function."""


@dataclass(frozen=True)
class Value:
    """The nonzeros of a matrix as a node; or not yet: entries of another, or columns with an entry for each repetition."""

    node: int = -1
    places: Indices | None = None  # the entries of `node` that it has
    columns: tuple[int, ...] = ()
    count: int = 0
    turned: ca.Sparsity | None = None  # the pattern of the matrix in `node`, whose transpose this is


class Translation:
    """One function as nodes."""

    def __init__(self, nodes: Nodes, function: ca.Function, inputs: list[int], bind: Bind) -> None:
        self.nodes, self.f, self.inputs, self.bind = nodes, function, inputs, bind
        self.work: dict[int, Value] = {}
        self.outputs: list[list[tuple[int, int]]] = [[] for _ in range(function.n_out())]

    def run(self) -> list[list[tuple[int, int]]]:
        """For each output its parts: where they begin, and their nodes."""
        for k in range(self.f.n_instructions()):
            self._instruction(k)
        return self.outputs

    def flat(self, v: Value) -> int:
        """A value as a node."""
        if v.columns:
            return self.nodes.interleaved(list(v.columns), v.count)
        if v.turned is not None:
            return self.nodes.take(v.node, _transposition(v.turned))
        return v.node if v.places is None else self.nodes.take(v.node, v.places)

    def _instruction(self, k: int) -> None:
        f, op = self.f, self.f.instruction_id(k)
        i, o, mx = f.instruction_input(k), f.instruction_output(k), f.instruction_MX(k)
        if op == ca.OP_INPUT:
            at = mx.info()
            begin = at["offset"]
            self.work[o[0]] = Value(self.nodes.part(self.inputs[at["ind"]], begin, begin + mx.nnz()))
        elif op == ca.OP_OUTPUT:
            at = mx.info()
            self.outputs[at["ind"]].append((at["offset"], self.flat(self.work[i[0]])))
        elif op == ca.OP_CONST:
            self.work[o[0]] = Value(self.nodes.constant(nonzeros(mx.to_DM())))
        elif op == ca.OP_CALL:
            values = self._call(mx.which_function(), [self.work[j] for j in i])
            self.work.update({j: v for j, v in zip(o, values, strict=True) if j >= 0})
        elif op in (ca.OP_VERTSPLIT, ca.OP_HORZSPLIT):
            self._split(mx, self.work[i[0]], o, op == ca.OP_HORZSPLIT)
        else:
            self.work[o[0]] = self._value(op, mx, [self.work[j] for j in i])

    def _value(self, op: int, mx: ca.MX, v: list[Value]) -> Value:
        nodes = self.nodes
        if op in (ca.OP_RESHAPE, ca.OP_SPARSITY_CAST, ca.OP_ASSIGN):
            return v[0] if v[0].turned is None else Value(self.flat(v[0]))
        if op == ca.OP_GETNONZEROS:
            return self._entries(v[0], _mapping(mx))
        if op in (ca.OP_SETNONZEROS, ca.OP_ADDNONZEROS):
            places = _mapping(mx)
            return Value(nodes.put(self.flat(v[0]), self.flat(v[1]), places, op == ca.OP_ADDNONZEROS))
        if op == ca.OP_TRANSPOSE:
            return v[0] if mx.is_vector() else Value(self.flat(v[0]), turned=mx.dep(0).sparsity())
        if op == ca.OP_MTIMES:
            return self._product(mx, v)
        if op == ca.OP_PROJECT:
            return self._projected(mx, v[0])
        if op == ca.OP_HORZREPMAT:
            return Value(nodes.tiled(self.flat(v[0]), mx.size2() // mx.dep(0).size2()))
        if op in (ca.OP_VERTCAT, ca.OP_HORZCAT):
            if op == ca.OP_VERTCAT and mx.size2() != 1:
                raise Unknown
            return Value(nodes.joined([self.flat(x) for x in v]))
        if op in (ca.OP_NORMF, ca.OP_NORM2):
            x = self.flat(v[0])
            return Value(nodes.reduced("norm", [x, x]))
        if op == ca.OP_DOT:
            return Value(nodes.reduced("dot", [self.flat(x) for x in v]))
        if op in UNARY or op in BINARY:
            return Value(nodes.apply(op, [self.flat(x) for x in v]))
        raise Unknown

    def _split(self, mx: ca.MX, v: Value, outputs: list[int], across: bool) -> None:
        """A matrix in groups of columns, or a column in groups of rows."""
        if not across and mx.dep(0).size2() != 1:
            raise Unknown
        whole = self.flat(v)
        for j, (a, b) in zip(outputs, pairwise(mx.info()["offset"]), strict=True):  # where their nonzeros begin
            if j >= 0:
                self.work[j] = Value(self.nodes.part(whole, int(a), int(b)))

    def _entries(self, v: Value, places: Indices) -> Value:
        if (places < 0).any():
            raise Unknown
        if v.columns:
            own, r = self.nodes.stacked(list(v.columns), v.count), len(v.columns)
            return Value(own, (places % r) * v.count + places // r)
        if v.turned is not None:
            return Value(v.node, _transposition(v.turned)[places])
        return Value(v.node, places if v.places is None else v.places[places])

    def _projected(self, mx: ca.MX, v: Value) -> Value:
        """The same matrix with another pattern."""
        have, want = Pattern.of(mx.dep(0).sparsity()).keys, Pattern.of(mx.sparsity()).keys
        there = np.isin(have, want)
        places = np.searchsorted(want, have[there])
        source = self.flat(v)
        if not there.all():
            source = self.nodes.take(source, np.flatnonzero(there))
        return Value(self.nodes.spread(source, places, len(want)))

    def _product(self, mx: ca.MX, v: list[Value]) -> Value:
        """`z + x y`."""
        nodes = self.nodes
        z, x, y = (mx.dep(j) for j in range(3))
        start, right = self.flat(v[0]), self.flat(v[2])
        if right in nodes.zeros or (v[1].turned is None and not v[1].columns and self.flat(v[1]) in nodes.zeros):
            return Value(start)
        if x.size1() == 1 and x.is_dense() and y.is_dense() and y.size2() == 1:
            total = nodes.reduced("dot", [self.flat(v[1]), right])
        elif y.size2() == 1 and y.is_dense():
            total = self._times(v[1], x.sparsity(), right)
            if not z.is_dense():
                total = nodes.take(total, Pattern.of(z.sparsity()).rows)
        else:
            total = self._matrices(self.flat(v[1]), right, x.sparsity(), y.sparsity(), z.sparsity())
        return Value(total if start in nodes.zeros else nodes.apply(ca.OP_ADD, [start, total]))

    def _times(self, v: Value, sparsity: ca.Sparsity, right: int) -> int:
        """A sparse matrix times a vector."""
        if v.turned is not None:
            return self.nodes.times(v.node, Pattern.of(v.turned), right, turned=True)
        return self.nodes.times(self.flat(v), Pattern.of(sparsity), right)

    def _matrices(self, x: int, y: int, left: ca.Sparsity, right: ca.Sparsity, want: ca.Sparsity) -> int:
        """The product of two sparse matrices."""
        product = Product(Pattern.of(left), Pattern.of(right))
        own, keys = self.nodes.product(x, y, product), Pattern.of(want).keys
        if np.array_equal(keys, product.pattern.keys):
            return own
        return self.nodes.spread(own, np.searchsorted(keys, product.pattern.keys), len(keys))

    # ---- functions --------------------------------------------------------------------------------------

    def _call(self, function: ca.Function, values: list[Value]) -> list[Value]:
        """A function: of single numbers for all repetitions, of vectors as nodes of their own, any other by CasADi."""
        if function.is_a("Map"):
            local, count = function.info()["f"], int(function.info()["n"])
            if local.is_a("SXFunction"):
                return self._mapped(local, count, values)
        if function.is_a("SXFunction") and function.n_instructions() <= SHORT:  # what is there once, and no map
            return self._mapped(function, 1, values)
        if function.is_a("MXFunction"):
            inner = Translation(self.nodes, function, [self.flat(v) for v in values], self.bind).run()
            return [Value(self.whole(parts)) for parts in inner]
        return [Value(x) for x in self.nodes.called(function, [self.flat(v) for v in values], self.bind)]

    def whole(self, parts: list[tuple[int, int]]) -> int:
        """An output of its parts."""
        ordered = [node for _, node in sorted(parts)]
        if not ordered:
            return self._nothing()
        return ordered[0] if len(ordered) == 1 else self.nodes.joined(ordered)

    def _mapped(self, local: ca.Function, count: int, values: list[Value]) -> list[Value]:
        values = [v if v.turned is None else Value(self.flat(v)) for v in values]
        work: dict[int, int] = {}
        out: list[dict[int, int]] = [{} for _ in range(local.n_out())]
        for k in range(local.n_instructions()):
            op, i, o = local.instruction_id(k), local.instruction_input(k), local.instruction_output(k)
            if op == ca.OP_INPUT:
                work[o[0]] = self._argument(values[i[0]], i[1], local.nnz_in(i[0]), count)
            elif op == ca.OP_OUTPUT:
                out[o[0]][o[1]] = work[i[0]]
            elif op == ca.OP_CONST:
                work[o[0]] = self.nodes.constant(np.array([local.instruction_constant(k)]))
            elif op in UNARY or op in BINARY:
                work[o[0]] = self.nodes.apply(op, [work[j] for j in i])
            else:
                raise Unknown
        return [
            Value(columns=tuple(row[k] for k in range(local.nnz_out(n))), count=count) if row else Value(self._nothing())
            for n, row in enumerate(out)
        ]

    def _nothing(self) -> int:
        return self.nodes.constant(np.zeros(0))

    def _argument(self, v: Value, entry: int, rows: int, count: int) -> int:
        """One of the local arguments, with an entry for each repetition."""
        if v.columns:
            return v.columns[entry]
        places = np.arange(entry, rows * count, rows) if v.places is None else v.places[entry::rows]
        return self._column(v.node, places)

    def _column(self, node: int, places: Indices) -> int:
        if len(places) and (places == places[0]).all():
            return self.nodes.part(node, int(places[0]), int(places[0]) + 1)
        return self.nodes.take(node, np.ascontiguousarray(places))


def _mapping(mx: ca.MX) -> Indices:
    """Which entries are taken, or where they are put."""
    return nonzeros(mx.mapping()).astype(np.int32)


def _transposition(sparsity: ca.Sparsity) -> Indices:
    """Where the entries of the transpose are, in its order."""
    p = Pattern.of(sparsity)
    return np.lexsort((p.columns, p.rows))


class Tape:
    """Functions of nodes: as nodes where they are functions of vectors, else by CasADi."""

    def __init__(self, bind: Bind, scratch: Scratch | None = None) -> None:
        self.nodes, self._bind = Nodes(scratch), bind

    def outputs(self, function: ca.Function, inputs: list[int], often: int) -> list[int]:
        """The nodes of all outputs of a function of nodes.

        One that CasADi evaluates as a whole is called as `often` as it is said.
        """
        nodes = self.nodes
        if function.is_a("MXFunction"):
            before = nodes.mark()
            try:
                translation = Translation(nodes, function, inputs, self._bind)
                return [translation.whole(parts) for parts in translation.run()]
            except Unknown:
                nodes.back(before)
        out = [nodes.source(np.zeros(max(function.nnz_out(i), 0)), often) for i in range(function.n_out())]
        arrays = [nodes.arrays[i] for i in (*inputs, *out)]
        call = self._bind(function, arrays[: len(inputs)], arrays[len(inputs) :])
        (nodes.fixed, nodes.once, nodes.each)[often].append(Work(call, out[0], tuple(inputs)))
        return out
