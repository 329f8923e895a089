"""C for steps by sweeps over all stages at once, one stage in each lane of a vector (methods/sweeping.py has the equations).

The lanes are vectors of the compiler (GCC and Clang), as long as the processor has them; where the stages need more, a few in a
row. Results are those of Newton's iteration to round-off, not to the last bit.
"""

from __future__ import annotations

import casadi as ca
import numpy as np

from dalembert.engine.emission import HEAD, rare, template
from dalembert.engine.factors import Factors
from dalembert.engine.graph import ITERATE, RUN, STEP, Graph, Unwritable, literal
from dalembert.engine.newton import Array
from dalembert.engine.program import Program
from dalembert.engine.rates import ended, quotients, rates, velocities
from dalembert.engine.tables import called
from dalembert.engine.writing import PLAIN, Writer, lane_by_lane
from dalembert.errors import CompilerError
from dalembert.methods.tableaus import lagrange
from dalembert.systems.instructions import as_written

SX = ca.SX
FLAGS = ("-O3", "-fno-tree-vectorize", "-ffp-contract=fast")  # lanes are vectors already; products and sums may be fused
LARGEST = 4000  # operations of a sweep, at most
PRICE = 0.5  # seconds that it takes to write and compile sweeps
TURNS = ("sin({})", "cos({})")  # which sweeps.c has for vectors
BLOCK = 64  # steps, of which chunks are multiples; where sweeps fail in one, the rest is left to Newton's iteration
MANY, MOST = 48, 64  # sweeps that a step may take, at the beginning of a block and later
AGAIN = 4  # how often a step is made with more sweeps where unknowns are at rest, but its equations do not hold yet


def source(program: Program) -> str:
    """The C source of a program whose step can be swept."""
    try:
        return _Text(program).text()
    except Unwritable as error:
        raise CompilerError(f"{error}; compile='auto' does without") from error


def suits(program: Program) -> bool:
    """Whether steps can be made by sweeps."""
    sweep = program.step.sweep
    return sweep is not None and not isinstance(program.step.t, ca.MX) and rates(sweep).n_instructions() <= LARGEST


def saved(program: Program) -> float:
    """Seconds that a compiled step saves, by the number of its unknowns: those of a step in the virtual machine."""
    return 8e-6 + 4e-8 * program.n_unknowns**2


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
            elif pattern in TURNS:
                text = f"da_{pattern.format(*operands)}"
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
        points, speeds = ("P" if self.sweep.last else "Q", "U") if self.sweep.masses is None else ("Q", "S")
        inputs = [
            self._symbols(f"{points}[{{}}].p[p]", self.n), self._symbols(f"{speeds}[{{}}].p[p]", self.n),
            self._symbols("a[{}].p[p]", self.n), self._symbols("r[{}].p[p]", self.m), self._symbols("(da_wide(t) + c.p[p])", 1),
            self._symbols("inputs_of[{}].p[p]", self.nu), self._par(),
        ]  # fmt: skip
        outputs = self._loaded(rates(self.sweep), inputs, 6)
        results = [f"{name}[{k}].p[p]" for name, row in zip("laM", outputs, strict=True) for k in range(len(row))]
        return self._lanes([v for row in outputs for v in row], results)

    def _finish(self) -> str:
        """Positions and velocities at the end of the step; `p1` are momenta, of constant masses the velocities."""
        s, n = self.sweep, self.n
        lines = [f"double p1[{n}];", self._weighted("p1[k] = DA_P[k] + h * sum", "b")]
        if s.last is not None:
            lines += [f"DA_UNROLL for (int k = 0; k < {n}; k++) q1[k] = DA_LANE(Q[k], {self.stages - 1});", *self._ended(s.last)]
        elif s.masses is None:
            lines.append(self._weighted("q1[k] = q[k] + (h * v[k] + h * h * sum)", "bK"))
        else:
            lines.append(self._weighted("q1[k] = q[k] + h * sum", "b", "S"))
        if s.masses is None:
            lines.append(f"DA_UNROLL for (int k = 0; k < {n}; k++) v1[k] = p1[k];")
        else:
            inputs = [self._symbols("q1[{}]", n), self._symbols("p1[{}]", n), self._par()]
            lines += self._plain(velocities(s), inputs, 2, ["v1[{}]"])
            lines.append(f"DA_UNROLL for (int k = 0; k < {n}; k++) ended[k] = v1[k];")
        return "\n        ".join(lines)

    def _ended(self, last: tuple[float, Array]) -> list[str]:
        """The last stage of a pair: its multiplier keeps the velocities on their constraints."""
        n, held, lines, late = self.n, self.sweep.held, list[str](), "late[{}]"
        if self.sweep.masses is None:
            lines = [f"double late[{n}];", self._weighted("late[k] = v[k] + h * sum", "late")]
        else:
            late = f"DA_LANE(S[{{}}], {held})"
        inputs = [
            self._symbols("q1[{}]", n), self._symbols(late, n), self._symbols("p1[{}]", n), self._symbols("(t + h)", 1),
            self._symbols(f"u[{self.nu * held} + {{}}]", self.nu), self._par(),
            self._symbols(f"(h * {literal(last[0])})", 1, STEP),
        ]  # fmt: skip
        reached = "reached[{}]" if self.sweep.masses is None else f"DA_LANE(a[{{}}], {held})"
        return lines + self._plain(ended(self.sweep), inputs, 5, ["mu[{}]", "p1[{}]", reached])

    def _plain(self, function: ca.Function, inputs: list[list[int]], fixed: int, results: list[str]) -> list[str]:
        """Statements on numbers; `results` take the outputs of a function."""
        g, outputs = self.graph, self._loaded(function, inputs, fixed)
        every = [v for row in outputs for v in row]
        self._fixed(every)
        w = Writer(g, False, "", "", "")
        texts = [(result.format(k), w.use(v)) for result, row in zip(results, outputs, strict=True) for k, v in enumerate(row)]
        lines = [w.block(g.reached(every, self._done, ITERATE), "\n            ")]
        lines += [f"const double n{i} = {text};" for i, (_, text) in enumerate(texts)]
        lines += [f"{result} = n{i};" for i, (result, _) in enumerate(texts)]
        return ["{", "    " + "\n            ".join(lines), "}"]

    def _weighted(self, statement: str, weights: str, of: str = "a") -> str:
        """A statement for each coordinate, with the sum of its accelerations (or others) by the weights of a row."""
        sums = f"double sum = 0; DA_UNROLL for (int j = 0; j < {self.stages}; j++) sum += da_{weights}[j] * DA_LANE({of}[k], j);"
        return f"DA_UNROLL for (int k = 0; k < {self.n}; k++) {{ {sums} {statement}; }}"

    def _pack(self) -> str:
        """The unknowns of the step, in their places."""
        return "\n        ".join(f"x[{at}] = {text};" for text, at in self._entries())

    def _unpack(self) -> str:
        """Those of the last step, where a run goes on."""
        n, m, rates = self.n, self.m, "reached[k] = before[k];"
        if self.sweep.masses is not None:
            rates = f"S[k] = da_all(0); for (int e = 0; e < {self.stages}; e++) DA_LANE(a[k], e) = before[e * {n} + k];"
        lines = [f"for (int k = 0; k < {n}; k++) {{ a[k] = da_all(0); {rates} }}"] if n else []
        lines += [f"for (int k = 0; k < {m}; k++) {{ l[k] = da_all(0); mu[k] = 0; }}"] if m else []
        return "\n    ".join([*lines, *(f"{text} = last[{at}];" for text, at in self._entries())])

    def _entries(self) -> list[tuple[str, int]]:
        """Each unknown in the loop, and its place."""
        out = []
        for (name, stage), at in self.place.items():
            lanes, after, count, n = {
                "v": ("a", "", self.stages, self.n),
                "w": ("S", "ended", self.stages, self.n),
                "lam": ("l", "mu", self.sweep.held, self.m),
            }[name]
            out += [(f"DA_LANE({lanes}[{k}], {stage})" if stage < count else f"{after}[{k}]", at + k) for k in range(n)]
        return out

    def _accept(self) -> str:
        """The look at the residuals of all solves."""
        lines, at, offset = [], 0, 0
        for k, look in enumerate(self.program.looks):
            if k:
                lines.append(f"weigh{k}(w, state, x, 0, par, u, 0, t, h, scale + {offset});")
            lines.append(f"size = accept{k}(w, state, x, x + {at}, par, u, scale + {offset}, t, h);")
            lines.append(f"if (!(size <= limits.limit)) {{ failed = {k}; goto missed; }}")
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
        s, D = self.sweep, np.zeros_like(self.sweep.B)
        # the multiplier of a stage belongs to the position of the next one
        D[: s.held, self.stages - s.held :] = np.linalg.inv(s.K)
        rows: dict[str, Array] = {"D": D, "B": s.B}
        if s.masses is None:
            recent = s.c[self._recent]
            rows |= {
                "K": s.K,
                "X": lagrange(np.array([*recent, 1.0]) if s.last else recent, 1 + s.c),
                "Z": lagrange(recent, 1 + s.c),
            }
        else:
            rows |= {"A": s.masses.A, "X": lagrange(s.c, 1 + s.c), "Y": np.asarray(np.linalg.pinv(s.B), dtype=np.float64)}
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

    @property
    def _recent(self) -> list[int]:
        """The stages whose accelerations are unknowns."""
        return sorted(stage for name, stage in self.place if name == "v")

    def _masses(self) -> dict[str, str]:
        """With masses `M(q)`: momenta at the beginning of a step and of its stages, and velocities of these."""
        masses, n = self.sweep.masses, self.n
        if masses is None:
            return dict.fromkeys(("momenta", "masses_of", "momenta_of", "speeds_of"), "")
        begin = [self._symbols("q[{}]", n), self._symbols("v[{}]", n), self._par()]
        entries, own = self._symbols("M[{}].p[p]", self._entries_of_mass), [f"U[{k}].p[p]" for k in range(n)]
        at = [self._symbols("Q[{}].p[p]", n), self._par()]
        product = ca.Function("product", [x := SX.sym("M", len(entries)), v := SX.sym("v", n)],
                              [ca.densify(SX(masses.matrix.sparsity_out(0), x) @ v)])  # fmt: skip
        speeds = self.graph.load(quotients(self.sweep), [entries, self._symbols("U[{}].p[p]", n)])[0]
        return {
            "momenta": "\n        ".join(self._plain(masses.momentum, begin, 2, ["momenta[{}]"])),
            "masses_of": self._lanes(self._loaded(masses.matrix, at, 1)[0], [f"M[{k}].p[p]" for k in range(len(entries))]),
            "momenta_of": self._lanes(self.graph.load(product, [entries, self._symbols("S[{}].p[p]", n)])[0], own),
            "speeds_of": self._lanes(speeds, [f"S[{k}].p[p]" for k in range(n)]),
        }

    @property
    def _entries_of_mass(self) -> int:
        return 0 if self.sweep.masses is None else int(self.sweep.masses.matrix.nnz_out(0))

    def text(self) -> str:
        """The whole translation unit."""
        p, n, m = self.program, self.n, self.m
        fields = {
            **self._stages(), **self._masses(),
            "constraints": self._constraints(), "rates": self._rates(), "finish": self._finish(),
            "pack": self._pack(), "unpack": self._unpack(), "accept": self._accept(), "report": self._report(),
            "store": f"for (int k = 0; k < {n}; k++) {{ state[k] = q[k]; state[{n} + k] = v[k]; }}", "write": self._write(),
        }  # fmt: skip
        looks, room = rare(p, self.graph.called)
        known = self._recent
        body = template("sweeps.c").substitute(
            fields, tables=self._tables(), functions="\n".join(self.lane_functions.values()), run="\n    ".join(self.run),
            block=BLOCK, many=MANY, most=MOST, again=AGAIN, noise=literal(self._noise() ** 2),
            lanes=self.lanes, stages=self.stages,
            n=n, m=m, unknowns=p.n_unknowns, inputs=p.n_u, reported=p.n_lam, reports=int(bool(p.n_lam or p.working)),
            recent=len(known), skip=min(known, default=0), points=len(known) + bool(self.sweep.last), solves=len(p.looks),
            masses=self._entries_of_mass,
            length=room, groups=max(self.groups) + 1,
            scales=sum(look.n_scale for look in p.looks) + 1,
        )  # fmt: skip
        return "\n".join([HEAD, called(self.graph.called), looks, body])

    def _stages(self) -> dict[str, str]:
        """Where and how fast the stages are, and their inputs."""
        n, nu, plain = self.n, self.nu, self.sweep.masses is None
        lines = []
        if self.sweep.moving and plain:
            lines.append(f"for (int k = 0; k < {n}; k++) U[k] = da_sum(da_all(v[k]), B, a[k]);")
        lines += [f"V inputs_of[{nu}];"] if nu else []
        lines += [
            f"for (int e = 0; e < DA_PARTS * DA_W; e++) DA_LANE(inputs_of[{k}], e) = u[(e < {self.stages} ? e : 0) * {nu} + {k}];"
            for k in range(nu)
        ]
        points = f"for (int k = 0; k < {n}; k++) P[k] = da_shift(Q[k], q[k]);" if self.sweep.last and plain else ""
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
