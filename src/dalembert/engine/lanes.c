/* Many runs at once, one in each lane of a vector; every lane takes the decisions of loop.c and solve.c for itself. */

DA_EXPORT const long da_work = $length;
DA_EXPORT const long da_lanes = DA_W;

$functions

/* Member `m` begins at `starts + m * state` and leaves rows at `out_state + m * rows * state`; members beyond the last repeat it
   and leave nothing. `failed` tells the solve that failed, -1 where all went well; a member that failed is run again by itself. */
DA_EXPORT void da_ensemble(long members, long steps, double t0, double h0, const double *starts, const double *firsts,
                           const double *pars, const double *inputs, long varying, long own, long save_every, long rows,
                           double *out_state, double *out_lam, double *out_work, const da_rule *rule, int *failed,
                           long *iterations_of, const volatile int *stop, double *w)
{
    const da_rule limits = *rule;
    const W h = da_wide(h0);
    for (long group = 0; group < members; group += DA_W) {
        long member[DA_W], row = 0, left = save_every;
        I iterations = (I){0};
        double par_of[DA_W][$parameters + 1], u_of[DA_W][$inputs + 1], state_of[$states + 1], known_of[$unknowns + 1], scale_of[$scales + 1];
        W par[$parameters + 1], u[$inputs + 1], last[$unknowns + 1], before[$unknowns + 1], scale[$scales + 1], worked[2] = {da_wide(0), da_wide(0)};
        I alive = (I)(da_wide(0) == da_wide(0));
        $memory
        for (int e = 0; e < DA_W; e++) {
            const long m = member[e] = group + e < members ? group + e : members - 1;
            for (int j = 0; j < $parameters; j++) par[j][e] = par_of[e][j] = pars[m * $parameters + j];
            for (int j = 0; j < $unknowns; j++) last[j][e] = before[j][e] = firsts[m * $unknowns + j];
            $load
            if (group + e < members) { failed[m] = -1; iterations_of[m] = 0; }
        }
        $run
        for (long i = 0; i < steps; i++) {
            const int looking = (i & $weigh) == 0;
            const double t_ = t0 + (double)i * h0;
            const W t = da_wide(t_);
            I looked = looking ? alive : (I){0};
            if (looking && *stop) return;
            if ($inputs && (i == 0 || varying))
                for (int e = 0; e < DA_W; e++) {
                    const double *from = inputs + ((own ? member[e] * (varying ? steps : 1) : 0) + (varying ? i : 0)) * $inputs;
                    for (int j = 0; j < $inputs; j++) u[j][e] = u_of[e][j] = from[j];
                }
            $solves
            $finish
            {
                const I bad = alive & ~(I)($check < da_wide(1e300));
                if (da_any(bad)) {
                    for (int e = 0; e < DA_W; e++)
                        if (bad[e] && group + e < members) failed[member[e]] = $count;
                    alive &= ~bad;
                }
            }
            if (!da_any(alive)) break;
            $older
            $shift
            $work
            $next
            if (--left == 0 || i + 1 == steps) {
                for (int e = 0; e < DA_W && group + e < members; e++) {
                    double *to = out_state + (member[e] * rows + row) * $states, *of = out_lam + (member[e] * rows + row) * $multipliers;
                    $write
                    out_work[(member[e] * rows + row) * 2] = worked[0][e];
                    out_work[(member[e] * rows + row) * 2 + 1] = worked[1][e];
                }
                worked[0] = worked[1] = da_wide(0);
                row++;
                left = save_every;
            }
        }
        for (int e = 0; e < DA_W && group + e < members; e++) iterations_of[member[e]] = (long)iterations[e];
    }
}
