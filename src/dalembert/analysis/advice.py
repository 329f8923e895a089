"""The method that `simulate` takes where none is named: the one that a diagnosis of the start recommends."""

from __future__ import annotations

from dalembert.analysis.diagnosis import diagnose
from dalembert.defaults import RECOMMEND
from dalembert.engine.kinds import Array, Values
from dalembert.errors import MethodError
from dalembert.systems.base import System


def advise(system: System, values: Values, t: float, par: Array) -> str:
    """The name of a method for a system at a state."""
    found = diagnose(system, **values, t=t, parameters=system.unpack(par))
    name = found.recommended.split(",")[0]
    if name.startswith("none"):
        why = "; ".join(found.remarks) or found.recommended
        raise MethodError(f"no method can be recommended for {system.name!r}: {why}")
    return name


RECOMMEND.set(advise)
