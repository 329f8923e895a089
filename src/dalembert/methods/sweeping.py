"""Stage equations that can be solved by sweeps over all stages at once, without the matrix of Newton's iteration.

For smooth systems with constant masses, of second order in the positions,

    a_e = M^-1 (f(P_e, V_e) - G(P_e)^T lam_e),     Q = q0 + h c v0 + h^2 K a,     V = v0 + h B a,     g(Q) = 0

with `K` the product of the two tableaus. A sweep computes `Q` and `V` from the last `a`, and new accelerations at the points `P`,
with the multipliers for which

    G a_new = G a - (K^-1 g(Q)) / h^2,     lam = (G M^-1 G^T)^-1 (G M^-1 f - G a + (K^-1 g(Q)) / h^2)

so that the change of `a` takes back what is violated, whatever the forces change by. What one stage does to another is an
integral over the step, so that the error shrinks faster and faster (the iteration is that of Picard and Lindeloef). In Jay's pair
the multiplier of stage `e` makes the position of stage `e + 1` satisfy its constraint, and that of the last one the velocity at
the end.

With masses `M(q)` a sweep has the rates of momenta in place of accelerations, and velocities of its own,

    k_e = f(Q_e, V_e) - G(Q_e)^T lam_e,     P = p0 + h B k,     V_e = M(Q_e)^-1 P_e,     Q = q0 + h A V,     g(Q) = 0

where `V` is found with the last `Q`, and the multipliers are those for which `G M^-1 k_new = G M^-1 k - (K^-1 g(Q)) / h^2`: the
same equations but for terms of the order of `h`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import casadi as ca
import numpy as np
from casadi import SX

from dalembert.methods.scheme import Scheme
from dalembert.methods.tableaus import TOLERANCE
from dalembert.systems.form import Form

Array = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


@dataclass(frozen=True, eq=False)
class Sweep:
    """The data of a sweep: see the module. Stages `e` are those whose accelerations move the step, `Q` those with constraints.

    `rate(q, v, lam, t, u, par)` are accelerations, or rates of momenta; `position(q, t, par)` and `velocity(q, v, t, par)` are
    the constraints. With masses `M(q)`, both kinds of stages are all stages, and the multiplier of stage `e` still belongs to the
    position of stage `e + 1`.
    """

    c: Array  # times of the accelerations
    ends: Array  # times of the positions Q
    K: Array
    B: Array
    b: Array  # weights of the accelerations at the end, for the velocity; without `last`
    bK: Array  # and for the position
    last: tuple[float, Array] | None  # the weight of the last stage, and what leads to its velocity: Jay's pair
    rate: ca.Function
    position: ca.Function
    velocity: ca.Function
    unknowns: Mapping[tuple[str, int], SX]
    moving: bool  # whether accelerations depend on velocities
    masses: Masses | None = None

    @property
    def held(self) -> int:
        """How many stages have multipliers of their own."""
        return len(self.K)


@dataclass(frozen=True, eq=False)
class Masses:
    """What masses `M(q)` add: `A` leads from velocities to positions; `matrix(q, par)` is `M`, `momentum(q, v, par)` is `M v`."""

    A: Array
    matrix: ca.Function
    momentum: ca.Function


def sweep(form: Form, scheme: Scheme, unknowns: Mapping[tuple[str, int], SX]) -> Sweep | None:
    """The sweeps of a scheme on a form; None where its stages are not of this kind."""
    if isinstance(form.t, ca.MX):  # of vectors: their stages are too many to be written out
        return None
    masses, second = _masses(form), "p" if form.w.numel() else "v"
    inverse = form.inverse("v") if "v" in form.y and "v" in form.inertia else None
    plain = set(form.y) == {"q", second} and not form.mu.numel() and form.basis is None and set(form.state) == {"q", "v"}
    if not plain or (inverse is None and masses is None):
        return None
    if len(form.parts) != 2 or scheme.multipliers is not None or scheme.carried or scheme.nodes:
        return None
    velocity, moved = form.w if masses is not None else form.y["v"], form.parts[0].get("q", SX(0, 1))
    if moved.shape != velocity.shape or not ca.is_equal(moved, velocity, 1):
        return None
    if form.levels and ca.depends_on(
        form.slopes.get(second, {}).get("lam", SX(0, 0)), form.lam
    ):  # friction is not linear in them
        return None
    one, two, s = scheme.table(0), scheme.table(1), scheme.stages
    paired = not one.A[0].any() and np.abs(one.A[-1] - one.b).max() < TOLERANCE and not two.A[:, -1].any()
    if form.levels and not (paired and _held(scheme)):
        return None
    count = s - 1 if paired else s
    rows = slice(1, s) if paired else slice(0, s)
    K = (one.A @ two.A)[rows, :count]
    if count < 2 or np.linalg.matrix_rank(K) < count:
        return None
    own, ends = (slice(0, s), slice(0, s)) if masses is not None else (slice(0, count), rows)
    rate = form.total(second) if inverse is None else inverse @ form.total(second)
    place, none = [form.y["q"], form.t, form.par], SX(0, 1)
    position, held = (ca.densify(form.levels.get(level, none)) for level in ("position", "velocity"))
    return Sweep(
        c=two.c[own],
        ends=one.c[ends],
        K=K,
        B=two.A[own, own],
        b=np.where(np.arange(s) < count, two.b, 0.0)[own],
        bK=(one.b @ two.A)[own],
        last=(float(two.b[-1]), two.A[-1, own]) if paired else None,
        rate=ca.Function("rate", [form.y["q"], velocity, form.lam, form.t, form.u, form.par], [ca.densify(rate)]),
        position=ca.Function("position", place, [position]),
        velocity=ca.Function("velocity", [form.y["q"], velocity, *place[1:]], [held]),
        unknowns=unknowns,
        moving=bool(ca.depends_on(rate, velocity)),
        masses=None if masses is None else Masses(one.A, *masses),
    )


def _masses(form: Form) -> tuple[ca.Function, ca.Function] | None:
    """`M(q)` and `M(q) v` of a form with the relation `p = M(q) v`; None where there is none."""
    if not form.w.numel() or "p" not in form.y or form.relation.numel() != form.w.numel():
        return None
    M, momenta = -ca.jacobian(form.relation, form.w), ca.jacobian(form.relation, form.y["p"])
    if ca.depends_on(M, ca.vertcat(form.w, form.y["p"], form.t)) or not ca.is_equal(momenta, SX.eye(form.w.numel())):
        return None
    own = [form.y["q"], form.par]
    return ca.Function("mass", own, [M]), ca.Function("momentum", [own[0], form.w, own[1]], [ca.densify(M @ form.w)])


def _held(scheme: Scheme) -> bool:
    """Whether positions satisfy their constraints at all stages but the first, and velocities at the end."""
    s = scheme.stages
    wanted = {"position": np.eye(s + 1)[1:s], "velocity": np.eye(s + 1)[s:]}
    return set(scheme.rows) == set(wanted) and all(np.array_equal(scheme.rows[k], R) for k, R in wanted.items())
