"""Systems that many tests use, and how orders are measured."""

import contextlib
import os
import sys
from collections import Counter
from zlib import crc32

import numpy as np
import pytest

import dalembert as da
from dalembert.engine import compiler, sweeps
from dalembert.engine.steps import March
from dalembert.methods.base import REGISTER, find, obstacles
from dalembert.systems import composed

ALL = os.environ.get("DALEMBERT_TESTS") == "all"  # pairs of systems and methods: all of them, and not some
FLAGS_OF, FLAGS_OF_SWEEPS = compiler._flags, sweeps.FLAGS


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Neighbours go to one worker, so that fixtures of modules are made once; who has nothing left takes from the other."""
    from xdist.scheduler import WorkStealingScheduling

    return WorkStealingScheduling(config, log) if config.getvalue("dist") == "load" else None


@pytest.fixture(autouse=True, scope="session")
def _cache(tmp_path_factory):
    """Compiled steps of the tests go to a directory of their own; the processes they start keep their bytecode."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DALEMBERT_CACHE", str(tmp_path_factory.getbasetemp().parent / "dalembert-cache"))
        patch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
        yield


@pytest.fixture(autouse=True, scope="session")
def _quick():
    """Steps are compiled without optimisation: the same bits for a third of the time. `optimised` has what users get."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiler, "_flags", lambda source: ("-O0", *compiler.FLAGS))
        patch.setattr(sweeps, "FLAGS", ("-O1", *sweeps.FLAGS[1:]))  # lanes that stay in memory would cost more than they save
        yield


@pytest.fixture
def optimised(monkeypatch):
    """Compiled steps with the flags that users get."""
    monkeypatch.setattr(compiler, "_flags", FLAGS_OF)
    monkeypatch.setattr(sweeps, "FLAGS", FLAGS_OF_SWEEPS)


@pytest.fixture(autouse=True)
def _figures():
    """No test leaves figures open."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


def killed(monkeypatch, at, run):
    """A run that dies in its n-th stretch of steps."""
    original, calls = March.take, []

    def dies(self, *arguments, **more):
        calls.append(1)
        if len(calls) == at:
            raise KeyboardInterrupt
        return original(self, *arguments, **more)

    with monkeypatch.context() as patch:
        patch.setattr(March, "take", dies)
        with pytest.raises(da.Interrupted):
            run()


def order_of(errors, steps, floor=1e-12):
    """Slope of the errors over the steps in a log-log plot; nan where fewer than three points are above round-off."""
    e, h = np.asarray(errors), np.asarray(steps)
    keep = (e > floor) & np.r_[True, e[1:] < e[:-1]]
    return np.polyfit(np.log(h[keep]), np.log(e[keep]), 1)[0] if keep.sum() >= 3 else np.nan


def assert_order(errors, steps, order, floor=1e-12, told=""):
    """The slope is the order, within 0.25; nan is not."""
    slope = order_of(errors, steps, floor)
    assert abs(slope - order) < 0.25, f"{told} order {order} measured as {slope:.2f}: {np.asarray(errors)}"


def some(pairs, of=3, least=2):
    """Of all pairs of a system and a method one of three, or of another number; all of them with DALEMBERT_TESTS=all.

    Which ones depends on their names alone, not on what else there is. Each system and each method is in `least` pairs, as far
    as it is in so many.
    """
    if ALL:
        return list(pairs)
    names = [[getattr(x, "__name__", str(x)) for x in getattr(pair, "values", pair)] for pair in pairs]
    chosen, met = set(), Counter()
    for wanted in (False, True):  # first by lot, then where there are too few
        for k, pair in enumerate(names):
            lot = crc32(" with ".join(pair).encode()) % of == 0
            if k not in chosen and (any(met[place] < least for place in enumerate(pair)) if wanted else lot):
                chosen.add(k)
                met.update(enumerate(pair))
    return [pair for k, pair in enumerate(pairs) if k in chosen]


def alone_and_repeated(monkeypatch):
    """Twice, with small systems as they are and with their parts repeated, as in large ones: whether they are."""
    for most in (1_900, 0):
        monkeypatch.setattr(composed, "LARGE", most)
        monkeypatch.setattr(composed, "MANY", most)
        yield not most


def can(method, system):
    """Whether a method treats a system."""
    return not obstacles(find(method), system)


def with_stages(most, fewest=1):
    """Names of all registered methods that take a number of stages, with numbers up to `most`."""
    for name in REGISTER:
        for s in range(fewest, most + 1):
            with contextlib.suppress(da.MethodError):
                find(f"{name}-{s}")
                yield f"{name}-{s}"


def classical_order(name):
    """The order on ordinary differential equations; `order` of these two is that of the index-2 form, which is less."""
    family, _, s = name.rpartition("-")
    return {"gauss": 2 * int(s), "radau-ia": 2 * int(s) - 1}[family] if family in ("gauss", "radau-ia") else find(name).order[0]


# those of SciPy choose their steps themselves: they have no order of their own
STEPPING = [name for name in REGISTER if any(find(name).order)]
STAGED = {name.rpartition("-")[0] for name in with_stages(3)}
SINGLE = [name for name in STEPPING if name not in STAGED]


def angle_pendulum():
    """The double pendulum in its two angles: M(q) full, no constraints."""

    def mass(q, m1, m2, l1, l2):
        c = np.cos(q[0] - q[1])
        return [[(m1 + m2) * l1**2, m2 * l1 * l2 * c], [m2 * l1 * l2 * c, m2 * l2**2]]

    return da.Mechanical(
        ("a", "b"),
        mass=mass,
        potential=lambda q, m1, m2, l1, l2, g: -g * ((m1 + m2) * l1 * np.cos(q[0]) + m2 * l2 * np.cos(q[1])),
        parameters={"m1": 3.0, "m2": 1.0, "l1": 1.0, "l2": 1.0, "g": 9.81},
        initial={"q": [0.7, -0.4], "v": [0.3, 1.1]},
        name="double pendulum in angles",
    )


def polar_rod():
    """A mass in polar coordinates (r, a) with a spring, tied to the circle r = l: M(q) and a constraint."""
    return da.Mechanical(
        ("r", "a"),
        mass=lambda q, m: [[m, 0.0], [0.0, m * q[0] ** 2]],
        potential=lambda q, m, g: -m * g * q[0] * np.cos(q[1]),
        holonomic=lambda q, l: q[0] - l,
        parameters={"m": 2.0, "g": 9.81, "l": 1.3},
        initial={"q": [1.3, 0.9], "v": [0.0, 0.4]},
        name="pendulum in polar coordinates",
    )


def driven_pendulum():
    """A pendulum whose pivot moves, g(q, t), with friction, wind, an input, and a potential that depends on time."""
    return da.Mechanical(
        ("x", "y"),
        mass=lambda m: m,
        potential=lambda q, t, m, g: m * g * q[1] * (1 + 0.1 * np.sin(t)),
        holonomic=lambda q, t, l: (q[0] - 0.2 * np.sin(2 * t)) ** 2 + q[1] ** 2 - l**2,
        dissipation=lambda q, v, c: c * (1 + q[1] ** 2) * (1 + np.dot(v, v)),
        force=lambda v, t: [0.3 * np.cos(t), 0.1 * v[0]],
        inputs=lambda q: [[-q[1]], [q[0]]],
        parameters={"m": 1.2, "g": 9.81, "l": 1.0, "c": 0.1},
        initial={"q": [np.sin(0.5), -np.cos(0.5)], "v": [0.4, 0.0]},
        name="driven pendulum",
    )


def skew_hamiltonian():
    """A Hamiltonian that is not separable, with a constraint: relativistic-looking kinetic energy in a warped metric."""
    return da.Hamiltonian(
        ("x", "y", "z"),
        hamiltonian=lambda q, p, g: (
            np.sqrt(1 + (1 + q[0] ** 2 / 4) * p[0] ** 2 + p[1] ** 2 + p[2] ** 2 + p[0] * p[1] * q[2] / 3) + g * q[2]
        ),
        holonomic=lambda q: q[0] ** 2 + 2 * q[1] ** 2 + q[2] ** 2 - 1,
        parameters={"g": 1.5},
        name="skew Hamiltonian",
    )


def consistent_start(system, **values):
    start = da.consistent(system, **values)
    return {k: start[k] for k in start.keys()}  # noqa: SIM118 (a Consistent iterates over values)


# those that treat free systems only
FREE = [name for name in SINGLE if can(name, angle_pendulum()) and not can(name, polar_rod())]
