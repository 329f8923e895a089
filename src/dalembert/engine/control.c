/* Steps under a controller, written after the loop of a program, whose step is taken in. It repeats adaptive.py and control.py
   word by word. Every step that is not plain is left to them, from where it begins: one that fails, that ends at a bound, or
   that begins at a jump of the inputs after which a part of the state is to be found anew. The constants in capitals are those
   of Python, and the sizes of the program; STEP is how a step is taken in. */

#include <string.h>

#define MEMORY (STATES + 2 * UNKNOWNS + KEPT)
#define INLINE static inline __attribute__((always_inline))
#define MAX(a, b) ((b) > (a) ? (b) : (a))
#define MIN(a, b) ((b) < (a) ? (b) : (a))
enum { BACKOFF, ERROR, REVERSIBLE };

typedef void da_values(const double *state, double t, const double *par, double *out);

typedef struct {
    const da_rule *rule;
    double *work, *memory; /* where the run stands, and room for three more */
    const double *par;
    /* rows: the times after them, and what a step leaves */
    double *out_t, *out_state, *out_lam, *out_work;
    /* inputs of one step; where they are samples, their times, values and jumps, and the nodes of a step */
    double *u;
    const double *times, *values, *jumps, *nodes;
    /* functions of the state: the time scale of a controller and its change; what has zeros that are looked for */
    da_values *scale, *watch;
    double *watched;         /* room for two rows of them */
    const long *measured;    /* entries of the state whose error is measured */
    double t, t_end, low, high, end, resolution, carried[2], numbers[10], shortest, longest;
    long kind, n_u, n_times, n_jumps, n_nodes, n_watched, n_measured, settles, capacity;
    long done, iterations, rejected, made; /* what is added up from step to step */
    long time, jump;                       /* where the last search ended */
} da_walk;

typedef struct {
    double t, length[2], t_after[2];
    long count, iterations, rejected, made;
    const double *begin; /* the memory before them, and room for three more: no step writes over what another begins with */
    double *room[3];
} da_tried; /* since the last step that was accepted */

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
    if (end != w->end) {
        w->end = end;
        w->resolution = 4 * (nextafter(fabs(end), INFINITY) - fabs(end));
    }
    /* foretold, so that the step does not wait for it */
    return __builtin_expect(left - h <= MAX(STRETCH * h, 2 * w->resolution), 0) ? left : h;
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

STEP int try_step(da_walk *w, da_tried *tried, const double *from, double *to, double h, double pace)
{
    const long row = w->done + tried->count;
    const double begin = tried->count ? tried->t_after[tried->count - 1] : tried->t, end = stop(w, begin), t = begin + h;
    const double *const before = from + MEMORY - 2; /* the length of the step that looked at the model, the steps since */
    double *const after = to + MEMORY - 2;
    const long look = !(before[1] < WEIGH_EVERY && before[0] <= LIKE * pace && pace <= LIKE * before[0]);
    da_outcome outcome = {0, 0, -1, 0.0};
    if (INPUTS && w->settles && jumping(w, begin, h)) return 0;
    if (INPUTS && w->n_times && w->n_nodes) sample(w, begin, h);
    if (WORKING) w->out_work[2 * row] = w->out_work[2 * row + 1] = 0.0;
    da_steps(1, 0, begin, h, memory(from), memory(to), w->par, w->u, 0, 1, w->out_state + row * STATES, w->out_lam + row * LAMS,
             w->out_work + 2 * row, 0, w->rule, &outcome, look, w->work);
    if (!outcome.steps) return 0;
    after[0] = look ? pace : before[0];
    after[1] = look ? 1 : before[1] + 1;
    tried->made++;
    tried->iterations += outcome.iterations;
    tried->length[tried->count] = h;
    tried->t_after[tried->count++] = fabs(t - end) <= SAME * MAX(fabs(t), fabs(end)) ? end : t;
    return 1;
}

INLINE int plain(da_walk *w, da_tried *tried, double h) { return try_step(w, tried, tried->begin, tried->room[0], h, h); }

INLINE void back(da_tried *tried) { tried->count = tried->iterations = 0; }

INLINE int backoff(da_walk *w, da_tried *tried)
{
    const double grow = w->numbers[0], after = w->numbers[1];
    double h = w->carried[0], good = w->carried[1];
    if (!plain(w, tried, limit(w, tried->t, h))) return 0;
    good += 1;
    if (good >= after) {
        h = MIN(grow * h, w->high);
        good = 0;
    }
    w->carried[0] = h;
    w->carried[1] = good;
    return 1;
}

/* The mean square of the error of two half steps over the tolerance, by comparison with a whole one. */
INLINE int measure(da_walk *w, da_tried *tried, double h, double *square)
{
    const double rtol = w->numbers[0], atol = w->numbers[1], factor = w->numbers[2];
    const double half = h / 2, *const first = tried->begin;
    double sum = 0.0, *const halves = tried->room[0], *const middle = tried->room[1], *const whole = tried->room[2];
    if (!try_step(w, tried, first, whole, h, half)) return 0;
    back(tried);
    if (!try_step(w, tried, first, middle, half, half)) return 0;
    const double rest = limit(w, tried->t_after[0], half);
    if (!try_step(w, tried, middle, halves, rest, rest)) return 0;
    for (long k = 0; k < w->n_measured; k++) {
        const long i = w->measured[k];
        const double begin = fabs(first[i]), end = fabs(halves[i]), scale = atol + rtol * MAX(begin, end);
        const double ratio = (halves[i] - whole[i]) / (factor * (scale > 0 ? scale : 1e-300));
        sum += ratio * ratio;
    }
    sum *= 1 / (double)w->n_measured;
    *square = MAX(sum, 1e-20);
    return 1;
}

INLINE int error_control(da_walk *w, da_tried *tried, double low)
{
    const double safety = w->numbers[3], slowest = w->numbers[4], present = w->numbers[7], less = w->numbers[8];
    const double pair = 2 * low, past = w->numbers[6] * log(w->carried[1]); /* while the steps are made */
    double h = MAX(w->carried[0], pair), fastest = w->numbers[5], now, square, growth;
    for (;;) {
        now = limit(w, tried->t, h);
        if (!measure(w, tried, now, &square)) return 0;
        if (!(square > 1.0)) break;
        back(tried);
        tried->rejected++;
        const double shrink = isfinite(square) ? safety * pow(square, less) : 0.25;
        h = now * MIN(MAX(shrink, 0.1), 0.9);
        fastest = 1.0;
        if (h < pair && now <= pair) return 0;
        h = MAX(h, pair);
    }
    growth = safety * exp(past - present * log(square));
    growth = MIN(MAX(growth, slowest), fastest);
    const double longer = now < h ? h : 0.0, next = MAX(now, longer) * growth;
    w->carried[0] = MIN(next, w->high);
    const double error = sqrt(square);
    w->carried[1] = MAX(error, 1e-4);
    return 1;
}

INLINE int reversible(da_walk *w, da_tried *tried, double low)
{
    const double eps = w->carried[0], z = w->carried[1], h = eps / z;
    double look[2];
    if (!(z > 0) || h <= 0 || h < low || !plain(w, tried, limit(w, tried->t, h))) return 0;
    w->scale(tried->room[0], tried->t_after[0], w->par, look);
    if (!(isfinite(look[0]) && look[0] > 0)) return 0;
    w->carried[1] = z + eps * look[1];
    return 1;
}

INLINE int advance(da_walk *w, da_tried *tried)
{
    const double least = ADVANCES * fabs(tried->t), low = MAX(w->low, least);
    if (w->kind == BACKOFF) return backoff(w, tried);
    return w->kind == ERROR ? error_control(w, tried, low) : reversible(w, tried, low);
}

/* The memory after the steps that were tried is where the next ones begin. */
INLINE void accept(da_walk *w, da_tried *tried)
{
    double *const after = tried->room[0];
    for (long k = 0; k < tried->count; k++) {
        w->out_t[w->done + k] = tried->t_after[k];
        w->shortest = MIN(w->shortest, tried->length[k]);
        w->longest = MAX(w->longest, tried->length[k]);
    }
    w->t = tried->t_after[tried->count - 1];
    w->done += tried->count;
    w->iterations += tried->iterations;
    w->rejected += tried->rejected;
    w->made += tried->made;
    tried->room[0] = (double *)tried->begin;
    tried->begin = after;
}

/* Whether what is watched may have a zero in the steps that were accepted last: for Python to find, and to end the run there. */
static int crossed(da_walk *w, const da_tried *tried)
{
    for (long k = 0; k < tried->count; k++) {
        const long row = w->done - tried->count + k;
        double *old = w->watched, *now = w->watched + w->n_watched;
        w->watch(w->out_state + row * STATES, w->out_t[row], w->par, now);
        for (long i = 0; i < w->n_watched; i++)
            if (!((now[i] > 0 && old[i] > 0) || (now[i] < 0 && old[i] < 0)) || !isfinite(now[i])) return 1;
        memcpy(old, now, w->n_watched * sizeof(double));
    }
    return 0;
}

/* Steps until rows are full, the end is reached, or one is Python's to make (1) or to look at (0). */
DA_EXPORT long da_control(da_walk *w)
{
    double *const m = w->memory;
    da_tried tried = {0, {0}, {0}, 0, 0, 0, 0, m, {m + MEMORY, m + 2 * MEMORY, m + 3 * MEMORY}};
    long ask = 0, watched = 0;
    if (w->watch) w->watch(w->memory, w->t, w->par, w->watched);
    while (!ask && !watched && w->t < w->t_end && w->done + 2 <= w->capacity) {
        tried.t = w->t;
        tried.count = tried.iterations = tried.rejected = tried.made = 0;
        ask = !advance(w, &tried);
        if (ask) break;
        accept(w, &tried);
        watched = w->watch && crossed(w, &tried);
    }
    memmove(m, tried.begin, MEMORY * sizeof(double));
    return ask;
}
