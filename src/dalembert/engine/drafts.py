"""The iteration of a solve as expressions: the Jacobian at one iterate, eliminated, acting on the residual at another."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import casadi as ca

from dalembert.engine import affine, elimination
from dalembert.engine.elimination import Order
from dalembert.engine.factors import Factors
from dalembert.engine.looks import measured
from dalembert.engine.looped import Loops
from dalembert.engine.newton import TINY
from dalembert.methods.step import Solve, Step
from dalembert.systems.instructions import as_written

SX = ca.SX
LONG = 10_000  # operations of a step up to which it is gone through for fixed factors


def hoisted(step: Step, common: list[SX], factors: Factors) -> Step:
    """The step with its fixed factors taken together and out; a large one is left as it is, since nothing compiles it."""
    solves = step.solves
    inputs = [*common, *(y for s in solves for y in (s.unknowns, s.last, s.before))]
    ends = [*step.next.values(), step.lam, *step.work.values()]
    with as_written():
        outputs = shared([ca.densify(SX(e)) for e in (*(e for s in solves for e in (s.residual, s.guess)), *ends)])
        if ca.Function("step", inputs, outputs).n_instructions() > LONG:
            return step
        own, count = [s.unknowns for s in solves], 2 * len(solves)
        new = [e for k in range(len(own)) for e in _forms(outputs[2 * k : 2 * k + 2], inputs, own[: k + 1])]
        new += affine.collected(ca.Function("ends", inputs, outputs[count:]), inputs, ca.vertcat(*own))
        function = ca.Function("step", inputs, shared(new))
        moving = range(len(common), len(inputs), 3)
        written = iter(factors.collected(function, inputs, (2, 4), moving))  # fixed are h and parameters
        changed = tuple(replace(s, residual=next(written), guess=next(written)) for s in solves)
        fast = replace(
            step,
            solves=changed,
            next={name: next(written) for name in step.next},
            lam=next(written),
            work={k: next(written) for k in step.work},
        )
        return fast


def _forms(outputs: list[SX], inputs: list[SX], unknowns: list[SX]) -> list[SX]:
    """What is affine in the unknowns of a solve, the last ones, and of all before, written as such.

    Where the solve is an iteration, it is first that in its own unknowns alone: it waits for nothing else.
    """
    *before, own = unknowns
    part = ca.Function("part", inputs, outputs)
    if not before or ca.is_linear(outputs[0], own):
        return affine.collected(part, inputs, ca.vertcat(*unknowns))
    part = ca.Function("part", inputs, affine.collected(part, inputs, own))
    return affine.collected(part, inputs, ca.vertcat(*before), own)


class Draft:
    """The iteration of one solve as expressions: what an iterate `x` changes to with the Jacobian taken `at` another.

    Where there are `loops` for the elimination, a compiled step needs the equations alone: `residual`, `J`, and the `right` side
    of linear ones. All of it as expressions is made when it is asked for.
    """

    def __init__(self, common: list[SX], solve: Solve, fast: Solve, order: Order | None, factors: Factors) -> None:
        self.solve, self.x, n = solve, solve.unknowns, solve.unknowns.numel()
        self.at, self.scale, self.seen = SX.sym("at", n), SX.sym("scale", solve.scale.numel()), measured(solve)
        self.residual, self.J = fast.residual, ca.jacobian(fast.residual, self.x)
        self.order = order or elimination.structural_order(self.J.sparsity(), solve.levels)
        self.loops = Loops.of(self.J.sparsity(), self.order)
        self.linear = not ca.depends_on(self.J, self.x)
        self.right = -ca.substitute(fast.residual, self.x, SX.zeros(n)) if self.linear else SX(0, 1)
        own = {v.element_hash() for v in ca.symvar(ca.veccat(self.x, *common, factors.all))}
        others = [v for v in ca.symvar(ca.veccat(self.J, fast.residual)) if v.element_hash() not in own]
        self.guess = SX.zeros(n) if self.linear else fast.guess
        given, moving = [*common, factors.all], [ca.veccat(*others), self.x]
        if self.loops is None:
            self.changes = self._collected(self._eliminated(), given, [*moving, self.at], [self.scale], factors)
        else:
            entries, self.residual, self.right = self._collected(
                [self.J.nz[:], ca.densify(self.residual), ca.densify(self.right)], given, moving, [], factors
            )
            self.J = SX(self.J.sparsity(), entries)

    @staticmethod
    def _collected(expressions: list[SX], given: list[SX], moving: list[SX], more: list[SX], factors: Factors) -> list[SX]:
        """Expressions with their fixed factors taken out, where there are not too many operations to go through."""
        inputs = [*given, *moving, *more]
        with as_written():
            function = ca.Function("change", inputs, expressions)
            if function.n_instructions() >= LONG:
                return expressions
            new = factors.collected(function, inputs, (2, 4), range(len(given), len(given) + len(moving)))
            return shared(new[:2]) + new[2:]

    def _eliminated(self) -> list[SX]:
        """The changed iterate and the size of the change; of linear equations also the first ones, from zero."""
        with as_written():
            frozen = ca.substitute(self.J, self.x, self.at)
            change = elimination.solve(frozen, self.residual, self.order, self.loops is None)
            out = [self.x - change, self.sized(change, self.residual, self.weights(self.at))]
            if self.linear:
                change = elimination.solve(self.J, self.right, self.order, self.loops is None)
                out += [change, self.sized(change, self.right, self.weights(SX.zeros(self.x.numel())))]
        return out

    @cached_property
    def changes(self) -> list[SX]:
        """All of it, eliminated."""
        return self._eliminated()

    @property
    def changed(self) -> list[SX]:
        """The changed iterate, and the size of the change."""
        return self.changes[:2]

    @property
    def start(self) -> list[SX]:
        """The same of linear equations, from zero."""
        return self.changes[2:]

    def weights(self, at: SX) -> SX:
        """What changes are measured with, at an iterate."""
        return SX(0, 1) if self.seen is None else 1 / (ca.fabs(at)[self.seen] + self.scale + TINY)

    def sized(self, change: SX, residual: SX, weights: SX) -> SX:
        """The square of the size of a change."""
        return squares(self.scale * residual if self.seen is None else weights * change[self.seen])


def squares(x: SX) -> SX:
    """The sum of squares, in pairs: the sums do not wait for each other."""
    terms = [SX.binary(ca.OP_MUL, v, v) for v in ca.vertsplit(x)]  # an operator checks shapes, and takes four times as long
    while len(terms) > 1:
        terms = [SX.binary(ca.OP_ADD, a, b) for a, b in zip(terms[::2], terms[1::2], strict=False)] + terms[len(terms) // 2 * 2 :]
    return terms[0] if terms else SX(0.0)


def shared(expressions: list[SX]) -> list[SX]:
    """Common sub-expressions taken together, where that does not take longer than it can save."""
    return ca.cse(expressions) if ca.n_nodes(SX(ca.veccat(*expressions))) < 20_000 else expressions  # type: ignore[no-any-return]


def split(outputs: list[SX], varying: list[SX]) -> tuple[list[SX], SX, SX]:
    """Take out the sub-expressions that do not depend on `varying`: outputs, symbols for them, their values."""
    own = {s.element_hash() for s in ca.symvar(ca.veccat(*varying))}

    def fixed(expressions: list[SX]) -> list[SX]:
        return [s for s in ca.symvar(ca.veccat(*expressions)) if s.element_hash() not in own]

    new, symbols, values = ca.extract_parametric(outputs, ca.veccat(*fixed(outputs)), {"prefix": "c_"})
    values, taken = _whole(list(symbols), list(values)), {s.name() for s in symbols}
    plain = [s for s in fixed(new) if s.name() not in taken]  # symbols that stand by themselves are left in place
    if not symbols and not plain:
        return new, SX.sym("c", 0), SX(0, 1)
    return new, ca.veccat(*symbols, *plain), SX(ca.veccat(*values, *plain))


def _whole(symbols: list[SX], values: list[SX]) -> list[SX]:
    """Values without the symbols of others: those of several results of one call have some."""
    own = {s.element_hash() for s in symbols}
    while values and any(s.element_hash() in own for s in ca.symvar(ca.veccat(*values))):
        values = ca.substitute(values, symbols, values)
    return values
