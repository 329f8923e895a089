"""The values of a step, each one once: what several functions compute alike is shared, and knows when it can change.

CasADi's functions of scalars are walked instruction by instruction into one graph by value numbering (Cocke 1970). Nothing is
reordered or simplified, so that C written from the graph rounds as the virtual machine does.
"""

from __future__ import annotations

import math
from typing import cast

import casadi as ca

from dalembert.systems.instructions import walk

RUN, STEP, ITERATE = range(3)  # how often a value changes: with the run, with the step, with the iterate of a solve

_TEXT = {
    ca.OP_ADD: "{} + {}", ca.OP_SUB: "{} - {}", ca.OP_MUL: "{} * {}", ca.OP_DIV: "{} / {}", ca.OP_NEG: "-{}",
    ca.OP_INV: "1.0 / {}", ca.OP_POW: "pow({}, {})", ca.OP_CONSTPOW: "pow({}, {})", ca.OP_ASSIGN: "{}",
    ca.OP_LT: "(double)({} < {})", ca.OP_LE: "(double)({} <= {})", ca.OP_EQ: "(double)({} == {})",
    ca.OP_NE: "(double)({} != {})", ca.OP_NOT: "(double)(!{})", ca.OP_AND: "(double)({} && {})", ca.OP_OR: "(double)({} || {})",
    ca.OP_FABS: "fabs({})", ca.OP_SIGN: "da_sign({})", ca.OP_IF_ELSE_ZERO: "({} ? {} : 0.0)", ca.OP_LIFT: "{}",
    ca.OP_PRINTME: "{}",
}  # fmt: skip
_NAMES = "exp log sqrt sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf floor ceil log1p expm1 fmod fmin fmax"
_TEXT |= {getattr(ca, f"OP_{name.upper()}"): f"{name}({{}})" for name in _NAMES.split()}
_TEXT |= {op: f"{name}({{}}, {{}})" for op, name in (
    (ca.OP_FMOD, "fmod"), (ca.OP_FMIN, "fmin"), (ca.OP_FMAX, "fmax"), (ca.OP_ATAN2, "atan2"), (ca.OP_HYPOT, "hypot"),
    (ca.OP_COPYSIGN, "copysign"), (ca.OP_REMAINDER, "remainder"),
)}  # fmt: skip
_SWAPPED = (ca.OP_ADD, ca.OP_MUL)  # what is the same to the last bit in the other order

Key = tuple[object, ...]


class Unwritable(Exception):
    """An operation has no C text."""


class Graph:
    """Values by number: a symbol, a constant, an operation on earlier values, or one output of a called function."""

    def __init__(self, called: list[ca.Function] | None = None) -> None:
        self.level: list[int] = []
        self.needs: list[tuple[int, ...]] = []
        self.called = [] if called is None else called  # functions that are not written out
        self._texts: list[str] = []  # of symbols and constants the name, of operations a pattern
        self._named: list[bool] = []
        self._keys: list[Key] = []
        self._numbers: dict[Key, int] = {}
        self._constants: set[int] = set()

    def symbol(self, name: str, level: int, text: str | None = None) -> int:
        """A value that comes from outside, with its text in C."""
        return self._value(("symbol", name), level, (), text or name, True)

    def constant(self, value: float) -> int:
        number = self._value(("constant", value, math.copysign(1.0, value)), RUN, (), literal(value), True)
        self._constants.add(number)
        return number

    def operation(self, op: int, needs: list[int]) -> int:
        """One operation; squares and doubles are products and sums, and equal to the last bit."""
        if op == ca.OP_SQ:
            op, needs = ca.OP_MUL, [needs[0], needs[0]]
        elif op == ca.OP_TWICE:
            op, needs = ca.OP_ADD, [needs[0], needs[0]]
        elif op == ca.OP_ASSIGN:
            return needs[0]
        if op in _SWAPPED and needs[0] > needs[1]:
            needs = [needs[1], needs[0]]
        if op not in _TEXT:
            raise Unwritable(f"CasADi's operation {op} cannot be written in C")
        return self._value((op, *needs), max(self.level[i] for i in needs), tuple(needs), _TEXT[op], False)

    def call(self, function: ca.Function, needs: list[int]) -> list[int]:
        """The outputs of a function that is not written out."""
        number = next((k for k, f in enumerate(self.called) if f.__hash__() == function.__hash__()), len(self.called))
        if number == len(self.called):
            self.called.append(function)
        level = max((self.level[i] for i in needs), default=RUN)
        arguments = ", ".join("{}" for _ in needs)
        outputs = range(sum(function.nnz_out(i) for i in range(function.n_out())))
        text = f"da_call{number}(%d, (double[]){{{{{arguments}}}}})"
        return [self._value(("call", number, k, *needs), level, tuple(needs), text % k, False) for k in outputs]

    def again(self, value: int, needs: list[int]) -> int:
        """The operation or output that a value is, of other operands."""
        key = self._keys[value]
        if key[0] != "call":
            return self.operation(cast(int, key[0]), needs)
        level = max((self.level[i] for i in needs), default=RUN)
        return self._value((*key[:3], *needs), level, tuple(needs), self._texts[value], False)

    def _value(self, key: Key, level: int, needs: tuple[int, ...], text: str, named: bool) -> int:
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.level)
            self._keys.append(key)
            self.level.append(level)
            self.needs.append(needs)
            self._texts.append(text)
            self._named.append(named)
        return number

    def load(self, function: ca.Function, inputs: list[list[int]]) -> list[list[int]]:
        """The values of the outputs of a function at given values of its arguments."""
        return walk(function, lambda i, k: inputs[i][k], self.constant, self.operation, self.call)

    def named(self, value: int) -> bool:
        """Whether a value needs no statement of its own."""
        return self._named[value]

    def is_constant(self, value: int) -> bool:
        return value in self._constants

    def is_call(self, value: int) -> bool:
        """Whether a value is an output of a called function."""
        return self._keys[value][0] == "call"

    def text(self, value: int) -> str:
        """The name of a symbol, or a constant."""
        return self._texts[value]

    def pattern(self, value: int) -> str:
        """The expression of an operation, with places for its operands."""
        return self._texts[value]

    def reached(self, roots: list[int], done: set[int], highest: int) -> list[int]:
        """The values that `roots` need, up to a level and without those done, in an order to compute them in."""
        seen: set[int] = set()
        stack = list(roots)
        while stack:
            i = stack.pop()
            if i not in seen and i not in done and not self._named[i]:
                seen.add(i)
                stack.extend(self.needs[i])
        return sorted(i for i in seen if self.level[i] <= highest)


def literal(value: float) -> str:
    """A number in C, to the last bit."""
    if math.isnan(value):
        return "NAN"
    if math.isinf(value):
        return "INFINITY" if value > 0 else "(-INFINITY)"
    text = repr(float(value))
    return text if value > 0 or text == "0.0" else f"({text})"
