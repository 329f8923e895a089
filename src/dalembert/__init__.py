"""dalembert: write the energy and the constraints, get motion that keeps them."""

from dalembert import analysis, catalog, discrete, experiments, methods, plotting, reduced, reporting
from dalembert._version import __version__
from dalembert.analysis import compare, convergence, diagnose, poincare
from dalembert.catalog import list_systems
from dalembert.engine import control
from dalembert.engine.consistency import consistent
from dalembert.engine.consistent import Consistent
from dalembert.engine.events import Event, Hits
from dalembert.engine.literal import Newton
from dalembert.errors import (
    CompilerError,
    ConvergenceError,
    DalembertError,
    DalembertWarning,
    FileError,
    InconsistentState,
    Interrupted,
    MethodError,
    MissingPackage,
    ModelError,
    SingularConstraints,
    StepTooSmall,
    UnknownKeyword,
)
from dalembert.methods import Method, Scheme, Step, compose, list_methods
from dalembert.sensitivity import Sensitivity, sensitivity
from dalembert.simulate import simulate
from dalembert.solution import Sample, Solution, load
from dalembert.systems import (
    Couple,
    DiracStructure,
    Feedback,
    Hamiltonian,
    IndexOneDAE,
    IndexThreeDAE,
    IndexTwoDAE,
    Lagrangian,
    LinearDAE,
    Mechanical,
    Picture,
    PortHamiltonian,
    Relation,
    System,
    connect,
    from_sympy,
    unpack,
)

__all__ = [
    "CompilerError",
    "Consistent",
    "ConvergenceError",
    "Couple",
    "DalembertError",
    "DalembertWarning",
    "DiracStructure",
    "Event",
    "Feedback",
    "FileError",
    "Hamiltonian",
    "Hits",
    "InconsistentState",
    "IndexOneDAE",
    "IndexThreeDAE",
    "IndexTwoDAE",
    "Interrupted",
    "Lagrangian",
    "LinearDAE",
    "Mechanical",
    "Method",
    "MethodError",
    "MissingPackage",
    "ModelError",
    "Newton",
    "Picture",
    "PortHamiltonian",
    "Relation",
    "Sample",
    "Scheme",
    "Sensitivity",
    "SingularConstraints",
    "Solution",
    "Step",
    "StepTooSmall",
    "System",
    "UnknownKeyword",
    "__version__",
    "analysis",
    "catalog",
    "compare",
    "compose",
    "connect",
    "consistent",
    "control",
    "convergence",
    "diagnose",
    "discrete",
    "experiments",
    "from_sympy",
    "list_methods",
    "list_systems",
    "load",
    "methods",
    "plotting",
    "poincare",
    "reduced",
    "reporting",
    "sensitivity",
    "simulate",
    "unpack",
]
