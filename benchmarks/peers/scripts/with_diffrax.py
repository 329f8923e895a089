"""Double pendulum for 2 s with diffrax, in angles, the equations derived by hand."""

import diffrax
import jax
import jax.numpy as jnp

jax.config.update("jax_enable_x64", True)
m1, m2, g = 3.0, 1.0, 9.81


def rates(t, y, args):
    a, b, w, u = y
    c, s = jnp.cos(a - b), jnp.sin(a - b)
    r1 = -m2 * s * u**2 - (m1 + m2) * g * jnp.cos(a)
    r2 = m2 * s * w**2 - m2 * g * jnp.cos(b)
    det = (m1 + m2) * m2 - m2**2 * c**2
    return jnp.stack([w, u, (m2 * r1 - m2 * c * r2) / det, ((m1 + m2) * r2 - m2 * c * r1) / det])


sol = diffrax.diffeqsolve(
    diffrax.ODETerm(rates), diffrax.Dopri8(), 0.0, 2.0, None, jnp.zeros(4), saveat=diffrax.SaveAt(ts=jnp.linspace(0, 2, 81)),
    stepsize_controller=diffrax.PIDController(rtol=1e-8, atol=1e-8), max_steps=100_000,
)  # fmt: skip
a, b, w, u = sol.ys.T
kinetic = (m1 + m2) * w**2 / 2 + m2 * u**2 / 2 + m2 * w * u * jnp.cos(a - b)
print(abs(kinetic + g * ((m1 + m2) * jnp.sin(a) + m2 * jnp.sin(b))).max())
