"""Derivatives of a final position of the double pendulum by both masses and gravity: one gradient, by reverse sweeps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

import casadi as ca
import numpy as np
from casadi import SX

import dalembert as da
from peers import reference
from peers.equations import Array, Explicit, as_ode, replay
from peers.problems import MASSES, in_angles
from peers.solvers.base import clock

SPANS = (1.0, 2.0)
WITHIN = 1e-7  # of the largest derivative: what each has to reach


@dataclass(frozen=True)
class Pair:
    """A run, and the gradient of its end (the run included)."""

    forward: Callable[[], object]
    gradient: Callable[[], Array]


def parametric() -> tuple[Explicit, SX]:
    """The double pendulum in angles with symbols for both masses and gravity; x2 is the third of the full state."""
    p = SX.sym("p", 3)
    return in_angles((p[0], p[1]), p[2])[0], p


def exact(span: float) -> Array:
    """By central differences of the extrapolation in long double, themselves extrapolated once."""

    def end(values: Array) -> float:
        form, start = in_angles((float(values[0]), float(values[1])), float(values[2]))
        ode = as_ode(form, start)
        return float(ode.rows(np.array([reference.extrapolate(ode, start, span, 1 / 32)], dtype=float))[0, 2])

    p, out = np.array(MASSES), np.zeros(3)
    for i, e in enumerate(np.eye(3)):
        wide, narrow = ((end(p + d * e) - end(p - d * e)) / (2 * d) for d in (2e-4, 1e-4))
        out[i] = (4 * narrow - wide) / 3
    return out


def ours(span: float, knob: float) -> Pair:
    system = da.catalog.double_pendulum()
    options = {"t_end": span, "step": knob, "compile": True, "progress": False}

    def gradient() -> Array:
        found = da.sensitivity(system, "lobatto-pair-4", **options).gradient(lambda q: q[2])
        return np.array([float(found[name]) for name in ("m1", "m2", "g")])

    return Pair(lambda: da.simulate(system, "lobatto-pair-4", save_every=round(span / knob), **options), gradient)


def with_diffrax(span: float, knob: float) -> Pair:
    import diffrax
    import jax
    import jax.numpy as jnp

    from peers.solvers.with_diffrax import NAMES

    form, p = parametric()
    f = ca.Function("f", [form.y, p], [ca.densify(form.rhs)], {"cse": True})

    def rates(t: float, y: object, args: object) -> object:
        arguments = [[y[i] for i in range(4)], [args[i] for i in range(3)]]  # type: ignore[index]
        return jnp.stack([jnp.asarray(e, dtype=float) for e in replay(f, arguments, NAMES)])

    def end(values: object) -> object:
        sol = diffrax.diffeqsolve(
            diffrax.ODETerm(rates), diffrax.Dopri8(), 0.0, span, None, jnp.zeros(4), values, max_steps=4096,
            stepsize_controller=diffrax.PIDController(rtol=knob, atol=knob),
        )  # fmt: skip
        return jnp.cos(sol.ys[0, 0]) + jnp.cos(sol.ys[0, 1])

    forward, gradient, values = jax.jit(end), jax.jit(jax.grad(end)), jnp.asarray(MASSES)
    return Pair(lambda: jax.block_until_ready(forward(values)), lambda: np.asarray(jax.block_until_ready(gradient(values))))


def with_casadi(span: float, knob: float) -> Pair:
    form, p = parametric()
    options = {"reltol": knob, "abstol": knob, "linear_multistep_method": "adams", "max_num_steps": 100_000}
    integrator = ca.integrator("run", "cvodes", {"x": form.y, "p": p, "ode": form.rhs}, 0.0, span, options)
    values = ca.MX.sym("p", 3)
    end = integrator(x0=np.zeros(4), p=values)["xf"]
    cost = ca.cos(end[0]) + ca.cos(end[1])
    forward, gradient = ca.Function("forward", [values], [cost]), ca.Function("gradient", [values], [ca.gradient(cost, values)])
    return Pair(lambda: forward(MASSES), lambda: np.asarray(gradient(MASSES)).ravel())


WAYS = {
    "dalembert": (
        "`sensitivity(...).gradient`, compiled, lobatto-pair-4",
        ours,
        (0.05, 0.025, 0.02, 0.0125, 0.01, 0.005, 0.0025),
    ),
    "diffrax": ("`jax.grad`, Dopri8, angles", with_diffrax, (1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10, 1e-11)),
    "CasADi idas": ("reverse sweep of cvodes (Adams), angles", with_casadi, (1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10, 1e-11)),
}


def measure(names: list[str], repeats: int) -> dict[str, dict[str, object]]:
    """For each way and span the coarsest setting that is exact enough, then both runs in turns."""
    out: dict[str, dict[str, object]] = {}
    for span in SPANS:
        true, chosen = exact(span), {}
        for name, (_, make, knobs) in WAYS.items():
            for knob in knobs if name in names else ():
                pair = make(span, knob)
                error = float(np.abs(pair.gradient() - true).max() / np.abs(true).max())
                if error <= WITHIN:
                    pair.forward()
                    chosen[name] = (knob, error, pair, [], [])
                    break
        for _ in range(repeats):
            for _, _, pair, forward, gradient in chosen.values():
                forward.append(clock(pair.forward)[0])
                gradient.append(clock(pair.gradient)[0])
        for name, (how, _, _) in WAYS.items():
            row = out.setdefault(name, {"how": how})
            if name in chosen:
                knob, error, _, forward, gradient = chosen[name]
                spread = median(gradient) / min(gradient) - 1
                row[f"{span:g}"] = {
                    "knob": knob, "error": error, "forward": min(forward), "gradient": min(gradient), "spread": spread,
                }  # fmt: skip
    return out
