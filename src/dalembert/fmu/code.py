"""The C source of a model with its method: the emitted step, what begins a run and what is measured, and an interface of FMI."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import casadi as ca
from casadi import SX

from dalembert.analysis.starts import conditions
from dalembert.engine import kinds
from dalembert.engine.emission import LONG, Loop
from dalembert.engine.graph import RUN, Graph, Unwritable
from dalembert.engine.newton import Rule
from dalembert.engine.program import WEIGH_EVERY, Program
from dalembert.engine.writing import Writer
from dalembert.errors import MethodError
from dalembert.fmu.variables import Layout
from dalembert.systems.base import System
from dalembert.systems.closure import closure
from dalembert.systems.port_hamiltonian import PortHamiltonian

PARAMETERS = "double *restrict w, const double *state, double t, double h, const double *u, const double *par, const double *x"
ARGUMENTS = "w, state, t, h, u, par, x"


@cache
def part(name: str) -> str:
    """A text in C."""
    return files("dalembert.fmu").joinpath(name).read_text(encoding="utf-8")


@dataclass(frozen=True)
class Following:
    """What of a state follows from the rest: unknowns with a residual, a guess, and the state after they are found."""

    unknowns: SX
    residual: SX
    guess: SX
    after: SX


class Source:
    """Writes the translation unit of a model."""

    def __init__(self, system: System, program: Program, layout: Layout, rule: Rule) -> None:
        self.system, self.program, self.layout, self.rule = system, program, layout, rule
        self._loop = Loop(program)
        self._room = 0
        self._own = ca.vertcat(*(getattr(system, name) for name in system.state))
        if list(program.fields)[: len(system.state)] != list(system.state):
            raise MethodError(f"{system.name!r} cannot be exported: its step carries {', '.join(program.fields)}")

    def text(self, interface: str, token: str, step: float) -> str:
        """The whole source, with the interface `"2.0"` or `"3.0"`."""
        following = self._following()
        try:
            functions = self._functions(following)
            body = self._loop.text()
            self._room += int(body.split("const long da_work = ")[1].split(";")[0])  # what the loop needs, as it says itself
        except Unwritable as error:
            raise MethodError(f"{self.system.name!r} cannot be exported: {error}") from error
        constants = "\n".join(f"#define {name} {value}" for name, value in self._constants(following, token, step).items())
        return "\n".join([body, *functions, constants, part("component.c"), part(f"fmi{interface[0]}.c")])

    def _constants(self, following: Following | None, token: str, step: float) -> dict[str, object]:
        p, at = self.program, self.layout
        r = self.rule
        squares = (r.tolerance, r.refresh, r.stagnation, r.floor, r.limit, r.exact)
        carries = any(kind == "lam" for kind in p.step.start.values()) and self.system.m > 0
        return {
            "DA_VALUES": at.count, "DA_PARAMETERS_AT": at.parameters, "DA_INPUTS_AT": at.inputs, "DA_STATES_AT": at.states,
            "DA_OUTPUTS_AT": at.outputs, "DA_STATE": p.n_state, "DA_OWN": self._own.numel(), "DA_UNKNOWNS": p.n_unknowns,
            "DA_KEPT": p.n_kept, "DA_INPUTS": self.system.nu, "DA_NODES": len(p.step.input_nodes), "DA_LAM": p.n_lam,
            "DA_MEASURED": 1 + len(at.measured), "DA_CONDITIONS": conditions(self.system).numel(),
            "DA_FOLLOWING": 0 if following is None else following.unknowns.numel(),
            "DA_CARRIES": int(carries), "DA_SETTLES": int(following is not None and bool(self.system.nu)),
            "DA_STEP": f"({step!r})", "DA_WEIGH": WEIGH_EVERY, "DA_ROOM": self._room,
            "DA_TOKEN": f'"{token}"', "DA_STARTS": ", ".join(repr(float(v.start)) for v in at.variables),
            "DA_RULE": "{" + ", ".join(repr(x * x) for x in squares) + f", {r.max_iterations}" + "}",
        }  # fmt: skip

    def _functions(self, following: Following | None) -> list[str]:
        s, p, own = self.system, self.program, self._own
        common = [own, s.t, SX.sym("h"), s.u, s.par]
        none = SX.sym("none", 0)
        out = [self._emit("da_measured", [*common, none], [self.layout.energy, *(v for _, v in self.layout.measured)])]
        rows = conditions(s)
        if rows.numel():
            out.append(self._emit("da_conditions", [*common, none], [rows, ca.jacobian(rows, own)]))
        if following is not None:
            carried = [p.state, s.t, SX.sym("h"), s.u, s.par]
            slopes = ca.jacobian(following.residual, following.unknowns)
            out.append(self._emit("da_following", [*carried, following.unknowns], [following.residual, slopes]))
            out.append(self._emit("da_following_guess", [*carried, none], [following.guess]))
            out.append(self._emit("da_followed", [*carried, following.unknowns], [following.after]))
        starts = [SX(solve.unknowns.numel(), 1) if solve.start is None else solve.start for solve in p.step.solves]
        known = p.step.known
        first = ca.substitute(ca.vertcat(*starts), known, SX.zeros(known.numel())) if starts else SX(0, 1)
        out.append(self._emit("da_first", [*p.common, none], [first]))
        return out

    def _emit(self, name: str, arguments: list[SX], outputs: list[SX]) -> str:
        """A function of `(state, t, h, u, par, x)` in C, its outputs in a row."""
        f = ca.Function(name, arguments, [ca.densify(e) for e in outputs])
        graph = Graph(self._loop.graph.called)
        places = ("state[{}]", "t", "h", "u[{}]", "par[{}]", "x[{}]")
        symbols = [
            [graph.symbol(place.format(i), RUN) for i in range(e.numel())] for place, e in zip(places, arguments, strict=True)
        ]
        values = [v for row in graph.load(f, symbols) for v in row]
        order = graph.reached(values, set(), RUN)
        writer = Writer(graph, len(order) > LONG, PARAMETERS, ARGUMENTS, f"{name}_part")
        body = [writer.block(order, "\n    "), *(f"out[{i}] = {writer.use(v)};" for i, v in enumerate(values))]
        self._room = max(self._room, writer.work)
        lines = "\n    ".join(body)
        return f"{writer.functions()}\nstatic void {name}({PARAMETERS}, double *out)\n{{\n    {lines}\n}}\n"

    def _following(self) -> Following | None:
        """What jumps with the inputs, or is carried along: as the engine finds it anew."""
        s, p = self.system, self.program
        carried = any(kind == "lam" for kind in p.step.start.values()) and s.m > 0
        if not carried and not (s.nu and kinds.follows(s)):
            return None
        if isinstance(s, PortHamiltonian):
            return self._algebraic(s)
        found = kinds.implied(s)
        assert found is not None
        parts = {name: found.parts[kind] for name, kind in p.step.start.items() if kind in found.parts}
        parts |= {name: value for name, value in found.parts.items() if name in s.state}
        fields = {name: p.state[place] for name, place in p.fields.items()}
        named = ca.vertcat(*(fields[name] for name in s.state))
        residual, *rest = ca.substitute([found.residual, *parts.values()], [self._own], [named])
        after = ca.vertcat(*({**fields, **dict(zip(parts, rest, strict=True))}[name] for name in fields))
        known = [fields[name] for name in parts]
        size = sum(x.numel() for x in known)
        guess = ca.vertcat(SX.zeros(found.unknowns.numel() - size), *known) if size <= found.unknowns.numel() else SX(0, 1)
        return Following(found.unknowns, residual, guess, after)

    def _algebraic(self, s: PortHamiltonian) -> Following:
        """The algebraic states of index 1 by the algebraic equations."""
        found = closure(s)
        if found is None:
            raise MethodError(f"{s.name!r} cannot be exported with inputs: its algebraic states are not defined by its equations")
        bases = found[1]
        a = SX.sym("a", bases.V2.size2())
        moved = self._own + bases.V2 @ a
        residual = ca.substitute(bases.U2.T @ s.role("right"), self._own, moved)
        if ca.sprank(ca.jacobian(residual, a).sparsity()) < a.numel():
            raise MethodError(f"{s.name!r} cannot be exported with inputs: it has an index above 1, and jumps with them")
        return Following(a, residual, SX.zeros(a.numel()), moved)


def identifier(name: str) -> str:
    """A name as C has it."""
    text = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in name).strip("_") or "model"
    return text if not text[0].isdigit() else f"m_{text}"
