"""Why a step of a mechanism failed: coordinates that are singular there."""

from __future__ import annotations

import numpy as np

from dalembert.engine import kinds
from dalembert.engine.kinds import Array, Values
from dalembert.errors import DalembertError, ModelError
from dalembert.mechanisms.assembled import Assembled
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
    return other
