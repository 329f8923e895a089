"""What a method may need of a system; a system says what of it it lacks."""

from __future__ import annotations

from enum import Enum, auto


class Need(Enum):
    """Properties that a method can rely on. `System.lacks(need)` is None, or names what stands in the way."""

    NO_CONSTRAINTS = auto()
    HOLONOMIC = auto()  # no nonholonomic constraints
    VELOCITIES = auto()  # q' = v
    INERTIA = auto()  # an invertible mass matrix, or E: every rate has an equation of its own
    MASS = auto()  # an invertible mass matrix, where there is one
    MOMENTA = auto()  # v follows from p = M(q) v, where M is not constant
    SMALL_MASS = auto()  # a constant mass matrix of small blocks
    POSITION_FORCES = auto()  # no velocity-dependent forces
    PARTS = auto()  # a right-hand side in two parts or more
    PARTED = auto()  # of a DAE, two parts as in mechanics: the first without z, the second linear in z and on other variables
    INDEX_TWO = auto()  # an index of at most two
    RATES = auto()  # at least one state with a rate
    BASES = auto()  # a range of E that does not depend on the state
    PAIR = auto()  # the same of the equations with costates: a discrete gradient then gives a discrete gradient pair
    UNFORCED = auto()  # an energy that does not change
    FREE_OF_REACTIONS = auto()  # no force that depends on the multipliers: friction
