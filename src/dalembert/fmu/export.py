"""`export_fmu`: a model with its method as a Functional Mock-up Unit for co-simulation."""

from __future__ import annotations

import hashlib
import platform
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

from numpy.typing import ArrayLike

from dalembert.checking import one_of, positive
from dalembert.engine import compiler
from dalembert.engine.case import Case, check_call, make_rule
from dalembert.engine.inputs import Constant
from dalembert.engine.machine import Records, Task
from dalembert.engine.program import Program
from dalembert.engine.runners import LARGEST_COMPILED, Engine
from dalembert.errors import CompilerError, MethodError, suggesting
from dalembert.fmu import description
from dalembert.fmu.code import Source, identifier
from dalembert.fmu.variables import layout
from dalembert.methods.base import Method
from dalembert.solution.paths import target, writing
from dalembert.systems.base import System

VERSIONS = ("3.0", "2.0")
PLACES = {
    ("Linux", "x86_64"): {"2.0": "linux64", "3.0": "x86_64-linux"},
    ("Linux", "aarch64"): {"3.0": "aarch64-linux"},
    ("Darwin", "x86_64"): {"2.0": "darwin64", "3.0": "x86_64-darwin"},
    ("Darwin", "arm64"): {"2.0": "darwin64", "3.0": "aarch64-darwin"},
}
ENDINGS = {"Linux": ".so", "Darwin": ".dylib"}


@suggesting
def export_fmu(
    system: System,
    method: str | Method,
    path: str | Path,
    *,
    step: float,
    fmi: str = "3.0",
    q: ArrayLike | None = None, v: ArrayLike | None = None, p: ArrayLike | None = None,
    x: ArrayLike | None = None, y: ArrayLike | None = None, z: ArrayLike | None = None,
    t0: float = 0.0, u: ArrayLike | None = None, parameters: Mapping[str, ArrayLike] | None = None,
    tolerance: float | None = None, max_iterations: int = 25, binary: bool = True,
) -> Path:  # fmt: skip
    """Write an FMU for co-simulation whose steps are those of `simulate` with `compile="newton"`.

    It holds a binary for this machine, the source in C, and a description. Its variables are the parameters and the initial
    state, which can be set before the initialisation ends, the inputs, which are held during a communication step, the state, and
    the balance of energy: `energy`, `supplied`, `dissipated`, `power_balance`; then the largest residuals of constraints, outputs
    of ports, and multipliers. A communication step is a multiple of `step`. Start values that are off the constraints, because
    the length of a rod was changed say, are moved to the nearest ones on them.

    Parameters
    ----------
    path
        A file that ends in `.fmu`.
    step
        The step of the method.
    fmi
        The version of the standard, `"3.0"` or `"2.0"`.
    q, v, p, x, y, z, u, parameters
        Start values, as for `simulate`; inputs are constants here.
    binary
        Whether it holds a binary for this machine; without one, the importing program compiles the source.

    Examples
    --------
    >>> da.export_fmu(double_pendulum, "rattle", "pendulum.fmu", step=0.001)
    """
    check_call(system, "auto")
    file, step, version = target(path, "an FMU", (".fmu",)), positive("step", step), one_of("fmi", fmi, VERSIONS)
    given = {"q": q, "v": v, "p": p, "x": x, "y": y, "z": z}
    case = Case.of(system, method, given, t0=t0, u=u, parameters=parameters)
    rule = make_rule(tolerance, max_iterations)
    if not isinstance(case.inputs, Constant):
        raise MethodError("the inputs of an FMU come from outside: give their start values as numbers, u=[...]")
    place = PLACES.get((platform.system(), platform.machine()), {}).get(version)
    if binary and place is None:
        raise MethodError(
            f"an FMU {version} has no binary for {platform.system()} on {platform.machine()}: these are made on Linux and macOS; "
            "binary=False writes its source alone, to be compiled where it is used (by fmpy.build.build_platform_binary, say)"
        )
    program = _program(case, step)
    values = layout(system, case.values, case.par, case.inputs.values, case.t0, program.n_lam)
    name = identifier(file.stem)
    key = hashlib.sha256(repr((system.dumps(), str(case.method), step, version, values.variables)).encode()).hexdigest()
    token = f"{{{key[:8]}-{key[8:12]}-{key[12:16]}-{key[16:20]}-{key[20:32]}}}"
    source = Source(system, program, values, rule).text(version, token, step)
    facts = description.Facts(system.name, name, token, str(case.method), case.t0, case.t0 + 1000 * step, step)
    built = _compiled(source) if binary else b""
    with writing(file) as temporary, zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive:
        said = description.second if version == "2.0" else description.third
        archive.writestr("modelDescription.xml", said(facts, values))
        if binary:
            archive.writestr(f"binaries/{place}/{name}{ENDINGS[platform.system()]}", built)
        archive.writestr(f"sources/{description.SOURCE}", source)
        if version == "3.0":
            archive.writestr("sources/buildDescription.xml", description.build(facts))
        archive.writestr("documentation/README.txt", _words(facts))
    return file


def _program(case: Case, step: float) -> Program:
    """The program of a step that can be written in C, with pivots that serve at the start."""
    system, method = case.system, case.method
    if method.external:
        raise MethodError(f"{method} cannot be exported: SciPy makes its steps; take one of the library, rattle for example")
    engine = case.engine()
    program = engine.program
    if program.large or program.written > 2 * LARGEST_COMPILED:
        raise MethodError(
            f"{system.name!r} by {method} cannot be exported: its step has {program.n_unknowns} unknowns and is solved with "
            "sparse factors, which an FMU does not have"
        )
    if case.guess() is not None:
        raise MethodError(f"{system.name!r} cannot be exported: it has coordinates without mass")
    return program if _serves(engine, case, step) else engine.repivoted().program


def _serves(engine: Engine, case: Case, step: float) -> bool:
    """Whether the first step can be made as it is written; where not, the careful way looks for other pivots."""
    program, rule = engine.program, make_rule(None, 25)
    u = engine.step_inputs(case.inputs, case.t0, 0, 1, step)
    for runner in (engine.machine(), engine.careful()):
        memory = engine.start(case.state(program), case.par, case.t0, step)
        outcome = runner.run(memory, Records.empty(program, 1), Task(case.t0, step, rule, inputs=u))
        if outcome.failed < 0:
            return runner.name == "virtual machine"
    raise MethodError(f"the first step of {step:g} cannot be made, so it is not exported; use a smaller one")


def _compiled(source: str) -> bytes:
    """The shared library of a source, for any machine of this kind."""
    command = compiler.find()
    if command is None:
        raise CompilerError("an FMU needs a C compiler; install one (gcc, clang, or: pip install 'dalembert[compiler]')")
    with tempfile.TemporaryDirectory(prefix="dalembert-fmu-") as folder:
        built, said = compiler.build(source, command, ("-fvisibility=hidden",), Path(folder))
        if built is None:
            raise CompilerError(f"{command[0]} failed on the source of the FMU: {said}")
        return built.read_bytes()


def _words(facts: description.Facts) -> str:
    return (
        f"{facts.name} by {facts.method} with steps of {facts.step!r}, exported by dalembert.\n"
        "Communication steps are multiples of that step; inputs are held during them.\n"
        "power_balance = energy - energy at the start - supplied + dissipated.\n"
    )
