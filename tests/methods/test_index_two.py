"""Semi-explicit systems of index 1, 2 and 3: orders, and mechanics in these forms."""

import numpy as np
import pytest

import dalembert as da
from conftest import assert_order, can, classical_order, driven_pendulum, polar_rod, with_stages
from dalembert.experiments.index_two import COUNTS, problem
from dalembert.methods.base import find


def errors(number, method, counts):
    y, z = np.array([np.e, np.e**-2]), np.e**2
    runs = [da.simulate(problem(number), method, t_end=1.0, step=1 / n, compile=False) for n in counts]
    return [np.linalg.norm(x.y[-1] - y) for x in runs], [abs(x.z[-1, 0] - z) for x in runs], runs


def measured(number, method, counts, order):
    """Runs whose orders in y and z are as given."""
    in_y, in_z, runs = errors(number, method, counts)
    assert_order(in_y, 1 / np.array(counts), order, 1e-14, "y")
    assert_order(in_z, 1 / np.array(counts), order, 4e-14, "z")
    return runs


# srk-gauss-4 is at round-off for every step at which its equations have just one solution nearby, and srk-radau-ia-4 before
# its error falls with the order: 6.4 at an error of 1e-12
LEFT_OUT = ("srk-gauss-4", "srk-radau-ia-4")
WHOLE = [m for m in with_stages(4) if can(m, problem(28)) and m not in LEFT_OUT]
FEW = {7: (9, 11, 13, 15), 8: (8, 9, 10, 11)}  # steps at which high orders stand clear of round-off
PARTS = {"spark-2": (64, 91, 128, 182), "spark-3": (32, 45, 64, 91), "spark-4": (16, 23, 32, 45)}


@pytest.mark.parametrize("method", WHOLE)
def test_orders_at_index_two(method):
    """Hilden 2009, table 2.1, of the classical methods; the specialized ones regain their order and keep the constraint."""
    order = find(method).order[0]
    runs = measured(28, method, FEW.get(order) or COUNTS[order], order)
    kept = "velocity" in find(method).exact_levels  # the level of g in the index-2 form of mechanics
    assert (np.abs(runs[0].residual("position")).max() < 1e-13) == (kept or method == "radau-ia-1")  # which is radau-iia-1


@pytest.mark.parametrize("method", [m for m in with_stages(4) if can(m, problem(23)) and m not in (*WHOLE, *LEFT_OUT)])
def test_orders_of_methods_that_need_parts(method):
    order = find(method).order[0]
    runs = measured(23, method, PARTS[method], order)
    assert np.abs(runs[0].residual("position")).max() < 1e-13


def test_the_table_of_orders():
    """Hilden 2009, table 2.1: what the methods say of themselves."""
    table = {"radau-ia": lambda s: s, "radau-iia": lambda s: 2 * s - 1, "lobatto-iiia": lambda s: 2 * s - 2}
    table |= {"gauss": lambda s: s + s % 2, "lobatto-iiic": lambda s: 2 * s - 2, "spark": lambda s: 2 * s - 2}
    table |= {"murua": lambda s: 2 * s, "srk-gauss": lambda s: 2 * s, "srk-radau-ia": lambda s: 2 * s - 1}
    for method in with_stages(4):
        family, _, s = method.rpartition("-")
        if can(method, problem(23)):
            assert find(method).order[0] == table[family](int(s)), method


@pytest.mark.parametrize(("stages", "counts"), [(2, (40, 57, 80)), (3, (20, 28, 40)), (4, (14, 20, 28))])
def test_the_exchanged_pair_on_the_two_parts_of_mechanics(stages, counts):
    dae = da.catalog.contact_oscillator().to_dae("index2")
    exact = da.simulate(dae, "srk-gauss-4", t_end=1.0, step=1 / 200)
    runs = [da.simulate(dae, f"spark-iiib-a-{stages}", t_end=1.0, step=1 / n, compile=False) for n in counts]
    for name in ("y", "z"):
        errors = [np.abs(run.parts[name][-1] - exact.parts[name][-1]).max() for run in runs]
        assert_order(errors, 1 / np.array(counts), 2 * stages - 2, 2e-14, name)
    assert np.abs(runs[0].residual("position")).max() < 1e-14


def test_the_exchanged_pair_refuses_other_parts():
    for system in (problem(28), problem(23), da.catalog.double_pendulum().to_dae("ggl")):
        with pytest.raises(da.MethodError, match=r"as in mechanics, f1 without z, f2 linear in z"):
            da.simulate(system, "spark-iiib-a", t_end=1.0, step=0.1)


@pytest.mark.parametrize("formulation", ["index2", "ggl"])
@pytest.mark.parametrize("make", [da.catalog.double_pendulum, polar_rod], ids=lambda f: f.__name__)
def test_mechanics_as_an_index_two_system(make, formulation):
    system = make()
    start = da.consistent(system)
    dae = system.to_dae(formulation)
    reference = da.simulate(system, "radau-iia-4", q=start.q, v=start.v, t_end=0.4, step=0.02)
    y = np.concatenate([start.q, start.v])
    for method in ("radau-iia-3", "srk-gauss-2", "spark-3"):
        sol = da.simulate(dae, method, y=y, t_end=0.4, step=0.01)
        np.testing.assert_allclose(sol.y[-1], reference.x[-1], atol=1e-6)
        assert np.abs(sol.residual("position")).max() < 1e-12
        np.testing.assert_allclose(sol.z[-1, : system.m], reference.lam[-1], atol=1e-4)


def test_solutions_of_index_two_systems(tmp_path):
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    a = da.simulate(problem(28), "srk-gauss-2", t_end=1.0, step=0.05, compile=False)
    b = da.simulate(problem(28), "srk-gauss-2", t_end=1.0, step=0.05, compile=True)
    np.testing.assert_allclose(a.x, b.x, rtol=1e-13)
    again = da.load(a.save(tmp_path / "dae.nc"))
    np.testing.assert_array_equal(again.y, a.y)
    np.testing.assert_array_equal(again.z, a.z)
    assert "hidden constraints" in str(again)
    assert again.at(0.512).y[0] == pytest.approx(np.exp(0.512), rel=1e-5)
    plt.close(a.plot(tmp_path / "dae.png"))
    assert a.to_xarray()["y"].shape == (21, 2)


def test_bad_input():
    g = lambda y: y[0] ** 2 * y[1] - 1  # noqa: E731
    with pytest.raises(da.ModelError, match="one of them"):
        da.IndexTwoDAE(2, g=g)
    with pytest.raises(da.ModelError, match="first part must not depend on z"):
        da.IndexTwoDAE(2, g=g, parts=[lambda z: [z[0], z[0]]])
    with pytest.raises(da.ModelError, match="does not depend on z"):
        da.IndexTwoDAE(2, g=g, f=lambda y: y)
    with pytest.raises(da.InconsistentState, match=r"z violates constraint 1 of 1 at the hidden level"):
        da.simulate(problem(28), "radau-iia-3", y=[1, 1], z=[2.0], t_end=1, step=0.1)
    with pytest.raises(da.InconsistentState, match="y violates constraint 1 of 1 at the position level"):
        da.simulate(problem(28), "radau-iia-3", y=[1, 1.5], z=[1.0], t_end=1, step=0.1)
    with pytest.raises(da.MethodError, match="rattle cannot treat a dae system; use"):
        da.simulate(problem(28), "rattle", t_end=1, step=0.1)
    with pytest.raises(da.MethodError, match="it needs parts"):
        da.simulate(problem(28), "spark-2", t_end=1, step=0.1)
    with pytest.raises(da.InconsistentState, match="y is no initial value of"):
        da.simulate(da.catalog.simple_pendulum(), "rattle", y=[1, 0], t_end=1, step=0.1)
    with pytest.raises(da.MethodError, match="formulation must be"):
        da.catalog.simple_pendulum().to_dae("index9")
    found = da.simulate(problem(28), "radau-iia-3", y=[1, 1], t_end=0.1, step=0.1)
    assert np.abs(found.residual("velocity")).max() < 1e-12  # one of the two roots of its hidden constraint


def van_der_pol():
    """Van der Pol's equation in the limit of no mass: y' = z, 0 = y - (z^3 / 3 - z), started on a stable branch."""
    return da.IndexOneDAE(
        1, f=lambda z: [-z[0]], g=lambda y, z: [y[0] - (z[0] ** 3 / 3 - z[0])], initial={"y": [2 / 3], "z": [2.0]}
    )


@pytest.mark.parametrize("method", [m for m in with_stages(3) if can(m, van_der_pol())])
def test_index_one_keeps_the_order_of_the_ode(method):
    """`z' (z^2 - 1) = y' = -z`: z^2 / 2 - log z = 2 - log 2 - t."""
    system, t_end, z, order = van_der_pol(), 0.5, 2.0, classical_order(method)
    for _ in range(60):
        z -= (z**2 / 2 - np.log(z) - 2 + np.log(2.0) + t_end) / (z - 1 / z)
    counts = {1: (80, 112, 160), 2: (80, 112, 160), 3: (16, 24, 32, 48), 4: (10, 14, 20, 28), 5: (6, 8, 10, 14), 6: (4, 6, 8, 12)}
    in_y, in_z = [], []
    for n in counts[order]:
        sol = da.simulate(system, method, t_end=t_end, step=t_end / n)
        assert np.abs(sol.residual("position")).max() < 5e-14
        in_y.append(abs(sol.y[-1, 0] - (z**3 / 3 - z)))
        in_z.append(abs(sol.z[-1, 0] - z))
    assert_order(in_y, 1 / np.array(counts[order]), order, 1e-15, "y")
    assert_order(in_z, 1 / np.array(counts[order]), order, 1e-15, "z")


SWING = da.consistent(da.catalog.double_pendulum(), q=[0.8, -0.6, 1.4, -1.4], v=[0.3, 0.4, -0.2, 0.5])
AT_INDEX_THREE = {
    1: (200, 280, 400, 560), 2: (100, 140, 200, 280), 3: (50, 70, 100, 140), 4: (40, 56, 80, 112), 5: (28, 40, 56, 80),
}  # fmt: skip


# not for four stages: the slope of radau-iia-4 comes near 7 only where its errors are round-off
@pytest.mark.parametrize("method", [m for m in with_stages(3) if can(m, da.catalog.double_pendulum().to_dae("index3"))])
def test_orders_at_index_three(method):
    """Positions keep the order of the ODE, velocities and multipliers have that of the stages (Hairer, Lubich, Roche 1989)."""
    system, y, t_end = da.catalog.double_pendulum().to_dae("index3"), np.concatenate([SWING.q, SWING.v]), 0.5
    truth = da.simulate(da.catalog.double_pendulum(), "murua-6", q=SWING.q, v=SWING.v, t_end=t_end, step=t_end / 100)
    family, _, s = method.rpartition("-")
    low = {"radau-iia": int(s), "lobatto-iiic": int(s) - 1}[family]
    exact = np.concatenate([truth.x[-1], truth.lam[-1]])
    for part, order, of in (("q", classical_order(method), slice(4)), ("v", low, slice(4, 8)), ("lam", low, slice(8, 10))):
        runs = [da.simulate(system, method, y=y, t_end=t_end, step=t_end / n) for n in AT_INDEX_THREE[order]]
        errors = [np.abs(np.concatenate([x.y[-1], x.z[-1]]) - exact)[of].max() for x in runs]
        assert_order(errors, t_end / np.array(AT_INDEX_THREE[order]), order, 1e-13, part)


@pytest.mark.parametrize("formulation", ["index1", "index3", "baumgarte"])
@pytest.mark.parametrize("make", [da.catalog.double_pendulum, polar_rod, driven_pendulum], ids=lambda f: f.__name__)
def test_mechanics_in_the_other_forms(make, formulation):
    system = make()
    start = da.consistent(system, u=[0.5] if system.nu else None)
    u = {"u": lambda t: [0.5 + t]} if system.nu else {}
    reference = da.simulate(system, "lobatto-pair-5", q=start.q, v=start.v, t_end=0.4, step=0.01, **u)
    dae = system.to_dae(formulation)
    assert dae.index == (3 if formulation == "index3" else 1)
    sol = da.simulate(dae, "radau-iia-4", y=np.concatenate([start.q, start.v]), t_end=0.4, step=0.005, **u)
    np.testing.assert_allclose(sol.y[-1], reference.x[-1], atol=1e-8)
    np.testing.assert_allclose(sol.z[-1, -system.m :], reference.lam[-1], atol=1e-5)
    drift = np.abs(
        np.array([system.numeric("holonomic", sol._par, q=y[: system.n], t=t)[0] for y, t in zip(sol.y, sol.t, strict=True)])
    )
    if formulation == "index3":
        assert drift.max() < 1e-13


def test_index_one_drifts_and_baumgarte_holds_it():
    system = da.catalog.simple_pendulum()
    y = [1.0, 0.0, 0.0, 0.0]
    drift = []
    for options in ({"formulation": "index1"}, {"formulation": "baumgarte", "xi": 1.0, "omega": 5.0}):
        sol = da.simulate(system.to_dae(**options), "radau-iia-2", y=y, t_end=40.0, step=0.02)
        g = sol.y[:, 0] ** 2 + sol.y[:, 1] ** 2 - 1
        drift.append((np.abs(g[:500]).max(), np.abs(g[-500:]).max()))
    assert drift[0][1] > 3 * drift[0][0]
    assert drift[1][1] < 1.5 * drift[1][0]
    assert drift[1][1] < 0.1 * drift[0][1]


def test_inputs_of_semi_explicit_systems():
    system = da.IndexTwoDAE(
        2, f=lambda y, z, u: [z[0] * y[0] + u[0], -z[0] * y[1]], g=lambda y, t: y[0] - 1 - t, inputs=1, initial={"y": [1, 1]}
    )
    # y0 = 1 + t, so z = (1 - u) / y0; with u = 1 + t it is -t / (1 + t), and y1' = t / (1 + t) y1
    sol = da.simulate(system, "radau-iia-3", t_end=1.0, step=0.02, u=lambda t: [1.0 + t])
    np.testing.assert_allclose(sol.z[:, 0], -sol.t / (1 + sol.t), atol=1e-12)
    np.testing.assert_allclose(sol.y[:, 1], np.exp(sol.t) / (1 + sol.t), rtol=1e-10)


def test_consistent_values_of_semi_explicit_systems():
    start = da.consistent(problem(28), y=[1.1, 0.8])
    assert abs(start.y[0] ** 2 * start.y[1] - 1) < 1e-15
    sol = da.simulate(problem(28), "radau-iia-3", **start, t_end=0.1, step=0.01)
    assert np.abs(sol.residual("velocity")).max() < 1e-12
    dae = da.catalog.double_pendulum().to_dae("index3")
    start = da.consistent(dae, y=[0.9, 0.1, 2.1, 0.2, 0.3, 0.0, 0.0, 0.4])
    sol = da.simulate(dae, "radau-iia-3", **start, t_end=0.1, step=0.01)
    assert np.abs(sol.residual("position")).max() < 1e-13


def test_indices_are_checked():
    with pytest.raises(da.ModelError, match="higher than 1"):
        da.IndexOneDAE(1, f=lambda y, z: [z[0]], g=lambda y, z: y[0])
    with pytest.raises(da.ModelError, match="derivative 1 of g contains z already"):
        da.IndexThreeDAE(1, f=lambda y, z: [z[0]], g=lambda y: y[0])
    with pytest.raises(da.ModelError, match="say algebraic"):
        da.IndexOneDAE(1, f=lambda y, z: [z[0]], g=lambda y, z: [z[0], y[0]])
    with pytest.raises(da.MethodError, match=r"gauss cannot treat a system of index 3; use .*radau-iia"):
        da.simulate(da.catalog.simple_pendulum().to_dae("index3"), "gauss-2", y=[1, 0, 0, 0], t_end=1, step=0.1)
    with pytest.raises(da.MethodError, match="it needs parts"):
        da.simulate(van_der_pol(), "spark-2", t_end=1, step=0.1)
