"""The contract between a method and the engine: one step, as expressions and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from graphlib import TopologicalSorter

import casadi as ca
import numpy as np
from casadi import SX
from numpy.typing import NDArray

from dalembert.methods.sweeping import Sweep
from dalembert.methods.tableaus import lagrange
from dalembert.systems.instructions import as_written

Array = NDArray[np.float64]
FEW = 3  # blocks that are looked at pair by pair
SMALL = 24  # unknowns of a solve that may be split row by row


@dataclass(frozen=True)
class Solve:
    """One implicit system `residual(unknowns) = 0` of a step.

    `guess` is the first iterate; it may use `last` and `before`, the solutions of the last two steps.
    `levels` orders the elimination: all unknowns of level 0 are eliminated before those of level 1 (multipliers go
    last, since their diagonal is zero). Row i of the residual is the natural equation for unknown i.
    `measure` says what Newton's test looks at: the changes of the unknowns of level 0 (of all, where all have a scale), each
    relative to its own size plus its `scale`; or, where multipliers are the only unknowns, the `"residual"`, each row relative
    to its `scale`.
    `scale * eps` is round-off in either case.
    """

    unknowns: SX
    residual: SX
    guess: SX
    scale: SX
    last: SX
    before: SX
    levels: tuple[int, ...]
    measure: str = "unknowns"
    start: SX | None = None  # stands for the solutions of earlier steps in the first one; zero by default
    keys: tuple[Hashable, ...] = ()  # of the blocks that it is made of


@dataclass(frozen=True)
class Chained:
    """The residual of a solve with names for what stands in between: `cuts` are symbols and what they stand for, in order.

    A cut may use unknowns and earlier cuts. Large systems are evaluated and differentiated link by link. `slopes` are those
    that are known, by the number of the link and of its source: -1 are the unknowns, and the residual is the last link.
    """

    residual: SX
    cuts: tuple[tuple[SX, SX], ...] = ()
    slopes: Mapping[tuple[int, int], SX] = field(default_factory=dict)


@dataclass(frozen=True)
class Linked:
    """The solves of a step as chains; its end, multipliers and work with the names of their cuts, where that is known."""

    chains: tuple[Chained, ...]
    end: tuple[SX, SX, SX] | None = None


@dataclass(frozen=True)
class Step:
    """One step of a method on a system.

    `state` is what a step starts from, by name (`q`, `v` or `p`, and what the method carries along); `next` the
    same at the end of the step. `solves` are done in order, a later one may use the unknowns of an earlier one.
    `lam` are the multipliers, defined at the point `node` of the step (0 begin, 1 end). `work` has what was
    supplied and dissipated in the step. `t`, `h`, `u` and `par` are symbols: changing a step, an input or a parameter
    rebuilds nothing. `u` has one column for each entry of `input_nodes`. A step fails where its end, its multipliers or its work
    are not finite.
    """

    t: SX
    h: SX
    u: SX
    par: SX
    state: dict[str, SX]
    solves: tuple[Solve, ...]
    next: dict[str, SX]
    lam: SX
    node: float
    work: dict[str, SX]
    input_nodes: tuple[float, ...] = (0.5,)
    start: dict[str, str] = field(default_factory=dict)  # how what is carried along begins: "zero" or "lam"
    kept: tuple[ca.Function, ...] = ()  # (state, t, par, state before, h) -> what must be small at the end, and its sizes
    known: SX = field(default_factory=lambda: SX(0, 1))  # rates and multipliers at the start of a run, for first guesses
    sweep: Sweep | None = None  # how to solve it without a matrix, where that can be
    links: Callable[[], Linked] | None = None  # the same with names for what stands in between, where there are any

    def __post_init__(self) -> None:
        if not isinstance(self.known, type(self.t)):  # what there is none of, as the other symbols are
            object.__setattr__(self, "known", type(self.t)(0, 1))

    def linked(self) -> Linked:
        """The residuals of all solves as chains; of one link where nothing else is known."""
        return Linked(tuple(Chained(s.residual) for s in self.solves)) if self.links is None else self.links()


def combined(weights: Iterable[float], values: Sequence[SX], n: int, factor: SX | None = None) -> SX:
    """A linear combination of columns of length `n`, times a factor; equal columns are taken together, zero weights left out."""
    terms: list[tuple[float, SX]] = []
    values = list(values)
    zero = (type(values[0]) if values else SX)(n, 1)
    for w, x in zip(weights, values, strict=True):
        same = next((i for i, (_, other) in enumerate(terms) if w and ca.is_equal(x, other)), None)
        if same is not None:
            terms[same] = (terms[same][0] + float(w), x)
        elif w:
            terms.append((float(w), x))
    if factor is None:
        return sum((x if w == 1 else w * x for w, x in terms), zero)
    if all(np.frexp(abs(w))[0] == 0.5 for w, _ in terms):  # powers of two: the product with the factor is exact
        return sum(((w * factor) * x for w, x in terms), zero)
    return factor * sum((w * x for w, x in terms), zero)


@dataclass(frozen=True)
class Block:
    """Unknowns of one kind at one place of a step, with the row that is natural for them.

    `size` is that of the unknowns, of a multiplier that of its row. `time` is the place in the step. `hint` is a
    guess that may use unknowns found before; without one, stages are extrapolated from the last steps, increments so that they
    begin at zero, from `points` values at least.
    """

    name: str
    time: float
    unknowns: SX
    row: SX
    size: SX
    levels: tuple[int, ...]
    multiplier: bool = False
    increment: bool = False
    hint: SX | None = None
    start: SX | None = None
    points: int = 2
    key: Hashable = None


def split_solves(blocks: Sequence[Block], h: SX | None = None) -> tuple[Solve, ...]:
    """The solves of a step: rows and unknowns in block triangular form, so that each solve needs earlier ones only.

    With the step size `h`, a small solve that is not linear as a whole is split further, row by row: what a row gives by itself
    (`_torn`), and linear equations, which need one update, are kept apart from what Newton's iteration is for.
    """
    out: list[Solve] = []
    for group in _in_turn(blocks):
        whole = _solve(group)
        if h is None or isinstance(whole.unknowns, ca.MX) or whole.unknowns.numel() > SMALL or _linear(whole):
            out.append(whole)
        else:
            finer = [part for g in _in_turn([e for b in group for e in _entries(b)]) for part in _torn(g, h)]
            out += finer if len(finer) > 1 else [whole]
    return tuple(out)


def _torn(blocks: list[Block], h: SX) -> list[Solve]:
    """The solves of single rows that depend on each other.

    A row with an unknown that has a number times a power of `h` as its factor gives this unknown, whatever the state is. It is
    put into all other rows; fewer are left, and it follows when these are solved. That is done where all multipliers are given
    so: the changes of what is left are measured then.
    """
    left, given, every = list(blocks), list[Block](), ca.vertcat(*(b.unknowns for b in blocks))
    if _linear(whole := _solve(left)):
        return [whole]
    while found := next(((row, own) for row in left for own in left if _gives(row.row, own.unknowns, every, h)), None):
        row, own = found
        factor = ca.jacobian(row.row, own.unknowns)
        zero, size = ca.substitute(row.row, own.unknowns, 0), own.size
        if own.multiplier:  # what changes the row as much as round-off of what the row is for; never zero
            slope = ca.substitute(ca.jacobian(row.row, row.unknowns), every, SX.zeros(every.numel()))
            size = row.size * (1 + ca.fabs(slope / factor))
        given.append(replace(own, row=row.row, size=size, levels=(0,), multiplier=False))
        # the row that belonged to this unknown is now that of the other one
        left = [replace(b, row=own.row) if b is row else b for b in left if b is not own]
        left = [replace(b, row=_without(b.row, own.unknowns, zero, factor)) for b in left]
    if not given or any(b.multiplier for b in left):
        return [whole]
    core = [_solve(left)] if left else []
    return core + [_solve([b]) for b in reversed(given)]


def _without(row: SX, own: SX, zero: SX, factor: SX) -> SX:
    """A row without an unknown that `zero + factor own = 0` gives; quotients of its factors are taken first, that they cancel."""
    slope = ca.densify(ca.jacobian(row, own))
    if ca.depends_on(slope, own):
        return SX(ca.substitute(row, own, -zero / factor))
    return row if slope.is_zero() else SX(ca.substitute(row, own, 0) - (slope / factor) * zero)


def _gives(row: SX, own: SX, every: SX, h: SX) -> bool:
    """Whether a row is linear in an unknown with a number times a power of `h` as its factor."""
    factor = ca.densify(ca.jacobian(row, own))
    if factor.is_zero() or ca.depends_on(factor, every) or any(not ca.is_equal(s, h) for s in ca.symvar(factor)):
        return False
    one, two, three = (abs(float(ca.substitute(factor, h, at))) for at in (0.5, 1.0, 2.0))
    return bool(0 < one * three < np.inf and np.isclose(two * two, one * three, rtol=1e-14, atol=0))


def _in_turn(blocks: Sequence[Block]) -> list[list[Block]]:
    """Groups of blocks, each of which needs earlier ones only."""
    if not blocks:
        return []
    pairs = _coupled(blocks)
    pairs |= {(i, i) for i in range(len(blocks))}  # each row belongs to its unknown
    pattern = ca.Sparsity.triplet(len(blocks), len(blocks), *(list(x) for x in zip(*sorted(pairs), strict=True)))
    count, order, _, cuts, *_ = pattern.btf()
    group_of = {i: k for k in range(count) for i in order[cuts[k] : cuts[k + 1]]}
    needs: dict[int, set[int]] = {k: set() for k in range(count)}
    for i, j in pairs:
        if group_of[i] != group_of[j]:
            needs[group_of[i]].add(group_of[j])
    return [[b for i, b in enumerate(blocks) if group_of[i] == k] for k in TopologicalSorter(needs).static_order()]


def _entries(b: Block) -> list[Block]:
    """The unknowns of a block one by one."""

    def at(x: SX | None, i: int) -> SX | None:
        return None if x is None else x[i]

    return [
        replace(b, name=f"{b.name} {i}", unknowns=b.unknowns[i], row=b.row[i], size=b.size[i], levels=b.levels[i : i + 1],
                hint=at(b.hint, i), start=at(b.start, i), key=(b.key, i))
        for i in range(b.unknowns.numel())
    ]  # fmt: skip


def _linear(solve: Solve) -> bool:
    return not ca.depends_on(ca.jacobian(solve.residual, solve.unknowns), solve.unknowns)


def _coupled(blocks: Sequence[Block]) -> set[tuple[int, int]]:
    """Which rows contain which unknowns, as numbers of blocks."""
    count = len(blocks)
    if count <= FEW or isinstance(blocks[0].row, ca.MX):
        every = ((i, j) for i in range(count) for j in range(count) if i != j)
        return {(i, j) for i, j in every if ca.depends_on(blocks[i].row, blocks[j].unknowns)}
    jacobian = ca.jacobian_sparsity(ca.vertcat(*(b.row for b in blocks)), ca.vertcat(*(b.unknowns for b in blocks)))
    owner = np.repeat(np.arange(count), [b.unknowns.numel() for b in blocks])
    rows, columns = (owner[np.array(x, dtype=int)] for x in jacobian.get_triplet())
    return {divmod(k, count) for k in set((rows * count + columns).tolist())}


def _solve(blocks: list[Block]) -> Solve:
    """One solve: what moves before the multipliers, in the order of elimination."""
    blocks = sorted(blocks, key=lambda b: b.multiplier)
    x = ca.vertcat(*(b.unknowns for b in blocks))
    last, before = type(x).sym("last", x.numel()), type(x).sym("before", x.numel())
    levels = sum((b.levels for b in blocks), ())
    alone = all(b.multiplier for b in blocks)
    if alone:
        levels = (0,) * x.numel()
    scale = ca.vertcat(*(b.size for b in blocks if alone or not b.multiplier))
    starts = [type(x)(b.unknowns.numel(), 1) if b.start is None else b.start for b in blocks]
    start = ca.vertcat(*starts)
    return Solve(
        x, ca.densify(ca.vertcat(*(b.row for b in blocks))), _guess(blocks, x, last, before), scale, last, before, levels,
        "residual" if alone else "unknowns", None if start.is_zero() else start, tuple(b.key for b in blocks),
    )  # fmt: skip


def _guess(blocks: list[Block], x: SX, last: SX, before: SX) -> SX:
    """The hints of blocks that have one, and the stages of the last steps at the places of this one for all others."""
    cuts = np.cumsum([0, *(b.unknowns.numel() for b in blocks)])
    columns = {id(b): (last[int(i) : int(j)], before[int(i) : int(j)]) for b, i, j in zip(blocks, cuts, cuts[1:], strict=False)}
    out = []
    for b in blocks:
        if b.hint is not None and not ca.depends_on(b.hint, x):
            out.append(ca.densify(b.hint))
            continue
        # of several at one time, a stage and the end of the step say, one is enough
        alike = list({o.time: o for o in (*(o for o in blocks if o.name == b.name), b)}.values())
        past, weights = extrapolation([o.time for o in alike], b.time, b.points, b.increment)
        values = [columns[id(alike[j])][age] for age, j in past]
        out.append(ca.densify(combined(weights, values, b.unknowns.numel())))
    return ca.vertcat(*out)


def extrapolation(times: Sequence[float], time: float, points: int, increment: bool) -> tuple[list[tuple[int, int]], Array]:
    """The past values `(0 last or 1 before, stage)` and their weights that give the value at `time` of the next step.

    The polynomial goes through all stages of the last step, and through the latest ones of the step before where these are fewer
    than `points`. One of increments begins at zero, and is counted from the end of its step.
    """
    known = [(0, j) for j in range(len(times))]
    more = sorted(((1, j) for j in range(len(times))), key=lambda k: -times[k[1]])
    if increment:  # increments of the step before are counted from another origin
        own = 0.0 in times
        nodes = np.array(times if own else [0.0, *times])
        ahead = lagrange(nodes, np.array([1 + time]))[0] - lagrange(nodes, np.array([1.0]))[0]
        return known, ahead if own else ahead[1:]
    known += more[: max(0, points - len(known))]
    nodes = np.array([times[j] - age for age, j in known])
    return known, lagrange(nodes, np.array([1 + time]))[0]


def two_sum(a: SX, b: SX) -> tuple[SX, SX]:
    """`a + b` and what rounding takes from it, for |a| >= |b| (Dekker 1971).

    The remainder `b - (s - a)` is zero to an algebra system: it must not be simplified.
    """
    s = a + b
    with as_written():
        return s, b - (s - a)
