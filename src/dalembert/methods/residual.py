"""One residual for all Runge-Kutta-like methods: the form of a system and the scheme of a method make a step.

With rates `R_i` of the stages, `Y_i = y0 + h sum_j a_ij R_j` for each block of `y` with the tableau of the part that moves it,

    inertia R_i = parts(Y_i, W_i, lam_i, t_i, u_i),     relation(Y_i, W_i) = 0,     i = 1 .. s
    sum_j omega_rj level(Y_j, W_j) = 0                  for each constraint row r, over stages, nodes and end
    y1 = y0 + h sum_j b_j R_j,                          closing(y1, w1) = 0.

A block that several parts move with different tableaus has its increments `(Y_i - y0) / h` as unknowns instead.

What a row gives explicitly is taken out (`_explicit`): `q' = v`, and the accelerations of a stage whose position does not
depend on them. What can be solved in succession falls apart by itself (`split`): RATTLE's two solves for its
multipliers come out of Lobatto IIIA-IIIB with two stages, without a word about it here.
"""

from __future__ import annotations

from collections.abc import Hashable
from copy import copy
from functools import partial

import casadi as ca
import numpy as np
from casadi import SX

from dalembert.methods.linking import Cut, links
from dalembert.methods.scheme import Array, Scheme
from dalembert.methods.step import Block, Step, combined, split_solves
from dalembert.methods.sweeping import sweep
from dalembert.systems.form import Form

Node = tuple[str, int]  # a block and the place it is at: a stage, a node, or the end


class _Stages:
    """The values of all blocks at all places, as expressions of the unknowns."""

    def __init__(self, form: Form, scheme: Scheme, h: SX) -> None:
        self.form, self.scheme, self.h, self.kind = form, scheme, h, type(h)
        self.k, self.places = scheme.stages, len(scheme.c)
        self.end = self.places - 1
        self.times = [form.t + float(c) * h for c in scheme.c]
        # algebraic states of a form with a basis are those of the last stage, where that is the end of the step
        self.closed = bool(form.closing.numel()) and not (form.basis is not None and scheme.table(0).stiffly_accurate)
        late = self.closed and ca.depends_on(form.closing, form.u)  # the input at the end of the step
        self.u = self.kind.sym("u", form.u.numel(), self.k + late)
        self.input_nodes = tuple(float(c) for c in (*scheme.c[: self.k], *([1.0] * late)))
        self.several = {b for b in form.y if len({id(scheme.table(m)) for m in form.acting(b)}) > 1}
        self.unknowns: dict[Node, SX] = {}
        self.rates: dict[Node, SX] = {}
        self._values: dict[tuple[str, bytes], SX] = {}
        self.cuts: list[Cut] | None = None  # the values that have names, in order
        self._named: dict[Hashable, SX] = {}
        self._made: dict[int, tuple[SX, ca.Function, list[str]]] = {}
        self._multipliers()
        self._auxiliary()
        self.known = self._explicit()
        for b, y in form.y.items():
            for i in range(self.k):
                if (b, i) not in self.known:
                    self.unknowns[b, i] = self.kind.sym(f"{b}{i}", y.numel())

    def _multipliers(self) -> None:
        """`lam` and `mu` at the stages, of the unknown multipliers and of the one carried along."""
        form, scheme = self.form, self.scheme
        m, self.carried = form.lam.numel(), self.kind.sym("carried", 0)
        mix = np.eye(self.k) if scheme.multipliers is None else scheme.multipliers
        first = int(scheme.carried and m > 0)
        own = [self.kind.sym(f"lam{i}", m) for i in range(first, mix.shape[1])] if m else []
        for i, symbol in enumerate(own, first):
            self.unknowns["lam", i] = symbol
        if first:
            self.carried = form.begin.get("lam", self.kind.sym("carried", m))
            own = [self.carried, *own]
        # each stage begins with the same multiplier, where one is known
        self.hinted, self.pushed = (
            self.kind.sym("hinted", m),
            self.kind.sym("pushed", self._pushed()),
        )
        self.shares = np.linalg.lstsq(mix, np.ones(self.k), rcond=None)[0]
        self.lam = [combined(row, own, m) for row in mix] if m else [form.lam] * self.k
        count = form.mu.numel()
        self.mu = [self.kind.sym(f"mu{i}", count) for i in range(self.k)]
        if count:
            self.unknowns |= {("mu", i): symbol for i, symbol in enumerate(self.mu)}

    def _pushed(self) -> int:
        """How many rates may be known at the start of a run: accelerations, or auxiliary variables that no state holds."""
        form = self.form
        return int(form.inertia["v"].size1() if "v" in form.inertia else 0 if "w" in form.begin else form.w.numel())

    def _auxiliary(self) -> None:
        """`w` at the stages, at nodes and at the end where a constraint looks at it, and what closes the step."""
        form, scheme = self.form, self.scheme
        n = form.w.numel()
        if self.closed and not n:
            self.unknowns["close", self.end] = self.kind.sym("close", form.closing.numel())
        seen = {level for level, e in form.levels.items() if ca.depends_on(e, form.w)} if n else set()
        looked = {int(i) for level in seen & set(scheme.rows) for i in np.flatnonzero(np.abs(scheme.rows[level]).sum(axis=0))}
        places = [i for i in range(self.places) if n and (i < self.k or i in looked or (i == self.end and self.closed))]
        # a stage or node that is the end of the step has the same w
        same = next((i for i in places if i < self.end and self._is_end(i)), self.end)
        self.w = {i: self.kind.sym(f"w{i}", n) for i in places if i != self.end or same == self.end}
        self.unknowns |= {("w", i): symbol for i, symbol in self.w.items()}
        if self.end in places:
            self.w[self.end] = self.w[same]

    def _is_end(self, i: int) -> bool:
        """Whether a place is the end of the step for every part."""
        tables = [self.scheme.weights(m) for m in range(len(self.scheme.tables))]
        return bool(self.scheme.c[i] == 1.0) and all(np.abs(W[i] - W[-1]).max() < 1e-14 for W in tables)

    def function(self, e: SX) -> tuple[ca.Function, list[str]]:
        """An expression of the form as a function, and the blocks of `y` that it needs."""
        if id(e) not in self._made:
            form = self.form
            arguments = [*form.y.values(), form.w, form.lam, form.mu, form.t, form.u, form.par]
            needs = [b for b, symbol in form.y.items() if ca.depends_on(e, symbol)]
            # the expression is kept with it, so that no other one can have its identity
            value = e if isinstance(e, ca.MX) and e.size2() > 1 else ca.densify(e)
            self._made[id(e)] = e, ca.Function("f", arguments, [value]), needs
        return self._made[id(e)][1:]

    def at(self, e: SX, i: int) -> SX:
        """An expression of the form at a place."""
        form, stage = self.form, i < self.k
        f, needs = self.function(e)
        # what is not needed must not be asked for: it may be just what is being made
        values = [self.value(b, i) if b in needs else symbol for b, symbol in form.y.items()]
        lam = self.lam[i] if stage else self.unknowns.get(("close", i), form.lam) if form.lam.numel() else form.lam
        mu, u = (self.mu[i], self.u[:, i]) if stage else (form.mu, self.u[:, -1])
        arguments = [*values, self.w.get(i, form.w), lam, mu, self.times[i], u, form.par]
        out: SX = f.call(arguments, isinstance(self.h, ca.MX))[0]
        return out

    def part(self, m: int, block: str, i: int) -> SX:
        """A part of the right-hand side of a block at a stage."""
        return self.at(self.form.parts[m][block], i)

    def right(self, block: str, i: int) -> SX:
        """The right-hand side of a block at a stage."""
        n = self.form.y[block].numel()
        return sum((self.part(m, block, i) for m in self.form.acting(block)), self.kind(n, 1))

    def weights(self, block: str, i: int) -> Array:
        return np.asarray(self.scheme.weights((self.form.acting(block) or [0])[0])[i])

    def value(self, block: str, i: int) -> SX:
        """A block of `y` at a place; a name for it, where links are made."""
        if self.cuts is None:
            return self._value(block, i)
        key = block, i if block in self.several else self.weights(block, i).tobytes(), i == self.end and self.closed
        if key not in self._named:
            self._named[key] = whole = self._value(block, i)
            if block in self.several or self.weights(block, i).any():  # else it is the value at the beginning
                self._named[key] = self.kind.sym(f"{block}{i}", whole.numel())
                self.cuts.append(Cut(self._named[key], ca.densify(whole), block, i))
        return self._named[key]

    def linked(self) -> _Stages:
        """The same unknowns, with names for the values of all blocks at all places."""
        out = copy(self)
        out.cuts, out.rates, out._values, out._named = [], {}, {}, {}
        return out

    def _value(self, block: str, i: int) -> SX:
        y0 = self.form.begin[block]
        if i == self.end and self.closed and self.form.basis is not None:
            V, rank = self.form.basis[1:]
            free = V[:, rank:]
            moved = y0 + combined(self.weights(block, i), [self.rate(block, j) for j in range(self.k)], y0.numel(), self.h)
            return moved + free @ (self.unknowns["close", i] - free.T @ moved)
        if block not in self.several:
            weights = self.weights(block, i)
            key = block, weights.tobytes()  # places with the same weights have the same value
            if key not in self._values:
                rates = [self.rate(block, j) if a else y0 for j, a in enumerate(weights)]
                self._values[key] = y0 + combined(weights, rates, y0.numel(), self.h)
            return self._values[key]
        if i < self.k:
            return y0 + self.h * self.unknowns[block, i]
        return y0 + self.h * self.moved(block, i)

    def moved(self, block: str, i: int) -> SX:
        """The increment over `h` at a place, of a block that several parts move."""
        n, total = self.form.y[block].numel(), self.kind(self.form.y[block].numel(), 1)
        for m in self.form.acting(block):
            W = self.scheme.weights(m)[i]
            total += combined(W, [self.part(m, block, j) if W[j] else self.kind(n, 1) for j in range(self.k)], n)
        return total

    def rate(self, block: str, j: int) -> SX:
        """The rate of a block at a stage: unknown, or given explicitly by its row."""
        if (block, j) not in self.rates:
            if (block, j) in self.known:
                inverse, right = self.form.inverse(block), self.right(block, j)
                self.rates[block, j] = right if inverse is None or block not in self.form.inertia else inverse @ right
            elif self.form.basis is not None:
                self.rates[block, j] = self.form.basis[1] @ self.unknowns[block, j]
            else:
                self.rates[block, j] = self.unknowns[block, j]
        return self.rates[block, j]

    def _explicit(self) -> set[Node]:
        """Rates that their rows give explicitly, one after the other: no such rate may lead to itself through others.

        A scheme that need not divide by masses does not: one of them may be zero.
        """
        known: set[Node] = set()
        for b in self.form.y:
            if b in self.several or self.form.inverse(b) is None or (b in self.form.inertia and not self.scheme.divides):
                continue
            for i in range(self.k):
                if not self._reaches((b, i), known | {(b, i)}):
                    known.add((b, i))
        return known

    def _reaches(self, goal: Node, known: set[Node]) -> bool:
        """Whether the right-hand side of a rate contains that rate, when all `known` ones are replaced by theirs."""
        seen: set[Node] = set()
        stack = [goal]
        while stack:
            block, i = stack.pop()
            needs = {b for m in self.form.acting(block) for b in self.function(self.form.parts[m][block])[1]}
            for other in needs - self.several:
                for j in np.flatnonzero(self.weights(other, i)):
                    node = (other, int(j))
                    if node == goal:
                        return True
                    if node in known and node not in seen:
                        seen.add(node)
                        stack.append(node)
        return False

    # ---- rows -------------------------------------------------------------------------------------------

    def rows(self) -> dict[Node, tuple[SX, SX]]:
        """The row of each unknown, and the size of the unknown (of a multiplier: of its row)."""
        form, out = self.form, {}
        for (b, i), symbol in self.unknowns.items():
            n = symbol.numel()
            if b in form.y:
                out[b, i] = self._row(b, i), self._size(b, n)
            elif b == "w":
                out[b, i] = self.at(form.relation if i < self.end else form.closing, i), self._size(b, n)
            elif b == "close":
                out[b, i] = self.at(form.closing, i), self._size("w", n)
        return out | self._constraints()

    def _size(self, name: str, n: int) -> SX:
        """The size of a kind of unknown or row."""
        size = self.begun(self.form.sizes.get(name, self.kind(1.0)))
        return size if size.numel() == n else ca.repmat(size, n, 1)

    def begun(self, e: SX) -> SX:
        """An expression of the state at the beginning of the step, with the inputs of the first stage."""
        return ca.substitute(e, self.form.u, self.u[:, 0]) if self.form.u.numel() else e

    def before(self, name: str, i: int) -> SX | None:
        """The value of an unknown at the stage before, which may have been found already."""
        j = min(i, self.k) - 1
        if j < 0:
            return None
        if name == "close":
            return self.lam[j] if self.form.basis is None else None
        if name == "lam":
            return self.unknowns.get((name, j))
        if name == "w":
            return self.w[j]
        return self.rate(name, j) if name in self.form.y and name not in self.several and self.form.basis is None else None

    def _row(self, b: str, i: int) -> SX:
        form = self.form
        if b in self.several:
            return self.unknowns[b, i] - self.moved(b, i)
        rate = self.rate(b, i)
        if b in form.inertia:
            rate = self.at(form.inertia[b], i) @ rate
        row = rate - self.right(b, i)
        return form.basis[0].T @ row if form.basis is not None else row

    def _constraints(self) -> dict[Node, tuple[SX, SX]]:
        """One row for each multiplier: positions (and nonholonomic moments) of each stage, then velocities."""
        levels = {level: self._level(level, R) for level, R in self.scheme.rows.items() if level in self.form.levels}
        mu = levels.pop("position", []) if self.form.mu.numel() else []
        joined = [levels[name] for name in ("position", "nonholonomic") if name in levels]
        rows = [(ca.vertcat(*(r for r, _ in both)), ca.vertcat(*(z for _, z in both))) for both in zip(*joined, strict=True)]
        rows += levels.get("velocity", [])
        own = [node for node in self.unknowns if node[0] == "lam"]
        out = dict(zip(own, rows[len(rows) - len(own) :], strict=True)) if own else {}
        return out | {("mu", i): row for i, row in enumerate(mu)}

    def _level(self, level: str, R: Array) -> list[tuple[SX, SX]]:
        """The rows of one level, and their sizes."""
        g = self.form.levels[level]
        places = [i for i in range(self.places) if np.abs(R[:, i]).max() > 1e-14]
        values = [self.at(g, i) for i in places]
        moments = any(np.count_nonzero(row) > 1 for row in R)
        factor = self.kind(1.0) if not moments else self.h if level == "nonholonomic" else 1 / self.h
        size = ca.fabs(factor) * self._size(level, g.numel())
        weights = np.where(np.abs(R) > 1e-14, R, 0.0)[:, places]
        return [(factor * combined(row, values, g.numel()), size) for row in weights]


def step(form: Form, scheme: Scheme, h: SX) -> Step:
    """The step of a scheme on a form."""
    form = form.stabilised() if scheme.stabilised else form
    s = _Stages(form, scheme, h)
    rows = s.rows()
    blocks = [_block(s, node, symbol, *rows[node]) for node, symbol in s.unknowns.items()]
    state, after, begin = dict(form.state), _end(s), {}
    if s.carried.numel() and "lam" not in form.begin:  # the last multiplier is the first one of the next step
        state["lam"], after["lam"], begin["lam"] = s.carried, s.lam[-1], "lam"
    supplied, dissipated = _work(s)
    solves = split_solves(blocks)
    return Step(
        t=form.t, h=h, u=s.u, par=form.par,
        state=state, solves=solves, next=after,
        lam=_reported(s),
        node=scheme.report[1] if scheme.report else 1.0,
        work={"supplied": supplied, "dissipated": dissipated},
        input_nodes=s.input_nodes, start=begin, known=ca.vertcat(s.pushed, s.hinted), sweep=sweep(form, scheme, s.unknowns),
        links=partial(links, s, solves, _closed),
    )  # fmt: skip


def _closed(s: _Stages) -> tuple[SX, SX, SX]:
    """The state at the end of the step with what is carried along, the multipliers that are reported, and work."""
    carried = (s.lam[-1],) if s.carried.numel() and "lam" not in s.form.begin else ()
    return ca.vertcat(*_end(s).values(), *carried), _reported(s), ca.vertcat(*_work(s))


def _end(s: _Stages) -> dict[str, SX]:
    """The state at the end of the step."""
    form, out = s.form, {}
    for name in form.state:
        if name in form.y:
            out[name] = s.value(name, s.end)
        else:
            out[name] = s.w[s.end] if form.w.numel() else s.unknowns.get(("close", s.end), form.state[name])
    return out


def _reported(s: _Stages) -> SX:
    """The multipliers that a step reports."""
    return combined(s.scheme.report[0], s.lam, s.form.lam.numel()) if s.scheme.report else s.kind(0, 1)


def _work(s: _Stages) -> tuple[SX, SX]:
    """Work by the quadrature of the stages; where positions hold at the stages, reactions work by moving constraints alone."""
    power, b = s.form.power, s.scheme.table(0).b
    reaction = power.moving if "position" in s.scheme.rows and not s.scheme.stabilised else power.reaction
    parts = [ca.densify(power.supplied + reaction), ca.densify(power.dissipated)]
    values = [[s.at(e, i) if not e.is_zero() else s.kind(0.0) for i in range(s.k)] for e in parts]
    supplied, dissipated = (s.h * combined(b, v, 1) for v in values)
    return supplied, dissipated


def _block(s: _Stages, node: Node, symbol: SX, row: SX, size: SX) -> Block:
    """An unknown with its row, its size, and what it is guessed from."""
    form, (name, i), n = s.form, node, symbol.numel()
    levels, start = (0,) * n, None
    if name in ("lam", "mu"):
        levels = (1,) * n
    elif name in form.y and form.basis is not None:
        levels = (0,) * form.basis[2] + (1,) * (n - form.basis[2])
    if name in form.first:
        start = s.begun(form.first[name]) * (float(s.scheme.c[i]) if name in s.several else 1.0)
    elif name in ("w", "lam", "close"):
        start = form.begin.get("w" if name == "w" else "lam")
        if name == "lam" and start is None:
            start = float(s.shares[i]) * s.hinted
    elif name == "v" and name not in s.several and s.pushed.numel():
        start = s.pushed
    if name == "w" and start is None and s.pushed.numel() == n:
        start = s.pushed
    return Block(
        name=name, time=float(s.scheme.c[i]), unknowns=symbol, row=row, size=size, levels=levels,
        multiplier=name in ("lam", "mu"), increment=name in s.several, hint=s.before(name, i), start=start,
        points=max(2, s.k - 1), key=node,
    )  # fmt: skip
