"""Where compiled steps come from: only from the user's own directory, only whole, and never at the price of the run."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import casadi as ca
import numpy as np
import pytest

import dalembert as da
from dalembert.engine import compiler

needs_compiler = pytest.mark.skipif(compiler.find() is None, reason="no C compiler here")
needs_root = pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root can be other users")

# a library that tells when it is loaded
EVIL = '__attribute__((constructor)) static void enter(void) { FILE *f = fopen("%s", "w"); if (f) fclose(f); }\n'
LONG = "t_end=200.0, step=0.01, save_every=1000"


def ran(code, env=None, gone=(), **options):
    """What a process prints."""
    full = {k: v for k, v in os.environ.items() if k not in gone} | (env or {})
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=full, **options)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stderr == ""
    return done.stdout.split("\n")[:-1]


BOTH = (
    "import dalembert as da\n"
    "s = da.catalog.simple_pendulum()\n"
    f"print(da.simulate(s, 'rattle', {LONG}).stats['engine'])\n"
    f"try: print(da.simulate(s, 'rattle', {LONG}, compile=True).stats['engine'])\n"
    "except da.CompilerError as error: print(error)\n"
)


def entries(place):
    return sorted(p.name for p in Path(place).iterdir())


def step(place, name="rattle"):
    """Compile a short run into a directory, in this process."""
    return da.simulate(da.catalog.simple_pendulum(), name, t_end=0.1, step=0.01, compile=True)


def test_flags_keep_the_bits(optimised):
    """No flag lets a compiler change a sum; what takes long to optimise is optimised less."""
    assert compiler._flags("x")[0] == "-O2"
    assert compiler._flags(compiler.LONG * "x")[0] == "-O1"
    for source in ("x", compiler.LONG * "x"):
        assert compiler._flags(source)[1:] == compiler.FLAGS
    assert "-ffp-contract=off" in compiler.FLAGS
    assert not {"-Ofast", "-ffast-math", "-funsafe-math-optimizations"} & {*compiler.FLAGS}


@needs_compiler
def test_a_directory_of_ones_own_is_used_and_made_private(monkeypatch, tmp_path):
    place = tmp_path / "a" / "b"
    monkeypatch.setenv("DALEMBERT_CACHE", str(place))
    step(place)
    assert place.stat().st_mode & 0o777 == 0o700
    (entry,) = place.iterdir()
    assert not entry.stat().st_mode & 0o077
    before = entry.stat().st_mtime_ns
    step(place)
    assert [p.stat().st_mtime_ns for p in place.iterdir()] == [before]


@needs_compiler
@pytest.mark.parametrize("kept", [0.0, 0.1, 0.5, 0.7, 0.9, 0.99, "foreign", "flipped"])
def test_an_entry_that_is_not_what_was_written_is_built_again(monkeypatch, tmp_path, kept):
    """A torn library ends the process when it is loaded, and one without the step has nothing to run."""
    monkeypatch.setenv("DALEMBERT_CACHE", str(tmp_path))
    good = step(tmp_path)
    (entry,) = tmp_path.iterdir()
    whole = entry.read_bytes()
    entry.unlink()
    if kept == "foreign":
        (tmp_path / "x.c").write_text("int nothing(void) { return 0; }")
        subprocess.run([*compiler.find(), "-shared", "-fPIC", str(tmp_path / "x.c"), "-o", str(entry)], check=True)
        (tmp_path / "x.c").unlink()
    elif kept == "flipped":
        entry.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    else:
        entry.write_bytes(whole[: int(kept * len(whole))])
    entry.chmod(0o700)
    again = step(tmp_path)
    assert again.stats["engine"] == "compiled"
    assert (again.q == good.q).all()
    (entry,) = tmp_path.iterdir()
    assert entry.read_bytes() == whole


@needs_compiler
@pytest.mark.parametrize("loose", ["link", "group", "others"])
def test_an_entry_that_others_can_change_is_not_loaded(monkeypatch, tmp_path, loose):
    place = tmp_path / "cache"
    monkeypatch.setenv("DALEMBERT_CACHE", str(place))
    step(place)
    (entry,) = place.iterdir()
    if loose == "link":
        entry.rename(tmp_path / "elsewhere.so")
        entry.symlink_to(tmp_path / "elsewhere.so")
    else:
        entry.chmod(0o720 if loose == "group" else 0o702)
    key = entry.name.split("-")[1]
    assert compiler._kept(place, key) is None
    step(place)
    (entry,) = place.iterdir()
    assert not entry.is_symlink()
    assert not entry.stat().st_mode & 0o022
    assert compiler._kept(place, key) == entry


@needs_compiler
@pytest.mark.parametrize("loose", ["link", "group", "others", "file"])
def test_a_directory_that_others_can_write_to_is_left_alone(tmp_path, loose):
    place, spare = tmp_path / "cache", tmp_path / "spare"
    spare.mkdir()
    if loose == "file":
        place.write_text("x")
    elif loose == "link":
        (tmp_path / "real").mkdir(mode=0o700)
        place.symlink_to(tmp_path / "real")
    else:
        place.mkdir()
        place.chmod(0o770 if loose == "group" else 0o707)
    assert ran(BOTH, {"DALEMBERT_CACHE": str(place), "TMPDIR": str(spare)}) == ["compiled", "compiled"]
    assert entries(spare) == [f"dalembert-{os.getuid()}"]
    assert loose == "file" or entries(place) == []


# all is imported before, since another user may not be able to read Python itself
OTHER = (
    "import os, dalembert as da\n"
    "da.simulate(da.catalog.simple_pendulum(), 'shake', t_end=200.0, step=0.01, save_every=1000, compile=True)\n"
    "for name in ('DALEMBERT_CACHE', 'XDG_CACHE_HOME', 'HOME'): os.environ.pop(name, None)\n"
    "os.setgroups([]); os.setgid(12345); os.setuid(12345)\n"
)


@pytest.fixture
def shared():
    """A temporary place that all users can write to, as /tmp is; directories of pytest are root's alone."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
        os.chmod(place, 0o1777)
        yield Path(place)


@needs_root
@needs_compiler
def test_the_library_of_another_user_does_not_run(tmp_path, shared):
    """Somebody makes the directory in the temporary place first, and puts a library there for the very step."""
    planted, marker, source = shared / "dalembert-12345", shared / "marker", tmp_path / "evil.c"
    planted.mkdir()
    planted.chmod(0o777)
    source.write_text("#include <stdio.h>\n" + EVIL % marker + "void da_run(void) {}\n")
    subprocess.run([*compiler.find(), "-shared", "-fPIC", str(source), "-o", str(planted / "evil.so")], check=True)
    plant = (
        "import shutil\n"
        "from dalembert.engine import compiler\n"
        "from dalembert.engine.case import prepare\n"
        "from dalembert.engine.walking import EQUAL\n"
        "from dalembert.methods.base import find\n"
        f"place = compiler.Path({str(planted)!r})\n"
        "code = prepare(da.catalog.simple_pendulum(), find('rattle'))._code(EQUAL)\n"
        "key, digest = compiler._key(code, compiler.find()), compiler._digest(place / 'evil.so')\n"
        "shutil.copy(place / 'evil.so', place / f'step-{key}-{digest}.so')\n"
        "assert compiler._kept(place, key) is not None\n"  # it is what a trusted directory would have
    )
    code = OTHER.replace("for name", plant + "for name") + BOTH
    first, second = ran(code, {"TMPDIR": str(shared), "DALEMBERT_CACHE": str(tmp_path / "own")})
    assert first == "virtual machine"
    assert "nobody else, can write to" in second
    assert not marker.exists()
    assert len(entries(planted)) == 2  # nothing was put there, and nothing removed


@needs_root
@needs_compiler
def test_a_user_without_home_and_name(tmp_path, shared):
    """Unknown to the machine, without a home: a temporary directory of his own serves."""
    env = {"TMPDIR": str(shared), "DALEMBERT_CACHE": str(tmp_path / "own")}
    assert ran(OTHER + BOTH, env) == ["compiled", "compiled"]
    place = shared / "dalembert-12345"
    assert (place.stat().st_uid, place.stat().st_mode & 0o777) == (12345, 0o700)
    place.rename(shared / "old")
    place.write_text("a file in the way")
    first, second = ran(OTHER + BOTH, env)
    assert first == "virtual machine"
    assert "compiled steps can be kept nowhere" in second


BROKEN = {
    "true": ("/bin/true", "wrote no library"),
    "false": ("/bin/false", "failed on the generated step"),
    "an open quote": ("gcc 'x", "names no compiler"),
    "not there": ("/nonexistent/cc -O2", "names no compiler"),
    "no program": ("/etc", "names no compiler"),
    "none": ("none", "no C compiler was found"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_compiler_never_costs_a_run(tmp_path, name):
    command, told = BROKEN[name]
    first, second = ran(BOTH, {"DALEMBERT_CC": command, "DALEMBERT_CACHE": str(tmp_path)})
    assert first == "virtual machine"
    assert told in second
    assert entries(tmp_path) == []


@needs_compiler
def test_a_compiler_whose_library_has_no_step_never_costs_a_run(tmp_path):
    fake = tmp_path / "cc.sh"
    (tmp_path / "empty.c").write_text("int nothing(void) { return 0; }")
    real = " ".join(compiler.find())
    fake.write_text(f'#!/bin/sh\nwhile [ "$1" != -o ]; do shift; done\n{real} -shared -fPIC {tmp_path}/empty.c -o "$2"\n')
    fake.chmod(0o755)
    first, second = ran(BOTH, {"DALEMBERT_CC": str(fake), "DALEMBERT_CACHE": str(tmp_path / "cache")})
    assert first == "virtual machine"
    assert "without a step in it" in second


@needs_compiler
def test_a_full_disk_never_costs_a_run(tmp_path):
    code = (
        "import resource, signal\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))\n"
    )
    pytest.importorskip("resource")
    first, second = ran(code + BOTH, {"DALEMBERT_CACHE": str(tmp_path)})
    assert first == "virtual machine"
    assert "could not be compiled" in second or "failed on the generated step" in second
    assert entries(tmp_path) == []


PIECES = (
    "double twice(double x);\n"
    "static double half(double x) { return 0.5 * x; }\n"
    "\nDA_APART double first(double x)\n{\n    return half(x) + 1;\n}\n"
    "static double third = 3;\n"
    "\nDA_APART double second(double x)\n{\n    if (x > 0) {\n        return first(x) * 2;\n    }\n    return 0;\n}\n"
    "double all(double x) { return first(x) + second(x) + third; }\n"
)


def test_functions_apart_are_units_of_their_own_where_they_are_long(monkeypatch):
    assert compiler.units(PIECES) == [PIECES]
    monkeypatch.setattr(compiler, "SHARE", 100)  # the text before the first function is shorter
    rest, shared = compiler.units(PIECES)
    monkeypatch.setattr(compiler, "SHARE", 1)
    assert compiler.units(PIECES) == [rest, shared]  # a unit is longer than what all begin with
    head = PIECES.split("\nDA_APART")[0]
    for k, unit in enumerate((rest, shared)):
        assert unit.startswith(compiler.SHARED % k + "\n" + head)
        assert unit.count("DA_APART double first(double x);") == unit.count("DA_APART double second(double x);") == 1
    assert "static double third = 3;" in rest
    assert "double all" in rest
    assert "\n{" not in rest
    assert shared.count("\n{") == 2
    assert "third" not in shared


@pytest.fixture(params=[1, 10**9])
def divided(request, monkeypatch, tmp_path):
    """Sources are compiled in as many units as there can be, or in one; how many there were."""
    monkeypatch.setattr(compiler, "SHARE", request.param)
    monkeypatch.setenv("DALEMBERT_CACHE", str(tmp_path))
    counts, plain = [], compiler.units

    def units(source):
        out = plain(source)
        counts.append(len(out))
        return out

    monkeypatch.setattr(compiler, "units", units)
    yield counts
    assert max(counts) > 1 if request.param == 1 else counts == len(counts) * [1]


RUNS = [
    ("double_pendulum", "rattle", {}),
    ("double_pendulum", "rattle", {"adaptive": True}),
    ("double_pendulum", "lobatto-pair-3", {}),
    ("four_particles", "gauss-3", {"compile": "newton"}),
    ("chaplygin_sleigh", "spark-2", {}),
]


@needs_compiler
@pytest.mark.parametrize(("system", "method", "options"), RUNS, ids=lambda x: x if isinstance(x, str) else "-".join(x))
def test_units_make_the_steps_of_one(divided, system, method, options):
    """However a source is divided, its steps are those of the virtual machine, or of sweeps to round-off."""
    made, free = getattr(da.catalog, system), {k: v for k, v in options.items() if k != "compile"}
    sol = da.simulate(made(), method, t_end=0.5, step=0.01, **{"compile": True, **options})
    plain = da.simulate(made(), method, t_end=0.5, step=0.01, compile=False, **free)
    assert len(divided) > 0
    if "sweeps" in sol.stats["engine"]:
        np.testing.assert_allclose(sol.q, plain.q, rtol=0, atol=1e-13)
    else:
        np.testing.assert_array_equal(sol.q, plain.q)


@needs_compiler
def test_units_make_the_gradients_and_members_of_one(divided):
    run = {"t_end": 0.5, "step": 0.01}
    found, plain = (
        da.sensitivity(da.catalog.double_pendulum(), "rattle", compile=way, **run).jacobian("q", "m1") for way in (True, False)
    )
    np.testing.assert_allclose(found, plain, rtol=1e-12, atol=1e-12)
    system = da.catalog.double_pendulum()
    members = da.ensemble(system, "rattle", samples={"m1": [1.0, 2.0, 3.0]}, compile=True, **run)
    alone = da.simulate(system, "rattle", parameters={"m1": 3.0}, compile=False, **run)
    np.testing.assert_array_equal(members.q[2], alone.q)


@needs_compiler
def test_units_call_tables(divided):
    """Functions of CasADi come with others that are not static."""
    x = np.linspace(-2, 2, 21)
    table = ca.interpolant("table", "bspline", [x], np.cos(x))
    system = da.Mechanical(
        2, mass=1.0, potential=lambda q: table(q[0]) + table(q[1]) + q[0] * q[1], initial={"q": [0.5, 0.2], "v": [0.0, 0.0]}
    )
    run = {"t_end": 0.5, "step": 0.01}
    sol, plain = (da.simulate(system, "gauss-2", compile=way, **run) for way in ("newton", False))
    np.testing.assert_array_equal(sol.q, plain.q)
    found, expected = (da.sensitivity(system, "gauss-2", compile=way, **run).jacobian("q", "v") for way in (True, False))
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@needs_compiler
def test_compiling_while_the_interpreter_exits(tmp_path):
    code = (
        "import atexit, dalembert as da\n"
        "run = lambda: da.simulate(da.catalog.simple_pendulum(), 'rattle', t_end=0.1, step=0.01, compile=True, progress=False)\n"
        "atexit.register(lambda: print(run().stats['engine']))\n"
    )
    assert ran(code, {"DALEMBERT_CACHE": str(tmp_path)}) == ["compiled"]


@needs_compiler
def test_an_error_in_one_unit_is_told(monkeypatch, tmp_path):
    monkeypatch.setattr(compiler, "SHARE", 1)
    monkeypatch.setenv("DALEMBERT_CACHE", str(tmp_path))
    with pytest.raises(da.CompilerError, match="unknown_thing"):
        compiler.load(PIECES.replace("half(x) + 1", "unknown_thing + 1"))
    assert entries(tmp_path) == []


@pytest.mark.skipif(sys.platform == "win32", reason="needs signals")
def test_an_interrupt_ends_a_compiler_and_what_it_runs(tmp_path):
    """A compiler's command runs others, which must not be waited for."""
    slow, place, mark = tmp_path / "slow", tmp_path / "cache", tmp_path / "begun"
    slow.write_text(f"#!/bin/sh\ntouch {mark}\nsleep 300\nexit 1\n")
    slow.chmod(0o700)
    code = (
        "import signal, dalembert as da\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "try: da.simulate(da.catalog.simple_pendulum(), 'rattle', t_end=0.1, step=0.01, compile=True, progress=False)\n"
        "except KeyboardInterrupt: print('interrupted')\n"
    )
    env = {**os.environ, "DALEMBERT_CC": str(slow), "DALEMBERT_CACHE": str(place)}
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=env) as process:
        while not mark.exists():
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=60)[0] == "interrupted\n"
    assert entries(place) == []
