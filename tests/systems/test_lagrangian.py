"""Lagrangian modelling and models from SymPy."""

import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sympy.physics.mechanics import (
    KanesMethod,
    LagrangesMethod,
    Point,
    ReferenceFrame,
    RigidBody,
    dynamicsymbols,
    inertia,
)

import dalembert as da
from conftest import angle_pendulum


def double(**options):
    def L(q, v, m1, m2, l1, l2, g):
        c = np.cos(q[0] - q[1])
        kinetic = (m1 + m2) * l1**2 * v[0] ** 2 / 2 + m2 * l2**2 * v[1] ** 2 / 2 + m2 * l1 * l2 * c * v[0] * v[1]
        return kinetic + g * ((m1 + m2) * l1 * np.cos(q[0]) + m2 * l2 * np.cos(q[1]))

    parameters = {"m1": 3.0, "m2": 1.0, "l1": 1.0, "l2": 1.0, "g": 9.81}
    return da.Lagrangian(("a", "b"), lagrangian=L, parameters=parameters, initial={"q": [0.7, -0.4], "v": [0.3, 1.1]}, **options)


def test_a_lagrangian_is_the_mechanical_system_it_says():
    a, b = (da.simulate(s, "gauss-3", t_end=1.0, step=0.02) for s in (double(), angle_pendulum()))
    np.testing.assert_allclose(a.q, b.q, atol=1e-13)
    np.testing.assert_allclose(a.energy, b.energy, atol=1e-12)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.floats(-2, 2), min_size=4, max_size=4))
def test_mass_rate_less_twice_coriolis_is_skew(values):
    e = double().equations()
    q, v = np.array(values[:2]), np.array(values[2:])
    S = e.mass_rate(q, v) - 2 * e.coriolis(q, v)
    assert np.abs(S + S.T).max() < 1e-12
    f = da.analysis.ode(double())
    a = np.linalg.solve(e.mass(q), -e.coriolis(q, v) @ v - e.forces(q))
    np.testing.assert_allclose(f(0.0, np.concatenate([q, v]))[2:], a, atol=1e-10)


def test_printed_equations():
    e = double().equations()
    assert "cos(a - b)" in str(e)
    assert r"\cos" in e.latex()
    parts = e.sympy()
    assert parts["M"].shape == (2, 2)


def test_point_mass_in_two_coordinate_systems():
    """Example 7 and 10 of Bertolazzi et al.: Cartesian and polar coordinates give the same motion."""
    cartesian = da.Lagrangian(2, lagrangian=lambda q, v: v @ v / 2 - 9.81 * q[1])
    polar = da.Lagrangian(2, lagrangian=lambda q, v: (v[0] ** 2 + q[0] ** 2 * v[1] ** 2) / 2 - 9.81 * q[0] * np.sin(q[1]))
    a = da.simulate(cartesian, "gauss-4", q=[1.0, 1.0], v=[0.5, 2.0], t_end=0.5, step=0.01)
    r, phi = np.sqrt(2), np.pi / 4
    b = da.simulate(polar, "gauss-4", q=[r, phi], v=[2.5 / r, (1.0 * 2.0 - 1.0 * 0.5) / 2], t_end=0.5, step=0.01)
    x = np.stack([b.q[:, 0] * np.cos(b.q[:, 1]), b.q[:, 0] * np.sin(b.q[:, 1])], axis=1)
    np.testing.assert_allclose(x, a.q, atol=1e-10)


def test_linear_terms_are_gyroscopic():
    field = da.Lagrangian(2, lagrangian=lambda q, v, w: v @ v / 2 + w * (q[0] * v[1] - q[1] * v[0]) / 2, parameters={"w": 2.0})
    sol = da.simulate(field, "gauss-4", q=[1.0, 0.0], v=[0.0, -1.0], t_end=np.pi, step=np.pi / 50)
    # v turns with -w: x = 1 + (cos(w t) - 1) / w, y = -sin(w t) / w; the sign shows within the period
    circle = np.stack([1 + (np.cos(2 * sol.t) - 1) / 2, -np.sin(2 * sol.t) / 2], axis=1)
    np.testing.assert_allclose(sol.q, circle, atol=1e-12)
    assert np.abs((sol.v**2).sum(axis=1) - 1).max() < 1e-13


def test_linear_terms_of_time_are_forces():
    """`L = v^2 / 2 + t^2 v`: p = v + t^2 is constant, so that v' = -2 t; the same with a term that is not quadratic in v."""
    plain = da.Lagrangian(1, lagrangian=lambda v, t: v[0] ** 2 / 2 + t**2 * v[0])
    sol = da.simulate(plain, "gauss-3", q=[0.0], v=[1.0], t_end=1.5, step=0.1)
    np.testing.assert_allclose(sol.v[:, 0], 1 - sol.t**2, atol=1e-13)
    np.testing.assert_allclose(sol.q[:, 0], sol.t - sol.t**3 / 3, atol=1e-13)
    growing = da.Lagrangian(1, lagrangian=lambda v, t: (1 + t) * v[0] ** 2 / 2)
    sol = da.simulate(growing, "gauss-4", y=[0.0, 1.0], t_end=1.0, step=0.05)
    np.testing.assert_allclose(sol.y[:, 1], 1 / (1 + sol.t), atol=1e-12)
    np.testing.assert_allclose(sol.y[:, 0], np.log1p(sol.t), atol=1e-12)


def test_momenta_that_depend_on_the_position():
    """`L = v^4 / 12 + q v^2 / 2`: its energy `v^4 / 4 + q v^2 / 2` is kept, and so is the motion from SciPy's equation."""
    from scipy.integrate import solve_ivp

    system = da.Lagrangian(1, lagrangian=lambda q, v: v[0] ** 4 / 12 + q[0] * v[0] ** 2 / 2)
    sol = da.simulate(system, "gauss-4", y=[1.0, 0.8], t_end=1.0, step=0.02)
    q, v = sol.y.T
    np.testing.assert_allclose(v**4 / 4 + q * v**2 / 2, 0.8**4 / 4 + 0.8**2 / 2, rtol=1e-12)
    # p = v^3 / 3 + q v, p' = v^2 / 2: (v^2 + q) v' = -v^2 / 2
    truth = solve_ivp(lambda t, y: [y[1], -(y[1] ** 2) / 2 / (y[1] ** 2 + y[0])], (0, 1), [1.0, 0.8], rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(sol.y[-1], truth.y[:, -1], atol=1e-10)


def test_any_lagrangian_with_constraints():
    free = da.Lagrangian(1, lagrangian=lambda q, v: -np.sqrt(1 - v[0] ** 2) - q[0] ** 2 / 2)
    sol = da.simulate(free, "gauss-3", y=[1.0, 0.0], t_end=5.0, step=0.01)
    energy = 1 / np.sqrt(1 - sol.y[:, 1] ** 2) + sol.y[:, 0] ** 2 / 2
    assert np.abs(energy - energy[0]).max() < 1e-12
    tied = da.Lagrangian(2, lagrangian=lambda q, v: -np.sqrt(1 - v @ v) - q[1] / 5, holonomic=lambda q: q @ q - 1)
    sol = da.simulate(tied, "radau-iia-3", y=[1.0, 0.0, 0.0, 0.0], t_end=2.0, step=0.01)
    assert np.abs((sol.y[:, :2] ** 2).sum(axis=1) - 1).max() < 1e-13
    v = sol.y[:, 2:]
    energy = 1 / np.sqrt(1 - (v**2).sum(axis=1)) + sol.y[:, 1] / 5
    assert np.abs(energy - energy[0]).max() < 1e-13


def test_a_coordinate_without_kinetic_energy_is_named():
    with pytest.raises(da.ModelError, match="no kinetic energy in 'b'"):
        da.Lagrangian(("a", "b"), lagrangian=lambda q, v: v[0] ** 2 / 2 - q[1] ** 2)


def test_sympy_double_pendulum_with_constraints():
    """In Cartesian coordinates, with holonomic constraints: SymPy's own right-hand side, to 1e-12."""
    x1, y1, x2, y2 = dynamicsymbols("x1 y1 x2 y2")
    m, g, t = sp.symbols("m g")[0], sp.symbols("g"), dynamicsymbols._t
    L = m * sum(c.diff(t) ** 2 for c in (x1, y1, x2, y2)) / 2 - m * g * (y1 + y2)
    method = LagrangesMethod(L, [x1, y1, x2, y2], hol_coneqs=[x1**2 + y1**2 - 1, (x2 - x1) ** 2 + (y2 - y1) ** 2 - 1])
    method.form_lagranges_equations()
    system = da.from_sympy(method, parameters={m: 2.0, g: 9.81})
    assert system.mh == 2
    y = np.array([0.8, -0.6, 1.4, -1.4, 0.3, 0.4, -0.1, 0.7])
    rhs = sp.lambdify([x1, y1, x2, y2, *(c.diff(t) for c in (x1, y1, x2, y2))], method.rhs().subs({m: 2.0, g: 9.81}))
    np.testing.assert_allclose(da.analysis.ode(system)(0.0, y), np.array(rhs(*y), dtype=float).ravel()[:8], atol=1e-11)
    start = da.consistent(system, q=y[:4], v=y[4:])
    sol = da.simulate(system, "lobatto-pair-3", **start, t_end=1.0, step=0.01)
    assert np.abs(sol.residual("position")).max() < 1e-13


def test_sympy_lagrangian_forces_and_nonholonomic():
    x, y, th, t = *dynamicsymbols("x y theta"), dynamicsymbols._t
    m, J = sp.symbols("m J")
    L = m * (x.diff(t) ** 2 + y.diff(t) ** 2) / 2 + J * th.diff(t) ** 2 / 2
    method = LagrangesMethod(L, [x, y, th], nonhol_coneqs=[x.diff(t) * sp.sin(th) - y.diff(t) * sp.cos(th)])
    method.form_lagranges_equations()
    skate = da.from_sympy(method, parameters={m: 1.0, J: 2.0})
    assert skate.mn == 1
    sol = da.simulate(skate, "spark-3", q=[0, 0, 0], v=[1.0, 0.0, 0.5], t_end=1.0, step=0.01)
    np.testing.assert_allclose(sol.q[-1, :2], [np.sin(0.5) / 0.5, (1 - np.cos(0.5)) / 0.5], atol=1e-9)
    plain = da.from_sympy(L - m * 9.81 * y, [x, y, th], parameters={"m": 1.0, "J": 2.0})
    assert da.simulate(plain, "rattle", q=[0, 0, 0], v=[0, 0, 0], t_end=1.0, step=0.1).q[-1, 1] == pytest.approx(-9.81 / 2)
    N, push = ReferenceFrame("N"), Point("P")
    push.set_vel(N, x.diff(t) * N.x)
    pushed = LagrangesMethod(m * x.diff(t) ** 2 / 2, [x], forcelist=[(push, 3 * N.x)], frame=N)
    pushed.form_lagranges_equations()
    sol = da.simulate(da.from_sympy(pushed, parameters={m: 2.0}), "rattle", q=[0.0], v=[0.5], t_end=1.0, step=0.1)
    assert sol.q[-1, 0] == pytest.approx(0.5 + 3 / 2 / 2, abs=1e-14)  # a force of +3 pushes forwards
    with pytest.raises(da.ModelError, match="the parameter 'J': give its value"):
        da.from_sympy(L, [x, y, th], parameters={m: 1.0})


def test_unknown_keywords_are_named():
    with pytest.raises(da.UnknownKeyword, match=r"Lagrangian has no keyword 'holonomik'; did you mean 'holonomic'\?"):
        da.Lagrangian(1, lagrangian=lambda v: v[0] ** 2, holonomik=1.0)
    with pytest.raises(da.UnknownKeyword, match=r"from_sympy has no keyword 'parameter'; did you mean 'parameters'\?"):
        da.from_sympy(sp.Integer(1), [], parameter={})
    with pytest.raises(da.UnknownKeyword, match=r"IndexOneDAE has no keyword 'algebraics'; did you mean 'algebraic'\?"):
        da.IndexOneDAE(1, f=lambda y: -y, g=lambda y, z: z - y, algebraics=1)


def test_what_a_sympy_model_takes_beside_its_equations():
    x, m, t = dynamicsymbols("x"), sp.Symbol("m"), dynamicsymbols._t
    damped = da.from_sympy(
        m * x.diff(t) ** 2 / 2, [x], {m: 2.0}, dissipation=0.5, name="damped", initial={"q": [0.0], "v": [1.0]}
    )
    assert damped.name == "damped"
    sol = da.simulate(damped, "gauss-3", t_end=1.0, step=0.1)
    assert sol.v[-1, 0] == pytest.approx(np.exp(-0.25), abs=1e-12)
    with pytest.raises(da.ModelError, match="only name and initial"):
        da.from_sympy(rolling_disc()[0], parameters={"r": 0.5, "m": 2.0, "g": 9.81}, inputs=1)


def rolling_disc():
    """The rolling disc of SymPy's documentation (Kane's method with speeds u1, u2, u3)."""
    q1, q2, q3 = dynamicsymbols("q1 q2 q3")
    q1d, q2d, q3d = dynamicsymbols("q1 q2 q3", 1)
    u1, u2, u3 = dynamicsymbols("u1 u2 u3")
    r, m, g = sp.symbols("r m g")
    N = ReferenceFrame("N")
    Y = N.orientnew("Y", "Axis", [q1, N.z])
    L = Y.orientnew("L", "Axis", [q2, Y.x])
    R = L.orientnew("R", "Axis", [q3, L.y])
    w = R.ang_vel_in(N)
    R.set_ang_vel(N, u1 * L.x + u2 * L.y + u3 * L.z)
    C = Point("C")
    C.set_vel(N, 0)
    disc = C.locatenew("Dmc", r * L.z)
    disc.v2pt_theory(C, N, R)
    moment = inertia(L, m / 4 * r**2, m / 2 * r**2, m / 4 * r**2)
    kd = [w.dot(uv) - u for uv, u in ((L.x, u1), (L.y, u2), (L.z, u3))]
    body = RigidBody("BodyD", disc, R, m, (moment, disc))
    kane = KanesMethod(N, q_ind=[q1, q2, q3], u_ind=[u1, u2, u3], kd_eqs=kd)
    kane.kanes_equations([body], [(disc, -m * g * Y.z)])
    del q1d, q2d, q3d
    return kane, (r, m, g)


def test_sympy_rolling_disc_by_kane():
    kane, (r, m, g) = rolling_disc()
    values = {r: 0.5, m: 2.0, g: 9.81}
    system = da.from_sympy(kane, parameters=values)
    y = np.array([0.2, 0.3, 0.1, 0.4, -0.5, 0.7])
    rhs = sp.lambdify([*kane.q, *kane.u], kane.rhs().subs(values))
    want = np.array(rhs(*y), dtype=float).ravel()
    start = da.consistent(system, y=y)
    np.testing.assert_allclose(start.z, want[3:], atol=1e-12)
    np.testing.assert_allclose(system.numeric("rhs", system.pack(), y=y, z=start.z)[0], want, atol=1e-12)
    sol = da.simulate(system, "gauss-3", **start, t_end=0.5, step=0.01)
    from scipy.integrate import solve_ivp

    truth = solve_ivp(lambda t, y: np.array(rhs(*y), dtype=float).ravel(), (0, 0.5), y, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(sol.y[-1], truth.y[:, -1], atol=1e-9)


def test_text_is_not_run(tmp_path):
    """SymPy runs text as Python when it is asked to make an expression of it."""
    from sympy.physics.mechanics import dynamicsymbols

    marker = tmp_path / "marker"

    class Says:
        def __str__(self):
            return f"open({str(marker)!r}, 'w')"

    for model in (str(Says()), Says(), [str(Says())], {"a": str(Says())}, None):
        with pytest.raises(da.ModelError, match="SymPy expression"):
            da.from_sympy(model, [dynamicsymbols("q")])
    assert not marker.exists()


def test_a_symbol_that_is_a_word_of_pythons_becomes_a_parameter():
    q, word = dynamicsymbols("q"), sp.Symbol("lambda")
    system = da.from_sympy(q.diff() ** 2 / 2 - word * q**2 / 2, [q], parameters={word: 4.0})
    assert system.parameters == {"lambda_": 4.0}
    sol = da.simulate(system, "gauss-3", q=[1.0], v=[0.0], t_end=1.0, step=0.05)
    assert sol.q[-1, 0] == pytest.approx(np.cos(2.0), abs=1e-9)


def test_symbols_with_the_names_of_our_own_ones():
    q, odd = dynamicsymbols("q"), sp.Symbol("qq0", positive=True)
    system = da.from_sympy(q.diff() ** 2 / 2 - odd * q**2 / 2, [q], parameters={odd: 4.0})
    assert da.simulate(system, "gauss-3", q=[1.0], v=[0.0], t_end=1.0, step=0.05).q[-1, 0] == pytest.approx(np.cos(2.0), abs=1e-9)
    twice = q.diff() ** 2 / 2 - sp.Symbol("k") * q - sp.Symbol("k", positive=True) * q**2
    with pytest.raises(da.ModelError, match="two symbols called 'k'"):
        da.from_sympy(twice, [q], parameters={"k": 1.0})


@pytest.mark.parametrize("model", ["__import__('pathlib').Path('evaluated').touch()", "q", 5, None])
def test_texts_are_not_evaluated(model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(da.ModelError, match="must be a SymPy expression"):
        da.from_sympy(model, [dynamicsymbols("q")])
    with pytest.raises(da.ModelError, match="must be functions of time"):
        da.from_sympy(dynamicsymbols("q").diff() ** 2, ["__import__('pathlib').Path('evaluated').touch()"])
    assert not list(tmp_path.iterdir())
    with pytest.raises(da.ModelError, match="parameter 'm' must be a number"):
        da.from_sympy(dynamicsymbols("q").diff() ** 2, [dynamicsymbols("q")], parameters={"m": "1.0"})
