"""The operations of a CasADi function, one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import casadi as ca

SX = ca.SX
T = TypeVar("T")


def walk(
    function: ca.Function,
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
    f = function if function.is_a("SXFunction") else function.expand()
    work: dict[int, T] = {}
    outputs: list[dict[int, T]] = [{} for _ in range(f.n_out())]
    for k in range(f.n_instructions()):
        op, i, o = f.instruction_id(k), f.instruction_input(k), f.instruction_output(k)
        if op == ca.OP_OUTPUT:
            outputs[o[0]][o[1]] = work[i[0]]
        elif op == ca.OP_INPUT:
            work[o[0]] = source(i[0], i[1])
        elif op == ca.OP_CONST:
            work[o[0]] = constant(f.instruction_constant(k))
        elif op == ca.OP_CALL and call is not None:
            called = f.instructions_sx()[k].which_function()
            work.update({j: value for j, value in zip(o, call(called, [work[j] for j in i]), strict=True) if j >= 0})
        else:
            work[o[0]] = apply(op, [work[j] for j in i])
    return [[values[k] for k in range(f.nnz_out(n))] for n, values in enumerate(outputs)]


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


@contextmanager
def as_written() -> Iterator[None]:
    """Expressions made inside are not simplified: a product with a reciprocal stays one, what rounding leaves stays."""
    simplify = ca.GlobalOptions.getSimplificationOnTheFly()
    ca.GlobalOptions.setSimplificationOnTheFly(False)
    try:
        yield
    finally:
        ca.GlobalOptions.setSimplificationOnTheFly(simplify)
