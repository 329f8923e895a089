/* Functions of the state, $count of them, and a look at their signs along a run. */

DA_EXPORT void da_values(const double *state, double t, const double *par, double *out)
{
    $body
}

/* How many steps there are before the first in which one of them may have a zero, or is not finite. */
DA_EXPORT long da_quiet(long steps, const double *states, const double *times, const double *par)
{
    double both[2][$count], *old = both[0], *now = both[1];
    da_values(states, times[0], par, old);
    for (long k = 0; k < steps; k++) {
        da_values(states + (k + 1) * $width, times[k + 1], par, now);
        for (int i = 0; i < $count; i++)
            if (!(((now[i] > 0 && old[i] > 0) || (now[i] < 0 && old[i] < 0)) && isfinite(now[i]) && isfinite(old[i]))) return k;
        double *const other = old;
        old = now;
        now = other;
    }
    return steps;
}
