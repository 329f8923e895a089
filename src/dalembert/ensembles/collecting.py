"""What members left behind, in one dataset."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dalembert.ensembles.members import Task
from dalembert.ensembles.reductions import SUMMARIES, Parts, Reduction, Summary, of_events, only_final, parts_of
from dalembert.ensembles.running import Block
from dalembert.ensembles.samples import Samples
from dalembert.errors import MethodError
from dalembert.solution import Solution

if TYPE_CHECKING:
    import xarray

Array = NDArray[np.float64]
Variables = dict[str, tuple[tuple[str, ...], object]]
NOT_RUN = "not run"


class Collected(ABC):
    """Blocks of members as they come, in any order."""

    def __init__(self, task: Task, samples: Samples) -> None:
        self.task, self.samples = task, samples
        self.errors = np.full(samples.members, NOT_RUN, dtype=object)

    def put(self, first: int, block: Block) -> None:
        """Keep a block, whose first member has this number."""
        last = first + block.samples.members
        self.errors[first:last] = ""
        for member, error in block.errors.items():
            self.errors[first + member] = f"{type(error).__name__}: {error}"
        self._put(slice(first, last), block)

    @abstractmethod
    def _put(self, where: slice, block: Block) -> None: ...

    @abstractmethod
    def variables(self) -> tuple[Variables, Variables]:
        """Data and coordinates beside those that all have."""

    def dataset(self, attributes: Mapping[str, object]) -> xarray.Dataset:
        """What there is so far."""
        import xarray as xr

        task, samples = self.task, self.samples
        data, coords = self.variables()
        data["error"] = (("member",), self.errors.astype(str))
        for name, rows in samples.all().items():
            free = name if name not in data else f"{name}_given"
            coords[free] = (("member", *(f"{name}_{k}" for k in range(rows.ndim - 1))), rows)
        coords["member"] = (("member",), np.arange(samples.members))
        common: dict[str, object] = {"system": task.system.name, "method": str(task.method), "step": task.grid.h, **attributes}
        if samples.seed is not None:
            common["seed"] = samples.seed
        return xr.Dataset(data, coords, common)


class Whole(Collected):
    """All rows of all members."""

    def __init__(self, task: Task, samples: Samples) -> None:
        super().__init__(task, samples)
        self._blocks: dict[str, Array] = {}
        self._times: tuple[Array, Array] | None = None

    def _put(self, where: slice, block: Block) -> None:
        system, n = self.task.system, self.samples.members
        self._times = block.t, block.t_lam
        parts = block.parts()
        parts |= {"lam": block.multipliers(), "supplied": block.work[:, :, 0], "dissipated": block.work[:, :, 1]}
        if system.has_energy:
            parts["energy"] = parts["energy"][:, :, 0]
        for name, values in parts.items():
            if name not in self._blocks:
                self._blocks[name] = np.full((n, *values.shape[1:]), np.nan)
            self._blocks[name][where] = values

    def variables(self) -> tuple[Variables, Variables]:
        system = self.task.system
        coordinates = list(system.coordinates)
        axes: dict[str, tuple[str, ...]] = {
            "lam": ("time_lam", "constraint"), "supplied": ("interval",), "dissipated": ("interval",), "energy": ("time",),
        }  # fmt: skip
        data: Variables = {}
        for name, values in self._blocks.items():
            own = "coordinate" if values.shape[-1] == len(coordinates) else f"{name}_index"
            data[name] = (("member", *axes.get(name, ("time", own))), values)
        coords: Variables = {}
        if self._times is not None:
            coords |= {"time": (("time",), self._times[0]), "time_lam": (("time_lam",), self._times[1])}
            coords["coordinate"] = (("coordinate",), coordinates)
        return data, coords


class Reduced(Collected):
    """What reductions make of members."""

    def __init__(self, task: Task, samples: Samples, functions: Mapping[str, str | Reduction]) -> None:
        super().__init__(task, samples)
        self._functions = functions
        self._values: dict[str, Array] = {}

    def _put(self, where: slice, block: Block) -> None:
        summaries = [SUMMARIES[what] for what in self._functions.values() if isinstance(what, str) and what in SUMMARIES]
        if block.aligned and summaries:
            parts = block.parts(only_final(self._functions))
            for summary in summaries:
                for key, values in summary(parts).items():
                    values[list(block.errors)] = np.nan
                    self._keep(key, where, values)
            summaries = []
        single = {name: what for name, what in self._functions.items() if callable(what) or what == "events"}
        if single or summaries:
            for member in range(block.samples.members):
                solution = None if member in block.errors else block.solution(member)
                if solution is not None:
                    self._one(where.start + member, solution, summaries, single)

    def _one(self, member: int, solution: Solution, summaries: list[Summary], single: Mapping[str, str | Reduction]) -> None:
        found: Parts = {}
        for summary in summaries:
            found |= summary(parts_of(solution))
        for name, what in single.items():
            try:
                found |= {name: np.asarray(what(solution), dtype=np.float64)} if callable(what) else of_events(solution)
            except Exception as error:  # the function is the user's: it may raise anything
                self.errors[member] = f"reduce[{name!r}] failed: {type(error).__name__}: {error}"
        for key, value in found.items():
            self._keep(key, slice(member, member + 1), value[None])

    def _keep(self, key: str, where: slice, values: Array) -> None:
        if key not in self._values:
            self._values[key] = np.full((self.samples.members, *values.shape[1:]), np.nan)
        elif self._values[key].shape[1:] != values.shape[1:]:
            raise MethodError(
                f"reduce gives {key!r} with the shape {values.shape[1:]} for member {where.start}, with "
                f"{self._values[key].shape[1:]} for others; give numbers or arrays of one shape"
            )
        self._values[key][where] = values

    def variables(self) -> tuple[Variables, Variables]:
        data: Variables = {}
        names, state = list(self.task.system.coordinates), self.task.system.state
        for name, values in self._values.items():
            if name.startswith("energy") and values.ndim == 2:
                values = values[:, 0]
            axes = tuple(f"{name}_{k}" for k in range(values.ndim - 1))
            if values.shape[1:] == (len(names),) and name.removesuffix("_min").removesuffix("_max") in state:
                axes = ("coordinate",)
            data[name] = (("member", *axes), values)
        shared = any("coordinate" in axes for axes, _ in data.values())
        return data, {"coordinate": (("coordinate",), names)} if shared else {}
