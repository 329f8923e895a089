"""Equilibria against hand calculations: positions, reactions, stability, and what is said where there is none."""

import numpy as np
import pytest

import dalembert as da


def springs(n, k=3.0, m=2.0):
    """n masses between two walls, n + 1 equal springs."""

    def potential(q, k):
        ends = [q[0], *(q[i] - q[i - 1] for i in range(1, n)), -q[n - 1]]
        return sum(k * s**2 / 2 for s in ends)

    return da.Mechanical(n, mass=lambda m: m, potential=potential, inputs=np.eye(n)[:, -1:], parameters={"k": k, "m": m})


def truss(extra=False):
    """A loaded joint on two bars at 45 degrees; a third, vertical bar makes it statically indeterminate."""

    def holonomic(q):
        bars = [(q[0] + 1) ** 2 + q[1] ** 2 - 2, (q[0] - 1) ** 2 + q[1] ** 2 - 2]
        return [*bars, q[0] ** 2 + (q[1] - 1) ** 2 - 4] if extra else bars

    return da.Mechanical(
        ("x", "y"), mass=1.0, potential=lambda q, P: P * q[1], holonomic=holonomic, parameters={"P": 10.0},
        initial={"q": [0.0, -1.0]},
    )  # fmt: skip


@pytest.mark.parametrize(("up", "stability"), [(-1, "stable"), (1, "unstable")])
def test_a_pendulum_rests_below_and_above_its_pivot(up, stability):
    rest = da.equilibrium(da.catalog.simple_pendulum(m=2.0, l=1.5), q=[0.2, 1.4 * up])
    assert np.abs(rest.q - [0.0, 1.5 * up]).max() < 1e-14
    assert abs(rest.lam[0] + up * 2.0 * 9.81 / (2 * 1.5)) < 1e-13  # -G^T lam + weight = 0 with G = 2 q
    assert rest.stability == stability
    assert rest.residual < 1e-14
    assert stability in str(rest)


def test_a_chain_of_springs_moves_with_a_held_force_as_the_inverse_stiffness_says():
    n, k = 6, 3.0
    K = k * (2 * np.eye(n) - np.eye(n, k=1) - np.eye(n, k=-1))
    rest = da.equilibrium(springs(n, k), q=np.zeros(n), u=[7.0])
    assert np.abs(rest.q - np.linalg.solve(K, 7.0 * np.eye(n)[-1])).max() < 1e-13


def test_bars_of_a_truss_bear_what_hand_calculation_says():
    rest = da.equilibrium(truss())
    # reactions are lam times the gradients (2 dx, 2 dy): a bar force of P / sqrt(2) along (1, -1) / sqrt(2) each
    assert np.abs(rest.lam + 10.0 / 4).max() < 1e-12 or np.abs(rest.lam - 10.0 / 4).max() < 1e-12
    G = np.array([[2.0, -2.0], [-2.0, -2.0]])
    assert np.abs(G.T @ rest.lam - [0.0, -10.0]).max() < 1e-12


def test_multipliers_of_dependent_constraints_have_the_least_norm():
    rest = da.equilibrium(truss(extra=True))
    G = np.array([[2.0, -2.0], [-2.0, -2.0], [0.0, -4.0]])
    least = np.linalg.pinv(G.T) @ [0.0, -10.0]
    assert np.abs(rest.lam - least).max() < 1e-12


@pytest.mark.parametrize("q", [None, [0.6, 0.8, 1.4, 1.4], [-1.0, 0.0, -0.3, 0.7]])
def test_a_start_far_from_any_equilibrium_leads_to_where_it_would_settle(q):
    rest = da.equilibrium(da.catalog.double_pendulum(), q=q)
    assert np.abs(rest.q - [0.0, -1.0, 0.0, -2.0]).max() < 1e-12
    assert rest.stability == "stable"


def test_a_chain_of_many_links_settles_from_its_stretched_start():
    rest = da.equilibrium(da.catalog.chain(12))
    assert np.abs(rest.q[1::2] + np.arange(1, 13)).max() < 1e-11


def test_friction_makes_it_asymptotic_and_an_eigenvalue_says_how_fast():
    m = da.Mechanical(("x",), mass=2.0, potential=lambda q: 4 * q[0] ** 2, dissipation=1.0)
    rest = da.equilibrium(m, q=[3.0])
    assert rest.stability == "asymptotically stable"
    assert np.abs(rest.eigenvalues.real + 0.25).max() < 1e-13


def test_a_floating_body_is_marginal_and_found_where_it_is():
    rest = da.equilibrium(da.Mechanical(("x", "y"), mass=1.0, potential=lambda q: (q[0] - q[1] - 1) ** 2), q=[5.0, 4.5])
    assert np.abs(rest.q - [5.25, 4.25]).max() < 1e-13  # the nearest one
    assert rest.stability == "marginal"


def test_no_equilibrium_is_an_error_with_the_force_that_is_left():
    with pytest.raises(da.ConvergenceError, match=r"the force on x is still 3") as info:
        da.equilibrium(da.Mechanical(("x",), mass=1.0, force=[3.0]), q=[0.0])
    assert abs(info.value.residual - 3.0) < 1e-12


def test_other_kinds_of_systems():
    ladder = da.equilibrium(da.catalog.rlc_ladder(3), u=[2.0])
    assert np.abs(ladder.x[:7] - 2.0).max() < 1e-13  # all potentials
    assert np.abs(ladder.x[7:]).max() < 1e-13  # no currents
    double = da.catalog.double_pendulum()
    near = [0.1, -1.0, 0.15, -1.9]
    port = da.equilibrium(double.to_port_hamiltonian(), x=[*near, 0, 0, 0, 0, 0, 0])
    mechanical, dae = da.equilibrium(double, q=near), da.equilibrium(double.to_dae("index3"), y=[*near, 0, 0, 0, 0])
    assert np.abs(port.x[:4] - mechanical.q).max() < 1e-12
    assert np.abs(port.x[8:] - mechanical.lam).max() < 1e-11
    assert np.abs(dae.y[:4] - mechanical.q).max() < 1e-12
    assert np.abs(dae.z - mechanical.lam).max() < 1e-11


def test_a_run_from_an_equilibrium_stays_there():
    double = da.catalog.double_pendulum()
    rest = da.equilibrium(double, q=[0.1, -1.0, 0.15, -1.9])
    sol = da.simulate(double, "rattle", **rest, t_end=1.0, step=0.01)
    assert np.abs(sol.q - rest.q).max() < 1e-13


def test_bad_calls_are_refused_in_words():
    pendulum = da.catalog.simple_pendulum()
    with pytest.raises(da.InconsistentState, match="x is no part of the state"):
        da.equilibrium(pendulum, x=[0.0, 0.0])
    with pytest.raises(da.InconsistentState, match="expected 2 numbers"):
        da.equilibrium(pendulum, q=[0.0])
    with pytest.raises(da.UnknownKeyword, match="did you mean 'parameters'"):
        da.equilibrium(pendulum, parametres={})
    broken = da.Mechanical(("x",), mass=1.0, potential=lambda q: np.log(q[0]), initial={"q": [1.0]})
    with pytest.raises(da.ConvergenceError, match="not finite"):
        da.equilibrium(broken, q=[0.0])


def two_rods():
    m = da.Mechanism(name="two rods")
    for i in range(2):
        m.rod(f"rod{i}", (i, 0, 0), (i + 1, 0, 0), mass=1.0)
        m.revolute(f"hinge{i}", f"rod{i - 1}" if i else "ground", f"rod{i}", at=(i, 0, 0), axis="y")
    return m


def test_a_mechanism_rests_and_swings_alike_in_all_its_coordinates():
    """Directors, quaternions (which keep their norm), and angles of joints; from a start that is stretched out."""
    expected = da.modes(
        two_rods().assemble(coordinates="joint"), at=da.equilibrium(two_rods().assemble(coordinates="joint"), q=[1.5, 0.1])
    )
    assert np.abs(expected.omega - [2.67992892, 7.18435757]).max() < 1e-8
    for kind in ({"rotation": "directors"}, {"rotation": "quaternion"}, {"coordinates": "joint"}):
        system = two_rods().assemble(**kind)
        rest = da.equilibrium(system)
        assert rest.stability == "stable"
        assert np.abs(da.modes(system, at=rest).omega - expected.omega).max() < 1e-9
    quaternions = da.equilibrium(two_rods().assemble(rotation="quaternion")).q
    assert abs(np.linalg.norm(quaternions[3:7]) - 1.0) < 1e-12


def test_angles_that_meet_their_singularity_end_in_an_error_of_ours():
    with pytest.raises(da.ConvergenceError, match="no equilibrium of 'two rods' was found"):
        da.equilibrium(two_rods().assemble(rotation="angles"))
