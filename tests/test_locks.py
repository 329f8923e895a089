"""Locks beside threads and forks."""

import os
import subprocess
import sys
import threading

import pytest

from dalembert import locks
from dalembert.locks import Lock

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")


def in_python(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120)


def test_one_thread_at_a_time_and_again_inside():
    lock, seen = Lock(), []

    def wait():
        with lock:
            seen.append("other")

    with lock, lock:
        thread = threading.Thread(target=wait)
        thread.start()
        seen.append("own")
    thread.join()
    assert seen == ["own", "other"]


@forks
def test_a_child_enters_a_lock_that_a_thread_of_its_parent_holds():
    done = in_python(
        "import os, signal, threading\n"
        "from dalembert.locks import Lock\n"
        "lock, held, over = Lock(), threading.Event(), threading.Event()\n"
        "def hold():\n"
        "    with lock:\n"
        "        held.set(); over.wait()\n"
        "thread = threading.Thread(target=hold); thread.start(); held.wait()\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    signal.alarm(20)\n"
        "    with lock: os._exit(7)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])); over.set(); thread.join()\n"
    )
    assert done.stdout == "7\n", done.stderr


@forks
def test_an_interrupt_right_after_a_fork_is_not_lost_and_leaves_no_lock_closed():
    done = in_python(
        "import _thread, logging, os, random, runpy, signal, threading\n"  # some have work to do after a fork: they come first
        "os.register_at_fork(after_in_child=_thread.interrupt_main)\n"
        f"Lock = runpy.run_path({locks.__file__!r})['Lock']\n"
        "lock, held, over = Lock(), threading.Event(), threading.Event()\n"
        "def hold():\n"
        "    with lock:\n"
        "        held.set(); over.wait()\n"
        "thread = threading.Thread(target=hold); thread.start(); held.wait()\n"
        "try:\n"
        "    child = os.fork()\n"
        "    if child == 0: os._exit(1)\n"
        "except KeyboardInterrupt:\n"
        "    signal.alarm(20)\n"
        "    with lock: os._exit(7)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])); over.set(); thread.join()\n"
    )
    assert (done.stdout, done.stderr) == ("7\n", "")


@forks
def test_a_run_in_a_fork_beside_a_running_thread():
    """The thread is inside a run of the same system, held there by its inputs, when the process forks."""
    done = in_python(
        "import os, signal, threading\n"
        "import dalembert as da\n"
        "s = da.Mechanical(1, mass=1.0, potential=lambda q: q[0] ** 2, inputs=[1.0], initial={'q': [1.0], 'v': [0.0]})\n"
        "def ran(): return da.simulate(s, 'rattle', t_end=0.1, step=0.01, u=[0.0], compile=False).q[-1, 0]\n"
        "alone = ran()\n"
        "from dalembert.engine.case import prepare\n"
        "from dalembert.methods.base import find\n"
        "machine = prepare(s, find('rattle')).machine()\n"
        "held, over = threading.Event(), threading.Event()\n"
        "write = machine._write\n"
        "def slowly(*a):\n"
        "    held.set(); over.wait(); machine._write = write; write(*a)\n"
        "machine._write = slowly\n"
        "thread = threading.Thread(target=ran); thread.start(); held.wait()\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    signal.alarm(20); machine._write = write\n"
        "    os._exit(7 if ran() == alone else 8)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])); over.set(); thread.join()\n"
    )
    assert done.stdout == "7\n", done.stderr
