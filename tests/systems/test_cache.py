"""Values kept with a system: made once, of one type, and not without bound; shared by threads."""

import threading
import time

import casadi as ca

import dalembert as da
from dalembert.systems.cache import Cache


def test_a_value_is_made_once():
    cache, made = Cache(), []
    for _ in range(3):
        assert cache.get(str, "key", lambda: made.append("x") or "value") == "value"
    assert made == ["x"]


def test_keys_of_different_types_do_not_meet():
    cache = Cache()
    assert cache.get(str, "key", lambda: "text") == "text"
    assert cache.get(int, "key", lambda: 3) == 3
    assert cache.get(str, "key", lambda: "another") == "text"


def test_the_oldest_values_are_dropped():
    cache = Cache()
    for i in range(5):
        cache.get(int, i, lambda i=i: i, most=3)
    assert cache.get(int, 2, lambda: -1, most=3) == 2
    assert cache.get(int, 1, lambda: -1, most=3) == -1


class Yielding:
    """A key that lets other threads run whenever a dictionary looks for it."""

    def __hash__(self):
        time.sleep(0)
        return id(self)


def test_threads_share_a_cache():
    cache, keys, faults = Cache(), [Yielding() for _ in range(7)], []

    def use(seed):
        try:
            for i in range(300):
                key = keys[(i * seed) % 7]
                assert cache.get(Yielding, key, lambda key=key: key, most=3) is key
        except (KeyError, RuntimeError) as error:
            faults.append(error)

    threads = [threading.Thread(target=use, args=(seed,)) for seed in (1, 2, 3, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    assert cache.count(Yielding) <= 3


def test_a_system_may_define_a_function_while_its_functions_are_gone_through():
    system = da.catalog.double_pendulum()
    roles = iter(system._functions)
    first = next(roles)
    system.function("energy_slope")  # what another thread does in between
    assert first not in list(roles)
    assert "energy_slope" in system._functions


def test_a_function_that_is_marked_keeps_its_place():
    """A function made after another one is gone may lie at its address: what was found for one is not that of the other."""
    x, cache = ca.SX.sym("x"), Cache()
    numbers = [cache.mark(ca.Function("f", [x], [k * x])) for k in range(50)]
    assert len(set(numbers)) == 50


def test_what_is_adopted_in_place_of_another_function_is_seen():
    system = da.Mechanical(2, mass=1.0, potential=lambda q: q[0] ** 2)
    for k in range(60):
        system._define("own", k * system.q[0])
        assert float(ca.substitute(system.expression("own"), system.q, ca.SX([1.0, 0.0]))) == k
