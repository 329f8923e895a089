/* Slopes along the motion of the functions above, and a look at both along a run. */

static void da_slopes(const double *state, double t, const double *par, const double *rate, double *out)
{
    $slopes
}

/* Whether the cubic through values and slopes at both ends of a step comes near zero in between: see dips.py. */
static int da_dips(double h, double a, double b, double slope_a, double slope_b)
{
    const double side = a > 0 ? 1.0 : -1.0, p = side * h * slope_a, q = side * h * slope_b, way = side * (b - a);
    if (!(p < 0 && q > 0)) return 0;
    const double c = 3 * way - 2 * p - q, d = p + q - 2 * way, root = c * c - 3 * d * p, x = -p / (c + sqrt(root > 0 ? root : 0));
    if (!(x > 0 && x < 1)) return 0;
    const double value = side * a + x * (p + x * (c + x * d)), most = side * a > side * b ? side * a : side * b;
    return value <= $margin * (most - value);
}

/* How many steps there are before the first in which one of them may have a zero, or is not finite. */
DA_EXPORT long da_quiet(long steps, const double *states, const double *times, const double *par, const double *rates,
                        long stride)
{
    double both[2][$count], slopes[2][$count], *old = both[0], *now = both[1], *before = slopes[0], *after = slopes[1];
    da_values(states, times[0], par, old);
    da_slopes(states, times[0], par, rates, before);
    for (long k = 0; k < steps; k++) {
        const double *const state = states + (k + 1) * $width, t = times[k + 1];
        da_values(state, t, par, now);
        da_slopes(state, t, par, rates + (k + 1) * stride, after);
        for (int i = 0; i < $count; i++) {
            if (!(((now[i] > 0 && old[i] > 0) || (now[i] < 0 && old[i] < 0)) && isfinite(now[i]) && isfinite(old[i]))) return k;
            if (da_dips(t - times[k], old[i], now[i], before[i], after[i])) return k;
        }
        double *const other = old, *const slope = before;
        old = now;
        now = other;
        before = after;
        after = slope;
    }
    return steps;
}
