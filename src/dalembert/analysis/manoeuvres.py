"""`optimize_inputs`: inputs that bring a system where it is wanted, at the least cost.

The unknowns of an optimisation problem are the inputs, held for some steps each, the states after all steps, and the unknowns of
these steps; its constraints are the equations of the method itself, step by step. So the inputs that are found give the same
motion when `simulate` runs them. IPOPT (Waechter, Biegler 2006) solves it with exact first and second derivatives. Then the
inputs are corrected, as little as possible, until the run itself ends where it should, to round-off.

On constraints, the equations of a step have further solutions that jump across: to the other intersection of a circle, say. They
are excluded by `q1 - q0 - h (q0' + q1') / 2`, which is of third order in `h` for the motion, and as large as the jump for these.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import casadi as ca
import numpy as np
from numpy.typing import ArrayLike

from dalembert.analysis.observed import entries
from dalembert.analysis.plans import Manoeuvre
from dalembert.analysis.targets import Function, Pair, Target, cost, limits, target
from dalembert.checking import whole
from dalembert.engine.case import Case, check_call, make_grid, make_rule
from dalembert.engine.driver import Grid
from dalembert.engine.inputs import Constant, Held
from dalembert.engine.newton import Rule
from dalembert.engine.tape import Tape
from dalembert.errors import ConvergenceError, DalembertError, MethodError, suggesting
from dalembert.methods.base import Method
from dalembert.named import Array
from dalembert.sensitivities import Sensitivity
from dalembert.solution import Solution
from dalembert.systems.base import System
from dalembert.systems.constrained import Constrained

IPOPT = {"tol": 1e-9, "constr_viol_tol": 1e-11, "mu_strategy": "adaptive"}
SMOOTH = 0.05  # of the largest coordinate: how far a step may lead from the mean of the velocities at its ends
ASTRAY = 1e-4  # of the largest entry of a state: how far the run may be from the states of the problem
REACHING = 60  # iterations that look for inputs which lead near the end, before they are optimised
CORRECTIONS = 10  # of the inputs, after which the run ends where it should or never will
NUDGE = 0.1  # of the bounds of an input, or of one: a first guess that is not at rest


@suggesting
def optimize_inputs(
    system: System,
    method: str | Method,
    *,
    t_end: float,
    step: float,
    end: Function | Mapping[str, ArrayLike],
    running: Function | None = None,
    terminal: Function | None = None,
    bounds: Mapping[str, Pair] | Pair | None = None,
    within: Mapping[str, Pair] | None = None,
    every: int = 1,
    q: ArrayLike | None = None, v: ArrayLike | None = None, p: ArrayLike | None = None,
    x: ArrayLike | None = None, y: ArrayLike | None = None, z: ArrayLike | None = None,
    t0: float = 0.0, u: object = None, parameters: Mapping[str, ArrayLike] | None = None,
    iterations: int = 500,
) -> Manoeuvre:  # fmt: skip
    """Inputs for a small manoeuvre: from the initial values to an end condition in a given time, at the least cost.

    Parameters
    ----------
    end
        Where it ends: `{"q": [...], "v": [...]}`, values of single entries such as `{"x": 0.0, "v_x": 0.0}`, or a function of
        `q`, `v`, `t` and parameters that is zero there.
    running, terminal
        Costs: the integral of `running(q, v, t, u, ...)`, by default the sum of squares of the inputs, and `terminal(q, v, ...)`
        at the end.
    bounds
        Of the inputs: one pair `(lower, upper)` for all, or pairs by name; None for no bound.
    within
        Bounds of entries of the state on the way, by name.
    every
        Steps for which an input is held.
    u
        A first guess, as `simulate` takes it; by default a small oscillation.
    iterations
        Of IPOPT, at most.

    Examples
    --------
    >>> found = da.optimize_inputs(cart, "midpoint", q=[0, np.pi], end={"q": [0, 0], "v": [0, 0]}, t_end=2.0, step=0.02,
    ...                            bounds={"force": (-20, 20)})
    >>> da.simulate(cart, "midpoint", q=[0, np.pi], u=found.inputs, t_end=2.0, step=0.02)
    """
    check_call(system, "auto")
    if not system.nu:
        raise MethodError(f"{system.name!r} has no inputs to optimise; declare them with inputs=...")
    grid, every = make_grid(t0, t_end, step, 1), whole("every", every)
    if not grid.steps or grid.remainder:
        raise MethodError(f"a manoeuvre has whole steps: {step:g} does not divide {t_end - t0:g}")
    low, high = limits(system.ports, bounds, "bounds")
    given = {"q": q, "v": v, "p": p, "x": x, "y": y, "z": z}
    case = Case.of(system, method, given, t0=t0, u=u, parameters=parameters)
    problem = _Problem(case, grid, every, make_rule(None, 25))
    goal = target(system, end, case, grid.t_end)
    table = problem.reached(problem.table(low, high, guessed=u is not None), (low, high), goal)
    names = [name for part in system.state for name in entries(system, part)]
    inside = limits(names, within, "within")
    costs = cost(system, "running", running), cost(system, "terminal", terminal)
    return problem.solve(table, (low, high), inside, goal, costs, whole("iterations", iterations))


@dataclass(frozen=True)
class _End:
    """The end of a run: its state, what is left of the end condition, and how that changes with the inputs."""

    solution: Solution
    state: Array
    left: Array
    by_u: Array
    slope: Array  # of half the sum of squares, in the shape of the inputs


class _Problem:
    """The optimisation problem of one case."""

    def __init__(self, case: Case, grid: Grid, every: int, rule: Rule) -> None:
        self.case, self.grid, self.every, self.rule = case, grid, every, rule
        engine = case.engine()
        if engine.settle is not None:
            raise MethodError(
                f"{case.method} on {case.system.name!r} finds a part of the state anew where inputs jump, which the problem does "
                "not have; take a method that carries no multipliers along, and a system whose algebraic states do not jump"
            )
        if engine.program.large:
            raise MethodError(f"{case.system.name!r} is too large for optimize_inputs: it is for small manoeuvres")
        self.program = engine.program
        self.system, self.n = case.system, engine.program.n_state
        self.held = np.arange(grid.steps) // every  # which input each step has
        self.times = np.asarray(grid.t0 + grid.h * every * np.arange(self.held[-1] + 1))

    def table(self, low: Array, high: Array, guessed: bool) -> Array:
        """The first guess of all inputs."""
        if guessed:
            return np.clip(self.case.inputs(self.times + 1e-9 * self.grid.h), low, high)
        both = np.isfinite(high) & np.isfinite(low)
        a, b = np.where(both, low, -1.0), np.where(both, high, 1.0)
        span, middle = (b - a) / 2, np.where(both, (a + b) / 2, np.clip(0.0, low, high))
        phase = 2 * np.pi * (self.times - self.grid.t0) / (self.grid.t_end - self.grid.t0)
        return np.clip(middle + NUDGE * span * np.sin(phase)[:, None], low, high)

    def reached(self, table: Array, bounds: tuple[Array, Array], goal: Target) -> Array:
        """Inputs that lead near the end, by Levenberg and Marquardt's method: a guess that is a motion."""
        here, damping = self._end(table, goal.every), 1e-2
        for _ in range(REACHING):
            if here is None or np.abs(here.left).max(initial=0.0) < 1e-3 * (1.0 + np.abs(here.state).max()):
                break
            inside = ((table > bounds[0]) | (here.slope < 0)) & ((table < bounds[1]) | (here.slope > 0))
            J = here.by_u * inside.ravel()
            square = J @ J.T
            while damping < 1e8:
                scale = damping * max(float(np.trace(square)), 1e-300) * np.eye(len(square))
                change = -J.T @ np.linalg.solve(square + scale, here.left)
                trial = np.clip(table + change.reshape(table.shape), *bounds)
                ahead = self._end(trial, goal.every)
                if ahead is not None and ahead.left @ ahead.left < here.left @ here.left:
                    table, here, damping = trial, ahead, damping / 5
                    break
                damping *= 4
            else:
                break
        return table

    def _end(self, table: Array, rows: ca.SX) -> _End | None:
        """What is left at the end of a run, and how it changes with the inputs; None where it cannot be run."""
        s = self.system
        own = ca.vertcat(*(getattr(s, name) for name in s.state))
        f = ca.Function("end", [own, s.t, s.par], [ca.densify(rows), ca.densify(ca.jacobian(rows, own))])
        try:
            run = Sensitivity(self.run(table), self.grid, self.rule, False, False)
        except DalembertError:
            return None
        x = np.concatenate([run.solution.parts[name][-1] for name in s.state])
        r, slopes = (np.asarray(m.full()) for m in f(x, self.grid.t_end, self.case.par))
        by_u = slopes @ np.concatenate([run.jacobian(name, "u").reshape(s.size_of(name), -1) for name in s.state])
        return _End(run.solution, x, r[:, 0], by_u, (r[:, 0] @ by_u).reshape(table.shape))

    def run(self, table: Array) -> Case:
        """The case with these inputs."""
        return replace(self.case, inputs=Held(self.times, table) if len(table) > 1 else Constant(table[0]))

    def solve(
        self, table: Array, bounds: tuple[Array, Array], inside: tuple[Array, Array], goal: Target,
        costs: tuple[ca.Function, ca.Function], iterations: int,
    ) -> Manoeuvre:  # fmt: skip
        """The best inputs, and the run with them."""
        steps, own = self.grid.steps, len(inside[0])
        S, X, U = ca.MX.sym("S", self.n, steps), ca.MX.sym("X", self.program.n_unknowns, steps), ca.MX.sym("U", *table.T.shape)
        start = self.case.state(self.program)
        value, rows, missed = self._equations(S, X, U, start, goal, costs)
        jumps, width = self._jumps(S, start, goal)
        low, high = (np.full((self.n, steps), sign * np.inf) for sign in (-1, 1))
        low[:own], high[:own] = inside[0][:, None], inside[1][:, None]
        for i, (a, b) in goal.near.items():
            low[i, -1], high[i, -1] = max(low[i, -1], a), min(high[i, -1], b)
        free = np.full(X.numel(), np.inf)
        spread = [np.repeat(b[:, None], table.shape[0], axis=1).ravel(order="F") for b in bounds]
        everything = ca.vertcat(ca.vec(S), ca.vec(X), ca.vec(U))
        problem: dict[str, Any] = {"x": everything, "f": value, "g": ca.vertcat(rows, missed, jumps)}
        options: dict[str, Any] = {
            "ipopt": {"print_level": 0, "sb": "yes", "max_iter": iterations, **IPOPT},
            "print_time": False, "error_on_fail": False,
        }  # fmt: skip
        wide = np.concatenate([np.zeros(rows.numel() + missed.numel()), np.full(jumps.numel(), width)])
        solver = ca.nlpsol("manoeuvre", "ipopt", problem, options)
        found = solver(
            x0=self._guess(table, start), lbg=-wide, ubg=wide, lbx=np.concatenate([low.ravel(order="F"), -free, spread[0]]),
            ubx=np.concatenate([high.ravel(order="F"), free, spread[1]]),
        )  # fmt: skip
        stats = solver.stats()  # type: ignore[no-untyped-call]
        w = np.asarray(found["x"].full())[:, 0]
        states = w[: S.numel()].reshape(steps, self.n)
        best = w[S.numel() + X.numel() :].reshape(table.shape)
        if not stats["success"]:
            raise self._failure(str(stats["return_status"]), np.abs(np.asarray(found["g"].full())).max(), best)
        best, sol, left = self._corrected(np.clip(best, *bounds), bounds, goal)
        whole_state = np.hstack([sol.parts[name] for name in self.system.state])
        defect = float(np.abs(whole_state[1:] - states[:, :own]).max())
        if not defect <= ASTRAY * float(np.abs(states).max()):
            raise self._failure("the run leaves the motion that was found", defect, best)
        return Manoeuvre(
            self.times, best, self._cost(whole_state, best, costs), sol, left, defect, int(stats["iter_count"]),
            str(stats["return_status"]).replace("_", " ").lower(),
        )  # fmt: skip

    def _equations(
        self, S: ca.MX, X: ca.MX, U: ca.MX, start: Array, goal: Target, costs: tuple[ca.Function, ca.Function]
    ) -> tuple[ca.MX, ca.MX, ca.MX]:
        """The cost, the equations of all steps, and what is left at the end."""
        p, step, count, s = self.program, self.program.step, self.grid.steps, self.system
        unknowns = ca.vertcat(*p.unknowns) if p.unknowns else ca.SX(0, 1)
        residual = ca.vertcat(*(solve.residual for solve in step.solves)) if step.solves else ca.SX(0, 1)
        one = ca.Function("one", [p.state, unknowns, step.t, step.h, ca.vec(step.u), step.par],
                          [ca.densify(residual), ca.densify(ca.vertcat(*step.next.values()))])  # fmt: skip
        before = ca.horzcat(ca.MX(start), S[:, :-1])
        t, h = self.grid.t0 + self.grid.h * np.arange(count), self.grid.h
        each = U[:, self.held.tolist()]
        nodes = ca.vertcat(*([each] * len(step.input_nodes)))
        par = ca.repmat(ca.DM(self.case.par), 1, count)
        R, after = one.map(count)(before, X, ca.DM(t).T, ca.repmat(ca.DM(h), 1, count), nodes, par)
        own = S[: sum(s.size_of(name) for name in s.state), :]
        running, terminal = costs
        value = h * ca.sum2(running.map(count)(own, ca.DM(t + h).T, each, par))
        value += terminal(own[:, -1], self.grid.t_end, each[:, -1], self.case.par)
        f = ca.Function("end", [ca.vertcat(*(getattr(s, name) for name in s.state)), s.t, s.par], [ca.densify(goal.rows)])
        return value, ca.vertcat(ca.vec(R), ca.vec(S - after)), f(own[:, -1], self.grid.t_end, self.case.par)

    def _jumps(self, S: ca.MX, start: Array, goal: Target) -> tuple[ca.MX, float]:
        """`q1 - q0 - h (q0' + q1') / 2` of all steps on holonomic constraints, and how large it may be."""
        s, n = self.system, self.system.n
        if not (isinstance(s, Constrained) and s.mh):
            return ca.MX(0, 1), 0.0
        own = ca.vertcat(*(getattr(s, name) for name in s.state))
        f = ca.Function("rate", [own, s.t, s.par], [ca.densify(s.of_state(s.qdot(s.q, s.v)))])
        states = ca.horzcat(ca.MX(start), S)[: own.numel(), :]
        count, t = self.grid.steps + 1, self.grid.times(np.arange(self.grid.steps + 1))
        rates = f.map(count)(states, ca.DM(t).T, ca.repmat(ca.DM(self.case.par), 1, count))
        jumps = states[:n, 1:] - states[:n, :-1] - self.grid.h / 2 * (rates[:, 1:] + rates[:, :-1])
        size = max([float(np.abs(start[:n]).max()), *(max(abs(a), abs(b)) for i, (a, b) in goal.near.items() if i < n)])
        return ca.vec(jumps), SMOOTH * max(size, 1e-3)

    def _guess(self, table: Array, start: Array) -> Array:
        """States and unknowns of the run with the guessed inputs."""
        steps = self.grid.steps
        states, unknowns = np.tile(start, (steps, 1)), np.zeros((steps, self.program.n_unknowns))
        run = Tape(self.run(table), self.grid, self.rule, False, False).run  # as far as it goes
        if run.rows and run.records.unknowns is not None:
            states[: run.rows], unknowns[: run.rows] = run.records.state[: run.rows], run.records.unknowns[: run.rows]
            states[run.rows :], unknowns[run.rows :] = states[run.rows - 1], unknowns[run.rows - 1]
        return np.concatenate([states.ravel(), unknowns.ravel(), table.ravel()])

    def _corrected(self, table: Array, bounds: tuple[Array, Array], goal: Target) -> tuple[Array, Solution, float]:
        """Inputs with which the run itself ends where it should, by the smallest changes of those within bounds."""
        best: tuple[Array, Solution, float] | None = None
        for _ in range(CORRECTIONS):
            now = self._end(table, goal.rows)
            if now is None:
                break
            left = float(np.abs(now.left).max(initial=0.0))
            if best is None or left < best[2]:
                best = table.copy(), now.solution, left
            elif left > 0.5 * best[2]:
                break
            if left <= 1e-15 * (1.0 + float(np.abs(now.state).max())):
                break
            inside = ((table > bounds[0]) & (table < bounds[1])).ravel()
            change = np.zeros(table.size)
            change[inside] = np.linalg.lstsq(now.by_u[:, inside], -now.left, rcond=1e-12)[0]
            table = np.clip(table + change.reshape(table.shape), *bounds)
        if best is None:
            raise self._failure("the run with these inputs fails", np.nan, table)
        return best

    def _cost(self, states: Array, table: Array, costs: tuple[ca.Function, ca.Function]) -> float:
        running, terminal = costs
        t, u, par = self.grid.t0 + self.grid.h * np.arange(1, len(states)), table[self.held], self.case.par
        total = sum(float(running(x, now, row, par)) for x, now, row in zip(states[1:], t, u, strict=True))
        return self.grid.h * total + float(terminal(states[-1], t[-1], u[-1], par))

    def _failure(self, status: str, violation: float, table: Array) -> ConvergenceError:
        error = ConvergenceError(
            f"no inputs were found ({status.replace('_', ' ').lower()}; the equations are off by {violation:.1e}): allow more "
            "time or larger inputs, give a better guess (u=...), or more iterations",
            t=self.grid.t_end, step=self.grid.h, residual=float(violation),
        )  # fmt: skip
        try:
            error.solution = Sensitivity(self.run(table), self.grid, self.rule, False, False).solution
        except DalembertError as late:
            error.solution = late.solution
        return error
