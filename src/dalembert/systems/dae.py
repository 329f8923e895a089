"""Hessenberg systems of index 2: `y' = sum_m f_m(t, y, z)`, `0 = g(t, y)`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import casadi as ca

from dalembert.errors import ModelError, UnknownKeyword
from dalembert.systems import tracing
from dalembert.systems.base import SX, System, column


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
    parameters, name, initial
        As for `Mechanical`; initial values are called `y` and `z`, and `z` is found from `y` where it is not given.

    Arguments of functions are matched by name: `y`, `z`, `t` and any parameter.
    """

    kind = "dae"
    momenta = "v"
    given: ClassVar[frozenset[str]] = frozenset(["holonomic", "points", "rhs", *(f"part{i}" for i in range(1, 10))])

    def __init__(
        self,
        coordinates: Sequence[str] | int,
        *,
        g: Any,
        f: Any = None,
        parts: Sequence[Any] | None = None,
        parameters: Mapping[str, Any] | None = None,
        name: str | None = None,
        initial: Mapping[str, Any] | None = None,
        **unknown: Any,
    ) -> None:
        if unknown:
            raise UnknownKeyword.of(type(self).__name__, unknown, type(self).__init__)
        renamed = {"y": "q", "z": "v"}
        super().__init__(coordinates, parameters, name, {renamed.get(k, k): x for k, x in (initial or {}).items()}, None)
        if (f is None) == (parts is None):
            raise ModelError("give the right-hand side as f=... or as parts=[...], one of them")
        constraint = column("g", self._trace("g", g, ("y", "t")))
        if not constraint.numel():
            raise ModelError("an index-2 system needs at least one constraint g")
        self.v = SX.sym("z", constraint.numel())
        self._define("holonomic", ca.densify(constraint))
        functions = [f] if parts is None else list(parts)
        if len(functions) > 5:
            raise ModelError(f"there are five Lobatto matrices, but {len(functions)} parts")
        total = SX(self.n, 1)
        for i, function in enumerate(functions, 1):
            part = column(f"part {i}", self._trace(f"part {i}", function, ("y", "z", "t")), self.n)
            if parts is not None and i == 1 and ca.depends_on(part, self.v):
                raise ModelError(
                    "the first part must not depend on z (it is treated with Lobatto IIIA, which has no stage for it)"
                )
            self._define(f"part{i}", ca.densify(part))
            total += part
        self._define("rhs", ca.densify(total))
        if not ca.jacobian(total, self.v).nnz():
            raise ModelError("the right-hand side does not depend on z: the constraint cannot act")

    @classmethod
    def of_expressions(
        cls, like: System, names: Sequence[str], y: Any, z: Any, parts: list[Any], g: Any, initial: Any
    ) -> IndexTwoDAE:
        """From expressions in given symbols, with the parameters of another system."""
        self = cls.__new__(cls)
        System.__init__(self, names, like.parameters, like.name, initial, None)
        self.q, self.v, self.t, self.par = y, z, like.t, like.par
        self._define("holonomic", ca.densify(g))
        for i, part in enumerate(parts, 1):
            self._define(f"part{i}", ca.densify(part))
        self._define("rhs", ca.densify(sum(parts, SX(y.numel(), 1))))
        return self

    def _arguments(self) -> dict[str, Any]:
        return {
            "y": tracing.symbols(self.q, (self.n,)),
            "z": tracing.symbols(self.v, (self.v.numel(),)),
            "t": tracing.symbols(self.t, ()),
        }

    @property
    def parts(self) -> list[str]:
        """The roles of the parts of the right-hand side."""
        return [f"part{i}" for i in range(1, 10) if f"part{i}" in self._functions]

    def _derived(self, role: str) -> Any:
        if role == "drift":  # the hidden constraint, which defines z
            return ca.densify(self.role("jacobian") @ self.expression("rhs") + self.role("rate"))
        return super()._derived(role)
