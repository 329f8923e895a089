"""Composition of a symmetric method with steps `gamma_i h`: higher order, and everything kept that the method keeps.

    Phi_h = phi_(gamma_k h) o ... o phi_(gamma_1 h),   gamma_i = gamma_(k+1-i),   sum_i gamma_i = 1

(Yoshida 1990; Suzuki 1990; Suzuki, Umeno 1993; Hairer, Lubich, Wanner, sec. V.3). Some gammas are negative.
"""

from __future__ import annotations

import casadi as ca
from casadi import SX

from dalembert.checking import one_of, whole
from dalembert.errors import MethodError, suggesting
from dalembert.methods.base import Method, find, register
from dalembert.methods.step import Solve, Step
from dalembert.systems.base import System
from dalembert.systems.instructions import as_written
from dalembert.systems.needs import Need

# half of each palindrome, up to its middle
_SIX = (0.78451361047755726382, 0.23557321335935813368, -1.17767998417887100695, 1.31518632068391121889)
_EIGHT = (
    0.74167036435061295345,
    -0.40910082580003159400,
    0.19075471029623837995,
    -0.57386247111608226666,
    0.29906418130365592384,
    0.33462491824529818378,
    0.31529309239676659663,
    -0.79688793935291635402,
)


def gammas(base: int, order: int, scheme: str = "yoshida") -> tuple[float, ...]:
    """The sub-steps that lift a symmetric method of order `base` to `order`."""
    if base >= order:
        return (1.0,)
    if scheme == "yoshida" and base == 2 and order in (6, 8):
        half = _SIX if order == 6 else _EIGHT
        return (*half, *reversed(half[:-1]))
    lower = gammas(base, order - 2, scheme)
    p = order - 2
    if scheme == "yoshida":
        outer = 1 / (2 - 2 ** (1 / (p + 1)))
        jump: tuple[float, ...] = (outer, 1 - 2 * outer, outer)
    else:
        outer = 1 / (4 - 4 ** (1 / (p + 1)))
        jump = (outer, outer, 1 - 4 * outer, outer, outer)
    return tuple(a * b for a in jump for b in lower)


@register("composition", keeps="what its base keeps", source="Yoshida 1990; Suzuki 1990; Suzuki, Umeno 1993")
class Composition(Method):
    """A symmetric method composed with itself; see `da.compose`."""

    base: Method | str = "rattle"
    to: int = 4
    scheme: str = "yoshida"

    def __post_init__(self) -> None:
        base = find(self.base)
        object.__setattr__(self, "base", base)
        object.__setattr__(self, "treats", base.treats)
        if not base.symmetric:
            raise MethodError(f"only symmetric methods can be composed to a higher order; {base} is not")
        one_of("scheme", self.scheme, ("yoshida", "suzuki"))
        if whole("order", self.to) not in (4, 6, 8):
            raise MethodError(f"composition leads to order 4, 6 or 8, not {self.to!r}")

    @property
    def method(self) -> Method:
        return find(self.base)

    @property
    def order(self) -> tuple[int, int, int]:
        base = self.method.order
        # where G v alternates, sub-steps of different length cannot take that out; positions feel its square
        return (min(self.to, 2 * base[1]), *base[1:]) if self.method.alternates else (self.to,) * 3

    @property
    def free_order(self) -> int:
        return self.to

    @property
    def alternates(self) -> bool:
        return self.method.alternates

    @property
    def exact_levels(self) -> tuple[str, ...]:
        return self.method.exact_levels

    @property
    def symplectic(self) -> bool:
        return self.method.symplectic

    @property
    def vectorial(self) -> bool:
        return self.method.vectorial

    def __str__(self) -> str:
        return f"{self.method} composed to order {self.to}"

    @property
    def needs(self) -> frozenset[Need]:
        return self.method.needs

    def step(self, system: System) -> Step:
        one = self.method.step(system)
        steps = gammas(min(self.method.order[:2]), self.to, self.scheme)
        kind, count, nodes = type(one.t), len(steps), len(one.input_nodes)
        h, u = kind.sym("h"), kind.sym("u", system.nu, nodes * count)
        unknowns = [s.unknowns for s in one.solves]
        memories = [m for s in one.solves for m in (s.last, s.before)]
        inputs = [*one.state.values(), one.t, one.h, one.u, one.par, *unknowns, *memories]
        outputs = [x for s in one.solves for x in (s.residual, s.guess, s.scale)]
        outputs += [*one.next.values(), one.work["supplied"], one.work["dissipated"]]
        evaluate = ca.Function("step", inputs, [ca.densify(x) for x in outputs])

        state, solves, done = list(one.state.values()), [], 0.0
        supplied, dissipated, input_nodes = kind(0.0), kind(0.0), []
        for i, gamma in enumerate(steps):
            fresh = [kind.sym(f"x{i}_{k}", x.numel()) for k, x in enumerate(unknowns)]
            past = [kind.sym(f"m{i}_{k}", x.numel()) for k, x in enumerate(memories)]
            part = u[:, i * nodes : (i + 1) * nodes] if system.nu else kind(0, nodes)
            arguments = [*state, one.t + done * h, gamma * h, part, one.par, *fresh, *past]
            with as_written():  # what rounding takes from a sum must not be simplified to zero
                values: list[SX] = evaluate.call(arguments, isinstance(h, ca.MX))
            for k, solve in enumerate(one.solves):
                residual, guess, scale = values[3 * k : 3 * k + 3]
                solves.append(Solve(fresh[k], residual, guess, scale, past[2 * k], past[2 * k + 1], solve.levels, solve.measure))
            rest = values[3 * len(one.solves) :]
            state, work = list(rest[: len(state)]), rest[len(state) :]
            supplied, dissipated = supplied + work[0], dissipated + work[1]
            input_nodes += [done + gamma * c for c in one.input_nodes]
            done += gamma
        return Step(
            t=one.t, h=h, u=u, par=one.par,
            state=one.state, solves=tuple(solves), next=dict(zip(one.next, state, strict=True)),
            lam=kind(0, 1), node=1.0,
            work={"supplied": supplied, "dissipated": dissipated},
            input_nodes=tuple(input_nodes),
            start=one.start,
        )  # fmt: skip


@suggesting
def compose(method: str | Method, *, order: int = 4, scheme: str = "yoshida") -> Composition:
    """A symmetric method composed to order 4, 6 or 8: `da.compose("energy-momentum", order=4)`.

    `scheme` is `"yoshida"` (fewest sub-steps) or `"suzuki"` (more, but shorter ones: smaller errors).
    """
    return Composition(find(method), order, scheme)
