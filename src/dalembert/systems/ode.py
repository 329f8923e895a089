"""Ordinary differential equations `x' = f(t, x)`, and implicit equations `F(t, y, y') = 0` of index one."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import ClassVar

import casadi as ca
from casadi import SX
from numpy.typing import ArrayLike

from dalembert.checking import MOST, whole
from dalembert.errors import ModelError, suggesting
from dalembert.systems import scales
from dalembert.systems.base import System
from dalembert.systems.form import Form
from dalembert.systems.needs import Need
from dalembert.systems.shapes import column, mapping, numbers, port_names
from dalembert.systems.tracing import Model, symbols

RATES = ("yp", "ydot", "dy")  # what the rates may be called in the functions of an implicit system


def _coordinates(given: Sequence[str] | int | None, name: str, initial: Mapping[str, ArrayLike] | None) -> Sequence[str] | int:
    """Names of the variables; without them, as many as there are initial values, called `x0`, `x1`, ..."""
    values = mapping("initial", initial).get(name)
    if given is None and values is None:
        raise ModelError(f"say how many variables there are: coordinates=2, names, or initial={{{name!r}: [...]}}")
    count = given if isinstance(given, int) else numbers(f"initial value {name!r}", values).size if values is not None else 0
    return [f"{name}{i}" for i in range(count)] if given is None or isinstance(given, int) else given


class _FirstOrder(System):
    """What both kinds have: a state without positions and velocities, and inputs."""

    def __init__(
        self,
        coordinates: Sequence[str] | int | None,
        inputs: int | Sequence[str],
        parameters: Mapping[str, ArrayLike] | None,
        name: str | None,
        initial: Mapping[str, ArrayLike] | None,
    ) -> None:
        whole_number = not isinstance(coordinates, bool) and isinstance(coordinates, int)
        if whole_number:
            whole("the number of coordinates", coordinates, ModelError, most=MOST)
        super().__init__(_coordinates(coordinates, self.state[0], initial), parameters, name, initial)
        count = inputs if isinstance(inputs, int) else len(inputs)
        self.u = SX.sym("u", whole("inputs", count, ModelError, least=0, most=MOST))
        self._ports = () if isinstance(inputs, int) else port_names(inputs, count)

    def lacks(self, need: Need) -> str | None:
        if need in (Need.VELOCITIES, Need.POSITION_FORCES, Need.SMALL_MASS):
            return f"{self.name!r}, a system of first order, which has no velocities"
        if need in (Need.PARTS, Need.PARTED):
            return f"{self.name!r}, whose right-hand side has one part"
        return super().lacks(need)

    def rate_form(self, h: SX) -> Form:
        return self.form(h)

    def _sizes(self, rate: SX, x: SX, h: SX) -> SX:
        return scales.typical(rate) + scales.POSITIONS * scales.typical(x) / ca.fabs(h)


class ODE(_FirstOrder):
    """`x' = f(t, x)`: any Runge-Kutta method integrates it, explicit or implicit.

    Parameters
    ----------
    f
        The right-hand side, a function of `t`, `x`, inputs `u` and parameters, matched by name; the state may also be called `y`
        or `z` in it.
    coordinates
        Names of the states, or their number; by default as many as the initial value has.
    inputs
        The number or the names of inputs `u` that `f` uses.
    parameters, name, initial
        As for `Mechanical`; the initial value is called `x`.

    Examples
    --------
    >>> decay = da.ODE(lambda t, x, k: -k * x, initial={"x": [1.0]}, parameters={"k": 2.0})
    >>> da.simulate(decay, "rk4", t_end=1.0, step=0.01).x[-1]
    """

    kind: ClassVar[str] = "ode"
    variables: ClassVar[tuple[str, ...]] = ("x",)
    state: ClassVar[tuple[str, ...]] = ("x",)
    starts: ClassVar[tuple[str, ...]] = ("x",)
    given: ClassVar[frozenset[str]] = frozenset({"f", "points"})
    x: SX

    @suggesting
    def __init__(
        self,
        f: Model,
        coordinates: Sequence[str] | int | None = None,
        *,
        inputs: int | Sequence[str] = 0,
        parameters: Mapping[str, ArrayLike] | None = None,
        name: str | None = None,
        initial: Mapping[str, ArrayLike] | None = None,
    ) -> None:
        super().__init__(coordinates, inputs, parameters, name, initial)
        called = {key: symbols(self.x, (self.n,)) for key in ("y", "z") if key not in self.parameters}
        value = self._trace("f", f, ("x", "t", "u", *called), called)
        self._define("f", ca.densify(column("f", value, self.n)))

    def form(self, h: SX) -> Form:
        f = self.expression("f")
        x = {"x": self.x}
        return Form(
            y=x, parts=({"x": f},), t=self.t, u=self.u, par=self.par, state=x, begin=x,
            sizes={"x": self._sizes(f, self.x, h)}, first={"x": f},
        )  # fmt: skip


class ImplicitDAE(_FirstOrder):
    """`F(t, y, y') = 0` of index one: `F_y'` may be singular; what is then algebraic determines the rest of `y`.

    Methods whose last stage is the end of the step integrate it: Radau IIA, Lobatto IIIC.

    Parameters
    ----------
    F
        As many equations as there are variables, a function of `t`, `y`, the rates `yp`, inputs `u` and parameters, matched by
        name.
    coordinates
        Names of the variables, or their number; by default as many as the initial value has.
    inputs
        The number or the names of inputs `u` that `F` uses.
    parameters, name, initial
        As for `Mechanical`; initial values are called `y`, and `z` is a first guess of the rates `y'`.
    """

    kind: ClassVar[str] = "implicit"
    variables: ClassVar[tuple[str, ...]] = ("y", "z")
    state: ClassVar[tuple[str, ...]] = ("y",)
    starts: ClassVar[tuple[str, ...]] = ("y", "z")
    given: ClassVar[frozenset[str]] = frozenset({"F", "points"})
    y: SX
    z: SX  # the rates

    @suggesting
    def __init__(
        self,
        F: Model,
        coordinates: Sequence[str] | int | None = None,
        *,
        inputs: int | Sequence[str] = 0,
        parameters: Mapping[str, ArrayLike] | None = None,
        name: str | None = None,
        initial: Mapping[str, ArrayLike] | None = None,
    ) -> None:
        super().__init__(coordinates, inputs, parameters, name, initial)
        called = {key: symbols(self.z, (self.n,)) for key in RATES if key not in self.parameters}
        value = self._trace("F", F, ("y", "t", "u", *called), called)
        if callable(F) and not set(inspect.signature(F).parameters) & set(RATES):
            raise ModelError(f"F does not have the rates y' as an argument: call them {' or '.join(RATES)}")
        if value.numel() != self.n:
            raise ModelError(f"F has {value.numel()} entries, but there are {self.n} variables")
        self._define("F", ca.densify(column("F", value, self.n)))

    @property
    def m(self) -> int:
        """Rows of the equations without a rate: what is algebraic as it is written."""
        return self.n - len(set(ca.jacobian(self.expression("F"), self.z).sparsity().row()))

    def lacks(self, need: Need) -> str | None:
        if need is Need.INERTIA:
            return f"{self.name!r}, which is implicit in its rates"
        if need is Need.MOMENTA:
            return f"{self.name!r}, whose algebraic equations hold at the end of a step only if that is its last stage"
        return super().lacks(need)

    def form(self, h: SX) -> Form:
        """`y' = w`, `F(t, y, w) = 0`."""
        y = {"y": self.y}
        size = scales.POSITIONS * scales.typical(self.y) / ca.fabs(h)
        return Form(
            y=y, parts=({"y": self.z},), t=self.t, u=self.u, par=self.par, state=y, begin=y,
            sizes={"y": size, "w": size + SMALLEST}, w=self.z, relation=self.expression("F"),
        )  # fmt: skip


SMALLEST = 1e-12  # of a rate: where all variables are zero
