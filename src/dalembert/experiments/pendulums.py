"""Simple and double pendulums (Symank 2025, sec. 7.3): energy, constraints, masses that vanish."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from dalembert import catalog
from dalembert.analysis.measures import trend
from dalembert.analysis.trials import Options
from dalembert.catalog.symbols import Array
from dalembert.engine.consistency import consistent
from dalembert.errors import ConvergenceError, DalembertError
from dalembert.experiments.base import Result, experiment
from dalembert.experiments.murua import Pendulums, Run, coefficients, jacobian
from dalembert.methods.tableaus import tableau
from dalembert.simulation import simulate
from dalembert.solution import Solution
from dalembert.systems import Mechanical

PRK = ("lobatto-pair-3", "murua-3", "murua-ggl-3")


@experiment("mbs-11", "Energy over 240 s", "Symank 2025, figs. 10, 11")
def long_energy(r: Result, quick: bool) -> None:
    """Simple and double pendulum, h = 0.01, three stages; then the same equations by SciPy's fsolve at its default tolerance."""
    t_end = 60.0 if quick else 240.0
    # orders of magnitude as the source reads them off its figures: its words are "on the order of"
    theirs = {"simple": {"lobatto-pair-3": 1e-8, "murua-3": 1e-8, "murua-ggl-3": 1e-8}}
    theirs["double"] = {"lobatto-pair-3": 1e-5, "murua-3": 1e-7, "murua-ggl-3": 1e-7}
    for name, system in (("simple", catalog.simple_pendulum()), ("double", catalog.double_pendulum())):
        for method in PRK:
            sol = simulate(system, method, t_end=t_end, step=0.01)
            error = sol.energy - sol.energy[0]
            r.data[f"{name} {method}"] = {"t": sol.t, "error": error}
            order = theirs[name][method]
            r.below(f"{name} pendulum, {method}: energy error", np.abs(error).max(), 10 * order, f"order of {order:.0e}")
            if name == "simple":
                line = trend(sol.t, error)
                told = f"{line.slope:.1e} +- {line.error:.1e} per s"
                source = {"lobatto-pair-3": "slight decrease", "murua-3": "linear increase"}.get(method, "random")
                # round-off of 24 000 steps walks by some 1e-13; a drift as the source shows it is 1e-10 per second
                r.below(f"simple pendulum, {method}: slope of the energy error ({told})", abs(line.slope), 2e-12, source)
            if name == "double" and method == "murua-3":
                _figures(r, sol, t_end)
    _by_fsolve(r, 5.0 if quick else 30.0)
    r.disagree(
        "Solved to round-off, no method of the three changes the energy of the simple pendulum steadily. With SciPy's fsolve at "
        "its default tolerance, from the guess of zero rates, Murua's method gains energy linearly, as in fig. 11a. Jay's pair "
        "changes it steadily too, upwards with the unknowns chosen here and downwards in the source. That the source used fsolve "
        "so is an inference: it does not name its solver."
    )


def _figures(r: Result, sol: Solution, t_end: float) -> None:
    """Figs. 10 and 11d: paths up to three times, and the two parts of the energy over the first 1500 steps."""
    for until in (5.0, 20.0, t_end):
        part = sol.q[sol.t <= until]
        curves = {"first mass": (part[:, 0], part[:, 1]), "second mass": (part[:, 2], part[:, 3])}
        r.panel(f"fig. 10: murua-3 up to t = {until:g}", "$x$", "$y$", curves, "path")
    t = sol.t[:1501]
    parts = {"kinetic": sol.kinetic[:1501], "potential": sol.potential[:1501], "total": sol.energy[:1501]}
    r.panel("fig. 11d: murua-3", "time $t$", "energy", {key: (t, y) for key, y in parts.items()})


STEP, DOWN = 0.01, np.array([0.0, -9.81])


def _murua(X: Array, p: Array, v: Array) -> Array:
    """Three stages of Murua's method on the simple pendulum; `X` holds p', v' and lam of the stages."""
    A, _, rows, _ = MURUA
    Kp, Kv, lam = X[:6].reshape(3, 2), X[6:12].reshape(3, 2), X[12:]
    P, V = p + STEP * A @ Kp, v + STEP * A @ Kv
    ends = ((p + STEP * rows @ Kp) * (v + STEP * rows @ Kv)).sum(axis=1)
    return np.concatenate([(Kp - V).ravel(), (Kv - DOWN - lam[:, None] * P).ravel(), ends])


def _jay(X: Array, p: Array, v: Array) -> Array:
    """Three stages of Jay's pair on the simple pendulum, in the same unknowns."""
    A, B, b = JAY
    Kp, Kv, lam = X[:6].reshape(3, 2), X[6:12].reshape(3, 2), X[12:]
    P, V = p + STEP * A @ Kp, v + STEP * B @ Kv
    ends = [P[1] @ P[1] / 2 - 0.5, P[2] @ P[2] / 2 - 0.5, (p + STEP * b @ Kp) @ (v + STEP * b @ Kv)]
    return np.concatenate([(Kp - V).ravel(), (Kv - DOWN - lam[:, None] * P).ravel(), ends])


MURUA = coefficients(3)
JAY = tableau("lobatto-iiia", 3).A, tableau("lobatto-iiib", 3).A, tableau("lobatto-iiia", 3).b


def _fsolved(residual: Callable[[Array, Array, Array], Array], b: Array, count: int, tolerance: float) -> Array:
    """Energies after each step, every step solved by fsolve from the naive guess: no rates, the last multipliers."""
    from scipy.optimize import fsolve

    p, v, lam, energy = np.array([1.0, 0.0]), np.zeros(2), np.zeros(3), []
    for _ in range(count):
        X = fsolve(residual, np.concatenate([np.zeros(12), lam]), (p, v), xtol=tolerance, full_output=True)[0]
        p, v = p + STEP * b @ X[:6].reshape(3, 2), v + STEP * b @ X[6:12].reshape(3, 2)
        lam = np.full(3, X[-1])
        energy.append(v @ v / 2 + 9.81 * p[1])
    return np.array(energy, dtype=float)


def _by_fsolve(r: Result, t_end: float) -> None:
    """Both methods at fsolve's default tolerance, and at 1e-14."""
    t = STEP * np.arange(1.0, round(t_end / STEP) + 1)
    loose, tight = (_fsolved(_murua, MURUA[1], len(t), tolerance) for tolerance in (1.49012e-8, 1e-14))
    line = trend(t, loose)
    r.above("simple pendulum, Murua by fsolve, default tolerance: slope of the energy", line.slope, 2e-11, "linear increase")
    r.true("simple pendulum, Murua by fsolve, default tolerance: a trend", line.drifts, str(line), "drifts", "linear")
    r.below("simple pendulum, Murua by fsolve, tolerance 1e-14: slope of the energy", abs(trend(t, tight).slope), 2e-12, "")
    few = t[: len(t) // 2]
    pair = [_fsolved(_jay, JAY[2], len(few), tolerance) for tolerance in (1.49012e-8, 1e-14)]
    # the energy of the pair oscillates by 6e-8: the difference of both runs shows what the tolerance adds to it
    added = trend(few, pair[0] - pair[1])
    r.true(
        "simple pendulum, Jay by fsolve: energy at the default tolerance less that at 1e-14",
        added.drifts,
        str(added),
        "drifts",
        "falls",
    )
    curves = {
        "Murua, default tolerance": (t, loose),
        "Murua, 1e-14": (t, tight),
        "Jay, default less 1e-14": (few, pair[0] - pair[1]),
    }
    r.panel("fig. 11a: by fsolve", "time $t$", "$H - H_0$", curves)


@experiment("mbs-12", "Constraints", "Symank 2025, fig. 12")
def constraints(r: Result, quick: bool) -> None:
    """Double pendulum m = (1, 8), l = (1, 5), the first mass pushed at right angles to its rod with speed 10."""
    system = catalog.double_pendulum(m1=1.0, m2=8.0, l1=1.0, l2=5.0)
    start = consistent(system, q=[1, 0, 6, 0], v=[0, 10, 0, 0])
    for method, position, velocity in (
        ("murua-3", "drifts", ""), ("murua-ggl-3", "1e-9", ""), ("lobatto-pair-3", "1e-11", "1e-14"),
    ):  # fmt: skip
        sol = simulate(system, method, **start, t_end=10.0 if quick else 60.0, step=0.01)
        g, G = (np.abs(sol.residual(level)).max(axis=1) for level in ("position", "velocity"))
        r.data[method] = {"t": sol.t, "position": g, "velocity": G}
        if method == "murua-3":
            r.above(f"{method}: position constraints", g.max(), 1e-10, position)
        else:
            r.below(f"{method}: position constraints", g.max(), 1e-12, position)
        r.below(f"{method}: velocity constraints", G.max(), 1e-11, velocity)
    r.note("A push along the rod, as printed, violates the velocity constraint; it is at right angles here, and projected.")


@experiment("mbs-13/14", "One mass tends to zero", "Symank 2025, figs. 13, 14")
def zero_mass(r: Result, quick: bool) -> None:
    """Double pendulum with viscosity 0.01; one mass 10^0 .. 10^-40 and 0, the other 1; the source's delta of all variables."""
    exponents = (-4, -8, -12, -16, -20, -40) if quick else tuple(range(0, -41, -4))
    for which in (1, 2):
        for method in ("murua-3", "murua-ggl-3"):
            _limit(r, which, method, exponents, 2.0 if quick else 10.0)
        distances = zero_distances(which, "lobatto-pair-3", exponents, t_end=2.0 if quick else 10.0)
        reach = [e for e, d in zip(exponents, distances, strict=True) if np.isfinite(d)]
        told = f"runs down to 1e{min(reach)}" if reach else "runs for none of them"
        r.true(
            f"lobatto-pair-3: m{which} = 1e-40 cannot be treated",
            not np.isfinite(distances[-1]),
            told,
            "fails",
            "fails from 1e-6 on",
        )
    mass, tension = 1e-4, 58.5  # of both rods together at their largest, from the motion with m1 = 0
    step = admissible_step(mass, t_end=2.0, halvings=8 if quick else 11)
    r.near("lobatto-pair-3: largest step times fast frequency, m1 = 1e-4", step * np.sqrt(tension / mass), STABILITY, 0.4, "")
    r.note(
        "The stagnation of the stabilised form is that of mu alone: a multiplier of 1e-5 and less whose relative differences are "
        "noise. Positions, velocities and lam tend to their limit as without stabilisation, down to round-off."
    )
    r.disagree(
        "Jay's pair is unstable for small masses: a light mass between two tight rods swings with the frequency "
        "sqrt((T1 / l1 + T2 / l2) / m1), and the pair of three stages is stable up to h omega = 2 sqrt(2), as RATTLE is up to 2. "
        "With a mass of exactly zero its equations are singular. The source thinks of an error of its own implementation; which "
        "masses can be run depends on the step."
    )


REST = np.array([1.0, 0.0, 2.0, 0.0])  # on the x-axis


def _limit(r: Result, which: int, method: str, exponents: tuple[int, ...], t_end: float) -> None:
    """Fig. 13 or 14 of one method: delta to the solution with a mass of zero, and the means of the constraints."""
    ggl = method == "murua-ggl-3"
    masses = np.ones((len(exponents) + 1, 2))
    masses[:, which - 1] = [*(10.0**e for e in exponents), 0.0]
    model = Pendulums(masses, ggl=ggl)
    run = model.run(REST, np.zeros(4), 0.01, round(100 * t_end))
    sol = simulate(damped_double_pendulum(*masses[0]), method, t_end=0.1, step=0.01)
    far = float(np.abs(run.p[9, 0] - sol.q[-1]).max())
    r.below(f"{method}, m{which}: the source's program against the library, ten steps", far, 1e-12, "")
    every = np.concatenate([run.p, run.v, run.lam, run.mu], axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        difference = np.abs((every[:, :-1] - every[:, -1:]) / every[:, -1:]).mean(axis=0)
    delta, without = difference.mean(axis=1), difference[:, :10].mean(axis=1)
    name, power = f"m{which} {method}", np.array(exponents)
    r.data[name] = {"exponent": power, "distance": delta}
    r.below(f"{name}: delta for the smallest mass", delta[-1], 0.0, "0 below 1e-30" if which == 1 else "0 below 1e-36")
    fall = without[exponents.index(-12)] / without[exponents.index(-8)]
    r.near(f"{name}: log10 of delta at 1e-12 over that at 1e-8, without mu", float(np.log10(fall)), -4.0, 0.3, "tends to it")
    late = exponents.index(-20)
    if ggl:
        r.data[f"{name}, without mu"] = {"exponent": power, "distance": without}
        r.above(f"{name}: delta at 1e-20, mu included", delta[late], 1e-7, "stagnates below 1e-12")
        r.below(f"{name}: delta at 1e-20, without mu", without[late], 1e-11, "")
        r.below(f"{name}: largest mu", float(np.abs(run.mu).max()), 1e-4, "")
    else:
        r.below(f"{name}: delta at 1e-20", delta[late], 1e-11, "tends to it")
    _constraint_means(r, which, method, model, run, power)


def _constraint_means(r: Result, which: int, method: str, model: Pendulums, run: Run, power: Array) -> None:
    """Figs. 13b-d, 14b-d: mean absolute values of both levels, and of the equations that are algebraic for a mass of zero."""
    G = jacobian(run.p)
    position = np.abs(np.einsum("...ij,...j->...i", G, run.p) - 1).mean(axis=0)[:-1]
    velocity = np.abs(np.einsum("...ij,...j->...i", G, run.v)).mean(axis=0)[:-1]
    force = np.einsum("...ij,...i->...j", G, run.lam) - model.viscosity * run.v + model.m[:, 0] * model.weight
    own = np.abs(force).mean(axis=0)[:-1, 2 * which - 2 : 2 * which]
    panels = (("b", "position constraints", position), ("c", "velocity constraints", velocity), ("d", "right-hand sides", own))
    for letter, title, values in panels:
        names = ("first", "second") if letter != "d" else ("x", "y")
        curves = {f"{method}, {n}": (power.astype(float), values[:, k]) for k, n in enumerate(names)}
        r.panel(f"fig. 1{which + 2}{letter}: {title}", "exponent of the mass, base 10", "mean value", curves, "log")
    r.below(f"m{which} {method}: mean velocity constraint", float(velocity.max()), 1e-11, "")
    if method == "murua-ggl-3":
        r.below(f"m{which} {method}: mean position constraint", float(position.max()), 1e-12, "")
    # lam at the ends of steps is continued from the stages: its error is that of the step, not of the mass
    r.below(f"m{which} {method}: mean right-hand side of the light mass, 1e-40", float(own[-1].max()), 1e-2, "small")


def tilted(degrees: float) -> Array:
    """Both rods in line, below the horizontal by an angle."""
    angle = np.radians(degrees)
    return np.array([np.cos(angle), -np.sin(angle), 2 * np.cos(angle), -2 * np.sin(angle)], dtype=float)


@experiment("mbs-light", "A light mass without viscosity", "Symank 2025, sec. 7.3.3 (the case that is left out there)")
def light_mass(r: Result, quick: bool) -> None:
    """Inner mass 10^-4 .. 10^-12 and no viscosity: the limit is a pendulum of length 2, unless the tension vanishes."""
    powers = (-4, -8, -12) if quick else (-4, -6, -8, -10, -12)
    masses = np.array([[10.0**e, 1.0] for e in powers])
    start, count = tilted(45.0), 100 if quick else 300
    run = Pendulums(masses, viscosity=0.0, ggl=True).run(start, np.zeros(4), 0.01, count)
    rod = catalog.simple_pendulum(l=2.0)
    exact = simulate(rod, "lobatto-pair-5", q=start[2:], v=[0.0, 0.0], t_end=0.01 * count, step=0.005).q[2::2]
    far = np.abs(run.p[:, :, 2:] - exact[:, None]).max(axis=(0, 2))
    r.data["45 degrees"] = {"exponent": np.array(powers), "distance": far}
    for power, distance in zip(powers[:-1], far, strict=False):
        r.below(f"45 degrees, murua-ggl-3, m1 = 1e{power}: distance to that pendulum over m1", distance / 10.0**power, 1.0, "")
    for degrees, mass in ((0.0, 1e-6), (0.0, 1e-10), (45.0, 1e-6), (45.0, 1e-10)):
        system = damped_double_pendulum(mass, 1.0, viscosity=0.0)
        for method in ("murua-3", "murua-ggl-3"):
            name = f"{method}, {degrees:g} degrees, m1 = {mass:g}"
            try:
                simulate(system, method, q=tilted(degrees), v=np.zeros(4), t_end=5.0, step=0.01)
                told, ran = "runs to t = 5", True
            except ConvergenceError as error:
                told, ran = f"fails at t = {error.t:.2f}", False
            if degrees:
                r.true(f"{name}: runs", ran, told, "runs")
            else:
                r.true(f"{name}: fails", not ran, told, "fails")
    r.note(
        "On the x-axis at rest, and at each turning point of that motion, both rods are without tension; there the equations of "
        "a light mass are singular, since the multipliers stand before its position. Started elsewhere the methods run, and "
        "their solutions tend to those of the limit in proportion to the mass."
    )


STABILITY = 2 * np.sqrt(2)  # of the Lobatto IIIA-IIIB pair of three stages on the harmonic oscillator


def admissible_step(mass: float, t_end: float, halvings: int = 11, method: str = "lobatto-pair-3") -> float:
    """The largest step with which the double pendulum runs with a light inner mass and no viscosity, by bisection."""
    system, low, high = damped_double_pendulum(mass, 1.0, viscosity=0.0), 1e-5, 0.1
    for _ in range(halvings):
        h = float(np.sqrt(low * high))
        count = int(np.ceil(t_end / h))
        try:
            simulate(system, method, t_end=t_end, step=t_end / count, save_every=count)
            low = h
        except DalembertError:
            high = h
    return low


def zero_distances(which: int, method: str, exponents: tuple[int, ...], t_end: float, h: float = 0.01) -> list[float]:
    """Distances to the solution with a mass of zero (to that of murua-3 if it has none); nan if a run fails."""

    def run(mass: float, by: str) -> np.ndarray:
        masses = {"m1": 1.0, "m2": 1.0, f"m{which}": mass}
        system = damped_double_pendulum(**masses)
        return simulate(system, by, t_end=t_end, step=h).q

    reference = run(0.0, "murua-3" if method == "lobatto-pair-3" else method)
    out = []
    for exponent in exponents:
        try:
            out.append(float(np.abs(run(10.0**exponent, method) - reference).mean()))
        except DalembertError:
            out.append(float("nan"))
    return out


def damped_double_pendulum(m1: float, m2: float, viscosity: float = 0.01) -> Mechanical:
    """The double pendulum with rods of length 1 and the same viscosity on all velocities."""
    return Mechanical(
        ("x1", "y1", "x2", "y2"),
        mass=lambda m1, m2: [m1, m1, m2, m2],
        potential=lambda q, m1, m2, g: g * (m1 * q[1] + m2 * q[3]),
        holonomic=lambda q: [q[0] ** 2 + q[1] ** 2 - 1, (q[2] - q[0]) ** 2 + (q[3] - q[1]) ** 2 - 1],
        dissipation=lambda c: c,
        parameters={"m1": m1, "m2": m2, "c": viscosity, "g": 9.81},
        initial={"q": [1.0, 0.0, 2.0, 0.0], "v": [0.0, 0.0, 0.0, 0.0]},
        name="double pendulum with viscosity",
    )


@experiment("mbs-time", "Run times", "Symank 2025, sec. 7.3.3")
def times(r: Result, quick: bool) -> None:
    """The four settings and three methods of the source's table, set-up and compilation included."""
    pushed = catalog.double_pendulum(m1=1.0, m2=8.0, l1=1.0, l2=5.0)
    start = consistent(pushed, q=[1, 0, 6, 0], v=[0, 10, 0, 0])
    settings: list[tuple[str, Callable[[], Mechanical], Options, float, tuple[float, float, float]]] = [
        ("simple pendulum, energy", catalog.simple_pendulum, {}, 240.0, (60.0, 134.7, 155.5)),
        ("simple pendulum, constraints", catalog.simple_pendulum, {}, 60.0, (34.3, 34.5, 40.9)),
        ("double pendulum, energy", catalog.double_pendulum, {}, 240.0, (103.6, 258.6, 300.1)),
        ("double pendulum, constraints", lambda: pushed, {"q": start.q, "v": start.v}, 60.0, (10.5, 18.1, 21.0)),
    ]
    told = []
    for name, make, values, t_end, theirs in settings:
        for method, seconds in zip(PRK, theirs, strict=True):
            begun = time.perf_counter()
            sol = simulate(make(), method, **values, t_end=t_end / (10 if quick else 1), step=0.01)
            own = time.perf_counter() - begun
            work = float(sol.stats["iterations_per_step"])
            r.data[f"{name}, {method}"] = {"seconds": own, "source": seconds, "iterations a step": work}
            r.below(f"{name}, {method}: Newton iterations a step", work, 8.0, f"{seconds:g} s in all")
            told.append(f"{name}, {method}: {own:.2f} s")
    r.note(
        "Seconds here, set-up and compilation included, on whatever machine this ran; no verdict rests on them: "
        + "; ".join(told)
        + "."
    )
    r.note("Times of the source are from a laptop of its author; the length of its constraint runs is not stated (60 s here).")
