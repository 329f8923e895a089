"""Reference states: extrapolation in long double, its own code and no peer's; kept in `reference.json`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from peers.equations import Array, Ode, replay
from peers.problems import PROBLEMS, Problem

FILE = Path(__file__).parent / "reference.json"
COLUMNS = 8  # of the extrapolation: order 16
NAMES = {"sin": np.sin, "cos": np.cos, "sqrt": np.sqrt}


def extrapolate(form: Ode, y: Array, t_end: float, h: float) -> Array:
    """Gragg's midpoint rule extrapolated in `h^2` (Hairer, Norsett, Wanner, sec. II.9), equal steps, in long double."""
    y = y.astype(np.longdouble)

    def f(y: Array) -> Array:
        return np.array(replay(form.rhs, [y], NAMES), dtype=np.longdouble)

    for _ in range(round(t_end / h)):
        rows: list[Array] = []
        for k in range(COLUMNS):
            n = 2 * (k + 1)
            d = np.longdouble(h) / n
            before, now = np.zeros_like(y), d * f(y)  # increments: extrapolation magnifies the rounding of what it is given
            for _ in range(n - 1):
                before, now = now, before + 2 * d * f(y + now)
            new = [(before + now + d * f(y + now)) / 2]
            for j in range(1, k + 1):
                ratio = np.longdouble(k + 1) ** 2 / np.longdouble(k + 1 - j) ** 2
                new.append(new[-1] + (new[-1] - rows[j - 1]) / (ratio - 1))
            rows = new
        y = y + rows[-1]
    return y


def compute(problem: Problem, steps: int = 8, form: str | None = None) -> Array:
    """States at the checked times, by so many steps of extrapolation between two of them."""
    ode = problem.forms[form or next(iter(problem.forms))]
    y, out, dt = ode.start, [], problem.t_end / problem.rows
    for _ in range(problem.checked):
        y = extrapolate(ode, y, dt, dt / steps)
        out.append(y)
    return ode.rows(np.array(out, dtype=float))


def load(problem: Problem) -> Array:
    """The kept states, one row for each checked time."""
    return np.array(json.loads(FILE.read_text(encoding="utf-8"))[problem.name]["states"])


def write(names: Sequence[str] = tuple(PROBLEMS)) -> None:
    """Compute references twice, with different steps and where there are two in different forms; keep the difference."""
    out = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
    for name in names:
        problem = PROBLEMS[name]
        steps = {"stiff": 96, "four": 64}.get(name, 16)
        fine, coarse = compute(problem, 2 * steps), compute(problem, steps, list(problem.forms)[-1])
        difference = float(np.abs(fine - coarse).max())
        out[name] = {"difference": difference, "states": fine.tolist()}
        print(f"{problem.title}: two computations differ by {difference:.1e}", flush=True)
        FILE.write_text(json.dumps(out) + "\n", encoding="utf-8")
