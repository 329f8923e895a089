"""Derivatives of a run with respect to initial values, parameters and inputs."""

from dalembert.sensitivities.base import Sensitivity, sensitivity

__all__ = ["Sensitivity", "sensitivity"]
