"""dalembert: write the energy and the constraints, get motion that keeps them."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dalembert import analysis, catalog, discrete, experiments, mechanisms, methods, plotting, reduced, reporting
    from dalembert._version import __version__
    from dalembert.analysis import (
        compare,
        convergence,
        diagnose,
        equilibrium,
        fit,
        linearize,
        modes,
        optimize_inputs,
        poincare,
        work_precision,
    )
    from dalembert.catalog import list_systems
    from dalembert.citing import cite
    from dalembert.engine import control
    from dalembert.engine.consistency import consistent
    from dalembert.engine.consistent import Consistent
    from dalembert.engine.contacts import impact, latch, stop
    from dalembert.engine.controllers import Sampled, Samples
    from dalembert.engine.events import Event, Hits
    from dalembert.engine.literal import Newton
    from dalembert.ensembles import ensemble, sweep
    from dalembert.errors import (
        CompilerError,
        ConvergenceError,
        DalembertError,
        DalembertWarning,
        EventError,
        FileError,
        InconsistentState,
        Interrupted,
        MethodError,
        MissingPackage,
        ModelError,
        SingularConstraints,
        StepTooSmall,
        UnknownKeyword,
        UnknownQuantity,
    )
    from dalembert.fmu import export_fmu
    from dalembert.mechanisms import Mechanism, read_mechanism, read_mjcf, read_urdf, shapes
    from dalembert.methods import Method, Scheme, Step, compose, list_methods
    from dalembert.reporting import report, slider
    from dalembert.sensitivities import Sensitivity, sensitivity
    from dalembert.simulation import simulate
    from dalembert.solution import Jump, Sample, Solution, Stored, load
    from dalembert.solution import open as open
    from dalembert.systems import (
        ODE,
        Couple,
        DiracStructure,
        Element,
        Feedback,
        Hamiltonian,
        ImplicitDAE,
        IndexOneDAE,
        IndexThreeDAE,
        IndexTwoDAE,
        Lagrangian,
        LinearDAE,
        Mechanical,
        Picture,
        PortHamiltonian,
        Relation,
        Solid,
        System,
        connect,
        from_sympy,
        table,
        unpack,
    )

# What the package has is imported when it is first asked for: `import dalembert` and `dalembert --help` are quick.
_WHERE = {
    "dalembert._version": "__version__",
    "dalembert.analysis": "compare convergence diagnose equilibrium fit linearize modes optimize_inputs poincare work_precision",
    "dalembert.catalog": "list_systems",
    "dalembert.citing": "cite",
    "dalembert.engine.consistency": "consistent",
    "dalembert.engine.consistent": "Consistent",
    "dalembert.engine.contacts": "impact latch stop",
    "dalembert.engine.controllers": "Sampled Samples",
    "dalembert.engine.events": "Event Hits",
    "dalembert.engine.literal": "Newton",
    "dalembert.ensembles": "ensemble sweep",
    "dalembert.errors": "CompilerError ConvergenceError DalembertError DalembertWarning EventError FileError InconsistentState "
    "Interrupted MethodError MissingPackage ModelError SingularConstraints StepTooSmall UnknownKeyword UnknownQuantity",
    "dalembert.mechanisms": "Mechanism read_mechanism read_mjcf read_urdf shapes",
    "dalembert.fmu": "export_fmu",
    "dalembert.methods": "Method Scheme Step compose list_methods",
    "dalembert.reporting": "report slider",
    "dalembert.sensitivities": "Sensitivity sensitivity",
    "dalembert.simulation": "simulate",
    "dalembert.solution": "Jump Sample Solution Stored load open",
    "dalembert.systems": "ODE Couple DiracStructure Element Feedback Hamiltonian ImplicitDAE IndexOneDAE IndexThreeDAE "
    "IndexTwoDAE Lagrangian LinearDAE Mechanical Picture PortHamiltonian Relation Solid System connect "
    "from_sympy table unpack",
}
_NAMES = {name: module for module, names in _WHERE.items() for name in names.split()}
_MODULES = ("analysis", "catalog", "discrete", "experiments", "mechanisms", "methods", "plotting", "reduced", "reporting")


def __getattr__(name: str) -> object:
    if name in _MODULES:
        value: object = import_module(f"dalembert.{name}")
    elif name == "control":
        value = import_module("dalembert.engine.control")
    elif name in _NAMES:
        value = getattr(import_module(_NAMES[name]), name)
    else:
        raise AttributeError(f"module 'dalembert' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


__all__ = [
    "ODE",
    "CompilerError",
    "Consistent",
    "ConvergenceError",
    "Couple",
    "DalembertError",
    "DalembertWarning",
    "DiracStructure",
    "Element",
    "Event",
    "EventError",
    "Feedback",
    "FileError",
    "Hamiltonian",
    "Hits",
    "ImplicitDAE",
    "InconsistentState",
    "IndexOneDAE",
    "IndexThreeDAE",
    "IndexTwoDAE",
    "Interrupted",
    "Jump",
    "Lagrangian",
    "LinearDAE",
    "Mechanical",
    "Mechanism",
    "Method",
    "MethodError",
    "MissingPackage",
    "ModelError",
    "Newton",
    "Picture",
    "PortHamiltonian",
    "Relation",
    "Sample",
    "Sampled",
    "Samples",
    "Scheme",
    "Sensitivity",
    "SingularConstraints",
    "Solid",
    "Solution",
    "Step",
    "StepTooSmall",
    "Stored",
    "System",
    "UnknownKeyword",
    "UnknownQuantity",
    "__version__",
    "analysis",
    "catalog",
    "cite",
    "compare",
    "compose",
    "connect",
    "consistent",
    "control",
    "convergence",
    "diagnose",
    "discrete",
    "ensemble",
    "equilibrium",
    "experiments",
    "export_fmu",
    "fit",
    "from_sympy",
    "impact",
    "latch",
    "linearize",
    "list_methods",
    "list_systems",
    "load",
    "mechanisms",
    "methods",
    "modes",
    "optimize_inputs",
    "plotting",
    "poincare",
    "read_mechanism",
    "read_mjcf",
    "read_urdf",
    "reduced",
    "report",
    "reporting",
    "sensitivity",
    "shapes",
    "simulate",
    "slider",
    "stop",
    "sweep",
    "table",
    "unpack",
    "work_precision",
]
