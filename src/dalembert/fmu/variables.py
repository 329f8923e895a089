"""The variables of an FMU: time, parameters, inputs, states, and what is measured, by value reference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import casadi as ca
from casadi import SX

from dalembert.analysis.observed import entries
from dalembert.named import Array
from dalembert.systems.base import System
from dalembert.systems.constrained import Constrained
from dalembert.systems.dae import IndexTwoDAE
from dalembert.systems.port_hamiltonian import PortHamiltonian


@dataclass(frozen=True)
class Variable:
    """A number that an FMU has, with what FMI says of it."""

    name: str
    causality: str
    variability: str
    initial: str
    start: float
    description: str


@dataclass(frozen=True)
class Layout:
    """All variables in the order of their value references, and where each group begins."""

    variables: tuple[Variable, ...]
    parameters: int
    inputs: int
    states: int
    outputs: int
    energy: SX
    measured: tuple[tuple[str, SX], ...]

    @property
    def count(self) -> int:
        """The number of variables."""
        return len(self.variables)


def layout(system: System, values: Mapping[str, Array], par: Array, u: Array, t0: float, lam: int) -> Layout:
    """The variables of a system with these start values."""
    out = [Variable("time", "independent", "continuous", "", t0, "time")]
    at = [len(out)]
    for name, value in system.unpack(par).items():
        labels = [name] if value.size == 1 else [f"{name}[{i}]" for i in range(1, value.size + 1)]
        for label, number in zip(labels, value.ravel(), strict=True):
            out.append(Variable(label, "parameter", "fixed", "exact", float(number), f"parameter {name}"))
    at.append(len(out))
    for name, number in zip(system.ports, u, strict=True):
        out.append(Variable(name, "input", "continuous", "", float(number), "input, held during a communication step"))
    at.append(len(out))
    for part in system.state:
        for name, number in zip(entries(system, part), values[part], strict=True):
            out.append(Variable(name, "output", "continuous", "exact", float(number), f"state, {part}"))
    at.append(len(out))
    energy, measured = _measured(system)
    said = {"energy": "energy", "supplied": "work done on the system since the start", "dissipated": "energy dissipated since "
            "the start", "power_balance": "energy - energy at the start - supplied + dissipated"}  # fmt: skip
    rows = [*said.items(), *((name, name.replace("_", " ")) for name, _ in measured)]
    rows += [(f"lam{i}", "multiplier of the last step") for i in range(1, lam + 1)]
    out += [Variable(name, "output", "continuous", "calculated", 0.0, words) for name, words in rows]
    return Layout(_distinct(out), at[0], at[1], at[2], at[3], energy, measured)


def _measured(system: System) -> tuple[SX, tuple[tuple[str, SX], ...]]:
    """The energy, and what is measured beside it: largest residuals of constraints, outputs of ports."""
    energy = system.of_state(system.role("energy")) if system.has_energy else SX(0.0)
    rows: list[tuple[str, SX]] = []
    if isinstance(system, Constrained) and system.m:
        if system.mh:
            rows.append(("position_residual", _largest(system.expression("holonomic"))))
        rows.append(("velocity_residual", _largest(system.of_state(system.role("drift")))))
    elif isinstance(system, IndexTwoDAE):
        rows += [(f"constraint_residual{k + 1}", _largest(level)) for k, level in enumerate(system.levels())]
    elif isinstance(system, PortHamiltonian):
        if system.has("constraint"):
            rows.append(("position_residual", _largest(system.expression("constraint"))))
        y = system.role("output")
        rows += [(f"y_{name}", y[i]) for i, name in enumerate(system.ports)]
    return energy, tuple(rows)


def _largest(rows: SX) -> SX:
    """The largest absolute value."""
    out = SX(0.0)
    for i in range(rows.numel()):
        out = ca.fmax(out, ca.fabs(rows[i]))
    return out


def _distinct(variables: list[Variable]) -> tuple[Variable, ...]:
    """Names that occur twice get the role of the later one before them: an input called like a state, say."""
    seen, out = set[str](), []
    for v in variables:
        name = v.name
        while name in seen:
            name = f"{v.causality}_{name}"
        seen.add(name)
        out.append(v if name == v.name else Variable(name, v.causality, v.variability, v.initial, v.start, v.description))
    return tuple(out)
