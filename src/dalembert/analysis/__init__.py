"""Analysis of a motion (sections, trends, reversibility, growth of errors), of methods (orders, comparisons, diagnosis) and of
systems near a point (equilibria, linear equations, modes)."""

from dalembert.analysis import advice as advice
from dalembert.analysis import linear
from dalembert.analysis.comparison import Comparison, Convergence, compare, convergence
from dalembert.analysis.diagnosis import Diagnosis, diagnose
from dalembert.analysis.fits import Fit
from dalembert.analysis.fitting import fit
from dalembert.analysis.linearization import Linearization, linearize, modes
from dalembert.analysis.manoeuvres import optimize_inputs
from dalembert.analysis.measures import Trend, growth, reversibility, trend
from dalembert.analysis.plans import Manoeuvre
from dalembert.analysis.reduction import ode
from dalembert.analysis.sections import Section, poincare
from dalembert.analysis.statics import Equilibrium, equilibrium
from dalembert.analysis.vibration import Mode, Modes
from dalembert.analysis.work import WorkPrecision, work_precision

__all__ = [
    "Comparison",
    "Convergence",
    "Diagnosis",
    "Equilibrium",
    "Fit",
    "Linearization",
    "Manoeuvre",
    "Mode",
    "Modes",
    "Section",
    "Trend",
    "WorkPrecision",
    "compare",
    "convergence",
    "diagnose",
    "equilibrium",
    "fit",
    "growth",
    "linear",
    "linearize",
    "modes",
    "ode",
    "optimize_inputs",
    "poincare",
    "reversibility",
    "trend",
    "work_precision",
]
