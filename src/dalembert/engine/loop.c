/* The time loop with Newton's iteration inside, for the functions generated above.
   DA_SOLVES lists the solves; each has DA_N(k) unknowns and DA_C(k) constants. The rule for stopping is that of
   newton.py, word by word. */

typedef struct {
    double tolerance, refresh, stagnation, floor, limit;
    long max_iterations;
} da_rule;

typedef struct {
    long steps, iterations, failed;
    double size;
} da_outcome;

#define DA_SOLVE(k)                                                                                                      \
    {                                                                                                                    \
        double constants[DA_C##k + 1], size = 0, previous = 1;                                                           \
        double *xk = x + DA_OFFSET##k;                                                                                   \
        const double *in[8 + DA_COUNT];                                                                                  \
        int at = 0;                                                                                                      \
        in[at++] = state; in[at++] = &t; in[at++] = &h; in[at++] = u; in[at++] = par;                                    \
        for (int j = 0; j < k; j++) in[at++] = x + da_offset[j];                                                         \
        in[at] = last + DA_OFFSET##k;                                                                                    \
        in[at + 1] = before + DA_OFFSET##k;                                                                              \
        double *begin[] = {xk}, *factors[] = {constants}, *next[] = {xk, &size}, *weights[] = {scale##k}, *ratio[] = {&size};\
        const double *now[] = {xk, scale##k, constants};                                                                 \
        int done, look = (first + i) % DA_WEIGH == 0 || i == 0;                                                          \
        if (look) weigh##k(in, weights, 0, 0, 0);                                                                        \
        guess##k(in, begin, 0, 0, 0);                                                                                    \
        in[at] = xk; in[at + 1] = scale##k;                                                                              \
        factor##k(in, factors, 0, 0, 0);                                                                                 \
        long count = 1;                                                                                                  \
        update##k(now, next, 0, 0, 0);                                                                                   \
        done = size <= rule->tolerance;                                                                                  \
        if (!done && !(size <= rule->refresh)) {                                                                         \
            look = look || !(size <= 1.0);                                                                               \
            factor##k(in, factors, 0, 0, 0);                                                                             \
        }                                                                                                                \
        while (!done && count < rule->max_iterations) {                                                                  \
            count++;                                                                                                     \
            previous = size;                                                                                             \
            update##k(now, next, 0, 0, 0);                                                                               \
            if (size * size <= rule->tolerance * previous || size <= rule->tolerance) done = 1;                          \
            else if (!(size < 1e300)) break;                                                                             \
            else if (size > rule->stagnation * previous && size <= rule->floor) look = done = 1;                         \
            else if (size > rule->refresh * previous) {                                                                  \
                look = look || size > previous || size > rule->refresh;                                                  \
                factor##k(in, factors, 0, 0, 0);                                                                         \
            }                                                                                                            \
        }                                                                                                                \
        if (done && look) {                                                                                              \
            accept##k(in, ratio, 0, 0, 0);                                                                               \
            done = size <= rule->limit;                                                                                  \
        }                                                                                                                \
        if (!done) {                                                                                                     \
            outcome->steps = i; outcome->failed = k; outcome->size = size;                                               \
            return;                                                                                                      \
        }                                                                                                                \
        outcome->iterations += count;                                                                                    \
    }

DA_EXPORT void da_run(long steps, long first, double t0, double h, double *state, double *last, double *before,
                      const double *par, const double *inputs, long varying, long save_every, double *out_state,
                      double *out_lam, double *out_work, double *out_unknowns, const da_rule *rule, da_outcome *outcome)
{
    static const int da_offset[] = {DA_OFFSETS 0};
    double x[DA_UNKNOWNS + 1], new_state[DA_STATE + 1], lam[DA_LAM + 1], work[2] = {0, 0};
    long row = 0;
    DA_SCALES
    (void)da_offset; (void)last; (void)before;
    for (long i = 0; i < steps; i++) {
        const double t = t0 + (double)(first + i) * h;
        const double *u = inputs + (varying ? i * DA_INPUTS : 0);
        DA_SOLVES
        const double *in[8 + DA_COUNT] = {state, &t, &h, u, par};
        for (int j = 0; j < DA_COUNT; j++) in[5 + j] = x + da_offset[j];
        double check = 0, *res[] = {new_state, lam, work, &check};
        finish(in, res, 0, 0, 0);
        if (!(check < 1e300)) {
            outcome->steps = i; outcome->failed = DA_COUNT; outcome->size = check - check;
            return;
        }
        for (int j = 0; j < DA_UNKNOWNS; j++) { before[j] = last[j]; last[j] = x[j]; }
        out_work[2 * row] += work[0];
        out_work[2 * row + 1] += work[1];
        for (int j = 0; j < DA_STATE; j++) out_state[row * DA_STATE + j] = state[j] = new_state[j];
        for (int j = 0; j < DA_LAM; j++) out_lam[row * DA_LAM + j] = lam[j];
        if (out_unknowns)
            for (int j = 0; j < DA_UNKNOWNS; j++) out_unknowns[row * DA_UNKNOWNS + j] = x[j];
        if ((first + i + 1) % save_every == 0) row++;
    }
    outcome->steps = steps;
}
