/* A loop over the steps of a run, forwards or backwards. What stands after dollar signs is written from the function of a step;
   see tangents.py and blocked.py. Entry k of an argument in step i and direction j is in[a][i * rows[a] + j * each[a] + k].
   Slot s has a number for each lane: one for each of DA_W steps in succession. */

typedef double M __attribute__((vector_size(8 * DA_W), may_alias, aligned(8)));
#define DA_WIDE(s) (*(M *)(S + (s) * DA_W))
#define DA_EACH(s) S[(s) * DA_W + e]
#define DA_PLACE double *restrict S, const double *const *in, const long *rows, const long *each, const long *at, long j

static inline __attribute__((always_inline)) W da_rows(const double *first, const long *at, long row)
{
    W r;
    DA_UNROLL
    for (int e = 0; e < DA_W; e++) r[e] = first[at[e] * row];
    return r;
}

$functions

$own
DA_EXPORT const long da_work = $room * DA_W;

/* It gives back by how much solutions missed their equations, where that is looked at. */
DA_EXPORT double da_sweep(long steps, long count, const double *const *in, const long *rows, const long *each,
                          double *const *out, double *restrict S)
{
    long at[DA_W], j = 0;
    double worst = 0;
    memset(S, 0, $room * DA_W * sizeof(double));
    $run
    for (long k = 0; k < steps; k += DA_W) {
        const long lanes = steps - k < DA_W ? steps - k : DA_W;
        for (long e = 0; e < DA_W; e++) {
            const long n = k + (e < lanes ? e : lanes - 1); /* beyond the last step this one is repeated */
            at[e] = $backwards ? steps - 1 - n : n;
        }
        $step
        for (j = 0; j < count; j++) {
            $direction
        }
    }
    return worst;
}
