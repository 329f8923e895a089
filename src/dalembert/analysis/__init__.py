"""Analysis of a motion (sections, trends, reversibility, growth of errors) and of methods (orders, comparisons, diagnosis)."""

from dalembert.analysis import linear
from dalembert.analysis.comparison import Comparison, Convergence, compare, convergence
from dalembert.analysis.diagnosis import Diagnosis, diagnose
from dalembert.analysis.measures import Trend, growth, reversibility, trend
from dalembert.analysis.reduction import ode
from dalembert.analysis.sections import Section, poincare

__all__ = [
    "Comparison",
    "Convergence",
    "Diagnosis",
    "Section",
    "Trend",
    "compare",
    "convergence",
    "diagnose",
    "growth",
    "linear",
    "ode",
    "poincare",
    "reversibility",
    "trend",
]
