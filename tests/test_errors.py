"""Bad input gets a clear error of our own, and nothing already computed is lost."""

import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

import dalembert as da


def test_a_step_that_cannot_converge():
    system = da.catalog.four_particles()
    with pytest.raises(
        da.ConvergenceError, match=r"step \d of 5 did not converge: from t = .* with h = 2, .*smaller step"
    ) as caught:
        da.simulate(system, "energy-momentum", t_end=10.0, step=2.0)
    assert caught.value.step == 2.0
    assert caught.value.residual > 1e-9
    assert caught.value.solution.t[-1] == caught.value.t


def test_a_run_that_fails_on_the_way_keeps_what_it_had():
    """A potential that ends: its root is nan beyond x = 1."""
    system = da.Mechanical(1, mass=1.0, potential=lambda q: -1e-3 * np.sqrt(1 - q[0]))
    for compile in (True, False):
        with pytest.raises(da.ModelError, match=r"potential is nan at t = 0.6") as caught:
            da.simulate(system, "rattle", q=[0.0], v=[1.5], t_end=2.0, step=0.01, compile=compile, save_every=3)
        sol = caught.value.solution
        assert 0.4 < sol.t[-1] < 0.8
        assert np.isfinite(sol.q).all()
        assert len(sol.q) == len(sol.t) == len(sol.supplied) + 1


def test_singular_mass():
    system = da.Mechanical(("x", "y"), mass=lambda m: [1.0, m], parameters={"m": 1.0})
    with pytest.raises(da.ModelError, match=r"mass matrix is singular.*smallest eigenvalue is 0, in the direction of 'y'"):
        da.simulate(system, "rattle", q=[0, 0], v=[0, 0], t_end=1.0, step=0.1, parameters={"m": 0.0})
    full = da.Mechanical(("x", "y"), mass=[[1.0, 1.0], [1.0, 1.0]])
    with pytest.raises(da.ModelError, match="singular"):
        da.simulate(full, "energy-momentum", q=[0, 0], v=[0, 0], t_end=1.0, step=0.1)


def test_redundant_constraint():
    system = da.Mechanical(3, mass=1.0, holonomic=lambda q: [q[0] - 1, q[1] + q[2], 2 * q[0] - 2 + q[1] + q[2]])
    with pytest.raises(
        da.SingularConstraints, match=r"rank 2 of 3\): row 3 = \+2 \* row 1 \+1 \* row 2; remove constraint 3"
    ) as caught:
        da.simulate(system, "rattle", q=[1, 0, 0], v=[0, 0, 0], t_end=1.0, step=0.1)
    assert caught.value.rows == (3,)


def test_constraint_whose_gradient_vanishes():
    system = da.Mechanical(2, mass=1.0, holonomic=lambda q: q[0] ** 2 + q[1] ** 2)
    with pytest.raises(da.SingularConstraints, match="gradient of constraint 1 of 1 vanishes"):
        da.simulate(system, "rattle", q=[0, 0], v=[0, 0], t_end=1.0, step=0.1)


def test_constraints_that_become_dependent_on_the_way():
    """The mechanism runs into a singular pose, and says so with the time."""
    system = da.Mechanical(("x", "y"), mass=1.0, holonomic=lambda q: q[1] * q[0])
    with pytest.raises(da.SingularConstraints, match="gradient of constraint 1 of 1 vanishes at t = 1") as caught:
        da.simulate(system, "rattle", q=[1.0, 0.0], v=[-1.0, 0.0], t_end=3.0, step=1 / 64)
    assert caught.value.solution.t[-1] == 63 / 64


def test_inconsistent_start_names_the_constraint_and_the_remedy():
    system = da.catalog.double_pendulum()
    with pytest.raises(
        da.InconsistentState, match=r"q violates constraint 2 of 2 at the position level: \|g\| = 4.1e-01.*da.consistent"
    ):
        da.simulate(system, "rattle", q=[1.0, 0.0, 2.1, 0.45], v=[0, 0, 0, 0], t_end=1, step=0.1)
    for method in ("rattle", "energy-momentum"):
        with pytest.raises(da.InconsistentState, match=r"v violates constraint 1 of 2.*at the velocity level"):
            da.simulate(system, method, q=[1, 0, 2, 0], v=[1.0, 0, 1.0, 0], t_end=1, step=0.1)
    start = da.consistent(system, q=[1.0, 0.0, 2.1, 0.45], v=[0.1, 0.2, 0.3, 0.4])
    da.simulate(system, "rattle", **start, t_end=0.1, step=0.01)


def test_nan_in_a_function():
    system = da.Mechanical(("x",), mass=1.0, potential=lambda q, k: k * np.sqrt(q[0]), parameters={"k": 1.0})
    with pytest.raises(da.ModelError, match="potential is nan at t = 0"):
        da.simulate(system, "midpoint", q=[-1.0], v=[0.0], t_end=1.0, step=0.1)
    with pytest.raises(da.ModelError, match="derivative of potential with respect to 'x' is not finite"):
        da.simulate(system, "midpoint", q=[0.0], v=[0.0], t_end=1.0, step=0.1)
    force = da.Mechanical(("x", "y"), mass=1.0, force=lambda q: [1.0, np.log(q[0])])
    with pytest.raises(da.ModelError, match=r"force is nan \(entry 2\)"):
        da.simulate(force, "midpoint", q=[-1.0, 0.0], v=[0.0, 0.0], t_end=1.0, step=0.1)


PENDULUM = dict(q=[1.0, 0.0], v=[0.0, 0.0], t_end=1.0, step=0.1)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (dict(step=0.0), da.MethodError, "step must be positive, not 0"),
        (dict(step=-0.1), da.MethodError, "step must be positive"),
        (dict(step=float("nan")), da.MethodError, "step must be finite, not nan"),
        (dict(step="a"), da.MethodError, "step must be a number, not 'a'"),
        (dict(t_end=-1.0), da.MethodError, "t_end = -1 lies before t0 = 0"),
        (dict(t_end=float("inf")), da.MethodError, "must be finite"),
        (dict(save_every=0), da.MethodError, "save_every must be"),
        (dict(save_every=1.5), da.MethodError, "save_every must be"),
        (dict(max_iterations=0), da.MethodError, "max_iterations must be"),
        (dict(tolerance=1e-20), da.MethodError, "between round-off"),
        (dict(compile="maybe"), da.MethodError, "compile must be"),
        (dict(q=[1.0]), da.InconsistentState, r"q has the shape \(1,\); expected 2 numbers \(x, y\)"),
        (dict(q=[np.nan, 0.0]), da.InconsistentState, "q is not finite: its entry 1 is nan"),
        (dict(q="ab"), da.InconsistentState, "q must be 2 numbers"),
        (dict(p=[0.0, 0.0]), da.InconsistentState, "give v or p, not both"),
        (dict(u=[1.0]), da.MethodError, "has no inputs"),
        (dict(parameters={"mm": 1.0}), da.ModelError, "no parameter 'mm'; did you mean 'm'"),
        (dict(method="ratle"), da.MethodError, "there is no method 'ratle'; did you mean 'rattle'"),
        (dict(method=3), da.MethodError, "a method is a name or an object"),
        (dict(stepp=0.1), da.UnknownKeyword, "simulate has no keyword 'stepp'; did you mean 'step'"),
    ],
)
def test_bad_arguments(change, error, message):
    system = da.catalog.simple_pendulum()
    options = {"method": "rattle", **PENDULUM, **change}
    method = options.pop("method")
    with pytest.raises(error, match=message):
        da.simulate(system, method, **options)


def test_other_bad_input():
    with pytest.raises(da.MethodError, match="first argument must be a system"):
        da.simulate("pendulum", "rattle", t_end=1, step=0.1)
    with pytest.raises(da.MethodError, match="gradient must be one of"):
        da.methods.EnergyMomentum(gradient="gonzales")
    with pytest.raises(da.MethodError, match=r"shake cannot treat a hamiltonian system; use .*energy-momentum or .*midpoint or"):
        da.simulate(da.catalog.simple_pendulum().to_hamiltonian(), "shake", t_end=1, step=0.1)
    with pytest.raises(da.InconsistentState, match="no default initial values"):
        da.simulate(da.Mechanical(1, mass=1.0), "rattle", t_end=1, step=0.1)
    with pytest.raises(da.InconsistentState, match="starts from q and p"):
        da.simulate(da.catalog.simple_pendulum().to_hamiltonian(), "rattle", q=[1, 0], v=[0, 0], t_end=1, step=0.1)
    driven = da.Mechanical(1, mass=1.0, inputs=[[1.0]])
    with pytest.raises(da.InconsistentState, match="u must give 1 numbers"):
        da.simulate(driven, "midpoint", q=[0], v=[0], u=[1.0, 2.0], t_end=1, step=0.1)
    with pytest.raises(da.InconsistentState, match="u is not finite"):
        da.simulate(driven, "midpoint", q=[0], v=[0], u=lambda t: np.nan, t_end=1, step=0.1)
    with pytest.raises(da.ModelError, match=r"no system 'double-pendulm'.*did you mean 'double-pendulum'"):
        da.catalog.make("double-pendulm")


def test_every_error_has_one_base():
    for name in ("ModelError", "InconsistentState", "MethodError", "ConvergenceError", "SingularConstraints"):
        assert issubclass(getattr(da, name), da.DalembertError)
    assert issubclass(da.Interrupted, KeyboardInterrupt)
    assert not issubclass(da.Interrupted, Exception)


@pytest.mark.parametrize("compile", [True, False])
def test_ctrl_c_keeps_what_was_computed(compile):
    """The signal comes from another thread, once the run asks for its inputs beyond t = 50."""
    system = da.Mechanical(2, mass=1.0, potential=lambda q: q @ q, holonomic=lambda q: q[0] - np.sin(q[1]), inputs=[[1.0], [0.0]])
    far = threading.Event()

    def interrupt():
        far.wait()
        os.kill(os.getpid(), signal.SIGINT)

    def u(t):
        if t > 50:
            far.set()
        return [np.cos(t)]

    watcher = threading.Thread(target=interrupt, daemon=True)
    watcher.start()
    start = da.consistent(system, q=[0.0, 0.0], v=[1.0, 1.0])
    with pytest.raises(da.Interrupted, match=r"interrupted at t = .* error.solution holds what was computed") as caught:
        da.simulate(system, "energy-momentum", **start, u=u, t_end=1e6, step=0.01, save_every=100, compile=compile)
    watcher.join()
    sol = caught.value.solution
    assert 10 < len(sol.t) < 1e6
    assert np.isfinite(sol.q).all()
    assert np.abs(sol.residual("position")).max() < 1e-12


def test_nothing_of_casadi_reaches_the_user():
    """Warnings are errors in this suite; here the output of a fresh process is looked at as well."""
    code = (
        "import warnings; warnings.simplefilter('error')\n"
        "import numpy as np, dalembert as da\n"
        "s = da.catalog.four_particles()\n"
        "try:\n    da.simulate(s, 'energy-momentum', t_end=10.0, step=2.0)\n"
        "except da.ConvergenceError as e:\n    print('ours')\n"
        "da.Mechanical(2, mass=lambda m: m * np.eye(2), potential=lambda q: np.dot(q, q), parameters={'m': 1.0})\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "ours\n"
    assert run.stderr == ""


def test_a_mechanism_is_assembled_first():
    for call in (lambda m: da.simulate(m, "rattle", t_end=1.0, step=0.1), da.consistent):
        with pytest.raises(da.MethodError, match=r"not Mechanism; a mechanism becomes one by mechanism.assemble\(\)"):
            call(da.Mechanism())
