"""Transformations and counterexamples (Kinon, Morandin, Schulze 2025, appendices C and D)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from dalembert import discrete
from dalembert.catalog.symbols import Array, Matrix, Symbols, Vector
from dalembert.errors import MethodError
from dalembert.experiments.base import Result, experiment
from dalembert.experiments.solvers import newton
from dalembert.methods import GradientPair
from dalembert.simulation import simulate
from dalembert.systems import PortHamiltonian

Pairwise = Callable[[Array, Array], Array]  # a function of both ends of a step
Map = Callable[[Array], Array]


@experiment("ph-ex8/9/10", "Counterexamples", "Kinon, Morandin, Schulze 2025, examples 8, 9, 10")
def counterexamples(r: Result, quick: bool) -> None:
    """A DDR step without solution, a singular discrete Jacobian, and a gradient that differs from the chain rule."""
    _no_solution(r)

    def phi(x: Symbols) -> Vector:
        angle = x[0] ** 2 + x[1] ** 2
        return [np.cos(angle) * x[0] - np.sin(angle) * x[1], np.sin(angle) * x[0] + np.cos(angle) * x[1]]

    D = discrete.jacobian(phi, [0.0, 0.0], [np.sqrt(2 * np.pi), 0.0])
    r.below("example 9: distance to [1 -1; 0 0]", np.abs(D - [[1, -1], [0, 0]]).max(), 1e-12, "singular")
    own = discrete.gradient(lambda x: ((x[0] + x[1]) ** 2 + x[1] ** 2) ** 2 / 4, [0, 0], [2, 0])
    chain = np.array([[1, 1], [0, 1]]).T @ discrete.gradient(lambda x: (x[0] ** 2 + x[1] ** 2) ** 2 / 4, [0, 0], [2, 0])
    r.near("example 10: Gonzalez gradient of the composition", float(own[1]), 1, 1e-12, "1")
    r.near("example 10: by the chain rule", float(chain[1]), 2, 1e-12, "2")
    r.data.update({"D": D, "own": own, "chain": chain})


def _no_solution(r: Result) -> None:
    """Example 8 at its own points: `E(m)^T f = D H` has no solution for any discrete gradient."""

    def energy(x: Symbols) -> object:
        return np.exp(x[0] ** 2 / 2) - 1 + x[1] ** 2 / 2

    def grad(x: Symbols) -> Vector:
        return [x[0] * np.exp(x[0] ** 2 / 2), x[1]]

    a = 0.5
    x0, x1 = np.array([a, 0.0]), np.array([0.0, a * np.sqrt(np.exp((a / 2) ** 2 / 2))])
    slope = np.array(grad((x0 + x1) / 2), dtype=float)
    r.below("example 8: gradient at the midpoint times x' - x", abs(float(slope @ (x1 - x0))), 1e-15, "0")
    change = float(x1 @ x1 / 2 - (np.exp(a**2 / 2) - 1))
    r.below("example 8: H(x') - H(x)", change, -1e-3, "not 0")
    E = np.stack([slope, slope])
    for kind in ("gonzalez", "mean-value", "itoh-abe", "equivariant"):
        D = np.asarray(discrete.gradient(energy, x0, x1, kind=kind), dtype=float)
        rest = D - E.T @ np.linalg.lstsq(E.T, D, rcond=None)[0]
        # E^T f is at right angles to x' - x, D is not: no f comes nearer than this
        r.near(f"example 8, {kind}: distance of D H to the range of E^T", float(np.linalg.norm(rest)),
               abs(change) / float(np.linalg.norm(x1 - x0)), 1e-12, "unsolvable")  # fmt: skip
    system = PortHamiltonian(
        2, hamiltonian=energy, E=lambda x: [grad(x), grad(x)], z=lambda x: [0.5 + 0 * x[0], 0.5], initial={"x": [1.0, 0.5]}
    )
    try:
        simulate(system, "ddr", t_end=1.0, step=0.1)
        said = "ran"
    except MethodError as error:
        said = str(error)
    r.true("example 8: ddr refuses the system", "no solution" in said, said[:40] + "...", "a clear error", "unsolvable")


@dataclass(frozen=True)
class Pair:
    """Scheme (18): `E (x1 - x0) = h ((J - R) z + B u)`, `y = B^T z`, each part a function of both ends of the step."""

    E: Pairwise
    z: Pairwise
    J: Pairwise
    R: Pairwise
    B: Pairwise

    def run(self, x: Array, u: Array, h: float) -> tuple[Array, Array]:
        """States and outputs, one input for each step."""
        states, outputs = [x], []
        for now in u:
            x0 = states[-1]

            def residual(x1: Array, x0: Array = x0, now: Array = now) -> Array:
                rate = (self.J(x0, x1) - self.R(x0, x1)) @ self.z(x0, x1) + self.B(x0, x1) @ now
                return np.asarray(self.E(x0, x1) @ (x1 - x0) - h * rate)

            states.append(newton(residual, x0))
            outputs.append(self.B(x0, states[-1]).T @ self.z(x0, states[-1]))
        return np.array(states), np.array(outputs)

    def transformed(self, phi: Map, D: Pairwise, U: Pairwise) -> Pair:
        """The pair and the approximations of theorem 9 in the new coordinates."""

        def at(f: Pairwise) -> Pairwise:
            return lambda a, b: f(phi(a), phi(b))

        E, z, J, R, B = (at(f) for f in (self.E, self.z, self.J, self.R, self.B))
        return Pair(
            lambda a, b: U(a, b).T @ E(a, b) @ D(a, b),
            lambda a, b: np.asarray(np.linalg.solve(U(a, b), z(a, b)), dtype=float),
            lambda a, b: U(a, b).T @ J(a, b) @ U(a, b),
            lambda a, b: U(a, b).T @ R(a, b) @ U(a, b),
            lambda a, b: U(a, b).T @ B(a, b),
        )


def gonzalez(value: Map, derivative: Map) -> Pairwise:
    """Gonzalez's discrete Jacobian of a map."""

    def jacobian(a: Array, b: Array) -> Array:
        d, D = b - a, derivative((a + b) / 2)
        return D if not d.any() else D + np.outer(value(b) - value(a) - D @ d, d) / (d @ d)

    return jacobian


def original(H: Map, grad: Map) -> Pair:
    """Three states, one of them algebraic; all coefficients depend on the state. `z = (E11^-T D H1, z2)`: (21) as a pair (30)."""
    slopes = gonzalez(H, lambda x: grad(x)[None, :])

    def E11(x: Array) -> Array:
        return np.array([[1.0 + 0.2 * x[1] ** 2, 0.3 * x[2]], [0.1 * x[0], 1.5]])

    def E(a: Array, b: Array) -> Array:
        out = np.zeros((3, 3))
        out[:2, :2] = E11((a + b) / 2)
        return out

    def z(a: Array, b: Array) -> Array:
        m = (a + b) / 2
        return np.append(np.linalg.solve(E11(m).T, slopes(a[:2], b[:2])[0]), m[2] + 0.1 * m[2] ** 3 + 0.2 * m[0])

    def J(a: Array, b: Array) -> Array:
        m = (a + b) / 2
        upper = np.array([[0.0, 1.0 + m[0] ** 2, 0.4], [0.0, 0.0, np.cos(m[1])], [0.0, 0.0, 0.0]])
        return np.asarray(upper - upper.T, dtype=float)

    def R(a: Array, b: Array) -> Array:
        m = (a + b) / 2
        root = np.array([[0.3, 0.0, 0.0], [0.1 * m[0], 0.2, 0.0], [0.2, 0.1, 1.0 + 0.1 * m[2] ** 2]])
        return np.asarray(root @ root.T, dtype=float)

    def B(a: Array, b: Array) -> Array:
        m = (a + b) / 2
        return np.array([[1.0, 0.0], [np.sin(m[0]), 0.5], [0.2, m[1]]])

    return Pair(E, z, J, R, B)


def _quartic(x: Array) -> Array:
    return np.array([x @ x / 2 + (x**4).sum() / 4])


@dataclass(frozen=True)
class Change:
    """A transformation `x = phi(x~)` with its derivative, a discrete one, and a factor U."""

    phi: Map
    derivative: Map
    discrete: Pairwise
    U: Pairwise


def _factor(rng: np.random.Generator) -> tuple[Array, Array]:
    return rng.uniform(-0.3, 0.3, size=3), 0.3 * rng.normal(size=(3, 3)) + 2 * np.eye(3)


def _full(rng: np.random.Generator) -> Change:
    """A nonlinear transformation and a factor that mix all states (theorem 9)."""
    a, K = _factor(rng)

    def phi(x: Array) -> Array:
        return np.array([x[0] + a[0] * x[1] ** 3, x[1] + a[1] * x[2] ** 2, x[2] + a[2] * x[0]])

    def derivative(x: Array) -> Array:
        return np.array([[1.0, 3 * a[0] * x[1] ** 2, 0.0], [0.0, 1.0, 2 * a[1] * x[2]], [a[2], 0.0, 1.0]])

    return Change(phi, derivative, gonzalez(phi, derivative), lambda p, q: K + 0.2 * np.diag(np.sin((p + q) / 2)))


def _triangular(rng: np.random.Generator) -> Change:
    """One that keeps the semi-explicit form: `phi1` of the differential states alone, `U12 = 0` (proposition 3, theorem 10)."""
    a, K = _factor(rng)
    K[:2, 2] = 0.0

    def phi(x: Array) -> Array:
        return np.array([x[0] + a[0] * x[1] ** 3, x[1] + a[1] * x[0], x[2] + a[2] * x[0] * x[2]])

    def derivative(x: Array) -> Array:
        return np.array([[1.0, 3 * a[0] * x[1] ** 2, 0.0], [a[1], 1.0, 0.0], [a[2] * x[2], 0.0, 1.0 + a[2] * x[0]]])

    first = gonzalez(lambda x: phi(np.append(x, 0.0))[:2], lambda x: derivative(np.append(x, 0.0))[:2, :2])
    last = gonzalez(lambda x: phi(x)[2:], lambda x: derivative(x)[2:])

    def blocks(p: Array, q: Array) -> Array:
        """Gonzalez's Jacobian of the whole map would fill the zero block: those of phi1 and phi2 are taken one by one."""
        return np.vstack([np.hstack([first(p[:2], q[:2]), np.zeros((2, 1))]), last(p, q)])

    return Change(phi, derivative, blocks, lambda p, q: K + 0.2 * np.diag(np.sin((p + q) / 2)))


@experiment("ph-thm9/10", "Invariance under transformations", "Kinon, Morandin, Schulze 2025, theorems 9, 10, remark 10")
def invariance(r: Result, quick: bool) -> None:
    """E, J, R, B and U depend on the state, E is singular, two ports: the same discrete trajectory in other coordinates."""
    pair = original(_quartic, lambda x: x + x**3)
    h, count = 0.05, 20
    u = np.stack([np.sin(0.7 * np.arange(count)), np.cos(0.4 * np.arange(count))], axis=1)
    x0 = np.array([0.8, 0.3, 0.1])
    states, outputs = pair.run(x0, u, h)
    H = np.array([_quartic(x[:2])[0] for x in states])
    lost = [z @ pair.R(a, b) @ z for a, b in pairwise(states) for z in (pair.z(a, b),)]
    rest = np.diff(H) - h * ((outputs * u).sum(axis=1) - lost)
    r.below("the scheme: residual of the power balance", float(np.abs(rest).max()), 1e-14, "exact")
    for name, make in (("theorem 9", _full), ("theorem 10", _triangular)):
        far, other, shape = [], [], []
        for seed in range(2 if quick else 5):
            change = make(np.random.default_rng(seed))
            begin = newton(lambda x, change=change: change.phi(x) - x0, x0)  # type: ignore[misc]
            new = pair.transformed(change.phi, change.discrete, change.U)
            moved, seen = new.run(begin, u, h)
            far += [_apart(change, moved, states), float(np.abs(seen - outputs).max())]
            plain = pair.transformed(change.phi, lambda a, b, c=change: c.derivative((a + b) / 2), change.U)  # type: ignore[misc]
            other.append(_apart(change, plain.run(begin, u, h)[0], states))
            E = new.E(moved[0], moved[1])
            shape += [float(np.abs(E[2]).max()), float(np.abs(E[:, 2]).max())]
        r.below(f"{name}: distance of states and outputs, mapped back", max(far), 1e-12, "the same")
        r.above(f"{name}, Jacobian at the midpoint in place of the discrete one", max(other), 1e-7, "not the same")
        if make is _triangular:
            r.below("proposition 3: entries of E outside of its block", max(shape), 1e-15, "semi-explicit")
        r.data[name] = {"far": max(far), "other": max(other)}
    r.below("the library, constant J, R, B, U: distance of states and outputs", _library(3 if quick else 20), 1e-11, "the same")


def _apart(change: Change, moved: Array, states: Array) -> float:
    return float(np.abs(np.array([change.phi(x) for x in moved]) - states).max())


def _library(count: int) -> float:
    """`gradient-pair` with a pair of its own and with the transformed one, on the library's `transformed` system with a port."""

    def quartic(x0: Symbols | Vector, x1: Symbols | Vector) -> Vector:
        return [(a + b) / 2 + (a**3 + a**2 * b + a * b**2 + b**3) / 4 for a, b in ((x0[0], x1[0]), (x0[1], x1[1]))]

    system = PortHamiltonian(
        2, hamiltonian=lambda x: x[0] ** 2 / 2 + x[0] ** 4 / 4 + x[1] ** 2 / 2 + x[1] ** 4 / 4, J=[[0, 1], [-1, 0]],
        R=[[0.1, 0], [0, 0.2]], B=[[1.0], [0.5]], initial={"x": [0.8, 0.3]},
    )  # fmt: skip

    def u(t: float) -> list[float]:
        return [float(np.sin(3 * t))]

    first = simulate(system, GradientPair(z=quartic), t_end=2.0, step=0.05, u=u)
    worst = 0.0
    for seed in range(count):
        rng = np.random.default_rng(seed)
        a, U = float(rng.uniform(-1, 1)), rng.normal(size=(2, 2)) + 2 * np.eye(2)
        inverse: Array = np.linalg.inv(U).astype(float)

        def phi(x: Symbols, a: float = a) -> Vector:
            return [x[0] + a * x[1] ** 2, x[1]]

        def E_new(x0: Symbols, x1: Symbols, a: float = a, U: Array = U) -> Matrix:
            D = [[1.0, a * (x0[1] + x1[1])], [0.0, 1.0]]
            return [[sum(U[k, i] * D[k][j] for k in range(2)) for j in range(2)] for i in range(2)]

        def z_new(x0: Symbols, x1: Symbols, phi: Callable[[Symbols], Vector] = phi, inverse: Array = inverse) -> Vector:
            z = quartic(phi(x0), phi(x1))
            return [inverse[i, 0] * z[0] + inverse[i, 1] * z[1] for i in range(2)]

        other = system.transformed(phi, U, initial=[0.8 - a * 0.09, 0.3])
        sol = simulate(other, GradientPair(E=E_new, z=z_new), t_end=2.0, step=0.05, u=u)
        back = np.stack([sol.x[:, 0] + a * sol.x[:, 1] ** 2, sol.x[:, 1]], axis=1)
        worst = max(worst, float(np.abs(back - first.x).max()), float(np.abs(sol.outputs - first.outputs).max()))
    return worst
