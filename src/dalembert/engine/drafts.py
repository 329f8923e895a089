"""The iteration of a solve as expressions: the Jacobian at one iterate, eliminated, acting on the residual at another."""

from __future__ import annotations

from dataclasses import replace

import casadi as ca

from dalembert.engine import affine, elimination
from dalembert.engine.elimination import Order
from dalembert.engine.factors import Factors
from dalembert.engine.looks import measured
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
        # what is affine in the unknowns of a solve and of all before it is written as such
        cuts = [slice(2 * k, 2 * k + 2) for k in range(len(solves))] + [slice(2 * len(solves), len(outputs))]
        found = [ca.vertcat(*(s.unknowns for s in solves[: k + 1])) for k in range(len(cuts))]
        parts = [ca.Function("part", inputs, outputs[cut]) for cut in cuts]
        new = [e for part, own in zip(parts, found, strict=True) for e in affine.collected(part, inputs, own)]
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


class Draft:
    """The iteration of one solve as expressions: what an iterate `x` changes to with the Jacobian taken `at` another."""

    def __init__(self, common: list[SX], solve: Solve, fast: Solve, order: Order | None, factors: Factors) -> None:
        self.solve, self.x, n = solve, solve.unknowns, solve.unknowns.numel()
        self.at, self.scale, self.seen = SX.sym("at", n), SX.sym("scale", solve.scale.numel()), measured(solve)
        J = ca.jacobian(fast.residual, self.x)
        order = order or elimination.structural_order(J.sparsity(), solve.levels)
        linear = not ca.depends_on(J, self.x)
        right = -ca.substitute(fast.residual, self.x, SX.zeros(n)) if linear else SX(0, 1)
        own = {v.element_hash() for v in ca.symvar(ca.veccat(self.x, *common, factors.all))}
        others = [v for v in ca.symvar(ca.veccat(J, fast.residual)) if v.element_hash() not in own]
        self.guess, self.start = SX.zeros(n) if linear else fast.guess, list[SX]()
        with as_written():
            frozen = ca.substitute(J, self.x, self.at)
            change = elimination.solve(frozen, fast.residual, order)
            self.changed = [self.x - change, self._size(change, fast.residual, self.at)]
            if linear:  # from zero
                change = elimination.solve(J, right, order)
                self.start = [change, self._size(change, right, SX.zeros(n))]
            inputs = [*common, factors.all, ca.veccat(*others), self.x, self.at, self.scale]
            function = ca.Function("change", inputs, [*self.changed, *self.start])
            if function.n_instructions() < LONG:
                new = factors.collected(function, inputs, (2, 4), range(len(inputs) - 4, len(inputs) - 1))
                self.changed, self.start = shared(new[:2]), new[2:]

    def _size(self, change: SX, residual: SX, at: SX) -> SX:
        """The square of the size of a change."""
        if self.seen is None:
            return squares(self.scale * residual)
        weight = 1 / (ca.fabs(at)[self.seen] + self.scale + TINY)
        return squares(weight * change[self.seen])


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
    taken = {s.name() for s in symbols}
    plain = [s for s in fixed(new) if s.name() not in taken]  # symbols that stand by themselves are left in place
    if not symbols and not plain:
        return new, SX.sym("c", 0), SX(0, 1)
    return new, ca.veccat(*symbols, *plain), SX(ca.veccat(*values, *plain))
