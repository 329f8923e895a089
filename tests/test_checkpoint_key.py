"""What makes a run the same one: all that it depends on, and nothing else."""

import os
import subprocess
import sys

import numpy as np
import pytest

import dalembert as da

RUN = {"t_end": 1.0, "step": 0.01, "compile": False}
PENDULUM = da.catalog.simple_pendulum()


def pushed():
    return da.Mechanical(1, mass=1.0, inputs=[1.0], initial={"q": [0.0], "v": [0.0]})


def kepler(**more):
    start = {"q": [0.4, 0.0], "v": [0.0, 2.0]}
    return da.Mechanical(2, mass=1.0, potential=lambda q: -1 / np.sqrt(q @ q), initial=start, **more)


def pulse(end):
    """Differs from others of its kind only between rows that are far apart."""
    return {"u": lambda t: [1.0 if 0.505 < t < end else 0.0], "save_every": 25}


class Ramp:
    def __init__(self, slope):
        self.slope = slope

    def __call__(self, t):
        return [self.slope * t]


def suzuki(scheme):
    return da.compose("rattle", order=4, scheme=scheme)


def scaled(power):
    return {"adaptive": da.control.Reversible(scale=lambda q: np.sqrt(q @ q) ** power)}


@pytest.mark.parametrize(
    ("named", "one", "other"),
    [
        ("inputs u", (pushed(), "rattle", {"u": [0.0]}), (pushed(), "rattle", {"u": [2.0]})),
        ("inputs u", (pushed(), "rattle", {"u": ([0.0, 0.5], [0, 1.0])}), (pushed(), "rattle", {"u": ([0.0, 0.5], [0, 2.0])})),
        ("inputs u", (pushed(), "rattle", {"u": lambda t: [t]}), (pushed(), "rattle", {"u": lambda t: [2 * t]})),
        ("inputs u", (pushed(), "rattle", pulse(0.51)), (pushed(), "rattle", pulse(0.52))),
        ("inputs u", (pushed(), "rattle", {"u": Ramp(1.0)}), (pushed(), "rattle", {"u": Ramp(1.5)})),
        ("tolerance", (kepler(), "rattle", {}), (kepler(), "rattle", {"tolerance": 1e-6})),
        ("max_iterations", (kepler(), "rattle", {}), (kepler(), "rattle", {"max_iterations": 30})),
        ("method", (kepler(), suzuki("yoshida"), {}), (kepler(), suzuki("suzuki"), {})),
        ("method", (kepler(), "gauss-2", {}), (kepler(), "gauss-3", {})),
        ("adaptive", (kepler(), "rattle", scaled(1.5)), (kepler(), "rattle", scaled(1.4))),
        ("adaptive", (kepler(), "rattle", {"adaptive": True}), (kepler(), "rattle", {"adaptive": da.control.ErrorControl(1e-7)})),
        ("save_every", (kepler(), "rattle", {}), (kepler(), "rattle", {"save_every": 2})),
        ("step", (kepler(), "rattle", {}), (kepler(), "rattle", {"step": 0.02})),
        ("initial values", (kepler(), "rattle", {}), (kepler(), "rattle", {"v": [0.0, 2.1]})),
        ("system", (kepler(), "rattle", {}), (kepler(force=lambda v: -v), "rattle", {})),
        ("parameters", (PENDULUM, "shake", {}), (PENDULUM, "shake", {"parameters": {"g": 9}})),
        ("events", (kepler(), "rattle", {}), (kepler(), "rattle", {"events": lambda q: q[1]})),
    ],
)  # fmt: skip
def test_a_run_that_differs_in_anything_is_another_one(tmp_path, named, one, other):
    """A finished run is not returned for another, and the error says what differs."""
    path = tmp_path / "run.nc"
    system, method, options = one
    first = da.simulate(system, method, checkpoint=path, **{**RUN, **options})
    again = da.simulate(system, method, checkpoint=path, **{**RUN, **options})
    np.testing.assert_array_equal(again.x, first.x)
    system, method, options = other
    with pytest.raises(da.MethodError, match=rf"belongs to another run \({named} differ\)"):
        da.simulate(system, method, checkpoint=path, **{**RUN, **options})


def test_inputs_are_compared_by_their_values_too(tmp_path):
    """What a function reads from elsewhere is not in its code: its values are, at the rows and between them."""
    path, table = tmp_path / "run.nc", np.zeros(200)

    class Table:
        __slots__ = ()

        def __call__(self, t):
            return [table[round(100 * t)]]

        def __reduce__(self):
            raise TypeError("not to be written")

    da.simulate(pushed(), "rattle", u=Table(), checkpoint=path, **RUN)
    table[50] = 1.0
    with pytest.raises(da.MethodError, match=r"\(inputs u differ\)"):
        da.simulate(pushed(), "rattle", u=Table(), checkpoint=path, **RUN)


SCRIPT = """
import sys, numpy as np, dalembert as da
from dalembert import keeper
keeper.EVERY = 0.0
def Ld(q0, q1, h):
    w = (q1 - q0) / h
    return h * (w @ w / 2 - ((q0 + q1) / 2) @ ((q0 + q1) / 2) / 2)
method = da.methods.Variational(lagrangian=Ld)
system = da.Mechanical(1, mass=1.0, potential=lambda q: q @ q / 2, initial={"q": [1.0], "v": [0.0]}, inputs=[1.0])
k = 2.0
sol = da.simulate(system, method, t_end=float(sys.argv[2]), step=0.01, checkpoint=sys.argv[1], compile=False,
                  u=lambda t: [k * np.sin(t)], events=[da.Event(lambda q: q[0], name="zero")])
print(len(sol.t), sol.stats["steps"])
"""


def test_functions_of_ones_own_are_the_same_in_another_process(tmp_path):
    """Nothing in the key depends on where a function lies, nor on the seed of hashes."""
    for t_end, seed in (("0.5", "1"), ("1.0", "2")):
        run = subprocess.run(
            [sys.executable, "-c", SCRIPT, str(tmp_path / "run.nc"), t_end],
            capture_output=True, text=True, check=False, env={**os.environ, "PYTHONHASHSEED": seed},
        )  # fmt: skip
        assert run.returncode == 0, run.stderr
    assert run.stdout.split() == ["101", "100"]
