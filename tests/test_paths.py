"""Files appear whole or not at all, and never through a link that somebody laid."""

import os
import re
import stat
import subprocess
import sys

import pytest

import dalembert as da
from dalembert.solution import paths
from dalembert.solution.paths import writing

SOL = da.simulate(da.catalog.double_pendulum(), "rattle", t_end=0.1, step=0.01)


def test_links_beside_the_file_are_not_followed(tmp_path):
    precious = tmp_path / "important.txt"
    precious.write_text("precious")
    (tmp_path / ".run.part.nc").symlink_to(precious)
    (tmp_path / ".run.part.html").symlink_to(precious)
    SOL.save(tmp_path / "run.nc")
    SOL.report(tmp_path / "run.html")
    assert precious.read_text() == "precious"
    assert not (tmp_path / "run.nc").is_symlink()


def test_a_name_that_is_taken_is_not_written_to(tmp_path, monkeypatch):
    """Even where somebody guesses the name of the new file."""
    precious = tmp_path / "important.txt"
    precious.write_text("precious")
    with writing(tmp_path / "run.nc") as temporary:
        guessed = temporary.with_name(re.sub(r"[0-9a-f]{16}", "guessed", temporary.name))
    monkeypatch.setattr("secrets.token_hex", lambda n: "guessed")
    guessed.symlink_to(precious)
    with pytest.raises(da.FileError, match="could not be written"):
        SOL.save(tmp_path / "run.nc")
    assert precious.read_text() == "precious"
    assert guessed.is_symlink()  # it is not ours to remove


def test_a_link_in_the_place_of_the_file_is_replaced(tmp_path):
    precious = tmp_path / "important.txt"
    precious.write_text("precious")
    (tmp_path / "run.nc").symlink_to(precious)
    SOL.save(tmp_path / "run.nc")
    assert precious.read_text() == "precious"
    assert not (tmp_path / "run.nc").is_symlink()
    assert da.load(tmp_path / "run.nc").t[-1] == 0.1


def test_the_rights_of_a_new_file_are_those_that_the_user_wants(tmp_path):
    before = os.umask(0o027)
    try:
        with writing(tmp_path / "a.txt") as temporary:
            temporary.write_text("x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a.txt").stat().st_mode) == 0o640


@pytest.mark.parametrize("error", [OSError("full"), KeyboardInterrupt(), ValueError("x")], ids=lambda e: type(e).__name__)
def test_nothing_is_left_after_any_error(tmp_path, error):
    (tmp_path / "a.txt").write_text("before")

    def fail():
        with writing(tmp_path / "a.txt") as temporary:
            temporary.write_text("half")
            raise error

    with pytest.raises(da.FileError if isinstance(error, OSError) else type(error)):
        fail()
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]
    assert (tmp_path / "a.txt").read_text() == "before"


def test_long_names_can_be_written(tmp_path):
    path = tmp_path / ("a" * 252 + ".nc")
    assert da.load(SOL.save(path)).t[-1] == 0.1


def test_what_killed_processes_left_behind_is_removed_by_the_next_run(tmp_path):
    """The temporary file of a process that is gone; one of a living process, and those of other paths, stay."""
    gone = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True, check=True)
    with paths.writing(tmp_path / "run.nc") as temporary:
        mine = temporary.name
    names = {pid: mine.replace(str(os.getpid()), pid) for pid in (gone.stdout.strip(), str(os.getpid()))}
    with paths.writing(tmp_path / "other.nc") as temporary:
        other = temporary.name.replace(str(os.getpid()), gone.stdout.strip())
    (tmp_path / "run.nc").unlink()
    for name in (*names.values(), other):
        (tmp_path / name).write_bytes(b"half")
    da.simulate(da.catalog.harmonic_oscillator(), "rattle", t_end=0.1, step=0.01, checkpoint=tmp_path / "run.nc")
    left = {p.name for p in tmp_path.iterdir()} - {"run.nc", "other.nc"}
    assert left == {names[str(os.getpid())], other}
