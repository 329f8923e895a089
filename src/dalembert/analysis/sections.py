"""Poincare sections: where a motion crosses a surface, or stands at multiples of a period."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dalembert.checking import number, positive, reals, shown, whole
from dalembert.engine import driver
from dalembert.engine.case import Case, check_call, make_grid, make_rule
from dalembert.engine.driver import Array, Engine, Grid
from dalembert.engine.events import Event, Hits
from dalembert.engine.machine import Memory
from dalembert.engine.newton import Rule
from dalembert.engine.progress import Bar
from dalembert.engine.steps import Shortened
from dalembert.engine.watch import Watch
from dalembert.errors import DalembertError, InconsistentState, Interrupted, MethodError, ModelError, suggesting
from dalembert.hooks import Hook
from dalembert.methods.base import Method
from dalembert.named import Named
from dalembert.systems.base import System

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Quantity = tuple[str, int]  # `("q", 0)`: the first coordinate; `("v", 0)` and `("p", 0)`: its rate and momentum
Where = Callable[[Array], NDArray[np.bool_]]  # of `q` with coordinates first: the points that are drawn
CHUNK = 2048
MOST = 10**9  # points, or steps between two of them
PATIENCE = 200_000  # steps without a crossing after which a section counts as never crossed


@dataclass
class Section(Named):
    """Points of a section: `t` has the shape (n,), `q`, `v` and `p` (or `x`) have (n, dim); several orbits have one axis more."""

    t: Array
    values: Mapping[str, Array]
    energy: Array
    coordinates: tuple[str, ...] = ()
    stats: dict[str, float] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.t)

    def plot(self, x: Quantity = ("q", 0), y: Quantity = ("q", 1), ax: Axes | None = None, where: Where | None = None) -> Axes:
        """Points in the plane of two quantities, such as `("q", 2)` and `("v", 2)`, one colour for each orbit."""
        return PLOT(self, x, y, ax, where)


PLOT: Hook[[Section, Quantity, Quantity, Axes | None, Where | None], Axes] = Hook("Section.plot", "dalembert.plotting")


@suggesting
def poincare(
    system: System,
    section: Callable[..., object] | Event | int | float,
    n: int,
    *,
    method: str | Method,
    step: float,
    q: ArrayLike | None = None, v: ArrayLike | None = None, p: ArrayLike | None = None, x: ArrayLike | None = None,
    direction: int = 1,
    t0: float = 0.0, u: object = None, parameters: Mapping[str, ArrayLike] | None = None,
    tolerance: float | None = None, max_iterations: int = 25, compile: bool | str = "auto",
    progress: bool | None = None,
    patience: int = PATIENCE,
) -> Section:  # fmt: skip
    """The first `n` points of a Poincare section.

    Parameters
    ----------
    section
        A function of `q`, `v`, `p`, `t` and parameters, whose zeros with the given `direction` (1 from below, -1 from above, 0
        both) are the section; they are refined to round-off. A whole number: every so many steps. A real number: a period, of
        which the step is made a whole part.
    n
        Number of points of each orbit.
    q, v, p, x
        Initial values of one orbit, or of several, one row each.
    patience
        Steps without a crossing after which the section counts as never crossed.
    """
    check_call(system, compile, progress)
    if not system.has_energy:
        raise MethodError(f"poincare treats mechanical, Hamiltonian and port-Hamiltonian systems, not a {system.kind} one")
    n, rule, patience = whole("n", n, most=MOST), make_rule(tolerance, max_iterations), whole("patience", patience)
    strobe, step = _strobe(section, positive("step", step))
    event = _event(section, direction) if strobe is None else None
    t0 = number("t0", t0)
    grid = make_grid(t0, t0 + step, step, 1)
    cases = [
        Case.of(system, method, given, t0=t0, u=u, parameters=parameters) for given in _orbits({"q": q, "v": v, "p": p, "x": x})
    ]
    begun, steps, orbits = time.perf_counter(), 0, list[Hits]()
    bar = Bar(progress, n * len(cases), "sections", "points")
    try:
        for k, case in enumerate(cases):
            if event is None:
                hits, taken = _stroboscopic(case, n, strobe or 1, grid, rule, compile)
            else:
                hits, taken = _crossings(case, event, n, grid, rule, compile, patience, partial(_show, bar, k * n))
            steps += taken
            orbits.append(hits)
            bar.show((k + 1) * n, time.perf_counter() - begun)
    except (DalembertError, Interrupted) as error:
        error.section = _join(system, cases[0].par, orbits, False) if orbits else None  # type: ignore[union-attr]
        raise
    finally:
        bar.close()
    out = _join(system, cases[0].par, orbits, all(np.ndim(value) < 2 for value in (q, v, p, x) if value is not None))
    out.stats = {"steps": steps, "seconds": time.perf_counter() - begun}
    return out


def _show(bar: Bar, before: int, found: int) -> None:
    bar.show(before + found)


def _event(section: object, direction: int) -> Event:
    """The event whose crossings are the section."""
    if not isinstance(section, Event) and not callable(section):
        raise MethodError(
            f"section must be a function of the motion, an Event, a number of steps or a period, not {shown(section)}"
        )
    return section if isinstance(section, Event) else Event(section, direction, name="section")


def _strobe(section: object, step: float) -> tuple[int | None, float]:
    """For a stroboscopic section the number of steps between two points, and the step that fits."""
    if isinstance(section, (int, np.integer)) and not isinstance(section, bool):
        return whole("section", section, most=MOST), step
    if isinstance(section, (float, np.floating)):
        period = positive("section, the period,", section)
        count = whole("section / step", max(1.0, float(np.ceil(period / step * (1 - 1e-12)))), most=MOST)
        return count, period / count
    return None, step


def _orbits(values: Mapping[str, ArrayLike | None]) -> list[dict[str, ArrayLike | None]]:
    """The initial values of each orbit."""
    given = {name: reals(name, x, InconsistentState) for name, x in values.items() if x is not None}
    counts = {len(x) for x in given.values() if x.ndim == 2}
    if len(counts) > 1:
        raise MethodError(f"{', '.join(given)} have different numbers of orbits: {sorted(counts)}")
    count = counts.pop() if counts else 1
    return [{name: x[k] if x.ndim == 2 else x for name, x in given.items()} for k in range(count)]


def _begin(case: Case, h: float) -> tuple[Engine, Memory]:
    """The engine of a case, and its memory at the start."""
    engine = case.engine()
    return engine, engine.start(case.state(engine.program), case.par, case.t0, h, case.guess())


def _hits(case: Case, engine: Engine, times: Array, states: Array) -> Hits:
    parts = {name: states[:, engine.program.fields[name]] for name in case.system.state}
    return Hits(times, case.system.completed(parts, times, case.par))


def _stroboscopic(case: Case, n: int, strobe: int, grid: Grid, rule: Rule, compile: bool | str) -> tuple[Hits, int]:
    """Every so many steps."""
    engine, memory = _begin(case, grid.h)
    walk = Grid(grid.t0, grid.t0 + n * strobe * grid.h, grid.h, strobe)
    run = driver.integrate(engine, memory, walk, case.inputs, rule=rule, compile=compile, progress=False)
    if run.error is not None:
        raise run.error
    return _hits(case, engine, run.times(), run.records.state), run.done


def _crossings(
    case: Case, event: Event, n: int, grid: Grid, rule: Rule, compile: bool | str, patience: int, show: Callable[[int], None]
) -> tuple[Hits, int]:
    """March in chunks until `n` crossings are found."""
    engine, memory = _begin(case, grid.h)
    h, done, last_hit = grid.h, 0, 0
    runner = engine.runner(compile, 40 * n)
    watch = Watch(case.system, engine.program.fields, [event], case.par)
    watch.begin(memory.state, Shortened(engine, runner, case.inputs, rule, case.par))
    seen = [np.inf, -np.inf]
    while len(watch.hits[0]) < n:
        walk = Grid(grid.t0 + done * h, grid.t0 + (done + CHUNK) * h, h)
        before = memory.state.copy()
        run = driver.integrate(engine, memory, walk, case.inputs, rule=rule, compile=compile, progress=False)
        times = np.asarray(walk.t0 + h * np.arange(run.rows + 1), dtype=np.float64)
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
        show(len(watch.hits[0]))
    hits = watch.hits[0][:n]
    return _hits(case, engine, np.array([t for t, _ in hits]), np.array([state for _, state in hits])), done


def _join(system: System, par: Array, orbits: list[Hits], single: bool) -> Section:
    state = system.state
    energy = [system.numeric("energy", par, t=o.t, **{name: o.named(name) for name in state})[:, 0] for o in orbits]
    values = {name: np.array([o.named(name) for o in orbits]) for name in orbits[0].values}
    joined = {"t": np.array([o.t for o in orbits]), "energy": np.array(energy), **values}
    arrays = {name: a[0] if single else a for name, a in joined.items()}
    return Section(arrays.pop("t"), {name: arrays[name] for name in values}, arrays["energy"], system.coordinates)
