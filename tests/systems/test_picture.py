"""What is drawn of a system, said or unsaid."""

import numpy as np
import pytest

import dalembert as da
from dalembert.systems import SI


def free(names, **options):
    return da.Mechanical(names, mass=1.0, **options)


def test_points_by_name_and_rods_by_constraint():
    system = free(
        ("x1", "y1", "x2", "y2", "angle"),
        holonomic=lambda q: [np.dot(q[:2], q[:2]) - 1, (q[2] - q[0]) ** 2 + (q[3] - q[1]) ** 2 - 4],
    )
    assert set(system.picture.links) == {(0, 1), (0, 2)}  # the last point is the origin
    assert system.picture.masses == (0, 1)
    points = system.numeric("points", system.pack(), q=[[1.0, 2.0, 3.0, 4.0, 5.0]])
    assert points.tolist() == [[[1, 2], [3, 4], [0, 0]]]


def test_a_bead_on_a_curve_has_no_rod():
    assert free(("x", "y"), holonomic=lambda q: q[1] - q[0] ** 2).picture.links == ()


def test_points_by_dimension():
    assert free(6, dimension=3).picture.masses == (0, 1)
    assert not free(6).drawn
    assert not free(("x", "u")).drawn
    assert free(6).picture is None


def test_units_alone_keep_the_default_points():
    system = free(("x", "y"), picture=da.Picture(units=SI))
    assert system.drawn
    assert system.picture.units["time"] == "s"
    assert free(2, picture=da.Picture(units=SI)).picture.units == SI


@pytest.mark.parametrize("form", ["to_hamiltonian", "to_port_hamiltonian", "to_dae"])
def test_conversions_keep_the_picture(form):
    system = da.catalog.double_pendulum()
    other = getattr(system, form)(*(["ggl"] if form == "to_dae" else []))
    q = np.array(system.initial["q"])
    state = np.concatenate([q, np.zeros(other.n - 4)])
    ours = other.numeric("points", other.pack(), **{other.state[0]: state[None]})
    assert np.array_equal(ours, system.numeric("points", system.pack(), q=q[None]))
    assert other.picture == system.picture


def test_ports_have_pictures_and_files_keep_them(tmp_path):
    sol = da.simulate(da.catalog.mass_spring_damper(), "discrete-gradient", t_end=0.1, step=0.01)
    assert sol.system.drawn
    sol.save(tmp_path / "a.nc")
    assert da.load(tmp_path / "a.nc").system.picture.parts() == sol.system.picture.parts()


def test_bodies_and_mistakes():
    disk = da.catalog.rolling_disk()
    rim = disk.numeric("points", disk.pack(), q=[[0.3, 0.2, 0.7, 1.1]])[0]
    assert np.allclose(np.linalg.norm(rim[:24] - rim[24], axis=1), 0.25, atol=1e-15)
    assert np.isclose(rim[:24, 2].min(), 0.0, atol=0.01)
    with pytest.raises(da.ModelError, match="at least three"):
        da.Picture(bodies=((0, 1),))
    with pytest.raises(da.ModelError, match="two points"):
        da.Picture(links=((0, 1, 2),))
    with pytest.raises(da.ModelError, match="pairs of point numbers"):
        da.Picture(links=(0, 1))
    with pytest.raises(da.ModelError, match="uses point 5"):
        free(("x", "y"), picture=da.Picture(lambda q: [[q[0], q[1]]], bodies=((0, 1, 5),)))
    with pytest.raises(da.ModelError, match=r"da\.Picture"):
        free(("x", "y"), picture=[1, 2])


def held(constraint, **options):
    return da.Mechanical(("x1", "y1", "x2", "y2"), mass=1.0, holonomic=constraint, **options)


def test_rods_are_found_and_none_invented():
    assert held(lambda q: (q[0] - q[2]) ** 2 + (q[1] - q[3]) ** 2 + q[3] ** 2 - 1).picture.links == ()
    assert held(lambda q: np.sqrt((q[0] - q[2]) ** 2 + (q[1] - q[3]) ** 2) - 1).picture.links == ((0, 1),)


def test_a_large_net_has_its_rods_and_a_cloud_its_points():
    n = 9
    ids = np.arange(n * n).reshape(n, n)
    rods = [*zip(ids[:, :-1].flat, ids[:, 1:].flat, strict=True), *zip(ids[:-1].flat, ids[1:].flat, strict=True)]
    first, second = np.array(rods).T

    def lengths(q):
        apart = q.reshape(-1, 3)[first] - q.reshape(-1, 3)[second]
        near = q[:3] - 2 * q[-3:]  # of two points, but no distance
        return np.concatenate([np.sum(apart * apart, axis=1) - 1, [np.dot(near, near) - 1]])

    picture = free(3 * n * n, dimension=3, holonomic=lengths).picture
    assert list(picture.links) == [(int(a), int(b)) for a, b in rods]
    assert picture.masses == ()
    assert len(free(300, dimension=3).picture.masses) == 100


def test_pivots_off_the_origin_move_as_they_are_stated():
    system = held(
        lambda q, t, d: [(q[0] - np.sin(t)) ** 2 + q[1] ** 2 - 1, (q[2] - d) ** 2 + q[3] ** 2 - 1], parameters={"d": 0.0}
    )
    assert set(system.picture.links) == {(0, 2), (1, 3)}
    points = system.numeric("points", system.pack({"d": 3.0}), q=[[1.0, 0, 4.0, 0]], t=[0.5])[0]
    assert np.allclose(points[2:], [[np.sin(0.5), 0.0], [3.0, 0.0]])


def test_letters_in_names():
    system = da.Mechanical(
        ("x_A", "y_A", "x_B", "y_B"), mass=1.0, holonomic=lambda q: (q[0] - q[2]) ** 2 + (q[1] - q[3]) ** 2 - 1
    )
    assert system.picture.links == ((0, 1),)


@pytest.mark.parametrize("form", [np.sqrt, np.log, lambda d: d])
def test_a_pivot_off_the_origin_in_any_function_of_the_distance(form):
    system = da.Mechanical(("x", "y"), mass=1.0, holonomic=lambda q: form((q[0] - 3) ** 2 + (q[1] + 1) ** 2) - form(4.0))
    assert system.picture.links == ((0, 1),)
    assert np.allclose(system.numeric("points", system.pack(), q=[[1.0, 2.0]])[0, 1], [3.0, -1.0])
