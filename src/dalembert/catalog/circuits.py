"""Electrical networks from their components, by modified nodal analysis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dalembert.catalog.symbols import Array, Expression, Symbols
from dalembert.checking import declared
from dalembert.errors import ModelError
from dalembert.systems import Picture, PortHamiltonian

LENGTHS = {"R": 5, "L": 5, "C": 5, "V": 4, "I": 4, "gyrator": 7, "transformer": 7}  # entries of a component
Part = tuple[str | float, ...]


@dataclass(frozen=True)
class Component:
    """A component between two nodes, or four for those with two branches; sources have no value."""

    kind: str
    name: str
    nodes: tuple[str, ...]
    value: float

    @classmethod
    def of(cls, part: Part) -> Component:
        """From a tuple, checked."""
        if not part or part[0] not in LENGTHS or len(part) != LENGTHS[str(part[0])]:
            raise ModelError(f"{part!r} is not a component; circuit() knows {', '.join(LENGTHS)}")
        kind, name, last = str(part[0]), str(part[1]), part[-1]
        if kind in ("V", "I"):
            return cls(kind, name, tuple(map(str, part[2:])), 0.0)
        if isinstance(last, str) or (kind in "RLC" and not (np.isfinite(last) and last > 0)):
            raise ModelError(f"{name!r} must have a positive value, not {last!r}")
        return cls(kind, name, tuple(map(str, part[2:-1])), last)


class _Network:
    """Nodes and components, and the branches between them."""

    def __init__(self, parts: Sequence[Part], ground: str) -> None:
        self.components = [Component.of(part) for part in parts]
        self.nodes = [n for n in dict.fromkeys(n for c in self.components for n in c.nodes) if n != ground]
        if not any(ground in c.nodes for c in self.components):
            raise ModelError(f"no component is connected to the node {ground!r}: potentials would be undefined")
        names = [c.name for c in self.components]
        if len(set(names)) < len(names):
            raise ModelError(f"the component {max(names, key=names.count)!r} is named twice")
        self.currents = self.of_kind("L", "V", "transformer")  # components whose current is a state
        self.sources = self.of_kind("V", "I")
        self.k, self.n = len(self.nodes), len(self.nodes) + len(self.currents)

    def of_kind(self, *kinds: str) -> list[Component]:
        """The components of these kinds, in the order of the kinds."""
        return [c for kind in kinds for c in self.components if c.kind == kind]

    def branch(self, component: Component, which: int = 0) -> Array:
        """Incidence of the first or second branch: 1 at its beginning, -1 at its end."""
        row = np.zeros(self.k)
        for node, sign in zip(component.nodes[2 * which : 2 * which + 2], (1.0, -1.0), strict=True):
            if node in self.nodes:
                row[self.nodes.index(node)] += sign
        return row

    def structure(self) -> tuple[Array, Array]:
        """`J` and `B`: gyrators, currents of the branches, and sources."""
        k, J, B = self.k, np.zeros((self.n, self.n)), np.zeros((self.n, len(self.sources)))
        for c in self.of_kind("gyrator"):
            one, two = self.branch(c), self.branch(c, 1)
            J[:k, :k] += c.value * (np.outer(two, one) - np.outer(one, two))
        for i, c in enumerate(self.currents, k):
            a = self.branch(c) - (c.value * self.branch(c, 1) if c.kind == "transformer" else 0.0)
            J[:k, i], J[i, :k] = -a, a
            if c.kind == "V":
                B[i, self.sources.index(c)] = -1.0
        for c in self.of_kind("I"):
            B[:k, self.sources.index(c)] = -self.branch(c)
        return J, B

    def storage(self) -> Array:
        """`E`: capacitances between nodes, and inductances."""
        E = np.zeros((self.n, self.n))
        for c in self.of_kind("C"):
            E[: self.k, : self.k] += c.value * np.outer(self.branch(c), self.branch(c))
        for i, c in enumerate(self.currents, self.k):
            E[i, i] = c.value if c.kind == "L" else 0.0
        return E

    def resistance(self) -> Array:
        """`R`: conductances between nodes."""
        R = np.zeros((self.n, self.n))
        for c in self.of_kind("R"):
            R[: self.k, : self.k] += np.outer(self.branch(c), self.branch(c)) / c.value
        return R


@declared(ModelError)
def circuit(parts: Sequence[Part], ground: str = "ground", name: str = "circuit") -> PortHamiltonian:
    """An electrical network from its components, as a port-Hamiltonian system of modified nodal analysis.

    A part is a tuple: `("R" | "L" | "C", name, from, to, value)`; `("V" | "I", name, from, to)`, sources whose values are the
    inputs; `("gyrator", name, a, b, c, d, ratio)`, `i_1 = ratio v_2`, `i_2 = -ratio v_1` between the branches a-b and c-d;
    `("transformer", name, a, b, c, d, ratio)`, `v_1 = ratio v_2`. States are the node potentials, then the currents of
    inductors, voltage sources and transformers. `H` is the energy of capacitors and inductors.
    """
    network = _Network(parts, ground)
    E, (J, B) = network.storage(), network.structure()
    entries = [(int(i), int(j)) for i, j in np.argwhere(E)]

    def H(x: Symbols) -> Expression:
        return sum((E[i, j] * x[i] * x[j] / 2 for i, j in entries), 0.0)

    sources = [c.name for c in network.sources]
    labels = [*(f"v_{node}" for node in network.nodes), *(f"i_{c.name}" for c in network.currents)]
    return PortHamiltonian(
        labels, hamiltonian=H, E=E, J=J, R=network.resistance(), B=B if sources else None,
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
