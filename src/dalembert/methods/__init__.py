"""How it moves: each method turns a system into one step, as expressions."""

from dalembert.methods.base import Method, list_methods
from dalembert.methods.composition import Composition, compose
from dalembert.methods.discrete_gradient import DiracDissipative, DiscreteGradient, GradientPair
from dalembert.methods.energy_momentum import EnergyMomentum, EnergyMomentumGGL, Midpoint
from dalembert.methods.explicit import Explicit
from dalembert.methods.index_two import Spark, SRKGauss, SRKRadauIA
from dalembert.methods.lobatto_pair import LobattoPair
from dalembert.methods.rattle import Rattle, Shake
from dalembert.methods.stages import (
    Gauss,
    LobattoIIIA,
    LobattoIIIB,
    LobattoIIIC,
    LobattoIIICStar,
    LobattoIIID,
    Murua,
    MuruaGGL,
    RadauIA,
    RadauIIA,
)
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
    "Shake",
    "Solve",
    "Spark",
    "Step",
    "Variational",
    "compose",
    "list_methods",
]
