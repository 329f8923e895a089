"""The report in a real browser, and animations."""

import re

import numpy as np
import pytest

import browser
import dalembert as da


def solutions():
    yield da.simulate(da.catalog.double_pendulum(), "rattle", t_end=3.0, step=0.01)
    yield da.simulate(da.catalog.spherical_pendulum(), "energy-momentum", t_end=2.0, step=0.01)
    yield da.simulate(da.catalog.rolling_disk(), "spark-2", t_end=2.0, step=0.01)
    yield da.simulate(da.catalog.rlc_ladder(), "discrete-gradient", t_end=2.0, step=0.01, u=[1.0])
    yield da.simulate(da.catalog.simple_pendulum().to_dae("ggl"), "spark-2", t_end=1.0, step=0.01)
    yield da.simulate(da.catalog.mass_spring_damper(), "discrete-gradient", t_end=2.0, step=0.01, u=lambda t: [np.sin(t)])


@pytest.mark.parametrize("k", range(6))
def test_the_file_is_self_contained(tmp_path, k):
    sol = list(solutions())[k]
    text = sol.report(tmp_path / "run.html").read_text()
    assert str(sol.system.name) in text
    assert "http" not in re.sub(r"<script>.*?</script>", "", text, flags=re.S)


@pytest.mark.skipif(browser.PATH is None, reason="no browser here")
@pytest.mark.parametrize("k", range(6))
def test_report_in_a_browser(tmp_path, k):
    """Figures are there, play moves the mechanism, slider, clock, keys and cursors agree, no complaint, nothing loaded."""
    path = list(solutions())[k].report(tmp_path / "run.html")
    with browser.Page(path.as_uri(), tmp_path / "profile") as page:
        count = page.value("dalembert.names.length")
        assert count >= 2
        assert page.value("document.querySelectorAll('.figure .main-svg').length") >= count
        assert page.value("[...document.querySelectorAll('.figure .scatterlayer .trace')].length") >= count
        picture = "document.getElementById('mechanism').toDataURL()"
        first = page.value(picture)
        page.click("#play")
        page.until("dalembert.playing && dalembert.frame > 3")
        assert page.value(picture) != first
        page.click("#play")
        assert not page.value("dalembert.playing")
        half = page.value("(s => { s.value = Math.floor(s.max / 2); s.dispatchEvent(new Event('input')); return +s.value })"
                          "(document.getElementById('time'))")  # fmt: skip
        assert page.value("dalembert.frame") == half
        agree = "dalembert.names.every(n => document.getElementById(n).layout.shapes[0].x0 === dalembert.time())"
        page.until(agree)
        t = page.value("dalembert.time()")
        assert page.value("document.getElementById('clock').textContent").startswith(f"t = {float(f'{t:.4g}'):g}"[:7])
        page.value("document.activeElement.blur()")
        page.press("ArrowRight")
        page.until(f"dalembert.frame === {half + 1}")
        page.until(agree)
        page.click(".figure .nsewdrag")  # the middle of the first figure is the middle of the run
        page.until(f"Math.abs(dalembert.frame - {half}) <= 2 + 0.02 * {half}")
        assert page.complaints == []
        assert [url for url in page.requests if not url.startswith(("data:", "blob:"))] == [path.as_uri()]


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
    from dalembert.reporting import _even

    t = np.cumsum([0.0, 0.1, 0.1, 0.3, 0.02, 0.02, 0.02, 0.44])
    rows = _even(t, 5)
    assert rows[0] == 0
    assert rows[-1] == len(t) - 1
    assert np.abs(t[rows] - np.linspace(0, 1, 5)).max() <= 0.25


def test_the_report_states_what_was_run(tmp_path):
    sol = da.simulate(da.catalog.double_pendulum(), "rattle", t_end=0.5, step=0.01, parameters={"m1": 2.5})
    text = sol.report(tmp_path / "run.html").read_text()
    for words in ("m1 = 2.5", "q = 1, 0, 2, 0", "symplectic", "Andersen 1983", da.__version__):
        assert words in text
