"""What is looked at when a run is over: energies that are not finite, and equations that have changed their character."""

from __future__ import annotations

import numpy as np

from dalembert.engine import kinds
from dalembert.engine.case import Case
from dalembert.engine.run import Array, Layout, Run
from dalembert.errors import DalembertError, ModelError

CHUNK = 1 << 16  # rows whose energies are looked at together


def check(case: Case, run: Run, start: Array, layout: Layout) -> None:
    """End a run before the first row that is no result: the equations changed their character, or the energy is not finite."""
    if not run.rows:
        return
    states = np.vstack([start, run.records.state[: run.rows]])
    times = np.concatenate([[run.grid.t0], run.times()])
    found = (kinds.fault(case.system, states[:, : case.system.n], times, case.par), _energy(case, layout, states, times))
    faults = [fault for fault in found if fault is not None]
    if faults:
        row, error = min(faults, key=lambda fault: fault[0])
        run.fail(error, max(0, row - 1))


def _energy(case: Case, layout: Layout, states: Array, times: Array) -> tuple[int, DalembertError] | None:
    """The first row whose energy is not finite."""
    system = case.system
    if not system.has_energy or not case.method.external:  # a step of the engine fails where the energy is not finite
        return None
    for first in range(0, len(times), CHUNK):
        part = slice(first, first + CHUNK)
        values = {name: states[part, layout.fields[name]] for name in system.state}
        bad = ~np.isfinite(system.numeric("energy", case.par, **values, t=times[part])[:, 0])
        if bad.any():
            row = first + int(np.argmax(bad))
            return row, _error(times[row])
    return None


def _error(t: float) -> ModelError:
    return ModelError(
        f"the energy is not finite at t = {t:g}: the motion has left the values for which the model is defined, or numbers have "
        "grown too large; use a smaller step, or check the functions there (error.solution holds the rows before)"
    )
