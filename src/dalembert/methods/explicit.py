"""Explicit Runge-Kutta methods for free systems (Bertolazzi, Cocetti, Stocco, sec. 1.2.2): they keep nothing, and show it.

    Y_i = y0 + h sum_(j < i) a_ij f(Y_j),   y1 = y0 + h sum_i b_i f(Y_i)

Two slips in the source's tables: of Heun's third-order method (eq. 1.29) the last node reads 1/3, but its row adds up to 2/3,
which is right; of the generic third-order method (eq. 1.32) the last weight has a factor alpha too many below.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import casadi as ca
import numpy as np

from dalembert.errors import MethodError
from dalembert.methods.base import Method, register
from dalembert.methods.stages import rates
from dalembert.methods.step import SX, Step
from dalembert.methods.tableaus import Tableau


def _explicit(name: str, rows: list[list[float]], b: list[float]) -> Tableau:
    A = np.zeros((len(b), len(b)))
    for i, row in enumerate(rows, 1):
        A[i, : len(row)] = row
    return Tableau(name, A, np.array(b, dtype=float), A.sum(axis=1))


def second_order(alpha: float) -> Tableau:
    """The explicit methods of order two with two stages, the second one at `alpha` (eq. 1.27)."""
    if not 0 < alpha <= 1:
        raise MethodError(f"alpha must lie in (0, 1], not {alpha:g}")
    return _explicit(f"second-order({alpha:g})", [[alpha]], [1 - 1 / (2 * alpha), 1 / (2 * alpha)])


def third_order(alpha: float) -> Tableau:
    """Explicit methods of order three with stages at 0, `alpha` and 1 (eq. 1.32)."""
    if min(abs(alpha), abs(alpha - 2 / 3), abs(alpha - 1)) < 1e-8:
        raise MethodError(f"alpha must not be 0, 2/3 or 1, not {alpha:g}")
    a = (1 - alpha) / (alpha * (3 * alpha - 2))
    b = [1 / 2 - 1 / (6 * alpha), 1 / (6 * alpha * (1 - alpha)), (2 - 3 * alpha) / (6 * (1 - alpha))]
    return _explicit(f"third-order({alpha:g})", [[alpha], [1 + a, -a]], b)


r5 = np.sqrt(5)
TABLEAUS = {
    t.name: t
    for t in (
        _explicit("euler", [], [1]),
        _explicit("explicit-midpoint", [[1 / 2]], [0, 1]),
        _explicit("heun", [[1]], [1 / 2, 1 / 2]),
        _explicit("ralston", [[2 / 3]], [1 / 4, 3 / 4]),
        _explicit("rk3", [[1 / 2], [-1, 2]], [1 / 6, 2 / 3, 1 / 6]),
        _explicit("heun3", [[1 / 3], [0, 2 / 3]], [1 / 4, 0, 3 / 4]),
        _explicit("ralston3", [[1 / 2], [0, 3 / 4]], [2 / 9, 1 / 3, 4 / 9]),
        _explicit("ssprk3", [[1], [1 / 4, 1 / 4]], [1 / 6, 1 / 6, 2 / 3]),
        _explicit("rk4", [[1 / 2], [0, 1 / 2], [0, 0, 1]], [1 / 6, 1 / 3, 1 / 3, 1 / 6]),
        _explicit(
            "ralston4",
            [
                [2 / 5],
                [357 / 256 * r5 - 2889 / 1024, 3785 / 1024 - 405 / 256 * r5],
                [1047 / 3020 * r5 - 673 / 1208, -975 / 2552 - 1523 / 1276 * r5, 93408 / 48169 + 203968 / 240845 * r5],
            ],
            [
                263 / 1812 + 2 / 151 * r5,
                125 / 3828 - 250 / 957 * r5,
                3426304 / 5924787 + 553984 / 1974929 * r5,
                10 / 41 - 4 / 123 * r5,
            ],
        ),
        _explicit("rk38", [[1 / 3], [-1 / 3, 1], [1, -1, 1]], [1 / 8, 3 / 8, 3 / 8, 1 / 8]),
    )
}


@dataclass(frozen=True)
class Explicit(Method):
    """An explicit Runge-Kutta method, its tableau found by its name."""

    treats: ClassVar[tuple[str, ...]] = ("mechanical", "hamiltonian")
    keeps: ClassVar[str] = "nothing"
    source: ClassVar[str] = "Bertolazzi, Cocetti, Stocco, sec. 1.2.2"
    symmetric: ClassVar[bool] = False
    exact_levels: ClassVar[tuple[str, ...]] = ()
    index: ClassVar[int] = 0

    @property
    def tableau(self) -> Tableau:
        return TABLEAUS[self.name]

    @property
    def order(self) -> tuple[int, int, int]:  # type: ignore[override]
        return (self.tableau.order,) * 3

    def check(self, system: Any) -> None:
        super().check(system)
        if system.m:
            raise MethodError(
                f"{self.name} treats free systems only; for constraints use rattle, lobatto-pair-s or energy-momentum"
            )

    def step(self, system: Any) -> Step:
        s, T, h = system, self.tableau, SX.sym("h")
        y0, u = getattr(s, s.momenta), SX.sym("u", s.nu, T.stages)
        inverse = s.inverse_mass() if s.kind == "mechanical" else SX.eye(s.n)
        qd: list[Any] = []
        yd: list[Any] = []
        supplied, dissipated = SX(0.0), SX(0.0)
        for i in range(T.stages):
            q = s.q + h * sum((float(a) * r for a, r in zip(T.A[i], qd, strict=False) if a), SX(s.n, 1))
            y = y0 + h * sum((float(a) * r for a, r in zip(T.A[i], yd, strict=False) if a), SX(s.n, 1))
            v, inertia, force, power, loss = rates(s, q, y, None, s.t + float(T.c[i]) * h, u[:, i])
            qd.append(v)
            yd.append(inverse @ force if inverse is not None else ca.solve(inertia, force))
            supplied += h * float(T.b[i]) * power
            dissipated += h * float(T.b[i]) * loss
        after = [x + h * sum((float(b) * r for b, r in zip(T.b, r_, strict=True)), SX(s.n, 1)) for x, r_ in ((s.q, qd), (y0, yd))]
        return Step(
            t=s.t, h=h, u=u, par=s.par,
            state={"q": s.q, s.momenta: y0}, solves=(), next={"q": after[0], s.momenta: after[1]},
            lam=SX(0, 1), node=1.0, work={"supplied": supplied, "dissipated": dissipated},
            input_nodes=tuple(float(c) for c in T.c),
        )  # fmt: skip


for _name in TABLEAUS:
    register(dataclass(frozen=True)(type("".join(w.capitalize() for w in _name.split("-")), (Explicit,), {"name": _name})))
