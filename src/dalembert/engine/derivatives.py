"""Sweeps through the rows of a run: compiled where that pays, in batches of the virtual machine else."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import casadi as ca
import numpy as np

from dalembert.engine import adjoint, compiler
from dalembert.engine.adjoint import Changes, Sweep
from dalembert.engine.blocked import MOST, Blocks
from dalembert.engine.linear import Linearization
from dalembert.engine.newton import Array
from dalembert.engine.program import Program
from dalembert.engine.settling import Settling
from dalembert.engine.sparse_linear import SparseLinearization
from dalembert.engine.tangents import FLAGS, NativeSweep, source
from dalembert.engine.tape import Rows
from dalembert.errors import CompilerError

LOOKS = 8  # at the accuracy of compiled sweeps in one sweep through a run, at least
LARGEST = 14_000  # what eliminations may cost that are written out: beyond, compilers take longer than most sweeps
FEW = 100  # steps that pay for no compiler, whatever they cost
LONGEST = 100_000  # operations of derivatives beyond which sweeps are made in batches
MISSED = 1e-11  # relative to the terms of its equations: what a solution may miss them by
AGREE = 1e-8  # relative: what the fixed pivots may differ by from partial pivoting in one step

_MAKERS: dict[str, Callable[[Changes], Sweep]] = {"ahead": adjoint.ahead, "back": adjoint.back, "second": adjoint.second}


class Sweeps:
    """The sweeps of a program, made when first needed."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._native: dict[str, NativeSweep] = {}
        self._sources: dict[str, tuple[Sweep, str]] = {}

    @cached_property
    def changes(self) -> Changes:
        return Changes.of(self.program)

    @cached_property
    def linear(self) -> Linearization | SparseLinearization:
        p = self.program
        if not p.large:
            return Linearization(self.changes)
        equations = ca.vertcat(*(solve.residual for solve in p.step.solves))
        return SparseLinearization(p.common, ca.vertcat(*p.unknowns), equations, ca.vertcat(*p.step.next.values()))

    @cached_property
    def blocks(self) -> Blocks:
        """The derivatives of a step, block by block."""
        return Blocks(self.changes)

    @cached_property
    def _writable(self) -> bool:
        """Whether a compiler can take sweeps."""
        if isinstance(self.program.step.t, ca.MX) or any(x.numel() > MOST for x in self.program.unknowns):
            return False
        return self.blocks.operations[0] <= LONGEST

    @property
    def _written(self) -> bool:
        """Whether eliminations are written out: with the pivots of the run, and where they are short."""
        return not self.program.large and self.blocks.cost <= LARGEST

    def _code(self, kind: str) -> tuple[Sweep, str]:
        """A sweep with its source: eliminations are written out where they are short, else done in loops."""
        if kind not in self._sources:
            if self._written:
                sweep = _MAKERS[kind](self.changes)
                self._sources[kind] = sweep, source(sweep)
            else:
                self._sources[kind] = self.blocks.sweep(kind)
        return self._sources[kind]

    def compiled(self, kind: str, compile: bool | str, steps: int) -> NativeSweep | None:
        """The compiled sweep, where that pays or is wanted: by count of operations, not by the clock."""
        if compile is False or compiler.find() is None or (compile is not True and steps < FEW) or not self._writable:
            return None
        if kind in self._native:
            return self._native[kind]
        operations, cost = self.blocks.operations, self.blocks.cost
        saved = steps * (1e-5 + 5e-9 * sum(operations))
        price = 0.2 + 6e-4 * cost if self._written else 0.5 + 1.5e-4 * operations[0]
        if compile is not True and saved < 0.02:
            return None
        try:
            sweep, code = self._code(kind)
            if compile is True or saved > price or compiler.is_cached(code, FLAGS):
                self._native[kind] = NativeSweep(sweep, code)
        except CompilerError:  # the batches need none
            return None
        return self._native.get(kind)


class Sweeper:
    """Sweeps for one run. Where fixed pivots are not accurate, which is looked at now and then, rows are left to the batches."""

    def __init__(self, sweeps: Sweeps, settling: Settling, compile: bool | str, steps: int, careful: bool) -> None:
        self._settling = settling
        self._sweeps, self._compile, self._steps = sweeps, False if careful else compile, steps
        self._since: dict[str, float] = {}  # steps since the last look
        self.engines: set[str] = set()  # what was used

    def _way(self, kind: str, rows: Rows) -> NativeSweep | None:
        native = self._sweeps.compiled(kind, self._compile, self._steps)
        if native is not None and self._since.get(kind, np.inf) >= self._steps / LOOKS:
            sound = _sound(self._sweeps, kind, native, rows[len(rows) - 1 :])
            self._since[kind] = 0 if sound else np.inf
            native = native if sound else None
        self._since[kind] = self._since.get(kind, np.inf) + len(rows)
        self.engines.add(self._sweeps.linear.name if native is None else native.name)
        return native

    def _kept(self, missed: float) -> bool:
        """Whether a compiled sweep solved its equations; where not, it is done again in batches."""
        sound = missed <= MISSED
        if not sound:
            self.engines.add(self._sweeps.linear.name)
        return sound

    def ahead(self, rows: Rows, state: Array, par: Array, u: Array, out: Array | None) -> None:
        """Tangents of the state (a row for each direction), in place; those after each step are written.

        `u` has the directions of the inputs, `(steps or 1, directions or 1, inputs)`.
        """
        if rows.settled:
            if self._settling.linear:
                self._settling.linear.ahead(self._settling.solved(rows), state, par, u, out)
            return
        begin = state.copy()
        if (native := self._way("ahead", rows)) is None or not self._kept(_ahead(native, rows, state, par, u, out)):
            state[:] = begin
            self._sweeps.linear.ahead(rows, state, par, u, out)

    def back(self, rows: Rows, bar: Array, slopes: Array, par: Array, u: Array | None) -> None:
        """Adjoints of the state (a row for each), in place; `slopes` are added after each step (or one row for all)."""
        if rows.settled:
            _clear(u)
            if self._settling.linear:
                self._settling.linear.back(self._settling.solved(rows), bar, slopes, par, u)
            return
        begin = bar.copy(), par.copy()
        if (native := self._way("back", rows)) is None or not self._kept(_back(native, rows, bar, slopes, par, u)):
            bar[:], par[:] = begin
            self._sweeps.linear.back(rows, bar, slopes, par, u)

    def second(
        self, rows: Rows, bars: tuple[Array, Array], slopes: tuple[Array, Array], dots: tuple[Array, Array, Array],
        par: Array, u: Array | None,
    ) -> None:  # fmt: skip
        """An adjoint and its derivative in one direction: of the state before each step, of parameters and inputs."""
        if rows.settled:
            _clear(u)
            if self._settling.linear:
                self._settling.linear.second(self._settling.solved(rows), bars, slopes, dots, par, u)
            return
        begin = bars[0].copy(), bars[1].copy(), par.copy()
        if (native := self._way("second", rows)) is None or not self._kept(_second(native, rows, bars, slopes, dots, par, u)):
            bars[0][:], bars[1][:], par[:] = begin
            self._sweeps.linear.second(rows, bars, slopes, dots, par, u)


def _clear(u: Array | None) -> None:
    """No slopes in inputs, where nothing depends on them."""
    if u is not None:
        u[:] = 0.0


def _given(rows: Rows) -> dict[str, Array]:
    return {
        "state": rows.before, "t": rows.t[:, None], "h": np.array([rows.h]), "u": rows.u, "par": rows.par, "x": rows.unknowns
    }  # fmt: skip


def _ahead(native: NativeSweep, rows: Rows, state: Array, par: Array, u: Array, out: Array | None) -> float:
    return native(len(rows), len(state), {**_given(rows), "state_dot": state, "par_dot": par, "u_dot": u}, [out])


def _back(native: NativeSweep, rows: Rows, bar: Array, slopes: Array, par: Array, u: Array | None) -> float:
    return native(len(rows), len(bar), {**_given(rows), "bar": bar, "slope": slopes}, [par, u])


def _second(
    native: NativeSweep, rows: Rows, bars: tuple[Array, Array], slopes: tuple[Array, Array], dots: tuple[Array, Array, Array],
    par: Array, u: Array | None,
) -> float:  # fmt: skip
    more = dict(zip(("state_dot", "par_dot", "u_dot"), dots, strict=True))
    more |= {"bar": bars[0], "bar_dot": bars[1], "slope": slopes[0][:, None], "slope_dot": slopes[1][:, None]}
    return native(len(rows), 1, {**_given(rows), **more}, [par, u])


def _sound(sweeps: Sweeps, kind: str, native: NativeSweep, row: Rows) -> bool:
    """Whether the compiled sweep and partial pivoting agree on one step."""
    n, p, m = sweeps.changes.sizes
    found, expected = ([np.ones((1, n)), np.zeros((1, p)), np.zeros((1, 1, m))] for _ in range(2))
    zero, ones = np.zeros((1, n)), (np.ones((1, p)), np.ones((1, 1, m)))
    if kind == "ahead":
        _ahead(native, row, found[0], *ones, None)
        sweeps.linear.ahead(row, expected[0], *ones, None)
    else:
        sweeps.linear.back(row, expected[0], zero, expected[1], expected[2])
        if kind == "back":
            _back(native, row, found[0], zero, found[1], found[2])
        else:  # in no direction: what is carried is the adjoint
            dots = np.zeros((1, 1, n)), np.zeros((1, p)), np.zeros((1, 1, m))
            _second(native, row, (found[0], np.zeros((1, n))), (zero, zero), dots, np.zeros((1, p)), None)
            found[1:] = expected[1:]
    largest = max(np.abs(e).max(initial=1.0) for e in expected)
    return all(np.abs(a - b).max(initial=0.0) <= AGREE * largest for a, b in zip(found, expected, strict=True))
