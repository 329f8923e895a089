"""Example systems with default initial values and pictures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from dalembert.catalog.circuits import circuit, rlc_ladder
from dalembert.catalog.machines import dc_motor, synchronous_machine
from dalembert.catalog.nets import net, spring_net
from dalembert.catalog.nonholonomic import (
    ball_on_turntable,
    ball_on_turntable_solution,
    cart_with_pendulum,
    chaplygin_sleigh,
    contact_oscillator,
    contact_start,
    falling_disk,
    knife_edge,
    knife_edge_solution,
    nonholonomic_particle,
    perlmutter_particles,
    rolling_disk,
    rolling_disk_solution,
    snakeboard,
)
from dalembert.catalog.particles import four_particles, four_particles_damped
from dalembert.catalog.pendulums import (
    cart_pendulum,
    chain,
    double_pendulum,
    harmonic_oscillator,
    simple_pendulum,
    spherical_pendulum,
)
from dalembert.catalog.ports import (
    linear_port_example,
    mass_spring_damper,
    singular_mass_springs,
    three_carts,
    windy_pendulum,
)
from dalembert.catalog.structures import beam, cloth, truss
from dalembert.checking import declared
from dalembert.errors import ModelError, suggest
from dalembert.systems import System
from dalembert.tables import Table

if TYPE_CHECKING:
    from dalembert.catalog import mechanisms as mechanisms
    from dalembert.mechanisms import Mechanism

_MAKERS: tuple[Callable[..., System], ...] = (
    harmonic_oscillator,
    simple_pendulum,
    double_pendulum,
    chain,
    cart_pendulum,
    net,
    spring_net,
    truss,
    cloth,
    beam,
    spherical_pendulum,
    four_particles,
    four_particles_damped,
    falling_disk,
    rolling_disk,
    chaplygin_sleigh,
    contact_oscillator,
    nonholonomic_particle,
    perlmutter_particles,
    knife_edge,
    ball_on_turntable,
    snakeboard,
    cart_with_pendulum,
    dc_motor,
    linear_port_example,
    mass_spring_damper,
    rlc_ladder,
    singular_mass_springs,
    synchronous_machine,
    three_carts,
    windy_pendulum,
)

__all__ = [
    "ball_on_turntable",
    "ball_on_turntable_solution",
    "beam",
    "cart_pendulum",
    "cart_with_pendulum",
    "chain",
    "chaplygin_sleigh",
    "circuit",
    "cloth",
    "contact_oscillator",
    "contact_start",
    "dc_motor",
    "double_pendulum",
    "falling_disk",
    "four_particles",
    "four_particles_damped",
    "harmonic_oscillator",
    "knife_edge",
    "knife_edge_solution",
    "linear_port_example",
    "list_systems",
    "make",
    "mass_spring_damper",
    "mechanisms",
    "net",
    "nonholonomic_particle",
    "perlmutter_particles",
    "rlc_ladder",
    "rolling_disk",
    "rolling_disk_solution",
    "simple_pendulum",
    "singular_mass_springs",
    "snakeboard",
    "spherical_pendulum",
    "spring_net",
    "synchronous_machine",
    "three_carts",
    "truss",
    "windy_pendulum",
]


def __getattr__(name: str) -> object:
    """Mechanisms are imported when they are first asked for: other systems do not need them."""
    if name != "mechanisms":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f"{__name__}.mechanisms")


@dataclass(frozen=True)
class SystemInfo:
    """One row of `list_systems()`."""

    name: str
    coordinates: int
    constraints: int
    summary: str
    make: Callable[..., System]


@declared(ModelError)
def list_systems() -> Table[SystemInfo]:
    """All systems of the catalog."""
    rows = []
    for maker in _MAKERS:
        system = maker()
        summary = (maker.__doc__ or "").strip().splitlines()[0]
        rows.append(SystemInfo(_dashed(maker), system.n, system.m, summary, maker))
    return Table(rows, columns=("name", "coordinates", "constraints", "summary"))


def _dashed(maker: Callable[..., object]) -> str:
    return maker.__name__.replace("_", "-")


def make(name: str, **parameters: float) -> System:
    """A system of the catalog by its name, for example `make("double-pendulum", m1=2.0)`; a mechanism is assembled."""
    from dalembert.catalog.mechanisms import MAKERS

    makers: tuple[Callable[..., System | Mechanism], ...] = (*MAKERS, *_MAKERS)
    known = {_dashed(maker): maker for maker in makers}
    if name not in known:
        raise ModelError(f"there is no system {name!r} in the catalog{suggest(name, known)}")
    try:
        made = known[name](**parameters)
        return made if isinstance(made, System) else made.assemble(redundant="remove")
    except TypeError as error:
        raise ModelError(f"{name}: {error}") from error
