"""C for steps whose lengths differ: what decides about them, in one loop with the step.

A controller that makes one step after the other is written into the loop of a program, so that nothing is put away between steps.
A controller of the error compares a whole step with two halves. The whole one and the first half do not wait for each other, and
are made together, one in each lane of a vector.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass

import casadi as ca

from dalembert.engine.emission import Loop, source, template
from dalembert.engine.graph import RUN, STEP, literal
from dalembert.engine.growth import POWERS
from dalembert.engine.inputs import NEAR, ROUNDED
from dalembert.engine.lanes import Lane
from dalembert.engine.program import WEIGH_EVERY, Program
from dalembert.engine.run import ADVANCES, LIKE, STRETCH, measured
from dalembert.engine.values import inlined
from dalembert.errors import CompilerError

SHORT = 1000  # operations of a step up to which a copy of it costs less than a call
PAIRED = 3000  # operations of a step up to which a compiler is given it once more, for pairs
FEW = 1000  # parameters up to which there is a copy of them in each lane
CONSTANTS = {"NEAR": NEAR, "ROUNDED": ROUNDED, "ADVANCES": ADVANCES, "STRETCH": STRETCH, "LIKE": LIKE}
CONSTANTS |= {f"P{k}": value for k, value in enumerate(POWERS)}


class Pace:
    """How the lengths of steps come about, and the loop in C that goes with it. Here all are equal."""

    equal = True

    @property
    def written(self) -> Hashable:
        """What is equal where the text is."""
        return ()

    def text(self, program: Program) -> str:
        """The C source of a program with this loop."""
        return source(program)


class Single(Pace):
    """Lengths that are found elsewhere, step by step."""

    equal = False


class Doubled(Single):
    """A controller of the error: a step is compared with two halves."""

    @property
    def written(self) -> Hashable:
        return "doubled"

    def text(self, program: Program) -> str:
        loops, few = any(stage.loops is not None for stage in program.stages), program.step.par.numel() <= FEW
        pairs = program.operations <= PAIRED and few and not loops
        own = {
            "SHORT": str(int(program.operations <= SHORT)),
            "PAIR": str(int(pairs)),
            "MEASURED(x)": " ".join(f"x({i})" for i in measured(program)),
        }
        pair, control, loop = _pair(program) if pairs else "", template("control.c"), template("doubled.c")
        return "\n".join([source(program), _constants(program, own), pair, control.template, loop.template])


@dataclass(frozen=True, eq=False)
class Paced(Single):
    """A controller that makes one step after the other: reversible where there is a time scale, else one that backs off.

    `scale` is a function of parts of the state by name: the time scale and its change. Where it cannot be written in C, there is
    no loop of the controller.
    """

    scale: tuple[ca.Function, tuple[str, ...]] | None = None

    @property
    def _key(self) -> Hashable:
        return None if self.scale is None else (self.scale[0].__hash__(), self.scale[1])

    @property
    def written(self) -> Hashable:
        return self

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Paced) and self._key == other._key

    def text(self, program: Program) -> str:
        return source(program, lambda program: _Paced(program, self))


class _Paced(Loop):
    """The text of a program's step in two loops: for equal steps, and for those of a controller."""

    def __init__(self, program: Program, pace: Paced) -> None:
        super().__init__(program)
        self.pace = pace

    def text(self) -> str:
        """The whole translation unit."""
        try:
            scale = "" if self.pace.scale is None else inlined("da_scale", *self.pace.scale, self.program, self.graph.called)
        except CompilerError:
            return super().text()
        constants = _constants(self.program, {"SCALED": str(int(self.pace.scale is not None))})
        loop = template("paced.c").substitute(self.fields, scale=scale)
        return "\n".join([super().text(), constants, template("control.c").template, loop])


EQUAL, SINGLE = Pace(), Single()


def _constants(program: Program, own: Mapping[str, str]) -> str:
    sizes = {"STATES": program.n_state, "LAMS": program.n_lam, "UNKNOWNS": program.n_unknowns, "KEPT": program.n_kept}
    sizes |= {"INPUTS": program.n_u, "WORKING": int(program.working), "WEIGH_EVERY": WEIGH_EVERY, "SOLVES": len(program.stages)}
    constants = {name: literal(value) for name, value in CONSTANTS.items()} | sizes | dict(own)
    return "\n".join(f"#define {name} {value}" for name, value in constants.items())


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
