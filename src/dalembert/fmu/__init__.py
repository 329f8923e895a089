"""Functional Mock-up Units: a model with its method, for other programs."""

from dalembert.fmu.export import export_fmu

__all__ = ["export_fmu"]
