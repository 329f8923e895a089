"""Hooks: functions that a low layer calls and a higher layer defines."""

import subprocess
import sys

import pytest

import dalembert as da
from dalembert.hooks import Hook


def test_a_hook_calls_what_was_set():
    hook = Hook("Result.plot", "dalembert.plotting")
    with pytest.raises(da.DalembertError, match=r"Result.plot is to be defined by dalembert.plotting"):
        hook(1)
    hook.set(lambda x, y=2: x + y)
    assert hook(1) == 3
    assert hook(1, y=5) == 6


def test_all_hooks_are_set_and_nothing_is_drawn_by_an_import():
    code = (
        "import sys, dalembert as da\n"
        "print('casadi' in sys.modules)\n"
        "everything = [getattr(da, name) for name in da.__all__]\n"
        "from dalembert.hooks import Hook\n"
        "modules = [m for name, m in list(sys.modules.items()) if name.startswith('dalembert')]\n"
        "hooks = {id(h): h for m in modules for h in vars(m).values() if isinstance(h, Hook)}.values()\n"
        "print(len(hooks) >= 4, [h.name for h in hooks if h._function is None])\n"
        "print([name for name in ('matplotlib', 'plotly', 'PIL', 'rich') if name in sys.modules])\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "False\nTrue []\n[]\n"


def test_a_hook_imports_what_defines_it():
    code = (
        "import sys, dalembert as da\n"
        "sol = da.simulate(da.catalog.simple_pendulum(), 'rattle', t_end=0.1, step=0.01)\n"
        "print('dalembert.plotting' in sys.modules)\n"
        "sol.plot()\n"
        "print('dalembert.plotting' in sys.modules)\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "False\nTrue\n"
