"""The functions of a large step: nothing is eliminated by expressions. Residuals and sparse slopes, link by link.

What `Program` writes out as straight lines grows with the fill of the elimination, and so does the time to make it. Here each
solve has its residual as a chain of links, each with its slopes of fixed pattern; `sparse.py` does the rest in numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import casadi as ca

from dalembert.engine.drafts import Draft
from dalembert.engine.factors import Factors
from dalembert.engine.jacobians import jacobian
from dalembert.engine.looks import measured, weighing
from dalembert.engine.program import Program
from dalembert.engine.progress import stage
from dalembert.methods.step import Chained, Linked, Step

SX = ca.SX


@dataclass(frozen=True)
class Link:
    """One value of a chain: `value(x, earlier links, known)`, and `slopes` by the sources that vary, number -1 for `x`.

    It `varies` where it depends on the unknowns, directly or through others. A `straight` one is an affine function of the
    unknowns, with a slope that does not change while they are found.
    """

    value: ca.Function
    slopes: ca.Function
    sources: tuple[int, ...]
    straight: bool = False

    @property
    def varies(self) -> bool:
        return bool(self.sources)


@dataclass(frozen=True)
class LargeStage:
    """One solve of a large step: its links, the last of which is the residual.

    `weigh` gives the sizes of what is measured: `seen` are the unknowns, or None for the residual.
    """

    n: int
    seen: list[int] | None
    weigh: ca.Function
    guess: ca.Function
    links: tuple[Link, ...]
    names: tuple[int, ...]  # of the cuts: what has the same name in another solve is the same


def _links(x: SX, known: list[SX], chain: Chained) -> tuple[Link, ...]:
    """The links of a chain."""
    out: list[Link] = []
    names: list[SX] = []
    for number, e in enumerate((*(e for _, e in chain.cuts), ca.densify(chain.residual))):
        sources = {-1: x} | {j: names[j] for j in range(number) if out[j].varies}
        found = {j: chain.slopes[number, j] if (number, j) in chain.slopes else _jacobian(e, s) for j, s in sources.items()}
        found = {j: slope for j, slope in found.items() if slope.nnz()}
        sources, slopes = {j: sources[j] for j in found}, list(found.values())
        straight = list(sources) == [-1] and not ca.depends_on(slopes[0], x)
        inputs = [x, *names, *known]
        value, sloped = (ca.Function(f"link{number}", inputs, outputs) for outputs in ([e], slopes))
        out.append(Link(value, sloped, tuple(sources), straight))
        names += [chain.cuts[number][0]] if number < len(chain.cuts) else []
    return tuple(out)


def _jacobian(e: SX, s: SX) -> SX:
    """The derivative of a link: of one of vectors operation by operation."""
    return jacobian(e, s) if isinstance(e, ca.MX) else ca.jacobian(e, s)


class LargeProgram(Program):
    """A program whose solves are left as they are."""

    @cached_property
    def _fast(self) -> tuple[Step, list[Draft], Factors]:
        return self.step, [], Factors()

    @cached_property
    def prelude(self) -> ca.Function:
        return ca.Function("prelude", [self.step.h, self.step.par], [type(self.step.t)(0, 1)])

    @cached_property
    def hot(self) -> list[SX]:
        return [*self.common, type(self.step.t).sym("constants", 0)]

    @cached_property
    def linked(self) -> Linked:
        return self.step.linked()

    @cached_property
    def last(self) -> ca.Function | None:
        """The end of a step from the values that the last solve has at its end; None where more is needed."""
        chains, end = self.linked.chains, self.linked.end
        if end is None or not chains or not chains[-1].cuts:
            return None
        function = self._finish(*end, *(symbol for symbol, _ in chains[-1].cuts))
        return None if function.has_free() else function

    @cached_property
    def large_stages(self) -> list[LargeStage]:
        """The solves of the step."""
        stage("slopes")
        out, known = [], list(self.common)
        for k, (solve, chain) in enumerate(zip(self.step.solves, self.linked.chains, strict=True)):
            x, hot = solve.unknowns, [*self.hot, *known[len(self.common) :]]
            guess = ca.Function(f"guess{k}", [*hot, solve.last, solve.before], [ca.densify(solve.guess)])
            names = tuple(symbol[0].element_hash() if isinstance(symbol, SX) else symbol.__hash__() for symbol, _ in chain.cuts)
            links, weigh = _links(x, known, chain), weighing(k, solve, known)
            out.append(LargeStage(x.numel(), measured(solve), weigh, guess, links, names))
            known = [*known, x]
        return out

    def _squares(self, x: SX) -> SX:
        return ca.sumsqr(x)
