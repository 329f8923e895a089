"""The report in a real browser."""

import json
import re

import numpy as np
import pytest

import browser
import dalembert as da
from pages import inside

RUNS = [
    lambda: da.simulate(da.catalog.double_pendulum(), "rattle", t_end=3.0, step=0.01),
    lambda: da.simulate(da.catalog.spherical_pendulum(), "energy-momentum", t_end=2.0, step=0.01),
    lambda: da.simulate(da.catalog.rolling_disk(), "spark-2", t_end=2.0, step=0.01),
    lambda: da.simulate(da.catalog.rlc_ladder(), "discrete-gradient", t_end=2.0, step=0.01, u=[1.0]),
    lambda: da.simulate(da.catalog.simple_pendulum().to_dae("ggl"), "spark-2", t_end=1.0, step=0.01),
    lambda: da.simulate(da.catalog.mass_spring_damper(), "discrete-gradient", t_end=2.0, step=0.01, u=lambda t: [np.sin(t)]),
]


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    """A browser for all tests of this file."""
    with browser.Page("", tmp_path_factory.mktemp("profile")) as page:
        yield page


# every cursor stands where the axis of its figure has the time, within half a pixel
AGREE = """dalembert.names.every(n => {
  const div = document.getElementById(n), line = div.querySelector('.cursor').getBoundingClientRect();
  const plot = div.querySelector('.nsewdrag').getBoundingClientRect(), [low, high] = div.layout.xaxis.range;
  return Math.abs(line.left - plot.left - plot.width * (dalembert.time() - low) / (high - low)) < 0.5 && line.height > 50;
})"""


@pytest.mark.skipif(browser.PATH is None, reason="no browser here")
@pytest.mark.parametrize("k", range(len(RUNS)))
def test_report_in_a_browser(chromium, tmp_path, k):
    """Figures are there, play moves the mechanism, slider, clock, keys and cursors agree, no complaint, nothing loaded."""
    sol = RUNS[k]()
    path = sol.report(tmp_path / "run.html")
    text = path.read_text()
    assert str(sol.system.name) in text
    assert "http" not in re.sub(r"<script>.*?</script>", "", text, flags=re.S)
    page = chromium.open(path.as_uri())
    count = page.value("dalembert.names.length")
    assert count >= 2
    assert page.value("document.querySelectorAll('.figure .main-svg').length") >= count
    assert page.value("[...document.querySelectorAll('.figure .scatterlayer .trace')].length") >= count
    drawn = page.value("document.getElementById('mechanism') !== null")
    assert drawn == (k != 3)  # voltages and currents have no picture
    picture = "document.getElementById('mechanism')?.toDataURL()"
    first = page.value(picture)
    page.click("#play")
    page.until("dalembert.playing && dalembert.frame > 3")
    assert not drawn or page.value(picture) != first
    page.click("#play")
    assert not page.value("dalembert.playing")
    half = page.value("(s => { s.value = Math.floor(s.max / 2); s.dispatchEvent(new Event('input')); return +s.value })"
                      "(document.getElementById('time'))")  # fmt: skip
    assert page.value("dalembert.frame") == half
    assert page.value(AGREE)
    t = page.value("dalembert.time()")
    assert page.value("document.getElementById('clock').textContent").startswith(f"t = {float(f'{t:.4g}'):g}"[:7])
    page.value("document.activeElement.blur()")
    page.press("ArrowRight")
    page.until(f"dalembert.frame === {half + 1}")
    assert page.value(AGREE)
    page.click(".figure .nsewdrag")  # the middle of the first figure is the middle of the run
    page.until(f"Math.abs(dalembert.frame - {half}) <= 2 + 0.02 * {half}")
    assert page.complaints == []
    assert [url for url in page.requests if not url.startswith(("data:", "blob:"))] == [path.as_uri()]


# while it plays: by how much the frame shown is behind the time it should show, and how often a figure was drawn anew
KEPT_TIME = """new Promise(done => {
  const apart = []; let began = null, layouts = 0;
  dalembert.show(0);
  dalembert.names.forEach(n => document.getElementById(n).on('plotly_afterplot', () => layouts++));
  document.getElementById('play').click();
  const look = now => {  // asked for after the page's own, so called after it with the same time
    if (began !== null) apart.push(2 * (now - began) / 1000 - dalembert.time());
    began ??= now;
    if (dalembert.time() < 1) return requestAnimationFrame(look);
    document.getElementById('play').click(); done([apart, layouts]);
  };
  requestAnimationFrame(look);
})"""
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
def test_what_a_report_draws(chromium, tmp_path):
    """Masses and rods where the run has them, y upwards; keys, speed and cursors; decades on logarithmic axes."""
    sol = da.simulate(da.catalog.double_pendulum(), "rattle", t_end=3.0, step=0.01)
    page = chromium.open(sol.report(tmp_path / "run.html").as_uri())
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
    assert page.value(AGREE)
    titles = [f["title"] for f in inside(tmp_path / "run.html")[0]["figures"]]
    low, high = page.value(f"document.getElementById('figure{titles.index('error of the energy')}').layout.yaxis.range")
    sizes = np.log10(np.maximum(np.abs(sol.energy[1:] - sol.energy[0]), 1e-17))
    assert low < sizes.min() < sizes.max() < high < sizes.max() + 6
    # whatever a frame costs, the motion is where the clock of the wall says: at most the frame before that time
    page.value("(s => { s.value = '2'; s.dispatchEvent(new Event('change')); })(document.getElementById('speed'))")
    apart, layouts = page.value(KEPT_TIME)
    assert len(apart) > 3
    assert all(-1e-6 < late < 0.01 + 1e-6 for late in apart)
    assert layouts == 0
    assert page.complaints == []


COLOURED = """(way => {
  const canvas = document.getElementById('mechanism'), pen = canvas.getContext('2d');
  const inked = () => {
    const d = pen.getImageData(0, 0, canvas.width, canvas.height).data;
    let n = 0;
    for (let k = 0; k < d.length; k += 4) {
      const rgb = [d[k], d[k + 1], d[k + 2]];
      if (d[k + 3] > 250 && Math.max(...rgb) - Math.min(...rgb) > 25) n++;
    }
    return n;
  };
  dalembert.show(0); const first = inked(), before = canvas.toDataURL();
  dalembert.show(20); const later = inked(), after = canvas.toDataURL();
  return [dalembert.drawn[0], first, later, before !== after];
})()"""


@pytest.mark.skipif(browser.PATH is None, reason="no browser here")
@pytest.mark.parametrize("gl", [True, False])
def test_bodies_are_drawn_as_lit_surfaces(chromium, tmp_path, gl):
    """By WebGL where the browser has it, painted otherwise; in colour, and moving."""
    system = da.catalog.mechanisms.six_axis_arm().assemble(coordinates="joint")
    sol = da.simulate(system, "rattle", t_end=0.2, step=0.005, u=[0.0] * 6)
    path = tmp_path / "arm.html"
    sol.report(path)
    if not gl:
        path.write_text(path.read_text(encoding="utf-8").replace('canvas.getContext("webgl"', 'void ("webgl"'), encoding="utf-8")
    page = chromium.open(path.as_uri())
    how, first, later, moved = page.value(COLOURED)
    assert how in (("webgl", "painted") if gl else ("painted",))
    assert min(first, later) > 4000
    assert moved
    assert not [said for said in page.complaints if "rror" in said]  # how fast a picture is read back is no matter here


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

    figures = json.loads(data)["figures"]
    assert len(figures) >= 2
    shown = [figure["label"] for figure in figures] + [line["name"] for figure in figures for line in figure["lines"]]
    assert any("&lt;" in words for words in shown)
    assert not any("<" in words.replace("<sub>", "").replace("</sub>", "") for words in shown)


@pytest.mark.skipif(browser.PATH is None, reason="no browser here")
@pytest.mark.parametrize("k", range(2))
def test_hostile_names_leave_a_report_with_figures(chromium, tmp_path, k):
    path = list(hostile())[k].report(tmp_path / "run.html")
    page = chromium.open(path.as_uri())
    count = page.value("dalembert.names.length")
    assert count >= 2
    assert page.value("document.querySelectorAll('.figure .main-svg').length") >= count
    assert page.value("document.title") != "x"
    assert page.value("document.querySelectorAll('img').length") == 0
    assert page.complaints == []
