/* The loop of a controller of the error, which compares a step with two halves of it. A whole step and its first half are a pair
   nearly always; the second half is then written out beside it where SHORT, and what is rare is called. */

typedef struct {
    double *place; /* where it ends */
    double begin, length, t;
} da_taken; /* a step: when it begins, how long it is, and the time after it */

/* A step from one place to another, which may be kept or is for comparison; its iterations, or -1 where it is Python's. */
INLINE long step_to(da_walk *w, const double *from, da_taken *taken, double pace, int kept)
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

static __attribute__((noinline)) long try_step(da_walk *w, const double *from, da_taken *taken, double pace, int kept)
{
    return step_to(w, from, taken, pace, kept);
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
        two = SHORT ? step_to(w, taken[0].place, taken + 1, rest, 1) : try_step(w, taken[0].place, taken + 1, rest, 1);
        if (RARELY(two < 0)) return 0;
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

static long walk(da_walk *w)
{
    double *from = w->memory, *to = from + PLACE, *const middle = to + PLACE, *const other = middle + PLACE, begin = w->t;
    long ask = 0, watched = 0;
    while (!watched && w->t < w->t_end && w->row + 2 <= w->capacity && w->done < w->most) {
        da_taken taken[2] = {{middle, w->t}, {to}};
        ask = !error_control(w, taken, from, other);
        if (RARELY(ask)) break;
        for (int k = 0; k < 2; k++) {
            accept(w, taken + k);
            if (w->watch) watched = watched || crossed(w, taken[k].place, taken[k].t);
        }
        begin = taken[1].begin;
        w->t = taken[1].t;
        double *const place = from; /* where the next ones begin, and what they may write over */
        from = to;
        to = place;
    }
    if (w->done && w->left < w->every) record(w, from, begin, w->t);
    memmove(w->memory, from, MEMORY * sizeof(double));
    return ask;
}
