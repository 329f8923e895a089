"""Volumes, centres and inertias of shapes."""

import numpy as np
import pytest

import dalembert as da
from dalembert.mechanisms.shapes import solid

BOX = da.shapes.Box(1.0, 2.0, 3.0)


def inertia(shape):
    return solid([shape])[2]


def test_moments_of_inertia_by_their_formulas():
    np.testing.assert_allclose(inertia(BOX), 6 / 12 * np.diag([13.0, 10.0, 5.0]), rtol=1e-14)
    ball = da.shapes.Sphere(2.0)
    np.testing.assert_allclose(inertia(ball), 0.4 * ball.volume * 4 * np.eye(3), rtol=1e-14)
    rod = da.shapes.Cylinder(0.5, 3.0)
    across = rod.volume * (0.25 / 4 + 9 / 12)
    np.testing.assert_allclose(inertia(rod), np.diag([across, across, rod.volume * 0.125]), rtol=1e-14)
    np.testing.assert_allclose(inertia(da.shapes.Cylinder(0.5, 3.0, axis="x")).diagonal(), [rod.volume * 0.125, across, across])


@pytest.mark.parametrize("shape", [BOX, da.shapes.Cylinder(0.5, 3.0), da.shapes.Sphere(1.5)])
def test_surfaces_are_closed_and_enclose_the_volume(shape):
    mesh = da.shapes.Mesh(*shape.surface())
    assert mesh.closed()
    assert mesh._tetrahedra()[0].sum() > 0  # triangles run around outward normals
    exact = isinstance(shape, da.shapes.Box)
    assert mesh.volume == pytest.approx(shape.volume, rel=1e-13 if exact else 0.05)
    assert np.abs(mesh.middle()).max() < 1e-14
    np.testing.assert_allclose(mesh.moments(), shape.moments(), rtol=1e-13 if exact else 0.1, atol=1e-13)


def test_a_mesh_that_is_moved_has_the_same_moments_about_its_centre():
    corners, faces = BOX.surface()
    mesh = da.shapes.Mesh(corners + [5.0, -2.0, 1.0], faces)
    np.testing.assert_allclose(mesh.middle(), [5.0, -2.0, 1.0], atol=1e-13)
    np.testing.assert_allclose(mesh.moments(), BOX.moments(), atol=1e-11)


def test_parallel_axes_of_two_halves():
    halves = [da.shapes.Box(1.0, 2.0, 1.5, position=(0.0, 0.0, z)) for z in (-0.75, 0.75)]
    volume, centre, J = solid(halves)
    assert volume == pytest.approx(6.0, rel=1e-15)
    assert np.abs(centre).max() < 1e-15
    np.testing.assert_allclose(J, inertia(BOX), rtol=1e-14)


@pytest.mark.parametrize("flip", [False, True])
def test_stl_and_obj_files(tmp_path, flip):
    corners, faces = BOX.surface()
    if flip:
        faces = faces[:, ::-1]
    text = "solid box\n" + "".join(
        "facet normal 0 0 0\nouter loop\n"
        + "".join(f"vertex {x:.17g} {y:.17g} {z:.17g}\n" for x, y, z in corners[f])
        + "endloop\nendfacet\n"
        for f in faces
    )
    (tmp_path / "box.stl").write_text(text)
    binary = np.zeros(len(faces), np.dtype([("n", "<f4", 3), ("c", "<f4", (3, 3)), ("r", "<u2")]))
    binary["c"] = corners[faces]
    (tmp_path / "binary.stl").write_bytes(b" " * 80 + len(faces).to_bytes(4, "little") + binary.tobytes())
    lines = [f"v {x} {y} {z}" for x, y, z in corners] + [f"f {a + 1}/1 {b + 1} {c - len(corners)}" for a, b, c in faces]
    (tmp_path / "box.obj").write_text("\n".join(lines))
    for name in ("box.stl", "binary.stl", "box.obj"):
        mesh = da.shapes.Mesh.read(tmp_path / name, scale=2.0)
        assert mesh.volume == pytest.approx(48.0, rel=1e-14)
        np.testing.assert_allclose(inertia(mesh), 32 * inertia(BOX), rtol=1e-13, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.ply", b"", "STL and OBJ"),
        ("a.stl", b"solid\nvertex 1 2 x\n", "no numbers"),
        ("a.stl", b"solid\nvertex 1 2 3\n", "within a triangle"),
        ("a.stl", b"", "no triangles"),
        ("a.obj", b"v 0 0 0\nf 1 2 3", "not there"),
        ("a.obj", b"v 0 0 0\nf a b c", "is none"),
    ],
)
def test_files_that_are_no_meshes(tmp_path, name, content, said):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(da.FileError, match=said):
        da.shapes.Mesh.read(tmp_path / name)


def test_a_missing_file():
    with pytest.raises(da.FileError, match="cannot be read"):
        da.shapes.Mesh.read("nowhere.stl")


def test_bad_shapes():
    with pytest.raises(da.ModelError, match="must be positive"):
        da.shapes.Sphere(-1.0)
    with pytest.raises(da.ModelError, match="numbers of corners"):
        da.shapes.Mesh([[0, 0, 0]], [[0, 1, 2]])
    with pytest.raises(da.ModelError, match="not closed"):
        _ = da.shapes.Mesh(np.eye(3), [[0, 1, 2]]).volume
    with pytest.raises(da.UnknownKeyword, match="radius"):
        da.shapes.Sphere(radus=1.0)


def test_the_centre_of_a_mesh_in_the_plane_is_in_the_plane():
    """Sums over triangles are rounded: a centre of -6e-19 is zero."""
    corners, faces = da.shapes.Cylinder(0.3, 0.1).surface()
    mesh = da.shapes.Mesh(corners + np.array([0.1, 0, 1e-19]), faces)
    m = da.Mechanism(gravity=(0, -9.81))
    assert m.body("plate", density=100.0, shape=mesh).center[2] == 0
