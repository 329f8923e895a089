"""What sweeps evaluate at their stages, as functions of one stage; methods/sweeping.py has the equations."""

from __future__ import annotations

import casadi as ca

from dalembert.engine import elimination
from dalembert.methods.sweeping import Sweep
from dalembert.systems.instructions import jacobian

SX = ca.SX


def rates(sweep: Sweep) -> ca.Function:
    """(q, v, a, r, t, u, par) -> multipliers for which `G M^-1` times the rates is `G M^-1 a - r`, these rates, and `M(q)`.

    Of accelerations `M^-1` is left out.
    """
    q, v, lam, t, u, par = (SX.sym(sweep.rate.name_in(i), sweep.rate.size1_in(i)) for i in range(6))
    r, a = SX.sym("r", lam.numel()), SX.sym("a", q.numel())
    free = sweep.rate(q, v, SX.zeros(lam.numel()), t, u, par)
    G = jacobian(sweep.position(q, t, par), q)
    found = _solved(sweep, q, v, t, u, par, G @ _speeds(sweep, q, free - a, par) + r)
    M = SX(0, 1) if sweep.masses is None else sweep.masses.matrix(q, par).nz[:]
    return ca.Function("rates", [q, v, a, r, t, u, par], [found, sweep.rate(q, v, found, t, u, par), M])


def _speeds(sweep: Sweep, q: SX, p: SX, par: SX) -> SX:
    """`M^-1 p`, column by column, with masses `M(q)`; else what is given."""
    if sweep.masses is None or not p.numel():
        return p
    return _divided(sweep.masses.matrix(q, par), p)


def _divided(M: SX, p: SX) -> SX:
    order = elimination.structural_order(M.sparsity(), (0,) * M.size1())
    return ca.horzcat(*(elimination.solve(M, column, order) for column in ca.horzsplit(ca.densify(p))))


def _solved(sweep: Sweep, q: SX, v: SX, t: SX, u: SX, par: SX, r: SX) -> SX:
    """`(G M^-1 G^T)^-1 r`."""
    m = r.numel()
    if not m:
        return SX(0, 1)
    lam = SX.sym("lam", m)
    reaction = jacobian(sweep.rate(q, v, lam, t, u, par), lam)
    schur = -jacobian(sweep.position(q, t, par), q) @ _speeds(sweep, q, reaction, par)
    return elimination.solve(schur, r, elimination.structural_order(schur.sparsity(), (0,) * m))


def ended(sweep: Sweep) -> ca.Function:
    """(q1, V, p, t, u, par, weight) -> multipliers, velocities (or momenta) and rates at the end.

    `p` is the velocity or momentum without the last stage, `V` the velocity that its force depends on, `weight` is `h b_s`.
    """
    q, p, lam, t, u, par = (SX.sym(sweep.rate.name_in(i), sweep.rate.size1_in(i)) for i in range(6))
    V, weight = SX.sym("V", p.numel()), SX.sym("weight")
    free = p + weight * sweep.rate(q, V, SX.zeros(lam.numel()), t, u, par)
    found = _solved(sweep, q, V, t, u, par, sweep.velocity(q, _speeds(sweep, q, free, par), t, par)) / weight
    rate = sweep.rate(q, V, found, t, u, par)
    return ca.Function("ended", [q, V, p, t, u, par, weight], [found, p + weight * rate, rate])


def velocities(sweep: Sweep) -> ca.Function:
    """(q, p, par) -> `M(q)^-1 p`."""
    assert sweep.masses is not None
    q, p, par = (SX.sym(name, sweep.masses.momentum.size1_in(i)) for i, name in enumerate(("q", "p", "par")))
    return ca.Function("velocities", [q, p, par], [ca.densify(_speeds(sweep, q, p, par))])


def quotients(sweep: Sweep) -> ca.Function:
    """(entries of M, p) -> `M^-1 p`."""
    assert sweep.masses is not None
    pattern = sweep.masses.matrix.sparsity_out(0)
    entries, p = SX.sym("M", pattern.nnz()), SX.sym("p", pattern.size1())
    return ca.Function("quotients", [entries, p], [ca.densify(_divided(SX(pattern, entries), p))])
