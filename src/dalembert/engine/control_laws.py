"""What a controller measures, and what it does with that where it is traced, as functions of the state of a run."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import wraps

import casadi as ca
import numpy as np
from casadi import SX

from dalembert.checking import shown
from dalembert.engine.controllers import Sampled
from dalembert.engine.formulas import formula, same
from dalembert.engine.identity import digest
from dalembert.engine.run import Layout
from dalembert.errors import ModelError
from dalembert.systems import tracing
from dalembert.systems.base import System, column
from dalembert.systems.symbolic import to_sx

KEPT = 16  # functions of controllers that are kept with a system
TRIALS = 3  # arguments with which a formula is compared with the function that it was made from


@dataclass(frozen=True)
class Law:
    """A controller of a system in a layout of the state; `shape` is that of its own state, `count` the number of its inputs."""

    system: System
    layout: Layout
    given: Sampled
    wanted: list[str]
    shape: tuple[int, ...]
    count: int

    @property
    def size(self) -> int:
        return math.prod(self.shape) if self.given.state is not None else 0

    def function(self, alone: bool) -> ca.Function:
        """(state, t, parameters) -> what is measured; of a traced controller (state, own state, held, t, parameters) -> what is
        measured; inputs and next own state.

        Where nothing is said, a formula is traced, if nobody else could change what it refers to: it is `alone`.
        """
        given, places = self.given, tuple((name, at.start, at.stop) for name, at in self.layout.fields.items())
        free = given.traced is None and alone and len(self.shape) <= 1 and formula(given.controller)
        # the controller is kept with what was made: its id is not used again
        key = ("sampled", id(given), places, self.count, free and digest(given.controller))
        found: tuple[Sampled, ca.Function] = self.system.cache.get(tuple, key, lambda: (given, self._made(free)), KEPT)
        return found[1]

    def _made(self, free: bool) -> ca.Function:
        state, t = SX.sym("state", self.layout.n_state), SX.sym("t")
        y = self._outputs(state, t)
        if self.given.traced:
            return self._traced(y, state, t)
        measure = ca.Function("measure", [state, t, self.system.par], [ca.densify(y)])
        return self._tried(y, state, t, measure) if free else measure

    def _outputs(self, state: SX, t: SX) -> SX:
        """What is measured, as an expression of the state vector."""
        system, given = self.system, self.given
        own = [getattr(system, name) for name in system.state]
        if given.outputs is None:
            y = ca.vertcat(*own)
        else:
            y = system.of_state(column("outputs", system._trace("outputs", given.outputs, (*system.variables, "t"))))
        f = ca.Function("outputs", [*own, system.t, system.par], [ca.densify(y)])
        out: SX = f(*(state[self.layout.fields[name]] for name in system.state), t, system.par)
        return out

    def _traced(self, y: SX, state: SX, t: SX) -> ca.Function:
        system, given, count = self.system, self.given, self.count
        if len(self.shape) > 1:
            raise ModelError(f"the state of a traced controller is a vector, not of the shape {self.shape}")
        own, held = SX.sym("own", self.size), SX.sym("held", count)
        symbols: dict[str, object] = {"t": tracing.symbols(t, ()), "u": tracing.symbols(held, (count,))}
        symbols |= {"y": tracing.symbols(y, (y.numel(),)), "state": tracing.symbols(own, self.shape)}
        symbols |= {name: make() for name, make in system._parameter_symbols().items() if name in self.wanted}

        @wraps(given.controller)
        def stacked(*arguments: object, **named: object) -> SX:
            return self._stack(given.controller(*arguments, **named))

        both = tracing.call("the controller", stacked, {name: symbols[name] for name in self.wanted}, symbols)
        return ca.Function("law", [state, own, held, t, system.par], [ca.densify(y), both])

    def _stack(self, result: object) -> SX:
        """Inputs and next own state below each other, as symbols."""
        parts = result if self.given.state is not None else (result, SX(0, 1))
        if not isinstance(parts, (tuple, list)) or len(parts) != 2:
            raise ModelError(f"it has a state: it must return the pair (u, state), not {shown(result)}")
        u, after = (ca.densify(ca.vec(to_sx(part))) for part in parts)
        if u.numel() != self.count or after.numel() != self.size:
            raise ModelError(
                f"it must return {self.count} inputs and {self.size} numbers as its state, not {u.numel()} and {after.numel()}"
            )
        return ca.vertcat(u, after)

    def _tried(self, y: SX, state: SX, t: SX, measure: ca.Function) -> ca.Function:
        """A formula with symbols, where that works and gives what the function gives; else what is measured alone."""
        try:
            law = self._traced(y, state, t)
            return law if all(self._agrees(law, k) for k in range(TRIALS)) else measure
        except Exception:  # whatever the function raises with symbols or with these numbers: it is called, and says so then
            return measure

    def _agrees(self, law: ca.Function, k: int) -> bool:
        """Whether the function returns what the symbols say, for some numbers."""
        numbers = np.random.default_rng(k)
        x, own, held = (numbers.normal(size=n) for n in (self.layout.n_state, self.size, self.count))
        t, par = abs(float(numbers.normal())), self.system.pack()
        y, both = (np.array(part).ravel() for part in law(x, own, held, t, par))
        values = {**self.system.unpack(par), "t": t, "y": y, "u": held, "state": own.reshape(self.shape)}
        with np.errstate(all="ignore"):
            result = self.given.controller(*[values[name] for name in self.wanted])
        parts = result if isinstance(result, (tuple, list)) and self.given.state is not None else (result, [])
        return same(both, np.concatenate([np.array(part, dtype=float).ravel() for part in parts]))
