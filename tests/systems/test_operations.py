"""Functions as data: the same function comes back, and nothing else can come in."""

import json
import math

import casadi as ca
import numpy as np
import pytest

import dalembert as da
from dalembert.errors import FileError
from dalembert.systems.operations import BINARY, CODES, LONGEST, UNARY, build, dump, fingerprint
from dalembert.systems.plain import LARGEST

SX = ca.SX


def sequence(f):
    """All that an instruction list says."""
    ids = [f.instruction_id(k) for k in range(f.n_instructions())]
    numbers = [f.instruction_constant(k) if op == ca.OP_CONST else None for k, op in enumerate(ids)]
    return [(op, f.instruction_input(k), f.instruction_output(k), numbers[k]) for k, op in enumerate(ids)]


def again(f):
    symbols = [SX.sym(f.name_in(i), f.size1_in(i)) for i in range(f.n_in())]
    value = build(json.loads(json.dumps(dump(f))), symbols)
    return ca.Function(f.name(), symbols, [value], f.name_in(), f.name_out())


@pytest.mark.parametrize("name", [row.name for row in da.list_systems()])
def test_all_functions_of_the_catalogue_come_back_with_the_same_operations(name):
    system = da.catalog.make(name)
    system.function("energy_slope") if system.has_energy else None
    for f in system._functions.values():
        assert sequence(again(f)) == sequence(f)
        assert again(f).sparsity_out(0) == f.sparsity_out(0)


def same_bits(a, b):
    return np.array_equal(np.atleast_1d(a).view(np.int64), np.atleast_1d(b).view(np.int64))


@pytest.mark.parametrize("seed", range(20))
def test_random_expressions_come_back_bit_by_bit(seed):
    """Every operation that can be written, in random compositions, with numbers of all kinds."""
    rng = np.random.default_rng(seed)
    x, y = SX.sym("x", 3), SX.sym("y", 2)
    pool = [x[0], x[1], x[2], y[0], y[1], SX(0.1), SX(2.0), SX(-1e300), SX(5e-324), SX(math.inf), SX(-math.inf), SX(math.nan)]
    for name in rng.permutation([*UNARY, *BINARY]):
        a, b = (pool[i] for i in rng.integers(0, len(pool), 2))
        pool.append(SX.unary(CODES[name], a) if name in UNARY else SX.binary(CODES[name], a, b))
    out = ca.sparsify(ca.reshape(ca.vertcat(*pool[-48:]), 6, 8) * SX(ca.DM(rng.integers(0, 2, (6, 8)))))
    f = ca.Function("f", [x, y], [out])
    g = again(f)
    assert g.sparsity_out(0) == f.sparsity_out(0)
    for scale in (1.0, 1e-3, 1e3):
        at = [scale * rng.normal(size=3), scale * rng.normal(size=2)]
        left, right = np.array(f(*at).nonzeros()), np.array(g(*at).nonzeros())
        assert np.array_equal(np.isnan(left), np.isnan(right))  # the sign of nan is not the matter
        assert same_bits(left[~np.isnan(left)], right[~np.isnan(right)])


def test_a_run_of_a_copy_is_the_same_to_the_last_bit():
    system = da.catalog.four_particles_damped()
    copy = da.System.loads(system.dumps())
    for method in ("energy-momentum", "rattle", "gauss-2"):
        runs = [da.simulate(s, method, t_end=0.3, step=0.01, compile=False) for s in (system, copy)]
        assert same_bits(runs[0].x.ravel(), runs[1].x.ravel())


GOOD = {"shape": [1, 1], "rows": [0], "columns": [0], "values": [1], "nodes": [["argument", 0, 0], ["sin", 0]]}
BAD = {
    "no data": None,
    "a list": [],
    "a key is missing": {k: v for k, v in GOOD.items() if k != "nodes"},
    "an unknown operation": GOOD | {"nodes": [["argument", 0, 0], ["call", 0]]},
    "a call by number": GOOD | {"nodes": [["argument", 0, 0], [48, 0]]},
    "a name of Python's": GOOD | {"nodes": [["argument", 0, 0], ["__import__", 0]]},
    "printing": GOOD | {"nodes": [["argument", 0, 0], ["printme", 0, 0]]},
    "too few operands": GOOD | {"nodes": [["argument", 0, 0], ["add", 0]]},
    "too many operands": GOOD | {"nodes": [["argument", 0, 0], ["sin", 0, 0]]},
    "an empty node": GOOD | {"nodes": [[], ["sin", 0]]},
    "a node that is no list": GOOD | {"nodes": ["sin", ["sin", 0]]},
    "itself as operand": GOOD | {"nodes": [["argument", 0, 0], ["sin", 1]]},
    "a later operand": GOOD | {"nodes": [["sin", 1], ["argument", 0, 0]]},
    "a negative operand": GOOD | {"nodes": [["argument", 0, 0], ["sin", -1]]},
    "an operand that is no number": GOOD | {"nodes": [["argument", 0, 0], ["sin", True]]},
    "no such argument": GOOD | {"nodes": [["argument", 1, 0], ["sin", 0]]},
    "no such entry": GOOD | {"nodes": [["argument", 0, 7], ["sin", 0]]},
    "infinity that is not spelled": GOOD | {"nodes": [["number", math.inf], ["sin", 0]]},
    "a number as text": GOOD | {"nodes": [["number", "1.0"], ["sin", 0]]},
    "a whole number beyond a float": GOOD | {"nodes": [["number", 10**400], ["sin", 0]]},
    "a negative size": GOOD | {"shape": [-1, 1]},
    "a huge size": GOOD | {"shape": [LARGEST + 1, 1]},
    "three dimensions": GOOD | {"shape": [1, 1, 1]},
    "a row outside": GOOD | {"rows": [1]},
    "more rows than values": GOOD | {"rows": [0, 0]},
    "an entry twice": GOOD | {"shape": [2, 1], "rows": [0, 0], "columns": [0, 0], "values": [1, 1]},
    "entries out of order": GOOD | {"shape": [2, 1], "rows": [1, 0], "columns": [0, 0], "values": [1, 1]},
    "a value that is no node": GOOD | {"values": [2]},
}


def test_the_good_data_are_good():
    x = SX.sym("x", 2)
    assert float(ca.Function("f", [x], [build(GOOD, [x])])([0.5, 0.0])) == math.sin(0.5)


@pytest.mark.parametrize("name", BAD)
def test_bad_data_are_refused(name):
    with pytest.raises(FileError):
        build(BAD[name], [SX.sym("x", 2)])


def test_endless_data_are_refused_before_they_are_used(monkeypatch):
    monkeypatch.setattr("dalembert.systems.operations.LONGEST", 3)
    assert LONGEST > 10**6
    with pytest.raises(FileError, match="more than 3"):
        build(GOOD | {"nodes": [["argument", 0, 0]] * 4}, [SX.sym("x", 2)])


def test_functions_that_call_others_are_no_data_but_can_be_told_apart():
    x = SX.sym("x")
    tables = [ca.interpolant("table", "bspline", [list(range(6))], [scale * k**2 for k in range(6)]) for scale in (1, 2)]
    first, second = (ca.Function("f", [x], [table(x)]) for table in tables)
    with pytest.raises(da.ModelError, match="calls a function of CasADi"):
        dump(first)
    assert len({fingerprint(first), fingerprint(second)}) == 2
    assert fingerprint(first) == fingerprint(ca.Function("f", [x], [tables[0](x)]))


def test_tables_are_data():
    x = SX.sym("x", 2)
    table = da.table([0.0, 1.0, 3.0], [1.0, 0.0, 2.0], kind="cubic")
    value = table.function(x[0]) * table.function(x[1])
    f = ca.Function("f", [x], [ca.hessian(value, x)[0]])
    assert len(dump(f)["tables"]) == 1
    at = [0.7, 2.1]
    np.testing.assert_array_equal(np.array(again(f)(at)), np.array(f(at)))


TABLE = {"grids": [[0.0, 1.0]], "values": [0.0, 2.0], "kind": "linear", "outside": "error", "name": ""}
CALL = GOOD | {"tables": [TABLE], "nodes": [["argument", 0, 0], ["table", 0, "", 0, 0]], "values": [1] * len(GOOD["values"])}


@pytest.mark.parametrize(
    "node",
    [
        ["table", 1, "", 0, 0],
        ["table", 0, "fwd0", 0, 0, 0],
        ["table", 0, "jac", 0, 0],
        ["table", 0, "fwd1 " * 9, 0, 0],
        ["table", 0, "", 1, 0],
        ["table", 0, "", 0],
        ["table", 0, "", 0, 5],
        ["table", 0, "", 0, 0, 0],
    ],
)
def test_bad_calls_of_tables_are_refused(node):
    build(CALL, [SX.sym("x", 2)])
    with pytest.raises(FileError):
        build(CALL | {"nodes": [["argument", 0, 0], node]}, [SX.sym("x", 2)])
