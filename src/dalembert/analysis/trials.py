"""Runs of methods on a system to be measured: keywords, references, times."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypedDict

from numpy.typing import ArrayLike

from dalembert.checking import listed
from dalembert.engine.case import check_call
from dalembert.errors import CompilerError, MethodError
from dalembert.methods.base import Method, find
from dalembert.simulation import simulate
from dalembert.solution import Solution
from dalembert.systems import System

if TYPE_CHECKING:
    from dalembert.engine.control import Control

REFERENCES = ("murua-5", "radau-iia-5", "gauss-5", "lobatto-pair-5")  # of order eight to ten


class Options(TypedDict, total=False):
    """Keywords of `simulate` that are passed on."""

    q: ArrayLike | None
    v: ArrayLike | None
    p: ArrayLike | None
    x: ArrayLike | None
    y: ArrayLike | None
    z: ArrayLike | None
    lam: ArrayLike | None
    t0: float
    u: ArrayLike | Callable[[float], ArrayLike] | None
    parameters: Mapping[str, ArrayLike] | None
    tolerance: float | None
    max_iterations: int
    adaptive: bool | str | Control | None
    save_every: int
    progress: bool | None
    compile: bool | str


SINGLE = ("events", "checkpoint")  # keywords of `simulate` for one run alone; they get an error of their own


def check_options(system: System, options: Options, without: tuple[str, ...], why: str) -> None:
    check_call(system, options.get("compile", "auto"), options.get("progress"))
    for name in without:
        if options.get(name):
            raise MethodError(f"{name} cannot be used here: {why}")


def reference_method(system: System) -> str:
    """A method of high order that supports the system."""
    for name in REFERENCES:
        try:
            find(name).check(system)
        except MethodError:
            continue
        return name
    raise MethodError(f"no method of high order supports {system.name!r}, so there is no reference to measure errors against")


def timed(
    system: System, method: Method, t_end: float, step: float, options: Options, repeat: int, budget: float
) -> tuple[Solution, float]:
    """A compiled run and the best time of at most `repeat` of them, as many as a budget of seconds allows."""
    sol = _compiled(system, method, t_end, step, options)
    seconds = [sol.stats["seconds"]]
    while len(seconds) < repeat and sum(seconds) < budget:
        seconds.append(_compiled(system, method, t_end, step, {**options, "progress": False}).stats["seconds"])
    return sol, min(seconds)


def named_methods(methods: str | Method | Sequence[str | Method], system: System) -> list[Method]:
    """Methods by name, by names with commas between, or as objects, each fit for the system."""
    given = methods.split(",") if isinstance(methods, str) else [methods] if isinstance(methods, Method) else methods
    chosen = [find(m) for m in listed("methods", given, MethodError, "names of methods, or objects of da.methods")]
    if not chosen:
        raise MethodError("there is nothing to compare: name at least one method")
    for method in chosen:
        method.check(system)
    return chosen


def _compiled(system: System, method: Method, t_end: float, step: float, options: Options) -> Solution:
    """A compiled run, so that times can be compared; interpreted if there is no compiler."""
    chosen: Options = {"compile": True, **options}
    try:
        return simulate(system, method, t_end=t_end, step=step, **chosen)
    except CompilerError:
        if "compile" in options:
            raise
        chosen["compile"] = False
        return simulate(system, method, t_end=t_end, step=step, **chosen)
