"""`linearize`: linear equations `s' = A s + B u`, `y = C s + D u` near an equilibrium, in minimal states."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import casadi as ca
import numpy as np
from numpy.typing import ArrayLike, NDArray

from dalembert import markup
from dalembert.analysis.local import Local, local
from dalembert.analysis.observed import Observed, Outputs, observed
from dalembert.analysis.spectrum import eigenvalues
from dalembert.analysis.statics import equilibrium
from dalembert.analysis.vibration import Modes, modes_of
from dalembert.checking import number, reals
from dalembert.engine import kinds
from dalembert.engine.case import check_call
from dalembert.engine.initial import vector
from dalembert.engine.inputs import inputs_of
from dalembert.engine.kinds import Values
from dalembert.errors import InconsistentState, MethodError, MissingPackage, suggesting
from dalembert.hooks import Hook
from dalembert.named import Array
from dalembert.systems.base import System
from dalembert.systems.constrained import Constrained

if TYPE_CHECKING:
    import control
    from matplotlib.figure import Figure

Complex = NDArray[np.complex128]
MOST = 24  # states and inputs whose matrices a notebook shows
ON = 1e-6  # of the terms of a constraint: a point further off is none on it


@dataclass(frozen=True, repr=False)
class Linearization(markup.Told):
    """`s' = A s + B u`, `y = C s + D u` for deviations from a point; see `da.linearize`.

    `states` are the names of `s`: entries of the system's own state from which the others follow on the constraints. `rate` is
    `s'` at the point itself, zero at an equilibrium. Where outputs depend on rates of inputs, which the index of a DAE allows,
    `feedthrough` has `D`, and then the matrices of `u'`, `u''`, ...
    """

    system: System
    values: Mapping[str, Array]
    t: float
    u: Array
    par: Array
    local: Local
    C: Array
    feedthrough: tuple[Array, ...]
    outputs: tuple[str, ...]

    @property
    def A(self) -> Array:
        """How the states act on their rates."""
        return self.local.A

    @property
    def B(self) -> Array:
        """How the inputs act on the rates of the states."""
        return self.local.B

    @property
    def D(self) -> Array:
        """How the inputs act on the outputs at once."""
        return self.feedthrough[0]

    @property
    def states(self) -> tuple[str, ...]:
        """The names of the states."""
        return self.local.names

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the inputs."""
        return tuple(self.system.ports)

    @property
    def rate(self) -> Array:
        """The rates of the states at the point."""
        return self.local.rate

    @property
    def equilibrium(self) -> bool:
        """Whether the point is an equilibrium."""
        return self.local.still

    @cached_property
    def eigenvalues(self) -> Complex:
        """Of `A`, slowest first."""
        return eigenvalues(self.local)

    def modes(self) -> Modes:
        """Frequencies, damping and shapes of the free motion."""
        return modes_of(self.system, self.values, self.t, self.par, self.local)

    def transfer(self, omega: ArrayLike) -> Complex:
        """The transfer function `C (i omega - A)^-1 B + D` at frequencies in radians per unit of time.

        Outputs by inputs; with an axis of frequencies first where several are given.
        """
        given = reals("omega", omega, MethodError)
        n, s = len(self.A), 1j * given.ravel()
        inner = np.linalg.solve(s[:, None, None] * np.eye(n) - self.A, np.broadcast_to(self.B, (len(s), *self.B.shape)))
        out = self.C @ inner
        for k, D in enumerate(self.feedthrough):
            out = out + (s**k)[:, None, None] * D
        return np.asarray(out[0] if given.ndim == 0 else out)

    @suggesting
    def bode(self, omega: ArrayLike | None = None) -> Figure:
        """Magnitude in decibels and phase in degrees of each output, one column of the figure for each input.

        Without `omega`, from a decade below the slowest eigenvalue to one above the fastest.
        """
        if not self.system.nu:
            raise MethodError(f"{self.system.name!r} has no inputs: there is no transfer function")
        return BODE(self, self._range() if omega is None else reals("omega", omega, MethodError).ravel())

    def _range(self) -> Array:
        sizes = np.abs(self.eigenvalues)
        sizes = sizes[sizes > 1e-9 * sizes.max(initial=1e-300)]
        low, high = (float(sizes.min()), float(sizes.max())) if len(sizes) else (1.0, 1.0)
        return np.geomspace(low / 10, high * 10, 800)

    def to_control(self) -> control.StateSpace:
        """As a `control.StateSpace` of python-control, with names of states, inputs and outputs; `rod.x` is `rod_x` there."""
        try:
            import control as library
        except ImportError as error:
            raise MissingPackage.of("python-control", "control", "to_control()") from error
        self._proper()
        named = ([name.replace(".", "_") for name in names] for names in (self.states, self.inputs, self.outputs))
        states, inputs, outputs = named  # python-control keeps dots for signals of subsystems
        return library.ss(
            self.A, self.B, self.C, self.D, states=states, inputs=inputs, outputs=outputs,
            name=self.system.name.replace(".", " "),
        )  # fmt: skip

    def _proper(self) -> None:
        if len(self.feedthrough) > 1:
            rates = np.abs(np.array(self.feedthrough[1:])).max(axis=0)
            i, j = np.unravel_index(int(rates.argmax()), rates.shape)
            raise MethodError(
                f"output {self.outputs[i]!r} depends on the rate of input {self.inputs[j]!r}, so the transfer function is not "
                "proper and has no state-space form: choose other outputs (lin.transfer(omega) holds all the same)"
            )

    _wide = 11

    def _told(self) -> tuple[str, markup.Facts]:
        where = "an equilibrium" if self.equilibrium else f"a point that moves (rates up to {np.abs(self.rate).max():.3g})"
        size = np.abs(self.A).max(initial=1.0)
        sizes = f"{len(self.states)} states, {len(self.inputs)} inputs, {len(self.outputs)} outputs"
        return f"{self.system.name} near {where}: {sizes}", [
            ("states", _listed(self.states)),
            ("inputs", _listed(self.inputs)),
            ("outputs", _listed(self.outputs)),
            ("eigenvalues", _listed([_complex(x, size) for x in self.eigenvalues if x.imag >= 0])),
        ]

    def _more(self) -> tuple[str, str]:
        whole = np.block([[self.A, self.B], [self.C, self.D]])
        if whole.shape[1] > MOST:
            return "", ""
        whole = np.where(np.abs(whole) <= 1e-12 * np.abs(whole).max(initial=0.0), 0.0, whole)
        names = [*(f"{name}'" for name in self.states), *self.outputs]
        rows = [[name, *(f"{x:.5g}" for x in row)] for name, row in zip(names, whole, strict=True)]
        return "A, B, C, D", markup.table(["", *self.states, *self.inputs], rows)


BODE: Hook[[Linearization, Array], Figure] = Hook("Linearization.bode", "dalembert.plotting")


def _listed(names: tuple[str, ...] | list[str], most: int = 12) -> str:
    return (", ".join(names[:most]) + (f", ... ({len(names)})" if len(names) > most else "")) or "none"


def _complex(x: complex, size: float) -> str:
    real, imag = (0.0 if abs(part) < 1e-12 * size else part for part in (x.real, x.imag))
    return f"{real:.6g}" if not imag else f"{real:.6g} +- {imag:.6g}i" if real else f"+-{imag:.6g}i"


@suggesting
def linearize(
    system: System,
    *,
    at: Mapping[str, ArrayLike] | object | None = None,
    u: ArrayLike | None = None,
    outputs: Outputs | None = None,
    t0: float = 0.0,
    parameters: Mapping[str, ArrayLike] | None = None,
) -> Linearization:
    """Linear equations near a point, in as few states as the constraints leave free.

    Parameters
    ----------
    at
        The point: `{"q": ...}`, what `da.equilibrium` or `da.consistent` returns, or a sample `sol.at(t)`; velocities are zero
        where none are given. By default the equilibrium near the system's own initial values. Mechanical and Hamiltonian systems
        can be linearised at any consistent state, others of index 2 and more at an equilibrium.
    u
        Inputs at the point, held; those of an `Equilibrium` where none are given.
    outputs
        What is measured: names of coordinates, `"v_x1"` for the velocity of `x1`, `"lam1"` or `"lam"` for multipliers,
        `"energy"`; a function of `q`, `v`, `lam`, `t`, `u` and parameters; or such functions by name. By default the outputs of
        the ports of a `PortHamiltonian`, the coordinates of others.

    Examples
    --------
    >>> lin = da.linearize(cart, at=da.equilibrium(cart, q=[0.0, 0.0]), outputs=["x", "theta"])
    >>> lin.A, lin.B, lin.C, lin.D, lin.eigenvalues
    >>> lin.modes(), lin.bode(), lin.to_control()
    """
    check_call(system, "auto")
    t0 = number("t0", t0)
    at = equilibrium(system, u=u, t0=t0, parameters=parameters) if at is None else at
    u = getattr(at, "u", None) if u is None and system.nu and hasattr(at, "residual") else u
    par = system.pack(parameters) if parameters is not None else getattr(at, "par", system.pack())
    held = inputs_of(system, u, t0)(np.array([t0]))[0]
    values = point(system, at, t0, held, par)
    found = local(system, values, t0, held, par)
    seen = observed(system, outputs)
    C, passed = _measured(system, seen, found, values, t0, held, par)
    return Linearization(system, values, t0, held, par, found, C, passed, seen.names)


@suggesting
def modes(
    system: System,
    *,
    at: Mapping[str, ArrayLike] | object | None = None,
    u: ArrayLike | None = None,
    t0: float = 0.0,
    parameters: Mapping[str, ArrayLike] | None = None,
) -> Modes:
    """Frequencies, damping and shapes of the free motion near an equilibrium, of a constrained system too.

    Arguments are those of `da.linearize`. Shapes are in the coordinates of the system; `mode.plot()` and
    `mode.animate("mode.gif")` draw them.

    >>> for mode in da.modes(double_pendulum, at={"q": [0, -1, 0, -2]}):
    ...     print(mode.frequency, mode.damping, mode.shape)
    """
    return linearize(system, at=at, u=u, t0=t0, parameters=parameters).modes()


def point(system: System, at: object, t: float, u: Array, par: Array) -> Values:
    """A consistent point as values by name, with `lam` for mechanical systems."""
    given: dict[str, object] = {}
    held = getattr(at, "values", at)
    known = held if isinstance(held, Mapping) else at if isinstance(at, Mapping) else None
    if known is None:
        raise MethodError("at must be a dictionary such as {'q': ...}, an equilibrium, consistent values or a sample sol.at(t)")
    for name in system.starts:
        if name in known and not (name not in system.state and any(part in known for part in system.state[1:])):
            given[name] = known[name]
    unknown = [name for name in known if name not in (*system.starts, *system.variables, "lam", "t")]
    if unknown or not given:
        raise MethodError(f"at must have values of {' and '.join(system.state)} for {system.name!r}, not {list(known)}")
    for name in given:
        vector(system, name, given[name])
    if isinstance(system, Constrained):
        values = kinds.choose(system, given, par, t, u)  # type: ignore[arg-type]
        _on_constraints(system, values, t, par)
        return values
    if "lam" in known:
        given.pop("lam", None)
    return kinds.choose(system, given, par, t, u)  # type: ignore[arg-type]


def _on_constraints(s: Constrained, values: Values, t: float, par: Array) -> None:
    """Refuse a point off the constraints."""
    at = kinds.complete(s, values, t, par)
    for role, slope, by in (("holonomic", "normal", "q"), ("drift", "jacobian", "v")):
        if not (s.mh if role == "holonomic" else s.m):
            continue
        r = s.numeric(role, par, **at, t=t)[0]
        J = np.abs(np.asarray(s.value(slope, par, q=at["q"], t=t).full()))
        size = J @ np.abs(at[by]) + np.abs(s.numeric("rate", par, q=at["q"], t=t)[0][: len(r)]) * (by == "v") + 1e-12
        k = int(np.argmax(np.abs(r) / size))
        if abs(r[k]) > ON * size[k]:
            raise InconsistentState(
                f"the point violates constraint {k + 1} of {s.m} ({'position' if by == 'q' else 'velocity'}): it is {r[k]:.1e}; "
                "take it from da.equilibrium(system, ...) or da.consistent(system, ...)"
            )


def _measured(
    system: System, seen: Observed, found: Local, values: Values, t: float, u: Array, par: Array
) -> tuple[Array, tuple[Array, ...]]:
    """`C` and what the inputs give at once, of what is measured."""
    state = [getattr(system, name) for name in system.state]
    w = ca.vertcat(*state, seen.lam)
    f = ca.Function("C", [w, system.t, system.u, system.par], [ca.densify(ca.jacobian(seen.rows, x)) for x in (w, system.u)])
    numbers = np.concatenate([np.ravel(values[name]) for name in system.state])
    lam = _multipliers(system, values, t, u, par) if seen.lam.numel() else np.zeros(0)
    by_w, by_u = (np.asarray(m.full()) for m in f(np.concatenate([numbers, lam]), t, u, par))
    k = by_w.shape[1]
    C, passed = by_w @ found.T[:k], [by_w @ U[:k] for U in found.U]
    passed[0] = passed[0] + by_u
    while len(passed) > 1 and not passed[-1].any():
        passed.pop()
    return C, tuple(passed)


def _multipliers(system: System, values: Values, t: float, u: Array, par: Array) -> Array:
    """The multipliers at a point: given, or those of the acceleration level; of a port-Hamiltonian system they are states."""
    if "lam" in values:
        return np.asarray(values["lam"])
    return kinds.multipliers(system, {name: values[name] for name in system.state}, par, t, u)
