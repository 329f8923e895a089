"""How it moves: each method turns a system into one step, as expressions."""

from dalembert.methods.base import Method, able, list_methods, obstacles, register
from dalembert.methods.composition import Composition, compose
from dalembert.methods.discrete_gradient import DiracDissipative, DiscreteGradient, GradientPair
from dalembert.methods.energy_momentum import EnergyMomentum, EnergyMomentumGGL, Midpoint
from dalembert.methods.explicit import Explicit, SecondOrder, ThirdOrder
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
    RungeKutta,
    Shake,
    Spark,
    SparkExchanged,
    SRKGauss,
    SRKRadauIA,
    Staged,
)
from dalembert.methods.scheme import Scheme
from dalembert.methods.step import Block, Solve, Step, split_solves
from dalembert.methods.tableaus import Tableau, tableau
from dalembert.methods.variational import CortesMartinez, McLachlanPerlmutter, Variational

__all__ = [
    "Block",
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
    "RungeKutta",
    "SRKGauss",
    "SRKRadauIA",
    "Scheme",
    "SecondOrder",
    "Shake",
    "Solve",
    "Spark",
    "SparkExchanged",
    "Staged",
    "Step",
    "Tableau",
    "ThirdOrder",
    "Variational",
    "able",
    "compose",
    "list_methods",
    "obstacles",
    "register",
    "split_solves",
    "tableau",
]
