"""Random cases in the gate; many more by hand, `python -m tests.fuzz`."""

import pytest

import dalembert as da

from . import judge as judging
from .judge import judge
from .known import FOUND, KNOWN

CHUNKS, CASES = 8, 100
ENDLESS = (304, 315, 498, 747, 791)  # they come to the limit of their time, which is no verdict


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_every_case_is_right_or_an_error_of_ours(chunk):
    seeds = [seed for seed in range(chunk * CASES, (chunk + 1) * CASES) if seed not in KNOWN and seed not in ENDLESS]
    bad = [f"{v.seed}: {v.told}" for v in map(judge, seeds) if v.kind == "violation"]
    assert not bad


@pytest.mark.parametrize("seed", FOUND)
def test_what_was_found_once_stays_cured(seed):
    verdict = judge(seed)
    assert verdict.kind != "violation", verdict.told


@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=pytest.mark.xfail(strict=True, reason=why)) for seed, why in KNOWN.items()]
)
def test_known_violations(seed):
    verdict = judge(seed)
    assert verdict.kind != "violation", verdict.told


def test_a_seed_gives_one_case():
    assert [judge(seed) for seed in range(8)] == [judge(seed) for seed in range(8)]


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda: 1 / 0, "ZeroDivisionError"),
        (lambda: _endless(), "does not end"),
        (lambda: _warning(), "UserWarning"),
    ],
)
def test_the_judge_sees_what_must_not_happen(monkeypatch, spoil, told):
    monkeypatch.setattr(judging, "_garbage", lambda rng, told: spoil())
    monkeypatch.setattr(judging, "_run", lambda rng, told, names: spoil())
    monkeypatch.setattr(judging, "SECONDS", 0.2)
    verdict = judge(0)
    assert verdict.kind == "violation"
    assert told in verdict.told


def test_the_judge_sees_a_solution_that_is_wrong():
    sol = da.simulate(da.catalog.simple_pendulum(), "rattle", t_end=0.1, step=0.01)
    options = {"t0": 0.0, "t_end": 0.1}
    judging._check(sol, options)
    sol.parts["q"][3] += 1e-8
    with pytest.raises(judging.Violation, match="position constraints"):
        judging._check(sol, options)
    sol.parts["q"][3] = float("nan")
    with pytest.raises(judging.Violation, match="not finite"):
        judging._check(sol, options)


def _endless():
    while True:
        pass


def _warning():
    import warnings

    warnings.warn("beware", UserWarning, stacklevel=1)
