"""Experiments of the literature, reproduced: `da.experiments.run("mbs-4")` prints our numbers beside the source's."""

from dalembert.experiments import (
    daes,
    energy_momentum,
    index_two,
    multibody,
    murua,
    nonholonomic,
    oscillator,
    pendulums,
    ports,
    solvers,
    spark,
    transformations,
)
from dalembert.experiments.base import REGISTER, Experiment, Panel, Result, Row, find, list_experiments

__all__ = [
    "REGISTER",
    "Experiment",
    "Panel",
    "Result",
    "Row",
    "daes",
    "energy_momentum",
    "find",
    "index_two",
    "list_experiments",
    "multibody",
    "murua",
    "nonholonomic",
    "oscillator",
    "pendulums",
    "ports",
    "run",
    "solvers",
    "spark",
    "transformations",
]


def run(id: str, quick: bool = False) -> Result:
    """Run one experiment, in full or shortened."""
    return find(id).run(quick)
