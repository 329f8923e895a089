"""What is affine in the unknowns of a step, written as such: a base and slopes that are computed once per step.

Positions such as `q + h (v - h/2 M^-1 G^T lam)` become `base + slope lam`. An iteration waits for one product and one sum then,
and not for all operations in between; base and slopes are there before it begins.
"""

from __future__ import annotations

from collections.abc import Sequence

import casadi as ca

from dalembert.systems.instructions import called, operation, walk

SX = ca.SX
FEW = 2  # unknowns of a form: one with more has more to compute than what stands between


class _Form:
    """A value: `base + sum slopes[i] unknown_i`, a base alone where there are no slopes, or an expression that is not affine.

    `origin` is the operation that it comes from, `plain` the same where that is shorter.
    """

    def __init__(self, number: int, base: SX | None, slopes: dict[int, SX], whole: SX | None = None) -> None:
        self.number, self.base, self.slopes, self.whole = number, base, slopes, whole
        self.plain: tuple[int, list[_Form]] | None = None
        self.origin: tuple[int, list[_Form]] | None = None

    @property
    def known(self) -> bool:
        """Whether no unknown is in it."""
        return self.whole is None and not self.slopes


class _Walk:
    """One walk over a function. `needed` are the forms whose values are asked for, by number, of an earlier walk."""

    def __init__(self, unknowns: Sequence[SX], needed: frozenset[int] = frozenset()) -> None:
        self.unknowns, self._before = unknowns, needed
        self.needed: set[int] = set()
        self._places = {x.element_hash(): i for i, x in enumerate(unknowns)}
        self._count = 0
        self.exact = False  # whether rounding is made up for: such sums must stay as they are

    def new(self, base: SX | None, slopes: dict[int, SX], whole: SX | None = None) -> _Form:
        self._count += 1
        return _Form(self._count, base, slopes, whole)

    def source(self, x: SX) -> _Form:
        place = self._places.get(x.element_hash())
        return self.new(x, {}) if place is None else self.new(None, {place: SX(1.0)})

    def value(self, form: _Form) -> SX:
        """The expression of a form."""
        if form.known:
            return SX(0.0) if form.base is None else form.base
        self.needed.add(form.number)
        if form.whole is None and form.plain is not None:
            form.whole = operation(form.plain[0], [self.value(v) for v in form.plain[1]])
        elif form.whole is None:
            terms = [SX(self.unknowns[i]) if k.is_one() else _times(k, self.unknowns[i]) for i, k in sorted(form.slopes.items())]
            whole = terms[0] if form.base is None else form.base + terms[0]
            for term in terms[1:]:
                whole = whole + term
            form.whole = whole
        return form.whole

    def apply(self, op: int, operands: list[_Form]) -> _Form:
        out = self._apply(op, operands)
        out.origin = op, operands
        self.exact = self.exact or _remainder(op, operands)
        return out

    def _apply(self, op: int, operands: list[_Form]) -> _Form:
        if all(v.known for v in operands):
            return self.new(operation(op, [self.value(v) for v in operands]), {})
        form = self._affine(op, operands) if all(v.known or v.slopes for v in operands) else None
        if form is None:
            return self.new(None, {}, operation(op, [self.value(v) for v in operands]))
        if all(v.number in self._before for v in operands if not (v.base is not None and v.known and v.base.is_constant())):
            form.plain = op, operands
        return form

    def _affine(self, op: int, operands: list[_Form]) -> _Form | None:
        """An operation on forms, as far as it is one again."""
        a, b = operands[0], operands[-1]
        if op in (ca.OP_ADD, ca.OP_SUB):
            slopes = dict(a.slopes)
            for i, k in b.slopes.items():
                slopes[i] = _sum(op, slopes.get(i), k)
            return self.new(a.base if b.base is None else _sum(op, a.base, b.base), slopes) if len(slopes) <= FEW else None
        if op == ca.OP_MUL and (a.known or b.known):
            return self._scaled(b, self.value(a)) if a.known else self._scaled(a, self.value(b))
        if op == ca.OP_DIV and b.known:
            return self._scaled(a, 1 / self.value(b))
        if op in (ca.OP_NEG, ca.OP_TWICE):
            return self._scaled(a, SX(-1.0 if op == ca.OP_NEG else 2.0))
        return None

    def _scaled(self, form: _Form, factor: SX) -> _Form:
        slopes = {i: _times(factor, k) for i, k in form.slopes.items()}
        return self.new(None if form.base is None else _times(factor, form.base), slopes)

    def call(self, f: ca.Function, operands: list[_Form]) -> list[_Form]:
        values = called(f, [self.value(v) for v in operands])
        if all(v.known for v in operands):
            return [self.new(v, {}) for v in values]
        return [self.new(None, {}, v) for v in values]


def collected(function: ca.Function, inputs: Sequence[SX], unknowns: SX) -> list[SX]:
    """The outputs of a function with their affine parts collected; to be kept as written.

    An operation on forms that are all needed by themselves, and on numbers, is left as it is. So is a function that keeps what
    rounding takes from a sum.
    """
    single = ca.vertsplit(unknowns)
    needed: frozenset[int] = frozenset()
    for _ in range(2):
        w = _Walk(single, needed)
        rows = walk(function, lambda i, k: w.source(inputs[i].nz[k]), lambda c: w.new(SX(c), {}), w.apply, w.call)  # noqa: B023
        if w.exact:
            return function.call(list(inputs), True, False)
        out = [ca.vertcat(*(w.value(v) for v in row)) if row else SX(0, 1) for row in rows]
        needed = frozenset(w.needed)
    return out


def _remainder(op: int, operands: list[_Form]) -> bool:
    """Whether this is `b - (s - a)` with `s = a + b`: see `two_sum` in methods/step.py."""
    if op != ca.OP_SUB or operands[1].origin is None or operands[1].origin[0] != ca.OP_SUB:
        return False
    s, a = operands[1].origin[1]
    return s.origin is not None and s.origin[0] == ca.OP_ADD and {id(v) for v in s.origin[1]} == {id(a), id(operands[0])}


def _times(a: SX, b: SX) -> SX:
    if a.is_one() or b.is_one():
        return b if a.is_one() else a
    if a.is_constant() and b.is_constant():
        return SX(float(a) * float(b))
    return -b if a.is_minus_one() else -a if b.is_minus_one() else SX.binary(ca.OP_MUL, a, b)


def _sum(op: int, a: SX | None, b: SX) -> SX:
    """A sum or difference, where None is zero."""
    if a is None:
        return b if op == ca.OP_ADD else _times(SX(-1.0), b)
    return SX.binary(op, a, b)
