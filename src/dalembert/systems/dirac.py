"""Dirac structures: linear spaces of flows and efforts that preserve power, `D = D-perp`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dalembert.checking import reals, shown, whole
from dalembert.errors import ModelError, strict, suggesting

TOLERANCE = 1e-10


@strict
@dataclass(frozen=True, eq=False)
class DiracStructure:
    """`D = {(f, e): F f + G e = 0}` (kernel representation), with `F G^T + G F^T = 0` and rank `[F G] = n`.

    Then `e . f = 0` on `D`, and `D` is its own orthogonal complement with respect to the power (Duindam et al. 2009, ch. 2).
    """

    F: NDArray[np.float64]
    G: NDArray[np.float64]

    def __post_init__(self) -> None:
        F, G = (np.atleast_2d(reals(name, a, ModelError)) for name, a in (("F", self.F), ("G", self.G)))
        object.__setattr__(self, "F", F)
        object.__setattr__(self, "G", G)
        n = F.shape[1]
        if F.shape != (n, n) or G.shape != (n, n) or not n:
            raise ModelError(f"F and G must be square and of the same size, not {F.shape} and {G.shape}")
        power = F @ G.T + G @ F.T
        scale = max(1.0, float(np.abs(F).max() * np.abs(G).max()))
        if np.abs(power).max() > TOLERANCE * scale:
            i, j = np.unravel_index(np.abs(power).argmax(), power.shape)
            raise ModelError(f"this is no Dirac structure: F G^T + G F^T has the entry ({i + 1}, {j + 1}) = {power[i, j]:.4g}")
        if np.linalg.matrix_rank(np.hstack([F, G])) < n:
            raise ModelError(
                f"this is no Dirac structure: the rank of [F G] is below {n}, so that D is larger than its complement"
            )

    @classmethod
    @suggesting
    def of_skew(cls, J: ArrayLike) -> DiracStructure:
        """The graph of a skew matrix, `f = J e`."""
        J = np.atleast_2d(reals("J", J, ModelError))
        return cls(np.eye(len(J)), -J)

    @classmethod
    @suggesting
    def of_image(cls, Y: ArrayLike, U: ArrayLike) -> DiracStructure:
        """From an image representation, `f = Y a`, `e = U a` with `Y^T U + U^T Y = 0`."""
        Y, U = (np.atleast_2d(reals(name, a, ModelError)) for name, a in (("Y", Y), ("U", U)))
        if Y.shape != U.shape or Y.shape[0] != Y.shape[1]:
            raise ModelError(f"Y and U must be square and of the same size, not {Y.shape} and {U.shape}")
        return cls(U.T, Y.T)

    @classmethod
    def of_ports(
        cls, J: NDArray[np.float64], B: NDArray[np.float64], N: NDArray[np.float64], *, through: bool = False
    ) -> DiracStructure:
        """That of a port-Hamiltonian system, between storage, dissipation and ports (Symank 2025, eq. 4.7).

        Flows are `(-E x', f_R, y)`, efforts `(z, e_R, u)`. On the side of the resistor `f_R = -z`, `e_R = R z`; with dissipation
        `through` the ports, by `P` or `S`, it is `f_R = -(z, u)`, `e_R = [R P; P^T S] (z, u)`.
        """
        n, p = B.shape
        r = p if through else 0
        # -E x' = -J z + e_R1 - B u,   f_R = -(z, u),   y = B^T z + e_R2 - N u
        storage = [-J, np.eye(n, n + r), -B]
        resistor = [-np.eye(n + r, n), np.zeros((n + r, n + r)), -np.eye(n + r, p, -n) if r else np.zeros((n, p))]
        ports = [B.T, np.eye(p, n + r, n) if r else np.zeros((p, n)), -N]
        return cls.of_skew(np.block([storage, resistor, ports]))

    @property
    def size(self) -> int:
        """Number of ports."""
        return int(self.F.shape[0])

    def image(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """An image representation: columns span all `(f, e)` of the structure."""
        return self.G.T.copy(), self.F.T.copy()

    @suggesting
    def contains(self, f: ArrayLike, e: ArrayLike) -> bool:
        """Whether flows and efforts lie in the structure."""
        f, e = (reals(name, a, ModelError) for name, a in (("f", f), ("e", e)))
        if f.shape != (self.size,) or e.shape != (self.size,):
            raise ModelError(f"f and e must be {self.size} numbers each, not of the shapes {f.shape} and {e.shape}")
        scale = max(1.0, float(np.abs(self.F).max() * np.abs(f).max() + np.abs(self.G).max() * np.abs(e).max()))
        return bool(np.abs(self.F @ f + self.G @ e).max() <= 1e-9 * scale)

    @suggesting
    def same_as(self, other: DiracStructure) -> bool:
        """Whether two structures are the same space."""
        if not isinstance(other, DiracStructure):
            raise ModelError(f"the other one must be a DiracStructure, not {shown(other)}")
        if self.size != other.size:
            return False
        both = np.vstack([np.hstack([self.F, self.G]), np.hstack([other.F, other.G])])
        return int(np.linalg.matrix_rank(both)) == self.size

    @suggesting
    def compose(self, other: DiracStructure, shared: int) -> DiracStructure:
        """Join the last `shared` ports of this one with the first of the other, `f` opposite, `e` equal."""
        if not isinstance(other, DiracStructure):
            raise ModelError(f"the other one must be a DiracStructure, not {shown(other)}")
        if whole("shared", shared, ModelError) > min(self.size, other.size):
            raise ModelError(f"{shared} shared ports do not fit structures of {self.size} and {other.size} ports")
        a, b = self.size - shared, other.size - shared
        Fa, Fs = self.F[:, :a], self.F[:, a:]
        Ga, Gs = self.G[:, :a], self.G[:, a:]
        Hs, Hb = other.F[:, :shared], other.F[:, shared:]
        Ks, Kb = other.G[:, :shared], other.G[:, shared:]
        # eliminate f_s, e_s with f_s' = -f_s, e_s' = e_s: rows L with L [Fs Gs; -Hs Ks] = 0
        shared_part = np.block([[Fs, Gs], [-Hs, Ks]])
        u, s, _ = np.linalg.svd(shared_part)
        rank = int((s > 1e-12 * max(1.0, s[0])).sum())
        L = u[:, rank:].T
        rest = np.block([[Fa, np.zeros((self.size, b)), Ga, np.zeros((self.size, b))],
                         [np.zeros((other.size, a)), Hb, np.zeros((other.size, a)), Kb]])  # fmt: skip
        rows = L @ rest
        u, s, vt = np.linalg.svd(rows)
        n = a + b
        kernel = vt[:n]
        return DiracStructure(kernel[:, :n], kernel[:, n:])
