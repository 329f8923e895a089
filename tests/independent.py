"""Methods in plain NumPy, written from the formulas of their sources, and a random mechanical system to run them on.

Nothing of `dalembert.methods` is used here: tableaus, equations and Newton's method are this file's own.
"""

import numpy as np
from numpy.polynomial import Polynomial

import dalembert as da


def newton(F, x, limit=60):
    """A zero of an analytic function, with derivatives by complex steps: exact to round-off."""
    x = np.array(x, dtype=float)
    best = np.inf
    for _ in range(limit):
        J = np.array([F(x + 1e-30j * e).imag / 1e-30 for e in np.eye(len(x))]).T
        change = np.linalg.solve(J, F(x.astype(complex)).real)
        x = x - change
        size = np.abs(change).max() / (1 + np.abs(x).max())
        if size < 1e-15 or (size < 1e-11 and size > 0.5 * best):
            return x
        best = size
    raise AssertionError("Newton's method did not converge")


# ---- tableaus -------------------------------------------------------------------------------------------------------------


def basis(c):
    """Lagrange's polynomials of nodes."""
    out = []
    for j in range(len(c)):
        p = Polynomial([1.0])
        for k in range(len(c)):
            if k != j:
                p *= Polynomial([-c[k], 1.0]) / (c[j] - c[k])
        out.append(p)
    return out


def integrals(c, ends):
    """`int_0^end l_j` for each end."""
    return np.array([[p.integ()(e) for p in basis(c)] for e in ends])


def shifted_legendre(s):
    p = Polynomial([1.0])
    for _ in range(s):
        p *= Polynomial([0.0, -1.0, 1.0])
    return p.deriv(s) if s else p


def nodes(family, s):
    """Gauss, Radau I and II, Lobatto: roots of derivatives of `x^a (x - 1)^b` (Hairer, Wanner II, sec. IV.5)."""
    if family == "gauss":
        roots = shifted_legendre(s).roots()
    else:
        a, b = {"radau-i": (s, s - 1), "radau-ii": (s - 1, s), "lobatto": (s - 1, s - 1)}[family]
        p = Polynomial([0.0, 1.0]) ** a * Polynomial([-1.0, 1.0]) ** b
        roots = p.deriv({"lobatto": s - 2}.get(family, s - 1)).roots()
    return np.sort(np.real(roots))


def tableau(name, s):
    """`A`, `b`, `c`: collocation, or the matrix whose transpose goes with it (W. Dekker, Verwer; Hairer, Wanner, table 5.13)."""
    kind = {"gauss": "gauss", "radau-ia": "radau-i", "radau-iia": "radau-ii"}.get(name, "lobatto")
    c = nodes(kind, s)
    b = integrals(c, [1.0])[0]
    if name in ("gauss", "radau-iia", "lobatto-iiia"):
        return integrals(c, c), b, c
    if name == "radau-ia":  # D(s): sum_i b_i c_i^(k-1) a_ij = b_j (1 - c_j^k) / k
        left = np.array([b * c ** (k - 1) for k in range(1, s + 1)])
        right = np.array([b * (1 - c**k) / k for k in range(1, s + 1)])
        return np.linalg.solve(left, right), b, c
    A = integrals(c, c)
    conjugate = (np.outer(b, b) - (b[:, None] * A).T) / b[:, None]  # b_i ab_ij + b_j a_ji = b_i b_j
    if name == "lobatto-iiib":
        return conjugate, b, c
    # IIIC: a_i1 = b_1 and C(s - 1)
    V = np.array([c ** (k - 1) for k in range(1, s)])
    C = np.zeros((s, s))
    for i in range(s):
        right = np.array([c[i] ** k / k for k in range(1, s)]) - b[0] * V[:, 0]
        C[i] = np.concatenate([[b[0]], np.linalg.solve(V[:, 1:], right)])
    star = (np.outer(b, b) - (b[:, None] * C).T) / b[:, None]
    return {"lobatto-iiic": C, "lobatto-iiic*": star, "lobatto-iiid": (C + star) / 2}[name], b, c


# ---- a mechanical system --------------------------------------------------------------------------------------------------


class Mechanism:
    """`H = sum w_i(q) p_i^2 / 2 + V(q)` with friction, a force of time, an input, a moving and a nonholonomic constraint."""

    n = 3

    def __init__(self, seed, *, mass="varies", holonomic=True, nonholonomic=False, moving=True, forces=True):
        rng = np.random.default_rng(seed)
        self.a = rng.uniform(0.1, 0.5, 3) if mass == "varies" else np.zeros(3)
        self.m, self.k, self.e, self.B = rng.uniform(0.5, 2, 3), rng.uniform(0.5, 2, 3), rng.normal(size=3), rng.normal(size=3)
        self.c, self.e, self.B = (0.2, self.e, self.B) if forces else (0.0, 0 * self.e, 0 * self.B)
        self.b = 0.2 * rng.normal(size=3) if moving else np.zeros(3)
        self.drift = 0.3 if moving else 0.0
        self.rows = (holonomic, nonholonomic)
        self.start = rng.normal(size=3), rng.normal(size=3)
        self.multiplier = None  # that of the last step, where a method has one of its own

    def system(self):
        a, m, k, e, b = self.a, self.m, self.k, self.e, self.b
        given = (
            {"dissipation": self.c, "force": lambda t: [x * np.sin(t) for x in e], "inputs": self.B[:, None]} if self.c else {}
        )
        if self.rows[0]:
            moved = lambda q, t: q[0] ** 2 + 2 * q[1] ** 2 + q[2] ** 2 - 1 + sum(b[i] * q[i] for i in range(3)) * np.sin(t)  # noqa: E731
            given["holonomic"] = moved if b.any() else lambda q: q[0] ** 2 + 2 * q[1] ** 2 + q[2] ** 2 - 1
        if self.rows[1]:
            slides = lambda q, v, t: v[0] + q[1] * v[2] - self.drift * np.cos(t)  # noqa: E731
            given["nonholonomic"] = slides if self.drift else lambda q, v: v[0] + q[1] * v[2]
        return da.Mechanical(
            3, mass=(lambda q: [m[i] / (1 + a[i] * q[(i + 1) % 3] ** 2) for i in range(3)]) if a.any() else list(m),
            potential=lambda q: sum(k[i] * q[i] ** 2 for i in range(3)) / 2 + q[0] * q[1] * q[2] + q[0] ** 4 / 4, **given,
        )  # fmt: skip

    def w(self, q):
        """Inverse masses."""
        return (1 + self.a * np.roll(q, -1) ** 2) / self.m

    def V_q(self, q):
        return self.k * q + np.array([q[1] * q[2] + q[0] ** 3, q[0] * q[2], q[0] * q[1]])

    def V(self, q):
        return (self.k * q**2).sum() / 2 + q[0] * q[1] * q[2] + q[0] ** 4 / 4

    def H_q(self, q, p):
        """w_(i-1) depends on q_i."""
        return self.V_q(q) + np.roll(self.a / self.m * p**2, 1) * q

    def mass(self, q):
        return 1 / self.w(q)

    def L_q(self, q, v):
        """`d/dq (v^T M v / 2 - V)`; dM_i / dq_(i+1) = -2 m a q / (1 + a q^2)^2."""
        slope = -self.m * self.a * np.roll(q, -1) / (1 + self.a * np.roll(q, -1) ** 2) ** 2
        return np.roll(slope * v**2, 1) - self.V_q(q)

    def u(self, t):
        return np.cos(2 * t)

    def f(self, q, v, t):
        return -self.c * v + self.e * np.sin(t) + self.B * self.u(t)

    def g(self, q, t):
        return np.array([q[0] ** 2 + 2 * q[1] ** 2 + q[2] ** 2 - 1 + self.b @ q * np.sin(t)]) if self.rows[0] else np.zeros(0)

    def G(self, q, t):
        return np.array([2 * q * np.array([1, 2, 1]) + self.b * np.sin(t)]) if self.rows[0] else np.zeros((0, 3))

    def A(self, q):
        return np.array([[1.0 + 0 * q[1], 0 * q[1], q[1]]]) if self.rows[1] else np.zeros((0, 3))

    def slide(self, q, v, t):
        """The nonholonomic constraint."""
        return self.A(q) @ v - self.drift * np.cos(t) if self.rows[1] else np.zeros(0)

    def K(self, q, t):
        return np.vstack([self.G(q, t), self.A(q)])

    def level(self, q, v, t):
        """All constraints at velocity level."""
        own = self.G(q, t) @ v + self.b @ q * np.cos(t) if self.rows[0] else np.zeros(0)
        return np.concatenate([own, self.slide(q, v, t)])

    @property
    def count(self):
        return sum(self.rows)

    def rates(self, q, p, lam, t):
        """`q'` and `p'`."""
        v = self.w(q) * p
        return v, -self.H_q(q, p) + self.f(q, v, t) - self.K(q, t).T @ lam


def blocks(x, *shapes):
    """A vector in parts of given shapes."""
    out, at = [], 0
    for shape in shapes:
        size = int(np.prod(shape))
        out.append(x[at : at + size].reshape(shape))
        at += size
    return out


# ---- methods: (mechanism, q0, p0, t0, h) -> (q1, p1) ------------------------------------------------------------------------


def rattle(s, q0, p0, t, h):
    """Jay 1996; Hairer, Lubich, Wanner, eq. VII.1.26, with forces."""

    def F(x):
        P, q1, lam, p1, mu = blocks(x, 3, 3, 1, 3, 1)
        v, w = s.w(q0) * P, s.w(q1) * P
        return np.concatenate(
            [
                P - p0 + h / 2 * (s.H_q(q0, P) - s.f(q0, v, t) + s.G(q0, t).T @ lam),
                q1 - q0 - h / 2 * (v + w),
                s.g(q1, t + h) / h,
                p1 - P + h / 2 * (s.H_q(q1, P) - s.f(q1, w, t + h) + s.G(q1, t + h).T @ mu),
                s.level(q1, s.w(q1) * p1, t + h),
            ]
        )

    v0 = s.w(q0) * p0
    _, q1, lam, p1, mu = blocks(newton(F, np.concatenate([p0, q0 + h * v0, [0], p0, [0]])), 3, 3, 1, 3, 1)
    s.multiplier = (lam + mu) / 2  # that of the middle of the step
    return q1, p1


def partitioned(k, rows):
    """A Lobatto IIIA-IIIB step; `rows(s, Q, V, q1, v1, times, h)` are the equations of the multipliers."""
    (A, b, c), (B, _, _) = tableau("lobatto-iiia", k), tableau("lobatto-iiib", k)

    def step(s, q0, p0, t, h):
        times, m = t + c * h, s.count

        def parts(x):
            Q, P, lam = blocks(x, (k, 3), (k, 3), (k, m))
            rates = [s.rates(Q[i], P[i], lam[i], times[i]) for i in range(k)]
            return Q, P, np.array([r[0] for r in rates]), np.array([r[1] for r in rates])

        def F(x):
            Q, P, V, W = parts(x)
            q1, p1 = q0 + h * b @ V, p0 + h * b @ W
            return np.concatenate(
                [
                    (Q - q0 - h * A @ V).ravel(), (P - p0 - h * B @ W).ravel(),
                    rows(s, A, Q, V, q1, s.w(q1) * p1, times, h),
                ]
            )  # fmt: skip

        _, _, V, W = parts(newton(F, np.concatenate([np.tile(q0, k), np.tile(p0, k), np.zeros(k * m)])))
        return q0 + h * b @ V, p0 + h * b @ W

    return step


def jay(k):
    """Jay 1996: g at the stages 2 .. s, and the velocity constraint at the end."""

    def rows(s, A, Q, V, q1, v1, times, h):
        return np.concatenate([*(s.g(Q[i], times[i]) / h for i in range(1, k)), s.level(q1, v1, times[-1])])

    return partitioned(k, rows)


def spark(k):
    """Jay 2003, Hilden 2009, eqs. 2.19, 2.20, 2.25: moments of the nonholonomic constraint by the rows 2 .. s of Lobatto IIIA."""

    def rows(s, A, Q, V, q1, v1, times, h):
        slides = np.array([s.slide(Q[i], V[i], times[i]) for i in range(k)])
        inner = [np.concatenate([s.g(Q[i], times[i]) / h, A[i] @ slides]) for i in range(1, k)]
        return np.concatenate([*inner, s.level(q1, v1, times[-1])])

    return partitioned(k, rows)


def staged(name, k, rows, extra=None, stabilised=False):
    """One tableau; `rows(s, at, T)` with `at(weights, time)` = position and velocity of a place of the step."""
    A, b, c = tableau(name, k)

    def step(s, q0, p0, t, h):
        times, m, mh = t + c * h, s.count, int(s.rows[0]) if stabilised else 0

        def rates(x):
            Q, P, lam, mu = blocks(x, (k, 3), (k, 3), (k, m), (k, mh))
            both = [s.rates(Q[i], P[i], lam[i], times[i]) for i in range(k)]
            V = np.array([both[i][0] - (s.G(Q[i], times[i]).T @ mu[i] if mh else 0) for i in range(k)])
            return Q, P, V, np.array([r[1] for r in both])

        def F(x):
            Q, P, V, W = rates(x)

            def at(weights, time):
                q = q0 + h * weights @ V
                return q, s.w(q) * (p0 + h * weights @ W), t + time * h

            return np.concatenate([(Q - q0 - h * A @ V).ravel(), (P - p0 - h * A @ W).ravel(), rows(s, at, A, b, c, h)])

        size = 2 * 3 * k + k * (m + mh)
        x = np.zeros(size)
        x[: 3 * k], x[3 * k : 6 * k] = np.tile(q0, k), np.tile(p0, k)
        _, _, V, W = rates(newton(F, x))
        return q0 + h * b @ V, p0 + h * b @ W

    return step


def classical(name, k):
    """The velocity constraint at each stage (Hilden 2009, eq. 2.15)."""
    return staged(name, k, lambda s, at, A, b, c, h: np.concatenate([s.level(*at(A[i], c[i])) for i in range(k)]))


def murua(k, ggl=False):
    """Murua 1997, Symank 2025, eqs. 6.7, 6.9 to 6.14: Gauss, constraints at the Lobatto nodes beside 0."""
    places = nodes("lobatto", k + 1)[1:]
    W = integrals(nodes("gauss", k), places)

    def rows(s, at, A, b, c, h):
        out = [s.level(*at(W[i], places[i])) for i in range(k)]
        if ggl:
            for i in range(k):
                q, _, time = at(W[i], places[i])
                out.append(s.g(q, time) / h)
        return np.concatenate(out)

    return staged("gauss", k, rows, stabilised=ggl)


def specialized(name, k):
    """Jay 2006, Hilden 2009, eqs. 2.26, 2.27: the constraint at the end, and its moments `b^T C^(i-1)`."""

    def rows(s, at, A, b, c, h):
        inner = [s.level(*at(A[j], c[j])) for j in range(k)]
        moments = [sum(b[j] * c[j] ** i * inner[j] for j in range(k)) for i in range(k - 1)]
        return np.concatenate([s.level(*at(b, 1.0)), *moments])

    return staged(name, k, rows)
