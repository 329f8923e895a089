"""Diagnosis of a system before a run: index, redundancy, conditioning, consistency, and suitable methods."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import singledispatch

import casadi as ca
import numpy as np
from casadi import SX
from numpy.typing import ArrayLike

from dalembert import markup
from dalembert.checking import number
from dalembert.engine import kinds, newton
from dalembert.engine.array import LARGEST, DerivativeArray
from dalembert.engine.case import Array
from dalembert.engine.checks import independent
from dalembert.engine.kinds import Values
from dalembert.engine.kinds.mechanics import accelerations
from dalembert.errors import ConvergenceError, MethodError, suggesting
from dalembert.methods.base import able, find, obstacles
from dalembert.systems.base import System
from dalembert.systems.constrained import Constrained
from dalembert.systems.dae import IndexTwoDAE
from dalembert.systems.linear_dae import LinearDAE
from dalembert.systems.mechanical import Mechanical
from dalembert.systems.needs import Need
from dalembert.systems.ode import ODE, ImplicitDAE
from dalembert.systems.port_hamiltonian import PortHamiltonian


@dataclass(repr=False)
class Diagnosis(markup.Told):
    """The findings of `da.diagnose`; prints as a report."""

    name: str
    kind: str
    index: int | None
    free_values: int | None
    degrees_of_freedom: int
    hidden: list[str] = field(default_factory=list)
    redundant: tuple[int, ...] = ()
    nearly_dependent: tuple[int, ...] = ()
    singular_pose: bool = False
    massless: tuple[str, ...] = ()
    conditioning: dict[str, float] = field(default_factory=dict)
    residuals: dict[str, float] = field(default_factory=dict)
    consistent: bool = True
    methods: list[str] = field(default_factory=list)
    recommended: str = ""
    remarks: list[str] = field(default_factory=list)
    constraints: int | None = None  # equations that values must satisfy, with all hidden ones
    off: float | None = None  # what is left of these at the given values, relative to their terms

    @property
    def healthy(self) -> bool:
        """Whether a run can start from these values."""
        return self.consistent and not self.redundant and not self.singular_pose and self.index is not None

    _wide = 20

    def _told(self) -> tuple[str, markup.Facts]:
        """What was found, by name; rows without a name belong to the one before."""
        index = str(self.index) if self.index is not None else "undefined: the equations are singular here"
        rows = [("index", index), ("degrees of freedom", str(self.degrees_of_freedom))]
        if self.free_values is not None:
            rows.append(("free initial values", str(self.free_values)))
        rows += [("" if i else "hidden", text) for i, text in enumerate(self.hidden)]
        rows += [(key, f"{value:.1e}") for key, value in self.residuals.items()]
        rows.append(("consistent", "yes" if self.consistent else "no"))
        rows += [(f"condition, {key}", f"{value:.1e}") for key, value in self.conditioning.items()]
        rows += [("" if i else "!", text) for i, text in enumerate(self.remarks)]
        rows += [("recommended", self.recommended), ("methods that fit", ", ".join(self.methods) or "none")]
        return f"{self.name} ({self.kind})", rows


@suggesting
def diagnose(
    system: System, *, q: ArrayLike | None = None, v: ArrayLike | None = None, p: ArrayLike | None = None,
    x: ArrayLike | None = None, y: ArrayLike | None = None, z: ArrayLike | None = None, t: float = 0.0,
    parameters: Mapping[str, ArrayLike] | None = None,
) -> Diagnosis:  # fmt: skip
    """Look at a system at a state before it is run.

    The index is that of the derivative array there (`engine.array`), by ranks; of large systems that of the pencil of the
    linearised equations. The default values of the system are used where none are given.
    """
    if not isinstance(system, System):
        raise MethodError(f"diagnose takes a system such as da.Mechanical(...), not {type(system).__name__}")
    par, t = system.pack(parameters), number("t", t)
    given = {"q": q, "v": v, "p": p, "x": x, "y": y, "z": z}
    values = kinds.choose(system, given, par, t, np.zeros(system.nu))
    return _look(system, values, t, par)


@singledispatch
def _look(s: System, values: Values, t: float, par: Array) -> Diagnosis:
    raise MethodError(f"diagnose does not know {type(s).__name__}")


@_look.register
def _(s: Constrained, values: Values, t: float, par: Array) -> Diagnosis:
    at = kinds.complete(s, values, t, par)
    K = _matrix(s, "jacobian", par, at["q"], t)
    kept, extra, smallest, near = _rank(K)
    out = Diagnosis(s.name, s.kind, None, None, s.nv - len(kept))
    _dependence(out, s, at, K, par, t, extra, near, smallest)
    out.massless = s.massless(at["q"], par) if isinstance(s, Mechanical) else ()
    if out.massless:
        out.remarks.append(
            f"no mass in the direction of {', '.join(out.massless)}: only methods that do not divide by masses fit"
        )
    A, F, C, d = (np.asarray(e.full()) for e in _accelerations(s, at, par, t))
    _conditioning(out, s, A, K)
    _consistency(out, s, at, K, par, t)
    if s.mh:
        out.hidden.append(f"{s.mh} holonomic: g = 0 is stated; G v + g_t = 0 and its rate, which fixes lam, are hidden")
    if s.mn:
        out.hidden.append(f"{s.mn} nonholonomic: A v + a = 0 is stated; its rate, which fixes lam, is hidden")
    matrix, right = np.block([[A, K.T], [C, np.zeros((s.m, s.m))]]), np.concatenate([F[:, 0], d[:, 0]])
    best = np.linalg.lstsq(matrix, right, rcond=None)[0][s.nv :]
    stated = _stated(s)
    _set_index(out, stated, np.concatenate([*(at[name] for name in stated.names), best]), t, (np.zeros(s.nu), par))
    if out.massless and out.free_values is not None and not s.mn:
        out.degrees_of_freedom = min(out.degrees_of_freedom, -(-out.free_values // 2))
    _choose(out, s)
    return out


def _matrix(s: Constrained, role: str, par: Array, q: Array, t: float) -> Array:
    return np.asarray(s.value(role, par, q=q, t=t).full())


def _accelerations(s: Constrained, at: Values, par: Array, t: float) -> tuple[ca.DM, ...]:
    p = at.get("p", np.zeros(s.nv))
    return tuple(accelerations(s, friction=True).call([at["q"], at["v"], p, t, np.zeros(s.nu), par]))


def _dependence(
    out: Diagnosis, s: Constrained, at: Values, K: Array, par: Array, t: float, extra: list[int], near: list[int], smallest: float
) -> None:
    """Say which constraints depend on others: always, at this position alone, or nearly."""
    out.redundant = tuple(i + 1 for i in extra)
    many = len(extra) > 1
    if extra and _only_here(s, at, par, t):
        out.singular_pose, out.redundant = True, ()
        out.remarks.append(
            f"singular pose: constraint{'s' * many} {_list(extra)} depend{'s' * (not many)} on the others at this position only"
        )
    elif extra:
        out.remarks.append(
            f"redundant: constraint{'s' * many} {_list(extra)} follow{'s' * (not many)} from the others; "
            f"remove {'them' if many else 'it'}"
        )
    elif near:
        out.nearly_dependent = tuple(i + 1 for i in near)
        out.remarks.append(f"nearly dependent: constraints {_list(near)} (smallest singular value {smallest:.1e} of unit rows)")


def _only_here(s: Constrained, at: Values, par: Array, t: float) -> bool:
    """Whether constraints that depend on each other do so at this position alone: look beside it, on the constraints."""
    if not s.mh:
        return not _rank(_matrix(s, "jacobian", par, at["q"] + 0.01, t))[1]
    _, sizes, vt = np.linalg.svd(_matrix(s, "normal", par, at["q"], t))
    free = vt[int((sizes > 1e-10 * sizes[0]).sum()) :]

    def residual(x: Array) -> tuple[ca.DM, ca.DM]:
        return s.value("holonomic", par, q=x, t=t), s.value("normal", par, q=x, t=t)

    def nearest(x: Array, r: Array, J: newton.Matrix) -> Array:
        return np.asarray(np.linalg.lstsq(np.asarray(ca.DM(J).full()), r, rcond=1e-9)[0])

    for sign in (0.02, -0.02):
        for direction in free:
            begin = at["q"] + sign * max(1.0, float(np.abs(at["q"]).max())) * direction
            try:
                q = newton.solve(residual, begin, change=nearest, scale=1e-3, what="the constraints", t=t)
            except ConvergenceError:
                continue
            moved = np.abs(q - at["q"]).max() > 1e-3
            if moved and not _rank(_matrix(s, "jacobian", par, q, t), 1e-7)[1]:
                return True
    return False


def _rank(K: Array, tolerance: float = 1e-10) -> tuple[list[int], list[int], float, list[int]]:
    """Independent rows, dependent rows, smallest singular value of unit rows, and rows that nearly depend on each other."""
    if not len(K):
        return [], [], 1.0, []
    norms = np.linalg.norm(K, axis=1)
    zero = [i for i, x in enumerate(norms) if x < 1e-12]
    unit = K / np.where(norms > 0, norms, 1)[:, None]
    rows = [i for i in range(len(K)) if i not in zero]
    kept, extra = independent(unit[rows], tolerance)
    u, s, _ = np.linalg.svd(unit[rows])
    smallest = float(s[-1]) if len(s) == len(rows) and len(s) else 0.0
    near = [rows[i] for i in np.flatnonzero(np.abs(u[:, -1]) > 0.1)] if smallest < 1e-4 and rows else []
    return [rows[i] for i in kept], sorted([*zero, *(rows[i] for i in extra)]), smallest, near


def _list(rows: list[int]) -> str:
    return ", ".join(str(i + 1) for i in rows)


def _conditioning(out: Diagnosis, s: Constrained, M: Array, K: Array) -> None:
    if isinstance(s, Mechanical):
        out.conditioning["M"] = float(np.linalg.cond(M))
    if len(K):
        matrix = np.block([[M, K.T], [K, np.zeros((len(K), len(K)))]])
        if not out.massless:
            out.conditioning["G M^-1 G^T"] = float(np.linalg.cond(K @ np.linalg.solve(M, K.T)))
        out.conditioning["whole"] = float(np.linalg.cond(matrix))


def _consistency(out: Diagnosis, s: Constrained, at: Values, K: Array, par: Array, t: float) -> None:
    size = {"position": 1.0, "velocity": 1.0}
    if s.mh:
        out.residuals["position, |g|"] = float(np.abs(s.numeric("holonomic", par, q=at["q"], t=t)[0]).max())
        size["position"] = float((np.abs(_matrix(s, "normal", par, at["q"], t)) @ np.abs(at["q"])).max()) + 1e-12
    if s.m:
        out.residuals["velocity, |G v|"] = float(np.abs(s.numeric("drift", par, q=at["q"], v=at["v"], t=t)[0]).max())
        size["velocity"] = float((np.abs(K) @ np.abs(at["v"])).max()) + 1e-12
    for key, value in out.residuals.items():
        level = key.split(",")[0]
        if value > 1e-9 * size[level] + 1e-14:
            out.consistent = False
            out.remarks.append(
                f"inconsistent at the {level} level by {value:.1e}; start from da.consistent(system, q=..., {s.momenta}=...)"
            )


@dataclass(frozen=True)
class _Equations:
    """The equations as stated, `rows(x, x', t, u, parameters) = 0`; `names` are the blocks of `x`, the multipliers last."""

    names: tuple[str, ...]
    rows: SX
    x: SX
    rate: SX
    t: SX
    given: tuple[SX, SX]


def _stated(s: Constrained) -> _Equations:
    """Of a mechanical or Hamiltonian system, for `(q, v, lam)` or `(q, p, lam)`."""
    form = s.rate_form(SX(1.0))
    rates = {name: SX.sym(f"{name}'", y.numel()) for name, y in form.y.items()}
    rows = [form.inertia.get(name, SX.eye(y.numel())) @ rates[name] - form.total(name) for name, y in form.y.items()]
    rows += [form.levels[level] for level in ("position", "nonholonomic") if level in form.levels]
    x, rate = ca.vertcat(*form.y.values(), form.lam), ca.vertcat(*rates.values(), SX.sym("lam'", s.m))
    return _Equations(tuple(form.y), ca.vertcat(*rows), x, rate, form.t, (form.u, form.par))


def _set_index(out: Diagnosis, of: _Equations, x: Array, t: float, given: tuple[Array, Array]) -> None:
    """The index by the derivative array; by the pencil of the linearised equations where the system is large."""
    if len(x) <= LARGEST:
        array = DerivativeArray(of.rows, of.x, of.rate, of.t, of.given)
        found = array.index(x, t, given)
        if found is None:
            out.remarks.append("the equations are singular here: no number of differentiations determines the rates")
            return
        out.index, out.free_values, out.constraints = found.index, found.free_values, found.constraints
        out.off = array.solve(max(found.index - 1, 0), x, t, given).residual if found.index else 0.0
        return
    f = ca.Function("pencil", [of.x, of.rate, of.t, *of.given], [ca.jacobian(of.rows, of.rate), -ca.jacobian(of.rows, of.x)])
    E, A = (np.asarray(m.full()) for m in f(x, np.zeros(len(x)), t, *given))
    linear = LinearDAE(E, A, tolerance=1e-8)
    why = linear.singularity()
    if why is None:
        out.index, out.free_values = linear.index, linear.degrees_of_freedom
    else:
        out.remarks.append(f"the linearised equations are singular: {why}")


def _choose(out: Diagnosis, s: System) -> None:
    """Methods that fit, and the one to begin with."""
    varying = isinstance(s, Mechanical) and not s.constant_mass
    divide = {Need.INERTIA, Need.MASS, *({Need.MOMENTA} if varying else ())}
    fit = [m for m in able(s) if not m.external and not (out.massless and m.needs & divide)]
    out.methods = [str(m) for m in fit]
    if out.redundant or out.singular_pose:
        out.recommended = "none before the constraints are independent"
        return
    out.recommended = _recommended(s, bool(out.massless))
    if obstacles(find(out.recommended.split(",")[0]), s):
        keeping = max(fit, key=lambda m: len(m.exact_levels), default=None)  # as many levels of constraints as can be
        out.recommended = str(keeping) if keeping else "none of the register"


def _recommended(s: System, massless: bool) -> str:
    """The method to begin with."""
    if isinstance(s, PortHamiltonian):
        return "discrete-gradient"
    if not isinstance(s, Constrained):
        return "radau-iia-3"
    damped = s.has("dissipation") or s.has("force") or s.nu
    if massless:
        return "murua-ggl-3" if s.mh else "radau-iia-3"
    if s.mn:
        return "spark-2, spark-3 for accuracy"
    if s.m:
        return "energy-momentum-ggl" if damped else "rattle, lobatto-pair-3 for accuracy"
    return "gauss-2" if damped else "rattle, gauss-3 for accuracy"


@_look.register
def _(s: PortHamiltonian, values: Values, t: float, par: Array) -> Diagnosis:
    f = ca.Function("E", s.symbols(), [s.expression("E")])
    E = np.asarray(f(values["x"], t, np.zeros(s.nu), par).full())
    rank = int(np.linalg.matrix_rank(E))
    out = Diagnosis(s.name, s.kind, None, None, rank)
    if rank == s.n:
        out.conditioning["E, invertible part"] = float(np.linalg.cond(E))
    rate = SX.sym("x'", s.n)
    rows = s.expression("E") @ rate - s.role("right")
    if s.has("constraint"):  # of a mechanism, at the level of positions: its rate is among the equations
        rows = ca.vertcat(rows, s.expression("constraint"))
    _set_index(out, _Equations(("x",), rows, s.x, rate, s.t, (s.u, s.par)), values["x"], t, (np.zeros(s.nu), par))
    if out.free_values is not None:
        out.degrees_of_freedom = out.free_values
    if rank < s.n:
        hidden = (out.constraints or 0) - (s.n - rank)
        out.hidden.append(f"{s.n - rank} algebraic equations are stated, {max(hidden, 0)} more are hidden")
    _inconsistent(out, "da.consistent(system, x=...)")
    _choose(out, s)
    return out


def _inconsistent(out: Diagnosis, remedy: str) -> None:
    """Say whether the equations and their derivatives can hold with these values."""
    if out.off is None:
        return
    out.residuals["all constraints"] = out.off
    if out.off > 1e-8:
        out.consistent = False
        out.remarks.append(f"inconsistent: the equations and their derivatives are off by {out.off:.1e}; start from {remedy}")


@_look.register
def _(s: IndexTwoDAE, values: Values, t: float, par: Array) -> Diagnosis:
    f = ca.Function("levels", s.symbols(), s.levels())
    levels = f.call([values["y"], values["z"], t, np.zeros(s.nu), par])
    out = Diagnosis(s.name, s.kind, None, None, s.n - s.m * (s.index - 1))
    for k, value in enumerate(levels):
        size = float(np.abs(np.asarray(value.full())).max())
        out.residuals["g" + "'" * k] = size
        if size > 1e-8:
            out.consistent = False
            out.remarks.append(f"inconsistent: derivative {k} of g is {size:.1e}; start from da.consistent(system, y=...)")
    rate = SX.sym("y'", s.n), SX.sym("z'", s.m)
    rows = ca.vertcat(rate[0] - s.expression("rhs"), s.expression("g"))
    stated = _Equations(("y", "z"), rows, ca.vertcat(s.y, s.z), ca.vertcat(*rate), s.t, (s.u, s.par))
    _set_index(out, stated, np.concatenate([values["y"], values["z"]]), t, (np.zeros(s.nu), par))
    if out.free_values is not None:
        out.degrees_of_freedom = out.free_values
    if s.index > 1:
        out.hidden.append(f"{s.index - 1} derivative{'s' * (s.index > 2)} of g, the last of which defines z")
    if out.index is not None and out.index != s.index:
        out.remarks.append(f"the index is {out.index} at these values, not {s.index}: {type(s).__name__} does not fit")
    _choose(out, s)
    return out


@_look.register
def _(s: ODE, values: Values, t: float, par: Array) -> Diagnosis:
    out = Diagnosis(s.name, s.kind, 0, s.n, s.n)
    _choose(out, s)
    return out


@_look.register
def _(s: ImplicitDAE, values: Values, t: float, par: Array) -> Diagnosis:
    out = Diagnosis(s.name, s.kind, None, None, s.n)
    stated = _Equations(("y",), s.expression("F"), s.y, s.z, s.t, (s.u, s.par))
    _set_index(out, stated, values["y"], t, (np.zeros(s.nu), par))
    if out.free_values is not None:
        out.degrees_of_freedom = out.free_values
    if out.index is not None and out.index > 1:
        out.remarks.append(f"the index is {out.index}: ImplicitDAE is for index one; state hidden constraints, or another kind")
    _inconsistent(out, "da.consistent(system, y=...)")
    _choose(out, s)
    return out
