"""`ensemble`: many runs of one system, in lanes of vectors and on all cores, as one dataset."""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING

from numpy.typing import ArrayLike

from dalembert.checking import whole
from dalembert.engine import control
from dalembert.engine.compiler import available
from dalembert.engine.progress import Bar
from dalembert.ensembles.collecting import Collected
from dalembert.ensembles.job import Job, make
from dalembert.ensembles.reductions import Reductions
from dalembert.ensembles.running import Block, Blocks
from dalembert.ensembles.samples import Samples
from dalembert.errors import Interrupted, MethodError, suggesting
from dalembert.methods.base import Method
from dalembert.systems.base import System

if TYPE_CHECKING:
    import xarray


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
    job, drawn = make(
        system, method, samples=samples, t_end=t_end, step=step, members=members, seed=seed,
        given={"q": q, "v": v, "p": p, "x": x, "y": y, "z": z}, t0=t0, u=u, parameters=parameters, tolerance=tolerance,
        max_iterations=max_iterations, adaptive=adaptive, events=events, save_every=save_every, reduce=reduce, compile=compile,
        progress=progress,
    )  # fmt: skip
    job.check_room(drawn)
    threads = whole("cores", cores, MethodError) if cores is not None else available()
    blocks, out = job.blocks(drawn.members), job.collected(drawn)
    _run(job, blocks, drawn, out, threads, progress)
    return out.dataset({"engine": blocks.name, "cores": threads, "seconds": time.perf_counter() - begun})


def _run(job: Job, blocks: Blocks, samples: Samples, out: Collected, threads: int, progress: bool | None) -> None:
    """All blocks, a few at a time; what is done is kept where the work is interrupted."""
    done, size = 0, job.size(samples.members, threads, blocks.lanes.width if blocks.lanes else 1)
    parts = ((first, min(first + size, samples.members)) for first in range(0, samples.members, size))
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
