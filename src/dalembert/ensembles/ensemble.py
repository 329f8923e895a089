"""`ensemble`: many runs of one system, in lanes of vectors and on all cores, as one dataset."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dalembert.checking import whole
from dalembert.engine import control
from dalembert.engine import events as watching
from dalembert.engine.case import check_call, make_grid
from dalembert.engine.machine import memory
from dalembert.engine.progress import Bar
from dalembert.ensembles.collecting import Collected, Reduced, Whole
from dalembert.ensembles.members import Task
from dalembert.ensembles.reductions import Reductions, only_final, parse
from dalembert.ensembles.running import Block, Blocks
from dalembert.ensembles.samples import Samples, draw
from dalembert.errors import Interrupted, MethodError, suggesting
from dalembert.methods.base import Method, find
from dalembert.systems.base import System

if TYPE_CHECKING:
    import xarray

Array = NDArray[np.float64]
BLOCK = 1 << 12  # members of a block, at most
ROOM = 1 << 26  # bytes that the rows of a block may take


@suggesting
def ensemble(
    system: System, method: str | Method, *, samples: Mapping[str, object], t_end: float, step: float,
    members: int | None = None, seed: int | None = None,
    q: ArrayLike | None = None, v: ArrayLike | None = None, p: ArrayLike | None = None,
    x: ArrayLike | None = None, y: ArrayLike | None = None, z: ArrayLike | None = None,
    t0: float = 0.0, u: object = None, parameters: Mapping[str, ArrayLike] | None = None,
    tolerance: float | None = None, max_iterations: int = 25,
    adaptive: bool | str | control.Control | None = False, events: object = (), save_every: int = 1,
    reduce: Reductions = None, cores: int | None = None, progress: bool | None = None, compile: bool | str = "auto",
) -> xarray.Dataset:  # fmt: skip
    """Run a system many times: with other initial values, parameters or inputs each time.

    Members are run in the lanes of the processor's vectors, several at once in each core, and agree to the last bit with
    `simulate(..., compile="newton")` of that member alone. A member that fails does not stop the others: its error is in the
    result, and its rows are nan from there on.

    Parameters
    ----------
    system, method, t_end, step, q, v, p, x, y, z, t0, u, parameters, tolerance, max_iterations, save_every
        As in `simulate`, the same for all members.
    samples
        What varies, by name: parameters of the system, initial values (`"q"`, `"v"`, ...), constant inputs `"u"`. One row a
        member; or a function `f(rng, members)`, or a distribution with `rvs`, such as those of `scipy.stats`, to draw from.
    members, seed
        How many to draw, and from which seed; the seed is an attribute of the result.
    adaptive, events
        As in `simulate`; members are then run one by one, and need `reduce`, since their times differ.
    reduce
        What to keep of each member in place of its rows: `"final"`, `"extrema"`, `"events"`, a function of its `Solution`, or
        several of these by name. Memory then does not grow with the rows.
    cores
        Threads that run members; all cores by default.
    progress
        A progress bar: None for ensembles of over two seconds in a terminal, True always, False never.
    compile
        `"auto"` compiles to C where that pays, True always, False never.

    Returns
    -------
    xarray.Dataset
        With the dimension `member`: what was sampled, rows or what `reduce` made of them, and `error`, a text that is empty
        where all went well.
    """
    begun = time.perf_counter()
    check_call(system, compile, progress)
    method = find(method)
    method.check(system)
    options = _options(adaptive, events)
    functions = parse(reduce)
    if options and not functions:
        raise MethodError("adaptive runs and events have times of their own: say what to keep of them with reduce=...")
    grid = make_grid(t0, t_end, step, save_every)
    if only_final(functions) and not options:
        grid = make_grid(t0, t_end, step, max(1, grid.steps))
    drawn = draw(system, samples, members, seed)
    given = {"q": q, "v": v, "p": p, "x": x, "y": y, "z": z}
    task = Task(system, method, grid, {k: a for k, a in given.items() if a is not None}, u, dict(parameters or {}))
    blocks = Blocks(task, drawn.members, tolerance=tolerance, max_iterations=max_iterations, compile=compile, options=options)
    out: Collected = Reduced(task, drawn, functions) if functions else Whole(task, drawn, _fits(task, drawn))
    threads = whole("cores", cores, MethodError) if cores is not None else _cores()
    _run(blocks, drawn, out, threads, progress)
    return out.dataset({"engine": blocks.name, "cores": threads, "seconds": time.perf_counter() - begun})


def _options(adaptive: bool | str | control.Control | None, events: object) -> dict[str, object]:
    """Options with which members are run one by one."""
    out: dict[str, object] = {}
    if control.find(adaptive) is not None:
        out["adaptive"] = adaptive
    if watching.make(events):
        out["events"] = events
    return out


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _row(task: Task) -> int:
    """Numbers of a row, about."""
    sizes = (task.system.size_of(name) for name in task.system.state)
    return sum(sizes) + int(getattr(task.system, "m", 0)) + 4


def _fits(task: Task, samples: Samples) -> int:
    rows = len(task.grid.saved)
    size = 8 * samples.members * (rows + 1) * _row(task)
    if size > memory() / 2:
        raise MethodError(
            f"{samples.members} members of {rows} rows need {size / 2**30:.0f} GiB of memory; save less often (save_every), or "
            "keep what is needed of each with reduce=..."
        )
    return rows


def _run(blocks: Blocks, samples: Samples, out: Collected, threads: int, progress: bool | None) -> None:
    """All blocks, a few at a time; what is done is kept where the work is interrupted."""
    done, parts = 0, _parts(blocks, samples, threads)
    with Bar(progress, samples.members, "running", "members") as bar, ThreadPoolExecutor(threads) as pool:
        running: dict[Future[Block], int] = {}
        try:
            for first, last in parts:
                running[pool.submit(blocks.run, samples.part(first, last))] = first
                while len(running) >= 2 * threads:
                    done += _take(running, out)
                    bar.show(done)
            while running:
                done += _take(running, out)
                bar.show(done)
        except BaseException as error:
            blocks.stop.value = 1
            for future in running:
                future.cancel()
            if not isinstance(error, KeyboardInterrupt):
                raise
            stopped = Interrupted(f"interrupted after {done} of {samples.members} members; error.solution holds these")
            stopped.solution = out.dataset({})  # type: ignore[assignment]
            raise stopped from error


def _take(running: dict[Future[Block], int], out: Collected) -> int:
    ended, _ = wait(running, return_when=FIRST_COMPLETED)
    count = 0
    for future in ended:
        first = running.pop(future)
        block = future.result()
        out.put(first, block)
        count += block.samples.members
    return count


def _parts(blocks: Blocks, samples: Samples, threads: int) -> Iterator[tuple[int, int]]:
    """Members in blocks: enough to keep all threads busy, small enough to stay in memory."""
    width = blocks.lanes.width if blocks.lanes else 1
    rows = 8 * (len(blocks.task.grid.saved) + 1) * _row(blocks.task)
    size = min(BLOCK, max(1, ROOM // rows), -(-samples.members // (8 * threads)))
    size = -(-size // width) * width
    for first in range(0, samples.members, size):
        yield first, min(first + size, samples.members)
