"""Ctrl-C waits for what must not be left half done."""

import signal
import threading

import pytest

from dalembert.engine.interrupts import undisturbed


def test_an_interrupt_comes_at_the_end():
    done = []

    def work():
        with undisturbed(), undisturbed():
            signal.raise_signal(signal.SIGINT)
            done.append(1)

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == [1]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_error_inside_and_an_ignored_signal_are_left_alone():
    with pytest.raises(ZeroDivisionError), undisturbed():
        raise ZeroDivisionError
    old = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with undisturbed():
            signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, old)


def test_other_threads_are_not_touched():
    seen = []

    def work():
        with undisturbed():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [signal.default_int_handler]
