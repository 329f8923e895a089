"""Arguments that mean nothing are refused by errors of ours before any work, those of every public callable."""

import inspect
import subprocess
import sys

import numpy as np
import pytest

import dalembert as da
from dalembert import checking
from dalembert.catalog import _MAKERS
from dalembert.errors import UnknownKeyword
from dalembert.methods.base import REGISTER

PENDULUM = da.catalog.simple_pendulum()
RUN = {"t_end": 0.1, "step": 0.01}


def simulate(**changes):
    return lambda: da.simulate(PENDULUM, "rattle", **{**RUN, **changes})


BAD = {
    "t_end beyond floats": simulate(t_end=10**400),
    "q beyond floats": simulate(q=[10**400, 0]),
    "parameters beyond floats": simulate(parameters={"g": 10**400}),
    "save_every beyond floats": simulate(save_every=10**400),
    "max_iterations": simulate(max_iterations=2**64),
    "progress": simulate(progress="yes"),
    "events": simulate(events=5),
    "complex q": simulate(q=np.array([1 + 5j, 0])),
    "q as text": simulate(q=["1.0", "0.0"]),
    "complex lam": simulate(lam=[1j]),
    "name of an event": lambda: da.Event(lambda q: q[0], name=["a"]),
    "terminal": lambda: da.Event(lambda q: q[0], terminal="yes"),
    "shrink": simulate(adaptive=da.control.Backoff(shrink="a")),
    "rtol of a controller": simulate(adaptive=da.control.ErrorControl(rtol="a")),
    "ports": lambda: da.PortHamiltonian(1, hamiltonian=lambda x: x @ x, B=[[1.0]], ports=0),
    "algebraic": lambda: da.IndexOneDAE(1, f=lambda y, z: z, g=lambda y, z: z - y, algebraic=2**64),
    "inputs of a DAE": lambda: da.IndexTwoDAE(1, f=lambda y, z: z, g=lambda y: y, inputs=2**64),
    "inputs": lambda: da.Mechanical(1, mass=1.0, inputs=2**64),
    "coordinates": lambda: da.Mechanical(2**64, mass=1.0),
    "names of coordinates": lambda: da.Mechanical((1.0, 2.0), mass=1.0),
    "name of a system": lambda: da.Mechanical(1, mass=1.0, name=5),
    "dimension": lambda: da.Mechanical(2, mass=1.0, dimension=np.zeros(2)),
    "a word of Python's as a parameter": lambda: da.Mechanical(1, mass=1.0, parameters={"lambda": 1.0}),
    "parts": lambda: da.IndexTwoDAE(1, parts=5, g=lambda y: y),
    "rtol": lambda: da.reduced.Baumgarte(rtol=None),
    "velocity": lambda: da.reduced.Projection(velocity="yes"),
    "degraded": lambda: da.reduced.CoordinatePartition(degraded="a"),
    "stages": lambda: da.methods.Gauss(stages="3"),
    "at": lambda: da.methods.DiscreteGradient(at=["midpoint"]),
    "lagrangian": lambda: da.methods.Variational(lagrangian=["midpoint"]),
    "order": lambda: da.compose("rattle", order=[4]),
    "methods": lambda: da.compare(PENDULUM, 5, **RUN),
    "reference": lambda: da.convergence(PENDULUM, "rattle", t_end=0.1, reference=5),
    "section": lambda: da.poincare(PENDULUM, "x", 3, method="rattle", step=0.1),
    "t0 of a section": lambda: da.poincare(PENDULUM, 2, 3, method="rattle", step=0.1, t0=[0.0, 1.0]),
    "orbits": lambda: da.poincare(PENDULUM, 2, 3, method="rattle", step=0.1, q=[1j, 0]),
    "rules": lambda: da.connect({"a": da.catalog.dc_motor()}, 5),
    "gain": lambda: da.connect({"a": da.catalog.dc_motor()}, [da.Feedback("a.u1", "a.u2", "x")]),
    "kind of a gradient": lambda: da.discrete.gradient(lambda x: x @ x, [1.0], [2.0], kind=["gonzalez"]),
    "no entries": lambda: da.discrete.gradient(lambda x: x @ x, [], []),
    "flows": lambda: da.DiracStructure.of_skew(np.zeros((2, 2))).contains([1.0], ["a"]),
    "blocks": lambda: da.analysis.trend(np.arange(20.0), np.arange(20.0), blocks="a"),
    "times of growth": lambda: da.analysis.growth([], []),
    "system of reversibility": lambda: da.analysis.reversibility(5, "rattle", **RUN),
    "tolerance of a pencil": lambda: da.LinearDAE(np.eye(1), np.eye(1), tolerance="a"),
    "complex pencil": lambda: da.LinearDAE(1j * np.eye(1), np.eye(1)),
    "times": lambda: da.LinearDAE(np.eye(1), np.eye(1)).exact([1.0], ["a"]),
    "number of a catalog": lambda: da.catalog.chain(n=2**64),
    "mass of a catalog": lambda: da.catalog.simple_pendulum(m="1.0"),
    "start of a catalog": lambda: da.catalog.contact_oscillator(eps=-1.0),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_arguments_are_refused(name):
    with pytest.raises(da.DalembertError) as caught:
        BAD[name]()
    assert caught.value.solution is None
    assert len(str(caught.value)) < 500


PUBLIC = {
    **{name: getattr(da, name) for name in da.__all__ if callable(getattr(da, name))},
    **{f"catalog.{maker.__name__}": maker for maker in _MAKERS},
    **{f"methods.{name}": cls for name, cls in REGISTER.items()},
    **{f"control.{cls.__name__}": cls for cls in (da.control.Backoff, da.control.ErrorControl, da.control.Reversible)},
    **{f"discrete.{name}": getattr(da.discrete, name) for name in ("gradient", "jacobian")},
    **{f"analysis.{name}": getattr(da.analysis, name) for name in ("trend", "growth", "reversibility", "ode")},
    **{f"Solution.{name}": getattr(da.Solution, name) for name in ("at", "residual", "momentum", "plot", "save", "animate")},
    **{f"Sensitivity.{name}": getattr(da.Sensitivity, name) for name in ("jacobian", "gradient", "hessian_product")},
    **{f"LinearDAE.{name}": getattr(da.LinearDAE, name) for name in ("exact", "consistent", "solve")},
    **{f"PortHamiltonian.{name}": getattr(da.PortHamiltonian, name) for name in ("at", "transformed", "dirac", "semi_explicit")},
}
RESULTS = (
    "Consistent",
    "Hits",
    "Sample",
    "Scheme",
    "Sensitivity",
    "Solution",
    "Step",
    "Stored",
    "System",
    "Method",
)  # not made by users
ELSEWHERE = ("unpack", "load", "open")  # they take no keyword


def _spoken(name):
    value = PUBLIC[name]
    return name not in (*RESULTS, *ELSEWHERE) and not (inspect.isclass(value) and issubclass(value, BaseException))


@pytest.mark.parametrize("name", [name for name in PUBLIC if _spoken(name)])
def test_unknown_keywords_are_refused(name):
    with pytest.raises(UnknownKeyword, match="has no keyword 'nonsense_keyword'"):
        PUBLIC[name](nonsense_keyword=1)


def test_a_close_keyword_is_suggested():
    with pytest.raises(UnknownKeyword, match="did you mean 'stages'"):
        da.methods.Gauss(stage=3)
    with pytest.raises(UnknownKeyword, match="did you mean 'm1'"):
        da.catalog.double_pendulum(m_1=3.0)


def test_numbers_of_every_kind_are_taken():
    sol = da.simulate(PENDULUM, "rattle", t_end=np.float32(0.5), step=np.array(0.25), save_every=np.int64(2))
    assert sol.t.tolist() == [0.0, 0.5]
    assert checking.whole("n", 3.0) == 3
    assert checking.whole("n", np.int8(3)) == 3
    assert checking.number("x", np.array([2.0])) == 2.0
    assert da.methods.Gauss(stages=np.int64(2)).stages == 2


@pytest.mark.parametrize("value", [True, 2.5, "3", None, 1j, np.array([1, 2]), 0, 10**400])
def test_counts(value):
    with pytest.raises(da.ModelError, match=r"^n (must be a whole number, at least 1|is at most 1000)"):
        checking.whole("n", value, da.ModelError, most=1000)


def test_a_value_that_cannot_be_shown_is_still_refused():
    class Mute:
        def __repr__(self):
            raise RuntimeError("no")

    with pytest.raises(da.MethodError, match="a Mute that cannot be shown"):
        da.simulate(PENDULUM, "rattle", t_end=Mute(), step=0.1)


def test_a_number_of_coordinates_beyond_memory_is_refused_at_once():
    code = (
        "import resource, dalembert as da\n"
        "resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))\n"
        "try: da.Mechanical(2**40, mass=1.0)\n"
        "except da.ModelError as error: print(error)\n"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert out.stdout.startswith("the number of coordinates is at most 1000000"), out.stderr


@pytest.mark.parametrize(
    "make",
    [
        lambda: da.catalog.dc_motor(R=1e308), lambda: da.catalog.dc_motor(b=1e308, k=2**64), lambda: da.catalog.chain(l=1e308),
        lambda: da.simulate(PENDULUM, "rattle", t_end=0.1, step=0.05, adaptive=da.control.ErrorControl(rtol=1e308)),
        lambda: da.simulate(PENDULUM, "rattle", t_end=0.1, step=0.05, adaptive=da.control.Reversible(largest=1e200)),
    ],
)  # fmt: skip
def test_numbers_whose_squares_overflow_are_refused(make):
    with pytest.raises(da.DalembertError, match="too large"):
        make()


def test_options_become_floats():
    """A whole number of more than 64 bits would make arrays of objects in SciPy."""
    method = da.reduced.Radau(atol=2**64)
    assert isinstance(method.atol, float)
    sol = da.simulate(PENDULUM, method, t_end=0.1, step=0.05)
    assert np.isfinite(sol.q).all()


def test_events_that_cannot_be_read_are_refused():
    class Broken:
        def __iter__(self):
            raise RuntimeError("no items")

    with pytest.raises(da.MethodError, match="events must be"):
        da.simulate(PENDULUM, "rattle", t_end=0.1, step=0.05, events=Broken())
