"""The functions of a large step: nothing is eliminated by expressions. Residuals and sparse Jacobians, as they are.

What `Program` writes out as straight lines grows with the fill of the elimination, and so does the time to make it. Here each
solve has its residual and its Jacobian, of a fixed pattern, and `sparse.py` factorises in numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import casadi as ca

from dalembert.engine.drafts import Draft
from dalembert.engine.factors import Factors
from dalembert.engine.looks import measured, missed, weighing
from dalembert.engine.program import Program
from dalembert.methods.step import Step

SX = ca.SX


@dataclass(frozen=True)
class LargeStage:
    """The functions of one solve of a large step.

    `values` is `(x, known) -> residual`, `both` has the Jacobian as well; `missed` is what the next state misses of what the step
    keeps, relative to its sizes, and `weigh` the sizes of what is measured: `seen` are the unknowns, or None for the residual.
    """

    seen: list[int] | None
    weigh: ca.Function
    guess: ca.Function
    values: ca.Function
    both: ca.Function
    missed: ca.Function

    @property
    def n(self) -> int:
        return int(self.values.size1_out(0))

    @property
    def pattern(self) -> ca.Sparsity:
        return self.both.sparsity_out(1)


class LargeProgram(Program):
    """A program whose solves are left as they are."""

    @cached_property
    def _fast(self) -> tuple[Step, list[Draft], Factors]:
        return self.step, [], Factors()

    @cached_property
    def large_stages(self) -> list[LargeStage]:
        """The solves of the step."""
        out, known, kept = [], list(self.common), list(self.step.kept)
        for k, solve in enumerate(self.step.solves):
            x = solve.unknowns
            off, kept = missed(self.step, kept, k, thorough=False)
            residual, inputs = ca.densify(solve.residual), [x, *known]
            hot = [*self.hot, *known[len(self.common) :]]
            out.append(
                LargeStage(
                    seen=measured(solve),
                    weigh=weighing(k, solve, known),
                    guess=ca.Function(f"guess{k}", [*hot, solve.last, solve.before], [ca.densify(solve.guess)]),
                    values=ca.Function(f"values{k}", inputs, [residual]),
                    both=ca.Function(f"both{k}", inputs, [residual, solve.jacobian()]),
                    missed=ca.Function(f"missed{k}", inputs, [ca.densify(off)]),
                )
            )
            known = [*known, x]
        return out

    def _squares(self, x: SX) -> SX:
        return ca.sumsqr(x)
