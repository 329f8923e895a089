"""C for sweeps through steps with large matrices: derivatives of steps as numbers, and loops that go through them.

The formulas are those of `adjoint.py`. The entries of `R_x`, `R_z`, `N_x` and `N_z` are computed in lanes, one for each of some
steps in succession, and `R_x` is factorised there in loops, solve by solve. What is carried goes through them step after step;
by how much that misses its equations is looked at in lanes again. So the code is as long as these entries take, however many
products an elimination has; where these are few, the sweeps of `tangents.py`, which have them written out, are faster.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import ClassVar

import casadi as ca
import numpy as np

from dalembert.engine.adjoint import Changes, Sweep
from dalembert.engine.emission import template
from dalembert.engine.graph import ITERATE, STEP, Graph, Unwritable
from dalembert.engine.looped import Filled
from dalembert.engine.tangents import PART, Pieces, part
from dalembert.engine.through import DOTS, Adjoints, Curvatures, Tangents, Through
from dalembert.errors import CompilerError

SX = ca.SX
FLOOR = 1e-3  # of the largest equation: what is smaller counts as this, since its round-off is that of larger ones
MOST = 400  # unknowns of a solve: the factors of some steps in succession are to stay near the processor
Entry = tuple[int, int]  # row and column


@dataclass
class _Matrix:
    """A sparse matrix in the loops: its entries in the order in which they are gone through, each with a value of the graph."""

    name: str
    entries: list[tuple[Entry, int]]
    turned: bool  # whether it is multiplied from the left
    at: int = 0

    def table(self) -> str:
        """What its entries lead to and come from, in C."""
        ends = [(j, i) if self.turned else (i, j) for (i, j), _ in self.entries]
        lists = (_list("int", [end[k] for end in ends]) for k in (0, 1))
        return f"static const da_entries {self.name} = {{{len(ends)}, {', '.join(lists)}}};"

    def call(self, sign: str, source: str, target: str) -> str:
        return f"da_{sign}(&{self.name}, a + {self.at}, {source}, {target});"


@dataclass
class _Square:
    """The matrix of a solve, with the entries of its factors."""

    name: str
    filled: Filled
    values: list[int]
    at: int = 0

    def __post_init__(self) -> None:
        full = self.filled.full
        self.columns = [np.flatnonzero(row).tolist() for row in full]
        self.begin = list(accumulate(map(len, self.columns), initial=0))
        self.pivots = [begin + own.index(k) for k, (begin, own) in enumerate(zip(self.begin, self.columns, strict=False))]
        self.places = {(i, j): self.begin[i] + t for i, own in enumerate(self.columns) for t, j in enumerate(own)}

    @property
    def room(self) -> int:
        return self.begin[-1]

    def table(self) -> str:
        """The pattern of the factors in C."""
        lists = [_list("int", self.begin), _list("int", self.pivots), _list("short", [j for own in self.columns for j in own])]
        return f"static const da_pattern {self.name} = {{{len(self.columns)}, {', '.join(lists)}}};"

    def solve(self, turned: bool, vector: str, offset: int, unknowns: int) -> str:
        """Put a solution in the place of a right side, and keep both for the look at what it misses."""
        n, name = len(self.columns), "da_solve_turned" if turned else "da_solve"
        kept = [f"da_keep({n}, {vector}, seen + {at} * DA_W);" for at in (offset, unknowns + offset)]
        return f"{kept[0]} {name}(&{self.name}, a + {self.at}, {vector}); {kept[1]}"


def _list(kind: str, numbers: list[int]) -> str:
    return f"(const {kind}[]){{{', '.join(map(str, numbers)) or '0'}}}"


class Blocks:
    """The derivatives of a step, block by block, and the kinds of sweeps through them."""

    def __init__(self, changes: Changes) -> None:
        self.changes = c = changes
        self.offsets = [sum(x.numel() for x in c.blocks[:k]) for k in range(len(c.blocks) + 1)]
        self.before = [ca.jacobian(R, ca.vertcat(*c.blocks[:k])) if k else SX(R.numel(), 0) for k, R in enumerate(c.residuals)]
        self.rest = {"R_z": ca.jacobian(c.R, c.z), "N_x": ca.jacobian(c.N, c.x), "N_z": ca.jacobian(c.N, c.z)}

    @property
    def matrices(self) -> list[SX]:
        return [*self.changes.jacobians, *self.before, *self.rest.values()]

    @cached_property
    def filled(self) -> list[Filled]:
        return [Filled.of(J.sparsity(), order) for J, order in zip(self.changes.jacobians, self.changes.orders, strict=True)]

    @cached_property
    def operations(self) -> tuple[int, int]:
        """Of one step: what a compiler is given, and products in loops."""
        c = self.changes
        function = ca.Function("derivatives", [*c.common, c.x], [_column(e) for e in self.matrices])
        return int(function.n_instructions()), sum(filled.products for filled in self.filled)

    @property
    def cost(self) -> int:
        """What sweeps take a compiler with eliminations written out, counted in products: fewer derivatives are needed then."""
        return self.operations[0] // 4 + self.operations[1]

    def sweep(self, kind: type[Through]) -> tuple[Sweep, str]:
        """A sweep, and its source in C."""
        try:
            return (text := _TEXTS[kind](self)).sweep, text.text()
        except Unwritable as error:
            raise CompilerError(f"{error}; compile='auto' does without") from error


class _Pass(ABC):
    """A function in C that goes through one step, with the matrices that it takes; those of solves are looked at in lanes.

    Unknowns and equations stand in the order of elimination. Entries come in an order in which what is multiplied by one number
    after the other does not wait for sums.
    """

    turned: ClassVar[bool]  # whether matrices are multiplied from the left

    def __init__(self, text: _Text, values: list[list[int]]) -> None:
        self.squares, self.offsets, suffix = text.squares, text.blocks.offsets, "_turned" if self.turned else ""
        own = {f"own{k}": list(zip(s.filled.at, s.values, strict=True)) for k, s in enumerate(text.squares)}
        blocks, entries = text.blocks, dict[str, list[tuple[Entry, int]]]()
        for k, (matrix, found) in enumerate(zip(blocks.before, values, strict=False)):
            places = [(text.rows[blocks.offsets[k] + i], text.unknowns[j]) for i, j in _places(matrix)]
            entries[f"before{k}"] = list(zip(places, found, strict=True))
        for (name, matrix), found in zip(blocks.rest.items(), values[len(blocks.before) :], strict=False):
            places = [
                (text.rows[i] if name[0] == "R" else i, text.unknowns[j] if name[2] == "x" else j) for i, j in _places(matrix)
            ]
            entries[name] = list(zip(places, found, strict=True))
        self.looks, self.matrices = self._made(own, suffix), self._made(entries, suffix)

    def _made(self, entries: dict[str, list[tuple[Entry, int]]], suffix: str) -> dict[str, _Matrix]:
        out = {name: _Matrix(f"{name}{suffix}", own, self.turned) for name, own in entries.items()}
        for m in out.values():
            m.entries.sort(key=lambda entry: entry[0] if m.turned else entry[0][::-1])
        return out

    def missed(self, seen: int, work: int) -> list[str]:
        """Note by how much the solutions of all lanes miss their equations: from where both are kept, with room for the work."""
        out = []
        for look, square, offset in zip(self.looks.values(), self.squares, self.offsets, strict=False):
            places = (look.at, seen + offset, seen + self.offsets[-1] + offset, work)
            a, right, found, room = (f"(M *)(S + {at} * DA_W)" for at in places)
            out.append(f"da_note(da_missed(&{look.name}, {a}, {len(square.columns)}, {right}, {found}, {room}, lanes), &worst);")
        return out

    @abstractmethod
    def function(self) -> str:
        """The function."""


class _Tangent(_Pass):
    """`R_x x = -R_z z`, solve by solve, and the change of the next state."""

    turned = False

    def function(self) -> str:
        """The changes of unknowns and next state that belong to one of state, parameters and inputs; both begin with zeros."""
        m = self.matrices
        lines = [m["R_z"].call("minus", "z", "x")]
        for k, (square, offset) in enumerate(zip(self.squares, self.offsets, strict=False)):
            lines += [m[f"before{k}"].call("minus", "x", "x"), square.solve(False, f"x + {offset}", offset, self.offsets[-1])]
        lines += [m["N_z"].call("plus", "z", "after"), m["N_x"].call("plus", "x", "after")]
        arguments = "const double *a, const double *z, double *x, double *after, double *seen"
        return _function(f"da_tangent({arguments})", lines)


class _Adjoint(_Pass):
    """`R_x^T w = N_x^T b`, from the last solve to the first, and `z = N_z^T b - R_z^T w`."""

    turned = True

    def function(self) -> str:
        """The multipliers that belong to a slope in the next state, and the slope in the rest: both are added."""
        m = self.matrices
        lines = [m["N_x"].call("plus", "b", "w")]
        for k, (square, offset) in reversed(list(enumerate(zip(self.squares, self.offsets, strict=False)))):
            lines += [square.solve(True, f"w + {offset}", offset, self.offsets[-1]), m[f"before{k}"].call("minus", "w", "w")]
        lines += [m["N_z"].call("plus", "b", "z"), m["R_z"].call("minus", "w", "z")]
        arguments = "const double *a, const double *b, double *w, double *z, double *seen"
        return _function(f"da_adjoint({arguments})", lines)


class _Text(Pieces, ABC):
    """The text of one kind of sweep.

    Vectors of one step: `b` of the next state, `w` of equations and of unknowns, `z` of state, parameters and inputs; for second
    derivatives `x` and `y`, changes of unknowns and next state, and `b`, `w`, `x` of all lanes.
    """

    kind: ClassVar[type[Through]]
    passes: ClassVar[tuple[type[_Pass], ...]]

    def __init__(self, blocks: Blocks) -> None:
        super().__init__(Graph())
        self.blocks, c, g = blocks, blocks.changes, self.graph
        given, matrices = self.kind.arguments(c), [_column(e) for e in blocks.matrices]
        found, curved = self.found(given)
        self.sweep = self.kind.sweep(c, given, [*matrices, *curved], found)
        named = self.arguments(self.sweep)
        symbols = [[g.symbol(f"found{k}[{i}]", ITERATE) for i in range(e.numel())] for k, e in enumerate(found)]
        prelude = g.load(self.sweep.prelude, [named["h"], named["par"]])[0]
        values = g.load(self.sweep.function, [*named.values(), *symbols, prelude])
        pairs = list(zip(blocks.offsets, blocks.filled, strict=False))
        self.rows = [o + at for o, filled in pairs for at in filled.rows]
        self.unknowns = [o + at for o, filled in pairs for at in filled.unknowns]
        self.squares = [_Square(f"square{k}", f, v) for k, (f, v) in enumerate(zip(blocks.filled, values, strict=False))]
        self.through = [own(self, values[len(c.blocks) :]) for own in self.passes]
        self.curved = values[len(matrices) :]
        used = self._memory()
        vectors = ((self.kept[0], range(c.N.numel())), (self.kept[1], self.rows), (self.kept[2], self.unknowns))
        for own, (begin, places) in zip(symbols, vectors, strict=False):
            self.places |= {v: f"DA_WIDE({begin + at})" for v, at in zip(own, places, strict=True)}
        self.divide(g.level, ITERATE + 1, [v for row in values for v in row], set(), used)

    def found(self, given: dict[str, SX]) -> tuple[list[SX], list[SX]]:
        """Symbols for what the loop finds in all lanes, and what is computed from it there."""
        return [], []

    @property
    def sparse(self) -> list[_Matrix]:
        return [m for own in self.through for m in own.matrices.values()]

    @property
    def looks(self) -> list[_Matrix]:
        return [m for own in self.through for m in own.looks.values()]

    def _memory(self) -> int:
        """Where everything is, and how many places that takes: a place has a number for each lane."""
        c, at = self.blocks.changes, 0
        for square in self.squares:
            square.at, at = at, at + square.room
        for m in self.sparse:
            m.at, at = at, at + len(m.entries)
        self.count = at  # entries that loops go through step after step
        for m in self.looks:
            m.at, at = at, at + len(m.entries)
        n, x, z = c.N.numel(), c.x.numel(), c.z.numel()
        sizes = (self.count, n, x, x, 2 * x * len(self.passes), 2 * x, x, 2 * (n + x) + z)
        self.turned, *self.kept, self.seen, self.work, self.row, self.vectors_at, at = accumulate(sizes, initial=at)
        return at

    def _filled(self) -> list[str]:
        """Statements that put entries of matrices in their places."""
        out = []
        for square in self.squares:
            values = dict(zip(square.filled.at, square.values, strict=True))
            for place, at in square.places.items():
                text = self.use(values[place], None, True) if place in values else "da_wide(0)"
                out.append(f"DA_WIDE({square.at + at}) = {text};")
        for m in (*self.sparse, *self.looks):
            out += [f"DA_WIDE({m.at + k}) = {self.use(v, None, True)};" for k, (_, v) in enumerate(m.entries)]
        return out

    def row_of(self, name: str) -> str:
        """A row of an argument."""
        i = self.sweep.names.index(name)
        direction = f" + j * each[{i}]" if self.sweep.levels[i] == ITERATE else ""
        return f"(double *)in[{i}]{direction}" if name in self.sweep.carried else f"in[{i}] + at[e] * rows[{i}]{direction}"

    def lane(self, lines: list[str]) -> list[str]:
        """Statements for one step after the other."""
        (n, p, m), x = self.blocks.changes.sizes, self.blocks.changes.x.numel()
        names, begins = ("b", "w", "z", "x", "y"), accumulate((n, x, n + p + m, x), initial=0)
        one = f"S + {self.vectors_at} * DA_W"
        vectors = [f"double *const {name} = {one} + {at};" for name, at in zip(names, begins, strict=True)]
        vectors.append(f"double *const seen = S + {self.seen} * DA_W + e;")
        own = f"const double *const a = S + {self.turned} * DA_W + e * {self.count};"
        return ["for (long e = 0; e < lanes; e++) {", own, *vectors, *lines, "}"]

    def missed(self, *passes: int) -> list[str]:
        """Looks at the solutions of all lanes by some passes, each of which keeps them in its place."""
        return [line for k in passes for line in self.through[k].missed(self.seen + k * 2 * self.blocks.offsets[-1], self.work)]

    def directions(self) -> list[str]:
        """The direction that goes into a step."""
        n, p, m = self.blocks.changes.sizes
        places = zip(DOTS, (0, n, n + p), (n, p, m), strict=True)
        return [f"da_copy({size}, {self.row_of(name)}, z + {begin});" for name, begin, size in places]

    def slopes(self, name: str, more: str, begin: list[str]) -> list[str]:
        """An adjoint and what is added to it, through a step; `begin` says what `w` and `z` begin with."""
        n = self.blocks.changes.sizes[0]
        first = f"da_sum({n}, {self.row_of(name)}, {self.row_of(more)}, b);"
        return [first, *begin, "da_adjoint(a, b, w, z, seen);", f"da_copy({n}, z, {self.row_of(name)});"]

    def left(self) -> list[str]:
        """Slopes in parameters, added up, and in inputs, written."""
        n, p, m = self.blocks.changes.sizes
        return [
            f"if (out[0]) da_sum({p}, z + {n}, out[0] + j * {p}, out[0] + j * {p});",
            f"if (out[1]) da_copy({m}, z + {n + p}, out[1] + (at[e] * count + j) * {m});",
        ]

    @abstractmethod
    def direction(self) -> list[str]:
        """What is carried, through the steps of all lanes."""

    def text(self) -> str:
        """The whole translation unit."""
        statements = self._filled()
        tables = [*(square.table() for square in self.squares), *(m.table() for m in (*self.sparse, *self.looks))]
        fills = [statements[k : k + PART] for k in range(0, len(statements), PART)]
        own = [template("blocked.c").substitute(floor=FLOOR), *tables, *(one.function() for one in self.through)]
        step = [self.lanes(STEP), *(f"fill{k}(S, in, rows, each, at, j);" for k in range(len(fills)))]
        row = f"(M *)(S + {self.row} * DA_W)"
        step += [f"da_factors(&{square.name}, (M *)(S + {square.at} * DA_W), {row});" for square in self.squares]
        step.append(f"da_turned({self.count}, S, S + {self.turned} * DA_W);")
        functions = [part(f"fill{k}", lines) for k, lines in enumerate(fills)]
        return self.unit(self.sweep, step, self.direction(), "\n".join([*functions, *own]))


class _Ahead(_Text):
    """Tangents."""

    kind, passes = Tangents, (_Tangent,)

    def direction(self) -> list[str]:
        """Through the steps of all lanes."""
        n, x = self.blocks.changes.sizes[0], self.blocks.changes.x.numel()
        first = [*self.directions(), f"da_zero({x}, w);", f"da_zero({n}, b);", "da_tangent(a, z, w, b, seen);"]
        after = [f"da_copy({n}, b, {self.row_of('state_dot')});"]
        last = f"if (out[0]) da_copy({n}, b, out[0] + (at[e] * count + j) * {n});"
        return [*self.lane([*first, *after, last]), *self.missed(0)]


class _Back(_Text):
    """Adjoints."""

    kind, passes = Adjoints, (_Adjoint,)

    def direction(self) -> list[str]:
        """Through the steps of all lanes."""
        c = self.blocks.changes
        begin = [f"da_zero({c.x.numel()}, w);", f"da_zero({c.z.numel()}, z);"]
        return [*self.lane([*self.slopes("bar", "slope", begin), *self.left()]), *self.missed(0)]


class _Second(_Text):
    """Adjoints, tangents, what both make of curvatures in lanes, and the changes of adjoints."""

    kind, passes = Curvatures, (_Adjoint, _Tangent)

    def found(self, given: dict[str, SX]) -> tuple[list[SX], list[SX]]:
        """Adjoints of next state and equations, changes of unknowns; and the curvature between them."""
        c = self.blocks.changes
        b, w, x = (SX.sym(name, e.numel()) for name, e in (("b", c.N), ("w", c.R), ("x", c.x)))
        return [b, w, x], list(c.curvature(b, w, x, ca.vertcat(*(given[name] for name in DOTS))))

    def direction(self) -> list[str]:
        """Through the steps of all lanes, twice."""
        c = self.blocks.changes
        n, x = c.N.numel(), c.x.numel()
        first = self.slopes("bar", "slope", [f"da_zero({x}, w);", f"da_zero({c.z.numel()}, z);"])
        first += [*self.directions(), f"da_zero({x}, x);", f"da_zero({n}, y);", f"da_tangent(a, z, x, y, seen + {2 * x} * DA_W);"]
        kept = zip("bwx", (n, x, x), self.kept, strict=True)
        first += [f"da_keep({size}, {name}, S + {at} * DA_W + e);" for name, size, at in kept]
        by_x, by_z = self.curved
        curved = zip(self.unknowns, by_x, strict=True)
        between = [f"DA_WIDE({self.kept[1] + at}) = {self.use(v, None, True)};" for at, v in curved]
        begin = [f"da_kept({x}, S + {self.kept[1]} * DA_W + e, w);"]
        begin += [f"z[{k}] = {self.use(v, None, False)};" for k, v in enumerate(by_z)]
        last = [*self.slopes("bar_dot", "slope_dot", begin), *self.left()]
        return [*self.lane(first), *self.missed(0, 1), self.lanes(ITERATE), *between, *self.lane(last), *self.missed(0)]


_TEXTS: dict[type[Through], type[_Text]] = {text.kind: text for text in (_Ahead, _Back, _Second)}


def _function(head: str, lines: list[str]) -> str:
    return "\n    ".join([f"static void {head}\n{{", *lines]) + "\n}\n"


def _column(matrix: SX) -> SX:
    """The entries of a sparse matrix."""
    return SX(matrix.nz[:]) if matrix.nnz() else SX(0, 1)


def _places(matrix: SX) -> list[Entry]:
    return list(zip(*matrix.sparsity().get_triplet(), strict=True)) if matrix.nnz() else []
