"""The report in a real browser, and animations."""

import json
import re
import shutil
import subprocess

import numpy as np
import pytest

import dalembert as da

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

# runs inside the page: play moves the mechanism, slider and cursor agree, nothing is loaded from elsewhere
DRIVER = """<script>
window.problems = [];
window.addEventListener("error", e => window.problems.push(String(e.message)));
window.addEventListener("unhandledrejection", e => window.problems.push(String(e.reason)));
for (const kind of ["error", "warn"]) console[kind] = (...words) => window.problems.push(words.join(" "));
const pause = ms => new Promise(done => setTimeout(done, ms));
window.addEventListener("load", async () => {
  const out = { figures: document.querySelectorAll(".figure .main-svg").length > 0, names: dalembert.names.length };
  const canvas = document.getElementById("mechanism"), shot = () => canvas.toDataURL();
  const first = shot();
  document.getElementById("play").click();
  for (let i = 0; i < 200 && dalembert.frame === 0; i++) await pause(50);  // frames come when the browser has time
  out.moved = dalembert.frame > 0;
  out.redrawn = shot() !== first;
  document.getElementById("play").click();
  const slider = document.getElementById("time");
  slider.value = Math.floor(slider.max / 2);
  slider.dispatchEvent(new Event("input"));
  const agree = () => dalembert.names.every(id => document.getElementById(id).layout.shapes[0].x0 === dalembert.time());
  for (let i = 0; i < 200 && !agree(); i++) await pause(50);
  out.frame = dalembert.frame;
  out.half = Math.floor(slider.max / 2);
  out.time = dalembert.time();
  out.cursors = dalembert.names.map(id => document.getElementById(id).layout.shapes[0].x0);
  document.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight" }));
  out.next = dalembert.frame;
  out.clock = document.getElementById("clock").textContent;
  out.foreign = performance.getEntriesByType("resource").map(r => r.name).filter(n => !n.startsWith("data:") &&
  !n.startsWith("blob:")); out.problems = window.problems;
  const box = document.createElement("pre");
  box.id = "verdict";
  box.textContent = JSON.stringify(out);
  document.body.appendChild(box);
});
</script>"""


def solutions():
    yield da.simulate(da.catalog.double_pendulum(), "rattle", t_end=3.0, step=0.01)
    yield da.simulate(da.catalog.spherical_pendulum(), "energy-momentum", t_end=2.0, step=0.01)
    yield da.simulate(da.catalog.rolling_disk(), "spark-2", t_end=2.0, step=0.01)
    yield da.simulate(da.catalog.rlc_ladder(), "discrete-gradient", t_end=2.0, step=0.01, u=[1.0])
    yield da.simulate(da.catalog.simple_pendulum().to_dae("ggl"), "spark-2", t_end=1.0, step=0.01)
    yield da.simulate(da.catalog.mass_spring_damper(), "discrete-gradient", t_end=2.0, step=0.01, u=lambda t: [np.sin(t)])


@pytest.mark.parametrize("k", range(6))
def test_report_in_a_browser(tmp_path, k):
    sol = list(solutions())[k]
    path = sol.report(tmp_path / "run.html")
    text = path.read_text()
    assert str(sol.system.name) in text
    plain = re.sub(r"<script>.*?</script>", "", text, flags=re.S)
    assert "http" not in plain
    if BROWSER is None:
        pytest.skip("no browser here")
    driven = tmp_path / "driven.html"
    driven.write_text(text.replace("</head>", DRIVER + "</head>"))
    command = [
        BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
        "--disable-component-update", "--disable-sync", f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=30000",
        "--dump-dom", driven.as_uri(),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    found = re.search(r'<pre id="verdict">(.*?)</pre>', done.stdout, flags=re.S)
    assert found, done.stderr[-2000:]
    out = json.loads(found.group(1).replace("&gt;", ">").replace("&lt;", "<").replace("&amp;", "&"))
    assert out["figures"]
    assert out["moved"]
    assert out["redrawn"]
    assert out["frame"] == out["half"]
    assert out["next"] == out["half"] + 1
    assert all(abs(x - out["time"]) < 1e-9 for x in out["cursors"])
    assert out["problems"] == []
    assert out["foreign"] == []


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
