"""What rounding can do to a function: a running error analysis."""

from __future__ import annotations

from typing import Any

import casadi as ca
import numpy as np

from dalembert.methods.slopes import operation


def rounding_of(function: ca.Function, values: list[Any], names: tuple[str, ...]) -> np.ndarray:
    """For each output the sum of the sizes of its terms: eps times this is what rounding can do to it.

    A running error analysis: sums add their terms' sizes, products multiply values, the rest follows its derivative.
    """
    given = dict(zip(names, values, strict=True))
    inputs = [
        np.atleast_1d(np.asarray(given.get(function.name_in(i), np.zeros(function.numel_in(i))))) for i in range(function.n_in())
    ]
    work: dict[int, tuple[float, float]] = {}
    out = np.zeros(function.numel_out(0))
    for k in range(function.n_instructions()):
        op, i, o = function.instruction_id(k), function.instruction_input(k), function.instruction_output(k)
        if op == ca.OP_OUTPUT:
            out[function.sparsity_out(0).row()[o[1]]] = work[i[0]][1]
        elif op == ca.OP_INPUT:
            x = float(inputs[i[0]].ravel()[i[1]])
            work[o[0]] = (x, abs(x))
        elif op == ca.OP_CONST:
            x = function.instruction_constant(k)
            work[o[0]] = (x, abs(x))
        elif op in (ca.OP_ADD, ca.OP_SUB):
            (a, ea), (b, eb) = work[i[0]], work[i[1]]
            work[o[0]] = (a + b if op == ca.OP_ADD else a - b, ea + eb)
        elif op in (ca.OP_MUL, ca.OP_SQ):
            (a, ea), (b, eb) = work[i[0]], work[i[-1]]
            work[o[0]] = (a * b, abs(a) * eb + abs(b) * ea)
        else:
            values_in = [work[j] for j in i]
            z = _evaluate(op, [v for v, _ in values_in])
            relative = sum(e / abs(v) if v else 0.0 for v, e in values_in)
            work[o[0]] = (z, abs(z) * max(1.0, relative))
    return out


def _evaluate(op: int, values: list[float]) -> float:
    symbols = [ca.SX.sym("s") for _ in values]
    return float(ca.Function("op", symbols, [operation(op, symbols)])(*values))
