"""Why a step of a mechanism failed, or a run is no result: singular coordinates, joints that cannot stay closed, turns."""

from __future__ import annotations

import numpy as np

from dalembert.engine import kinds
from dalembert.engine.kinds import Array, Values
from dalembert.errors import DalembertError, ModelError, SingularConstraints
from dalembert.mechanisms.assembled import Assembled
from dalembert.mechanisms.closing import CLOSED, Constraints, unclosed
from dalembert.mechanisms.redundancy import LARGEST
from dalembert.systems.mechanical import Mechanical

FAR = 2.0  # by which an angle changes from row to row: rows that are further apart do not tell where it went


@kinds.explain.register
def _(system: Assembled, values: Values, par: Array, t: float, h: float, u: Array) -> DalembertError | None:
    """Angles next to their singularity, where the step began or where it was heading; else what any system says."""
    q, v = values["q"], values["v"]
    rate = np.asarray(system.value("kinematics", par, q=q).full()) @ v if system.has("kinematics") else v
    for at in (q, q + h * rate / 2, q + h * rate):
        if said := system.singular(at):
            return ModelError(f"at t = {t:g}, {said}")
    other: DalembertError | None = kinds.explain.dispatch(Mechanical)(system, values, par, t, h, u)
    return other or _stuck(system, q + h * rate, par, t + h)


def _stuck(system: Assembled, q: Array, par: Array, t: float) -> DalembertError | None:
    """A pose that cannot be closed where the step ends: prescribed motions ask for more than the mechanism can reach."""
    chosen = system._coordinates
    if chosen is None or not 0 < system.mh <= LARGEST or not np.isfinite(q).all():
        return None
    rows = Constraints(system, chosen, t=t, par=par)
    found, left = rows.solve(q)
    if left <= CLOSED:
        return None
    said = unclosed(system, chosen, chosen.of, rows, found, "")
    return SingularConstraints(f"at t = {t:g} the mechanism is at a dead point, or at the end of what it can reach: {said}")


@kinds.fault.register
def _(system: Assembled, values: Values, times: Array, par: Array) -> tuple[int, DalembertError] | None:
    """Springs that are wound further than half a turn, where the coordinates do not count turns: their force would jump."""
    if not system.wound or len(times) < 2:
        return None
    at, columns = {"q": values["q"], "v": values["v"]}, list(system.wound.values())
    x, rates = (system.numeric(role, par, **at, t=times)[:, columns] for role in ("measures", "measure_rates"))
    ahead = np.diff(times)[:, None] * (rates[1:] + rates[:-1]) / 2
    jumps = (np.abs(np.diff(x, axis=0) - ahead) > np.pi) & (np.abs(ahead) < FAR)
    if not jumps.any():
        return None
    row = int(np.argmax(jumps.any(axis=1))) + 1
    name = list(system.wound)[int(np.argmax(jumps[row - 1]))]
    return row, ModelError(
        f"torsion spring {name!r} is wound further than half a turn from the drawing at t = {times[row]:g}, which these "
        "coordinates do not count; use assemble(coordinates='joint'), or torsion_spring(..., turns=True) (error.solution holds "
        "the rows before)"
    )


@kinds.fleeting.register
def _(system: Assembled) -> bool:
    return bool(system.wound)
