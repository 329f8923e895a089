"""A controller of Python's in a compiled loop: what C needs to call it through the interface of the interpreter."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from dalembert.engine.run import Array

if TYPE_CHECKING:
    from dalembert.engine.sampled import Sampler

_NAMES = (
    "PyObject_CallObject", "PyObject_CallNoArgs", "PyTuple_New", "PyTuple_SetItem", "PyFloat_FromDouble", "PyFloat_AsDouble",
    "PySequence_Size", "PySequence_GetItem", "PyObject_Type", "Py_IncRef", "Py_DecRef", "PyErr_Clear", "PyEval_SaveThread",
    "PyEval_RestoreThread",
)  # fmt: skip  # in the order of da_python in asked.c
_PLAIN = (float, np.float64)
_AS_IT_IS, _MADE, _TIME = range(3)


@cache
def _interface() -> ctypes.Array[ctypes.c_void_p]:
    return (ctypes.c_void_p * len(_NAMES))(*(ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p) for name in _NAMES))


def _references(objects: Sequence[object]) -> ctypes.Array[ctypes.c_void_p]:
    """Their addresses; who asks for them keeps the objects."""
    return (ctypes.c_void_p * max(1, len(objects)))(*map(id, objects))


class _Asked(ctypes.Structure):
    """The `da_asked` of asked.c."""

    _fields_ = [
        ("py", ctypes.c_void_p),
        *((name, ctypes.py_object) for name in ("measure", "controller", "accept")),
        *((name, ctypes.c_void_p) for name in ("arguments", "plain", "kinds", "x", "time", "y", "after")),
        *((name, ctypes.c_long) for name in ("n_arguments", "n_plain", "paired")),
    ]


class Asked:
    """A controller as C calls it; arrays are handed out as copies, since it may change or keep them."""

    def __init__(self, sampler: Sampler) -> None:
        makers, constants = sampler.makers(), sampler.constants
        objects = [makers.get(name, constants.get(name)) for name in sampler.wanted]
        kinds = [_TIME if name == "t" else _MADE if name in makers else _AS_IT_IS for name in sampler.wanted]
        self._objects, self._addresses = objects, _references(objects)
        self._kinds = np.array(kinds, dtype=np.dtype("l"))
        self._plain = _references(_PLAIN)
        measure, x, t, y, after = sampler.measuring
        self._arrays: list[Array] = [x, t, y, after]
        accept = sampler.refuse if sampler.traced else sampler.accept
        self.record = _Asked(
            ctypes.addressof(_interface()), measure, sampler.given.controller, accept, ctypes.addressof(self._addresses),
            ctypes.addressof(self._plain), self._kinds.ctypes.data, x.ctypes.data, t.ctypes.data, y.ctypes.data,
            after.ctypes.data if sampler.traced else None, len(objects), len(_PLAIN), sampler.given.state is not None,
        )  # fmt: skip

    @property
    def address(self) -> int:
        return ctypes.addressof(self.record)
