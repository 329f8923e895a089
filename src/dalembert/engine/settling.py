"""What follows from the rest of a state at once, as a step of no length: at the start of a run, and after a jump of its inputs.

Multipliers that a method carries along begin with those of the acceleration level, and `z` of a DAE jumps with the inputs. Both
are found from `residual(x) = 0` with unknowns `x`, like what a step finds, and are differentiated like that.
"""

from __future__ import annotations

from dataclasses import replace

import casadi as ca
import numpy as np

from dalembert.engine import kinds
from dalembert.engine.adjoint import Changes
from dalembert.engine.linear import Linearization
from dalembert.engine.program import Program
from dalembert.engine.sparse_linear import SparseLinearization
from dalembert.engine.tape import Rows
from dalembert.systems.base import System

SX = ca.SX


class Settling:
    """The equations of what follows, for a program's state; `linear` is None where nothing does."""

    def __init__(self, system: System, program: Program) -> None:
        self.linear: Linearization | SparseLinearization | None = None
        if system.vectors is not system and "lam" not in program.step.start.values():
            return  # in mechanics multipliers alone follow: no need to write many elements out
        found = kinds.implied(system)
        if found is None:
            return
        parts = {name: found.parts[kind] for name, kind in program.step.start.items() if kind in found.parts}
        parts |= {name: part for name, part in found.parts.items() if name in system.state}
        if not parts:
            return
        before = {
            name: getattr(system, name) if name in system.state else SX.sym(name, part.stop - part.start)
            for name, part in program.fields.items()
        }
        common = [ca.vertcat(*before.values()), system.t, SX.sym("h"), system.u, system.par]
        after = ca.vertcat(*({**before, **parts}[name] for name in before))
        x, residual = found.unknowns, ca.densify(found.residual)
        if program.large:
            self.linear = SparseLinearization(common, x, residual, after)
        else:
            self.linear = Linearization(Changes(common, [(x, residual)], after))
        self._function = ca.Function("settled", [x, *common], [residual, ca.jacobian(residual, x)])
        self._size, self._part = x.numel(), program.fields[next(iter(parts))]

    def solved(self, rows: Rows) -> Rows:
        """The row of such a step with its unknowns: those in the state after it, and what belongs to them."""
        x, known = np.zeros(self._size), rows.after[0, self._part]
        x[len(x) - len(known) :] = known
        for _ in range(2):  # the equations are linear in what is not known
            residual, slope = self._function(x, rows.before[0], rows.t[0], rows.h, rows.u[0], rows.par)
            x -= np.array(ca.solve(slope, residual, "csparse")).ravel()
        return replace(rows, unknowns=x[None])
