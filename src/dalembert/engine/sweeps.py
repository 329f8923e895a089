"""C for steps by sweeps over all stages at once, one stage in each lane of a vector (methods/sweeping.py has the equations).

The lanes are vectors of the compiler (GCC and Clang), as long as the processor has them; where the stages need more, a few in a
row. Results are those of Newton's iteration to round-off, not to the last bit.
"""

from __future__ import annotations

import casadi as ca
import numpy as np

from dalembert.engine import elimination
from dalembert.engine.emission import HEAD, rare, template
from dalembert.engine.factors import Factors
from dalembert.engine.graph import ITERATE, RUN, STEP, Graph, Unwritable, literal
from dalembert.engine.newton import Array
from dalembert.engine.program import WEIGH_EVERY, Program
from dalembert.engine.tables import called
from dalembert.engine.writing import PLAIN, Writer, lane_by_lane
from dalembert.errors import CompilerError
from dalembert.methods.sweeping import Sweep
from dalembert.methods.tableaus import lagrange
from dalembert.systems.instructions import as_written

SX = ca.SX
FLAGS = ("-O3", "-fno-tree-vectorize", "-ffp-contract=fast")  # lanes are vectors already; products and sums may be fused
LARGEST = 4000  # operations of a sweep, at most
PRICE = 0.5  # seconds that it takes to write and compile sweeps
MANY, MOST = 24, 40  # sweeps that a step may take, at the beginning of a block and later


def source(program: Program) -> str:
    """The C source of a program whose step can be swept."""
    try:
        return _Text(program).text()
    except Unwritable as error:
        raise CompilerError(f"{error}; compile='auto' does without") from error


def suits(program: Program) -> bool:
    """Whether steps can be made by sweeps."""
    sweep = program.step.sweep
    return sweep is not None and not isinstance(program.step.t, ca.MX) and _rates(sweep).n_instructions() <= LARGEST


def saved(program: Program) -> float:
    """Seconds that a compiled step saves, by the number of its unknowns: those of a step in the virtual machine."""
    return 8e-6 + 4e-8 * program.n_unknowns**2


def _rates(sweep: Sweep) -> ca.Function:
    """(q, v, a, r, t, u, par) -> multipliers for which `G` times the accelerations is `G a - r`, these accelerations."""
    q, v, lam, t, u, par = (SX.sym(sweep.rate.name_in(i), sweep.rate.size1_in(i)) for i in range(6))
    r, a = SX.sym("r", lam.numel()), SX.sym("a", q.numel())
    free = sweep.rate(q, v, SX.zeros(lam.numel()), t, u, par)
    found = _solved(sweep, q, v, t, u, par, ca.jacobian(sweep.position(q, t, par), q) @ (free - a) + r)
    return ca.Function("rates", [q, v, a, r, t, u, par], [found, sweep.rate(q, v, found, t, u, par)])


def _solved(sweep: Sweep, q: SX, v: SX, t: SX, u: SX, par: SX, r: SX) -> SX:
    """`(G M^-1 G^T)^-1 r`."""
    m = r.numel()
    if not m:
        return SX(0, 1)
    lam = SX.sym("lam", m)
    schur = -ca.jacobian(sweep.position(q, t, par), q) @ ca.jacobian(sweep.rate(q, v, lam, t, u, par), lam)
    return elimination.solve(schur, r, elimination.structural_order(schur.sparsity(), (0,) * m))


def _last(sweep: Sweep) -> ca.Function:
    """(q1, V, v, t, u, par, weight) -> multipliers, velocities and accelerations at the end.

    `v` is the velocity without the last stage, `V` the velocity that its force depends on, `weight` is `h b_s`.
    """
    q, v, lam, t, u, par = (SX.sym(sweep.rate.name_in(i), sweep.rate.size1_in(i)) for i in range(6))
    V, weight = SX.sym("V", v.numel()), SX.sym("weight")
    free = v + weight * sweep.rate(q, V, SX.zeros(lam.numel()), t, u, par)
    found = _solved(sweep, q, V, t, u, par, sweep.velocity(q, free, t, par)) / weight
    rate = sweep.rate(q, V, found, t, u, par)
    return ca.Function("last", [q, V, v, t, u, par, weight], [found, v + weight * rate, rate])


class _Text:
    """The translation unit of one program."""

    def __init__(self, program: Program) -> None:
        assert program.step.sweep is not None
        self.program, self.sweep, self.graph = program, program.step.sweep, Graph()
        s = self.sweep
        self.n, self.m, self.stages = s.rate.size1_out(0), s.position.size1_out(0), len(s.c)
        self.lanes = 1 << (self.stages - 1).bit_length()
        self.nu = program.n_u // max(1, len(program.step.input_nodes))
        self.place = self._places()
        self.groups = self._groups()
        self.run: list[str] = []
        self.lane_functions: dict[str, str] = {}
        self._wide: dict[int, str] = {}
        self._done: set[int] = set()

    def _places(self) -> dict[tuple[str, int], int]:
        """Where the unknowns of a stage begin among all."""
        order = {e.element_hash(): k for k, e in enumerate(ca.vertsplit(ca.vertcat(*self.program.unknowns)))}
        return {node: order[x[0].element_hash()] for node, x in self.sweep.unknowns.items()}

    def _groups(self) -> list[int]:
        """Numbers of the groups of coordinates that act on each other: those of a group have one size."""
        g, weigh = Graph(), self.program.looks[0].weigh
        inputs = [[g.symbol(f"i{i}_{k}", RUN) for k in range(weigh.nnz_in(i))] for i in range(weigh.n_in())]
        sizes = g.load(weigh, inputs)[0][: self.n]
        return [list(dict.fromkeys(sizes)).index(v) for v in sizes]

    # ---- lanes ------------------------------------------------------------------------------------------

    def _loaded(self, function: ca.Function, inputs: list[list[int]], fixed: int) -> list[list[int]]:
        """A function with its fixed factors taken out; argument number `fixed` has the parameters."""
        factors = Factors()
        symbols = [SX.sym(f"i{k}", function.sparsity_in(k)) for k in range(function.n_in())]
        with as_written():
            new = factors.collected(function, symbols, (fixed,))
            fast = ca.Function("fast", [*symbols, factors.all], new)
        prelude = factors.prelude(SX.sym("h"), symbols[fixed])
        return self.graph.load(fast, [*inputs, self.graph.load(prelude, [[], inputs[fixed]])[0]])

    def _lanes(self, roots: list[int], results: list[str]) -> str:
        """Statements on vectors, part by part; `results` take the values of the roots."""
        g = self.graph
        self._fixed(roots)
        lines = []
        for value in g.reached(roots, set(self._done), ITERATE):
            operands = [self._vector(i) for i in g.needs[value]]
            pattern = g.pattern(value)
            if pattern == "1.0 / {}":
                text = f"{self._vector(g.constant(1.0))} / {operands[0]}"
            elif pattern in PLAIN:
                text = pattern.format(*operands)
            else:
                text = f"{self._lane_function(pattern, len(operands))}({', '.join(operands)})"
            lines.append(f"const W t{value} = {text};")
        lines += [f"const W n{k} = {self._vector(root)};" for k, root in enumerate(roots)]
        lines += [f"{result} = n{k};" for k, result in enumerate(results)]
        return "\n                ".join(["DA_EACH {", *lines]) + "\n            }"

    def _fixed(self, roots: list[int]) -> None:
        """Compute what does not change in a run before it."""
        g = self.graph
        for value in g.reached(roots, self._done, RUN):
            texts = [g.text(i) if g.named(i) else f"t{i}" for i in g.needs[value]]
            self.run.append(f"const double t{value} = {g.pattern(value).format(*texts)};")
            self._done.add(value)

    def _vector(self, value: int) -> str:
        """A value in all lanes."""
        g = self.graph
        text = g.text(value) if g.named(value) else f"t{value}"
        if g.level[value] != RUN:
            return text
        if value not in self._wide:
            self._wide[value] = f"wide{value}"
            self.run.append(f"const W wide{value} = da_wide({text});")
        return self._wide[value]

    def _lane_function(self, pattern: str, count: int) -> str:
        """A function that does an operation lane by lane."""
        if pattern not in self.lane_functions:
            self.lane_functions[pattern] = lane_by_lane(f"lane{len(self.lane_functions)}", pattern, count)
        return self.lane_functions[pattern].split("(")[0].split()[-1]

    def _symbols(self, pattern: str, count: int, level: int = ITERATE) -> list[int]:
        return [self.graph.symbol(pattern.format(i), level) for i in range(count)]

    # ---- parts ------------------------------------------------------------------------------------------

    def _constraints(self) -> str:
        if not self.m:
            return ""
        inputs = [self._symbols("Q[{}].p[p]", self.n), self._symbols("(da_wide(t) + ends.p[p])", 1), self._par()]
        lines = self._lanes(self._loaded(self.sweep.position, inputs, 2)[0], [f"g[{k}].p[p]" for k in range(self.m)])
        return "\n            ".join([lines, f"DA_UNROLL for (int k = 0; k < {self.m}; k++) r[k] = da_sum(da_all(0), D, g[k]);"])

    def _par(self) -> list[int]:
        return self._symbols("par[{}]", self.program.step.par.numel(), RUN)

    def _rates(self) -> str:
        points = "P" if self.sweep.last else "Q"
        inputs = [
            self._symbols(f"{points}[{{}}].p[p]", self.n), self._symbols("U[{}].p[p]", self.n),
            self._symbols("a[{}].p[p]", self.n), self._symbols("r[{}].p[p]", self.m), self._symbols("(da_wide(t) + c.p[p])", 1),
            self._symbols("inputs_of[{}].p[p]", self.nu), self._par(),
        ]  # fmt: skip
        lam, rate = self._loaded(_rates(self.sweep), inputs, 6)
        return self._lanes([*lam, *rate], [*(f"l[{k}].p[p]" for k in range(self.m)), *(f"a[{k}].p[p]" for k in range(self.n))])

    def _finish(self) -> str:
        """Positions and velocities at the end of the step."""
        s, n, g = self.sweep, self.n, self.graph
        lines = [self._weighted("v1[k] = v[k] + h * sum", "b")]
        if s.last is None:
            return "\n        ".join([*lines, self._weighted("q1[k] = q[k] + (h * v[k] + h * h * sum)", "bK")])
        lines += [f"for (int k = 0; k < {n}; k++) q1[k] = DA_LANE(Q[k], {self.stages - 1});", f"double late[{n}];"]
        lines.append(self._weighted("late[k] = v[k] + h * sum", "late"))
        inputs = [
            self._symbols("q1[{}]", n), self._symbols("late[{}]", n), self._symbols("v1[{}]", n), self._symbols("(t + h)", 1),
            self._symbols(f"u[{self.nu * self.stages} + {{}}]", self.nu), self._par(),
            self._symbols(f"(h * {literal(s.last[0])})", 1, STEP),
        ]  # fmt: skip
        found, speed, rate = self._loaded(_last(s), inputs, 5)
        self._fixed([*found, *speed, *rate])
        w = Writer(g, False, "", "", "")
        lines.append(w.block(g.reached([*found, *speed, *rate], self._done, ITERATE), "\n        "))
        lines += [f"mu[{k}] = {w.use(v)};" for k, v in enumerate(found)]
        lines += [f"reached[{k}] = {w.use(v)};" for k, v in enumerate(rate)]
        lines += [f"const double n_v{k} = {w.use(v)};" for k, v in enumerate(speed)] + [f"v1[{k}] = n_v{k};" for k in range(n)]
        return "\n        ".join(lines)

    def _weighted(self, statement: str, weights: str) -> str:
        """A statement for each coordinate, with the sum of its accelerations by the weights of a row."""
        sums = f"double sum = 0; DA_UNROLL for (int j = 0; j < {self.stages}; j++) sum += da_{weights}[j] * DA_LANE(a[k], j);"
        return f"DA_UNROLL for (int k = 0; k < {self.n}; k++) {{ {sums} {statement}; }}"

    def _pack(self) -> str:
        """The unknowns of the step, in their places."""
        return "\n        ".join(f"x[{at}] = {text};" for text, at in self._entries())

    def _unpack(self) -> str:
        """Those of the last step, where a run goes on."""
        n, m = self.n, self.m
        lines = [f"for (int k = 0; k < {n}; k++) {{ a[k] = da_all(0); reached[k] = before[k]; }}"] if n else []
        lines += [f"for (int k = 0; k < {m}; k++) {{ l[k] = da_all(0); mu[k] = 0; }}"] if m else []
        return "\n    ".join([*lines, *(f"{text} = last[{at}];" for text, at in self._entries())])

    def _entries(self) -> list[tuple[str, int]]:
        """Each unknown in the loop, and its place."""
        out = []
        for (name, stage), at in self.place.items():
            if name == "v":
                out += [(f"DA_LANE(a[{k}], {stage})", at + k) for k in range(self.n)]
            else:
                out += [(f"DA_LANE(l[{k}], {stage})" if stage < self.stages else f"mu[{k}]", at + k) for k in range(self.m)]
        return out

    def _accept(self) -> str:
        """The look at the residuals of all solves."""
        lines, at, offset = [], 0, 0
        for k, look in enumerate(self.program.looks):
            if k:
                lines.append(f"weigh{k}(w, state, x, 0, par, u, 0, t, h, scale + {offset});")
            lines.append(f"size = accept{k}(w, state, x, x + {at}, par, u, scale + {offset}, t, h);")
            lines.append(f"if (!(size <= limits.limit)) {{ failed = {k}; goto end; }}")
            at, offset = at + look.n, offset + look.n_scale
        return "\n            ".join(lines)

    def _report(self) -> str:
        """Multipliers and work, by the expressions of the step."""
        p, g = self.program, Graph(self.graph.called)
        if not (p.n_lam or p.working):
            return ""
        step = p.step
        outputs = [ca.densify(step.lam), ca.vertcat(step.work["supplied"], step.work["dissipated"])]
        function = ca.Function("report", [*p.common, ca.vertcat(*p.unknowns)], outputs)
        counts = {"t": 1, "h": 1, "u[{}]": p.n_u, "par[{}]": step.par.numel(), "x[{}]": p.n_unknowns}
        state = [g.symbol(f"{name}[{k}]", RUN) for name in "qv" for k in range(self.n)]
        inputs = [state, *([g.symbol(pattern.format(i), RUN) for i in range(count)] for pattern, count in counts.items())]
        lam, work = g.load(function, inputs)
        w = Writer(g, False, "", "", "")
        lines = [w.block(g.reached([*lam, *work], set(), RUN), "\n        ")]
        lines += [f"lam[{k}] = {w.use(v)};" for k, v in enumerate(lam)] + [f"work[{k}] = {w.use(v)};" for k, v in enumerate(work)]
        return "{ " + "\n        ".join(lines) + " }"

    def _noise(self) -> float:
        """By how much `K K^-1` makes round-off larger."""
        K = self.sweep.K
        return max(4.0, float((np.abs(K) @ np.abs(np.linalg.inv(K))).sum(axis=1).max()))

    def _tables(self) -> str:
        """Coefficients, one row an acceleration, one column a lane."""
        s = self.sweep
        stages = sorted(stage for name, stage in self.place if name == "v")
        recent = s.c[stages]
        rows = {
            "K": s.K, "D": np.linalg.inv(s.K), "B": s.B,
            "X": lagrange(np.array([*recent, 1.0]) if s.last else recent, 1 + s.c), "Z": lagrange(recent, 1 + s.c),
        }  # fmt: skip
        out = []
        for name, table in rows.items():
            text = ", ".join("{" + _numbers(column) + "}" for column in table.T)
            out.append(f"static const double da_{name}[][{self.stages}] = {{{text}}};")
        out.append(f"static const int da_group[] = {{{', '.join(map(str, self.groups))}}};")
        lists: dict[str, Array | list[float]] = {
            "c": s.c,
            "ends": s.ends,
            "b": s.b,
            "bK": s.bK,
            "late": s.last[1] if s.last else s.b,
        }
        return "\n".join([*out, *(f"static const double da_{name}[] = {{{_numbers(row)}}};" for name, row in lists.items())])

    def text(self) -> str:
        """The whole translation unit."""
        p, n, m = self.program, self.n, self.m
        fields = {
            **self._stages(), "constraints": self._constraints(), "rates": self._rates(), "finish": self._finish(),
            "pack": self._pack(), "unpack": self._unpack(), "accept": self._accept(), "report": self._report(),
            "store": f"for (int k = 0; k < {n}; k++) {{ state[k] = q[k]; state[{n} + k] = v[k]; }}", "write": self._write(),
        }  # fmt: skip
        looks, room = rare(p, self.graph.called)
        known = sorted(stage for name, stage in self.place if name == "v")
        body = template("sweeps.c").substitute(
            fields, tables=self._tables(), functions="\n".join(self.lane_functions.values()), run="\n    ".join(self.run),
            block=WEIGH_EVERY, many=MANY, most=MOST, noise=literal(self._noise() ** 2), lanes=self.lanes, stages=self.stages,
            n=n, m=m, unknowns=p.n_unknowns, inputs=p.n_u, reported=p.n_lam, reports=int(bool(p.n_lam or p.working)),
            recent=len(known), skip=known[0], points=len(known) + bool(self.sweep.last), solves=len(p.looks),
            length=room, groups=max(self.groups) + 1,
            scales=sum(look.n_scale for look in p.looks) + 1,
        )  # fmt: skip
        return "\n".join([HEAD, called(self.graph.called), looks, body])

    def _stages(self) -> dict[str, str]:
        """Where and how fast the stages are, and their inputs."""
        n, nu = self.n, self.nu
        lines = [f"for (int k = 0; k < {n}; k++) U[k] = da_sum(da_all(v[k]), B, a[k]);"] if self.sweep.moving else []
        lines += [f"V inputs_of[{nu}];"] if nu else []
        lines += [
            f"for (int e = 0; e < DA_PARTS * DA_W; e++) DA_LANE(inputs_of[{k}], e) = u[(e < {self.stages} ? e : 0) * {nu} + {k}];"
            for k in range(nu)
        ]
        points = f"for (int k = 0; k < {n}; k++) P[k] = da_shift(Q[k], q[k]);" if self.sweep.last else ""
        return {"points_of": points, "velocities_of": "\n            ".join(lines)}

    def _write(self) -> str:
        """A row of the records."""
        n, p = self.n, self.program
        state = f"out_state[row * {2 * n} + k] = q[k]; out_state[row * {2 * n} + {n} + k] = v[k];"
        unknowns = f"for (int j = 0; j < {p.n_unknowns}; j++) out_unknowns[row * {p.n_unknowns} + j] = x[j];"
        return "\n            ".join([
            f"for (int k = 0; k < {n}; k++) {{ {state} }}",
            f"for (int j = 0; j < {p.n_lam}; j++) out_lam[row * {p.n_lam} + j] = lam[j];",
            f"if (out_unknowns) {{ {self._pack()} {unknowns} }}",
        ])  # fmt: skip


def _numbers(row: Array | list[float]) -> str:
    return ", ".join(literal(float(x)) for x in row)
