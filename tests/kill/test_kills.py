"""Runs that are killed and interrupted at random moments come out as if nothing had happened.

The numbers are those of the gate; others by `DALEMBERT_KILLS` and `DALEMBERT_INTERRUPTS`, or by `campaign.py` itself.
"""

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import dalembert as da

CAMPAIGN = Path(__file__).with_name("campaign.py")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="children are forked")
@pytest.mark.parametrize(("into", "gate"), [("checkpoint", (24, 10)), ("store", (10, 5))])
def test_kills_and_interrupts(into, gate):
    kills, interrupts = (
        int(os.environ.get(f"DALEMBERT_{name}", n)) for name, n in zip(("KILLS", "INTERRUPTS"), gate, strict=True)
    )
    command = [
        sys.executable,
        str(CAMPAIGN),
        "--kills",
        str(kills),
        "--interrupts",
        str(interrupts),
        "--into",
        into,
    ]
    # one thread: a fork beside another one may wait for ever
    env = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    assert done.stdout, done.stderr
    result = json.loads(done.stdout)
    assert not result["wrong"], (result, done.stderr)
    assert (result["kills"], result["interrupts"]) == (kills, interrupts)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="children are forked")
def test_how_children_end():
    """Interrupted when its store alone holds the run, a child has stopped; what it cannot tell is seen with its traceback."""
    names = runpy.run_path(str(CAMPAIGN))

    def raising(error):
        def run(path):
            raise error

        return run

    codes = [names["told"](raising(error), None, {}) for error in (da.Interrupted("at its end"), KeyboardInterrupt())]
    assert codes == [names["STOPPED"], names["BEFORE"]]
    with pytest.raises(ZeroDivisionError):
        names["told"](lambda path: 1 / 0, None, {})
