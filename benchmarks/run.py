"""Microseconds per step of every method in every way of running, beside hand-written C: `python benchmarks/run.py`.

All numbers of a table come from one run on one machine; where two are compared they are taken in turns, and each is the best of
several. Machines are noisy: read the ratios, not the microseconds. `--quick` skips the long chains.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

HERE = Path(__file__).parent
console = Console(width=130)


def reference() -> ctypes.CDLL:
    """The hand-written loops, compiled with -O3 for this machine."""
    from dalembert.engine import compiler

    command = compiler.find()
    if command is None:
        sys.exit("the benchmark compares with C and needs a compiler: install gcc or clang, or pip install 'dalembert[compiler]'")
    target = Path(tempfile.mkdtemp()) / "reference.so"
    subprocess.run([*command, "-O3", "-fPIC", "-shared", str(HERE / "reference.c"), "-o", str(target), "-lm"], check=True)
    library = ctypes.CDLL(str(target))
    for name in ("four_particles", "double_pendulum", "contact_oscillator", "contact_midpoint"):
        getattr(library, name).restype = ctypes.c_long
    return library


def pointer(array: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def time_four_particles(library: ctypes.CDLL, steps: int) -> float:
    mass, K = np.array([1, 3, 2.3, 1.7]), np.array([100.0, 1000.0])
    q = np.array([0, 0, 0, 1, 0, 0, 0, 1, 0, 1, 1, 0.0])
    v = np.zeros(12)
    v[11] = 2 / 1.7
    begun = time.process_time()
    done = library.four_particles(
        ctypes.c_long(steps), ctypes.c_double(0.01), pointer(mass), pointer(K), pointer(q), pointer(v), ctypes.c_double(8.9e-16)
    )
    assert done > 0
    return (time.process_time() - begun) / steps


def time_double_pendulum(library: ctypes.CDLL, steps: int) -> float:
    mass, length = np.array([3.0, 1.0]), np.array([1.0, 1.0])
    q, v = np.array([1, 0, 2, 0.0]), np.zeros(4)
    begun = time.process_time()
    done = library.double_pendulum(
        ctypes.c_long(steps), ctypes.c_double(0.01), pointer(mass), pointer(length), ctypes.c_double(9.81), pointer(q),
        pointer(v), ctypes.c_double(1e-12),
    )  # fmt: skip
    assert done > 0
    return (time.process_time() - begun) / steps


def time_contact_oscillator(library: ctypes.CDLL, steps: int) -> float:
    q, v = np.array([np.sqrt(2 - 0.25), 1.0, -0.5]), np.zeros(3)
    begun = time.process_time()
    done = library.contact_oscillator(ctypes.c_long(steps), ctypes.c_double(0.01), pointer(q), pointer(v), ctypes.c_double(4e-16))
    assert done > 0
    return (time.process_time() - begun) / steps


def time_contact_midpoint(library: ctypes.CDLL, steps: int) -> float:
    q, v = np.array([np.sqrt(2 - 0.25), 1.0, -0.5]), np.zeros(3)
    begun = time.process_time()
    done = library.contact_midpoint(
        ctypes.c_long(steps), ctypes.c_double(0.01), ctypes.c_double(0.0), pointer(q), pointer(v), ctypes.c_double(4e-16)
    )
    assert done > 0
    return (time.process_time() - begun) / steps


def per_step(system, method, steps: int, compile: bool | str, h: float = 0.01, **options) -> float:
    """CPU seconds of a step; a call has a fixed part of 0.3 ms, so that there should be many."""
    import dalembert as da

    begun = time.process_time()
    da.simulate(system, method, t_end=steps * h, step=h, compile=compile, save_every=steps, **options)
    return (time.process_time() - begun) / steps


def against_c(repeat: int) -> None:
    import dalembert as da

    library = reference()
    table = Table(title="against hand-written C, h = 0.01 (CPU time per step, best of several, taken in turns)")
    for column in ("system and method", "way", "us / step", "ratio to C"):
        table.add_column(column, justify="right" if "/" in column or "ratio" in column else "left")
    damped = da.catalog.four_particles_damped()
    four, double, contact = da.catalog.four_particles(), da.catalog.double_pendulum(), da.catalog.contact_oscillator()
    cases = (
        ("four particles, energy-momentum, to round-off", four, "energy-momentum", time_four_particles, 50_000, {}),
        ("the same with damper, discrete-gradient", damped, "discrete-gradient", time_four_particles, 50_000, {}),
        ("the same with damper, energy-momentum-ggl", damped, "energy-momentum-ggl", time_four_particles, 50_000, {}),
        ("double pendulum, rattle, tolerance 1e-12", double, "rattle", time_double_pendulum, 500_000, {"tolerance": 1e-12}),
        ("double pendulum, rattle, to round-off", double, "rattle", time_double_pendulum, 500_000, {}),
        ("contact oscillator, mclachlan-perlmutter", contact, "mclachlan-perlmutter", time_contact_oscillator, 500_000, {}),
        ("contact oscillator, cortes-martinez", contact, "cortes-martinez", time_contact_midpoint, 500_000, {}),
        ("the same beside C of the method before", contact, "cortes-martinez", time_contact_oscillator, 500_000, {}),
        ("contact oscillator, spark-2", contact, "spark-2", time_contact_oscillator, 500_000, {}),
    )
    for title, system, method, hand, steps, options in cases:
        best = dict.fromkeys(("hand-written C", "compiled", "virtual machine"), np.inf)
        for _ in range(repeat):
            best["hand-written C"] = min(best["hand-written C"], hand(library, steps))
            best["compiled"] = min(best["compiled"], per_step(system, method, steps, True, **options))
            best["virtual machine"] = min(best["virtual machine"], per_step(system, method, steps // 25, False, **options))
        for way, seconds in best.items():
            table.add_row(title, way, f"{seconds * 1e6:.3f}", f"{seconds / best['hand-written C']:.2f}")
        table.add_section()
    console.print(table)


def every_method(repeat: int) -> None:
    import dalembert as da

    variants = [
        m
        for m in (row.method() for row in da.list_methods())
        if not hasattr(m, "stages") and not hasattr(m, "base") and m.index and not m.external
    ]
    variants += [da.methods.EnergyMomentum(gradient=g) for g in ("gonzalez", "mean-value", "itoh-abe")]
    table = Table(title="every method (us per step, h = 0.01; gradient: reverse sweep through 1000 steps)")
    for column in (
        "method",
        "system",
        "compiled",
        "virtual machine",
        "iterations / step",
        "set-up, s",
        "compile, s",
        "gradient, s",
    ):
        table.add_column(column, justify="left" if column in ("method", "system") else "right")
    makers = (da.catalog.double_pendulum, da.catalog.four_particles, da.catalog.four_particles_damped)
    for make in makers:
        for method in variants:
            system = make()
            begun = time.perf_counter()
            try:
                sol = da.simulate(system, method, t_end=0.02, step=0.01, compile=False)
            except da.MethodError:
                continue
            setup = time.perf_counter() - begun
            begun = time.perf_counter()
            da.simulate(system, method, t_end=0.02, step=0.01, compile=True)
            compiling = time.perf_counter() - begun
            native = min(per_step(system, method, 50_000, True) for _ in range(repeat))
            machine = min(per_step(system, method, 1000, False) for _ in range(repeat))
            sol = da.simulate(system, method, t_end=10.0, step=0.01)
            da.sensitivity(system, method, t_end=0.02, step=0.01).gradient(lambda q: q[0])
            run = da.sensitivity(system, method, t_end=2.0, step=0.002)
            begun = time.perf_counter()
            run.gradient(lambda q: q[0])
            gradient = time.perf_counter() - begun
            table.add_row(
                str(method), system.name, f"{native * 1e6:.3f}", f"{machine * 1e6:.1f}",
                f"{sol.stats['iterations_per_step']:.2f}", f"{setup:.3f}", f"{compiling:.2f}", f"{gradient:.3f}",
            )  # fmt: skip
        table.add_section()
    console.print(table)


def gradients(repeat: int) -> None:
    """A gradient through 100 000 steps beside the run: rows stored, kept, or made again from places in between (CPU time).

    The unit is a run of `simulate` that saves the end. `gradient` and `Hessian product` are what these calls take after the run
    of `da.sensitivity`; `run and gradient` is both together.
    """
    import dalembert as da
    from dalembert.engine import tape

    def best(call):
        times = []
        for _ in range(max(5, repeat)):
            begun = time.process_time()
            out = call()
            times.append(time.process_time() - begun)
        return min(times), out

    table = Table(
        title="gradients through 100 000 steps, h = 0.001, compiled (CPU time, in runs of `simulate` that save the end)"
    )
    columns = ("run, us / step", "stored", "in memory", "run", "gradient", "run and gradient", "Hessian product")
    for column in ("system and method", *columns):
        table.add_column(column, justify="left" if column == "system and method" else "right")
    cases = ((da.catalog.double_pendulum, "rattle"), (da.catalog.four_particles, "energy-momentum"))
    for make, method in (*cases, (da.catalog.double_pendulum, "lobatto-pair-4")):
        system, options = make(), {"step": 0.001, "compile": True, "progress": False}
        first = da.sensitivity(system, method, t_end=0.01, **options)
        first.hessian_product({"q": np.zeros(system.n)}, lambda q: q[0] ** 2)
        first.gradient(lambda q: q[0] ** 2)
        forward, _ = best(lambda: da.simulate(system, method, t_end=100.0, save_every=10**5, **options))  # noqa: B023
        kept = tape.KEPT
        for every, room in ((1, kept), (10**5, kept), (10**5, 0)):
            tape.KEPT = room
            run = lambda: da.sensitivity(system, method, t_end=100.0, save_every=every, **options)  # noqa: B023, E731
            recorded, found = best(run)
            gradient, _ = best(lambda: found.gradient(lambda q: q[0] ** 2))  # noqa: B023
            product, _ = best(lambda: found.hessian_product({"q": np.ones(system.n)}, lambda q: q[0] ** 2))  # noqa: B023
            table.add_row(
                f"{system.name}, {method}", f"{forward * 10:.3f}", str(len(found.solution.t) - 1), str(found.stats["rows"]),
                f"{recorded / forward:.2f}", f"{gradient / forward:.2f}", f"{(recorded + gradient) / forward:.2f}",
                f"{product / forward:.2f}",
            )  # fmt: skip
        tape.KEPT = kept
    console.print(table)


def larger_gradients(repeat: int) -> None:
    """Gradients through 4000 steps with larger matrices, compiled and in batches of the virtual machine (CPU time)."""
    import dalembert as da

    table = Table(title="gradients through 4000 steps with larger matrices, h = 0.001 (CPU time; set-up by the clock)")
    for column in ("system and method", "run, us / step", "set-up, s", "gradient, us / step", "in runs", "in batches, us / step"):
        table.add_column(column, justify="left" if column == "system and method" else "right")
    four, chain = da.catalog.four_particles, da.catalog.chain
    cases = ((four, "gauss-3"), (four, "lobatto-pair-4"), (four, "lobatto-pair-5"), (partial(chain, 8), "gauss-3"),
             (partial(chain, 8), "lobatto-pair-4"), (partial(chain, 16), "lobatto-pair-3"))  # fmt: skip
    for make, method in cases:
        system, options = make(), {"t_end": 4.0, "step": 0.001, "progress": False}

        def best(call, count):
            times = []
            for _ in range(count):
                begun = time.process_time()
                call()
                times.append((time.process_time() - begun) / 4000 * 1e6)
            return min(times)

        found = da.sensitivity(system, method, compile=True, **options)
        begun = time.perf_counter()
        found.gradient(lambda q: q @ q)
        setup = time.perf_counter() - begun
        batches = da.sensitivity(system, method, compile=False, **options)
        run = best(partial(da.simulate, system, method, compile=True, save_every=4000, **options), max(5, repeat))
        gradient = best(lambda: found.gradient(lambda q: q @ q), max(5, repeat))  # noqa: B023
        other = best(lambda: batches.gradient(lambda q: q @ q), 2)  # noqa: B023
        table.add_row(
            f"{system.name}, {method}", f"{run:.2f}", f"{setup:.1f}", f"{gradient:.2f}", f"{gradient / run:.1f}", f"{other:.0f}"
        )
    console.print(table)


def with_stages() -> None:
    """Three stages on both pendulums for 24 000 steps, end to end in a fresh process' state, beside Symank's table (2025)."""
    import dalembert as da

    table = Table(title="three stages, t = 240, h = 0.01, everything included (seconds; the source's in sec. 7.3.3)")
    for column in (
        "system",
        "method",
        "set-up",
        "compile",
        "run",
        "total",
        "source",
        "times faster",
        "energy error",
        "|g|",
        "|G v|",
    ):
        table.add_column(column, justify="left" if column in ("system", "method") else "right")
    source = {"simple pendulum": (60.0, 134.7, 155.5), "double pendulum": (103.6, 258.6, 300.1)}
    for make in (da.catalog.simple_pendulum, da.catalog.double_pendulum):
        for method, theirs in zip(("lobatto-pair-3", "murua-3", "murua-ggl-3"), source[make().name], strict=True):
            begun = time.perf_counter()
            system = make()
            sol = da.simulate(system, method, t_end=240.0, step=0.01)
            total = time.perf_counter() - begun
            stats = sol.stats
            table.add_row(
                system.name, method, f"{stats['setup_seconds']:.2f}", f"{stats['compile_seconds']:.2f}",
                f"{stats['seconds']:.3f}", f"{total:.2f}", f"{theirs:.1f}", f"{theirs / total:.0f}",
                f"{np.abs(sol.energy - sol.energy[0]).max():.0e}",
                f"{np.abs(sol.residual('position')).max():.0e}", f"{np.abs(sol.residual('velocity')).max():.0e}",
            )  # fmt: skip
    console.print(table)


def full(repeat: int) -> None:
    """Implicit stages of systems with more coordinates: full matrices, eliminated in loops of C."""
    import dalembert as da
    from dalembert.engine.case import prepare
    from dalembert.methods.base import find

    table = Table(title="full matrices, h = 0.001: set-up and compiler (s), CPU time per step (best of several, in turns)")
    for column in ("system", "method", "unknowns", "set-up", "compiled, us", "virtual machine, us", "ratio"):
        table.add_column(column, justify="left" if column in ("system", "method") else "right")
    four, falling, chain = da.catalog.four_particles(), da.catalog.falling_disk(), da.catalog.chain
    cases = (
        (falling, "srk-gauss-3"), (four, "gauss-3"), (four, "radau-iia-3"), (chain(8), "gauss-3"), (chain(16), "gauss-3"),
    )  # fmt: skip
    for system, method in cases:
        stats, best = da.simulate(system, method, t_end=0.001, step=0.001, compile="newton").stats, [np.inf, np.inf]
        for _ in range(repeat):
            for k, (way, steps) in enumerate((("newton", 5000), (False, 200))):
                best[k] = min(best[k], per_step(system, method, steps, way, h=0.001))
        table.add_row(
            system.name, method, str(prepare(system, find(method)).program.n_unknowns),
            f"{stats['setup_seconds'] + stats['compile_seconds']:.1f}", *(f"{t * 1e6:.1f}" for t in best),
            f"{best[1] / best[0]:.0f}",
        )  # fmt: skip
    console.print(table)


def accurate(repeat: int) -> None:
    """The double pendulum for 240 s with its energy within 1e-9 and its constraints within 1e-12: what that costs."""
    import dalembert as da

    table = Table(title="double pendulum, t = 240: energy within 1e-9 of the largest, constraints within 1e-12")
    for column in ("method", "step", "energy error", "constraints", "run, ms"):
        table.add_column(column, justify="left" if column == "method" else "right")
    cases = (("lobatto-pair-4", 0.01), ("lobatto-pair-5", 0.02), ("murua-ggl-3", 0.01), (da.compose("rattle", order=8), 0.02))
    for method, h in cases:
        system = da.catalog.double_pendulum()
        sol = da.simulate(system, method, t_end=240.0, step=h, compile=True, save_every=10)
        error = np.abs(sol.energy - sol.energy[0]).max() / np.abs(sol.kinetic).max()
        worst = max(np.abs(sol.residual(level)).max() for level in ("position", "velocity"))
        cost = min(per_step(system, method, round(240 / h), True, h=h) for _ in range(repeat)) * 240 / h
        table.add_row(str(method), f"{h:g}", f"{error:.1e}", f"{worst:.1e}", f"{cost * 1e3:.1f}")
    console.print(table)


def controlled(repeat: int) -> None:
    """What a controller costs: all steps that were tried, beside as many equal ones over the same time, by the same iteration.

    Step doubling tries three steps where it keeps two. No rows are kept: what is compared are steps.
    """
    import dalembert as da

    kepler = da.Mechanical(2, mass=1.0, potential=lambda q: -1 / np.sqrt(q @ q), name="Kepler's problem")
    start = {"q": [0.2, 0.0], "v": [0.0, 3.0]}
    own = da.control.Reversible(scale=lambda q: np.sqrt(q @ q) * np.sqrt(np.sqrt(q @ q)))
    table = Table(title="step control, compiled (CPU time of whole calls, best of several, taken in turns; Kepler's e = 0.8)")
    for column in ("system", "method", "control", "steps tried", "us / step tried", "equal steps", "ratio"):
        table.add_column(column, justify="left" if column in ("system", "method", "control") else "right")
    cases = [(kepler, "gauss-3", start, 8000 * np.pi, c) for c in ("error", "reversible")]
    cases += [(kepler, "rattle", start, 2000 * np.pi, "error")]
    cases += [(kepler, "rattle", start, 20_000 * np.pi, c) for c in ("reversible", own)]
    cases += [(kepler, "rk4", start, 4000 * np.pi, "error")]
    double, backoff = da.catalog.double_pendulum(), da.control.Backoff(largest=0.005)
    cases += [(double, method, {}, 1000.0, c) for method in ("rattle", "lobatto-pair-3") for c in ("error", backoff)]
    for system, method, begin, t_end, control in cases:
        options = {**begin, "t_end": t_end, "compile": "newton", "save_every": 10**9}
        stats = da.simulate(system, method, step=0.005, adaptive=control, **options).stats
        tried = stats["steps"] + stats["rejected"] if control != "error" else 1.5 * stats["steps"] + 3 * stats["rejected"]
        best = [np.inf, np.inf]
        for _ in range(max(5, repeat)):
            for k, (h, adaptive) in enumerate(((0.005, control), (t_end / tried, False))):
                begun = time.process_time()
                da.simulate(system, method, step=h, adaptive=adaptive, **options)
                best[k] = min(best[k], (time.process_time() - begun) / tried)
        name = control if isinstance(control, str) else {own: "reversible, scale given"}.get(control, "backoff")
        row = (f"{best[0] * 1e6:.3f}", f"{best[1] * 1e6:.3f}", f"{best[0] / best[1]:.2f}")
        table.add_row(system.name, method, name, f"{tried:.0f}", *row)
    console.print(table)


def watched(repeat: int) -> None:
    """What looking for events costs where none occurs."""
    import dalembert as da

    table = Table(title="events, double pendulum, rattle, t = 100, compiled, every 100th step saved")
    for column in ("control", "events", "us / step"):
        table.add_column(column, justify="right" if column == "us / step" else "left")
    for adaptive in (False, "error"):
        for events in ((), (lambda q: q[0] + 100.0,)):
            options = {"t_end": 100.0, "step": 0.001, "adaptive": adaptive, "save_every": 100, "compile": True}
            sols = [da.simulate(da.catalog.double_pendulum(), "rattle", **options, events=events) for _ in range(repeat)]
            best = min(sol.stats["seconds"] / sol.stats["steps"] for sol in sols)
            table.add_row(str(adaptive or "equal"), "one, far away" if events else "none", f"{best * 1e6:.2f}")
    console.print(table)


def chain(sizes: list[int], repeat: int) -> None:
    import dalembert as da

    table = Table(title="chain of n links, rattle, h = 0.001, virtual machine")
    for column in ("n", "set-up, s", "us / link and step", "ratio to the least"):
        table.add_column(column, justify="right")
    rows = []
    for n in sizes:
        begun = time.perf_counter()
        system = da.catalog.chain(n)
        da.simulate(system, "rattle", t_end=0.002, step=0.001, compile=False)
        setup = time.perf_counter() - begun
        steps = max(64, 30_000 // n)
        cost = min(per_step(system, "rattle", steps, False, h=0.001) for _ in range(repeat)) / n
        rows.append((n, setup, cost))
    least = min(cost for *_, cost in rows)
    for n, setup, cost in rows:
        table.add_row(str(n), f"{setup:.2f}", f"{cost * 1e6:.3f}", f"{cost / least:.2f}")
    console.print(table)


def import_time(repeat: int) -> None:
    code = "import time; t = time.perf_counter(); import dalembert; print(time.perf_counter() - t)"
    best = min(
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
        for _ in range(repeat)
    )
    console.print(f"import dalembert: {best:.2f} s\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer repetitions, no chain of more than 1000 links")
    quick = parser.parse_args().quick
    repeat = 3 if quick else 7
    with tempfile.TemporaryDirectory() as cache:
        os.environ["DALEMBERT_CACHE"] = cache  # so that compile times are those of a first run
        import_time(repeat)
        against_c(repeat)
        every_method(repeat)
        gradients(repeat)
        larger_gradients(repeat)
        with_stages()
        full(repeat)
        accurate(repeat)
        controlled(repeat)
        watched(repeat)
        chain([10, 100, 1000] if quick else [10, 100, 1000, 10_000], repeat)


if __name__ == "__main__":
    main()
