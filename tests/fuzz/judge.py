"""One case, from its seed to a verdict."""

import contextlib
import pickle
import signal
import warnings
from dataclasses import dataclass

import numpy as np

import dalembert as da
from dalembert.methods.base import REGISTER, find, obstacles

from . import garbage, models
from .known import FIRST, NEW

SECONDS = 10  # of processor time for one case
SLOW = 2  # of a run whose steps are chosen by a controller, or inside SciPy: it may need any number of them
BALANCED = ("energy-momentum", "energy-momentum-ggl", "discrete-gradient", "ddr", "gradient-pair")
COMPILED = (("double_pendulum", "rattle"), ("four_particles_damped", "energy-momentum"), ("dc_motor", "discrete-gradient"))


class Slow(BaseException):
    """A run that chooses its steps itself, and takes very many."""


class Violation(Exception):
    """What must not happen."""


class TooLong(BaseException):
    """A case that does not end."""


@dataclass
class Verdict:
    """`kind` is ok, own, slow or violation; `told` says what was run, and what came of it."""

    seed: int
    kind: str
    told: str


@contextlib.contextmanager
def limited(seconds, kind=TooLong):
    """End what takes longer than so much processor time; said again and again, since a conversion in C may not hear it."""

    def stop(number, frame):
        raise kind

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds, 0.1)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def judge(seed, compiled=0.005):
    """The verdict on a seed."""
    rng, told = np.random.default_rng(seed), []
    try:
        with limited(SECONDS), warnings.catch_warnings():
            warnings.simplefilter("error")
            draw = rng.random()
            if draw < 0.45:
                _garbage(rng, told)
            elif draw < 0.48:
                _linear(rng, told)
            elif draw < 0.48 + compiled:
                _compiled(rng, told)
            else:
                _run(rng, told, FIRST if seed < NEW else tuple(REGISTER))
    except da.DalembertError as error:
        bad = _spoiled(error)
        return Verdict(seed, "violation" if bad else "own", f"{' '.join(told)}: {type(error).__name__}: {bad or error}")
    except Slow:
        return Verdict(seed, "slow", " ".join(told))
    except TooLong:
        return Verdict(seed, "violation", f"{' '.join(told)}: does not end in {SECONDS} s")
    except Exception as error:
        if isinstance(error, SystemError) and isinstance(error.__cause__ or error.__context__, (Slow, TooLong)):
            return Verdict(seed, "slow", " ".join(told))  # the limit was met inside of a conversion in C
        return Verdict(seed, "violation", f"{' '.join(told)}: {type(error).__name__}: {str(error)[:300]}")
    return Verdict(seed, "ok", " ".join(told))


def _garbage(rng, told):
    function, keywords = garbage.call(rng)
    told.append(f"{getattr(function, '__qualname__', function)}({', '.join(f'{k}={_text(v)}' for k, v in keywords.items())})")
    made = function(**keywords)
    with limited(SLOW, Slow) if isinstance(made, da.Method) and made.external else contextlib.nullcontext():
        garbage.finish(made)
    signal.setitimer(signal.ITIMER_PROF, SECONDS, 0.1)  # an inner limit has ended that of the case
    if isinstance(made, da.Solution):
        _finite(made)


def _text(value):
    try:
        return repr(value)[:60]
    except Exception as error:
        return f"<{error}>"


def _linear(rng, told):
    dae = models.linear(rng)
    times = np.sort(np.round(rng.uniform(0, 3, size=3), 2))
    told.append(f"LinearDAE E={np.diag(dae.E)} A={np.diag(dae.A)} exact at {times}")
    x = dae.exact(dae.consistent(np.ones(dae.n)), times)
    if not np.isfinite(x).all():
        raise Violation("the exact solution is not finite")
    again = dae.exact(dae.consistent(np.ones(dae.n)), times[-1])[0]
    if np.abs(again - x[-1]).max() > 1e-9 * max(1.0, np.abs(x).max()):
        raise Violation(f"the exact solution depends on the times on the way: {again} and {x[-1]}")


def _compiled(rng, told):
    name, method = COMPILED[rng.integers(len(COMPILED))]
    system = getattr(da.catalog, name)()
    h, every = float(rng.choice([0.003, 0.01, 0.02])), int(rng.integers(1, 8))
    told.append(f"{name} {method} h={h} save_every={every} compiled")
    run = {"t_end": float(rng.uniform(0.1, 1.0)), "step": h, "save_every": every}
    _same(*(da.simulate(system, method, compile=compile, **run) for compile in (True, False)))


def _run(rng, told, names):
    system, start, project = models.MAKERS[rng.integers(len(models.MAKERS))](rng)
    told.append(repr(system))
    method = _method(rng, system, names)
    options = _options(rng, system, method)
    told.append(f"{method} {start} " + " ".join(f"{k}={_text(v)}" for k, v in options.items()))
    if project:
        start = {k: v for k, v in da.consistent(system, **start, t0=options["t0"]).values.items() if k in system.state}
    chooses = method.external or "adaptive" in options
    with limited(SLOW, Slow) if chooses else contextlib.nullcontext():
        sol = da.simulate(system, method, **start, **options)
    signal.setitimer(signal.ITIMER_PROF, SECONDS, 0.1)  # an inner limit has ended that of the case
    _check(sol, options)
    if rng.random() < 0.2 and not options.get("adaptive") and options["save_every"] == 1:
        thin = da.simulate(system, method, **start, **{**options, "save_every": 3})
        for name in system.state:
            rows, every = thin.parts[name], sol.parts[name]
            if not np.array_equal(rows[:-1], every[:-1:3][: len(rows) - 1]):
                raise Violation(f"save_every=3 gives other {name}")
            if np.abs(rows[-1] - every[-1]).max() > 1e-9 * np.abs(every).max():  # these steps are made by another call
                raise Violation(f"save_every=3 gives another last {name}")
    if rng.random() < 0.1:
        _same(sol, pickle.loads(pickle.dumps(sol)))


def _method(rng, system, names):
    """A method, mostly one that fits."""
    for _ in range(8):
        cls = REGISTER[names[rng.integers(len(names))]]
        stages = "stages" in getattr(cls, "__dataclass_fields__", {})
        method = find(f"{cls.name}-{rng.integers(2, 4)}") if stages else cls()
        if not obstacles(method, system):
            break
    return method


def _options(rng, system, method):
    h = float(10.0 ** rng.uniform(-4, 0)) if rng.random() < 0.8 else float(10.0 ** rng.uniform(-8, 4))
    t0 = 0.0 if rng.random() < 0.8 else float(rng.choice([-1.0, 3.0, 1e3]))
    count = float(rng.integers(1, 9)) + float(rng.choice([0.0, 0.0, 0.5]))
    out = {"t0": t0, "t_end": t0 + count * h, "step": h, "save_every": 1, "compile": False}
    if rng.random() < 0.2:
        out["save_every"] = int(rng.integers(2, 12))
    if rng.random() < 0.15:
        out["adaptive"] = str(rng.choice(["error", "backoff", "reversible"]))
    if rng.random() < 0.1:
        out["tolerance"] = float(10.0 ** rng.uniform(-14, -6))
    if rng.random() < 0.1:
        out["max_iterations"] = int(rng.integers(1, 60))
    if rng.random() < 0.1:
        variable = system.state[0]
        out["events"] = {"q": lambda q: q[0], "x": lambda x: x[0], "y": lambda y: y[0]}[variable]
    if system.nu and rng.random() < 0.8:
        nu = system.nu
        pick = rng.integers(3)
        out["u"] = (
            [0.3] * nu if pick == 0 else (lambda t: [np.cos(t)] * nu) if pick == 1 else ([t0, t0 + h], [[0.1] * nu, [0.2] * nu])
        )
    return out


# ---- what a solution must be ----------------------------------------------------------------------------------


def _finite(sol):
    for name in ("t", "x", "u", "lam", "t_lam", "supplied", "dissipated"):
        if not np.isfinite(getattr(sol, name)).all():
            raise Violation(f"{name} is not finite")
    if sol.system.has_energy and not np.isfinite(sol.energy).all():
        raise Violation("the energy is not finite")
    if not (np.diff(sol.t) > 0).all():
        raise Violation("times do not increase")


def _check(sol, options):
    _finite(sol)
    if sol.t[-1] != options["t_end"] or sol.t[0] != options["t0"]:
        raise Violation(f"the run reaches from {sol.t[0]} to {sol.t[-1]}")
    for hits in sol.events.values():
        if not all(np.isfinite(values).all() for values in (hits.t, *hits.values.values())):
            raise Violation("an event is not finite")
    _constraints(sol, max(1e-10, 1e4 * options.get("tolerance", 0.0)))
    if sol.method.name in BALANCED and sol.system.has_energy and "tolerance" not in options:
        sizes = [sol.energy, sol.supplied, sol.dissipated, *sol.energies().values()]
        scale = max(float(np.abs(a).max(initial=0.0)) for a in sizes)
        worst = float(np.abs(sol.power_balance).max(initial=0.0))
        if worst > 1e-9 * scale + _rest(sol) + 1e-300:
            raise Violation(f"power balance {worst:.1e} of {scale:.1e}")


def _rest(sol):
    """The kinetic energy of velocities that are but the rounding of positions over a step: below it, a system is at rest."""
    if not isinstance(sol.system, da.Mechanical):
        return 0.0
    speed = 10 * np.finfo(float).eps * np.abs(sol.q).max() / sol.step
    return float(np.abs(sol.system.value("mass", sol._par, q=sol.q[0]).full()).max()) * speed**2


def _constraints(sol, tolerance):
    """On the levels that the method claims, relative to the terms of the constraints."""
    system = sol.system
    if not getattr(system, "mh", 0) or not hasattr(sol, "_par"):
        return
    G = np.abs(system.numeric("jacobian", sol._par, q=sol.q, t=sol.t).reshape(len(sol.t), system.m, system.nv))
    rate = np.abs(system.numeric("rate", sol._par, q=sol.q, t=sol.t))
    if "position" in sol.method.exact_levels:
        normal = np.abs(system.numeric("normal", sol._par, q=sol.q, t=sol.t).reshape(len(sol.t), system.mh, system.n))
        size = np.einsum("tij,tj->ti", normal, np.abs(sol.q) + np.abs(sol.q).max(axis=1, keepdims=True))
        ratio = np.abs(sol.residual("position")) / (size + 1e-300)
        if ratio.max() > tolerance:
            raise Violation(f"position constraints are off by {ratio.max():.1e} of their terms")
    if "velocity" in sol.method.exact_levels:
        largest = np.abs(sol.v).max(axis=1, keepdims=True)
        rounding = np.finfo(float).eps * np.abs(sol.q).max(axis=1, keepdims=True) / sol.step  # slower than this is rest
        size = np.einsum("tij,tj->ti", G, np.abs(sol.v) + largest + rounding) + rate
        size = np.maximum.accumulate(size)  # a motion that has come to rest keeps the rounding of its steps
        ratio = np.abs(sol.residual("velocity"))[1:] / (size[1:] + 1e-300)
        if ratio.max(initial=0.0) > tolerance:
            raise Violation(f"velocity constraints are off by {ratio.max():.1e} of their terms")


def _same(one, two):
    for name in ("t", "x", "lam", "supplied", "dissipated"):
        if not np.array_equal(getattr(one, name), getattr(two, name)):
            raise Violation(f"{name} differs between two ways of the same run")


def _spoiled(error):
    """What is wrong with the part of a solution that an error holds; None if nothing is."""
    if error.solution is None:
        return None
    try:
        with limited(SECONDS):
            _finite(error.solution)
    except Violation as bad:
        return f"in error.solution {bad} ({error})"
    return None
