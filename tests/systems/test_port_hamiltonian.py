"""Port-Hamiltonian systems: structure, transformations, from mechanics, files."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.optimize import brentq

import dalembert as da
from conftest import angle_pendulum, assert_order, polar_rod

H = {"hamiltonian": lambda x: (x[0] ** 2 + x[1] ** 2) / 2}
SKEW = [[0, 1], [-1, 0]]


def oscillator(**options):
    return da.PortHamiltonian(
        ("q", "p"), hamiltonian=lambda x, k: x[1] ** 2 / 2 + k * x[0] ** 4 / 4, J=SKEW,
        R=lambda x: [[0, 0], [0, 0.1 + x[0] ** 2]], B=[[0], [1]], parameters={"k": 2.0}, initial={"x": [1.0, 0.5]}, **options,
    )  # fmt: skip


def test_structure_is_checked_and_the_entry_named():
    cases = [
        ({**H, "J": [[0, 1], [1, 0]]}, r"J is not skew: entry \(1, 2\) is 1, entry \(2, 1\) is 1"),
        ({**H, "J": SKEW, "R": [[0, 0], [0, -1]]}, r"R is not positive semidefinite \(eigenvalue -1\)"),
        ({**H, "J": SKEW, "R": [[0, 1], [0, 1]]}, "R is not symmetric"),
        ({**H, "J": SKEW, "z": lambda x: [x[0], 2 * x[1]]}, r"E\^T z is not the gradient.*entry 2 \('q1'\)"),
        ({**H, "J": SKEW, "B": [[1], [0], [0]]}, "B has the shape"),
        ({**H, "J": SKEW, "B": [[1], [0]], "P": [[1], [0]]}, r"\[R P; P\^T S\] is not positive semidefinite"),
        ({**H, "J": SKEW, "B": [[1], [0]], "ports": ("a", "b")}, "ports must be 1 different names"),
        ({**H, "J": SKEW, "E": [[1, 0], [1, 0]]}, "rows and 1 columns"),
        ({"hamiltonian": lambda x: [x[0], x[1]]}, "one number"),
        ({"hamiltonian": lambda x, t: (2 + np.sin(t)) * x[0] ** 2, "J": SKEW, "r": lambda x: [0 * x[0], 0.0]}, r"z \. r is"),
    ]
    for options, message in cases:
        with pytest.raises(da.ModelError, match=message):
            da.PortHamiltonian(2, **options)
    with pytest.raises(da.UnknownKeyword, match="did you mean"):
        da.PortHamiltonian(2, **H, hamiltonan=1)


def test_bad_starts():
    with pytest.raises(da.InconsistentState, match=r"give x=\.\.\."):
        da.simulate(da.PortHamiltonian(2, **H, J=SKEW), "discrete-gradient", t_end=1, step=0.1)
    with pytest.raises(da.InconsistentState, match=r"q is no initial value of .*it starts from x"):
        da.simulate(oscillator(), "discrete-gradient", q=[1, 0], v=[0, 0], t_end=1, step=0.1)
    with pytest.raises(da.InconsistentState, match=r"x is no initial value of .*it starts from q and v"):
        da.simulate(da.catalog.simple_pendulum(), "rattle", x=[1, 0], t_end=1, step=0.1)
    with pytest.raises(da.MethodError, match=r"rattle cannot treat a port-hamiltonian system; use .*discrete-gradient"):
        da.simulate(oscillator(), "rattle", t_end=1, step=0.1)


def test_files(tmp_path):
    for system in (oscillator(), da.catalog.double_pendulum().to_port_hamiltonian()):
        sol = da.simulate(system, "discrete-gradient", t_end=0.5, step=0.05)
        again = da.load(sol.save(tmp_path / "x.nc"))
        np.testing.assert_array_equal(again.x, sol.x)
        assert again.system.parts == system.parts
        np.testing.assert_array_equal(again.outputs, sol.outputs)
        np.testing.assert_allclose(again.power_balance, sol.power_balance, atol=1e-16)
        assert again.system.ports == system.ports
        np.testing.assert_array_equal(again.residual("position"), sol.residual("position"))


@pytest.mark.parametrize("make", [da.catalog.double_pendulum, da.catalog.four_particles_damped, angle_pendulum, polar_rod])
def test_mechanics_as_a_port_hamiltonian_system(make):
    """The same differential equation (by gauss-4), and the same discrete motion where the mass is constant."""
    system = make()
    ph = system.to_port_hamiltonian()
    start = da.consistent(system)
    x = np.concatenate([start.q, start.v, np.zeros(system.m)])
    a = da.simulate(system, "radau-iia-4", q=start.q, v=start.v, t_end=0.3, step=0.01)
    b = da.simulate(ph, "radau-iia-4", x=x, t_end=0.3, step=0.01)
    np.testing.assert_allclose(b.x[-1, : 2 * system.n], a.x[-1], atol=1e-8)
    np.testing.assert_allclose(b.energy, a.energy, atol=1e-8 * max(1.0, abs(a.energy[0])))
    if system.constant_mass:
        c = da.simulate(system, da.methods.EnergyMomentum(compensated=False), q=start.q, v=start.v, t_end=1.0, step=0.01)
        d = da.simulate(ph, "discrete-gradient", x=x, t_end=1.0, step=0.01)
        np.testing.assert_allclose(d.x[:, : 2 * system.n], c.x, atol=1e-9)
        assert np.abs(d.residual("position")).max(initial=0.0) < 1e-13


def test_ports_of_mechanics():
    cart = da.Mechanical(
        2, mass=[1.0, 2.0], potential=lambda q: q[0] ** 4 + q[1] ** 2, inputs=[[1.0], [0.0]], initial={"q": [1, 0], "v": [0, 0]}
    )
    u = lambda t: [np.sin(3 * t)]  # noqa: E731
    a = da.simulate(cart, da.methods.EnergyMomentum(compensated=False), t_end=2.0, step=0.01, u=u)
    b = da.simulate(cart.to_port_hamiltonian(), da.methods.DiscreteGradient(gradient="equivariant"), t_end=2.0, step=0.01, u=u)
    np.testing.assert_allclose(a.q, b.x[:, :2], atol=1e-12)
    np.testing.assert_allclose(a.supplied, b.supplied, atol=1e-13)
    np.testing.assert_allclose(b.y[:, 0], b.x[:, 2])
    with pytest.raises(da.MethodError, match="give it as inputs"):
        da.Mechanical(1, mass=1.0, force=lambda v: -v).to_port_hamiltonian()


def test_time_dependent_energy_and_autonomous_form():
    system = da.PortHamiltonian(
        ("q", "p"), hamiltonian=lambda x, t: x[1] ** 2 / 2 + (1 + 0.3 * np.sin(t)) * x[0] ** 4 / 4, J=SKEW, R=[[0, 0], [0, 0.1]],
        initial={"x": [1.0, 0.5]}, r=lambda x, t: [0.3 * np.cos(t) * x[0] / (4 * (1 + 0.3 * np.sin(t))), 0.0],
    )  # fmt: skip
    sol = da.simulate(system, "discrete-gradient", t_end=5.0, step=0.02)
    assert np.abs(sol.power_balance).max() < 1e-14
    auto = system.autonomous()
    again = da.simulate(auto, "discrete-gradient", t_end=5.0, step=0.02, u=[1.0])
    assert np.abs(again.power_balance).max() < 1e-14
    assert np.abs(again.x[:, 2] - again.t).max() < 1e-12
    fine = da.simulate(system, "gauss-3", t_end=5.0, step=0.02)
    assert np.abs(sol.x[-1] - fine.x[-1]).max() < 1e-3
    assert np.abs(again.x[-1, :2] - fine.x[-1]).max() < 1e-3


def test_feedback_and_sampled_inputs():
    damped = oscillator(feedback=lambda x, t, u: [-0.5 * x[1] + u[0]])
    sol = da.simulate(damped, "discrete-gradient", t_end=5.0, step=0.02)
    assert np.abs(sol.power_balance).max() < 1e-14
    assert sol.supplied.sum() < -0.1
    np.testing.assert_allclose(sol.ledger()["port u1"].sum(), sol.supplied.sum(), atol=1e-14)
    held = (np.array([0.0, 1.0, 2.0]), np.array([[0.0], [1.0], [-1.0]]))
    sol = da.simulate(oscillator(), "discrete-gradient", t_end=3.0, step=0.02, u=held)
    np.testing.assert_array_equal(np.unique(sol.port_inputs), [-1.0, 0.0, 1.0])
    assert np.abs(sol.power_balance).max() < 1e-14


def test_feedthrough():
    system = da.PortHamiltonian(
        2, hamiltonian=lambda x: x[0] ** 2 / 2 + x[1] ** 4 / 4, J=SKEW, R=[[1, 0], [0, 0.5]],
        B=[[1, 0], [0, 1]], P=[[0.5, 0], [0, 0]], S=[[1, 0], [0, 1]], N=[[0, 0.3], [-0.3, 0]], initial={"x": [1.0, 0.5]},
    )  # fmt: skip
    sol = da.simulate(system, "discrete-gradient", t_end=5.0, step=0.02, u=lambda t: [np.sin(t), np.cos(2 * t)])
    assert np.abs(sol.power_balance).max() < 1e-14
    assert (sol.dissipated > 0).all()
    book = sol.ledger()
    np.testing.assert_allclose(book["stored"], book["port u1"] + book["port u2"] - book["dissipated"], atol=1e-14)


def test_constant_singular_E_is_made_semi_explicit():
    system = da.catalog.singular_mass_springs()
    assert system.blocks() is None
    form = system.semi_explicit()
    E = form.at("E", np.zeros(7))
    assert np.linalg.matrix_rank(E) == 5
    assert np.abs(E - np.diag(np.diag(E))).max() < 1e-12
    V = np.linalg.svd(system.at("E", np.zeros(7)))[2].T
    x = np.asarray(system.initial["x"])
    a = da.simulate(system, "gauss-3", t_end=1.0, step=0.02)
    b = da.simulate(form, "gauss-3", x=V.T @ x, t_end=1.0, step=0.02)
    np.testing.assert_allclose(b.x @ V.T, a.x, atol=1e-8)


def test_a_start_off_the_algebraic_equations_is_refused():
    """The potential of the first node is that of the source: 0 is wrong for a source of 1, and the method would alternate."""
    ladder = da.catalog.rlc_ladder()
    with pytest.raises(da.InconsistentState, match=r"equation 11 of 11 .* violated by -1 .*da\.consistent"):
        da.simulate(ladder, "discrete-gradient", x=np.zeros(11), u=[1.0], t_end=0.1, step=0.01)
    given = da.simulate(ladder, "discrete-gradient", **da.consistent(ladder, u=[1.0]), u=[1.0], t_end=0.1, step=0.01)
    own = da.simulate(ladder, "discrete-gradient", u=[1.0], t_end=0.1, step=0.01)  # defaults follow the inputs
    assert np.abs(given.x - own.x).max() < 1e-15
    assert np.abs(own.x[:, 0] - 1.0).max() < 1e-13


def test_rank_of_E_that_changes_is_told_with_its_time():
    """`E = diag(1, x1)` loses its rank where x1 = cos t passes zero."""
    system = da.PortHamiltonian(
        3, E=lambda x: [[1, 0, 0], [0, 1, 0], [0, 0, x[0]]], J=[[0, 1, 0], [-1, 0, 0], [0, 0, 0]], R=[0, 0, 1.0],
        hamiltonian=lambda x: (x[0] ** 2 + x[1] ** 2) / 2 + x[0] * x[2] ** 2 / 2,
        z=lambda x: [x[0] + x[2] ** 2 / 2, x[1], x[2]], initial={"x": [1.0, 0.0, 0.5]},
    )  # fmt: skip
    with pytest.raises(da.DalembertError) as caught:
        da.simulate(system, "discrete-gradient", t_end=3.0, step=0.01)
    assert caught.value.solution.t[-1] > 1.0
    assert np.abs(caught.value.solution.power_balance).max() < 1e-12


def test_consistent_values_and_events():
    start = da.consistent(da.catalog.linear_port_example(), x=[1.0, 0.0])
    np.testing.assert_allclose(start.x, [1.0, -1.0])
    sol = da.simulate(da.catalog.linear_port_example(), "discrete-gradient", **start, t_end=1.0, step=0.1)
    assert np.abs(sol.x.sum(axis=1)).max() < 1e-13
    chain = da.catalog.mass_spring_damper(2)
    sol = da.simulate(chain, "discrete-gradient", t_end=5.0, step=0.01, events=lambda x: x[0])
    assert np.abs(sol.events["event 1"].x[:, 0]).max() < 1e-15


def test_sections():
    chain = da.catalog.mass_spring_damper(2)
    section = da.poincare(chain, lambda x: x[0], 5, method="discrete-gradient", step=0.01)
    assert np.abs(section.x[:, 0]).max() < 1e-15


def test_what_a_port_hamiltonian_system_does_not_have():
    sol = da.simulate(oscillator(), "discrete-gradient", t_end=0.5, step=0.05)
    for name in ("kinetic", "potential", "p"):
        with pytest.raises(da.MethodError, match="its state is x"):
            getattr(sol, name)
    with pytest.raises(da.MethodError, match="use ErrorControl"):
        da.simulate(oscillator(), "discrete-gradient", t_end=0.5, step=0.05, adaptive="reversible")
    assert da.simulate(oscillator(), "discrete-gradient", t_end=0.5, step=0.05, adaptive=True).t[-1] == 0.5


@pytest.mark.parametrize("name", ["windy-pendulum", "singular-mass-springs", "three-carts"])
@pytest.mark.parametrize("method", ["discrete-gradient", "gauss-2"])
def test_the_end_of_a_run_is_a_legal_start(name, method):
    system = da.catalog.make(name)
    whole = da.simulate(system, method, t_end=1.02, step=0.01)
    more = da.simulate(system, method, x=whole.x[100], t0=1.0, t_end=1.02, step=0.01)
    np.testing.assert_allclose(more.x, whole.x[100:], rtol=0, atol=1e-10 * (1 + np.abs(whole.x).max()))


def linear(scale, **options):
    J, R = scale * np.array([[0.0, 1.0], [-1.0, 0.0]]), scale * np.diag([0.0, 1.0])
    return da.PortHamiltonian(2, E=[[1, 0], [0, 0]], J=J, R=R, hamiltonian=lambda x: x[0] ** 2 / 2, **options)


@pytest.mark.parametrize(("scale", "x"), [(1e-10, [1, 5]), (1.0, [1e-9, 5e-9]), (1.0, [1.0, 7.0])])
def test_violations_are_measured_by_the_size_of_their_terms(scale, x):
    with pytest.raises(da.InconsistentState, match="equation 2 of 2"):
        da.simulate(linear(scale), "discrete-gradient", x=x, t_end=0.1, step=0.01)
    start = da.consistent(linear(scale), x=x)
    assert np.allclose(start["x"], [x[0], -x[0]])
    with pytest.raises(da.InconsistentState, match="equation 2 of 2"):  # stated in the model, and not changed behind its back
        da.simulate(linear(scale, initial={"x": x}), "discrete-gradient", t_end=0.1, step=0.01)


def test_badly_scaled_rates_are_no_algebraic_equations():
    """A capacitor of 1 pF beside an inductor of 10 H."""
    system = da.PortHamiltonian(
        2, E=np.diag([1e-12, 10]), J=[[0, 1], [-1, 0]], R=np.diag([1e-6, 0]),
        hamiltonian=lambda x: 1e-12 * x[0] ** 2 / 2 + 10 * x[1] ** 2 / 2,
    )  # fmt: skip
    sol = da.simulate(system, "gauss-2", x=[5.0, 0.0], t_end=1e-6, step=1e-8)
    assert sol.x[-1, 0] == pytest.approx(5 * np.exp(-1.0), rel=0.1)


def test_consistent_mends_what_algebraic_states_cannot():
    system = da.catalog.windy_pendulum()
    x = da.consistent(system, x=[1.1, 0.2, 0.5, 1.0, 0.0])["x"]
    assert np.allclose(x[:2], np.array([1.1, 0.2]) / np.hypot(1.1, 0.2))  # the nearest position
    assert abs(x[:2] @ x[2:4]) < 1e-15
    index2 = da.PortHamiltonian(
        3, E=np.diag([1, 1, 0.0]), J=[[0, 1, 0], [-1, 0, -1], [0, 1, 0]], hamiltonian=lambda x: (x[0] ** 2 + x[1] ** 2) / 2
    )
    assert np.allclose(da.consistent(index2, x=[1.0, 0.5, -1.0])["x"], [1.0, 0.0, -1.0])


def without_rates():
    return da.PortHamiltonian(1, E=[[0.0]], R=[[1.0]], B=[[1.0]], hamiltonian=lambda x: 0 * x[0])


@pytest.mark.parametrize("method", ["discrete-gradient", "ddr"])
def test_a_system_without_rates_is_refused(method):
    with pytest.raises(da.MethodError, match=r"no state with a rate .* use gauss-3"):
        da.simulate(without_rates(), method, x=[2.0], u=[2.0], t_end=0.1, step=0.01)


@pytest.mark.parametrize("method", ["gauss-2", "midpoint"])
def test_a_system_without_rates(method):
    assert da.simulate(without_rates(), method, x=[2.0], u=[2.0], t_end=0.1, step=0.01).x[-1, 0] == 2.0


def test_a_start_off_the_positions_is_refused_and_round_off_is_not():
    wind = da.catalog.windy_pendulum()
    for method in ("discrete-gradient", "midpoint", "gauss-2"):
        with pytest.raises(da.InconsistentState, match="violates constraint 1 of 1"):
            da.simulate(wind, method, x=[2.0, 0, 0, 0, 0], t_end=0.1, step=0.01)
    da.simulate(linear(1.0), "discrete-gradient", x=[1e-17, 0.0], t_end=0.1, step=0.01)


def test_names_of_ports_are_checked():
    B = [[1.0, 0.0], [0.0, 1.0]]
    for ports in (("a", "a"), ("a",), ("a", "b", "c"), "a"):
        with pytest.raises(da.ModelError, match=r"ports must be 2 different names|named twice|ports must be"):
            da.PortHamiltonian(2, hamiltonian=lambda x: x[0] ** 2, B=B, ports=ports)
    assert da.PortHamiltonian(2, hamiltonian=lambda x: x[0] ** 2, B=B, ports=("b", "a")).ports == ("b", "a")
    assert da.PortHamiltonian(2, hamiltonian=lambda x: x[0] ** 2, B=B).ports == ("u1", "u2")


def test_shapes_of_matrices():
    """A vector is a diagonal for E and R, and a row or a column for B; nothing else."""
    H = lambda x: x[0] ** 2 / 2 + x[1] ** 2 / 2  # noqa: E731
    system = da.PortHamiltonian(2, hamiltonian=H, R=[0.1, 0.2], B=[[1.0, 3.0]], initial={"x": [1.0, 1.0]})
    np.testing.assert_array_equal(system.at("R", [1.0, 1.0]), np.diag([0.1, 0.2]))
    np.testing.assert_array_equal(system.at("B", [1.0, 1.0]), [[1.0], [3.0]])
    np.testing.assert_array_equal(da.PortHamiltonian(2, hamiltonian=H, R=0.3).at("R", [1.0, 1.0]), 0.3 * np.eye(2))
    for given, message in (
        ({"J": [1.0, 2.0]}, r"J has the shape \(2, 1\); expected 2 x 2"),
        ({"R": [1.0, 2.0, 3.0]}, r"R has the shape \(3, 1\); expected 2 x 2"),
        ({"B": [[1.0], [0.0]], "S": [1.0, 1.0]}, r"S has the shape \(2, 1\); expected 1 x 1"),
    ):
        with pytest.raises(da.ModelError, match=message):
            da.PortHamiltonian(2, hamiltonian=H, **given)


def quasilinear():
    """`E(x, t) x' = f(x, t) + B u` of index 1."""
    return da.PortHamiltonian.descriptor(
        3, E=lambda x, t: [[1 + x[0] ** 2, t, 0], [0, 2 + np.sin(t), 0], [0, 0, 0]], B=[[0], [1], [0]],
        f=lambda x, t, a: [x[2] - x[0], np.cos(t) * x[0] - x[1] ** 3, a * x[2] + x[2] ** 3 - x[0] * x[1]], parameters={"a": 1.0},
        initial={"x": [1.0, 0.5, 0.4]},
    )  # fmt: skip


def test_general_quasilinear_equations():
    system = quasilinear()
    x = da.consistent(system, x=system.initial["x"]).x

    def rates(t, y):
        z = brentq(lambda z: z + z**3 - y[0] * y[1], -5, 5, xtol=1e-15)
        second = (np.cos(t) * y[0] - y[1] ** 3 + np.sin(t)) / (2 + np.sin(t))
        return [(z - y[0] - t * second) / (1 + y[0] ** 2), second]

    truth = solve_ivp(rates, (0, 1), x[:2], rtol=1e-12, atol=1e-13).y[:, -1]
    for method, order in (("gauss-2", 4), ("radau-iia-2", 3), ("discrete-gradient", 2)):
        runs = [
            da.simulate(system, method, x=x, t_end=1.0, step=h, u=lambda t: [np.sin(t)], compile=False)
            for h in (0.1, 0.05, 0.025)
        ]
        assert_order([np.abs(s.x[-1, :2] - truth).max() for s in runs], [0.1, 0.05, 0.025], order)
        assert not runs[0].energy.any()
    with pytest.raises(da.ModelError, match="f cannot depend on 'u'"):  # there are none
        da.PortHamiltonian.descriptor(1, E=[[1.0]], f=lambda x, u: u)


def test_inputs_inside_of_quasilinear_equations():
    """`x1' = sin(u) - x1 x2`, `0 = x2 - u^2 - x1`: the same as a plain equation, not connected."""
    system = da.PortHamiltonian.descriptor(
        2, E=[[1, 0], [0, 0]], f=lambda x, u: [np.sin(u[0]) - x[0] * x[1], x[1] - u[0] ** 2 - x[0]], ports=["u"],
        initial={"x": [0.5, 0.5]},
    )  # fmt: skip
    u = lambda t: [np.cos(2 * t)]  # noqa: E731
    start = da.consistent(system, x=[0.5, 0.0], u=u(0.0)).x
    np.testing.assert_allclose(start, [0.5, 1.5], atol=1e-14)
    rate = lambda t, y: [np.sin(u(t)[0]) - y[0] * (u(t)[0] ** 2 + y[0])]  # noqa: E731
    truth = solve_ivp(rate, (0, 1), [0.5], rtol=1e-12, atol=1e-13).y[0, -1]
    sol = da.simulate(system, "gauss-3", x=start, t_end=1.0, step=0.02, u=u)
    assert sol.x[-1, 0] == pytest.approx(truth, abs=1e-10)
    steps = [0.1, 0.05, 0.025]
    runs = [da.simulate(system, "discrete-gradient", x=start, t_end=1.0, step=h, u=u, compile=False) for h in steps]
    assert_order([abs(run.x[-1, 0] - truth) for run in runs], steps, 2)
    with pytest.raises(da.MethodError, match="inputs inside of f"):
        system.autonomous()
    with pytest.raises(da.ModelError, match="inputs inside of f"):
        da.connect({"a": system, "b": quasilinear()}, [])


def test_quasilinear_equations_whose_range_turns():
    """`(cos a, sin a)^T (x1' + x2) = ...`, `x1 = x2^2`, with `a = x1`: the midpoint rule of order two."""

    def f(x):
        c, s = np.cos(x[0]), np.sin(x[0])
        return [-c * x[1] - s * (x[0] - x[1] ** 2), -s * x[1] + c * (x[0] - x[1] ** 2)]

    system = da.PortHamiltonian.descriptor(2, E=lambda x: [[np.cos(x[0]), 0], [np.sin(x[0]), 0]], f=f, initial={"x": [1.0, 1.0]})
    steps = np.array([0.1, 0.05, 0.025])
    ends = [da.simulate(system, "discrete-gradient", t_end=1.0, step=h, compile=False).x[-1] for h in steps]
    # sqrt(x1)' = -1/2
    assert_order([abs(e[0] - 0.25) for e in ends], steps, 2)
    with pytest.raises(da.MethodError, match="range depends on the state"):
        da.simulate(system, "gauss-2", t_end=1.0, step=0.1)
