"""The contract between a method and the engine: one step, as expressions and nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import casadi as ca

SX = ca.SX


@dataclass(frozen=True)
class Solve:
    """One implicit system `residual(unknowns) = 0` of a step.

    `guess` is the first iterate; it may use `last` and `before`, the solutions of the last two steps.
    `levels` orders the elimination: all unknowns of level 0 are eliminated before those of level 1 (multipliers go
    last, since their diagonal is zero). Row i of the residual is the natural equation for unknown i.
    `measure` says what Newton's test looks at: the changes of the unknowns of level 0, each relative to its own size
    plus its `scale`; or, where multipliers are the only unknowns, the `"residual"`, each row relative to its `scale`.
    `scale * eps` is round-off in either case.
    """

    unknowns: Any
    residual: Any
    guess: Any
    scale: Any
    last: Any
    before: Any
    levels: tuple[int, ...]
    measure: str = "unknowns"
    start: Any = None  # what stands for the solutions of earlier steps in the first one; zero where nothing is said


@dataclass(frozen=True)
class Step:
    """One step of a method on a system.

    `state` is what a step starts from, by name (`q`, `v` or `p`, and what the method carries along); `next` the
    same at the end of the step. `solves` are done in order, a later one may use the unknowns of an earlier one.
    `lam` are the multipliers and `node` the point of the step (0 begin, 1 end) at which they live. `work` has what was
    supplied and dissipated in the step. `t`, `h`, `u` and `par` are symbols: changing a step, an input or a parameter
    rebuilds nothing. `u` has one column for each entry of `input_nodes`.
    """

    t: Any
    h: Any
    u: Any
    par: Any
    state: dict[str, Any]
    solves: tuple[Solve, ...]
    next: dict[str, Any]
    lam: Any
    node: float
    work: dict[str, Any]
    input_nodes: tuple[float, ...] = (0.5,)
    start: dict[str, str] = field(default_factory=dict)  # how what is carried along begins: "zero" or "lam"
    rates: tuple[Any, Any, Any] | None = None  # nodes, q' and y' at the stages (columns), where they are of collocation


def memory(n: int, name: str = "x") -> tuple[Any, Any, Any]:
    """Symbols for the unknowns of a solve and for its solutions in the last two steps."""
    return SX.sym(name, n), SX.sym(f"{name}_last", n), SX.sym(f"{name}_before", n)


def split(x: Any, *sizes: int) -> list[Any]:
    """A column in parts of given lengths (slices of a single symbol have the wrong shape where they are empty)."""
    offsets = [0]
    for size in sizes:
        offsets.append(offsets[-1] + size)
    return list(ca.vertsplit(x, offsets))


def two_sum(a: Any, b: Any) -> tuple[Any, Any]:
    """`a + b` and what rounding takes from it, for |a| >= |b| (Dekker 1971).

    The remainder `b - (s - a)` is zero to an algebra system: it must not be simplified.
    """
    s = a + b
    ca.GlobalOptions.setSimplificationOnTheFly(False)
    try:
        return s, b - (s - a)
    finally:
        ca.GlobalOptions.setSimplificationOnTheFly(True)
