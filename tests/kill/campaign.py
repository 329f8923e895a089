"""Kill runs, interrupt them, and go on: what comes out must be the run that was never disturbed, bit by bit.

    python tests/kill/campaign.py --kills 50 --interrupts 20 --seed 0
    python tests/kill/campaign.py --kills 100 --into store

One process without threads forks a child for each part of a run. A child is ended by SIGKILL or SIGINT at a random moment, the
next one goes on from its file. Only the moments are random: what is compared does not depend on the clock.
"""

import argparse
import faulthandler
import json
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path
from types import SimpleNamespace

import numpy as np

import dalembert as da
from dalembert import keeper
from dalembert.solution import shelf

ENDED, REFUSED, STOPPED, BEFORE, WRONG = 0, 10, 11, 12, 13  # how a child ends, where it is not killed
PATIENCE = 60  # seconds after which a child is given up
TRIES = 40  # children for each one that is to be disturbed: some end before


def kepler():
    return da.Mechanical(2, mass=1.0, potential=lambda q: -1 / np.sqrt(q @ q), initial={"q": [0.4, 0.0], "v": [0.0, 2.0]})


def driven():
    return da.Mechanical(
        2, mass=1.0, potential=lambda q: 9.81 * q[1], holonomic=lambda q: q @ q - 1, dissipation=0.1,
        inputs=lambda q: [[-q[1]], [q[0]]], initial={"q": [1.0, 0.0], "v": [0.0, 0.0]},
    )  # fmt: skip


def index_one():
    return da.IndexOneDAE(
        2, f=lambda y, z: [y[1], -z[0]], g=lambda y, z: [z[0] - np.sin(y[0])], algebraic=1, initial={"y": [1.0, 0.0]}
    )


def kinds():
    """Every kind of run: system, method, options; about a tenth of a second each."""
    sine = {"u": lambda t: [np.sin(t)]}
    events = [da.Event(lambda q: q[1] + 0.5, name="level"), da.Event(lambda v: v[0], 1, name="turns")]
    double, damped = da.catalog.double_pendulum(), da.catalog.four_particles_damped()
    return {
        "compiled": (double, "rattle", {"t_end": 300.0, "step": 1e-3, "save_every": 1000, "compile": True}),
        "interpreted": (damped, "energy-momentum", {"t_end": 30.0, "step": 0.01, "save_every": 7, "compile": False}),
        "tail": (damped, "energy-momentum", {"t_end": 400.004, "step": 0.01, "save_every": 50_000, "compile": True}),
        "tail, interpreted": (damped, "energy-momentum", {"t_end": 30.004, "step": 0.01, "save_every": 2999, "compile": False}),
        "error": (kepler(), "gauss-2", {"t_end": 60.0, "step": 0.01, "adaptive": True}),
        "backoff": (double, "lobatto-pair-3", {"t_end": 10.0, "step": 0.01, "adaptive": da.control.Backoff(largest=0.015)}),
        "reversible": (kepler(), "rattle", {"t_end": 80.0, "step": 0.02, "adaptive": "reversible", "save_every": 3}),
        "port": (da.catalog.dc_motor(), "discrete-gradient", {"u": lambda t: [np.sin(t), 0.1], "t_end": 60.0, "step": 0.01}),
        "index one": (index_one(), "radau-iia-3", {"t_end": 120.0, "step": 0.02}),
        "nonholonomic": (da.catalog.rolling_disk(), "cortes-martinez", {"t_end": 90.0, "step": 0.01, "save_every": 2}),
        "driven": (driven(), "lobatto-pair-3", {**sine, "t_end": 60.0, "step": 0.01, "compile": False}),
        "events": (double, "rattle", {"t_end": 40.0, "step": 0.01, "save_every": 9, "events": events, "compile": False}),
    }


def facts(sol):
    """What must be the same to the last bit."""
    found = {"t": sol.t, "t_lam": sol.t_lam, "lam": sol.lam, "supplied": sol.supplied, "dissipated": sol.dissipated, **sol.parts}
    found |= {f"{name} {k}": a for name, hits in sol.events.items() for k, a in {"t": hits.t, **hits.values}.items()}
    return found | {name: np.array(sol.stats[name]) for name in ("steps", "iterations", "pivoted_steps")}


def same(one, other):
    return one.keys() == other.keys() and all(np.array_equal(one[name], other[name], equal_nan=True) for name in one)


def begins(part, whole):
    """A solution that was interrupted holds what the whole run begins with; its last row may be a step between two rows."""
    rows = len(part.t) - 1
    return all(np.array_equal(part.parts[name][:rows], whole[name][:rows]) for name in part.parts)


def told(run, path, reference):
    """How a part of a run ends, as an exit code."""
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        return ENDED if same(facts(run(path)), reference) else WRONG
    except da.Interrupted as stopped:
        # interrupted when all is written and rows are read again, it has none: who goes on reads them
        return STOPPED if stopped.solution is None or begins(stopped.solution, reference) else WRONG
    except KeyboardInterrupt:
        return BEFORE
    except da.DalembertError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return REFUSED


def child(run, path, reference):
    """A part of a run in a process of its own; its exit code says how it ended. Ctrl-C waits until it can tell."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    pid = os.fork()
    if pid:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        return pid
    code = WRONG
    try:
        faulthandler.dump_traceback_later(PATIENCE, exit=True)  # a run that waits for ever is wrong too
        code = told(run, path, reference)
    except KeyboardInterrupt:
        code = BEFORE
    except Exception:
        traceback.print_exc()
    finally:
        os._exit(code)


def disturb(run, path, reference, how, delay):
    """Send a signal to a child after a delay, and tell how the child ended."""
    pid = child(run, path, reference)
    time.sleep(delay)
    os.kill(pid, how)
    status = os.waitpid(pid, 0)[1]
    return "killed" if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def remove(path):
    """Take away a file or a store."""
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)


def prepared(into):
    """Runs by kind: a function of the file or store, what it must give, and about how long it takes."""
    out = {}
    for name, (system, method, options) in kinds().items():

        def run(path, system=system, method=method, options=options):
            return da.simulate(system, method, progress=False, **{into: path}, **options)

        reference = da.simulate(system, method, progress=False, **options)
        out[name] = run, facts(reference), max(0.1, reference.stats["seconds"])
    return out


def campaign(count, how, rng, directory, todo, suffix=".nc"):
    """Disturb runs of all kinds, each several times in a row, and finish each; what went wrong, and how many were disturbed."""
    wrong, disturbed = [], 0
    for number, (name, (run, reference, length)) in enumerate(todo.items()):
        share = (count * (number + 1)) // len(todo) - (count * number) // len(todo)
        path, met = directory / f"{name}-{how}{suffix}", 0
        for _ in range(TRIES * share):
            if met == share:
                break
            code = disturb(run, path, reference, how, float(rng.uniform(0.0, length)))
            met += code in ("killed", STOPPED, BEFORE)
            if code not in ("killed", ENDED, STOPPED, BEFORE):
                wrong.append(f"{name}: a child ended with {code}")
            if code not in ("killed", STOPPED, BEFORE):
                remove(path)
        if not same(facts(run(path)), reference):
            wrong.append(f"{name}: what came out is not the same")
        remove(path)
        disturbed += met
    if left := sorted(str(p) for p in directory.iterdir() if ".part" not in p.name and ".lock" not in p.name):
        wrong.append(f"left behind: {left}")
    return wrong, disturbed


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--interrupts", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--into", choices=("checkpoint", "store"), default="checkpoint")
    wish = parser.parse_args()
    keeper.EVERY, shelf.CHUNK = 0.025, 1 << 14
    keeper.time = SimpleNamespace(perf_counter=time.process_time)  # on a busy machine runs would do little but write
    rng, result, todo = np.random.default_rng(wish.seed), {"wrong": []}, prepared(wish.into)
    suffix = {"checkpoint": ".nc", "store": ".zarr"}[wish.into]
    with tempfile.TemporaryDirectory() as directory:
        for name, count, how in (("kills", wish.kills, signal.SIGKILL), ("interrupts", wish.interrupts, signal.SIGINT)):
            wrong, result[name] = campaign(count, how, rng, Path(directory), todo, suffix)
            result["wrong"] += wrong
    result["seconds of processors"] = round(sum(os.times()[:4]), 1)
    print(json.dumps(result))
    return 1 if result["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
