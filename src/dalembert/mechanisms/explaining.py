"""Why a step of a mechanism failed: coordinates that are singular there, joints that cannot stay closed."""

from __future__ import annotations

import numpy as np

from dalembert.engine import kinds
from dalembert.engine.kinds import Array, Values
from dalembert.errors import DalembertError, ModelError, SingularConstraints
from dalembert.mechanisms.assembled import Assembled
from dalembert.mechanisms.closing import CLOSED, Constraints, unclosed
from dalembert.mechanisms.redundancy import LARGEST
from dalembert.systems.mechanical import Mechanical


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
