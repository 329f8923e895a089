"""Tables in models: values, derivatives of all orders, ends, and the same compiled, interpreted and read from a file."""

import pickle

import casadi as ca
import numpy as np
import pytest
from scipy.interpolate import CubicSpline, RectBivariateSpline, RegularGridInterpolator

import dalembert as da
from dalembert.errors import FileError
from dalembert.systems.lookup import OUTSIDE, read

RNG = np.random.default_rng(7)
X = np.sort(RNG.uniform(-3.0, 3.0, 40))
Y = np.sin(2 * X) + X
INSIDE = RNG.uniform(X[0], X[-1], (6, 5))


def spring(kind="cubic", **options):
    x = np.linspace(-3.0, 3.0, 25)
    return da.table(x, x**2 / 2 + 0.1 * x**4, kind=kind, **options)


def oscillator(table):
    return da.Mechanical(("x",), mass=1.0, potential=lambda q: table(q[0]), name="oscillator")


START = {"q": [1.0], "v": [0.0], "step": 0.01}


def test_values_are_those_of_numpy_and_scipy():
    assert np.abs(da.table(X, Y)(INSIDE) - np.interp(INSIDE, X, Y)).max() < 1e-14
    assert np.abs(da.table(X, Y, kind="cubic")(INSIDE) - CubicSpline(X, Y)(INSIDE)).max() < 1e-14
    for kind in ("linear", "cubic"):
        np.testing.assert_array_equal(da.table(X, Y, kind=kind)(X), Y)
    assert isinstance(da.table(X, Y)(0.5), float)


@pytest.mark.parametrize("kind", ["linear", "cubic"])
def test_tables_of_two_variables(kind):
    x, y = np.linspace(0.0, 1.0, 9), np.sort(RNG.uniform(0.0, 2.0, 7))
    z = np.sin(3 * x)[:, None] * np.cos(y)
    at = RNG.uniform(0.0, 1.0, 50), RNG.uniform(y[0], y[-1], 50)
    if kind == "linear":
        expected = RegularGridInterpolator((x, y), z)(np.stack(at, axis=1))
    else:
        expected = RectBivariateSpline(x, y, z, s=0)(*at, grid=False)
    assert np.abs(da.table(x, y, z, kind=kind)(*at) - expected).max() < 1e-13


def test_derivatives_are_those_of_the_spline():
    table, spline, q = da.table(X, Y, kind="cubic"), CubicSpline(X, Y), ca.SX.sym("q")
    orders = [table.function(q)]
    for _ in range(3):
        orders.append(ca.jacobian(orders[-1], q))
    found = ca.Function("f", [q], orders).map(30)(INSIDE.reshape(1, -1))
    for order, values in enumerate(found):
        expected = spline(INSIDE.ravel(), order)
        assert np.abs(np.array(values).ravel() - expected).max() < 1e-9 * np.abs(expected).max(), order


def test_derivatives_in_two_variables():
    x, y = np.linspace(0.0, 1.0, 9), np.linspace(0.0, 2.0, 8)
    z = np.exp(x)[:, None] * np.cos(y)
    table, spline, q = da.table(x, y, z, kind="cubic"), RectBivariateSpline(x, y, z, s=0), ca.SX.sym("q", 2)
    hessian, gradient = ca.hessian(table.function(q[0], q[1]), q)
    g, H = ca.Function("f", [q], [gradient, hessian])([0.43, 1.21])
    expected = [spline(0.43, 1.21, dx=i, dy=j)[0, 0] for i, j in ((1, 0), (0, 1), (2, 0), (1, 1), (0, 2))]
    found = [*np.array(g).ravel(), *(float(H[i, j]) for i, j in ((0, 0), (0, 1), (1, 1)))]
    np.testing.assert_allclose(found, expected, rtol=1e-10)


@pytest.mark.parametrize("kind", ["linear", "cubic"])
def test_beyond_the_ends(kind):
    slope = CubicSpline(X, Y)(X[-1], 1) if kind == "cubic" else (Y[-1] - Y[-2]) / (X[-1] - X[-2])
    assert da.table(X, Y, kind=kind, outside="extend")(X[-1] + 2.0) == pytest.approx(Y[-1] + 2 * slope, abs=1e-12)
    assert da.table(X, Y, kind=kind, outside="hold")(X[0] - 1.0) == Y[0]
    with pytest.raises(da.ModelError, match=r"the table 'damper' is asked for 9, outside of its range -2\.\d+ .. 2\.\d+"):
        da.table(X, Y, kind=kind, name="damper")(9.0)
    phase = np.linspace(0.0, 2 * np.pi, 41)
    values = np.r_[np.cos(phase[:-1]), 1.0]
    wave = da.table(phase, values, kind=kind, outside="periodic")
    times = np.linspace(-20.0, 20.0, 99)
    assert np.abs(wave(times) - np.cos(times)).max() < (1e-5 if kind == "cubic" else 4e-3)


def test_a_table_of_two_variables_goes_on_along_its_tangent():
    x, y = np.linspace(0.0, 1.0, 5), np.linspace(0.0, 1.0, 4)
    plane = 1 + 2 * x[:, None] - 3 * y
    for kind in ("linear", "cubic"):
        assert da.table(x, y, plane, kind=kind, outside="extend")(3.0, -1.0) == pytest.approx(10.0, abs=1e-12)
    with pytest.raises(da.ModelError, match="asked for 2 in its variable 2"):
        da.table(x, y, plane)(0.5, 2.0)


@pytest.mark.parametrize("method", ["rattle", "gauss-2", "energy-momentum", "rk4"])
def test_compiled_and_interpreted_runs_agree(method):
    system = oscillator(spring())
    plain, newton, swept = (
        da.simulate(system, method, t_end=2.0, compile=compile, **START) for compile in (False, "newton", True)
    )
    assert plain.stats["engine"] == "virtual machine"
    assert newton.stats["engine"] == "compiled"
    np.testing.assert_array_equal(newton.q, plain.q)
    assert np.abs(swept.q - plain.q).max() < 1e-14
    if method == "energy-momentum":
        assert np.abs(plain.energy - plain.energy[0]).max() < 1e-14


def test_a_spline_of_a_polynomial_of_degree_three_is_that_polynomial():
    x = np.linspace(-3.0, 3.0, 9)
    table = da.table(x, x**2 / 2 + x**3 / 30, kind="cubic")
    exact = da.Mechanical(("x",), mass=1.0, potential=lambda q: q[0] ** 2 / 2 + q[0] ** 3 / 30)
    runs = [da.simulate(s, "gauss-3", t_end=5.0, **START) for s in (oscillator(table), exact)]
    assert np.abs(runs[0].q - runs[1].q).max() < 1e-13
    slopes = [da.sensitivity(s, "gauss-3", t_end=1.0, **START).jacobian("q", "q") for s in (oscillator(table), exact)]
    np.testing.assert_allclose(slopes[0], slopes[1], rtol=1e-11)


@pytest.mark.parametrize("kind", ["linear", "cubic"])
def test_tables_are_in_files_and_in_other_forms_of_the_system(kind):
    system = oscillator(spring(kind))
    again = pickle.loads(pickle.dumps(system))
    assert again.dumps() == system.dumps()
    expected = da.simulate(system, "gauss-2", t_end=0.5, **START).q
    np.testing.assert_array_equal(da.simulate(again, "gauss-2", t_end=0.5, **START).q, expected)
    hamiltonian = pickle.loads(pickle.dumps(system.to_hamiltonian()))
    found = da.simulate(hamiltonian, "gauss-2", q=[1.0], p=[0.0], t_end=0.5, step=0.01).q
    assert np.abs(found - expected).max() < 1e-14
    ports = pickle.loads(pickle.dumps(system.to_port_hamiltonian()))  # its costates are derivatives of the table
    assert "adj1" in ports.dumps()
    assert np.abs(da.simulate(ports, "gauss-2", x=[1.0, 0.0], t_end=0.5, step=0.01).x[:, :1] - expected).max() < 1e-14


def test_equal_tables_are_one():
    assert spring() is spring()
    assert spring() is not spring("linear")


GOOD = {"grids": [[0.0, 1.0]], "values": [0.0, 2.0], "kind": "linear", "outside": "error", "name": ""}


@pytest.mark.parametrize(
    "change",
    [{"grids": [[1.0, 0.0]]}, {"grids": []}, {"values": [1.0]}, {"kind": "quintic"}, {"outside": 3}, {"values": [0.0, "a"]}],
)
def test_damaged_tables_are_refused(change):
    assert read(GOOD)(0.5) == 1.0
    with pytest.raises(FileError):
        read({**GOOD, **change})


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: da.table([0, 1, 1], [1, 2, 3]), "x of a table must increase: its entries 2 and 3 are 1 and 1"),
        (lambda: da.table([0, 1], [1, 2, 3]), r"y of a table has the shape \(3,\); its points are 2"),
        (lambda: da.table([0], [1]), "two points at least"),
        (lambda: da.table([0, 1], [1, np.nan]), "not finite"),
        (lambda: da.table([0, 1], [0, 1, 2], [[1, 2], [3, 4]]), "its points are 2 x 3"),
        (lambda: da.table([0, 1], [0, 1], kind="quadratic"), "kind"),
        (lambda: da.table([0, 1], [0, 1], outside="zero"), "outside"),
        (lambda: da.table([0, 1], [0, 1], outside="periodic"), "must end as it begins: its first value is 0, its last 1"),
        (lambda: da.table([0, 1], [0, 1], [[1, 2], [3, 4]], outside="periodic"), "one variable"),
        (lambda: da.table([0, 1], [0, 1])(1, 2), "is a function of 1 variables, not of 2"),
        (lambda: da.table([0, 1], [0, 1], knid="linear"), "kind"),
    ],
)
def test_bad_tables_are_refused(call, message):
    with pytest.raises(da.DalembertError, match=message):
        call()


def test_interp_is_that_of_numpy():
    xs, ys = [-2.0, -1.0, 0.5, 3.0], [1.0, -1.0, 0.0, 2.0]
    at = np.array([-5.0, 0.1, 4.0])
    calls = [
        lambda q: np.interp(q, xs, ys),
        lambda q: np.interp(q, xs, ys, left=-7.0, right=6.0),
        lambda q: np.interp(q, xs, ys, period=4.5),
        lambda q: np.interp(q, [q[0], 0.0, 1.0], [q[0], q[1], 2.0]),
    ]
    for call in calls:
        system = da.Mechanical(3, mass=1.0, force=call)
        found = ca.Function("f", [system.q], [system.expression("force")])(at)
        np.testing.assert_allclose(np.array(found).ravel(), call(at), atol=1e-15)


def test_values_of_a_table_may_be_parameters():
    points, heights = [-3.0, -1.0, 0.0, 1.0, 3.0], -np.arange(-2.0, 3.0)
    system = da.Mechanical(("x",), mass=1.0, force=lambda q, ys: [np.interp(q[0], points, ys)], parameters={"ys": heights})
    run = {"q": [1.5], "v": [0.0], "t_end": 1.0, "step": 0.02}
    found = da.sensitivity(system, "gauss-2", **run).jacobian("q", "ys").ravel()
    for k, change in enumerate(1e-6 * np.eye(5)):
        ends = [da.simulate(system, "gauss-2", parameters={"ys": heights + c}, **run).q[-1, 0] for c in (change, -change)]
        assert (ends[0] - ends[1]) / 2e-6 == pytest.approx(found[k], abs=1e-8)


BENT = {kind: np.array([0.0, 1.0, 3.0, 0.0]) if kind == "periodic" else np.array([0.0, 1.0, 3.0, 4.0]) for kind in OUTSIDE}


@pytest.mark.parametrize("kind", ["linear", "cubic"])
@pytest.mark.parametrize("outside", OUTSIDE)
@pytest.mark.parametrize("place", ["potential", "mass"])
def test_second_derivatives_of_a_run_through_a_table(kind, outside, place):
    """Third derivatives of a table are used there: those that vanish must not leave anything else in their place."""
    table = da.table([-2.0, -0.5, 1.0, 2.0], BENT[outside], kind=kind, outside=outside)
    if place == "potential":
        system = da.Mechanical(1, mass=1.0, potential=lambda q, k: k * table(q[0]) + q @ q, parameters={"k": 0.7})
    else:
        system = da.Mechanical(1, mass=lambda q, k: [3 + k * table(q[0])], potential=lambda q: q @ q, parameters={"k": 0.7})
    options = {"q": [0.6], "v": [0.4], "t_end": 0.4, "step": 0.05}

    def slope(k):
        run = da.sensitivity(system, "rattle", parameters={"k": k}, compile=False, **options)
        return run.gradient(lambda q, v: q @ v)["k"]

    e = 1e-3
    wide, narrow = ((slope(0.7 + d) - slope(0.7 - d)) / (2 * d) for d in (2 * e, e))
    for compile in (False, True):
        found = da.sensitivity(system, "rattle", compile=compile, **options).hessian_product({"k": 1.0}, lambda q, v: q @ v)
        assert found["k"] == pytest.approx((4 * narrow - wide) / 3, rel=1e-8)


@pytest.mark.parametrize("gradient", ["equivariant", "gonzalez", "mean-value"])
def test_tables_of_two_variables_keep_the_energy(gradient):
    x = np.linspace(-2.0, 2.0, 9)
    table = da.table(x, x, np.cos(x[:, None]) * x, kind="cubic")
    system = da.Mechanical(2, mass=1.0, potential=lambda q: table(q[0], q[1]) + q @ q)
    method = da.methods.EnergyMomentum(gradient=gradient)
    runs = [da.simulate(system, method, q=[0.3, 0.2], v=[0.0, 0.0], t_end=1.0, step=0.01, compile=c) for c in (False, True)]
    for sol in runs:
        assert np.ptp(sol.energy) < 1e-13
    np.testing.assert_array_equal(runs[0].q, runs[1].q)


def parabola():
    """A table and the polynomial that it is."""
    x = np.linspace(-2.0, 2.0, 9)
    return da.table(x, 0.3 * x**2 - 0.1 * x**3, kind="cubic"), lambda x: 0.3 * x**2 - 0.1 * x**3


@pytest.mark.parametrize("compile", [False, True])
@pytest.mark.parametrize("place", ["holonomic", "nonholonomic", "kinematics"])
def test_tables_in_constraints_are_what_they_stand_for(place, compile):
    """What is linear in velocities or multipliers is seen to be so with a table as its factor."""
    table, formula = parabola()

    def run(f):
        if place == "holonomic":
            system = da.Mechanical(2, mass=1.0, potential=lambda q: q @ q, holonomic=lambda q: f(q[0]) + q[1] - 0.3)
            method, start = "lobatto-pair-3", da.consistent(system, q=[0.4, 0.3], v=[0.5, -0.2])
        elif place == "nonholonomic":
            system = da.Mechanical(2, mass=1.0, potential=lambda q: q @ q, nonholonomic=lambda q, v: v[1] - f(q[0]) * v[0])
            method, start = "spark-2", da.consistent(system, q=[0.4, 0.3], v=[0.5, 0.0])
        else:
            Z = lambda q: np.array([[1 + f(q[0]), 0.0], [0.2 * f(q[1]), 1.0]])  # noqa: E731
            system = da.Mechanical(2, mass=1.0, potential=lambda q: q @ q, kinematics=Z)
            method, start = "gauss-2", {"q": [0.1, 0.2], "v": [0.1, 0.3]}
        return da.simulate(system, method, t_end=1.0, step=0.01, compile=compile, **start)

    own, other = run(table), run(formula)
    np.testing.assert_allclose(own.q, other.q, rtol=0, atol=1e-12)
    np.testing.assert_allclose(own.v, other.v, rtol=0, atol=1e-12)
