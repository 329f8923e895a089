"""Electrical networks from their components, by modified nodal analysis."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dalembert.catalog.symbols import Expression, Symbols
from dalembert.checking import declared, number, positive, shown
from dalembert.errors import ModelError
from dalembert.systems import Picture, PortHamiltonian
from dalembert.systems.tracing import Model

Part = tuple[str | float, ...]
Entry = tuple[int, int, float]  # row, column, value
Entries = dict[str, list[Entry]]  # of `E`, `J`, `R` and `B`, by these names


@dataclass(frozen=True)
class Component:
    """A component between two nodes, or four for those with two branches.

    What it adds to the matrices of a network is affine in `factor(value)`: `fixed` and `factor` times `unit`.
    """

    name: str
    nodes: tuple[str, ...]
    value: float = 0.0

    symbol: ClassVar[str]
    branches: ClassVar[int] = 1
    valued: ClassVar[bool] = True
    carries: ClassVar[bool] = False  # whether its current is a state
    enters: ClassVar[bool] = False  # whether it is an input

    @classmethod
    def checked(cls, name: str, value: object) -> float:
        """A value, or an error."""
        return number(f"the value of {name!r}", value, ModelError)

    @staticmethod
    def factor(value: Expression) -> Expression:
        """What `unit` is multiplied by."""
        return value

    def fixed(self, network: _Network) -> Entries:
        """What it adds whatever its value: the law of a branch whose current is a state."""
        return {"J": network.law(self, network.branch(self))} if self.carries else {}

    def unit(self, network: _Network) -> Entries:
        """What it adds in proportion to its value."""
        return {}


class _Positive(Component):
    @classmethod
    def checked(cls, name: str, value: object) -> float:
        try:
            return positive(f"the value of {name!r}", value, ModelError)
        except ModelError as error:
            raise ModelError(f"{name!r} must have a positive value, not {shown(value)}") from error


class Resistor(_Positive):
    symbol = "R"

    @staticmethod
    def factor(value: Expression) -> Expression:
        """Conductances add up."""
        return 1 / value

    def unit(self, network: _Network) -> Entries:
        return {"R": network.between(self)}


class Inductor(_Positive):
    symbol, carries = "L", True

    def unit(self, network: _Network) -> Entries:
        i = network.places[self]
        return {"E": [(i, i, 1.0)]}


class Capacitor(_Positive):
    symbol = "C"

    def unit(self, network: _Network) -> Entries:
        return {"E": network.between(self)}


class VoltageSource(Component):
    symbol, valued, carries, enters = "V", False, True, True

    def fixed(self, network: _Network) -> Entries:
        return {**super().fixed(network), "B": [(network.places[self], network.ports[self], -1.0)]}


class CurrentSource(Component):
    symbol, valued, enters = "I", False, True

    def fixed(self, network: _Network) -> Entries:
        port = network.ports[self]
        return {"B": [(i, port, -a) for i, a in network.branch(self).items()]}


class Gyrator(Component):
    symbol, branches = "gyrator", 2

    def unit(self, network: _Network) -> Entries:
        one, two = network.branch(self), network.branch(self, 1)
        pairs = [(i, j, a * b) for i, a in two.items() for j, b in one.items()]
        return {"J": pairs + [(j, i, -ab) for i, j, ab in pairs]}


class Transformer(Component):
    symbol, branches, carries = "transformer", 2, True

    def unit(self, network: _Network) -> Entries:
        return {"J": network.law(self, {i: -a for i, a in network.branch(self, 1).items()})}


KINDS = {kind.symbol: kind for kind in (Resistor, Inductor, Capacitor, VoltageSource, CurrentSource, Gyrator, Transformer)}


def _component(part: Part) -> Component:
    """From a tuple, checked."""
    fields = tuple(part) if isinstance(part, Sequence) and not isinstance(part, str) else ()
    kind = KINDS.get(str(fields[0])) if fields else None
    if kind is None or len(fields) != 2 + 2 * kind.branches + kind.valued:
        raise ModelError(f"{shown(part)} is not a component; circuit() knows {', '.join(KINDS)}")
    _, name, *nodes = map(str, fields[: 2 + 2 * kind.branches])
    return kind(name, tuple(nodes), kind.checked(name, fields[-1]) if kind.valued else 0.0)


class _Network:
    """Nodes and components, and the branches between them."""

    def __init__(self, parts: Sequence[Part], ground: str) -> None:
        self.components = [_component(part) for part in parts]
        self.nodes = [n for n in dict.fromkeys(n for c in self.components for n in c.nodes) if n != ground]
        if not any(ground in c.nodes for c in self.components):
            raise ModelError(f"no component is connected to the node {ground!r}: potentials would be undefined")
        names = [c.name for c in self.components]
        if len(set(names)) < len(names):
            raise ModelError(f"the component {max(names, key=names.count)!r} is named twice")
        ordered: list[Component] = [c for kind in KINDS.values() for c in self.components if type(c) is kind]
        self.currents = [c for c in ordered if c.carries]
        self.sources = [c for c in ordered if c.enters]
        self.n = len(self.nodes) + len(self.currents)
        self.places = {c: i for i, c in enumerate(self.currents, len(self.nodes))}  # of currents among the states
        self.ports = {c: i for i, c in enumerate(self.sources)}
        self._index = {node: i for i, node in enumerate(self.nodes)}

    def branch(self, component: Component, which: int = 0) -> dict[int, float]:
        """Incidence of the first or second branch: 1 at its beginning, -1 at its end; the ground has no place."""
        begin, end = (self._index.get(node) for node in component.nodes[2 * which : 2 * which + 2])
        return {} if begin == end else {i: sign for i, sign in ((begin, 1.0), (end, -1.0)) if i is not None}

    def between(self, component: Component) -> list[Entry]:
        """What acts between the nodes of a branch."""
        a = self.branch(component)
        return [(i, j, a[i] * a[j]) for i in a for j in a]

    def law(self, component: Component, a: dict[int, float]) -> list[Entry]:
        """A current that leaves nodes, and the difference of their potentials."""
        place = self.places[component]
        return [entry for i, sign in a.items() for entry in ((i, place, -sign), (place, i, sign))]

    def units(self, name: str) -> dict[str, tuple[Component, list[Entry]]]:
        """What components add to a matrix in proportion to their values, by their names."""
        found = {c.name: (c, c.unit(self)) for c in self.components}
        return {key: (c, parts[name]) for key, (c, parts) in found.items() if name in parts}

    def matrix(self, name: str, values: Mapping[str, Expression], kind: type = float) -> Symbols:
        """A matrix for given values: numbers, or symbols in an array of objects."""
        total: Symbols = np.zeros((self.n, len(self.sources) if name == "B" else self.n), kind)
        for i, j, own in (entry for c in self.components for entry in c.fixed(self).get(name, [])):
            total[i, j] += own
        for key, (c, entries) in self.units(name).items():
            factor = c.factor(values[key])
            for i, j, own in entries:
                total[i, j] = total[i, j] + own * factor
        return total


@declared(ModelError)
def circuit(parts: Sequence[Part], ground: str = "ground", name: str = "circuit", parameters: bool = False) -> PortHamiltonian:
    """An electrical network from its components, as a port-Hamiltonian system of modified nodal analysis.

    A part is a tuple: `("R" | "L" | "C", name, from, to, value)`; `("V" | "I", name, from, to)`, sources whose values are the
    inputs; `("gyrator", name, a, b, c, d, ratio)`, `i_1 = ratio v_2`, `i_2 = -ratio v_1` between the branches a-b and c-d;
    `("transformer", name, a, b, c, d, ratio)`, `v_1 = ratio v_2`. States are the node potentials, then the currents of
    inductors, voltage sources and transformers. `H` is the energy of capacitors and inductors.

    With `parameters` the values of resistors, inductors, capacitors, gyrators and transformers are parameters of the system, by
    the names of the components: they can be changed, swept, fitted and differentiated by.
    """
    network = _Network(parts, ground)
    if parameters:
        return _parametrised(network, name)
    values = {c.name: c.value for c in network.components}
    E, J, R = (network.matrix(name, values) for name in "EJR")
    entries = [(int(i), int(j)) for i, j in np.argwhere(E)]

    def H(x: Symbols) -> Expression:
        return sum((E[i, j] * x[i] * x[j] / 2 for i, j in entries), 0.0)

    return _system(network, name, H, E, J, R, None)


def _parametrised(network: _Network, name: str) -> PortHamiltonian:
    """The same with the values of components as parameters."""
    values = {c.name: c.value for c in network.components if c.valued}
    for own in values:
        if not own.isidentifier():
            raise ModelError(f"a parameter cannot be called {own!r}: give the component a name of letters and digits")
    stored = network.units("E")

    def H(x: Symbols, **v: Expression) -> Expression:
        return sum((v[key] * own * x[i] * x[j] / 2 for key, (_, entries) in stored.items() for i, j, own in entries), 0.0)

    def matrix(which: str) -> Callable[..., Expression]:
        return named(lambda **v: network.matrix(which, v, object), network.units(which))

    return _system(network, name, named(H, ("x", *stored)), matrix("E"), matrix("J"), matrix("R"), values)


def named(function: Callable[..., Expression], names: Iterable[str]) -> Callable[..., Expression]:
    """A function of keywords as one that has arguments of these names."""

    def call(**given: Expression) -> Expression:
        return function(**given)

    kind = inspect.Parameter.KEYWORD_ONLY
    call.__signature__ = inspect.Signature([inspect.Parameter(name, kind) for name in names])  # type: ignore[attr-defined]
    return call


def _system(
    network: _Network, name: str, H: Model, E: Model, J: Model, R: Model, parameters: dict[str, float] | None
) -> PortHamiltonian:
    sources, B = [c.name for c in network.sources], network.matrix("B", {})
    labels = [*(f"v_{node}" for node in network.nodes), *(f"i_{c.name}" for c in network.currents)]
    return PortHamiltonian(
        labels, hamiltonian=H, E=E, J=J, R=R, B=B if sources else None, parameters=parameters,
        z=lambda x: [x[i] for i in range(network.n)], ports=sources or None, name=name, initial={"x": np.zeros(network.n)},
        picture=Picture(units={"time": "s", "energy": "J", **{label: "V" if label[0] == "v" else "A" for label in labels}}),
    )  # fmt: skip


@declared(ModelError)
def rlc_ladder(sections: int = 3, R: float = 1.0, L: float = 0.5, C: float = 0.2) -> PortHamiltonian:
    """A ladder of inductors, capacitors and resistors, fed by a voltage source, as a network of its components."""
    parts: list[Part] = [("V", "source", "n0", "ground")]
    for i in range(sections):
        parts.append(("L", f"L{i}", f"n{i}", f"m{i}", L))
        parts.append(("R", f"R{i}", f"m{i}", f"n{i + 1}", R))
        parts.append(("C", f"C{i}", f"n{i + 1}", "ground", C))
    return circuit(parts, name=f"ladder of {sections} sections")
