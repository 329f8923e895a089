"""C from a program: one translation unit with the whole step written out in the time loop.

What depends on `h` and parameters alone is computed once per run, what depends on the state once per step, and what the
iterations of a solve share once per solve. Rare functions (the sizes of unknowns, the look at a residual) stay out of the loop.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from string import Template

import casadi as ca
import numpy as np

from dalembert.engine.graph import ITERATE, RUN, STEP, Graph, Unwritable
from dalembert.engine.looped import Looped
from dalembert.engine.program import WEIGH_EVERY, Program
from dalembert.engine.stage import Stage
from dalembert.engine.tables import called
from dalembert.engine.writing import PART, Writer
from dalembert.errors import CompilerError

FEW = 32  # unknowns that are kept in registers between steps, as far as there are any
LONG = 6000  # statements of a step beyond which it is written in parts; with full matrices from one part on
RECORDS = """typedef struct {
    double tolerance, refresh, stagnation, floor, limit, exact; /* squares */
    long max_iterations;
} da_rule;

typedef struct {
    long steps, iterations, failed;
    double size;
} da_outcome;
"""  # what loops are given and give back
HEAD = f"""#include <math.h>
#include <string.h>
#define DA_EXPORT __attribute__((visibility("default")))
#ifndef DA_APART /* functions that a compiler can be given beside the rest */
#define DA_APART static __attribute__((noinline))
#endif
#define DA_RARELY(x) __builtin_expect(!!(x), 0)
static inline double da_sign(double x) {{ return x < 0 ? -1.0 : x > 0 ? 1.0 : x; }}
{RECORDS}"""
ROWS = "const double *par, const double *u, const double *scale, double t, double h"
HOT = f"double *restrict w, const double *last, const double *before, {ROWS}", "w, last, before, par, u, scale, t, h"
COLD = (
    f"double *restrict w, const double *state, const double *known, const double *x, {ROWS}",
    "w, state, known, x, par, u, scale, t, h",
)


@cache
def template(name: str) -> Template:
    """A part of the loop in C; read once, since a process may give up the right to read it."""
    return Template(files("dalembert.engine").joinpath(name).read_text())


def source(program: Program, kind: Callable[[Program], Loop] | None = None) -> str:
    """The C source of a program: the functions that it calls, the rare ones, the loop, of another kind where one is given."""
    try:
        return (kind or Loop)(program).text()
    except Unwritable as error:
        raise CompilerError(f"{error}; compile='auto' does without") from error


@dataclass
class _Solve:
    """The values of one solve."""

    stage: Stage
    guess: list[int]
    renew: list[list[int]]  # x, size, constants
    update: list[list[int]]  # x, size
    loops: Looped | None = None

    @property
    def roots(self) -> list[int]:
        inside = [] if self.loops is None else [*self.loops.entries, *self.loops.first, *self.loops.later]
        return [*inside, *self.guess, *(v for rows in (*self.renew, *self.update) for v in rows)]

    @property
    def first(self) -> list[int]:
        """What the first change takes."""
        return self.renew[0] if self.loops is None else [*self.loops.entries, *self.loops.first]


class Loop:
    """The text of a program's time loop."""

    looped = True  # whether full matrices are eliminated in loops

    def __init__(self, program: Program) -> None:
        self.program, self.graph, self.done = program, Graph(), set[int]()
        g, step = self.graph, program.step
        h, par = [g.symbol("h", RUN)], _symbols(g, "par[{}]", step.par.numel(), RUN)
        state, u = _symbols(g, "s{}", program.n_state, STEP), _symbols(g, "u[{}]", program.n_u, STEP)
        hot = [state, [g.symbol("t", STEP)], h, u, par, g.load(program.prelude, [h, par])[0]]
        self.offsets = np.cumsum([0, *(stage.n for stage in program.stages)]).tolist()
        self.scales = np.cumsum([0, *(stage.look.n_scale for stage in program.stages)]).tolist()
        self.solves: list[_Solve] = []
        self.room = 0  # of full matrices
        for k, stage in enumerate(program.stages):
            self.solves.append(self._solve(k, stage, hot))
            hot = [*hot, [g.symbol(f"found{k}_{i}", STEP, f"x{k}_{i}") for i in range(stage.n)]]
        self.next, self.lam, self.work, self.check = g.load(program.finish, hot)
        self.roots = [v for s in self.solves for v in s.roots] + [*self.next, *self.lam, *self.work, *self.check]
        self.writer = self._writer()

    def _writer(self) -> Writer:
        g = self.graph
        longest = LONG if self.room == 0 else PART
        return Writer(g, len(g.reached(self.roots, set(), ITERATE)) > longest, *HOT, "part")

    def _solve(self, k: int, stage: Stage, hot: list[list[int]]) -> _Solve:
        g, offset = self.graph, self.offsets[k]
        x = _symbols(g, f"x{k}_{{}}", stage.n, ITERATE)
        scale = [g.symbol(f"scale[{self.scales[k] + i}]", STEP) for i in range(stage.look.n_scale)]
        last, before = ([g.symbol(f"{name}[{offset + i}]", STEP) for i in range(stage.n)] for name in ("last", "before"))
        guess = [] if stage.linear else g.load(stage.guess, [*hot, last, before])[0]
        if stage.loops is not None and self.looped:
            return self._looped(k, stage, hot, x, scale, guess)
        renew = g.load(stage.begin, [*hot, last, before, scale]) if stage.linear else g.load(stage.renew, [*hot, x, scale])
        kept = [c if g.level[c] < ITERATE else g.symbol(f"c{k}_{j}", ITERATE) for j, c in enumerate(renew[2])]
        return _Solve(stage, guess, renew, g.load(stage.update, [x, scale, kept]))

    def _looped(self, k: int, stage: Stage, hot: list[list[int]], x: list[int], scale: list[int], guess: list[int]) -> _Solve:
        """The values of a solve with a full matrix."""
        g, loops = self.graph, stage.loops
        assert loops is not None
        entries, later, right = g.load(stage.equations, [*hot, x])
        first = right if stage.linear else later
        own = Looped(loops, f"loops{k}", f"DA_MATRICES + {self.room}", entries, first, later)
        self.room += loops.room
        change = [g.symbol(own.at(loops.n * loops.width + loops.unknowns[i]), ITERATE) for i in range(stage.n)]
        moved = change if stage.linear else [g.operation(ca.OP_SUB, [a, b]) for a, b in zip(x, change, strict=True)]
        places = ([g.constant(0.0)] * stage.n, moved) if stage.linear else (x, x)
        begun, kept = (g.load(stage.weights, [at, scale])[0] for at in places)
        names = [g.symbol(f"c{k}_{j}", ITERATE) for j in range(len(kept))]
        renew = [moved, *g.load(stage.sized, [change, first, begun, scale]), kept]
        update = [[g.operation(ca.OP_SUB, [a, b]) for a, b in zip(x, change, strict=True)]]
        return _Solve(stage, guess, renew, [*update, *g.load(stage.sized, [change, later, names, scale])], own)

    def _factored(self, k: int, level: int, indent: str) -> str:
        """The factors of a full matrix, where it changes as often as that."""
        own, levels = self.solves[k].loops, self.graph.level
        if own is None or max(levels[v] for v in own.entries) != level:
            return ""
        return indent + own.factor(self.writer, indent)

    @cached_property
    def fields(self) -> dict[str, str | int]:
        """What a template of a loop is filled with."""
        p, w = self.program, self.writer
        state, lam = [f"s{i}" for i in range(p.n_state)], [f"lam{j}" for j in range(p.n_lam)]
        names = {name: w.variable(name) for name in (*state, *lam)}
        write = [f"out_state[row * {p.n_state} + {j}] = {names[s]};" for j, s in enumerate(state)]
        write += [f"out_lam[row * {p.n_lam} + {j}] = {names[s]};" for j, s in enumerate(lam)]
        shift = [
            f"last[{o + i}] = {w.variable(f'x{k}_{i}')};" for k, o in enumerate(self.offsets[:-1]) for i in range(p.stages[k].n)
        ]
        after = [f"{names[name]} = {w.use(v)};" for name, v in zip(lam, self.lam, strict=True)]
        each = range(len(self.solves))
        return {
            "run": self._block(self.roots, RUN, "\n    ") + "".join(self._factored(k, RUN, "\n    ") for k in each),
            "memory": "\n    ".join(
                [
                    w.declare([*state, *lam]),
                    *(f"int single{k} = from.kept[{self.scales[-1] + k}] != 0;" for k in each),
                ]
            ),
            "keep": " ".join(f"to.kept[{self.scales[-1] + k}] = single{k};" for k in each),
            "load": " ".join(
                [*(f"{names[s]} = from.state[{i}];" for i, s in enumerate(state)), *(f"{names[s]} = 0;" for s in lam)]
            ),
            "solves": "".join(map(self._solve_text, each)),
            "finish": self._block([*self.next, *self.lam, *self.work, *self.check], STEP, "\n        "),
            "check": w.use(self.check[0]),
            "shift": " ".join(shift),
            "work": " ".join(f"out_work[2 * row + {j}] += {w.use(v)};" for j, v in enumerate(self.work)) if p.working else "",
            "next": self._assign(state, self.next) + " ".join(after),
            "write": " ".join(write),
            "begin": self._each("last[{0}] = from.last[{0}];") + self._each("before[{0}] = from.before[{0}];"),
            "older": self._older(),
            "found": self._each(f"out_unknowns[row * {p.n_unknowns} + {{0}}] = last[{{0}}];"),
            "end": self._each("to.last[{0}] = last[{0}];") + self._each("to.before[{0}] = before[{0}];"),
            "store": self._store(),
            "hold": " ".join(f"const int was{k} = single{k};" for k in each),
            "undo": " ".join(f"single{k} = was{k};" for k in each),
            "after": " ".join(f"next[{i}] = {w.use(v)};" for i, v in enumerate(self.next)),
            "inputs": p.n_u,
            "weigh": WEIGH_EVERY - 1,
            "count": len(self.solves),
            "unknowns": p.n_unknowns,
            "scales": self.scales[-1] + 1,
        }

    def text(self) -> str:
        """The whole translation unit."""
        fields, w = self.fields, self.writer
        parts, (looks, room) = w.functions(), rare(self.program, self.graph.called)
        loop = template("loop.c").substitute(fields, length=w.work + room + self.room)
        places = f"#define DA_RARE_WORK {w.work}\n#define DA_MATRICES {w.work + room}"
        return "\n".join([HEAD, places, called(self.graph.called), self._loops(), looks, parts, loop])

    def _loops(self) -> str:
        """The elimination of full matrices, where there are any."""
        own = [s.loops for s in self.solves if s.loops is not None]
        return "\n".join([template("looped.c").template, *(each.loops.tables(each.name) for each in own)]) if own else ""

    def _each(self, statement: str, begin: int = 0, end: int | None = None) -> str:
        """A statement for each unknown, or for some; one by one where there are few, so that they stay in registers."""
        n = self.program.n_unknowns
        end = n if end is None else end
        if n <= FEW:
            return " ".join(statement.format(j) for j in range(begin, end))
        return f"for (int j = {begin}; j < {end}; j++) {statement.format('j')}"

    def _older(self) -> str:
        """What was found two steps ago, of the solves whose guesses look there; linear ones have none."""
        places = zip(self.offsets, self.offsets[1:], self.solves, strict=False)
        return " ".join(self._each("before[{0}] = last[{0}];", a, b) for a, b, s in places if not s.stage.linear)

    def _store(self) -> str:
        return " ".join(f"state[{i}] = {self.writer.variable(f's{i}')};" for i in range(self.program.n_state))

    def _block(self, roots: list[int], level: int, indent: str) -> str:
        """What is not yet computed of the values that are needed, up to a level."""
        values = self.graph.reached(roots, self.done, level)
        self.done.update(values)
        return self.writer.block(values, indent)

    def _assign(self, names: list[str], values: list[int]) -> str:
        """Assign all at once: a value may be one of the names."""
        w, g = self.writer, self.graph
        rows = [(w.variable(name), name, w.use(v), g.named(v)) for name, v in zip(names, values, strict=True)]
        before = [f"const double n_{name} = {text};" for _, name, text, named in rows if named]
        after = [f"{target} = {'n_' + name if named else text};" for target, name, text, named in rows]
        return "{ " + " ".join([*before, *after]) + " }"

    def _solve_text(self, k: int) -> str:
        w, s, indent = self.writer, self.solves[k], "\n                "
        names = [f"x{k}_{i}" for i in range(s.stage.n)]
        # of a linear solve only the solution: what tells whether it is one is computed where that is asked
        step = self._block(s.first if s.stage.linear else s.roots, STEP, "\n        ") + self._factored(k, STEP, "\n        ")
        kept = [(f"c{k}_{j}", c) for j, c in enumerate(s.renew[2]) if self.graph.level[c] == ITERATE or s.loops is not None]
        outside = set(self.done)
        change = []
        if s.loops is not None:
            change += [self._block(s.first, ITERATE, indent), self._factored(k, ITERATE, indent)]
            change += [s.loops.solve(s.loops.first, w, indent)]
        change += [self._block(s.renew[0], ITERATE, indent)]
        renew = [self._block([*s.renew[1], *s.renew[2]], ITERATE, indent)]
        renew += [f"{w.variable(name)} = {w.use(c)};" for name, c in kept]
        renew += [f"size = {w.use(s.renew[1][0])};", self._assign(names, s.renew[0])]
        self.done = set(outside)
        update = [] if s.loops is None else [self._block(s.loops.later, ITERATE, indent), s.loops.solve(s.loops.later, w, indent)]
        update += [self._block([v for rows in s.update for v in rows], ITERATE, indent)]
        update += [f"size = {w.use(s.update[1][0])};", self._assign(names, s.update[0])]
        self.done = outside
        return template("solve.c").substitute(
            k=k,
            store=self._store(),
            known=self._known(k),
            offset=self.scales[k],
            step=step,
            unknowns=w.declare(names),
            constants=w.declare([name for name, _ in kept]),
            guess=" ".join(f"{w.variable(name)} = {w.use(v)};" for name, v in zip(names, s.guess, strict=False)),
            change=indent.join(change),
            leave=f"if (single{k} && !look) {{ {self._assign(names, s.renew[0])} goto done{k}; }}" if s.stage.linear else "",
            renew=indent.join(renew),
            update=indent.join(update),
            linear=int(s.stage.linear),
            found=" ".join(f"{w.variable(name)}," for name in names),
        )

    def _known(self, k: int) -> str:
        """All unknowns found before a solve, in a row."""
        names = [self.writer.variable(f"x{j}_{i}") for j in range(k) for i in range(self.solves[j].stage.n)]
        return f"(const double[]){{{', '.join([*names, '0'])}}}"


def rare(program: Program, functions: list[ca.Function]) -> tuple[str, int]:
    """The functions that are called now and then, and what room they need to work in; `functions` are those that they call."""
    texts, room, p = [], 0, program
    offsets = np.cumsum([0, *(look.n for look in p.looks)]).tolist()
    for k, look in enumerate(p.looks):
        g = Graph(functions)
        common = [_symbols(g, "state[{}]", p.n_state, RUN), [g.symbol("t", RUN)], [g.symbol("h", RUN)],
                  _symbols(g, "u[{}]", p.n_u, RUN), _symbols(g, "par[{}]", p.step.par.numel(), RUN)]  # fmt: skip
        common += [[g.symbol(f"known[{offsets[j] + i}]", RUN) for i in range(p.looks[j].n)] for j in range(k)]
        own = [_symbols(g, "x[{}]", look.n, RUN), _symbols(g, "scale[{}]", look.n_scale, RUN)]
        sizes, weights = g.load(look.accept, [*common, *own])[0], g.load(look.weigh, common)[0]
        for name, values in (("weigh", weights), ("accept", sizes)):
            order = g.reached(values, set(), RUN)
            w = Writer(g, len(order) > LONG, *COLD, f"{name}{k}_")
            body = [w.block(order, "\n    ")]
            if name == "weigh":
                head, end = f"void {name}{k}({COLD[0]}, double *out)", [f"out[{i}] = {w.use(v)};" for i, v in enumerate(values)]
            else:
                head, end = f"double {name}{k}({COLD[0]})", [f"return {w.use(values[0])};"]
            text = "\n    ".join([*body, *end])
            texts += [w.functions(), f"DA_APART {head}\n{{\n    {text}\n}}\n"]
            room = max(room, w.work)
    return "\n".join(texts), room


def _symbols(g: Graph, pattern: str, count: int, level: int) -> list[int]:
    return [g.symbol(pattern.format(i), level) for i in range(count)]
