"""Events that act: arcs in one solution, energy as the law says, contacts that strike, hold and let go, and what is refused."""

import pickle

import numpy as np
import pytest

import dalembert as da

G = 9.81


@pytest.fixture(scope="module")
def ball():
    return da.Mechanical(
        ("z",), mass=lambda m: m, potential=lambda q, m: m * G * q[0], parameters={"m": 2.0}, inputs={"push": [1.0]}
    )


def floor(e, **options):
    return da.impact(lambda q: q[0], e, name="floor", **options)


# ---- the four examples --------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"compile": "newton"}, {"adaptive": "backoff"}, {"save_every": 3}])
@pytest.mark.parametrize("method", ["rattle", "energy-momentum"])
def test_a_bouncing_ball(ball, method, options):
    e = 0.8
    sol = da.simulate(ball, method, q=[1.0], v=[0.0], t_end=2.5, step=0.01, events=floor(e), **options)
    assert len(sol.arcs) == 5
    first = np.sqrt(2 / G)
    times = first * (1 + 2 * np.cumsum(e ** np.arange(1, 4)))
    np.testing.assert_allclose([jump.t for jump in sol.jumps], [first, *times], atol=1e-12)
    for k, arc in enumerate(sol.arcs):
        np.testing.assert_allclose(arc.energy, 2.0 * G * e ** (2 * k), rtol=1e-12)
    for k, jump in enumerate(sol.jumps):
        speed = np.sqrt(2 * G) * e**k
        assert jump.impulse == pytest.approx(2.0 * speed * (1 + e), rel=1e-12)
        assert jump.dissipated == pytest.approx(speed**2 * (1 - e**2), rel=1e-12)
        assert jump.after["v"] == pytest.approx(-e * jump.before["v"], rel=1e-15)
    assert np.abs(sol.power_balance).max() < 1e-13
    assert sol.q.min() > -1e-15
    both = np.flatnonzero(np.diff(sol.t) == 0)
    assert len(both) == 4
    np.testing.assert_array_equal(sol.q[both], sol.q[both + 1])
    np.testing.assert_allclose(sol.v[both + 1], -e * sol.v[both], rtol=1e-14)
    np.testing.assert_allclose(sol.events["floor"].t, sol.t[both], atol=0)
    assert sol.dissipated.sum() == pytest.approx(2.0 * G * (1 - e**8), rel=1e-12)


def test_newtons_cradle():
    """Five balls that touch: one goes in, one comes out at the other end, and all that for nothing."""
    n, width = 5, 0.1
    cradle = da.Mechanical(n, mass=1.0, potential=lambda q: G * sum(1 - np.cos(q[i]) for i in range(n)))

    def gap(i):
        return lambda q: (width * (i + 1) + np.sin(q[i + 1])) - (width * i + np.sin(q[i])) - width

    contacts = [da.impact(gap(i), 1.0, name=f"{i + 1}-{i + 2}") for i in range(n - 1)]
    sol = da.simulate(cradle, "lobatto-pair-4", q=[-0.6, 0, 0, 0, 0], v=np.zeros(n), t_end=3.0, step=0.01, events=contacts)
    assert [jump.event for jump in sol.jumps[:8]] == ["1-2", "2-3", "3-4", "4-5", "4-5", "3-4", "2-3", "1-2"]
    assert len(sol.arcs) == 4
    np.testing.assert_allclose(sol.energy, sol.energy[0], rtol=1e-11)  # the method keeps it as well as that
    for before, after in zip(sol.arcs, sol.arcs[1:], strict=False):
        assert after.energy[0] == pytest.approx(before.energy[-1], rel=1e-14)
    assert sol.arcs[1].q[:, 4].max() == pytest.approx(0.6, abs=1e-4)
    assert np.abs(sol.arcs[1].q[:, :4]).max() < 1e-14
    assert np.abs(sol.power_balance).max() < 1e-12


def test_a_slider_with_stops():
    """Pushed by sin t between stops at -1 and 1: it sticks while it is pressed, and leaves when the force turns."""
    slider = da.Mechanical(("x",), mass=1.0, inputs={"push": [1.0]})
    stops = [da.stop(lambda q: 1 - q[0], name="right"), da.stop(lambda q: 1 + q[0], 0.5, name="left")]
    sol = da.simulate(slider, "energy-momentum", q=[0.0], v=[0.0], t_end=6.5, step=0.01, u={"push": np.sin}, events=stops)
    hit, leave, left = (jump.t for jump in sol.jumps[:3])
    assert hit - np.sin(hit) == pytest.approx(1.0, abs=1e-4)  # the method's own error
    assert leave == pytest.approx(np.pi, abs=1e-12)
    assert sol.jumps[0].engaged == ("right",)
    assert sol.jumps[1].event == "right lets go"
    held = sol.arcs[1]
    np.testing.assert_array_equal(held.q, 1.0)
    np.testing.assert_array_equal(held.v, 0.0)
    np.testing.assert_allclose(held.lam[:, 0], -np.sin(held.t_lam), atol=1e-4)
    assert (held.lam < 1e-12).all()
    assert sol.lam.shape == (len(sol.t) - 1, 1)
    assert not sol.arcs[0].lam.size
    assert sol.jumps[2].after["v"] == pytest.approx(-0.5 * sol.jumps[2].before["v"], rel=1e-14)
    assert left > leave
    assert np.abs(sol.power_balance).max() < 1e-13
    assert np.abs(sol.q).max() <= 1.0 + 1e-15


def test_a_door_that_latches():
    """It falls shut, is caught with all its energy lost, and is torn open when the pull exceeds the latch."""
    door = da.Mechanical(
        ("angle",), mass=2.0, potential=lambda q, k: k * q[0] ** 2 / 2, parameters={"k": 3.0}, inputs={"pull": [1.0]}
    )
    u = {"pull": lambda t: max(0.0, 4 * (t - 4.0))}
    latch = da.latch(lambda q: q[0], strength=5.0, name="latch")
    sol = da.simulate(door, "energy-momentum", q=[1.2], v=[0.0], t_end=6.0, step=0.01, u=u, events=latch)
    caught, torn = sol.jumps
    assert caught.t == pytest.approx(np.pi / 2 / np.sqrt(1.5), abs=1e-4)
    assert caught.dissipated == pytest.approx(3.0 * 1.2**2 / 2, rel=1e-12)
    assert caught.engaged == ("latch",)
    assert torn.t == pytest.approx(5.25, abs=1e-12)
    np.testing.assert_array_equal(sol.arcs[1].q, 0.0)
    np.testing.assert_array_equal(sol.arcs[1].energy, 0.0)
    assert sol.arcs[2].q[-1, 0] > 0.05
    assert np.abs(sol.power_balance).max() < 1e-13
    forever = da.simulate(door, "energy-momentum", q=[1.2], v=[0.0], t_end=6.0, step=0.01, u=u, events=da.latch(lambda q: q[0]))
    np.testing.assert_array_equal(forever.q[-1], 0.0)


# ---- impacts with constraints -------------------------------------------------------------------------------


def test_an_impact_in_redundant_coordinates_is_that_of_the_angle():
    """A pendulum strikes a wall: on its rod in the plane, and as an angle."""
    l, e = 1.3, 0.6
    plane = da.Mechanical(2, mass=1.7, potential=lambda q: 1.7 * G * q[1], holonomic=lambda q: q @ q - l**2)
    angle = da.Mechanical(1, mass=1.7 * l**2, potential=lambda q: -1.7 * G * l * np.cos(q[0]))
    wall = -0.3
    runs = {"t_end": 3.0, "step": 0.005}
    a = da.simulate(plane, "lobatto-pair-4", q=[l, 0.0], v=[0.0, 0.0], events=da.impact(lambda q: q[0] - wall, e), **runs)
    b = da.simulate(angle, "gauss-4", q=[np.pi / 2], v=[0.0], events=da.impact(lambda q: l * np.sin(q[0]) - wall, e), **runs)
    assert len(a.jumps) == len(b.jumps) >= 2
    for one, two in zip(a.jumps, b.jumps, strict=True):
        assert one.t == pytest.approx(two.t, abs=1e-9)
        assert one.impulse == pytest.approx(two.impulse, rel=1e-8)
        assert one.dissipated == pytest.approx(two.dissipated, rel=1e-8)
        q, jump = one.before["q"], one.after["v"] - one.before["v"]
        np.testing.assert_allclose(1.7 * jump, [one.impulse, 0.0] - 2 * q * one.reactions, atol=1e-12)
        assert abs(q @ one.after["v"]) < 1e-12
        assert one.dissipated > 0
    assert np.abs(a.residual("position")).max() < 1e-12
    assert np.abs(a.residual("velocity")).max() < 1e-11
    np.testing.assert_allclose(a.q[-1], [l * np.sin(b.q[-1, 0]), -l * np.cos(b.q[-1, 0])], atol=1e-8)


def test_an_impact_with_a_nonholonomic_constraint():
    """A skate strikes a wall: it keeps its edge, and the momenta balance."""
    skate = da.Mechanical(
        3, mass=[2.0, 2.0, 0.5], nonholonomic=lambda q, v: np.sin(q[2]) * v[0] - np.cos(q[2]) * v[1],
        initial={"q": [0.0, 0.0, 0.4], "v": [np.cos(0.4), np.sin(0.4), 0.3]},
    )  # fmt: skip
    sol = da.simulate(skate, "spark-3", t_end=2.0, step=0.01, events=da.impact(lambda q: 0.8 - q[0], 0.5, name="wall"))
    jump = sol.jumps[0]
    q, before, after = jump.before["q"], jump.before["v"], jump.after["v"]
    edge = np.array([np.sin(q[2]), -np.cos(q[2]), 0.0])
    assert abs(edge @ after) < 1e-12
    assert after[0] == pytest.approx(-0.5 * before[0], rel=1e-12)
    np.testing.assert_allclose([2.0, 2.0, 0.5] * (after - before), [-jump.impulse, 0, 0] - edge * jump.reactions, atol=1e-12)
    energy = [2.0, 2.0, 0.5] * (before**2 - after**2) / 2
    assert jump.dissipated == pytest.approx(energy.sum(), rel=1e-12)


def sphere(e, mu, v, spin, drag=0.0):
    """A sphere of radius r that falls on a belt: x, y, and its angle; after the first bounce."""
    m, r = 2.0, 0.3
    body = da.Mechanical(("x", "y", "a"), mass=np.diag([m, m, 0.4 * m * r**2]), potential=lambda q: 9.81 * 2.0 * q[1])
    floor = da.impact(lambda q: q[1] - r, e, friction=mu, slip=lambda q, t: q[0] + r * q[2] - drag * t, name="floor")
    start = {"q": [0.0, 1.0, 0.0], "v": [v, 0.0, spin]}
    return m, r, da.simulate(body, "rattle", **start, t_end=0.6, step=0.01, events=floor)


@pytest.mark.parametrize(("mu", "sticks"), [(0.1, False), (0.5, True)])
@pytest.mark.parametrize("drag", [0.0, -0.7])
def test_friction_of_an_impact(mu, sticks, drag):
    """The sphere slides or ends to slip: impulses by Coulomb's law, angular momentum about the contact, energy."""
    m, r, sol = sphere(0.6, mu, 2.0, 1.0, drag)
    (jump,) = sol.jumps
    slip = 2.0 + r * 1.0 - drag
    normal = 1.6 * m * np.sqrt(2 * 9.81 * 0.7)
    assert jump.impulse == pytest.approx(normal, rel=1e-12)
    expected = -2 / 7 * m * slip if sticks else -mu * normal
    np.testing.assert_allclose(jump.tangential, [expected], rtol=1e-12)
    after = jump.after["v"]
    left = after[0] + r * after[2] - drag
    assert left == pytest.approx(0.0 if sticks else slip + 3.5 * expected / m, abs=1e-12)
    spins = [0.4 * m * r**2 * v[2] - r * m * v[0] for v in (jump.before["v"], after)]
    assert spins[0] == pytest.approx(spins[1], rel=1e-12)
    assert jump.supplied == pytest.approx(-expected * -drag if drag else 0.0, abs=1e-12)
    assert np.abs(sol.power_balance).max() < 1e-12
    assert jump.dissipated > 0


def test_friction_in_a_plane_acts_against_what_is_left_of_slipping(tmp_path):
    """With an inertia that differs by direction the slipping turns: the impulse is against the slipping after the impact."""
    mass = np.array([[1.0, 0.3, 0.1], [0.3, 2.0, 0.0], [0.1, 0.0, 1.5]])
    body = da.Mechanical(("x", "y", "z"), mass=mass, potential=lambda q: 15.0 * q[2])
    floor = da.impact(lambda q: q[2], 0.5, friction=0.2, slip=lambda q: q[:2], name="floor")
    start = {"q": [0.0, 0.0, 0.5], "v": [2.0, -1.0, 0.0]}
    sol = da.simulate(body, "rattle", **start, t_end=0.4, step=0.01, events=floor)
    (jump,) = sol.jumps
    left = jump.after["v"][:2]
    np.testing.assert_allclose(jump.tangential, -0.2 * jump.impulse * left / np.linalg.norm(left), rtol=1e-12)
    np.testing.assert_allclose(mass @ (jump.after["v"] - jump.before["v"]), [*jump.tangential, jump.impulse], rtol=1e-12)
    assert np.abs(sol.power_balance).max() < 1e-12
    sol.save(tmp_path / "run.nc")
    np.testing.assert_array_equal(da.load(tmp_path / "run.nc").jumps[0].tangential, jump.tangential)
    for options, match in (
        ({"friction": -1.0}, "coefficient"),
        ({"friction": 0.3}, "belong together"),
        ({"slip": 3}, "a function"),
    ):
        with pytest.raises(da.MethodError, match=match):
            da.impact(lambda q: q[2], 0.5, **options)


def test_a_moving_wall_does_work(ball):
    """A racket that moves up at 2 m/s: v+ - w = -(v- - w), and the work is that of its force."""
    racket = da.impact(lambda q, t: q[0] + 1.0 - 2.0 * t, 1.0, name="racket")
    sol = da.simulate(ball, "rattle", q=[0.0], v=[0.0], t_end=0.6, step=0.01, events=racket)
    jump = sol.jumps[0]
    assert jump.after["v"][0] == pytest.approx(4.0 - jump.before["v"][0], rel=1e-14)
    assert jump.supplied == pytest.approx(jump.impulse * 2.0, rel=1e-14)
    assert jump.dissipated == pytest.approx(0.0, abs=1e-14)
    assert np.abs(sol.power_balance).max() < 1e-12


def test_contact_at_the_beginning(ball):
    down = da.simulate(ball, "rattle", q=[0.0], v=[-1.0], t_end=0.1, step=0.01, events=floor(0.5))
    assert down.t[1] == 0.0
    assert down.v[1, 0] == 0.5
    lying = da.simulate(ball, "rattle", q=[0.0], v=[0.0], t_end=1.0, step=0.01, events=floor(0.5, rest=True))
    np.testing.assert_array_equal(lying.q, 0.0)
    np.testing.assert_allclose(lying.lam, -2.0 * G, rtol=1e-13)
    lifted = da.simulate(
        ball,
        "energy-momentum",
        q=[0.0],
        v=[0.0],
        t_end=2.0,
        step=0.01,
        events=floor(0.5, rest=True),
        u={"push": lambda t: 2 * G * t},
    )
    assert lifted.jumps[0].t == pytest.approx(1.0, abs=1e-12)
    assert lifted.q[-1, 0] == pytest.approx(G / 6, rel=1e-3)


# ---- accumulation -------------------------------------------------------------------------------------------


def test_bounces_that_accumulate(ball):
    e, first = 0.5, np.sqrt(2 / G)
    with pytest.raises(da.EventError, match=r"floor closes again and again: .* rest=True") as info:
        da.simulate(ball, "rattle", q=[1.0], v=[0.0], t_end=3.0, step=0.01, events=floor(e))
    kept = info.value.solution
    assert kept.t[-1] == pytest.approx(first * (1 + 2 * e / (1 - e)), abs=1e-7)
    assert len(kept.arcs) > 20
    resting = da.simulate(ball, "rattle", q=[1.0], v=[0.0], t_end=3.0, step=0.01, events=floor(e, rest=True))
    assert resting.t[-1] == 3.0
    np.testing.assert_array_equal(resting.q[-50:], 0.0)
    assert resting.dissipated.sum() == pytest.approx(2.0 * G, rel=1e-12)
    assert resting.jumps[-1].engaged == ("floor",)

    def bounce(factor):
        return da.Event(lambda q: q[0], -1, name="floor", action=lambda v: {"v": -factor * v})

    for factor, match in ((0.5, "floor acts again and again"), (0.0, "at rest on zero")):
        with pytest.raises(da.EventError, match=match) as info:
            da.simulate(ball, "rattle", q=[1.0], v=[0.0], t_end=3.0, step=0.01, events=bounce(factor))
        assert info.value.solution.q.min() > -1e-12
        assert info.value.solution.t[-1] > 0.45


# ---- actions ------------------------------------------------------------------------------------------------


def test_an_action_changes_state_parameters_and_system(ball):
    """A bag is dropped onto a ball in flight, which goes on heavier; a parachute opens: another system takes over."""
    chute = da.Mechanical(
        ("z",), mass=lambda m: m, potential=lambda q, m: m * G * q[0], dissipation=lambda c: c, parameters={"m": 1.0, "c": 4.0},
        inputs={"push": [1.0]},
    )  # fmt: skip
    bag = da.Event(lambda q: q[0] - 5.0, -1, name="bag", action=lambda v, m: {"v": v * m / (m + 1), "m": m + 1})
    jump = da.Event(lambda q: q[0] - 2.0, -1, name="chute", action=lambda q: {"system": chute})
    sol = da.simulate(ball, "energy-momentum", q=[10.0], v=[0.0], t_end=2.0, step=0.01, events=[bag, jump])
    one, two, three = sol.arcs
    assert [float(arc.parameters["m"]) for arc in sol.arcs] == [2.0, 3.0, 3.0]
    assert three.system is chute
    assert float(three.parameters["c"]) == 4.0
    assert two.v[0] == pytest.approx(one.v[-1] * 2 / 3, rel=1e-15)
    speed = np.sqrt(2 * G * 5.0)
    assert one.v[-1, 0] == pytest.approx(-speed, rel=1e-12)
    gained = 3.0 * ((2 * speed / 3) ** 2 / 2 + 5 * G) - 2.0 * (speed**2 / 2 + 5 * G)
    assert sol.jumps[0].supplied == pytest.approx(gained, rel=1e-12)
    assert three.dissipated.sum() > 1.0
    assert np.abs(sol.power_balance).max() < 1e-12
    np.testing.assert_array_equal(sol.energy, np.concatenate([arc.energy for arc in sol.arcs]))
    assert sol.at(two.t[0]).v == pytest.approx(one.v[-1], rel=1e-14)
    times = np.array([0.5, 1.05, 1.9])
    expected = [arc.at(t).q[0] for arc, t in zip(sol.arcs, times, strict=True)]
    np.testing.assert_array_equal(sol.at(times).q[:, 0], expected)


def test_an_action_on_a_port_hamiltonian(ball):
    ports = ball.to_port_hamiltonian()
    bounce = da.Event(lambda x: x[0], -1, name="floor", action=lambda x: {"x": [0.0, -0.8 * x[1]]})
    sol = da.simulate(ports, "discrete-gradient", x=[1.0, 0.0], t_end=1.5, step=0.01, events=bounce)
    same = da.simulate(ball, "energy-momentum", q=[1.0], v=[0.0], t_end=1.5, step=0.01, events=floor(0.8))
    np.testing.assert_allclose(sol.x[-1], [same.q[-1, 0], same.v[-1, 0]], atol=1e-11)
    assert sol.outputs.shape == (len(sol.t) - 1, 1)
    assert np.abs(sol.power_balance).max() < 1e-13


def test_a_terminal_event_ends_a_run_of_arcs(ball):
    events = [floor(0.8), da.Event(lambda t: t - 1.0, terminal=True, name="end")]
    sol = da.simulate(ball, "rattle", q=[1.0], v=[0.0], t_end=5.0, step=0.01, events=events)
    assert sol.t[-1] == pytest.approx(1.0, abs=1e-15)
    assert len(sol.arcs) == 2


def test_controllers_go_on_through_jumps(ball):
    """Samples stay on their times, the controller keeps its state, and no sample is taken that the motion does not come to."""
    calls = []

    def law(t, y, state):
        calls.append(t)
        return 2.0 * (1 - y[0]) - 0.5 * y[1] + state[0], state + 0.01

    u = da.Sampled(law, every=0.02, state=[0.0])
    runs = {"q": [1.0], "v": [0.0], "t_end": 1.5, "u": u, "events": floor(0.7)}
    sol = da.simulate(ball, "gauss-2", step=0.01, **runs)
    samples = sol.samples["push"]
    np.testing.assert_allclose(samples.t, 0.02 * np.arange(75), atol=1e-14)
    np.testing.assert_allclose(calls, samples.t, atol=0)
    np.testing.assert_allclose(samples.state[:, 0], 0.01 * np.arange(75), atol=1e-14)
    free = da.simulate(ball, "gauss-2", step=0.01, adaptive="backoff", **runs)
    np.testing.assert_allclose(free.q[-1], sol.q[-1], atol=1e-9)
    assert np.abs(sol.power_balance).max() < 1e-12


# ---- one solution -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def arcs():
    slider = da.Mechanical(
        ("x", "y"), mass=1.0, potential=lambda q: q[1] ** 2, holonomic=lambda q: q[1] - q[0] ** 2, inputs=[[1.0], [0.0]]
    )
    stops = [da.stop(lambda q: 0.5 - q[0], name="right"), da.impact(lambda q: 0.7 + q[0], 0.5, name="left")]
    start = {"q": [0.0, 0.0], "v": [0.0, 0.0]}
    return da.simulate(slider, "rattle", **start, t_end=6.0, step=0.02, u=lambda t: [2 * np.sin(t)], events=stops)


def test_arcs_in_files_and_copies(arcs, tmp_path):
    assert {jump.event for jump in arcs.jumps} == {"right", "right lets go", "left"}
    assert arcs.system.m == 2
    for other in (da.load(arcs.save(tmp_path / "run.nc")), pickle.loads(pickle.dumps(arcs))):
        assert len(other.arcs) == len(arcs.arcs)
        for name in ("t", "q", "v", "lam", "t_lam", "energy", "supplied", "dissipated", "power_balance", "u"):
            np.testing.assert_array_equal(getattr(other, name), getattr(arcs, name))
        np.testing.assert_array_equal(other.residual("position"), arcs.residual("position"))
        for one, two in zip(other.jumps, arcs.jumps, strict=True):
            assert (one.t, one.event, one.impulse, one.engaged) == (two.t, two.event, two.impulse, two.engaged)
            np.testing.assert_array_equal(one.after["v"], two.after["v"])
        assert [arc.system.m for arc in other.arcs] == [arc.system.m for arc in arcs.arcs]


def test_constraints_of_arcs(arcs):
    assert np.abs(arcs.residual("position")).max() < 1e-14
    assert np.abs(arcs.residual("velocity")).max() < 1e-13
    held = [i for i, arc in enumerate(arcs.arcs) if arc.system.m == 2]
    assert held
    rows = arcs._rows[held[0]]
    assert (arcs.lam[rows.start : rows.stop - 1, 1] < 0).all()
    assert not arcs.lam[: arcs._rows[0].stop - 1, 1].any()
    middle = (arcs.arcs[held[0]].t[0] + arcs.arcs[held[0]].t[-1]) / 2
    assert arcs.at(middle).lam.shape == (2,)
    assert arcs.at([middle]).lam[0, 1] < 0


def test_arcs_elsewhere(arcs, tmp_path):
    data = arcs.to_xarray()
    assert data["arc"].values[-1] == len(arcs.arcs) - 1
    assert len(data["time"]) == len(arcs.t)
    assert "arcs, jumps" in str(arcs)
    arcs.plot(tmp_path / "run.png")
    arcs.report(tmp_path / "run.html")
    assert da.simulate(arcs.arcs[0].system, "rattle", q=[0.0, 0.0], t_end=0.1, step=0.01).arcs[0].t[-1] == 0.1


# ---- what is refused ----------------------------------------------------------------------------------------


def acting(action, **options):
    return da.Event(lambda q: q[0] - 0.5, -1, name="half way", action=action, **options)


@pytest.mark.parametrize(
    ("action", "match"),
    [
        (lambda v: {"v": [1.0, 2.0]}, r"returns v with the shape \(2,\), where \(1,\) is expected"),
        (lambda v: {"w": 1.0}, "returns 'w'"),
        (lambda v: {"v": "fast"}, "must return numbers as v, not 'fast'"),
        (lambda v: {"v": [np.nan]}, "not finite"),
        (lambda v: 3.0, "must return a dictionary of what changes"),
        (lambda v: {"system": 3}, "returns as its system 3"),
        (lambda v: {"system": da.catalog.simple_pendulum()}, "whose state is not that of"),
        (lambda speed: None, "unknown argument 'speed'"),
        (lambda v: 1 / 0, "failed at t = .*ZeroDivisionError"),
        (lambda m: {"m": [1.0, 2.0]}, "returns m with the shape"),
    ],
)
def test_bad_actions_lose_nothing(ball, action, match):
    with pytest.raises(da.DalembertError, match=match) as info:
        da.simulate(ball, "rattle", q=[1.0], v=[0.0], t_end=1.0, step=0.01, events=acting(action))
    assert info.value.solution.t[-1] == pytest.approx(np.sqrt(1 / G), abs=1e-12)


def test_an_action_that_leaves_the_constraints():
    pendulum = da.catalog.simple_pendulum()
    push = da.Event(lambda q: q[0], -1, name="push", action=lambda q, v: {"v": v + [0.0, 0.5]})
    with pytest.raises(da.InconsistentState, match=r"action of push at t = .* v violates constraint 1 of 1 .*G v.* = ") as info:
        da.simulate(pendulum, "rattle", t_end=3.0, step=0.01, events=push)
    assert len(info.value.solution.t) > 10
    along = da.Event(lambda q: q[0], -1, name="push", action=lambda v: {"v": 1.2 * v})
    sol = da.simulate(pendulum, "rattle", t_end=3.0, step=0.01, events=along)
    assert sol.jumps[0].supplied == pytest.approx(0.44 * sol.arcs[0].kinetic[-1], rel=1e-11)


def test_what_does_not_go_together(ball, tmp_path):
    for e in (-0.1, 1.1, np.nan, "much"):
        with pytest.raises(da.MethodError, match="restitution"):
            floor(e)
    with pytest.raises(da.UnknownKeyword, match="did you mean 'restitution'"):
        da.impact(lambda q: q[0], restitutio=0.5)
    with pytest.raises(da.MethodError, match="strength is a force"):
        da.latch(lambda q: q[0], strength=-1.0)
    run = {"q": [1.0], "v": [0.0], "t_end": 1.0, "step": 0.01}
    for options, match in (
        (
            {"store": tmp_path / "run.zarr", "events": floor(1.0)},
            "a store has no arcs, and floor would make some",
        ),
        ({"events": da.impact(lambda q, v: q[0] + v[0])}, "cannot depend on 'v'"),
        ({"events": da.impact(lambda t: t - 1.0)}, "does not depend on q"),
        ({"events": da.impact(lambda q: q[0] - 2.0, name="ceiling")}, "ceiling is closed at t = 0: gap = -1"),
    ):
        with pytest.raises(da.DalembertError, match=match):
            da.simulate(ball, "rattle", **{**run, **options})
    with pytest.raises(da.MethodError, match="floor may hold"):
        da.simulate(ball, "rk4", **run, events=floor(0.5, rest=True))
    with pytest.raises(da.ModelError, match=r"need a da.Mechanical system"):
        da.simulate(da.catalog.dc_motor(), "discrete-gradient", t_end=1.0, step=0.01, events=da.impact(lambda x: x[0]))
    with pytest.raises(da.MethodError, match="an action is a function"):
        acting(3.0)
