"""The operations of a CasADi function, one by one: a walk over its instructions, and what each operation does to symbols."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import casadi as ca

from dalembert.errors import ModelError

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


UNARY: dict[int, Callable[[SX], SX]] = {
    ca.OP_ASSIGN: lambda x: x,
    ca.OP_NEG: lambda x: -x,
    ca.OP_SQ: lambda x: x**2,
    ca.OP_TWICE: lambda x: 2 * x,
    ca.OP_INV: lambda x: 1 / x,
    ca.OP_SQRT: ca.sqrt,
    ca.OP_EXP: ca.exp,
    ca.OP_LOG: ca.log,
    ca.OP_SIN: ca.sin,
    ca.OP_COS: ca.cos,
    ca.OP_TAN: ca.tan,
    ca.OP_ASIN: ca.asin,
    ca.OP_ACOS: ca.acos,
    ca.OP_ATAN: ca.atan,
    ca.OP_SINH: ca.sinh,
    ca.OP_COSH: ca.cosh,
    ca.OP_TANH: ca.tanh,
    ca.OP_ASINH: ca.asinh,
    ca.OP_ACOSH: ca.acosh,
    ca.OP_ATANH: ca.atanh,
    ca.OP_FABS: ca.fabs,
    ca.OP_SIGN: ca.sign,
    ca.OP_ERF: ca.erf,
    ca.OP_LOG1P: ca.log1p,
    ca.OP_EXPM1: ca.expm1,
    ca.OP_FLOOR: ca.floor,
    ca.OP_CEIL: ca.ceil,
    ca.OP_NOT: ca.logic_not,
}
BINARY: dict[int, Callable[[SX, SX], SX]] = {
    ca.OP_ADD: lambda x, y: x + y,
    ca.OP_SUB: lambda x, y: x - y,
    ca.OP_MUL: lambda x, y: x * y,
    ca.OP_DIV: lambda x, y: x / y,
    ca.OP_POW: lambda x, y: x**y,
    ca.OP_CONSTPOW: lambda x, y: x**y,
    ca.OP_ATAN2: ca.atan2,
    ca.OP_HYPOT: lambda x, y: ca.sqrt(x**2 + y**2),
    ca.OP_FMIN: ca.fmin,
    ca.OP_FMAX: ca.fmax,
    ca.OP_IF_ELSE_ZERO: lambda x, y: ca.if_else(x, y, 0),
    ca.OP_LT: lambda x, y: x < y,
    ca.OP_LE: lambda x, y: x <= y,
    ca.OP_EQ: lambda x, y: x == y,
    ca.OP_NE: lambda x, y: x != y,
    ca.OP_AND: ca.logic_and,
    ca.OP_OR: ca.logic_or,
    ca.OP_COPYSIGN: lambda x, y: ca.fabs(x) * ca.if_else(y < 0, -1, 1),
    ca.OP_FMOD: ca.fmod,
}


def operation(op: int, values: list[SX]) -> SX:
    """One operation on symbols."""
    if len(values) == 1 and op in UNARY:
        return UNARY[op](values[0])
    if len(values) == 2 and op in BINARY:
        return BINARY[op](values[0], values[1])
    raise ModelError(f"CasADi's operation {op} is not supported here; write the function with other operations")
