"""C for steps under a controller: the loop of a program, what decides about its steps, and a step with its first half at once.

A controller of the error compares a whole step with two halves. The whole one and the first half do not wait for each other, and
are made together, one in each lane of a vector.
"""

from __future__ import annotations

from dalembert.engine.emission import source, template
from dalembert.engine.graph import RUN, STEP, literal
from dalembert.engine.growth import POWERS
from dalembert.engine.inputs import NEAR, ROUNDED
from dalembert.engine.lanes import Lane
from dalembert.engine.program import WEIGH_EVERY, Program
from dalembert.engine.run import ADVANCES, LIKE, STRETCH, measured

SHORT = 200  # operations of a step up to which copies of it cost less than calls
PAIRED = 3000  # operations of a step up to which a compiler is given it once more, for pairs
CONSTANTS = {"NEAR": NEAR, "ROUNDED": ROUNDED, "ADVANCES": ADVANCES, "STRETCH": STRETCH, "LIKE": LIKE}
CONSTANTS |= {f"P{k}": value for k, value in enumerate(POWERS)}


def controlled(program: Program) -> str:
    """The C source of a program with the loop of steps under a controller; a short step is written out wherever it is made."""
    pairs = program.operations <= PAIRED and all(stage.loops is None for stage in program.stages)
    sizes = {"STATES": program.n_state, "LAMS": program.n_lam, "UNKNOWNS": program.n_unknowns, "KEPT": program.n_kept}
    sizes |= {"INPUTS": program.n_u, "WORKING": int(program.working), "WEIGH_EVERY": WEIGH_EVERY, "SOLVES": len(program.stages)}
    step = "inline __attribute__((always_inline))" if program.operations <= SHORT else "__attribute__((noinline))"
    constants = {name: literal(value) for name, value in CONSTANTS.items()} | sizes | {"STEP": f"static {step}"}
    constants |= {"PAIR": int(pairs), "MEASURED(x)": " ".join(f"x({i})" for i in measured(program))}
    lines = [f"#define {name} {value}" for name, value in constants.items()]
    return "\n".join([source(program), *lines, _pair(program) if pairs else "", template("control.c").template])


class _Pair(Lane):
    """The text of two steps of a program from one memory; the first lane leaves its state alone."""

    def text(self) -> str:
        """A function to be put behind the loop of the program."""
        p, w, each = self.program, self.writer, range(len(self.solves))
        run = self._block(self.roots, RUN, "\n    ")
        state = [f"s{i}" for i in range(p.n_state)]
        singles = [f"I single{k} = (I)(da_wide(from.kept[{self.scales[-1] + k}]) != da_wide(0));" for k in each]
        solves = "".join(map(self._solve_text, each))
        finish = self._block([*self.next, *self.lam, *self.work, *self.check], STEP, "\n    ")
        fields = {
            "run": run,
            "memory": " ".join([w.declare(state), *singles]),
            "load": " ".join(f"{s} = da_wide(from.state[{i}]);" for i, s in enumerate(state)),
            "solves": solves,
            "finish": finish,
            "check": w.use(self.check[0]),
            "write": "\n    ".join(self._written()),
        }
        return template("pair.c").substitute(
            fields, inputs=p.n_u, unknowns=p.n_unknowns, scales=self.scales[-1], parameters=p.step.par.numel(),
            functions=self.vectors.operations.functions(),
        )  # fmt: skip

    def _written(self) -> list[str]:
        """What the steps leave behind."""
        p, w, out = self.program, self.writer, []
        for i, v in enumerate(self.next):
            out.append(f"{{ const W n_ = {w.use(v)}; whole[{i}] = n_[0]; to.state[{i}] = n_[1]; }}")
        lasting = [*((f"lam_of[{j}] =", v) for j, v in enumerate(self.lam))]
        lasting += [*((f"work_of[{j}] = 0.0 +", v) for j, v in enumerate(self.work))] if p.working else []
        out += [f"{{ const W n_ = {w.use(v)}; {target} n_[1]; }}" for target, v in lasting]
        for k, (offset, solve) in enumerate(zip(self.offsets, self.solves, strict=False)):
            older = "before" if solve.stage.linear else "last"
            for i in range(solve.stage.n):
                out.append(f"to.last[{offset + i}] = x{k}_{i}[1]; to.before[{offset + i}] = from.{older}[{offset + i}];")
            out.append(f"to.kept[{self.scales[-1] + k}] = single{k}[1] != 0;")
        return out


def _pair(program: Program) -> str:
    """The function `da_pair`, with what it needs."""
    return "\n".join(["#define DA_W 2", "#define DA_PAIR 1", template("wide.c").template, _Pair(program).text()])
