/* What large steps are made of, beside loops over entries: sums, products and lists. */
#include <math.h>
#include <string.h>
#define DA_EXPORT __attribute__((visibility("default")))
static inline double da_sign(double x) { return x > 0 ? 1.0 : x < 0 ? -1.0 : x; }
static void put(double *o, double **s, int **p, const long *n)
{
    for (long i = 0; i < n[0]; i++) o[i] = s[0][i];
    for (long i = 0; i < n[1]; i++) o[p[0][i]] = s[1][i];
}
static void add(double *o, double **s, int **p, const long *n)
{
    for (long i = 0; i < n[0]; i++) o[i] = s[0][i];
    for (long i = 0; i < n[1]; i++) o[p[0][i]] += s[1][i];
}
typedef double da_four __attribute__((vector_size(32), aligned(8)));
#define FOUR(p) (*(const da_four *)(p))
/* as NumPy adds up */
static double total(const double *a, const double *b, long n)
{
    if (n < 8) {
        double s = 0.0;
        for (long i = 0; i < n; i++) s += a[i] * b[i];
        return s;
    }
    if (n <= 128) {
        long i = 8;
        da_four r = FOUR(a) * FOUR(b), q = FOUR(a + 4) * FOUR(b + 4);
        for (; i < n - n % 8; i += 8) {
            r += FOUR(a + i) * FOUR(b + i);
            q += FOUR(a + i + 4) * FOUR(b + i + 4);
        }
        double s = ((r[0] + r[1]) + (r[2] + r[3])) + ((q[0] + q[1]) + (q[2] + q[3]));
        for (; i < n; i++) s += a[i] * b[i];
        return s;
    }
    long half = n / 2;
    half -= half % 8;
    return total(a, b, half) + total(a + half, b + half, n - half);
}
static void dot(double *o, double **s, int **p, const long *n) { o[0] = total(s[0], s[1], n[0]); }
static void norm(double *o, double **s, int **p, const long *n) { o[0] = sqrt(total(s[0], s[1], n[0])); }
static void row_times(double *restrict o, double **s, int **p, const long *n)
{
    const double *restrict a = s[0], *restrict b = s[1];
    const int *restrict start = p[0], *restrict column = p[1];
    for (long j = 0; j < n[0]; j++) {
        double sum = 0.0;
        for (int k = start[j]; k < start[j + 1]; k++) sum += a[k] * b[column[k]];
        o[j] = sum;
    }
}
static inline __attribute__((always_inline)) void sums(double *restrict o, const double *restrict a, const double *restrict b,
    const int *restrict e, const int *restrict i, const int *restrict j, long m, const long c)
{
    for (long k = 0; k < m; k++, i += c, j += c) {
        double sum = 0.0;
#pragma GCC unroll 8
        for (long t = 0; t < c; t++) sum += a[i[t]] * b[j[t]];
        o[e[k]] = sum;
    }
}
/* sums of as many products, one kind after another */
static void products(double *restrict o, double **s, int **p, const long *n)
{
    const double *a = s[0], *b = s[1];
    const int *e = p[0], *i = p[1], *j = p[2];
    for (long g = 0; g < n[0]; g++) {
        const long m = n[1 + 2 * g], c = n[2 + 2 * g];
        switch (c) {
        case 1: sums(o, a, b, e, i, j, m, 1); break;
        case 2: sums(o, a, b, e, i, j, m, 2); break;
        case 3: sums(o, a, b, e, i, j, m, 3); break;
        case 4: sums(o, a, b, e, i, j, m, 4); break;
        case 5: sums(o, a, b, e, i, j, m, 5); break;
        case 6: sums(o, a, b, e, i, j, m, 6); break;
        default: sums(o, a, b, e, i, j, m, c);
        }
        e += m, i += m * c, j += m * c;
    }
}
