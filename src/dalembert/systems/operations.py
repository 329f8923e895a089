"""A function of scalar operations as plain data, and back: data that can be checked entry by entry and that run nothing.

The data are those of an expression of the arguments: `nodes`, each with the name of an operation and the numbers of
earlier nodes, and the `shape`, `rows`, `columns` and `values` of a sparse matrix whose values are nodes. There are no other
operations than those in `UNARY` and `BINARY`, and the tables of `da.table` with their derivatives, whose points stand in
`tables`: no call of another function, no code, no library.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import NotRequired, TypedDict

import casadi as ca
from casadi import SX

from dalembert.errors import FileError, ModelError
from dalembert.systems import lookup, plain
from dalembert.systems.instructions import called, operation, walk

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
MOST_DERIVATIVES = 6  # of a table, one after the other
Node = list[str | int | float]


class Operations(TypedDict):
    """An expression; see above."""

    shape: tuple[int, int]
    rows: list[int]
    columns: list[int]
    values: list[int]
    nodes: list[Node]
    tables: NotRequired[list[dict[str, object]]]


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

    tables: dict[str, tuple[int, lookup.Lookup]] = {}

    def call(g: ca.Function, arguments: list[int]) -> list[int]:
        found = lookup.known(g)
        if found is None:
            return [apply(ca.OP_CALL, arguments)]
        table, steps = found
        number = tables.setdefault(table.function.name(), (len(tables), table))[0]
        count = sum(g.nnz_out(i) for i in range(g.n_out()))
        return [add("table", number, " ".join(steps), k, *arguments) for k in range(count)]

    values = walk(
        function, lambda argument, entry: add("argument", argument, entry), lambda x: add("number", _spelled(x)), apply, call
    )
    pattern = function.sparsity_out(0)
    written: Operations = {
        "shape": (int(pattern.size1()), int(pattern.size2())),
        "rows": [int(i) for i in pattern.row()],
        "columns": [int(i) for i in pattern.get_col()],
        "values": values[0],
        "nodes": nodes,
    }
    return {**written, "tables": [table.data() for _, table in tables.values()]} if tables else written


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
    tables = [lookup.read(entry) for entry in plain.get(data, "tables", list)] if "tables" in plain.of(data, "data", dict) else []
    nodes: list[SX] = []
    for node in listed:
        nodes.append(_node(node, nodes, entries, tables))
    if not all(0 <= k < len(nodes) for k in values):
        raise FileError("an entry of a matrix is no operation of the list")
    if not values:
        return SX(shape[0], shape[1])
    return SX(ca.Sparsity.triplet(shape[0], shape[1], rows, columns), ca.vertcat(*(nodes[k] for k in values)))


def _node(node: object, before: list[SX], entries: list[list[SX]], tables: list[lookup.Lookup]) -> SX:
    """One operation on those before it."""
    name, *rest = plain.of(node, "operation", list) or [None]
    if name == "number" and len(rest) == 1:
        return SX(_number(rest[0]))
    if name == "argument" and len(rest) == 2:
        first = plain.size(rest[0], "argument", 0, len(entries) - 1)
        return entries[first][plain.size(rest[1], "argument", 0, len(entries[first]) - 1)]
    if name == "table" and len(rest) >= 3:
        return _looked_up(rest, before, tables)
    if not isinstance(name, str) or name not in CODES or len(rest) != (1 if name in UNARY else 2):
        raise FileError(f"{str(node)[:60]} is no operation")
    return operation(CODES[name], [before[plain.size(k, name, 0, len(before) - 1)] for k in rest])


def _looked_up(rest: list[object], before: list[SX], tables: list[lookup.Lookup]) -> SX:
    """One entry of a table, or of a derivative of it, at earlier nodes."""
    table = tables[plain.size(rest[0], "table", 0, len(tables) - 1)]
    steps = tuple(plain.of(rest[1], "derivatives", str).split())
    if len(steps) > MOST_DERIVATIVES or not all(re.fullmatch(r"(fwd|adj)[1-9]\d?", step) for step in steps):
        raise FileError(f"{rest[1]!r:.60} is no derivative of a table")
    function = lookup.derived(table, steps)
    if len(rest) - 3 != sum(function.nnz_in(i) for i in range(function.n_in())):
        raise FileError("a table has another number of arguments")
    found = called(function, [before[plain.size(k, "table", 0, len(before) - 1)] for k in rest[3:]])
    return found[plain.size(rest[2], "table", 0, len(found) - 1)]


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
