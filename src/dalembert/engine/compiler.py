"""From C source to a shared library: find a compiler, compile once, keep the result by content.

A library that is loaded runs. So it is taken only from where the user alone can write, and only if it is, byte for byte, what
was put there: its name has a digest of its content. What is anything else is compiled again.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import os
import platform
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path

from dalembert.engine.progress import stage
from dalembert.errors import CompilerError

# No fast-math and no contraction: compiled steps are those of the virtual machine, bit by bit where libm agrees.
# Vectors of neighbours are slower than scalars here: what is stored as one is read back as the other.
FLAGS = ("-fno-tree-vectorize", "-std=c99", "-fPIC", "-ffp-contract=off", "-fno-math-errno", "-w")
LONG = 100_000  # characters of source beyond which -O2 takes longer than -O1 and gains nothing
SHARE = 100_000  # characters of functions that stand apart which are worth a compiler of their own
APART = "\nDA_APART "  # how such functions begin; they end with the first brace that begins a line
# what that is where there are several units; CasADi's own functions (tables.py) have names of their own in each
SHARED = """#define DA_APART __attribute__((noinline, visibility("hidden")))
#define CASADI_CODEGEN_PREFIX
#define CODEGEN_PREFIX da_unit%d_
"""
SOON = 0.005  # seconds between two looks at compilers that run
NATIVE = ("-march=native",)  # where the compiler knows it; libraries are kept for the processor that they were made on
OTHERS = stat.S_IWGRP | stat.S_IWOTH  # rights of others to write
DIGITS = 32  # of a digest in a name


@cache
def find() -> tuple[str, ...] | None:
    """The compiler's command: `DALEMBERT_CC` or `CC` if set, else cc, gcc, clang, else the `ziglang` package.

    None where `DALEMBERT_CC` names none: no other is taken in its place.
    """
    wanted = os.environ.get("DALEMBERT_CC", "").strip()
    if wanted:
        return _command(wanted)
    if command := _command(os.environ.get("CC", "")):
        return command
    for name in ("cc", "gcc", "clang"):
        if path := shutil.which(name):
            return (path,)
    if importlib.util.find_spec("ziglang"):
        return (sys.executable, "-m", "ziglang", "cc")
    return None


def _command(text: str) -> tuple[str, ...] | None:
    """Words of a command whose program is there."""
    try:
        words = tuple(shlex.split(text))
    except ValueError:  # a quote that is not closed
        return None
    return words if words and shutil.which(words[0]) else None


def _found() -> tuple[str, ...]:
    command = find()
    if command is not None:
        return command
    wanted = os.environ.get("DALEMBERT_CC", "").strip()
    why = f"DALEMBERT_CC={wanted!r} names no compiler" if wanted not in ("", "none") else "no C compiler was found"
    raise CompilerError(
        f"{why}; install one (gcc, clang, or: pip install 'dalembert[compiler]'), or use compile='auto', which does without"
    )


def private(path: Path, kind: int = stat.S_IFDIR) -> bool:
    """Whether a directory or file is the user's own, no link, and one that nobody else can write to."""
    try:
        found = path.lstat()
    except OSError:
        return False
    own = not hasattr(os, "getuid") or (found.st_uid == os.getuid() and not found.st_mode & OTHERS)
    return own and stat.S_IFMT(found.st_mode) == kind


def _places() -> list[Path]:
    """Where compiled steps may be kept, the best place first."""
    out = []
    if explicit := os.environ.get("DALEMBERT_CACHE"):
        out.append(Path(explicit))
    elif base := os.environ.get("XDG_CACHE_HOME"):
        out.append(Path(base) / "dalembert")
    elif (home := os.path.expanduser("~")) != "~":  # a user without a home has none
        out.append(Path(home) / ".cache" / "dalembert")
    owner = os.getuid() if hasattr(os, "getuid") else "cache"
    return [*out, Path(tempfile.gettempdir()) / f"dalembert-{owner}"]


def cache_directory() -> Path | None:
    """Where compiled steps are kept: `DALEMBERT_CACHE`, else the user's cache directory, else a temporary one.

    A directory that others can write to is left alone; None where no place is left.
    """
    for place in _places():
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.mkdir(mode=0o700, exist_ok=True)
        except OSError:  # a disk that is full or cannot be written to, a file in the way
            continue
        if private(place) and os.access(place, os.W_OK):
            return place
    return None


@cache
def processor() -> str:
    """What tells this processor from others that cannot run its instructions."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").split("\n\n")[0].splitlines()
    except OSError:
        return platform.processor()
    return "\n".join(line for line in lines if line.lower().startswith(("model name", "flags", "features", "cpu part")))


def _flags(source: str) -> tuple[str, ...]:
    return ("-O2" if len(source) < LONG else "-O1", *FLAGS)


def _key(source: str, command: tuple[str, ...], more: tuple[str, ...] = ()) -> str:
    parts = [source, *command, *_flags(source), *more, *NATIVE, processor(), platform.machine(), platform.system()]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:DIGITS]


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:DIGITS]


def _whole(path: Path, key: str) -> bool:
    """Whether an entry is the user's own and has the content that its name says."""
    try:
        return private(path, stat.S_IFREG) and path.name == f"step-{key}-{_digest(path)}.so"
    except OSError:  # it cannot be read, or has just been removed
        return False


def _kept(place: Path, key: str) -> Path | None:
    """The library of a key, if there is one that can be trusted."""
    return next((path for path in sorted(place.glob(f"step-{key}-*.so")) if _whole(path, key)), None)


def is_cached(source: str, more: tuple[str, ...] = ()) -> bool:
    """Whether this source has been compiled before, with these further flags."""
    command, place = find(), cache_directory()
    return command is not None and place is not None and _kept(place, _key(source, command, more)) is not None


def load(source: str, more: tuple[str, ...] = ()) -> ctypes.CDLL:
    """Compile (unless done before) and load; `more` are further flags."""
    command, place = _found(), cache_directory()
    if place is None:
        raise CompilerError(
            f"compiled steps can be kept nowhere: none of {', '.join(str(p) for p in _places())} is a directory that you, and "
            "nobody else, can write to; set DALEMBERT_CACHE to one, or use compile='auto', which does without"
        )
    key = _key(source, command, more)
    try:
        path = _kept(place, key) or _compiled(source, command, more, place, key)
        return ctypes.CDLL(str(path))
    except OSError as error:
        raise CompilerError(f"the step could not be compiled in {place} ({error}); compile='auto' does without") from error


def _compiled(source: str, command: tuple[str, ...], more: tuple[str, ...], place: Path, key: str) -> Path:
    """Compile in a directory of its own, and put the library in its place at once: others may be doing the same."""
    with tempfile.TemporaryDirectory(dir=place, prefix="build-") as directory:
        stage("compiling")
        for native in (NATIVE, ()):
            built, said = build(source, command, (*more, *native), Path(directory))
            if built is not None:
                break
        else:
            raise CompilerError(f"{command[0]} failed on the generated step: {said}")
        built.chmod(0o700)
        for entry in place.glob(f"step-{key}-*.so"):
            if not _whole(entry, key) and not (entry.is_dir() and not entry.is_symlink()):
                entry.unlink(missing_ok=True)
        target = place / f"step-{key}-{_digest(built)}.so"
        built.replace(target)
        return target


def build(source: str, command: tuple[str, ...], more: tuple[str, ...], folder: Path) -> tuple[Path | None, str]:
    """The shared library of a source, made in a folder, and what the compiler said; None where it made none."""
    texts, flags, built = units(source), (*_flags(source), *more), folder / "step.so"
    files = [folder / f"step{k}.c" for k in range(len(texts))]
    for file, text in zip(files, texts, strict=True):
        file.write_text(text, encoding="utf-8")
    if len(files) == 1:
        done = _run([[*command, *flags, "-shared", str(files[0]), "-o", str(built), "-lm"]], folder)
    else:
        objects = [str(file.with_suffix(".o")) for file in files]
        done = _run([[*command, *flags, "-c", str(file), "-o", out] for file, out in zip(files, objects, strict=True)], folder)
        if not any(code for code, _ in done):
            done = _run([[*command, "-shared", *objects, "-o", str(built), "-lm"]], folder)
    failed = [said for code, said in done if code]
    said = "".join(failed).strip()[-400:] or "it wrote no library"
    return (None if failed or not built.is_file() else built), said


def units(source: str) -> list[str]:
    """The translation units of a source: what stands apart is compiled beside the rest where it is long.

    They do not depend on the machine. All begin with what comes before the first function that stands apart; each is longer than
    that, which may hold large tables.
    """
    head, *pieces = source.split(APART)
    functions, rest = list[str](), list[str]()
    for piece in pieces:
        body, brace, more = piece.partition("\n}\n")
        functions.append(f"DA_APART {body}{brace}")
        rest.append(more)
    share, shares = max(SHARE, len(head)), list[str]()
    for function in functions:
        if not shares or len(shares[-1]) >= share:
            shares.append("")
        shares[-1] += function
    if sum(map(len, functions)) < share:
        return [source]
    declared = "\n".join([head, *(function.partition("\n{")[0] + ";" for function in functions)])
    return ["\n".join([SHARED % k, declared, own]) for k, own in enumerate(("\n".join(rest), *shares))]


def _run(commands: list[list[str]], folder: Path) -> list[tuple[int, str]]:
    """Run commands, as many at once as there are cores: how each ended, and what it said. An interrupt ends them.

    What they leave behind goes to a folder.
    """
    waiting, begun, running = list(enumerate(commands)), list[subprocess.Popen[bytes]](), list[subprocess.Popen[bytes]]()
    told = [folder / f"told{k}" for k in range(len(commands))]
    try:
        while waiting or running:
            while waiting and len(running) < available():
                k, command = waiting.pop(0)
                with told[k].open("wb") as said:
                    process = subprocess.Popen(
                        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=said, start_new_session=True,
                        env={**os.environ, "TMPDIR": str(folder)},
                    )  # fmt: skip
                begun.append(process)
                running.append(process)
            time.sleep(SOON)
            running = [process for process in running if process.poll() is None]
    except BaseException:
        for process in running:
            _end(process)
        raise
    return [
        (process.returncode, file.read_text(encoding="utf-8", errors="replace"))
        for process, file in zip(begun, told, strict=True)
    ]


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a compiler, and the programs that it runs."""
    if process.poll() is None:
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
        process.wait()


def available() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
