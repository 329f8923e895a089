"""How it moves: each method turns a system into one step, as expressions."""

from dalembert.methods.base import Method, list_methods
from dalembert.methods.composition import Composition, compose
from dalembert.methods.discrete_gradient import DiracDissipative, DiscreteGradient, GradientPair
from dalembert.methods.energy_momentum import EnergyMomentum, EnergyMomentumGGL, Midpoint
from dalembert.methods.explicit import Explicit
from dalembert.methods.runge_kutta import (
    Gauss,
    LobattoIIIA,
    LobattoIIIB,
    LobattoIIIC,
    LobattoIIICStar,
    LobattoIIID,
    LobattoPair,
    Murua,
    MuruaGGL,
    RadauIA,
    RadauIIA,
    Rattle,
    Shake,
    Spark,
    SRKGauss,
    SRKRadauIA,
)
from dalembert.methods.scheme import Scheme
from dalembert.methods.step import Solve, Step
from dalembert.methods.variational import CortesMartinez, McLachlanPerlmutter, Variational

__all__ = [
    "Composition",
    "CortesMartinez",
    "DiracDissipative",
    "DiscreteGradient",
    "EnergyMomentum",
    "EnergyMomentumGGL",
    "Explicit",
    "Gauss",
    "GradientPair",
    "LobattoIIIA",
    "LobattoIIIB",
    "LobattoIIIC",
    "LobattoIIICStar",
    "LobattoIIID",
    "LobattoPair",
    "McLachlanPerlmutter",
    "Method",
    "Midpoint",
    "Murua",
    "MuruaGGL",
    "RadauIA",
    "RadauIIA",
    "Rattle",
    "SRKGauss",
    "SRKRadauIA",
    "Scheme",
    "Shake",
    "Solve",
    "Spark",
    "Step",
    "Variational",
    "compose",
    "list_methods",
]
