"""Many runs of one system: initial values, parameters and inputs that vary."""

from dalembert.ensembles.ensemble import ensemble

__all__ = ["ensemble"]
