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
        self.count = sum(function.numel_out(i) for i in range(function.n_out()))
        self._library = compiler.load(_source(function, arguments, layout, self.count))
        self.address = ctypes.cast(self._library.da_values, ctypes.c_void_p).value
        self._quiet = self._library.da_quiet
        self._quiet.restype = ctypes.c_long
        self._quiet.argtypes = [ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]

    def quiet(self, states: Array, times: Array, par: Array) -> int:
        """How many steps there are between these states before one in which a value may be zero, or is not finite."""
        states, times = np.ascontiguousarray(states), np.ascontiguousarray(times)
        return int(self._quiet(len(times) - 1, states.ctypes.data, times.ctypes.data, par.ctypes.data))


def _source(function: ca.Function, arguments: Sequence[str], layout: Layout, count: int) -> str:
    graph = Graph()
    places = {name: [f"state[{i}]" for i in range(place.start, place.stop)] for name, place in layout.fields.items()}
    places["t"], places["par"] = ["t"], [f"par[{i}]" for i in range(function.numel_in(arguments.index("par")))]
    try:
        symbols = [[graph.symbol(text, RUN) for text in places[name]] for name in arguments]
        values = [v for row in graph.load(function, symbols) for v in row]
        order = graph.reached(values, set(), RUN)
        if len(order) > LONG:
            raise Unwritable(f"{function.name()} has {len(order)} operations, too many for one function in C")
        writer = Writer(graph, False, "", "", "")
        body = [writer.block(order, "\n    "), *(f"out[{i}] = {writer.use(v)};" for i, v in enumerate(values))]
        tables = called(graph.called)
    except Unwritable as error:
        raise CompilerError(f"{error}; compile='auto' does without") from error
    text = Template(part("values.c")).substitute(count=count, width=layout.n_state, body="\n    ".join(body))
    return "\n".join([HEAD, tables, text])
