/* Steps by sweeps over all stages, one stage in each lane of a vector; see methods/sweeping.py and engine/sweeps.py.
   The first step of every block of $block steps tells whether the sweeps contract there; where they do not, the call ends,
   and the rest of the block is made by Newton's iteration. */

#if defined(__GNUC__) && !defined(__clang__)
#define DA_UNROLL _Pragma("GCC unroll 64")
#else
#define DA_UNROLL _Pragma("unroll")
#endif

typedef double V __attribute__((vector_size(8 * $lanes)));
typedef long I __attribute__((vector_size(8 * $lanes)));

typedef struct {
    double tolerance, refresh, stagnation, floor, limit, exact; /* squares */
    long max_iterations;
} da_rule;

typedef struct {
    long steps, iterations, failed;
    double size;
} da_outcome;

DA_EXPORT const long da_work = $length;

static inline double da_larger(double a, double b) { return a > b ? a : b; } /* no call, as fmax is one */

static inline V da_all(double x) { return (V){$filled}; }

static inline double da_total(V x) { return $total; }

static inline V da_shift(V x, double first)
{
#if defined(__clang__)
    return __builtin_shufflevector(x, da_all(first), $shifted);
#else
    return __builtin_shuffle(x, da_all(first), (I){$shifted});
#endif
}

$tables
$functions

/* Lanes are columns: entry j of a table is what acceleration j adds to all stages. */
static inline V da_sum(V start, const V *table, V x)
{
    V other = da_all(0);
    DA_UNROLL
    for (int j = 0; j + 1 < $stages; j += 2) {
        start += table[j] * da_all(x[j]);
        other += table[j + 1] * da_all(x[j + 1]);
    }
    if ($stages % 2) start += table[$stages - 1] * da_all(x[$stages - 1]);
    return start + other;
}

DA_EXPORT void da_run(long steps, long first, double t0, double h, double *state, double *last, double *before,
                      const double *par, const double *inputs, long varying, long save_every, double *out_state,
                      double *out_lam, double *out_work, double *out_unknowns, const da_rule *rule, da_outcome *outcome,
                      double *kept, long asked, double *w)
{
    const da_rule limits = *rule;
    const double *u = inputs;
    long row = 0, iterations = 0, i = 0, left = save_every == 1 ? 1 : save_every - first % save_every;
    int failed = -1;
    double size = 0, t = 0, scale[$scales], x[$unknowns + 1], q[$n], v[$n], lam[$reported + 1], mu[$m + 1], reached[$n];
    V K[$stages], D[$stages], B[$stages], hc, c, ends, inside, a[$n], l[$m + 1], weight[$n], old_a[$n], old_l[$m + 1];
    for (int j = 0; j < $stages; j++)
        for (int e = 0; e < $lanes; e++) {
            K[j][e] = h * h * da_K[j][e];
            D[j][e] = da_D[j][e] / (h * h);
            B[j][e] = h * da_B[j][e];
        }
    for (int e = 0; e < $lanes; e++) {
        c[e] = h * da_c[e];
        ends[e] = h * da_ends[e];
        hc[e] = h * da_ends[e];
        inside[e] = e < $stages;
    }
    DA_UNROLL
    for (int k = 0; k < $n; k++) { q[k] = state[k]; v[k] = state[$n + k]; }
    for (int j = 0; j < $scales - 1; j++) scale[j] = kept[j];
    $unpack
    $run
    for (i = 0; i < steps; i++) {
        const int looking = i == 0 ? asked != 0 : ((first + i) & ($block - 1)) == 0;
        const long most = looking ? $many : $most;
        double previous = 1, earlier = 1, q1[$n], v1[$n], check = 0, work[2] = {0, 0};
        int look = looking;
        long count = 0;
        V Q[$n], P[$n], U[$n], g[$m + 1], r[$m + 1];
        t = t0 + (double)(first + i) * h;
        if (looking) { $store }
        if (looking) weigh0(w, state, 0, 0, par, u, 0, t, h, scale);
        double far[$groups];
        for (int k = 0; k < $groups; k++) far[k] = 0;
        DA_UNROLL
        for (int k = 0; k < $n; k++) far[da_group[k]] = da_larger(far[da_group[k]], fabs(q[k]));
        /* the polynomial of the last step */
        DA_UNROLL
        for (int k = 0; k < $n; k++) {
            V sum = da_all(0);
            old_a[k] = a[k];
            if (looking) { /* the steps before may be of another kind: only what is common to all is used */
                DA_UNROLL
                for (int j = 0; j < $recent; j++) sum += ((const V *)da_Z)[j] * da_all(a[k][j + $skip]);
            } else {
                DA_UNROLL
                for (int j = 0; j < $recent; j++) sum += ((const V *)da_X)[j] * da_all(a[k][j + $skip]);
                if ($recent < $points) sum += ((const V *)da_X)[$points - 1] * da_all(reached[k]);
            }
            a[k] = sum;
            weight[k] = inside * da_all(1 / (far[da_group[k]] + h * h * scale[k] + 1e-300));
            Q[k] = da_all(q[k]);
        }
        DA_UNROLL
        for (int k = 0; k < $m; k++) {
            V sum = ((const V *)da_Y)[$stages] * da_all(mu[k]);
            old_l[k] = l[k];
            DA_UNROLL
            for (int j = 0; j < $stages; j++) sum += ((const V *)da_Y)[j] * da_all(l[k][j]);
            l[k] = sum;
        }
        for (;;) {
            V change = da_all(0);
            DA_UNROLL
            for (int k = 0; k < $n; k++) {
                const V moved = da_sum(da_all(q[k]) + hc * da_all(v[k]), K, a[k]), d = (moved - Q[k]) * weight[k];
                change += d * d;
                Q[k] = moved;
            }
            if (count > 0) {
                earlier = previous;
                previous = size;
                size = da_total(change);
                /* forces and constraints take turns: what two sweeps do is what counts */
                if (size <= limits.tolerance) break;
                if (!(size < 1e300)) { failed = 0; goto end; }
                if (count > 2) {
                    const double ratio = da_larger(1e-3, da_larger(size / previous, previous / earlier)); /* of squares */
                    if (size * ratio <= limits.tolerance) break;
                    if (size > 0.0625 * earlier && size <= limits.tolerance * $noise) break; /* round-off, through K and its inverse */
                    if (size > earlier && count > 3) { failed = 0; goto end; }
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
    }
end:
    if (failed >= 0) {
        for (int k = 0; k < $n; k++) a[k] = old_a[k];
        for (int k = 0; k < $m; k++) l[k] = old_l[k];
    }
    if (failed >= 0 && i > 0 && left < save_every) {
        $write
    }
    $pack
    for (int j = 0; j < $unknowns; j++) last[j] = x[j];
    for (int k = 0; k < $n; k++) before[k] = reached[k];
    $store
    for (int j = 0; j < $scales - 1; j++) kept[j] = scale[j];
    outcome->steps = i;
    outcome->iterations = iterations;
    outcome->failed = failed;
    outcome->size = size;
}
