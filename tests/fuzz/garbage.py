"""Arguments that mean nothing, for every public callable: each must end in an error of ours, or mean something after all."""

import numpy as np

import dalembert as da
from dalembert import catalog
from dalembert.catalog import _MAKERS
from dalembert.methods.base import REGISTER


class Broken:
    """Everything that is asked of it fails."""

    def __repr__(self):
        raise RuntimeError("no text")

    def __iter__(self):
        raise RuntimeError("no items")

    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("no array")

    def __float__(self):
        raise RuntimeError("no number")

    def __bool__(self):
        raise RuntimeError("no truth")


GARBAGE = (
    None, True, 0, -1, 1, 2, 3.5, -0.0, 1e-320, 1e308, float("nan"), float("inf"), -float("inf"), 2**31, 2**63, 2**64, 10**400,
    1j, "", "x", "1.0", "rattle", "\x00", b"q", (), [], {}, {"q": 1}, {1: 2}, {"a": "b"}, {"q": [1, 2, 3, 4], "v": 1}, [None],
    [[]], [1, 2], [1, [2]], ["a", "b"], ("x", "x"), [1e400], [np.nan], np.array([]), np.array(1.0), np.array([1 + 5j, 0, 2, 0]),
    np.zeros((2, 2)), np.zeros((0, 3)), np.array(["a"]), np.array([None]), np.datetime64("2020"), object, object(), Broken(),
    np.zeros(3, dtype=[("a", float)]), int, len, print, lambda: 1, lambda q: q, lambda x: 1 / 0, lambda *a: 1,
    lambda q, v: [q, v], lambda t: "a", slice(3), range(3), iter([1, 2]), {1, 2}, NotImplemented, ..., ValueError("x"), 3 + 0j,
    np.float32(1), np.bool_(True), da.catalog.harmonic_oscillator, da.Event(lambda q: q[0]), da.control.Backoff(),
    da.methods.Rattle(), da.Picture(),
)  # fmt: skip

RUN = {"t_end": 0.1, "step": 0.05}
PENDULUM, OSCILLATOR, MOTOR = catalog.simple_pendulum(), catalog.harmonic_oscillator(), catalog.dc_motor()
LINEAR = da.LinearDAE(np.eye(2), -np.eye(2))
DIRAC = da.DiracStructure.of_skew(np.zeros((2, 2)))


def _names(function, *more):
    import inspect

    found = inspect.signature(function).parameters.values()
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return (*(p.name for p in found if p.kind in kinds and p.name != "self"), *more)


def target(function, base, *, skip=(), more=()):
    """A callable, arguments with which it works, and the names that may be replaced."""
    return function, base, tuple(name for name in _names(function, *more) if name not in skip)


QUIET = ("progress",)
SIMULATE = {"system": OSCILLATOR, "method": "rattle", **RUN}
H = {"hamiltonian": lambda q, p: p @ p / 2 + q @ q}
TARGETS = (
    target(da.simulate, SIMULATE, skip=("checkpoint",)),
    target(da.simulate, {"system": PENDULUM, "method": "rattle", **RUN}, skip=("checkpoint", "system", "method")),
    target(da.simulate, {"system": MOTOR, "method": "discrete-gradient", **RUN}, skip=("checkpoint", "system", "method")),
    target(da.Mechanical, {"coordinates": 2, "mass": 1.0, "potential": lambda q: q @ q}),
    target(da.Hamiltonian, {"coordinates": 2, **H}),
    target(da.PortHamiltonian, {"coordinates": 2, "hamiltonian": lambda x: x @ x, "J": [[0, 1], [-1, 0]], "B": [[0], [1]]}),
    target(da.IndexOneDAE, {"coordinates": 1, "f": lambda y, z: z, "g": lambda y, z: z - y}, more=("f", "g", "inputs", "name")),
    target(da.IndexTwoDAE, {"coordinates": 2, "f": lambda y, z: [z[0], -y[0]], "g": lambda y: [y[0]]}),
    target(da.Lagrangian, {"coordinates": 1, "lagrangian": lambda q, v: v @ v}, more=("force", "inputs", "holonomic")),
    target(da.LinearDAE, {"E": np.eye(2), "A": -np.eye(2)}),
    target(LINEAR.exact, {"x0": [1.0, 2.0], "times": [0.1]}),
    target(LINEAR.consistent, {"x0": [1.0, 2.0]}),
    target(da.consistent, {"system": PENDULUM}),
    target(da.diagnose, {"system": PENDULUM}),
    target(da.compare, {"system": OSCILLATOR, "methods": ["rattle"], **RUN, "repeat": 1, "compile": False}, skip=("repeat",)),
    target(da.convergence, {"system": OSCILLATOR, "method": "rattle", "t_end": 0.1, "steps": (2, 4)}),
    target(
        da.poincare,
        {"system": OSCILLATOR, "section": 2, "n": 2, "method": "rattle", "step": 0.1},
        skip=("n", "section", "patience"),
    ),
    target(da.sensitivity, {"system": OSCILLATOR, "method": "rattle", **RUN}, skip=QUIET),
    target(da.compose, {"method": "rattle"}),
    target(da.connect, {"systems": {"a": MOTOR}, "rules": []}),
    target(da.Event, {"function": lambda q: q[0]}),
    target(da.Picture, {}),
    target(da.DiracStructure, {"F": np.eye(2), "G": np.zeros((2, 2))}),
    target(DIRAC.contains, {"f": [0.0, 0.0], "e": [0.0, 0.0]}),
    target(DIRAC.compose, {"other": DIRAC, "shared": 1}),
    target(da.discrete.gradient, {"f": lambda x: x @ x, "x0": [1.0, 2.0], "x1": [2.0, 3.0]}),
    target(da.analysis.trend, {"t": np.arange(20.0), "values": np.arange(20.0)}),
    target(da.analysis.growth, {"t": np.arange(1.0, 20.0), "errors": np.arange(1.0, 20.0)}),
    target(da.analysis.reversibility, {"system": OSCILLATOR, "method": "rattle", **RUN}),
    *(target(cls, {}) for cls in (da.control.Backoff, da.control.ErrorControl, da.control.Reversible)),
    *(target(maker, {}) for maker in _MAKERS),
    *(target(cls, {}) for cls in REGISTER.values()),
)


def call(rng):
    """A call with one or two arguments that mean nothing, as `(function, keywords)`; sometimes one that does not exist."""
    function, base, names = TARGETS[rng.integers(len(TARGETS))]
    keywords = dict(base)
    for _ in range(int(rng.integers(1, 3))):
        if names and rng.random() < 0.95:
            keywords[names[rng.integers(len(names))]] = GARBAGE[rng.integers(len(GARBAGE))]
        else:
            keywords["nonsense"] = 1
    return function, keywords


def finish(made):
    """Use what was made, where an option is looked at only then."""
    if isinstance(made, da.control.Control):
        da.simulate(OSCILLATOR, "rattle", adaptive=made, **RUN)
    elif isinstance(made, da.Event):
        da.simulate(OSCILLATOR, "rattle", events=made, **RUN)
    elif isinstance(made, da.Method) and made.external:
        da.simulate(PENDULUM, made, **RUN)
