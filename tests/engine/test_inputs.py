"""Inputs that jump: each step sees the limits from its inside, steps end at the jumps, and no order is lost there."""

import pickle
import warnings

import numpy as np
import pytest

import dalembert as da
from dalembert.engine.inputs import Held, inputs_of, off_grid
from dalembert.methods.base import able

STEPS = ([0.0, 0.3, 0.6], [[1.0], [-3.0], [2.0]])
PIECES = ((0.0, 0.3, 1.0), (0.3, 0.6, -3.0), (0.6, 0.9, 2.0))


@pytest.fixture(scope="module")
def integrator():
    return da.PortHamiltonian(("x",), hamiltonian=lambda x: x[0] ** 2 / 2, B=[[1.0]])


@pytest.fixture(scope="module")
def pendulum():
    return da.Mechanical(
        2,
        mass=1.0,
        potential=lambda q: 9.81 * q[1],
        holonomic=lambda q: q @ q - 1,
        inputs=[[1.0], [0.4]],
        initial={"q": [0.6, -0.8], "v": [0.4, 0.3]},
    )


def exact(system, **start):
    """The end of a run made in pieces, on each of which the inputs are constant."""
    for t0, t_end, u in PIECES:
        sol = da.simulate(system, "radau-iia-5", **start, t0=t0, t_end=t_end, step=0.3 / 40, u=[u])
        start = {name: part[-1] for name, part in sol.parts.items()}
        if isinstance(system, da.IndexTwoDAE):
            start.pop("z")
        elif isinstance(system, da.PortHamiltonian) and t_end < 0.9:
            start = dict(da.consistent(system, **start, u=[{t: u for t, _, u in PIECES}[t_end]]))
    return {name: part[-1] for name, part in sol.parts.items()}


@pytest.fixture(scope="module")
def truth(pendulum):
    return exact(pendulum)


def slopes(system, method, truth, counts=(12, 24, 48), **start):
    errors = []
    for n in counts:
        sol = da.simulate(system, method, **start, t_end=0.9, step=0.9 / n, u=STEPS, compile=False)
        errors.append([np.abs(sol.parts[name][-1] - truth[name]).max() for name in system.state])
    return -np.polyfit(np.log(counts), np.log(errors), 1)[0], sol


def test_an_input_after_the_end_does_nothing(integrator):
    for method in able(integrator):
        sol = da.simulate(integrator, method, x=[0.0], t_end=1.0, step=0.5, u=([0.0, 1.0], [0.0, 1.0]))
        assert sol.x[-1] == 0.0, str(method)
        assert (sol.u == 0.0).all()


@pytest.mark.parametrize("method", ["radau-iia-3", "lobatto-iiic-3", "rk4", "gauss-2", "midpoint", "discrete-gradient"])
def test_held_inputs_add_up(integrator, method):
    u = np.array([0.5, -1.0, 3.0, 0.25])
    times = 0.1 * np.arange(4)  # not the floats of the grid
    sol = da.simulate(integrator, method, x=[0.0], t_end=0.4, step=0.05, u=(times, u))
    assert abs(sol.x[-1, 0] - 0.1 * u.sum()) < 1e-15
    assert np.array_equal(sol.u[:, 0], u[[0, 0, 0, 1, 1, 2, 2, 3, 3]])


FAMILIES = [
    ("rattle", 2),
    ("lobatto-pair-3", 4),
    ("radau-iia-2", 3),
    ("radau-iia-3", 5),
    ("gauss-2", 2),
    ("murua-2", 4),
    ("murua-ggl-2", 4),
    ("spark-3", 4),
    ("srk-gauss-2", 4),
    ("lobatto-iiia-3", 4),
    ("lobatto-iiic-3", 4),
    ("energy-momentum", 2),
    ("energy-momentum-ggl", 2),
    ("discrete-gradient", 2),
    ("variational", 2),
    ("mclachlan-perlmutter", 2),
    (da.compose("rattle", order=4), 4),
    (da.compose("energy-momentum-ggl", order=4), 4),
    (da.reduced.Baumgarte(integrator="rk4", omega=5.0), 4),
    (da.reduced.Projection(integrator="rk4"), 4),
]


@pytest.mark.parametrize(("method", "order"), FAMILIES, ids=lambda x: str(x))
def test_no_order_is_lost_at_jumps_on_the_grid(pendulum, truth, method, order):
    found, _ = slopes(pendulum, method, truth)
    assert (found > order - 0.35).all()


@pytest.mark.parametrize("method", ["dop853", "coordinate-partition"])
def test_integrators_begin_anew_at_jumps(pendulum, truth, method):
    _, sol = slopes(pendulum, method, truth)
    assert np.abs(sol.q[-1] - truth["q"]).max() < 1e-7
    other = da.simulate(pendulum, method, t_end=0.9, step=0.07, u=STEPS)  # rows elsewhere: no matter
    assert np.abs(other.q[-1] - truth["q"]).max() < 1e-6


JUMPS = [("lobatto-iiia-3", 4), ("radau-iia-2", 3), ("murua-2", 4), ("srk-gauss-2", 4)]


@pytest.mark.parametrize(("index", "method", "order"), [*((i, *m) for i in (1, 2) for m in JUMPS), (1, "rk4", 4)])
def test_algebraic_variables_jump_with_the_inputs(index, method, order):
    if index == 1:
        system = da.IndexOneDAE(
            ("y",), f=lambda y, z, u: -z + 0.1 * u[0], g=lambda y, z, u: z + 0.1 * z**3 - u - y, inputs=1, initial={"y": [0.5]}
        )
    else:
        system = da.IndexTwoDAE(
            3,
            f=lambda y, z, u: [
                y[1] * (1 + 0.3 * y[2]) + z[0] * y[0],
                -y[0] + z[0] * y[1] + 0.5 * u[0] * y[2],
                0.3 * y[0] * y[2] + u[0],
            ],
            g=lambda y: [y[0] ** 2 + y[1] ** 2 - 1],
            inputs=1,
            initial={"y": [0.6, 0.8, 0.3]},
        )
    found, sol = slopes(system, method, exact(system))
    assert (found > order - 0.25).all()
    assert np.abs(sol.residual("position")).max() < 1e-13
    assert np.abs(sol.residual("velocity")).max() < 1e-12


@pytest.mark.parametrize(("method", "order"), [("midpoint", 2), ("discrete-gradient", 2), ("gauss-2", 4), ("radau-iia-2", 3)])
def test_algebraic_states_jump_with_the_inputs(method, order):
    system = da.PortHamiltonian(
        3,
        E=np.diag([1.0, 1.0, 0.0]),
        J=[[0, 1.0, 1.0], [-1.0, 0, 0], [-1.0, 0, 0]],
        R=np.diag([0.1, 0.2, 2.0]),
        hamiltonian=lambda x: x[0] ** 2 / 2 + x[1] ** 4 / 4 + x[1] ** 2 / 2,
        z=lambda x: [x[0], x[1] ** 3 + x[1], x[2]],
        B=[[0.0], [1.0], [1.0]],
    )
    start = dict(da.consistent(system, x=[1.0, 0.5, 0.2], u=[1.0]))
    found, sol = slopes(system, method, exact(system, **start), **start)
    assert found[0] > order - 0.25
    if method == "discrete-gradient":
        assert np.abs(sol.power_balance).max() < 1e-14


@pytest.mark.parametrize("method", ["energy-momentum", "midpoint"])
def test_work_of_jumping_inputs_is_balanced(method):
    system = da.Mechanical(1, mass=2.0, potential=lambda q: q[0] ** 2, inputs=[1.0], initial={"q": [1.0], "v": [0.0]})
    sol = da.simulate(system, method, t_end=0.9, step=0.03, u=STEPS)
    assert np.abs(sol.power_balance).max() < 1e-14


def test_adaptive_steps_end_at_jumps(pendulum, truth):
    u = ([0.0, 0.3, 0.6], STEPS[1])
    control = da.control.ErrorControl(rtol=1e-10, atol=1e-12)
    sol = da.simulate(pendulum, "radau-iia-3", t_end=0.9, step=0.05, u=u, adaptive=control)
    assert {0.3, 0.6, 0.9} <= set(sol.t)
    assert np.abs(sol.q[-1] - truth["q"]).max() < 1e-8
    assert sol.stats["rejected"] <= 5


def test_events_are_refined_with_the_inputs_of_their_step(integrator):
    event = da.Event(lambda x: x[0] - 0.25, name="there", terminal=True)
    sol = da.simulate(integrator, "radau-iia-3", x=[0.0], t_end=2.0, step=0.5, u=([0.0, 0.5], [0.0, 1.0]), events=event)
    assert abs(sol.events["there"].t[0] - 0.75) < 1e-15
    assert abs(sol.x[-1, 0] - 0.25) < 1e-15


def test_sensitivities_see_the_same_inputs():
    system = da.PortHamiltonian(("x",), hamiltonian=lambda x: x[0] ** 2 / 2, R=[[1.0]], B=lambda k: [[k]], parameters={"k": 1.0})
    run = da.sensitivity(system, "radau-iia-3", x=[1.0], t_end=1.0, step=0.25, u=([0.0, 0.5], [1.0, -2.0]))
    moved = [
        da.simulate(system, "radau-iia-3", x=[1.0], t_end=1.0, step=0.25, u=([0.0, 0.5], [1.0, -2.0]), parameters={"k": k}).x[-1]
        for k in (1 + 1e-5, 1 - 1e-5)
    ]
    assert abs(run.jacobian("x", "k")[0] - (moved[0] - moved[1])[0] / 2e-5) < 1e-9


def test_jumps_inside_of_steps_are_said(integrator):
    with pytest.warns(da.DalembertWarning, match=r"jumps inside of 1 steps of 0.1, first at t = 0.25.*adaptive=True"):
        da.simulate(integrator, "rk4", x=[0.0], t_end=1.0, step=0.1, u=([0.0, 0.25], [1.0, 2.0]))
    with warnings.catch_warnings():  # equal samples are no jump, nor is one beyond the end or a rounding beside a step
        warnings.simplefilter("error")
        da.simulate(integrator, "rk4", x=[0.0], t_end=1.0, step=0.1, u=([0.0, 0.25, 1.3], [1.0, 1.0, 2.0]))
        da.simulate(integrator, "rk4", x=[0.0], t_end=1.0, step=0.1, u=(np.cumsum(np.full(9, 0.1)), np.arange(9.0)))


def test_limits():
    held = Held(np.array([0.0, 1.0, 2.0]), np.array([[1.0], [2.0], [3.0]]))
    begin, end = np.array([1.0]), np.array([2.0])
    for t in (0.4, 1.0, 1.5, 2.0, 2.7):  # of a step from 1 to 2, places outside of it included
        assert held.within(np.array([t]), begin, end)[0, 0] == 2.0
    assert held(np.array([-1.0, 0.0, 1.0, 2.0]))[:, 0].tolist() == [1.0, 1.0, 2.0, 3.0]
    assert held.split(0.5, 2.0) == [(0.5, 1.0), (1.0, 2.0)]
    assert held.next_jump(2.0, 3.0) == 3.0
    assert off_grid(held, 0.0, 0.3, 3.0).tolist() == [1.0, 2.0]
    assert off_grid(held, 0.0, 0.2, 3.0).tolist() == []


def test_numbers_are_kept_in_a_pickle_and_functions_as_rows(integrator):
    t = np.linspace(0.0, 0.5, 11)
    held = da.simulate(integrator, "gauss-2", x=[0.0], t_end=0.5, step=0.25, u=([0.0, 0.25], [1.0, -1.0]))
    assert np.array_equal(pickle.loads(pickle.dumps(held)).inputs(t), held.inputs(t))
    free = da.simulate(integrator, "gauss-2", x=[0.0], t_end=0.5, step=0.25, u=lambda t: [t])
    assert np.abs(pickle.loads(pickle.dumps(free)).inputs(t) - free.inputs(t)).max() < 1e-15


def test_given_numbers_are_copied(integrator):
    u = np.array([2.0])
    inputs = inputs_of(integrator, u, 0.0)
    u[0] = 5.0
    assert inputs(np.zeros(1))[0, 0] == 2.0


def test_a_pair_of_numbers_is_a_constant_and_no_samples():
    system = da.Mechanical(
        ("x", "y"), mass=[1.0, 1.0], potential=lambda q: q[0] ** 2 + q[1] ** 2, inputs=[[1.0, 0.0], [0.0, 1.0]]
    )
    options = {"q": [1.0, 0.0], "t_end": 0.5, "step": 0.1, "compile": False}
    pair, row = (da.simulate(system, "rattle", u=u, **options) for u in ((0.5, -1.0), [0.5, -1.0]))
    np.testing.assert_array_equal(pair.q, row.q)
    np.testing.assert_array_equal(pair.u, np.tile([0.5, -1.0], (6, 1)))


@pytest.fixture(scope="module")
def carriage():
    """A cart on a spring with a motor, a brake and the wind, by name."""
    return da.Mechanical(
        ("x", "y"), mass=lambda m: [m, 2 * m], potential=lambda q: q[0] ** 2 + q[1] ** 2 + q[0] ** 4 / 4, parameters={"m": 1.5},
        inputs={"motor": [1.0, 0.0], "brake": [0.0, 0.5], "wind": lambda q: [np.cos(q[0]), np.sin(q[1])]},
        initial={"q": [0.3, 0.1], "v": [0.0, 0.2]},
    )  # fmt: skip


TABLE = ([0.0, 0.3, 0.6], [1.0, -3.0, 2.0])


@pytest.mark.parametrize(
    ("named", "whole"),
    [
        ({"wind": 0.4}, [0.0, 0.0, 0.4]),
        ({"motor": 2.0, ("wind", "brake"): [0.4, -1.0]}, [2.0, -1.0, 0.4]),
        ({"brake": np.sin, "motor": 1.0}, lambda t: [1.0, np.sin(t), 0.0]),
        ({"motor": TABLE, "wind": 0.3}, (TABLE[0], [[1.0, 0.0, 0.3], [-3.0, 0.0, 0.3], [2.0, 0.0, 0.3]])),
        ({"motor": TABLE, "wind": ([0.0, 0.45], [1.0, 2.0])},
         ([0.0, 0.3, 0.45, 0.6], [[1.0, 0.0, 1.0], [-3.0, 0.0, 1.0], [-3.0, 0.0, 2.0], [2.0, 0.0, 2.0]])),
    ],
)  # fmt: skip
@pytest.mark.parametrize("adaptive", [False, True])
def test_inputs_by_name_are_those_by_position(carriage, named, whole, adaptive):
    runs = {"t_end": 0.9, "step": 0.015, "adaptive": adaptive}
    left, right = (da.simulate(carriage, "energy-momentum", u=u, **runs) for u in (named, whole))
    np.testing.assert_array_equal(left.q, right.q)
    np.testing.assert_array_equal(left.u, right.u)
    np.testing.assert_array_equal(left.supplied, right.supplied)
    assert np.abs(left.power_balance).max() < 1e-14


def test_a_table_and_a_function_side_by_side(carriage):
    """Steps end at the jumps of the table, and each sees it from inside: the order is that of the method."""
    u = {"motor": TABLE, "wind": lambda t: np.sin(3 * t)}

    def whole(value):
        return lambda t: [value, 0.0, np.sin(3 * t)]

    start: dict[str, np.ndarray] = {}
    for t0, t_end, value in PIECES:
        piece = da.simulate(carriage, "gauss-3", **start, t0=t0, t_end=t_end, step=0.01, u=whole(value))
        start = {"q": piece.q[-1], "v": piece.v[-1]}
    sol = da.simulate(carriage, "gauss-3", t_end=0.9, step=0.01, u=u)
    np.testing.assert_allclose(sol.q[-1], start["q"], atol=1e-13)
    free = da.simulate(carriage, "gauss-3", t_end=0.9, step=0.01, u=u, adaptive=True)
    assert all(np.abs(free.t - jump).min() < 1e-14 for jump in (0.3, 0.6))
    np.testing.assert_allclose(free.q[-1], start["q"], atol=1e-6)
    np.testing.assert_allclose(sol.at(0.3 + 1e-9).q, sol.at(0.3).q, atol=1e-8)


def test_names_of_inputs(carriage, tmp_path):
    assert carriage.ports == ("motor", "brake", "wind")
    assert carriage.to_port_hamiltonian().ports == carriage.to_hamiltonian().ports == carriage.ports
    assert da.Mechanical(2, mass=1.0, inputs=np.eye(2)).ports == ("u1", "u2")
    named = da.Mechanical(1, mass=1.0, inputs=("push", "drag"), force=lambda v, u: u[0] - u[1] * v[0])
    assert named.ports == ("push", "drag")
    sol = da.simulate(carriage, "energy-momentum", t_end=0.1, step=0.01, u={"wind": 1.0})
    assert da.load(sol.save(tmp_path / "run.nc")).system.ports == carriage.ports
    assert pickle.loads(pickle.dumps(carriage)).ports == carriage.ports


@pytest.mark.parametrize(
    ("u", "match"),
    [
        ({"moter": 1.0}, r"no input 'moter'; did you mean 'motor'"),
        ({"motor": 1.0, ("motor", "wind"): [1.0, 2.0]}, "'motor' twice"),
        ({"motor": [1.0, 2.0]}, "must give 1 numbers for .*input 'motor'"),
        ({("motor", "wind"): 1.0}, "must give 2 numbers"),
        ({"motor": lambda t, q: 1.0}, r"function of t alone.*da\.Sampled"),
        ({"motor": ([0.0, 0.0], [1.0, 2.0])}, "increasing times"),
        ({3: 1.0}, "no input 3"),
    ],
)
def test_bad_inputs_by_name(carriage, u, match):
    with pytest.raises(da.DalembertError, match=match):
        da.simulate(carriage, "energy-momentum", t_end=0.1, step=0.01, u=u)


def test_bad_names_of_inputs():
    with pytest.raises(da.ModelError, match=r"input 'a' must return 2 entries"):
        da.Mechanical(2, mass=1.0, inputs={"a": [1.0]})
    with pytest.raises(da.ModelError, match="'a' is named twice"):
        da.Mechanical(2, mass=1.0, inputs=("a", "a"))
