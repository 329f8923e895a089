"""The operations of a CasADi function, one by one."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TypeVar

import casadi as ca

from dalembert.systems.options import option

SX = ca.SX
T = TypeVar("T")
SPECIAL = frozenset({ca.OP_OUTPUT, ca.OP_INPUT, ca.OP_CONST, ca.OP_CALL})  # what is no operation on numbers
FEW = 8  # operations: fewer are done one by one


class Listing:
    """The operations of a function of single numbers, read once for all who go through them."""

    def __init__(self, function: ca.Function) -> None:
        self.function = f = function if function.is_a("SXFunction") else function.expand()
        read, each = (f.instruction_id, f.instruction_input, f.instruction_output), range(f.n_instructions())
        self.lines: list[tuple[int, list[int], list[int]]] = list(zip(*(map(what, each) for what in read), strict=True))


def walk(
    function: ca.Function | Listing,
    source: Callable[[int, int], T],
    constant: Callable[[float], T],
    apply: Callable[[int, list[T]], T],
    call: Callable[[ca.Function, list[T]], list[T]] | None = None,
) -> list[list[T]]:
    """Evaluate a function of scalar operations with values of any type: the values of the nonzeros of each output.

    `source(argument, entry)` gives the value of a nonzero of an argument, `constant(number)` that of a number, and
    `apply(op, values)` does the operation `op` (one of CasADi's `OP_...`). `call(function, values)` gives the nonzeros of all
    outputs of a function that cannot be written out, such as a table, from those of its arguments.
    """
    listing = function if isinstance(function, Listing) else Listing(function)
    f = listing.function
    work: dict[int, T] = {}
    outputs: list[dict[int, T]] = [{} for _ in range(f.n_out())]
    for k, (op, i, o) in enumerate(listing.lines):
        if op not in SPECIAL:
            work[o[0]] = apply(op, [work[j] for j in i])
        elif op == ca.OP_OUTPUT:
            outputs[o[0]][o[1]] = work[i[0]]
        elif op == ca.OP_INPUT:
            work[o[0]] = source(i[0], i[1])
        elif op == ca.OP_CONST:
            work[o[0]] = constant(f.instruction_constant(k))
        elif call is not None:
            called = f.instructions_sx()[k].which_function()
            work.update({j: value for j, value in zip(o, call(called, [work[j] for j in i]), strict=True) if j >= 0})
        else:
            work[o[0]] = apply(op, [work[j] for j in i])
    return [[values[k] for k in range(f.nnz_out(n))] for n, values in enumerate(outputs)]


@dataclass
class Batch:
    """Operations of one kind that do not wait for each other; or sources of one argument, or constants, or one call."""

    op: int
    nodes: list[int]  # their numbers
    operands: list[list[int]]  # numbers of nodes; of sources the entries, of constants the lines, of a call all of its operands
    which: int = -1  # the argument of sources, the line of a call
    results: tuple[int, ...] = ()  # the nonzeros of the results of a call that are used


def batches(f: ca.Function, marked: Sequence[bool]) -> tuple[list[Batch], list[bool], list[list[int]]]:
    """The operations of a function of single numbers in batches, in an order in which they can be done.

    What depends on a `marked` argument is marked as well; the operations of a batch have operands of the same marks. Of few
    each is a batch. Returned are the batches, the marks of all nodes, and for each output the nodes of its nonzeros.
    """
    work: dict[int, int] = {}
    marks, levels = list[bool](), list[int]()
    found: dict[tuple[int, ...], list[tuple[int, ...]]] = defaultdict(list)
    calls: dict[tuple[int, ...], Batch] = {}
    outputs = [[-1] * f.nnz_out(n) for n in range(f.n_out())]
    for k, (op, i, o) in enumerate(Listing(f).lines):
        node, level, mark = len(levels), 0, False
        if op == ca.OP_OUTPUT:
            outputs[o[0]][o[1]] = work[i[0]]
            continue
        if op == ca.OP_INPUT:
            mark = marked[i[0]]
            found[0, op, i[0]].append((node, i[1]))
        elif op == ca.OP_CONST:
            found[0, op].append((node, k))
        elif op == ca.OP_CALL:
            below = [work[j] for j in i]
            level, mark = 1 + max((levels[j] for j in below), default=0), any(marks[j] for j in below)
            used = tuple(n for n, j in enumerate(o) if j >= 0)
            calls[level, op, k] = Batch(op, list(range(node, node + len(used))), [below], k, used)
        elif len(i) == 1:
            a = work[i[0]]
            level, mark = 1 + levels[a], marks[a]
            found[level, op, mark].append((node, a))
        else:
            a, b = work[i[0]], work[i[1]]
            level, mark = 1 + (levels[a] if levels[a] > levels[b] else levels[b]), marks[a] or marks[b]
            found[level, op, marks[a], marks[b]].append((node, a, b))
        for j in o:
            if j >= 0:
                work[j] = len(levels)
                levels.append(level)
                marks.append(mark)
    out: list[Batch] = []
    for key in sorted([*found, *calls]):
        if key in calls:
            out.append(calls[key])
            continue
        rows, which = found[key], key[2] if key[1] == ca.OP_INPUT else -1
        if len(rows) < FEW:
            out += [Batch(key[1], [row[0]], [[k] for k in row[1:]], which) for row in rows]
        else:
            nodes, *operands = ([*column] for column in zip(*rows, strict=True))
            out.append(Batch(key[1], nodes, operands, which))
    return out, marks, outputs


def operation(op: int, values: list[SX]) -> SX:
    """One operation on symbols."""
    return SX.unary(op, values[0]) if len(values) == 1 else SX.binary(op, values[0], values[1])


def called(function: ca.Function, values: list[SX]) -> list[SX]:
    """The nonzeros of all outputs of a function, from those of its arguments."""
    arguments, at = [], 0
    for i in range(function.n_in()):
        pattern = function.sparsity_in(i)
        arguments.append(SX(pattern, ca.vertcat(*values[at : at + pattern.nnz()])) if pattern.nnz() else SX(pattern))
        at += pattern.nnz()
    return [x for out in function.call(arguments, False, True) if out.nnz() for x in ca.vertsplit(ca.densify(out.nz[:]))]


def jacobian(f: SX, x: SX) -> SX:
    """The Jacobian without what CasADi leaves in it of called functions: their derivatives in directions that are zero."""
    return tidied(ca.jacobian(f, x))


def tidied(matrix: SX) -> SX:
    """The same entries, with zeros for derivatives of called functions whose directions are all zero."""
    symbols = ca.symvar(matrix)
    whole = ca.Function("whole", symbols, [matrix])
    if not whole.find_functions(0):
        return matrix

    def call(function: ca.Function, values: list[SX]) -> list[SX]:
        seeds = values[len(values) - _seeds(function) :]
        if seeds and all(x.is_zero() for x in seeds):
            return [SX(0.0)] * sum(function.nnz_out(i) for i in range(function.n_out()))
        return called(function, values)

    values = walk(whole, lambda i, _: symbols[i], SX, operation, call)[0]
    return SX(matrix.sparsity(), ca.vertcat(*values)) if values else matrix


def _seeds(function: ca.Function) -> int:
    """How many nonzeros at the end of the arguments are directions, in which a derivative is linear; none of other functions.

    A derivative has the arguments and results of its function as arguments, and then the directions: as many as arguments if
    forwards (`fwd1_`), as results if backwards (`adj1_`).
    """
    inputs, outputs = function.n_in(), function.n_out()
    if not re.match(r"(fwd|adj)\d+_", function.name()) or inputs <= outputs or (inputs - outputs) % 2:
        return 0
    first = inputs - (inputs - outputs) // 2
    return sum(function.nnz_in(i) for i in range(first, inputs))


def as_written() -> AbstractContextManager[None]:
    """Expressions made inside are not simplified: a product with a reciprocal stays one, what rounding leaves stays."""
    return option("SimplificationOnTheFly", False)
