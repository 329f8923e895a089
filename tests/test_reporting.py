"""The report in a real browser, and animations."""

import json
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


def inside(path):
    """The data of a page, and its figures by title."""
    text = path.read_text()
    data = json.loads(re.search(r"^const data = (.*);$", text, flags=re.M).group(1))
    return data, {f["title"]: f for f in data["figures"]}


def test_the_numbers_in_a_report_are_those_of_the_run(tmp_path):
    start = {"q": [0, -1, 0, -2], "v": [1, 0, 2, 0]}  # its energy is not zero
    sol = da.simulate(da.catalog.double_pendulum(), "rattle", **start, t_end=3.0, step=0.01)
    data, figures = inside(sol.report(tmp_path / "run.html"))
    assert data["t"] == sol.t.tolist()
    np.testing.assert_allclose(np.array(data["points"])[:, :2].reshape(len(sol.t), 4), sol.q, atol=5e-7)
    assert [line["y"] for line in figures["coordinates"]["lines"]] == sol.q.T.tolist()
    names = {"kinetic": sol.kinetic, "potential": sol.potential, "total": sol.energy}
    assert {line["name"]: line["y"] for line in figures["energy"]["lines"]} == {k: v.tolist() for k, v in names.items()}
    error = np.maximum(np.abs(sol.energy - sol.energy[0]), 1e-17)
    assert figures["error of the energy"]["lines"][0]["y"] == error.tolist()
    for line in figures["constraints"]["lines"]:
        assert line["y"] == np.maximum(np.abs(sol.residual(line["name"])).max(axis=1), 1e-17).tolist()
    assert figures["constraints"]["log"]
    for k, line in enumerate(figures["multipliers"]["lines"]):
        assert line["y"] == [sol.lam[0, k], *sol.lam[:, k]]


def test_the_ledger_in_a_report(tmp_path):
    sol = da.simulate(da.catalog.dc_motor(), "discrete-gradient", t_end=0.5, step=0.01, u=lambda t: [np.sin(9 * t), 0.1])
    _, figures = inside(sol.report(tmp_path / "run.html"))
    lines = {line["name"]: np.array(line["y"]) for line in figures["ledger, energy since the start"]["lines"]}
    np.testing.assert_allclose(lines["stored"], sol.energy - sol.energy[0], atol=1e-15)
    np.testing.assert_allclose(lines["dissipated"][1:], np.cumsum(sol.dissipated), atol=1e-15)
    np.testing.assert_allclose(lines["voltage"] + lines["torque"], np.r_[0, np.cumsum(sol.supplied)], atol=1e-15)
    inputs = {line["name"]: line["y"] for line in figures["inputs"]["lines"]}
    assert inputs == {"voltage": sol.u[:, 0].tolist(), "torque": sol.u[:, 1].tolist()}


WATCH = """(() => {
  const pen = document.getElementById('mechanism').getContext('2d'), seen = {lines: [], masses: []};
  let from = null;
  for (const [name, note] of Object.entries({
    moveTo: (x, y) => { from = [x, y]; }, lineTo: (x, y) => { seen.lines.push([from, [x, y], pen.lineWidth]); },
    arc: (x, y) => { seen.masses.push([x, y]); } })) {
    const own = pen[name].bind(pen);
    pen[name] = (...a) => { note(...a); return own(...a); };
  }
  dalembert.show(%d);
  for (const name of ['moveTo', 'lineTo', 'arc']) delete pen[name];
  return seen;
})()"""


@pytest.mark.skipif(browser.PATH is None, reason="no browser here")
def test_what_a_report_draws(tmp_path):
    """Masses and rods where the run has them, y upwards; keys, speed and cursors; decades on logarithmic axes."""
    sol = da.simulate(da.catalog.double_pendulum(), "rattle", t_end=3.0, step=0.01)
    with browser.Page(sol.report(tmp_path / "run.html").as_uri(), tmp_path / "profile") as page:
        seen = page.value(WATCH % 100)
        masses, q = np.array(seen["masses"]), sol.q[100].reshape(2, 2)
        scale = (masses[1, 0] - masses[0, 0]) / (q[1, 0] - q[0, 0])
        assert scale > 50
        np.testing.assert_allclose(masses[1] - masses[0], scale * (q[1] - q[0]) * [1, -1], atol=0.01)
        rods = np.array([line[:2] for line in seen["lines"] if line[2] == 4])
        origin = masses[0] - scale * q[0] * [1, -1]
        np.testing.assert_allclose(rods, [masses, [masses[0], origin]], atol=0.01)
        page.value("document.activeElement.blur()")
        for key, frame in (("ArrowLeft", 99), ("ArrowRight", 100), ("ArrowRight", 101)):
            page.press(key)
            page.until(f"dalembert.frame === {frame}")
        line = "document.getElementById(n).layout.shapes[0]"
        page.until(f"dalembert.names.every(n => {line}.x0 === dalembert.time() && {line}.x1 === dalembert.time())")
        titles = [f["title"] for f in inside(tmp_path / "run.html")[0]["figures"]]
        low, high = page.value(f"document.getElementById('figure{titles.index('constraints')}').layout.yaxis.range")
        sizes = np.log10(np.maximum(np.abs([sol.residual(k).max(axis=1) for k in ("position", "velocity")]), 1e-17))
        assert low < sizes.min() < sizes.max() < high < sizes.max() + 6
        # time goes by as fast as the clock says: half a second of frames at twice the speed is a second of the motion
        page.value("(s => { s.value = '2'; s.dispatchEvent(new Event('change')); })(document.getElementById('speed'))")
        moved = page.value(
            "new Promise(done => { dalembert.show(0); document.getElementById('play').click(); let first = null;"
            " const look = now => { first ??= now; if (dalembert.time() > 1) { document.getElementById('play').click();"
            " done([now - first, dalembert.time()]); } else requestAnimationFrame(look); }; requestAnimationFrame(look); })"
        )
        # frames that take longer than a tenth of a second count as a tenth: the motion is never ahead of the clock
        assert moved[1] <= 2 * (moved[0] + 200) / 1000
        assert page.complaints == []


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


def test_names_are_not_taken_for_places_to_fill(tmp_path):
    system = da.Mechanical(1, mass=1.0, name="<b>__DATA__ __PLOTLY__</b> </script>", initial={"q": [1.0], "v": [1.0]})
    sol = da.simulate(system, "rattle", t_end=0.1, step=0.01)
    text = sol.report(tmp_path / "a.html").read_text()
    plain = da.simulate(da.catalog.harmonic_oscillator(), "rattle", t_end=0.1, step=0.01).report(tmp_path / "b.html")
    assert len(text) < 1.01 * len(plain.read_text())
    assert "<b>__DATA__" not in text


def test_a_film_lasts_as_long_as_the_motion(tmp_path):
    from PIL import Image

    sol = da.simulate(da.catalog.simple_pendulum(), "rattle", t_end=1.0, step=0.01)
    total = 0
    with Image.open(sol.animate(tmp_path / "a.gif", fps=30)) as film:
        for k in range(film.n_frames):
            film.seek(k)
            total += film.info["duration"]
    assert abs(total - 1000) <= 40


def test_spelled_labels():
    from dalembert.reporting import _spelled

    assert _spelled(r"$\varphi_{2}$ (rad)") == "\u03c6<sub>2</sub> (rad)"
    assert _spelled(r"$i_{\mathrm{source}}$") == "i<sub>source</sub>"
    assert _spelled("<b>") == "&lt;b&gt;"
    assert _spelled(r"$v_{x_{1}}$") == "v<sub>x<sub>1</sub></sub>"


def test_frames_show_clock_and_motion():
    from dalembert.engine.progress import Bar
    from dalembert.reporting import _images

    for system, method in ((da.catalog.simple_pendulum(), "rattle"), (da.catalog.rolling_disk(), "spark-2")):
        sol = da.simulate(system, method, t_end=1.0, step=0.01)
        one, two, three = _images(sol, np.array([0, 50, 100]), Bar(False, 3))
        assert (one[:30] < 200).sum() > 300  # the title, with the time in it
        assert (one[:30] != two[:30]).any()
        assert (one[60:] != two[60:]).any()
        assert (two[60:] != three[60:]).any()


HOSTILE = [
    "<!--<script>",
    "</script><script>document.title='x'</script>",
    "<img src=x onerror=document.title='x'>",
    "--><b>",
    "&lt;b&gt;",
]


def hostile():
    """Every name that a user can give: coordinates, ports, system, units, parameters."""
    names = tuple(HOSTILE[:4])
    picture = da.Picture(points=lambda q: [[q[0], q[1]]], units={"time": HOSTILE[0], "length": HOSTILE[1], "energy": HOSTILE[0]})
    start = {"q": [1.0, 0.0, 0.5, 0.2], "v": [0.0] * 4}
    free = da.Mechanical(names, mass=1.0, potential=lambda q: q @ q, name=HOSTILE[0], initial=start, picture=picture)
    yield da.simulate(free, "rattle", t_end=0.2, step=0.01)
    ports = da.PortHamiltonian(
        tuple(HOSTILE[:2]), hamiltonian=lambda x: x @ x / 2, J=[[0.0, 1.0], [-1.0, 0.0]], B=np.eye(2), ports=tuple(HOSTILE[2:4]),
        name=HOSTILE[1], initial={"x": [1.0, 0.0]},
    )  # fmt: skip
    yield da.simulate(ports, "discrete-gradient", t_end=0.2, step=0.01, u=[0.1, 0.2])


@pytest.mark.parametrize("k", range(2))
def test_no_name_opens_a_tag(tmp_path, k):
    """In the page the only tags and comments are its own; in the data of the script there is none."""
    sol = list(hostile())[k]
    text = sol.report(tmp_path / "run.html").read_text()
    data = re.search(r"^const data = (.*);$", text, flags=re.M).group(1)
    assert not set(data) & set("<>&")
    for name in HOSTILE[:4]:
        assert name not in re.sub(r"<script>/\*.*?</script>", "", text, count=1, flags=re.S).replace("</script>\n", "")
    import json

    figures = json.loads(data)["figures"]
    assert len(figures) >= 2
    shown = [figure["label"] for figure in figures] + [line["name"] for figure in figures for line in figure["lines"]]
    assert any("&lt;" in words for words in shown)
    assert not any("<" in words.replace("<sub>", "").replace("</sub>", "") for words in shown)


@pytest.mark.skipif(browser.PATH is None, reason="no browser here")
@pytest.mark.parametrize("k", range(2))
def test_hostile_names_leave_a_report_with_figures(tmp_path, k):
    path = list(hostile())[k].report(tmp_path / "run.html")
    with browser.Page(path.as_uri(), tmp_path / "profile") as page:
        count = page.value("dalembert.names.length")
        assert count >= 2
        assert page.value("document.querySelectorAll('.figure .main-svg').length") >= count
        assert page.value("document.title") != "x"
        assert page.value("document.querySelectorAll('img').length") == 0
        assert page.complaints == []
