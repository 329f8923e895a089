"""What of a step depends on the step size and parameters alone: taken together, and computed once per run.

Such fixed factors of products are multiplied with each other first, quotients by them become products with their reciprocals,
and what several terms of a sum are multiplied by is taken out of it. Each is a symbol in the step, with a value in `h` and the
parameters. What is divided by more than once, or in every iteration, is inverted once; a number that multiplies such an
inverse is divided in place of the one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import count

import casadi as ca

from dalembert.systems.instructions import Listing, called, operation, walk

SX = ca.SX
DIVISIONS = (ca.OP_DIV, ca.OP_INV)


class Fixed:
    """A fixed value, made once of each: a number, a symbol, or an operation on others, written when it is needed."""

    __slots__ = ("_made", "number", "symbol")

    def __init__(self, made: SX | tuple[int, list[Fixed]], number: float | None = None) -> None:
        self._made, self.number = made, number
        self.symbol = made if isinstance(made, SX) else None  # what stands for it; a number or a symbol stands for itself

    @property
    def value(self) -> SX:
        if isinstance(self._made, tuple):
            self._made = operation(self._made[0], [v.value for v in self._made[1]])
        return self._made


ONE, TWO, MINUS = (Fixed(SX(c), c) for c in (1.0, 2.0, -1.0))


class _Value:
    """A value and the fixed factor that it is still to be multiplied by; of a fixed value that is all.

    A `moving` one changes with the iterate.
    """

    __slots__ = ("_rest", "factor", "fixed", "moving", "whole")

    def __init__(self, factor: Fixed, rest: SX | None = None, moving: bool = False) -> None:
        self.factor, self._rest, self.moving, self.fixed = factor, rest, moving, rest is None
        self.whole = rest if factor is ONE else None  # with its factor, once that was asked for

    @property
    def rest(self) -> SX:
        assert self._rest is not None
        return self._rest


class _Over(_Value):
    """A factor over another value; how that is divided by is chosen when it is used."""

    __slots__ = ("_factors", "bottom")

    def __init__(self, factor: Fixed, bottom: SX, moving: bool, factors: Factors) -> None:
        self.factor, self.bottom, self.moving, self.fixed, self.whole = factor, bottom, moving, False, None
        self._factors = factors

    @property
    def rest(self) -> SX:
        return self._factors.over(ONE, self.bottom)


class Factors:
    """Symbols of fixed factors with their values, and expressions with these in place."""

    def __init__(self) -> None:
        self.symbols: list[SX] = []
        self.values: list[SX] = []
        self._fixed: dict[tuple[object, ...], Fixed] = {_key(c): v for c, v in ((1.0, ONE), (2.0, TWO), (-1.0, MINUS))}
        self._known: dict[int, Fixed] = {}  # what the symbols stand for
        self._divided: dict[int, tuple[Fixed, SX, SX]] = {}  # the first number over each divisor

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
        entries = [ca.vertsplit(x.nz[:]) if x.nnz() else [] for x in inputs]

        def source(argument: int, entry: int) -> _Value:
            x = entries[argument][entry]
            number = x.element_hash()
            if number in self._known:
                return _Value(self._known[number])
            if argument in fixed:
                return _Value(self._fixed.setdefault(("symbol", number), Fixed(x)))
            return _Value(ONE, x, argument in moving)

        def call(f: ca.Function, operands: list[_Value]) -> list[_Value]:
            moves = any(v.moving for v in operands)
            return [_Value(ONE, v, moves) for v in called(f, [self.whole(v) for v in operands])]

        listing = Listing(function)
        shared = iter(_shared_divisors(listing))

        def apply(op: int, operands: list[_Value]) -> _Value:
            return self._apply(op, operands, op in DIVISIONS and next(shared))

        out = walk(listing, source, lambda c: _Value(self._number(c)), apply, call)
        return [ca.vertcat(*(self.whole(v) for v in rows)) if rows else SX(0, 1) for rows in out]

    @classmethod
    def inverted(cls, function: ca.Function, inputs: Sequence[SX]) -> list[SX]:
        """The outputs of a function where divisors that occur more than once are inverted; to be kept as written."""
        return cls().collected(function, inputs, ())

    def whole(self, v: _Value) -> SX:
        """A value with its factor."""
        if v.whole is None:
            if v.fixed:
                v.whole = self._symbol(v.factor)
            elif isinstance(v, _Over):
                v.whole = self.over(v.factor, v.bottom)
            else:
                v.whole = -v.rest if v.factor is MINUS else _product(self._symbol(v.factor), v.rest)
        return v.whole

    def _symbol(self, fixed: Fixed) -> SX:
        """What stands for a fixed value."""
        if fixed.symbol is None:
            fixed.symbol = SX.sym("constant")
            self.symbols.append(fixed.symbol)
            self.values.append(fixed.value)
            self._known[fixed.symbol.element_hash()] = fixed
        return fixed.symbol

    def _number(self, value: float) -> Fixed:
        key = _key(value)
        if key not in self._fixed:
            self._fixed[key] = Fixed(SX(value), value)
        return self._fixed[key]

    def _done(self, op: int, values: list[Fixed]) -> Fixed:
        """An operation on fixed values; numbers are numbers at once, and there are no factors of one."""
        a, b = values[0], values[-1]
        if (op == ca.OP_MUL and (a is ONE or b is ONE)) or (op == ca.OP_DIV and b is ONE):
            return a if b is ONE else b
        key = (op, *values)
        if key not in self._fixed:
            if a.number is None or b.number is None:
                self._fixed[key] = Fixed((op, values))
            elif op == ca.OP_MUL:
                self._fixed[key] = self._number(a.number * b.number)
            else:
                self._fixed[key] = self._number(float(ca.evalf(operation(op, [v.value for v in values]))))
        return self._fixed[key]

    def _times(self, a: Fixed, b: Fixed) -> Fixed:
        return self._done(ca.OP_MUL, [a, b])

    def over(self, top: Fixed, bottom: SX) -> SX:
        """A fixed value over another one; of all numbers over one value the first is a division, and the others are products."""
        if top.number is None:
            return self.whole(_Value(top, self.over(ONE, bottom)))
        number = bottom.element_hash()
        if number not in self._divided:
            whole = SX.unary(ca.OP_INV, bottom) if top is ONE else SX.binary(ca.OP_DIV, top.value, bottom)
            self._divided[number] = top, whole, bottom
        first, whole, _ = self._divided[number]
        return self.whole(_Value(self._done(ca.OP_DIV, [top, first]), whole))

    def _quotient(self, a: _Value, b: _Value) -> _Value:
        """A quotient as a product with an inverse; it has no factor, as other quotients that it may be added to."""
        factor, moves = self._done(ca.OP_DIV, [a.factor, b.factor]), a.moving or b.moving
        if a.fixed:
            return _Over(factor, b.rest, moves, self)
        if factor.number is not None or (a.moving and not b.moving):  # what stands still takes the factor out of the iteration
            return _Value(ONE, _product(self.over(factor, b.rest), a.rest), moves)
        return _Value(ONE, _product(self.whole(a), self.over(self._done(ca.OP_INV, [b.factor]), b.rest)), moves)

    def _apply(self, op: int, operands: list[_Value], shared: bool) -> _Value:
        """One operation; a division by what is divided by elsewhere as well is `shared`."""
        a, b = operands[0], operands[-1]
        if a.fixed and b.fixed:
            return _Value(self._done(op, [v.factor for v in operands]))
        moves = a.moving or b.moving
        if op in (ca.OP_ADD, ca.OP_SUB) and not a.fixed and not b.fixed:
            common = self._sum(op == ca.OP_SUB, a, b)
            if common is not None:
                return common
        elif op == ca.OP_NEG:
            return self._multiple(a, MINUS)
        elif op == ca.OP_TWICE:
            return self._multiple(a, TWO)
        elif op == ca.OP_MUL:
            return self._multiple(b, a.factor) if a.fixed else self._multiple(a, b.factor) if b.fixed else self._joined(a, b)
        elif op == ca.OP_SQ and a.factor is not ONE:
            return _Value(self._times(a.factor, a.factor), _product(a.rest, a.rest), moves)
        elif op == ca.OP_DIV and b.fixed:
            return self._multiple(a, self._done(ca.OP_INV, [b.factor]))
        elif op in DIVISIONS:
            a = _Value(ONE) if op == ca.OP_INV else a
            if shared or (a.moving and not b.moving) or (a.fixed and a.factor.number is not None and b.factor.number is not None):
                return self._quotient(a, b)
        return _Value(ONE, operation(op, [self.whole(v) for v in operands]), moves)

    def _multiple(self, v: _Value, factor: Fixed) -> _Value:
        """A value times a fixed one."""
        factor = self._times(v.factor, factor)
        if isinstance(v, _Over):
            return _Over(factor, v.bottom, v.moving, self)
        return _Value(factor, v.rest, v.moving)

    def _joined(self, a: _Value, b: _Value) -> _Value:
        """A product of two values that are not fixed."""
        if a.moving != b.moving:
            still, other = (b, a) if a.moving else (a, b)  # what stands still takes its factor along, out of the iteration
            return _Value(other.factor, _product(self.whole(still), other.rest), True)
        factor = self._times(a.factor, b.factor)
        if isinstance(a, _Over) != isinstance(b, _Over) and factor.number is not None:  # a number costs nothing in a division
            inverse, other = (a, b) if isinstance(a, _Over) else (b, a)
            assert isinstance(inverse, _Over)
            return _Value(ONE, _product(other.rest, self.over(factor, inverse.bottom)), a.moving)
        return _Value(factor, _product(a.rest, b.rest), a.moving)

    def _sum(self, minus: bool, a: _Value, b: _Value) -> _Value | None:
        """A sum or difference of two products with one factor, up to the sign."""
        for sign in (1.0, -1.0):
            if a.factor is (b.factor if sign > 0 else self._times(b.factor, MINUS)):
                joined = SX.binary(ca.OP_SUB if minus == (sign > 0) else ca.OP_ADD, a.rest, b.rest)
                return _Value(a.factor, joined, a.moving or b.moving)
        return None


def _key(value: float) -> tuple[object, ...]:
    """What tells one number from all others, to the last bit and the sign of a zero."""
    return "number", value.hex()


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


def _product(a: SX, b: SX) -> SX:
    return SX.binary(ca.OP_MUL, a, b)
