"""Draw the figures of tutorials and how-to pages from their own code: `python docs/pictures.py` writes images/*.png."""

import re
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt

from dalembert import plotting

HERE = Path(__file__).parent
IMAGES = HERE / "images"


def values(page: str) -> dict:
    """The names that the code of a page leaves behind, run in a place of its own."""
    import os
    import tempfile

    code = re.findall(r"```python\n(.*?)```", (HERE / f"{page}.md").read_text(encoding="utf-8"), flags=re.S)
    names: dict = {}
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        exec(compile("\n".join(code), page, "exec"), names)
        os.chdir(HERE)
    return names


def linkage() -> None:
    values("tutorial_engineer")["sol"].plot(IMAGES / "linkage.png", dpi=100)


def drift() -> None:
    names = values("tutorial_student")
    with plotting.style():
        figure, ax = plt.subplots(figsize=(7, 3.2))
        for sol in (names["drifting"], names["kept"]):
            plotting.constraints(sol, ax)
        figure.savefig(IMAGES / "rod.png", dpi=100)


def controlled() -> None:
    held = values("tutorial_control")["held"]
    with plotting.style():
        figure, (above, below) = plt.subplots(2, 1, sharex=True, figsize=(7, 4), height_ratios=(1.4, 1))
        for k, name in enumerate(held.system.coordinates):
            above.plot(held.t, held.q[:, k], label=name)
        below.step(held.t, held["u_force"], where="post", color=plotting.COLOURS[2])
        plotting.finish(above, "", "cart (m), angle (rad)", "upright, with a regulator at 100 Hz")
        above.legend()
        plotting.finish(below, "time (s)", "force (N)", "")
        figure.savefig(IMAGES / "regulated.png", dpi=100)


def bounces() -> None:
    names = values("how_to_events")
    with plotting.style():
        figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3))
        ball, slides = names["bounce"], names["slides"]
        left.plot(ball.t, ball.q[:, 0], label="height")
        left.plot(ball.t, ball.energy / ball.energy[0], label="energy, of its first value")
        right.plot(slides.t, slides.q[:, 0], label="slider")
        for arc in slides.arcs:
            if arc.system.m:
                right.axvspan(arc.t[0], arc.t[-1], color="0.9")
        plotting.finish(left, "time (s)", "", "a ball with a restitution of 0.8")
        plotting.finish(right, "time (s)", "", "a slider between two stops, held where it is grey")
        left.legend()
        figure.savefig(IMAGES / "bounces.png", dpi=100)


if __name__ == "__main__":
    for draw in (linkage, drift, controlled, bounces):
        draw()
