"""Statics: states that stay as they are, with inputs held, and the multipliers that hold them there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import casadi as ca
import numpy as np
from numpy.typing import ArrayLike, NDArray

from dalembert import markup
from dalembert.analysis.balance import Balance
from dalembert.analysis.local import Equations, Local, local, null_space, pseudo_inverse
from dalembert.analysis.spectrum import eigenvalues
from dalembert.checking import number
from dalembert.engine import kinds
from dalembert.engine.case import check_call
from dalembert.engine.initial import vector
from dalembert.engine.inputs import inputs_of
from dalembert.engine.kinds import Values
from dalembert.errors import InconsistentState, suggesting
from dalembert.named import Array, Named
from dalembert.systems.base import System
from dalembert.systems.constrained import Constrained

MARGIN = 1e-7  # of the largest eigenvalue: real parts below this may be those of a multiple eigenvalue zero
VERDICTS = {
    "asymptotically stable": "all eigenvalues lie in the left half plane",
    "stable": "the potential energy has a minimum there",
    "marginal": "no eigenvalue lies in the right half plane, some lie on the imaginary axis: linear equations do not decide",
    "unstable": "an eigenvalue lies in the right half plane",
}


@dataclass(frozen=True, repr=False)
class Equilibrium(markup.Told, Named):
    """A state of rest: `q` and `lam` (or `x`; or `y`, `z`), what is left of the equations, and whether it is stable.

    Unpacks as keywords, `da.simulate(system, method, **da.equilibrium(system), ...)`. Of dependent constraints, `lam` are the
    multipliers of least norm.
    """

    system: System
    values: Mapping[str, Array]
    t: float
    u: Array
    par: Array
    residual: float

    def keys(self) -> tuple[str, ...]:
        return self.system.state

    def __getitem__(self, key: str) -> Array:
        return self.named(key)

    @cached_property
    def local(self) -> Local:
        """The equations near it."""
        return local(self.system, dict(self.values), self.t, self.u, self.par)

    @cached_property
    def eigenvalues(self) -> NDArray[np.complex128]:
        """Of the linearised equations, as many as there are free states."""
        return eigenvalues(self.local)

    @cached_property
    def stability(self) -> str:
        """`"asymptotically stable"`, `"stable"`, `"marginal"` or `"unstable"`."""
        real, margin = self.eigenvalues.real, MARGIN * np.abs(self.eigenvalues).max(initial=1e-300)
        if (real > margin).any():
            return "unstable"
        if (real < -margin).all():
            return "asymptotically stable"
        return "stable" if isinstance(self.system, Constrained) and self._minimum(self.system) else "marginal"

    def _minimum(self, s: Constrained) -> bool:
        """Whether an energy has a minimum on the constraints (Lagrange, Dirichlet): not with forces that have no potential."""
        if s.has("force") or s.mn or s.moving or (self.u.any() and s.depends("inputs", "q")):
            return False
        eq = Equations.of(s)
        A = np.asarray(eq.matrices(s)(_whole(self, eq), np.zeros(eq.w.numel()), self.t, self.u, self.par)[1].full())
        n = s.n
        Z = np.asarray(s.value("kinematics", self.par, q=self.q).full()) if s.has("kinematics") else np.eye(n)
        normal = s.value("normal", self.par, q=self.q, t=self.t).full() if s.mh else np.zeros((0, n))
        free = null_space(np.asarray(normal) @ Z)
        stiffness = -free.T @ A[n : n + s.nv, :n] @ Z @ free
        if not stiffness.size:
            return True
        values = np.linalg.eigvalsh((stiffness + stiffness.T) / 2)
        return bool(values[0] > 1e-9 * max(values[-1], 0.0))

    _wide = 14

    def _told(self) -> tuple[str, markup.Facts]:
        rows = [(name, _text(value)) for name, value in self.values.items()]
        said = f"{self.stability}: {VERDICTS[self.stability]}"
        rows += [("residual", f"{self.residual:.1e} of the terms"), ("stability", said)]
        if self.stability == "unstable":
            fastest = self.eigenvalues[int(np.argmax(self.eigenvalues.real))]
            rows.append(("fastest growth", f"{fastest.real:.6g} per unit of time"))
        head = f"equilibrium of {self.system.name}" + (f", u = {self.u}" if self.u.any() else "")
        return head, rows


def _text(value: Array) -> str:
    """Numbers in a line, without what is only rounding."""
    shown = np.where(np.abs(value) <= 1e-12 * np.abs(value).max(initial=0.0), 0.0, value)
    return np.array2string(shown, precision=6, threshold=12)


@suggesting
def equilibrium(
    system: System,
    *,
    q: ArrayLike | None = None,
    x: ArrayLike | None = None,
    y: ArrayLike | None = None,
    z: ArrayLike | None = None,
    t0: float = 0.0,
    u: ArrayLike | None = None,
    parameters: Mapping[str, ArrayLike] | None = None,
) -> Equilibrium:
    """The state of rest near given values, the system's own where none are given.

    It solves `f(q, 0, t0, u) = G(q)^T lam`, `g(q, t0) = 0` for a mechanical system, `(J - R) z + (B - P) u = r` and so on for
    others, by Newton's iteration with the smallest change where the equations leave a choice (dependent constraints, bodies that
    float). Of several, it is the one near the start, stable or not; where none is near, that in which a motion with much
    friction would end. `stability` says what kind it is. Where there is none, a `ConvergenceError` has the `residual` of the
    nearest point.

    >>> rest = da.equilibrium(pendulum, q=[0.1, -0.9])
    >>> rest.q, rest.lam, rest.stability
    """
    check_call(system, "auto")
    t0, par = number("t0", t0), system.pack(parameters)
    held = inputs_of(system, u, t0)(np.array([t0]))[0]
    start = _start(system, {"q": q, "x": x, "y": y, "z": z})
    eq = Equations.of(system)
    found, residual = Balance(system, eq, t0, held, par).solve(start)
    values, place = {}, 0
    for name in system.state:
        values[name] = found[place : place + system.size_of(name)]
        place += system.size_of(name)
    if isinstance(system, Constrained):
        values["lam"] = found[place:]
        if "v" in values:
            values["v"] = np.zeros(system.nv)  # solved for to round-off
        if system.m:
            values["lam"] = _least(system, values, t0, held, par)
    return Equilibrium(system, values, t0, held, par, residual)


def _start(system: System, given: Mapping[str, ArrayLike | None]) -> Values:
    """Where to begin: what was given, else the system's own values, else zero."""
    out = {}
    for name, value in given.items():
        if value is not None and name not in system.state:
            raise InconsistentState(f"{name} is no part of the state of {system.name!r}, which has {' and '.join(system.state)}")
    for name in system.state:
        value = given.get(name)
        rest = np.zeros(system.size_of(name)) if name in ("v", "p") else system.initial.get(name, np.zeros(system.size_of(name)))
        out[name] = vector(system, name, rest if value is None else value)
    return out


def _whole(at: Equilibrium, eq: Equations) -> Array:
    """All unknowns of the equations at an equilibrium."""
    return np.concatenate([at.values[name] for name in (*at.system.state, "lam") if name in at.values])


def _least(s: Constrained, values: Values, t: float, u: Array, par: Array) -> Array:
    """The multipliers of least norm that hold a state: `G^T lam = f`."""
    at = kinds.complete(s, {name: values[name] for name in s.state}, t, par)
    G = np.asarray(s.value("jacobian", par, q=at["q"], t=t).full())
    f = ca.Function("force", s.symbols(), [ca.densify(s.force())])
    force = f(at["q"], at["v"], at.get("p", np.zeros(s.nv)), t, u, par)
    _, null = pseudo_inverse(G.T)
    lam = values["lam"] + np.linalg.lstsq(G.T, np.asarray(force.full())[:, 0] - G.T @ values["lam"], rcond=1e-10)[0]
    if null.shape[1]:
        lam -= null @ np.linalg.lstsq(null, lam, rcond=None)[0]
    return np.asarray(lam)
