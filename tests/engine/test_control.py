"""Step control: what controllers promise, for any method, and what they say when they cannot keep it."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import dalembert as da
from dalembert.engine.adaptive import Adaptive
from dalembert.engine.control import Backoff, ErrorControl, Reversible

E = 0.8
Q, V = [1 - E, 0.0], [0.0, np.sqrt((1 + E) / (1 - E))]


@pytest.fixture(scope="module")
def kepler():
    return da.Mechanical(2, mass=1.0, potential=lambda q: -1 / np.sqrt(q @ q), name="Kepler's problem")


def kepler_position(t):
    """Kepler's equation, solved to round-off."""
    x = np.asarray(t, float).copy()
    for _ in range(60):
        x -= (x - E * np.sin(x) - t) / (1 - E * np.cos(x))
    return np.stack([np.cos(x) - E, np.sqrt(1 - E**2) * np.sin(x)], axis=-1)


# errors over 1e-5, the tolerance: half an orbit of a comet multiplies local errors, less so for higher orders
REACHED = {"gauss-2": 250, "rk4": 400, "rattle": 1000, "radau-iia-3": 60, "murua-3": 40, "energy-momentum": 500}


@pytest.mark.parametrize("method", REACHED)
def test_error_follows_the_tolerance(kepler, method):
    errors = []
    for tolerance in (1e-5, 1e-7):
        control = ErrorControl(rtol=tolerance, atol=tolerance)
        sol = da.simulate(kepler, method, q=Q, v=V, t_end=6.0, step=0.01, adaptive=control)
        errors.append(np.abs(sol.q - kepler_position(sol.t)).max())
    assert errors[0] < REACHED[method] * 1e-5
    assert errors[1] < 0.15 * errors[0]
    assert sol.stats["longest_step"] > 5 * sol.stats["shortest_step"]
    assert sol.t[-1] == 6.0
    assert np.all(np.diff(sol.t) > 0)


@pytest.mark.parametrize("method", ["gauss-2", "rattle", "lobatto-pair-3", "energy-momentum"])
def test_reversible_steps_keep_the_energy_bounded(kepler, method):
    sol = da.simulate(kepler, method, q=Q, v=V, t_end=400.0, step=0.01, adaptive="reversible")
    error, part = np.abs(sol.energy - sol.energy[0]), len(sol.t) // 8
    assert error[-part:].max() < 1.001 * error[:part].max() + 1e-12 * np.abs(sol.kinetic).max()
    assert sol.stats["longest_step"] > 10 * sol.stats["shortest_step"]


def test_error_control_alone_lets_it_drift(kepler):
    sol = da.simulate(kepler, "gauss-2", q=Q, v=V, t_end=400.0, step=0.01, adaptive=ErrorControl(1e-8, None, 1e-6, 1e-6))
    error, part = np.abs(sol.energy - sol.energy[0]), len(sol.t) // 8
    assert error[-part:].max() > 5 * error[:part].max()


FOLLOWED = pytest.mark.parametrize(("method", "m"), [("gauss-2", 2), ("rattle", 4)])  # how many steps have one length


@FOLLOWED
def test_reversible_steps_can_be_walked_back(kepler, method, m):
    scale = lambda q: np.sqrt(q @ q) ** 1.5  # noqa: E731
    there = da.simulate(kepler, method, q=Q, v=V, t_end=3.0, step=0.02, adaptive=Reversible(scale=scale))
    # the last step was cut: leave it out, and start with the step that the recursion arrives at
    h, last = np.diff(there.t)[:-1], (len(there.t) - 2) // m * m
    np.testing.assert_allclose(h[0:last:m], h[m - 1 : last : m], rtol=1e-12)
    q, v = there.q[last], there.v[last]
    sigma = np.linalg.norm(q) ** 1.5
    G = -1.5 * (q @ v) / (q @ q)
    eps = 0.02 / np.linalg.norm(Q) ** 1.5
    z = eps / h[last - 1]
    # z_(k+1/2) - eps G_k is the value at the node: begin backwards from it, as the forward run began from 1 / sigma
    assert abs(z + m / 2 * eps * G - 1 / sigma) < 0.05 * (m / 2) ** 2 / sigma
    v, back = -v, []
    for k in range(last):
        state = da.simulate(kepler, method, q=q, v=v, t_end=eps / z, step=eps / z)
        q, v = state.q[-1], state.v[-1]
        back.append(eps / z)
        z += m * eps * -1.5 * (q @ v) / (q @ q) if k % m == m - 1 else 0.0
    assert last > 14
    np.testing.assert_allclose(back, h[:last][::-1], rtol=1e-12)
    np.testing.assert_allclose(q, Q, rtol=0, atol=1e-12)
    np.testing.assert_allclose(-v, V, rtol=0, atol=1e-12)


def test_default_time_scale_of_kepler(kepler):
    sol = da.simulate(kepler, "gauss-2", q=Q, v=V, t_end=6.0, step=0.001, adaptive="reversible")
    r = np.linalg.norm(sol.q, axis=1)
    pairs = (sol.t[2:-1:2] - sol.t[:-3:2]) / r[1:-2:2] ** 1.5  # in the middle of two steps of one length
    assert pairs.max() / pairs.min() < 1.001


def test_backoff_shrinks_and_grows():
    system = da.catalog.make("double-pendulum")
    control = Backoff(grow=1.5, after=3, largest=0.05)
    sol = da.simulate(system, "lobatto-pair-3", t_end=10.0, step=1e-4, adaptive=control)
    assert sol.stats["longest_step"] == pytest.approx(0.05)
    assert np.abs(sol.residual("position")).max() < 1e-13
    wild = da.simulate(system, "lobatto-pair-2", t_end=10.0, step=0.5, adaptive="backoff")
    assert wild.stats["rejected"] > 0
    assert np.abs(wild.residual("position")).max() < 1e-12


def test_constrained_motion_against_an_independent_solver():
    def f(t, y):
        return [y[1], -9.81 * np.sin(y[0])]

    reference = solve_ivp(f, (0, 5), [np.pi / 2, 0.0], rtol=1e-12, atol=1e-12, dense_output=True)
    system = da.catalog.make("simple-pendulum")
    sol = da.simulate(
        system, "lobatto-pair-3", q=[1.0, 0.0], v=[0.0, 0.0], t_end=5.0, step=0.01, adaptive=ErrorControl(rtol=1e-9)
    )
    angle = reference.sol(sol.t)[0]
    assert np.abs(sol.q - np.stack([np.sin(angle), -np.cos(angle)], axis=1)).max() < 1e-6
    assert np.abs(sol.residual("velocity")).max() < 1e-12


def test_work_is_added_up_and_rows_thinned():
    system = da.Mechanical(1, mass=1.0, potential=lambda q: q[0] ** 2, dissipation=0.1)
    full = da.simulate(system, "midpoint", q=[1.0], t_end=3.0, step=0.01, adaptive=True)
    thin = da.simulate(system, "midpoint", q=[1.0], t_end=3.0, step=0.01, adaptive=True, save_every=7)
    assert len(thin.t) < len(full.t) / 5
    assert thin.t[-1] == 3.0
    assert thin.dissipated.sum() == pytest.approx(full.dissipated.sum(), rel=1e-13)
    assert np.isin(thin.t, full.t).all()


@pytest.mark.parametrize(("compile", "killed"), [(False, 40), (True, 4)])  # one decision at a time, and in chunks
def test_a_killed_run_goes_on(tmp_path, monkeypatch, compile, killed):
    system = da.catalog.double_pendulum()
    options = {"t_end": 2.0, "step": 0.002, "adaptive": True, "compile": compile}
    whole = da.simulate(system, "rattle", **options)
    monkeypatch.setattr("dalembert.keeper.EVERY", 0.0)
    path = tmp_path / "run.nc"
    accepted = []

    class Killed(BaseException):
        pass

    original = Adaptive.advance

    def advance(self, *arguments, **more):
        accepted.append(1)
        if len(accepted) == killed:
            raise Killed
        return original(self, *arguments, **more)

    monkeypatch.setattr(Adaptive, "advance", advance)
    with pytest.raises(Killed):
        da.simulate(system, "rattle", **options, checkpoint=path)
    monkeypatch.setattr(Adaptive, "advance", original)
    monkeypatch.setattr("dalembert.keeper.EVERY", 30.0)
    again = da.simulate(system, "rattle", **options, checkpoint=path)
    assert again.stats["rejected"] == whole.stats["rejected"]
    assert again.stats["iterations"] == whole.stats["iterations"]
    assert np.array_equal(again.t, whole.t)
    assert np.array_equal(again.q, whole.q)


def test_a_lower_bound_is_an_error_that_loses_nothing(kepler):
    with pytest.raises(da.StepTooSmall, match=r"smaller than the smallest allowed, 0\.01.*local error") as caught:
        da.simulate(kepler, "rattle", q=[0.5, 0.0], v=[0.0, 0.1], t_end=6.0, step=0.02, adaptive=ErrorControl(smallest=0.01))
    assert isinstance(caught.value, da.ConvergenceError)
    part = caught.value.solution
    assert part.t[-1] == caught.value.t
    assert np.isfinite(part.q).all()


def test_singular_constraints_are_named_at_the_bound():
    # a slider-crank of equal rods locks where both rods lie on each other
    def g(q):
        return [q[0] ** 2 + q[1] ** 2 - 1, (q[0] - q[2]) ** 2 + q[1] ** 2 - 1, q[0]]

    system = da.Mechanical(3, mass=1.0, holonomic=g, force=[0.0, 0.0, 1.0])
    with pytest.raises(da.DalembertError):
        da.simulate(system, "lobatto-pair-3", q=[0.0, 1.0, 0.0], v=[0.0, 0.0, 0.0], t_end=1.0, step=0.1, adaptive="backoff")


@pytest.mark.parametrize(
    ("adaptive", "message"),
    [
        ("eror", "did you mean 'error'"),
        (3.0, "adaptive must be"),
        (ErrorControl(rtol=-1.0), "rtol must be"),
        (ErrorControl(rtol=0.0, atol=0.0), "both zero"),
        (ErrorControl(rtol=1e-16, atol=0.0), "below round-off"),
        (ErrorControl(smallest=0.5), "outside the bounds"),
        (ErrorControl(smallest=1.0, largest=0.5), "larger than largest"),
        (Backoff(shrink=2.0), "0 < shrink < 1"),
        (Backoff(largest=0.0), "largest must be positive"),
    ],
)
def test_bad_options(kepler, adaptive, message):
    with pytest.raises(da.MethodError, match=message):
        da.simulate(kepler, "rattle", q=Q, v=V, t_end=1.0, step=0.01, adaptive=adaptive)


def test_the_reversible_controller_says_what_it_needs(kepler):
    with pytest.raises(da.MethodError, match="radau-iia-3 is not symmetric"):
        da.simulate(kepler, "radau-iia-3", q=Q, v=V, t_end=1.0, step=0.01, adaptive="reversible")
    with pytest.raises(da.ModelError, match="no curvature"):
        da.simulate(da.catalog.make("simple-pendulum"), "rattle", t_end=1.0, step=0.01, adaptive="reversible")
    with pytest.raises(da.ModelError, match="scale"):
        da.simulate(kepler, "rattle", q=Q, v=V, t_end=1.0, step=0.01, adaptive=Reversible(scale=lambda v: v @ v))
    with pytest.raises(da.ModelError, match="must be > 0"):
        da.simulate(kepler, "rattle", q=Q, v=V, t_end=1.0, step=0.01, adaptive=Reversible(scale=lambda q: q[0] - 1.0))


@pytest.mark.parametrize("method", ["energy-momentum", "midpoint", "discrete-gradient", da.compose("energy-momentum", order=4)])
def test_errors_that_alternate_cannot_be_measured(method):
    with pytest.raises(da.MethodError, match="oscillate about the constraint"):
        da.simulate(da.catalog.double_pendulum(), method, t_end=1.0, step=0.01, adaptive="error")


def test_energy_momentum_on_both_levels_takes_varying_steps():
    sol = da.simulate(da.catalog.double_pendulum(), "energy-momentum-ggl", t_end=1.0, step=0.01, adaptive="error")
    assert np.abs(sol.energy - sol.energy[0]).max() < 1e-11


def test_algebraic_states_that_alternate():
    ladder = da.catalog.windy_pendulum()
    for method in ("discrete-gradient", "gauss-3"):
        with pytest.raises(da.MethodError, match="use radau-iia-3"):
            da.simulate(ladder, method, t_end=1.0, step=0.01, adaptive="error")
    da.simulate(da.catalog.dc_motor(), "discrete-gradient", t_end=0.1, step=0.01, adaptive="error", u=[1.0, 0.0])


class Walk:
    """What a controller sees, with errors that are given."""

    def __init__(self, h=0.1, t_end=100.0):
        from dalembert.engine.driver import Grid

        self.grid, self.carried, self.t, self.undone = Grid(0.0, t_end, h), {}, 0.0, 0

    def limit(self, h):
        return h

    def back(self, *, rejected=True):
        self.undone += 1


def controlled(monkeypatch, errors, walk, **options):
    """The steps that are proposed after each of these errors, with a method of order two."""
    feed, tried = iter(errors), []

    def square(self, walk, h, order):
        tried.append(h)
        assert order == 2
        return next(feed) ** 2

    monkeypatch.setattr(ErrorControl, "_square", square)
    system = da.catalog.harmonic_oscillator()
    advance = ErrorControl(**options).bind(system, da.methods.Rattle(), system.pack())
    proposed = []
    for _ in errors:
        try:
            advance(walk)
        except StopIteration:
            break
        proposed.append(walk.carried["h"])
    return tried, proposed


def test_the_controller_is_proportional_and_integral(monkeypatch):
    """`h 0.9 e^(-0.7 / 3) e_before^(0.4 / 3)` for order two (Gustafsson 1991): an error that grows makes steps more careful.

    Powers are those of `growth`, up to a hundredth.
    """
    tried, proposed = controlled(monkeypatch, [0.5, 0.2, 0.8], Walk())
    first = 0.1 * 0.9 * 0.5 ** (-0.7 / 3)
    second = first * 0.9 * 0.2 ** (-0.7 / 3) * 0.5 ** (0.4 / 3)
    third = second * 0.9 * 0.8 ** (-0.7 / 3) * 0.2 ** (0.4 / 3)
    np.testing.assert_allclose(proposed, [first, second, third], rtol=0.02)
    np.testing.assert_allclose(tried, [0.1, *proposed[:2]], rtol=1e-14)


def test_a_refused_step_is_not_followed_by_a_longer_one(monkeypatch):
    walk = Walk()
    tried, proposed = controlled(monkeypatch, [8.0, 1e-6, 1e-6], walk)
    shorter = 0.1 * 0.9 * 8.0 ** (-1 / 3)
    np.testing.assert_allclose(tried[:3], [0.1, shorter, shorter], rtol=1e-2)
    np.testing.assert_allclose(proposed, [tried[1], 5 * tried[1]], rtol=1e-14)  # then as fast as it may
    assert walk.undone == 1
    _, proposed = controlled(monkeypatch, [1e-6], Walk(), largest=0.3)
    assert proposed == [0.3]
    tried, _ = controlled(monkeypatch, [np.inf, 1e9, 0.5], Walk())
    np.testing.assert_allclose(tried[:3], [0.1, 0.025, 0.0025], rtol=1e-14)


@FOLLOWED
def test_the_first_reversible_step_is_that_of_its_middle(kepler, method, m):
    """`z_(1/2) = 1 / sigma_0 + m eps G_0 / 2`: begun where the time scale changes, it is not `1 / sigma_0`."""
    q, v, h = np.array([0.6, 0.8]), np.array([-0.9, 0.5]), 0.02
    scale = lambda q: np.sqrt(q @ q) ** 1.5  # noqa: E731
    sol = da.simulate(kepler, method, q=q, v=v, t_end=1.0, step=h, adaptive=Reversible(scale=scale))
    sigma, rate = 1.0, -1.5 * (q @ v)  # at |q| = 1
    z = 1 / sigma + m / 2 * h / sigma * rate
    assert abs(rate) > 0.2
    assert sol.t[1] == pytest.approx(h / sigma / z, rel=1e-14)
    assert sol.t[m] - sol.t[m - 1] == pytest.approx(h / sigma / z, rel=1e-13)
    later = z + m * h / sigma * -1.5 * (sol.q[m] @ sol.v[m]) / (sol.q[m] @ sol.q[m])
    assert sol.t[m + 1] - sol.t[m] == pytest.approx(h / sigma / later, rel=1e-13)


def reached(system, **options):
    """The solution, or what the error has of it, and the error."""
    try:
        return da.simulate(system, "rattle", **options), None
    except da.ConvergenceError as error:
        return error.solution, error


@pytest.mark.parametrize("smallest", [0.005, 0.01, 0.015, 0.02, 0.025])
def test_no_step_is_shorter_than_the_smallest_but_the_last(kepler, smallest):
    """From the far end of an ellipse: steps shrink on the way to the centre, and are refused there at the latest."""
    control = ErrorControl(rtol=1e-4, atol=1e-6, smallest=smallest)
    sol, error = reached(kepler, q=[1.6, 0.0], v=[0.0, 0.5], t_end=20.0, step=0.06, adaptive=control)
    assert (error is None) == (smallest < 0.01)
    steps = np.diff(sol.t) if error else np.diff(sol.t)[:-2]  # the last two end the run
    assert steps.min() >= smallest * (1 - 1e-12)
    if error:
        assert sol.t[-1] == error.t
        assert f"smallest allowed, {smallest:.3g}" in str(error)


@pytest.mark.parametrize("adaptive", ["error", "backoff", ErrorControl(rtol=1e-7, atol=1e-7, smallest=1e-300)], ids=str)
@pytest.mark.parametrize(("t0", "t_end"), [(0.0, 6.0), (-6.0, 0.0), (1e6, 1e6 + 6.0), (-1e6, -1e6 + 6.0)])
def test_times_increase_wherever_they_are_counted_from(kepler, adaptive, t0, t_end):
    """Into the centre: steps shrink without end. They end in an error before times can no longer be told apart."""
    sol, error = reached(kepler, q=[0.3, 0.0], v=[0.0, 0.0], t0=t0, t_end=t_end, step=0.01, adaptive=adaptive)
    assert sol.t[-1] == (error.t if error else t_end)
    assert (np.diff(sol.t) > 0).all()


def test_a_last_step_that_fails_near_the_end_is_halved(kepler, monkeypatch):
    """The end lies a little behind the step: what is left is tried as a whole, and must not be tried so for ever."""
    original, tried = Adaptive.try_step, []

    def fails(self, h):
        tried.append(h)
        return len(tried) > 3 and original(self, h)

    monkeypatch.setattr(Adaptive, "try_step", fails)
    control = Backoff(shrink=1 - 1e-9)
    sol = da.simulate(kepler, "rattle", q=Q, v=V, t_end=0.01, step=0.01, adaptive=control)
    assert tried[:4] == pytest.approx([0.01, 0.005, 0.005, 0.005], rel=1e-6)
    assert sol.t[-1] == 0.01
