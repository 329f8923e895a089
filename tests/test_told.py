"""What results say of themselves: text where they are printed, HTML in a notebook, the same facts in both."""

import re

import numpy as np
import pytest

import dalembert as da
from dalembert.analysis import Manoeuvre


@pytest.fixture(scope="module")
def results():
    system = da.Mechanical(
        ("a",), mass=1.0, potential=lambda q, g: -g * np.cos(q[0]), dissipation=lambda c: c * np.eye(1), inputs={"push": [1.0]},
        parameters={"g": 9.0, "c": 0.2}, initial={"q": [0.5], "v": [0.0]}, name="pendulum <&>",
    )  # fmt: skip
    rest = da.equilibrium(system, q=[0.1])
    linear = da.linearize(system, at=rest)
    sol = da.simulate(system, "gauss-2", t_end=1.0, step=0.05)
    data = {"t": sol.t, "a": sol.q[:, 0] + 1e-3 * np.cos(50 * sol.t)}
    return {
        "equilibrium": rest,
        "linear": linear,
        "modes": linear.modes(),
        "mode": linear.modes()[0],
        "fit": da.fit(system, data, free=["g"], method="gauss-2", step=0.05),
        "manoeuvre": Manoeuvre(sol.t[:1], np.zeros((1, 1)), 1.5, sol, 1e-14, 0.0, 3, "solve succeeded"),
        "diagnosis": da.diagnose(system),
    }


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("equilibrium", ["asymptotically stable", "residual"]),
        ("linear", ["1 inputs", "v_a", "-0.1 +- 2.9"]),
        ("modes", ["0.4772", "0.0333", "no."]),
        ("mode", ["frequency", "a 1"]),
        ("fit", ["standard error", "noise", "evaluations"]),
        ("manoeuvre", ["1.5", "solve succeeded"]),
        ("diagnosis", ["degrees of freedom", "gauss-2"]),
    ],
)
def test_text_and_html_say_the_same(results, name, words):
    thing = results[name]
    page = thing._repr_html_()
    for word in words:
        assert word in str(thing)
        assert word in page
    assert repr(thing) == str(thing)
    assert "pendulum &lt;&amp;&gt;" in page  # names are text, never markup
    for tag in ("div", "table", "details", "td", "th"):
        assert len(re.findall(rf"<{tag}\b", page)) == page.count(f"</{tag}>")


def test_a_linearisation_shows_its_matrices(results):
    page = results["linear"]._repr_html_()
    cells = re.findall(r"<td[^>]*>(.*?)</td>", page.split("<summary")[1])
    assert cells[:8] == ["a&#x27;", "0", "1", "0", "v_a&#x27;", "-9", "-0.2", "1"]


def test_a_mechanism_lists_its_parts():
    press = da.Mechanism(gravity=(0, -9.81), name="press")
    press.rod("bar", (0, 0), (1, 0), mass=2.0)
    press.revolute("pin", "ground", "bar", at=(0, 0))
    press.torsion_spring("back", "pin", stiffness=3.0)
    press.motor("drive", "pin")
    press.sensor("tip", "bar")
    cells = re.findall(r"<td[^>]*>(.*?)</td>", press._repr_html_())
    assert dict(zip(cells[::2], cells[1::2], strict=True)) == {
        "gravity": "0, -9.81", "bar": "body, mass 2", "pin": "revolute ground - bar", "back": "torsion spring pin",
        "drive": "motor pin", "tip": "sensor bar",
    }  # fmt: skip
    for k in range(80):
        press.particle(f"p{k}", mass=1.0)
    assert "86 in all" in press._repr_html_()
