"""Systems as text: what cannot be written, and what is refused."""

import copy
import json
import pickle

import casadi as ca
import numpy as np
import pytest

import dalembert as da
from dalembert.errors import FileError
from dalembert.systems.base import System

RUN = {"q": [2.0], "v": [0.0], "t_end": 0.1, "step": 0.01}


def tabulated(scale=1.0):
    """A potential from a table of CasADi's: it runs, but is no list of operations."""
    table = ca.interpolant("table", "bspline", [list(range(6))], [scale * k**2 / 2 for k in range(6)])
    return da.Mechanical(1, mass=1.0, potential=lambda q: table(ca.SX(q[0].sx)), name="tabulated")


def test_a_model_with_a_table_keeps_its_results_and_says_why_it_has_no_functions(tmp_path):
    sol = da.simulate(tabulated(), "rattle", **RUN)
    for again in (da.load(sol.save(tmp_path / "a.nc")), pickle.loads(pickle.dumps(sol))):
        for name in ("t", "q", "v", "supplied"):
            np.testing.assert_array_equal(getattr(again, name), getattr(sol, name))
        assert again.method == sol.method
        assert again.system.name == "tabulated"
        assert "10 steps" in repr(again)
        for use in (
            lambda again=again: da.simulate(again.system, "rattle", **RUN),
            lambda again=again: again.system.numeric("potential", np.zeros(0), q=[1.0]),
            lambda again=again: again.system.has("force"),
            lambda again=again: list(again.system._functions.items()),
        ):
            with pytest.raises(da.ModelError, match="no model, since potential could not be written: it calls a function"):
                use()
        assert "no model" not in again.system.dumps()  # and it can be passed on
        assert System.loads(again.system.dumps()).name == "tabulated"


def test_a_copy_in_the_same_process_has_all_functions():
    system = tabulated()
    for other in (copy.copy(system), copy.deepcopy(system)):
        assert other is not system
        assert other.cache is not system.cache
        np.testing.assert_array_equal(da.simulate(other, "rattle", **RUN).q, da.simulate(system, "rattle", **RUN).q)


def test_texts_of_different_tables_differ():
    assert tabulated().dumps() == tabulated().dumps()
    assert tabulated(2.0).dumps() != tabulated().dumps()


def test_the_text_is_the_same_each_time():
    first, second = (da.catalog.double_pendulum() for _ in range(2))
    assert first.dumps() == first.dumps() == second.dumps() == System.loads(first.dumps()).dumps()


def edited(system, **changes):
    return json.dumps(json.loads(system.dumps()) | changes)


PENDULUM, LADDER = da.catalog.double_pendulum(), da.catalog.rlc_ladder()
FUNCTIONS = json.loads(PENDULUM.dumps())["functions"]
BAD = {
    "no text": "",
    "no JSON": "{",
    "deep": "[" * 100_000,
    "a number": "3",
    "an unknown kind": edited(PENDULUM, **{"class": "os.system"}),
    "an abstract kind": edited(PENDULUM, **{"class": "Constrained"}),
    "a kind that is no text": edited(PENDULUM, **{"class": ["Mechanical"]}),
    "a number of coordinates": edited(PENDULUM, coordinates=10**9),
    "too few coordinates": edited(PENDULUM, coordinates=["x"]),
    "a coordinate twice": edited(PENDULUM, coordinates=["x"] * 4),
    "huge sizes": edited(PENDULUM, sizes={"q": 4, "v": 4, "p": 4, "u": 10**12}),
    "negative sizes": edited(PENDULUM, sizes={"q": 4, "v": -4, "p": 4, "u": 0}),
    "no sizes": edited(PENDULUM, sizes=None),
    "wrong sizes": edited(PENDULUM, sizes={"q": 4, "v": 3, "p": 4, "u": 0}),
    "nan as a parameter": edited(PENDULUM, parameters={"m1": float("nan")}),
    "a large parameter": edited(PENDULUM, parameters={"m1": 10**400}),
    "no parameters": edited(PENDULUM, parameters={}),
    "a parameter of another name": edited(PENDULUM, parameters={"__class__ ": 1.0}),
    "initial values of another name": edited(PENDULUM, initial={"w": [1.0]}),
    "a picture with points": edited(PENDULUM, picture={"points": "x"}),
    "a picture of text": edited(PENDULUM, picture="x"),
    "a link to nowhere": edited(PENDULUM, picture={"links": [[0, 99]], "masses": [], "trails": [], "bodies": [], "units": {}}),
    "a function of CasADi's": edited(PENDULUM, functions=dict.fromkeys(FUNCTIONS, "jit")),
    "no functions": edited(PENDULUM, functions={}),
    "no mass": edited(PENDULUM, functions={k: v for k, v in FUNCTIONS.items() if k != "mass"}),
    "an unknown role": edited(PENDULUM, functions=FUNCTIONS | {"__init__": FUNCTIONS["mass"]}),
    "a role in the place of another": edited(PENDULUM, functions=FUNCTIONS | {"potential": FUNCTIONS["holonomic"]}),
    "reasons that are no text": edited(PENDULUM, missing={"mass": 3}),
    "ports of another number": edited(LADDER, ports=["a", "b", "c", "d", "e", "f", "g"]),
    "blocks outside": edited(LADDER, constraint=[[99], [0], [0]]),
    "two blocks": edited(LADDER, constraint=[[0], [0]]),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_texts_are_refused(name):
    with pytest.raises(FileError):
        System.loads(BAD[name])


def test_a_name_is_only_text():
    system = da.Mechanical(("__import__('os')", "</script>"), mass=1.0, name="$(touch x)")
    assert System.loads(system.dumps()).coordinates == system.coordinates
