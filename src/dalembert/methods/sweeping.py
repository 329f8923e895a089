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

    `rate(q, v, lam, t, u, par)` are accelerations, `position(q, t, par)` and `velocity(q, v, t, par)` the constraints.
    """

    c: Array  # times of the accelerations
    ends: Array  # times of the positions Q
    K: Array
    B: Array
    b: Array  # weights of the accelerations at the end, for the velocity
    bK: Array  # and for the position
    last: tuple[float, Array] | None  # the weight of the last stage, and what leads to its velocity: Jay's pair
    rate: ca.Function
    position: ca.Function
    velocity: ca.Function
    unknowns: Mapping[tuple[str, int], SX]
    moving: bool  # whether accelerations depend on velocities


def sweep(form: Form, scheme: Scheme, unknowns: Mapping[tuple[str, int], SX]) -> Sweep | None:
    """The sweeps of a scheme on a form; None where its stages are not of this kind."""
    if isinstance(form.t, ca.MX):  # of vectors: their stages are too many to be written out
        return None
    inverse = form.inverse("v") if "v" in form.y and "v" in form.inertia else None
    plain = set(form.y) == {"q", "v"} and not (form.w.numel() or form.mu.numel() or form.basis is not None)
    if not plain or inverse is None or len(form.parts) != 2 or scheme.multipliers is not None or scheme.carried or scheme.nodes:
        return None
    moved = form.parts[0].get("q", SX(0, 1))
    if moved.shape != form.y["v"].shape or not ca.is_equal(moved, form.y["v"], 1) or set(form.state) != {"q", "v"}:
        return None
    if form.levels and ca.depends_on(form.slopes.get("v", {}).get("lam", SX(0, 0)), form.lam):  # friction is not linear in them
        return None
    first, second, s = scheme.table(0), scheme.table(1), scheme.stages
    paired = not first.A[0].any() and np.abs(first.A[-1] - first.b).max() < TOLERANCE and not second.A[:, -1].any()
    if form.levels and not (paired and _held(scheme)):
        return None
    count = s - 1 if paired else s
    rows = slice(1, s) if paired else slice(0, s)
    K = (first.A @ second.A)[rows, :count]
    if count < 2 or np.linalg.matrix_rank(K) < count:
        return None
    arguments = [form.y["q"], form.y["v"], form.lam, form.t, form.u, form.par]
    rate = inverse @ form.total("v")
    place = [form.y["q"], form.t, form.par]
    none = SX(0, 1)
    position, velocity = (ca.densify(form.levels.get(level, none)) for level in ("position", "velocity"))
    return Sweep(
        c=second.c[:count],
        ends=first.c[rows],
        K=K,
        B=second.A[:count, :count],
        b=second.b[:count],
        bK=(first.b @ second.A)[:count],
        last=(float(second.b[-1]), second.A[-1, :count]) if paired else None,
        rate=ca.Function("rate", arguments, [ca.densify(rate)]),
        position=ca.Function("position", place, [position]),
        velocity=ca.Function("velocity", [form.y["q"], form.y["v"], *place[1:]], [velocity]),
        unknowns=unknowns,
        moving=bool(ca.depends_on(rate, form.y["v"])),
    )


def _held(scheme: Scheme) -> bool:
    """Whether positions satisfy their constraints at all stages but the first, and velocities at the end."""
    s = scheme.stages
    wanted = {"position": np.eye(s + 1)[1:s], "velocity": np.eye(s + 1)[s:]}
    return set(scheme.rows) == set(wanted) and all(np.array_equal(scheme.rows[k], R) for k, R in wanted.items())
