"""Steps made of functions of both ends: pairs, completions, transformations, with matrices that all depend on the state."""

import numpy as np
import pytest
from scipy.optimize import fsolve, minimize_scalar

import dalembert as da
from conftest import assert_order
from dalembert.methods import DiracDissipative, DiscreteGradient, GradientPair

H, START = 0.1, np.array([0.8, 0.4, -0.5])


def product(A, B):
    return [[sum(a * B[k][j] for k, a in enumerate(row)) for j in range(len(B[0]))] for row in A]


def times(A, x):
    return [sum(a * x[k] for k, a in enumerate(row)) for row in A]


def transpose(A):
    return [list(row) for row in zip(*A, strict=True)]


def energy(x):
    return x[0] ** 4 / 4 + x[1] ** 2 / 2 + x[0] ** 2 * x[1] ** 2 / 2


def slope(x0, x1):
    """A discrete gradient of the energy: slopes of powers, means in products."""
    quartic = (x0[0] ** 3 + x0[0] ** 2 * x1[0] + x0[0] * x1[0] ** 2 + x1[0] ** 3) / 4
    means = [(x0[i] + x1[i]) / 2 for i in range(2)]
    squares = [(x0[i] ** 2 + x1[i] ** 2) / 2 for i in range(2)]
    return [quartic + squares[1] * means[0], means[1] + squares[0] * means[1], 0.0]


def block(x):
    """`E11` depends on both parts of the state."""
    return [[2 + x[0] ** 2, 0.3 * x[2]], [0.2 * x[1], 1 + x[2] ** 2]]


def storage(x):
    return [[*row, 0.0] for row in block(x)] + [[0.0, 0.0, 0.0]]


def costates(C, g):
    """`C^-T g` of two rows."""
    det = C[0][0] * C[1][1] - C[0][1] * C[1][0]
    return [(C[1][1] * g[0] - C[1][0] * g[1]) / det, (C[0][0] * g[1] - C[0][1] * g[0]) / det]


def algebraic(x):
    return x[2] + x[2] ** 3 / 3 + 0.2 * x[0]


def J(x):
    return [[0, 1 + x[1] ** 2, x[0]], [-1 - x[1] ** 2, 0, 1.0], [-x[0], -1.0, 0]]


def R(x):
    return [[0.1 * (1 + x[1] ** 2), 0, 0], [0, 0.2, 0], [0, 0, 1 + x[0] ** 2 / 4]]


def B(x):
    return [[0.0], [1 + x[0] / 4], [0.5]]


def system():
    return da.PortHamiltonian(
        3, hamiltonian=energy, E=storage, J=J, R=R, B=B, z=lambda x: [*costates(block(x), slope(x, x)), algebraic(x)],
        initial={"x": START},
    )  # fmt: skip


def middle(x0, x1):
    return [(x0[i] + x1[i]) / 2 for i in range(3)]


def pair(x0, x1):
    """The costates of the constructed pair (theorem 4)."""
    return [*costates(block(middle(x0, x1)), slope(x0, x1)), algebraic(middle(x0, x1))]


def run(s, method, x=None, steps=10):
    x = da.consistent(s, x=s.initial["x"] if x is None else x, u=[0.0]).x if x is None else x
    return da.simulate(s, method, x=x, t_end=steps * H, step=H, u=lambda t: [np.sin(3 * t)], compile=False)


def test_corollary_1_a_pair_given_explicitly_is_the_discrete_gradient_method():
    s = system()
    one = run(s, DiscreteGradient())
    for method in (
        GradientPair(z=pair),
        GradientPair(z=pair, E=lambda x0, x1: storage(middle(x0, x1))),
        DiscreteGradient(gradient=slope, z2=lambda x0, x1: [algebraic(middle(x0, x1))]),
        DiracDissipative(),
        DiracDissipative(completion=lambda x0, x1, f: [f[2] - algebraic(middle(x0, x1))]),
    ):
        other = run(s, method)
        np.testing.assert_allclose(other.x, one.x, atol=2e-13)
        np.testing.assert_allclose(other.costates, one.costates, atol=2e-12)
        assert np.abs(other.power_balance).max() < 1e-15
    for k in range(3):  # theorem 4: the pair as numbers
        found = da.discrete.pair(s, one.x[k], one.x[k + 1])
        np.testing.assert_allclose(found.z, pair(one.x[k], one.x[k + 1]), atol=1e-14)
        np.testing.assert_allclose(found.z, one.costates[k], atol=1e-12)
        np.testing.assert_allclose(found.E, storage(middle(one.x[k], one.x[k + 1])), atol=1e-15)


def test_places_and_functions_of_both_ends():
    """`at` moves the matrices of a pair, and functions of both ends replace them."""
    s = system()
    E = lambda x0, x1: storage(middle(x0, x1))  # noqa: E731
    runs = {at: run(s, GradientPair(z=pair, E=E, at=at)) for at in ("left", "midpoint", "right")}
    for at in ("left", "right"):
        assert np.abs(runs[at].x - runs["midpoint"].x).max() > 1e-4
        assert np.abs(runs[at].power_balance).max() < 1e-15
    for at, end in (("left", 0), ("right", 1)):
        own = {k: (lambda x0, x1, f=f, end=end: f((x0, x1)[end])) for k, f in (("J", J), ("R", R), ("B", B))}
        np.testing.assert_allclose(run(s, GradientPair(z=pair, E=E, **own)).x, runs[at].x, atol=1e-13)
        a, b = (
            run(s, DiscreteGradient(**options)).x
            for options in ({"z2": "right", "E": E, **own}, {"z2": "right", "E": E, "at": at})
        )
        np.testing.assert_allclose(a, b, atol=1e-13)


def test_functions_that_are_none_of_the_system_are_refused():
    s = system()
    cases = [
        (GradientPair(z=lambda x0, x1: pair(x0, x0)), r"not a discrete gradient pair: z \. E \(x1 - x0\)"),
        (GradientPair(z=pair, J=lambda x0, x1: R(x0)), r"J\(x0, x1\) is not consistent"),
        (GradientPair(z=pair, R=lambda x0, x1: [[0.0] * 3] * 3), r"R\(x0, x1\) is not consistent: where x1 = x0 its entry \("),
        (GradientPair(z=lambda x0, x1: [*pair(x0, x1)[:2], x1[2]]), r"z\(x0, x1\) is not consistent: where x1 = x0 its entry 3"),
        (DiscreteGradient(gradient=lambda x0, x1: slope(x0, x0)), r"not a discrete gradient: D H \. \(x1 - x0\)"),
        (DiscreteGradient(z2=lambda x0, x1: [x1[2]]), r"z2\(x0, x1\) is not consistent"),
        (
            DiscreteGradient(J=lambda x0, x1: [[J(x0)[i][j] + x1[0] - x0[0] for j in range(3)] for i in range(3)]),
            r"J\(x0, x1\) is not skew",
        ),
        (
            DiscreteGradient(R=lambda x0, x1: product(R(x0), np.diag([1 - 9 * abs(x1[0] - x0[0]), 1.0, 1.0]))),
            r"R\(x0, x1\) is not positive semidefinite",
        ),
    ]  # fmt: skip
    for method, message in cases:
        with pytest.raises(da.ModelError, match=message):
            run(s, method)
    for options in (
        {"completion": "best"},
        {"weight": lambda x0: np.eye(3)},
        {"completion": "minimal-norm", "z2": lambda x1: [0]},
    ):
        with pytest.raises(da.MethodError):
            DiracDissipative(**options)
    with pytest.raises(da.MethodError, match="for port-Hamiltonian systems"):
        da.simulate(da.catalog.double_pendulum(), DiscreteGradient(gradient=slope), t_end=0.1, step=0.1)


# ---- completions of the Dirac-dissipative step ---------------------------------------------------------------------------


def nearest(x0, u, place):
    """The solution of eq. 26 with the smallest |f - z(place)|, by a search over the algebraic state."""

    def solved(x2):
        def rows(w):
            x1 = np.array([w[0], w[1], x2])
            xm, f = middle(x0, x1), w[2:]
            flow = np.array(storage(xm)) @ (x1 - x0) / H - (np.array(J(xm)) - R(xm)) @ f - np.array(B(xm)) @ u
            return [*flow, *(np.array(block(xm)).T @ f[:2] - slope(x0, x1)[:2])]

        w = fsolve(rows, [*x0[:2], *pair(x0, x0)], xtol=1e-13)
        return np.array([w[0], w[1], x2]), w[2:]

    def distance(x2):
        x1, f = solved(x2)
        at = place(x0, x1)
        return np.sum((f - [*costates(block(at), slope(at, at)), algebraic(at)]) ** 2)

    best = minimize_scalar(distance, bracket=(x0[2] - 0.05, x0[2] + 0.05), options={"xtol": 1e-9}).x
    return solved(best)


@pytest.mark.parametrize("rule", ["right", "midpoint"])
def test_the_minimal_norm_of_ddr_against_a_search(rule):
    s = system()
    x = da.consistent(s, x=START, u=[0.0]).x
    sol = run(s, DiracDissipative(completion="minimal-norm", z2=rule), x, steps=1)
    place = {"right": lambda x0, x1: x1, "midpoint": middle}[rule]
    x1, f = nearest(x, [np.sin(3 * H / 2)], place)
    np.testing.assert_allclose(sol.x[1], x1, atol=1e-6)
    np.testing.assert_allclose(sol.costates[0], f, atol=1e-6)
    assert np.abs(sol.power_balance).max() < 1e-15
    apart = np.abs(sol.x - run(s, DiracDissipative(z2=rule), x, steps=1).x).max()  # from the completion of these costates
    assert apart > 1e-3 if rule == "right" else 1e-8 < apart < 1e-6


def test_the_minimal_norm_is_the_completion_where_other_costates_do_not_know_the_algebraic_states():
    ex1 = da.catalog.linear_port_example()
    for rule in ("right", "midpoint"):
        a, b = (
            da.simulate(ex1, DiracDissipative(z2=rule, completion=c), t_end=1.0, step=H, compile=False)
            for c in ("z2", "minimal-norm")
        )
        np.testing.assert_allclose(a.x, b.x, atol=1e-14)


@pytest.mark.parametrize(
    "method",
    [
        DiscreteGradient(),
        *(DiscreteGradient(gradient=g) for g in ("gonzalez-left", "gonzalez-right", "itoh-abe")),
        *(DiscreteGradient(at=at) for at in ("left", "right")),
        DiracDissipative(z2="right"),
        DiracDissipative(z2="right", completion="minimal-norm"),
    ],
    ids=str,
)
def test_orders_are_those_that_are_claimed(method):
    """Of all states, with matrices that depend on the algebraic one."""
    s, counts = system(), np.array([80, 160, 320])
    options = {"x": da.consistent(s, x=START, u=[0.0]).x, "t_end": 1.0, "u": lambda t: [np.sin(3 * t)], "compile": False}
    truth = da.simulate(s, "radau-iia-4", step=0.01, **options).x[-1]
    errors = [np.linalg.norm(da.simulate(s, method, step=1 / n, **options).x[-1] - truth) for n in counts]
    assert_order(errors, 1 / counts, 2 if method.symmetric else 1)
    assert method.order[0] == (2 if method.symmetric else 1)


# ---- transformations -----------------------------------------------------------------------------------------------------


def phi(x):
    return [x[0] + 0.3 * x[1] ** 2, x[1] + 0.1 * x[0], (1 + 0.2 * x[0] ** 2) * x[2]]


def discrete_phi(a, b):
    """A discrete Jacobian of `phi`."""
    w0, squares = (a[0] + b[0]) / 2, (a[0] ** 2 + b[0] ** 2) / 2
    return [[1, 0.3 * (a[1] + b[1]), 0], [0.1, 1, 0], [0.2 * 2 * w0 * (a[2] + b[2]) / 2, 0, 1 + 0.2 * squares]]


def factor(x):
    """`U(x)`, lower triangular: it keeps the semi-explicit structure (proposition 3)."""
    return [[1 + x[0] ** 2 / 4, 0, 0], [0.3 * x[1], 2.0, 0], [0.2 * x[2], 0.4 * x[0], 1.5 + 0.1 * x[1]]]


def forward(U, y):
    """`U^-1 y`."""
    out = []
    for i, row in enumerate(U):
        out.append((y[i] - sum(row[k] * out[k] for k in range(i))) / row[i])
    return out


def U(w0, w1):
    return factor(middle(w0, w1))


def hat(matrix, right=True):
    """`U^T m U`, or `U^T m`, with `m` at the midpoint of the old states."""

    def made(x0, x1):
        left = product(transpose(U(x0, x1)), matrix(middle(phi(x0), phi(x1))))
        return product(left, U(x0, x1)) if right else left

    return made


def E_hat(x0, x1):
    return product(product(transpose(U(x0, x1)), storage(middle(phi(x0), phi(x1)))), discrete_phi(x0, x1))


def slope_hat(x0, x1):
    return times(transpose(discrete_phi(x0, x1)), slope(phi(x0), phi(x1)))


def z2_hat(x0, x1):
    """Of theorem 10; it is the last entry of `U^-1 z`."""
    u = U(x0, x1)
    C = [row[:2] for row in E_hat(x0, x1)[:2]]
    f1 = costates(C, slope_hat(x0, x1))
    return [(algebraic(middle(phi(x0), phi(x1))) - u[2][0] * f1[0] - u[2][1] * f1[1]) / u[2][2]]


HATS = {"E": E_hat, "J": hat(J), "R": hat(R), "B": hat(B, right=False)}
METHODS = {
    "theorem 9": (GradientPair(z=pair), GradientPair(z=lambda x0, x1: forward(U(x0, x1), pair(phi(x0), phi(x1))), **HATS)),
    "theorem 10": (DiscreteGradient(gradient=slope), DiscreteGradient(gradient=slope_hat, z2=z2_hat, **HATS)),
    "remark 15, constraint": (
        DiracDissipative(gradient=slope, completion=lambda x0, x1, f: [f[2] - algebraic(x1) + 0.1 * (x1[0] - x0[0]) * f[0]]),
        DiracDissipative(
            gradient=slope_hat, **HATS,
            completion=lambda x0, x1, f: [
                times(U(x0, x1), f)[2] - algebraic(phi(x1)) + 0.1 * (phi(x1)[0] - phi(x0)[0]) * times(U(x0, x1), f)[0]
            ],
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", METHODS)
def test_transformed_systems_with_everything_of_the_state(name):
    """The same motion in other coordinates, `x = phi(w)`, with equations times `U(w)^T`, to round-off."""
    s = system()
    x = da.consistent(s, x=START, u=[0.0]).x
    w = fsolve(lambda w: np.array(phi(w)) - x, x, xtol=1e-15)
    other = s.transformed(phi, factor, initial=w)
    a, b = (run(system, m, start) for system, m, start in zip((s, other), METHODS[name], (x, w), strict=True))
    np.testing.assert_allclose(np.array(phi(b.x.T)).T, a.x, atol=5e-13)
    np.testing.assert_allclose(b.outputs, a.outputs, atol=5e-13)
    assert np.abs(b.power_balance).max() < 1e-14
    plain = run(other, METHODS[name][0].__class__(), w)  # matrices at the midpoint of the new states: another method
    assert np.abs(np.array(phi(plain.x.T)).T - a.x).max() > 1e-6


def test_remark_15_the_minimal_norm_in_other_coordinates_has_a_weight():
    s = system()
    x = da.consistent(s, x=START, u=[0.0]).x
    w = fsolve(lambda w: np.array(phi(w)) - x, x, xtol=1e-15)
    # U at the end of the step makes U z^ = z there, as the source wants of its consistent costates
    end = lambda x0, x1: factor(x1)  # noqa: E731
    hats = {
        "E": lambda x0, x1: product(product(transpose(end(x0, x1)), storage(middle(phi(x0), phi(x1)))), discrete_phi(x0, x1)),
        "B": lambda x0, x1: product(transpose(end(x0, x1)), B(middle(phi(x0), phi(x1)))),
        **{
            k: lambda x0, x1, m=m: product(product(transpose(end(x0, x1)), m(middle(phi(x0), phi(x1)))), end(x0, x1))
            for k, m in (("J", J), ("R", R))
        },
    }
    options = {"completion": "minimal-norm", "z2": "right"}
    a = run(s, DiracDissipative(gradient=slope, **options), x, steps=3)
    b = run(
        s.transformed(phi, factor, initial=w), DiracDissipative(gradient=slope_hat, weight=end, **options, **hats), w, steps=3
    )
    np.testing.assert_allclose(np.array(phi(b.x.T)).T, a.x, atol=1e-11)
    c = run(s.transformed(phi, factor, initial=w), DiracDissipative(gradient=slope_hat, **options, **hats), w, steps=3)
    assert np.abs(np.array(phi(c.x.T)).T - a.x).max() > 1e-6


# ---- equations without costates ------------------------------------------------------------------------------------------


def parametrised():
    """Eq. 38: a semi-explicit system in (x1, x2, x3) with the parameter x4, and `x4' + E32 x3' = ...` for that."""
    A = lambda x: [[0, 1.0, 0.5, 0.3], [-1.0, 0, 1 + x[3] ** 2, 0.2], [-0.5, -1 - x[3] ** 2, 0, 0.4], [-0.3, -0.2, -0.4, 0]]  # noqa: E731
    return da.PortHamiltonian(
        4, hamiltonian=lambda x: x[0] ** 4 / 4 + x[1] ** 2 / 2,
        E=lambda x: [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 0], [0, 0, x[3] + x[0], 1]], J=A,
        R=lambda x: [[0.1, 0, 0, 0], [0, 0.2, 0, 0], [0, 0, 1 + x[3] ** 2, 0], [0, 0, 0, 0.5]], B=[[0], [1], [0], [0.7]],
        z=lambda x: [x[0] ** 3, x[1], x[2] + x[2] ** 3, 0.0], initial={"x": [0.8, 0.4, 0.1, 0.2]},
    )  # fmt: skip


def test_a_pair_exists_where_the_range_of_E_turns_in_equations_without_costates():
    """Corollary 3 and remark 11: a discrete gradient of H1, and anything for the rest."""
    s = parametrised()

    def z(x0, x1):
        a, b, m = x0[0], x1[0], (x0[2] + x1[2]) / 2
        return [(a**3 + a**2 * b + a * b**2 + b**3) / 4, (x0[1] + x1[1]) / 2, m + m**3, 0.0]

    x = da.consistent(s, x=s.initial["x"], u=[0.0]).x
    one = run(s, GradientPair(z=z), x)
    for method in ("discrete-gradient", "ddr", "gradient-pair"):
        sol = run(s, method, x)
        np.testing.assert_allclose(sol.x, one.x, atol=1e-13)
        assert np.abs(sol.power_balance).max() < 1e-15
    counts = np.array([20, 40, 80, 640])
    u = lambda t: [np.sin(3 * t)]  # noqa: E731
    ends = [da.simulate(s, "discrete-gradient", x=x, t_end=1.0, step=1 / n, u=u, compile=False).x[-1] for n in counts]
    assert_order([np.abs(e - ends[-1]).max() for e in ends[:-1]], 1 / counts[:-1], 2)
    a, b = one.x[:2]
    found = da.discrete.pair(s, a, b)
    np.testing.assert_allclose(found.z, z(a, b), atol=1e-14)
    assert found.z[3] == 0
