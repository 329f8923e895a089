"""The operations of a CasADi function, one by one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import casadi as ca

SX = ca.SX
T = TypeVar("T")


def walk(
    function: ca.Function,
    source: Callable[[int, int], T],
    constant: Callable[[float], T],
    apply: Callable[[int, list[T]], T],
) -> list[list[T]]:
    """Evaluate a function of scalar operations with values of any type: the values of the nonzeros of each output.

    `source(argument, entry)` gives the value of a nonzero of an argument, `constant(number)` that of a number, and
    `apply(op, values)` does the operation `op` (one of CasADi's `OP_...`).
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
        else:
            work[o[0]] = apply(op, [work[j] for j in i])
    return [[values[k] for k in range(f.nnz_out(n))] for n, values in enumerate(outputs)]


def operation(op: int, values: list[SX]) -> SX:
    """One operation on symbols."""
    return SX.unary(op, values[0]) if len(values) == 1 else SX.binary(op, values[0], values[1])
