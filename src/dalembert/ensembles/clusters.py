"""`sweep`: an ensemble on a cluster of processes or machines, written to a store as its members end."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dalembert.engine import control
from dalembert.engine.compiler import available
from dalembert.engine.progress import Bar
from dalembert.ensembles.job import Job, make
from dalembert.ensembles.reductions import Reductions
from dalembert.ensembles.running import Blocks
from dalembert.ensembles.samples import Samples
from dalembert.ensembles.table import Table
from dalembert.errors import DalembertError, Interrupted, MethodError, MissingPackage, suggesting
from dalembert.methods.base import Method
from dalembert.systems.base import System

if TYPE_CHECKING:
    import xarray
    from distributed import Client, Future

Array = NDArray[np.float64]
AHEAD = 4  # blocks that wait for each worker
WAIT = 10.0  # seconds for a cluster to answer


@dataclass(frozen=True)
class Piece:
    """What a worker sends back of a block: arrays with the names of their axes, one row a member, and errors."""

    data: dict[str, tuple[tuple[str, ...], Array]]
    shared: dict[str, tuple[tuple[str, ...], object]]  # coordinates, numbers or names
    errors: list[str]


@dataclass(frozen=True)
class Connection:
    """A cluster that is not looked for, or started, before there is work for it; `announce` is told of its client."""

    address: str | None
    cores: int | None
    announce: Callable[[Client], None]


@suggesting
def sweep(
    system: System, method: str | Method, *, samples: Mapping[str, object], t_end: float, step: float,
    store: str | Path | None = None, client: Client | Connection | str | None = None,
    members: int | None = None, seed: int | None = None,
    q: ArrayLike | None = None, v: ArrayLike | None = None, p: ArrayLike | None = None,
    x: ArrayLike | None = None, y: ArrayLike | None = None, z: ArrayLike | None = None,
    t0: float = 0.0, u: object = None, parameters: Mapping[str, ArrayLike] | None = None,
    tolerance: float | None = None, max_iterations: int = 25,
    adaptive: bool | str | control.Control | None = False, events: object = (), save_every: int = 1,
    reduce: Reductions = None, cores: int | None = None, progress: bool | None = None, compile: bool | str = "auto",
) -> xarray.Dataset:  # fmt: skip
    """Like `ensemble`, on a cluster, with a store that survives being killed.

    Blocks of members are sent to the workers of `dask.distributed` and written as they come back. A worker that is killed loses
    nothing: its block goes to another one. The same call goes on with a store that it finds: only what is missing is run.

    Parameters
    ----------
    store
        A Zarr directory (`sweep.zarr`) for the results, in memory by default. `xarray.open_zarr` reads it also while the sweep
        runs.
    client
        A `distributed.Client`, or the address of a scheduler; by default a cluster of processes on this machine.
    cores
        Processes of that cluster.

    The other parameters are those of `ensemble`.

    Returns
    -------
    xarray.Dataset
        That of `ensemble`; from a store it is read when it is looked at.
    """
    job, drawn = make(
        system, method, samples=samples, t_end=t_end, step=step, members=members,
        seed=Table.seed(store) if seed is None else seed, given={"q": q, "v": v, "p": p, "x": x, "y": y, "z": z}, t0=t0, u=u,
        parameters=parameters, tolerance=tolerance, max_iterations=max_iterations, adaptive=adaptive, events=events,
        save_every=save_every, reduce=reduce, compile=compile, progress=progress,
    )  # fmt: skip
    if store is None:
        job.check_room(drawn)
    key = _key(job)
    with Table.open(store, job, drawn) as table:
        if len(table.missing()):
            with connected(client, cores) as workers:
                _run(workers, job, key, drawn, table, progress)
        return table.dataset()


def _key(job: Job) -> str:
    """What tells a job from others in the workers; an error where it cannot be sent to them."""
    try:
        from distributed.protocol.pickle import dumps
    except ImportError:
        raise MissingPackage("a sweep needs dask.distributed: pip install 'dalembert[cluster]'") from None
    try:
        return hashlib.sha256(dumps(job)).hexdigest()
    except Exception as error:  # pickling runs code of the user's objects
        raise MethodError(f"this cannot be sent to other processes: {type(error).__name__}: {error}") from error


@contextmanager
def connected(client: Client | Connection | str | None, cores: int | None, dashboard: str | None = None) -> Iterator[Client]:
    """The client that was given, or one of a cluster that lives as long as it is needed."""
    from distributed import Client, LocalCluster

    if isinstance(client, Connection):
        with connected(client.address, client.cores, "127.0.0.1:0") as found:
            client.announce(found)
            yield found
        return
    if isinstance(client, Client):
        yield client
        return
    if client is not None and not isinstance(client, str):
        raise MethodError(f"client must be a distributed.Client or the address of a scheduler, not {type(client).__name__}")
    if client is not None:
        try:
            found = Client(client, timeout=WAIT)
        except Exception as error:  # of sockets, of the address, of the protocol
            raise MethodError(f"there is no cluster at {client!r}: {type(error).__name__}: {error}") from error
        with found:
            yield found
        return
    options = {"threads_per_worker": 1, "host": "127.0.0.1", "dashboard_address": dashboard}
    try:
        cluster = LocalCluster(n_workers=cores or available(), **options)
    except RuntimeError as error:  # each process imports the program that is run
        raise MethodError(
            "the processes of a cluster could not be started: put the call of a program under if __name__ == '__main__':, or "
            "give the client of a cluster that runs"
        ) from error
    with cluster, Client(cluster) as found:
        yield found


def _run(client: Client, job: Job, key: str, samples: Samples, table: Table, progress: bool | None) -> None:
    """All blocks that are missing, a few ahead of the workers."""
    from distributed import as_completed

    lost: list[str] = []
    missing = iter(table.missing())
    done = table.members_done()
    sent = client.scatter(job, broadcast=True, hash=False)
    workers = max(1, len(client.scheduler_info()["workers"]))

    def submit(block: int) -> Future:
        first, last = table.range(block)
        future = client.submit(work, sent, key, samples.part(first, last), samples.members, pure=False)
        numbers[future.key] = block
        return future

    numbers: dict[str, int] = {}
    queue = as_completed([submit(block) for _, block in zip(range(AHEAD * workers), missing, strict=False)])
    with Bar(progress, samples.members, "sweeping", "members") as bar:
        bar.show(done)
        try:
            for future in queue:
                block = numbers.pop(future.key)
                if future.status == "finished":
                    table.put(block, future.result())
                    first, last = table.range(block)
                    done += last - first
                    bar.show(done)
                else:
                    lost.append(_reason(future.exception()))
                future.release()
                for following in missing:
                    queue.add(submit(following))
                    break
        except KeyboardInterrupt as error:
            queue.clear()
            kept = "the same call goes on from its store" if table.path else "give it a store to go on from"
            raise Interrupted(f"interrupted after {done} of {samples.members} members; {kept}") from error
    if lost:
        raise MethodError(f"{len(lost)} blocks could not be run, the others are in the store: {lost[0]}")


def _reason(error: BaseException | None) -> str:
    if isinstance(error, DalembertError):
        return str(error)
    if type(error).__name__ == "KilledWorker":
        return "the workers that ran it were killed again and again; the same call tries it once more"
    return f"{type(error).__name__}: {error}"


_PREPARED: dict[str, Blocks] = {}  # in a worker: what runs the job that it works on


def work(job: Job, key: str, samples: Samples, members: int) -> Piece:
    """In a worker: run a block."""
    if key not in _PREPARED:
        _PREPARED.clear()
        _PREPARED[key] = job.blocks(members)
    blocks = _PREPARED[key]
    out = job.collected(samples)
    out.put(0, blocks.run(samples))
    data, shared = out.variables()
    return Piece(
        {name: (axes, np.asarray(values)) for name, (axes, values) in data.items()},
        {name: (axes, values) for name, (axes, values) in shared.items()},
        [str(error) for error in out.errors],
    )
