"""Explicit Runge-Kutta methods for free systems (Bertolazzi, Cocetti, Stocco, sec. 1.2.2): they keep nothing, and show it.

    Y_i = y0 + h sum_(j < i) a_ij f(Y_j),   y1 = y0 + h sum_i b_i f(Y_i)

Two slips in the source's tables: of Heun's third-order method (eq. 1.29) the last node reads 1/3, but its row adds up to 2/3,
which is right; of the generic third-order method (eq. 1.32) the last weight has a factor alpha too many below.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from dalembert.checking import number
from dalembert.errors import MethodError
from dalembert.methods.base import register
from dalembert.methods.runge_kutta import RungeKutta
from dalembert.methods.scheme import Scheme
from dalembert.methods.tableaus import Tableau


def _explicit(name: str, rows: list[list[float]], b: list[float]) -> Tableau:
    A = np.zeros((len(b), len(b)))
    for i, row in enumerate(rows, 1):
        A[i, : len(row)] = row
    return Tableau(name, A, np.array(b, dtype=float), A.sum(axis=1))


def second_order(alpha: float) -> Tableau:
    """The explicit methods of order two with two stages, the second one at `alpha` (eq. 1.27)."""
    if not 1e-8 <= alpha <= 1:
        raise MethodError(f"alpha must lie in (0, 1], and not below 1e-8, not {alpha:g}")
    return _explicit(f"second-order({alpha:g})", [[alpha]], [1 - 1 / (2 * alpha), 1 / (2 * alpha)])


def third_order(alpha: float) -> Tableau:
    """Explicit methods of order three with stages at 0, `alpha` and 1 (eq. 1.32)."""
    if min(abs(alpha), abs(alpha - 2 / 3), abs(alpha - 1)) < 1e-8 or abs(alpha) > 1e8:
        raise MethodError(f"alpha must not be 0, 2/3 or 1, nor beyond 1e8, not {alpha:g}")
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
class Explicit(RungeKutta):
    """An explicit Runge-Kutta method, its tableau found by its name."""

    index: ClassVar[int] = 0
    keeps: ClassVar[str] = "nothing"
    source: ClassVar[str] = "Bertolazzi, Cocetti, Stocco, sec. 1.2.2"

    @cached_property
    def scheme(self) -> Scheme:
        return Scheme((TABLEAUS[self.name],))


for _name in TABLEAUS:  # classes are attributes of this module, so that they can be pickled
    _class = "".join(word.capitalize() for word in _name.split("-"))
    globals()[_class] = register(_name)(type(_class, (Explicit,), {"__module__": __name__}))


@register("second-order")
class SecondOrder(Explicit):
    """Explicit methods of order two with two stages, the second one at `alpha` (eq. 1.27): 1/2 midpoint, 2/3 Ralston, 1 Heun."""

    alpha: float = 0.75

    def __post_init__(self) -> None:
        second_order(number("alpha", self.alpha))

    @cached_property
    def scheme(self) -> Scheme:
        return Scheme((second_order(float(self.alpha)),))


@register("third-order")
class ThirdOrder(Explicit):
    """Explicit methods of order three with stages at 0, `alpha` and 1 (eq. 1.32); 1/2 is Kutta's."""

    alpha: float = 0.4

    def __post_init__(self) -> None:
        third_order(number("alpha", self.alpha))

    @cached_property
    def scheme(self) -> Scheme:
        return Scheme((third_order(float(self.alpha)),))
