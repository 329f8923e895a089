"""The code of CONTRIBUTING.md runs, and is what the text says it is."""

import re
from pathlib import Path

import casadi as ca
import numpy as np
import pytest

import dalembert as da
from conftest import angle_pendulum, assert_order, driven_pendulum, polar_rod
from dalembert.methods.base import REGISTER, find, obstacles

TEXT = (Path(__file__).parent.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")
NEW = ("lobatto-iiie", "srk-lobatto-iiid", "rosenbrock")


@pytest.fixture(scope="module", autouse=True)
def _contributed():
    """The methods of the text, in the register while this module is tested."""
    assert not set(NEW) & set(REGISTER)
    space = {"__name__": "contributed"}
    try:
        for code in re.findall(r"```python\n(.*?)```", TEXT, flags=re.S):
            exec(code, space)
        assert set(NEW) <= set(REGISTER)
        yield
    finally:
        for name in NEW:
            REGISTER.pop(name, None)


def free_oscillator():
    """Driven, damped and nonlinear, with a constant mass matrix and no constraints."""
    return da.Mechanical(
        ("x", "y"),
        mass=[[2.0, 0.3], [0.3, 1.0]],
        potential=lambda q: q[0] ** 2 + q[1] ** 4 / 4 + q[0] * q[1] / 2,
        force=lambda q, v, t: [np.cos(2 * t), 0.2 * q[0] * v[1]],
        dissipation=lambda q: 0.1 + q[0] ** 2,
        inputs=[[1.0], [0.5]],
        initial={"q": [0.7, -0.4], "v": [0.3, 0.8]},
    )


def measure(system, method, counts, t_end, truth="gauss-5", **options):
    """The order that the method states, in each part of the state, by slopes."""
    runs = {n: da.simulate(system, method, t_end=t_end, step=t_end / n, compile=False, **options) for n in counts}
    exact = da.simulate(system, truth, t_end=t_end, step=t_end / (2 * counts[-1]), compile=False, **options)
    for part in system.state:
        errors = [np.abs(run.parts[part][-1] - exact.parts[part][-1]).max() for run in runs.values()]
        assert_order(errors, t_end / np.array(counts), find(method).order[0], told=f"{method}, {part}:")


def symplectic_defect(system, method):
    """`S^T J S - J` in `(q, p)` for two steps `S` of a free system that is given in `(q, v)`, with `p = M(q) v`."""
    run = da.sensitivity(system, method, t_end=0.1, step=0.05)
    x, n = ca.vertcat(system.q, system.v), system.n
    to_momenta = ca.Function("f", [x, system.par], [ca.jacobian(ca.vertcat(system.q, system.role("momentum")), x)])
    first, last = (to_momenta(run.solution.x[i], system.pack()).full() for i in (0, -1))
    S = last @ np.block([[run.jacobian(a, b) for b in "qv"] for a in "qv"]) @ np.linalg.inv(first)
    J = np.block([[np.zeros((n, n)), np.eye(n)], [-np.eye(n), np.zeros((n, n))]])
    return np.abs(S.T @ J @ S - J).max()


@pytest.mark.parametrize("stages", [2, 3, 4])
def test_lobatto_iiie_has_the_order_of_its_scheme(stages):
    assert find(f"lobatto-iiie-{stages}").scheme.free_order == 2 * stages - 2
    counts = {2: (20, 40, 80, 160), 3: (10, 20, 40, 80), 4: (16, 20, 28, 40)}[stages]
    measure(angle_pendulum(), f"lobatto-iiie-{stages}", counts, 0.8)
    measure(free_oscillator(), f"lobatto-iiie-{stages}", counts, 2.0, u=lambda t: [np.sin(3 * t)])


@pytest.mark.parametrize("stages", [2, 3, 4])
def test_lobatto_iiie_is_symmetric_and_symplectic_by_computation_and_by_measurement(stages):
    name, system = f"lobatto-iiie-{stages}", angle_pendulum()
    scheme = find(name).scheme
    assert scheme.symmetric
    assert scheme.symplectic
    assert find(name).symmetric
    assert find(name).symplectic
    assert symplectic_defect(system, name) < 1e-12
    there = da.simulate(system, name, t_end=1.0, step=0.05)
    back = da.simulate(system, name, q=there.q[-1], v=-there.v[-1], t_end=1.0, step=0.05)
    np.testing.assert_allclose(back.q[-1], there.q[0], atol=1e-12)
    np.testing.assert_allclose(-back.v[-1], there.v[0], atol=1e-12)


def test_the_measurement_of_the_symplectic_defect_can_fail():
    assert not find("radau-iia-2").scheme.symplectic
    assert symplectic_defect(angle_pendulum(), "radau-iia-2") > 1e-6


def test_lobatto_iiie_runs_on_every_kind_and_refuses_constraints():
    for system in (
        da.catalog.harmonic_oscillator().to_hamiltonian(),
        da.catalog.synchronous_machine(),
        da.catalog.double_pendulum().to_dae("index1"),
    ):
        assert not obstacles(find("lobatto-iiie"), system), system
        assert da.simulate(system, "lobatto-iiie-3", t_end=0.1, step=0.01).stats["steps"] == 10
    with pytest.raises(da.MethodError, match=r"the constraints of .*; use .*lobatto-pair"):
        da.simulate(polar_rod(), "lobatto-iiie", t_end=1.0, step=0.1)


def test_facts_of_the_entry_with_constraint_rows():
    method = find("srk-lobatto-iiid")
    assert method.order == (2, 2, 2)
    assert method.symmetric
    assert not method.symplectic
    assert method.exact_levels == ("velocity",)


@pytest.mark.parametrize("compile", [True, False])
def test_the_entry_with_constraint_rows_keeps_what_it_says(compile):
    system = da.catalog.contact_oscillator()
    there = da.simulate(system, "srk-lobatto-iiid", t_end=2.0, step=0.1, compile=compile)
    assert np.abs(there.residual("velocity")).max() < 1e-14
    back = da.simulate(system, "srk-lobatto-iiid", q=there.q[-1], v=-there.v[-1], t_end=2.0, step=0.1, compile=compile)
    np.testing.assert_allclose(back.q[-1], there.q[0], atol=1e-13)
    np.testing.assert_allclose(-back.v[-1], there.v[0], atol=1e-13)


@pytest.mark.parametrize("make", [polar_rod, da.catalog.contact_oscillator], ids=lambda f: f.__name__)
def test_the_entry_with_constraint_rows_has_its_order(make):
    measure(make(), "srk-lobatto-iiid", (20, 40, 80, 160), 1.0, truth="srk-gauss-4")


def test_the_step_of_the_text_has_its_order_and_refuses_what_it_lacks():
    measure(free_oscillator(), "rosenbrock", (20, 40, 80, 160), 2.0, u=lambda t: [np.sin(3 * t)])
    measure(da.catalog.harmonic_oscillator().to_hamiltonian(), "rosenbrock", (20, 40, 80, 160), 2.0)
    for other, why in ((driven_pendulum(), "the constraints"), (angle_pendulum(), "the mass matrix")):
        with pytest.raises(da.MethodError, match=why):
            da.simulate(other, "rosenbrock", t_end=1.0, step=0.1)


def test_the_entries_are_listed_with_computed_facts():
    listed = {row.name: row for row in da.list_methods()}
    assert listed["lobatto-iiie-3"].order == (4, 4, 4)
    assert listed["lobatto-iiie-3"].symplectic
    assert listed["srk-lobatto-iiid"].symmetric
    assert not listed["rosenbrock"].symmetric
