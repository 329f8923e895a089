"""Sweeps through the rows of a run: compiled where that pays, in batches of the virtual machine else."""

from __future__ import annotations

from functools import cached_property

import casadi as ca
import numpy as np

from dalembert.engine import compiler
from dalembert.engine.adjoint import Changes, Sweep
from dalembert.engine.blocked import MOST, Blocks
from dalembert.engine.linear import Linearization
from dalembert.engine.program import Program
from dalembert.engine.settling import Settling
from dalembert.engine.sparse_linear import SparseLinearization
from dalembert.engine.tangents import FLAGS, NativeSweep, source
from dalembert.engine.tape import Rows
from dalembert.engine.through import Through
from dalembert.errors import CompilerError

LOOKS = 4  # at the accuracy of compiled sweeps in one sweep through a run, at least
LARGEST = 14_000  # what eliminations may cost that are written out: beyond, compilers take longer than most sweeps
FEW = 100  # steps that pay for no compiler, whatever they cost
LONGEST = 100_000  # operations of derivatives beyond which sweeps are made in batches
MISSED = 1e-11  # relative to the terms of its equations: what a solution may miss them by
AGREE = 1e-8  # relative: what the fixed pivots may differ by from partial pivoting in one step


class Sweeps:
    """The sweeps of a program, made when first needed."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._native: dict[type[Through], NativeSweep] = {}
        self._sources: dict[type[Through], tuple[Sweep, str]] = {}

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

    def _code(self, kind: type[Through]) -> tuple[Sweep, str]:
        """A sweep with its source: eliminations are written out where they are short, else done in loops."""
        if kind not in self._sources:
            if self._written:
                sweep = kind.written_out(self.changes)
                self._sources[kind] = sweep, source(sweep)
            else:
                self._sources[kind] = self.blocks.sweep(kind)
        return self._sources[kind]

    def compiled(self, kind: type[Through], compile: bool | str, steps: int) -> NativeSweep | None:
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
        self._since: dict[type[Through], float] = {}  # steps since the last look
        self.engines: set[str] = set()  # what was used

    def _way(self, kind: type[Through], rows: Rows) -> NativeSweep | None:
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

    def __call__(self, rows: Rows, through: Through) -> None:
        """Carry something through some steps; its numbers change in place."""
        if rows.settled:
            through.standing()
            if self._settling.linear:
                through.by(self._settling.linear, self._settling.solved(rows))
            return
        native = self._way(type(through), rows)
        if native is not None:
            begin = [array.copy() for array in through.changed]
            if self._kept(swept(native, rows, through)):
                return
            for array, own in zip(through.changed, begin, strict=True):
                array[:] = own
        through.by(self._sweeps.linear, rows)


def swept(native: NativeSweep, rows: Rows, through: Through) -> float:
    """Carry something through some steps by a compiled sweep; by how much solutions missed their equations."""
    given = {
        "state": rows.before, "t": rows.t[:, None], "h": np.array([rows.h]), "u": rows.u, "par": rows.par, "x": rows.unknowns
    }  # fmt: skip
    return native(len(rows), len(through.changed[0]), {**given, **through.given}, through.outputs)


def _sound(sweeps: Sweeps, kind: type[Through], native: NativeSweep, row: Rows) -> bool:
    """Whether the compiled sweep and partial pivoting agree on one step."""
    found, expected = kind.samples(*sweeps.changes.sizes)
    swept(native, row, found)
    expected.by(sweeps.linear, row)
    largest = max(np.abs(e).max(initial=1.0) for e in expected.looked_at)
    pairs = zip(found.looked_at, expected.looked_at, strict=False)
    return all(np.abs(a - b).max(initial=0.0) <= AGREE * largest for a, b in pairs)
