"""Every fact that a method of the register declares, on the form of the system that the user gave."""

import casadi as ca
import numpy as np
import pytest

import dalembert as da
from conftest import STEPPING, angle_pendulum, assert_order, can, consistent_start, driven_pendulum, polar_rod, some
from dalembert.methods import DiracDissipative, DiscreteGradient, EnergyMomentum, McLachlanPerlmutter, Variational
from dalembert.methods.base import find

FREE = {"angles": angle_pendulum, "polar": polar_rod, "double pendulum": da.catalog.double_pendulum}
DRIVEN = {
    "driven": driven_pendulum,
    "driven, Hamiltonian": lambda: driven_pendulum().to_hamiltonian(),
    "sleigh": da.catalog.chaplygin_sleigh,
    "synchronous machine": da.catalog.synchronous_machine,
    "ladder": da.catalog.rlc_ladder,
    "springs": da.catalog.singular_mass_springs,
    "wind": da.catalog.windy_pendulum,
    "carts": da.catalog.three_carts,
}
CONSTRAINED = {"polar": polar_rod, "double pendulum": da.catalog.double_pendulum, "driven": driven_pendulum}
START = {"double pendulum": {"q": [0.8, -0.6, 0.3, -1.5], "v": [0.5, 0.3, -1.0, 0.2]}}


def pairs(systems, fact):
    made = {name: make() for name, make in systems.items()}
    return [(name, m) for name, system in made.items() for m in STEPPING if getattr(find(m), fact) and can(m, system)]


def start(name, system):
    return consistent_start(system, **START.get(name, {}))


def defect(system, method, values):
    """How far `S^T Omega S` is from `Omega` on the tangent space of both constraint levels, `S` the map of `(q, p)`."""
    n, q, v, par = system.n, values["q"], values["v"], system.pack()
    run = da.sensitivity(system, method, q=q, v=v, t_end=0.2, step=0.02)
    own, both = [system.q, system.v, system.par], ca.vertcat(system.q, system.v)
    momenta = ca.Function("T", own, [ca.jacobian(ca.vertcat(system.q, system.role("momentum")), both)])
    begin, end = momenta(q, v, par).full(), momenta(run.solution.q[-1], run.solution.v[-1], par).full()
    S = end @ np.block([[run.jacobian(a, b) for b in "qv"] for a in "qv"]) @ np.linalg.inv(begin)
    B = np.eye(2 * n)
    if system.m:
        levels = ca.vertcat(system.expression("holonomic"), system.role("drift"))
        slope = ca.Function("C", own, [ca.jacobian(levels, both)])(q, v, par).full()
        B = begin @ np.linalg.svd(slope)[2][2 * system.m :].T
    Omega = np.block([[np.zeros((n, n)), np.eye(n)], [-np.eye(n), np.zeros((n, n))]])
    return np.abs(B.T @ (S.T @ Omega @ S - Omega) @ B).max() / max(1.0, np.abs(S).max() ** 2)


@pytest.mark.parametrize(("name", "method"), pairs(FREE, "symplectic"))
def test_symplectic(name, method):
    system = FREE[name]()
    assert defect(system, method, start(name, system)) < 1e-12


def test_others_are_not_symplectic():
    """The test above can fail."""
    system = angle_pendulum()
    for method in ("energy-momentum", "energy-momentum-ggl", "mclachlan-perlmutter", "radau-iia"):
        assert defect(system, method, system.initial) > 1e-11
    system = da.catalog.double_pendulum()
    assert defect(system, "midpoint", start("double pendulum", system)) > 1e-7


def take(step, state, t, h, u, par):
    """One step by Newton's method with the whole Jacobian, and the state at its end."""
    common = [*step.state.values(), step.t, step.h, ca.vec(step.u), step.par]
    values, known, found = [*state, t, h, u, par], [], []
    for solve in step.solves:
        f = ca.Function("f", [*common, *known, solve.unknowns], [solve.residual, ca.jacobian(solve.residual, solve.unknowns)])
        first = ca.Function("g", [*common, *known, solve.last, solve.before], [solve.guess])
        zero = ca.SX.zeros(solve.unknowns.numel())
        start = zero if solve.start is None else solve.start
        begin = ca.Function("s", [*common, step.known], [start])(*values, np.zeros(step.known.numel()))
        x = first(*values, *found, begin, begin).full().ravel()
        for _ in range(12):
            r, J = f(*values, *found, x)
            x = x - np.linalg.solve(J.full(), r.full().ravel())
        known.append(solve.unknowns)
        found.append(x)
    end = ca.Function("e", [*common, *known], list(step.next.values()))
    return [e.full().ravel() for e in end.call([*values, *found])]


@pytest.mark.parametrize(("name", "method"), some(pairs({**FREE, **DRIVEN}, "symmetric"), of=2))
def test_symmetric(name, method):
    """A step with -h undoes a step with h; of the algebraic states of a port-Hamiltonian system no more than E x is known."""
    system = {**FREE, **DRIVEN}[name]()
    step, values = find(method).step(system), start(name, system)
    state = [np.asarray(values[k]) if k in values else np.zeros(x.numel()) for k, x in step.state.items()]
    u, par, h = np.full(step.u.numel(), 0.1), system.pack(), 0.02
    there = take(step, state, 0.0, h, u, par)
    back = take(step, there, h, -h, u, par)
    for k, a, b, c in zip(step.state, state, there, back, strict=True):
        if k == "carry":
            continue
        E = system.at("E", a) if isinstance(system, da.PortHamiltonian) else np.eye(len(a))
        assert np.abs(E @ (b - a)).max() > 1e-6
        assert np.abs(E @ (c - a)).max() < 1e-12 * max(1.0, np.abs(a).max())


@pytest.mark.parametrize(("name", "method"), some(pairs(CONSTRAINED, "exact_levels"), 2, 1))
def test_exact_levels(name, method):
    system = CONSTRAINED[name]()
    sol = da.simulate(system, method, **start(name, system), t_end=1.0, step=0.02, u=[0.1] if system.nu else None)
    for level in find(method).exact_levels:
        assert np.abs(sol.residual(level)).max() < 5e-14, level


@pytest.mark.parametrize("method", [m for m in STEPPING if can(m, da.catalog.double_pendulum())])
def test_alternates(method):
    """`G v` jumps to and fro from step to step, or it does not."""
    system = da.catalog.double_pendulum()
    sol = da.simulate(system, method, **start("double pendulum", system), t_end=0.2, step=0.01)
    drift = sol.residual("velocity")
    one, two = (np.abs(drift[k:] - drift[:-k]).max() for k in (1, 2))
    assert find(method).alternates == (one > 1e-10 and two < 0.5 * one)


ORDERS = [
    (angle_pendulum, EnergyMomentum(gradient="itoh-abe")),
    (angle_pendulum, da.methods.EnergyMomentumGGL(gradient="itoh-abe")),
    (angle_pendulum, Variational(lagrangian="left")),
    (angle_pendulum, McLachlanPerlmutter(lagrangian="left")),
    (da.catalog.chaplygin_sleigh, Variational(constraint="left")),
    *((da.catalog.synchronous_machine, DiscreteGradient(at=at)) for at in ("midpoint", "left", "right")),
    (da.catalog.synchronous_machine, DiscreteGradient(gradient="itoh-abe")),
    (da.catalog.synchronous_machine, DiracDissipative()),
    (angle_pendulum, EnergyMomentum(gradient="mean-value")),
    (angle_pendulum, Variational(lagrangian="midpoint")),
]


@pytest.mark.parametrize(("make", "method"), ORDERS, ids=lambda x: getattr(x, "__name__", str(x)))
def test_order_by_options(make, method):
    """Where an option takes the symmetry away, the order is one; elsewhere two."""
    system = make()
    values = consistent_start(system, **({"q": [1.0, 0.0, 0.3], "v": [0.5, 0.2, 0.7]} if system.m else {}))
    truth = da.simulate(system, "radau-iia-4", **values, t_end=0.4, step=0.005)
    counts = np.array([20, 40, 80]) if method.symmetric else np.array([160, 320, 640])
    errors = [np.abs(da.simulate(system, method, **values, t_end=0.4, step=0.4 / n).x[-1] - truth.x[-1]).max() for n in counts]
    assert method.order[0] == (2 if method.symmetric else 1)
    assert_order(errors, 0.4 / counts, method.order[0])


@pytest.mark.parametrize("method", ["discrete-gradient", "ddr", "gradient-pair"])
def test_multipliers_of_index_two_are_of_order_one(method):
    """In the state of a port-Hamiltonian system, where their means are of order two."""
    system = da.catalog.double_pendulum()
    values = start("double pendulum", system)
    truth = da.simulate(system, "radau-iia-4", **values, t_end=0.2, step=0.002)
    ports = system.to_port_hamiltonian()
    begin = da.consistent(ports, x=np.concatenate([values["q"], values["v"], np.zeros(2)]))
    counts, errors = np.array([20, 40, 80]), []
    for n in counts:
        sol = da.simulate(ports, method, **begin, t_end=0.2, step=0.2 / n)
        at = np.array([np.interp(sol.t_lam[-1], truth.t_lam, c) for c in truth.lam.T])
        errors.append([np.abs(sol.x[-1, :8] - truth.x[-1]).max(), np.abs(sol.costates[-1, 8:] - at).max()])
    assert find(method).order == (2, 2, 1)
    assert_order([e[0] for e in errors], 0.2 / counts, 2, told="state")
    assert_order([e[1] for e in errors], 0.2 / counts, 1, told="lam")
