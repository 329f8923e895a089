"""Constraints of closed loops that follow from the others, and poses where a mechanism is singular."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from scipy.linalg import qr

from dalembert.errors import InconsistentState, ModelError, SingularConstraints
from dalembert.mechanisms.assembled import Assembled
from dalembert.mechanisms.closing import CLOSED, Constraints
from dalembert.mechanisms.coordinates import Coordinates
from dalembert.mechanisms.forces import Motion
from dalembert.mechanisms.joints import Distance
from dalembert.mechanisms.rotations import Array

ZERO = 1e-8  # singular values of rows of unit length below this count as zero
AWAY = 1e-3  # by which a pose is left to see whether its rank is that of its neighbours
SOON = (1e-3, 1e-2)  # times at which prescribed motions are looked at
LARGEST = 4000  # rows in closed loops whose rank is looked at


def kept(system: Assembled, chosen: Coordinates, q: Array, redundant: str) -> dict[str, tuple[int, ...]] | None:
    """For joints with redundant constraints, the rows that stay; None where there are none."""
    if chosen.idle and redundant == "error":
        counted = ", ".join(f"{n} of {name!r}" for name, n in chosen.idle.items())
        raise SingularConstraints(
            f"{sum(chosen.idle.values())} constraints of closed loops hold in all poses, {counted}: their reactions are not "
            "determined; say redundant='remove', or use joints with more freedom"
        )
    rows = looped(system, chosen)
    if not rows:
        return None
    if len(rows) > LARGEST:
        raise ModelError(f"closed loops with {len(rows)} constraints: their rank is looked at up to {LARGEST}")
    at = Constraints(system, chosen)
    G = _dense(system, q, rows)
    values, left = _singular(G)
    rank = int((values > ZERO).sum())
    if rank == len(rows):
        return None
    near = _rank_nearby(system, at, q, rows)
    owners = [system.rows[i].owner for i in rows]
    weight = np.abs(left[:, rank:]).max(axis=1) > 1e-6
    involved = list(dict.fromkeys(o for o, w, i in zip(owners, weight, rows, strict=True) if w and not system.rows[i].inner))
    names = ", ".join(map(repr, involved))
    if near is None or near > rank:
        said = "no pose nearby closes the joints" if near is None else f"{near} nearby"
        raise SingularConstraints(
            f"the mechanism starts in a singular pose: the rank of the constraints of {names} is {rank} of {len(rows)} here, and "
            f"{said} (a dead point, where branches of the motion meet or end); start elsewhere: pin a joint, "
            "assemble(pinned={...}), or draw another pose",
        )
    stay = _chosen(system, rows, G, rank)
    drop = [i for i in rows if i not in stay]
    if redundant == "error":
        by: dict[str, int] = defaultdict(int)
        for i in drop:
            by[system.rows[i].owner] += 1
        counted = ", ".join(f"{n} of {name!r}" for name, n in by.items())
        raise SingularConstraints(
            f"{len(drop)} of the constraints of the closed loops of {names} follow from the others (rank {rank} of {len(rows)}), "
            f"for example {counted}: their reactions are not determined; say redundant='remove', or 'least-norm' for the "
            "smallest reactions, or use joints with more freedom",
            tuple(i + 1 for i in drop),
        )
    _agree_later(at, q, drop)
    left_out = {(system.rows[i].owner, system.rows[i].number) for i in drop}
    return {
        owner: tuple(r.number for r in system.rows if r.owner == owner and (owner, r.number) not in left_out)
        for owner in {o for o, _ in left_out}
    }


def spare(system: Assembled, chosen: Coordinates, q: Array, redundant: str) -> dict[str, set[int]]:
    """Of constraints on velocities the rows that follow from all others: a wheel in a guide slips to no side anyway."""
    if not system.mn or system.m > LARGEST:
        return {}
    drop = _following(system, q)
    near = _nearby(Constraints(system, chosen), q) if drop else []
    if not drop or min((len(_following(system, x)) for x in near), default=0) < len(drop):
        return {}  # of a singular pose nothing can be left out
    whose = [(term.name, number) for term, acting in chosen.slips() for number in acting]
    out: dict[str, set[int]] = defaultdict(set)
    for i in drop:
        out[whose[i][0]].add(whose[i][1])
    if redundant == "error":
        counted = ", ".join(f"{len(rows)} of {name.removesuffix(' slip')!r}" for name, rows in out.items())
        raise SingularConstraints(
            f"{len(drop)} of the constraints on velocities of rolling bodies and blades follow from the other joints, {counted}: "
            "their reactions are not determined; say redundant='remove', or use joints with more freedom"
        )
    return out


def _following(system: Assembled, q: Array) -> list[int]:
    """The constraints on velocities that follow from those on positions and from the other ones, by their numbers."""
    G = _dense(system, q, list(range(system.m)))
    _, values, right = np.linalg.svd(G[: system.mh], full_matrices=False)
    basis = right[values > ZERO]
    rest = G[system.mh :] - (G[system.mh :] @ basis.T) @ basis
    R, order = qr(rest.T, mode="r", pivoting=True)
    size = np.abs(np.diag(R)) if min(R.shape) > 1 else np.abs(R[:1, 0])
    return sorted(int(k) for k in order[int((size > ZERO).sum()) :])


def _agree_later(at: Constraints, q: Array, drop: list[int]) -> None:
    """Refuse motions that agree at the start and contradict each other later: one of them would be left out."""
    system, of = at.system, at.chosen.of
    if not any(isinstance(part, Motion) for part in of.forces.values()) and not any(
        isinstance(joint, Distance) and callable(joint.length) for joint in of.joints.values()
    ):
        return
    for t in SOON:
        q, left = Constraints(system, at.chosen, t=t, out=drop).solve(q)
        off = np.abs(Constraints(system, at.chosen, t=t).scaled(q)[0])
        worst = max(drop, key=lambda i: float(off[i]))
        if left <= CLOSED < off[worst]:
            raise InconsistentState(
                f"{system.rows[worst].owner!r} agrees with the other joints and motions at t = 0 and is off by {off[worst]:.1e} "
                f"at t = {t:g}; prescribe the motion of each degree of freedom once"
            )


def looped(system: Assembled, chosen: Coordinates) -> list[int]:
    """The constraints of joints in closed loops, and of their bodies: those of trees are independent.

    Bodies that one joint holds are taken away until there are none.
    """
    terms = {t.name: [b for b in t.bodies if b != "ground"] for t in chosen.terms.all if t.role == "holonomic"}
    touching: dict[str, set[str]] = defaultdict(set)
    for name, bodies in terms.items():
        for body in bodies:
            touching[body].add(name)
    ready = [body for body in touching if len(touching[body]) == 1]
    gone: set[str] = set()
    while ready:
        body = ready.pop()
        for name in touching.pop(body, set()):
            gone.add(name)
            for other in terms[name]:
                if other in touching:
                    touching[other].discard(name)
                    if len(touching[other]) == 1:
                        ready.append(other)
    ring = {body for body, names in touching.items() if names}
    return [i for i, r in enumerate(system.rows) if (r.owner in ring if r.inner else r.owner in terms and r.owner not in gone)]


def _dense(system: Assembled, q: Array, rows: list[int]) -> Array:
    """The slopes of some constraints by those velocities that they have, in rows of unit length."""
    G = system.value("jacobian", system.pack(), q=q).sparse().tocsr()[rows]
    used = np.unique(G.indices) if G.nnz else np.zeros(0, dtype=int)
    dense = np.asarray(G[:, used].toarray())
    length = np.linalg.norm(dense, axis=1, keepdims=True)
    return dense / np.where(length > ZERO, length, 1.0)


def _singular(G: Array) -> tuple[Array, Array]:
    left, values, _ = np.linalg.svd(G, full_matrices=True)
    return np.concatenate([values, np.zeros(len(G) - len(values))]), left


def _rank_nearby(system: Assembled, at: Constraints, q: Array, rows: list[int]) -> int | None:
    """The rank at poses next to this one; None where there is no such pose."""
    return max((int((_singular(_dense(system, near, rows))[0] > ZERO).sum()) for near in _nearby(at, q)), default=None)


def _nearby(at: Constraints, q: Array) -> list[Array]:
    """Up to two poses next to this one, on the constraints."""
    rng, out = np.random.default_rng(5), []
    full = at.scaled(q)[1].toarray()
    _, values, right = np.linalg.svd(full)
    free = right[int((values > ZERO).sum()) :]
    for _ in range(2):
        step = free.T @ rng.normal(size=len(free))
        near, left = at.solve(q + AWAY * step / max(float(np.linalg.norm(step)), 1e-300) / np.sqrt(at.weights))
        if left < 1e-12:
            out.append(near)
    return out


def _chosen(system: Assembled, rows: list[int], G: Array, rank: int) -> set[int]:
    """Independent rows: those of bodies first, then the ones of joints that are furthest from depending on others."""
    inner = [k for k, i in enumerate(rows) if system.rows[i].inner]
    outer = [k for k, i in enumerate(rows) if not system.rows[i].inner]
    basis = np.linalg.qr(G[inner].T)[0] if inner else np.zeros((G.shape[1], 0))
    rest = G[outer] - (G[outer] @ basis) @ basis.T
    order = qr(rest.T, mode="r", pivoting=True)[1]
    return {rows[k] for k in inner} | {rows[outer[k]] for k in order[: rank - len(inner)]}
