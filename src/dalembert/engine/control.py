"""Step-size control: a controller proposes the length of a step, `Adaptive` takes it.

Backoff       shrink where Newton fails, grow after some successes, within bounds
ErrorControl  local error by step doubling, PI controller (Gustafsson 1991; Hairer, Wanner II, sec. IV.2)
Reversible    step density carried along by a reversible recursion (Hairer, Soederlind 2005)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import casadi as ca
import numpy as np

from dalembert.checking import options, positive, shown
from dalembert.engine.adaptive import Adaptive, Bound
from dalembert.engine.controlled import Plan
from dalembert.engine.factors import Factors
from dalembert.engine.growth import logarithm, power
from dalembert.engine.machine import bind
from dalembert.engine.run import ADVANCES, Array, Grid
from dalembert.engine.walking import Doubled, Paced
from dalembert.errors import MethodError, ModelError, strict, suggest
from dalembert.methods.base import Method
from dalembert.systems.base import System, scalar
from dalembert.systems.constrained import Constrained
from dalembert.systems.instructions import as_written
from dalembert.systems.mechanical import Mechanical
from dalembert.systems.port_hamiltonian import PortHamiltonian


@dataclass(frozen=True)
class Control:
    """What all controllers have in common: bounds of the step (absolute; by default from the length of the run)."""

    smallest: float | None = None
    largest: float | None = None

    def limits(self, grid: Grid) -> tuple[float, float]:
        """The shortest and the longest step of a run."""
        t0, t_end, h = grid.t0, grid.t_end, grid.h
        low = self.smallest if self.smallest is not None else 1e-13 * max(t_end - t0, abs(t0), abs(t_end))
        high = self.largest if self.largest is not None else t_end - t0
        if h < low or h > max(high, low):
            raise MethodError(f"the first step {h:g} lies outside the bounds of the controller, {low:.3g} .. {high:.3g}")
        return low, high

    def bounds(self, walk: Adaptive) -> tuple[float, float]:
        """The same from where a run stands: below the shortest, times could not be told apart."""
        low, high = self.limits(walk.grid)
        return max(low, ADVANCES * abs(walk.t)), high

    def check(self) -> None:
        """Refuse options that make no sense."""
        options(self)
        for name in ("smallest", "largest"):
            if getattr(self, name) is not None:
                positive(name, getattr(self, name))
        if self.smallest is not None and self.largest is not None and self.smallest > self.largest:
            raise MethodError(f"smallest = {self.smallest:g} is larger than largest = {self.largest:g}")

    def bind(self, system: System, method: Method, par: Array) -> Callable[[Adaptive], None]:
        """A function that makes the next accepted step; a `Bound`, where the loop in C can make it too."""
        raise TypeError(f"{type(self).__name__} does not define bind()")


@strict
@dataclass(frozen=True)
class Backoff(Control):
    """Shrink the step where Newton's iteration fails, let it grow after `after` successes in a row.

    The rule of Symank 2025 (ch. 7), there with growth by 1.5. It looks at solvability alone, not at accuracy.
    """

    shrink: float = 0.5
    grow: float = 1.5
    after: int = 5

    def check(self) -> None:
        super().check()
        if not (0 < self.shrink < 1 <= self.grow and self.after >= 1):
            raise MethodError(
                f"Backoff needs 0 < shrink < 1 <= grow and after >= 1, not {self.shrink}, {self.grow} and {self.after}"
            )

    def bind(self, system: System, method: Method, par: Array) -> Bound:
        def advance(walk: Adaptive) -> None:
            low, high = self.bounds(walk)
            h, good = walk.carried.get("h", walk.grid.h), walk.carried.get("good", 0)
            while not walk.try_step(now := walk.limit(h)):
                walk.back()
                h, good = self.shrink * now, 0
                h = now / 2 if walk.limit(h) == now else h  # the end is so near that it would be tried again
                if h < low:
                    raise walk.fail(h, low, "Newton's iteration fails at every step tried")
            good += 1
            if good >= self.after:
                h, good = min(self.grow * h, high), 0
            walk.carried = {"h": h, "good": good}

        return Bound(advance, Plan(Paced(), self.limits, ("h", "good"), (self.grow, self.after)))


@strict
@dataclass(frozen=True)
class ErrorControl(Control):
    """Keep the local error of each step below `atol + rtol |y|`, measured by step doubling, with a PI controller.

    A step of `h` is compared with two of `h / 2`, which are kept; their error is about `|difference| / (2^p - 1)` for a method
    of order p. All rows of the solution are steps of the method itself, none shorter than `smallest` but for the last two,
    which end at `t_end`.
    """

    rtol: float = 1e-6
    atol: float = 1e-9

    safety = 0.9
    fastest = 5.0
    slowest = 0.2

    def check(self) -> None:
        super().check()
        for name in ("rtol", "atol"):
            if getattr(self, name) < 0:
                raise MethodError(f"{name} must be a number, not negative, not {getattr(self, name)!r}")
        if self.rtol + self.atol <= 0:
            raise MethodError("rtol and atol are both zero: no step could be small enough")
        if self.rtol < 2e-15 and self.atol == 0:
            raise MethodError(f"rtol = {self.rtol:g} is below round-off; 1e-13 is about the least that can be kept")

    def bind(self, system: System, method: Method, par: Array) -> Bound:
        if method.symmetric and isinstance(system, PortHamiltonian) and system.algebraic:
            raise MethodError(
                f"the error of {method} on algebraic states cannot be measured by step doubling: they alternate around their "
                "values; use radau-iia-3"
            )
        if method.alternates and isinstance(system, Constrained) and system.mh:
            raise MethodError(
                f"the error of {method} on constraints cannot be measured by step doubling: its velocities "
                "oscillate about the constraint; use energy-momentum-ggl, rattle or lobatto-pair-3"
            )
        order = min(method.order[:2])

        def advance(walk: Adaptive) -> None:
            low, high = self.bounds(walk)
            pair, previous = 2 * low, walk.carried.get("error", 1.0)  # two half steps are what is kept
            h = max(walk.carried.get("h", walk.grid.h), pair)
            fastest = self.fastest
            while (square := self._square(walk, now := walk.limit(h), order)) > 1.0:
                walk.back()
                shrink = self.safety * power(less * logarithm(square)) if np.isfinite(square) else 0.25
                h, fastest = now * float(np.clip(shrink, 0.1, 0.9)), 1.0
                if h < pair and now <= pair:
                    raise walk.fail(h / 2, low, "the local error stays above the tolerance")
                h = max(h, pair)
            growth = self.safety * power(past * logarithm(previous) - present * logarithm(square))
            growth = float(np.clip(growth, self.slowest, fastest))
            walk.carried = {"h": min(max(now, h if now < h else 0.0) * growth, high), "error": max(math.sqrt(square), 1e-4)}

        # exponents of 16 instead of 2; the last two are of squares
        past, present, less = (x / (4 * (order + 1)) for x in (0.4, 0.35, -0.5))
        numbers = (*self._tolerances(order), self.safety, self.slowest, self.fastest, past, present, less)
        return Bound(advance, Plan(Doubled(), self.limits, ("h", "error"), numbers))

    def _square(self, walk: Adaptive, h: float, order: int) -> float:
        """The mean square of the error of two half steps over the tolerance; infinite where one of the steps fails."""
        rtol, atol = self._tolerances(order)
        begin = walk.measured
        if not walk.try_step(h, h / 2):
            return np.inf
        whole = walk.measured
        walk.back(rejected=False)  # it was a comparison
        if not (walk.try_step(h / 2) and walk.try_step(walk.limit(h / 2))):
            return np.inf
        halves = walk.measured
        size = atol + rtol * np.maximum(np.abs(begin), np.abs(halves))
        ratio = (halves - whole) / np.maximum(size, 1e-300)
        total = np.cumsum(ratio**2)[-1]  # one after the other, as in C
        return max(float(total) * (1 / len(ratio)), 1e-20)

    def _tolerances(self, order: int) -> tuple[float, float]:
        """Those of the difference between a whole step and two halves."""
        return (2.0**order - 1) * self.rtol, (2.0**order - 1) * self.atol


@strict
@dataclass(frozen=True)
class Reversible(Control):
    """Steps in proportion to a time scale `sigma(q)` of the motion, chosen so that symmetric methods stay reversible.

        z_(k+1/2) = z_(k-1/2) + m eps G(q_n, v_n),   n = m k,   h = eps / z_(k+1/2) for m steps,   G = -sigma_q . v / sigma

    with `z` close to `1 / sigma` (Hairer, Soederlind 2005, for m = 1). Nothing depends on the past but `z`, and backwards in time
    the same steps are taken: energy errors of symmetric methods stay bounded, as with equal steps. Several steps of one length
    are one of a symmetric method as well, and the time scale is looked at less often. Here m = 4 for methods of order two, whose
    energy errors stay the same, and m = 2 for others, where they grow by some 4 % (m = 4: by a quarter; Kepler's e = 0.8).

    `scale` is `sigma`, a function of `q` and parameters. By default it is the period of the potential up to a factor,
    `|M^-1 V_qq|^(-1/2)`: for Kepler's problem `r^(3/2)`.
    """

    scale: Callable[..., object] | None = field(default=None)

    def bind(self, system: System, method: Method, par: Array) -> Bound:
        if not isinstance(system, Constrained):
            raise MethodError(
                f"the reversible controller needs positions and velocities; use ErrorControl for a {system.kind} system"
            )
        if not method.symmetric:
            raise MethodError(f"{method} is not symmetric: a reversible controller has nothing to keep; use ErrorControl")
        if self.scale:  # found anew, since it may see what has changed; one object for what is the same
            own = self._both(system)
            both = system.cache.get(ca.Function, ("time scale", own.serialize()), lambda: own)
        else:
            both = system.cache.get(ca.Function, "time scale", lambda: self._both(system))
        follow = 4 if method.order_on(system)[0] <= 2 else 2
        q, y, size, change = np.zeros(system.n), np.zeros(system.nv), np.zeros(1), np.zeros(1)
        evaluate, kept = bind(both, [q, y, par], [size, change])

        def look(walk: Adaptive, kept: object = kept) -> tuple[float, float]:
            q[:], y[:] = walk.part("q"), walk.part(system.momenta)
            evaluate()
            if not (np.isfinite(size[0]) and size[0] > 0):
                raise ModelError(f"the time scale of the reversible controller is {size[0]:g} at t = {walk.t:g}; it must be > 0")
            return float(size[0]), float(change[0])

        def advance(walk: Adaptive) -> None:
            low, _ = self.bounds(walk)
            if "z" not in walk.carried:
                found, rate = look(walk)
                sigma0 = found if self.scale else 1 / math.sqrt(math.sqrt(found))
                eps = walk.grid.h / sigma0
                walk.carried = {"eps": eps, "z": 1 / sigma0 + follow * eps * rate / 2, "since": 0}
            eps, z, since = walk.carried["eps"], walk.carried["z"], walk.carried["since"] + 1
            h = eps / z if z > 0 else -1.0
            if h <= 0:
                raise ModelError(
                    f"at t = {walk.t:g} the time scale grows faster than steps can follow; begin with a smaller step"
                )
            if h < low or not walk.try_step(walk.limit(h)):
                walk.back()
                raise walk.fail(h, low, "Newton's iteration fails, and a reversible step cannot be repeated with another length")
            if since >= follow:
                z, since = z + follow * eps * look(walk)[1], 0
            walk.carried = {"eps": eps, "z": z, "since": since}

        pace = Paced((both, ("q", system.momenta, "par")))
        return Bound(advance, Plan(pace, self.limits, ("eps", "z", "since"), (follow,)))

    def _both(self, system: Constrained) -> ca.Function:
        """What the time scale is a power of, and `G`: of `sigma = size^power` it is `-power size_q . v / size`."""
        size, power = self._scale(system)
        velocity = system.v if system.momenta == "v" else system.role("velocity")
        inputs = [system.q, getattr(system, system.momenta), system.par]
        rate = -power * ca.jtimes(size, system.q, system.qdot(system.q, velocity))
        outputs = ca.cse([ca.densify(x) for x in (size, rate)])
        with as_written():
            size, rate = Factors.inverted(ca.Function("parts", inputs, outputs), inputs)
            return ca.Function("both", inputs, ca.cse([size, rate * (1 / size)]))

    def _scale(self, system: Constrained) -> tuple[ca.SX, float]:
        """A function of the positions, and the power of it that is the time scale."""
        if self.scale is not None:
            size, power = scalar("scale", system._trace("scale", self.scale, ("q",))), 1.0
        elif isinstance(system, Mechanical):
            curvature = ca.hessian(system.expression("potential"), system.q)[0]
            size, power = self._curvature(ca.solve(ca.densify(system.expression("mass")), ca.densify(curvature))), -0.25
        else:
            H = system.expression("hamiltonian", p=ca.SX.zeros(system.n))
            inverse = ca.substitute(ca.hessian(system.expression("hamiltonian"), system.p)[0], system.p, ca.SX.zeros(system.n))
            size, power = self._curvature(inverse @ ca.hessian(H, system.q)[0]), -0.25
        if ca.depends_on(size, ca.vertcat(system.v, system.p, system.t)):
            raise ModelError("the time scale of the reversible controller must be a function of q and parameters alone")
        return size, power

    @staticmethod
    def _curvature(matrix: ca.SX) -> ca.SX:
        """The square of the curvature of a potential: its power -1/4 is a period, up to a factor."""
        size: ca.SX = ca.sumsqr(matrix)
        if ca.simplify(size).is_zero():
            raise ModelError(
                "the potential has no curvature from which to take a time scale; give one, Reversible(scale=lambda q: ...)"
            )
        return size


NAMES: dict[str, type[Control]] = {"backoff": Backoff, "error": ErrorControl, "reversible": Reversible}


def find(adaptive: object) -> Control | None:
    """A controller from what `simulate` was given: None for equal steps."""
    if adaptive is None or adaptive is False:
        return None
    if adaptive is True:
        adaptive = ErrorControl()
    if isinstance(adaptive, str):
        if adaptive == "fixed":
            return None
        if adaptive not in NAMES:
            raise MethodError(f"there is no step control {adaptive!r}{suggest(adaptive, [*NAMES, 'fixed'])}")
        adaptive = NAMES[adaptive]()
    if not isinstance(adaptive, Control):
        raise MethodError(
            f"adaptive must be True, False, one of {', '.join(NAMES)}, or an object of da.control, not {shown(adaptive)}"
        )
    adaptive.check()
    return adaptive
