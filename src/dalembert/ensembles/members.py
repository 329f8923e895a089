"""Members of an ensemble before their runs: parameters, states and first guesses, all checked at once where that can be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dalembert.engine import kinds, survey
from dalembert.engine.case import Case, prepare
from dalembert.engine.inputs import Constant, Inputs, inputs_of
from dalembert.engine.run import Grid
from dalembert.engine.runners import Engine
from dalembert.ensembles.samples import Samples
from dalembert.errors import DalembertError
from dalembert.methods.base import Method
from dalembert.systems.base import System
from dalembert.systems.constrained import Constrained

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Task:
    """What all members have in common."""

    system: System
    method: Method
    grid: Grid
    given: Mapping[str, ArrayLike | None]
    u: object
    parameters: Mapping[str, ArrayLike]

    def case(self, samples: Samples, member: int) -> Case:
        """One member, checked by itself."""
        own = samples.of(member)
        return Case.of(
            self.system, self.method, {**self.given, **own["starts"]}, t0=self.grid.t0, u=self.inputs(samples, member),
            parameters={**self.parameters, **own["parameters"]},
        )  # fmt: skip

    def inputs(self, samples: Samples, member: int) -> object:
        """The inputs of one member, as they are given to `simulate`."""
        return self.u if samples.u is None else samples.u[member]

    def engine(self) -> Engine:
        return prepare(self.system, self.method)


@dataclass
class Members:
    """The members of a block: rows of states, first unknowns and parameters; `errors` of those that cannot begin."""

    states: Array
    firsts: Array
    pars: Array
    inputs: Array  # (1 or members, 1 or steps, inputs of a step)
    errors: dict[int, DalembertError]


def build(task: Task, samples: Samples) -> Members:
    """All members of a block, ready to run."""
    program, count = task.engine().program, samples.members
    states, firsts = np.full((count, program.n_state), np.nan), np.zeros((count, program.n_unknowns))
    pars = parameters(task, samples)
    made = Members(states, firsts, pars, _inputs(task, samples), {})
    done = _together(task, samples, made)
    for member in np.flatnonzero(~done).tolist():
        try:
            case = task.case(samples, member)
            states[member] = case.state(program)
            guess = case.guess()
        except DalembertError as error:
            made.errors[member] = error
            continue
        firsts[member] = program.first_memory(states[member], task.grid.t0, task.grid.h, np.zeros(program.n_u), case.par, guess)
    return made


def parameters(task: Task, samples: Samples) -> Array:
    """The parameter vectors, one row a member."""
    par = task.system.pack(task.parameters)
    out, at = np.tile(par, (samples.members, 1)), 0
    for name, default in task.system.parameters.items():
        if name in samples.parameters:
            out[:, at : at + default.size] = samples.parameters[name].reshape(samples.members, -1)
        at += default.size
    return out


def _inputs(task: Task, samples: Samples) -> Array:
    """The inputs of all steps, for all members alike or for each."""
    engine, grid = task.engine(), task.grid

    def rows(u: object) -> Array:
        inputs: Inputs = inputs_of(task.system, u, grid.t0)
        return engine.step_inputs(inputs, grid.t0, 0, 1 if isinstance(inputs, Constant) else grid.steps, grid.h)

    if not task.system.nu:
        return np.zeros((1, 1, 0))
    if samples.u is None:
        return rows(task.u)[None]
    return np.array([rows(u) for u in samples.u])


def _together(task: Task, samples: Samples, made: Members) -> NDArray[np.bool_]:
    """Set up at once the members of a mechanical system of whose start it is clear that it is well; which they are."""
    system, program, grid = task.system, task.engine().program, task.grid
    count, done = samples.members, np.zeros(samples.members, dtype=bool)
    carried = "lam" in program.step.start.values()  # multipliers of each start
    if not isinstance(system, Constrained) or carried or not set(samples.starts) <= set(system.state):
        return done
    first = samples.of(0)["starts"]
    u = samples.u if samples.u is not None else inputs_of(system, task.u, grid.t0)(np.array([grid.t0]))
    chosen = kinds.choose(system, {**task.given, **first}, made.pars[0], grid.t0, u[0])
    made.states[:] = 0.0
    for name in system.state:
        made.states[:, program.fields[name]] = samples.starts.get(name, chosen[name])
    values = {name: made.states[:, program.fields[name]] for name in system.state}
    done = survey.all_well(system, values, made.pars, grid.t0, np.broadcast_to(u, (count, system.nu)), task.method.exact_levels)
    made.firsts[:] = program.first_memories(made.states, grid.t0, grid.h, made.pars)
    return done
