/* Elimination in loops: the operations of elimination.py in its order, so that all bits are the same
   (signs of zeros aside). See looped.py. */

typedef struct { /* for each pivot the rows below and the runs of its row; for each row the runs left of its pivot */
    long n, width;
    const int *below_at; const short *below; const int *ahead_at; const short *ahead; const int *behind_at; const short *behind;
} da_loops;

typedef double da_four __attribute__((vector_size(32), aligned(8), may_alias));

/* Factors in the place of a matrix, with one over the pivots. */
static __attribute__((noinline)) void da_factor(const da_loops *m, double *a)
{
    const long width = m->width;
    for (long k = 0; k < m->n; k++) {
        double *const own = a + k * width;
        const short *const run = m->ahead + m->ahead_at[k], *const last = m->ahead + m->ahead_at[k + 1];
        const double inverse = own[k] = 1.0 / own[k];
        for (int i = m->below_at[k]; i < m->below_at[k + 1]; i++) {
            double *const row = a + m->below[i] * width;
            const double factor = row[k] = row[k] * inverse;
            for (const short *r = run; r < last; r += 2)
                for (long c = r[0]; c < r[1]; c += 4) *(da_four *)(row + c) -= factor * *(const da_four *)(own + c);
        }
    }
}

/* The solution in the place of a right side. */
static __attribute__((noinline)) void da_back(const da_loops *m, const double *a, double *b)
{
    const long n = m->n, width = m->width;
    for (long k = 0; k < n; k++) {
        const double *const own = a + k * width;
        double total = b[k];
        for (int i = m->behind_at[k]; i < m->behind_at[k + 1]; i += 2)
            for (long c = m->behind[i]; c < m->behind[i + 1]; c++) total -= own[c] * b[c];
        b[k] = total;
    }
    for (long k = n - 1; k >= 0; k--) {
        const double *const own = a + k * width;
        double total = b[k];
        for (int i = m->ahead_at[k + 1] - 2; i >= m->ahead_at[k]; i -= 2)
            for (long c = (m->ahead[i + 1] < n ? m->ahead[i + 1] : n) - 1; c >= m->ahead[i]; c--) total -= own[c] * b[c];
        b[k] = total * own[k];
    }
}
