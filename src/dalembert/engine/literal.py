"""Newton's iteration as sources state it: to show what a loose or simplified iteration does to a motion, not to compute with.

    X_(k+1) = X_k - J^-1 F(X_k),    X = (Y_1 .. Y_s, Z_1 .. Z_s)

Hilden (2009, sec. 2.5.1): `J` once, at `(y0, z0)`; guess `Y_i = y0 + c_i h f(y0, z0)`, `Z_i = z0` (eq. 2.22); stop where
`eta_k |dX_k| <= 0.03 TOL`, with `eta = theta / (1 - theta)` and `theta` the mean rate of the last changes. Symank (2025,
sec. 7.1): guess `Y_i = y0`, stop where the residual has fallen to a part `TOL` of that of the guess.
`z0` follows from the hidden constraint. Nothing else is looked at: a step that the library itself would refuse is taken. The end
of the step is no unknown here, it follows from the stages, and what can be solved exactly is split off; in Hilden's equations it
is one, and lags behind by one iteration. A stopped iteration depends on it: `experiments.spark` has both ways.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import casadi as ca
import numpy as np

from dalembert.checking import number, one_of, whole
from dalembert.engine.elimination import solve_pivoted
from dalembert.engine.machine import Call, Place, VirtualMachine
from dalembert.engine.newton import Array, Parts, Rule
from dalembert.engine.program import Program
from dalembert.engine.run import Pivots
from dalembert.engine.runners import Engine
from dalembert.engine.stage import Stage
from dalembert.engine.walking import EQUAL, Pace
from dalembert.errors import MethodError, strict
from dalembert.systems.base import System
from dalembert.systems.dae import IndexTwoDAE


@strict
@dataclass(frozen=True)
class Newton(Rule):
    """Newton's iteration as a source states it, `simulate(..., newton=da.Newton(tolerance=1e-6))`; see the module.

    `jacobian` is taken once at the `"start"` of the step, once at the `"guess"`, or at `"each"` iterate. `guess` is `"rates"`
    (`Y_i = y0 + c_i h f(y0, z0)`) or `"naive"` (`Y_i = y0`). `stop` looks at `"changes"` or at the `"residual"`.
    """

    tolerance: float = 1e-6
    max_iterations: int = 50
    jacobian: str = "start"
    guess: str = "rates"
    stop: str = "changes"
    safety: float = 0.03

    def __post_init__(self) -> None:
        one_of("jacobian", self.jacobian, ("start", "guess", "each"))
        one_of("guess", self.guess, ("rates", "naive"))
        one_of("stop", self.stop, ("changes", "residual"))
        whole("max_iterations", self.max_iterations, most=10**6)
        for name in ("tolerance", "safety"):
            if not 0 < number(name, getattr(self, name)) <= 1:
                raise MethodError(f"{name} must lie between 0 and 1, not {getattr(self, name)!r}")

    def bind(self, parts: Parts) -> Callable[[bool], int]:
        """The iteration; the size is the norm of the change, or that of the residual before it relative to the first."""
        limit = self.tolerance * (self.safety if self.stop == "changes" else 1.0)
        change = parts.renew if self.jacobian == "each" else parts.update

        def iterate(look: bool) -> int:
            previous = mean = 0.0
            for k in range(1, self.max_iterations + 1):
                (change if k > 1 else parts.begin)()
                size = float(np.sqrt(parts.sizes[0]))
                if size == 0.0 or (self.stop == "residual" and size <= limit):
                    return k
                if not size < 1e300:
                    return -k
                if self.stop == "changes" and k > 1:
                    rate = size / previous
                    mean = rate if k == 2 else float(np.sqrt(mean * rate))
                    if mean < 1 and mean / (1 - mean) * size <= limit:
                        return k
                previous = size
            return -self.max_iterations

        return iterate


class _Solve:
    """One solve of a step, from a guess at the beginning of the step."""

    def __init__(self, machine: _Machine, number: int, stage: Stage, at: Place) -> None:
        solve, start = machine.program.step.solves[number], sum(s.n for s in machine.program.stages[:number])
        self.machine, self.stage, self.x, self.known, self.size = machine, stage, at.x, at.known, at.size
        self.place = slice(start, start + stage.n)
        self.multiplier = np.array(solve.levels) == 1 if solve.measure == "unknowns" else np.ones(stage.n, dtype=bool)
        self.J, self.first = ca.DM(), 0.0

    def factor(self) -> None:
        self.J = self.stage.residual(self.x, *self.known)[1]

    def begin(self) -> None:
        """The Jacobian where the rule wants it, then a change from the guess."""
        rule = self.machine.rule
        moving = rule.guess == "rates"
        guess = self.machine.guess(self.known)[self.place]
        naive = np.where(self.multiplier, guess, 0.0)
        self.x[:] = guess if moving and rule.jacobian != "start" else naive
        self.factor()
        self.x[:] = guess if moving else naive
        self.first = 0.0
        self.update()

    def renew(self) -> None:
        """A change with the Jacobian at the iterate."""
        self.factor()
        self.update()

    def update(self) -> None:
        """One change, and the square of its size: of rates what they change in the stages."""
        rows = np.array(self.stage.residual(self.x, *self.known)[0]).ravel()
        change = solve_pivoted(self.J, rows)
        self.x[:] -= change
        if self.machine.rule.stop == "changes":
            self.size[0] = np.linalg.norm(np.where(self.multiplier, change, self.machine.h[0] * change)) ** 2
            return
        norm = float(np.linalg.norm(rows))
        self.first = self.first or norm
        self.size[0] = (norm / self.first) ** 2 if self.first else 0.0


class _Machine(VirtualMachine):
    """Each step begins anew, with a guess from its own beginning."""

    name = "as stated"

    def __init__(self, program: Program, rule: Newton) -> None:
        self.rule, self.made_of = rule, 0
        super().__init__(program)

    def guess(self, known: list[Array]) -> Array:
        """All unknowns of the step, with the rates and algebraic variables at its beginning."""
        state, t, h, u, par = known[:5]
        return self.program.first_memory(state, float(t[0]), float(h[0]), u, par)

    def _linear_solver(self, stage: Stage, at: Place) -> tuple[Call, Call, Call]:
        solve = _Solve(self, self.made_of, stage, at)
        self.made_of += 1
        return solve.begin, solve.renew, solve.update


class Literal(Engine):
    """An engine whose steps are solved by a rule as stated, in the virtual machine, without a careful way beside it."""

    def __init__(self, engine: Engine, system: System, rule: Newton) -> None:
        super().__init__(engine.program, engine.settle)
        if not isinstance(system, IndexTwoDAE):
            raise MethodError("newton=da.Newton(...) is for differential-algebraic systems, such as mechanical.to_dae('index2')")
        self._stated = _Machine(engine.program, rule)

    def runner(self, compile: bool | str, steps: int, pace: Pace = EQUAL) -> _Machine:  # type: ignore[override]
        return self._stated

    def careful(self) -> None:  # type: ignore[override]
        return None

    def using(self, pivots: Pivots | None) -> Literal:
        return self
