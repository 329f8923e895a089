"""Films: frames, times, sizes."""

import numpy as np
import pytest

import dalembert as da


def test_animation(tmp_path):
    sol = da.simulate(da.catalog.double_pendulum(), "rattle", t_end=1.0, step=0.01)
    path = sol.animate(tmp_path / "run.gif", fps=10)
    assert path.read_bytes()[:3] == b"GIF"
    assert path.stat().st_size > 10_000
    with pytest.raises(da.MethodError, match=r"\.gif or \.mp4"):
        sol.animate(tmp_path / "run.avi")
    with pytest.raises(da.MethodError, match=r"ends in \.html"):
        sol.report(tmp_path / "run.pdf")


@pytest.mark.parametrize("name", ["rolling_disk", "rlc_ladder"])
def test_animation_with_bodies_in_space_and_bars(name, tmp_path):
    system = getattr(da.catalog, name)()
    sol = da.simulate(system, "spark-2" if name == "rolling_disk" else "discrete-gradient", t_end=0.3, step=0.01)
    assert sol.animate(tmp_path / "run.gif", fps=10).stat().st_size > 5_000


def test_film(tmp_path):
    sol = da.simulate(da.catalog.double_pendulum(), "rattle", t_end=0.5, step=0.01)
    assert sol.animate(tmp_path / "run.mp4", fps=10).read_bytes()[4:8] == b"ftyp"
    with pytest.raises(da.MethodError, match="positive numbers"):
        sol.animate(tmp_path / "run.mp4", fps=0)


def test_frames_are_even_in_time(tmp_path):
    from dalembert.reporting.film import _even

    t = np.cumsum([0.0, 0.1, 0.1, 0.3, 0.02, 0.02, 0.02, 0.44])
    rows = _even(t, 5)
    assert rows[0] == 0
    assert rows[-1] == len(t) - 1
    assert np.abs(t[rows] - np.linspace(0, 1, 5)).max() <= 0.25


def test_a_film_lasts_as_long_as_the_motion(tmp_path):
    from PIL import Image

    sol = da.simulate(da.catalog.simple_pendulum(), "rattle", t_end=1.0, step=0.01)
    total = 0
    with Image.open(sol.animate(tmp_path / "a.gif", fps=30)) as film:
        for k in range(film.n_frames):
            film.seek(k)
            total += film.info["duration"]
    assert abs(total - 1000) <= 40


def test_frames_show_clock_and_motion():
    from dalembert.engine.progress import Bar
    from dalembert.reporting.film import Look, _images

    for system, method in ((da.catalog.simple_pendulum(), "rattle"), (da.catalog.rolling_disk(), "spark-2")):
        sol = da.simulate(system, method, t_end=1.0, step=0.01)
        one, two, three = _images(sol, np.array([0, 50, 100]), Bar(False, 3), Look())
        assert (one[:30] < 200).sum() > 300  # the title, with the time in it
        assert (one[:30] != two[:30]).any()
        assert (one[60:] != two[60:]).any()
        assert (two[60:] != three[60:]).any()
