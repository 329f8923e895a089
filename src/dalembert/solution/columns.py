"""Arrays on disk that grow: Zarr version 3, of which exactly one kind is written and read.

Each chunk is a file of its own: numbers, compressed by zstd, then a check sum. A chunk is written as a whole or not at all. What
is read is compared with what would have been written before anything is made of it: there is no choice of codecs, and nothing
in a file is run. Any program that knows Zarr reads these arrays.
"""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dalembert.errors import FileError, MissingPackage
from dalembert.solution.paths import writing
from dalembert.systems import plain

Array = NDArray[np.float64]
LARGEST = 1 << 31  # bytes of a chunk, which is read as a whole
LEVEL = 1  # of the compression: more of it costs time, and gains next to nothing on numbers like these
CODECS = [{"name": "zstd", "configuration": {"level": LEVEL, "checksum": False}}, {"name": "crc32c"}]


@cache
def available() -> tuple[Callable[..., bytes], Callable[..., object], Callable[[bytes], int]]:
    """Compression, its inverse and the check sum; where they are not there, an error that says what to install."""
    try:
        import google_crc32c
        from numcodecs import zstd
    except ImportError as error:
        raise MissingPackage.of("zarr", "store", "a store") from error
    return zstd.compress, zstd.decompress, google_crc32c.value


def _sum(data: bytes) -> bytes:
    return available()[2](data).to_bytes(4, "little")


def packed(data: bytes) -> bytes:
    """Compressed, with a check sum behind."""
    out = available()[0](data, LEVEL)
    return out + _sum(out)


def unpacked(data: bytes, size: int) -> bytes:
    """The inverse, of which the size is known; what is damaged is refused."""
    body, check = data[:-4], data[-4:]
    if _sum(body) != check:
        raise FileError("its check sum is not that of its content")
    out = bytearray(size)
    try:
        available()[1](body, out)  # into that room and no more
    except (RuntimeError, ValueError) as error:
        raise FileError(str(error)) from error
    return bytes(out)


def content(path: Path, name: str) -> bytes:
    """What is in a file of a store."""
    try:
        if path.exists() and not path.is_file():
            raise FileError(f"{name!r} is no ordinary file")
        return path.read_bytes()
    except OSError as error:
        raise FileError(f"{name!r} cannot be read: {error.strerror or error}") from error


def put(path: Path, data: bytes, within: Path) -> None:
    """A file in a store, which appears as a whole."""
    with writing(path, within) as temporary:
        temporary.write_bytes(data)


@dataclass(frozen=True)
class Numbers:
    """A type of numbers: what stands where there are none, in words and as a number, and how their bytes are written."""

    empty: str | int
    fill: float
    bytes: dict[str, object]


NUMBERS = {
    "float64": Numbers("NaN", np.nan, {"name": "bytes", "configuration": {"endian": "little"}}),
    "uint8": Numbers(0, 0, {"name": "bytes"}),
}


@dataclass
class Column:
    """An array in a store: a row of `width` numbers for each entry (a number alone where it is None), `chunk` rows in a file."""

    store: Path
    name: str
    dimensions: tuple[str, ...]
    width: int | None
    chunk: int
    kind: str = "float64"
    _last: tuple[int, Array] | None = field(default=None, repr=False)  # the chunk that was read last

    @property
    def path(self) -> Path:
        return self.store / self.name

    @property
    def _shape(self) -> tuple[int, ...]:
        return (self.chunk,) if self.width is None else (self.chunk, self.width)

    @property
    def dtype(self) -> np.dtype[np.generic]:
        return np.dtype(self.kind).newbyteorder("<")

    def _file(self, number: int) -> Path:
        return self.path / "c" / "/".join([str(number)] + ["0"] * (len(self._shape) - 1))

    def _metadata(self, rows: int) -> dict[str, object]:
        return {
            "zarr_format": 3,
            "node_type": "array",
            "shape": [rows, *self._shape[1:]],
            "data_type": self.kind,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(self._shape)}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "fill_value": NUMBERS[self.kind].empty,
            "codecs": [NUMBERS[self.kind].bytes, *CODECS],
            "attributes": {},
            "dimension_names": list(self.dimensions),
        }

    # ---- writing ----------------------------------------------------------------------------------------

    def create(self) -> None:
        """An empty array, in place of whatever was there."""
        if self.path.is_dir() and not self.path.is_symlink():
            shutil.rmtree(self.path)
        (self.path / "c").mkdir(parents=True)
        self.resize(0)

    def resize(self, rows: int) -> None:
        """Say how many rows there are."""
        put(self.path / "zarr.json", json.dumps(self._metadata(rows)).encode(), self.store)

    def write(self, first: int, values: NDArray[np.generic]) -> None:
        """Rows from the beginning of a chunk on; the last chunk may be filled in part."""
        for k in range(0, len(values), self.chunk):
            part = values[k : k + self.chunk]
            whole = np.full(self._shape, NUMBERS[self.kind].fill, self.dtype)
            whole[: len(part)] = part
            path = self._file((first + k) // self.chunk)
            path.parent.mkdir(exist_ok=True)
            put(path, packed(whole.tobytes()), self.store)
        self._last = None

    # ---- reading ----------------------------------------------------------------------------------------

    def check(self, rows: int, finite: bool = True) -> None:
        """Refuse an array that was not written here, and one whose last chunk is damaged, or was written before its last row.

        Where rows are `finite`, what is not filled can be told from them.
        """
        found = plain.parse(self._bytes(self.path / "zarr.json"))
        shape = plain.get(found, "shape", list)
        length = plain.size(shape[0] if shape else None, "shape", rows, 2**62)
        if found != self._metadata(length):
            raise FileError(f"the array {self.name!r} is not one that dalembert wrote")
        if rows:
            number, last = divmod(rows - 1, self.chunk)
            if not np.isfinite(self._read(number)[last]).all() and finite:
                raise FileError(f"{os.path.relpath(self._file(number), self.store)!r} is older than the last row")

    def _bytes(self, path: Path) -> bytes:
        return content(path, os.path.relpath(path, self.store))

    def _read(self, number: int) -> Array:
        """A whole chunk."""
        if self._last is None or self._last[0] != number:
            path, size = self._file(number), math.prod(self._shape) * self.dtype.itemsize
            if size > LARGEST:
                raise FileError(f"a chunk of {self.name!r} would have {size} bytes")
            try:
                data = unpacked(self._bytes(path), size)
            except FileError as error:
                raise FileError(f"{os.path.relpath(path, self.store)!r} is damaged: {error}") from error
            self._last = number, np.frombuffer(data, self.dtype).reshape(self._shape)
        return self._last[1]

    def read(self, first: int, end: int) -> Array:
        """The rows `first .. end - 1`."""
        out = np.empty((max(0, end - first), *self._shape[1:]), self.dtype)
        at = first
        while at < end:
            number, begin = divmod(at, self.chunk)
            count = min(self.chunk - begin, end - at)
            out[at - first : at - first + count] = self._read(number)[begin : begin + count]
            at += count
        return np.asarray(out, dtype=np.dtype(self.kind))
