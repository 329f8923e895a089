/* The time loop. What stands after dollar signs is written from the functions of a program; see emission.py. */

typedef struct {
    double *state, *last, *before, *kept;
} da_memory;

DA_EXPORT const long da_work = $length;

/* Steps from one memory to another, which may be the same. */
static inline __attribute__((always_inline)) void
da_steps(long steps, long first, double t0, double h, const da_memory from, const da_memory to, const double *par,
         const double *inputs, long varying, long save_every, double *out_state, double *out_lam, double *out_work,
         double *out_unknowns, const da_rule *rule, da_outcome *outcome, long look, double *w)
{
    double *const state = to.state;
    const da_rule limits = *rule;
    const double *u = inputs;
    long row = 0, iterations = 0, i = 0, left = save_every == 1 ? 1 : save_every - first % save_every;
    int failed = -1;
    double size = 0, t = 0, scale[$scales], last[$unknowns + 1], before[$unknowns + 1];
    $begin
    $memory
    for (int j = 0; j < $scales - 1; j++) scale[j] = from.kept[j];
    $run
    $load
    for (i = 0; i < steps; i++) {
        const int looking = DA_RARELY(i == 0 ? look != 0 : ((first + i) & $weigh) == 0);
        int looked = looking;
        t = t0 + (double)(first + i) * h;
        $solves
        $finish
        if (!($check < 1e300)) { failed = $count; size = NAN; goto end; }
        $older
        $shift
        $work
        $next
        if (varying) u += $inputs;
        if (--left == 0 || i + 1 == steps) {
            $write
            if (out_unknowns) { $found }
            if (left == 0) { row++; left = save_every; }
        }
    }
end:
    if (failed >= 0 && i > 0 && left < save_every) {
        $write
        if (out_unknowns) { $found }
    }
    $store
    for (int j = 0; j < $scales - 1; j++) to.kept[j] = scale[j];
    $keep
    $end
    outcome->steps = i;
    outcome->iterations = iterations;
    outcome->failed = failed;
    outcome->size = size;
}

DA_EXPORT void da_run(long steps, long first, double t0, double h, double *state, double *last, double *before,
                      const double *par, const double *inputs, long varying, long save_every, double *out_state,
                      double *out_lam, double *out_work, double *out_unknowns, const da_rule *rule, da_outcome *outcome,
                      double *kept, long look, double *w)
{
    const da_memory memory = {state, last, before, kept};
    da_steps(steps, first, t0, h, memory, memory, par, inputs, varying, save_every, out_state, out_lam, out_work, out_unknowns,
             rule, outcome, look, w);
}
