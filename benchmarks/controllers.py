"""What a controller in the loop costs: a PID at 100 Hz on the cart pendulum, against the same run with a constant input.

    python -m benchmarks.controllers

CPU seconds of whole calls, set-up included, the best of several; ratios of runs made in turns. Called: a Python function at
each sample. Traced: the same function, which is a formula, evaluated without Python, as it is by default.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import dalembert as da

EVERY = 0.01


def pid(y: Sequence[float], state: Sequence[float]) -> tuple[float, list[float]]:
    """Holds the pendulum upright: the angle, its sum, and its difference."""
    total = state[0] + EVERY * y[0]
    return 40 * y[0] + 20 * total + 6 * (y[0] - state[1]) / EVERY, [total, y[0]]


def best(run: Callable[[], da.Solution], other: Callable[[], da.Solution], times: int = 7) -> tuple[float, float]:
    """The CPU seconds of two runs, made in turns."""
    found = [float("inf"), float("inf")]
    for _ in range(times):
        for k, make in enumerate((run, other)):
            begun = time.process_time()
            make()
            found[k] = min(found[k], time.process_time() - begun)
    return found[0], found[1]


def main() -> None:
    """Print a line for each length of run, step and way."""
    system = da.catalog.cart_pendulum()
    for t_end, step, compile in ((5.0, 0.01, False), (5.0, 0.001, False), (60.0, 0.001, "newton"), (600.0, 0.001, "newton")):
        for traced in (False, None):
            law = da.Sampled(pid, every=EVERY, outputs=lambda q: q[1], state=[0.0, 0.1], traced=traced)
            options = {"t_end": t_end, "step": step, "compile": compile}
            plain, closed = best(
                lambda options=options: da.simulate(system, "energy-momentum", u=[0.0], **options),
                lambda options=options, law=law: da.simulate(system, "energy-momentum", u=law, **options),
            )
            way, kind = "compiled" if compile else "interpreted", "called" if traced is False else "traced"
            print(
                f"{t_end:g} s, h = {step:g}, {way}: open {1e3 * plain:.1f} ms, {kind} controller {1e3 * closed:.1f} ms, "
                f"{closed / plain:.2f} times",
                flush=True,
            )


if __name__ == "__main__":
    main()
