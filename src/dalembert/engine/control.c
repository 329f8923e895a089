/* Steps under a controller, around the loop of any compiled program. It repeats adaptive.py and control.py word by word. Every
   step that is not plain is left to them, from where it begins: one that fails, that ends at a bound, or that begins at a jump
   of the inputs after which a part of the state is to be found anew. The constants in capitals are those of Python. */

#include <math.h>
#include <string.h>

#define DA_EXPORT __attribute__((visibility("default")))
#define MAX(a, b) ((b) > (a) ? (b) : (a))
#define MIN(a, b) ((b) < (a) ? (b) : (a))
enum { BACKOFF, ERROR, REVERSIBLE };

typedef struct {
    long steps, iterations, failed;
    double size;
} da_outcome;

typedef void da_step(long, long, double, double, double *, double *, double *, const double *, const double *, long, long,
                     double *, double *, double *, double *, const void *, da_outcome *, double *, long, double *);
typedef void da_values(const double *state, double t, const double *par, double *out);

typedef struct {
    /* the program, and where the run stands: a memory, of which `state` is the beginning */
    da_step *step;
    const void *rule;
    double *work, *state, *last, *before, *kept;
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
    double *held, *whole;    /* room for a memory, and for a state */
    double t, t_end, low, high, end, resolution, carried[2], numbers[8], shortest, longest;
    long kind, n_state, n_memory, n_lam, n_u, n_times, n_jumps, n_nodes, n_watched, n_measured, settles, capacity;
    long done, iterations, rejected, made; /* what is added up from step to step */
    long time, jump;                       /* where the last search ended */
} da_walk;

typedef struct {
    double t, length[2], t_after[2];
    long count, iterations, rejected, made;
} da_tried; /* since the last step that was accepted */

/* How many of the sorted numbers are at most x; they are asked for from left to right. */
static long seek(const double *sorted, long count, double x, long *at)
{
    long k = *at;
    while (k < count && sorted[k] <= x) k++;
    while (k > 0 && sorted[k - 1] > x) k--;
    return *at = k;
}

static double stop(da_walk *w, double t)
{
    if (!w->n_jumps) return w->t_end;
    const double close = ROUNDED * MAX(fabs(t), fabs(w->t_end));
    const long after = seek(w->jumps, w->n_jumps, t + close, &w->jump);
    return after < w->n_jumps && w->jumps[after] < w->t_end - close ? w->jumps[after] : w->t_end;
}

static double limit(da_walk *w, double t, double h)
{
    const double end = stop(w, t), left = end - t;
    if (end != w->end) {
        w->end = end;
        w->resolution = 4 * (nextafter(fabs(end), INFINITY) - fabs(end));
    }
    return left - h <= MAX(STRETCH * h, 2 * w->resolution) ? left : h;
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

static int try_step(da_walk *w, da_tried *tried, double h, double pace)
{
    const long row = w->done + tried->count;
    const double begin = tried->count ? tried->t_after[tried->count - 1] : tried->t, end = stop(w, begin), t = begin + h;
    double *const looked = w->state + w->n_memory - 2; /* the length of the step that looked at the model, the steps since */
    const long look = !(looked[1] < WEIGH_EVERY && looked[0] <= LIKE * pace && pace <= LIKE * looked[0]);
    da_outcome outcome = {0, 0, -1, 0.0};
    if (w->settles && jumping(w, begin, h)) return 0;
    if (w->n_times && w->n_nodes) sample(w, begin, h);
    w->out_work[2 * row] = w->out_work[2 * row + 1] = 0.0;
    w->step(1, 0, begin, h, w->state, w->last, w->before, w->par, w->u, 0, 1, w->out_state + row * w->n_state,
            w->out_lam + row * w->n_lam, w->out_work + 2 * row, 0, w->rule, &outcome, w->kept, look, w->work);
    if (!outcome.steps) return 0;
    looked[0] = look ? pace : looked[0];
    looked[1] = look ? 1 : looked[1] + 1;
    tried->made++;
    tried->iterations += outcome.iterations;
    tried->length[tried->count] = h;
    tried->t_after[tried->count++] = fabs(t - end) <= SAME * MAX(fabs(t), fabs(end)) ? end : t;
    return 1;
}

static int plain(da_walk *w, da_tried *tried, double h) { return try_step(w, tried, h, h); }

static void copy(double *to, const double *from, long count) { memcpy(to, from, count * sizeof(double)); }

static void hold(da_walk *w)
{
    copy(w->held, w->state, w->n_memory);
}

static void back(da_walk *w, da_tried *tried)
{
    copy(w->state, w->held, w->n_memory);
    tried->count = tried->iterations = 0;
}

static int backoff(da_walk *w, da_tried *tried)
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

/* The error of two half steps over the tolerance, by comparison with a whole one. */
static int measure(da_walk *w, da_tried *tried, double h, double *error)
{
    const double rtol = w->numbers[0], atol = w->numbers[1], factor = w->numbers[2];
    double sum = 0.0;
    if (!try_step(w, tried, h, h / 2)) return 0;
    copy(w->whole, w->state, w->n_state);
    back(w, tried);
    if (!plain(w, tried, h / 2) || !plain(w, tried, limit(w, tried->t_after[0], h / 2))) return 0;
    for (long k = 0; k < w->n_measured; k++) {
        const long i = w->measured[k];
        const double begin = fabs(w->held[i]), end = fabs(w->state[i]), scale = atol + rtol * MAX(begin, end);
        const double ratio = (w->state[i] - w->whole[i]) / (factor * (scale > 0 ? scale : 1e-300));
        sum += ratio * ratio;
    }
    sum = sqrt(sum / (double)w->n_measured);
    *error = MAX(sum, 1e-10);
    return 1;
}

static int error_control(da_walk *w, da_tried *tried, double low)
{
    const double safety = w->numbers[3], slowest = w->numbers[4], exponent = w->numbers[6];
    const double pair = 2 * low, previous = w->carried[1];
    double h = MAX(w->carried[0], pair), fastest = w->numbers[5], now, error, growth;
    for (;;) {
        now = limit(w, tried->t, h);
        if (!measure(w, tried, now, &error)) return 0;
        if (!(error > 1.0)) break;
        back(w, tried);
        tried->rejected++;
        const double shrink = isfinite(error) ? safety * pow(error, -1 / exponent) : 0.25;
        h = now * MIN(MAX(shrink, 0.1), 0.9);
        fastest = 1.0;
        if (h < pair && now <= pair) return 0;
        h = MAX(h, pair);
    }
    growth = safety * exp((0.4 * log(previous) - 0.7 * log(error)) / exponent);
    growth = MIN(MAX(growth, slowest), fastest);
    const double longer = now < h ? h : 0.0, next = MAX(now, longer) * growth;
    w->carried[0] = MIN(next, w->high);
    w->carried[1] = MAX(error, 1e-4);
    return 1;
}

static int reversible(da_walk *w, da_tried *tried, double low)
{
    const double eps = w->carried[0], z = w->carried[1], h = z > 0 ? eps / z : -1.0;
    double look[2];
    if (h <= 0 || h < low || !plain(w, tried, limit(w, tried->t, h))) return 0;
    w->scale(w->state, tried->t_after[0], w->par, look);
    if (!(isfinite(look[0]) && look[0] > 0)) return 0;
    w->carried[1] = z + eps * look[1];
    return 1;
}

static int advance(da_walk *w, da_tried *tried)
{
    const double least = ADVANCES * fabs(tried->t), low = MAX(w->low, least);
    if (w->kind == BACKOFF) return backoff(w, tried);
    return w->kind == ERROR ? error_control(w, tried, low) : reversible(w, tried, low);
}

static void accept(da_walk *w, const da_tried *tried)
{
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
    hold(w);
}

/* Whether what is watched may have a zero in the steps that were accepted last: for Python to find, and to end the run there. */
static int crossed(da_walk *w, const da_tried *tried)
{
    for (long k = 0; k < tried->count; k++) {
        const long row = w->done - tried->count + k;
        double *old = w->watched, *now = w->watched + w->n_watched;
        w->watch(w->out_state + row * w->n_state, w->out_t[row], w->par, now);
        for (long i = 0; i < w->n_watched; i++)
            if (!((now[i] > 0 && old[i] > 0) || (now[i] < 0 && old[i] < 0)) || !isfinite(now[i])) return 1;
        copy(old, now, w->n_watched);
    }
    return 0;
}

/* Steps until rows are full, the end is reached, or one is Python's to make (1) or to look at (0). */
DA_EXPORT long da_control(da_walk *w)
{
    hold(w);
    if (w->watch) w->watch(w->state, w->t, w->par, w->watched);
    while (w->t < w->t_end && w->done + 2 <= w->capacity) {
        da_tried tried = {w->t, {0}, {0}, 0, 0, 0, 0};
        if (!advance(w, &tried)) {
            back(w, &tried);
            return 1;
        }
        accept(w, &tried);
        if (w->watch && crossed(w, &tried)) return 0;
    }
    return 0;
}
