"""Terms written out for a whole mechanism against the same terms as elements."""

import casadi as ca
import numpy as np
import pytest

import dalembert as da
from dalembert.mechanisms.absolute import absolute
from dalembert.mechanisms.assembled import Assembled
from dalembert.mechanisms.direct import Direct
from dalembert.mechanisms.terms import Terms
from mechanisms.test_assembly import four_bar


class Written(Direct):
    """The coordinates of `Absolute`, without elements."""

    called = "written"

    def __init__(self, terms, like):
        super().__init__(terms)
        self.like, self.names = like, like.names

    def frames(self, q):
        return self.like.frames(q)

    def start(self, bodies=None):
        return self.like.start(bodies)

    def rates_of(self, body, q):
        return self.like.rates_of(body, q)

    def mass(self, q, given):
        blocks = [k.mass(given[self.masses[n]], given[self.inertias[n]]) for n, k in self.like.placements.items()]
        return ca.diagcat(*blocks)


@pytest.fixture(scope="module")
def both():
    m = four_bar()
    m.spring("leaf", "crank", "rocker", stiffness=20.0, length=1.5, damping=0.4)
    m.torsion_spring("coil", "B", stiffness=3.0, rest=0.2, damping=0.1)
    m.bushing("rubber", "ground", "coupler", at=(1.5, 1.5), stiffness=5.0, torsion=2.0, damping=0.3, torsion_damping=0.2)
    m.friction("bearing", "D", viscous=0.2)
    m.motor("drive", "A")
    m.force("push", "coupler", direction=(1, 1), at=(2, 1.7), follows=True)
    m.force("twist", "rocker", direction="z", torque=True)
    like = absolute(Terms(m), None)
    chosen = Written(Terms(m), like)
    return m.assemble(rates={"A": 1.0}), Assembled(chosen, chosen.make())


ROLES = ["mass", "potential", "holonomic", "dissipation", "inputs", "slope", "normal", "frames", "measures", "wrench"]


@pytest.mark.parametrize("role", ROLES)
def test_roles_agree(both, role):
    one, two = both
    q = one.initial["q"] + 0.1 * np.random.default_rng(0).normal(size=one.n)
    a, b = (np.asarray(ca.densify(s.value(role, s.pack(), q=q, v=q)).full()) for s in (one, two))
    np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


def test_runs_agree(both):
    one, two = (
        da.simulate(s, "energy-momentum", q=both[0].initial["q"], v=both[0].initial["v"], t_end=0.2, step=0.01,
                    u={"drive": 1.0, "push": lambda t: np.sin(t), "twist": -0.5})
        for s in both
    )  # fmt: skip
    np.testing.assert_allclose(one.q, two.q, atol=1e-12)
