"""What is looked at when a run is over: energies that are not finite, tables that were left, equations of another character."""

from __future__ import annotations

from collections.abc import Mapping

import casadi as ca
import numpy as np
from numpy.typing import NDArray

from dalembert.engine import kinds
from dalembert.engine.case import Case, outside
from dalembert.engine.kinds import Values
from dalembert.engine.run import Array, Layout, Run
from dalembert.errors import DalembertError, ModelError
from dalembert.systems.base import System
from dalembert.systems.batch import Pointwise, batch
from dalembert.systems.ranges import ranges

SX = ca.SX
CHUNK = 1 << 16  # rows whose energies are looked at together
GAPS = frozenset({ca.OP_LOG, ca.OP_LOG1P, ca.OP_ATANH})  # functions whose slopes are finite where they are not defined


def check(case: Case, run: Run, start: Array, layout: Layout) -> DalembertError | None:
    """End a run before the first row that is no result: the equations changed their character, or the energy is not finite."""
    if not run.rows:
        return None
    times, states = run.table(start)
    values = {name: states[:, layout.fields[name]] for name in case.system.state}
    found = (
        kinds.fault(case.system, values, times, case.par),
        _tables(case, values, times),
        _energy(case, layout, states, times),
    )
    faults = [fault for fault in found if fault is not None]
    if faults:
        row, error = min(faults, key=lambda fault: fault[0])
        run.fail(error, max(0, row - 1))
        return error
    return None


def _tables(case: Case, values: Values, times: Array) -> tuple[int, DalembertError] | None:
    """The first row at which the motion has left a table."""
    if not ranges(case.system).uses:
        return None
    found = outside(case.system, values, case.par, times, case.inputs_at(times)[0])
    return found and (found[0], ModelError(f"{found[1]} (error.solution holds the rows before)"))


def _energy(case: Case, layout: Layout, states: Array, times: Array) -> tuple[int, DalembertError] | None:
    """The first row whose energy is not finite.

    A step of the engine fails where a force is not finite. Where the energy is not finite there either, only the last of its rows
    can be such: the others are not looked at, unless it is.
    """
    system = case.system
    if not system.has_energy:
        return None
    if not (case.method.external or gaps(system)) and np.isfinite(_last(system, layout.fields, states[-1], times[-1:], case.par)):
        return None
    for first in range(0, len(times), CHUNK):
        part = slice(first, first + CHUNK)
        bad = _bad(case, layout, states[part], times[part])
        if bad.any():
            row = first + int(np.argmax(bad))
            return row, _error(times[row])
    return None


def _function(system: System) -> ca.Function:
    """The energy, a function of one vector: a row of a run with its time and parameters."""

    def make() -> ca.Function:
        known = {name: getattr(system, name) for name in (*system.state, "t", "par")}
        kind, size = type(system.vectors.t), {name: x.numel() for name, x in known.items()}
        row = kind.sym("row", sum(size.values()))
        own = dict(zip(size, ca.vertsplit(row, np.cumsum([0, *size.values()]).tolist()), strict=True))
        others = {name: kind.zeros(getattr(system, name).numel()) for name in system.arguments if name not in own}
        energy = system.function("energy").call([*((own | others)[name] for name in system.arguments), own["par"]])
        return ca.Function("energy", [row], [ca.densify(energy[0])])

    return system.cache.get(ca.Function, "energy of a row", make)


def _last(system: System, fields: Mapping[str, slice], state: Array, t: Array, par: Array) -> float:
    """The energy of one row."""
    energy = system.cache.get(Pointwise, "energy", lambda: Pointwise(_function(system)))
    return float(energy(*(state[fields[name]] for name in system.state), t, par)[0][0])


def energies(system: System, fields: Mapping[str, slice], states: Array, times: Array, pars: Array) -> Array:
    """The energies of rows, each with parameters of its own."""
    parts = [states[:, fields[name]] for name in system.state]
    return batch(_function(system), [np.hstack([*parts, times[:, None], pars])], len(states))[0][:, 0]


def gaps(system: System) -> bool:
    """Whether the energy may be undefined where its slope is not."""

    def look() -> bool:
        functions = system.energies()
        return not GAPS.isdisjoint(f.instruction_id(k) for f in functions for k in range(f.n_instructions()))

    return system.cache.get(bool, "gaps of the energy", look)


def _bad(case: Case, layout: Layout, states: Array, times: Array) -> NDArray[np.bool_]:
    values = {name: states[:, layout.fields[name]] for name in case.system.state}
    with np.errstate(all="ignore"):
        return ~np.isfinite(case.system.numeric("energy", case.par, **values, t=times)[:, 0])


def _error(t: float) -> ModelError:
    return ModelError(
        f"the energy is not finite at t = {t:g}: the motion has left the values for which the model is defined, or numbers have "
        "grown too large; use a smaller step, or check the functions there (error.solution holds the rows before)"
    )
