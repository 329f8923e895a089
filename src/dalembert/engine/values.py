"""Functions of the state in C, apart from the step: what events look at, and what the step control of a run follows."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from string import Template

import casadi as ca
import numpy as np

from dalembert.engine import compiler
from dalembert.engine.addresses import address
from dalembert.engine.dips import MARGIN
from dalembert.engine.emission import HEAD, LONG
from dalembert.engine.graph import RUN, Graph, Unwritable
from dalembert.engine.run import Array, Layout
from dalembert.engine.tables import called
from dalembert.engine.writing import Writer
from dalembert.errors import CompilerError


@cache
def part(name: str) -> str:
    """A text in C; read once, since a process may give up the right to read it."""
    return files("dalembert.engine").joinpath(name).read_text()


class Values:
    """The outputs of a function, compiled; its arguments are parts of the state, `t` and `par`, by name.

    The library is its own, so that looking for other events compiles nothing of the step.
    """

    def __init__(self, function: ca.Function, arguments: Sequence[str], layout: Layout) -> None:
        self.function = function  # kept: what was made from it is found by it
        self.count = sum(function.numel_out(i) for i in range(function.n_out()))
        self._library = compiler.load(self._text(function, arguments, layout))
        self.address = ctypes.cast(self._library.da_values, ctypes.c_void_p).value

    def _text(self, function: ca.Function, arguments: Sequence[str], layout: Layout) -> str:
        tables, body = _written(layout, (function, arguments))
        return "\n".join([HEAD, tables, Template(part("values.c")).substitute(count=self.count, body=body)])


class Watched(Values):
    """Values whose signs are looked at along a run; `slopes` are their rates, of the state and its `rate` beside the rest."""

    def __init__(self, function: ca.Function, slopes: ca.Function, arguments: Sequence[str], layout: Layout) -> None:
        self._slopes = slopes
        super().__init__(function, arguments, layout)
        self._quiet = self._library.da_quiet
        self._quiet.restype = ctypes.c_long
        self._quiet.argtypes = [ctypes.c_long, *4 * [ctypes.c_void_p], ctypes.c_long]

    def _text(self, function: ca.Function, arguments: Sequence[str], layout: Layout) -> str:
        tables, body, slopes = _written(layout, (function, arguments), (self._slopes, (*arguments, "rate")))
        names = {"count": self.count, "width": layout.n_state, "margin": MARGIN, "body": body, "slopes": slopes}
        return "\n".join([HEAD, tables, *(Template(part(name)).substitute(names) for name in ("values.c", "quiet.c"))])

    def quiet(self, states: Array, times: Array, par: Array, rates: Array) -> int:
        """How many steps there are between these states before one in which a value may be zero, or is not finite."""
        same = rates.strides[0] == 0  # one row for all states
        states, times, rates = (np.ascontiguousarray(a) for a in (states, times, rates[:1] if same else rates))
        stride = 0 if same else rates.shape[1]
        return int(self._quiet(len(times) - 1, *map(address, (states, times, par, rates)), stride))


class Bounds(Values):
    """Values that must not be negative along a run."""

    def __init__(self, function: ca.Function, arguments: Sequence[str], layout: Layout) -> None:
        super().__init__(function, arguments, layout)
        self._beyond = self._library.da_beyond
        self._beyond.restype = ctypes.c_long
        self._beyond.argtypes = [ctypes.c_long, *3 * [ctypes.c_void_p]]

    def _text(self, function: ca.Function, arguments: Sequence[str], layout: Layout) -> str:
        tables, body = _written(layout, (function, arguments))
        names = {"count": self.count, "width": layout.n_state, "body": body}
        return "\n".join([HEAD, tables, *(Template(part(name)).substitute(names) for name in ("values.c", "beyond.c"))])

    def first(self, states: Array, times: Array, par: Array) -> int:
        """The number of states before the first one at which a value is negative."""
        states, times = (np.ascontiguousarray(a) for a in (states, times))
        return int(self._beyond(len(times), address(states), address(times), address(par)))


def inlined(name: str, function: ca.Function, arguments: Sequence[str], layout: Layout, tables: list[ca.Function]) -> str:
    """A function for a source that has others; what it calls is added to `tables`."""
    _, body = _written(layout, (function, arguments), tables=tables)
    head = f"static inline void {name}(const double *state, double t, const double *par, double *out)"
    return f"{head}\n{{\n    {body}\n}}\n"


def _written(layout: Layout, *functions: tuple[ca.Function, Sequence[str]], tables: list[ca.Function] | None = None) -> list[str]:
    """The tables that functions call, and for each the statements that fill `out`."""
    graph, bodies = Graph(tables), []
    first, arguments = functions[0]
    places = {name: [f"state[{i}]" for i in range(place.start, place.stop)] for name, place in layout.fields.items()}
    places["t"], places["par"] = ["t"], [f"par[{i}]" for i in range(first.numel_in(arguments.index("par")))]
    places["rate"] = [f"rate[{i}]" for i in range(layout.n_state)]
    try:
        symbols = {name: [graph.symbol(text, RUN) for text in places[name]] for name in functions[-1][1]}
        for function, names in functions:
            values = [v for row in graph.load(function, [symbols[name] for name in names]) for v in row]
            order = graph.reached(values, set(), RUN)
            if len(order) > LONG:
                raise Unwritable(f"{function.name()} has {len(order)} operations, too many for one function in C")
            writer = Writer(graph, False, "", "", "")
            body = [writer.block(order, "\n    "), *(f"out[{i}] = {writer.use(v)};" for i, v in enumerate(values))]
            bodies.append("\n    ".join(body))
        return [called(graph.called), *bodies]
    except Unwritable as error:
        raise CompilerError(f"{error}; compile='auto' does without") from error
