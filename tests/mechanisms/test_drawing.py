"""Pictures of mechanisms."""

import numpy as np
import pytest

import dalembert as da


def four_bar():
    m = da.Mechanism(gravity=(0, -9.81), name="four-bar")
    m.rod("crank", (0, 0), (0.3, 0.4), mass=1.0)
    m.rod("coupler", (0.3, 0.4), (1.2, 0.9), mass=1.5)
    m.rod("rocker", (1.2, 0.9), (1.0, 0), mass=1.2)
    m.revolute("A", "ground", "crank", at=(0, 0))
    m.revolute("B", "crank", "coupler", at=(0.3, 0.4))
    m.revolute("C", "coupler", "rocker", at=(1.2, 0.9))
    m.revolute("D", "rocker", "ground", at=(1.0, 0))
    return m.assemble()


def test_bodies_are_drawn_where_they_are():
    system = four_bar()
    sol = da.simulate(system, "rattle", t_end=0.3, step=0.01)
    rods = [s for s in system.picture.solids if s.color != "#3A3F46"]
    assert len(rods) == 3
    lengths = {"crank": 0.5, "coupler": np.hypot(0.9, 0.5), "rocker": np.hypot(0.2, 0.9)}
    for (name, length), solid in zip(lengths.items(), rods, strict=True):
        body, corners = sol.body(name), solid.placed(sol.points[-1])
        along = corners @ body.rotation[-1][:2, 0]
        assert np.ptp(along) == pytest.approx(length, abs=1e-9)
        np.testing.assert_allclose(corners.mean(axis=0), body.position[-1][:2], atol=1e-9)


def test_shapes_off_the_centre_of_mass_are_drawn_in_their_place():
    m = da.Mechanism()
    parts = [
        da.shapes.Box(1.0, 0.1, 0.1, position=(0.5, 0.0, 0.0)),
        da.shapes.Sphere(0.1, position=(1.0, 0.0, 0.0), color="#3A3F46"),
    ]  # the colour of pins
    m.body("hammer", shape=parts, density=1000.0)
    m.spherical("pivot", "ground", "hammer", at=(0, 0, 0))
    system = m.assemble()
    points = system.numeric("points", system.pack(), q=system.initial["q"])[0].reshape(-1, 3, order="F")
    box = system.picture.solids[0].placed(points)
    np.testing.assert_allclose([box[:, 0].min(), box[:, 0].max()], [0.0, 1.0], atol=1e-9)
    ball = system.picture.solids[1].placed(points)
    np.testing.assert_allclose(ball.mean(axis=0), [1.0, 0.0, 0.0], atol=1e-9)


def test_a_report_has_the_solids(tmp_path):
    sol = da.simulate(four_bar(), "rattle", t_end=0.1, step=0.01)
    sol.report(tmp_path / "run.html")
    assert '"outline"' in (tmp_path / "run.html").read_text(encoding="utf-8")


def test_units_of_coordinates():
    units = four_bar().picture.units
    assert units["crank.x"] == "m"
    assert units["crank.theta"] == "rad"
