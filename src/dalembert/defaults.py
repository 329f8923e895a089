"""What `simulate` chooses where nothing is said: the method by a diagnosis, the step by a trial; and rows at given times."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dalembert.checking import number, reals
from dalembert.engine import control, kinds
from dalembert.engine.inputs import Linear
from dalembert.engine.kinds import Given, Values
from dalembert.errors import ConvergenceError, InconsistentState, MethodError, ModelError
from dalembert.hooks import Hook
from dalembert.methods.base import Method, find
from dalembert.solution import Solution
from dalembert.systems.base import System

Array = NDArray[np.float64]
Adaptivity = bool | str | control.Control | None  # what `simulate` takes for `adaptive`
Trial = Callable[[Mapping[str, object], float, float], Solution]  # a run by what differs at its start, its step and its end
TOLERANCE = 1e-4  # of the largest value of each part of the state, in a trial
WINDOW = 32  # steps of a trial
TRIALS = 12
PILOT = 500  # steps of a run that looks for where the motion changes most
COARSEST = 50  # steps of a run, at least

RECOMMEND: Hook[[System, Values, float, Array], str] = Hook("the choice of a method", "dalembert.analysis")


def method_for(system: System, given: Given, t0: float, parameters: Mapping[str, ArrayLike] | None) -> tuple[Method, str]:
    """The method that `da.diagnose` recommends at the start, and a word on it."""
    par, t = system.pack(parameters), number("t0", t0)
    values = kinds.choose(system, given, par, t, np.zeros(system.nu))
    name = RECOMMEND(system, values, t, par)
    return find(name), f"{name} (recommended by da.diagnose)"


def step_for(
    run: Trial, method: Method, system: System, t0: float, t_end: float, jumps: Sequence[float] = (), every: float | None = None
) -> tuple[float, str]:
    """A step for equal steps: runs with it and with half of it agree to `TOLERANCE` over `WINDOW` steps.

    They begin at the start, and then where a pilot run finds that the motion changes most, or where inputs jump: a motion may
    begin at rest. Where controllers are called `every` so often, the step divides that time.
    """
    t0, t_end = number("t0", t0), number("t_end", t_end)
    length = t_end - t0
    if not length > 0:
        raise MethodError(f"t_end = {t_end:g} must lie after t0 = {t0:g}, where no step is given")
    order = max(1, min(method.order_on(system)[:2]))

    def fits(h: float) -> float:
        whole = length if every is None else every
        return float(whole / np.ceil(whole / h * (1 - 1e-12)))

    h, error = _tried(partial(run, {}), order, fits, t0, t_end, length / COARSEST)
    places = "the start"
    for start, t in _busy(run, t0, t_end, h, jumps):
        try:
            h, other = _tried(partial(run, {**start, "t0": t}), order, fits, t, t_end, h)
        except InconsistentState:  # rows of some methods are off the constraints
            continue
        error, places = max(error, other), "the start and where the motion changes most"
    step = fits(h)
    return step, f"step {step:.6g} (by trial: error {error:.0e} of the state over {WINDOW} steps at {places})"


def _tried(
    run: Callable[[float, float], Solution], order: int, fits: Callable[[float], float], t0: float, t_end: float, h: float
) -> tuple[float, float]:
    """A step that passes its trial, not longer than a given one, and the error there."""
    error, failed = np.inf, cast("ModelError | None", None)
    for _ in range(TRIALS):
        h = fits(h)
        try:
            error, failed = _error(run, t0, min(t_end, t0 + WINDOW * h), h), None
        except ModelError as why:  # where steps are too long, a motion may come to where the model is not defined
            error, failed = np.inf, why
        if error <= TOLERANCE:
            return h, error
        h *= float(np.clip(0.9 * (TOLERANCE / error) ** (1 / order), 1 / 16, 0.7)) if np.isfinite(error) else 0.25
    if failed is not None:
        raise failed
    raise MethodError(
        f"no step could be found by trial: down to {h:.1e}, runs with a step and with half of it differ by {error:.1e} of "
        "the state; give step=..., or rtol=... for step control"
    )


def _busy(run: Trial, t0: float, t_end: float, h: float, jumps: Sequence[float]) -> list[tuple[Values, float]]:
    """States of a pilot run from which a trial is made as well: before the largest change of rates, and at the first jump."""
    try:
        pilot = run({}, h, min(t_end, t0 + PILOT * h))
    except (ConvergenceError, ModelError) as failed:
        if failed.solution is None:
            return []
        pilot = failed.solution  # the trial from its end will find a step
    out, rows = [], len(pilot.t)
    changes = [np.abs(np.diff(a, 2, axis=0)).max(axis=1, initial=0.0) / max(float(np.abs(a).max(initial=0.0)), 1e-12)
               for a in pilot.parts.values()] if rows > WINDOW + 2 else []  # fmt: skip
    if changes:
        change = np.max(changes, axis=0)
        most = int(np.argmax(change))
        if most > WINDOW // 2 and change[most] > 2 * change[: WINDOW // 2].max():
            out.append(max(0, most - WINDOW // 4))
    states = [({name: a[k] for name, a in pilot.parts.items()}, float(pilot.t[k])) for k in out]
    first = next((t for t in sorted(jumps) if t0 < t < t_end), None)
    if first is not None:
        k = min(rows - 1, int(np.searchsorted(pilot.t, first)))
        states.append(({name: a[k] for name, a in pilot.parts.items()}, first))
    return states


def _error(run: Callable[[float, float], Solution], t0: float, end: float, h: float) -> float:
    """How much runs with a step and with half of it differ, relative to the largest values of each part of the state."""
    try:
        coarse, fine = run(h, end), run(h / 2, end)
    except ConvergenceError:
        return np.inf
    rows = min(len(coarse.t), (len(fine.t) + 1) // 2)
    parts = [(coarse.parts[name][:rows], fine.parts[name][: 2 * rows : 2][:rows]) for name in coarse.system.state]
    sizes = [max(float(np.abs(b).max(initial=0.0)), 1e-12) for _, b in parts]
    return max(float(np.abs(a - b).max(initial=0.0)) / size for (a, b), size in zip(parts, sizes, strict=True))


def controller(adaptive: Adaptivity, rtol: float | None, atol: float | None) -> Adaptivity:
    """The step control that `adaptive`, `rtol` and `atol` ask for together."""
    if rtol is None and atol is None:
        return adaptive
    if adaptive not in (False, None, True, "error"):
        raise MethodError("rtol and atol are those of error control: they do not go with another adaptive=...")
    usual = control.ErrorControl()
    limits = [usual.rtol if rtol is None else number("rtol", rtol), usual.atol if atol is None else number("atol", atol)]
    return control.ErrorControl(rtol=limits[0], atol=limits[1])


def evaluated(sol: Solution, t_eval: Array) -> Solution:
    """The solution at given times instead of its own: by steps shortened to end there, with work in proportion to time.

    Multipliers are those of the acceleration level at these times.
    """
    t_eval = t_eval[t_eval <= sol.t[-1]] if t_eval[0] <= sol.t[-1] else sol.t[-1:]  # an event may have ended the run
    found = sol.at(t_eval, how="step")
    work = np.stack([np.r_[0.0, np.cumsum(w)] for w in (sol.supplied, sol.dissipated)])
    shared = np.stack([np.diff(np.interp(t_eval, sol.t, w)) for w in work], axis=1)
    out = type(sol)(
        sol.system, sol.method, sol._par, t_eval, {name: found.values[name] for name in sol.system.state},
        lam=np.zeros((len(t_eval) - 1, 0)), t_lam=t_eval[1:], work=shared, u=sol.inputs_at(t_eval), step=sol.step,
        stats={**sol.stats, "save_every": max(2, int(sol.stats.get("save_every", 1)))},
    )  # fmt: skip
    out.events, out.samples = sol.events, sol.samples
    out.inputs = sol.inputs if not isinstance(sol.inputs, Linear) else out.inputs
    return out


def times(t_eval: ArrayLike, t0: float, t_end: float) -> Array:
    """Times at which a solution is wanted, checked."""
    out = np.atleast_1d(reals("t_eval", t_eval, MethodError, "an array of times"))
    if out.ndim != 1 or not out.size or (np.diff(out) <= 0).any():
        raise MethodError("t_eval must be times that increase")
    if out[0] < t0 or out[-1] > t_end:
        raise MethodError(f"t_eval reaches from {out[0]:g} to {out[-1]:g}, outside of the run from {t0:g} to {t_end:g}")
    return out
