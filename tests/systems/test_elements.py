"""Elements against the same model written out, and what is refused."""

from functools import cache

import numpy as np
import pytest

import dalembert as da
from dalembert.methods.base import able

ENDS = np.array([[0, 1], [1, 2], [0, 2], [2, 3]])
START = np.array([[0.0, 0.0], [1.0, 0.2], [0.3, 1.1], [1.2, 1.6]])
STIFFNESS, LENGTH = np.array([5.0, 7.0, 3.0]), 1.3
VELOCITY = np.array([[0.3, -0.1], [0.1, 0.4], [-0.2, 0.2], [0.1, 0.1]])


def apart(q, i, j):
    return np.dot(q[j] - q[i], q[j] - q[i])


def springs():
    return da.Element(
        nodes=ENDS[:3],
        dimension=2,
        potential=lambda q, k, rest: k / 2 * (np.sqrt(apart(q, 0, 1)) - rest) ** 2,
        parameters={"k": STIFFNESS, "rest": 0.9},
        name="springs",
    )


def rods():
    return da.Element(nodes=ENDS[3:], dimension=2, holonomic=lambda q, l: apart(q, 0, 1) - l**2, parameters={"l": LENGTH})


def weights():
    return da.Element(nodes=[[1], [3], [5], [7]], potential=lambda q, m, g: m * g * q[0], name="weights")


def repeated(**more):
    return da.Mechanical(
        8, mass=lambda m: m, parameters={"m": 1.5, "g": 9.81}, dimension=2, elements=[springs(), rods(), weights()], **more
    )


def energy(q, m, g, k, rest):
    x = q.reshape(4, 2)
    stretched = sum(k[e] / 2 * (np.sqrt(apart(x, i, j)) - rest) ** 2 for e, (i, j) in enumerate(ENDS[:3]))
    return stretched + m * g * np.sum(q[1::2])


def written_out(**more):
    return da.Mechanical(
        8,
        mass=lambda m: m,
        potential=energy,
        holonomic=lambda q, l: apart(q.reshape(4, 2), 2, 3) - l**2,
        parameters={"m": 1.5, "g": 9.81, "k": STIFFNESS, "rest": 0.9, "l": LENGTH},
        dimension=2,
        **more,
    )


def start(system):
    return da.consistent(system, q=START.ravel(), v=VELOCITY.ravel())


@cache
def both():
    """The system by elements and written out, with their starts."""
    return [(system, start(system)) for system in (repeated(), written_out())]


METHODS = [str(m) for m in able(repeated())]


@pytest.mark.parametrize("method", METHODS)
def test_agrees_with_the_model_written_out(method):
    one, two = (da.simulate(system, method, q=at["q"], v=at["v"], t_end=0.05, step=0.01, compile=False) for system, at in both())
    exact = 1e-12 if not one.method.external else 1e-9  # integrators with step control round elsewhere
    assert np.abs(one.q - two.q).max() < exact
    assert np.abs(one.v - two.v).max() < 10 * exact
    assert np.abs(one.energy - two.energy).max() < 10 * exact


def damped():
    damper = da.Element(
        nodes=ENDS[:3] * 2, dissipation=lambda c, q: np.array([[1, -1], [-1, 1]]) * (c + q[0] ** 2), parameters={"c": 0.4}
    )
    wind = da.Element(
        nodes=np.arange(4)[:, None],
        dimension=2,
        force=lambda q, v, t, u, drag: -drag * v * np.sqrt(np.sum(v**2)) + u[0] * np.array([[1.0, 0.0]]) * np.cos(t),
        parameters={"drag": np.array([0.1, 0.2, 0.3, 0.4])},
    )
    return da.Mechanical(8, mass=1.5, elements=[damper, wind], inputs=1)


def damped_written_out():
    def matrix(q, c):
        rows = [[0.0] * 8 for _ in range(8)]
        for i, j in ENDS[:3] * 2:
            for a, b, sign in ((i, i, 1), (i, j, -1), (j, i, -1), (j, j, 1)):
                rows[a][b] = rows[a][b] + sign * (c + q[i] ** 2)
        return rows

    def force(v, t, u, drag):
        out = []
        for i in range(4):
            own = v[2 * i : 2 * i + 2]
            push = -drag[i] * own * np.sqrt(np.sum(own**2))
            out += [push[0] + u[0] * np.cos(t), push[1]]
        return out

    parameters = {"c": 0.4, "drag": [0.1, 0.2, 0.3, 0.4]}
    return da.Mechanical(8, mass=1.5, dissipation=matrix, force=force, inputs=1, parameters=parameters)


@pytest.mark.parametrize("method", ["gauss-2", "energy-momentum", "midpoint", "rk4", "radau-iia-2"])
def test_forces_and_dissipation_are_added_up(method):
    runs = [
        da.simulate(s, method, q=START.ravel(), v=VELOCITY.ravel(), t_end=0.2, step=0.02, u=[0.7])
        for s in (damped(), damped_written_out())
    ]
    for name in ("q", "v", "dissipated", "supplied"):
        assert np.abs(getattr(runs[0], name) - getattr(runs[1], name)).max() < 1e-12


def test_derived_roles_agree():
    one, two = repeated(), written_out()
    q, v, par = START.ravel(), VELOCITY.ravel(), one.pack()
    for role in ("potential", "holonomic", "normal", "jacobian", "curvature", "radius", "normal_radius", "energy_slope", "drift"):
        a, b = (s.numeric(role, s.pack(), q=q, v=v) for s in (one, two))
        assert np.abs(a - b).max() < 1e-13 * max(1.0, np.abs(b).max()), role
    assert list(par) == [1.5, 9.81, *STIFFNESS, 0.9, LENGTH]


def test_parameters_can_be_replaced_and_differentiated():
    k = np.array([1.0, 2.0, 30.0])
    runs = []
    for system in (repeated(), written_out()):
        at = start(system)
        runs.append(da.simulate(system, "rattle", q=at["q"], v=at["v"], t_end=0.1, step=0.01, parameters={"k": k}))
        runs.append(da.sensitivity(system, "rattle", q=at["q"], v=at["v"], t_end=0.1, step=0.01))
    assert np.abs(runs[0].q - runs[2].q).max() < 1e-13
    assert np.abs(runs[1].jacobian("q", "k") - runs[3].jacobian("q", "k")).max() < 1e-12


def test_several_constraints_of_one_element_stand_together():
    two = da.Element(nodes=[[0, 1], [2, 3]], holonomic=lambda q: [q[0] - 1, q[1] ** 2 - 4])
    system = da.Mechanical(4, mass=1.0, holonomic=lambda q: q[0] - q[2], elements=[two])
    g = system.numeric("holonomic", system.pack(), q=[1.0, 2.0, 3.0, 4.0])[0]
    assert g.tolist() == [-2.0, 0.0, 0.0, 2.0, 12.0]
    rows = system.numeric("normal", system.pack(), q=[1.0, 2.0, 3.0, 4.0])[0]
    assert rows.tolist() == [[1, 0, -1, 0], [1, 0, 0, 0], [0, 4, 0, 0], [0, 0, 1, 0], [0, 0, 0, 8]]


def test_is_written_to_a_file_and_read_again(tmp_path):
    system = repeated()
    at = start(system)
    sol = da.simulate(system, "rattle", q=at["q"], v=at["v"], t_end=0.1, step=0.01)
    sol.save(tmp_path / "run.nc")
    again = da.load(tmp_path / "run.nc")
    assert np.abs(again.energy - sol.energy).max() < 1e-13
    more = da.simulate(again.system, "rattle", q=at["q"], v=at["v"], t_end=0.1, step=0.01)
    assert np.abs(more.q - sol.q).max() < 1e-13


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (dict(nodes=[[0, 9]], potential=lambda q: q[0]), "has the number 9, but the system has 8 coordinates"),
        (dict(nodes=[[4]], dimension=2, potential=lambda q: q[0, 0]), "4 particles in 2 dimensions"),
        (dict(nodes=[[-1, 0]], potential=lambda q: q[0]), "counted from 0"),
        (dict(nodes=[0, 1], potential=lambda q: q[0]), "a table of whole numbers"),
        (dict(nodes=[[0.5]], potential=lambda q: q[0]), "a table of whole numbers"),
        (dict(nodes=[[0], [1, 2]], potential=lambda q: q[0]), "rows of one length"),
        (dict(nodes=[[0], [1]], potential=lambda q, k: k * q[0], parameters={"k": [1.0, 2.0, 3.0]}), "3 rows, but nodes has 2"),
        (dict(nodes=[[0], [1]], potential=lambda q, k: k * q[0], parameters={"k": [1.0, np.nan]}), "not finite"),
        (dict(nodes=[[0], [1]], potential=lambda q, g: g * q[0], parameters={"g": 1.0}), "another parameter 'g'"),
        (dict(nodes=[[0, 1]], potential=lambda q: q), "must return one number"),
        (dict(nodes=[[0, 1]], force=lambda q: [q[0]]), "must return 2 entries"),
        (dict(nodes=[[0, 1]], dissipation=lambda q: np.eye(3)), "expected 2 x 2"),
        (dict(nodes=[[0, 1]], holonomic=lambda t: t), "does not depend on q"),
        (dict(nodes=[[0, 1]], potential=lambda q, v: v[0]), "cannot depend on 'v'"),
        (dict(nodes=[[0, 1]], potential=lambda q, stiff: stiff), "unknown argument 'stiff'"),
        (dict(nodes=[[0, 1]], potential=lambda q: q[5]), "could not be evaluated"),
        (dict(nodes=[[0, 1]], potential=np.nan), "nan"),
        (dict(nodes=[[0, 1]]), "does nothing"),
        (dict(nodes=[[0, 1]], potential=lambda q: q[0], dimension=4), "1, 2 or 3"),
    ],
)
def test_what_is_wrong_is_said(arguments, words):
    with pytest.raises(da.ModelError, match=words):
        da.Mechanical(8, mass=1.0, elements=[da.Element(**arguments)], parameters={"g": 1.0})


def test_elements_are_a_list_and_do_not_go_with_kinematics():
    own = da.Element(nodes=[[0]], potential=lambda q: q[0])
    with pytest.raises(da.ModelError, match="elements is a list"):
        da.Mechanical(2, mass=1.0, elements=own)
    with pytest.raises(da.ModelError, match="is none"):
        da.Mechanical(2, mass=1.0, elements=[own, 3])
    with pytest.raises(da.ModelError, match="kinematics"):
        da.Mechanical(2, mass=1.0, kinematics=lambda q: np.stack([q[0], q[1]]).reshape(2, 1), elements=[own])
    with pytest.raises(da.UnknownKeyword, match="did you mean 'nodes'"):
        da.Element(node=[[0]], potential=lambda q: q[0])


def test_set_up_does_not_call_the_function_again_for_more_rows():
    calls = []

    def potential(q):
        calls.append(len(q))
        return q[0] * q[1]

    n = 500
    pairs = np.stack([np.arange(n - 1), np.arange(1, n)], axis=1)
    system = da.Mechanical(n, mass=1.0, elements=[da.Element(nodes=pairs, potential=potential)])
    assert calls == [2]
    q = np.random.default_rng(0).normal(size=n)
    assert system.numeric("potential", system.pack(), q=q)[0, 0] == pytest.approx(float(q[:-1] @ q[1:]), rel=1e-13)


def test_each_row_may_use_a_parameter_of_the_system_by_its_name():
    springs = da.Element([[0], [1]], potential=lambda q, k: k * q[0] ** 2 / 2, parameters={"k": ["soft", "hard"]}, name="springs")
    s = da.Mechanical(2, mass=1.0, elements=[springs], parameters={"hard": 9.0, "soft": 2.0})
    assert s.numeric("potential", s.pack(), q=[1.0, 2.0])[0, 0] == 2.0 / 2 + 9.0 * 4 / 2
    assert s.numeric("potential", s.pack({"soft": 4.0}), q=[1.0, 2.0])[0, 0] == 4.0 / 2 + 9.0 * 4 / 2


@pytest.mark.parametrize(
    ("names", "said"),
    [(["soft", "harder"], "'harder', which is none"), (["soft"], "has 1 rows"), (["soft", "two"], "the shape")],
)
def test_names_that_do_not_fit(names, said):
    def make():
        wrong = da.Element([[0], [1]], potential=lambda q, k: k * q[0] ** 2, parameters={"k": names})
        da.Mechanical(2, mass=1.0, elements=[wrong], parameters={"hard": 9.0, "soft": 2.0, "two": [1.0, 2.0]})

    with pytest.raises(da.ModelError, match=said):
        make()


def test_contacts_that_hold_go_with_elements():
    x = np.stack([np.arange(5.0), np.full(5, 0.2)], axis=1)
    links = np.stack([np.arange(4), np.arange(1, 5)], axis=1)
    chains = [
        {"elements": [da.Element(links, holonomic=lambda q: apart(q, 0, 1) - 1.0, dimension=2)]},
        {"holonomic": lambda q: [apart(q.reshape(5, 2), i, j) - 1.0 for i, j in links]},
    ]
    floor = da.impact(lambda q: q[3] + 0.02 * q[2], 0.0, rest=True)
    one, two = (
        da.simulate(
            da.Mechanical(10, mass=1.0, potential=lambda q: 9.81 * np.sum(q[1::2]), dimension=2, **chain),
            "rattle", q=x.ravel(), v=np.zeros(10), t_end=0.3, step=0.02, events=floor, compile=False,
        )
        for chain in chains
    )  # fmt: skip
    assert np.abs(one.q - two.q).max() < 1e-13
    assert np.abs(one.q[-1, 3] + 0.02 * one.q[-1, 2]) < 1e-14
