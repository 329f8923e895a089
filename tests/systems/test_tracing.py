"""Model functions are plain NumPy: what they may use and return."""

from concurrent.futures import ThreadPoolExecutor

import casadi as ca
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dalembert as da
from dalembert.errors import ModelError
from dalembert.systems import symbolic
from dalembert.systems.tracing import call, symbols, to_sx, unpack

VALUES = np.array([0.7, -1.3, 2.1, 0.4])

EXPRESSIONS = {
    "index": lambda q: q[0] * q[-1],
    "slices": lambda q: q[:2] - q[2:],
    "fancy": lambda q: q[[0, 2]],
    "dot": lambda q: np.dot(q, q) + q @ q + q.dot(q),
    "array": lambda q: np.array([np.sin(q[0]), 0.0, q[1] ** 2]),
    "list": lambda q: [q[0], 1.0, q[2]],
    "nested": lambda q: [[q[0], 0.0], [1, q[1]]],
    "stack": lambda q: np.stack([q[0], q[1]]),
    "concatenate": lambda q: np.concatenate([[0.0], q, q[:1]]),
    "cross": lambda q: np.cross(q[:3], q[1:]),
    "norm": lambda q: np.linalg.norm(q[:2] - q[2:]),
    "norm_axis": lambda q: np.linalg.norm(q.reshape(2, 2), axis=1),
    "reshape": lambda q: np.sum(q.reshape(-1, 2) ** 2, axis=1),
    "diff": lambda q: np.diff(q),
    "outer": lambda q: np.outer(q, q),
    "einsum": lambda q: np.einsum("i,i", q, q),
    "matrix": lambda q: np.array([[1.0, 2.0], [3.0, 4.0]]) @ q[:2],
    "solve": lambda q: np.linalg.solve(np.diag(q**2), q),
    "where": lambda q: np.where(q > 0, q, -2 * q),
    "where_scalar": lambda q: np.where(q[1] > 0, 1.0, q[1] ** 2),
    "maximum": lambda q: np.maximum(q[0], q[1]) + np.minimum(q, 0.5),
    "elementary": lambda q: np.exp(q[0]) + np.log(q[2]) + np.tanh(q[1]) + np.arctan2(q[0], q[1]) + np.sqrt(q[2]),
    "hypot": lambda q: np.hypot(q[0], q[1]),
    "abs": lambda q: np.abs(q) + abs(q[1]),
    "power": lambda q: q[2] ** 1.5 + 2.0 ** q[0] + np.square(q[1]),
    "kron": lambda q: np.kron(np.eye(2), q[:2]),
    "repeat": lambda q: np.repeat(q[:2], 2),
    "iteration": lambda q: sum(x**2 for x in q),
    "unpack": lambda q: unpack(q)[3] - unpack(q)[0],
    "numpy_scalar": lambda q: np.float64(2.0) * q[0] - q[1] * np.float64(3.0),
    "constant": lambda q: np.array([1.0, 2.0]),
    "scalar_times_matrix": lambda q: q[0] * np.eye(2),
    "clip": lambda q: np.clip(q, -0.5, 0.5),
    "mean": lambda q: np.mean(q) + np.prod(q) + np.max(np.array([1.0, 2.0])),
    "block": lambda q: np.block([[q[0] * np.eye(2), np.zeros((2, 1))], [np.zeros((1, 2)), np.ones((1, 1))]]),
}


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_numpy_functions_of_symbols_agree_with_numbers(name):
    function = EXPRESSIONS[name]
    q = ca.SX.sym("q", 4)
    traced = ca.Function("f", [q], [to_sx(function(symbols(q, (4,))))])
    expected = np.asarray(function(VALUES), dtype=float)
    expected = expected.reshape(-1, 1) if expected.ndim < 2 else expected
    np.testing.assert_allclose(traced(VALUES).full(), expected, rtol=1e-15, atol=1e-15)


@given(st.lists(st.floats(-2, 2), min_size=6, max_size=6))
@settings(max_examples=30, deadline=None)
def test_matrix_parameters_keep_their_shape(values):
    x = ca.SX.sym("x", 6)
    function = lambda a: a @ a.T  # noqa: E731
    traced = ca.Function("f", [x], [to_sx(function(symbols(x, (2, 3))))])
    matrix = np.array(values).reshape(2, 3)
    np.testing.assert_allclose(traced(matrix.ravel()).full(), matrix @ matrix.T, atol=1e-14)


def test_casadi_values_are_accepted():
    q = ca.SX.sym("q", 4)
    s = symbols(q, (4,))
    value = to_sx(ca.vertcat(ca.sin(s[0]), s[1]))
    assert value.shape == (2, 1)
    assert to_sx([ca.sin(s[0]), s[1]]).shape == (2, 1)
    assert float(ca.evalf(ca.substitute(to_sx(ca.sumsqr(s)), q, ca.DM(VALUES)))) == pytest.approx(VALUES @ VALUES)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda q: q[0] if q[0] > 0 else 0.0, "np.where"),
        (lambda q: float(q[0]), "keep it symbolic"),
        (lambda q: [q[0], [q[1], 2.0]], "ragged"),
        (lambda q: q[17], "IndexError"),
        (lambda q: np.zeros((2, 2, 2)) * q[0], "3 dimensions"),
        (lambda q, *more: q[0], r"\*args"),
        (lambda q, /: q[0], "positional-only"),
        (lambda w: w, "unknown argument 'w'"),
        (lambda v: v, "cannot depend on 'v'"),
    ],
)
def test_bad_functions_are_refused_with_a_reason(function, message):
    q = symbols(ca.SX.sym("q", 4), (4,))
    with pytest.raises(ModelError, match=message):
        call("potential", function, {"q": q}, {"q": q, "v": q})


def test_defaults_and_constants():
    q = symbols(ca.SX.sym("q", 4), (4,))
    assert float(call("mass", 3.0, {"q": q}, {"q": q})) == 3.0
    assert call("mass", lambda q, k=2.0: k * q[0], {"q": q}, {"q": q}).shape == (1, 1)


@pytest.mark.parametrize("mode", [-1, 1])
def test_the_options_of_casadi_stay_as_they_are(mode):
    """Options of the whole process: what a program has set is left alone, also where a model fails."""
    before = ca.GlobalOptions.getNumpyMode()
    assert before == 0  # CasADi's default: importing changes nothing
    simplification = ca.GlobalOptions.getSimplificationOnTheFly()
    seen = []

    def potential(q):
        seen.append(ca.GlobalOptions.getNumpyMode())
        return np.sin(ca.sumsqr(q))

    ca.GlobalOptions.setNumpyMode(mode)
    try:
        system = da.Mechanical(2, mass=1.0, potential=potential, holonomic=lambda q: q @ q - 1)
        da.simulate(system, "rattle", q=[1.0, 0.0], v=[0.0, 1.0], t_end=0.1, step=0.01)
        assert ca.GlobalOptions.getNumpyMode() == mode
        with pytest.raises(da.ModelError):
            da.Mechanical(2, mass=1.0, potential=lambda q: undefined_name)  # noqa: F821
        assert ca.GlobalOptions.getNumpyMode() == mode
    finally:
        ca.GlobalOptions.setNumpyMode(before)
    assert set(seen) == {1}
    assert ca.GlobalOptions.getSimplificationOnTheFly() == simplification


def test_threads_do_not_mix_up_the_options_of_casadi():
    def build(k):
        return da.Mechanical(2, mass=1.0, potential=lambda q: np.cos(ca.sumsqr(q)) * (1 + k))

    with ThreadPoolExecutor(4) as pool:
        assert len(list(pool.map(build, range(40)))) == 40
    assert ca.GlobalOptions.getNumpyMode() == 0


def test_errors_name_the_line_of_the_model():
    def potential(q):
        if q[0] > 0:
            return q[0] ** 2
        return 0.0

    line = potential.__code__.co_firstlineno + 1
    with pytest.raises(ModelError, match=rf"np\.where.*\[test_tracing\.py, line {line}: if q\[0\] > 0:\]"):
        da.Mechanical(1, mass=1.0, potential=potential)
    with pytest.raises(ModelError, match=r"IndexError.*\[test_tracing\.py, line \d+: .*q\[3\]"):
        da.Mechanical(1, mass=1.0, potential=lambda q: q[3])


LONG_ARRAYS = {
    "a sum": lambda q: np.sum(q * q),
    "a sum by its method": lambda q: q.sum(),
    "along a short axis": lambda q: np.sum(q.reshape(100, 2) ** 2, axis=1),
    "along the last axis": lambda q: q.reshape(100, 2).sum(axis=-1),
    "along a long axis": lambda q: np.sum(q.reshape(100, 2), axis=0),
    "with dimensions kept": lambda q: np.sum(q, axis=0, keepdims=True),
    "neighbours": lambda q: q[1:] - q[:-1],
    "with numbers": lambda q: 2.0 * q + np.arange(200) / q - np.float64(2),
    "with one of them": lambda q: np.sin(q) * q[0] - np.cos(-q),
    "with fewer axes": lambda q: q.reshape(100, 2)[:, :1] * q.reshape(100, 2),
    "with comparisons": lambda q: np.add(q, 1) + (q > 0),
    "differences": lambda q: np.diff(q.reshape(50, 4), n=2, axis=0) + np.diff(q, prepend=0.5)[:4],
    "powers": lambda q: q**2 + (q**2 + 1) ** 1.5 - (q - 5.0) ** -3 + q ** np.arange(200),
    "roots": lambda q: np.sqrt(np.concatenate([[0.0], q[1:] ** 2])) + np.hypot(q, 0.0) + np.sqrt(np.abs(q)),
    "elementary": lambda q: np.exp(q) + np.tanh(q) * np.arctan2(q, q[0]) + np.maximum(q, 0.1) / np.cbrt(q),
    "logic": lambda q: np.logical_and(q > 0, q < 1) + np.heaviside(q, 0.5),
}


@pytest.mark.parametrize("name", LONG_ARRAYS)
def test_long_arrays_are_treated_at_once_with_the_same_bits(monkeypatch, name):
    x, f = ca.SX.sym("x", 200), LONG_ARRAYS[name]
    at = np.random.default_rng(0).normal(size=200)
    found = f(symbolic.symbols(x, (200,)))
    monkeypatch.setattr(symbolic, "LONG", 10**9)
    one_by_one = f(symbolic.symbols(x, (200,)))
    assert type(found) is type(one_by_one)
    assert np.shape(found) == np.shape(one_by_one) == np.shape(f(at))
    both = [symbolic.to_sx(np.ravel(v) if np.ndim(v) else v) for v in (found, one_by_one)]
    a, b = (np.array(v).ravel() for v in ca.Function("f", [x], [ca.densify(e) for e in both])(at))
    assert np.array_equal(a, b)
    assert a == pytest.approx(np.ravel(f(at)), rel=1e-13)


def test_long_arrays_keep_their_entries():
    """Entries of long columns are taken by their places: alone, mixed with numbers, of two columns, and few of many."""
    q, w = ca.SX.sym("q", 200), ca.SX.sym("w", 80)
    a, b = symbols(q, (100, 2)), symbols(w, (80,))
    rows = to_sx(np.vstack([np.zeros((1, 2)), a]))
    expected = ca.vertcat(ca.SX(1, 2), ca.reshape(q, 2, 100).T)
    assert rows.shape == expected.shape
    assert ca.is_equal(ca.densify(rows), ca.densify(expected), 1)
    assert ca.is_equal(to_sx(np.concatenate([b[::-1], a[:, 1]])), ca.vertcat(w[::-1], q[1::2]), 1)
    assert ca.is_equal(to_sx([a[3, 1], b[7]]), ca.vertcat(q[7], w[7]), 1)
    assert ca.is_equal((a[5, 0] * b[2]).sx, q[10] * w[2], 1)
