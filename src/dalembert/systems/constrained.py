"""What mechanical and Hamiltonian systems have in common: constraints, dissipation, forces and inputs."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import ClassVar, TypedDict

import casadi as ca
import numpy as np
from casadi import SX

from dalembert.checking import MOST, whole
from dalembert.errors import FileError, ModelError
from dalembert.systems import composed, plain, scales
from dalembert.systems.composed import COMPOSED, Composed
from dalembert.systems.elements import Element, repeated
from dalembert.systems.form import Power
from dalembert.systems.instructions import jacobian
from dalembert.systems.needs import Need
from dalembert.systems.operations import build, dump
from dalembert.systems.picture import Picture, attach
from dalembert.systems.shapes import column, square, texts
from dalembert.systems.tracing import Model, symbols

Inputs = Model | Mapping[str, Model] | Sequence[str]  # a number, names, `B(q)`, or its columns by name


class Roles(TypedDict, total=False):
    """What a user may give for any mechanical system; see `Mechanical`."""

    holonomic: Model | None
    nonholonomic: Model | None
    dissipation: Model | None
    force: Model | None
    inputs: Inputs | None


class Stated(TypedDict):
    """What the forms of mechanical and Hamiltonian systems have in common."""

    t: SX
    u: SX
    par: SX
    lam: SX
    levels: dict[str, SX]
    power: Power
    normal: SX | None


class Constrained(Composed):
    """Constraints, dissipation, forces and inputs: common to the Lagrangian and the Hamiltonian side.

    `momenta` is the second half of the state, `"v"` or `"p"`.
    """

    variables: ClassVar[tuple[str, ...]] = ("q", "v", "p")
    momenta: ClassVar[str]
    given: ClassVar[frozenset[str]] = frozenset(
        ["mass", "potential", "hamiltonian", "holonomic", "nonholonomic", "dissipation", "force", "inputs", "kinematics",
         "gyroscopic", "invariants", "points"]
    )  # fmt: skip
    p: SX
    friction: ca.Function | None = None  # the part of the force that depends on the multipliers, the last argument

    def _define_common(
        self, given: Roles, picture: Picture | None, invariants: Model | None = None, elements: Sequence[Element] | None = None
    ) -> dict[str, object]:
        """Define what mechanical and Hamiltonian systems share; returns what energies may use beside their variables."""
        inputs, force, nonholonomic = given.get("inputs"), given.get("force"), given.get("nonholonomic")
        if inputs is not None:
            self._define_inputs(inputs)
        self.repeated = repeated(self, elements)
        self.many = composed.large(self.n, self.repeated)
        extra: dict[str, object] = {}
        if invariants is not None:
            value = column("invariants", self._trace("invariants", invariants, ("q",)))
            _check_quadratic(value, self.q)
            self._define("invariants", value)
            # passed symbolically, so that discrete gradients can differentiate through them
            extra["invariants"] = symbols(ca.densify(value), (value.numel(),))
        holonomic, dissipation = given.get("holonomic"), given.get("dissipation")
        g = SX(0, 1)
        if holonomic is not None:
            g = column("holonomic", self._trace("holonomic", holonomic, ("q", "t", "invariants"), extra))
        self._define_holonomic(g)
        own = ("q", "v", "p", "t") if "p" in self.state else ("q", "v", "t")
        R = None if dissipation is None else square("dissipation", self._trace("dissipation", dissipation, own), self.nv)
        self._compose("dissipation", R)
        if nonholonomic is not None:
            self._define_nonholonomic(nonholonomic)
        self._compose("force", None if force is None else self._given_force(force, own))
        if self.nu and not self.repeated and not self.has("inputs"):
            self._used_inputs()
        attach(self, picture)
        return extra

    def _used_inputs(self) -> None:
        """Refuse inputs that act on nothing: a run would not notice them."""
        if not (self.has("force") and ca.depends_on(self.expression("force"), self.u)):
            names = ", ".join(self.ports)
            raise ModelError(
                f"inputs ({names}) act on nothing, since no force uses u: give their columns of B(q), "
                f"inputs={{{self.ports[0]!r}: {[1.0] + [0.0] * min(2, self.nv - 1)}}}, or a force(q, v, u)"
            )

    def _given_force(self, force: Model, own: tuple[str, ...]) -> SX:
        """The force that was given, at `lam = 0`; what `lam` adds to it is `friction`."""
        if not self.nu and callable(force) and "u" in getattr(getattr(force, "__code__", None), "co_varnames", ()):
            raise ModelError("force uses u, but the system has no inputs: say how many, inputs=1, or give their matrix B(q)")
        lam, reacting = SX.sym("lam", self.m), ("lam",) if self.momenta == "v" and self.m else ()
        value = self._trace("force", force, (*own, "u", *reacting), {"lam": symbols(lam, (self.m,))} if reacting else None)
        f = column("force", value, self.nv)
        self._finite(f, "force")
        if ca.depends_on(f, lam):
            at_rest = ca.substitute(f, lam, SX.zeros(self.m))
            self.friction = ca.Function("friction", [*self.symbols(), lam], [ca.densify(f - at_rest)])
            f = at_rest
        return f

    def rubbing(self, lam: SX, v: SX) -> SX:
        """The part of the force that depends on the multipliers."""
        assert self.friction is not None
        other = {"v": v, "p": type(lam)(self.nv, 1)}  # it uses no momenta, and vectors would be seen in it all the same
        out: SX = self.friction(*(other.get(name, getattr(self, name)) for name in self.arguments), self.par, lam)
        return out

    def _written(self) -> dict[str, object]:
        known = super()._written()
        return known if self.friction is None else {**known, "friction": dump(self.friction), "multipliers": self.m}

    def _restore(self, data: Mapping[str, object]) -> None:
        super()._restore(data)
        if "friction" in data:
            lam = SX.sym("lam", plain.size(data.get("multipliers"), "multipliers"))
            value = build(data["friction"], [*self.symbols(), lam])
            if value.shape != (self.nv, 1):
                raise FileError(f"friction has the shape {value.shape}, not {(self.nv, 1)}")
            self.friction = ca.Function("friction", [*self.symbols(), lam], [value])

    def _define_inputs(self, inputs: Inputs) -> None:
        """A number of inputs that `force` uses itself, or their names; or the matrix `B(q)` of their forces, or its columns."""
        if isinstance(inputs, Mapping):
            self._ports = texts("inputs", inputs, "a dictionary of names and columns of B(q)")
            self.u = SX.sym("u", len(self._ports))
            named = {f"input {key!r}": b for key, b in inputs.items()}
            columns = [column(key, self._trace(key, b, ("q", "t")), self.nv) for key, b in named.items()]
            if columns:
                self._define("inputs", ca.horzcat(*columns))
            return
        if isinstance(inputs, (tuple, list)) and inputs and all(isinstance(name, str) for name in inputs):
            self._ports = texts("inputs", inputs, "a tuple of names")
            self.u = SX.sym("u", len(self._ports))
            return
        if isinstance(inputs, int | np.integer) and not isinstance(inputs, bool):
            self.u = SX.sym("u", whole("the number of inputs", inputs, ModelError, least=0, most=MOST))
            return
        n, B = self.nv, self._trace("inputs", inputs, ("q", "t"))
        B = B.T if B.shape == (1, n) and n > 1 else B
        if B.shape[0] != n:
            raise ModelError(f"inputs must return a matrix with {n} rows (B(q), one column for each input), got {B.shape}")
        self.u = SX.sym("u", B.shape[1])
        self._define("inputs", B)

    def _define_holonomic(self, g: SX) -> None:
        """The constraints that were given for the whole system, and then those of its elements."""
        self._finite(g, "holonomic")
        acting = set(ca.jacobian_sparsity(g, self.q).row())
        for i in range(g.numel()):
            if i not in acting:
                raise ModelError(f"holonomic constraint {i + 1} does not depend on q")
        self._compose("holonomic", ca.densify(g) if g.numel() else None)

    def _define_nonholonomic(self, nonholonomic: Model) -> None:
        """`A(q) v + a(q, t)`, checked to be linear in `v`; a matrix `A(q)` may be given instead."""
        a = self._trace("nonholonomic", nonholonomic, ("q", "v", "t"))
        if a.shape[1] == self.nv and self.nv > 1 and not ca.depends_on(a, self.v):
            a = a @ self.v
        a = column("nonholonomic", a)
        A = jacobian(a, self.v)
        for i in range(a.numel()):
            if A[i, :].nnz() == 0:
                raise ModelError(f"nonholonomic constraint {i + 1} does not depend on v; a constraint on q is holonomic")
            if ca.depends_on(A[i, :], self.v):
                raise ModelError(f"nonholonomic constraint {i + 1} is not linear in v: A(q) v + a(q, t) is expected")
        if a.numel():
            self._define("nonholonomic", ca.densify(a))

    def _check_numbers(self, *symmetric: str) -> None:
        """At a few points: mass and dissipation symmetric, dissipation positive semidefinite."""
        rng = np.random.default_rng(0)
        par = self.pack()
        if self.n > 400:
            return
        for _ in range(3):
            q, v = rng.normal(size=self.n), rng.normal(size=self.nv)
            for role in symmetric:
                if not self.has(role):
                    continue
                A = self.numeric(role, par, q=q, v=v, p=v)[0]
                A = A.reshape(self.nv, self.nv)
                if not np.isfinite(A).all():
                    continue
                skew = np.abs(A - A.T)
                if skew.max() > 1e-10 * max(1.0, np.abs(A).max()):
                    i, j = np.unravel_index(skew.argmax(), skew.shape)
                    raise ModelError(
                        f"{role} is not symmetric: entry ({i + 1}, {j + 1}) is {A[i, j]:.6g}, "
                        f"entry ({j + 1}, {i + 1}) is {A[j, i]:.6g}"
                    )
                if role == "dissipation":
                    low = float(np.linalg.eigvalsh(A)[0])
                    if low < -1e-10 * max(1.0, np.abs(A).max()):
                        raise ModelError(
                            f"dissipation is not positive semidefinite (eigenvalue {low:.3g}): it would add energy; "
                            "give such a term as force"
                        )

    def _derived(self, role: str) -> SX:
        """Expressions that follow from the given roles, made when first asked for."""
        if role in COMPOSED and self.repeated:
            value = composed.added(self, role)
            if value is not None:
                return value
        if role == "own_normal" or (role == "normal" and not self.repeated):  # dg/dq of the holonomic constraints
            return ca.jacobian(self.own("holonomic"), self.q) if self._own else SX(0, self.n)
        if role == "normal":
            return self.in_order(ca.vertcat(self.own(role), *(e.normal(self) for e in self.repeated if e.constraints)))
        if role == "own_normal_radius" or (role == "normal_radius" and not self.repeated):  # radii of their curvature
            return scales.radii(self.own("normal"), self.q)
        if role == "normal_radius":
            radii = (ca.vec(e.values("radius", self)) for e in self.repeated if e.constraints)
            return self.in_order(ca.vertcat(self.own(role), *radii))
        if role == "radius":  # and of all rows of the jacobian
            if self.has("kinematics"):
                return scales.radii(self.role("jacobian"), self.q)
            return ca.vertcat(self.role("normal_radius"), scales.radii(self.role("jacobian")[self.mh :, :], self.q))
        if role == "jacobian":  # all constraints at velocity level are jacobian @ v + rate: holonomic ones first
            rows = self.role("normal")
            if self.has("kinematics"):
                rows = rows @ self.expression("kinematics")
            return ca.vertcat(rows, ca.jacobian(self.expression("nonholonomic"), self.v)) if self.mn else rows
        if role == "rate":  # g_t, and what A(q) v + a(q, t) has beside A v
            own = self.role("normal_rate")
            return ca.vertcat(own, self.expression("nonholonomic", v=type(self.v).zeros(self.nv))) if self.mn else own
        if role == "own_normal_rate" or (role == "normal_rate" and not self.repeated):  # g_t
            return ca.jacobian(self.own("holonomic"), self.t) if self._own else SX(0, 1)
        if role == "normal_rate":
            return self.in_order(ca.vertcat(self.own(role), *(e.rates(self) for e in self.repeated if e.constraints)))
        if role == "drift":  # the constraints at velocity level
            return ca.densify(self.role("jacobian") @ self.v + self.role("rate"))
        if role == "drag":  # R v, element by element
            drags = (e.column("drag", self) for e in self.repeated if "dissipation" in e.roles)
            return sum(drags, ca.densify(self.own("dissipation") @ self.v))
        if role == "curvature":  # the rate of `drift` at a constant v: (G v)_q v + 2 G_t v + g_tt for holonomic constraints
            drift = self.role("drift")
            return ca.jtimes(drift, self.q, self.qdot(self.q, self.v)) + ca.jacobian(drift, self.t)
        return super()._derived(role)

    @property
    def moving(self) -> bool:
        """Whether a constraint moves by itself: `g_t` or `a(q, t)` is not zero."""
        if self.scalars is not None:
            return self.scalars.moving
        own = self.own("normal_rate") if self.many else self.role("rate")
        return bool(self.m) and (ca.sparsify(own).nnz() > 0 or (self.many and self._moved()))

    def _moved(self) -> bool:
        """Whether a constraint of an element, or a nonholonomic one, moves by itself."""
        if any(e.depends("holonomic", "t") for e in self.repeated):
            return True
        return bool(self.mn) and ca.sparsify(self.expression("nonholonomic", v=SX.zeros(self.nv))).nnz() > 0

    def qdot(self, q: SX, v: SX) -> SX:
        """`q'` for a velocity: `v` itself, or `Z(q) v`."""
        return self.expression("kinematics", q=q) @ v if self.has("kinematics") else v

    @property
    def mh(self) -> int:
        """Number of holonomic constraints."""
        return self._own + sum((e.constraints * e.count for e in self.repeated), 0)

    @property
    def mn(self) -> int:
        """Number of nonholonomic constraints."""
        return int(self._functions["nonholonomic"].size1_out(0)) if "nonholonomic" in self._functions else 0

    @property
    def m(self) -> int:
        """Number of all constraints, which is that of the multipliers: holonomic ones first."""
        return self.mh + self.mn

    def _counts(self) -> dict[str, int]:
        kinds = {"holonomic constraints": self.mh, "nonholonomic constraints": self.mn}
        return {"coordinates": self.n, **kinds, "inputs": self.nu}

    def applied(self, q: SX, v: SX, t: SX, u: SX, p: SX | None = None) -> SX:
        """Applied force plus inputs, `f(q, v, t, u) + B(q) u`."""
        f = type(q)(self.nv, 1)
        if self.has("force"):
            f += self.expression("force", q=q, v=v, t=t, u=u, p=p)
        if self.has("inputs"):
            f += self.expression("inputs", q=q, t=t) @ u
        return f

    def damping(self, q: SX, v: SX, t: SX, p: SX | None = None) -> SX:
        """The dissipative force `R(q, v) v`."""
        if not self.has("dissipation"):
            return type(q)(self.nv, 1)
        if self.scalars is not None:
            return self.role("drag", q=q, v=v, t=t, p=p)
        return self.expression("dissipation", q=q, v=v, t=t, p=p) @ v

    def energy_rate(self, q: SX, p: SX | None, t: SX) -> SX:
        """The partial derivative of the energy with respect to time."""
        if not self.depends(self.energy_role, "t"):
            return type(t)(0.0)
        slope = ca.jacobian(self.expression(self.energy_role), self.t)
        rate = ca.Function("H_t", [self.q, self.p, self.t, self.par], [slope])
        out: SX = rate.call([q, self.p if p is None else p, t, self.par], isinstance(t, ca.MX))[0]
        return out

    def supplied_power(self, q: SX, v: SX, t: SX, applied: SX, lam: SX, p: SX | None = None) -> SX:
        """`v . f + H_t + lam . g_t`: a constraint force `-G^T lam` has the power `lam . g_t`, since `G v = -g_t`."""
        power = ca.dot(v, applied) + self.energy_rate(q, p, t)
        if self.moving:
            power += ca.dot(lam, self.role("rate", q=q, t=t))
        return power

    @property
    def velocity_forces(self) -> bool:
        """Whether a force depends on the velocity."""
        return self.has("dissipation") or self.depends("force", "v", "p") or self.has("gyroscopic") or self.friction is not None

    @abstractmethod
    def force(self) -> SX:
        """All of `M v'` (or `p'`) but constraint forces."""

    def lacks(self, need: Need) -> str | None:
        said = {
            Need.NO_CONSTRAINTS: (bool(self.m), "the constraints"),
            Need.HOLONOMIC: (bool(self.mn), "the nonholonomic constraints"),
            Need.VELOCITIES: (
                self.has("kinematics"),
                "the kinematics q' = Z(q) v (simulate system.to_coordinates(), with q' = v)",
            ),
            Need.POSITION_FORCES: (self.velocity_forces, "the velocity-dependent forces"),
            Need.UNFORCED: (self.driven, "the energy, which is not an invariant,"),
            Need.FREE_OF_REACTIONS: (self.friction is not None, "the force that depends on multipliers"),
        }
        there, what = said.get(need, (False, ""))
        return f"{what} of {self.name!r}" if there else super().lacks(need)

    @property
    def driven(self) -> bool:
        """Whether energy comes in or goes out: forces, inputs, dissipation, or a dependence on time."""
        timed = self.depends(self.energy_role, "t")
        return self.has("force") or self.friction is not None or bool(self.nu) or self.has("dissipation") or self.moving or timed

    def reaction(self, lam: SX) -> SX:
        """`G^T lam`; constraint forces are its negative."""
        return self.role("jacobian").T @ lam if self.m else type(lam)(self.nv, 1)

    def _stated(self, lam: SX, v: SX, p: SX | None, applied: SX, damping: SX) -> Stated:
        """What the forms of both sides share: constraint levels of a velocity `v`, and powers."""
        levels = {"position": self.expression("holonomic")} if self.mh else {}
        if self.mn:
            levels["nonholonomic"] = self.expression("nonholonomic", v=v)
        if self.m:
            levels["velocity"] = self.role("drift", v=v)
        power = Power(
            supplied=ca.dot(v, applied) + self.energy_rate(self.q, p, self.t),
            reaction=-ca.dot(v, self.reaction(lam)),
            moving=ca.dot(lam, self.role("rate")) if self.moving else type(lam)(0.0),
            dissipated=ca.dot(v, damping) if self.friction is None else ca.dot(v, damping - self.rubbing(lam, v)),
        )
        normal = self.role("normal") if self.mh else None
        return {"t": self.t, "u": self.u, "par": self.par, "lam": lam, "levels": levels, "power": power, "normal": normal}

    def held(self, levels: Collection[str], start: Mapping[str, SX], h: SX) -> list[tuple[SX, SX]]:
        """Position constraints that are not linear, with slopes times radii of curvature; and the way that was made.

        Rounding leaves false solutions to the equations of a step. A true one does not lead further than `FAR` times what
        positions, rods, and the velocities at both ends explain.
        """
        rows, out = self._curved(), []
        if "position" in levels and rows:
            size = ca.sqrt(ca.sum2(self.role("normal") ** 2)) * self.role("normal_radius")
            out.append((self.expression("holonomic")[rows], size[rows]))
        speed = ca.norm_2(self.of_state(self.qdot(self.q, self.v)))
        (slow,) = ca.substitute([speed], [getattr(self, name) for name in self.state], [start[name] for name in self.state])
        length = ca.norm_2(start["q"]) + ca.norm_2(self.role("radius"))
        out.append((ca.norm_2(self.q - start["q"]), scales.FAR * (length + h * (speed + slow))))
        return out

    def _curved(self) -> list[int]:
        """The holonomic constraints that are not linear in `q`."""
        own = self.scalars or self
        out, start = scales.curved(own.own("normal"), own.q), self._own
        for e in self.repeated:
            if e.constraints:
                out += (start + e.curved).tolist()
                start += e.constraints * e.count
        return out if self.order is None else np.flatnonzero(np.isin(self.order, out)).tolist()

    def _groups(self, y: SX, v: SX, moved: SX) -> scales.Groups:
        """Which coordinates, velocities or momenta `y`, and constraints act on each other; `moved` has what moves `y`."""
        if self.many:
            return composed.groups(self)
        drift = self.role("drift", v=v) if self.m else SX(0, 1)
        return scales.groups((self.q, y), (self.qdot(self.q, v), moved), drift)


def _check_quadratic(value: SX, q: SX) -> None:
    for i in range(value.numel()):
        if ca.depends_on(ca.hessian(value[i], q)[0], q):
            raise ModelError(
                f"invariant {i + 1} is not quadratic in q: a momentum map is kept only through invariants of degree "
                "at most two (a squared distance, not a distance)"
            )
