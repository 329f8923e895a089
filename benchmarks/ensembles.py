"""Ensembles: what a member costs, in lanes, on several cores and on a cluster, beside a loop of `simulate`.

    python benchmarks/ensembles.py [--members 10000]

Ten thousand double pendulums of 1000 steps with `rattle`. Times of one core are CPU times, the best of five; those of several
cores and of the cluster are wall times on a machine that should be idle.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np

import dalembert as da

SYSTEM = da.catalog.double_pendulum()
STEPS = 1000
RUN = {"t_end": 10.0, "step": 0.01}
METHODS = ("rattle", "lobatto-pair-3", "energy-momentum")


def best(run: Callable[[], object], clock: Callable[[], float], repeats: int = 5) -> float:
    """The shortest of several times, in seconds."""
    times = []
    for _ in range(repeats):
        begun = clock()
        run()
        times.append(clock() - begun)
    return min(times)


def lanes(members: int) -> None:
    """One core: a loop of `simulate` beside `ensemble`."""
    masses = np.linspace(1.0, 2.0, members)
    print("| method | loop of simulate, us a run | of that, steps | ensemble on one core, us a run | ratio | lane gain |")
    print("|---|---:|---:|---:|---:|---:|")
    for method in METHODS:

        def one(method: str = method) -> da.Solution:
            return da.simulate(SYSTEM, method, save_every=STEPS, compile="newton", **RUN)

        def many(method: str = method) -> object:
            return da.ensemble(SYSTEM, method, samples={"m1": masses}, reduce="final", cores=1, compile=True, **RUN)

        one(), many()
        loop = best(lambda one=one: [one() for _ in range(50)], time.process_time) / 50
        steps = min(one().stats["seconds"] for _ in range(50))
        own = best(many, time.process_time) / members
        print(f"| `{method}` | {loop * 1e6:.0f} | {steps * 1e6:.0f} | {own * 1e6:.1f} | {loop / own:.0f} | {steps / own:.1f} |")


def cores(members: int) -> None:
    """One core and several, by the clock on the wall."""
    masses = np.linspace(1.0, 2.0, members)
    times = {}
    for count in (1, 2):
        times[count] = best(
            lambda count=count: da.ensemble(
                SYSTEM, "rattle", samples={"m1": masses}, reduce="final", cores=count, compile=True, **RUN
            ),
            time.perf_counter,
        )
    print(f"\nrattle, {members} members: one core {times[1]:.3f} s, two cores {times[2]:.3f} s: {times[1] / times[2]:.2f} times")


def cluster(members: int) -> None:
    """What the cluster adds: the same members by `sweep`, on two processes."""
    from distributed import Client, LocalCluster

    masses = np.linspace(1.0, 2.0, members)
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None) as local,
        Client(local) as client,
    ):

        def run() -> object:
            return da.sweep(SYSTEM, "rattle", samples={"m1": masses}, reduce="final", client=client, compile=True, **RUN)

        run()
        taken = best(run, time.perf_counter, 3)
    print(f"sweep on two processes: {taken:.3f} s, {taken / members * 1e6:.1f} us a member")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--members", type=int, default=10_000)
    given = parser.parse_args()
    lanes(given.members)
    cores(given.members)
    cluster(given.members)
