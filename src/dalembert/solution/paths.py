"""Paths that can be written to, and files that appear whole or not at all."""

from __future__ import annotations

import hashlib
import os
import secrets
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from dalembert.errors import FileError

FORMS = {  # of files that are written: what each is called, and how its name ends
    "output": ("a solution", (".nc", ".nc4", ".netcdf", ".h5")),
    "checkpoint": ("a checkpoint", (".nc", ".nc4", ".netcdf", ".h5")),
    "store": ("a store", (".zarr",)),
    "report": ("a report", (".html", ".htm")),
    "animation": ("an animation", (".gif", ".mp4")),
}


def target(path: object, what: str = "a file", suffixes: Sequence[str] = (), folder: bool = False) -> Path:
    """A path that a file can be written to, or a folder of files, checked before any work is done."""
    if not isinstance(path, (str, Path)) or not str(path):
        raise FileError(f"a file name is expected, not {path!r}")
    out = Path(path)
    try:
        if "\0" in str(out):
            raise ValueError("it contains a zero byte")
        if out.is_dir() and not folder:
            raise FileError(f"{str(out)!r} is a directory; give a file name in it")
        if not out.parent.is_dir():
            raise FileError(f"the directory {str(out.parent)!r} does not exist; make it first")
        if folder and out.is_file():
            raise FileError(f"{str(out)!r} is a file, where a directory is to be; give another name")
        if out.exists() and not (out.is_file() or out.is_dir()):
            raise FileError(f"{str(out)!r} is no ordinary file and would be lost; give another name")
        if not os.access(out.parent, os.W_OK):
            raise FileError(f"nothing can be written to the directory {str(out.parent)!r}")
    except FileError:
        raise
    except (OSError, ValueError) as error:
        raise FileError(f"{_short(out)} is no name for a file: {error}") from error
    if suffixes and out.suffix.lower() not in suffixes:
        raise FileError(f"{what} ends in {' or '.join(dict.fromkeys(suffixes[:3]))}, which {out.name!r} does not")
    return out


def _short(path: Path) -> str:
    text = repr(str(path))
    return text if len(text) < 80 else text[:70] + "..." + text[-7:]


def _begin(path: Path) -> str:
    """How the names of the temporary files of a path begin."""
    return f".dalembert-{hashlib.sha256(path.name.encode()).hexdigest()[:8]}-"


def sweep(path: Path) -> None:
    """Remove what processes left behind that were killed while they wrote to a path."""
    for left in path.parent.glob(f"{_begin(path)}*.part{path.suffix}"):
        pid = left.name[len(_begin(path)) :].split("-")[0]
        if pid.isdigit() and not _alive(int(pid)):
            left.unlink(missing_ok=True)


def _alive(pid: int) -> bool:
    """Whether a process is there; taken for granted where that cannot be asked."""
    if sys.platform == "win32":  # there the question would end it
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


@contextmanager
def writing(path: Path, within: Path | None = None) -> Iterator[Path]:
    """A new file beside `path`, which takes its place when all went well and leaves nothing behind when not.

    A file `within` a folder of files is made beside the folder, which holds whole files only.

    Its name cannot be guessed and it is made only where there is nothing yet, so that nobody can lay a link there. Where
    `path` itself is a symbolic link, the link is replaced: what it points to is never written to.
    """
    beside = within or path
    temporary = beside.with_name(f"{_begin(beside)}{os.getpid()}-{secrets.token_hex(8)}.part{beside.suffix}")
    try:
        os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
        try:
            yield temporary
            with temporary.open("rb+") as file:
                os.fsync(file.fileno())  # a name that is there after a crash of the machine has its content
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise FileError(f"{str(path)!r} could not be written: {error.strerror or error}") from error
