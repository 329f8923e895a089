"""The equations of one step of a port-Hamiltonian system, with the approximations of a method or of its user."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import casadi as ca
import numpy as np
from casadi import SX

from dalembert.discrete.differences import Ends
from dalembert.discrete.gradients import Field, Pullback, itoh_abe
from dalembert.discrete.pairs import RULES
from dalembert.errors import ModelError
from dalembert.methods.step import Block, Step, split_solves
from dalembert.systems import scales
from dalembert.systems.base import column
from dalembert.systems.bases import Bases
from dalembert.systems.port_hamiltonian import PortHamiltonian
from dalembert.systems.tracing import symbols

ONE = SX(1.0)
Function = Callable[..., object]


class Rows(NamedTuple):
    """`E X + r - (J - R) z - (B - P) u`, the output, the whole input, and the power dissipated."""

    residual: SX
    y: SX
    u: SX
    dissipated: SX


class Frame:
    """The symbols of a step with the rate `X`, of which `free` are the unknowns, and the matrices of a system in it.

    Matrices are taken at a place of the step, `rule`, or are functions of its two ends, `own`.
    """

    def __init__(self, s: PortHamiltonian, X: SX, free: SX, rule: str, own: Mapping[str, Function | None]) -> None:
        self.s, self.X, self.free, self.h = s, X, free, SX.sym("h")
        self.at = self.place(rule)
        self.own = {key: f for key, f in own.items() if f is not None}

    def place(self, rule: str) -> dict[str, SX]:
        """State and time in the step."""
        c = RULES[rule]
        return {"x": self.s.x + c * self.h * self.X, "t": self.s.t + c * self.h}

    def ends(self, x: SX, rate: SX) -> Ends:
        """The ends of a part of the state with a rate."""
        return Ends(x, x + self.h * rate, self.s.t, self.s.t + self.h, change=self.h * rate)

    def traced(self, name: str, function: Function, **more: SX) -> SX:
        """A user's function of `x0`, `x1`, `t` and `h` in this step."""
        s, known = self.s, {"x0": self.s.x, "x1": self.s.x + self.h * self.X, **more}
        extra: dict[str, object] = {key: symbols(value, (s.n,)) for key, value in known.items()}
        extra |= {"t": symbols(s.t, ()), "h": symbols(self.h, ())}
        return s._trace(name, function, tuple(extra), extra)

    def vector(self, name: str, function: Function, size: int, **more: SX) -> SX:
        """The same as a column of some size."""
        return ca.densify(column(name, self.traced(name, function, **more), size))

    def matrix(self, name: str, jacobian: SX | None = None) -> SX:
        """A matrix of the system in the step: the user's own, or that of the place."""
        s = self.s
        if name in self.own:
            shape = (s.n, s.nu) if name == "B" else (s.n, s.n)
            return s._matrix(name, self.traced(name, self.own[name]), shape)
        return s.structure(**self.at, jacobian=jacobian) if name == "J" else s.expression(name, **self.at)

    def jacobian(self, D: Pullback) -> SX | None:
        """The discrete Jacobian of the constraint of a mechanism, row by row."""
        s, states = self.s, self.s.positions
        if not states:
            return None
        q, full = SX.sym("q", len(states)), SX(s.x)
        full[states] = q
        g, ends = ca.substitute(s.expression("constraint"), s.x, full), self.ends(s.x[states], self.X[states])
        return ca.horzcat(*(D(Field(g[i], q, s.t, (s.par,)), ends, ONE)[0] for i in range(g.numel()))).T

    def rate(self) -> SX:
        """What time adds to the energy where a user's gradient or pair is that of one time: counted at `x1`."""
        H = Field(self.s.expression("hamiltonian"), self.s.x, self.s.t, (self.s.par,))
        return itoh_abe(H, self.ends(self.s.x, self.X), ONE)[1]

    def rows(self, z: SX, rate: SX, jacobian: SX | None = None) -> Rows:
        """The equations of the step, with its costates `z` and the rate of time of the energy."""
        s = self.s
        E, J, R, B, P, S, N = (self.matrix(k, jacobian) for k in ("E", "J", "R", "B", "P", "S", "N"))
        u = s.expression("law", **self.at) if s.has("law") else s.u
        residual = E @ self.X - (J - R) @ z - (B - P) @ u
        if s.has("r"):
            r = s.expression("r", **self.at)
            residual += r + z * ((rate - ca.dot(z, r)) / (ca.sumsqr(z) + 1e-300))
        y = (B + P).T @ z + (S - N) @ u
        return Rows(residual, y, u, ca.dot(z, R @ z) + 2 * ca.dot(z, P @ u) + ca.dot(u, S @ u))

    def block(self, name: str, x: SX, row: SX, size: SX, level: int = 0, start: SX | None = None) -> Block:
        """Unknowns with their rows and their sizes, or one size for all of them."""
        return Block(name, 0.5, x, ca.densify(row), scales.full(size, x.numel()), (level,) * x.numel(), start=start)

    def finished(self, blocks: list[Block], z: SX, rows: Rows) -> Step:
        s, h = self.s, self.h
        return Step(
            t=s.t, h=h, u=s.u, par=s.par,
            state={"x": s.x}, solves=split_solves([b for b in blocks if b.unknowns.numel()]), next={"x": s.x + h * self.X},
            lam=ca.vertcat(rows.y, rows.u, z), node=0.5,
            work={"supplied": h * ca.dot(rows.y, rows.u), "dissipated": h * rows.dissipated},
        )  # fmt: skip

    # ---- what a user gives is checked -----------------------------------------------------------------------------

    def check(self, *, slope: SX | None = None, z: SX | None = None, z2: tuple[SX, SX] | None = None) -> None:
        """Refuse a slope `DH` that is not directional, and functions that are not those of the system where `x1 = x0`.

        `z2` are a user's algebraic costates beside those of the system (definitions 4, 7 and 8).
        """
        s = self.s
        pairs = {key: (self.matrix(key), s.structure() if key == "J" else s.expression(key)) for key in self.own}
        if z is not None:
            pairs["z"] = (z, s.expression("z"))
        if z2 is not None:
            pairs["z2"] = z2
        if slope is not None and z is None:
            pairs["gradient"] = (slope, s.role("gradient"))
        inputs = [s.x, self.free, self.h, s.t, s.par]
        H = s.expression("hamiltonian")
        change = ca.substitute(H, s.x, s.x + self.h * self.X) - H
        balance = ca.Function("balance", inputs, [change if slope is None else self.h * ca.dot(slope, self.X), change])
        functions = {key: ca.Function(key, inputs, [ca.densify(m) for m in both]) for key, both in pairs.items()}
        rng = np.random.default_rng(2)
        for x, t in s.samples():
            rate = rng.normal(size=self.free.numel())
            have, want = (float(v) for v in balance(x, rate, 0.1, t, s.pack()))
            if np.isfinite(have + want) and abs(have - want) > 1e-8 * max(1.0, abs(want)):
                what, form = ("pair", "z . E (x1 - x0)") if z is not None else ("", "D H . (x1 - x0)")
                raise ModelError(
                    f"this is not a discrete gradient {what}".rstrip() + f": {form} = {have:.6g}, but H(x1) - H(x0) = {want:.6g}"
                )
            for key, function in functions.items():
                _consistent(key, *(np.asarray(m.full()) for m in function(x, 0 * rate, 0.1, t, s.pack())))
                if key in ("J", "R"):
                    _structured(key, np.asarray(function(x, rate, 0.1, t, s.pack())[0].full()))


def _consistent(name: str, have: np.ndarray, want: np.ndarray) -> None:
    """Refuse a function of two ends that is not that of the system where they agree."""
    defect = np.abs(have - want)
    if np.isfinite(defect).all() and defect.max(initial=0.0) > 1e-8 * max(1.0, np.abs(want).max(initial=0.0)):
        i, j = np.unravel_index(defect.argmax(), defect.shape)
        entry = f"({i + 1}, {j + 1})" if want.shape[1] > 1 else f"{i + 1}"
        raise ModelError(
            f"{name}(x0, x1) is not consistent: where x1 = x0 its entry {entry} is {have[i, j]:.6g}, that of the system is "
            f"{want[i, j]:.6g}"
        )


def _structured(name: str, value: np.ndarray) -> None:
    """Refuse a `J(x0, x1)` that is not skew, and an `R(x0, x1)` that is not symmetric and positive semidefinite."""
    if not np.isfinite(value).all():
        return
    sign, scale = (1 if name == "J" else -1), max(1.0, float(np.abs(value).max(initial=0.0)))
    if np.abs(value + sign * value.T).max(initial=0.0) > 1e-10 * scale:
        raise ModelError(f"{name}(x0, x1) is not {'skew' if name == 'J' else 'symmetric'}")
    if name == "R" and float(np.linalg.eigvalsh(value)[0]) < -1e-10 * scale:
        raise ModelError("R(x0, x1) is not positive semidefinite")


def algebraic_size(s: PortHamiltonian, F: Bases, one: scales.Ports, solvable: bool) -> SX:
    """The size of the rates of algebraic states, which are defined to `eps` of their own size.

    Multipliers are defined by velocities over `h`, or by positions over `h^2`.
    """
    h, own = one.h, scales.typical(F.V2.T @ s.x, one.two, one.count)
    if solvable:
        return scales.spread(own / h + one.speed, one.two)
    size = own / h + one.state / h**2 + (scales.POSITIONS * one.state / h**3 if s.positions else 0)
    return scales.spread(size, one.two)
