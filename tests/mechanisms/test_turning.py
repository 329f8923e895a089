"""Bodies that turn in space: exact solutions, invariants, and one motion in all descriptions of rotations."""

import numpy as np
import pytest
from scipy.special import ellipj, ellipk

import dalembert as da

ROTATIONS = ["directors", "quaternion", "angles", "euler"]
TILT = np.array([[np.cos(0.5), 0, np.sin(0.5)], [0, 1, 0], [-np.sin(0.5), 0, np.cos(0.5)]])


def free_body(J, omega, rotation):
    """A body that turns freely, with an angular velocity in its own axes."""
    m = da.Mechanism(gravity=(0, 0, 0), name="free body")
    m.body("body", mass=2.0, inertia=J, rotation=TILT, angular_velocity=TILT @ np.asarray(omega))
    return m.assemble(rotation=rotation)


def heavy_top(spin, rotation, arm=0.7, mass=2.0, J=(1.0, 1.0, 0.5)):
    m = da.Mechanism(name="heavy top")
    w = TILT @ np.array([0.0, 0.0, spin])
    m.body("top", mass=mass, inertia=J, rotation=TILT, center=(0, 0, arm), angular_velocity=w)
    m.spherical("tip", "ground", "top", at=(0, 0, 0))
    return m.assemble(rotation=rotation)


def inside(body):
    """The angular velocity in the axes of the body."""
    return np.einsum("tji,tj->ti", body.rotation, body.angular_velocity)


def jacobi(J, T2, L2, t, shift):
    """The free motion of a body with J1 < J2 < J3 and L^2 > 2 T J2 (Landau, Lifshitz, Mechanics, sec. 37)."""
    J1, J2, J3 = J
    rate = np.sqrt((J3 - J2) * (L2 - T2 * J1) / (J1 * J2 * J3))
    k2 = (J2 - J1) * (T2 * J3 - L2) / ((J3 - J2) * (L2 - T2 * J1))
    sn, cn, dn, _ = ellipj(rate * t + shift * ellipk(k2), k2)
    a1, a2 = np.sqrt((T2 * J3 - L2) / (J1 * (J3 - J1))), np.sqrt((T2 * J3 - L2) / (J2 * (J3 - J2)))
    a3 = np.sqrt((L2 - T2 * J1) / (J3 * (J3 - J1)))
    return np.stack([a1 * cn, a2 * sn, a3 * dn], axis=1)


@pytest.mark.parametrize(("rotation", "third"), [("directors", 2.8), ("quaternion", 2.8), ("directors", 3.0)])
def test_a_body_turns_over_about_its_intermediate_axis(rotation, third):
    """Started next to the second axis it turns over and over; Jacobi's elliptic functions say when."""
    J, T2 = (1.0, 2.0, third), 200.0
    L2 = T2 * J[1] * 1.001  # next to the separatrix
    exact = jacobi(J, T2, L2, np.array([0.0]), 0.9)
    sol = da.simulate(free_body(J, exact[0], rotation), "gauss-3", t_end=1.2, step=0.005)
    exact = jacobi(J, T2, L2, sol.t, 0.9)
    assert exact[:, 1].max() - exact[:, 1].min() > 18  # it does turn
    np.testing.assert_allclose(inside(sol.body("body")), exact, atol=2e-6)


def test_the_error_of_the_free_body_shrinks_with_the_order_of_the_method():
    J, T2 = (1.0, 2.0, 2.8), 50.0
    errors, steps = [], [0.02, 0.01, 0.005]
    for h in steps:
        start = jacobi(J, T2, 110.0, np.array([0.0]), 0.3)
        sol = da.simulate(free_body(J, start[0], "directors"), "energy-momentum", t_end=0.4, step=h)
        errors.append(np.abs(inside(sol.body("body"))[-1] - jacobi(J, T2, 110.0, sol.t[-1:], 0.3)).max())
    assert np.polyfit(np.log(steps), np.log(errors), 1)[0] == pytest.approx(2.0, abs=0.1)


@pytest.mark.parametrize("J", [(1.0, 2.0, 2.5), (1.0, 2.0, 3.0), np.array([[1.5, 0.2, 0.1], [0.2, 1.8, -0.3], [0.1, -0.3, 2.2]])])
def test_energy_momentum_keeps_energy_and_angular_momentum_of_a_free_body(J):
    sol = da.simulate(free_body(J, (0.1, 8.0, 0.1), "directors"), "energy-momentum", t_end=10.0, step=0.02)
    L = sol.momentum("angular")
    assert np.abs(sol.energy / sol.energy[0] - 1).max() < 1e-13
    assert np.abs(L - L[0]).max() < 1e-13 * np.abs(L[0]).max() * 10
    assert np.abs(sol.residual("position")).max() < 1e-14


def test_energy_momentum_keeps_energy_and_vertical_momentum_of_a_heavy_top():
    sol = da.simulate(heavy_top(20.0, "directors"), "energy-momentum", t_end=5.0, step=0.01)
    L = sol.momentum("angular")[:, 2]
    assert np.abs(sol.energy - sol.energy[0]).max() < 1e-12 * sol.kinetic.max()
    assert np.abs(L - L[0]).max() < 1e-12 * np.abs(L[0])


@pytest.mark.parametrize("rotation", ROTATIONS)
def test_nutation_of_lagranges_top(rotation):
    """Let go at the upper turning point: `u = cos(theta)` is `u1 + (u2 - u1) sn^2` (Whittaker, Analytical Dynamics, sec. 71)."""
    spin, arm, mass, g = 20.0, 0.7, 2.0, 9.81
    A, C = 1.0 + mass * arm**2, 0.5
    u0 = np.cos(0.5)
    axial = C * spin
    vertical = axial * u0
    level = mass * g * arm * u0  # the energy without that of the spin

    beta = 2 * mass * g * arm / A
    # u'^2 = 2 (level - m g l u) (1 - u^2) / A - (vertical - axial u)^2 / A^2
    f = np.polysub(
        2 / A * np.polymul([-mass * g * arm, level], [-1, 0, 1]), np.polymul([-axial, vertical], [-axial, vertical]) / A**2
    )
    u1, u2, u3 = np.sort(np.roots(f).real)
    assert f[0] == pytest.approx(beta)
    assert u2 == pytest.approx(u0)
    sol = da.simulate(heavy_top(spin, rotation), "gauss-4", t_end=1.0, step=0.005)
    k2 = (u2 - u1) / (u3 - u1)
    sn = ellipj(np.sqrt(beta * (u3 - u1)) / 2 * sol.t + ellipk(k2), k2)[0]
    np.testing.assert_allclose(sol.body("top").rotation[:, 2, 2], u1 + (u2 - u1) * sn**2, atol=1e-9)


def test_all_descriptions_agree_to_the_order_of_the_method():
    ends = {}
    for rotation in ROTATIONS:
        top = heavy_top(15.0, rotation)
        for h in (0.02, 0.01):
            sol = da.simulate(top, "gauss-2", t_end=0.4, step=h)
            ends[rotation, h] = sol.body("top").position[-1]
    for rotation in ROTATIONS[1:]:
        coarse, fine = (np.abs(ends[rotation, h] - ends["directors", h]).max() for h in (0.02, 0.01))
        assert fine < 1e-4
        assert fine < coarse / 3


def test_quaternions_stay_unit_by_themselves():
    sol = da.simulate(free_body((1.0, 2.0, 2.5), (3.0, 4.0, 5.0), "quaternion"), "gauss-2", t_end=5.0, step=0.01)
    assert np.abs(np.linalg.norm(sol.q[:, 3:], axis=1) - 1).max() < 1e-14


def test_angles_next_to_their_singularity():
    """A body that tumbles towards it stops there, with a reason; one that is drawn there is refused."""
    m = da.Mechanism(gravity=(0, 0, 0))
    m.body("body", mass=1.0, inertia=[1.0, 1.0, 1.0], angular_velocity=(0, 1.0, 0))
    with pytest.raises(da.DalembertError, match="degrees from the singularity of its angles about xyz") as error:
        da.simulate(m.assemble(rotation="angles"), "gauss-2", t_end=2.0, step=0.01)
    assert error.value.solution.t[-1] == pytest.approx(np.pi / 2, abs=0.05)
    with pytest.raises(da.ModelError, match="is drawn 0 degrees from the singularity of its angles about zxz"):
        m.assemble(rotation="euler")


@pytest.mark.parametrize(("rotation", "coordinates"), [("quaternion", "absolute"), ("quaternion", "joint")])
def test_with_rates_for_velocities_all_methods_apply(rotation, coordinates):
    """A heavy top in coordinates with `q' = v`: the energy at round-off, the same motion and the same reactions."""
    top, place, omega = da.Mechanism(), np.array([0, 0.09, 0.12]), np.array([0.1, 12.2, 16.0])
    top.body(
        "top", mass=0.5, inertia=[0.02, 0.02, 0.003], position=place, rotation=_tilted(0.6435), angular_velocity=omega,
        velocity=np.cross(omega, place),
    )  # fmt: skip
    top.spherical("tip", "ground", "top", at=(0, 0, 0))
    own = top.assemble(rotation=rotation, coordinates=coordinates)
    same = da.simulate(own, "gauss-3", t_end=0.1, step=0.005)
    sol = da.simulate(own.to_coordinates(), "energy-momentum", t_end=0.1, step=0.005)
    np.testing.assert_allclose(sol.energy, sol.energy[0], rtol=1e-12)
    np.testing.assert_allclose(sol.body("top").position, same.body("top").position, atol=5e-4)
    one, other = (run.joint("tip").reaction_at(np.zeros(1)) for run in (sol, same))
    np.testing.assert_allclose(one.force, other.force, atol=1e-10)
    np.testing.assert_allclose(one.torque, other.torque, atol=1e-10)
    assert sol.system.freedoms == 3


def _tilted(angle):
    c, s = np.cos(angle), np.sin(angle)
    return [[1, 0, 0], [0, c, s], [0, -s, c]]
