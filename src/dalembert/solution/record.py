"""The record of a store: what is run, how many of its rows count, and where the engine stood then.

It lies in the attributes of the Zarr group, as one text with a digest, and is replaced as a whole: that is the moment at which
rows begin to count. What lies behind them in the arrays was being written when a run was killed, and is not looked at.

The record holds two stands, the last one and one whose rows end in an earlier chunk: where the last chunk is damaged, the run
goes on from there.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from dataclasses import dataclass, field, replace
from pathlib import Path

from dalembert.errors import DalembertWarning, FileError
from dalembert.solution.columns import Array, Column, content, put
from dalembert.solution.sampling import Sampling
from dalembert.solution.shelf import HELD, Shelf
from dalembert.systems import plain
from dalembert.systems.base import System

FORMAT = 1  # of stores
ROOT = "zarr.json"
Plain = dict[str, object]


@dataclass(frozen=True)
class Record:
    """`fixed` never changes; `stand` is where the run stands; `earlier` is such a stand of an earlier chunk."""

    path: Path
    fixed: Plain
    stand: Plain = field(default_factory=dict)
    earlier: Plain | None = None

    # ---- writing ----------------------------------------------------------------------------------------

    def advanced(self, stand: Plain, chunk: int) -> Record:
        """The record with a new stand."""
        before = self.stand if self.stand and _chunk(self.stand, chunk) < _chunk(stand, chunk) else self.earlier
        return replace(self, stand=stand, earlier=before and (before if _chunk(before, chunk) < _chunk(stand, chunk) else None))

    def write(self) -> None:
        """From now on the rows count that the stand says."""
        text = json.dumps({"fixed": self.fixed, "stand": self.stand, "earlier": self.earlier})
        attributes = {"dalembert": text, "format": FORMAT, "sha256": hashlib.sha256(text.encode()).hexdigest()}
        root = {"zarr_format": 3, "node_type": "group", "attributes": attributes}
        put(self.path / ROOT, json.dumps(root).encode(), self.path)

    # ---- reading ----------------------------------------------------------------------------------------

    @classmethod
    def read(cls, path: Path) -> Record:
        """The record of a store, refused where it is not what was written."""
        root = plain.parse(content(path / ROOT, ROOT))
        attributes = plain.get(root, "attributes", dict)
        if "dalembert" not in attributes:
            raise FileError("it is no store of dalembert's")
        version = plain.get(attributes, "format", int)
        if version != FORMAT:
            raise FileError(f"it was written by another version of dalembert (format {version}; this one reads {FORMAT})")
        text = plain.get(attributes, "dalembert", str)
        if hashlib.sha256(text.encode()).hexdigest() != plain.get(attributes, "sha256", str):
            raise FileError("its record is damaged: it is not what was written")
        found = plain.parse(text)
        stands = plain.get(found, "stand", dict), plain.maybe(found, "earlier", dict)
        return cls(path, plain.get(found, "fixed", dict), *stands)

    def system(self) -> System:
        """The model in the store, which is data."""
        text = model(self.path, plain.size(self.fixed.get("model"), "model", 1, 2**40))
        return System.loads(text.read(0, text.chunk).tobytes().decode())

    def shelf(self, system: System) -> Shelf:
        """The arrays of rows."""
        multipliers = plain.size(self.fixed.get("multipliers"), "multipliers")
        return Shelf(self.path, system, multipliers, plain.size(self.fixed.get("chunk"), "chunk", 1))

    def crossings(self, system: System) -> list[Column]:
        """The arrays of the crossings of events: time and state of each, as many of them `together` in a chunk."""
        names, chunk = plain.each(self.fixed.get("events"), "events", str), plain.size(self.fixed.get("together"), "together", 1)
        width = 1 + sum(system.size_of(name) for name in system.state)
        return [Column(self.path, f"event{k}", (f"crossing{k}", "t_state"), width, chunk) for k in range(len(names))]

    def samples(self) -> list[Sampling]:
        """The arrays of the samples of controllers, as many of them `together` in a chunk as crossings of events."""
        chunk = plain.size(self.fixed.get("together"), "together", 1)
        return [
            Sampling.of(self.path, k, found, chunk)
            for k, found in enumerate(plain.of(self.fixed.get("controllers", []), "controllers", list))
        ]

    def series(self, system: System) -> list[Column]:
        """All arrays that grow at times of their own."""
        return [*self.crossings(system), *(one.column for one in self.samples())]

    def sound(self, system: System) -> Record:
        """The same, or where the last chunk is damaged that of the stand before, which is said."""
        try:
            self._check(system)
        except FileError as error:
            if self.earlier is None:
                raise
            back = replace(self, stand=self.earlier, earlier=None)
            back._check(system)
            warnings.warn(
                f"{str(self.path)!r}: {error}; its last chunk is dropped, and the run ends at t = {back.stand['t']:g}",
                DalembertWarning,
                stacklevel=4,
            )
            return back
        return self

    def _check(self, system: System) -> None:
        known = {*self.shelf(system).columns, "model", *(column.name for column in self.series(system)), ROOT}
        if strange := sorted(entry.name for entry in self.path.iterdir() if entry.name not in known):
            raise FileError(f"it holds {strange[0]!r}, which is not dalembert's")
        self.shelf(system).check(plain.size(self.stand.get("rows"), "rows", 0, 2**62))
        counts = plain.each(self.stand.get("stored hits"), "stored hits", int)
        counts += plain.each(self.stand.get("stored samples", []), "stored samples", int)
        for column, count in zip(self.series(system), counts, strict=True):
            column.check(count)


def _chunk(stand: Plain, chunk: int) -> int:
    return plain.size(stand.get("rows"), "rows", 0, 2**62) // chunk


def model(path: Path, length: int) -> Column:
    """The array that has the model as text."""
    return Column(path, "model", ("byte",), None, length, "uint8")


def latest(column: Column, stored: int) -> Array:
    """The crossings in an array: all, or the last ones where there are more than fit well into memory."""
    return column.read(max(0, stored - HELD // (8 * (column.width or 1))), stored)
