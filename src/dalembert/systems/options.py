"""Options of CasADi that hold for the whole process, set for a while by one thread at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import casadi as ca

from dalembert.locks import Lock

_LOCK = Lock()  # one for all options: threads that need several cannot wait for each other


@contextmanager
def option(name: str, value: int) -> Iterator[None]:
    """Set an option of `ca.GlobalOptions` inside, and put back what it was."""
    with _LOCK:
        before = getattr(ca.GlobalOptions, f"get{name}")()
        getattr(ca.GlobalOptions, f"set{name}")(value)
        try:
            yield
        finally:
            getattr(ca.GlobalOptions, f"set{name}")(before)
