"""Contact of curves and surfaces against formulas and independent equations."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import dalembert as da

G = 9.81


def cam(other, drawn, **more):
    """An eccentric disc at a constant speed under a follower in a guide, with a spring."""
    m = da.Mechanism(gravity=(0, -G), parameters={"w": 6.0, "R": 0.5, "e": 0.2}, name="cam")
    m.body("cam", mass=3.0, inertia=0.2)
    m.revolute("shaft", "ground", "cam", at=(0, 0))
    m.motion("drive", "shaft", lambda t, w: w * t)
    m.body("follower", mass=2.0, inertia=0.1, position=(0, drawn))
    m.prismatic("guide", "ground", "follower", axis=(0, 1))
    m.spring("spring", "ground", "follower", stiffness=400.0, length=2.0, start=(0, drawn + 1.5), end=(0, drawn))
    m.contact("touch", "cam", lambda s, e, R: (e + R * np.cos(s), R * np.sin(s)), "follower", other, **more)
    return m


def held(m, lift, second, coordinates="absolute", drawn=0.5):
    """The lift at all times, and the force by Newton's law."""
    sol = da.simulate(m.assemble(coordinates=coordinates), "murua-ggl-2", t_end=0.5, step=0.01)
    y = sol.body("follower").position[:, 1]
    np.testing.assert_allclose(y, lift(6.0 * sol.t), atol=1e-14)
    force = 2.0 * (36.0 * second(6.0 * sol.t) + G) + 400.0 * (2.0 - (drawn + 1.5 - y))
    np.testing.assert_allclose(sol.joint("touch").reaction_at(sol.t).force[:, 1], force, rtol=1e-10)
    return sol


def test_a_flat_follower_on_an_eccentric_cam():
    """Curve on curve: the lift is `R + e sin a`, the point of contact at `e cos a` of the face."""
    sol = held(
        cam(lambda u: (u, 0 * u), 0.5, start=(1.5, 0.2)), lambda a: 0.5 + 0.2 * np.sin(a), lambda a: -0.2 * np.sin(a), "joint"
    )
    np.testing.assert_allclose(sol["touch.u"], 0.2 * np.cos(6.0 * sol.t), atol=1e-13)
    guide = sol.joint("guide").reaction_at(sol.t)  # the force acts beside the guide
    np.testing.assert_allclose(guide.torque[:, 2], -sol["touch.u"] * sol.joint("touch").reaction_at(sol.t).force[:, 1], atol=1e-9)


def test_a_roller_follower_on_an_eccentric_cam():
    """A disc on a curve: `y = e sin a + sqrt((R + r)^2 - (e cos a)^2)`."""

    def lift(a):
        return 0.2 * np.sin(a) + np.sqrt(0.65**2 - (0.2 * np.cos(a)) ** 2)

    def second(a):
        root, slope = np.sqrt(0.65**2 - (0.2 * np.cos(a)) ** 2), 0.04 * np.sin(a) * np.cos(a)
        return -0.2 * np.sin(a) + 0.04 * np.cos(2 * a) / root - slope**2 / root**3

    held(cam(0.15, 0.62, start=1.2), lift, second, drawn=0.62)


def ball(rolling, **more):
    """A ball of radius 0.2 in a spherical bowl of radius 1, with spin."""
    n, r = np.array([np.sin(0.6), 0, -np.cos(0.6)]), 0.2  # from the middle of the bowl
    v = np.array([0.3 * np.cos(0.6), 0.8, 0.3 * np.sin(0.6)])
    omega = np.cross(v, n) / r + 3.0 * n if rolling else np.zeros(3)
    m = da.Mechanism(name="ball in a bowl")
    m.body("ball", mass=0.7, shape=da.shapes.Sphere(r), position=(0, 0, 1) + 0.8 * n, velocity=v, angular_velocity=omega)
    bowl = lambda x, y: (x, y, 1 - np.sqrt(1 - x**2 - y**2))  # noqa: E731
    m.contact("bowl", "ground", bowl, "ball", r, start=(0.5, 0.0), rolling=rolling)
    return m.assemble(**more), n, v, omega


def rolling(t, y):
    """Rates of the direction of the centre and of the angular velocity: `I w' = r n x m (a - g)`, `a = -r (w x n)'`."""
    n, w, r, mass = y[:3], y[3:], 0.2, 0.7
    J, moved = 0.4 * mass * r**2, -r * np.cross(w, n) / 0.8
    K = np.stack([J * e + mass * r**2 * np.cross(n, np.cross(e, n)) for e in np.eye(3)], axis=1)
    return np.r_[moved, np.linalg.solve(K, mass * r * np.cross(n, [0, 0, G] - r * np.cross(w, moved)))]


def test_a_ball_rolls_in_a_bowl():
    system, n, _, omega = ball(True, rotation="quaternion")
    sol = da.simulate(system, "murua-3", t_end=0.5, step=0.01)
    exact = solve_ivp(rolling, (0, 0.5), np.r_[n, omega], rtol=1e-12, atol=1e-12, t_eval=sol.t).y.T
    np.testing.assert_allclose(sol.body("ball").position, [0, 0, 1] + 0.8 * exact[:, :3], atol=1e-9)
    np.testing.assert_allclose(sol.body("ball").angular_velocity, exact[:, 3:], atol=1e-7)
    rates = np.array([rolling(0, y) for y in exact])
    a = -0.2 * (np.cross(rates[:, 3:], exact[:, :3]) + np.cross(exact[:, 3:], rates[:, :3]))
    np.testing.assert_allclose(sol.joint("bowl").reaction_at(sol.t).force, 0.7 * (a + [0, 0, G]), atol=1e-6)
    np.testing.assert_allclose(sol.energy, sol.energy[0], atol=1e-9)
    assert np.abs(sol.residual("velocity")).max() < 1e-11


def test_a_ball_rolls_in_a_bowl_on_all_constraint_levels():
    """A large step, whose constraints are straight in passing: what is left of them is measured by rounding."""
    system, *_ = ball(True)
    sol = da.simulate(system, "murua-ggl-3", t_end=0.02, step=0.01, compile=False)
    assert "sparse" in sol.stats["engine"]
    np.testing.assert_allclose(sol.energy, sol.energy[0], rtol=1e-12)
    assert max(np.abs(sol.residual(level)).max() for level in ("position", "velocity")) < 1e-13


def test_a_ball_slides_in_a_bowl_as_a_spherical_pendulum():
    system, n, v, _ = ball(False, rotation="quaternion")
    sol = da.simulate(system, "murua-ggl-2", t_end=0.2, step=0.002)
    pendulum = da.Mechanical(3, mass=0.7, potential=lambda q: 0.7 * G * q[2], holonomic=lambda q: q @ q - 0.64)
    same = da.simulate(pendulum, "lobatto-pair-4", q=0.8 * n, v=v, t_end=0.2, step=0.002)
    np.testing.assert_allclose(sol.body("ball").position, same.q + [0, 0, 1], atol=1e-10)


def test_the_rim_of_a_disc_rolls_on_a_surface_as_on_a_plane():
    """A curve on a surface: on a plane it is what `rolling` does."""
    runs = []
    for own in (True, False):
        m, r = da.Mechanism(), 0.5
        R = [[1, 0, 0], [0, np.cos(1.2), -np.sin(1.2)], [0, np.sin(1.2), np.cos(1.2)]]
        up = np.array(R)[:, 1]
        omega = 2.0 * up + 3.0 * np.array(R)[:, 2]
        m.body("disc", mass=2.0, inertia=[0.13, 0.13, 0.25], position=r * up, rotation=R, angular_velocity=omega,
               velocity=np.cross(omega, r * up))  # fmt: skip
        if own:
            rim = lambda s: (r * np.cos(s), r * np.sin(s), 0 * s)  # noqa: E731
            m.contact("rim", "ground", lambda x, y: (x, y, 0 * x), "disc", rim, start=(0, 0, -1.5), rolling=True)
        else:
            m.rolling("rim", "ground", "disc", radius=r, axis=np.array(R)[:, 2])
        runs.append(da.simulate(m.assemble(), "gauss-2", t_end=0.1, step=0.002).body("disc").position)
    np.testing.assert_allclose(*runs, atol=1e-8)


def test_a_point_of_contact_in_equations_of_index_two():
    """`y = (p, v, s)`, `z = (lam, w)`: `s' = w` with `0 = (G v, c(p, s))`; a bead on the parabola that its nearest point says."""

    def f(y, z):
        v, s, lam = y[2:4], y[4], z[0]
        return [v[0], v[1], lam * s, -G - lam, z[1]]

    def g(y):
        p, v, s = y[:2], y[2:4], y[4]
        return [s * v[0] - v[1], (p[0] - s) + (p[1] - s**2 / 2) * s]

    dae = da.IndexTwoDAE(("x", "y", "vx", "vy", "s"), f=f, g=g)
    sol = da.simulate(dae, "radau-iia-3", y=[0.8, 0.32, 0, 0, 0.8], t_end=0.5, step=0.01)
    bead = da.Lagrangian(("s",), lagrangian=lambda q, v: (1 + q[0] ** 2) * v[0] ** 2 / 2 - G * q[0] ** 2 / 2)
    same = da.simulate(bead, "gauss-3", q=[0.8], v=[0.0], t_end=0.5, step=0.01)
    np.testing.assert_allclose(sol.y[:, 4], same.q[:, 0], atol=1e-7)


@pytest.mark.parametrize("other", [0.1, lambda r: (0.1 * np.sin(r), -0.1 * np.cos(r))])
def test_a_contact_that_pulls_is_named(other):
    """A disc slides down a cylinder: it would part where `cos = 2/3 + v^2 / (3 g R)`."""
    m = da.Mechanism(gravity=(0, -G))
    m.body("disc", mass=1.0, inertia=0.1, position=(0, 1.1), velocity=(1.5, 0))
    m.contact("top", "ground", lambda s: (np.sin(s), np.cos(s)), "disc", other)
    with pytest.warns(da.DalembertWarning, match="'top' from t = 0.4.* would part"):
        sol = da.simulate(m.assemble(), "murua-ggl-2", t_end=0.5, step=0.01, compile=False)
    press = sol.joint("top").pressing
    height = sol.body("disc").position[1 + np.array([0, -1]) + np.argmax(press < 0), 1] / 1.1
    assert height[0] < 2 / 3 + 2.25 / (3 * G * 1.1) < height[1]


def test_what_is_refused():
    m = cam(0.15, 0.62, start=1.2)
    for arguments, said in (
        (("ground", 0.1, "follower", (0, 0)), "a ball is the second outline"),
        (("ground", (0, 1), "follower", (0, 0)), "one of the outlines must be a function"),
        (("ground", lambda a, b: (a, b), "follower", (0, 0)), "must be a function of one parameter, a curve; it has 2"),
        (("ground", lambda s: s, "follower", 0.1), "must return a point, two or three numbers"),
        (("cam", lambda s: (s, s), "cam", 0.1), "must be two bodies"),
    ):
        with pytest.raises(da.ModelError, match=said):
            m.contact("again", *arguments)
    with pytest.raises(da.ModelError, match="start has 2 values, the outlines have 1 parameters"):
        m.contact("again", "ground", lambda s: (s, s), "follower", (0, 0), start=(1, 2))
    with pytest.raises(da.ModelError, match="bodies roll where"):
        m.contact("again", "ground", lambda s: (s, s), "follower", (0, 0), rolling=True)
    m.friction("rub", "guide", coulomb=0.1)
    with pytest.raises(da.ModelError, match="'rub' depends on a load, which does not go with points of contact"):
        m.assemble()


def test_outlines_go_to_files_and_back(tmp_path):
    """As formulas; a parameter called `e` is not Euler's number, and values of the function's own are numbers."""
    m = cam(0.15, 0.62, start=1.2)
    m.body("ball", mass=1.0, inertia=0.1, position=(3, 0.3))
    m.contact("floor", "ground", lambda x, a=2.0: (x, 0 * a * x), "ball", 0.3, start=3.0, rolling=True)
    again = da.read_mechanism(m.save(tmp_path / "cam.toml"))
    assert again.to_toml() == m.to_toml()
    one, other = (da.simulate(x.assemble(), "murua-2", t_end=0.1, step=0.01).q for x in (m, again))
    np.testing.assert_array_equal(one, other)


BY_HAND = """
parameters = { R = 0.5, e = 0.2 }
[mechanism]
gravity = [0, -9.81]
[bodies.cam]
mass = 3.0
inertia = 0.2
[bodies.follower]
mass = 2.0
inertia = 0.1
position = [0, 0.62]
[joints.touch]
kind = "contact"
a = "cam"
one = OUTLINE
b = "follower"
other = 0.15
start = 1.2
"""


def test_outlines_written_by_hand(tmp_path):
    path = tmp_path / "cam.toml"
    path.write_text(BY_HAND.replace("OUTLINE", '["e + R * cos(s)", "R * sin(s)"]'))
    joint, same = da.read_mechanism(path).joints["touch"], cam(0.15, 0.62, start=1.2).joints["touch"]
    np.testing.assert_allclose(joint.start, same.start, rtol=1e-14)
    for outline, said in (
        ('["R * cos(s)", "R * sin(u)"]', "it has 2 beside those of the mechanism"),
        ('{ formulas = ["R * cos(s)", "s"], parameters = ["u"] }', "'s' is no parameter; did you mean 'u'|known: u, R, e"),
        ('{ formulas = ["s", "s"], parameters = 3 }', "parameters must be a list of names"),
        ('{ curve = ["s", "s"] }', "an outline has no 'curve'"),
        ('["open(s)", "s"]', "no function 'open'"),
        ('"s"', "must be a number"),
    ):
        path.write_text(BY_HAND.replace("OUTLINE", outline))
        with pytest.raises(da.ModelError, match=said):
            da.read_mechanism(path)
