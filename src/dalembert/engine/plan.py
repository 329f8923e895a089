"""The plan of a symmetric factorisation: its order, the pattern of `L`, and rows and columns that many have in common.

In repeated structures the same few operations are done for row after row. They are written out, without lists and loops, one
after another as in the loops over lists that do the rest.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from functools import cache

import numpy as np
from numpy.typing import NDArray

from dalembert.engine import compiler
from dalembert.engine.emission import template
from dalembert.engine.factored import CHEAP, Factor

Numbers = NDArray[np.int32]
Texts = tuple[str, ...]
WIDE = 16  # entries of a row or column beyond which a loop is as good
OFTEN = 8  # as many must have in common what is written out
TERMS = 1500  # products that are written out at most: more take a compiler too long
PART = 0.5  # of all products: less is not worth it


@cache
def _library() -> ctypes.CDLL:
    return compiler.load(template("plan.c").template)


def _called(name: str, n: int, *arrays: NDArray[np.generic]) -> None:
    getattr(_library(), name)(ctypes.c_long(n), *(ctypes.c_void_p(a.ctypes.data) for a in arrays))


class Plan:
    """The order of elimination of a symmetric matrix, that of QDLDL; its upper half in this order; the pattern of `L`."""

    def __init__(self, f: Factor) -> None:
        self.perm = f.order()
        n, place = f.n, np.empty(f.n, dtype=np.int64)
        place[self.perm] = np.arange(n)
        columns = np.repeat(np.arange(n), np.diff(f.half.indptr))
        ends = np.sort(np.stack([place[f.half.indices], place[columns]]), axis=0)
        self.order = np.argsort(ends[1], kind="stable")
        self.row = np.ascontiguousarray(ends[0][self.order], dtype=np.int32)
        self.begin = np.searchsorted(ends[1][self.order], np.arange(n + 1)).astype(np.int32)
        parent, count, mark, next_, found, path = (np.zeros(n, dtype=np.int32) for _ in range(6))
        pattern = self.begin, self.row
        _called("da_tree", n, *pattern, parent, count, mark)
        self.lp = np.concatenate([[0], np.cumsum(count)]).astype(np.int32)
        self.low = bool(np.square(count.astype(np.int64)).sum() < CHEAP * len(f.matrix.data))
        self.li, self.list, self.entry = (np.zeros(self.lp[-1] + 1, dtype=np.int32) for _ in range(3))
        self.starts = np.zeros(n + 1, dtype=np.int32)
        lists = self.lp, self.li, self.starts, self.list, self.entry
        _called("da_rows", n, *pattern, parent, *lists, next_, mark, found, path)
        wide, digests = np.array([WIDE], dtype=np.int32), [np.zeros((n, 2), dtype=np.uint64) for _ in range(2)]
        _called("da_kinds", n, *pattern, *lists, wide, *digests, path)
        sums = np.append(0, np.cumsum(self.entry - self.lp[self.list], dtype=np.int64))
        self.rows = _frequent(digests[0], np.diff(sums[self.starts]) + np.diff(self.starts) + 1)
        self.columns = _frequent(digests[1], np.diff(self.lp) + 1)

    def row_text(self, k: int) -> Texts:
        """What is done for a row: its entries of `L`, one column after another."""
        first, m = self.starts[k], self.starts[k + 1] - self.starts[k]
        place = {int(c): a for a, c in enumerate(self.list[first : first + m])}
        own = {int(r): p for p, r in enumerate(self.row[self.begin[k] : self.begin[k + 1]])}
        out = [f"pivot = v[{own[k]}];"] if k in own else []
        out += [f"double y{a} = {f'v[{own[c]}]' if c in own else '0.0'};" for c, a in place.items()]
        for c, a in place.items():
            e = int(self.entry[first + a])
            out.append(f"{{ double *m = l + e[{a}]; const double s = y{a} * inverse[c[{a}]]; pivot -= y{a} * s;")
            out += [f"y{place[int(self.li[j])]} -= m[{j - e}] * y{a};" for j in range(int(self.lp[c]), e)]
            out.append("*m = s; }")
        return (" ".join(out),)

    def column_text(self, k: int) -> Texts:
        """What is done with a column, on the way forward and on the way back; a neighbour is at hand."""
        rows = [int(r) for r in self.li[self.lp[k] : self.lp[k + 1]]]
        names = ["near" if r == k + 1 else f"to[{r - rows[0]}]" for r in rows]
        there = [f"{name} -= m[{j}] * own;" for j, name in enumerate(names)]
        back = [f"own -= m[{j}] * {name};" for j, name in enumerate(names)]
        return " ".join(there), " ".join(back)


class Written:
    """The rows and columns of plans that are written out, each kind with a number; zero is for all others."""

    def __init__(self, plans: list[Plan]) -> None:
        self._rows = _numbered(plan.row_text(int(group[0])) for plan in plans for group in plan.rows)
        self._columns = _numbered(plan.column_text(int(group[0])) for plan in plans for group in plan.columns)

    def cases(self) -> dict[str, str]:
        """The cases of `sparse.c`."""
        return {"rows": _cases(self._rows, 0), "there": _cases(self._columns, 0), "back": _cases(self._columns, 1)}

    def kinds(self, plan: Plan) -> tuple[Numbers, Numbers]:
        """The numbers of all rows and columns of a plan."""
        rows, columns = (np.zeros(len(plan.perm), dtype=np.int32) for _ in range(2))
        for group in plan.rows:
            rows[group] = self._rows[plan.row_text(int(group[0]))]
        for group in plan.columns:
            columns[group] = self._columns[plan.column_text(int(group[0]))]
        return rows, columns


def _numbered(texts: Iterable[Texts]) -> dict[Texts, int]:
    return {text: number for number, text in enumerate(sorted(set(texts)), 1)}


def _cases(texts: dict[Texts, int], which: int) -> str:
    return "".join(f"        case {number}: {{ {text[which]} }} break;\n" for text, number in texts.items())


def _frequent(digests: NDArray[np.uint64], terms: NDArray[np.signedinteger]) -> list[NDArray[np.intp]]:
    """Groups of those for which the same is done: where that are many, and most of all that is done."""
    order = np.lexsort((digests[:, 1], digests[:, 0]))
    own = digests[order]
    begin = np.flatnonzero(np.append(True, (own[1:] != own[:-1]).any(axis=1)))
    size, each = np.diff(np.append(begin, len(order))), terms[order[begin]]
    may = np.flatnonzero((size >= OFTEN) & own[begin].any(axis=1))
    may = may[np.argsort(-(size * each)[may], kind="stable")]
    may = may[np.cumsum(each[may]) <= TERMS]
    if (size * each)[may].sum() < PART * terms.sum():
        return []
    return [order[begin[g] : begin[g] + size[g]] for g in may]
