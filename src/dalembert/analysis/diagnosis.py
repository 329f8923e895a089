"""Diagnosis of a system before a run: index, redundancy, conditioning, consistency, and suitable methods."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import casadi as ca
import numpy as np

from dalembert.engine import checks, consistency, initial
from dalembert.errors import InconsistentState, MethodError, suggesting
from dalembert.methods.base import able
from dalembert.systems.base import System
from dalembert.systems.linear_dae import LinearDAE
from dalembert.systems.needs import Need


@dataclass
class Diagnosis:
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

    @property
    def healthy(self) -> bool:
        """Whether a run can start from these values."""
        return self.consistent and not self.redundant and not self.singular_pose and self.index is not None

    def __str__(self) -> str:
        lines = [
            f"{self.name} ({self.kind})",
            f"  index                 {self.index if self.index is not None else 'undefined: the equations are singular here'}",
            f"  degrees of freedom    {self.degrees_of_freedom}",
        ]
        lines += [f"  {'hidden' if i == 0 else '':<21} {text}" for i, text in enumerate(self.hidden)]
        for key, value in self.residuals.items():
            lines.append(f"  {key:<21} {value:.1e}")
        lines.append(f"  consistent            {'yes' if self.consistent else 'no'}")
        for key, value in self.conditioning.items():
            lines.append(f"  condition, {key:<10} {value:.1e}")
        lines += [f"  {'!' if i == 0 else ' ':<21} {text}" for i, text in enumerate(self.remarks)]
        lines.append(f"  recommended           {self.recommended}")
        lines.append(f"  methods that fit      {', '.join(self.methods) or 'none'}")
        return "\n".join(lines)


@suggesting
def diagnose(
    system: Any, *, q: Any = None, v: Any = None, p: Any = None, x: Any = None, y: Any = None, z: Any = None, t: float = 0.0,
    parameters: Mapping[str, Any] | None = None,
) -> Diagnosis:  # fmt: skip
    """Examine a system at a state before a run.

    The index is that of the pencil of the equations linearised there (`LinearDAE`), by ranks; the default values of the system
    are used where none are given.
    """
    if not isinstance(system, System):
        raise MethodError(f"diagnose takes a system such as da.Mechanical(...), not {type(system).__name__}")
    initial.own_values(system, {"q": q, "v": v, "p": p, "x": x, "y": y, "z": z})
    par = system.pack(parameters)
    if system.kind == "port-hamiltonian":
        return _port(system, _given(system, x if x is not None else q, "x"), t, par)
    if system.kind == "dae":
        return _dae(system, _given(system, y if y is not None else q, "y"), z, t, par)
    q, second = initial.choose(system, q, v, p, par, t)
    return _mechanical(system, q, second, t, par)


def _given(system: Any, value: Any, name: str) -> np.ndarray:
    value = system.initial.get("q") if value is None else value
    if value is None:
        raise InconsistentState(f"{system.name!r} has no default initial values: give {name}=...")
    return initial.vector(system, "q", value)


def _mechanical(s: Any, q: np.ndarray, second: np.ndarray, t: float, par: np.ndarray) -> Diagnosis:
    at = initial.arguments(s, q, second, t, par)
    K = np.asarray(initial.jacobian(s, at, par).full()) if s.m else np.zeros((0, s.nv))
    kept, extra, smallest, near = _rank(K)
    out = Diagnosis(s.name, s.kind, None, None, s.nv - len(kept))
    out.redundant = tuple(i + 1 for i in extra)
    if extra:
        many = len(extra) > 1
        if _only_here(s, at, K, par):
            out.singular_pose, out.redundant = True, ()
            out.remarks.append(
                f"singular pose: constraint{'s' * many} {_list(extra)} depend{'s' * (not many)} on the others at this "
                f"position only"
            )
        else:
            out.remarks.append(
                f"redundant: constraint{'s' * many} {_list(extra)} follow{'s' * (not many)} from the others; "
                f"remove {'them' if many else 'it'}"
            )
    elif near:
        out.nearly_dependent = tuple(i + 1 for i in near)
        out.remarks.append(f"nearly dependent: constraints {_list(near)} (smallest singular value {smallest:.1e} of unit rows)")
    out.massless = _massless(s, q, par)
    if out.massless:
        out.remarks.append(
            f"no mass in the direction of {', '.join(out.massless)}: only methods that do not divide by masses fit"
        )
    _conditioning(out, s, at, K, par)
    _consistency(out, s, at, K, par)
    if s.mh:
        out.hidden.append(f"{s.mh} holonomic: g = 0 is stated; G v + g_t = 0 and its rate, which fixes lam, are hidden")
    if s.mn:
        out.hidden.append(f"{s.mn} nonholonomic: A v + a = 0 is stated; its rate, which fixes lam, is hidden")
    pencil = _pencil(s, at, par)
    _set_index(out, pencil)
    _choose(out, s)
    return out


def _only_here(s: Any, at: Mapping[str, Any], K: np.ndarray, par: np.ndarray) -> bool:
    """Whether constraints that depend on each other do so at this position alone: look beside it, on the constraints."""
    if not s.mh:
        return not _rank(_beside(s, at, par, at["q"] + 0.01))[1]
    normal = np.asarray(initial.jacobian(s, at, par, "normal").full())
    _, sizes, vt = np.linalg.svd(normal)
    free = vt[int((sizes > 1e-10 * sizes[0]).sum()) :]
    for sign in (0.02, -0.02):
        for direction in free:
            q = at["q"] + sign * max(1.0, float(np.abs(at["q"]).max())) * direction
            for _ in range(30):
                g = s.numeric("holonomic", par, q=q, t=at["t"])[0]
                G = np.asarray(initial.jacobian(s, {**at, "q": q}, par, "normal").full())
                change = np.linalg.lstsq(G, g, rcond=1e-9)[0]
                q = q - change
                if np.abs(change).max() < 1e-14:
                    break
            solved = np.abs(s.numeric("holonomic", par, q=q, t=at["t"])[0]).max() < 1e-12
            if solved and np.abs(q - at["q"]).max() > 1e-3 and not _rank(_beside(s, at, par, q), 1e-7)[1]:
                return True
    return False


def _beside(s: Any, at: Mapping[str, Any], par: np.ndarray, q: np.ndarray) -> np.ndarray:
    return np.asarray(initial.jacobian(s, {**at, "q": q}, par).full())


def _rank(K: np.ndarray, tolerance: float = 1e-10) -> tuple[list[int], list[int], float, list[int]]:
    """Independent rows, dependent rows, smallest singular value of unit rows, and rows that nearly depend on each other."""
    if not len(K):
        return [], [], 1.0, []
    norms = np.linalg.norm(K, axis=1)
    zero = [i for i, x in enumerate(norms) if x < 1e-12]
    unit = K / np.where(norms > 0, norms, 1)[:, None]
    rows = [i for i in range(len(K)) if i not in zero]
    kept, extra = checks.independent(unit[rows], tolerance)
    u, s, _ = np.linalg.svd(unit[rows])
    smallest = float(s[-1]) if len(s) == len(rows) and len(s) else 0.0
    near = [rows[i] for i in np.flatnonzero(np.abs(u[:, -1]) > 0.1)] if smallest < 1e-4 and rows else []
    return [rows[i] for i in kept], sorted([*zero, *(rows[i] for i in extra)]), smallest, near


def _list(rows: list[int]) -> str:
    return ", ".join(str(i + 1) for i in rows)


def _massless(s: Any, q: np.ndarray, par: np.ndarray) -> tuple[str, ...]:
    if s.kind != "mechanical":
        return ()
    M = s.numeric("mass", par, q=q).reshape(s.nv, s.nv)
    values, vectors = np.linalg.eigh(M)
    names = s.coordinates if s.nv == s.n else [f"velocity {i + 1}" for i in range(s.nv)]
    small = [i for i, x in enumerate(values) if x <= 1e-13 * max(values.max(), 1e-300)]
    return tuple(dict.fromkeys(names[int(np.abs(vectors[:, i]).argmax())] for i in small))


def _conditioning(out: Diagnosis, s: Any, at: Mapping[str, Any], K: np.ndarray, par: np.ndarray) -> None:
    A, *_ = consistency.accelerations(s)(at["q"], at["v"], at.get("p", np.zeros(s.nv)), at["t"], np.zeros(s.nu), par)
    M = np.asarray(A.full())
    if s.kind == "mechanical":
        out.conditioning["M"] = float(np.linalg.cond(M))
    if len(K):
        matrix = np.block([[M, K.T], [K, np.zeros((len(K), len(K)))]])
        if not out.massless:
            out.conditioning["G M^-1 G^T"] = float(np.linalg.cond(K @ np.linalg.solve(M, K.T)))
        out.conditioning["whole"] = float(np.linalg.cond(matrix))


def _consistency(out: Diagnosis, s: Any, at: Mapping[str, Any], K: np.ndarray, par: np.ndarray) -> None:
    size = {"position": 1.0, "velocity": 1.0}
    if s.mh:
        out.residuals["position, |g|"] = float(np.abs(s.numeric("holonomic", par, q=at["q"], t=at["t"])[0]).max())
        normal = np.abs(np.asarray(initial.jacobian(s, at, par, "normal").full()))
        size["position"] = float((normal @ np.abs(at["q"])).max()) + 1e-12
    if s.m:
        out.residuals["velocity, |G v|"] = float(np.abs(s.numeric("drift", par, q=at["q"], v=at["v"], t=at["t"])[0]).max())
        size["velocity"] = float((np.abs(K) @ np.abs(at["v"])).max()) + 1e-12
    for key, value in out.residuals.items():
        level = key.split(",")[0]
        if value > 1e-9 * size[level] + 1e-14:
            out.consistent = False
            out.remarks.append(
                f"inconsistent at the {level} level by {value:.1e}; start from da.consistent(system, q=..., v=...)"
            )


def _pencil(s: Any, at: Mapping[str, Any], par: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """`E` and `A` of the equations as stated, linearised: `(q, v, lam)` with the multipliers that fit best."""
    n, nv, m = s.n, s.nv, s.m
    lam = ca.SX.sym("lam", m)
    second = getattr(s, s.momenta)
    G = s.role("jacobian") if m else ca.SX(0, nv)
    if s.kind == "mechanical":
        inertia = s.expression("mass")
        force = s.own_force() + s.applied(s.q, s.v, s.t, s.u) - s.damping(s.q, s.v, s.t)
        velocity = s.v
    else:
        inertia, velocity = ca.SX.eye(n), s.role("velocity")
        force = (
            -ca.gradient(s.expression("hamiltonian"), s.q)
            + s.applied(s.q, velocity, s.t, s.u, s.p)
            - s.damping(s.q, velocity, s.t, s.p)
        )
    rows = [s.qdot(s.q, velocity), force - (G.T @ lam if m else ca.SX(nv, 1))]
    if s.mh:
        rows.append(s.expression("holonomic"))
    if s.mn:
        rows.append(s.expression("nonholonomic", v=velocity))
    unknown = ca.vertcat(s.q, second, lam)
    A = ca.Function("A", [s.q, second, lam, s.t, s.u, s.par], [ca.jacobian(ca.vertcat(*rows), unknown), inertia])
    best = np.zeros(m)
    if m:
        parts = consistency.accelerations(s)(at["q"], at["v"], at.get("p", np.zeros(nv)), at["t"], np.zeros(s.nu), par)
        M, F, C, d = (np.asarray(x.full()) for x in parts)
        K = np.asarray(initial.jacobian(s, at, par).full())
        matrix = np.block([[M, K.T], [C, np.zeros((m, m))]])
        best = np.linalg.lstsq(matrix, np.concatenate([F[:, 0], d[:, 0]]), rcond=None)[0][nv:]
    a, M = A(at["q"], at[s.momenta], best, at["t"], np.zeros(s.nu), par)
    E = np.zeros((n + nv + m,) * 2)
    E[:n, :n], E[n : n + nv, n : n + nv] = np.eye(n), np.asarray(M.full())
    return E, np.asarray(a.full())


def _set_index(out: Diagnosis, pencil: tuple[np.ndarray, np.ndarray]) -> None:
    linear = LinearDAE(*pencil, tolerance=1e-8)
    why = linear.singularity()
    if why is None:
        out.index, out.free_values = linear.index, linear.degrees_of_freedom
    else:
        out.remarks.append(f"the linearised equations are singular: {why}")


def _choose(out: Diagnosis, s: Any) -> None:
    """Methods that fit, and the one to begin with."""
    divide = {Need.INERTIA, Need.MASS, *({Need.MOMENTA} if not getattr(s, "constant_mass", True) else ())}
    out.methods = [str(m) for m in able(s) if not m.external and not (out.massless and m.needs & divide)]
    if out.redundant or out.singular_pose:
        out.recommended = "none before the constraints are independent"
        return
    damped = s.has("dissipation") or s.has("force") or s.nu
    if s.kind == "port-hamiltonian":
        best = "discrete-gradient"
    elif s.kind == "dae":
        best = "radau-iia-3"
    elif out.massless:
        best = "murua-ggl-3" if s.mh else "radau-iia-3"
    elif s.mn:
        best = "spark-2, spark-3 for accuracy"
    elif s.m:
        best = "energy-momentum-ggl" if damped else "rattle, lobatto-pair-3 for accuracy"
    else:
        best = "gauss-2" if damped else "rattle, gauss-3 for accuracy"
    out.recommended = best


def _port(s: Any, x: np.ndarray, t: float, par: np.ndarray) -> Diagnosis:
    f = ca.Function("A", [s.q, s.t, s.u, s.par], [s.expression("E"), ca.jacobian(s.role("right"), s.q)])
    E, A = (np.asarray(m.full()) for m in f(x, t, np.zeros(s.nu), par))
    rank = int(np.linalg.matrix_rank(E))
    out = Diagnosis(s.name, s.kind, None, None, rank)
    out.conditioning["E, invertible part"] = float(np.linalg.cond(E)) if rank == s.n else float("inf")
    if rank < s.n:
        out.hidden.append(f"{s.n - rank} algebraic equations")
        del out.conditioning["E, invertible part"]
    _set_index(out, (E, A))
    _choose(out, s)
    return out


def _dae(s: Any, y: np.ndarray, z: Any, t: float, par: np.ndarray) -> Diagnosis:
    z = initial.algebraic(s, y, par, t) if z is None else initial.vector(s, "v", z)
    both = ca.vertcat(s.q, s.v)
    rows = ca.vertcat(s.expression("rhs"), s.expression("holonomic"))
    f = ca.Function("A", [s.q, s.v, s.t, s.u, s.par], [ca.jacobian(rows, both), *s.levels()])
    A, *levels = f(y, z, t, np.zeros(s.nu), par)
    E = np.zeros((s.n + s.m,) * 2)
    E[: s.n, : s.n] = np.eye(s.n)
    out = Diagnosis(s.name, s.kind, None, None, s.n - s.m * (s.index - 1))
    for k, value in enumerate(levels):
        size = float(np.abs(np.asarray(value.full())).max())
        out.residuals["g" + "'" * k] = size
        if size > 1e-8:
            out.consistent = False
            out.remarks.append(f"inconsistent: derivative {k} of g is {size:.1e}; start from da.consistent(system, y=...)")
    if s.index > 1:
        out.hidden.append(f"{s.index - 1} derivative{'s' * (s.index > 2)} of g, the last of which defines z")
    _set_index(out, (E, np.asarray(A.full())))
    _choose(out, s)
    return out
