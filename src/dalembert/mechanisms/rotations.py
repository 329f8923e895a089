"""Rotations as they are given: a matrix, a quaternion, an angle in the plane, or a rotation of SciPy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from dalembert.checking import reals, shown
from dalembert.errors import ModelError

Array = NDArray[np.float64]
EXPECTED = "a 3 x 3 matrix, a quaternion (w, x, y, z), an angle about z, or a scipy Rotation"
EXACT = 4e-15  # by which a rotation misses one by rounding
ROUGH = 1e-6  # by which a matrix or quaternion may miss a rotation: printed numbers have six digits


def matrix(what: str, given: object) -> Array:
    """The rotation matrix of whatever was given: columns are the axes of the body in the world."""
    if given is None:
        return np.eye(3)
    if isinstance(given, Rotation):
        return _one(what, np.asarray(given.as_matrix()))
    value = reals(what, given, ModelError, EXPECTED)
    if value.shape == ():
        return about(np.array([0.0, 0.0, 1.0]), float(value))
    if value.shape == (4,):
        return _of_quaternion(what, value)
    return _one(what, value)


def _one(what: str, value: Array) -> Array:
    """A matrix that is a rotation up to printed digits, made one to round-off."""
    if value.shape != (3, 3):
        raise ModelError(f"{what} must be {EXPECTED}, got the shape {value.shape}")
    error = float(np.abs(value.T @ value - np.eye(3)).max())
    if error > ROUGH or np.linalg.det(value) < 0:
        kind = "a reflection" if error <= ROUGH else f"no rotation: R^T R misses the identity by {error:.1e}"
        raise ModelError(f"{what} is {kind}")
    if error <= EXACT:  # so that what is written to a file and read again does not change
        return np.array(value)
    u, _, v = np.linalg.svd(value)
    return np.asarray(u @ v)


def _of_quaternion(what: str, value: Array) -> Array:
    size = float(np.linalg.norm(value))
    if abs(size - 1) > ROUGH:
        raise ModelError(f"{what} must be a unit quaternion (w, x, y, z); the length of {shown(value.tolist())} is {size:g}")
    return np.asarray(Rotation.from_quat(np.roll(value, -1)).as_matrix())


def quaternion(R: Array) -> Array:
    """The unit quaternion `(w, x, y, z)` of a rotation matrix, with `w >= 0`."""
    out = np.roll(Rotation.from_matrix(R).as_quat(), 1)
    return np.asarray(out if out[0] >= 0 else -out)


def about(axis: Array, angle: float) -> Array:
    """The rotation by an angle about a unit vector."""
    return np.asarray(Rotation.from_rotvec(angle * axis).as_matrix())


def direction(what: str, given: object, default: tuple[float, float, float] = (0.0, 0.0, 1.0)) -> Array:
    """A unit vector along what was given; two entries are a direction in the plane. `"x"`, `"y"`, `"z"` are the axes."""
    if given is None:
        return np.array(default)
    if isinstance(given, str) and given in ("x", "y", "z"):
        return np.asarray(np.eye(3)["xyz".index(given)])
    value = vector(what, given)
    size = float(np.linalg.norm(value))
    if not size:
        raise ModelError(f"{what} is a direction: it must not be zero")
    return np.asarray(value / size)


def vector(what: str, given: object) -> Array:
    """Three numbers; two are a vector in the plane."""
    value = reals(what, given, ModelError, "two or three numbers")
    if value.shape == (2,):
        return np.append(value, 0.0)
    if value.shape != (3,):
        raise ModelError(f"{what} must be two or three numbers, got the shape {value.shape}")
    return value


def frame(axis: Array, first: Array | None = None) -> Array:
    """Right-handed axes with `z` along `axis`, and `x` as near to `first` as that allows.

    Without `first`, `y` is the axis of the world that is most perpendicular to `axis`, with `z` before `y` before `x`: of an
    axis in the plane, the frame has `y` out of the plane.
    """
    z = axis / np.linalg.norm(axis)
    if first is None:
        side = np.eye(3)[2 - int(np.argmin(np.round(np.abs(z[::-1]), 12)))]
        x = np.cross(side, z)
    else:
        x = first - (first @ z) * z
    size = float(np.linalg.norm(x))
    if size < 1e-9:
        raise ModelError("the second axis of a joint must not be parallel to the first one")
    x = x / size
    return np.column_stack([x, np.cross(z, x), z])
