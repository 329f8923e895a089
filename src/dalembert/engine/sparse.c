/* What stands after dollar signs is written in stepping.py.
   Large steps: the time loop, Newton's iteration and L D L^T factors of fixed pattern. The rule for stopping is that of newton.py,
   what is done for a change that of sparse.py, and factors are those of QDLDL, operation by operation: all bits are the same. */

typedef struct { void (*work)(double **, int **, const long *); double **a; int **p; const long *n; long back; } da_call;
typedef struct { const da_call *calls; long count; } da_list;

typedef struct {
    long n, possible, low; /* whether the pattern is symmetric, and its fill low */
    const double *data;
    const int *upper, *lower; /* the entries of the upper half, in the order of elimination, and those opposite */
    const int *perm, *begin, *row; /* the order of elimination; the upper half in it, column by column */
    const int *lp, *li, *starts, *list, *entry; /* columns of L; for each row those that it needs, in turn, and its entries there */
    const int *kind, *kinds; /* of rows and columns: the case that is written out for it */
    double *x, *l, *d, *inverse, *y, *z; /* y is zero */
    long half, mode, attempt, fresh, new, single, cheap, known;
} da_factor;

typedef struct {
    da_list guess, start, cuts, residual, slopes;
    long n, measured, linear, kin; const int *seen; /* unknowns that are measured: all where there is no list, none: the residual */
    double *x, *r, *scale, *size, *rounding, *step, *square, *times;
    long weigh, accept, round, lend, take, solve; /* what is asked back for */
    double base, floor, rate, goal, left;
    da_factor factor;
} da_solve;

typedef struct {
    da_solve *solves; long count;
    da_list finish;
    double *t, *u, *now, *after, *before, *work, *check;
    long n_state, n_unknowns, n_lam, n_u, working, broken;
    int (*back)(long);
} da_machine;

enum { NOTHING, DEFINITE, OTHER };
static const double EXACT = $exact, LOW = $low, STALLED = $stalled, LOST = $lost, PACE = $pace, SYMMETRIC = $symmetric, TINY = $tiny,
                    STUCK = $stuck, NOISE = $noise;

static void ask(da_machine *e, long what) { if (!e->broken && e->back(what)) e->broken = 1; }

static void run_list(da_machine *e, const da_list *l)
{
    for (long i = 0; i < l->count; i++) {
        const da_call *c = l->calls + i;
        if (c->work) c->work(c->a, c->p, c->n);
        else ask(e, c->back);
    }
}

/* ---- factors ---------------------------------------------------------------------------------------------------------- */

static int factorise(da_factor *f)
{
    const int *restrict lp = f->lp, *restrict li = f->li, *restrict begin = f->begin, *restrict row = f->row;
    double *restrict l = f->l, *restrict d = f->d, *restrict inverse = f->inverse, *restrict y = f->y;
    for (int k = 0; k < f->n; k++) {
        const int *restrict c = f->list + f->starts[k], *restrict e = f->entry + f->starts[k];
        const double *restrict v = f->x + begin[k];
        int count = f->starts[k + 1] - f->starts[k];
        double pivot = 0.0;
        switch (f->kind[k]) {
$rows        default:
            for (int p = begin[k]; p < begin[k + 1]; p++, v++)
                if (row[p] == k) pivot = *v;
                else y[row[p]] = *v;
            for (double own = count ? y[*c] : 0.0; count; count--, e++) { /* what the next column needs does not go by way of memory */
                const int at = *c++, first = lp[at], to = count > 1 ? *c : -1, direct = first < *e && li[first] == to;
                const double scaled = own * inverse[at], ahead = direct ? y[to] - l[first] * own : 0.0;
                pivot -= own * scaled;
                y[at] = 0.0;
                for (int j = first + direct; j < *e; j++) y[li[j]] -= l[j] * own;
                l[*e] = scaled;
                own = direct || to < 0 ? ahead : y[to];
            }
        }
        d[k] = pivot;
        if (pivot == 0.0) return 0;
        inverse[k] = 1 / pivot;
    }
    return 1;
}

static void back_solve(const da_factor *f, const double *restrict right, double *restrict out)
{
    const int *restrict lp = f->lp, *restrict li = f->li, *restrict perm = f->perm, *restrict kinds = f->kinds;
    const double *restrict l = f->l, *restrict inverse = f->inverse;
    double *restrict x = f->z, own, near = 0.0;
    const long n = f->n;
    for (long i = 0; i < n; i++) x[i] = right[perm[i]];
    own = x[0];
    /* what a neighbour needs goes by a register; products by themselves, where sums have to wait for each other */
    for (long i = 0; i < n; i++) {
        const int end = lp[i + 1];
        const double *restrict m = l + lp[i];
        double *to = x + li[lp[i]];
        near = x[i + 1];
        switch (kinds[i]) {
$there        default:;
            int j = lp[i];
            if (j < end && li[j] == i + 1) near -= l[j++] * own;
            for (; j + 3 < end; j += 4) {
                const int a = li[j], b = li[j + 1], c = li[j + 2], d = li[j + 3];
                const double xa = x[a] - l[j] * own, xb = x[b] - l[j + 1] * own;
                const double xc = x[c] - l[j + 2] * own, xd = x[d] - l[j + 3] * own;
                x[a] = xa, x[b] = xb, x[c] = xc, x[d] = xd;
            }
            for (; j < end; j++) x[li[j]] -= l[j] * own;
        }
        x[i] = own * inverse[i];
        own = near;
    }
    for (long i = n - 1; i >= 0; i--) {
        const int end = lp[i + 1];
        const double *restrict m = l + lp[i], *to = x + li[lp[i]];
        own = x[i];
        switch (kinds[i]) {
$back        default:;
            int j = lp[i];
            if (j < end && li[j] == i + 1) own -= l[j++] * near;
            for (; j + 3 < end; j += 4) {
                const double a = l[j] * x[li[j]], b = l[j + 1] * x[li[j + 1]];
                const double c = l[j + 2] * x[li[j + 2]], d = l[j + 3] * x[li[j + 3]];
                own -= a, own -= b, own -= c, own -= d;
            }
            for (; j < end; j++) own -= l[j] * x[li[j]];
        }
        x[i] = near = own;
        out[perm[i]] = own;
    }
}

/* Factorise the symmetric part; 0 where that is no good. */
static int definite(da_factor *f)
{
    const int first = f->mode == NOTHING;
    const double *data = f->data;
    if (first) {
        double skew = 0.0, size = 0.0;
        for (long i = 0; i < f->half; i++) {
            skew += fabs(data[f->upper[i]] - data[f->lower[i]]);
            size += fabs(data[f->upper[i]]);
        }
        if (!(size < 1.0 / 0.0) || skew > SYMMETRIC * size) return 0;
    }
    for (long i = 0; i < f->half; i++) f->x[i] = (data[f->upper[i]] + data[f->lower[i]]) * 0.5;
    if (!factorise(f)) return 0;
    if (first) {
        long up = 0, down = 0;
        for (long i = 0; i < f->n; i++) { up += f->d[i] > 0; down += f->d[i] < 0; }
        f->cheap = f->low;
        return up == f->n || down == f->n;
    }
    return 1;
}

static void drop(da_solve *s)
{
    da_factor *f = &s->factor;
    f->mode = NOTHING;
    f->attempt = f->possible;
    f->cheap = f->single = 0;
    *s->rounding = *s->times = 0.0;
    s->floor = s->base;
}

static void take(da_machine *e, da_solve *s)
{
    da_factor *f = &s->factor;
    s->rate = 0.0;
    f->known = 0;
    f->attempt = f->attempt && !f->fresh; /* the symmetric part did not serve in this very solve */
    f->fresh = 1;
    if (f->attempt && definite(f)) { f->mode = DEFINITE; return; }
    f->attempt = f->cheap = 0;
    f->mode = OTHER;
    ask(e, s->take);
}

/* ---- changes ---------------------------------------------------------------------------------------------------------- */

/* The square of the size of a change that is made; entry by entry, in vectors. */
static __attribute__((optimize("O3", "tree-vectorize"))) double measured(da_solve *s)
{
    double *restrict square = s->square, *restrict x = s->x;
    const double *restrict step = s->step, *restrict scale = s->scale;
    long wild = 0;
    for (long i = 0; i < s->n; i++) {
        x[i] -= step[i];
        wild |= !(fabs(step[i]) < 1.0 / 0.0);
    }
    const long m = s->measured < 0 ? s->n : s->measured;
    if (s->measured < 0)
        for (long i = 0; i < m; i++) square[i] = s->r[i] * scale[i];
    else if (s->seen)
        for (long i = 0; i < m; i++) {
            const double own = step[s->seen[i]] / (fabs(x[s->seen[i]]) + scale[i] + TINY);
            square[i] = own;
        }
    else
        for (long i = 0; i < m; i++) square[i] = step[i] / (fabs(x[i]) + scale[i] + TINY);
    return wild ? NAN : total(square, square, m) / (double)m;
}

static void values(da_machine *e, da_solve *s) { run_list(e, &s->cuts); run_list(e, &s->residual); }

static double largest(const double *r, long n)
{
    double out = 0.0;
    for (long i = 0; i < n; i++)
        if (!(fabs(r[i]) <= out)) out = fabs(r[i]);
    return out;
}

/* The factors of a later solve, where they serve this one; none where they do not. */
static const da_factor *lent(const da_machine *e, const da_solve *s)
{
    const da_factor *f = s->kin < 0 || *s->times == 0.0 ? 0 : &e->solves[s->kin].factor;
    return f && f->mode == DEFINITE ? f : 0;
}

static void change(da_machine *e, da_solve *s)
{
    const da_factor *f = lent(e, s);
    if (f) {
        back_solve(f, s->r, s->step);
        for (long i = 0; i < s->n; i++) s->step[i] *= *s->times;
    } else if (s->factor.mode == DEFINITE) back_solve(&s->factor, s->r, s->step);
    else ask(e, s->solve);
    *s->size = measured(s);
    s->left = *s->rounding > 0.0 ? largest(s->r, s->n) : 0.0;
}

static void update(da_machine *e, da_solve *s, int looked)
{
    da_factor *f = &s->factor;
    const double before = *s->size, previous = s->left;
    const long first = f->new;
    f->new = 0;
    s->goal *= PACE;
    if (first && f->single && !looked) { *s->size = 0.0; return; } /* one change with its own factors solves a linear equation */
    values(e, s);
    change(e, s);
    const double size = *s->size;
    f->known++;
    if (previous > *s->rounding && s->left < previous) {
        const double ratio = (s->left / previous) * (s->left / previous);
        if (ratio > s->rate) s->rate = ratio;
    }
    if (size > LOW && before > 0.0 && size / before > s->rate) s->rate = size < before ? size / before : 1.0;
    if (first && s->linear) f->single = size <= EXACT || s->left < *s->rounding;
    if (f->fresh && f->mode == OTHER && STUCK * before < size && size <= NOISE && 4 * size > s->floor) s->floor = 4 * size;
    if (*s->rounding > 0.0 && 0.0 < before) { /* rounding may be all that is left */
        const double ratio = size / before, left = s->left, worst = !(ratio >= s->rate) ? s->rate : ratio;
        if ((f->known > 1 && left * sqrt(worst) <= LOST * *s->rounding) || (ratio > STALLED && left <= *s->rounding)) *s->size = 0.0;
    }
}

static void anew(da_machine *e, da_solve *s)
{
    const int first = s->factor.mode == NOTHING;
    *s->times = 0.0;
    values(e, s);
    run_list(e, &s->slopes);
    if (first) ask(e, s->round);
    take(e, s);
    if (first && s->factor.mode == DEFINITE && s->factor.cheap) ask(e, s->lend);
    change(e, s);
    s->factor.new = 1;
    s->goal = 0.0;
}

static void renew(da_machine *e, da_solve *s, int looked)
{
    if (s->factor.new || *s->size <= s->goal) update(e, s, looked);
    else anew(e, s);
}

static void begin(da_machine *e, da_solve *s)
{
    s->factor.fresh = s->factor.new = 0;
    run_list(e, &s->guess);
    run_list(e, &s->start);
    const int borrowed = lent(e, s) != 0;
    if (borrowed) s->rate = 0.0; /* they are new */
    if (!borrowed && (s->factor.mode == NOTHING || s->factor.cheap)) anew(e, s);
    else { values(e, s); change(e, s); }
    s->goal = *s->size;
}

/* The number of iterations, negative for failure. */
static long iterate(da_machine *e, da_solve *s, const da_rule *rule, int *looked)
{
    int look = *looked, renewed = 0;
    long k = 1;
    begin(e, s);
    double size = *s->size;
    if (!(size <= rule->tolerance)) {
        if (!(size <= rule->refresh)) {
            look = look || !(size <= 1.0);
            renewed = 1;
        }
        for (k = 2;; k++) {
            if (k > rule->max_iterations) return 1 - k;
            const double previous = size;
            if (renewed) renew(e, s, *looked);
            else update(e, s, *looked);
            if (e->broken) return -k;
            size = *s->size;
            renewed = 0;
            if ((size * size <= rule->tolerance * previous && size * s->rate <= rule->tolerance) || size <= rule->tolerance) break;
            if (!(size < 1e300)) return -k;
            if (size > rule->stagnation * previous && size <= rule->floor && size <= s->floor) { look = 1; break; }
            if (size > rule->refresh * previous) {
                look = look || size > previous || size > rule->refresh;
                renewed = 1;
            }
        }
    }
    if (look) {
        *looked = 1;
        ask(e, s->accept);
        return *s->size <= rule->limit ? k : -k;
    }
    return k;
}

static void record(const da_machine *e, long row, double *state, double *lam, double *unknowns)
{
    const double *now = e->now;
    memcpy(state + row * e->n_state, now, e->n_state * sizeof *now);
    memcpy(lam + row * e->n_lam, now + e->n_state + e->n_unknowns, e->n_lam * sizeof *now);
    if (unknowns) memcpy(unknowns + row * e->n_unknowns, now + e->n_state, e->n_unknowns * sizeof *now);
}

DA_EXPORT void da_steps(da_machine *e, long steps, long first, double t0, double h, const double *inputs, long varying,
                        long save_every, double *out_state, double *out_lam, double *out_work, double *out_unknowns,
                        const da_rule *rule, long look, da_outcome *out)
{
    long row = 0, iterations = 0, done = 0;
    int failed = -1;
    e->broken = 0;
    for (long i = 0; i < e->count; i++) drop(e->solves + i);
    for (; done < steps; done++) {
        const int looking = done == 0 ? look != 0 : (first + done) % $weigh == 0;
        int looked = looking;
        *e->t = t0 + (double)(first + done) * h;
        if (varying) memcpy(e->u, inputs + done * e->n_u, e->n_u * sizeof(double));
        for (int i = 0; i < e->count && failed < 0; i++) {
            da_solve *s = e->solves + i;
            if (looking) {
                ask(e, s->weigh);
                drop(s);
            }
            const long count = iterate(e, s, rule, &looked);
            if (count < 0) failed = i;
            else iterations += count;
        }
        if (failed < 0) {
            run_list(e, &e->finish);
            if (!(*e->check < 1e300)) failed = e->count;
        }
        if (e->broken || failed >= 0) break;
        memcpy(e->before, e->now + e->n_state, e->n_unknowns * sizeof(double));
        memcpy(e->now, e->after, (e->n_state + e->n_unknowns + e->n_lam) * sizeof(double));
        if (e->working) {
            out_work[2 * row] += e->work[0];
            out_work[2 * row + 1] += e->work[1];
        }
        if ((first + done + 1) % save_every == 0) record(e, row++, out_state, out_lam, out_unknowns);
    }
    if (done && (first + done) % save_every) record(e, row, out_state, out_lam, out_unknowns);
    out->steps = done;
    out->iterations = iterations;
    out->failed = failed;
    out->size = failed < 0 ? 0.0 : failed == e->count ? NAN : *e->solves[failed].size;
}
