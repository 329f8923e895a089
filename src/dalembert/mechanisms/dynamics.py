"""Inverse and forward dynamics of a system: the forces of a motion, and the motion of forces.

    M(q) a + h(q, v, t) = tau,     h = M' v - (T - V)_q + R v - f.

Arguments may be stacked with time first, and so are the results. With kinematics `q' = Z(q) v` all forces are those of `v`.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from dalembert.checking import reals, shown
from dalembert.errors import ModelError, suggesting
from dalembert.mechanisms.rotations import Array
from dalembert.systems.mechanical import Mechanical


@suggesting
def mass_matrix(system: Mechanical, q: ArrayLike, *, parameters: Mapping[str, ArrayLike] | None = None) -> Array:
    """`M(q)`."""
    at = _arguments(system, q=q)
    M = system.numeric("mass", system.pack(parameters), **at)
    return M.reshape(-1, system.nv, system.nv) if at["q"].ndim == 2 else M.reshape(system.nv, system.nv)


@suggesting
def potential_force(
    system: Mechanical, q: ArrayLike, *, t: float = 0.0, parameters: Mapping[str, ArrayLike] | None = None
) -> Array:
    """`V_q` (`Z^T V_q`): what motors have to give at rest, against gravity and springs."""
    at, par = _arguments(system, q=q), system.pack(parameters)
    slope = system.numeric("slope", par, **at, t=t)
    if system.has("kinematics"):
        slope = np.einsum("kij,ki->kj", system.numeric("kinematics", par, **at), slope)
    return slope if at["q"].ndim == 2 else slope[0]


@suggesting
def bias(
    system: Mechanical, q: ArrayLike, v: ArrayLike, *, t: float = 0.0, parameters: Mapping[str, ArrayLike] | None = None
) -> Array:
    """`h(q, v, t)`: all forces of a motion without accelerations; those of inputs are not in it."""
    at = _arguments(system, q=q, v=v)
    out = system.numeric("bias", system.pack(parameters), **at, t=t)
    return out if at["q"].ndim == 2 else out[0]


@suggesting
def inverse_dynamics(
    system: Mechanical, q: ArrayLike, v: ArrayLike, a: ArrayLike, *, t: float = 0.0,
    parameters: Mapping[str, ArrayLike] | None = None,
) -> Array:  # fmt: skip
    """`tau = M(q) a + h(q, v, t)`: the forces on the coordinates that give the accelerations `a = v'`."""
    if system.m:
        raise ModelError(
            f"{system.name!r} has {system.m} constraints: the forces of a motion are not unique there; inverse dynamics is for "
            "trees, with coordinates='joint'"
        )
    at = _arguments(system, q=q, v=v, a=a)
    a = at.pop("a")
    M = mass_matrix(system, at["q"], parameters=parameters)
    return np.asarray(np.einsum("...ij,...j->...i", M, a) + bias(system, at["q"], at["v"], t=t, parameters=parameters))


@suggesting
def forward_dynamics(
    system: Mechanical, q: ArrayLike, v: ArrayLike, *, u: ArrayLike | None = None, t: float = 0.0,
    parameters: Mapping[str, ArrayLike] | None = None,
) -> Array:  # fmt: skip
    """The accelerations `a = v'` for inputs `u` (zero where none are given), with all constraints."""
    at, par = _arguments(system, q=q, v=v), system.pack(parameters)
    h = np.atleast_2d(bias(system, at["q"], at["v"], t=t, parameters=parameters))
    if u is not None:
        B, given = system.numeric("inputs", par, q=at["q"], t=t) if system.has("inputs") else None, reals("u", u, ModelError)
        if B is None or given.shape not in ((system.nu,), (len(h), system.nu)):
            raise ModelError(f"u must have {system.nu} entries, one for each input; its shape is {given.shape}")
        h = h - np.einsum("kij,kj->ki", B, np.broadcast_to(given, (len(h), system.nu)))
    M, right = mass_matrix(system, np.atleast_2d(at["q"]), parameters=parameters), -h
    if system.m:
        G, z = system.numeric("jacobian", par, **at, t=t), np.zeros((len(M), system.m, system.m))
        M = np.block([[M, G.transpose(0, 2, 1)], [G, z]])
        right = np.concatenate([right, -system.numeric("curvature", par, **at, t=t)], axis=1)
    out = np.linalg.solve(M, right[:, :, None])[:, : system.nv, 0]
    return np.asarray(out if at["q"].ndim == 2 else out[0])


def _arguments(system: Mechanical, **given: ArrayLike) -> dict[str, Array]:
    """Positions, velocities and accelerations as arrays of the right sizes."""
    if not isinstance(system, Mechanical):
        raise ModelError(f"a mechanical system is needed, or an assembled mechanism, not {shown(system)}")
    out = {name: reals(name, value, ModelError) for name, value in given.items()}
    for name, value in out.items():
        size = system.n if name == "q" else system.nv
        if value.ndim not in (1, 2) or value.shape[-1] != size or value.shape[:-1] != out["q"].shape[:-1]:
            raise ModelError(f"{name} must have {size} entries, in as many rows as q has; its shape is {value.shape}")
    return out
