"""C for sweeps through a run, and calling it: one translation unit with the loop over the steps.

What depends on `h` and parameters alone is computed once per call, what depends on the step once for all directions.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence

import numpy as np

from dalembert.engine import compiler
from dalembert.engine.adjoint import Sweep
from dalembert.engine.emission import HEAD, LONG, template
from dalembert.engine.graph import ITERATE, RUN, STEP, Graph, Unwritable
from dalembert.engine.newton import Array
from dalembert.engine.tables import called
from dalembert.engine.writing import Writer
from dalembert.errors import CompilerError


def source(sweep: Sweep) -> str:
    """The C source of a sweep."""
    try:
        return _text(sweep)
    except Unwritable as error:
        raise CompilerError(f"{error}; compile='auto' does without") from error


def _text(sweep: Sweep) -> str:
    g, f, names = Graph(), sweep.function, sweep.names
    arguments = [
        [g.symbol(f"{name}[{k}]", level) for k in range(f.nnz_in(i))] for i, (name, level) in enumerate(_arguments(sweep))
    ]
    named = dict(zip(names, arguments, strict=True))
    outputs = g.load(f, [*arguments, g.load(sweep.prelude, [named["h"], named["par"]])[0]])
    roots, done = [v for values in outputs for v in values], set[int]()
    parameters = ", ".join(f"const double *{name}" for name in names)
    w = Writer(
        g, len(g.reached(roots, done, ITERATE)) > LONG, f"double *restrict w, {parameters}", f"w, {', '.join(names)}", "part"
    )
    fields = {
        "pointers": " ".join(f"const double *{name} = in[{i}];" for i, name in enumerate(names)),
        "index": "steps - 1 - k" if sweep.backwards else "k",
        "row": " ".join(
            f"{name} = in[{i}] + i * rows[{i}];" for i, (name, level) in enumerate(_arguments(sweep)) if level == STEP
        ),
        "column": " ".join(
            f"{name} = in[{i}] + i * rows[{i}] + j * each[{i}];"
            for i, (name, level) in enumerate(_arguments(sweep))
            if level == ITERATE
        ),
    }
    for name, level, indent in (("run", RUN, "    "), ("step", STEP, " " * 8), ("direction", ITERATE, " " * 12)):
        values = g.reached(roots, done, level)
        done.update(values)
        fields[name] = w.block(values, f"\n{indent}")
    fields |= _stores(sweep, w, outputs)
    parts = w.functions()
    loop = template("tangents.c").substitute(fields, length=w.work)
    return "\n".join([HEAD, called(g.called), parts, loop])


def _arguments(sweep: Sweep) -> list[tuple[str, int]]:
    return list(zip(sweep.names, sweep.levels, strict=True))


def _stores(sweep: Sweep, w: Writer, outputs: list[list[int]]) -> dict[str, str]:
    """Statements that leave the outputs behind; what is carried comes last, since others may be read from it."""
    count, write, before, after = len(sweep.carried), [], [], []
    for k, values in enumerate(outputs[count:]):
        at, sign = ("j", "+=") if k < sweep.added else ("(i * count + j)", "=")
        lines = " ".join(f"to[{i}] {sign} {w.use(v)};" for i, v in enumerate(values))
        write.append(f"if (out[{k}]) {{ double *to = out[{k}] + {at} * {len(values)}; {lines} }}")
    for name, values in zip(sweep.carried, outputs[:count], strict=True):
        before += [f"const double next_{name}{i} = {w.use(v)};" for i, v in enumerate(values)]
        after += [f"((double *){name})[{i}] = next_{name}{i};" for i in range(len(values))]
    return {"write": " ".join(write), "carry": " ".join([*before, *after])}


class NativeSweep:
    """A compiled sweep."""

    name = "compiled"

    def __init__(self, sweep: Sweep, code: str) -> None:
        self.sweep, self._levels = sweep, dict(_arguments(sweep))
        library = compiler.load(code)
        try:
            self._run, self._work = library.da_sweep, ctypes.c_long.in_dll(library, "da_work").value
        except (AttributeError, ValueError) as error:
            raise CompilerError("the compiler made a library without a sweep in it; compile='auto' does without") from error
        self._run.restype, self._library = None, library

    def __call__(self, steps: int, count: int, arguments: Mapping[str, Array], outputs: Sequence[Array | None]) -> None:
        """Sweep over `steps` rows in `count` directions.

        An argument that changes with the step has one row for each step (or one for all); one that changes with the direction
        has one row for each direction (or one for all), in a matrix for each step where it changes with both. What is carried is
        changed in place, what is added up or written goes to the outputs, where these are wanted.
        """
        given = [np.ascontiguousarray(arguments[name]) for name in self.sweep.names]
        assert all(arguments[name].flags.c_contiguous for name in self.sweep.carried)
        strides = [_strides(a, self._levels[name]) for name, a in zip(self.sweep.names, given, strict=True)]
        work = np.empty(self._work + 1)
        self._run(
            ctypes.c_long(steps), ctypes.c_long(count), _pointers(given), *(_longs(s) for s in zip(*strides, strict=True)),
            _pointers(outputs), ctypes.c_void_p(work.ctypes.data),
        )  # fmt: skip


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
    return (ctypes.c_void_p * max(1, len(arrays)))(*(None if a is None else a.ctypes.data for a in arrays))


def _longs(values: Sequence[int]) -> ctypes.Array[ctypes.c_long]:
    return (ctypes.c_long * len(values))(*values)
