"""Semi-explicit systems `y' = sum_m f_m(t, y, z)`, `0 = g(t, y, z)` of index 1, 2 and 3."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, Required, Self, TypedDict, Unpack

import casadi as ca
import numpy as np
from casadi import SX
from numpy.typing import ArrayLike

from dalembert.checking import MOST, listed, whole
from dalembert.errors import ModelError, suggesting
from dalembert.systems import scales
from dalembert.systems.base import System
from dalembert.systems.form import Form
from dalembert.systems.needs import Need
from dalembert.systems.shapes import column
from dalembert.systems.tracing import Model


class Keywords(TypedDict, total=False):
    """What all semi-explicit systems take; see `IndexTwoDAE`."""

    g: Required[Model]
    f: Model | None
    parts: Sequence[Model] | None
    inputs: int
    parameters: Mapping[str, ArrayLike] | None
    name: str | None
    initial: Mapping[str, ArrayLike] | None


class IndexTwoDAE(System):
    """`y' = f(t, y, z)`, `0 = g(t, y)` with `g_y f_z` regular; there are as many `z` as constraints.

    Parameters
    ----------
    coordinates
        Names of the differential variables `y`, or their number.
    f
        The right-hand side; or `parts`, a list of functions that add up to it. The part in place m (from 1) is treated with
        the m-th Lobatto matrix (IIIA, IIIB, IIIC, IIIC*, IIID) by `spark-s`; the first one must not depend on `z`.
    g
        The constraints.
    inputs
        A number of inputs `u` that the functions use.
    parameters, name, initial
        As for `Mechanical`; initial values are called `y` and `z`, and `z` is found from `y` where it is not given.

    Notes
    -----
    Arguments of functions are matched by name: `y`, `z`, `t`, `u` and any parameter.
    """

    kind: ClassVar[str] = "dae"
    variables: ClassVar[tuple[str, ...]] = ("y", "z")
    state: ClassVar[tuple[str, ...]] = ("y", "z")
    starts: ClassVar[tuple[str, ...]] = ("y", "z")
    index: ClassVar[int] = 2
    given: ClassVar[frozenset[str]] = frozenset(["g", "points", "rhs", *(f"part{i}" for i in range(1, 10))])
    y: SX
    z: SX

    @suggesting
    def __init__(
        self,
        coordinates: Sequence[str] | int,
        *,
        g: Model,
        f: Model | None = None,
        parts: Sequence[Model] | None = None,
        inputs: int = 0,
        parameters: Mapping[str, ArrayLike] | None = None,
        name: str | None = None,
        initial: Mapping[str, ArrayLike] | None = None,
    ) -> None:
        super().__init__(coordinates, parameters, name, initial)
        if (f is None) == (parts is None):
            raise ModelError("give the right-hand side as f=... or as parts=[...], one of them")
        self.u = SX.sym("u", whole("inputs", inputs, ModelError, least=0, most=MOST))
        constraint = self._trace_constraint(g)
        self._define("g", ca.densify(constraint))
        functions = [f] if f is not None else listed("parts", () if parts is None else parts, ModelError, "a list of functions")
        if not functions:
            raise ModelError("parts is empty: give the functions that add up to the right-hand side")
        if len(functions) > 5:
            raise ModelError(f"there are five Lobatto matrices, but {len(functions)} parts")
        total = SX(self.n, 1)
        for i, function in enumerate(functions, 1):
            part = column(f"part {i}", self._trace(f"part {i}", function, ("y", "z", "t", "u")), self.n)
            if parts is not None and i == 1 and ca.depends_on(part, self.z):
                raise ModelError(
                    "the first part must not depend on z (it is treated with Lobatto IIIA, which has no stage for it)"
                )
            self._define(f"part{i}", ca.densify(part))
            total += part
        self._define("rhs", ca.densify(total))
        if self.index > 1 and not ca.jacobian(total, self.z).nnz():
            raise ModelError("the right-hand side does not depend on z: the constraint cannot act")
        self._check_index()

    def _trace_constraint(self, g: Model) -> SX:
        constraint = column("g", self._trace("g", g, ("y", "t")))
        if not constraint.numel():
            raise ModelError("a semi-explicit system needs at least one constraint g")
        self.z = SX.sym("z", constraint.numel())
        return constraint

    def _check_index(self) -> None:
        """The equation that defines `z` must contain it, and those before it must not."""
        levels = self.levels()
        for i, level in enumerate(levels[:-1]):
            if self._contains_z(level):
                raise ModelError(f"this is not a system of index {self.index}: derivative {i} of g contains z already")
        if not self._contains_z(levels[-1]):
            raise ModelError(f"the index is higher than {self.index}: derivative {self.index - 1} of g does not contain z")

    def _contains_z(self, level: SX) -> bool:
        """Whether `z` acts in an equation: by its slopes in numbers, since terms with `z` may cancel in its expression."""
        if not ca.depends_on(level, self.z):
            return False
        slopes = ca.Function("slopes", self.symbols(), [ca.jacobian(level, self.z), ca.fabs(ca.jacobian(level, self.y))])
        rng, par = np.random.default_rng(3), self.pack()
        for _ in range(5):
            y, z, t, u = (rng.normal(size=k) for k in (self.n, self.m, 1, self.nu))
            own, other = (np.asarray(e.full()) for e in slopes(y, z, t, u, par))
            # not finite there: nothing is known, and nothing is excluded
            if not np.abs(own).max() <= 1e-10 * (1.0 + np.abs(other).max(initial=0.0)):
                return True
        return False

    @property
    def m(self) -> int:
        """Number of constraints, and of algebraic variables."""
        return int(self.z.numel())

    def _counts(self) -> dict[str, int]:
        return {"differential variables": self.n, "algebraic variables": self.m, "inputs": self.nu}

    def levels(self) -> list[SX]:
        """`g` and its derivatives along the motion, up to the one that defines `z`."""
        out = [self.expression("g")]
        for _ in range(self.index - 1):
            out.append(ca.jtimes(out[-1], self.y, self.expression("rhs")) + ca.jacobian(out[-1], self.t))
        return out

    @classmethod
    def of_expressions(
        cls, like: System, names: Sequence[str], y: SX, z: SX, parts: list[SX], g: SX, initial: Mapping[str, ArrayLike] | None
    ) -> Self:
        """From expressions in given symbols, with the parameters of another system."""
        self = cls.__new__(cls)
        System.__init__(self, names, like.parameters, like.name, initial)
        self.y, self.z, self.t, self.u, self.par = y, z, like.t, like.u, like.par
        self._define("g", ca.densify(g))
        for i, part in enumerate(parts, 1):
            self._define(f"part{i}", ca.densify(part))
        self._define("rhs", ca.densify(sum(parts, SX(y.numel(), 1))))
        return self

    @property
    def decomposition(self) -> int:
        """The number of parts of the right-hand side."""
        return len(self.parts)

    def lacks(self, need: Need) -> str | None:
        if need is Need.NO_CONSTRAINTS and self.index > 1:
            return f"the constraints of {self.name!r}, which has index {self.index}"
        if need is Need.INDEX_TWO and self.index > 2:
            return f"a system of index {self.index}"
        if need is Need.PARTS and len(self.parts) < 2:
            return f"{self.name!r}, which has one f: it needs parts=[f1, f2, ...], the first of which does not depend on z"
        if need is Need.PARTED and not self._paired():
            return f"the f of {self.name!r}: it needs parts=[f1, f2] as in mechanics, f1 without z, f2 linear in z and of other y"
        return super().lacks(need)

    def _paired(self) -> bool:
        """Whether there are two parts as in mechanics: the first without `z`, the second linear in `z` and on other variables."""
        if len(self.parts) != 2:
            return False
        first, second = (ca.sparsify(self.expression(part)) for part in self.parts)
        apart = not set(first.sparsity().row()) & set(second.sparsity().row())
        return apart and not ca.depends_on(first, self.z) and not ca.depends_on(ca.jacobian(second, self.z), self.z)

    def form(self, h: SX) -> Form:
        """`y' = sum of the parts`; `z` by `g(y, z) = 0` on index 1, else as multipliers of the constraint `g(y) = 0`.

        Methods treat that constraint like a velocity constraint. `z` at the end of a step is defined by the derivative of `g`
        that contains it.
        """
        rhs, g = self.expression("rhs"), self.expression("g")
        own = scales.groups((self.y, self.z), (rhs,), ca.vertcat(g, self.role("hidden")))
        labels, count = own.variables[0], own.count
        size = scales.typical(rhs, labels, count) + scales.POSITIONS * scales.typical(self.y, labels, count) / ca.fabs(h)
        sizes = {"y": scales.spread(size, labels), "w": scales.spread(self._algebraic_size(own), own.variables[1])}
        first = self.index == 1
        form = Form(
            y={"y": self.y}, parts=tuple({"y": self.expression(part)} for part in self.parts),
            t=self.t, u=self.u, par=self.par, state={"y": self.y, "z": self.z},
            begin={"y": self.y, "w" if first else "lam": self.z}, first={"y": rhs}, closing=self.role("hidden"),
            sizes=sizes,
        )  # fmt: skip
        return replace(form, w=self.z, relation=g) if first else replace(form, lam=self.z, levels={"velocity": g})

    def _algebraic_size(self, own: scales.Groups) -> SX:
        """The size of `z`: its own, or that which the terms of the equation that defines it give it, where it is zero."""
        *before, hidden = self.levels()
        level, moved = (before[-1], self.expression("rhs")) if before else (hidden, self.y)

        def slope(e: SX, x: SX) -> SX:
            J = ca.jacobian(e, x)
            return scales.typical(J.nz[:], tuple(own.rows[i] for i in J.sparsity().row()), own.count)

        y, z = (scales.typical(x, labels, own.count) for x, labels in zip((moved, self.z), own.variables, strict=True))
        return z + slope(level, self.y) * y / (slope(hidden, self.z) + 1e-300)

    def rate_form(self, h: SX) -> Form:
        return self.form(h)

    @property
    def parts(self) -> list[str]:
        """The roles of the parts of the right-hand side."""
        return [f"part{i}" for i in range(1, 10) if f"part{i}" in self._functions]

    def _derived(self, role: str) -> SX:
        if role == "hidden":  # the constraint, or its derivative, which defines z
            return ca.densify(self.levels()[-1])
        return super()._derived(role)


class IndexOneDAE(IndexTwoDAE):
    """`y' = f(t, y, z)`, `0 = g(t, y, z)` with `g_z` regular; `algebraic` is the number of `z` and of entries of `g`."""

    index: ClassVar[int] = 1

    @suggesting(options=Keywords.__annotations__)
    def __init__(self, coordinates: Sequence[str] | int, *, algebraic: int = 1, **given: Unpack[Keywords]) -> None:
        self._algebraic = whole("algebraic, the number of algebraic variables z,", algebraic, ModelError, most=MOST)
        super().__init__(coordinates, **given)

    def _trace_constraint(self, g: Model) -> SX:
        self.z = SX.sym("z", self._algebraic)
        constraint = column("g", self._trace("g", g, ("y", "z", "t", "u")))
        if constraint.numel() != self._algebraic:
            raise ModelError(
                f"g has {constraint.numel()} entries, but there are {self._algebraic} algebraic variables z: say algebraic=..."
            )
        return constraint


class IndexThreeDAE(IndexTwoDAE):
    """`y' = f(t, y, z)`, `0 = g(t, y)` where only the second derivative of `g` contains `z`."""

    index: ClassVar[int] = 3
