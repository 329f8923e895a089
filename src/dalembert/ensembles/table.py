"""The results of a sweep as a Zarr group: one chunk of rows a block, and a mark for each block that is complete."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dalembert.engine.identity import digest
from dalembert.ensembles.job import Job
from dalembert.ensembles.samples import Samples
from dalembert.errors import DalembertError, FileError, MethodError, MissingPackage
from dalembert.solution.claims import Claim

if TYPE_CHECKING:
    import xarray
    import zarr

VERSION = 1
ERROR = 400  # characters of an error that are kept


class Rows(Protocol):
    """What a block left behind."""

    @property
    def data(self) -> Mapping[str, tuple[tuple[str, ...], NDArray[np.float64]]]: ...
    @property
    def shared(self) -> Mapping[str, tuple[tuple[str, ...], object]]: ...
    @property
    def errors(self) -> list[str]: ...


class Table:
    """The rows of all members. A block is written first and marked then, so that what is marked is whole."""

    def __init__(self, group: zarr.Group, path: Path | None, samples: Samples, size: int) -> None:
        self._group, self.path, self._samples, self._size = group, path, samples, size
        self._claim: Claim | None = None

    @classmethod
    def open(cls, store: str | Path | None, job: Job, samples: Samples) -> Table:
        """The table of a sweep: new, or one that was begun by the same call."""
        try:
            import zarr
        except ImportError:
            raise MissingPackage("a sweep needs zarr: pip install 'dalembert[cluster]'") from None
        if store is None:
            group = zarr.create_group(zarr.storage.MemoryStore())
            return cls(group, None, samples, cls._begin(group, job, samples))
        path = Path(store)
        if path.suffix != ".zarr":
            raise MethodError(f"store must be a directory whose name ends with .zarr, not {str(store)!r}")
        claim = Claim(path)
        claim.take()
        try:
            fresh = not path.exists() or not any(path.iterdir())
            group = zarr.create_group(path) if fresh else zarr.open_group(path, mode="r+")
            size = cls._begin(group, job, samples) if fresh else _same(group, path, job, samples)
        except OSError as error:
            claim.leave()
            raise MethodError(f"{str(path)!r} cannot be written: {error.strerror or error}") from error
        except DalembertError:
            claim.leave()
            raise
        except Exception as error:  # zarr raises its own and others where a directory is no group
            claim.leave()
            raise FileError(f"{str(path)!r} is not the store of a sweep: {type(error).__name__}: {error}") from error
        out = cls(group, path, samples, size)
        out._claim = claim
        return out

    @staticmethod
    def seed(store: str | Path | None) -> int | None:
        """The seed of a store that is there: a sweep that goes on draws the same samples."""
        try:
            found = json.loads((Path(store) / "zarr.json").read_text()) if store is not None else {}
        except (OSError, ValueError, TypeError):  # there is none, or it is none of ours: `open` says what is wrong with it
            return None
        seed = found.get("attributes", {}).get("seed") if isinstance(found, dict) else None
        return seed if isinstance(seed, int) else None

    @staticmethod
    def _begin(group: zarr.Group, job: Job, samples: Samples) -> int:
        size = job.size(samples.members, os.cpu_count() or 1)
        n = samples.members
        common = {"system": job.task.system.name, "method": str(job.task.method), "step": job.task.grid.h}
        seed = {} if samples.seed is None else {"seed": samples.seed}
        for name, rows in samples.all().items():
            _array(group, f"given_{name}" if name in job.task.system.state else name, rows, ("member",), size)
        group.create_array("done", shape=(-(-n // size),), chunks=(1,), dtype="uint8", fill_value=0, dimension_names=("block",))
        group.create_array("error", shape=(n,), chunks=(size,), dtype=str, fill_value="", dimension_names=("member",))
        group.attrs.update({"dalembert": "sweep", "version": VERSION, "key": _key(job, samples), "block": size, **common, **seed})
        return size

    def __enter__(self) -> Table:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._claim is not None:
            self._claim.leave()

    def range(self, block: int) -> tuple[int, int]:
        """The members of a block: the first, and the one after the last."""
        return block * self._size, min((block + 1) * self._size, self._samples.members)

    def missing(self) -> list[int]:
        """Blocks that are still to be run."""
        return [int(k) for k in np.flatnonzero(self._group["done"][:] == 0)]

    def members_done(self) -> int:
        done = np.flatnonzero(self._group["done"][:]).tolist()
        return sum(self.range(k)[1] - self.range(k)[0] for k in done)

    def put(self, block: int, rows: Rows) -> None:
        """Write a block, and mark it."""
        first, last = self.range(block)
        n = self._samples.members
        try:
            for name, (axes, values) in rows.shared.items():
                if name not in self._group:
                    _array(self._group, name, np.asarray(values), axes, 1 << 16)
            for name, (axes, values) in rows.data.items():
                if name not in self._group:
                    self._group.create_array(
                        name, shape=(n, *values.shape[1:]), chunks=(self._size, *(max(1, k) for k in values.shape[1:])),
                        dtype="float64", fill_value=np.nan, dimension_names=axes,
                    )  # fmt: skip
                self._group[name][first:last] = values
            self._group["error"][first:last] = np.array([text[:ERROR] for text in rows.errors], dtype=object)
            self._group["done"][block] = 1
        except OSError as error:
            raise MethodError(
                f"{str(self.path)!r} cannot be written: {error.strerror or error}; what it holds is whole, and the same call "
                "goes on from there"
            ) from error

    def dataset(self) -> xarray.Dataset:
        """All that there is; from a file it is read when it is looked at."""
        import xarray as xr

        if self.path is not None:
            data = xr.open_zarr(self.path, consolidated=False, chunks=None)
        else:
            arrays = {name: (array.metadata.dimension_names, array[:]) for name, array in self._group.arrays()}
            data = xr.Dataset(arrays, attrs=dict(self._group.attrs))
        given = [name for name in data if name in self._samples.all() or str(name).startswith("given_")]
        data = data.drop_vars("done").set_coords([*given, *(n for n in ("time", "time_lam", "coordinate") if n in data)])
        return data.assign_coords(member=np.arange(self._samples.members))


def _array(group: zarr.Group, name: str, values: NDArray[Any], axes: tuple[str, ...], size: int) -> None:
    """An array that is written at once."""
    names = (*axes, *(f"{name}_{k}" for k in range(values.ndim - len(axes))))
    chunks = (min(size, max(1, len(values))), *(max(1, k) for k in values.shape[1:]))
    kind, values = (str, values.astype(object)) if values.dtype.kind == "U" else (values.dtype, values)
    group.create_array(name, shape=values.shape, chunks=chunks, dtype=kind, dimension_names=names)[:] = values


def _key(job: Job, samples: Samples) -> dict[str, str]:
    """All that a sweep depends on, by name."""
    task, grid = job.task, job.task.grid
    parts = {
        "system": task.system.dumps(), "method": task.method, "parameters": dict(task.parameters),
        "initial values": dict(task.given), "t0": grid.t0, "t_end": grid.t_end, "step": grid.h, "save_every": grid.save_every,
        "inputs u": task.u, "tolerance": job.tolerance, "max_iterations": job.max_iterations, "options": dict(job.options),
        "reduce": dict(job.functions), "samples": samples.all(),
    }  # fmt: skip
    return {name: digest(part) for name, part in parts.items()}


def _same(group: zarr.Group, path: Path, job: Job, samples: Samples) -> int:
    """The size of the blocks of a store that the same call has begun."""
    attributes = dict(group.attrs)
    if attributes.get("dalembert") != "sweep":
        raise FileError(f"{str(path)!r} is not the store of a sweep")
    if attributes.get("version") != VERSION:
        raise FileError(f"{str(path)!r} was written by another version of dalembert (format {attributes.get('version')!r})")
    found, own = attributes.get("key"), _key(job, samples)
    other = [name for name in own if not isinstance(found, dict) or found.get(name) != own[name]]
    if other:
        raise MethodError(
            f"{str(path)!r} holds another sweep: it differs in {', '.join(other)}; give this one a store of its own"
        )
    size = attributes.get("block")
    if not isinstance(size, int) or size < 1 or group["done"].shape != (-(-samples.members // size),):
        raise FileError(f"{str(path)!r} is damaged: its blocks do not fit its members")
    return size
