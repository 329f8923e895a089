/* Steps under a controller, written after the loop of a program. It repeats adaptive.py and control.py word by word. Every step
   that is not plain is left to them, from where it begins: one that fails, that ends at a bound, or that begins at a jump of the
   inputs after which a part of the state is to be found anew. The constants in capitals are those of Python, and the sizes of the
   program. What follows after this is one of two loops, `walk`: paced.c or doubled.c. */

#include <string.h>

#define MEMORY (STATES + 2 * UNKNOWNS + KEPT)
#define PLACE (MEMORY + LAMS + 2) /* a memory, and what the step to it has left: multipliers, work */
#define RARELY(x) __builtin_expect(!!(x), 0) /* foretold, so that what follows does not wait for it */
#define INLINE static inline __attribute__((always_inline))
#define MAX(a, b) ((b) > (a) ? (b) : (a))
#define MIN(a, b) ((b) < (a) ? (b) : (a))

typedef void da_values(const double *state, double t, const double *par, double *out);

typedef struct {
    const da_rule *rule;
    double *work, *memory; /* where the run stands, and room for three more places */
    const double *par;
    /* rows: the times before and after the last step of each, and what it leaves */
    double *out_begin, *out_t, *out_state, *out_lam, *out_work;
    /* inputs of one step; where they are samples, their times, values and jumps, and the nodes of a step */
    double *u;
    const double *times, *values, *jumps, *nodes;
    da_values *watch; /* what has zeros that are looked for */
    double *watched;  /* room for two rows of them */
    double t, t_end, low, high, end, resolution, carried[3], numbers[8], shortest, longest;
    long n_u, n_times, n_jumps, n_nodes, n_watched, settles;
    long capacity, most, every, left; /* rows; steps; steps of a row, and of the present one those to come */
    long done, row, iterations, rejected, made; /* what is added up from step to step */
    long time, jump;                            /* where the last search ended */
} da_walk;

/* How many of the sorted numbers are at most x; they are asked for from left to right. */
static long seek(const double *sorted, long count, double x, long *at)
{
    long k = *at;
    while (k < count && sorted[k] <= x) k++;
    while (k > 0 && sorted[k - 1] > x) k--;
    return *at = k;
}

INLINE double stop(da_walk *w, double t)
{
    if (!INPUTS || !w->n_jumps) return w->t_end;
    const double close = ROUNDED * MAX(fabs(t), fabs(w->t_end));
    const long after = seek(w->jumps, w->n_jumps, t + close, &w->jump);
    return after < w->n_jumps && w->jumps[after] < w->t_end - close ? w->jumps[after] : w->t_end;
}

INLINE double limit(da_walk *w, double t, double h)
{
    const double end = stop(w, t), left = end - t;
    if (RARELY(end != w->end)) {
        w->end = end;
        w->resolution = 4 * (nextafter(fabs(end), INFINITY) - fabs(end));
    }
    return RARELY(left - h <= MAX(STRETCH * h, 2 * w->resolution)) ? left : h;
}

static double slack(double begin, double end)
{
    const double h = fabs(end - begin), close = NEAR * h + ROUNDED * MAX(fabs(begin), fabs(end));
    return MIN(close, h / 4);
}

/* Whether inputs jump where a step begins. */
static int jumping(const da_walk *w, double t, double h)
{
    const double close = slack(t, t + h);
    for (long k = w->jump; k > 0 && w->jumps[k - 1] >= t - close; k--)
        if (w->jumps[k - 1] < t + close) return 1;
    for (long k = w->jump; k < w->n_jumps && w->jumps[k] < t + close; k++)
        if (w->jumps[k] >= t - close) return 1;
    return 0;
}

/* The samples that a step sees at its nodes. */
static void sample(da_walk *w, double t, double h)
{
    const double end = t + h, margin = slack(t, end), low = t + margin, high = end - margin;
    const long columns = w->n_u / w->n_nodes;
    for (long k = 0; k < w->n_nodes; k++) {
        const double x = t + w->nodes[k] * h, inside = MIN(MAX(x, low), high);
        const long row = seek(w->times, w->n_times, inside, &w->time) - 1;
        memcpy(w->u + k * columns, w->values + MAX(row, 0) * columns, columns * sizeof(double));
    }
}

INLINE da_memory memory(const double *place)
{
    double *const state = (double *)place, *const last = state + STATES, *const before = last + UNKNOWNS;
    const da_memory out = {state, last, before, before + UNKNOWNS};
    return out;
}

/* Whether what is watched may have a zero in a step: for Python to find, and to end the run there. */
static int crossed(da_walk *w, const double *state, double t)
{
    double *old = w->watched, *now = w->watched + w->n_watched;
    w->watch(state, t, w->par, now);
    for (long i = 0; i < w->n_watched; i++)
        if (!((now[i] > 0 && old[i] > 0) || (now[i] < 0 && old[i] < 0)) || !isfinite(now[i])) return 1;
    memcpy(old, now, w->n_watched * sizeof(double));
    return 0;
}

/* Steps until rows are full, the end is reached, or one is Python's to make (1) or to look at (0). */
static long walk(da_walk *w);

DA_EXPORT long da_control(da_walk *outside)
{
    da_walk w = *outside;
    const da_rule rule = *w.rule; /* near by, where nothing else writes */
    w.rule = &rule;
    if (w.watch) w.watch(w.memory, w.t, w.par, w.watched);
    const long ask = walk(&w);
    w.rule = outside->rule;
    *outside = w;
    return ask;
}
