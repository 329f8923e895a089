"""The rule of Newton's iteration."""

import math

import pytest

from dalembert.engine.newton import EPS, Parts, Rule


def play(rule, sizes, look=False, residual=math.inf, linear=False):
    """Run the rule on sizes of updates: iterations, how often the Jacobian was taken anew, looks at the residual."""
    cell, feed, calls = [0.0], iter(sizes), {"renew": 0, "accept": 0}

    def update():
        size = next(feed)
        cell[0] = size * size

    def renew():
        calls["renew"] += 1
        update()

    def accept():
        calls["accept"] += 1
        cell[0] = residual * residual

    return rule.bind(Parts(update, renew, update, accept, cell, linear))(look), calls["renew"], calls["accept"]


def test_it_stops_when_the_next_update_would_be_round_off():
    assert play(Rule(), [1e-3, 1e-9, 1e-15]) == (3, 0, 0)  # 1e-9 * 1e-6 is not yet below the tolerance of 9e-16
    assert play(Rule(), [1e-4, 1e-11, 1e-17]) == (2, 0, 0)


def test_one_small_update_is_not_enough_unless_it_is_round_off_itself():
    assert play(Rule(), [1e-10, 1e-17])[0] == 2
    assert play(Rule(), [EPS])[0] == 1


def test_stagnation_at_round_off_is_recognised():
    assert play(Rule(), [1e-4, 1e-8, 3e-12, 4e-12], residual=1e-15) == (4, 0, 1)


def test_stagnation_far_from_round_off_is_failure():
    count, refreshed, _ = play(Rule(max_iterations=6), [1e-2, 9e-3, 9e-3, 9e-3, 9e-3, 9e-3])
    assert count == -6
    assert refreshed >= 4


def test_stagnation_is_round_off_below_the_floor_only():
    assert play(Rule(), [1e-3, 2e-6, 9e-8, 8e-8], residual=1e-15) == (4, 0, 1)
    for size in (1.2e-7, 1e-5, 1e-4):
        sizes = [20 * size, size, 0.9 * size, 0.9 * size, 0.9 * size]
        assert play(Rule(max_iterations=5), sizes, residual=1e-15)[::2] == (-5, 0)


@pytest.mark.parametrize("bad", [math.nan, math.inf, 1e305])
def test_nan_ends_it_at_once(bad):
    assert play(Rule(), [1e-2, bad])[0] == -2


def test_slow_convergence_takes_the_jacobian_anew():
    assert play(Rule(), [1e-3, 5e-4, 1e-8, 1e-16]) == (4, 1, 0)
    assert play(Rule(), [0.5, 1e-3, 1e-9, 1e-17]) == (4, 1, 0)


UNUSUAL = {
    "first update large": [2.0, 1e-3, 1e-9, 1e-17],
    "second update large": [0.9, 0.1, 1e-3, 1e-9, 1e-17],
    "an update grew": [1e-3, 2e-3, 1e-6, 1e-12],
    "stagnation": [1e-4, 1e-8, 3e-12, 4e-12],
}


@pytest.mark.parametrize("sizes", UNUSUAL.values(), ids=UNUSUAL)
def test_out_of_the_ordinary_only_a_small_residual_is_accepted(sizes):
    count = len(sizes)
    assert play(Rule(), sizes, residual=1e-9)[::2] == (count, 1)
    for residual in (1e-7, 1.0, math.inf, math.nan):
        assert play(Rule(), sizes, residual=residual)[::2] == (-count, 1)


def test_the_caller_may_ask_for_the_residual():
    assert play(Rule(), [1e-4, 1e-11], look=True, residual=1e-12) == (2, 0, 1)
    assert play(Rule(), [1e-4, 1e-11], look=True, residual=1e-3) == (-2, 0, 1)
    assert play(Rule(), [EPS], look=True, residual=1e-3) == (-1, 0, 1)


def test_failure_needs_no_look_at_the_residual():
    assert play(Rule(max_iterations=3), [0.5, 0.4, 0.3], residual=0.0)[::2] == (-3, 0)


def test_a_large_first_update_makes_later_stagnation_no_round_off():
    """Updates that stop shrinking at 1e-3 are no round-off, however large the first was."""
    assert play(Rule(max_iterations=5), [1e5, 1e-3, 1e-3, 1e-3, 1e-3], residual=0.0)[::2] == (-5, 0)


def test_a_loose_tolerance_loosens_the_limit():
    assert Rule(tolerance=1e-1).limit == 0.4
    assert Rule().limit == 1e-8
