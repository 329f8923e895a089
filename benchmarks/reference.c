/* Hand-written references: what a careful programmer would write for one system and one method.
   They are the limit that the generated code is measured against. */
#include <math.h>
#include <string.h>

/* ---- energy-momentum (Gonzalez 1999, eqs. 33, 34) for the four particles: dense LU, 14 unknowns ---------------- */

#define N 14

static int lu_solve(double A[N][N], double *b)
{
    for (int k = 0; k < N; k++) {
        int pivot = k;
        double best = fabs(A[k][k]);
        for (int i = k + 1; i < N; i++)
            if (fabs(A[i][k]) > best) { best = fabs(A[i][k]); pivot = i; }
        if (best == 0.0) return 1;
        if (pivot != k) {
            for (int j = k; j < N; j++) { double s = A[k][j]; A[k][j] = A[pivot][j]; A[pivot][j] = s; }
            double s = b[k]; b[k] = b[pivot]; b[pivot] = s;
        }
        double inverse = 1.0 / A[k][k];
        for (int i = k + 1; i < N; i++) {
            double factor = A[i][k] * inverse;
            if (factor == 0.0) continue;
            for (int j = k + 1; j < N; j++) A[i][j] -= factor * A[k][j];
            b[i] -= factor * b[k];
        }
    }
    for (int k = N - 1; k >= 0; k--) {
        for (int j = k + 1; j < N; j++) b[k] -= A[k][j] * b[j];
        b[k] /= A[k][k];
    }
    return 0;
}

/* Adds a spring V = K/4 (|d|^2 - 1)^2 between particles a and b to residual and Jacobian (unknown: acceleration). */
static void spring(double K, int a, int b, const double *q, const double *q1, double c, double *r, double J[N][N])
{
    double d0[3], d1[3], m[3], p0 = 0, p1 = 0;
    for (int i = 0; i < 3; i++) {
        d0[i] = q[3*a+i] - q[3*b+i];
        d1[i] = q1[3*a+i] - q1[3*b+i];
        m[i] = 0.5 * (d0[i] + d1[i]);
        p0 += d0[i] * d0[i];
        p1 += d1[i] * d1[i];
    }
    double slope = 0.25 * K * (p1 + p0 - 2.0);
    for (int i = 0; i < 3; i++) {
        double f = 2.0 * slope * m[i];
        r[3*a+i] += f;
        r[3*b+i] -= f;
        for (int j = 0; j < 3; j++) {
            double k = (K * m[i] * d1[j] + (i == j ? slope : 0.0)) * c;
            J[3*a+i][3*a+j] += k; J[3*b+i][3*b+j] += k;
            J[3*a+i][3*b+j] -= k; J[3*b+i][3*a+j] -= k;
        }
    }
}

/* Adds a rod |d| = 1 with multiplier lam. */
static void rod(int row, int a, int b, const double *q, const double *q1, double lam, double c, double *r, double J[N][N])
{
    double d0[3], d1[3], m[3], p0 = 0, p1 = 0;
    for (int i = 0; i < 3; i++) {
        d0[i] = q[3*a+i] - q[3*b+i];
        d1[i] = q1[3*a+i] - q1[3*b+i];
        m[i] = d0[i] + d1[i];
        p0 += d0[i] * d0[i];
        p1 += d1[i] * d1[i];
    }
    double l1 = sqrt(p1), sum = sqrt(p0) + l1, inverse = 1.0 / sum;
    r[row] = l1 - 1.0;
    for (int i = 0; i < 3; i++) {
        double D = m[i] * inverse;
        r[3*a+i] += lam * D;
        r[3*b+i] -= lam * D;
        J[3*a+i][row] += D;
        J[3*b+i][row] -= D;
        J[row][3*a+i] += d1[i] / l1 * c;
        J[row][3*b+i] -= d1[i] / l1 * c;
        for (int j = 0; j < 3; j++) {
            double k = lam * ((i == j ? inverse : 0.0) - m[i] * inverse * inverse * d1[j] / l1) * c;
            J[3*a+i][3*a+j] += k; J[3*b+i][3*b+j] += k;
            J[3*a+i][3*b+j] -= k; J[3*b+i][3*a+j] -= k;
        }
    }
}

/* state: q (12), v (12). Returns Newton iterations, or -1. */
long four_particles(long steps, double h, const double *mass, const double *K, double *q, double *v, double tolerance)
{
    double x[N] = {0}, last[N] = {0}, q1[12], r[N], J[N][N];
    long iterations = 0;
    double c = 0.5 * h * h; /* dq1 / da */
    for (long n = 0; n < steps; n++) {
        for (int i = 0; i < N; i++) { double guess = 2.0 * x[i] - last[i]; last[i] = x[i]; x[i] = guess; }
        double qmax = 0, vmax = 0, before = 0;
        for (int i = 0; i < 12; i++) {
            if (fabs(q[i]) > qmax) qmax = fabs(q[i]);
            if (fabs(v[i]) > vmax) vmax = fabs(v[i]);
        }
        double scale = vmax / h + 1e-6 * qmax / (h * h);
        int k;
        for (k = 0; k < 25; k++) {
            memset(r, 0, sizeof r);
            memset(J, 0, sizeof J);
            for (int i = 0; i < 12; i++) {
                q1[i] = q[i] + h * (v[i] + 0.5 * h * x[i]);
                r[i] = mass[i/3] * x[i];
                J[i][i] = mass[i/3];
            }
            spring(K[0], 0, 2, q, q1, c, r, J);
            spring(K[1], 1, 3, q, q1, c, r, J);
            rod(12, 0, 1, q, q1, x[12], c, r, J);
            rod(13, 2, 3, q, q1, x[13], c, r, J);
            if (lu_solve(J, r)) return -1;
            double size = 0;
            for (int i = 0; i < N; i++) {
                double weight = fabs(x[i]) > scale ? fabs(x[i]) : scale;
                x[i] -= r[i];
                double e = fabs(r[i]) / weight;
                if (e > size) size = e;
            }
            double theta = k ? size / before : 1.0;
            if (size * (theta < 1.0 ? theta : 1.0) <= tolerance || (k && theta > 0.5 && size < 1e-9)) { k++; break; }
            before = size;
        }
        if (k == 25) return -1;
        iterations += k;
        for (int i = 0; i < 12; i++) {
            q[i] += h * (v[i] + 0.5 * h * x[i]);
            v[i] += h * x[i];
        }
    }
    return iterations;
}

/* ---- RATTLE for the double pendulum: two multipliers, 2 x 2 systems by Cramer's rule ----------------------------- */

/* state: x1 y1 x2 y2, v the same. Iterates until both constraints are below the tolerance. */
long double_pendulum(long steps, double h, const double *mass, const double *length, double gravity, double *q, double *v,
                     double tolerance)
{
    const double w1 = 1.0 / mass[0], w2 = 1.0 / mass[1], half = 0.5 * h;
    const double l1 = length[0] * length[0], l2 = length[1] * length[1];
    double x1 = q[0], y1 = q[1], x2 = q[2], y2 = q[3];
    double u1 = v[0], s1 = v[1], u2 = v[2], s2 = v[3];
    double a = 0, b = 0, a_last = 0, b_last = 0;
    long iterations = 0;
    for (long n = 0; n < steps; n++) {
        double dx = x2 - x1, dy = y2 - y1;
        double kick = -half * gravity;
        double a_guess = 2 * a - a_last, b_guess = 2 * b - b_last;
        a_last = a; b_last = b; a = a_guess; b = b_guess;
        double X1, Y1, X2, Y2, DX, DY, U1, S1, U2, S2;
        int k;
        for (k = 0; k < 25; k++) {
            U1 = u1 - half * w1 * (2 * x1 * a - 2 * dx * b);
            S1 = s1 + kick - half * w1 * (2 * y1 * a - 2 * dy * b);
            U2 = u2 - half * w2 * (2 * dx * b);
            S2 = s2 + kick - half * w2 * (2 * dy * b);
            X1 = x1 + h * U1; Y1 = y1 + h * S1; X2 = x2 + h * U2; Y2 = y2 + h * S2;
            DX = X2 - X1; DY = Y2 - Y1;
            double g1 = X1 * X1 + Y1 * Y1 - l1, g2 = DX * DX + DY * DY - l2;
            if (fabs(g1) < tolerance && fabs(g2) < tolerance) break;
            double f = -2.0 * h * h;
            double j11 = f * w1 * (X1 * x1 + Y1 * y1), j12 = -f * w1 * (X1 * dx + Y1 * dy);
            double j21 = -f * w1 * (DX * x1 + DY * y1), j22 = f * (w1 + w2) * (DX * dx + DY * dy);
            double inverse = 1.0 / (j11 * j22 - j12 * j21);
            a -= (g1 * j22 - g2 * j12) * inverse;
            b -= (j11 * g2 - j21 * g1) * inverse;
        }
        if (k == 25) return -1;
        iterations += k;
        /* velocities: (G W G^T) mu = G v, with G = 2 [x1 y1 0 0; -d d] */
        u1 = U1; s1 = S1 + kick; u2 = U2; s2 = S2 + kick;
        double r1 = X1 * u1 + Y1 * s1, r2 = DX * (u2 - u1) + DY * (s2 - s1);
        double j11 = w1 * (X1 * X1 + Y1 * Y1), j12 = -w1 * (X1 * DX + Y1 * DY), j22 = (w1 + w2) * (DX * DX + DY * DY);
        double inverse = 1.0 / (j11 * j22 - j12 * j12);
        double m1 = (r1 * j22 - r2 * j12) * inverse, m2 = (j11 * r2 - j12 * r1) * inverse;
        u1 -= w1 * (X1 * m1 - DX * m2); s1 -= w1 * (Y1 * m1 - DY * m2);
        u2 -= w2 * DX * m2; s2 -= w2 * DY * m2;
        x1 = X1; y1 = Y1; x2 = X2; y2 = Y2;
    }
    q[0] = x1; q[1] = y1; q[2] = x2; q[3] = y2;
    v[0] = u1; v[1] = s1; v[2] = u2; v[3] = s2;
    return iterations;
}

/* ---- McLachlan and Perlmutter's method for the contact oscillator: one multiplier, by Newton's iteration ----------- */

long contact_oscillator(long steps, double h, double *q, double *v, double tolerance)
{
    double x = q[0], y = q[1], z = q[2], u = v[0], s = v[1], w = v[2], lam = 0, lam_last = 0;
    const double half = 0.5 * h;
    long iterations = 0;
    for (long n = 0; n < steps; n++) {
        double X = x + half * u, Y = y + half * s, Z = z + half * w, U, S, W, y1;
        double guess = 2 * lam - lam_last;
        int k;
        lam_last = lam; lam = guess;
        for (k = 0; k < 25; k++) {
            U = u - h * (X + lam); S = s - h * Y; W = w - h * (Z + Y * lam);
            y1 = Y + half * S;
            double g = U + y1 * W;
            if (fabs(g) < tolerance) break;
            lam -= g / (-h - y1 * h * Y);
        }
        if (k == 25) return -1;
        iterations += k;
        u = U; s = S; w = W;
        x = X + half * u; y = y1; z = Z + half * w;
    }
    q[0] = x; q[1] = y; q[2] = z; v[0] = u; v[1] = s; v[2] = w;
    return iterations + 1;
}

/* ---- Cortes and Martinez' method for the same: a force at the midpoint, which is not known -------------------------- */

/* With V = (x^2 + y^2 + z^2 + eps x^2 z^2) / 2. The mean velocity of y is explicit, that of x follows from the constraint at the
   midpoint, and the multiplier from the row of x: one equation is left, in the mean velocity c of z, for Newton's iteration. */
long contact_midpoint(long steps, double h, double eps, double *q, double *v, double tolerance)
{
    double x = q[0], y = q[1], z = q[2], u = v[0], s = v[1], w = v[2], c = w, c_last = w;
    const double half = 0.5 * h, inverse = 1.0 / (1.0 + half * half);
    long iterations = 0;
    for (long n = 0; n < steps; n++) {
        const double b = (s - half * y) * inverse, Y = y + half * b, slope = -half * Y;
        double guess = 2 * c - c_last, a, X, Z, fx, fz;
        int k;
        c_last = c; c = guess;
        for (k = 0; k < 25; k++) {
            a = -Y * c; X = x + half * a; Z = z + half * c;
            const double XZ = eps * X * Z;
            fx = X + XZ * Z; fz = Z + XZ * X;
            const double g = c + half * fz - w - y * (a + half * fx - u);
            if (fabs(g) < tolerance) break;
            const double dx = slope * (1.0 + eps * Z * Z) + h * XZ, dz = half * (1.0 + eps * X * X) + 2.0 * XZ * slope;
            c -= g / (1.0 + half * dz - y * (half * dx - Y));
        }
        if (k == 25) return -1;
        iterations += k;
        const double y1 = y + h * b, px = a - half * fx, pz = c - half * fz;
        const double mu = (px + y1 * pz) / (1.0 + y1 * y1);
        x += h * a; y = y1; z += h * c;
        u = px - mu; s = b - half * Y; w = pz - y1 * mu;
    }
    q[0] = x; q[1] = y; q[2] = z; v[0] = u; v[1] = s; v[2] = w;
    return iterations + 1;
}
