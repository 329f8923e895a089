/* Steps by sweeps over all stages, one stage in each lane of a vector; see methods/sweeping.py and engine/sweeps.py.
   The first step of every block of $block steps tells whether the sweeps contract there; where they do not, the call ends,
   and the rest of the block is made by Newton's iteration. */

#if defined(__GNUC__) && !defined(__clang__)
#define DA_UNROLL _Pragma("GCC unroll 64")
#else
#define DA_UNROLL _Pragma("unroll")
#endif

/* Vectors as long as the processor has them; what is longer, compilers break up badly. */
#if defined(__AVX__) /* twice as long ones, where there are any, are no faster here: their results come later */
#define DA_LONGEST 4
#else
#define DA_LONGEST 2
#endif
#define DA_W (DA_LONGEST < $lanes ? DA_LONGEST : $lanes)
#define DA_PARTS (($stages + DA_W - 1) / DA_W)
#define DA_EACH DA_UNROLL for (int p = 0; p < DA_PARTS; p++)
#define DA_LANE(x, e) (x).p[(e) / DA_W][(e) % DA_W]

typedef double W __attribute__((vector_size(8 * DA_W)));
typedef long long I __attribute__((vector_size(8 * DA_W)));
typedef struct {
    W p[DA_PARTS];
} V; /* all stages */

DA_EXPORT const long da_work = $length;

static inline double da_larger(double a, double b) { return a > b ? a : b; } /* no call, as fmax is one */

static inline W da_wide(double x) { return x - (W){0}; }

static inline V da_all(double x)
{
    V r;
    DA_EACH r.p[p] = da_wide(x);
    return r;
}

static inline double da_total(V x)
{
    W w = x.p[0];
    DA_UNROLL
    for (int p = 1; p < DA_PARTS; p++) w += x.p[p];
    double sum = w[0] + w[1];
    DA_UNROLL
    for (int i = 2; i < DA_W; i += 2) sum += w[i] + w[i + 1];
    return sum;
}

/* Each lane gets the number of the one before it. */
#if DA_W == 4
#define DA_BEFORE 7, 0, 1, 2
#else
#define DA_BEFORE 3, 0
#endif
static inline V da_shift(V x, double first)
{
    V r;
    W before = da_wide(first);
    DA_EACH {
#if defined(__clang__)
        r.p[p] = __builtin_shufflevector(x.p[p], before, DA_BEFORE);
#else
        r.p[p] = __builtin_shuffle(x.p[p], before, (I){DA_BEFORE});
#endif
        before = x.p[p];
    }
    return r;
}

/* The lanes of a row of numbers, zero beyond the last. */
static inline V da_row(const double *row, double factor)
{
    V r = da_all(0);
    for (int e = 0; e < $stages; e++) DA_LANE(r, e) = factor * row[e];
    return r;
}

/* Sine and cosine of all lanes to less than one unit in the last place: pi/2 in parts of 33 bits (Cody, Waite 1980), and the
   polynomials of fdlibm (Sun Microsystems 1993). What is too far away for that, or no number, is left to the C library. */
#define DA_FAR 4e5
#define DA_ROUND 6755399441055744.0 /* 1.5 * 2^52: what is added to it is rounded to an integer, which stands in its last bits */
static inline W da_pick(I mask, W a, W b) { return (W)(((I)a & mask) | ((I)b & ~mask)); }

static inline int da_near(W x)
{
    const I beyond = ~((x <= da_wide(DA_FAR)) & (x >= da_wide(-DA_FAR)));
    long long any = beyond[0];
    DA_UNROLL
    for (int e = 1; e < DA_W; e++) any |= beyond[e];
    return !any;
}

/* The sine of x + turns * pi / 2. */
static inline W da_turned(W x, long turns)
{
    const W rounded = x * 0.63661977236758138 + DA_ROUND, n = rounded - DA_ROUND, t = x - n * 1.57079632673412561417e+00;
    const W r = t - n * 6.07710050630396597660e-11, w = n * 2.02226624879595063154e-21 - ((t - r) - n * 6.07710050630396597660e-11);
    const W y = r - w, rest = (r - y) - w, z = y * y, v = z * y, zz = z * z, half = 0.5 * z, one = 1.0 - half;
    const W s = 8.33333333332248946124e-03 + z * (-1.98412698298579493134e-04 + z * 2.75573137070700676789e-06)
              + z * zz * (-2.50507602534068634195e-08 + z * 1.58969099521155010221e-10);
    const W c = z * (4.16666666666666019037e-02 + z * (-1.38888888888741095749e-03 + z * 2.48015872894767294178e-05))
              + zz * zz * (-2.75573143513906633035e-07 + z * (2.08757232129817482790e-09 + z * -1.13596475577881948265e-11));
    const W sine = y - ((z * (0.5 * rest - v * s) - rest) - v * -1.66666666666666324348e-01);
    const W cosine = one + (((1.0 - one) - half) + (z * c - y * rest));
    const I quarter = (I)rounded + turns;
    return (W)((I)da_pick(-(quarter & 1), cosine, sine) ^ ((quarter & 2) << 62));
}

static inline W da_sin(W x)
{
    W r;
    if (__builtin_expect(da_near(x), 1)) return da_turned(x, 0);
    for (int e = 0; e < DA_W; e++) r[e] = sin(x[e]);
    return r;
}

static inline W da_cos(W x)
{
    W r;
    if (__builtin_expect(da_near(x), 1)) return da_turned(x, 1);
    for (int e = 0; e < DA_W; e++) r[e] = cos(x[e]);
    return r;
}

$tables
$functions

/* Entry j of a table is what acceleration j adds to all stages. */
static inline V da_sum(V start, const V *table, V x)
{
    V other = da_all(0);
    DA_UNROLL
    for (int j = 0; j + 1 < $stages; j += 2) {
        const W a = da_wide(DA_LANE(x, j)), b = da_wide(DA_LANE(x, j + 1));
        DA_EACH start.p[p] += table[j].p[p] * a;
        DA_EACH other.p[p] += table[j + 1].p[p] * b;
    }
    if ($stages % 2) DA_EACH start.p[p] += table[$stages - 1].p[p] * da_wide(DA_LANE(x, $stages - 1));
    DA_EACH start.p[p] += other.p[p];
    return start;
}

/* What a step begins with. */
#if $masses
#define DA_BACK_MASSES for (int k = 0; k < $n; k++) { S[k] = old_S[k]; ended[k] = v[k]; }
#else
#define DA_BACK_MASSES
#endif
#define DA_BACK \
    for (int k = 0; k < $n; k++) a[k] = old_a[k]; \
    for (int k = 0; k < $m; k++) l[k] = old_l[k]; \
    DA_BACK_MASSES

DA_EXPORT void da_run(long steps, long first, double t0, double h, double *state, double *last, double *before,
                      const double *par, const double *inputs, long varying, long save_every, double *out_state,
                      double *out_lam, double *out_work, double *out_unknowns, const da_rule *rule, da_outcome *outcome,
                      double *kept, long asked, double *w)
{
    const da_rule limits = *rule;
    const double *u = inputs;
    long row = 0, iterations = 0, i = 0, left = save_every == 1 ? 1 : save_every - first % save_every;
    int failed = -1;
    double size = 0, t = 0, scale[$scales], x[$unknowns + 1], q[$n], v[$n], lam[$reported + 1], mu[$m + 1];
    V D[$stages], B[$stages], a[$n], l[$m + 1], old_a[$n], old_l[$m + 1];
    const V c = da_row(da_c, h), ends = da_row(da_ends, h);
    for (int j = 0; j < $stages; j++) {
        D[j] = da_row(da_D[j], 1 / (h * h));
        B[j] = da_row(da_B[j], h);
    }
#if $masses /* entries of M(q); S are the velocities of the stages, `ended` that at the end of the last step */
#define DA_P momenta
#define DA_REACH h
    double ended[$n];
    V A[$stages], X[$stages], Y[$stages], S[$n], old_S[$n];
    for (int j = 0; j < $stages; j++) {
        A[j] = da_row(da_A[j], h);
        X[j] = da_row(da_X[j], 1);
        Y[j] = da_row(da_Y[j], 1 / h);
    }
#else
#define DA_P v
#define DA_REACH (h * h)
    double reached[$n];
    V K[$stages], X[$points], Z[$recent];
    for (int j = 0; j < $stages; j++) K[j] = da_row(da_K[j], h * h);
    for (int j = 0; j < $points; j++) X[j] = da_row(da_X[j], 1);
    for (int j = 0; j < $recent; j++) Z[j] = da_row(da_Z[j], 1);
#endif
    DA_UNROLL
    for (int k = 0; k < $n; k++) { q[k] = state[k]; v[k] = state[$n + k]; }
    for (int j = 0; j < $scales - 1; j++) scale[j] = kept[j];
    long least = 0; /* sweeps that a step takes at least: more where its equations did not hold after fewer */
    int again = 0;
    $unpack
    $run
    for (i = 0; i < steps; i++) {
        const int looking = i == 0 ? asked != 0 : ((first + i) & ($block - 1)) == 0;
        const long most = looking ? $many : $most;
        double previous = 1, mark = 1e300, q1[$n], v1[$n], check = 0, work[2] = {0, 0};
        int look = looking;
        long count = 0;
        V Q[$n], P[$n], U[$n], g[$m + 1], r[$m + 1];
        t = t0 + (double)(first + i) * h;
        if (looking) { $store }
        if (looking) weigh0(w, state, 0, 0, par, u, 0, t, h, scale);
        double far[$groups], weight[$groups];
        for (int j = 0; j < $groups; j++) far[j] = 0;
        DA_UNROLL
        for (int k = 0; k < $n; k++) far[da_group[k]] = da_larger(far[da_group[k]], fabs(q[k]));
        DA_UNROLL
        for (int k = 0; k < $n; k++) weight[da_group[k]] = 1 / (far[da_group[k]] + DA_REACH * scale[k] + 1e-300);
        /* the polynomial of the last step */
#if $masses
        double momenta[$n];
        $momenta
        DA_UNROLL
        for (int k = 0; k < $n; k++) {
            old_a[k] = a[k];
            old_S[k] = S[k];
            a[k] = da_sum(da_all(0), X, a[k]);
            S[k] = da_sum(da_all(0), X, S[k]);
            Q[k] = da_sum(da_all(q[k]), A, S[k]);
        }
        V M[$masses];
        $masses_of
        if (looking) { /* the steps before may be of another kind: rates are those of the momenta that belong to the velocities */
            $momenta_of
            for (int k = 0; k < $n; k++) {
                DA_EACH U[k].p[p] -= da_wide(momenta[k]);
                a[k] = da_sum(da_all(0), Y, U[k]);
            }
        }
#else
        DA_UNROLL
        for (int k = 0; k < $n; k++) {
            V sum = da_all(0);
            old_a[k] = a[k];
            if (looking) { /* the steps before may be of another kind: only what is common to all is used */
                DA_UNROLL
                for (int j = 0; j < $recent; j++) {
                    const W x = da_wide(DA_LANE(a[k], j + $skip));
                    DA_EACH sum.p[p] += Z[j].p[p] * x;
                }
            } else {
                DA_UNROLL
                for (int j = 0; j < $points; j++) {
                    const W x = da_wide(j < $recent ? DA_LANE(a[k], (j < $recent ? j : 0) + $skip) : reached[k]);
                    DA_EACH sum.p[p] += X[j].p[p] * x;
                }
            }
            a[k] = sum;
            Q[k] = da_all(q[k]);
        }
#endif
        for (int k = 0; k < $m; k++) old_l[k] = l[k];
        for (;;) {
            V change[$groups], total = da_all(0);
            for (int j = 0; j < $groups; j++) change[j] = total;
#if $masses
            DA_UNROLL
            for (int k = 0; k < $n; k++) U[k] = da_sum(da_all(momenta[k]), B, a[k]);
            $speeds_of
#endif
            DA_UNROLL
            for (int k = 0; k < $n; k++) {
                V moved;
#if $masses
                moved = da_sum(da_all(q[k]), A, S[k]);
#else
                DA_EACH moved.p[p] = da_wide(q[k]) + ends.p[p] * da_wide(v[k]);
                moved = da_sum(moved, K, a[k]);
#endif
                DA_EACH {
                    const W d = moved.p[p] - Q[k].p[p];
                    change[da_group[k]].p[p] += d * d;
                }
                Q[k] = moved;
            }
            DA_UNROLL
            for (int j = 0; j < $groups; j++) DA_EACH total.p[p] += da_wide(weight[j] * weight[j]) * change[j].p[p];
            if (count > least) {
                previous = size;
                size = da_total(total);
                /* the next change is estimated from the last two, as in newton.py, but not below a thirtieth of the last one */
                if (size <= limits.tolerance) break;
                if (!(size < 1e300)) { failed = 0; goto end; }
                if (count > 1) { /* with M(q) of the sweep before, constraints follow one sweep later */
                    if (!$masses && size * size <= limits.tolerance * previous && size * 1e-3 <= limits.tolerance) break;
                    if (size > 0.0625 * previous && size <= limits.tolerance * $noise) break; /* round-off, through K and its inverse */
                }
                if (count % 4 == 0) { /* changes may grow for a sweep or two while they contract */
                    if (size > mark) { failed = 0; goto end; }
                    mark = size;
                }
                if (count >= most) { failed = 0; goto end; }
            }
            count++;
            $points_of
            $velocities_of
            $constraints
            $rates
        }
        $finish
        DA_UNROLL
        for (int k = 0; k < $n; k++) check += q1[k] * q1[k] + v1[k] * v1[k];
        if (!(check < 1e300)) { failed = $solves; size = NAN; goto end; }
        if (look || $reports) {
            $pack
            if (look) {
                $accept
                least = again = 0;
            }
            $report
        }
        DA_UNROLL
        for (int k = 0; k < $n; k++) { q[k] = q1[k]; v[k] = v1[k]; }
        if ($reports) { out_work[2 * row] += work[0]; out_work[2 * row + 1] += work[1]; }
        iterations += count;
        if (varying) u += $inputs;
        if (--left == 0 || i + 1 == steps) {
            $write
            if (left == 0) { row++; left = save_every; }
        }
        continue;
    missed: /* positions are at rest, but equations of stiff forces do not hold yet */
        if (again == $again) goto end;
        least = count + ++again;
        failed = -1;
        DA_BACK
        i--;
    }
end:
    if (failed >= 0) { DA_BACK }
    if (failed >= 0 && i > 0 && left < save_every) {
        $write
    }
    $pack
    for (int j = 0; j < $unknowns; j++) last[j] = x[j];
#if $masses
    for (int k = 0; k < $n; k++) for (int e = 0; e < $stages; e++) before[e * $n + k] = DA_LANE(a[k], e);
#else
    for (int k = 0; k < $n; k++) before[k] = reached[k];
#endif
    $store
    for (int j = 0; j < $scales - 1; j++) kept[j] = scale[j];
    outcome->steps = i;
    outcome->iterations = iterations;
    outcome->failed = failed;
    outcome->size = size;
}
