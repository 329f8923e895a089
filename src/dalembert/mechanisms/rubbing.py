"""Dry friction in joints: by the force that the joint itself carries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import casadi as ca
from casadi import SX

from dalembert.errors import ModelError
from dalembert.mechanisms.coordinates import Coordinates, Row
from dalembert.mechanisms.frames import Frame
from dalembert.mechanisms.laws import Term
from dalembert.mechanisms.repeating import Signed
from dalembert.mechanisms.wrenches import local

SMALL = 1e-9  # of a unit of force: keeps the length of no force differentiable


def rubbing(at: Coordinates, terms: Sequence[Term], rows: Sequence[Row]) -> dict[str, object]:
    """The force of Coulomb friction, `-coulomb radius N tanh(x' / speed)` along a freedom `x`.

    `N` is the length of the force of the joint's constraints, from the multipliers `lam`.
    """
    own = [t for t in terms if t.role == "friction"]
    if not own:
        return {}
    carrying = {row.owner for row in rows}
    for term in own:
        if term.joint not in carrying:
            raise ModelError(
                f"friction {term.name!r}: {term.joint!r} holds nothing, so that there is no load; "
                "give a friction that does not depend on it, dry=..."
            )

    def force(given: dict[str, SX]) -> SX:
        q, v = given["q"], given["v"]
        frames, out = at.frames(q), SX(v.numel(), 1)
        for term in own:
            x = at.evaluated(term, frames, frames, given, SX(0.0))[0]
            slope = ca.jacobian(x, q)
            slope = slope if at.kinematics is None else slope @ at.kinematics(q)
            out -= slope.T * grip(at, term, terms, rows, given, frames, slope @ v)
        return ca.densify(out)

    names = ["q", "v", "lam", *at.parameters]
    return {"force": Signed(names, force)}


def grip(
    at: Coordinates, term: Term, terms: Sequence[Term], rows: Sequence[Row], given: Mapping[str, SX], frames: Mapping[str, Frame],
    rate: SX,
) -> SX:  # fmt: skip
    """The force of friction against the rate of its freedom, by the multipliers `given["lam"]`."""
    joint = next(t for t in terms if t.role == "holonomic" and t.name == term.joint)
    found = at.evaluated(term, frames, frames, given, SX(0.0))
    carried = _force(at, joint, rows, given, frames)
    return found[1] * ca.sqrt(ca.dot(carried, carried) + SMALL**2) * ca.tanh(rate / found[2])


def _force(at: Coordinates, joint: Term, rows: Sequence[Row], given: Mapping[str, SX], frames: Mapping[str, Frame]) -> SX:
    """The force of a joint's constraints on its second body."""
    W = local(at, joint, frames, given, given.get("t", SX(0.0)))
    out = SX(3, 1)
    for i, row in enumerate(rows):
        if row.owner == joint.name and not row.inner:
            out -= W[:3, row.number] * given["lam"][i]
    return out
