"""Ctrl-C waits for what must not be left half done."""

import signal
import threading

import pytest

import dalembert as da
from dalembert.engine.interrupts import recognised, undisturbed
from dalembert.engine.machine import VirtualMachine


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


def test_an_interrupt_inside_a_conversion_is_one():
    """NumPy makes a SystemError of an exception that is set when a conversion returns."""
    set_then = SystemError("returned a result with an exception set")
    set_then.__cause__ = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt), recognised():
        raise set_then
    with pytest.raises(SystemError, match="another"), recognised():
        raise SystemError("another")


def test_an_interrupt_inside_a_conversion_during_a_run_keeps_the_rows(monkeypatch):
    calls = []

    def run(self, memory, out, task):
        calls.append(1)
        if len(calls) > 3:
            try:
                raise KeyboardInterrupt
            except KeyboardInterrupt as error:
                raise SystemError("returned a result with an exception set") from error
        return original(self, memory, out, task)

    original = VirtualMachine.run
    monkeypatch.setattr(VirtualMachine, "run", run)
    with pytest.raises(da.Interrupted) as caught:
        da.simulate(da.catalog.double_pendulum(), "rattle", t_end=100.0, step=0.01, compile=False)
    assert len(caught.value.solution.t) > 1
