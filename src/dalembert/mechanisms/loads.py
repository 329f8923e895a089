"""What all joints carry at some times of a run, from its multipliers and accelerations."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from dalembert.mechanisms.rotations import Array
from dalembert.systems.batch import batch, dense

if TYPE_CHECKING:
    from dalembert.mechanisms.results import MechanismSolution


class Loads:
    """Forces and torques of all joints by multipliers at some times: six columns for each joint."""

    def __init__(self, sol: MechanismSolution, t: Array, lam: Array) -> None:
        self.sol, self.system, self.t, self.lam = sol, sol.system, t, lam
        stored = len(t) == len(sol.t) and np.array_equal(t, sol.t)
        self.at = {"q": sol.q, "v": sol.v, "p": sol.p} if stored else sol.at(t).values
        self.W = self.system.numeric("wrench", sol._par, q=self.at["q"], t=t).reshape(len(t), 6 * len(self.system.joints), -1)

    @cached_property
    def every(self) -> Array:
        """The multipliers of all constraints, with those that were left out."""
        out = np.zeros((len(self.t), len(self.system.all_rows)))
        places = {row: i for i, row in enumerate(self.system.all_rows)}
        out[:, [places[row] for row in self.system.rows]] = self.lam[:, : self.system.mh]
        return self._least(out) if self.system.least_norm else out

    def axes(self, k: int) -> Array:
        """The axes of a body, by its number."""
        rows = self.system.numeric("frames", self.sol._par, q=self.at["q"])[:, 12 * k + 3 : 12 * k + 12]
        return rows.reshape(-1, 3, 3).transpose(0, 2, 1)

    def of(self, every: Array) -> Array:
        """What the joints carry: `-W lam` of those that are constraints, and what the accelerations ask of those of a tree."""
        lam = np.concatenate([every, self.lam[:, self.system.mh :]], axis=1)
        out: Array = -np.einsum("tij,tj->ti", self.W, lam)
        if not self.system.tree:
            return out
        f, rows = self.system.carried(), [*self._point, lam, self._a]
        out += dense(batch(f, rows, len(self.t))[0], f.sparsity_out(0))[:, :, 0]
        return out

    @cached_property
    def _point(self) -> list[Array]:
        at = self.at
        return [at["q"], at["v"], at["p"], self.t[:, None], self.sol.inputs_at(self.t), self.sol._par]

    @cached_property
    def _a(self) -> Array:
        """The accelerations that go with the multipliers, `M a = F - G^T lam`."""
        q, v, p, _, u, _ = self._point
        A, F, _, _, G = self.sol._accelerations(q, v, p, self.t, u)
        F = F[:, :, 0] - np.einsum("tij,ti->tj", G, self.lam)
        if self.system.friction is not None:
            F = F + batch(self.system.friction, [*self._point, self.lam], len(self.t))[0]
        out: Array = np.zeros(F.shape)
        heavy = np.flatnonzero(np.einsum("tii->ti", A).any(axis=0))  # points of contact have no mass
        out[:, heavy] = np.linalg.solve(A[:, heavy[:, None], heavy], F[:, heavy, None])[:, :, 0]
        return out

    def _least(self, lam: Array) -> Array:
        """Of all multipliers with the same forces on the bodies, those whose reactions have the least norm.

        Torques count by the size of the mechanism. The forces are `G^T lam`; what may be added is in the kernel of `G^T`.
        """
        count, s = lam.shape[1], self.system
        G = s.numeric("all_jacobian", self.sol._par, q=self.at["q"], t=self.t).reshape(len(self.t), -1, s.nv)[:, :count]
        left, values, _ = np.linalg.svd(G)
        ranks = (values > 1e-9 * values[:, :1]).sum(axis=1)
        weight = np.tile(np.repeat([1.0, 1 / s.size], 3), len(s.joints))
        here = self.of(lam)
        free = left[:, :, ranks.min(initial=count) :]
        change = np.stack([self.of(lam + free[:, :, k]) - here for k in range(free.shape[2])], axis=2)
        out = lam.copy()
        for i, rank in enumerate(ranks):
            some = slice(rank - ranks.min(), None)
            z, *_ = np.linalg.lstsq(weight[:, None] * change[i][:, some], -weight * here[i], rcond=1e-10)
            out[i] = lam[i] + free[i][:, some] @ z
        return out
