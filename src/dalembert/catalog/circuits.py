"""Electrical networks from their components, by modified nodal analysis."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dalembert.catalog.symbols import Array, Expression, Symbols
from dalembert.checking import declared
from dalembert.errors import ModelError
from dalembert.systems import Picture, PortHamiltonian
from dalembert.systems.tracing import Model

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
    E, (J, B) = network.storage(), network.structure()
    entries = [(int(i), int(j)) for i, j in np.argwhere(E)]

    def H(x: Symbols) -> Expression:
        return sum((E[i, j] * x[i] * x[j] / 2 for i, j in entries), 0.0)

    return _system(network, name, H, E, J, network.resistance(), B, None)


def _parametrised(network: _Network, name: str) -> PortHamiltonian:
    """The same with the values of components as parameters: each matrix is a constant and a sum over components."""
    valued = [c for c in network.components if c.kind not in ("V", "I")]
    for c in valued:
        if not c.name.isidentifier():
            raise ModelError(f"a parameter cannot be called {c.name!r}: give the component a name of letters and digits")
    reduced = _Network.__new__(_Network)
    reduced.__dict__.update(network.__dict__)

    def shares(kind: tuple[str, ...], make: Callable[[_Network], Array]) -> tuple[Array, dict[str, Array]]:
        """What is left without the values of some components, and what a value of one adds for each of them."""
        zero = {c.name: replace(c, value=_NOTHING[c.kind]) for c in valued if c.kind in kind}

        def with_values(values: dict[str, Component]) -> Array:
            reduced.components = [values.get(c.name, c) for c in network.components]
            reduced.currents = [values.get(c.name, c) for c in network.currents]
            return make(reduced)

        base = with_values(zero)
        unit = {key: with_values({**zero, key: replace(c, value=1.0)}) - base for key, c in zero.items()}
        return base, unit

    E0, dE = shares(("L", "C"), lambda n: n.storage())
    J0, dJ = shares(("gyrator", "transformer"), lambda n: n.structure()[0])
    R0, dR = shares(("R",), lambda n: n.resistance())
    B = network.structure()[1]
    entries = {key: [(int(i), int(j)) for i, j in np.argwhere(d)] for key, d in dE.items()}

    def H(x: Symbols, **values: Expression) -> Expression:
        return sum((values[k] * dE[k][i, j] * x[i] * x[j] / 2 for k, pairs in entries.items() for i, j in pairs), 0.0)

    E, J, R = (
        named(lambda base=base, unit=unit, power=power, **v: _summed(base, unit, v, power), unit)
        for base, unit, power in ((E0, dE, 1), (J0, dJ, 1), (R0, dR, -1))
    )
    return _system(network, name, named(H, ("x", *dE)), E, J, R, B, {c.name: c.value for c in valued})


_NOTHING = {"R": np.inf, "L": 0.0, "C": 0.0, "gyrator": 0.0, "transformer": 0.0}  # values with which a component adds nothing


def _summed(base: Array, parts: dict[str, Array], values: dict[str, Expression], power: int) -> Expression:
    total: Symbols = base.astype(object)
    for key, part in parts.items():
        total = total + part * (values[key] if power == 1 else 1 / values[key])
    return total


def named(function: Callable[..., Expression], names: Iterable[str]) -> Callable[..., Expression]:
    """A function of keywords as one that has arguments of these names."""

    def call(**given: Expression) -> Expression:
        return function(**given)

    kind = inspect.Parameter.KEYWORD_ONLY
    call.__signature__ = inspect.Signature([inspect.Parameter(name, kind) for name in names])  # type: ignore[attr-defined]
    return call


def _system(
    network: _Network, name: str, H: Model, E: Model, J: Model, R: Model, B: Array, parameters: dict[str, float] | None
) -> PortHamiltonian:
    sources = [c.name for c in network.sources]
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
