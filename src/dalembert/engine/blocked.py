"""C for sweeps through steps with large matrices: derivatives of steps as numbers, and loops that go through them.

The formulas are those of `adjoint.py`. The entries of `R_x`, `R_z`, `N_x` and `N_z` are computed in lanes, one for each of some
steps in succession, and `R_x` is factorised there in loops, solve by solve. What is carried goes through them step after step.
So the code is as long as these entries take, however many products an elimination has; where these are few, the sweeps of
`tangents.py`, which have them written out, are faster.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

import casadi as ca
import numpy as np

from dalembert.engine.adjoint import Changes, Sweep
from dalembert.engine.emission import template
from dalembert.engine.graph import ITERATE, STEP, Graph, Unwritable
from dalembert.engine.looped import Filled
from dalembert.engine.tangents import PART, Pieces, part
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
        return f"da_{sign}(&{self.name}, a + {self.at} * DA_W, {source}, {target});"


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

    def solve(self, own: _Matrix, vector: str) -> str:
        """Put a solution in the place of a right side, and note by how much it misses its equations."""
        n, turned = len(self.columns), "_turned" if own.turned else ""
        missed = f"da_missed(&{own.name}, a + {own.at} * DA_W, {n}, right, {vector}, right + {n})"
        copied, solved = f"da_copy({n}, {vector}, right);", f"da_solve{turned}(&{self.name}, a + {self.at} * DA_W, {vector});"
        return f"{copied} {solved} da_note({missed}, worst);"


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

    def sweep(self, kind: str) -> tuple[Sweep, str]:
        """A sweep, and its source in C."""
        try:
            return (text := _Text(self, kind)).sweep, text.text()
        except Unwritable as error:
            raise CompilerError(f"{error}; compile='auto' does without") from error


class _Text(Pieces):
    """The text of one kind of sweep.

    Unknowns and equations stand in the order of elimination. Vectors of one lane: `b` of the next state, `w` of equations and of
    unknowns, `z` of state, parameters and inputs; for second derivatives `x` and `y`, changes of unknowns and next state, and
    `b`, `w`, `x` of all lanes.
    """

    def __init__(self, blocks: Blocks, kind: str) -> None:
        super().__init__(Graph())
        self.blocks, self.kind, c = blocks, kind, blocks.changes
        more, outputs, found = c.arguments(kind), [_column(e) for e in blocks.matrices], list[SX]()
        if kind == "second":
            b, w, x = found = [SX.sym("b", c.N.numel()), SX.sym("w", c.R.numel()), SX.sym("x", c.x.numel())]
            outputs += c.curvature(b, w, x, ca.vertcat(*(more[name] for name in ("state_dot", "par_dot", "u_dot"))))
        self.sweep, g = c.sweep(kind, more, outputs, found), self.graph
        named = self.arguments(self.sweep)
        symbols = [[g.symbol(f"found{k}[{i}]", ITERATE) for i in range(e.numel())] for k, e in enumerate(found)]
        prelude = g.load(self.sweep.prelude, [named["h"], named["par"]])[0]
        values = g.load(self.sweep.function, [*named.values(), *symbols, prelude])
        pairs = list(zip(blocks.offsets, blocks.filled, strict=False))
        self.rows = [o + at for o, filled in pairs for at in filled.rows]
        self.unknowns = [o + at for o, filled in pairs for at in filled.unknowns]
        self.squares = [_Square(f"square{k}", f, v) for k, (f, v) in enumerate(zip(blocks.filled, values, strict=False))]
        self.sparse = self._sparse(values[len(c.blocks) :])
        self.curved = values[len(outputs) - 2 :] if found else [[], []]
        used = self._memory()
        vectors = ((self.kept[0], range(c.N.numel())), (self.kept[1], self.rows), (self.kept[2], self.unknowns))
        for own, (begin, places) in zip(symbols, vectors, strict=False):
            self.places |= {v: f"DA_WIDE({begin + at})" for v, at in zip(own, places, strict=True)}
        self.divide(g.level, ITERATE + 1, [v for row in values for v in row], set(), used)

    def _sparse(self, values: list[list[int]]) -> dict[str, _Matrix]:
        """All matrices but those of solves; what is multiplied by one number after the other does not wait for sums."""
        blocks, out, turned = self.blocks, dict[str, _Matrix](), self.kind != "ahead"
        for k, square in enumerate(self.squares):
            out[f"own{k}"] = _Matrix(f"own{k}", list(zip(square.filled.at, square.values, strict=True)), turned)
        for k, (matrix, own) in enumerate(zip(blocks.before, values, strict=False)):
            places = [(self.rows[blocks.offsets[k] + i], self.unknowns[j]) for i, j in _places(matrix)]
            out[f"before{k}"] = _Matrix(f"before{k}", list(zip(places, own, strict=True)), turned)
        for (name, matrix), own in zip(blocks.rest.items(), values[len(blocks.before) :], strict=False):
            places = [
                (self.rows[i] if name[0] == "R" else i, self.unknowns[j] if name[2] == "x" else j) for i, j in _places(matrix)
            ]
            out[name] = _Matrix(name, list(zip(places, own, strict=True)), turned)
        if self.kind == "second":  # tangents and adjoints
            out |= {f"{name}_": _Matrix(f"{name}_", list(m.entries), False) for name, m in out.items()}
        for m in out.values():
            m.entries.sort(key=lambda entry: entry[0] if m.turned else entry[0][::-1])
        return out

    def _memory(self) -> int:
        """Where everything is, and how many places that takes: a place has a number for each lane."""
        c, at = self.blocks.changes, 0
        for square in self.squares:
            square.at, at = at, at + square.room
        for m in self.sparse.values():
            m.at, at = at, at + len(m.entries)
        n, x, z = c.N.numel(), c.x.numel(), c.z.numel()
        *self.kept, self.row, self.vectors_at, at = accumulate((n, x, x, x, 2 * (n + x) + z + 3 * x), initial=at)
        return at

    def _filled(self) -> list[str]:
        """Statements that put entries of matrices in their places."""
        out = []
        for square in self.squares:
            values = dict(zip(square.filled.at, square.values, strict=True))
            for place, at in square.places.items():
                text = self.use(values[place], None, True) if place in values else "da_wide(0)"
                out.append(f"DA_WIDE({square.at + at}) = {text};")
        for m in self.sparse.values():
            out += [f"DA_WIDE({m.at + k}) = {self.use(v, None, True)};" for k, (_, v) in enumerate(m.entries)]
        return out

    def _tangent(self) -> str:
        """`R_x x = -R_z z`, solve by solve, and the change of the next state."""
        m = {name.removesuffix("_"): own for name, own in self.sparse.items() if not own.turned}
        lines = [m["R_z"].call("minus", "z", "x")]
        for k, (square, offset) in enumerate(zip(self.squares, self.blocks.offsets, strict=False)):
            lines += [m[f"before{k}"].call("minus", "x", "x"), square.solve(m[f"own{k}"], f"x + {offset}")]
        return "\n    ".join([*lines, m["N_z"].call("plus", "z", "after"), m["N_x"].call("plus", "x", "after")])

    def _adjoint(self) -> str:
        """`R_x^T w = N_x^T b`, from the last solve to the first, and `z = N_z^T b - R_z^T w`."""
        m = {name: own for name, own in self.sparse.items() if own.turned}
        lines = [m["N_x"].call("plus", "b", "w")]
        for k, (square, offset) in reversed(list(enumerate(zip(self.squares, self.blocks.offsets, strict=False)))):
            lines += [square.solve(m[f"own{k}"], f"w + {offset}"), m[f"before{k}"].call("minus", "w", "w")]
        return "\n    ".join([*lines, m["N_z"].call("plus", "b", "z"), m["R_z"].call("minus", "w", "z")])

    def _row(self, name: str) -> str:
        """A row of an argument."""
        i = self.sweep.names.index(name)
        direction = f" + j * each[{i}]" if self.sweep.levels[i] == ITERATE else ""
        return f"(double *)in[{i}]{direction}" if name in self.sweep.carried else f"in[{i}] + at[e] * rows[{i}]{direction}"

    def _direction(self) -> list[str]:
        """What is carried, through the steps of all lanes."""
        (n, p, m), x = self.blocks.changes.sizes, self.blocks.changes.x.numel()
        names, begins = ("b", "w", "z", "x", "y", "right"), accumulate((n, x, n + p + m, x, n), initial=0)
        one = f"S + {self.vectors_at} * DA_W"
        vectors = " ".join(f"double *const {name} = {one} + {at};" for name, at in zip(names, begins, strict=True))
        left = [
            f"if (out[0]) da_sum({p}, z + {n}, out[0] + j * {p}, out[0] + j * {p});",
            f"if (out[1]) da_copy({m}, z + {n + p}, out[1] + (at[e] * count + j) * {m});",
        ]
        dots = [
            f"da_copy({size}, {self._row(name)}, z + {begin});"
            for name, begin, size in (("state_dot", 0, n), ("par_dot", n, p), ("u_dot", n + p, m))
            if self.kind != "back"
        ]
        if self.kind == "ahead":
            after = [f"da_copy({n}, b, {self._row('state_dot')});"]
            after += [f"if (out[0]) da_copy({n}, b, out[0] + (at[e] * count + j) * {n});"]
            return _lane([vectors, *dots, "da_tangent(a, z, w, b, right, &worst);", *after])
        first = [f"da_sum({n}, {self._row('bar')}, {self._row('slope')}, b);", f"da_zero({x}, w);", f"da_zero({n + p + m}, z);"]
        first += ["da_adjoint(a, b, w, z, right, &worst);", f"da_copy({n}, z, {self._row('bar')});"]
        if self.kind == "back":
            return _lane([vectors, *first, *left])
        keep = [
            f"da_keep({size}, {name}, S + {at} * DA_W + e);" for name, size, at in zip("bwx", (n, x, x), self.kept, strict=True)
        ]
        curved = [(self.kept[1] + at, v) for at, v in zip(self.unknowns, self.curved[0], strict=True)]
        begin = [f"DA_WIDE({at}) = {self.use(v, None, True)};" for at, v in curved]
        last = [f"da_sum({n}, {self._row('bar_dot')}, {self._row('slope_dot')}, b);"]
        last += [f"da_kept({x}, S + {self.kept[1]} * DA_W + e, w);"]
        last += [f"z[{k}] = {self.use(v, None, False)};" for k, v in enumerate(self.curved[1])]
        last += ["da_adjoint(a, b, w, z, right, &worst);", f"da_copy({n}, z, {self._row('bar_dot')});"]
        return [
            *_lane([vectors, *first, *dots, "da_tangent(a, z, x, y, right, &worst);", *keep]),
            self.lanes(ITERATE), *begin, *_lane([vectors, *last, *left]),
        ]  # fmt: skip

    def text(self) -> str:
        """The whole translation unit."""
        c, statements = self.blocks.changes, self._filled()
        tables = [*(square.table() for square in self.squares), *(m.table() for m in self.sparse.values())]
        fills = [statements[k : k + PART] for k in range(0, len(statements), PART)]
        own = template("blocked.c").substitute(
            tables="\n".join(tables), floor=FLOOR, unknowns=c.x.numel(), states=c.N.numel(),
            tangent=self._tangent() if self.kind != "back" else "", adjoint=self._adjoint() if self.kind != "ahead" else "",
        )  # fmt: skip
        step = [self.lanes(STEP), *(f"fill{k}(S, in, rows, each, at, j);" for k in range(len(fills)))]
        row = f"(M *)(S + {self.row} * DA_W)"
        step += [f"da_factors(&{square.name}, (M *)(S + {square.at} * DA_W), {row});" for square in self.squares]
        functions = [part(f"fill{k}", lines) for k, lines in enumerate(fills)]
        return self.unit(self.sweep, step, self._direction(), "\n".join([*functions, own]))


def _lane(lines: list[str]) -> list[str]:
    return ["for (long e = 0; e < lanes; e++) {", "const double *const a = S + e;", *lines, "}"]


def _column(matrix: SX) -> SX:
    """The entries of a sparse matrix."""
    return SX(matrix.nz[:]) if matrix.nnz() else SX(0, 1)


def _places(matrix: SX) -> list[Entry]:
    return list(zip(*matrix.sparsity().get_triplet(), strict=True)) if matrix.nnz() else []
