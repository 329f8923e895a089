"""Methods on the index-reduced equations, to compare with: drift, and what stabilisation gives back."""

from dalembert.methods.reduced import BDF, DOP853, RK45, Baumgarte, CoordinatePartition, Projection, Radau

__all__ = ["BDF", "DOP853", "RK45", "Baumgarte", "CoordinatePartition", "Projection", "Radau"]
