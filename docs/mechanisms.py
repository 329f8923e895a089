"""Draw the mechanisms of the catalog as they start: `python docs/mechanisms.py` writes images/mechanisms.png."""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from dalembert.catalog import mechanisms
from dalembert.plotting import style
from dalembert.plotting.moving import instant
from dalembert.plotting.solid import extent

HERE = Path(__file__).parent


def main() -> None:
    with style():
        figure = plt.figure(figsize=(12, 9.6), layout="constrained")
        for k, maker in enumerate(mechanisms.MAKERS, 1):
            system = maker().assemble(redundant="remove")
            flat = system.numeric("points", system.pack(), q=system.initial["q"])[0]
            points = np.asarray(flat).reshape(-1, system.space, order="F" if flat.ndim == 1 else "C")
            ax = figure.add_subplot(4, 5, k, projection="3d" if system.space == 3 else None)
            instant(ax, points, system.picture, 1.0)
            every = extent(points[None], system.picture)
            middle, half = (every.min(axis=0) + every.max(axis=0)) / 2, 0.52 * np.ptp(every, axis=0).max()
            for which, m in zip("xyz", middle, strict=False):
                getattr(ax, f"set_{which}lim")(m - half, m + half)
            ax.set_aspect("equal")
            ax.set_axis_off()
            ax.set_title(maker.__name__.replace("_", " "), fontsize=10, loc="center")
        figure.savefig(HERE / "images" / "mechanisms.png", dpi=110)


if __name__ == "__main__":
    main()
