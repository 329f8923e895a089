"""Meshes from files: STL, as text or binary, and OBJ."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dalembert.errors import FileError

Array = NDArray[np.float64]
Faces = NDArray[np.int64]
LARGEST = 256 * 2**20  # bytes of a mesh that is drawn
TRIANGLE = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("rest", "<u2")])


def read(path: Path) -> tuple[Array, Faces]:
    """Corners and triangles of a file, by its ending."""
    if path.suffix.lower() not in (".stl", ".obj"):
        raise FileError(f"{path} is no mesh that can be read: STL and OBJ files are")
    try:
        if path.stat().st_size > LARGEST:
            raise FileError(f"{path} has {path.stat().st_size / 2**20:.0f} MiB; meshes of up to {LARGEST >> 20} MiB are read")
        data = path.read_bytes()
    except OSError as why:
        raise FileError(f"{path} cannot be read: {why.strerror}") from why
    corners, faces = _obj(path, data) if path.suffix.lower() == ".obj" else _stl(path, data)
    if not len(faces) or not np.isfinite(corners).all():
        raise FileError(f"{path} has no triangles, or corners that are not finite")
    return corners, faces


def _stl(path: Path, data: bytes) -> tuple[Array, Faces]:
    count = int.from_bytes(data[80:84], "little") if len(data) >= 84 else -1
    if count >= 0 and len(data) == 84 + TRIANGLE.itemsize * count:
        corners = np.frombuffer(data, TRIANGLE, count, 84)["corners"].astype(np.float64).reshape(-1, 3)
    else:
        corners = _numbers(path, [line[1:4] for line in _words(data) if line[:1] == [b"vertex"]])
    if len(corners) % 3:
        raise FileError(f"{path} ends within a triangle: {len(corners)} corners")
    unique, places = np.unique(corners, axis=0, return_inverse=True)
    return unique, places.reshape(-1, 3).astype(np.int64)


def _obj(path: Path, data: bytes) -> tuple[Array, Faces]:
    lines = list(_words(data))
    corners = _numbers(path, [line[1:4] for line in lines if line[0] == b"v"])
    faces: list[tuple[int, int, int]] = []
    for line in lines:
        if line[0] != b"f":
            continue
        try:
            ring = [int(word.split(b"/")[0]) for word in line[1:]]
        except ValueError as why:
            raise FileError(f"{path} has a face that is none: {b' '.join(line)[:80]!r}") from why
        ring = [i - 1 if i > 0 else len(corners) + i for i in ring]
        if len(ring) < 3 or min(ring) < 0 or max(ring) >= len(corners):
            raise FileError(f"{path} has a face with corners that are not there: {b' '.join(line)[:80]!r}")
        faces += [(ring[0], ring[k], ring[k + 1]) for k in range(1, len(ring) - 1)]
    return corners, np.array(faces, dtype=np.int64).reshape(-1, 3)


def _words(data: bytes) -> list[list[bytes]]:
    return [words for line in data.splitlines() if (words := line.split())]


def _numbers(path: Path, rows: list[list[bytes]]) -> Array:
    try:
        return np.array(rows, dtype=np.float64).reshape(-1, 3)
    except ValueError as why:
        raise FileError(f"{path} has corners that are no numbers") from why
