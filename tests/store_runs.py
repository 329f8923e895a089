"""Runs for stores, and what must be the same of two of them."""

import numpy as np

import dalembert as da

DOUBLE, DAMPED = da.catalog.double_pendulum(), da.catalog.four_particles_damped()
EVENTS = [da.Event(lambda q: q[1] + 0.5, name="level"), da.Event(lambda v: v[0], 1, name="turns")]


def kepler():
    start = {"q": [0.4, 0.0], "v": [0.0, 2.0]}
    return da.Mechanical(2, mass=1.0, potential=lambda q: -1 / np.sqrt(q @ q), initial=start)


RUNS = {
    "equal": (DOUBLE, "rattle", {"t_end": 3.003, "step": 0.01, "compile": False}),
    "compiled": (DOUBLE, "rattle", {"t_end": 30.0, "step": 0.01, "compile": True}),
    "every seventh": (DAMPED, "energy-momentum", {"t_end": 7.2, "step": 0.01, "save_every": 7, "compile": False}),
    "adaptive": (kepler(), "gauss-2", {"t_end": 4.0, "step": 0.01, "adaptive": True, "compile": False}),
    "adaptive in C": (kepler(), "gauss-2", {"t_end": 60.0, "step": 0.01, "adaptive": True, "save_every": 3, "compile": True}),
    "events": (DOUBLE, "rattle", {"t_end": 4.0, "step": 0.01, "save_every": 3, "events": EVENTS, "compile": False}),
    "inputs": (da.catalog.dc_motor(), "discrete-gradient", {"u": lambda t: [np.sin(t), 0.1], "t_end": 2.0, "step": 0.01}),
}
SHORT = [name for name in RUNS if name not in ("compiled", "adaptive in C")]


def facts(sol):
    """What must be the same to the last bit."""
    found = {"t": sol.t, "t_lam": sol.t_lam, "lam": sol.lam, "u": sol.u, "work": sol._work, **sol.parts}
    found |= {f"{name} {k}": a for name, hits in sol.events.items() for k, a in {"t": hits.t, **hits.values}.items()}
    return found | {name: np.array(sol.stats[name]) for name in ("steps", "iterations", "pivoted_steps", "save_every")}


def same(one, other):
    one, other = facts(one), facts(other)
    assert one.keys() == other.keys()
    for name in one:
        np.testing.assert_array_equal(one[name], other[name], err_msg=name)


def begins(part, whole, loose=1):
    """Rows that count are those of the whole run; the last may be a step between two rows."""
    rows = len(part.t) - loose
    for name in part.parts:
        np.testing.assert_array_equal(part.parts[name][:rows], whole.parts[name][:rows], err_msg=name)
