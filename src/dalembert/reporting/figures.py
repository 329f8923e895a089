"""The figures of a report as data: lines over time, and what is said in words where a picture would show round-off alone."""

from __future__ import annotations

import html
from collections.abc import Sequence

import numpy as np

from dalembert.plotting import envelope
from dalembert.plotting.canvas import Array, thin
from dalembert.plotting.groups import MOST, coordinate_groups, liveliest, run_names
from dalembert.plotting.labels import coordinate, labelled
from dalembert.plotting.noise import noisy
from dalembert.reporting.spelling import spelled
from dalembert.solution import Solution
from dalembert.solution.base import largest
from dalembert.systems.constrained import Constrained

POINTS = 2000  # points of a line at most
LINES = 24  # lines of a figure at most; those beyond `MOST` are shown on request
Line = tuple[str, Array]  # name and values
Figure = dict[str, object]


class Panel:
    """One figure: the lines of each run, and words beside or in place of them."""

    def __init__(self, title: str, label: str, log: bool = False) -> None:
        self.title, self.label, self.log = title, label, log
        self.times: list[list[float]] = []
        self.lines: list[dict[str, object]] = []
        self.words: list[str] = []

    def add(self, sol: Solution, run: int, name: str, lines: Sequence[Line]) -> None:
        """The lines of a run, called `name` if there are others: values over time, absolute ones on a logarithmic axis."""
        rows, several = thin(len(sol.t), POINTS), bool(name)
        for k, (line, values) in enumerate(lines):
            y = np.asarray(values)
            if self.log:
                t, y = envelope(sol.t[-len(y) :], y)
            else:
                t, y = sol.t[rows], y[rows]
            called = ", ".join(part for part in (html.escape(name, quote=False), line) if part)
            colour, dash = (run, 0) if len(lines) == 1 else (k, run if several else k // MOST)
            self.lines.append(
                {
                    "name": called,
                    "t": self._time(t.tolist()),
                    "y": y.tolist(),
                    "colour": colour,
                    "dash": dash,
                    "hidden": k >= MOST,
                }
            )

    def _time(self, t: list[float]) -> int:
        """The number of a row of times, written once."""
        if t not in self.times:
            self.times.append(t)
        return self.times.index(t)

    def plain(self) -> Figure:
        """As data for `figures.js`."""
        return {
            "title": self.title, "label": html.escape(self.label, quote=False), "log": self.log, "t": self.times,
            "lines": self.lines, "words": " ".join(self.words),
        }  # fmt: skip


class Panels:
    """The figures of a report by title, in the order in which runs ask for them."""

    def __init__(self, runs: Sequence[Solution]) -> None:
        self.panels: dict[str, Panel] = {}
        names = run_names(runs) if len(runs) > 1 else [""]
        for k, (sol, name) in enumerate(zip(runs, names, strict=True)):
            self.sol, self.run, self.name = sol, k, name
            for draw in (_coordinates, _energies, _constraints, _multipliers, _inputs):
                draw(sol, self)

    def lines(self, title: str, label: str, lines: Sequence[Line]) -> None:
        """Lines over time."""
        self.panels.setdefault(title, Panel(title, label)).add(self.sol, self.run, self.name, lines)

    def sizes(self, title: str, label: str, lines: Sequence[Line], scale: float) -> None:
        """Absolute values on a logarithmic axis; in words those that are round-off of numbers as large as `scale`."""
        panel = self.panels.setdefault(title, Panel(title, label, log=True))
        small = [(name, values) for name, values in lines if noisy(values, scale)]
        if small:
            found = ", ".join(f"{name} {_at_most(values)}".strip() for name, values in small)
            self.say(title, label, f"{found}, round-off" if any(largest(values) for _, values in small) else found)
        rest = [line for line in lines if not noisy(line[1], scale)]
        if rest:
            panel.add(self.sol, self.run, self.name, rest)

    def say(self, title: str, label: str, words: str) -> None:
        """A sentence in place of lines."""
        panel = self.panels.setdefault(title, Panel(title, label))
        panel.words.append((f"{self.name}: " if self.name else "") + words + ".")

    def plain(self) -> list[Figure]:
        """As data for the page."""
        return [panel.plain() for panel in self.panels.values()]


def _coordinates(sol: Solution, out: Panels) -> None:
    for group in coordinate_groups(sol):
        shown = liveliest(sol, group.members, LINES)
        first = set(liveliest(sol, group.members))
        order = sorted(shown, key=lambda i: i not in first)  # those that move most are visible at first
        more = f", {len(shown)} of {len(group.members)}" if len(group.members) > len(shown) else ""
        out.lines(
            f"{group.title}{more}", group.unit, [(spelled(coordinate(sol, i, unit=False)), sol.motion[:, i]) for i in order]
        )


def _energies(sol: Solution, out: Panels) -> None:
    """Energy, and its error; or the ledger and the power balance if energy comes in or goes out."""
    energies = sol.energies()
    if not energies:
        return
    unit, scale = labelled(sol, "", "energy").strip(" ()"), max(largest(values) for values in energies.values())
    out.lines("energy", unit, list(energies.items()))
    if not sol.driven:
        out.sizes("error of the energy", f"|H \u2212 H(0)| {unit and f'({unit})'}", [("", sol.energy[1:] - sol.energy[0])], scale)
        return
    book = sol.ledger()
    ports = [key for key in book if key.startswith("port ")] or ["supplied"]
    since = [(spelled(key.removeprefix("port ")), _summed(book[key])) for key in ("stored", "dissipated", *ports[:5])]
    if all(noisy(values, scale) for _, values in since):
        worst = max((values for _, values in since), key=largest)
        out.say("ledger, energy since the start", unit, f"no energy came in, went out or was stored: {_at_most(worst)}")
    else:
        out.lines("ledger, energy since the start", unit, since)
    balance = [("", np.cumsum(sol.power_balance))]
    out.sizes("power balance, residuals added up", f"|sum| {unit and f'({unit})'}", balance, scale)


def _constraints(sol: Solution, out: Panels) -> None:
    levels = [(level, np.abs(sol.residual(level))) for level in ("position", "velocity")]
    lines = [(level, residual.max(axis=1)) for level, residual in levels if residual.shape[1]]
    if lines:
        out.sizes("constraints", "largest residual", lines, 1.0 + largest(sol.x) ** 2)


def _multipliers(sol: Solution, out: Panels) -> None:
    if isinstance(sol.system, Constrained) and sol.lam.size and len(sol.t_lam) == len(sol.t) - 1:
        shown = [
            (f"\u03bb<sub>{k + 1}</sub>", np.concatenate([sol.lam[:1, k], sol.lam[:, k]]))
            for k in range(min(LINES, sol.lam.shape[1]))
        ]
        out.lines("multipliers", "", shown)


def _inputs(sol: Solution, out: Panels) -> None:
    if sol.u.shape[1]:
        ports = list(sol.system.ports)
        out.lines("inputs", "", [(spelled(name), sol.u[:, k]) for k, name in enumerate(ports[:LINES])])


def _at_most(values: Array) -> str:
    """The largest size in words."""
    size = largest(values)
    return f"at most {size:.1e}" if size else "exactly 0"


def _summed(values: Array) -> Array:
    """Sums from the start, beginning with zero."""
    return np.concatenate([[0.0], np.cumsum(values)])
