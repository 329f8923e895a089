"""Figures with matplotlib. Functions take `ax` and return it; none calls `plt.show()`.

Without `ax` a figure is made in the style sheet `dalembert.style`; `plt.style.use("dalembert.style")` sets it for other figures.
Labels are written for matplotlib's mathematics and for LaTeX (`text.usetex`).
"""

from dalembert.plotting.canvas import COLOURS, crowded, envelope, figure_path, finish, magnitude, save, style
from dalembert.plotting.fits import residuals
from dalembert.plotting.groups import coordinate_groups
from dalembert.plotting.labels import symbol, text
from dalembert.plotting.manoeuvres import manoeuvre
from dalembert.plotting.moving import coordinates, frames, motion
from dalembert.plotting.responses import bode, shape
from dalembert.plotting.runs import (
    LEVELS,
    constraints,
    energy,
    energy_error,
    inputs,
    ledger,
    multipliers,
    overview,
    phase,
    steps,
)
from dalembert.plotting.several import comparison, convergence, section, work_precision
from dalembert.plotting.variables import variables

__all__ = [
    "COLOURS",
    "LEVELS",
    "bode",
    "comparison",
    "constraints",
    "convergence",
    "coordinate_groups",
    "coordinates",
    "crowded",
    "energy",
    "energy_error",
    "envelope",
    "figure_path",
    "finish",
    "frames",
    "inputs",
    "ledger",
    "magnitude",
    "manoeuvre",
    "motion",
    "multipliers",
    "overview",
    "phase",
    "residuals",
    "save",
    "section",
    "shape",
    "steps",
    "style",
    "symbol",
    "text",
    "variables",
    "work_precision",
]
