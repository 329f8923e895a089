"""Velocities that are no derivatives of coordinates: `q' = Z(q) v`, with `T = v^T M(q) v / 2`.

The columns `Z_k` of `Z` are vector fields. Where the commutator of any two is in their span,

    [Z_j, Z_k] = (Z_k)_q Z_j - (Z_j)_q Z_k = sum_l c^l_jk Z_l,

the equations of motion in `v` and `mu = M v` are those of Hamel (1904), Boltzmann (1902) and, for groups, of Euler and Poincare:

    mu_k' = Z_k . (T - V)_q + sum_jl c^l_jk v_j mu_l + f_k.

The second term is gyroscopic: it does no work. Of angular velocities in the axes of a body it is `mu x omega`, whatever `Z` is
made of.
"""

from __future__ import annotations

import casadi as ca
import numpy as np
from casadi import SX
from numpy.typing import NDArray

from dalembert.errors import ModelError
from dalembert.systems.form import inverse_by_blocks

Array = NDArray[np.float64]
CLOSED = 1e-9  # relative to the commutators: how far out of the span of Z they may be by rounding


def commutator(Z: SX, q: SX, v: SX) -> SX:
    """`[Z v, Z_k]` for a constant `v`, a column for each `k`."""
    rate = Z @ v
    return ca.jtimes(Z, q, rate) - ca.jacobian(rate, q) @ Z


def left_inverse(Z: SX) -> SX:
    """`Z^+ = (Z^T Z)^-1 Z^T`: the velocities of a motion, `v = Z^+ q'`."""
    square = Z.T @ Z
    inverse = inverse_by_blocks(square, SX(0, 1))
    return inverse @ Z.T if inverse is not None else ca.solve(square, Z.T)


def structure(Z: SX, q: SX, v: SX, par: SX, at: Array, values: Array) -> SX:
    """The matrix `C` with `[Z v, Z_k] = Z C_k`, numbers times `v` where it does not depend on `q`.

    `at` are positions at which it is checked that the commutators are in the span of `Z`.
    """
    W = commutator(Z, q, v)
    if not ca.sparsify(W).nnz():
        return SX(v.numel(), v.numel())
    C = ca.sparsify(left_inverse(Z) @ W)
    f = ca.Function("f", [q, v, par], [ca.densify(W - Z @ C), ca.densify(W), ca.densify(ca.fabs(Z) @ ca.fabs(C))])
    rng = np.random.default_rng(0)
    for row in at:
        out, size, terms = (np.abs(m.full()) for m in f(row, rng.normal(size=v.numel()), values))
        if np.isfinite(out).all() and out.max() > CLOSED * max(size.max(), terms.max()):
            raise ModelError(
                f"the commutators of the columns of kinematics are not in their span (by {out.max():.1e} of {size.max():.1e}): "
                "q is then not bound to a surface, and gyroscopic terms do not follow from the mass of v alone. Give them "
                "as force, with gyroscopic=False; or give all velocities and a nonholonomic constraint"
            )
    return C if ca.depends_on(Z, par) else _constant(C, q, v, par, at, values)


def _constant(C: SX, q: SX, v: SX, par: SX, at: Array, values: Array) -> SX:
    """`C` with numbers for its coefficients, where these are the same everywhere: those of a group."""
    flat, units = ca.vec(ca.densify(C)), ca.horzsplit(SX.eye(v.numel()))
    slope = ca.sparsify(ca.horzcat(*(ca.substitute(flat, v, ca.densify(unit)) for unit in units)))  # it is linear in v
    f = ca.Function("f", [q, par], [slope])
    found = [np.array(f(row, values).nonzeros()) for row in at]
    good = [x for x in found if np.isfinite(x).all()]
    if not good or max(np.abs(x - good[0]).max(initial=0) for x in good) > 1e-10 * max(1.0, np.abs(good[0]).max(initial=0)):
        return C
    numbers = ca.sparsify(ca.DM(slope.sparsity(), np.round(good[0], 12)))
    return ca.sparsify(ca.reshape(SX(numbers) @ v, *C.shape))


def gyroscopic(Z: SX, M: SX, q: SX, v: SX, par: SX, at: Array, values: Array) -> SX:
    """`sum_jl c^l_jk v_j (M v)_l`, the force that comes with the velocities `v`."""
    return ca.densify(structure(Z, q, v, par, at, values).T @ (M @ v))
