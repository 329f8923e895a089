"""Error classes: pickling, Ctrl-C in a sweep, and the suggestion for an unknown keyword."""

import inspect
import pickle
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

import dalembert as da
from dalembert import errors
from dalembert.errors import suggesting

CLASSES = [c for c in vars(errors).values() if inspect.isclass(c) and issubclass(c, BaseException)]
KEYWORDS = {da.ConvergenceError: dict(t=1.5, step=0.1, residual=2.0), da.SingularConstraints: dict(rows=(2, 3))}
KEYWORDS[da.StepTooSmall] = KEYWORDS[da.ConvergenceError]


@pytest.mark.parametrize("cls", CLASSES, ids=lambda c: c.__name__)
def test_every_error_survives_a_pickle(cls):
    error = cls("a message", **KEYWORDS.get(cls, {}))
    error.solution = "what was computed"
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is cls
    assert str(again) == "a message"
    assert vars(again) == vars(error)
    assert again.args == error.args


def _fails():
    raise da.ConvergenceError("no", t=1.0, step=0.1, residual=3.0)


def test_an_error_comes_back_from_another_process():
    with (
        ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool,
        pytest.raises(da.ConvergenceError, match="no") as caught,
    ):
        pool.submit(_fails).result()
    assert caught.value.residual == 3.0


def test_ctrl_c_is_not_caught_with_the_other_errors():
    with pytest.raises(da.Interrupted) as caught:  # noqa: PT012
        try:
            error = da.Interrupted("interrupted at t = 1")
            error.solution = "up to there"
            raise error
        except (da.DalembertError, Exception):
            pytest.fail("a sweep that skips failures cannot be stopped")
    assert caught.value.solution == "up to there"


@suggesting
def run(system, /, method="rattle", *, step=0.1, t_end=1.0):
    """What it does."""
    if step < 0:
        raise TypeError("from inside")
    return system, method, step, t_end


@suggesting(options=("t_end", "adaptive"))
def sweep(step, **options):
    return step, options


class Base:
    @suggesting
    def __init__(self, n, *, mass=1.0, potential=0.0):
        self.values = n, mass, potential


class Derived(Base):
    pass


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: run(1, stepp=0.2), "run has no keyword 'stepp'; did you mean 'step'?"),
        (lambda: run(1, methd="shake"), "run has no keyword 'methd'; did you mean 'method'?"),
        (lambda: run(1, zzz=1), "run has no keyword 'zzz'; known: method, step, t_end"),
        (lambda: Base(2, potentail=3), "Base has no keyword 'potentail'; did you mean 'potential'?"),
        (lambda: Derived(2, mas=3), "Derived has no keyword 'mas'; did you mean 'mass'?"),
        (lambda: Base(2, zzz=3), "Base has no keyword 'zzz'; known: n, mass, potential"),
        (lambda: sweep(1, adaptiv=True), "sweep has no keyword 'adaptiv'; did you mean 'adaptive'?"),
    ],
)
def test_an_unknown_keyword_gets_a_suggestion(call, message):
    with pytest.raises(da.UnknownKeyword) as caught:
        call()
    assert str(caught.value) == message


def test_what_is_right_passes_and_other_errors_stay():
    assert run(1, "shake", step=0.5) == (1, "shake", 0.5, 1.0)
    assert sweep(step=1, adaptive=True) == (1, {"adaptive": True})
    assert Derived(2, mass=3.0).values == (2, 3.0, 0.0)
    with pytest.raises(TypeError, match="from inside") as caught:
        run(1, step=-1)
    assert not isinstance(caught.value, da.UnknownKeyword)
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        run()
    assert list(inspect.signature(run).parameters) == ["system", "method", "step", "t_end"]
    assert run.__doc__ == "What it does."
    assert pickle.loads(pickle.dumps(run)) is run


def test_a_function_that_takes_any_keyword_must_say_which():
    with pytest.raises(TypeError, match=r"suggesting\(options="):
        suggesting(lambda **options: options)


def test_quantities_that_a_result_does_not_have_are_no_attributes():
    sol = da.simulate(da.catalog.rlc_ladder(1), "gauss-1", t_end=0.1, step=0.1, compile=False)
    assert not hasattr(sol, "q")
    assert getattr(sol, "kinetic", None) is None
    with pytest.raises(da.MethodError, match="has no position of its own; its state is x"):
        sol.q  # noqa: B018
    m = da.Mechanism()
    m.body("rod", mass=1.0, inertia=[0.1] * 3)
    m.revolute("pin", "ground", "rod", at=(1, 0, 0), axis="y")
    pin = da.simulate(m.assemble(coordinates="joint"), "rattle", t_end=0.1, step=0.1, compile=False).joint("pin")
    assert hasattr(pin, "angle")
    assert not hasattr(pin, "displacement")
    assert not hasattr(pin, "pressing")
