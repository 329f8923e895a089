"""Types of model functions, which are called with arrays of symbols."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Symbols = NDArray[np.object_]  # a vector of symbols; one symbol has the shape ()
Expression = Symbols | float
Vector = Sequence[Expression]
Matrix = Sequence[Sequence[Expression]]
Array = NDArray[np.float64]
