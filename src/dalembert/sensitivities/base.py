"""Derivatives of a run with respect to initial values, parameters and inputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dalembert.engine.case import Case, check_call, make_grid, make_rule
from dalembert.engine.derivatives import Sweeper, Sweeps
from dalembert.engine.driver import Array, Grid
from dalembert.engine.machine import memory
from dalembert.engine.newton import Rule
from dalembert.engine.settling import Settling
from dalembert.engine.tape import Rows, Tape
from dalembert.engine.through import Adjoints, Curvatures, Tangents
from dalembert.errors import MethodError, suggest, suggesting
from dalembert.methods.base import Method
from dalembert.sensitivities.costs import Costs, Function, stored
from dalembert.sensitivities.shares import Shares
from dalembert.solution import Solution
from dalembert.systems.base import System
from dalembert.systems.shapes import mapping, numbers

ROOM = 1 << 24  # bytes of tangents along the run that are written at once


@suggesting
def sensitivity(
    system: System,
    method: str | Method,
    *,
    t_end: float,
    step: float,
    q: ArrayLike | None = None,
    v: ArrayLike | None = None,
    p: ArrayLike | None = None,
    x: ArrayLike | None = None,
    y: ArrayLike | None = None,
    z: ArrayLike | None = None,
    lam: ArrayLike | None = None,
    t0: float = 0.0,
    u: object = None,
    parameters: Mapping[str, ArrayLike] | None = None,
    tolerance: float | None = None,
    max_iterations: int = 25,
    save_every: int = 1,
    progress: bool | None = None,
    compile: bool | str = "auto",
) -> Sensitivity:
    """Run as `simulate` does, and be ready to differentiate the result.

    >>> run = da.sensitivity(pendulum, "rattle", q=[1, 0], v=[0, 0], t_end=1.0, step=0.01)
    >>> run.jacobian("q", "l")                                # dq(t_end) / dl
    >>> run.gradient(lambda q: (q[0] - 0.5) ** 2)             # of a cost, by one sweep backwards
    >>> run.hessian_product({"l": 1.0}, lambda q: (q[0] - 0.5) ** 2)

    Sweeps are compiled where that pays, as runs are. All steps are kept for them up to 64 MB. Of a longer run only some places
    are, and the steps between them are made again when they are needed: beside the stored rows, memory grows with the square root
    of the number of steps.
    """
    check_call(system, compile, progress)
    grid = make_grid(t0, t_end, step, save_every)
    rule, given = make_rule(tolerance, max_iterations), {"q": q, "v": v, "p": p, "x": x, "y": y, "z": z}
    case = Case.of(system, method, given, t0=t0, u=u, parameters=parameters, lam=lam)
    return Sensitivity(case, grid, rule, compile, progress)


@dataclass
class _Direction:
    """Changes of the initial state, the parameters and the inputs: a row, a row and a table for each direction."""

    state: Array
    par: Array
    u: Array


class Sensitivity:
    """A run with its derivatives; each is computed when asked for.

    Derivatives are those of the discrete motion, exact to round-off: with all unknowns `x` of a step, `R(x, s, par, u) = 0` and
    `s1 = N(x, s, par, u)`, they are `ds1/ds = N_s - N_x R_x^-1 R_s` and so on. Those with respect to initial values are taken in
    all directions, also off the constraints.

    Names to differentiate by are the parts of the state, the parameters, and `"u"`: constant inputs, or samples with one row for
    each time; where `u` is a function of time, there is one row for each interval between stored times, for what is added to the
    function there.
    """

    def __init__(self, case: Case, grid: Grid, rule: Rule, compile: bool | str, progress: bool | None) -> None:
        tape = self._tape = Tape(case, grid, rule, compile, progress)
        program, run, system = tape.program, tape.run, case.system
        self.solution = Solution.of_run(case, run, tape.start, program)
        if run.error is not None:
            run.error.solution = self.solution  # type: ignore[attr-defined]
            raise run.error
        self.system, self._par, self._grid, self._fields = system, case.par, grid, program.fields
        self._shares = Shares(case.inputs, grid, system.nu)
        sweeps = system.cache.get(Sweeps, case.method, lambda: Sweeps(program))
        settling = system.cache.get(Settling, case.method, lambda: Settling(system, program))
        rescued = run.stats["pivoted_steps"] != 0  # the fixed pivots did not serve everywhere
        self._sweep = Sweeper(sweeps, settling, bool(compile) if not isinstance(compile, str) else compile, grid.steps, rescued)
        self._tangents: dict[str, Array] = {}

    @property
    def stats(self) -> dict[str, int | str]:
        """How derivatives were computed so far: rows in memory at once, places kept of the run, and what made the sweeps."""
        return {"rows": self._tape.held, "places": self._tape.places, "sweeps": " and ".join(sorted(self._sweep.engines))}

    # ---- names ------------------------------------------------------------------------------------------

    def _shape(self, name: str) -> tuple[int, ...]:
        """The shape of what has this name."""
        system = self.system
        if name in system.state:
            return (system.size_of(name),)
        if name in system.parameters:
            return system.parameters[name].shape
        if name == "u" and system.nu:
            return self._shares.shape
        known = [*system.state, *system.parameters, *(["u"] if system.nu else [])]
        raise MethodError(f"there is nothing called {str(name)!r} to differentiate by{suggest(str(name), known)}")

    def _none(self, count: int) -> _Direction:
        """No change at all, in so many directions."""
        state, par = np.zeros((count, self._tape.program.n_state)), np.zeros((count, len(self._par)))
        return _Direction(state, par, np.zeros((count, self._shares.size, self._shares.nu)))

    def _place(self, name: str, of: _Direction) -> Array:
        """What has this name in directions, with a row for each; to be read and written."""
        if name in self.system.state:
            return of.state[:, self._fields[name]]
        if name == "u":
            return of.u.reshape(len(of.u), -1)
        start = 0
        for key, value in self.system.parameters.items():
            if key == name:
                break
            start += value.size
        return of.par[:, start : start + value.size]

    def _units(self, name: str) -> _Direction:
        """A direction for each entry of what has this name."""
        count = int(np.prod(self._shape(name), dtype=int))
        out = self._none(count)
        self._place(name, out)[:] = np.eye(count)
        return out

    def _direction(self, given: Mapping[str, ArrayLike]) -> _Direction:
        out = self._none(1)
        for name, value in mapping("direction", given).items():
            shape, entry = self._shape(name), numbers(f"direction {name!r}", value)
            if entry.shape != shape:
                raise MethodError(f"the direction {name!r} must have the shape {shape}, not {entry.shape}")
            self._place(name, out)[0] = entry.ravel()
        return out

    def _named(self, of: _Direction) -> dict[str, Array]:
        """Slopes by the names of what they belong to."""
        names = [*self.system.state, *self.system.parameters, *(["u"] if self.system.nu else [])]
        return {name: self._place(name, of)[0].reshape(self._shape(name)).copy() for name in names}

    # ---- first derivatives ------------------------------------------------------------------------------

    @suggesting
    def jacobian(self, of: str, wrt: str, along: bool = False) -> Array:
        """Derivative of a part of the final state with respect to initial values, a parameter or inputs.

        With `along=True` of that part at all stored times, with time first. Forwards, with the entries of `wrt` as directions;
        with respect to inputs backwards, from the entries of `of`.
        """
        if of not in self.system.state:
            names = " and ".join(repr(name) for name in self.system.state)
            raise MethodError(f"the final state has {names}, not {of!r}")
        shape, part = self._shape(wrt), self._fields[of]
        size = self.system.size_of(of)
        if along:
            rows = self._along(self._units(wrt), part)
            return rows.transpose(0, 2, 1).reshape(len(rows), size, *shape)
        if wrt == "u":
            slopes = self._none(size)
            slopes.state[:, part] = np.eye(size)
            self._backwards(slopes, None)
            return slopes.u.reshape(size, *shape)
        if wrt not in self._tangents:
            direction = self._units(wrt)
            for _ in self._forwards(direction, False):
                pass
            self._tangents[wrt] = direction.state
        return self._tangents[wrt].T[part].reshape(size, *shape)

    @suggesting
    def along(self, directions: Sequence[Mapping[str, ArrayLike]]) -> dict[str, Array]:
        """How the state at all stored times changes in some directions: by part, `(times, entries, directions)`.

        A direction is a dictionary like that of `hessian_product`. All are carried in one sweep forwards.

        >>> run.along([{"l": 1.0}, {"q": [0, 1], "l": -1.0}])["q"]
        """
        each = [self._direction(given) for given in directions]
        if not each:
            raise MethodError("along() needs at least one direction, such as {'l': 1.0}")
        joined = _Direction(*(np.concatenate([getattr(d, name) for d in each]) for name in ("state", "par", "u")))
        rows = self._along(joined, slice(0, self._tape.program.n_state)).transpose(0, 2, 1)
        return {name: rows[:, self._fields[name]] for name in self.system.state}

    def _along(self, direction: _Direction, part: slice) -> Array:
        """Tangents of a part of the state at all stored times, (times, directions, entries)."""
        count, size = len(direction.state), part.stop - part.start
        if 8 * len(self.solution.t) * count * size > memory():
            raise MethodError(
                f"the derivatives of {len(self.solution.t)} rows do not fit into memory; save less often (save_every)"
            )
        found = [direction.state[None, :, part].copy()]
        for rows, tangents in self._forwards(direction, True):
            assert tangents is not None
            found.append(tangents[stored(self._grid, rows.numbers)][:, :, part])
        return np.concatenate(found)

    def _forwards(self, direction: _Direction, write: bool) -> Iterator[tuple[Rows, Array | None]]:
        """Carry directions to the end; the tangents after each step, where they are to be written."""
        count, n = direction.state.shape
        most = max(1, ROOM // max(1, 8 * count * n)) if write else self._grid.steps
        for rows in self._tape.segments():
            if rows.settled:
                self._ahead(rows, direction, None)
                continue
            for begin in range(0, len(rows), most):
                part = rows[begin : begin + most]
                out = np.empty((len(part), count, n)) if write else None
                self._ahead(part, direction, out)
                yield part, out

    def _ahead(self, rows: Rows, direction: _Direction, out: Array | None) -> None:
        u = self._shares.spread(direction.u, rows)
        self._sweep(rows, Tangents(direction.state, direction.par, u, out))

    @suggesting
    def gradient(
        self, terminal: Function | None = None, running: Function | None = None, integral: Function | None = None
    ) -> dict[str, Array]:
        """Gradient of a cost of the run, by one sweep backwards.

        The cost is `terminal` at the end, plus `running` summed over the stored times after the first, plus `integral` integrated
        over the stored times by the trapezoidal rule. Each is a plain NumPy function of the state by its names (`q`, `v`; `q`,
        `p`; `x`; `y`, `z`), of `t` and of parameters. The result has one entry for each part of the state, each parameter, and
        the inputs (`"u"`) where there are any, and the cost itself as `"value"`.
        """
        costs = self._costs(terminal, running, integral)
        slopes = self._none(1)
        value = self._backwards(slopes, costs)
        return {"value": np.asarray(value), **self._named(slopes)}

    def _costs(self, terminal: Function | None, running: Function | None, integral: Function | None) -> Costs:
        if not self._grid.steps:
            raise MethodError("a run of no steps has no gradient; let t_end be later than t0")
        given = {"terminal": terminal, "running": running, "integral": integral}
        return Costs.of(self.system, self._grid, self._fields, given)

    def _backwards(self, slopes: _Direction, costs: Costs | None) -> float:
        """Carry slopes from the end to the start, those of costs added on the way; what the costs are."""
        count, n = slopes.state.shape
        value, nothing = 0.0, np.zeros((1, n))
        for rows in self._tape.segments(backwards=True):
            more, each, by_par = costs.after(rows) if costs and not rows.settled else (0.0, nothing, 0.0)
            by_u = np.empty((len(rows), count, rows.u.shape[1])) if self.system.nu else None
            self._sweep(rows, Adjoints(slopes.state, each, slopes.par, by_u))
            slopes.par += by_par
            value += more
            if by_u is not None:
                self._shares.collect(slopes.u, rows, by_u)
        if costs:
            more, each, by_par = costs.first(self._tape.start, self._par)
            slopes.state += each
            slopes.par += by_par
            value += more
        return value

    # ---- second derivatives -----------------------------------------------------------------------------

    @suggesting
    def hessian_product(
        self, direction: Mapping[str, ArrayLike], terminal: Function | None = None, running: Function | None = None,
        integral: Function | None = None,
    ) -> dict[str, Array]:  # fmt: skip
        """How the gradient of a cost changes in a direction: the Hessian times a vector, forward over reverse.

        `direction` has values by the names of parts of the state, of parameters, and `"u"`, each in the shape of what it
        belongs to; what is left out does not change. Costs are those of `gradient`.

        >>> run.hessian_product({"l": 1.0}, lambda q: q[0] ** 2)["l"]             # the second derivative in l
        """
        costs = self._costs(terminal, running, integral)
        ahead, first = self._direction(direction), self._direction(direction)
        tangents: dict[tuple[int, bool], Array] = {}  # before each step, or where the rows of each segment begin
        for rows in self._tape.segments():
            if self._tape.keeps:
                tangents[rows.first, rows.settled] = self._carried(rows, ahead.state, ahead)
            else:
                tangents[rows.first, rows.settled] = ahead.state.copy()
                self._ahead(rows, ahead, None)
        slopes, changes = self._none(1), self._none(1)
        for rows in self._tape.segments(backwards=True):
            found = tangents.pop((rows.first, rows.settled))
            found = found if self._tape.keeps else self._carried(rows, found, first)
            self._second(rows, found, first, costs, slopes, changes)
        numbers = np.zeros(1, dtype=np.int64)
        each, by_par = costs.changes(numbers, self._tape.start[None], self._par, first.state, first.par[0])
        changes.state += each
        changes.par += by_par
        return self._named(changes)

    def _carried(self, rows: Rows, state: Array, direction: _Direction) -> Array:
        """The tangents before and after each step, from those at the beginning, which are carried along."""
        out = np.empty((len(rows) + 1, *state.shape))
        out[0] = state
        self._sweep(rows, Tangents(state, direction.par, self._shares.spread(direction.u, rows), out[1:]))
        return out

    def _second(
        self, rows: Rows, tangents: Array, first: _Direction, costs: Costs, slopes: _Direction, changes: _Direction
    ) -> None:
        """Carry slopes and their changes back over some rows, with the tangents before and after each step."""
        count, n, u = len(rows), tangents.shape[2], self._shares.spread(first.u, rows)
        each, each_dot, by_par = np.zeros((1, n)), np.zeros((1, n)), np.zeros(len(self._par))
        if not rows.settled:
            _, each, _ = costs.after(rows)
            each_dot, by_par = costs.changes(rows.numbers, rows.after, rows.par, tangents[1:, 0], first.par[0])
        by_u = np.empty((count, 1, rows.u.shape[1])) if self.system.nu else None
        bars, dots = (slopes.state, changes.state), (tangents[:-1], first.par, u)
        self._sweep(rows, Curvatures(bars, (each, each_dot), dots, changes.par, by_u))
        changes.par += by_par
        if by_u is not None:
            self._shares.collect(changes.u, rows, by_u)
