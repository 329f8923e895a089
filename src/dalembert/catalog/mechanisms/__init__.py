"""Mechanisms of bodies and joints: each function returns a `da.Mechanism`, to be changed and assembled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dalembert.catalog.mechanisms.contacts import cam_follower, rolling_wheel, turntable
from dalembert.catalog.mechanisms.linkages import bricard, four_bar, parallelogram, peaucellier, slider_crank, watt
from dalembert.catalog.mechanisms.machines import chain_in_space, double_wishbone, governor, six_axis_arm, stewart_platform
from dalembert.catalog.mechanisms.rolling import bicycle, euler_disc, rattleback
from dalembert.catalog.mechanisms.tops import gyroscope, heavy_top, sleeping_top
from dalembert.checking import declared
from dalembert.errors import ModelError
from dalembert.mechanisms import Mechanism
from dalembert.tables import Table

MAKERS: tuple[Callable[..., Mechanism], ...] = (
    four_bar, slider_crank, watt, peaucellier, parallelogram, bricard, cam_follower, governor, stewart_platform, double_wishbone,
    six_axis_arm, chain_in_space, heavy_top, sleeping_top, gyroscope, turntable, rolling_wheel, euler_disc, rattleback, bicycle,
)  # fmt: skip

__all__ = [
    "bicycle",
    "bricard",
    "cam_follower",
    "chain_in_space",
    "double_wishbone",
    "euler_disc",
    "four_bar",
    "governor",
    "gyroscope",
    "heavy_top",
    "list_mechanisms",
    "parallelogram",
    "peaucellier",
    "rattleback",
    "rolling_wheel",
    "six_axis_arm",
    "sleeping_top",
    "slider_crank",
    "stewart_platform",
    "turntable",
    "watt",
]


@dataclass(frozen=True)
class MechanismInfo:
    """One row of `list_mechanisms()`."""

    name: str
    bodies: int
    joints: int
    summary: str
    make: Callable[..., Mechanism]


@declared(ModelError)
def list_mechanisms() -> Table[MechanismInfo]:
    """All mechanisms of the catalog."""
    rows = []
    for maker in MAKERS:
        m, summary = maker(), (maker.__doc__ or "").strip().splitlines()[0]
        rows.append(MechanismInfo(maker.__name__.replace("_", "-"), len(m.bodies), len(m.joints), summary, maker))
    return Table(rows, columns=("name", "bodies", "joints", "summary"))
