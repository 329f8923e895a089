"""A function of scalar operations as plain data, and back: data that can be checked entry by entry and that run nothing.

The data are those of an expression of the arguments: `nodes`, each with the name of an operation and the numbers of
earlier nodes, and the `shape`, `rows`, `columns` and `values` of a sparse matrix whose values are nodes. There are no other
operations than those in `UNARY` and `BINARY`: no call of another function, no code, no library.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from itertools import pairwise
from typing import TypedDict

import casadi as ca
from casadi import SX

from dalembert.errors import FileError, ModelError
from dalembert.systems import plain
from dalembert.systems.instructions import operation, walk

UNARY = (
    "neg", "exp", "log", "sqrt", "sq", "twice", "sin", "cos", "tan", "asin", "acos", "atan", "not", "floor", "ceil", "fabs",
    "sign", "erf", "inv", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erfinv", "log1p", "expm1",
)  # fmt: skip
BINARY = (
    "add", "sub", "mul", "div", "pow", "constpow", "lt", "le", "eq", "ne", "and", "or", "fmod", "remainder", "copysign",
    "if_else_zero", "fmin", "fmax", "atan2", "hypot",
)  # fmt: skip
CODES = {name: int(getattr(ca, f"OP_{name.upper()}")) for name in (*UNARY, *BINARY)}
NAMES = {code: name for name, code in CODES.items()}
NUMBERS = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}  # that JSON does not have
LONGEST = 5_000_000  # nodes of one function at most
Node = list[str | int | float]


class Operations(TypedDict):
    """An expression; see above."""

    shape: tuple[int, int]
    rows: list[int]
    columns: list[int]
    values: list[int]
    nodes: list[Node]


def dump(function: ca.Function) -> Operations:
    """The one output of a function. A function that calls others, which may run anything, has no such data: a `ModelError`."""
    nodes: list[Node] = []

    def add(*node: str | int | float) -> int:
        nodes.append([*node])
        return len(nodes) - 1

    def apply(op: int, arguments: list[int]) -> int:
        if op not in NAMES:
            what = "calls a function of CasADi's" if op == ca.OP_CALL else f"has an operation of CasADi's (number {op})"
            raise ModelError(f"it {what} that cannot be written as data")
        return add(NAMES[op], *arguments)

    values = walk(function, lambda argument, entry: add("argument", argument, entry), lambda x: add("number", _spelled(x)), apply)
    pattern = function.sparsity_out(0)
    return {
        "shape": (int(pattern.size1()), int(pattern.size2())),
        "rows": [int(i) for i in pattern.row()],
        "columns": [int(i) for i in pattern.get_col()],
        "values": values[0],
        "nodes": nodes,
    }


def build(data: object, arguments: Sequence[SX]) -> SX:
    """The expression of such data, with given arguments; everything is checked before it is used."""
    shape = [plain.size(k, "shape") for k in plain.get(data, "shape", list)]
    rows, columns, values = (plain.each(plain.get(data, key, list), key, int) for key in ("rows", "columns", "values"))
    listed = plain.get(data, "nodes", list)
    if len(shape) != 2 or not len(rows) == len(columns) == len(values):
        raise FileError("the entries of a matrix do not match its shape")
    places = list(zip(columns, rows, strict=True))
    inside = all(0 <= j < shape[1] and 0 <= i < shape[0] for j, i in places)
    if not inside or any(a >= b for a, b in pairwise(places)):
        raise FileError("the entries of a matrix are not in order")
    if len(listed) > LONGEST:
        raise FileError(f"a function has more than {LONGEST} operations")
    entries = [[argument.nz[k] for k in range(argument.nnz())] for argument in arguments]
    nodes: list[SX] = []
    for node in listed:
        nodes.append(_node(node, nodes, entries))
    if not all(0 <= k < len(nodes) for k in values):
        raise FileError("an entry of a matrix is no operation of the list")
    if not values:
        return SX(shape[0], shape[1])
    return SX(ca.Sparsity.triplet(shape[0], shape[1], rows, columns), ca.vertcat(*(nodes[k] for k in values)))


def _node(node: object, before: list[SX], entries: list[list[SX]]) -> SX:
    """One operation on those before it."""
    name, *rest = plain.of(node, "operation", list) or [None]
    if name == "number" and len(rest) == 1:
        return SX(_number(rest[0]))
    if name == "argument" and len(rest) == 2:
        first = plain.size(rest[0], "argument", 0, len(entries) - 1)
        return entries[first][plain.size(rest[1], "argument", 0, len(entries[first]) - 1)]
    if not isinstance(name, str) or name not in CODES or len(rest) != (1 if name in UNARY else 2):
        raise FileError(f"{str(node)[:60]} is no operation")
    return operation(CODES[name], [before[plain.size(k, name, 0, len(before) - 1)] for k in rest])


def _spelled(x: float) -> str | float:
    return x if math.isfinite(x) else "nan" if math.isnan(x) else "inf" if x > 0 else "-inf"


def _number(value: object) -> float:
    if isinstance(value, str) and value in NUMBERS:
        return NUMBERS[value]
    number = plain.of(value, "number", float)
    if not math.isfinite(number):
        raise FileError("a number is not finite")
    return number


def fingerprint(function: ca.Function) -> str:
    """A text that tells one function from another, also where it cannot be written as data."""
    try:
        text = str(dump(function))
    except ModelError:
        try:
            text = function.serialize()
        except RuntimeError:  # of a function that is a Python object: nothing more can be known
            text = str(function)
    return hashlib.sha256(text.encode()).hexdigest()
