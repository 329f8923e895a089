"""Diagnosis: right on every catalog system, and on models that are not well."""

import numpy as np
import pytest

import dalembert as da
from dalembert.catalog import _MAKERS

M = da.Mechanical


@pytest.mark.parametrize("make", _MAKERS, ids=lambda f: f.__name__)
def test_every_catalog_system_is_healthy(make):
    system = make()
    found = da.diagnose(system)
    assert found.healthy, str(found)
    if system.kind != "port-hamiltonian":
        assert found.index == (3 if system.mh else 2 if system.mn else 0)
        assert found.degrees_of_freedom == system.n - system.m
        assert found.free_values == 2 * system.n - 2 * system.mh - system.mn
    assert found.methods
    assert found.recommended.split(",")[0].rstrip("0123456789") in " ".join(found.methods)  # with any number of stages
    assert "recommended" in str(found)


def test_the_same_constraint_twice():
    found = da.diagnose(M(2, mass=1.0, holonomic=lambda q: [q @ q - 1, 2 * (q @ q) - 2]), q=[1, 0], v=[0, 0])
    assert found.redundant == (2,)
    assert not found.singular_pose
    assert not found.healthy
    assert "constraint 2 follows from the others; remove it" in str(found)


def linkage(q):
    x1, y1, x2, y2, x3, y3 = q
    return [
        x1**2 + y1**2 - 1, (x2 - 1) ** 2 + y2**2 - 1, (x3 - 2) ** 2 + y3**2 - 1,
        (x2 - x1) ** 2 + (y2 - y1) ** 2 - 1, (x3 - x1) ** 2 + (y3 - y1) ** 2 - 4, (x3 - x2) ** 2 + (y3 - y2) ** 2 - 1,
    ]  # fmt: skip


def test_a_parallelogram_linkage_is_redundant_all_along():
    a = 1.1
    q = np.array([np.cos(a), np.sin(a), 1 + np.cos(a), np.sin(a), 2 + np.cos(a), np.sin(a)])
    found = da.diagnose(M(6, mass=1.0, holonomic=linkage), q=q, v=np.zeros(6))
    assert found.redundant
    assert not found.singular_pose
    assert found.degrees_of_freedom == 1


def test_a_singular_pose_is_told_from_redundancy():
    crank = M(3, mass=1.0, holonomic=lambda q: [q[0] ** 2 + q[1] ** 2 - 1, (q[0] - q[2]) ** 2 + q[1] ** 2 - 1])
    found = da.diagnose(crank, q=[0.0, 1.0, 0.0], v=[0, 0, 0])
    assert found.singular_pose
    assert not found.redundant
    well = da.diagnose(crank, q=[0.6, 0.8, 1.2], v=[0, 0, 0])
    assert well.healthy
    assert well.index == 3


def test_nearly_dependent_constraints():
    found = da.diagnose(M(3, mass=1.0, holonomic=lambda q: [q[0] + q[1], q[0] + (1 + 1e-6) * q[1]]), q=[0, 0, 1], v=[0, 0, 0])
    assert found.nearly_dependent == (1, 2)


def test_a_mass_of_zero_and_masses_far_apart():
    light = M(("x", "y", "u", "w"), mass=[1.0, 1.0, 0.0, 0.0], dissipation=0.1,
              holonomic=lambda q: [q[0] ** 2 + q[1] ** 2 - 1, (q[2] - q[0]) ** 2 + (q[3] - q[1]) ** 2 - 1])  # fmt: skip
    found = da.diagnose(light, q=[1, 0, 2, 0], v=np.zeros(4))
    assert set(found.massless) == {"u", "w"}
    assert "murua-ggl-3" in found.methods
    assert "rattle" not in found.methods
    assert found.recommended.startswith("murua-ggl")
    assert da.diagnose(M(2, mass=[1.0, 1e-9]), q=[0, 0], v=[0, 0]).conditioning["M"] == pytest.approx(1e9)


def test_inconsistent_values_at_each_level():
    pendulum = da.catalog.double_pendulum()
    off = da.diagnose(pendulum, q=[1, 0.1, 2, 0], v=[0, 0, 0, 0])
    assert not off.consistent
    assert any("position" in r for r in off.remarks)
    fast = da.diagnose(pendulum, q=[1, 0, 2, 0], v=[1, 0, 0, 0])
    assert [r for r in fast.remarks if "velocity" in r]
    assert not [r for r in fast.remarks if "position" in r]
    dae = pendulum.to_dae("index2")
    assert da.diagnose(dae, y=[1, 0, 2, 0, 0, 0, 0, 0]).index == 2
    assert not da.diagnose(dae, y=[1, 0, 2, 0, 1, 0, 0, 0]).consistent
    for formulation, index in (("index3", 3), ("ggl", 2), ("index1", 1)):
        assert da.diagnose(pendulum.to_dae(formulation), y=[1, 0, 2, 0, 0, 0, 0, 0]).index == index


def test_refused():
    with pytest.raises(da.MethodError, match="diagnose takes a system"):
        da.diagnose(3)
    with pytest.raises(da.InconsistentState, match="no default initial values"):
        da.diagnose(M(1, mass=1.0))


def cancelling(more):
    """`z` cancels in the derivative of the constraint: a circle along which it pushes."""
    extra = 0.7 if more else 0.0
    f = [
        lambda y, z: [np.cos(y[2]) + extra * y[-1] * more - y[1] * z[0], np.sin(y[2]) + y[0] * z[0], 1.0 + 0 * y[0]],
        lambda y, z: [*f[0](y, z), y[0] * np.cos(y[2]) + y[1] * np.sin(y[2])],
    ]
    start = [np.sin(0.4), -np.cos(0.4), 0.4, *([0.0] if more else [])]
    return {"coordinates": len(start), "f": f[int(more)], "g": lambda y: [y[0] ** 2 + y[1] ** 2 - 1]}, start


@pytest.mark.parametrize("more", [False, True])
def test_terms_that_cancel_do_not_lower_the_index(more):
    model, y = cancelling(more)
    with pytest.raises(da.ModelError, match="the index is higher than 2"):
        da.IndexTwoDAE(model["coordinates"], f=model["f"], g=model["g"])
    system = da.IndexThreeDAE(model["coordinates"], f=model["f"], g=model["g"])
    found = da.diagnose(system, y=y, z=[0.0])
    assert (found.index, found.free_values) == (3, 2 if more else 1)
    assert found.consistent


def test_a_range_that_turns_with_time():
    """`E(t)` of rank one whose range turns: index 2, and no method of the register treats it."""
    system = da.PortHamiltonian(
        2,
        hamiltonian=lambda x: 0 * x[0],
        E=lambda t: [[-t, t**2], [-1.0, t]],
        z=lambda x, t: [x[0] - t * x[1], -t * (x[0] - t * x[1])],
        R=np.eye(2),
        B=[[1], [0]],
    )
    found = da.diagnose(system, x=[0.0, 0.0], t=1.0)
    assert (found.index, found.free_values, found.degrees_of_freedom) == (2, 0, 0)
    for method in found.methods:
        da.methods.base.find(method).check(system)
    assert found.recommended in (*found.methods, "none of the register")


def test_consistency_of_port_hamiltonian_systems():
    assert not da.diagnose(da.catalog.linear_port_example(), x=[1.0, 5.0]).consistent
    windy = da.catalog.windy_pendulum()
    assert da.diagnose(windy).consistent
    x = np.array(windy.initial["x"], dtype=float)
    assert not da.diagnose(windy, x=[*(2 * x[:2]), *x[2:]]).consistent  # off the rod
    assert not da.diagnose(windy, x=[*x[:-1], 77.0]).consistent  # another multiplier
    pendulum = da.diagnose(windy)
    assert pendulum.index == 2
    assert pendulum.free_values == 2


@pytest.mark.parametrize("name", ["double_pendulum", "four_particles", "rolling_disk", "simple_pendulum"])
def test_the_array_agrees_with_the_pencil(name):
    """Index and free values of mechanical systems, by both ways."""
    system = getattr(da.catalog, name)()
    found = da.diagnose(system)
    assert found.index == (2 if system.mn else 3)
    assert found.free_values == 2 * system.n - 2 * system.mh - system.mn


def test_the_index_with_a_coordinate_without_mass():
    """`0 = -k (y - x) - c y'`: the equation of a massless coordinate is of first order with a damper, algebraic without."""
    springs = {"potential": lambda q: (q[1] - q[0]) ** 2 / 2 + q[0] ** 2 / 2}
    start = {"q": [1.0, 0.5], "v": [0.0, 0.0]}
    whole = da.diagnose(M(2, mass=[1.0, 1.0], **springs), **start)
    assert (whole.index, whole.free_values) == (0, 4)
    damped = da.diagnose(M(2, mass=[1.0, 0.0], dissipation=[0.0, 0.3], **springs), **start)
    assert (damped.index, damped.free_values) == (1, 3)
    bare = da.diagnose(M(2, mass=[1.0, 0.0], **springs), **start)
    assert (bare.index, bare.free_values) == (2, 2)


def test_conditions_are_those_of_the_matrices():
    m1, m2 = 5.0, 0.02
    found = da.diagnose(da.catalog.double_pendulum(m1=m1, m2=m2), q=[1, 0, 1, -1], v=np.zeros(4))
    G = np.array([[2.0, 0, 0, 0], [0, 2, 0, -2]])
    inverse = np.diag([1 / m1, 1 / m1, 1 / m2, 1 / m2])
    assert found.conditioning["G M^-1 G^T"] == pytest.approx(np.linalg.cond(G @ inverse @ G.T), rel=1e-12)
    assert found.conditioning["M"] == pytest.approx(m1 / m2, rel=1e-12)
    whole = np.block([[np.linalg.inv(inverse), G.T], [G, np.zeros((2, 2))]])
    assert found.conditioning["whole"] == pytest.approx(np.linalg.cond(whole), rel=1e-12)


def test_what_is_recommended():
    free, rod = {"q": [1.0, 0.0], "v": [0.0, 0.0]}, {"holonomic": lambda q: q @ q - 1}
    cases = (
        (M(2, mass=1.0), "rattle, gauss-3 for accuracy"),
        (M(2, mass=1.0, dissipation=0.1), "gauss-2"),
        (M(2, mass=1.0, force=lambda t: [t, 0]), "gauss-2"),
        (M(2, mass=1.0, inputs=np.eye(2)), "gauss-2"),
        (M(2, mass=1.0, **rod), "rattle, lobatto-pair-3 for accuracy"),
        (M(2, mass=1.0, dissipation=0.1, **rod), "energy-momentum-ggl"),
        (M(2, mass=1.0, nonholonomic=lambda q, v: v[0] + q[1] * v[1]), "spark-2, spark-3 for accuracy"),
    )
    for system, wanted in cases:
        assert da.diagnose(system, **free).recommended == wanted
    assert da.diagnose(da.catalog.dc_motor()).recommended == "discrete-gradient"
    assert da.diagnose(da.catalog.simple_pendulum().to_dae("index2"), y=[1, 0, 0, 0]).recommended == "radau-iia-3"


def test_where_the_first_choice_does_not_fit_constraints_are_kept_all_the_same():
    top = da.catalog.mechanisms.heavy_top().assemble(rotation="quaternion")
    assert da.diagnose(top).recommended == "murua-ggl-3"
