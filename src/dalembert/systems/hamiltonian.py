"""Hamiltonian systems `q' = H_p`, `p' = -H_q - G^T lam`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import casadi as ca
import numpy as np
from casadi import SX
from numpy.typing import ArrayLike

from dalembert.errors import ModelError, suggesting
from dalembert.systems import scales
from dalembert.systems.constrained import Constrained, Inputs
from dalembert.systems.form import Form
from dalembert.systems.picture import Picture
from dalembert.systems.shapes import Array, scalar
from dalembert.systems.tracing import Model


class Hamiltonian(Constrained):
    """A Hamiltonian system: ``q' = H_p``, ``p' = -H_q - R v + f + B u - G^T lam``, ``g(q, t) = 0``, with `v = H_p`.

    `hamiltonian(q, p, t)` may be any function of one number, separable or not. The other arguments are those of
    `Mechanical`; forces may use `q`, `p`, `v`, `t`, `u` and parameters.
    """

    kind: ClassVar[str] = "hamiltonian"
    state: ClassVar[tuple[str, ...]] = ("q", "p")
    starts: ClassVar[tuple[str, ...]] = ("q", "p", "v")
    momenta: ClassVar[str] = "p"
    energy_role: ClassVar[str] = "hamiltonian"

    @suggesting
    def __init__(
        self,
        coordinates: Sequence[str] | int,
        *,
        hamiltonian: Model,
        holonomic: Model | None = None,
        nonholonomic: Model | None = None,
        dissipation: Model | None = None,
        force: Model | None = None,
        inputs: Inputs | None = None,
        parameters: Mapping[str, ArrayLike] | None = None,
        invariants: Model | None = None,
        dimension: int | None = None,
        name: str | None = None,
        initial: Mapping[str, ArrayLike] | None = None,
        picture: Picture | None = None,
    ) -> None:
        super().__init__(coordinates, parameters, name, initial, dimension)
        extra = self._define_common(
            {"holonomic": holonomic, "nonholonomic": nonholonomic, "dissipation": dissipation, "force": force, "inputs": inputs},
            picture, invariants,
        )  # fmt: skip
        H = scalar("hamiltonian", self._trace("hamiltonian", hamiltonian, ("q", "p", "t", "invariants"), extra))
        self._finite(H, "hamiltonian")
        moving = ca.jacobian(H, self.p).sparsity().get_col()
        missing = [c for i, c in enumerate(self.coordinates) if i not in moving]
        if missing:
            raise ModelError(f"hamiltonian does not depend on the momentum of {missing[0]!r}: it has no kinetic energy")
        self._define("hamiltonian", H)
        self._check_numbers("dissipation")

    def _derived(self, role: str) -> SX:
        if role == "energy":
            return self.expression("hamiltonian")
        if role == "velocity":
            return ca.densify(ca.gradient(self.expression("hamiltonian"), self.p))
        if role == "potential":  # the energy at p = 0: exact where the kinetic energy is homogeneous in p
            return self.expression("hamiltonian", p=SX.zeros(self.n))
        if role == "kinetic":
            return self.expression("hamiltonian") - self.role("potential")
        return super()._derived(role)

    def of_state(self, expression: SX) -> SX:
        return ca.substitute(expression, self.v, self.role("velocity"))

    def completed(self, parts: Mapping[str, Array], t: Array | float, par: Array) -> dict[str, Array]:
        some = len(parts["q"]) > 0
        v = self.numeric("velocity", par, **parts, t=t) if some else np.zeros((0, self.n))
        return {"q": parts["q"], "v": v, "p": parts["p"]}

    def force(self) -> SX:
        """All of `p'` but constraint forces: `-H_q + f + B u - R v`, with `v = H_p`."""
        v = self.role("velocity")
        applied, damping = self.applied(self.q, v, self.t, self.u, self.p), self.damping(self.q, v, self.t, self.p)
        return -ca.gradient(self.expression("hamiltonian"), self.q) + applied - damping

    def form(self, h: SX) -> Form:
        """`q' = H_p`, `p' = -H_q + f + B u - R v - G^T lam`, with `v = H_p`."""
        lam, v = SX.sym("lam", self.m), self.role("velocity")
        applied, damping = self.applied(self.q, v, self.t, self.u, self.p), self.damping(self.q, v, self.t, self.p)
        push = self.force() - self.reaction(lam)
        y = {"q": self.q, "p": self.p}
        one = scales.Motion(self, h, self._groups(self.p, v, self.force()))
        light = one.velocities(ca.diag(ca.jacobian(v, self.p))) + 1e-300  # one over a typical mass
        force = one.resolved(one.velocities(ca.gradient(self.expression("hamiltonian"), self.q)) * light, v) / light
        near = scales.POSITIONS * one.length()
        sizes = {
            "q": scales.spread(one.positions(v) + near / one.h + one.h * force * light, one.q),
            "p": scales.spread(one.velocities(self.p) / one.h + force + near / (one.h**2 * light), one.v),
            **one.levels(v, force * light),
        }
        stated = self._stated(lam, v, self.p, applied, damping)
        return Form(y=y, parts=({"q": v}, {"p": push}), state=y, begin=y, sizes=sizes, **stated)

    def rate_form(self, h: SX) -> Form:
        return self.form(h)
