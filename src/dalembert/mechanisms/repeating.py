"""Terms of one law as repeated parts of a system."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING

import casadi as ca
import numpy as np
from casadi import SX

from dalembert.errors import ModelError
from dalembert.mechanisms.frames import Frame
from dalembert.mechanisms.laws import Term, resistance
from dalembert.mechanisms.rotations import Array
from dalembert.systems.elements import Element
from dalembert.systems.tracing import to_sx

if TYPE_CHECKING:
    from dalembert.mechanisms.absolute import Absolute

TINY = 1e-14  # of the largest entry: what a zero in the drawing becomes by rounding


class Signed:
    """A function of arguments by name, where the names are data; it gets them as expressions."""

    def __init__(self, names: Sequence[str], function: Callable[[dict[str, SX]], SX]) -> None:
        self._function = function
        self.__signature__ = inspect.Signature([inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in names])

    def __call__(self, **given: object) -> SX:
        return self._function({name: to_sx(value) for name, value in given.items()})


def plain(value: Array) -> Array:
    """Numbers without the rounding of a drawing: what is next to 0, 1 or -1 is that."""
    out = np.array(value, dtype=float)
    size = max(float(np.abs(out).max(initial=0.0)), 1e-300)
    out[np.abs(out) <= TINY * size] = 0.0
    if out.ndim == 2:  # axes
        near = np.abs(np.abs(out) - 1) <= TINY
        out[near] = np.sign(out[near])
    return out


def groups(terms: Sequence[Term], at: Absolute) -> list[Group]:
    """Terms of one role, law, kind of bodies and pattern of data, in the order of their first ones."""
    found: dict[Hashable, list[tuple[Term, dict[str, Array]]]] = {}
    for term in terms:
        data = {key: plain(x) for key, x in term.data.items() if not isinstance(x, str)}
        pattern = tuple((key, np.where(np.isin(x, (0.0, 1.0, -1.0)), x, 2.0).tobytes()) for key, x in data.items())
        kinds = tuple(None if name == "ground" else at.placements[name] for name in term.bodies)
        found.setdefault((term.role, term.law, term.rows, kinds, pattern), []).append((term, data))
    return [Group([t for t, _ in rows], [d for _, d in rows], at) for rows in found.values()]


class Group:
    """Terms that are one function with different data."""

    def __init__(self, terms: list[Term], data: list[dict[str, Array]], at: Absolute) -> None:
        self.terms, self.first, self.flat = terms, terms[0], at.flat
        self.kinds = [None if name == "ground" else at.placements[name] for name in self.first.bodies]
        self.nodes = np.array([np.concatenate([at.index[name] for name in term.bodies if name != "ground"]) for term in terms])
        self.constants: dict[str, SX] = {}
        self.varying: dict[str, Array] = {}
        self.shapes = {key: at.parameters[x].shape for key, x in self.first.data.items() if isinstance(x, str)}
        self.named = {key: [str(t.data[key]) for t in terms] for key, x in self.first.data.items() if isinstance(x, str)}
        for key, value in data[0].items():
            rows = np.array([d[key] for d in data])
            if (rows == rows[0]).all():
                self.constants[key] = ca.sparsify(SX(ca.DM(value)))
            else:
                self.varying[key] = rows
        self.kept = self._kept() if self.first.role == "holonomic" else []

    @property
    def size(self) -> int:
        """The number of local coordinates."""
        return int(self.nodes.shape[1])

    def frames(self, q: SX) -> list[Frame]:
        """The frames of the bodies, from the local coordinates."""
        out, start = [], 0
        for kind in self.kinds:
            if kind is None:
                out.append(ground(self.flat))
                continue
            out.append(kind.frame(q[start : start + kind.size]))
            start += kind.size
        return out

    def value(self, q: SX, data: Mapping[str, SX], t: SX, held: SX | None = None) -> SX:
        """What the law gives."""
        frames = self.frames(q)
        return self.first.law.function(frames, frames if held is None else self.frames(held), {**self.constants, **data}, t)

    def symbols(self) -> dict[str, SX]:
        """Symbols for the data that vary, one row."""
        named = {key: SX.sym(key, *(shape or (1,))) for key, shape in self.shapes.items()}
        return {key: self._known(key, SX.sym(key, *(x.shape[1:] or (1,)))) for key, x in self.varying.items()} | named

    def _known(self, key: str, symbol: SX) -> SX:
        """Data that vary, with numbers for the entries that do not: in the plane, what is across it."""
        rows = self.varying.get(key)
        if rows is None or rows.ndim == 1:
            return symbol
        out, first = SX(symbol), rows[0].reshape(symbol.shape)
        for i, j in np.argwhere((rows == rows[0]).all(axis=0).reshape(symbol.shape)):
            out[int(i), int(j)] = float(first[i, j])
        return ca.sparsify(out)

    def _kept(self) -> list[int]:
        """The rows of a constraint that depend on the coordinates: in the plane some do not."""
        q, t = SX.sym("q", self.size), SX.sym("t")
        value = ca.densify(self.value(q, self.symbols(), t))
        acting = set(ca.jacobian_sparsity(value, q).row())
        for i in range(value.numel()):
            if i not in acting and (not value[i].is_constant() or abs(float(value[i])) > 1e-9):
                raise ModelError(f"joint {self.first.name!r} does not fit the plane: its axis must be z, or lie in the plane")
        chosen = range(value.numel()) if self.first.rows is None else self.first.rows
        return [i for i in chosen if i in acting]

    def element(self, number: int) -> Element:
        """As a repeated part of a system."""
        label = f"{self.first.role}_{number}"
        own = {key: f"{label}_{key}" for key in (*self.varying, *self.named)}
        names = ["q", "t" if self.first.role != "dissipation" else "v", *own.values()]

        def data(given: Mapping[str, SX]) -> dict[str, SX]:
            return {key: self._known(key, given[name]) for key, name in own.items()}

        def holonomic(given: dict[str, SX]) -> SX:
            return ca.densify(self.value(given["q"], data(given), given["t"]))[self.kept]

        def potential(given: dict[str, SX]) -> SX:
            return self.value(given["q"], data(given), given["t"])

        def dissipation(given: dict[str, SX]) -> SX:
            value = self.value(given["q"], data(given), SX(0.0))
            return resistance(value, ca.jacobian(value[:, 0], given["q"]), given["v"])

        function = {"holonomic": holonomic, "potential": potential, "dissipation": dissipation}[self.first.role]
        parameters: dict[str, object] = {own[key]: rows for key, rows in self.varying.items()}
        parameters |= {own[key]: list(names) for key, names in self.named.items()}
        return Element(
            self.nodes, parameters=parameters, name=f"{self.first.name!r}", **{self.first.role: Signed(names, function)},  # type: ignore[arg-type]
        )  # fmt: skip


def ground(flat: bool) -> Frame:
    """The frame that does not move."""
    return Frame(SX(3, 1), SX.eye(3), SX(0.0) if flat else None)
