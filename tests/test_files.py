"""Files of solutions: nothing in them runs, nothing of them is half, and what is damaged is refused in one sentence."""

import copy
import json
import os
import random
import subprocess
import sys

import netCDF4
import numpy as np
import pytest

import crafted
import dalembert as da
from dalembert.engine import compiler
from dalembert.solution import files

RUN = {"t_end": 0.1, "step": 0.01}


def make():
    """A run with all that a file can have: parameters, events, inputs, multipliers, a picture."""
    from conftest import consistent_start, driven_pendulum

    system = driven_pendulum()
    events = {"low": lambda q: q[0] - 0.45}
    return da.simulate(system, "rattle", **consistent_start(system), **RUN, u=lambda t: [np.sin(t)], events=events)


SOL = make()
PORT = da.simulate(da.catalog.dc_motor(), "discrete-gradient", **RUN, u=[1.0, 0.0])


def meta_of(path):
    with netCDF4.Dataset(path) as file:
        return json.loads(file.variables["dalembert"][:].tobytes())


def rewritten(path, meta=None, change=lambda arrays: None, target=None):
    """A file made anew with other data, and sealed as if it had been written so."""
    with netCDF4.Dataset(path) as file:
        arrays = {k: (v.dimensions, np.array(v[:])) for k, v in file.variables.items() if v.dtype == np.float64}
    text = json.dumps(meta_of(path)) if meta is None else meta if isinstance(meta, str) else json.dumps(meta)
    arrays["dalembert"] = (("byte",), np.frombuffer(text.encode(), dtype=np.uint8))
    change(arrays)
    target = target or path.with_name("edited.nc")
    with netCDF4.Dataset(target, "w") as file:
        for name, (dims, values) in arrays.items():
            sizes = [(f"{dim}_{len(dims)}_{n}", n) for dim, n in zip(dims, values.shape, strict=False)]
            for dim, n in sizes:
                if dim not in file.dimensions:
                    file.createDimension(dim, n)
            file.createVariable(name, values.dtype, [dim for dim, _ in sizes])[:] = values
    files.seal(target)
    return target


def same(again, sol):
    """A solution says what the original says."""
    assert np.array_equal(again.t, sol.t)
    for name, values in sol.parts.items():
        assert np.array_equal(again.parts[name], values)
    assert np.array_equal(again.u, sol.u)
    assert np.array_equal(again.supplied, sol.supplied)
    assert again.events.keys() == sol.events.keys()


@pytest.mark.parametrize("sol", [SOL, PORT], ids=["mechanical", "ports"])
def test_a_file_comes_back_whole(tmp_path, sol):
    path = sol.save(tmp_path / "a.nc")
    again = da.load(path)
    same(again, sol)
    assert str(again) == str(sol)
    assert again.stats == sol.stats
    assert again.parameters == sol.parameters
    for name, hits in sol.events.items():
        assert np.array_equal(hits.t, again.events[name].t)
        assert np.array_equal(hits.q, again.events[name].q)
    same(da.load(rewritten(path)), sol)  # the tool of the tests below changes nothing


def test_other_programs_read_the_numbers(tmp_path):
    import xarray as xr

    path = SOL.save(tmp_path / "a.nc")
    data = xr.load_dataset(path)
    np.testing.assert_array_equal(data["q"].values, SOL.q)
    assert list(data["coordinate"].values) == ["x", "y"]


def test_a_given_system_is_used_instead_of_the_one_in_the_file(tmp_path):
    again, extra = files.read(files.write(SOL, tmp_path / "a.nc", {"key": 3}), SOL.system)
    assert again.system is SOL.system
    assert extra == {"key": 3}


# ---- versions, other programs, damage -------------------------------------------------------------------------


def test_versions_and_other_files_are_told_apart(tmp_path):
    import xarray as xr

    path = SOL.save(tmp_path / "a.nc")
    whole = path.read_bytes()

    def says(content, match):
        (tmp_path / "b.nc").write_bytes(content)
        with pytest.raises(da.FileError, match=match) as caught:
            da.load(tmp_path / "b.nc")
        assert "\n" not in str(caught.value)

    says(whole.replace(b"dalembert format 2", b"dalembert format 3"), "by a newer version of dalembert")
    says(whole.replace(b"dalembert format 2", b"dalembert format 1"), "by an older version of dalembert")
    says(b"", "no file of dalembert's")
    says(b"some text", "no file of dalembert's")
    says(whole[:-1], "damaged, was changed by another program, or was written by dalembert 0.1")
    xr.Dataset({"a": ("x", [1.0])}).to_netcdf(tmp_path / "other.nc")
    says((tmp_path / "other.nc").read_bytes(), "another program")
    files.seal(tmp_path / "other.nc")
    says((tmp_path / "other.nc").read_bytes(), "no file of dalembert's")
    for path in (tmp_path, tmp_path / "none.nc", "a\0b", None, 3, ""):
        with pytest.raises(da.FileError, match="there is no file"):
            da.load(path)


def test_flipped_bits_and_lost_ends_are_found(tmp_path):
    path, damaged = SOL.save(tmp_path / "a.nc"), tmp_path / "b.nc"
    whole, rng = path.read_bytes(), random.Random(1)
    for trial in range(300):
        content = bytearray(whole)
        if trial % 3:
            content[rng.randrange(len(whole))] ^= 1 << rng.randrange(8)
        else:
            del content[rng.randrange(len(whole)) :]
        damaged.write_bytes(content)
        with pytest.raises(da.FileError):
            da.load(damaged)


STRANGE = [None, True, -1, 0, 10**400, 1e308, float("nan"), float("inf"), "", "x" * 100_000, [], {}, [[[]]], {"a": {}},
           [None] * 9, "sin", "__import__('os')", -(2**63), 0.5, [1, [2, 3]], {"class": "System"}]  # fmt: skip


def places(data, path=()):
    """The ways to all values in nested data."""
    yield path
    inner = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in inner:
        yield from places(value, (*path, key))


def edit(data, way, rng):
    """Nested data with one value dropped, put twice, nested or replaced."""
    out = copy.deepcopy(data)
    if not way:
        return rng.choice(STRANGE)
    place = out
    for key in way[:-1]:
        place = place[key]
    what = rng.randrange(4)
    if what == 0:
        del place[way[-1]]
    elif what == 1:
        place[way[-1]] = [place[way[-1]]]
    elif what == 2 and isinstance(place, list):
        place.insert(way[-1], place[way[-1]])
    else:
        place[way[-1]] = rng.choice(STRANGE)
    return out


def judge(path, sol):
    """Refused by an error of ours, or read as what it says; then everything of it works, or is refused so."""
    try:
        again = da.load(path)
    except da.FileError as error:
        return "\n" in str(error) and pytest.fail(f"more than a sentence: {error}")
    assert np.array_equal(again.t, sol.t)
    for use in (lambda: str(again), lambda: again.energy, lambda: again.residual("position"), lambda: repr(again.system)):
        try:
            use()
        except da.DalembertError:
            continue
    return True


@pytest.mark.parametrize("sol", [SOL, PORT], ids=["mechanical", "ports"])
def test_edited_data_are_refused_or_harmless(tmp_path, sol):
    """Any value of the plain data, those of the model included, replaced by something strange, in a file that is sealed."""
    path, rng = sol.save(tmp_path / "a.nc"), random.Random(2)
    meta = meta_of(path)
    system = json.loads(meta["system"])
    outer, inner = list(places(meta)), list(places(system))
    short = [way for way in (*outer, *inner) if len(way) < 4]
    read = 0
    for trial in range(80):
        if trial % 2:
            ways = [way for way in inner if len(way) < 4] if trial % 4 == 1 else inner
            new = meta | {"system": json.dumps(edit(system, rng.choice(ways), rng))}
        else:
            new = edit(meta, rng.choice(outer), rng)
        read += judge(rewritten(path, new), sol)
    assert 3 < read < 60  # names, statistics and numbers may be others
    assert len(short) > 40


def test_text_that_is_no_data_is_refused(tmp_path):
    path = SOL.save(tmp_path / "a.nc")
    for text in ("", "{", "[" * 200_000, "null", "3", '{"a": 1}', "\ud800".encode("utf-8", "surrogatepass").decode("latin-1")):
        with pytest.raises(da.FileError):
            da.load(rewritten(path, text))


def test_arrays_that_do_not_fit_are_refused(tmp_path):
    path = SOL.save(tmp_path / "a.nc")
    names = ["time", "q", "v", "supplied", "dissipated", "time_lam", "lam", "u", "dalembert"]

    def cut(name):
        return lambda arrays: arrays.update({name: (arrays[name][0], arrays[name][1][:-2])})

    def turned(name):
        return lambda arrays: arrays.update({name: (("a", "b", "c"), arrays[name][1][None, None].reshape(1, 1, -1))})

    def whole(name):
        return lambda arrays: arrays.update({name: (arrays[name][0], arrays[name][1].astype(np.int32))})

    def gone(name):
        return lambda arrays: arrays.pop(name)

    for name in names:
        for change in (cut, turned, whole, gone):
            if name == "dalembert" and change is turned:
                continue  # the same bytes
            with pytest.raises(da.FileError):
                da.load(rewritten(path, change=change(name)))
    for bad in (np.nan, np.inf, -5.0):
        with pytest.raises(da.FileError, match="times do not increase"):
            da.load(rewritten(path, change=lambda arrays, bad=bad: arrays["time"][1].__setitem__(4, bad)))


def test_sizes_beyond_the_file_are_refused_before_they_are_taken(tmp_path):
    """A variable of which nothing was written takes no place in a file, and all memory when it is read."""
    path = SOL.save(tmp_path / "a.nc")
    target = rewritten(path, change=lambda arrays: arrays.pop("time"))
    with netCDF4.Dataset(target, "a") as file:
        file.createDimension("endless", 10**11)
        file.createVariable("time", "f8", ("endless",), chunksizes=(1000,))
    files.seal(target)
    with pytest.raises(da.FileError, match="larger than the file"):
        da.load(target)


METHODS = {
    "no such method": ["nope", {}],
    "no list": {"name": "rattle"},
    "a module": ["os.system", {"command": "true"}],
    "an unknown option": ["rattle", {"evil": 1}],
    "stages that are no number": ["gauss", {"stages": "3"}],
    "stages beyond all": ["gauss", {"stages": 10**400}],
    "half a stage": ["gauss", {"stages": 2.5}],
    "true": ["gauss", {"stages": True}],
    "options that are a list": ["gauss", [3]],
    "a function": ["gradient-pair", {"z": "lambda x: x"}],
    "a nested one that is none": ["composition", {"base": ["nope", {}]}],
    "nan": ["rk45", {"rtol": float("nan")}],
}


@pytest.mark.parametrize("name", METHODS)
def test_methods_are_names_and_options_of_the_register(tmp_path, name):
    path = SOL.save(tmp_path / "a.nc")
    with pytest.raises(da.FileError):
        da.load(rewritten(path, meta_of(path) | {"method": METHODS[name]}))


def test_a_composed_method_comes_back(tmp_path):
    sol = da.simulate(da.catalog.harmonic_oscillator(), da.compose("lobatto-pair-3", order=6, scheme="suzuki"), **RUN)
    assert da.load(sol.save(tmp_path / "a.nc")).method == sol.method


# ---- what would run --------------------------------------------------------------------------------------------


@pytest.mark.skipif(compiler.find() is None, reason="no C compiler here")
def test_nothing_in_a_file_runs(tmp_path):
    """Four texts that run code when CasADi or Python reads them, at each place of a file, by each way in."""
    marker = tmp_path / "marker"
    texts = crafted.payloads(tmp_path, marker)
    (tmp_path / "texts.json").write_text(json.dumps(texts))
    here = os.path.dirname(crafted.__file__)
    control = [sys.executable, crafted.__file__, str(tmp_path / "texts.json"), str(marker)]
    done = subprocess.run(control, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [f"{name} True" for name in texts]  # they do run, when they are read that way

    path = SOL.save(tmp_path / "a.nc")
    meta = meta_of(path)
    system = json.loads(meta["system"])
    made = []
    for k, text in enumerate(texts.values()):
        roles = dict.fromkeys(system["functions"], text)
        first = meta | {"system": json.dumps(system | {"functions": roles})}
        old = {key: value for key, value in system.items() if key not in ("sizes", "missing")} | {"inputs": 1, "functions": roles}
        others = [{"system": json.dumps(old)}, {"system": text}, {"method": text}, {"method": [text, {}]}, {"stats": text},
                  {"method": ["variational", {"lagrangian": text}]}, {"events": {"e": text}}]  # fmt: skip
        for i, new in enumerate([first, *(meta | other for other in others)]):
            made.append(rewritten(path, new, target=tmp_path / f"made{k}-{i}.nc"))
        (tmp_path / f"text{k}.nc").write_text(text, encoding="latin-1")
        made.append(tmp_path / f"text{k}.nc")
    code = (
        "import sys, dalembert as da\n"
        "s = da.catalog.simple_pendulum()\n"
        "for path in sys.argv[1:]:\n"
        "    for use in (lambda: da.load(path), lambda: da.simulate(s, 'rattle', t_end=.1, step=.01, checkpoint=path)):\n"
        "        try: use()\n"
        "        except da.FileError: print('refused')\n"
    )
    done = subprocess.run([sys.executable, "-c", code, *map(str, made)], capture_output=True, text=True, check=True, cwd=here)
    assert done.stdout == "refused\n" * (2 * len(made))
    assert not marker.exists()


def test_the_sources_read_nothing_that_can_run():
    """No text is given to CasADi, pickle or Python to be run, in any module."""
    import re
    from pathlib import Path

    found = []
    for path in Path(da.__file__).parent.rglob("*.py"):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if re.search(r"deserialize|pickle\.load|\beval\(|\bexec\(|marshal|\bfrom_file\(", line):
                found.append(f"{path.name}:{number}")
    assert found == []


# ---- threads, and disks that are full ----------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [2, 8])
def test_threads_save_and_load(tmp_path, threads):
    """In a process of its own: the libraries below end it when two threads meet in them."""
    code = (
        "import sys, threading, numpy as np, dalembert as da\n"
        "sol = da.simulate(da.catalog.double_pendulum(), 'rattle', t_end=0.2, step=0.01)\n"
        "wrong = []\n"
        "def job(k):\n"
        "    for i in range(6):\n"
        "        path = sol.save(f'{sys.argv[1]}/t{k if i % 2 else 0}.nc')\n"
        "        if not np.array_equal(da.load(path).q, sol.q): wrong.append(k)\n"
        f"ts = [threading.Thread(target=job, args=(k,)) for k in range({threads})]\n"
        "[t.start() for t in ts]; [t.join() for t in ts]\n"
        "print('fine' if not wrong else wrong)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False, timeout=300)
    assert (done.returncode, done.stdout) == (0, "fine\n"), done.stderr[-500:]
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(f"t{k}.nc" for k in range(threads))


def test_a_full_disk_is_an_error_of_ours_and_leaves_what_was_there(tmp_path):
    pytest.importorskip("resource")
    SOL.save(tmp_path / "a.nc")
    before = (tmp_path / "a.nc").read_bytes()
    code = (
        "import resource, sys, signal, dalembert as da\n"
        "sol = da.load(sys.argv[1])\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (6000, resource.RLIM_INFINITY))\n"
        "for _ in range(2):\n"
        "    try: sol.save(sys.argv[1])\n"
        "    except da.FileError as error: print('could not be written' in str(error))\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))\n"
        "sol.save(sys.argv[1]); print(da.load(sys.argv[1]).t[-1] == sol.t[-1])\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "a.nc")], capture_output=True, text=True, check=False)
    assert done.stdout == "True\nTrue\nTrue\n", done.stderr[-800:]
    assert [p.name for p in tmp_path.iterdir()] == ["a.nc"]
    assert len((tmp_path / "a.nc").read_bytes()) == len(before)


def test_a_fork_beside_a_thread_that_saves(tmp_path):
    """The child finds the lock of the libraries open, and saves itself."""
    if not hasattr(os, "fork"):
        pytest.skip("no fork here")
    code = (
        "import os, signal, sys, threading, dalembert as da\n"
        "from dalembert.solution import files\n"
        "sol = da.simulate(da.catalog.double_pendulum(), 'rattle', t_end=0.2, step=0.01)\n"
        "sol.save(sys.argv[1] + '/first.nc')\n"
        "held, over = threading.Event(), threading.Event()\n"
        "def hold():\n"
        "    with files._LOCK: held.set(); over.wait()\n"
        "thread = threading.Thread(target=hold); thread.start(); held.wait()\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    signal.alarm(60); os._exit(7 if da.load(sol.save(sys.argv[1] + '/second.nc')).t[-1] == sol.t[-1] else 8)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])); over.set(); thread.join()\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False, timeout=120)
    assert done.stdout == "7\n", done.stderr[-500:]
