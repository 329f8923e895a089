"""A claim on a file: one run at a time writes it. It ends with the process that holds it, however that ends."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from dalembert.errors import MethodError
from dalembert.solution.paths import sweep

if sys.platform == "win32":
    import msvcrt

    def _lock(handle: int) -> None:
        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _lock(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


class Claim:
    """The right to write a file, held by a lock on a hidden file beside it, which is there for that time only."""

    def __init__(self, path: Path) -> None:
        self.path, self._beside = path, path.with_name(f".{path.name}.lock")
        self._handle: int | None = None

    def take(self) -> None:
        """Claim the file; an error where another run has it, or where nothing can be written."""
        while self._handle is None:
            try:
                handle = os.open(self._beside, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
            except OSError as error:
                raise MethodError(f"nothing can be written beside {str(self.path)!r}: {error.strerror or error}") from error
            try:
                _lock(handle)
                if self._is_there(handle):  # and was not taken away by its owner meanwhile
                    self._handle, handle = handle, -1
                    sweep(self.path)
            except OSError as error:
                raise MethodError(
                    f"another run is writing {str(self.path)!r}; wait for it to end, or give this one a file of its own"
                ) from error
            finally:
                if handle >= 0:
                    os.close(handle)

    def _is_there(self, handle: int) -> bool:
        try:
            return os.path.samestat(os.stat(self._beside), os.fstat(handle))
        except FileNotFoundError:
            return False

    def leave(self) -> None:
        """Give the file up."""
        if self._handle is not None:
            if sys.platform != "win32":  # there, a file that is open cannot be taken away
                self._beside.unlink(missing_ok=True)
            os.close(self._handle)
            self._handle = None
