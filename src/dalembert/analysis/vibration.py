"""Modes: frequencies, damping and shapes of free motion near an equilibrium."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, overload

import numpy as np
from numpy.typing import NDArray

from dalembert import markup
from dalembert.analysis.local import Local
from dalembert.analysis.spectrum import pairs
from dalembert.checking import positive, whole
from dalembert.engine.case import project
from dalembert.errors import DalembertError, MethodError, suggesting
from dalembert.hooks import Hook
from dalembert.methods.base import able
from dalembert.named import Array
from dalembert.solution import Solution
from dalembert.solution.inline import Film, Inline
from dalembert.systems.base import System
from dalembert.systems.constrained import Constrained

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Complex = NDArray[np.complex128]


@dataclass(frozen=True, repr=False)
class Mode(markup.Told):
    """One free motion `w(t) = w0 + Re(shape exp(eigenvalue t))`.

    `frequency` in cycles and `omega` in radians per unit of time; `damping` is the ratio `-Re / |eigenvalue|`, negative for a
    motion that grows. `shape` has the first part of the state (`q`, or `x`, or `y`), its largest entry one; real where nothing
    dissipates, else complex, with phases. `shapes` has all parts.
    """

    system: System
    eigenvalue: complex
    shapes: Mapping[str, Complex]
    at: Mapping[str, Array]
    t: float
    par: Array

    @property
    def omega(self) -> float:
        """The angular frequency of the oscillation."""
        return abs(self.eigenvalue.imag)

    @property
    def frequency(self) -> float:
        """The frequency of the oscillation, in cycles."""
        return self.omega / (2 * np.pi)

    @property
    def natural(self) -> float:
        """`|eigenvalue|`: the angular frequency without damping."""
        return abs(self.eigenvalue)

    @property
    def damping(self) -> float:
        """The damping ratio."""
        return -self.eigenvalue.real / self.natural + 0.0 if self.natural else 0.0

    @property
    def shape(self) -> Array | Complex:
        """The first part of the state; real where all phases are equal."""
        first = self.shapes[self.system.state[0]]
        return first.real.copy() if np.abs(first.imag).max(initial=0.0) <= 1e-10 else first

    def positions(self, phases: Array, amplitude: float) -> Array:
        """The motion at phases of its oscillation, time first: on the constraints, where they can be reached."""
        name = self.system.state[0]
        rows = self.at[name] + amplitude * np.real(self.shapes[name] * np.exp(1j * phases[:, None]))
        if not (isinstance(self.system, Constrained) and self.system.mh):
            return np.asarray(rows)
        try:
            return np.array([project(self.system, {"q": q}, self.par, self.t, np.zeros(self.system.nu)).q for q in rows])
        except DalembertError:  # dependent constraints: as straight as the linear equations have it
            return np.asarray(rows)

    @suggesting
    def plot(self, ax: Axes | None = None, *, amplitude: float | None = None) -> Axes:
        """The shape: both turning points over the equilibrium; as bars where the system has no picture."""
        return PLOT(self, ax, self.reach(amplitude))

    def motion(self, amplitude: float, rows: int) -> Solution:
        """One oscillation as a solution, which can be drawn as one; its velocities are those of the linear motion."""
        s, period = self.system, 1 / self.frequency if self.omega else 1.0
        phases = np.linspace(0.0, 2 * np.pi, rows)
        parts = {s.state[0]: self.positions(phases, amplitude)}
        for name in s.state[1:]:
            parts[name] = self.at[name] + amplitude * np.real(self.shapes[name] * np.exp(1j * phases[:, None]))
        stats = {"steps": rows - 1, "iterations": 0, "iterations_per_step": 0.0, "seconds": 0.0, "engine": "linear"}
        t = np.asarray(self.t + period * phases / (2 * np.pi))
        return Solution.of(s)(
            s, able(s)[0], self.par, t, parts, lam=np.zeros((rows - 1, 0)), t_lam=(t[1:] + t[:-1]) / 2,
            work=np.zeros((rows - 1, 2)), u=np.zeros((rows, s.nu)), step=period / (rows - 1), stats=stats,
        )  # fmt: skip

    @suggesting
    def animate(
        self, path: str | Path | None = None, *, amplitude: float | None = None, fps: int = 30, seconds: float = 2.0
    ) -> Film | Inline:
        """One oscillation as an animation that can be repeated, `.gif` or `.mp4`; without a path, a player for a notebook."""
        if not self.system.drawn:
            raise MethodError(f"{self.system.name!r} has no picture to animate; give it one, picture=da.Picture(points=...)")
        fps, seconds = whole("fps", fps, most=240), positive("seconds", seconds)
        rows = 1 + max(2, round(fps * seconds))
        return self.motion(self.reach(amplitude), rows).animate(path, fps=fps, seconds=seconds)

    def reach(self, amplitude: float | None) -> float:
        """The amplitude that was given, or a sixth of what is drawn."""
        if amplitude is not None:
            return positive("amplitude", amplitude)
        if not self.system.drawn:
            return 1.0
        first = self.system.state[0]
        points = self.system.numeric("points", self.par, t=self.t, **{first: self.at[first]})[0]
        return float(np.ptp(points, axis=0).max(initial=0.0)) / 6 or 0.3

    def _told(self) -> tuple[str, markup.Facts]:
        names = [f"{c} {x:.4g}" for c, x in zip(self.system.coordinates, self.shape, strict=False) if abs(x) > 1e-9]
        more = f", ... ({len(names)})" if len(names) > 12 else ""
        return f"mode of {self.system.name}", [
            ("frequency", f"{self.frequency:.6g} (omega {self.omega:.6g})"),
            ("damping", f"{self.damping:.4g}"),
            ("shape", ", ".join(names[:12]) + more),
        ]


PLOT: Hook[[Mode, Axes | None, float], Axes] = Hook("Mode.plot", "dalembert.plotting")


@dataclass(frozen=True, repr=False)
class Modes(Sequence[Mode]):
    """All modes, lowest frequency first. Prints as a table."""

    name: str
    modes: tuple[Mode, ...]

    def __len__(self) -> int:
        return len(self.modes)

    def __iter__(self) -> Iterator[Mode]:
        return iter(self.modes)

    @overload
    def __getitem__(self, k: int) -> Mode: ...
    @overload
    def __getitem__(self, k: slice) -> tuple[Mode, ...]: ...
    def __getitem__(self, k: int | slice) -> Mode | tuple[Mode, ...]:
        return self.modes[k]

    @property
    def omega(self) -> Array:
        """Angular frequencies."""
        return np.array([mode.omega for mode in self.modes])

    @property
    def frequencies(self) -> Array:
        """Frequencies in cycles."""
        return np.array([mode.frequency for mode in self.modes])

    @property
    def damping(self) -> Array:
        """Damping ratios."""
        return np.array([mode.damping for mode in self.modes])

    @property
    def shapes(self) -> Complex | Array:
        """Shapes in the coordinates, one row each."""
        return np.array([mode.shape for mode in self.modes])

    def _rows(self) -> Iterator[tuple[str, str, str, str, str]]:
        """Number, frequency, omega, damping and the coordinates that move most, of each mode."""
        for k, mode in enumerate(self.modes, 1):
            order = np.argsort(-np.round(np.abs(mode.shape), 9), kind="stable")[:3]
            most = ", ".join(mode.system.coordinates[i] for i in order if abs(mode.shape[i]) > 0.3)
            yield f"{k}", f"{mode.frequency:.5g}", f"{mode.omega:.5g}", f"{mode.damping:.3g}", most

    def __str__(self) -> str:
        rows = [f"modes of {self.name}", "   no.   frequency       omega     damping   largest in"]
        rows += [f"  {k:>4}  {f:>10}  {omega:>10}  {damping:>10}   {most}" for k, f, omega, damping, most in self._rows()]
        return "\n".join(rows)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        heads = ("no.", "largest in", "frequency", "omega", "damping")
        rows = [(k, most, *numbers) for k, *numbers, most in self._rows()]
        return markup.card(f"modes of {self.name}", markup.table(heads, rows, left=2))


def modes_of(system: System, values: Mapping[str, Array], t: float, par: Array, local: Local) -> Modes:
    """The modes of local equations: one of each conjugate pair, each real eigenvalue by itself, a floating body once."""
    eigenvalues, vectors = pairs(local)
    found, last = [], list[tuple[complex, Complex]]()
    for x, column in zip(eigenvalues, vectors.T, strict=True):
        whole_column = local.T @ column
        if x.imag < 0 or (x == 0 and any(y == 0 and np.array_equal(column, c) for y, c in last)):
            continue
        last.append((complex(x), column))
        parts, place = {}, 0
        for name in system.state:
            size = system.size_of(name)
            parts[name] = whole_column[place : place + size]
            place += size
        first = parts[system.state[0]]
        size = np.abs(first)
        largest = first[int(np.argmax(size > (1 - 1e-9) * size.max()))] if size.any() else 1.0
        shapes = {name: part / largest for name, part in parts.items()}
        found.append(Mode(system, complex(x), shapes, values, t, par))
    found.sort(key=lambda mode: (mode.omega, mode.natural))
    return Modes(system.name, tuple(found))
