"""Poincare sections: where a motion crosses a surface, or stands at multiples of a period."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dalembert.engine import checks, driver, initial
from dalembert.engine.events import Event, Watch, hits_of
from dalembert.engine.machine import Memory
from dalembert.engine.progress import Bar
from dalembert.engine.steps import Shortened
from dalembert.errors import DalembertError, Interrupted, MethodError, ModelError, suggesting
from dalembert.hooks import Hook
from dalembert.methods.base import find
from dalembert.simulate import check_call, make_grid, make_rule, prepare, start, whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Quantity = tuple[str, int]  # `("q", 0)`: the first coordinate; `("v", 0)` and `("p", 0)`: its rate and momentum
Where = Callable[[NDArray[np.float64]], NDArray[np.bool_]]  # of `q` with coordinates first: the points that are drawn
CHUNK = 2048
PATIENCE = 200_000  # steps without a crossing after which a section counts as never crossed


@dataclass
class Section:
    """Points of a section: `t` has the shape (n,), `q`, `v` and `p` (n, dim); for several orbits one axis more in front."""

    t: np.ndarray
    q: np.ndarray
    v: np.ndarray
    p: np.ndarray
    energy: np.ndarray
    coordinates: tuple[str, ...] = ()
    stats: dict[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.t)

    def plot(self, x: Quantity = ("q", 0), y: Quantity = ("q", 1), ax: Axes | None = None, where: Where | None = None) -> Axes:
        """Points in the plane of two quantities, such as `("q", 2)` and `("v", 2)`, one colour for each orbit."""
        return PLOT(self, x, y, ax, where)


PLOT: Hook[[Section, Quantity, Quantity, Axes | None, Where | None], Axes] = Hook("Section.plot", "dalembert.plotting")


@suggesting
def poincare(
    system: Any,
    section: Callable[..., Any] | Event | int | float,
    n: int,
    *,
    method: Any,
    step: float,
    q: Any = None,
    v: Any = None,
    p: Any = None,
    direction: int = 1,
    t0: float = 0.0,
    u: Any = None,
    parameters: Any = None,
    tolerance: float | None = None,
    max_iterations: int = 25,
    compile: bool | str = "auto",
    progress: bool | None = None,
    patience: int = PATIENCE,
) -> Section:
    """The first `n` points of a Poincare section.

    Parameters
    ----------
    section
        A function of `q`, `v`, `p`, `t` and parameters, whose zeros with the given `direction` (1 from below, -1 from above, 0
        both) are the section; they are refined to round-off. A whole number: every so many steps. A real number: a period, of
        which the step is made a whole part.
    n
        Number of points of each orbit.
    q, v, p
        Initial values of one orbit, or of several, one row each.
    patience
        Steps without a crossing after which the section counts as never crossed.
    """
    check_call(system, compile)
    if system.kind == "dae":
        raise MethodError("poincare treats mechanical and Hamiltonian systems")
    n, method = whole("n", n), find(method)
    method.check(system)
    rule = make_rule(tolerance, max_iterations)
    par = system.pack(parameters)
    strobe: int | None = None
    if isinstance(section, (int, np.integer)) and not isinstance(section, bool):
        strobe = whole("section", section)
    elif isinstance(section, (float, np.floating)):
        period = initial.number("section", section)
        if period <= 0:
            raise MethodError(f"the period of a stroboscopic section must be positive, not {period:g}")
        strobe = max(1, int(np.ceil(period / step * (1 - 1e-12))))
        step = period / strobe
    grid = make_grid(t0, t0 + step, step, 1)
    starts = _starts(system, q, v, p, par, t0)
    inputs = initial.inputs_of(system, u, t0)
    engine = prepare(system, method)
    begun = time.perf_counter()
    bar = Bar(progress, n * len(starts), "sections", "points")
    orbits, steps = [], 0
    try:
        for k, (first, second) in enumerate(starts):
            at = initial.arguments(system, first, second, t0, par)
            checks.check_start(system, {**at, "u": inputs(np.array([t0]))[0]}, par, method)
            state = start(system, engine.program, at, par, None, inputs)
            memory = Memory.start(engine.program, state, par, t0, grid.h)
            if strobe is not None:
                walk = driver.Grid(t0, t0 + n * strobe * step, step, strobe)
                run = driver.integrate(engine, memory, walk, inputs, rule=rule, compile=compile, progress=False)
                if run.error is not None:
                    raise run.error
                times, states = run.times(), run.records.state
                steps += run.done
            else:
                event = section if isinstance(section, Event) else Event(section, direction, name="section")  # type: ignore[arg-type]
                times, states, taken = _crossings(
                    system, engine, memory, grid, inputs, rule, compile, event, n, par, patience, bar, k
                )
                steps += taken
            orbits.append(hits_of(system, par, times, *_parts(system, engine.program, states)))
            bar.show((k + 1) * n, time.perf_counter() - begun)
    except (DalembertError, Interrupted) as error:
        error.section = _join(system, par, orbits, False) if orbits else None  # type: ignore[union-attr]
        raise
    finally:
        bar.close()
    out = _join(system, par, orbits, np.ndim(q) < 2 and np.ndim(v) < 2 and np.ndim(p) < 2)
    out.stats = {"steps": steps, "seconds": time.perf_counter() - begun}
    return out


def _parts(system: Any, program: Any, states: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return states[:, program.fields["q"]], states[:, program.fields[system.momenta]]


def _starts(system: Any, q: Any, v: Any, p: Any, par: np.ndarray, t0: float) -> list[tuple[np.ndarray, np.ndarray]]:
    """Initial values of each orbit."""
    given = {k: np.asarray(x, dtype=float) for k, x in (("q", q), ("v", v), ("p", p)) if x is not None}
    counts = {len(x) for x in given.values() if x.ndim == 2}
    if len(counts) > 1:
        raise MethodError(f"q, v and p have different numbers of orbits: {sorted(counts)}")
    count = counts.pop() if counts else 1
    out = []
    for k in range(count):
        one = {name: x[k] if x.ndim == 2 else x for name, x in given.items()}
        out.append(initial.choose(system, one.get("q"), one.get("v"), one.get("p"), par, t0))
    return out


def _crossings(
    system: Any, engine: Any, memory: Memory, grid: Any, inputs: Any, rule: Any, compile: Any, event: Event, n: int,
    par: np.ndarray, patience: int, bar: Any, orbit: int,
) -> tuple[np.ndarray, np.ndarray, int]:  # fmt: skip
    """March in chunks until `n` crossings are found."""
    h, done, last_hit = grid.h, 0, 0
    runner = engine.runner(compile, 40 * n)
    watch = Watch(system, engine.program.fields, [event], par)
    watch.begin(grid.t0, memory.state, Shortened(engine, runner, inputs, rule, par))
    seen = [np.inf, -np.inf]
    begun = time.perf_counter()
    while len(watch.hits[0]) < n:
        walk = driver.Grid(grid.t0 + done * h, grid.t0 + (done + CHUNK) * h, h)
        before = memory.state.copy()
        run = driver.integrate(engine, memory, walk, inputs, rule=rule, compile=compile, progress=False)
        times = walk.t0 + h * np.arange(run.rows + 1)
        states = np.vstack([before, run.records.state[: run.rows]])
        found = len(watch.hits[0])
        watch.search(times, states)
        if run.error is not None and len(watch.hits[0]) < n:
            raise run.error
        done += run.rows
        if len(watch.hits[0]) > found:
            last_hit = done
        values = watch.values(states, times)
        seen = [min(seen[0], float(values.min())), max(seen[1], float(values.max()))]
        if done - last_hit >= patience:
            way = {1: "from below", -1: "from above", 0: "in either direction"}[event.direction]
            raise ModelError(
                f"the section was crossed {way} {len(watch.hits[0])} times of {n}, and not once in the last {done - last_hit} "
                f"steps (t = {grid.t0 + done * h:g}); its function lay between {seen[0]:.4g} and {seen[1]:.4g}"
            )
        bar.show(orbit * n + len(watch.hits[0]), time.perf_counter() - begun)
    hits = watch.hits[0][:n]
    return np.array([t for t, _ in hits]), np.array([state for _, state in hits]), done


def _join(system: Any, par: np.ndarray, orbits: list[Any], single: bool) -> Section:
    parts = []
    for name in ("t", "q", "v", "p"):
        parts.append(np.array([getattr(o, name) for o in orbits]))
    second = parts[2] if system.momenta == "v" else parts[3]
    energy = np.array(
        [
            system.numeric("energy", par, q=q, t=t, **{system.momenta: s})[:, 0]
            for t, q, s in zip(parts[0], parts[1], second, strict=True)
        ]
    )
    t, q, v, p, energy = (a[0] if single else a for a in [*parts, energy])
    return Section(t, q, v, p, energy, system.coordinates)
