"""Integration of the index-reduced equations: to show what it loses, and what stabilisation gives back.

    rk45, dop853, radau, bdf     SciPy on the acceleration level: positions and velocities drift off the constraints
    baumgarte                    g'' + 2 xi omega g' + omega^2 g = 0 in place of g'' = 0 (Baumgarte 1972)
    projection                   after each step back to the constraints of position and velocity, and of energy if wished
    coordinate-partition         independent coordinates are integrated, dependent ones follow from the constraints

(Bertolazzi, Cocetti, Stocco, chapter 4). The work of forces is not counted by these methods.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import casadi as ca
import numpy as np

from dalembert.analysis.reduction import ode
from dalembert.engine.machine import bind
from dalembert.engine.progress import Bar
from dalembert.errors import ConvergenceError, Interrupted, MethodError, SingularConstraints
from dalembert.methods.base import Method, register
from dalembert.methods.explicit import TABLEAUS
from dalembert.solution import Solution
from dalembert.systems.needs import Need

SCIPY = ("RK45", "DOP853", "Radau", "BDF", "LSODA", "RK23")
Rate = Callable[[float, np.ndarray], np.ndarray]


def advance(f: Rate, integrator: str, t0: float, t1: float, y: np.ndarray, rtol: float, atol: float) -> np.ndarray:
    """From one time to another: by one of SciPy's integrators, or by one step of an explicit Runge-Kutta method."""
    if integrator in TABLEAUS:
        T, h = TABLEAUS[integrator], t1 - t0
        rates: list[np.ndarray] = []
        for i in range(T.stages):
            rates.append(f(t0 + T.c[i] * h, y + h * sum((a * r for a, r in zip(T.A[i], rates, strict=False)), np.zeros(len(y)))))
        return np.asarray(y + h * sum(b * r for b, r in zip(T.b, rates, strict=True)))
    from scipy.integrate import solve_ivp

    out = solve_ivp(f, (t0, t1), y, method=integrator, rtol=rtol, atol=atol)
    if not out.success or not np.isfinite(out.y[:, -1]).all():
        raise ConvergenceError(
            f"{integrator} failed between t = {t0:g} and {t1:g}: {out.message}", t=t0, step=t1 - t0, residual=np.nan
        )
    return np.asarray(out.y[:, -1])


class Levels:
    """Constraints and mass matrix at a state, evaluated without overhead."""

    def __init__(self, s: Any, par: np.ndarray) -> None:
        n, nv, m, mh = s.n, s.nv, s.m, s.mh
        self.q, self.t, self.g, self.rate = np.zeros(n), np.zeros(1), np.zeros(mh), np.zeros(m)
        # CasADi writes by columns
        self._normal, self._jacobian, self._mass = np.zeros((n, mh)), np.zeros((nv, m)), np.zeros((nv, nv))
        parts = [s.expression("holonomic") if mh else ca.SX(0, 1), s.role("normal"), s.role("jacobian"), s.role("rate")]
        f = ca.Function("levels", [s.q, s.t, s.par], [ca.densify(p) for p in (*parts, s.expression("mass"))])
        outputs = [self.g, self._normal, self._jacobian, self.rate, self._mass]
        self._evaluate, self._kept = bind(f, [self.q, self.t, par], outputs)

    def at(self, q: np.ndarray, t: float) -> Levels:
        """Evaluate; the results are attributes."""
        self.q[:], self.t[0] = q, t
        self._evaluate()
        return self

    @property
    def normal(self) -> np.ndarray:
        return self._normal.T

    @property
    def jacobian(self) -> np.ndarray:
        return self._jacobian.T

    @property
    def mass(self) -> np.ndarray:
        return self._mass.T


class Reduced(Method):
    """What these methods have in common: they run outside of the engine, row by row of the grid."""

    external: ClassVar[bool] = True
    treats: ClassVar[tuple[str, ...]] = ("mechanical",)
    keeps: ClassVar[str] = "nothing: shows the drift"
    source: ClassVar[str] = "Bertolazzi, Cocetti, Stocco, chapter 4"
    symmetric: ClassVar[bool] = False
    exact_levels: ClassVar[tuple[str, ...]] = ()
    index: ClassVar[int] = 3
    order: ClassVar[tuple[int, int, int]] = (0, 0, 0)  # that of the integrator and its tolerances

    integrator: str
    rtol: float
    atol: float

    @property
    def needs(self) -> frozenset[Need]:
        return frozenset({Need.VELOCITIES, Need.MASS})

    def _check(self) -> None:
        if self.integrator not in (*SCIPY, *TABLEAUS):
            raise MethodError(f"integrator must be one of {', '.join((*SCIPY, *TABLEAUS))}, not {self.integrator!r}")
        if not (self.rtol > 0 and self.atol > 0):
            raise MethodError(f"rtol and atol must be positive, not {self.rtol!r} and {self.atol!r}")

    def run(self, system: Any, par: np.ndarray, q: np.ndarray, v: np.ndarray, grid: Any, inputs: Any) -> Solution:
        """Integrate over a grid of times; an error keeps what was computed."""
        begun = time.perf_counter()
        times = np.concatenate([[grid.t0], grid.times(np.arange(1, grid.steps + 1))])
        rows: list[np.ndarray] = [np.concatenate([q, v])]
        error: Any = None
        step = self._stepper(system, par, inputs, grid.h, rows[0], float(times[0]))
        try:
            with Bar(None, grid.steps) as bar:
                for t0, t1 in pairwise(times):
                    rows.append(step(float(t0), float(t1), rows[-1]))
                    bar.show(len(rows) - 1)
        except (ConvergenceError, SingularConstraints) as failure:
            error = failure
        except KeyboardInterrupt:
            done = len(rows) - 1
            error = Interrupted(
                f"interrupted at t = {times[done]:g} after {done} of {grid.steps} steps; error.solution holds what was computed"
            )
        kept = np.unique(np.append(np.arange(0, len(rows), grid.save_every), len(rows) - 1))
        y, t = np.array(rows)[kept], times[kept]
        stats = {
            "steps": len(rows) - 1, "iterations": 0, "iterations_per_step": 0.0, "engine": self.integrator,
            "seconds": time.perf_counter() - begun, "save_every": grid.save_every,
        }  # fmt: skip
        n, count = system.n, len(t) - 1
        solution = Solution.of(
            system, self, par, t, y[:, :n], y[:, n:], np.zeros((count, 0)), t[1:], np.zeros((count, 2)),
            inputs(t) if system.nu else np.zeros((len(t), 0)), grid.h, stats,
        )  # fmt: skip
        if error is not None:
            error.solution = solution
            raise error
        return solution

    def _stepper(self, s: Any, par: np.ndarray, inputs: Any, h: float, y0: np.ndarray, t0: float) -> Callable[..., np.ndarray]:
        f = ode(s, s.unpack(par), lambda t: inputs(np.array([t]))[0]) if s.nu else ode(s, s.unpack(par))
        return lambda a, b, y: advance(f, self.integrator, a, b, y, self.rtol, self.atol)


def _scipy(name: str, integrator: str) -> type[Method]:
    body = {"name": name, "__doc__": f"SciPy's {integrator} on the acceleration level: shows the drift.",
            "__annotations__": {"integrator": "str", "rtol": "float", "atol": "float"},
            "integrator": integrator, "rtol": 1e-6, "atol": 1e-9, "__post_init__": lambda self: self._check()}  # fmt: skip
    return register(dataclass(frozen=True)(type(integrator.capitalize(), (Reduced,), body)))


RK45, DOP853, Radau, BDF = (_scipy(i.lower(), i) for i in ("RK45", "DOP853", "Radau", "BDF"))


@register
@dataclass(frozen=True)
class Baumgarte(Reduced):
    """Baumgarte's stabilisation: `g'' + 2 xi omega g' + omega^2 g = 0`.

    `omega` is by default `1 / h`: an error of the constraints decays within a few steps, and explicit integrators stay stable.
    """

    xi: float = 1.0
    omega: float | None = None
    integrator: str = "DOP853"
    rtol: float = 1e-6
    atol: float = 1e-9

    name: ClassVar[str] = "baumgarte"
    keeps: ClassVar[str] = "constraints to the accuracy of the integration, without drift"
    source: ClassVar[str] = "Baumgarte 1972; Bertolazzi, Cocetti, Stocco, sec. 4.2"

    def __post_init__(self) -> None:
        self._check()
        if not (self.xi > 0 and (self.omega is None or self.omega > 0)):
            raise MethodError(f"xi and omega must be positive, not {self.xi!r} and {self.omega!r}")

    def _stepper(self, s: Any, par: np.ndarray, inputs: Any, h: float, y0: np.ndarray, t0: float) -> Callable[..., np.ndarray]:
        u = (lambda t: inputs(np.array([t]))[0]) if s.nu else None
        f = ode(s, s.unpack(par), u, xi=self.xi, omega=self.omega or 1 / h)
        return lambda a, b, y: advance(f, self.integrator, a, b, y, self.rtol, self.atol)


@register
@dataclass(frozen=True)
class Projection(Reduced):
    """Integrate, then project: positions, then velocities; nearest in the norm of the kinetic energy, or `weight="orthogonal"`.

    `energy=True` also scales the velocities to the energy of the start (no forces, fixed constraints).
    """

    weight: str = "mass"
    velocity: bool = True
    energy: bool = False
    integrator: str = "DOP853"
    rtol: float = 1e-6
    atol: float = 1e-9

    name: ClassVar[str] = "projection"
    keeps: ClassVar[str] = "position and velocity constraints; the energy if wished"
    source: ClassVar[str] = "Bertolazzi, Cocetti, Stocco, sec. 4.3"
    exact_levels: ClassVar[tuple[str, ...]] = ("position", "velocity")

    def __post_init__(self) -> None:
        self._check()
        if self.weight not in ("mass", "orthogonal"):
            raise MethodError(f"weight must be 'mass' or 'orthogonal', not {self.weight!r}")

    @property
    def needs(self) -> frozenset[Need]:
        return super().needs | ({Need.UNFORCED} if self.energy else set())

    def _stepper(self, s: Any, par: np.ndarray, inputs: Any, h: float, y0: np.ndarray, t0: float) -> Callable[..., np.ndarray]:
        plain = Reduced._stepper(self, s, par, inputs, h, y0, t0)
        n, levels = s.n, Levels(s, par)
        start = float(s.numeric("energy", par, q=y0[:n], v=y0[n:], t=t0)[0, 0])

        def step(a: float, b: float, y: np.ndarray) -> np.ndarray:
            y = plain(a, b, y)
            q, v = project(levels, y[:n], y[n:], b, self.weight, self.velocity)
            if self.energy:
                kinetic = float(s.numeric("kinetic", par, q=q, v=v)[0, 0])
                left = start - float(s.numeric("potential", par, q=q, t=b)[0, 0])
                v = v * np.sqrt(left / kinetic) if kinetic > 0 and left > 0 else v
            return np.concatenate([q, v])

        return step


def project(
    levels: Levels, q: np.ndarray, v: np.ndarray, t: float, weight: str = "mass", velocity: bool = True
) -> tuple[np.ndarray, np.ndarray]:
    """The nearest position and velocity on the constraints."""

    def inverse() -> np.ndarray:
        return np.linalg.inv(levels.mass) if weight == "mass" else np.eye(len(levels.mass))

    size = np.inf
    for _ in range(30 if len(levels.g) else 0):
        G, W = levels.at(q, t).normal, inverse()
        change = W @ G.T @ np.linalg.solve(G @ W @ G.T, levels.g)
        q = q - change
        previous, size = size, float(np.abs(change).max())
        if size <= 4e-16 * max(1.0, float(np.abs(q).max())) or (size < 1e-12 and size >= 0.5 * previous):
            break
    if velocity:
        K = levels.at(q, t).jacobian
        W = inverse()
        for _ in range(2):  # the second pass takes what rounding left
            v = v - W @ K.T @ np.linalg.solve(K @ W @ K.T, K @ v + levels.rate)
    return q, v


@register
@dataclass(frozen=True)
class CoordinatePartition(Reduced):
    """Independent coordinates, chosen by a pivoted QR of the constraint Jacobian, and chosen anew when the choice degrades."""

    integrator: str = "DOP853"
    rtol: float = 1e-8
    atol: float = 1e-10
    degraded: float = 0.5  # smallest singular value of the dependent block, over that of the last choice, at which it changes

    name: ClassVar[str] = "coordinate-partition"
    keeps: ClassVar[str] = "position and velocity constraints"
    source: ClassVar[str] = "Wehage, Haug 1982; Bertolazzi, Cocetti, Stocco, sec. 4.4"
    exact_levels: ClassVar[tuple[str, ...]] = ("position", "velocity")

    @property
    def needs(self) -> frozenset[Need]:
        return super().needs | {Need.HOLONOMIC}

    def __post_init__(self) -> None:
        self._check()

    def _stepper(self, s: Any, par: np.ndarray, inputs: Any, h: float, y0: np.ndarray, t0: float) -> Callable[..., np.ndarray]:
        u = (lambda t: inputs(np.array([t]))[0]) if s.nu else None
        f, n, levels = ode(s, s.unpack(par), u), s.n, Levels(s, par)
        choice: dict[str, Any] = {"changes": 0}

        def quality(G: np.ndarray) -> float:
            block = np.linalg.svd(G[:, choice["dependent"]], compute_uv=False)
            return float(block[-1] / np.linalg.norm(G, 2))

        def choose(q: np.ndarray, t: float) -> None:
            from scipy.linalg import qr

            G = levels.at(q, t).jacobian.copy()
            _, R, pivots = qr(G, pivoting=True)
            diagonal = np.abs(np.diag(R)) if len(G) else np.ones(0)
            if len(diagonal) and diagonal[-1] <= 1e-10 * diagonal[0]:
                row = int((diagonal > 1e-10 * diagonal[0]).sum()) + 1
                raise SingularConstraints(
                    f"no set of independent coordinates at t = {t:g}: the constraints have rank {row - 1} of {len(G)}", (row,)
                )
            choice["dependent"] = np.sort(pivots[: len(G)])
            choice["free"] = np.setdiff1d(np.arange(n), choice["dependent"])
            choice["best"] = quality(G)
            choice["changes"] += 1

        def whole(x: np.ndarray, t: float, near: np.ndarray) -> np.ndarray:
            """Positions and velocities from the independent ones."""
            free, dependent = choice["free"], choice["dependent"]
            q = near[:n].copy()
            q[free] = x[: len(free)]
            size = np.inf
            for _ in range(40):
                G = levels.at(q, t).jacobian
                change = np.linalg.solve(G[:, dependent], levels.g)
                q[dependent] -= change
                previous, size = size, float(np.abs(change).max(initial=0.0))
                if size <= 4e-16 * max(1.0, float(np.abs(q).max())) or (size < 1e-12 and size >= 0.5 * previous):
                    break
            else:
                raise ConvergenceError(
                    f"the dependent coordinates could not be found at t = {t:g}; use a smaller step", t=t, step=h, residual=size
                )
            v = np.zeros(n)
            v[free] = x[len(free) :]
            G = levels.at(q, t).jacobian
            v[dependent] = -np.linalg.solve(G[:, dependent], G[:, free] @ v[free] + levels.rate)
            return np.concatenate([q, v])

        def step(a: float, b: float, y: np.ndarray) -> np.ndarray:
            if not s.m:
                return advance(f, self.integrator, a, b, y, self.rtol, self.atol)
            if "free" not in choice:
                choose(y[:n], a)
            if quality(levels.at(y[:n], a).jacobian) < self.degraded * choice["best"]:
                choose(y[:n], a)
            free, near = choice["free"], y.copy()

            def rate(t: float, x: np.ndarray) -> np.ndarray:
                now = whole(x, t, near)
                near[:] = now
                out = f(t, now)
                return np.concatenate([now[n:][free], out[n:][free]])

            try:
                x = advance(rate, self.integrator, a, b, np.concatenate([y[:n][free], y[n:][free]]), self.rtol, self.atol)
                return whole(x, b, near)
            except ConvergenceError:  # a fold of these coordinates lies ahead: others, and half the way
                if b - a < 1e-3 * h:
                    raise
                choose(y[:n], a)
                middle = (a + b) / 2
                return step(middle, b, step(a, middle, y))

        return step
