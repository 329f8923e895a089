"""From a mechanism as drawn to a system that starts where all joints are closed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from casadi import SX

from dalembert.checking import one_of
from dalembert.errors import ModelError
from dalembert.mechanisms import closing, redundancy
from dalembert.mechanisms.absolute import absolute
from dalembert.mechanisms.assembled import Assembled
from dalembert.mechanisms.coordinates import Coordinates
from dalembert.mechanisms.description import Description
from dalembert.mechanisms.points import Pointed
from dalembert.mechanisms.relative import Relative
from dalembert.mechanisms.terms import Terms
from dalembert.mechanisms.touching import Touch

REDUNDANT = ("error", "remove", "least-norm")


def coordinates_of(mechanism: Description, coordinates: str, rotation: str | None, vary: Sequence[str]) -> Coordinates:
    """The set of coordinates that was asked for."""
    known: dict[str, Callable[[Terms, str | None], Coordinates]] = {"absolute": absolute, "joint": Relative}
    terms = Terms(mechanism, vary)
    out = known[one_of("coordinates", coordinates, known, ModelError)](terms, rotation)
    touches = [joint for joint in mechanism.joints.values() if isinstance(joint, Touch)]
    wanted = dict.fromkeys(which for term in terms.all for which in term.counts)
    frames = out.frames(SX.sym("q", len(out.names))) if wanted else {}
    ends = {which: mechanism.joints[which[0]] for which in wanted}
    counting = [which for which, joint in ends.items() if not terms.counted(which, frames[joint.a], frames[joint.b])]
    return Pointed(out, touches, counting) if touches or counting else out


def assemble(
    mechanism: Description, coordinates: str, rotation: str | None, redundant: str, pinned: Mapping[str, float | None],
    rates: Mapping[str, float], vary: Sequence[str],
) -> Assembled:  # fmt: skip
    """The system of a mechanism, with a consistent start."""
    one_of("redundant", redundant, REDUNDANT, ModelError)
    if not mechanism.bodies:
        raise ModelError(f"the mechanism {mechanism.name!r} has no bodies")
    closing.connected(mechanism)
    chosen = coordinates_of(mechanism, coordinates, rotation, vary)
    whole = Assembled(chosen, chosen.make())
    q = closing.pose(whole, chosen, mechanism, pinned)
    kept = redundancy.kept(whole, chosen, q, redundant)
    chosen.spare.update(redundancy.spare(whole, chosen, q, redundant))
    system = (
        whole if kept is None and not chosen.spare else Assembled(chosen, chosen.make(kept), whole, redundant == "least-norm")
    )
    system.initial = {"q": q, "v": closing.velocities(system, chosen, q, rates)}
    return system
