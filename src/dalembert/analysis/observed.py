"""What is measured of a system: its variables by name, and functions of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import casadi as ca
from casadi import SX

from dalembert.checking import listed, shown
from dalembert.errors import MethodError, suggest
from dalembert.systems.base import System
from dalembert.systems.constrained import Constrained
from dalembert.systems.port_hamiltonian import PortHamiltonian
from dalembert.systems.shapes import column

Outputs = str | Callable[..., object] | Iterable[str] | Mapping[str, str | Callable[..., object]]
SCALARS = ("energy", "kinetic", "potential")  # roles that can be measured by their names
LETTERS = {"v": "v_", "p": "p_"}  # before the name of a coordinate: its velocity, its momentum


@dataclass(frozen=True)
class Observed:
    """Names, and expressions of the state, the multipliers `lam`, time, inputs and parameters: one row for each name."""

    names: tuple[str, ...]
    rows: SX
    lam: SX


def entries(system: System, part: str) -> list[str]:
    """The names of the entries of a part of the state: coordinates, `v_x1` and `p_x1` of these, else the part and a number."""
    size = system.size_of(part)
    if part == system.state[0]:
        return list(system.coordinates)
    if part in LETTERS and size == system.n:
        return [LETTERS[part] + name for name in system.coordinates]
    return [f"{part}{i}" for i in range(1, size + 1)]


def default_outputs(system: System) -> list[str]:
    """What is measured where nothing is said: outputs of ports, else the first part of the state and what is algebraic."""
    if isinstance(system, PortHamiltonian) and system.nu:
        return [f"y_{name}" for name in system.ports]
    return [name for part in system.state if part not in LETTERS for name in entries(system, part)]


class _Known:
    """Everything of a system that has a name."""

    def __init__(self, system: System) -> None:
        self.system, self.lam = system, SX.sym("lam", system.m if isinstance(system, Constrained) else 0)
        self.single: dict[str, SX] = {}
        self.several: dict[str, tuple[list[str], SX]] = {}
        for part in dict.fromkeys((*system.state, *system.variables)):
            symbol: SX = getattr(system, part)
            self._add(part, entries(system, part), symbol)
        if self.lam.numel():
            self._add("lam", [f"lam{i}" for i in range(1, self.lam.numel() + 1)], self.lam)
        if isinstance(system, PortHamiltonian) and system.nu:
            self._add("y", [f"y_{name}" for name in system.ports], system.role("output"))

    def _add(self, part: str, names: list[str], rows: SX) -> None:
        self.several[part] = names, rows
        for i, name in enumerate(names):
            self.single.setdefault(name, rows[i])

    def named(self, name: str) -> tuple[list[str], SX]:
        """The rows of a name: one entry, a whole part, an energy, or what the system itself names."""
        if name in self.single:
            return [name], self.single[name]
        if name in self.several:
            return self.several[name]
        if name in SCALARS and self.system.has_energy and (name == "energy" or "q" in self.system.state):
            return [name], self.system.role(name)
        others = self.system.quantities()
        if name in others:
            names, role, rows = others[name]
            return names, self.system.role(role)[rows]
        known = [*self.single, *self.several, *others, *(SCALARS[:1] if self.system.has_energy else ())]
        raise MethodError(f"{self.system.name!r} has nothing called {name!r} to measure{suggest(name, known)}")

    def traced(self, name: str, function: Callable[..., object]) -> tuple[list[str], SX]:
        """The rows of a function of the variables, `lam`, `t`, `u` and parameters."""
        s = self.system
        extra = {"lam": self.lam} if self.lam.numel() else {}
        rows = column(name, s._trace(name, function, (*s.variables, "t", "u", "lam"), extra))
        count = rows.numel()
        return [name] if count == 1 else [f"{name}{i}" for i in range(1, count + 1)], rows


def observed(system: System, outputs: Outputs | None) -> Observed:
    """What is measured, as expressions of the state: names, functions, or functions by name."""
    known = _Known(system)
    found: list[tuple[list[str], SX]] = []
    for name, what in _each(default_outputs(system) if outputs is None else outputs):
        if isinstance(what, str):
            names, rows = known.named(what)
            found.append(([name] if name != what and len(names) == 1 else names, rows))
        elif callable(what):
            found.append(known.traced(name, what))
        else:
            raise MethodError(f"an output is a name or a function of the variables, not {shown(what)}")
    names = [name for group, _ in found for name in group]
    if not names:
        raise MethodError("outputs is empty: give names of variables, or functions of them")
    if len(set(names)) < len(names):
        raise MethodError(f"two outputs are called {max(names, key=names.count)!r}; give them names, outputs={{'name': ...}}")
    rows = ca.densify(system.of_state(ca.vertcat(*(rows for _, rows in found))))
    return Observed(tuple(names), rows, known.lam)


def _each(outputs: Outputs) -> list[tuple[str, object]]:
    """Pairs of a name and what it stands for."""
    if isinstance(outputs, str):
        return [(outputs, outputs)]
    if isinstance(outputs, Mapping):
        return [(str(name), what) for name, what in outputs.items()]
    if callable(outputs):
        return [("output", outputs)]
    expected = "names of variables, a function, or functions by name"
    given: list[object] = listed("outputs", outputs, MethodError, expected)
    return [(what if isinstance(what, str) else f"output{i}", what) for i, what in enumerate(given, 1)]
