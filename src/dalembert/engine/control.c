/* Steps under a controller, written after the loop of a program, whose step is taken in. It repeats adaptive.py and control.py
   word by word. Every step that is not plain is left to them, from where it begins: one that fails, that ends at a bound, or
   that begins at a jump of the inputs after which a part of the state is to be found anew. The constants in capitals are those
   of Python, and the sizes of the program; STEP is how a step is taken in. */

#include <string.h>

#define MEMORY (STATES + 2 * UNKNOWNS + KEPT)
#define PLACE (MEMORY + LAMS + 2) /* a memory, and what the step to it has left: multipliers, work */
#define RARELY(x) __builtin_expect(!!(x), 0) /* foretold, so that what follows does not wait for it */
#define INLINE static inline __attribute__((always_inline))
#define MAX(a, b) ((b) > (a) ? (b) : (a))
#define MIN(a, b) ((b) < (a) ? (b) : (a))
enum { BACKOFF, ERROR, REVERSIBLE };

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
    /* functions of the state: the time scale of a controller and its change; what has zeros that are looked for */
    da_values *scale, *watch;
    double *watched; /* room for two rows of them */
    double t, t_end, low, high, end, resolution, carried[3], numbers[8], shortest, longest;
    long kind, n_u, n_times, n_jumps, n_nodes, n_watched, settles;
    long capacity, most, every, left; /* rows; steps; steps of a row, and of the present one those to come */
    long done, row, iterations, rejected, made; /* what is added up from step to step */
    long time, jump;                            /* where the last search ended */
} da_walk;

typedef struct {
    double *place; /* where it ends */
    double begin, length, t;
} da_taken; /* a step: when it begins, how long it is, and the time after it */

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

/* A step from one place to another, which may be kept or is for comparison; its iterations, or -1 where it is Python's. */
STEP long try_step(da_walk *w, const double *from, da_taken *taken, double pace, int kept)
{
    const double begin = taken->begin, h = taken->length, end = stop(w, begin);
    const double *const before = from + MEMORY - 2; /* the length of the step that looked at the model, the steps since */
    double *const to = taken->place, *const after = to + MEMORY - 2;
    const long look = SOLVES && (kept || !(before[1] > 0)) &&
                      !(before[1] < WEIGH_EVERY && before[0] <= LIKE * pace && pace <= LIKE * before[0]);
    da_outcome outcome = {0, 0, -1, 0.0};
    if (INPUTS && w->settles && jumping(w, begin, h)) return -1;
    if (INPUTS && w->n_times && w->n_nodes) sample(w, begin, h);
    if (WORKING) to[PLACE - 2] = to[PLACE - 1] = 0.0;
    da_steps(1, 0, begin, h, memory(from), memory(to), w->par, w->u, 0, 1, to, to + MEMORY, to + PLACE - 2, 0, w->rule,
             &outcome, look, w->work);
    if (RARELY(!outcome.steps)) return -1;
    after[0] = look ? pace : before[0];
    after[1] = look ? 1 : before[1] + 1;
    taken->t = RARELY(h == end - begin) ? end : begin + h; /* what `limit` does not shorten ends well before */
    return outcome.iterations;
}

/* A whole step for comparison, and the first half of it: the iterations of that, or -1 where they are better made one by one. */
INLINE long try_pair(da_walk *w, const double *from, double *whole, da_taken *taken, double now)
{
#if PAIR
    const double begin = taken->begin, h = taken->length, end = stop(w, begin);
    const double *const before = from + MEMORY - 2;
    double *const to = taken->place, *const after = to + MEMORY - 2;
    if (SOLVES && !(before[1] < WEIGH_EVERY && before[0] <= LIKE * h && h <= LIKE * before[0])) return -1; /* one will look */
    if (INPUTS && (w->settles || (w->n_times && w->n_nodes))) return -1;
    const long count = da_pair(begin, now, h, memory(from), whole, memory(to), to + MEMORY, to + PLACE - 2, w->par, w->u, w->rule);
    if (RARELY(count < 0)) return -1;
    after[0] = before[0];
    after[1] = before[1] + 1;
    taken->t = RARELY(h == end - begin) ? end : begin + h;
    return count;
#else
    return -1;
#endif
}

/* What stands in the row of a step that ends there. */
static void record(da_walk *w, const double *place, double begin, double t)
{
    for (long i = 0; i < STATES; i++) w->out_state[w->row * STATES + i] = place[i];
    for (long i = 0; i < LAMS; i++) w->out_lam[w->row * LAMS + i] = place[MEMORY + i];
    w->out_begin[w->row] = begin;
    w->out_t[w->row] = t;
}

INLINE void accept(da_walk *w, const da_taken *taken)
{
    if (WORKING)
        for (long i = 0; i < 2; i++) w->out_work[2 * w->row + i] += taken->place[PLACE - 2 + i];
    if (--w->left == 0) {
        record(w, taken->place, taken->begin, taken->t);
        w->row++;
        w->left = w->every;
    }
    w->shortest = MIN(w->shortest, taken->length);
    w->longest = MAX(w->longest, taken->length);
    w->done++;
}

INLINE int backoff(da_walk *w, da_taken *taken, const double *from)
{
    const double grow = w->numbers[0], after = w->numbers[1];
    const long count = try_step(w, from, taken, taken->length = limit(w, w->t, w->carried[0]), 1);
    if (RARELY(count < 0)) return 0;
    w->carried[1] += 1;
    if (w->carried[1] >= after) {
        w->carried[0] = MIN(grow * w->carried[0], w->high);
        w->carried[1] = 0;
    }
    w->iterations += count;
    w->made++;
    return 1;
}

INLINE int reversible(da_walk *w, da_taken *taken, const double *from)
{
    const double eps = w->carried[0], z = w->carried[1], h = eps / z, least = ADVANCES * fabs(w->t), low = MAX(w->low, least);
    double look[2], since = w->carried[2] + 1;
    if (RARELY(!(z > 0) || h <= 0 || h < low)) return 0;
    const long count = try_step(w, from, taken, taken->length = limit(w, w->t, h), 1);
    if (RARELY(count < 0)) return 0;
    if (since >= w->numbers[0]) {
        w->scale(taken->place, taken->t, w->par, look);
        if (RARELY(!(isfinite(look[0]) && look[0] > 0))) return 0;
        w->carried[1] = z + w->numbers[0] * eps * look[1];
        since = 0;
    }
    w->carried[2] = since;
    w->iterations += count;
    w->made++;
    return 1;
}

/* The logarithm to the base 2, up to 0.09: the exponent of a number, and linear in between. */
INLINE double logarithm(double x)
{
    long long bits;
    memcpy(&bits, &x, sizeof bits);
    return (double)bits * 0x1p-52 - 1023;
}

/* 16^x, up to a hundredth of it for x <= 1; for x < -1 it is that of -1. */
INLINE double power(double x)
{
    const double y = MAX(x, -1.0), z = y * y, p = (P0 + P1 * y) + z * ((P2 + P3 * y) + P4 * z), q = p * p;
    return q * q;
}

/* The mean square of the error of two half steps over the tolerance, by comparison with a whole one. */
INLINE double mean_square(const da_walk *w, const double *first, const double *halves, const double *whole)
{
    const double rtol = w->numbers[0], atol = w->numbers[1];
    double sum = 0, count = 0;
#define ADD(i)                                                                                                                  \
    {                                                                                                                           \
        const double begin = fabs(first[i]), end = fabs(halves[i]), size = atol + rtol * MAX(begin, end);                       \
        const double ratio = (halves[i] - whole[i]) / MAX(size, 1e-300);                                                        \
        sum += ratio * ratio;                                                                                                   \
        count++;                                                                                                                \
    }
    MEASURED(ADD)
    const double mean = sum * (1 / count);
    return MAX(mean, 1e-20);
}

INLINE int error_control(da_walk *w, da_taken *taken, const double *from, double *other)
{
    const double safety = w->numbers[2], slowest = w->numbers[3], present = w->numbers[6], less = w->numbers[7];
    const double least = ADVANCES * fabs(w->t), low = MAX(w->low, least), pair = 2 * low;
    const double past = w->numbers[5] * logarithm(w->carried[1]);
    double h = MAX(w->carried[0], pair), fastest = w->numbers[4], now, square;
    long rejected = 0, one, two;
    for (;;) {
        now = limit(w, w->t, h);
        da_taken whole = {other, w->t, now};
        const double half = now / 2;
        taken[0].length = half;
        if (RARELY((one = try_pair(w, from, other, taken, now)) < 0)) {
            if (RARELY(try_step(w, from, &whole, half, 0) < 0)) return 0;
            if (RARELY((one = try_step(w, from, taken, half, 1)) < 0)) return 0;
        }
        const double rest = limit(w, taken[0].t, half);
        taken[1].begin = taken[0].t;
        taken[1].length = rest;
        if (RARELY((two = try_step(w, taken[0].place, taken + 1, rest, 1)) < 0)) return 0;
        square = mean_square(w, from, taken[1].place, other);
        if (!RARELY(square > 1.0)) break;
        rejected++;
        const double shrink = isfinite(square) ? safety * power(less * logarithm(square)) : 0.25;
        h = now * MIN(MAX(shrink, 0.1), 0.9);
        fastest = 1.0;
        if (h < pair && now <= pair) return 0;
        h = MAX(h, pair);
    }
    double growth = safety * power(past - present * logarithm(square));
    growth = MIN(MAX(growth, slowest), fastest);
    const double longer = RARELY(now < h) ? h : 0.0, next = MAX(now, longer) * growth, error = sqrt(square);
    w->carried[0] = MIN(next, w->high);
    w->carried[1] = MAX(error, 1e-4);
    w->iterations += one + two;
    w->rejected += rejected;
    w->made += 3 * (rejected + 1);
    return 1;
}

/* Whether what is watched may have a zero in a step: for Python to find, and to end the run there. */
static int crossed(da_walk *w, const da_taken *taken)
{
    double *old = w->watched, *now = w->watched + w->n_watched;
    w->watch(taken->place, taken->t, w->par, now);
    for (long i = 0; i < w->n_watched; i++)
        if (!((now[i] > 0 && old[i] > 0) || (now[i] < 0 && old[i] < 0)) || !isfinite(now[i])) return 1;
    memcpy(old, now, w->n_watched * sizeof(double));
    return 0;
}

/* Steps until rows are full, the end is reached, or one is Python's to make (1) or to look at (0). */
INLINE long walk(da_walk *w, const int kind)
{
    const int steps = kind == ERROR ? 2 : 1;
    double *from = w->memory, *to = from + PLACE, *const middle = to + PLACE, *const other = middle + PLACE, begin = w->t;
    long ask = 0, watched = 0;
    while (!watched && w->t < w->t_end && w->row + 2 <= w->capacity && w->done < w->most) {
        da_taken taken[2] = {{kind == ERROR ? middle : to, w->t}, {to}};
        ask = !(kind == BACKOFF ? backoff(w, taken, from) : kind == ERROR ? error_control(w, taken, from, other)
                                                                          : reversible(w, taken, from));
        if (RARELY(ask)) break;
        for (int k = 0; k < steps; k++) {
            accept(w, taken + k);
            if (w->watch) watched = watched || crossed(w, taken + k);
        }
        begin = taken[steps - 1].begin;
        w->t = taken[steps - 1].t;
        double *const place = from; /* where the next ones begin, and what they may write over */
        from = to;
        to = place;
    }
    if (w->done && w->left < w->every) record(w, from, begin, w->t);
    memmove(w->memory, from, MEMORY * sizeof(double));
    return ask;
}

DA_EXPORT long da_control(da_walk *outside)
{
    da_walk w = *outside;
    const da_rule rule = *w.rule; /* near by, where nothing else writes */
    w.rule = &rule;
    if (w.watch) w.watch(w.memory, w.t, w.par, w.watched);
    const long ask = w.kind == BACKOFF ? walk(&w, BACKOFF) : w.kind == ERROR ? walk(&w, ERROR) : walk(&w, REVERSIBLE);
    w.rule = outside->rule;
    *outside = w;
    return ask;
}
