"""Orders by slope, per component, for every registered method on every kind of system it treats."""

import numpy as np
import pytest

import dalembert as da
from conftest import (
    angle_pendulum,
    consistent_start,
    driven_pendulum,
    order_of,
    polar_rod,
    skew_hamiltonian,
)
from dalembert.methods.base import REGISTER
from dalembert.methods.composition import Composition
from dalembert.methods.explicit import Explicit
from dalembert.methods.stages import Staged

PROBLEMS = {
    "double pendulum": (da.catalog.double_pendulum, {}),
    "four particles": (da.catalog.four_particles, {}),
    "four particles damped": (da.catalog.four_particles_damped, {}),
    "angles, M(q)": (angle_pendulum, {}),
    "polar, M(q) and constraint": (polar_rod, {}),
    "driven, rheonomic": (driven_pendulum, {"u": lambda t: [np.sin(3 * t)]}),
    "skew Hamiltonian": (skew_hamiltonian, {"q": [0.6, 0.3, 0.5], "p": [0.2, -0.4, 0.3]}),
    "double pendulum, Hamiltonian": (lambda: da.catalog.double_pendulum().to_hamiltonian(), {}),
    "driven, Hamiltonian": (lambda: driven_pendulum().to_hamiltonian(), {"u": [0.7]}),
}
VARIANTS = [cls() for cls in REGISTER.values() if not issubclass(cls, (Staged, Composition, Explicit)) and not cls.external] + [
    da.methods.EnergyMomentum(gradient=g) for g in ("gonzalez", "mean-value", "itoh-abe")
]


def treatable():
    for name, (make, _) in PROBLEMS.items():
        for method in VARIANTS:
            try:
                method.check(make())
            except da.MethodError:
                continue
            yield pytest.param(name, method, id=f"{method}-{name}")


def runs(name, method, steps, t_end, **more):
    make, options = PROBLEMS[name]
    system = make()
    options = dict(options)
    values = {k: options.pop(k) for k in ("q", "v", "p") if k in options}
    start = consistent_start(system, **values)
    return [da.simulate(system, method, **start, t_end=t_end, step=h, **options, **more) for h in steps]


@pytest.mark.parametrize(("name", "method"), list(treatable()))
def test_orders_of_q_v_and_lam(name, method):
    t_end = 0.24
    stiff = 4 if "particles" in name else 1
    steps = t_end / np.array([24, 48, 96, 192]) / stiff
    # not smaller: multipliers are defined to eps / h^2 only
    reference = runs(name, "midpoint" if method.name == "energy-momentum" else "energy-momentum", [t_end / 3072 / stiff], t_end)[
        0
    ]
    solutions = runs(name, method, steps, t_end)
    expected, window = method.order, 0.25
    if getattr(method, "gradient", "") == "itoh-abe":
        expected, window = (1, 1, 1), 1.25  # not symmetric: one, and two where it happens to be the midpoint rule
    errors = {
        "q": [np.abs(s.q[-1] - reference.q[-1]).max() for s in solutions],
        "v": [np.abs(s.v[-1] - reference.v[-1]).max() for s in solutions],
    }
    for part, want in zip("qv", expected, strict=False):
        slope = order_of(errors[part], steps)
        assert want - 0.25 < slope < want + window, (part, slope, errors[part])
    if not reference.system.m:
        return
    # Multipliers are compared where they live. Those of methods that are off the velocity constraint alternate around their
    # mean with an amplitude of O(h): the mean of two neighbours is of second order.
    reference_lam = (reference.lam[1:] + reference.lam[:-1]) / 2
    reference_t = (reference.t_lam[1:] + reference.t_lam[:-1]) / 2
    raw, mean = [], []

    def exact(t):
        return np.stack([np.interp(t, reference_t, c) for c in reference_lam.T], axis=1)

    for s in solutions:
        part = slice(-len(s.lam) // 2, -1)  # the largest error of the second half, so that no zero of it is met
        raw.append(np.abs(s.lam[part] - exact(s.t_lam[part])).max())
        middle, times = (s.lam[1:] + s.lam[:-1]) / 2, (s.t_lam[1:] + s.t_lam[:-1]) / 2
        mean.append(np.abs(middle[part] - exact(times[part])).max())
    slope = order_of(mean, steps, floor=1e-7)
    assert slope > (0.75 if "itoh-abe" in str(method) else 1.65), ("mean of lam", slope, mean)
    if "itoh-abe" not in str(method):
        assert order_of(raw, steps, floor=1e-7) > expected[2] - 0.35, ("lam", raw)


def test_multipliers_read_at_the_wrong_time_look_first_order():
    """Kinon et al. 2025 read lam at the end of the step and find about 1; at its half step it is 2."""
    t_end = 0.1
    steps = t_end / np.array([10, 20, 40, 80])
    reference = runs("four particles damped", "rattle", [t_end / 1280], t_end)[0]
    solutions = runs("four particles damped", da.methods.EnergyMomentum(gradient="gonzalez"), steps, t_end)
    lam, t = reference.lam[:, 0], reference.t_lam
    end = lam[-1] + (lam[-1] - lam[-2]) / 2
    wrong = [abs(s.lam[-1, 0] - end) for s in solutions]
    right = [abs(s.lam[-1, 0] - np.interp(s.t_lam[-1], t, lam)) for s in solutions]
    assert order_of(wrong, steps) == pytest.approx(1, abs=0.25)
    assert order_of(right, steps) == pytest.approx(2, abs=0.25)


@pytest.mark.parametrize("method", [m for m in VARIANTS if "mechanical" in m.treats], ids=str)
def test_harmonic_oscillator_against_its_exact_solution(method):
    system = da.catalog.harmonic_oscillator(m=2.0, k=3.0)
    omega, t_end = np.sqrt(1.5), 2.0
    errors, steps = [], t_end / np.array([25, 50, 100])
    for h in steps:
        sol = da.simulate(system, method, q=[0.3], v=[0.7], t_end=t_end, step=h)
        exact = 0.3 * np.cos(omega * t_end) + 0.7 / omega * np.sin(omega * t_end)
        errors.append(abs(sol.q[-1, 0] - exact))
    assert order_of(errors, steps) == pytest.approx(2, abs=0.1)  # all of them are the midpoint rule or Verlet's method here


def test_pendulum_against_an_independent_solver():
    """RATTLE in Cartesian coordinates against SciPy's DOP853 on the angle."""
    from scipy.integrate import solve_ivp

    system = da.catalog.simple_pendulum()
    exact = solve_ivp(lambda t, y: [y[1], -9.81 * np.cos(y[0])], (0, 1.0), [0.0, 0.0], method="DOP853", rtol=1e-13, atol=1e-13)
    angle = exact.y[0, -1]
    steps = 1.0 / np.array([50, 100, 200, 400])
    errors = []
    for h in steps:
        q = da.simulate(system, "rattle", t_end=1.0, step=h).q[-1]
        errors.append(np.hypot(q[0] - np.cos(angle), q[1] - np.sin(angle)))
    assert order_of(errors, steps) == pytest.approx(2, abs=0.05)
