"""Set-up, time per step and memory of large systems, beside SciPy: `python benchmarks/scale.py`.

Chains of rods in the plane, made of elements and in plain NumPy, and nets of rods in space by RATTLE; nets of springs by the
energy-momentum method. The reference is RATTLE for rods written by hand with SciPy's sparse LU. Each row is measured in a
process of its own, in seconds of the processor, the two programs one after the other; small systems make as many steps as take
LEAST seconds. `--quick` leaves the largest out.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import time
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sparse
from rich.console import Console
from rich.table import Table
from scipy.sparse.linalg import splu

if TYPE_CHECKING:
    import dalembert as da

H, STEPS, LEAST = 0.001, 64, 0.05
SIZES = {
    "chain": (50, 100, 300, 1000, 3000, 10_000, 15_000), "plain chain": (300, 1000, 3000, 10_000),
    "net": (6, 10, 20, 50, 100), "springs": (6, 10, 20, 50, 100),
}  # fmt: skip
console = Console(width=130)


class Rods:
    """Unit masses joined by rods, written by hand: `g = (|x_a - x_b|^2 - l^2) / 2`; b = -1 is the origin."""

    def __init__(self, kind: str, size: int) -> None:
        if kind.endswith("chain"):
            self.q = np.stack([np.arange(1.0, size + 1), np.zeros(size)], axis=1)
            self.a, self.b, self.pull, self.held = np.arange(size), np.arange(-1, size - 1), np.array([0, -9.81]), []
        else:
            number = np.arange(size * size).reshape(size, size)
            self.a = np.concatenate([number[:, :-1].ravel(), number[:-1].ravel()])
            self.b = np.concatenate([number[:, 1:].ravel(), number[1:].ravel()])
            y, x = np.divmod(np.arange(size * size), size)
            self.q = np.stack([x, y, 0.3 * np.sin(0.7 * x) * np.cos(0.5 * y)], axis=1)
            self.pull, self.held = np.array([0, 0, -9.81]), [0, size - 1]
        self.start, (n, d), m = self.q.copy(), self.q.shape, len(self.a)
        self.free = self.b >= 0
        ends = np.stack([self.a, np.where(self.free, self.b, 0)], axis=1)
        self.rows = np.repeat(np.arange(m), 2 * d)
        self.columns = (ends[:, :, None] * d + np.arange(d)).reshape(m, -1).ravel()
        self.there = np.repeat(np.stack([np.ones(m, bool), self.free], axis=1), d, axis=1).ravel()
        self.shape = m, n * d
        self.squares = np.square(self.apart(self.q)).sum(axis=1)

    def apart(self, q: np.ndarray) -> np.ndarray:
        return q[self.a] - np.where(self.free[:, None], q[np.where(self.free, self.b, 0)], 0)

    def slope(self, d: np.ndarray) -> sparse.csr_matrix:
        values = np.hstack([d, -d]).ravel()[self.there]
        return sparse.csr_matrix((values, (self.rows[self.there], self.columns[self.there])), shape=self.shape)

    def force(self, q: np.ndarray) -> np.ndarray:
        out = np.tile(self.pull, (len(q), 1))
        out[self.held] -= 1000.0 * (q[self.held] - self.start[self.held])
        return out

    def rattle(self, steps: int, h: float) -> tuple[np.ndarray, np.ndarray]:
        q, v, lam = self.q.copy(), np.zeros_like(self.q), np.zeros(len(self.a))
        G, f = self.slope(self.apart(q)), self.force(q)
        for _ in range(steps):
            ahead = q + h * (v + h / 2 * f)
            for _ in range(30):
                x = ahead - h * h / 2 * (G.T @ lam).reshape(q.shape)
                d = self.apart(x)
                g = (np.square(d).sum(axis=1) - self.squares) / 2
                if np.abs(g).max() < 1e-14 * max(1.0, np.abs(x).max()):
                    break
                lam += splu((self.slope(d) @ G.T).tocsc()).solve(g) * 2 / h**2
            v, q = (x - q) / h, x
            f, G = self.force(q), self.slope(self.apart(q))
            v = v + h / 2 * f
            v = v - (G.T @ splu((G @ G.T).tocsc()).solve(G @ v.ravel())).reshape(q.shape)
        return q, v


def reference(kind: str, size: int, steps: int) -> float:
    """Seconds a step of SciPy."""
    rods = Rods(kind, size)
    begun = time.process_time()
    rods.rattle(steps, H)
    return (time.process_time() - begun) / steps


def plain_chain(links: int) -> da.Mechanical:
    """The chain of the catalog in plain NumPy, without elements."""
    import dalembert as da

    def rods(q: np.ndarray, l: float) -> np.ndarray:
        x = q.reshape(-1, 2)
        return (np.sum(np.diff(np.vstack([np.zeros((1, 2)), x]), axis=0) ** 2, axis=1) - l**2) / 2

    start = np.stack([np.arange(1.0, links + 1), np.zeros(links)], axis=1).ravel()
    return da.Mechanical(
        2 * links, mass="m", potential=lambda q, m, g: m * g * np.sum(q[1::2]), holonomic=rods, dimension=2,
        parameters={"m": 1.0, "g": 9.81, "l": 1.0}, initial={"q": start, "v": np.zeros(2 * links)},
    )  # fmt: skip


def ours(kind: str, size: int, steps: int) -> dict[str, float | str]:
    """Set-up, seconds a step, the engine, errors and the peak of memory."""
    import dalembert as da

    da.simulate(da.catalog.net(6, 6), "rattle", t_end=H, step=H, compile=False)  # what is imported counts for nobody
    begun = time.process_time()
    makers = {"chain": da.catalog.chain, "plain chain": plain_chain, "net": da.catalog.net, "springs": da.catalog.spring_net}
    system = makers[kind](size) if kind.endswith("chain") else makers[kind](size, size)
    method = "energy-momentum" if kind == "springs" else "rattle"
    da.simulate(system, method, t_end=H, step=H)
    setup = time.process_time() - begun

    def run(steps: int) -> tuple[float, da.Solution]:
        begun = time.process_time()
        sol = da.simulate(system, method, t_end=steps * H, step=H, save_every=steps, compile=True)
        return time.process_time() - begun, sol

    run(1)  # it compiles, in a process of the compiler
    again, best = min(run(1)[0] for _ in range(3)), run(steps + 1)
    while best[0] - again < LEAST:
        steps *= 4
        best = run(steps + 1)
    whole, sol = min((best, *(run(steps + 1) for _ in range(2))), key=lambda row: row[0])
    step = (whole - again) / steps
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024  # of the runs, without what is asked of them below
    gross = float(np.abs(sol.system.numeric("slope", sol.system.pack(), q=sol.q[-1])[0] @ np.abs(sol.q[-1])))
    error = np.ptp(sol.energy) / gross if kind == "springs" else np.abs(sol.residual("position")).max()
    return {
        "n": system.n,
        "m": system.m,
        "setup": setup,
        "step": step,
        "error": float(error),
        "peak": peak,
        "engine": sol.stats["engine"],
    }


def measure(kind: str, size: int) -> dict[str, float | str]:
    steps = max(4, min(STEPS, 200_000 // (size * (1 if kind.endswith("chain") else size))))
    row = ours(kind, size, STEPS)
    row["scipy"] = np.nan if kind == "springs" else reference(kind, size, steps if size < 100 or kind.endswith("chain") else 2)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="without the largest systems")
    quick = parser.parse_args().quick
    table = Table(
        "system", "coordinates", "constraints", "engine", "set-up s", "ms a step", "SciPy ms", "ratio", "error", "peak MB"
    )
    for kind, sizes in SIZES.items():
        found = []
        for size in sizes[: -2 if quick else None]:
            with multiprocessing.get_context("spawn").Pool(1) as pool:  # its peak of memory is its own
                row = pool.apply(measure, (kind, size))
            found.append((row["n"], row["step"], row["setup"]))
            table.add_row(
                f"{kind} {size}", f"{row['n']}", f"{row['m']}", str(row["engine"]), f"{row['setup']:.2f}",
                f"{row['step'] * 1e3:.3f}", f"{row['scipy'] * 1e3:.2f}", f"{row['scipy'] / row['step']:.1f}",
                f"{row['error']:.1e}", f"{row['peak']:.0f}",
            )  # fmt: skip
        n, step, setup = np.log(np.array(found, dtype=float)).T
        grown = [np.polyfit(n, y, 1)[0] for y in (step, setup)]
        table.add_row(f"{kind}: exponents", "", "", "", f"{grown[1]:.2f}", f"{grown[0]:.2f}", "", "", "", "", end_section=True)
    console.print(table)


if __name__ == "__main__":
    main()
