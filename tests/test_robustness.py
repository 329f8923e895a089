"""Legal but unusual models and runs: they work, or say why not."""

import copy
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import dalembert as da
from conftest import STEPPING, assert_order, can, some
from dalembert.methods.base import find

M = da.Mechanical


def crank(off):
    s = M(
        4,
        mass=1,
        potential=lambda q: 9.81 * q[1],
        holonomic=lambda q: [q[0] ** 2 + (q[1] - off) ** 2 - 1, (q[2] - q[0]) ** 2 + (q[3] - q[1]) ** 2 - 4, q[3] - off],
    )
    return s, [np.cos(1), np.sin(1) + off, np.cos(1) + np.sqrt(4 - np.sin(1) ** 2), off], [0.0] * 4


def hanging(d):
    s = M(2, mass=1.3, potential=lambda q: 1.3 * 9.81 * q[1], holonomic=lambda q: q[0] ** 2 + (q[1] - 0.7 - d) ** 2 - 0.49)
    return s, [0.0, d]


MODELS = {
    "free": (M(3, mass=[1, 2, 3]), [0, 0, 0], [1, 1, 1], 0.01),
    "constant potential": (M(2, mass=lambda m: m, potential=5, parameters={"m": 2.0}), [0, 0], [1, 1], 0.01),
    "uniform force": (M(3, mass=1, potential=lambda q: 9.81 * q[2]), [0, 0, 0], [1, 1, 1], 0.01),
    "one coordinate": (M(1, mass=2), [0], [1], 0.01),
    "one damped coordinate": (M(1, mass=2, dissipation=1), [0], [1], 0.01),
    "full constant mass": (M(8, mass=np.eye(8) * 3 + 1), np.zeros(8), np.ones(8), 0.01),
    "slider crank at the origin": (*crank(0.0), 0.01),
    "slider crank elsewhere": (*crank(1.0), 0.01),
    "bead on an axis": (
        M(2, mass=1, potential=lambda q: np.cos(q[0]) + 9.81 * q[1] * np.sin(3 * q[0] + 1), holonomic=lambda q: q[1]),
        [1, 0],
        [1, 0],
        0.01,
    ),
    "pendulum through the origin": (*hanging(1e-12), [1, 0], 0.01),
    "at rest at the origin": (*hanging(0.0), [0, 0], 0.01),
    "at rest at the origin, small step": (*hanging(0.0), [0, 0], 1e-6),
    "moving point": (M(1, mass=1, holonomic=lambda q, t: q[0] - np.sin(t)), [0], [1], 0.01),
    "masses of all sizes": (M(2, mass=[1e-8, 1e8], potential=lambda q: 1e-8 * q @ q), [1, 1], [0, 0], 0.01),
    "nanometres": (M(2, mass=1e-20, holonomic=lambda q: q @ q - 1e-18), [1e-9, 0], [0, 1e-3], 1e-9),
    "kilometres": (M(2, mass=1e3, holonomic=lambda q: q @ q - 1e12), [1e6, 0], [0, 1e3], 1.0),
    "stiff": (M(1, mass=1, potential=lambda q: 1e10 * q[0] ** 2 / 2), [1e-3], [0], 1e-6),
    "array parameters": (
        M(2, mass=1, potential=lambda q, A: q @ A @ A.T @ q, parameters={"A": np.ones((2, 3))}),
        [1, 0],
        [0, 0],
        0.01,
    ),
}


CASES = [(name, method) for name, (system, *_) in MODELS.items() for method in STEPPING if can(method, system)]


@pytest.mark.parametrize(("name", "method"), some(CASES))
def test_unusual_models_run_with_every_method(name, method):
    system, q, v, h = MODELS[name]
    for compile in (False, True) if method in ("rattle", "shake", "midpoint", "energy-momentum") else (False,):
        sol = da.simulate(system, method, q=q, v=v, t_end=100 * h, step=h, compile=compile)
        assert np.isfinite(sol.energy).all()
        assert sol.stats["pivoted_steps"] == 0
        if system.m and "position" in find(method).exact_levels and (method != "midpoint" or name != "moving point"):
            scale = max(np.abs(sol.q).max() ** 2, 1.0 if name not in ("nanometres",) else 0.0)
            assert np.abs(sol.residual("position")).max() < 2e-14 * scale
        if method == "energy-momentum":
            size = max(np.abs(sol.energy).max(), np.abs(sol.kinetic).max(), np.abs(sol.potential).max())
            assert np.abs(sol.power_balance).max() <= 1e-13 * max(size, 0.05 if "rest" in name else 0.0)
    str(sol)


POTENTIALS = {
    "arctan2 across its cut": (lambda q: np.sin(3 * np.arctan2(q[1], q[0])) + q @ q, [-1, 0.1], [0, -3], 0.02),
    "log of a large change": (lambda q: np.log(np.cosh(300 * q[0])) / 30, [0.9, 0], [-1, 0], 0.02),
    "log cosh in large steps": (lambda q: np.log(np.cosh(100 * q[0])) / 100, [0.9, 0], [-4, 0], 0.1),
    "steep tanh": (lambda q: 0.3 * np.tanh(400 * q[0]) + q[0] ** 2, [0.9, 0], [-1, 0], 0.02),
    "power by a parameter": (lambda q, n: q[0] ** n, [-0.5, 0], [0.3, 0], 0.01),
    "guarded branch": (lambda q: np.where(q[0] > 0.5, (q[0] - 0.5) ** 2.5, 0) + q[0] ** 2, [0.9, 0], [-1, 0], 0.01),
    "kink": (lambda q: np.abs(q[0]) + np.maximum(q[1], 0.2), [0.9, 0.5], [0, -1], 0.01),
}


@pytest.mark.parametrize("gradient", ["equivariant", "gonzalez", "mean-value", "itoh-abe"])
@pytest.mark.parametrize("name", POTENTIALS)
def test_energy_is_kept_for_difficult_potentials(name, gradient):
    potential, q, v, h = POTENTIALS[name]
    system = M(2, mass=1, potential=potential, parameters={"n": 4.0})
    sol = da.simulate(system, da.methods.EnergyMomentum(gradient=gradient), q=q, v=v, t_end=2.0, step=h)
    assert np.abs(sol.power_balance).max() < 1e-13 * max(np.abs(sol.energy).max(), 1.0)


def test_threads_on_one_system_do_not_disturb_each_other():
    system = da.catalog.double_pendulum()
    starts = [{"q": [1, 0, 2, 0], "v": [0] * 4}, {"q": [0, -1, 0, -2], "v": [1, 0, 2, 0]}]

    def run(start):
        return da.simulate(system, "rattle", t_end=4, step=0.005, compile=False, **start).x

    alone = [run(s) for s in starts]
    with ThreadPoolExecutor(2) as pool:
        together = list(pool.map(run, starts))
    for a, b in zip(alone, together, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("method", ["rattle", "shake"])
def test_work_of_moving_constraints_and_energies_of_time(method):
    system = M(
        2,
        mass=1.7,
        potential=lambda q, t: 9.81 * q[1] + q[0] * np.sin(3 * t),
        holonomic=lambda q, t: (q[0] - 0.1 * np.sin(5 * t)) ** 2 + q[1] ** 2 - 1,
    )
    sol, exact = (da.simulate(system, m, q=[1, 0], v=[0.5, 0], t_end=1, step=0.001) for m in (method, "energy-momentum"))
    assert sol.supplied.sum() == pytest.approx(exact.supplied.sum(), rel=1e-4)
    assert sol.energy[-1] - sol.energy[0] == pytest.approx(sol.supplied.sum(), rel=1e-3)
    other = da.simulate(system.to_hamiltonian(), "rattle", q=[1, 0], p=[0.85, 0], t_end=1, step=0.001)
    assert other.supplied.sum() == pytest.approx(exact.supplied.sum(), rel=1e-4)
    steps = np.array([0.02, 0.01, 0.005])
    work = [da.simulate(system, method, q=[1, 0], v=[0.5, 0], t_end=1, step=h).supplied.sum() for h in steps]
    truth = da.simulate(system, "lobatto-pair-4", q=[1, 0], v=[0.5, 0], t_end=1, step=0.005).supplied.sum()
    assert_order(np.abs(np.array(work) - truth), steps, 2)


def test_wrong_starts_are_noticed_in_any_units():
    system = M(2, mass=1e-20, holonomic=lambda q: q @ q - 1e-18)
    with pytest.raises(da.InconsistentState, match="position level"):
        da.simulate(system, "rattle", q=[2e-9, 0], v=[0, 1e-3], t_end=1e-6, step=1e-9)
    with pytest.raises(da.InconsistentState, match="velocity level"):
        da.simulate(system, "rattle", q=[1e-9, 0], v=[1e-2, 1e-2], t_end=1e-6, step=1e-9)


def test_runs_of_any_length():
    system = da.catalog.harmonic_oscillator()
    assert da.simulate(system, "rattle", t_end=1e-9, step=1).t.tolist() == [0.0, 1e-9]
    assert len(da.simulate(system, "rattle", t_end=1.0, step=0.3, save_every=100).t) == 2
    assert da.simulate(system, "rattle", t0=-2.0, t_end=-1.0, step=0.5).t.tolist() == [-2.0, -1.5, -1.0]
    with pytest.raises(da.ConvergenceError, match="max_iterations"):
        da.simulate(da.catalog.double_pendulum(), "rattle", t_end=1.0, step=0.1, max_iterations=1)


def test_systems_can_be_copied():
    system = da.catalog.four_particles_damped()
    a = da.simulate(system, "energy-momentum", t_end=0.1, step=0.01)
    b = da.simulate(copy.deepcopy(system), "energy-momentum", t_end=0.1, step=0.01)
    np.testing.assert_array_equal(a.q, b.q)


def test_inputs_are_checked_where_they_are():
    system = M(1, mass=1, force=lambda u: np.log(u), inputs=1)
    da.simulate(system, "rattle", q=[1], v=[0], u=[2.0], t_end=0.1, step=0.01)
    driven = M(1, mass=1, inputs=[1.0])
    for u, message in (
        (lambda t: 1 / 0 if t > 5 else 1.0, "ZeroDivisionError"),
        (lambda t: np.nan if t > 5 else 1.0, "not finite"),
    ):
        with pytest.raises(da.ModelError, match=message) as caught:
            da.simulate(driven, "rattle", q=[0], v=[0], t_end=10, step=0.01, u=u)
        assert 1.0 < caught.value.solution.t[-1] <= 5.01


def test_a_compiler_that_does_not_work_is_as_good_as_none(tmp_path):
    code = (
        "import dalembert as da\n"
        "print(da.simulate(da.catalog.double_pendulum(), 'rattle', t_end=100, step=.001, save_every=1000).stats['engine'])"
    )
    import os

    env = {**os.environ, "DALEMBERT_CC": "false", "DALEMBERT_CACHE": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env)
    assert done.stdout == "virtual machine\n"


def test_momenta_as_default_initial_values():
    sol = da.simulate(M(1, mass=2, initial={"q": [1], "p": [4]}), "rattle", t_end=0.1, step=0.1)
    assert sol.v[0] == 2.0


SOL = da.simulate(da.catalog.harmonic_oscillator(), "midpoint", t_end=1.0, step=0.1)
RUN = dict(q=[1], v=[0], t_end=1.0, step=0.1)
S = M(1, mass=1, potential=lambda q: q[0] ** 2)


def nothing(q):
    q[0] ** 2


BAD = {
    "save_every text": (lambda: da.simulate(S, "rattle", **RUN, save_every="a"), "whole number"),
    "save_every nan": (lambda: da.simulate(S, "rattle", **RUN, save_every=np.nan), "whole number"),
    "max_iterations none": (lambda: da.simulate(S, "rattle", **RUN, max_iterations=None), "whole number"),
    "tolerance text": (lambda: da.simulate(S, "rattle", **RUN, tolerance="x"), "tolerance must be a number"),
    "compile array": (lambda: da.simulate(S, "rattle", **RUN, compile=np.array([1, 2])), "compile must be"),
    "compile number": (lambda: da.simulate(S, "rattle", **RUN, compile=1), "compile must be"),
    "too many steps": (lambda: da.simulate(S, "rattle", q=[1], t_end=1, step=1e-13), "do not fit into memory"),
    "parameters list": (lambda: da.simulate(S, "rattle", **RUN, parameters=[1]), "must be a dictionary"),
    "lam": (lambda: da.simulate(da.catalog.simple_pendulum(), "shake", t_end=1, step=0.1, lam=[1, 2]), "lam must be 1"),
    "no coordinates": (lambda: M(None, mass=1), "tuple of names"),
    "coordinates float": (lambda: M(2.0, mass=1), "tuple of names"),
    "parameter keys": (lambda: M(1, mass=1, parameters={1: 2}), "names as keys"),
    "initial keys": (lambda: M(1, mass=1, initial={"vv": [1]}), "called q, v or p"),
    "initial list": (lambda: M(1, mass=1, initial=[1]), "must be a dictionary"),
    "inputs": (lambda: M(1, mass=1, inputs=-1), "number of inputs"),
    "picture": (lambda: M(1, mass=1, picture=lambda q: q), "must be a da.Picture"),
    "picture links": (lambda: M(1, mass=1, picture=da.Picture(lambda q: [[0, q[0]]], links=((0, 5),))), "uses point 5"),
    "no signature": (lambda: M(2, mass=1, holonomic=max), "no signature"),
    "p in a mechanical force": (lambda: M(1, mass=1, force=lambda p: -p), "cannot depend on 'p'"),
    "u without inputs": (lambda: M(1, mass=1, force=lambda u: -u[0]), "has no inputs"),
    "nothing returned": (lambda: M(1, mass=1, potential=nothing), "a `return` missing"),
    "three dimensions": (lambda: M(1, mass=np.ones((1, 1, 1))), "3 dimensions"),
    "plain array": (lambda: M(2, mass=1, potential=lambda q: np.sum(np.sqrt(np.array([q[0] ** 2, 4.0])))), "np.stack"),
    "gradient": (lambda: da.methods.EnergyMomentum(gradient=["a"]), "gradient must be one of"),
    "residual": (lambda: SOL.residual(["position"]), "no constraint level"),
    "dimension": (lambda: SOL.momentum("linear", dimension="2"), "dimension must be"),
    "at text": (lambda: SOL.at("a"), "takes a time"),
    "save directory": (lambda: SOL.save("."), "is a directory"),
    "save none": (lambda: SOL.save(None), "file name is expected"),
    "load none": (lambda: da.load(None), "there is no file"),
    "plot suffix": (lambda: SOL.plot("x.foo"), "a figure ends in"),
    "plot directory": (lambda: SOL.plot("nowhere/x.png"), "does not exist"),
    "sensitivity of nothing": (lambda: da.sensitivity(3, "rattle", t_end=1, step=0.1), "must be a system"),
    "consistent of nothing": (lambda: da.consistent(3), "must be a system"),
    "consistent keyword": (lambda: da.consistent(S, q=[1], foo=1), "no keyword 'foo'"),
    "consistent time": (lambda: da.consistent(S, q=[1], t0="a"), "t0 must be a number"),
    "gradient of no steps": (lambda: da.sensitivity(S, "rattle", q=[1], t_end=0, step=1).gradient(lambda q: q[0]), "no steps"),
    "jacobian of": (lambda: da.sensitivity(S, "rattle", **RUN).jacobian("q", 3), "to differentiate by"),
    "kink at the start": (
        lambda: da.simulate(
            da.Hamiltonian(2, hamiltonian=lambda p: np.sqrt(p[0]) + p @ p), "rattle", q=[0, 0], p=[0, 0], t_end=1, step=0.1
        ),
        "not finite",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_of_every_kind(name):
    call, message = BAD[name]
    with pytest.raises(da.DalembertError, match=message):
        call()


def test_symbols_can_be_compared_joined_and_clipped():
    system = M(
        2,
        mass=1,
        potential=lambda q: (
            np.where((q[0] > 0) & (q[1] > 0) | ~(q[0] > -9), q[0] ** 2, q[1] ** 2)
            + np.max(q)
            + q.clip(0, 1)[0]
            + np.clip(q, a_min=0, a_max=2)[1]
        ),
    )
    value = system.numeric("potential", system.pack(), q=[0.5, 3.0])[0, 0]
    assert value == pytest.approx(0.25 + 3.0 + 0.5 + 2.0)


def test_dense_output_takes_arrays_of_any_shape():
    assert SOL.at([[0, 0.5], [0.2, 1.0]]).q.shape == (2, 2, 1)


OTHERS = {
    "system": (M(1, mass=1, potential=lambda q: q[0] ** 4), {}),
    "parameters": (None, {"parameters": {"k": 2.0}}),
    "start": (None, {"q": [1.5]}),
    "velocity": (None, {"v": [0.5]}),
    "method": (None, {"method": "midpoint"}),
    "beginning": (None, {"t0": 0.1}),
}


@pytest.mark.parametrize("what", OTHERS)
def test_a_checkpoint_belongs_to_one_run(what, tmp_path):
    """A finished run is read again by the same call, and by no other."""
    own = da.catalog.harmonic_oscillator()
    other, changed = OTHERS[what]
    call = {"method": "rattle", "q": [1.0], "v": [0.0], "t_end": 1.0, "step": 0.1, "checkpoint": tmp_path / "run.nc"}
    first = da.simulate(own, **call)
    np.testing.assert_array_equal(da.simulate(own, **call).q, first.q)
    with pytest.raises(da.MethodError, match="belongs to another run"):
        da.simulate(other or own, **{**call, **changed})
