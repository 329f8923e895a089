"""Measure every method and write docs/verification.md: `python docs/verify.py`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import casadi as ca
import numpy as np

import dalembert as da
from dalembert.methods.base import able
from dalembert.methods.runge_kutta import RungeKutta

HERE = Path(__file__).parent


def slope(errors: list[float], steps: np.ndarray, floor: float) -> str:
    """Order by the slope of the points above round-off; a dash where there are fewer than three."""
    e = np.asarray(errors)
    keep = e > floor
    return f"{np.polyfit(np.log(steps[keep]), np.log(e[keep]), 1)[0]:.2f}" if keep.sum() >= 3 else "-"


def orders(system: Any, method: Any, t_end: float, counts: list[int]) -> list[str]:
    """Slopes of q, v, lam (as stored, and the mean of two neighbours) at the end of a run."""
    steps = t_end / np.array(counts)
    other = "midpoint" if method.name == "energy-momentum" else "energy-momentum"
    reference = da.simulate(system, other, t_end=t_end, step=t_end / (16 * counts[-1]))
    lam = (reference.lam[1:] + reference.lam[:-1]) / 2
    t_lam = (reference.t_lam[1:] + reference.t_lam[:-1]) / 2
    errors: dict[str, list[float]] = {"q": [], "v": [], "lam": [], "mean": []}
    for h in steps:
        sol = da.simulate(system, method, t_end=t_end, step=h)
        errors["q"].append(np.abs(sol.q[-1] - reference.q[-1]).max())
        errors["v"].append(np.abs(sol.v[-1] - reference.v[-1]).max())
        last = sol.lam[-2:].mean(axis=0), sol.t_lam[-2:].mean()
        for key, value, t in (("lam", sol.lam[-2], sol.t_lam[-2]), ("mean", *last)):
            exact = np.array([np.interp(t, t_lam, column) for column in lam.T])
            errors[key].append(np.abs(value - exact).max())
    return [slope(errors[k], steps, 1e-12 if k in "qv" else 1e-7) for k in ("q", "v", "lam", "mean")]


def kept(system: Any, method: Any, t_end: float, h: float) -> list[str]:
    """Energy or power balance, constraints, momenta, reversal."""
    sol = da.simulate(system, method, t_end=t_end, step=h)
    scale = max(np.abs(sol.energy).max(), np.abs(sol.kinetic).max())
    damped = system.has("dissipation")
    energy = np.abs(sol.power_balance).max() if damped else np.abs(sol.energy - sol.energy[0]).max()
    J = sol.momentum("angular")
    rows = [energy / scale, np.abs(sol.residual("position")).max(), np.abs(sol.residual("velocity")).max()]
    if "particles" in system.name and not damped:
        rows.append(np.abs(J - J[0]).max())
    else:
        rows.append(np.nan)
    if damped:
        rows.append(np.nan)
    else:
        short = da.simulate(system, method, t_end=1.0, step=h)
        back = da.simulate(system, method, q=short.q[-1], v=-short.v[-1], t_end=1.0, step=h)
        rows.append(np.abs(back.q[-1] - sol.q[0]).max())
    return ["-" if np.isnan(x) else f"{x:.0e}" for x in rows]


def staged() -> list[list[str]]:
    """Orders of the methods with stages, s up to 4, and the constraints at the largest step."""
    system = da.catalog.double_pendulum()
    start = da.consistent(system, q=[0.8, -0.6, 1.4, -1.4], v=[0.3, 0.4, -0.2, 0.5])
    rows = []

    def final(method: Any, count: int) -> Any:
        return da.simulate(system, method, q=start.q, v=start.v, t_end=0.4, step=0.4 / count, compile=False)

    reference = final("radau-iia-5", 64)
    for row in da.list_methods():
        if not hasattr(row.method(), "stages") or "mechanical" not in row.treats or not row.index:
            continue
        for s in range(row.method.fewest, 5):
            method = row.method(stages=s)
            counts = np.array([8, 16, 32, 64]) if max(method.order) <= 5 else np.array([4, 6, 8, 12])
            runs = [final(method, int(k)) for k in counts]
            steps = 0.4 / counts
            errors = {
                "q": [np.abs(x.q[-1] - reference.q[-1]).max() for x in runs],
                "v": [np.abs(x.v[-1] - reference.v[-1]).max() for x in runs],
                "lam": [np.abs(x.lam[-1] - reference.lam[-1]).max() for x in runs],
            }
            kept_levels = [f"{np.abs(runs[0].residual(level)).max():.0e}" for level in ("position", "velocity")]
            rows.append([f"`{method}`", *(slope(e, steps, 1e-11) for e in errors.values()), *kept_levels])
    return rows


def angles() -> da.Mechanical:
    """A double pendulum in its two angles: a full mass matrix `M(q)`, no constraints."""

    def mass(q: Any) -> Any:
        c = np.cos(q[0] - q[1])
        return [[4.0, c], [c, 1.0]]

    return da.Mechanical(
        ("a", "b"),
        mass=mass,
        potential=lambda q: -9.81 * (4 * np.cos(q[0]) + np.cos(q[1])),
        initial={"q": [0.7, -0.4], "v": [0.3, 1.1]},
    )


def symplectic_defect(system: da.Mechanical, method: Any) -> float:
    """`S^T J S - J` of two steps `S` in `(q, p = M(q) v)`, from the derivatives in `(q, v)`."""
    run = da.sensitivity(system, method, t_end=0.1, step=0.05)
    x, n = ca.vertcat(system.q, system.v), system.n
    momenta = ca.Function("f", [x, system.par], [ca.jacobian(ca.vertcat(system.q, system.role("momentum")), x)])
    first, last = (momenta(run.solution.x[i], system.pack()).full() for i in (0, -1))
    S = last @ np.block([[run.jacobian(a, b) for b in "qv"] for a in "qv"]) @ np.linalg.inv(first)
    J = np.block([[np.zeros((n, n)), np.eye(n)], [-np.eye(n), np.zeros((n, n))]])
    return float(np.abs(S.T @ J @ S - J).max())


def geometry() -> list[list[str]]:
    """Whether a scheme is symplectic by its coefficients, and its defect on `M(q)`; two and three stages."""
    system, rows = angles(), []
    for row in da.list_methods():
        if not issubclass(row.method, RungeKutta) or not row.method().scheme.implicit:
            continue
        staged = hasattr(row.method(), "stages")
        for method in [row.method(stages=s) for s in (2, 3)] if staged else [row.method()]:
            try:
                method.check(system)
            except da.MethodError:
                continue
            said = "yes" if method.scheme.symplectic else "no"
            rows.append([f"`{method}`", said, f"{symplectic_defect(system, method):.0e}"])
    return rows


def semi_explicit() -> tuple[da.IndexOneDAE, da.IndexTwoDAE]:
    """A pendulum with a nonlinear friction law as index 1, and a motion on a circle with a third variable as index 2."""
    one = da.IndexOneDAE(
        2,
        f=lambda y, z, t: [z[0], -np.sin(y[0]) - 0.1 * z[0] + np.cos(3 * t)],
        g=lambda y, z: z + 0.1 * z**3 - y[1],
        algebraic=1,
        name="index 1",
        initial={"y": [0.5, 0.3]},
    )
    two = da.IndexTwoDAE(
        3,
        f=lambda y, z: [y[1] * (1 + 0.3 * y[2]) + z[0] * y[0], -y[0] + z[0] * y[1] + 0.5 * y[2], 0.3 * y[0] * y[2]],
        g=lambda y: [y[0] ** 2 + y[1] ** 2 - 1],
        name="index 2",
        initial={"y": [0.6, 0.8, 0.3]},
    )
    return one, two


def sampled_systems() -> dict[str, tuple[Any, dict[str, Any], tuple[str, ...]]]:
    """What is looked at between the steps: a system, where it starts, and its variables."""
    pendulum = da.catalog.double_pendulum()
    start = da.consistent(pendulum, q=[0.8, -0.6, 1.4, -1.4], v=[0.3, 0.4, -0.2, 0.5])
    port = da.PortHamiltonian(
        3,
        E=np.diag([1.0, 1.0, 0.0]),
        J=[[0, 1.0, 1.0], [-1.0, 0, 0], [-1.0, 0, 0]],
        R=np.diag([0.1, 0.2, 2.0]),
        hamiltonian=lambda x: x[0] ** 2 / 2 + x[1] ** 4 / 4 + x[1] ** 2 / 2,
        z=lambda x: [x[0], x[1] ** 3 + x[1], x[2]],
    )
    one, two = semi_explicit()
    return {
        "double pendulum": (pendulum, {"q": start.q, "v": start.v}, ("q", "v", "lam")),
        "double pendulum, q and p": (pendulum.to_hamiltonian(), {"q": start.q, "p": start.p}, ("q", "p", "lam")),
        "index 1": (one, {}, ("y", "z")),
        "index 2": (two, {}, ("y", "z")),
        "port-Hamiltonian, an algebraic state": (port, dict(da.consistent(port, x=[1.0, 0.5, 0.2])), ("x",)),
    }


def sampled(system: Any, start: dict[str, Any], names: tuple[str, ...], method: Any) -> list[float]:
    """Slopes of the largest errors of `sol.at` at sixty times between the steps of runs up to t = 0.4."""
    t = np.sort(np.random.default_rng(0).uniform(0.02, 0.4, 60))
    exact = da.simulate(system, "radau-iia-6", **start, t_end=0.4, step=0.01).at(t, how="step")
    high = max(*method.order, method.free_order) > 4
    counts = (np.array([6, 9, 13]) if "lam" in names else np.array([3, 5, 7])) if high else np.array([10, 20, 40])
    runs = [da.simulate(system, method, **start, t_end=0.4, step=0.4 / n, compile=False).at(t) for n in counts]
    errors = [[float(np.abs(getattr(run, k) - getattr(exact, k)).max()) for k in names] for run in runs]
    return [float(x) for x in -np.polyfit(np.log(counts), np.log(errors), 1)[0]]


def between() -> list[list[str]]:
    """Measured orders between the steps of all methods with steps of their own."""
    rows = []
    for name, (system, start, parts) in sampled_systems().items():
        for method in able(system):
            if not method.external:
                found = dict(zip(parts, sampled(system, start, parts, method), strict=True))
                said = ", ".join(str(p) for p in dict.fromkeys(method.order_on(system)))
                shown = ", ".join(f"{part} {slope:.2f}" for part, slope in found.items())
                rows.append([name, f"`{method}`", said, shown])
    return rows


def table(head: list[str], rows: list[list[str]]) -> str:
    return "\n".join("| " + " | ".join(r) + " |" for r in [head, ["---"] * len(head), *rows])


def main() -> None:
    methods = [row.method() for row in da.list_methods()]
    methods = [m for m in methods if not hasattr(m, "stages") and not hasattr(m, "base") and m.index and not m.external]
    methods += [da.methods.EnergyMomentum(gradient=g) for g in ("gonzalez", "mean-value", "itoh-abe")]
    systems = [da.catalog.double_pendulum(), da.catalog.four_particles(), da.catalog.four_particles_damped()]
    order_rows, kept_rows = [], []
    for system in systems:
        stiff = "particles" in system.name
        for method in methods:
            try:
                method.check(system)
            except da.MethodError:
                continue
            counts = [96, 192, 384, 768] if stiff else [24, 48, 96, 192]
            order_rows.append([system.name, f"`{method}`", *orders(system, method, 0.24, counts)])
            kept_rows.append([system.name, f"`{method}`", *kept(system, method, 10.0, 0.01)])
    staged_rows = staged()
    text = f"""# Verification

Measured, not declared; written by `python docs/verify.py`. The same quantities are asserted in the tests, on more systems
(state-dependent mass matrices, moving constraints, forces, inputs, general Hamiltonians).

## Orders

Slopes of the errors at t = 0.24 over four step sizes, against another method with a sixteenth of the smallest step.
Multipliers are compared at the times at which they are defined. The last column is the mean of two neighbouring multipliers:
methods that are off the velocity constraint have multipliers that alternate around their mean with an amplitude of
O(h) (or less, where the start is kind, as here), so that the mean is what has order two in general. `itoh-abe` is not
symmetric; it is of order one in general.

{table(["system", "method", "q", "v", "lam", "mean of two lam"], order_rows)}

## Methods with stages

Slopes at t = 0.4 for a double pendulum in motion, against `radau-iia-5`; `v` and `lam` of Gauss and Radau IA are
those of the index-2 form (Hilden 2009, table 2.1).

{table(["method", "q", "v", "lam", "position g", "velocity G v"], staged_rows)}

## Symplectic structure for a mass matrix M(q)

A double pendulum in its two angles, two steps of 0.05 from a state in motion. The second column is computed from the
coefficients. The last is the largest entry of $S^T J S - J$, where $S$ is the derivative of the two steps in $(q, p)$ with
$p = M(q) v$; the system is given in $q$ and $v$. Both stages of `lobatto-iiib-2` are the same point: it is the midpoint rule
written with two stages, and the condition on the coefficients is sufficient there, not necessary.

{table(["method", "symplectic by its coefficients", "measured defect"], geometry())}

## Between the steps

`sol.at(t)` at sixty times between the steps of runs up to t = 0.4: slopes of the largest errors over three step sizes, against
`radau-iia-6` with steps of 0.01. The third column is the order that the method states, for each component where they differ.
Some are better than stated (positions of `gauss-s`).

{table(["system", "method", "stated", "measured between the steps"], between())}

## What is kept

Ten seconds with h = 0.01. Energy: largest change relative to the largest energy; for the damped system the largest
residual of the power balance. Reversal: distance to the start after one second forwards and one backwards (a dash
where it does not apply; `shake` is reversible in its positions only, and `itoh-abe` is not symmetric).

{table(["system", "method", "energy or balance", "position g", "velocity G v", "angular momentum", "reversal"], kept_rows)}

{(HERE.parent / "tools" / "mutants.md").read_text(encoding="utf-8").strip()}
"""
    (HERE / "verification.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
