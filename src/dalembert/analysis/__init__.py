"""What to ask of a motion: sections, trends, reversibility, growth of errors."""

from dalembert.analysis.measures import Trend, growth, reversibility, trend
from dalembert.analysis.sections import Section, poincare

__all__ = ["Section", "Trend", "growth", "poincare", "reversibility", "trend"]
