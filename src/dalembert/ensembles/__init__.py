"""Many runs of one system: initial values, parameters and inputs that vary."""

from dalembert.ensembles.clusters import sweep
from dalembert.ensembles.local import ensemble

__all__ = ["ensemble", "sweep"]
