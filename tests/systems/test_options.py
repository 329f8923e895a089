"""Options of CasADi that are set for a while: put back whatever happens, and never by two threads at a time."""

import threading

import casadi as ca
import pytest

from dalembert.systems.instructions import as_written
from dalembert.systems.options import option


def simplifies():
    return ca.GlobalOptions.getSimplificationOnTheFly()


def test_what_was_set_is_put_back():
    before, mode = simplifies(), ca.GlobalOptions.getNumpyMode()
    with as_written():
        assert not simplifies()
        with option("NumpyMode", 1), option("SimplificationOnTheFly", True):
            assert simplifies()
            assert ca.GlobalOptions.getNumpyMode() == 1
        assert not simplifies()
    with pytest.raises(ZeroDivisionError), as_written():
        raise ZeroDivisionError
    assert (simplifies(), ca.GlobalOptions.getNumpyMode()) == (before, mode)


def test_threads_that_need_two_options_do_not_wait_for_each_other():
    """In any order: with a lock for each option, two of them would stand still."""
    before, seen, both = simplifies(), [], threading.Barrier(2)

    def work(first, second):
        both.wait(timeout=10)
        for _ in range(200):
            with option(*first), option(*second):
                seen.append((simplifies(), ca.GlobalOptions.getNumpyMode()))

    plain, mode = ("SimplificationOnTheFly", False), ("NumpyMode", 1)
    threads = [threading.Thread(target=work, args=pair, daemon=True) for pair in ((plain, mode), (mode, plain))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert not any(thread.is_alive() for thread in threads)
    assert seen == [(False, 1)] * 400
    assert simplifies() == before
