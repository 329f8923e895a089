"""What is affine in the unknowns of a step, written as such: a base and slopes that are computed once per step.

Positions such as `q + h (v - h/2 M^-1 G^T lam)` become `base + slope lam`. An iteration waits for one product and one sum then,
and not for all operations in between; base and slopes are there before it begins.
"""

from __future__ import annotations

from collections.abc import Sequence

import casadi as ca

from dalembert.systems.instructions import Listing, called, operation, walk

SX = ca.SX
ONE, TWO, MINUS = SX(1.0), SX(2.0), SX(-1.0)
FEW = 2  # unknowns of a form: one with more has more to compute than what stands between
NONE: frozenset[int] = frozenset()
LATER = -1  # the place of an unknown that is found later


def collected(function: ca.Function, inputs: Sequence[SX], unknowns: SX, later: SX | None = None) -> list[SX]:
    """The outputs of a function with their affine parts collected; to be kept as written.

    What depends on `later`, unknowns that are found after these, is no form. An operation on forms that are all needed by
    themselves, and on numbers, is left as it is. So is a function that keeps what rounding takes from a sum.
    """
    single = ca.vertsplit(unknowns)
    places = {x.element_hash(): i for i, x in enumerate(single)}
    places |= {x.element_hash(): LATER for x in ([] if later is None else ca.vertsplit(later))}
    sources = [[inputs[i].nz[k] for k in range(inputs[i].nnz())] for i in range(function.n_in())]
    found = [[places.get(x.element_hash()) for x in row] for row in sources]
    survey, listing = _Survey(), Listing(function)
    rows = walk(listing, lambda i, k: survey.source(found[i][k]), survey.number, survey.apply, survey.call)
    survey.need([v for row in rows for v in row])
    if survey.exact:
        return function.call(list(inputs), True, False)
    w = _Writing(single, survey)
    forms = walk(listing, lambda i, k: w.source(sources[i][k], found[i][k]), lambda c: w.new(SX(c)), w.apply, w.call)
    return [ca.vertcat(*(w.value(v) for v in row)) if row else SX(0, 1) for row in forms]


def _affine(op: int, known: tuple[bool, bool]) -> bool:
    """Whether an operation on affine operands, some of them known, is affine."""
    linear = op in (ca.OP_ADD, ca.OP_SUB, ca.OP_NEG, ca.OP_TWICE)
    return linear or (op == ca.OP_MUL and any(known)) or (op == ca.OP_DIV and known[1])


class _Value:
    """A value by number: the unknowns of its form, none where it is known; `None` where it is not affine."""

    def __init__(self, number: int, of: frozenset[int] | None, origin: tuple[int, list[_Value]] | None = None) -> None:
        self.number, self.of, self.origin = number, of, origin
        self.constant = False


class _Survey:
    """A first walk, without expressions: which values are affine, and which forms are `needed` by what is not."""

    def __init__(self) -> None:
        self.of: list[frozenset[int] | None] = []
        self.needed: set[int] = set()
        self.exact = False
        self._sums: list[tuple[int, list[_Value]]] = []

    def _new(self, of: frozenset[int] | None, origin: tuple[int, list[_Value]] | None = None) -> _Value:
        self.of.append(of)
        return _Value(len(self.of) - 1, of, origin)

    def source(self, place: int | None) -> _Value:
        return self._new(NONE if place is None else None if place == LATER else frozenset({place}))

    def number(self, c: float) -> _Value:
        out = self._new(NONE)
        out.constant = True
        return out

    def need(self, values: list[_Value]) -> None:
        self.needed.update(v.number for v in values if v.of)

    def apply(self, op: int, operands: list[_Value]) -> _Value:
        a, b = operands[0], operands[-1]
        self.exact = self.exact or _remainder(op, operands)
        if a.of is not None and b.of is not None and _affine(op, (not a.of, not b.of)) and len(a.of | b.of) <= FEW:
            out = self._new(a.of | b.of, (op, operands))
            self._sums.append((out.number, [v for v in operands if not v.constant]))
            return out
        known = all(v.of == NONE for v in operands)
        if not known:
            self.need(operands)
        return self._new(NONE if known else None, (op, operands))

    def call(self, f: ca.Function, operands: list[_Value]) -> list[_Value]:
        self.need(operands)
        known = all(v.of == NONE for v in operands)
        return [self._new(NONE if known else None) for _ in range(sum(f.nnz_out(i) for i in range(f.n_out())))]

    def short(self) -> set[int]:
        """Values that are one operation away from forms that are needed."""
        return {number for number, operands in self._sums if all(v.number in self.needed for v in operands)}


def _remainder(op: int, operands: list[_Value]) -> bool:
    """Whether this is `b - (s - a)` with `s = a + b`: see `two_sum` in methods/step.py."""
    if op != ca.OP_SUB or operands[1].origin is None or operands[1].origin[0] != ca.OP_SUB:
        return False
    s, a = operands[1].origin[1]
    return s.origin is not None and s.origin[0] == ca.OP_ADD and {id(v) for v in s.origin[1]} == {id(a), id(operands[0])}


class _Form:
    """A value: `base + sum slopes[i] unknown_i`, or an expression that is not affine, or the operation `plain`."""

    def __init__(self, base: SX | None, slopes: dict[int, SX], whole: SX | None) -> None:
        self.base, self.slopes, self.whole = base, slopes, whole
        self.plain: tuple[int, list[_Form]] | None = None


class _Writing:
    """A second walk, which writes the forms."""

    def __init__(self, unknowns: list[SX], survey: _Survey) -> None:
        self._unknowns, self._of, self._short = unknowns, survey.of, survey.short()
        self._count = -1

    def new(self, base: SX | None, slopes: dict[int, SX] | None = None, whole: SX | None = None) -> _Form:
        self._count += 1
        return _Form(base, slopes or {}, whole)

    def source(self, x: SX, place: int | None) -> _Form:
        if place == LATER:
            return self.new(None, whole=x)
        return self.new(x) if place is None else self.new(None, {place: ONE})

    def value(self, form: _Form) -> SX:
        """The expression of a form."""
        if form.whole is None and form.plain is not None:
            form.whole = operation(form.plain[0], [self.value(v) for v in form.plain[1]])
        if form.whole is None:
            form.whole = form.base
            for i, k in sorted(form.slopes.items()):
                form.whole = _sum(ca.OP_ADD, form.whole, _times(k, self._unknowns[i]))
        assert form.whole is not None
        return form.whole

    def apply(self, op: int, operands: list[_Form]) -> _Form:
        of = self._of[self._count + 1]
        if not of:
            whole = operation(op, [self.value(v) for v in operands])
            return self.new(None, {}, whole) if of is None else self.new(whole)
        out = self.new(*self._combined(op, operands[0], operands[-1]))
        out.plain = (op, operands) if self._count in self._short else None
        return out

    def _combined(self, op: int, a: _Form, b: _Form) -> tuple[SX | None, dict[int, SX]]:
        """Base and slopes of an operation on forms."""
        if op in (ca.OP_ADD, ca.OP_SUB):
            slopes = dict(a.slopes)
            for i, k in b.slopes.items():
                slopes[i] = _sum(op, slopes.get(i), k)
            return a.base if b.base is None else _sum(op, a.base, b.base), slopes
        if op == ca.OP_MUL:
            a, factor = (b, self.value(a)) if not a.slopes else (a, self.value(b))
        else:
            factor = SX.unary(ca.OP_INV, self.value(b)) if op == ca.OP_DIV else MINUS if op == ca.OP_NEG else TWO
        return None if a.base is None else _times(factor, a.base), {i: _times(factor, k) for i, k in a.slopes.items()}

    def call(self, f: ca.Function, operands: list[_Form]) -> list[_Form]:
        values = called(f, [self.value(v) for v in operands])
        return [self.new(None, {}, v) if self._of[self._count + 1] is None else self.new(v) for v in values]


def _times(a: SX, b: SX) -> SX:
    if a.is_one() or b.is_one():
        return b if a.is_one() else a
    if a.is_constant() and b.is_constant():
        return SX(float(a) * float(b))
    return -b if a.is_minus_one() else -a if b.is_minus_one() else SX.binary(ca.OP_MUL, a, b)


def _sum(op: int, a: SX | None, b: SX) -> SX:
    """A sum or difference, where None is zero."""
    if a is None:
        return b if op == ca.OP_ADD else _times(MINUS, b)
    return SX.binary(op, a, b)
