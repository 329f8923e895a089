/* Derivatives of steps as numbers in lanes, and loops that go through them; see blocked.py. Matrices have a vector for each
   entry, with one lane for each step. What loops go through step after step is turned first, so that the entries of one step
   are neighbours: `a` is then the first of them, and vectors of numbers belong to that step. */

typedef struct { /* the factors of a matrix, row by row: where rows begin, where their pivots are, and the columns */
    long n;
    const int *begin, *pivot;
    const short *column;
} da_pattern;

typedef struct { /* a sparse matrix: for each of its entries what it leads to and comes from */
    long count;
    const int *to, *from;
} da_entries;

/* Factors in the place of a matrix, with one over the pivots (Doolittle's, row by row); `row` has room for one. */
static __attribute__((noinline)) void da_factors(const da_pattern *m, M *restrict a, M *restrict row)
{
    for (long i = 0; i < m->n; i++) {
        const int begin = m->begin[i], end = m->begin[i + 1], pivot = m->pivot[i];
        for (int t = begin; t < end; t++) row[m->column[t]] = a[t];
        for (int t = begin; t < pivot; t++) {
            const long k = m->column[t];
            const W factor = row[k] = row[k] * a[m->pivot[k]];
            const short *c = m->column + m->pivot[k] + 1, *const last = m->column + m->begin[k + 1];
            const M *u = a + m->pivot[k] + 1;
            DA_UNROLL
            for (; c < last; c++, u++) row[*c] -= factor * *u;
        }
        for (int t = begin; t < end; t++) a[t] = row[m->column[t]];
        a[pivot] = da_wide(1.0) / a[pivot];
    }
}

/* Vectors with a lane for each step, as rows of numbers that belong to one step; a row has so many. */
static __attribute__((noinline)) void da_turned(long count, const double *restrict from, double *restrict to)
{
    long k = 0;
    for (; k + DA_W <= count; k += DA_W)
        for (long e = 0; e < DA_W; e++) {
            W r;
            DA_UNROLL
            for (int i = 0; i < DA_W; i++) r[i] = from[(k + i) * DA_W + e];
            *(M *)(to + e * count + k) = r;
        }
    for (; k < count; k++)
        for (long e = 0; e < DA_W; e++) to[e * count + k] = from[k * DA_W + e];
}

/* The solution in the place of a right side. */
static __attribute__((noinline)) void da_solve(const da_pattern *m, const double *restrict a, double *restrict y)
{
    for (long k = 0; k < m->n; k++) {
        double total = y[k], other = 0;
        int t = m->begin[k];
        for (; t + 1 < m->pivot[k]; t += 2) {
            total -= a[t] * y[m->column[t]];
            other -= a[t + 1] * y[m->column[t + 1]];
        }
        if (t < m->pivot[k]) total -= a[t] * y[m->column[t]];
        y[k] = total + other;
    }
    for (long k = m->n - 1; k >= 0; k--) {
        double total = y[k], other = 0;
        int t = m->pivot[k] + 1;
        for (; t + 1 < m->begin[k + 1]; t += 2) {
            total -= a[t] * y[m->column[t]];
            other -= a[t + 1] * y[m->column[t + 1]];
        }
        if (t < m->begin[k + 1]) total -= a[t] * y[m->column[t]];
        y[k] = (total + other) * a[m->pivot[k]];
    }
}

/* The same with the transposed matrix. */
static __attribute__((noinline)) void da_solve_turned(const da_pattern *m, const double *restrict a, double *restrict y)
{
    for (long k = 0; k < m->n; k++) {
        const double found = y[k] *= a[m->pivot[k]], *own = a + m->pivot[k] + 1;
        const short *c = m->column + m->pivot[k] + 1, *const last = m->column + m->begin[k + 1];
        DA_UNROLL
        for (; c < last; c++, own++) y[*c] -= *own * found;
    }
    for (long k = m->n - 1; k >= 0; k--) {
        const double found = y[k], *own = a + m->begin[k];
        const short *c = m->column + m->begin[k], *const last = m->column + m->pivot[k];
        DA_UNROLL
        for (; c < last; c++, own++) y[*c] -= *own * found;
    }
}

/* A matrix times a vector, added to another or the same, and taken away from it. */
static void da_plus(const da_entries *m, const double *a, const double *from, double *to)
{
    const int *i = m->to, *j = m->from;
    DA_UNROLL
    for (const int *const last = i + m->count; i < last; i++, j++, a++) to[*i] += *a * from[*j];
}

static void da_minus(const da_entries *m, const double *a, const double *from, double *to)
{
    const int *i = m->to, *j = m->from;
    DA_UNROLL
    for (const int *const last = i + m->count; i < last; i++, j++, a++) to[*i] -= *a * from[*j];
}

/* By how much the solutions of some steps miss their equations, relative to the size of their terms; `work` has room for two. */
static __attribute__((noinline)) double da_missed(const da_entries *m, const M *restrict a, long n, const M *restrict right,
                                                  const M *restrict found, M *restrict work, long lanes)
{
    M *const size = work + n;
    W largest = da_wide(0), most = da_wide(0);
    double worst = 0;
    for (long i = 0; i < n; i++) {
        work[i] = right[i];
        size[i] = da_abs(right[i]);
    }
    for (long k = 0; k < m->count; k++) {
        const W term = a[k] * found[m->from[k]];
        work[m->to[k]] -= term;
        size[m->to[k]] += da_abs(term);
    }
    for (long i = 0; i < n; i++) largest = da_pick((I)(size[i] > largest), size[i], largest);
    for (long i = 0; i < n; i++) {
        const W part = da_abs(work[i]) / (size[i] + $floor * largest + 1e-300);
        most = da_pick((I)(part > most) | (I)(part != part), part, most);
    }
    for (long e = 0; e < lanes; e++)
        if (most[e] > worst || most[e] != most[e]) worst = most[e];
    return worst;
}

static void da_note(double missed, double *worst)
{
    if (missed > *worst || missed != missed) *worst = missed;
}

static void da_zero(long count, double *to) { memset(to, 0, count * sizeof(double)); }

static void da_copy(long count, const double *from, double *to) { memcpy(to, from, count * sizeof(double)); }

static void da_sum(long count, const double *from, const double *other, double *to)
{
    for (long i = 0; i < count; i++) to[i] = from[i] + other[i];
}

static void da_keep(long count, const double *from, double *lane)
{
    for (long i = 0; i < count; i++) lane[i * DA_W] = from[i];
}

static void da_kept(long count, const double *lane, double *to)
{
    for (long i = 0; i < count; i++) to[i] = lane[i * DA_W];
}
