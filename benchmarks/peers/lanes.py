"""Shorter vectors: dalembert solves stages in the lanes of a vector, and not every processor has eight of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from dalembert.engine import compiler
from peers.measure import Cell, attempt, contenders, quickest, rounds, search
from peers.problems import PROBLEMS
from peers.solvers.base import Peer
from peers.solvers.ours import Dalembert

WIDTHS = {"avx512f": ("AVX2", "-mno-avx512f"), "avx": ("SSE2", "-mno-avx")}  # what a processor has, and how to do without
CHOSEN = ("double", "four")  # problems


def shorter() -> dict[str, str]:
    """Vectors that are shorter than those of this processor, with the flag that keeps a compiler from longer ones."""
    has = compiler.processor().split()
    return {name: flag for feature, (name, flag) in WIDTHS.items() if feature in has}


@contextmanager
def kept_from(flag: str) -> Iterator[None]:
    """The compiler with one more flag."""
    command, before = compiler.find() or ("cc",), os.environ.get("DALEMBERT_CC")
    os.environ["DALEMBERT_CC"] = " ".join([*command, flag])
    compiler.find.cache_clear()
    try:
        yield
    finally:
        if before is None:
            del os.environ["DALEMBERT_CC"]
        else:
            os.environ["DALEMBERT_CC"] = before
        compiler.find.cache_clear()


def measure(
    other: Peer | None, best: dict[str, list[tuple[str, float] | None]], repeats: int, **few: float
) -> dict[str, list[dict[str, float | None]]]:
    """Seconds to each level with each kind of vector, and those of another solver in turns: in the settings that were `best`."""
    out: dict[str, list[dict[str, float | None]]] = {}
    for key, settings in best.items():
        problem = PROBLEMS[key]
        found: dict[str, list[list[Cell]]] = {}
        for name, flag in shorter().items():
            with kept_from(flag):
                trials, _ = search(problem, Dalembert(), **few)  # type: ignore[arg-type]
            found[name] = [[Cell(t) for t in contenders(trials, level)] for level in problem.levels]
        for k, (level, setting) in enumerate(zip(problem.levels, settings, strict=True)):
            cells = [cell for rows in found.values() for cell in rows[k]]
            trial = None if other is None or setting is None else attempt(problem, other, *setting)[0]
            theirs = None if trial is None else Cell(trial)
            rounds([*cells, *([] if theirs is None else [theirs])], repeats)
            row: dict[str, float | None] = {"level": level, "heyoka": None if theirs is None else theirs.best}
            for name, rows in found.items():
                chosen = quickest(rows[k])
                row[name] = None if chosen is None else chosen.best
            out.setdefault(key, []).append(row)
    return out
