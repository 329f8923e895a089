"""Consistent initial values."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dalembert as da
from conftest import assert_order, driven_pendulum, polar_rod, skew_hamiltonian


@given(st.lists(st.floats(-0.3, 0.3), min_size=8, max_size=8))
@settings(max_examples=30, deadline=None)
def test_projection_reaches_round_off(shift):
    system = da.catalog.double_pendulum()
    q = np.array([0.6, -0.8, 1.2, -1.6]) + shift[:4]
    start = da.consistent(system, q=q, v=shift[4:])
    par = system.pack()
    assert np.abs(system.numeric("holonomic", par, q=start.q)).max() < 1e-14
    assert np.abs(system.numeric("drift", par, q=start.q, v=start.v)).max() < 1e-14


def test_projection_is_the_nearest_in_the_kinetic_metric():
    """What is left along the constraint: M (q - q*) is a combination of the constraint gradients."""
    system = da.catalog.double_pendulum(m1=7.0, m2=0.3)
    q, v = np.array([0.7, -0.7, 1.1, -1.7]), np.array([0.3, 0.1, -0.5, 0.9])
    start = da.consistent(system, q=q, v=v)
    M = np.diag([7.0, 7.0, 0.3, 0.3])
    G = system.numeric("jacobian", system.pack(), q=start.q)[0]
    rest = M @ (v - start.v)
    mu, *_ = np.linalg.lstsq(G.T, rest, rcond=None)
    np.testing.assert_allclose(G.T @ mu, rest, atol=1e-13)


def test_the_heavy_part_stays_where_it_is():
    """Positions: `M (q - q*)` lies along the constraint; what is light moves, what is heavy hardly does."""
    m = np.array([100.0, 100.0, 0.01, 0.01])
    system = da.Mechanical(4, mass=m, holonomic=lambda q: (q[2] - q[0]) ** 2 + (q[3] - q[1]) ** 2 - 1)
    q = np.array([1.0, 0.0, 1.8, 0.9])
    start = da.consistent(system, q=q, v=np.zeros(4))
    d = start.q[2:] - start.q[:2]
    rest = m * (q - start.q)
    np.testing.assert_allclose(rest[:2], -rest[2:], atol=1e-14)
    assert abs(rest[2] * d[1] - rest[3] * d[0]) < 1e-15
    assert np.abs(start.q[:2] - q[:2]).max() < 1e-4
    # the nearest position in this metric moves along the rod: both ends by their share of the lengthening
    far = np.array([0.8, 0.9]) / np.hypot(0.8, 0.9)
    np.testing.assert_allclose(d, far, atol=1e-14)


def test_multipliers_with_inputs():
    """A hanging mass of 2 on a rod of length 1, pulled down by 3: `2 lam l = m g + u`."""
    system = da.Mechanical(
        2, mass=2.0, potential=lambda q: 2 * 9.81 * q[1], holonomic=lambda q: q @ q - 1, inputs=[[0.0], [-1.0]],
    )  # fmt: skip
    for u in (0.0, 3.0, -1.0):
        start = da.consistent(system, q=[0.0, -1.0], v=[0.0, 0.0], u=[u])
        # at rest: -m g - u = -G^T lam with G = 2 q = (0, -2)
        assert start.lam[0] == pytest.approx(-(2 * 9.81 + u) / -2, rel=1e-14)
        moving = da.consistent(system, q=[0.0, -1.0], v=[1.5, 0.0], u=[u])
        assert moving.lam[0] == pytest.approx((2 * 9.81 + u + 2 * 1.5**2) / 2, rel=1e-14)


@pytest.mark.parametrize("make", [driven_pendulum, polar_rod, da.catalog.four_particles_damped], ids=lambda f: f.__name__)
def test_multipliers_solve_the_acceleration_level(make):
    """`lam` at the start agrees with the first multiplier of a run with a small step."""
    system = make()
    start = da.consistent(system)
    ends = [da.simulate(system, "rattle", **start, t_end=4 * h, step=h).lam[0] for h in (1e-4, 5e-5)]
    # that of the middle of a step: its distance from the start falls with the step, and its extrapolation meets it
    np.testing.assert_allclose(2 * ends[1] - ends[0], start.lam, atol=2e-6 * (1 + np.abs(start.lam).max()))
    if system.kind == "mechanical":
        other = system.to_hamiltonian()
        again = da.consistent(other, q=start.q, p=start.p)
        np.testing.assert_allclose(again.lam, start.lam, rtol=1e-10, atol=1e-12)


def test_acceleration_residual_is_of_second_order_along_a_run():
    system, steps = da.catalog.double_pendulum(), 0.004 / np.array([1, 2, 4, 8])
    runs = [da.simulate(system, "rattle", t_end=0.5, step=h) for h in steps]
    assert_order([np.abs(sol.residual("acceleration")).max() for sol in runs], steps, 2)
    assert runs[0].residual("acceleration").shape == (125, 2)


def test_hamiltonian_momenta_are_projected():
    system = skew_hamiltonian()
    start = da.consistent(system, q=[0.6, 0.3, 0.5], p=[0.2, -0.4, 0.3])
    q, p, lam = start
    v = system.numeric("velocity", system.pack(), q=q, p=p)[0]
    assert np.abs(system.numeric("drift", system.pack(), q=q, v=v)).max() < 1e-14
    assert lam.shape == (1,)


def test_moving_constraints_give_a_moving_start():
    system = driven_pendulum()
    start = da.consistent(system, q=[0.5, -0.9], v=[0.0, 0.0], t0=0.2)
    par = system.pack()
    assert np.abs(system.numeric("drift", par, q=start.q, v=start.v, t=0.2)).max() < 1e-14
    assert np.abs(start.v).max() > 1e-3


def test_momenta_may_be_given_in_place_of_velocities():
    system = polar_rod()
    start = da.consistent(system)
    a = da.simulate(system, "rattle", q=start.q, p=start.p, t_end=0.1, step=0.01)
    b = da.simulate(system, "rattle", q=start.q, v=start.v, t_end=0.1, step=0.01)
    np.testing.assert_allclose(a.q, b.q, atol=1e-14)


def test_hopeless_positions_are_refused():
    system = da.Mechanical(1, mass=1.0, holonomic=lambda q: q[0] ** 2 + 1)
    with pytest.raises(da.ConvergenceError, match="no position near the given one"):
        da.consistent(system, q=[0.7], v=[0.0])


def test_values_of_another_kind_of_system_are_refused():
    pendulum, motor = da.catalog.simple_pendulum(), da.catalog.dc_motor()
    for call in (da.diagnose, da.consistent):
        for values in ({"x": [3.0, 4.0]}, {"y": [5.0, 5.0]}, {"z": [1.0]}):
            with pytest.raises(da.InconsistentState, match="no initial value"):
                call(pendulum, **values)
        with pytest.raises(da.InconsistentState, match="no initial value"):
            call(motor, v=[5.0, 5.0])


@pytest.mark.parametrize("lam", ["x", [1.0, 2.0, 3.0], [float("nan")]])
def test_multipliers_are_checked_for_every_method(lam):
    with pytest.raises(da.InconsistentState, match=r"lam (must be 1|is not finite)"):
        da.simulate(da.catalog.simple_pendulum(), "rattle", lam=lam, t_end=0.1, step=0.01)


@pytest.mark.parametrize(
    "u",
    [
        ([], np.zeros((0, 2))), ([0, 0.05], [[1, 2], [3]]), (["a", "b"], [[1, 2], [3, 4]]), ([float("nan")], [[1, 2]]),
        ([0, 1], [1, 2, 3]), ([0, 0.05], lambda t: 0), lambda t, q: [0.0, 0.0],
    ],
)  # fmt: skip
def test_inputs_that_make_no_sense(u):
    with pytest.raises(da.InconsistentState, match="u"):
        da.simulate(da.catalog.windy_pendulum(), "discrete-gradient", u=u, t_end=0.1, step=0.01)


def root(**options):
    return da.IndexOneDAE(("y",), f=lambda z: -z, g=lambda y, z: z**2 - y, **options)


def test_of_several_solutions_the_one_near_what_was_given():
    for z in (-1.9, -0.1, 1.7):
        assert abs(da.consistent(root(), y=[4.0], z=[z]).z[0] - 2 * np.sign(z)) < 1e-15
    system = root(initial={"y": [4.0], "z": [-1.9]})
    assert abs(da.consistent(system).z[0] + 2) < 1e-15
    assert abs(da.consistent(system, y=[9.0]).z[0] + 3) < 1e-15
    sol = da.simulate(system, "radau-iia-2", y=[9.0], t_end=0.1, step=0.1)
    assert abs(sol.z[0, 0] + 3) < 1e-15
    assert sol.z[1, 0] < -3


def circle():
    return da.Mechanical(2, mass=1.0, holonomic=lambda q: q @ q - 1, potential=lambda q: 9.81 * q[1])


@pytest.mark.parametrize(
    ("system", "start", "said"),
    [
        (circle(), {"q": [0.5, -0.8660254], "v": [0.0, 0.0]}, r"q by .*e-09.*da.consistent\(system, q=..., v=...\)"),
        (circle(), {"q": [0.6, -0.8], "v": [0.8, 0.60000001]}, r"v by .*e-09.*da.consistent\(system, q=..., v=...\)"),
        (circle().to_hamiltonian(), {"q": [0.6000001, -0.8], "p": [0.8, 0.6]}, r"p by .*da.consistent\(system, q=..., p=...\)"),
        (
            da.IndexTwoDAE(2, f=lambda y, z: [y[1] + z[0] * y[0], -y[0] + z[0] * y[1]], g=lambda y: [y @ y - 1]),
            {"y": [0.6, 0.8000001]},
            r"y by .*da.consistent\(system, y=..., z=...\)",
        ),
    ],
)
def test_values_a_hair_off_are_projected_with_a_word(system, start, said):
    with pytest.warns(da.DalembertWarning, match="projected to the constraints .*" + said) as record:
        sol = da.simulate(system, "radau-iia-2" if "y" in start else "rattle", **start, t_end=0.1, step=0.05)
    assert record[0].filename == __file__
    assert np.abs(sol.residual("position")).max() < 1e-14
    assert np.abs(sol.residual("velocity")).max() < 1e-14
    for name, values in start.items():
        assert np.abs(sol.parts[name][0] - values).max() < 1e-6


@pytest.mark.parametrize(
    ("system", "start", "remedy"),
    [
        (circle(), {"q": [0.61, -0.8], "v": [0.0, 0.0]}, "q=..., v=..."),
        (circle().to_hamiltonian(), {"q": [0.61, -0.8], "p": [0.0, 0.0]}, "q=..., p=..."),
        (circle().to_hamiltonian(), {"q": [0.6, -0.8], "p": [0.0, 1.0]}, "q=..., p=..."),
        (root(), {"y": [4.0], "z": [-1.9]}, "y=..., z=..."),
    ],
)
def test_remedies_name_the_values_of_their_kind(system, start, remedy):
    with pytest.raises(da.InconsistentState) as error:
        da.simulate(system, "radau-iia-2", **start, t_end=0.1, step=0.05)
    assert f"da.consistent(system, {remedy})" in str(error.value)


def test_what_is_not_finite_is_no_consistent_value():
    heavy = da.Mechanical(2, mass=1e300, holonomic=lambda q: q @ q - 1)
    with pytest.raises(da.DalembertError):
        da.consistent(heavy, q=[1.0, 0.0], v=[0.0, 1e9])
    fast = da.Hamiltonian(2, hamiltonian=lambda q, p: np.sqrt(1 + p @ p), holonomic=lambda q, t: [q[0] - 2 * t])
    with pytest.raises(da.ConvergenceError):  # no momentum has a velocity of two
        da.consistent(fast, q=[0.0, 0.0], p=[0.0, 0.0])


def test_a_wrong_shape_is_told_with_the_names_of_the_coordinates():
    system = da.Mechanical(("left", "right"), mass=1.0, potential=lambda q: q @ q)
    with pytest.raises(da.InconsistentState, match=r"q has the shape \(3,\); expected 2 numbers \(left, right\)"):
        da.simulate(system, "rattle", q=[1.0, 2.0, 3.0], v=[0.0, 0.0], t_end=1.0, step=0.1)


@pytest.mark.parametrize("tiny", [0.0, 1e-28, 1e-17])
def test_coordinates_that_are_zero_but_for_rounding_are_measured_by_the_others(tiny):
    """A rod in space that lies in a plane: a constraint among coordinates of 1e-28 is satisfied within rounding of those of 1."""
    system = da.Mechanical(
        4, mass=1.0, potential=lambda q: q[1], holonomic=lambda q: [q[0] ** 2 + q[1] ** 2 - 1, q[2] - 0.5 * q[3]]
    )
    sol = da.simulate(system, "rattle", q=[1.0, 0.0, tiny, -tiny], v=[0.0] * 4, t_end=0.1, step=0.01)
    assert np.abs(sol.residual("position")).max() < 1e-15
    with pytest.raises(da.InconsistentState, match="q violates constraint 2 of 2"):
        da.simulate(system, "rattle", q=[1.0, 0.0, 1e-2, 0.0], v=[0.0] * 4, t_end=0.1, step=0.01)
