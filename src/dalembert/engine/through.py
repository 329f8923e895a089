"""What goes through the steps of a run: tangents ahead, adjoints back, and adjoints with their derivatives in a direction.

A class says what one step makes of it, in symbols; an object has the numbers that are carried. The formulas are those of
`adjoint.py`, where also the names are: `bar` is the slope of a cost in a state, `slope` what is added to it after a step, and
a dot marks a change in a direction.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Protocol

import casadi as ca
import numpy as np

from dalembert.engine.adjoint import Changes, Sweep
from dalembert.engine.drafts import LONG
from dalembert.engine.factors import Factors
from dalembert.engine.graph import ITERATE, RUN, STEP
from dalembert.engine.newton import Array
from dalembert.engine.tape import Rows
from dalembert.systems.instructions import as_written

SX = ca.SX
ROWS = (("state", STEP), ("t", STEP), ("h", RUN), ("u", STEP), ("par", RUN), ("x", STEP))
DOTS = ("state_dot", "par_dot", "u_dot")
SLOPES = ("slope", "slope_dot")  # they change with the step alone


class Linear(Protocol):
    """Sweeps without a compiler."""

    name: str

    def ahead(self, rows: Rows, state: Array, par: Array, u: Array, out: Array | None) -> None:
        """Tangents."""

    def back(self, rows: Rows, bar: Array, slopes: Array, par: Array, u: Array | None) -> None:
        """Adjoints."""

    def second(
        self, rows: Rows, bars: tuple[Array, Array], slopes: tuple[Array, Array], dots: tuple[Array, Array, Array],
        par: Array, u: Array | None,
    ) -> None:  # fmt: skip
        """Adjoints with their derivatives."""


class Through(ABC):
    """One kind of sweep."""

    name: ClassVar[str]
    carried: ClassVar[tuple[str, ...]]  # arguments whose values after a step are the first results
    backwards: ClassVar[bool] = True  # the next result is then added up over all steps

    # ---- in symbols -------------------------------------------------------------------------------------

    @staticmethod
    @abstractmethod
    def sizes(n: int, p: int, m: int) -> dict[str, int]:
        """Of arguments beside the rows of a run, for so many states, parameters and inputs."""

    @staticmethod
    @abstractmethod
    def results(changes: Changes, given: dict[str, SX]) -> list[SX]:
        """Of one step, with eliminations written out."""

    @classmethod
    def arguments(cls, changes: Changes) -> dict[str, SX]:
        """Symbols for them."""
        return {name: SX.sym(name, size) for name, size in cls.sizes(*changes.sizes).items()}

    @classmethod
    def written_out(cls, changes: Changes) -> Sweep:
        """The loop over steps, with eliminations written out."""
        given = cls.arguments(changes)
        return cls.sweep(changes, given, cls.results(changes, given))

    @classmethod
    def sweep(cls, changes: Changes, given: dict[str, SX], outputs: list[SX], found: list[SX] | None = None) -> Sweep:
        """A loop over steps whose function has these arguments, and beside them what the loop itself finds."""
        values, factors = [*changes.common, changes.x, *given.values(), *(found or [])], Factors()
        names = [*(row for row, _ in ROWS), *given, *(f"found{i}" for i in range(len(found or [])))]
        outputs, places = [ca.densify(e) for e in outputs], [f"out{i}" for i in range(len(outputs))]
        with as_written():
            function = ca.Function(cls.name, values, outputs)
            if function.n_instructions() < LONG:
                outputs = factors.collected(function, values, (2, 4))  # h and parameters
            function = ca.Function(cls.name, [*values, factors.all], outputs, [*names, "constants"], places)
        levels = (*(level for _, level in ROWS), *(STEP if name in SLOPES else ITERATE for name in given))
        prelude = factors.prelude(changes.h, changes.par)
        return Sweep(cls.name, function, prelude, levels, cls.carried, int(cls.backwards), cls.backwards)

    # ---- in numbers -------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def given(self) -> dict[str, Array]:
        """The arguments by their names; those that are carried change in place."""

    @property
    @abstractmethod
    def outputs(self) -> list[Array | None]:
        """What is added up and written."""

    @property
    @abstractmethod
    def changed(self) -> list[Array]:
        """All that is changed and not only written."""

    @property
    @abstractmethod
    def looked_at(self) -> list[Array]:
        """What is compared where one step is made twice."""

    @abstractmethod
    def by(self, linear: Linear, rows: Rows) -> None:
        """Go through some steps without a compiler."""

    @abstractmethod
    def standing(self) -> None:
        """Go through a place where no step is made, and nothing follows from the rest of the state."""

    @staticmethod
    @abstractmethod
    def samples(n: int, p: int, m: int) -> tuple[Through, Through]:
        """Twice for one step; where the second is easier without a compiler, it has the first of what is looked at."""


class _Back(Through):
    """Sweeps from the end to the start: slopes in parameters are added up, those in inputs written where they are wanted."""

    par: Array
    u: Array | None

    @property
    def outputs(self) -> list[Array | None]:
        """Slopes in parameters and inputs."""
        return [self.par, self.u]

    def standing(self) -> None:
        """There are no slopes in inputs where nothing depends on them."""
        if self.u is not None:
            self.u[:] = 0.0


@dataclass
class Tangents(Through):
    """Changes (a row for each direction) of state, parameters and inputs, to those of the next state; these are written too.

    `u` has the directions of the inputs, `(steps or 1, directions or 1, inputs)`.
    """

    state: Array
    par: Array
    u: Array
    out: Array | None = None

    name = "ahead"
    carried = ("state_dot",)
    backwards = False

    @staticmethod
    def sizes(n: int, p: int, m: int) -> dict[str, int]:
        """Directions."""
        return dict(zip(DOTS, (n, p, m), strict=True))

    @staticmethod
    def results(changes: Changes, given: dict[str, SX]) -> list[SX]:
        """The change of the next state, carried and written."""
        _, after = changes.tangent(ca.vertcat(*given.values()))
        return [after, after]

    @property
    def given(self) -> dict[str, Array]:
        """Directions."""
        return dict(zip(DOTS, (self.state, self.par, self.u), strict=True))

    @property
    def outputs(self) -> list[Array | None]:
        """Changes of all states."""
        return [self.out]

    @property
    def changed(self) -> list[Array]:
        """Those of the state."""
        return [self.state]

    @property
    def looked_at(self) -> list[Array]:
        """The change of the state."""
        return [self.state]

    def by(self, linear: Linear, rows: Rows) -> None:
        """Go through some steps without a compiler."""
        linear.ahead(rows, self.state, self.par, self.u, self.out)

    def standing(self) -> None:
        """Changes stay what they are."""

    @staticmethod
    def samples(n: int, p: int, m: int) -> tuple[Through, Through]:
        """In one direction."""
        first, second = (Tangents(np.ones((1, n)), np.ones((1, p)), np.ones((1, 1, m))) for _ in range(2))
        return first, second


@dataclass
class Adjoints(_Back):
    """Slopes (a row for each cost) in the next state to those in the state; those in parameters are added up.

    `slopes` are added after each step (one row for each, or one for all); those in the inputs are written to `u`.
    """

    bar: Array
    slopes: Array
    par: Array
    u: Array | None

    name = "back"
    carried = ("bar",)

    @staticmethod
    def sizes(n: int, p: int, m: int) -> dict[str, int]:
        """Slopes."""
        return {"bar": n, "slope": n}

    @staticmethod
    def results(changes: Changes, given: dict[str, SX]) -> list[SX]:
        """Slopes in state, parameters and inputs."""
        _, z = changes.adjoint(given["bar"] + given["slope"])
        return changes.parts(z)

    @property
    def given(self) -> dict[str, Array]:
        """Slopes."""
        return {"bar": self.bar, "slope": self.slopes}

    @property
    def changed(self) -> list[Array]:
        """Slopes in the state and in parameters."""
        return [self.bar, self.par]

    @property
    def looked_at(self) -> list[Array]:
        """All slopes."""
        return [self.bar, self.par, *([] if self.u is None else [self.u])]

    def by(self, linear: Linear, rows: Rows) -> None:
        """Go through some steps without a compiler."""
        linear.back(rows, self.bar, self.slopes, self.par, self.u)

    @staticmethod
    def samples(n: int, p: int, m: int) -> tuple[Through, Through]:
        """For one cost."""
        first, second = (Adjoints(np.ones((1, n)), np.zeros((1, n)), np.zeros((1, p)), np.zeros((1, 1, m))) for _ in range(2))
        return first, second


@dataclass
class Curvatures(_Back):
    """An adjoint and its derivative in the direction `dots` of state, parameters and inputs: forward over reverse.

    `bars` and `slopes` are the adjoint and its derivative, and what is added to each; `par` and `u` are derivatives of slopes.
    """

    bars: tuple[Array, Array]
    slopes: tuple[Array, Array]
    dots: tuple[Array, Array, Array]
    par: Array
    u: Array | None

    name = "second"
    carried = ("bar", "bar_dot")

    @staticmethod
    def sizes(n: int, p: int, m: int) -> dict[str, int]:
        """Slopes and their changes, and a direction."""
        return {**dict.fromkeys(("bar", "bar_dot", *SLOPES), n), **dict(zip(DOTS, (n, p, m), strict=True))}

    @staticmethod
    def results(changes: Changes, given: dict[str, SX]) -> list[SX]:
        """The slope in the state, its change, and the changes of those in parameters and inputs."""
        z_dot = ca.vertcat(*(given[name] for name in DOTS))
        b, b_dot = given["bar"] + given["slope"], given["bar_dot"] + given["slope_dot"]
        x_dot, _ = changes.tangent(z_dot)
        w, z = changes.adjoint(b)
        D_x, D_z = changes.curvature(b, w, x_dot, z_dot)
        _, changed = changes.adjoint(b_dot, D_x)
        return [changes.parts(z)[0], *changes.parts(changed + D_z)]

    @property
    def given(self) -> dict[str, Array]:
        """Slopes and their changes, and a direction."""
        names = ("bar", "bar_dot", *SLOPES, *DOTS)
        return dict(zip(names, (*self.bars, *self.slopes, *self.dots), strict=True))

    @property
    def changed(self) -> list[Array]:
        """Slopes in the state, their changes, and those of slopes in parameters."""
        return [*self.bars, self.par]

    @property
    def looked_at(self) -> list[Array]:
        """The slope in the state."""
        return [self.bars[0]]

    def by(self, linear: Linear, rows: Rows) -> None:
        """Go through some steps without a compiler."""
        linear.second(rows, self.bars, self.slopes, self.dots, self.par, self.u)

    @staticmethod
    def samples(n: int, p: int, m: int) -> tuple[Through, Through]:
        """In no direction: what is carried first is the adjoint."""
        one, zero, nowhere = np.ones((1, n)), np.zeros((1, n)), (np.zeros((1, 1, n)), np.zeros((1, p)), np.zeros((1, 1, m)))
        own = Curvatures((one, zero.copy()), (zero, zero), nowhere, np.zeros((1, p)), None)
        return own, Adjoints.samples(n, p, m)[0]
