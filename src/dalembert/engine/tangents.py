"""C for sweeps through a run, and calling it: one translation unit with the loop over the steps.

Steps are taken as many at a time as a vector has lanes. What depends on `h` and parameters alone is computed once per call; what
depends on a step but not on what is carried, in lanes, for all directions. What is carried is computed step after step, and what
else depends on it is again left to lanes. A value that is used elsewhere than where it was computed has a slot.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence

import numpy as np

from dalembert.engine import compiler
from dalembert.engine.addresses import address
from dalembert.engine.adjoint import Sweep
from dalembert.engine.contraction import ONE, contracted
from dalembert.engine.emission import HEAD, template
from dalembert.engine.graph import ITERATE, RUN, STEP, Graph, Unwritable
from dalembert.engine.newton import Array
from dalembert.engine.tables import called
from dalembert.engine.writing import Vectors
from dalembert.errors import CompilerError

LINE = 8  # numbers of a line of the cache
PART = 500  # statements of a function, at most: compilers take more than twice as long for twice as many
NEAR = 400  # slots of eight numbers that the nearest cache holds beside rows of a run: where there are more, lanes are four
# No other way of making these sums has the same bits: products may be added without being rounded, also by -O1.
FLAGS = ("-ffp-contract=fast", "-fexpensive-optimizations", "-fno-ivopts")


def source(sweep: Sweep) -> str:
    """The C source of a sweep."""
    try:
        return _Text(sweep).text()
    except Unwritable as error:
        raise CompilerError(f"{error}; compile='auto' does without") from error


class Pieces:
    """Values of a graph in lanes, one for each of some steps in succession, in functions of at most `PART` statements.

    `places` are arguments, with what stands for them. Functions belong to phases, which come one after the other. A value that
    is used elsewhere than where it is computed has a slot.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph, self.vectors, self.places = graph, Vectors(), dict[int, str]()

    def arguments(self, sweep: Sweep) -> dict[str, list[int]]:
        """The values of all arguments of a sweep."""
        named: dict[str, list[int]] = {}
        for i, (name, level) in enumerate(zip(sweep.names, sweep.levels, strict=True)):
            named[name] = [self.graph.symbol(f"{name}[{k}]", level) for k in range(sweep.function.nnz_in(i))]
            self.places |= {v: _argument(i, k, level) for k, v in enumerate(named[name])}
        return named

    def divide(self, phase: list[int], phases: int, roots: list[int], ends: set[int], first: int = 0) -> None:
        """Put all that some values need, of given phases, into functions; `ends` come from elsewhere, in their phases.

        `first` is the number of the first slot; places before it are left alone.
        """
        g = self.graph
        values = set(g.reached(roots, ends, ITERATE))
        values |= {v for v in ({i for v in values for i in g.needs[v]} | set(roots)) - ends if v in self.places}
        self.parts: list[tuple[int, list[int]]] = []
        for number in range(phases):
            own = sorted(v for v in values if phase[v] == number)
            self.parts += [(number, own[start : start + PART]) for start in range(0, len(own), PART)]
        self.part = {v: k for k, (_, own) in enumerate(self.parts) for v in own} | {v: -phase[v] for v in ends}
        used = [*roots, *(i for k, (_, own) in enumerate(self.parts) for v in own for i in g.needs[v] if self.part.get(i) != k)]
        self.slots = {v: k for k, v in enumerate(dict.fromkeys(v for v in used if not g.is_constant(v)), first)}
        self.room = first + len(self.slots) + 1

    def use(self, value: int, part: int | None, wide: bool) -> str:
        """What stands for a value in a part, of vectors or of numbers."""
        if self.graph.is_constant(value):
            return f"da_wide({self.graph.text(value)})" if wide else self.graph.text(value)
        if self.part[value] == part:
            return f"t{value}"
        return f"{'DA_WIDE' if wide else 'DA_EACH'}({self.slots[value]})"

    def _statements(self, number: int) -> list[str]:
        """All of a part, with the values that others use left in their slots."""
        out = []
        for v in self.parts[number][1]:
            text = self.places.get(v)
            if text is None:
                operands = [self.use(i, number, True) for i in self.graph.needs[v]]
                text = self.vectors.operation(self.graph.pattern(v), operands)
            out.append(f"const W t{v} = {text};")
            if v in self.slots:
                out.append(f"DA_WIDE({self.slots[v]}) = t{v};")
        return out

    def lanes(self, phase: int) -> str:
        """Calls of the functions of a phase."""
        return "\n".join(f"part{k}(S, in, rows, each, at, j);" for k, (of, _) in enumerate(self.parts) if of == phase)

    def functions(self) -> str:
        """All functions, and those that they call."""
        parts = [part(f"part{k}", self._statements(k)) for k in range(len(self.parts))]
        return "\n".join([self.vectors.functions(), *parts])

    def unit(self, sweep: Sweep, step: list[str], direction: list[str], own: str = "", most: int = 8) -> str:
        """The whole translation unit: what is done for some steps, and then for each direction.

        `own` are further functions, and `most` is how many lanes there are at most.
        """
        loop = template("tangents.c").substitute(
            functions=self.functions(), own=own, room=self.room, backwards=int(sweep.backwards),
            run=self.lanes(RUN), step="\n".join(step), direction="\n".join(direction),
        )  # fmt: skip
        return "\n".join([HEAD, called(self.graph.called), f"#define DA_MOST {most}", template("wide.c").template, loop])


def part(name: str, statements: list[str]) -> str:
    """A function of a sweep."""
    body = "\n    ".join(statements)
    return f"DA_APART void {name}(DA_PLACE)\n{{\n    {body}\n}}\n"


def _argument(argument: int, entry: int, level: int) -> str:
    if level == RUN:
        return f"da_wide(in[{argument}][{entry}])"
    direction = f" + j * each[{argument}]" if level == ITERATE else ""
    return f"da_rows(in[{argument}] + {entry}{direction}, at, rows[{argument}])"


class _Text(Pieces):
    """The text of a sweep.

    Phases come one after the other: RUN, STEP, then for each direction lanes (ITERATE), the first chain, lanes, the next chain,
    lanes. A chain leads from what is carried to its next value.
    """

    def __init__(self, sweep: Sweep) -> None:
        super().__init__(Graph())
        self.sweep, g, named = sweep, self.graph, self.arguments(sweep)
        outputs = g.load(sweep.function, [*named.values(), g.load(sweep.prelude, [named["h"], named["par"]])[0]])
        self.carried = [named[name] for name in sweep.carried]
        self.next, self.left = outputs[: len(self.carried)], outputs[len(self.carried) :]
        new, last = {v for row in self.next for v in row}, len(self.carried) - 1
        late = [v for row in self.left for v in row if v not in new]
        self.links = [contracted(g, self.carried[k], self.next[k], late if k == last else []) for k in range(last + 1)]
        sums = iter(self.links[-1].sums(g))
        self.left = [[v if v in new else next(sums) for v in row] for row in self.left]
        self.edges = [
            {v: {u: edge.whole(g) for u, edge in links.into[v].items()} for v in links.order(links.ends)} for links in self.links
        ]
        phase, chains = self._phases(), {_chain(k) for k in range(len(self.carried))}
        roots = [v for row in self.left for v in row]
        roots += [v for sums_of in self.edges for edges in sums_of.values() for v in edges.values()]
        self.divide(phase, _chain(len(self.carried)), roots, {v for v, at in enumerate(phase) if at in chains})

    def _phases(self) -> list[int]:
        g, phase = self.graph, list[int]()
        chains = [_chain(k) for k in range(len(self.carried))]
        given = {v: at for at, row in zip(chains, self.carried, strict=True) for v in row}
        found = {v: at for at, row in zip(chains, self.next, strict=True) for v in row}
        for v, needs in enumerate(g.needs):
            last = max((phase[i] for i in needs), default=given.get(v, g.level[v]))
            if needs and v in found and last >= found[v]:
                phase.append(found[v])
            else:
                phase.append(last + 1 if needs and last in chains else last)
        return phase

    def _chain(self, k: int) -> str:
        """What is carried, through the steps of all lanes."""
        heads, ends, ready = self.carried[k], self.links[k].ends, self.links[k].ready()
        argument = self.sweep.names.index(self.sweep.carried[k])
        lines = [f"double *to = (double *)in[{argument}] + j * each[{argument}];"]
        lines += [f"double t{v} = to[{i}];" for i, v in enumerate(heads)]
        lines.append("for (long e = 0; e < lanes; e++) {")
        lines += [f"DA_EACH({self.slots[v]}) = t{v};" for v in heads if v in self.slots]
        for v, edges in self.edges[k].items():
            terms = [
                self.use(edges[u], None, False) if u == ONE else f"{self.use(edges[u], None, False)} * t{u}"
                for u in sorted(edges, key=lambda u: ready.get(u, 0.0) if u != ONE else -1.0)
            ]
            lines.append(f"const double {_name(v)} = {' + '.join(terms)};")
        for v, end in zip(self.next[k], ends, strict=True):
            if self.part.get(v) == -_chain(k) and v in self.slots and v not in heads:
                lines.append(f"DA_EACH({self.slots[v]}) = {_name(end)};")
        lines += [f"t{v} = {_name(end)};" for v, end in zip(heads, ends, strict=True)] + ["}"]
        lines += [f"to[{i}] = t{v};" for i, v in enumerate(heads)]
        return "\n".join(["{", *lines, "}"])

    def _write(self) -> str:
        """Statements that leave the outputs of one step behind."""
        lines = []
        for k, values in enumerate(self.left):
            at, sign = ("j", "+=") if k < self.sweep.added else ("(at[e] * count + j)", "=")
            text = " ".join(f"to[{i}] {sign} {self.use(v, None, False)};" for i, v in enumerate(values))
            lines.append(f"if (out[{k}]) {{ double *to = out[{k}] + {at} * {len(values)}; {text} }}")
        return "\n".join(["for (long e = 0; e < lanes; e++) {", *lines, "}"])

    def text(self) -> str:
        """The whole translation unit."""
        direction = [self.lanes(ITERATE)]
        for k in range(len(self.carried)):
            direction += [self._chain(k), self.lanes(_chain(k) + 1)]
        most = 4 if self.room > NEAR else 8
        return self.unit(self.sweep, [self.lanes(STEP)], [*direction, self._write()], most=most)


def _chain(k: int) -> int:
    """The phase of a chain."""
    return ITERATE + 1 + 2 * k


def _name(value: int) -> str:
    """Of a value of a chain; those at its end have negative numbers."""
    return f"t{value}" if value >= 0 else f"n{-value}"


class NativeSweep:
    """A compiled sweep."""

    name = "compiled"

    def __init__(self, sweep: Sweep, code: str) -> None:
        self.sweep, self._levels = sweep, dict(zip(sweep.names, sweep.levels, strict=True))
        library = compiler.load(code, FLAGS)
        try:
            self._run, self._work = library.da_sweep, ctypes.c_long.in_dll(library, "da_work").value
        except (AttributeError, ValueError) as error:
            raise CompilerError("the compiler made a library without a sweep in it; compile='auto' does without") from error
        self._run.restype, self._library = ctypes.c_double, library

    def __call__(self, steps: int, count: int, arguments: Mapping[str, Array], outputs: Sequence[Array | None]) -> float:
        """Sweep over `steps` rows in `count` directions; by how much solutions missed their equations, where that is looked at.

        An argument that changes with the step has one row for each step (or one for all); one that changes with the direction
        has one row for each direction (or one for all), in a matrix for each step where it changes with both. What is carried is
        changed in place, what is added up or written goes to the outputs, where these are wanted.
        """
        given = [np.ascontiguousarray(arguments[name]) for name in self.sweep.names]
        assert all(arguments[name].flags.c_contiguous for name in self.sweep.carried)
        strides = [_strides(a, self._levels[name]) for name, a in zip(self.sweep.names, given, strict=True)]
        work = np.empty(self._work + LINE)
        begin = address(work) + -address(work) % (8 * LINE)  # a vector that lies in two lines of the cache takes longer
        return float(self._run(
            ctypes.c_long(steps), ctypes.c_long(count), _pointers(given), *(_longs(s) for s in zip(*strides, strict=True)),
            _pointers(outputs), ctypes.c_void_p(begin),
        ))  # fmt: skip


def _strides(array: Array, level: int) -> tuple[int, int]:
    """From one step to the next, and from one direction to the next."""
    if level == RUN or array.ndim < 2:
        return 0, 0
    size = array.shape[-1]
    if level == STEP:
        return size if len(array) > 1 else 0, 0
    row = size * array.shape[1] if array.ndim == 3 and len(array) > 1 else 0
    return row, size if array.shape[-2] > 1 else 0


def _pointers(arrays: Sequence[Array | None]) -> ctypes.Array[ctypes.c_void_p]:
    return (ctypes.c_void_p * max(1, len(arrays)))(*(None if a is None else address(a) for a in arrays))


def _longs(values: Sequence[int]) -> ctypes.Array[ctypes.c_long]:
    return (ctypes.c_long * len(values))(*values)
