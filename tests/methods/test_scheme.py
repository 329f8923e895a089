"""Facts computed from the data of a scheme."""

import numpy as np
import pytest

from dalembert.methods import scheme as schemes
from dalembert.methods.base import REGISTER
from dalembert.methods.runge_kutta import RungeKutta

STAGES = (1, 2, 3, 4, 5)
# order on constraints, order on free systems, symmetric, symplectic on free systems, symplectic on holonomic constraints
FACTS = {
    "gauss": lambda s: (s + s % 2, 2 * s, True, True, False),
    "radau-iia": lambda s: (2 * s - 1, 2 * s - 1, False, False, False),
    "radau-ia": lambda s: (s, 2 * s - 1, False, False, False),
    "lobatto-iiia": lambda s: (2 * s - 2, 2 * s - 2, False, False, False),
    "lobatto-iiib": lambda s: (2 * s - 2, 2 * s - 2, True, False, False),
    "lobatto-iiic": lambda s: (2 * s - 2, 2 * s - 2, False, False, False),
    "lobatto-iiic*": lambda s: (2 * s - 2, 2 * s - 2, False, False, False),
    "lobatto-iiid": lambda s: (2 * s - 2, 2 * s - 2, True, True, False),
    "lobatto-pair": lambda s: (2 * s - 2, 2 * s - 2, True, True, True),
    "spark": lambda s: (2 * s - 2, 2 * s - 2, True, True, True),
    "spark-iiib-a": lambda s: (2 * s - 2, 2 * s - 2, True, True, False),
    "murua": lambda s: (2 * s, 2 * s, True, True, False),
    "murua-ggl": lambda s: (2 * s, 2 * s, True, True, False),
    "srk-gauss": lambda s: (2 * s, 2 * s, True, True, False),
    "srk-radau-ia": lambda s: (2 * s - 1, 2 * s - 1, False, False, False),
}
CASES = [(name, s) for name in FACTS for s in STAGES if s >= REGISTER[name].fewest]


@pytest.mark.parametrize(("name", "s"), CASES)
def test_facts_of_the_families(name, s):
    scheme = REGISTER[name](s).scheme
    found = (scheme.order, scheme.free_order, scheme.symmetric, scheme.symplectic, scheme.symplectic_on_constraints)
    assert found == FACTS[name](s)


def test_every_family_is_in_the_table():
    families = {name for name, cls in REGISTER.items() if issubclass(cls, RungeKutta) and hasattr(cls(), "stages")}
    assert families == set(FACTS)


@pytest.mark.parametrize(
    ("scheme", "levels"),
    [
        (schemes.classical("gauss", 3), set()),
        (schemes.classical("radau-iia", 3), {"velocity"}),
        (schemes.classical("radau-ia", 1), set()),  # its one stage is the end, but at the time of the beginning
        (schemes.lobatto_pair(3), {"position", "velocity"}),
        (schemes.shake(), {"position"}),
        (schemes.murua(2), {"velocity"}),
        (schemes.murua(2, stabilised=True), {"position", "velocity"}),
        (schemes.specialized("gauss", 3), {"velocity"}),
        (schemes.spark(3, 5), {"velocity"}),
        (schemes.exchanged_pair(2), {"velocity"}),
        (schemes.exchanged_pair(4), {"velocity"}),
    ],
)
def test_levels_that_hold_at_the_end(scheme, levels):
    assert set(scheme.ends) == levels


def test_rows_that_are_not_their_own_mirror_image():
    """The rows of the pair without its end are met at the beginning of a step only by chance."""
    pair = schemes.lobatto_pair(3)
    rows = {**pair.rows, "position": pair.rows["position"][:1], "velocity": np.vstack([pair.rows["velocity"]] * 2)}
    assert pair.symmetric
    lopsided = schemes.Scheme(pair.tables, {**rows, "velocity": schemes.at([0], 4)})
    assert not lopsided.symmetric


def test_singular_tableaus_need_inertia():
    assert schemes.classical("lobatto-iiia", 3).divides
    assert schemes.lobatto_pair(2).divides
    assert not schemes.classical("gauss", 3).divides
