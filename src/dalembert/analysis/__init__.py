"""What to ask of a motion: sections, trends, reversibility, growth of errors."""

from dalembert.analysis.diagnosis import Diagnosis, diagnose
from dalembert.analysis.measures import Trend, growth, reversibility, trend
from dalembert.analysis.reduction import ode
from dalembert.analysis.sections import Section, poincare

__all__ = ["Diagnosis", "Section", "Trend", "diagnose", "growth", "ode", "poincare", "reversibility", "trend"]
