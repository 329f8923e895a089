"""Step control, apart from methods: a controller decides how long the next step is, a `Walk` takes it.

Controllers see a walk through `try_step`, `commit` and `back` alone, so that each serves every method. What was committed is
never lost, and a rejected step leaves no trace.

    Backoff       shrink where Newton fails, grow after some successes, within bounds
    ErrorControl  local error by step doubling, PI controller (Gustafsson 1991; Hairer, Wanner II, sec. IV.2)
    Reversible    step density carried along by a reversible recursion (Hairer, Soederlind 2005)
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import casadi as ca
import numpy as np

from dalembert.engine.driver import Engine, Grid, Inputs, Run, step_inputs
from dalembert.engine.machine import Memory, Outcome, Records, bind
from dalembert.engine.newton import Rule
from dalembert.engine.progress import Bar
from dalembert.errors import DalembertError, Interrupted, MethodError, ModelError, StepTooSmall, suggest

_ROWS = 256


class Walk:
    """Single steps of any length from where a run stands; rows are kept when they are committed."""

    def __init__(self, engine: Engine, memory: Memory, grid: Grid, inputs: Inputs, rule: Rule, compile: bool | str) -> None:
        self.engine, self.memory, self.grid, self.inputs, self.rule = engine, memory, grid, inputs, rule
        self.runner = engine.runner(compile, grid.steps)
        self.run = Run(grid, Records.empty(engine.program, _ROWS, False))
        self.run.t, self.run.t_lam = np.zeros(_ROWS), np.zeros(_ROWS)
        self.t = grid.t0
        self.done = self.iterations = self.rescued = self.rejected = 0
        self.shortest, self.longest = np.inf, 0.0
        self.size = np.nan  # of Newton's last change in a step that failed
        self.notes: dict[str, float] = {}  # what a controller carries from step to step
        self.after_commit: Callable[[], None] = lambda: None
        self._pending: list[tuple[float, Records, int]] = []
        self._work = np.zeros(2)
        self._hold()

    def _hold(self) -> None:
        self._held = (self.t, self.memory.state.copy(), self.memory.last.copy(), self.memory.before.copy())

    @property
    def state(self) -> np.ndarray:
        """The state after the steps tried since the last commit."""
        return self.memory.state

    def part(self, name: str) -> np.ndarray:
        """A part of the state by name, `q` or `v` or `p`."""
        return self.memory.state[self.engine.program.fields[name]]

    @property
    def finished(self) -> bool:
        return self.t >= self.grid.t_end

    def limit(self, h: float) -> float:
        """`h`, or what is left to the end; a little more, rather than a tiny last step."""
        left = self.grid.t_end - self.t
        return left if left <= 1.0001 * h else h

    def try_step(self, h: float) -> bool:
        """One step of length `h`; False where Newton's iteration fails (then `back` undoes what was tried)."""
        row = Records.empty(self.engine.program, 1, False)
        u = step_inputs(self.engine.program, self.inputs, np.array([self.t]), h)
        for careful in (False, True):
            runner = self.engine.pivoted() if careful else self.runner
            before = self.memory.last.copy(), self.memory.before.copy()
            outcome: Outcome = runner.run(
                self.memory, row, t0=self.t, first=0, steps=1, h=h, inputs=u, save_every=1, rule=self.rule
            )
            if outcome.failed < 0:
                break
            self.memory.last[:], self.memory.before[:] = before
            self.size = outcome.size
        else:
            return False
        self.rescued += careful
        t = self.t + h
        self.t = self.grid.t_end if abs(t - self.grid.t_end) <= 4e-16 * max(abs(t), abs(self.grid.t_end)) else t
        self._pending.append((h, row, outcome.iterations))
        return True

    def back(self) -> None:
        """Undo what was tried since the last commit."""
        self.t, state, last, before = self._held
        self.memory.state[:], self.memory.last[:], self.memory.before[:] = state, last, before
        self.rejected += 1
        self._pending.clear()

    def commit(self) -> None:
        """Keep what was tried since the last commit."""
        t, run, node = self._held[0], self.run, self.engine.program.step.node
        for i, (h, row, iterations) in enumerate(self._pending):
            last = self.t if i == len(self._pending) - 1 else t + h
            self.done += 1
            self.iterations += iterations
            self.shortest, self.longest = min(self.shortest, h), max(self.longest, h)
            self._work += row.work[0]
            if self.done % self.grid.save_every == 0 or last == self.grid.t_end:
                run.reserve(run.rows + 1)
                assert run.t is not None
                assert run.t_lam is not None
                k = run.rows
                run.records.state[k], run.records.lam[k], run.records.work[k] = row.state[0], row.lam[0], self._work
                run.t[k], run.t_lam[k] = last, t + node * (last - t)
                run.rows, self._work = k + 1, np.zeros(2)
            run.pending = (float(self._work[0]), float(self._work[1]))
            t = last
        self._pending.clear()
        self._hold()
        self.after_commit()

    def fail(self, h: float, smallest: float, why: str) -> StepTooSmall:
        """The error of a controller that has come to its lower bound."""
        return StepTooSmall(
            f"at t = {self.t:g} the step would have to be smaller than the smallest allowed, {smallest:.3g}: {why}; allow a "
            f"smaller one, loosen the tolerance, or use another method (error.solution holds the {self.done} steps before)",
            t=self.t,
            step=h,
            residual=float(self.size),
        )


@dataclass(frozen=True)
class Control:
    """What all controllers have in common: bounds of the step (absolute; by default from the length of the run)."""

    smallest: float | None = None
    largest: float | None = None

    def bounds(self, walk: Walk) -> tuple[float, float]:
        span = walk.grid.t_end - walk.grid.t0
        low = self.smallest if self.smallest is not None else 1e-13 * max(span, abs(walk.grid.t_end))
        high = self.largest if self.largest is not None else span
        if walk.grid.h < low or walk.grid.h > max(high, low):
            raise MethodError(
                f"the first step {walk.grid.h:g} lies outside the bounds of the controller, {low:.3g} .. {high:.3g}"
            )
        return low, high

    def check(self) -> None:
        """Refuse options that make no sense."""
        for name in ("smallest", "largest"):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, (int, float)) and np.isfinite(value) and value > 0):
                raise MethodError(f"{name} must be a positive step, not {value!r}")
        if self.smallest is not None and self.largest is not None and self.smallest > self.largest:
            raise MethodError(f"smallest = {self.smallest:g} is larger than largest = {self.largest:g}")

    def bind(self, system: Any, method: Any, par: np.ndarray) -> Callable[[Walk], None]:
        """What drives a walk from its beginning to its end."""
        raise TypeError(f"{type(self).__name__} does not define bind()")

    def spec(self) -> list[Any]:
        """Name and options, to tell one run from another."""
        return [type(self).__name__, {k: repr(v) for k, v in asdict(self).items() if not callable(v)}]


@dataclass(frozen=True)
class Backoff(Control):
    """Shrink the step where Newton's iteration fails, let it grow after `after` successes in a row.

    The rule of Symank 2025 (ch. 7), there with growth by 1.5. It looks at solvability alone, not at accuracy.
    """

    shrink: float = 0.5
    grow: float = 1.5
    after: int = 5

    def check(self) -> None:
        super().check()
        if not (0 < self.shrink < 1 <= self.grow and self.after >= 1):
            raise MethodError(
                f"Backoff needs 0 < shrink < 1 <= grow and after >= 1, not {self.shrink}, {self.grow} and {self.after}"
            )

    def bind(self, system: Any, method: Any, par: np.ndarray) -> Callable[[Walk], None]:
        def drive(walk: Walk) -> None:
            low, high = self.bounds(walk)
            h, good = walk.notes.get("h", walk.grid.h), walk.notes.get("good", 0)
            while not walk.finished:
                now = walk.limit(h)
                if walk.try_step(now):
                    good += 1
                    if good >= self.after:
                        h, good = min(self.grow * h, high), 0
                    walk.notes |= {"h": h, "good": good}
                    walk.commit()
                else:
                    walk.back()
                    h, good = self.shrink * now, 0
                    if h < low:
                        raise walk.fail(h, low, "Newton's iteration fails at every step tried")

        return drive


@dataclass(frozen=True)
class ErrorControl(Control):
    """Keep the local error of each step below `atol + rtol |y|`, measured by step doubling, with a PI controller.

    A step of `h` is compared with two of `h / 2`, which are kept; their error is about `|difference| / (2^p - 1)` for a method
    of order p. All rows of the solution are steps of the method itself.
    """

    rtol: float = 1e-6
    atol: float = 1e-9

    safety = 0.9
    fastest = 5.0
    slowest = 0.2

    def check(self) -> None:
        super().check()
        for name in ("rtol", "atol"):
            value = getattr(self, name)
            if not (isinstance(value, (int, float)) and np.isfinite(value) and value >= 0):
                raise MethodError(f"{name} must be a number, not negative, not {value!r}")
        if self.rtol + self.atol <= 0:
            raise MethodError("rtol and atol are both zero: no step could be small enough")
        if self.rtol < 2e-15 and self.atol == 0:
            raise MethodError(f"rtol = {self.rtol:g} is below round-off; 1e-13 is about the least that can be kept")

    def bind(self, system: Any, method: Any, par: np.ndarray) -> Callable[[Walk], None]:
        if system.kind == "port-hamiltonian" and method.symmetric and system.algebraic:
            raise MethodError(
                f"the error of {method} on algebraic states cannot be measured by step doubling: they alternate around their "
                "values; use radau-iia-3"
            )
        if method.alternates and system.mh:
            raise MethodError(
                f"the error of {method} on constraints cannot be measured by step doubling: its velocities are off them by an "
                "amount that alternates and does not shrink with the step; use energy-momentum-ggl, rattle or lobatto-pair-3"
            )
        order = min(method.order[:2])
        parts = ["q", *([] if system.kind == "dae" else [system.momenta])]

        def drive(walk: Walk) -> None:
            low, high = self.bounds(walk)
            h, previous = walk.notes.get("h", walk.grid.h), walk.notes.get("error", 1.0)
            refused = False
            while not walk.finished:
                now = walk.limit(h)
                error = self._error(walk, now, parts, order)
                if error <= 1.0:
                    growth = self.safety * error ** (-0.7 / (order + 1)) * previous ** (0.4 / (order + 1))
                    growth = float(np.clip(growth, self.slowest, 1.0 if refused else self.fastest))
                    previous, refused = max(error, 1e-4), False
                    h = min(max(now, h if now < h else 0.0) * growth, high)
                    walk.notes |= {"h": h, "error": previous}
                    walk.commit()
                else:
                    walk.back()
                    shrink = self.safety * error ** (-1 / (order + 1)) if np.isfinite(error) else 0.25
                    h, refused = now * float(np.clip(shrink, 0.1, 0.9)), True
                    if h < low:
                        raise walk.fail(h, low, "the local error stays above the tolerance")

        return drive

    def _error(self, walk: Walk, h: float, parts: list[str], order: int) -> float:
        """Estimated error of two half steps over the tolerance; infinite where one of the steps fails."""
        begin = np.concatenate([walk.part(p) for p in parts])
        if not walk.try_step(h):
            return np.inf
        whole = np.concatenate([walk.part(p) for p in parts])
        walk.back()
        walk.rejected -= 1  # a comparison, not a rejection
        if not (walk.try_step(h / 2) and walk.try_step(walk.limit(h / 2))):
            return np.inf
        halves = np.concatenate([walk.part(p) for p in parts])
        scale = self.atol + self.rtol * np.maximum(np.abs(begin), np.abs(halves))
        ratio = (halves - whole) / ((2.0**order - 1) * np.where(scale > 0, scale, 1e-300))
        return max(float(np.sqrt(np.mean(ratio**2))), 1e-10)


@dataclass(frozen=True)
class Reversible(Control):
    """Steps in proportion to a time scale `sigma(q)` of the motion, chosen so that symmetric methods stay reversible.

        z_(n+1/2) = z_(n-1/2) + eps G(q_n, v_n),   h_(n+1/2) = eps / z_(n+1/2),   G = -sigma_q . v / sigma

    with `z` close to `1 / sigma` (Hairer, Soederlind 2005). Nothing depends on the past but `z`, and backwards in time the same
    steps are taken: energy errors of symmetric methods stay bounded, as with equal steps.

    `scale` is `sigma`, a function of `q` and parameters. By default it is the period of the potential up to a factor,
    `|M^-1 V_qq|^(-1/2)`: for Kepler's problem `r^(3/2)`.
    """

    scale: Callable[..., Any] | None = field(default=None)

    def bind(self, system: Any, method: Any, par: np.ndarray) -> Callable[[Walk], None]:
        if system.kind not in ("mechanical", "hamiltonian"):
            raise MethodError(
                f"the reversible controller needs positions and velocities; use ErrorControl for a {system.kind} system"
            )
        if not method.symmetric:
            raise MethodError(f"{method} is not symmetric: a reversible controller has nothing to keep; use ErrorControl")
        sigma = self._scale(system)
        velocity = system.v if system.momenta == "v" else system.role("velocity")
        second = getattr(system, system.momenta)
        G = -ca.dot(ca.gradient(sigma, system.q), system.qdot(system.q, velocity)) / sigma
        both = ca.Function("both", [system.q, second, system.par], [ca.densify(sigma), ca.densify(G)])
        q, y, value, change = np.zeros(system.n), np.zeros(system.nv), np.zeros(1), np.zeros(1)
        evaluate, kept = bind(both, [q, y, par], [value, change])

        def look(walk: Walk, kept: Any = kept) -> tuple[float, float]:
            q[:], y[:] = walk.part("q"), walk.part(system.momenta)
            evaluate()
            if not (np.isfinite(value[0]) and value[0] > 0):
                raise ModelError(f"the time scale of the reversible controller is {value[0]:g} at t = {walk.t:g}; it must be > 0")
            return float(value[0]), float(change[0])

        def drive(walk: Walk) -> None:
            low, _ = self.bounds(walk)
            sigma0, change = look(walk)
            eps = walk.notes.setdefault("eps", walk.grid.h / sigma0)
            z = walk.notes.get("z", 1 / sigma0 + eps * change / 2)
            while not walk.finished:
                h = eps / z if z > 0 else -1.0
                if h <= 0:
                    raise ModelError(
                        f"at t = {walk.t:g} the time scale grows faster than steps can follow; begin with a smaller step"
                    )
                if h < low or not walk.try_step(walk.limit(h)):
                    walk.back()
                    raise walk.fail(
                        h, low, "Newton's iteration fails, and a reversible step cannot be repeated with another length"
                    )
                z += eps * look(walk)[1]
                walk.notes["z"] = z
                walk.commit()

        return drive

    def _scale(self, system: Any) -> Any:
        if self.scale is not None:
            from dalembert.systems.base import scalar

            sigma = scalar("scale", system._trace("scale", self.scale, ("q",)))
        elif system.kind == "mechanical":
            curvature = ca.hessian(system.expression("potential"), system.q)[0]
            sigma = self._period(ca.solve(ca.densify(system.expression("mass")), ca.densify(curvature)))
        else:
            H = system.expression("hamiltonian", p=ca.SX.zeros(system.n))
            inverse = ca.substitute(ca.hessian(system.expression("hamiltonian"), system.p)[0], system.p, ca.SX.zeros(system.n))
            sigma = self._period(inverse @ ca.hessian(H, system.q)[0])
        if ca.depends_on(sigma, ca.vertcat(system.v, system.p, system.t)):
            raise ModelError("the time scale of the reversible controller must be a function of q and parameters alone")
        return sigma

    @staticmethod
    def _period(squares: Any) -> Any:
        size = ca.sumsqr(squares)
        if ca.simplify(size).is_zero():
            raise ModelError(
                "the potential has no curvature from which to take a time scale; give one, Reversible(scale=lambda q: ...)"
            )
        return size ** (-0.25)


class _Ended(Exception):
    """A terminal event was met."""


NAMES: dict[str, type[Control]] = {"backoff": Backoff, "error": ErrorControl, "reversible": Reversible}


def find(adaptive: Any) -> Control | None:
    """A controller from what `simulate` was given: None for equal steps."""
    if adaptive is None or adaptive is False:
        return None
    if adaptive is True:
        adaptive = ErrorControl()
    if isinstance(adaptive, str):
        if adaptive == "fixed":
            return None
        if adaptive not in NAMES:
            raise MethodError(f"there is no step control {adaptive!r}{suggest(adaptive, [*NAMES, 'fixed'])}")
        adaptive = NAMES[adaptive]()
    if not isinstance(adaptive, Control):
        raise MethodError(
            f"adaptive must be True, False, one of {', '.join(NAMES)}, or an object of da.control, not {adaptive!r}"
        )
    adaptive.check()
    return adaptive


def adapt(
    engine: Engine,
    memory: Memory,
    grid: Grid,
    inputs: Inputs,
    drive: Callable[[Walk], None],
    *,
    rule: Rule,
    compile: bool | str,
    progress: bool | None,
    explain: Callable[[Memory, float, float], DalembertError | None],
    checkpoint: Any = None,
    watch: Any = None,
) -> Run:
    """Let a controller drive a run from its beginning to its end; an error ends it and is kept in it."""
    begun = time.perf_counter()
    walk = Walk(engine, memory, grid, inputs, rule, compile)
    ready = time.perf_counter()
    bar = Bar(progress, 1000)
    if checkpoint is not None:
        walk.done = checkpoint.restore(walk.run, memory)
        walk.notes.update(checkpoint.notes)
        walk.t = walk.notes.pop("t", grid.t0)
        walk._work = np.array(walk.run.pending)
        walk._hold()

    def after() -> None:
        bar.show(int(1000 * (walk.t - grid.t0) / (grid.t_end - grid.t0)), time.perf_counter() - ready)
        if checkpoint is not None:
            checkpoint.notes = {**walk.notes, "t": walk.t}
            checkpoint.write(walk.run, memory, walk.done)
        if watch is not None and watch.catch_up(walk.run):
            raise _Ended

    walk.after_commit = after
    try:
        drive(walk)
    except _Ended:
        pass  # a terminal event: the run is complete
    except KeyboardInterrupt:
        walk.back()
        walk.run.error = Interrupted(
            f"interrupted at t = {walk.t:g} after {walk.done} steps; error.solution holds what was computed"
        )
    except StepTooSmall as error:
        walk.run.error = explain(memory, walk.t, error.step or 0.0) or error
    except DalembertError as error:
        walk.run.error = error
    finally:
        bar.close()
    walk.run.stats = {
        "steps": walk.done,
        "iterations": walk.iterations,
        "iterations_per_step": walk.iterations / max(1, walk.done),
        "rejected": walk.rejected,
        "shortest_step": walk.shortest if walk.done else 0.0,
        "longest_step": walk.longest,
        "pivoted_steps": walk.rescued,
        "engine": walk.runner.name,
        "seconds": time.perf_counter() - ready,
        "compile_seconds": ready - begun,
    }
    return walk.run
