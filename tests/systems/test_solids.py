"""Solids of a picture."""

import numpy as np
import pytest

import dalembert as da
from dalembert.systems.solids import restored

BOX = da.shapes.Box(1.0, 2.0, 3.0).surface()


def test_corners_move_with_the_frame():
    solid = da.Solid((0, 1, 2, 3), *BOX)
    turn = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    points = np.vstack([[5.0, 0.0, 0.0], [5.0, 0.0, 0.0] + turn.T])
    np.testing.assert_allclose(solid.placed(points), [5.0, 0.0, 0.0] + BOX[0] @ turn.T, atol=1e-15)


def test_normals_point_out_and_are_not_smooth_across_edges():
    solid = da.Solid((0, 1, 2, 3), *BOX)
    corners, faces = solid.table
    middle = corners[faces].mean(axis=1)
    assert (np.einsum("kjd,kd->kj", solid.normals, middle) > 0).all()
    np.testing.assert_allclose(np.abs(solid.normals).max(axis=2), 1.0)  # each along an axis: edges of a box are sharp
    ball = da.Solid((0, 1, 2, 3), *da.shapes.Sphere(2.0).surface())
    corners, faces = ball.table
    away = np.einsum("kjd,kjd->kj", ball.normals, corners[faces] / 2)
    assert away.min() > 0.99


def test_the_outline_in_the_plane_is_the_hull():
    solid = da.Solid((0, 1, 2), np.array(BOX[0])[:, :2], BOX[1])
    assert sorted(map(tuple, solid.outline)) == [(-0.5, -1.0), (-0.5, 1.0), (0.5, -1.0), (0.5, 1.0)]


def test_solids_are_in_files():
    solid = da.Solid((0, 1, 2, 3), *BOX, color="#112233")
    again = restored({**solid.data(), "frame": list(solid.frame)})
    np.testing.assert_array_equal(again.table[0], solid.table[0])
    assert again.color == "#112233"
    with pytest.raises(da.FileError):
        restored({"frame": [0, 1, 2, 3], "corners": [[0, 0]], "faces": [[0, 0, 0]], "color": ""})


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda: da.Solid((0, 1), *BOX), "tips of 2 or 3 axes"),
        (lambda: da.Solid((0, 1, 2, 3), BOX[0], [[0, 1, 99]]), "8 corners"),
        (lambda: da.Solid((0, 1, 2, 3), BOX[0], [[0, 1]]), "three columns"),
        (lambda: da.Solid((0, 1, 2, 3), BOX[0] * np.nan, BOX[1]), "not finite"),
        (lambda: da.Solid((0, 1, 2, 3), *BOX, color=3), "color must be a text"),
        (lambda: da.Picture(solids=[1]), "Solid objects"),
        (lambda: da.Picture(solids=3), "list of Solid objects"),
        (
            lambda: da.Mechanical(3, mass=1.0, picture=da.Picture(lambda q: [q], solids=[da.Solid((0, 1, 2, 3), *BOX)])),
            "1 points",
        ),
    ],
)
def test_what_is_wrong_is_said(wrong, said):
    with pytest.raises(da.ModelError, match=said):
        wrong()
