"""Arrays by the names of a system's own variables, as attributes that a type checker knows."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from dalembert.errors import MethodError

Array = NDArray[np.float64]


class Named:
    """Values by name; asking for one that a kind of system does not have says which it has."""

    values: Mapping[str, Array]

    def named(self, name: str) -> Array:
        """One of the values."""
        if name not in self.values:
            raise MethodError(f"there is no {name} here; this kind of system has {', '.join(self.values)}")
        return self.values[name]

    @property
    def q(self) -> Array:
        """Positions."""
        return self.named("q")

    @property
    def v(self) -> Array:
        """Velocities."""
        return self.named("v")

    @property
    def p(self) -> Array:
        """Momenta."""
        return self.named("p")

    @property
    def lam(self) -> Array:
        """Multipliers."""
        return self.named("lam")

    @property
    def x(self) -> Array:
        """The state of a port-Hamiltonian system."""
        return self.named("x")

    @property
    def y(self) -> Array:
        """The differential variables of a semi-explicit system."""
        return self.named("y")

    @property
    def z(self) -> Array:
        """Its algebraic variables."""
        return self.named("z")
