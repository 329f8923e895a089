"""Runs of mechanical and Hamiltonian systems."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from dalembert.checking import reals
from dalembert.engine import kinds
from dalembert.engine.kinds.mechanics import accelerations
from dalembert.errors import MethodError, ModelError, SingularConstraints, suggest
from dalembert.solution.base import Array, Solution, largest
from dalembert.solution.names import Columns, coordinate_units, numbered, of, per_time, several, single, unit
from dalembert.solution.tabular import Variables
from dalembert.systems.base import System
from dalembert.systems.batch import batch, dense
from dalembert.systems.constrained import Constrained


def multipliers(system: Constrained, levels: list[Array]) -> Array:
    """`lam` of `A a + G^T lam = F`, `C a = d` at each time."""
    return motion(system, levels)[:, system.nv :]


def motion(system: Constrained, levels: list[Array]) -> Array:
    """`a` and `lam` of `A a + G^T lam = F`, `C a = d` at each time."""
    A, F, C, d, G = levels
    n, m = system.nv, system.m
    matrix = np.zeros((len(A), n + m, n + m))
    matrix[:, :n, :n], matrix[:, :n, n:], matrix[:, n:, :n] = A, G.transpose(0, 2, 1), C
    if len(A) and (np.einsum("tii->ti", A) == 0).any():  # a coordinate without mass may leave its acceleration open
        right = np.concatenate([F, d], axis=1)
        size = np.abs(matrix).max(axis=2, keepdims=True)
        return np.asarray(np.linalg.pinv(matrix / size, rcond=1e-9) @ (right / size))[:, :, 0]
    try:
        return np.asarray(np.linalg.solve(matrix, np.concatenate([F, d], axis=1))[:, :, 0])
    except np.linalg.LinAlgError as error:
        raise SingularConstraints("the constraints do not determine the multipliers at one of these times") from error


class MechanicalSolution(Solution):
    """Positions, velocities and momenta, multipliers, energies, constraints at all levels."""

    of_systems: ClassVar[tuple[type[System], ...]] = (Constrained,)
    system: Constrained

    @property
    def q(self) -> Array:
        """Positions."""
        return self.parts["q"]

    @cached_property
    def v(self) -> Array:
        """Velocities."""
        return self.parts["v"] if "v" in self.parts else self._numeric("velocity")

    @cached_property
    def p(self) -> Array:
        """Momenta, `M(q) v` for a mechanical system."""
        return self.parts["p"] if "p" in self.parts else self._numeric("momentum")

    @cached_property
    def a(self) -> Array:
        """Accelerations `v'` at the stored times, of the equations of motion there."""
        found = motion(self.system, self._accelerations(self.q, self.v, self.p, self.t, self.u))
        return found[:, : self.system.nv]

    def slopes(self, q: Array, v: Array) -> Array:
        if not self.system.has("kinematics"):
            return v
        Z = self.system.numeric("kinematics", self._par, q=q).reshape(len(q), self.system.n, -1)
        return np.asarray(np.einsum("tij,tj->ti", Z, v))

    @cached_property
    def lam(self) -> Array:
        """Multipliers at the times `t_lam`: those of the method, or of the acceleration level where it stores none."""
        if self._lam.shape[1] or not self.system.m:
            return self._lam
        some = slice(len(self.t) - len(self.t_lam), None)
        return self._reactions(self.q[some], self.v[some], self.p[some], self.t[some], self.u[some])

    def _reactions(self, q: Array, v: Array, p: Array, t: Array, u: Array) -> Array:
        """Multipliers of the acceleration level along a motion; one by one where forces depend on them."""
        if self.system.friction is None:
            return multipliers(self.system, self._accelerations(q, v, p, t, u))
        found = [kinds.multipliers(self.system, {"q": q[k], "v": v[k]}, self._par, float(t[k]), u[k]) for k in range(len(t))]
        return np.array(found).reshape(len(t), self.system.m)

    def _accelerations(self, q: Array, v: Array, p: Array, t: Array, u: Array) -> list[Array]:
        """`A`, `F`, `C`, `d` and `G` of `A a + G^T lam = F`, `C a = d` along a motion, time first."""
        f = accelerations(self.system, friction=True)
        rows = batch(f, [q, v, p, t[:, None], u, self._par], len(t))
        found = [dense(values, f.sparsity_out(i)) for i, values in enumerate(rows)]
        return [*found, self.system.numeric("jacobian", self._par, q=q, t=t).reshape(len(t), self.system.m, self.system.nv)]

    def _multipliers_of(self, values: Mapping[str, Array], shape: tuple[int, ...]) -> Callable[[], Array] | None:
        if not self.system.m:
            return None
        q, v, p, t = (values[name] for name in ("q", "v", "p", "t"))

        def found() -> Array:
            lam = self._reactions(q, v, p, t, self.inputs_at(t))
            return lam.reshape(*shape, self.system.m)

        return found

    @cached_property
    def y(self) -> Array:
        """Outputs collocated with the inputs, `B(q)^T v`."""
        if not self.system.has("inputs"):
            return np.zeros((len(self.t), 0))
        B = self._numeric("inputs").reshape(len(self.t), self.system.nv, -1)
        return np.asarray(np.einsum("tij,ti->tj", B, self.v))

    @cached_property
    def kinetic(self) -> Array:
        """Kinetic energy."""
        return self._numeric("kinetic")[:, 0]

    @cached_property
    def potential(self) -> Array:
        """Potential energy."""
        return self._numeric("potential")[:, 0]

    def energies(self) -> dict[str, Array]:
        return {"kinetic": self.kinetic, "potential": self.potential, "total": self.energy}

    @property
    def driven(self) -> bool:
        """Whether energy comes in or goes out: forces, inputs, dissipation, or a dependence on time."""
        return self.system.driven

    def _position(self) -> Array:
        return self._numeric("holonomic") if self.system.mh else super()._position()

    def _velocity(self) -> Array:
        return self._numeric("drift", v=self.v) if self.system.m else super()._velocity()

    def _acceleration(self) -> Array:
        if not self.system.m:
            return super()._acceleration()
        sample = self.at(self.t_lam)
        A, F, C, d, G = self._accelerations(sample.q, sample.v, sample.p, self.t_lam, self.inputs_at(self.t_lam))
        if self.system.friction is not None:
            point = [sample.q, sample.v, sample.p, self.t_lam[:, None], self.inputs_at(self.t_lam), self._par, self.lam]
            F = F + batch(self.system.friction, point, len(self.t_lam))[0][:, :, None]
        a = np.linalg.solve(A, F - G.transpose(0, 2, 1) @ self.lam[:, :, None])
        return np.asarray((C @ a - d)[:, :, 0])

    def momentum(self, name: str | ArrayLike, dimension: int | None = None) -> Array:
        """Total `"linear"` or `"angular"` momentum (about the origin) of a system of particles, or any linear momentum map.

        Coordinates are those of particles one after another, in `dimension` dimensions (that of the system by default).

        A matrix `X` is the generator of a linear action `q -> exp(s X) q`, and the momentum is `p^T X q`; a matrix of the size of
        one particle acts on each of them. A vector `a` generates translations `q -> q + s a`, with the momentum `p^T a`. It is
        constant where the action leaves `M`, the potential and the constraints as they are and no other forces act (Noether).
        These maps are at most quadratic in `(q, p)`. Symplectic methods keep them. `energy-momentum` does with its equivariant
        gradient for rotations of particles, of the plane or of space, whatever invariants potential, constraints and `M(q)` are
        made of (distances, determinants, triple products), and for other linear actions where these are of degree at most two and
        the mass is constant.
        """
        if not isinstance(name, str):
            return self._momentum_map(name)
        if name not in ("linear", "angular"):
            raise MethodError(f"there is no momentum {name!r}{suggest(str(name), ['linear', 'angular'])}")
        if dimension not in (None, 1, 2, 3):
            raise MethodError(f"dimension must be 1, 2 or 3, not {dimension!r}")
        d = dimension or self.system.dimension or self._guess_dimension()
        if self.system.n % d:
            raise ModelError(f"{self.system.n} coordinates cannot be particles in {d} dimensions")
        if self.system.has("kinematics"):
            raise ModelError(
                f"{name} momentum is defined here for particles with q' = v; {self.system.name!r} has velocities of its own "
                "(kinematics)"
            )
        q, p = (a.reshape(len(self.t), -1, d) for a in (self.q, self.p))
        if name == "linear":
            return np.asarray(p.sum(axis=1))
        if d == 1:
            raise ModelError("particles on a line have no angular momentum")
        if d == 2:
            return np.asarray((q[..., 0] * p[..., 1] - q[..., 1] * p[..., 0]).sum(axis=1))
        return np.asarray(np.cross(q, p).sum(axis=1))

    def _momentum_map(self, generator: ArrayLike) -> Array:
        """`p^T X q` of a matrix, `p^T a` of a vector."""
        n, X = self.system.n, reals("generator", generator, MethodError, "a vector or a square matrix of numbers")
        if self.system.has("kinematics"):
            raise MethodError("momentum maps are defined here where q' = v")
        if X.shape == (n,):
            return np.asarray(self.p @ X)
        if X.ndim != 2 or X.shape[0] != X.shape[1] or not X.size or n % len(X):
            raise MethodError(
                f"a generator is a vector of {n} numbers or a square matrix whose size divides {n}, not of the shape {X.shape}"
            )
        q, p = (a.reshape(len(self.t), -1, len(X)) for a in (self.q, self.p))
        return np.asarray(np.einsum("tki,ij,tkj->t", p, X, q))

    def action(self) -> float:
        """The action of the motion, the integral of `T - V` over the stored times by Simpson's rule (Bertolazzi et al.).

        Of all motions between the same ends and on the constraints it is stationary at the true one, where no other forces act.
        """
        if not hasattr(self.system, "constant_mass"):
            raise MethodError("the action is that of a mechanical system, with T and V")
        from scipy.integrate import simpson  # an import of the package stays light

        return float(simpson(self.kinetic - self.potential, x=self.t)) if len(self.t) > 1 else 0.0

    def _guess_dimension(self) -> int:
        """The dimension in which energy and constraints are invariant under rotations, if there is just one."""
        able = [d for d in (2, 3) if self.system.n % d == 0]
        fits = [d for d in able if self._rotates(d)]
        choice = fits or able
        if len(choice) != 1:
            raise ModelError(
                f"the dimension of the particles of {self.system.name!r} is not known: say momentum(name, dimension=2 or 3), "
                "or dimension=... when making the system"
            )
        return choice[0]

    def _rotates(self, d: int) -> bool:
        angle = 0.3
        rotation = np.eye(d)
        rotation[:2, :2] = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
        roles = ("energy", "holonomic") if self.system.mh else ("energy",)
        turned = {k: (np.reshape(self.parts[k][0], (-1, d)) @ rotation.T).ravel() for k in self.system.state}
        for role in roles:
            a = self.system.numeric(role, self._par, **{k: self.parts[k][0] for k in turned}, t=self.t[0])
            b = self.system.numeric(role, self._par, **turned, t=self.t[0])
            if np.abs(a - b).max() > 1e-9 * (1 + np.abs(a).max()):
                return False
        return True

    def _summary(self) -> list[tuple[str, str]]:
        scale = max(largest(self.energy), largest(self.kinetic), 1e-300)
        if self.driven:
            rows = [self._balance_row(scale), ("supplied, dissipated", f"{self.supplied.sum():.6g}, {self.dissipated.sum():.6g}")]
        else:
            change = largest(self.energy - self.energy[0]) / scale
            rows = [("energy error", f"{change:.1e} of the largest energy ({scale:.4g})")]
        levels = ("position",) * bool(self.system.mh) + ("velocity",) * bool(self.system.m)
        return rows + [(f"{level} constraints", f"{largest(self.residual(level)):.1e} at most") for level in levels]

    def _columns(self) -> Columns:
        system, t, units = self.system, self.t, coordinate_units(self.system)
        moving = not system.has("kinematics")
        rates = {kind: of(kind, system.coordinates) if moving else numbered(kind, system.nv, 0) for kind in "vap"}
        known = [per_time(system, units, k) if moving else None for k in (1, 2)]
        energy = unit(system, "energy")
        return {
            **super()._columns(),
            **several(rates["v"], lambda: self.v, t, known[0]),
            **several(rates["a"], lambda: self.a, t, known[1]),
            **several(rates["p"], lambda: self.p, t),
            **single("kinetic", lambda: self.kinetic, t, energy),
            **single("potential", lambda: self.potential, t, energy),
            **several(numbered("lam", system.m), lambda: self.lam, self.t_lam),
            **several(numbered("g", system.mh), lambda: self.residual("position"), t),
        }

    def _variables(self, data: Variables, coords: Variables) -> None:
        moving = "velocity" if self.system.has("kinematics") else "coordinate"
        data |= {"v": (("time", moving), self.v), "p": (("time", moving), self.p)}
        data |= {name: ("time", getattr(self, name)) for name in ("energy", "kinetic", "potential")}
        if self.system.m:
            data["lam"] = (("time_lam", "constraint"), self.lam)
            coords["constraint"] = np.arange(1, self.system.m + 1)
        if self.system.mh:
            data["g"] = (("time", "holonomic"), self.residual("position"))
