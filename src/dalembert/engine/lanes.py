"""C for many runs at once, one in each lane of a vector: members of an ensemble, with equal steps.

The step is written as in emission.py, with vectors for numbers. Lanes are masked: each one renews its matrix, stops and fails as
it would by itself, so that a member is to the last bit the run of that member alone. Nothing is fused, and functions without a
vector form are called lane by lane.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

import numpy as np

from dalembert.engine import compiler, emission
from dalembert.engine.emission import HEAD, Loop, rare, template
from dalembert.engine.graph import ITERATE, RUN, STEP, Graph
from dalembert.engine.native import Rules, limits
from dalembert.engine.newton import Array, Rule
from dalembert.engine.program import WEIGH_EVERY, Program
from dalembert.engine.tables import called
from dalembert.engine.writing import Vectors, Writer

FLAGS = ("-O2", "-ftree-slp-vectorize", "-std=gnu11")


class _Vectors(Writer):
    """Writes values of a graph as vectors."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph, False, "", "", "")
        self.operations = Vectors()

    def declare(self, names: list[str]) -> str:
        return f"W {', '.join(names)};" if names else ""

    def _named(self, value: int) -> str:
        text = self.graph.text(value)
        return f"da_wide({text})" if self.graph.is_constant(value) else text

    def _statement(self, value: int, own: set[int]) -> str:
        operands = [self.use(i) for i in self.graph.needs[value]]
        return f"const W t{value} = {self.operations.operation(self.graph.pattern(value), operands)};"


class Lane(Loop):
    """The text of a program's time loop for many runs."""

    looped = False

    def _writer(self) -> Writer:
        self.vectors = _Vectors(self.graph)
        return self.vectors

    def _picked(self, mask: str, names: list[str], values: list[int]) -> str:
        """Assign all at once, in the lanes of a mask."""
        w = self.writer
        before = [f"const W n_{name} = {w.use(v)};" for name, v in zip(names, values, strict=True)]
        return " ".join(["{", *before, *(f"{name} = da_pick({mask}, n_{name}, {name});" for name in names), "}"])

    def text(self) -> str:
        """The whole translation unit."""
        p, w = self.program, self.writer
        state, lam = [f"s{i}" for i in range(p.n_state)], [f"lam{j}" for j in range(p.n_lam)]
        run = self._block(self.roots, RUN, "\n        ")
        fields = {
            "run": run,
            "memory": w.declare([*state, *lam]) + "".join(f" I single{k} = (I){{0}};" for k in range(len(self.solves))),
            "load": " ".join(
                [*(f"{s}[e] = starts[m * {p.n_state} + {i}];" for i, s in enumerate(state)), *(f"{s}[e] = 0;" for s in lam)]
            ),
            "solves": "".join(self._solve_text(k) for k in range(len(self.solves))),
            "finish": self._block([*self.next, *self.lam, *self.work, *self.check], STEP, "\n            "),
            "check": w.use(self.check[0]),
            "older": self._older(),
            "shift": " ".join(
                f"last[{o + i}] = x{k}_{i};" for k, o in enumerate(self.offsets[:-1]) for i in range(p.stages[k].n)
            ),
            "work": " ".join(f"worked[{j}] += {w.use(v)};" for j, v in enumerate(self.work)) if p.working else "",
            "next": self._picked("alive", state, self.next)
            + " ".join(f"{name} = {w.use(v)};" for name, v in zip(lam, self.lam, strict=True)),
            "write": " ".join(
                [*(f"to[{j}] = {s}[e];" for j, s in enumerate(state)), *(f"of[{j}] = {s}[e];" for j, s in enumerate(lam))]
            ),
        }
        looks, room = rare(p, self.graph.called)
        loop = template("lanes.c").substitute(
            fields, inputs=p.n_u, weigh=WEIGH_EVERY - 1, count=len(self.solves), unknowns=p.n_unknowns, states=p.n_state,
            scales=self.scales[-1], parameters=p.step.par.numel(), multipliers=p.n_lam, length=room,
            functions=self.vectors.operations.functions(),
        )  # fmt: skip
        return "\n".join([HEAD, called(self.graph.called), template("wide.c").template, looks, loop])

    def _solve_text(self, k: int) -> str:
        w, s, indent = self.writer, self.solves[k], "\n                        "
        names = [f"x{k}_{i}" for i in range(s.stage.n)]
        step = self._block(s.first if s.stage.linear else s.roots, STEP, "\n            ")
        kept = [(f"c{k}_{j}", c) for j, c in enumerate(s.renew[2]) if self.graph.level[c] == ITERATE]
        outside = set(self.done)
        change = self._block(s.renew[0], ITERATE, indent)
        renew = [self._block([*s.renew[1], *s.renew[2]], ITERATE, indent)]
        renew += [
            self._picked("fresh", ["size", *(name for name, _ in kept)], [s.renew[1][0], *(c for _, c in kept)]),
            self._picked("fresh", names, s.renew[0]),
        ]
        self.done = set(outside)
        update = [self._block([v for rows in s.update for v in rows], ITERATE, indent)]
        update += [self._picked("turn", ["size", *names], [s.update[1][0], *s.update[0]])]
        self.done = outside
        leave = ""
        if s.stage.linear:  # one change was enough the last time, and is now
            alone = f"if (!da_any(active)) {{ {self._picked('fresh', names, s.renew[0])} break; }}"
            leave = f"if (count == 1) {{ active &= ~(single{k} & ~look); {alone} }}"
        return template("lanesolve.c").substitute(
            k=k, own=s.stage.n, sizes=s.stage.look.n_scale, offset=self.scales[k], step=step, unknowns=w.declare(names),
            constants=w.declare([name for name, _ in kept]), change=change, leave=leave, renew=indent.join(renew),
            update=indent.join(update), linear=int(s.stage.linear), gather=self._gather(k),
            guess=" ".join(f"{name} = {w.use(v)};" for name, v in zip(names, s.guess, strict=False))
            or " ".join(f"{name} = da_wide(0);" for name in names),
            found=" ".join(f"found[{i}] = {name}[e];" for i, name in enumerate(names)),
        )  # fmt: skip

    def _gather(self, k: int) -> str:
        """State and unknowns found before, of one lane."""
        known = [f"x{j}_{i}" for j in range(k) for i in range(self.solves[j].stage.n)]
        return " ".join(
            [*(f"state_of[{i}] = s{i}[e];" for i in range(self.program.n_state)),
             *(f"known_of[{i}] = {name}[e];" for i, name in enumerate(known))]
        )  # fmt: skip


def source(program: Program) -> str:
    """The C source of a program for many runs at once."""
    return emission.source(program, Lane)


@dataclass
class Rows:
    """What members leave behind: `(members, rows, ...)`; `failed` is the solve that failed, -1 where all went well."""

    state: Array
    lam: Array
    work: Array
    failed: np.ndarray[tuple[int, ...], np.dtype[np.int32]]
    iterations: np.ndarray[tuple[int, ...], np.dtype[np.int64]]

    @classmethod
    def empty(cls, program: Program, members: int, rows: int) -> Rows:
        shape = (members, rows)
        return cls(
            np.full((*shape, program.n_state), np.nan), np.full((*shape, program.n_lam), np.nan), np.full((*shape, 2), np.nan),
            np.full(members, -1, dtype=np.int32), np.zeros(members, dtype=np.int64),
        )  # fmt: skip


class Lanes:
    """A program compiled for many runs at once."""

    def __init__(self, program: Program) -> None:
        self.program = program
        library = compiler.load(source(program), FLAGS)
        self._run = library.da_ensemble
        self._run.restype = None
        long, double, array = ctypes.c_long, ctypes.c_double, ctypes.c_void_p
        self._run.argtypes = [
            long, long, double, double, array, array, array, array, long, long, long, long, array, array, array,
            ctypes.POINTER(Rules), array, array, array, array,
        ]  # fmt: skip
        self._room = long.in_dll(library, "da_work").value
        self.width = long.in_dll(library, "da_lanes").value

    def run(
        self, t0: float, h: float, steps: int, save_every: int, rule: Rule, starts: Array, firsts: Array, pars: Array,
        inputs: Array, out: Rows, stop: ctypes.c_int,
    ) -> None:  # fmt: skip
        """Run all members. `inputs` has the shape `(1 or members, 1 or steps, inputs)`; `stop` ends the call where it is set."""
        members = len(starts)
        arrays = [np.ascontiguousarray(a) for a in (starts, firsts, pars, inputs)]
        work = np.empty(self._room + 1)
        self._run(
            members, steps, t0, h, *(a.ctypes.data for a in arrays), int(inputs.shape[1] > 1), int(inputs.shape[0] > 1),
            save_every, out.state.shape[1], out.state.ctypes.data, out.lam.ctypes.data, out.work.ctypes.data, limits(rule),
            out.failed.ctypes.data, out.iterations.ctypes.data, ctypes.addressof(stop), work.ctypes.data,
        )  # fmt: skip
