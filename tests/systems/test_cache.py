"""Values kept with a system: made once, of one type, and not without bound."""

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
