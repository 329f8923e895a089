"""The rule of Newton's iteration."""

import math

import pytest

from dalembert.engine.newton import EPS, Rule


def play(rule, sizes):
    """Run the rule on a given sequence of update sizes: iterations, and how often the Jacobian was taken anew."""
    cell, feed, refreshed = [0.0], iter(sizes), [0]

    def update():
        cell[0] = next(feed)

    def factor():
        refreshed[0] += 1

    return rule.bind(update, cell, factor)(), refreshed[0]


def test_it_stops_when_the_next_update_would_be_round_off():
    assert play(Rule(), [1e-3, 1e-9, 1e-15]) == (3, 0)  # 1e-9 * 1e-6 is not yet below the tolerance of 9e-16
    assert play(Rule(), [1e-4, 1e-11, 1e-17]) == (2, 0)


def test_one_small_update_is_not_enough_unless_it_is_round_off_itself():
    assert play(Rule(), [1e-10, 1e-17])[0] == 2
    assert play(Rule(), [EPS])[0] == 1


def test_stagnation_at_round_off_is_recognised():
    assert play(Rule(), [1e-4, 1e-8, 3e-12, 4e-12]) == (4, 0)


def test_stagnation_far_from_round_off_is_failure():
    count, refreshed = play(Rule(max_iterations=6), [1e-2, 9e-3, 9e-3, 9e-3, 9e-3, 9e-3])
    assert count == -6
    assert refreshed >= 4


@pytest.mark.parametrize("bad", [math.nan, math.inf, 1e305])
def test_nan_ends_it_at_once(bad):
    assert play(Rule(), [1e-2, bad])[0] == -2


def test_slow_convergence_takes_the_jacobian_anew():
    assert play(Rule(), [1e-3, 5e-4, 1e-8, 1e-16])[1] == 1
    assert play(Rule(), [0.5, 1e-3, 1e-9, 1e-17])[1] == 1
