/* The loop of a controller that makes one step after the other: that of loop.c, with a length found before each step. What
   stands after dollar signs is written from the functions of a program; see walking.py. */

$scale

/* The length that the controller wants a step to have; 0 where the step is Python's. */
INLINE double wanted(const da_walk *w, double t)
{
#if SCALED
    const double eps = w->carried[0], z = w->carried[1], h = eps / z, least = ADVANCES * fabs(t), low = MAX(w->low, least);
    return RARELY(!(z > 0) || h <= 0 || h < low) ? 0.0 : h;
#else
    return w->carried[0];
#endif
}

/* What the controller makes of a step, before that is taken; 0 where the step is Python's. */
INLINE int judged(da_walk *w, const double *state, double t, const double *par)
{
#if SCALED
    const double eps = w->carried[0], z = w->carried[1], follow = w->numbers[0], since = w->carried[2] + 1;
    if (since >= follow) {
        double look[2]; /* the time scale and its change */
        da_scale(state, t, par, look);
        if (RARELY(!(isfinite(look[0]) && look[0] > 0))) return 0;
        w->carried[1] = z + follow * eps * look[1];
        w->carried[2] = 0;
    } else
        w->carried[2] = since;
#else
    const double grow = w->numbers[0], after = w->numbers[1];
    w->carried[1] += 1;
    if (w->carried[1] >= after) {
        w->carried[0] = MIN(grow * w->carried[0], w->high);
        w->carried[1] = 0;
    }
#endif
    return 1;
}

static long walk(da_walk *walk)
{
    const da_memory from = memory(walk->memory), to = from;
    const da_rule limits = *walk->rule;
    const double *const par = walk->par, *const u = walk->u;
    double *const state = from.state, *const w = walk->work;
    double *const out_state = walk->out_state, *const out_lam = walk->out_lam, *const out_work = walk->out_work;
    long row = walk->row, iterations = walk->iterations, left = walk->left, done = walk->done, ask = 0;
    int failed = -1, watched = 0;
    double size = 0, t = walk->t, begin = t, scale[$scales], held[$scales], last[$unknowns + 1], before[$unknowns + 1];
    double length = from.kept[KEPT - 2], since = from.kept[KEPT - 1]; /* of the step that looked at the model; steps since */
    $begin
    $memory
    for (int j = 0; j < $scales - 1; j++) scale[j] = from.kept[j];
    $load
    while (!watched && t < walk->t_end && row + 2 <= walk->capacity && done < walk->most) {
        const double wish = wanted(walk, t), h = limit(walk, t, wish), end = stop(walk, t);
        const int looking = SOLVES && DA_RARELY(!(since < WEIGH_EVERY && length <= LIKE * h && h <= LIKE * length));
        const long counted = iterations;
        int looked = looking;
        ask = RARELY(wish == 0) || (INPUTS && walk->settles && jumping(walk, t, h));
        if (RARELY(ask)) break;
        if (INPUTS && walk->n_times && walk->n_nodes) sample(walk, t, h);
        if (DA_RARELY(looking)) memcpy(held, scale, sizeof held);
        $hold
        $run
        $solves
        $finish
        if (!($check < 1e300)) { failed = $count; goto end; }
        const double then = RARELY(h == end - t) ? end : t + h; /* what `limit` does not shorten ends well before */
        {
            double next[STATES + 1];
            $after
            if (!judged(walk, next, then, par)) { failed = $count; goto end; }
        }
        length = looking ? h : length;
        since = looking ? 1 : since + 1;
        $older
        $shift
        $work
        $next
        begin = t;
        t = then;
        walk->shortest = MIN(walk->shortest, h);
        walk->longest = MAX(walk->longest, h);
        done++;
        if (--left == 0) {
            $write
            walk->out_begin[row] = begin;
            walk->out_t[row] = t;
            row++;
            left = walk->every;
        }
        if (walk->watch) {
            $store
            watched = crossed(walk, state, t);
        }
        continue;
    end: /* nothing of the step is kept */
        iterations = counted;
        if (looking) memcpy(scale, held, sizeof held);
        $undo
        ask = 1;
        break;
    }
    if (done && left < walk->every) {
        $write
        walk->out_begin[row] = begin;
        walk->out_t[row] = t;
    }
    $store
    for (int j = 0; j < $scales - 1; j++) to.kept[j] = scale[j];
    $keep
    $end
    to.kept[KEPT - 2] = length;
    to.kept[KEPT - 1] = since;
    walk->t = t;
    walk->row = row;
    walk->left = left;
    walk->done = done;
    walk->made += done;
    walk->iterations = iterations;
    return ask;
}
