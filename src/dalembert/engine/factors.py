"""What of a step depends on the step size and parameters alone: taken together, and computed once per run.

Such fixed factors of products are multiplied with each other first, quotients by them become products with their reciprocals,
and what several terms of a sum are multiplied by is taken out of it. Each is a symbol in the step, with a value in `h` and the
parameters. What is divided by more than once, or in every iteration, is inverted once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

import casadi as ca

from dalembert.systems.instructions import Listing, called, operation, walk

SX = ca.SX
ONE = SX(1.0)
DIVISIONS = (ca.OP_DIV, ca.OP_INV)


@dataclass(frozen=True, eq=False)
class _Value:
    """A value and the fixed factor that it is still to be multiplied by; of a fixed value that is all.

    A `moving` one changes with the iterate.
    """

    factor: SX
    rest: SX | None = None
    moving: bool = False

    @property
    def fixed(self) -> bool:
        return self.rest is None


class Factors:
    """Symbols of fixed factors with their values, and expressions with these in place."""

    def __init__(self) -> None:
        self.symbols: list[SX] = []
        self.values: list[SX] = []
        self._known: dict[str, SX] = {}
        self._keys: dict[int, tuple[SX, str]] = {}
        self._whole: dict[int, tuple[_Value, SX]] = {}
        self._inverses: dict[tuple[int, str], tuple[SX, SX]] = {}

    def prelude(self, h: SX, par: SX) -> ca.Function:
        """The values of all symbols."""
        return ca.Function("prelude", [h, par], [SX(ca.veccat(*self.values)) if self.values else SX(0, 1)])

    @property
    def all(self) -> SX:
        """All symbols in a row."""
        return ca.veccat(*self.symbols) if self.symbols else SX(0, 1)

    def collected(
        self, function: ca.Function, inputs: Sequence[SX], fixed: Sequence[int], moving: Sequence[int] = ()
    ) -> list[SX]:
        """The outputs of a function at its inputs, some of which are fixed, and some moving; to be kept as written."""
        values = {s.element_hash(): v for s, v in zip(self.symbols, self.values, strict=True)}

        def source(argument: int, entry: int) -> _Value:
            x = inputs[argument].nz[entry]
            if x.element_hash() in values:
                return _Value(values[x.element_hash()])
            return _Value(x) if argument in fixed else _Value(ONE, x, argument in moving)

        def call(f: ca.Function, operands: list[_Value]) -> list[_Value]:
            moves = any(v.moving for v in operands)
            return [_Value(ONE, v, moves) for v in called(f, [self.whole(v) for v in operands])]

        listing = Listing(function)
        shared = iter(_shared_divisors(listing))

        def apply(op: int, operands: list[_Value]) -> _Value:
            return self._apply(op, operands, op in DIVISIONS and next(shared))

        out = walk(listing, source, lambda c: _Value(SX(c)), apply, call)
        return [ca.vertcat(*(self.whole(v) for v in rows)) if rows else SX(0, 1) for rows in out]

    @classmethod
    def inverted(cls, function: ca.Function, inputs: Sequence[SX]) -> list[SX]:
        """The outputs of a function where divisors that occur more than once are inverted; to be kept as written."""
        return cls().collected(function, inputs, ())

    def whole(self, v: _Value) -> SX:
        """A value with its factor."""
        if v.rest is None:
            return self._symbol(v.factor)
        if v.factor.is_one():
            return v.rest
        if id(v) not in self._whole:
            self._whole[id(v)] = v, -v.rest if v.factor.is_minus_one() else _product(self._symbol(v.factor), v.rest)
        return self._whole[id(v)][1]

    def _key(self, value: SX) -> str:
        """Two values with one key are one expression."""
        kept = self._keys.get(number := value.element_hash())
        if kept is None:
            kept = self._keys[number] = value, str(value)
        return kept[1]

    def _symbol(self, value: SX) -> SX:
        """What stands for a fixed value; a number or a symbol stands for itself."""
        if value.is_leaf():
            return value
        key = self._key(value)
        if key not in self._known:
            self._known[key] = SX.sym("constant")
            self.symbols.append(self._known[key])
            self.values.append(value)
        return self._known[key]

    def _inverse(self, v: _Value) -> SX:
        """One over a value, once."""
        assert v.rest is not None
        key = v.rest.element_hash(), self._key(v.factor)
        if key not in self._inverses:
            plain = SX.unary(ca.OP_INV, v.rest) if v.factor.is_one() else self._inverse(_Value(ONE, v.rest))
            self._inverses[key] = v.rest, self.whole(_Value(_fixed(ca.OP_INV, [v.factor]), plain))
        return self._inverses[key][1]

    def _quotient(self, a: _Value, b: _Value) -> _Value:
        """A quotient as a product with an inverse; it has no factor, as other quotients that it may be added to."""
        inverse = self._inverse(b)
        if a.rest is None:
            return _Value(a.factor, inverse, b.moving)
        if a.moving and not b.moving:  # what stands still takes the factor along, out of the iteration
            return _Value(ONE, _product(self.whole(_Value(a.factor, inverse)), a.rest), True)
        return _Value(ONE, _product(self.whole(a), inverse), a.moving or b.moving)

    def _apply(self, op: int, operands: list[_Value], shared: bool) -> _Value:
        """One operation; a division by what is divided by elsewhere as well is `shared`."""
        a, b = operands[0], operands[-1]
        moves = a.moving or b.moving
        if all(v.fixed for v in operands):
            return _Value(_fixed(op, [v.factor for v in operands]))
        if op == ca.OP_NEG:
            return _Value(_times(a.factor, SX(-1.0)), a.rest, moves)
        if op == ca.OP_TWICE:
            return _Value(_times(a.factor, SX(2.0)), a.rest, moves)
        if op == ca.OP_MUL and a.rest is not None and b.rest is not None and a.moving != b.moving:
            still, other = (b, a) if a.moving else (a, b)  # what stands still takes its factor along, out of the iteration
            assert other.rest is not None
            return _Value(other.factor, _product(self.whole(still), other.rest), True)
        if op == ca.OP_MUL:
            rest = b.rest if a.rest is None else a.rest if b.rest is None else _product(a.rest, b.rest)
            return _Value(_times(a.factor, b.factor), rest, moves)
        if op == ca.OP_SQ and a.rest is not None and not a.factor.is_one():
            return _Value(_times(a.factor, a.factor), _product(a.rest, a.rest), moves)
        if op == ca.OP_DIV and b.fixed:
            return _Value(_times(a.factor, _fixed(ca.OP_INV, [b.factor])), a.rest, moves)
        if op in DIVISIONS and not b.fixed and (shared or (a.moving and not b.moving)):
            return self._quotient(_Value(ONE) if op == ca.OP_INV else a, b)
        if op in (ca.OP_ADD, ca.OP_SUB) and a.rest is not None and b.rest is not None:
            common = self._sum(op == ca.OP_SUB, a, b)
            if common is not None:
                return common
        return _Value(ONE, operation(op, [self.whole(v) for v in operands]), moves)

    def _sum(self, minus: bool, a: _Value, b: _Value) -> _Value | None:
        """A sum or difference of two products with one factor, up to the sign."""
        assert a.rest is not None
        assert b.rest is not None
        for sign in (1.0, -1.0):
            other = b.factor if sign > 0 else _times(b.factor, SX(-1.0))
            if a.factor is other or self._key(a.factor) == self._key(other):
                joined = SX.binary(ca.OP_SUB if minus == (sign > 0) else ca.OP_ADD, a.rest, b.rest)
                return _Value(a.factor, joined, a.moving or b.moving)
        return None


def _shared_divisors(function: Listing) -> list[bool]:
    """For each division of a function, whether it is by what another one divides by too, up to numbers as factors."""
    numbers, divisors = count(1), list[int]()

    def apply(op: int, operands: list[int]) -> int:
        if op in (ca.OP_NEG, ca.OP_TWICE) or (op == ca.OP_MUL and 0 in operands):
            return max(operands)
        if op in DIVISIONS:
            divisors.append(operands[-1])
        return next(numbers)

    def call(f: ca.Function, operands: list[int]) -> list[int]:
        return [next(numbers) for _ in range(sum(f.nnz_out(i) for i in range(f.n_out())))]

    walk(function, lambda i, k: next(numbers), lambda c: 0, apply, call)
    often = Counter(divisors)
    return [often[d] > 1 for d in divisors]


def _fixed(op: int, values: list[SX]) -> SX:
    """An operation on fixed values; numbers are numbers at once."""
    if op == ca.OP_MUL:
        return _times(*values)
    out = operation(op, values)
    return SX(ca.evalf(out)) if all(v.is_constant() for v in values) else out


def _times(a: SX, b: SX) -> SX:
    """A product of fixed values: numbers first, and no factor of one."""
    if a.is_one() or b.is_one():
        return b if a.is_one() else a
    if a.is_constant() and b.is_constant():
        return SX(float(a) * float(b))
    return _product(a, b)


def _product(a: SX, b: SX) -> SX:
    return SX.binary(ca.OP_MUL, a, b)
