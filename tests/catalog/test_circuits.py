"""Values of components as parameters."""

import numpy as np
import pytest

import dalembert as da

PARTS = [
    ("V", "source", "a", "ground"), ("R", "R1", "a", "b", 2.0), ("L", "L1", "b", "c", 0.5), ("C", "C1", "c", "ground", 0.1),
    ("C", "C2", "c", "b", 0.3), ("gyrator", "G1", "c", "ground", "d", "ground", 0.7), ("R", "R2", "d", "ground", 3.0),
    ("C", "C3", "d", "ground", 0.2), ("transformer", "T1", "d", "ground", "e", "ground", 2.0), ("R", "R3", "e", "ground", 1.0),
]  # fmt: skip
RUN = {"u": [1.0], "t_end": 0.5, "step": 0.01}


def test_values_become_parameters_by_name():
    plain, named = da.catalog.circuit(PARTS), da.catalog.circuit(PARTS, parameters=True)
    assert plain.parameters == {}
    assert {k: float(v) for k, v in named.parameters.items()} == {p[1]: p[-1] for p in PARTS[1:]}
    x = np.random.default_rng(0).normal(size=plain.n)
    for role in ("E", "J", "R", "B", "H", "z"):
        np.testing.assert_array_equal(plain.at(role, x), named.at(role, x))
    changed = [(*p[:-1], 3.5) if p[1] == "R1" else p for p in PARTS]
    expected = da.simulate(da.catalog.circuit(changed), "gauss-2", **RUN).x
    found = da.simulate(named, "gauss-2", parameters={"R1": 3.5}, **RUN).x
    assert np.abs(found - expected).max() < 1e-14


@pytest.mark.parametrize("name", ["R1", "L1", "C2", "G1", "T1"])
def test_derivatives_by_values_of_components(name):
    named = da.catalog.circuit(PARTS, parameters=True)
    found = da.sensitivity(named, "gauss-2", **RUN).jacobian("x", name).ravel()
    at = float(named.parameters[name])
    ends = [da.simulate(named, "gauss-2", parameters={name: at + d}, **RUN).x[-1] for d in (1e-5, -1e-5)]
    np.testing.assert_allclose(found, (ends[0] - ends[1]) / 2e-5, atol=1e-8)


def test_names_that_cannot_be_parameters_are_refused():
    with pytest.raises(da.ModelError, match="cannot be called 'R 1'"):
        da.catalog.circuit([("R", "R 1", "a", "ground", 1.0), ("C", "C1", "a", "ground", 1.0)], parameters=True)


def test_a_role_that_is_not_there_is_an_error_with_those_that_are():
    with pytest.raises(da.ModelError, match="has no 'Q'; known: H, E, J"):
        da.catalog.dc_motor().at("Q", [0.0, 0.0])


WRONG = [
    3,
    "R",
    (),
    (["R"], "r", "a", "ground", 1.0),
    ("V", "v", "a"),
    ("R", "r", "a", "ground", "x"),
    ("R", "r", "a", "ground", [1.0, 2.0]),
    ("R", "r", "a", "ground", 1 + 1j),
    ("C", "r", "a", "ground", -1.0),
    ("gyrator", "g", "a", "ground", "b", "ground", "x"),
    ("transformer", "g", "a", "ground", "b", "ground", None),
]


@pytest.mark.parametrize("parameters", [False, True])
@pytest.mark.parametrize("part", WRONG, ids=str)
def test_what_is_no_component_is_refused(part, parameters):
    with pytest.raises(da.ModelError, match=r"is not a component|must (have a positive value|be a number|be finite)"):
        da.catalog.circuit([part], parameters=parameters)


@pytest.mark.parametrize("name", ["which", "self", "name", "network", "base", "power"])
def test_components_may_have_any_name(name):
    parts = [("R", name, "a", "ground", 2.0), ("C", "C1", "a", "ground", 3.0), ("L", "L1", "a", "ground", 5.0)]
    plain, open_ = (da.catalog.circuit(parts, parameters=parameters) for parameters in (False, True))
    for matrix in ("E", "J", "R"):
        np.testing.assert_array_equal(plain.at(matrix, np.ones(2)), open_.at(matrix, np.ones(2)))
