"""Blocks of members: in the lanes of a processor's vectors where that can be, one by one where not."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from dalembert.engine import compiler, sampled, sweeps, verdict
from dalembert.engine.case import make_rule
from dalembert.engine.inputs import inputs_of, limits
from dalembert.engine.lanes import Lanes, Rows
from dalembert.engine.program import Program
from dalembert.engine.run import Grid
from dalembert.ensembles.members import Task, build, parameters
from dalembert.ensembles.reductions import Parts
from dalembert.ensembles.samples import Samples
from dalembert.errors import CompilerError, DalembertError, Interrupted
from dalembert.simulation import simulate
from dalembert.solution import Solution
from dalembert.systems.constrained import Constrained
from dalembert.systems.port_hamiltonian import PortHamiltonian
from dalembert.systems.ranges import ranges

Array = NDArray[np.float64]
LARGEST = 6000  # operations of a step that is written for lanes
Options = Mapping[str, object]  # of `simulate`, for runs one by one


@dataclass
class Block:
    """What the members of a block left behind: rows from the start on, or a solution of their own; why some failed."""

    task: Task
    samples: Samples
    fields: dict[str, slice]
    aligned: bool  # whether all members have the times of the grid
    t: Array
    t_lam: Array
    pars: Array
    states: Array
    lam: Array
    work: Array
    energy: Array | None = None  # at the end, where it is known
    errors: dict[int, DalembertError] = field(default_factory=dict)
    own: dict[int, Solution] = field(default_factory=dict)

    def solution(self, member: int) -> Solution | None:
        """The run of a member; None where there is none."""
        if member in self.own or member in self.errors:
            return self.own.get(member)
        system = self.task.system
        parts = {name: self.states[member][:, part] for name, part in self.fields.items()}
        u = limits(inputs_of(system, self.task.inputs(self.samples, member), self.task.grid.t0), self.t)
        return Solution.of(system)(
            system, self.task.method, self.pars[member], self.t, parts, lam=self.lam[member], t_lam=self.t_lam,
            work=self.work[member], u=u, step=self.task.grid.h, stats={"steps": self.task.grid.steps, "engine": "lanes"},
        )  # fmt: skip

    def multipliers(self) -> Array:
        """Of all members, `(members, rows, constraints)`: those of the method, or of accelerations where it stores none."""
        system, (members, rows, stored) = self.task.system, self.lam.shape
        if stored or not isinstance(system, Constrained) or not system.m:
            return self.lam
        out = np.full((members, rows, system.m), np.nan)
        for member in range(members):
            solution = self.solution(member)
            if solution is not None:
                found = solution.lam
                out[member, : len(found)] = found
        return out

    def parts(self, last: bool = False) -> Parts:
        """State and energy of all members, `(members, rows, size)`; of the last row alone where that is enough."""
        states = self.states[:, -1:] if last else self.states
        out = {name: states[:, :, part] for name, part in self.fields.items()}
        if not self.task.system.has_energy:
            return out
        if last and self.energy is not None:
            return {**out, "energy": self.energy[:, None, None]}
        count, rows = states.shape[:2]
        with np.errstate(all="ignore"):
            found = self.energies(states.reshape(count * rows, -1), np.tile(self.t[len(self.t) - rows :], count), rows)
        return {**out, "energy": found.reshape(count, rows, 1)}

    def energies(self, states: Array, times: Array, rows: int) -> Array:
        """The energies of so many rows a member, one member after another."""
        return verdict.energies(self.task.system, self.fields, states, times, np.repeat(self.pars, rows, axis=0))


class Blocks:
    """Runs blocks of members; `stop` ends those that run."""

    def __init__(
        self, task: Task, members: int, *, tolerance: float | None, max_iterations: int, compile: bool | str, options: Options
    ) -> None:
        self.task, self.compile, self.options = task, compile, options
        self.tolerance, self.rule = tolerance, make_rule(tolerance, max_iterations)
        self.stop = ctypes.c_int(0)
        self.lanes = self._lanes(members) if self._suits() else None

    def _suits(self) -> bool:
        """Whether members can be run in lanes: equal steps of the engine, and nothing that must be looked at on the way."""
        task, system = self.task, self.task.system
        plain = not (self.options or task.method.external or task.grid.remainder or not task.grid.steps)
        steady = not isinstance(system, PortHamiltonian) or system.constant_E
        if sampled.split(system, task.u)[1]:  # controllers look at each member by itself
            return False
        known = not (system.has_energy and verdict.gaps(system)) and not ranges(system).uses
        return plain and steady and known and self._engine_suits()

    def _engine_suits(self) -> bool:
        engine = self.task.engine()
        return self.compile is not False and compiler.find() is not None and (
            engine.settle is None and not engine.program.large and engine.program.operations <= LARGEST
        )  # fmt: skip

    def _lanes(self, members: int) -> Lanes | None:
        program, system = self.task.engine().program, self.task.system
        if self.compile == "auto" and members * self.task.grid.steps * sweeps.saved(program) < sweeps.PRICE:
            return None
        try:
            return system.cache.get(Lanes, self.task.method, lambda: Lanes(program))
        except CompilerError:
            if self.compile == "auto":
                return None
            raise

    @cached_property
    def program(self) -> Program:
        return self.task.engine().program

    @property
    def name(self) -> str:
        """How members are run."""
        return f"lanes of {self.lanes.width}" if self.lanes else "one by one"

    def run(self, samples: Samples) -> Block:
        """Run a block to its end."""
        if self.lanes is None:
            block = self._empty(samples, _rows(self.task.grid))
            again = list(range(samples.members))
        else:
            block, again = self._together(samples)
        for member in again:
            if self.stop.value:
                raise Interrupted("the ensemble was stopped")
            self._alone(block, member)
        return block

    def _empty(self, samples: Samples, rows: int) -> Block:
        task, system = self.task, self.task.system
        grid, saved = task.grid, task.grid.saved
        if task.method.external:
            n_state, n_lam, node = sum(system.size_of(name) for name in system.state), 0, 1.0
        else:
            n_state, n_lam, node = self.program.n_state, self.program.n_lam, self.program.step.node
        return Block(
            task, samples, self._fields(), not self.options, np.append(grid.t0, grid.times(saved)), grid.nodes(saved, node),
            parameters(task, samples),
            np.full((samples.members, rows + 1, n_state), np.nan), np.full((samples.members, rows, n_lam), np.nan),
            np.full((samples.members, rows, 2), np.nan),
        )  # fmt: skip

    def _together(self, samples: Samples) -> tuple[Block, list[int]]:
        """Run in lanes; which members are to be run again by themselves, since they failed: that tells why."""
        assert self.lanes is not None
        grid, made, rows = self.task.grid, build(self.task, samples), _rows(self.task.grid)
        block, out = self._empty(samples, rows), Rows.empty(self.program, samples.members, rows)
        failed = np.isin(np.arange(samples.members), list(made.errors))
        if failed.all():
            return block, list(range(samples.members))
        good = int(np.argmin(failed))
        for values in (made.states, made.firsts, made.pars):  # what has no start still has a lane, which is not looked at
            values[failed] = values[good]
        self.lanes.run(
            grid.t0, grid.h, grid.steps, grid.save_every, self.rule, made.states, made.firsts, made.pars, made.inputs, out,
            self.stop,
        )  # fmt: skip
        if self.stop.value:
            raise Interrupted("the ensemble was stopped")
        block.states[:, 0], block.states[:, 1:], block.lam, block.work = made.states, out.state, out.lam, out.work
        failed |= (out.failed >= 0) | ~np.isfinite(block.states).all(axis=(1, 2))
        if self.task.system.has_energy:
            with np.errstate(all="ignore"):
                block.energy = block.energies(block.states[:, -1], np.full(samples.members, block.t[-1]), 1)
                failed |= ~np.isfinite(block.energy)
        return block, [int(m) for m in np.flatnonzero(failed)]

    def _alone(self, block: Block, member: int) -> None:
        """One member by `simulate`; an error keeps the rows before it."""
        solution: Solution | None = None
        try:
            solution = self._simulate(block.samples, member)
        except DalembertError as error:
            block.errors[member], found = error, error.solution
            solution = found if isinstance(found, Solution) else None
        block.states[member], block.lam[member], block.work[member] = np.nan, np.nan, np.nan
        if solution is None:
            return
        block.own[member], block.energy = solution, None
        if not self.options:  # the times are those of all
            rows = len(solution.t)
            for name, part in block.fields.items():
                block.states[member, :rows, part] = solution.parts[name]
            block.lam[member, : rows - 1], block.work[member, : rows - 1] = solution._lam, solution._work

    def _simulate(self, samples: Samples, member: int) -> Solution:
        task, own, run = self.task, samples.of(member), partial(simulate, self.task.system, self.task.method)
        for options in (task.given, own["starts"], self.options):
            run = partial(run, **options)
        return run(
            t0=task.grid.t0, t_end=task.grid.t_end, step=task.grid.h, save_every=task.grid.save_every, progress=False,
            u=task.inputs(samples, member), parameters={**task.parameters, **own["parameters"]}, tolerance=self.tolerance,
            max_iterations=self.rule.max_iterations, compile="newton" if self.compile is True else self.compile,
        )  # fmt: skip

    def _fields(self) -> dict[str, slice]:
        """Where the parts of a state are in a row."""
        system = self.task.system
        if not self.task.method.external:
            return {name: self.program.fields[name] for name in system.state}
        ends = np.cumsum([0, *(system.size_of(name) for name in system.state)]).tolist()
        return {name: slice(*ends[k : k + 2]) for k, name in enumerate(system.state)}


def _rows(grid: Grid) -> int:
    return len(grid.saved)
