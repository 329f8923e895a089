"""C for a step and its first half at once, as a controller of the error compares them: one in each lane of a vector."""

from __future__ import annotations

from dalembert.engine.emission import template
from dalembert.engine.graph import RUN, STEP
from dalembert.engine.lanes import Lane
from dalembert.engine.program import Program

LARGEST = 3000  # operations of a step up to which a compiler is given it once more


def suits(program: Program) -> bool:
    """Whether pairs of steps are worth what they take to compile."""
    return program.operations <= LARGEST


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


def source(program: Program) -> str:
    """The function `da_pair`, with what it needs."""
    return "\n".join(["#define DA_W 2", "#define DA_PAIR 1", template("wide.c").template, _Pair(program).text()])
