"""Runs that go on after a jump: arcs, and one solution of all of them.

Both sides of a jump are rows: the time stands twice. The interval between them has no length; its work is what the jump supplied
and dissipated, so that energies and ledgers close over the whole run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dalembert.engine.controllers import Samples
from dalembert.engine.events import Hits
from dalembert.engine.inputs import Linear
from dalembert.errors import MethodError, strict
from dalembert.named import Named
from dalembert.solution.base import Array, Sample, Solution
from dalembert.solution.tabular import Variables
from dalembert.systems.base import System

Columns = NDArray[np.int64]
ADDED = ("steps", "iterations", "rejected", "pivoted_steps", "swept_steps", "seconds", "setup_seconds", "compile_seconds")


@strict
@dataclass(frozen=True)
class Jump(Named):
    """What an event did at a time: the state `before` and `after`, and the work of it.

    An impact has the `impulse` along its gap, those of friction along its slip (`tangential`), and those of the constraints
    (`reactions`, with the sign of multipliers); `engaged` are the contacts that hold afterwards.
    """

    t: float
    event: str
    before: Mapping[str, Array]
    after: Mapping[str, Array]
    supplied: float = 0.0
    dissipated: float = 0.0
    impulse: float | None = None
    reactions: Array = field(default_factory=lambda: np.zeros(0))
    tangential: Array = field(default_factory=lambda: np.zeros(0))
    engaged: tuple[str, ...] = ()


@dataclass(frozen=True)
class Link:
    """Between two arcs: the jumps there, one after another."""

    jumps: tuple[Jump, ...]

    @property
    def work(self) -> tuple[float, float]:
        return sum(j.supplied for j in self.jumps), sum(j.dissipated for j in self.jumps)


class Arcs(Solution):
    """A solution of arcs; `arcs` has them one by one, `jumps` what lies between them. Made by `join`."""

    _parts_of: list[Solution]
    links: list[Link]
    columns: list[Columns]  # where the multipliers of each arc are among those of all

    def _set(self, arcs: Sequence[Solution], links: Sequence[Link], columns: Sequence[Columns]) -> None:
        self._parts_of, self.links, self.columns = list(arcs), list(links), list(columns)
        ends = np.cumsum([len(arc.t) for arc in arcs])
        self._rows = [slice(int(end) - len(arc.t), int(end)) for arc, end in zip(arcs, ends, strict=True)]

    def __reduce__(self) -> tuple[Callable[..., Solution], tuple[object, ...]]:
        return _restored, (self._parts_of, self.links, self.system, self.columns, self.events, self.samples)

    @property
    def arcs(self) -> tuple[Solution, ...]:
        """The solutions between the jumps."""
        return tuple(self._parts_of)

    @property
    def jumps(self) -> tuple[Jump, ...]:
        """What the events did, in the order of time."""
        return tuple(jump for link in self.links for jump in link.jumps)

    @property
    def driven(self) -> bool:
        return bool(self.links) or super().driven

    # ---- arc by arc -------------------------------------------------------------------------------------

    def _numeric(self, role: str, **more: Array) -> Array:
        found = []
        for arc, rows in zip(self._parts_of, self._rows, strict=True):
            absent = role in ("holonomic", "drift", "constraint", "constraint_rate") and not arc.system.m
            values = np.zeros((len(arc.t), 0)) if absent else arc._numeric(role, **{k: v[rows] for k, v in more.items()})
            found.append(values)
        if len({a.shape[1:] for a in found}) == 1:
            return np.concatenate(found)
        width = self.system.function(role).size1_out(0)
        return np.concatenate([_spread(a, at[: a.shape[1]], width) for a, at in zip(found, self.columns, strict=True)])

    def _intervals(self, of: Callable[[Solution], Array], width: int | None = None) -> Array:
        """Rows of all intervals; that of a jump repeats the one before it."""
        out: list[Array] = []
        for arc, columns in zip(self._parts_of, self.columns, strict=True):
            rows = of(arc)
            rows = rows if width is None else _spread(rows, columns, width)
            if out:
                known = [a[-1:] for a in reversed(out) if len(a)] + [rows[:1]]
                out.append(next((a for a in known if len(a)), np.zeros((1, rows.shape[1]))))
            out.append(rows)
        return np.concatenate(out)

    @cached_property
    def lam(self) -> Array:
        """Multipliers at the times `t_lam`; zero for constraints that are not in force."""
        return self._intervals(lambda arc: arc.lam, self._lam.shape[1])

    def _discrete(self, which: int) -> Array:
        return self._intervals(lambda arc: arc._discrete(which))

    def _acceleration(self) -> Array:
        return self._intervals(lambda arc: arc._acceleration(), self.system.m)

    def _arc(self, times: Array) -> NDArray[np.int64]:
        """The number of the arc at each time; at a jump, the one before it."""
        return np.searchsorted([arc.t[-1] for arc in self._parts_of[:-1]], times, side="left")

    def inputs_at(self, times: Array) -> Array:
        out, which = np.zeros((len(times), self.system.nu)), self._arc(times)
        for i in np.unique(which):
            out[which == i] = self._parts_of[i].inputs_at(times[which == i])
        return out

    def at(self, t: ArrayLike, how: str = "polynomial") -> Sample:
        """The solution at any times of the run, see `Solution.at`; where it jumps, the value is that before the jump."""
        try:
            times = np.asarray(t, dtype=float).ravel()
        except (TypeError, ValueError) as error:
            raise MethodError(f"at() takes a time or an array of times, not {t!r}") from error
        low, high = self.t[0], self.t[-1]
        slack = 1e-12 * max(1.0, abs(high))
        if not ((times >= low - slack) & (times <= high + slack)).all():
            raise MethodError(f"the solution reaches from t = {low:g} to {high:g}; {np.asarray(t)} is asked for")
        which, found = self._arc(times), dict[str, Array]()
        samples = {
            int(i): self._parts_of[i].at(np.maximum(times[which == i], self._parts_of[i].t[0]), how) for i in np.unique(which)
        }
        for i, sample in samples.items():
            for name, values in sample.values.items():
                found.setdefault(name, np.zeros((len(times), *values.shape[1:])))[which == i] = values
        shape = np.shape(t)

        def multipliers() -> Array:
            lam = np.zeros((len(times), self.system.m))
            for i, sample in samples.items():
                if self._parts_of[i].system.m:
                    lam[which == i] = _spread(sample.lam, self.columns[i], self.system.m)
            return lam.reshape(*shape, self.system.m)

        shaped = {name: a.reshape(shape + a.shape[1:]) for name, a in found.items()}
        return Sample(times.reshape(shape), shaped, multipliers if self.system.m else None)

    def _summary(self) -> list[tuple[str, str]]:
        return [("arcs, jumps", f"{len(self._parts_of)}, {len(self.jumps)}"), *super()._summary()]  # type: ignore[safe-super]

    def _variables(self, data: Variables, coords: Variables) -> None:
        super()._variables(data, coords)  # type: ignore[safe-super]
        data["arc"] = ("time", np.repeat(np.arange(len(self._parts_of)), [len(arc.t) for arc in self._parts_of]).astype(float))


def _spread(rows: Array, columns: Columns, width: int) -> Array:
    """Rows with more columns, zero where nothing is known."""
    out = np.zeros((len(rows), width))
    out[:, columns] = rows
    return out


@cache
def _joined(kind: type[Solution]) -> type[Arcs]:
    """The class of the solutions of a kind of system that consist of arcs."""
    return cast("type[Arcs]", type(f"{kind.__name__}OfArcs", (Arcs, kind), {"of_systems": ()}))


def _restored(
    arcs: list[Solution], links: list[Link], system: System, columns: list[Columns], events: dict[str, Hits],
    samples: dict[str, Samples],
) -> Solution:  # fmt: skip
    out = join(arcs, links, system, columns)
    out.events, out.samples = events, samples
    return out


def join(
    arcs: Sequence[Solution], links: Sequence[Link], system: System | None = None, columns: Sequence[Columns] | None = None
) -> Solution:
    """One solution of arcs and of what lies between them.

    `system` is one that has all the constraints that were in force, and `columns` say which of them those of each arc are.
    """
    first = arcs[0]
    system = system or max((arc.system for arc in arcs), key=lambda s: s.m)
    kind = next(c for c in type(first).__mro__ if c is not Arcs and not issubclass(c, Arcs) and issubclass(c, Solution))
    columns = columns or [np.arange(arc._lam.shape[1] or arc.system.m) for arc in arcs]
    width = max([system.m, *(arc._lam.shape[1] for arc in arcs)])
    t = np.concatenate([arc.t for arc in arcs])
    parts = {name: np.concatenate([arc.parts[name] for arc in arcs]) for name in system.state}
    u = np.concatenate([arc.u for arc in arcs])
    work, t_lam = [], []
    for i, arc in enumerate(arcs):
        if i:
            work.append(np.array([links[i - 1].work]))
            t_lam.append(arc.t[:1])
        work.append(arc._work)
        t_lam.append(arc.t_lam)
    out = _joined(kind)(
        system, first.method, first._par, t, parts, lam=np.zeros((len(t) - 1, width)), t_lam=np.concatenate(t_lam),
        work=np.concatenate(work), u=u, step=first.step, stats=_stats(arcs),
    )  # fmt: skip
    out._set(arcs, links, columns)
    out._lam = out._intervals(lambda arc: arc._lam if arc._lam.shape[1] else np.zeros((len(arc.t_lam), arc.system.m)), width)
    out.inputs = Linear(t, u) if len(arcs) > 1 else first.inputs
    names = {name for arc in arcs for name in arc.events}
    out.events = {name: _hits([arc.events[name] for arc in arcs if name in arc.events]) for name in sorted(names)}
    out.samples = arcs[-1].samples
    return out


def _hits(found: list[Hits]) -> Hits:
    values = {name: np.concatenate([hits.values[name] for hits in found]) for name in found[0].values}
    return Hits(np.concatenate([hits.t for hits in found]), values)


def _stats(arcs: Sequence[Solution]) -> dict[str, Any]:
    """Counts of the work of all arcs."""
    out: dict[str, Any] = dict(arcs[0].stats)
    for name in ADDED:
        if any(name in arc.stats for arc in arcs):
            out[name] = sum(arc.stats.get(name, 0) for arc in arcs)
    out["iterations_per_step"] = out.get("iterations", 0) / max(1, out.get("steps", 0))
    out["arcs"] = len(arcs)
    return out


def extended(first: Solution, second: Solution) -> Solution:
    """Two runs of one system, the second from where the first ends, as one."""
    parts = {name: np.concatenate([a, second.parts[name][1:]]) for name, a in first.parts.items()}
    rows = {name: np.concatenate([getattr(first, name), getattr(second, name)]) for name in ("_lam", "t_lam", "_work")}
    out = type(second)(
        second.system, second.method, second._par, np.concatenate([first.t, second.t[1:]]), parts, lam=rows["_lam"],
        t_lam=rows["t_lam"], work=rows["_work"], u=np.concatenate([first.u, second.u[1:]]), step=second.step,
        stats={**second.stats, **{k: v for k, v in _stats([first, second]).items() if k in second.stats and k in ADDED}},
    )  # fmt: skip
    out.inputs, out.samples = second.inputs, second.samples
    out.events = {name: _hits([first.events[name], hits]) for name, hits in second.events.items()}
    return out
