/* A model with its method: values, start, steps. The functions of the step stand before this; see export.py. */

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    double values[DA_VALUES]; /* by value reference: time, parameters, inputs, states, outputs */
    double state[DA_STATE + 1], last[DA_UNKNOWNS + 1], before[DA_UNKNOWNS + 1], kept[DA_KEPT + 1];
    double held[DA_INPUTS + 1], lam[DA_LAM + 1];
    double t0, energy, supplied, dissipated;
    int64_t done;
    int64_t running;
} da_data;

static const double da_start_values[DA_VALUES] = {DA_STARTS};
static const da_rule da_limits = DA_RULE;

/* Solve A x = b in place, by elimination with full pivoting; directions of pivots that are nothing beside the first stay zero. */
static void da_solve(int n, double *A, double *b, int *order)
{
    double first = 0.0;
    int rank = n;
    for (int k = 0; k < n; k++) order[k] = k;
    for (int k = 0; k < n; k++) {
        int row = k, column = k;
        double best = 0.0;
        for (int i = k; i < n; i++)
            for (int j = k; j < n; j++)
                if (fabs(A[i * n + j]) > best) { best = fabs(A[i * n + j]); row = i; column = j; }
        if (k == 0) first = best;
        if (!(best > 1e-13 * first)) { rank = k; break; }
        for (int j = 0; j < n; j++) { const double s = A[k * n + j]; A[k * n + j] = A[row * n + j]; A[row * n + j] = s; }
        { const double s = b[k]; b[k] = b[row]; b[row] = s; }
        for (int i = 0; i < n; i++) { const double s = A[i * n + k]; A[i * n + k] = A[i * n + column]; A[i * n + column] = s; }
        { const int s = order[k]; order[k] = order[column]; order[column] = s; }
        for (int i = k + 1; i < n; i++) {
            const double f = A[i * n + k] / A[k * n + k];
            for (int j = k; j < n; j++) A[i * n + j] -= f * A[k * n + j];
            b[i] -= f * b[k];
        }
    }
    for (int k = n - 1; k >= 0; k--) {
        if (k >= rank) { b[k] = 0.0; continue; }
        for (int j = k + 1; j < rank; j++) b[k] -= A[k * n + j] * b[j];
        b[k] /= A[k * n + k];
    }
    double *x = A; /* the first row is not needed any more */
    for (int k = 0; k < n; k++) x[order[k]] = b[k];
    for (int k = 0; k < n; k++) b[k] = x[k];
}

/* The nearest state that satisfies all conditions at the start; as it is, where it does. Zero where there is none. */
static int da_consistent(da_data *d, double t, double *w)
{
#if DA_CONDITIONS
    enum { m = DA_CONDITIONS, n = DA_OWN };
    static const double enough = 1e-12;
    double out[m + m * n], A[m * m], b[m];
    int order[m];
    const double *par = d->values + DA_PARAMETERS_AT, *u = d->values + DA_INPUTS_AT;
    for (int iteration = 0; iteration < 50; iteration++) {
        da_conditions(w, d->state, t, DA_STEP, u, par, 0, out);
        const double *J = out + m; /* by columns */
        int good = 1;
        for (int i = 0; i < m; i++) {
            double size = 1e-300, affine = out[i];
            for (int j = 0; j < n; j++) { size += fabs(J[j * m + i] * d->state[j]); affine -= J[j * m + i] * d->state[j]; }
            if (!(fabs(out[i]) <= enough * (size + fabs(affine)))) good = 0;
        }
        if (good) return 1;
        for (int i = 0; i < m; i++) {
            b[i] = out[i];
            for (int k = 0; k < m; k++) {
                A[i * m + k] = 0.0;
                for (int j = 0; j < n; j++) A[i * m + k] += J[j * m + i] * J[j * m + k];
            }
        }
        da_solve(m, A, b, order);
        for (int j = 0; j < n; j++)
            for (int i = 0; i < m; i++) d->state[j] -= J[j * m + i] * b[i];
        if (!(d->state[0] == d->state[0])) return 0;
    }
    return 0;
#else
    (void)d; (void)t; (void)w;
    return 1;
#endif
}

/* What follows from the rest of a state at once: multipliers that are carried along, algebraic variables. */
static int da_settle(da_data *d, double t, double *w)
{
#if DA_FOLLOWING
    enum { n = DA_FOLLOWING };
    double x[n], out[n + n * n], A[n * n], b[n];
    int order[n];
    const double *par = d->values + DA_PARAMETERS_AT, *u = d->values + DA_INPUTS_AT;
    da_following_guess(w, d->state, t, DA_STEP, u, par, 0, x);
    for (int iteration = 0; iteration < 30; iteration++) {
        double change = 0.0, size = 0.0;
        da_following(w, d->state, t, DA_STEP, u, par, x, out);
        for (int i = 0; i < n; i++) {
            b[i] = out[i];
            for (int j = 0; j < n; j++) A[i * n + j] = out[n + j * n + i];
        }
        da_solve(n, A, b, order);
        for (int i = 0; i < n; i++) { x[i] -= b[i]; change += fabs(b[i]); size += fabs(x[i]); }
        if (!(change == change)) return 0;
        if (change <= 1e-14 * size || (iteration > 3 && change <= 1e-10 * size)) {
            double after[DA_STATE + 1];
            da_followed(w, d->state, t, DA_STEP, u, par, x, after);
            memcpy(d->state, after, DA_STATE * sizeof(double));
            return 1;
        }
    }
    return 0;
#else
    (void)d; (void)t; (void)w;
    return 1;
#endif
}

static double da_time(const da_data *d) { return d->t0 + (double)d->done * DA_STEP; }

/* Values of variables from the state. */
static void da_refresh(da_data *d, double *w)
{
    double out[DA_MEASURED + 1];
    const double t = da_time(d);
    const double *par = d->values + DA_PARAMETERS_AT, *u = d->values + DA_INPUTS_AT;
    double *y = d->values + DA_OUTPUTS_AT;
    d->values[0] = t;
    memcpy(d->values + DA_STATES_AT, d->state, DA_OWN * sizeof(double));
    da_measured(w, d->state, t, DA_STEP, u, par, 0, out);
    if (!d->running) d->energy = out[0];
    y[0] = out[0];
    y[1] = d->supplied;
    y[2] = d->dissipated;
    y[3] = out[0] - d->energy - d->supplied + d->dissipated;
    for (int i = 1; i < DA_MEASURED; i++) y[3 + i] = out[i];
    for (int i = 0; i < DA_LAM; i++) y[3 + DA_MEASURED + i] = d->lam[i];
}

/* Begin: zero, or what is wrong. */
static const char *da_begin(da_data *d)
{
    static __thread double w[DA_ROOM + 1];
    double first[DA_UNKNOWNS + 1], none[DA_INPUTS * DA_NODES + 1];
    const double *par = d->values + DA_PARAMETERS_AT;
    memset(none, 0, sizeof none);
    memset(d->state, 0, sizeof d->state);
    memset(d->kept, 0, sizeof d->kept);
    memset(d->lam, 0, sizeof d->lam);
    memcpy(d->state, d->values + DA_STATES_AT, DA_OWN * sizeof(double));
    d->done = 0;
    d->supplied = d->dissipated = 0.0;
    if (!da_consistent(d, d->t0, w)) return "no state near the start values satisfies the constraints";
    if (DA_CARRIES && !da_settle(d, d->t0, w)) return "multipliers cannot be found at the start values";
    da_first(w, d->state, d->t0, DA_STEP, none, par, 0, first);
    memcpy(d->last, first, DA_UNKNOWNS * sizeof(double));
    memcpy(d->before, first, DA_UNKNOWNS * sizeof(double));
    memcpy(d->held, d->values + DA_INPUTS_AT, DA_INPUTS * sizeof(double));
    d->running = 0;
    da_refresh(d, w);
    d->running = 1;
    for (int i = 0; i < DA_OWN; i++)
        if (!(fabs(d->state[i]) < 1e300)) return "the start values are not finite";
    return 0;
}

/* So many steps with the inputs held: zero, or what is wrong. */
static const char *da_advance(da_data *d, int64_t steps)
{
    enum { chunk = DA_WEIGH };
    static __thread double w[DA_ROOM + 1], states[chunk * (DA_STATE + 1)], lams[chunk * (DA_LAM + 1)], work[2 * chunk];
    double u[DA_INPUTS * DA_NODES + 1];
    da_outcome outcome;
    for (int k = 0; k < DA_NODES; k++)
        for (int i = 0; i < DA_INPUTS; i++) u[k * DA_INPUTS + i] = d->values[DA_INPUTS_AT + i];
    if (memcmp(d->held, d->values + DA_INPUTS_AT, DA_INPUTS * sizeof(double)) && DA_SETTLES && !da_settle(d, da_time(d), w))
        return "what follows from the inputs at once cannot be found after they have changed";
    memcpy(d->held, d->values + DA_INPUTS_AT, DA_INPUTS * sizeof(double));
    while (steps > 0) {
        const long place = (long)(d->done % chunk), n = steps < chunk - place ? (long)steps : chunk - place;
        memset(work, 0, sizeof work);
        da_run(n, (long)d->done, d->t0, DA_STEP, d->state, d->last, d->before, d->values + DA_PARAMETERS_AT, u, 0, 1, states,
               lams, work, 0, &da_limits, &outcome, d->kept, place == 0, w);
        for (long i = 0; i < outcome.steps; i++) { d->supplied += work[2 * i]; d->dissipated += work[2 * i + 1]; }
        if (outcome.steps > 0) memcpy(d->lam, lams + (outcome.steps - 1) * DA_LAM, DA_LAM * sizeof(double));
        d->done += outcome.steps;
        steps -= outcome.steps;
        if (outcome.failed >= 0) {
            da_refresh(d, w);
            return "a step did not converge; export the model with a smaller step";
        }
    }
    da_refresh(d, w);
    return 0;
}

/* How many steps a communication step has; -1 where it is no multiple of the step. */
static int64_t da_count(double length)
{
    const double n = floor(length / DA_STEP + 0.5);
    return n >= 0 && fabs(n * DA_STEP - length) <= 1e-6 * DA_STEP ? (int64_t)n : -1;
}

static int da_is_parameter(unsigned r) { return r >= DA_PARAMETERS_AT && r < DA_INPUTS_AT; }
static int da_is_input(unsigned r) { return r >= DA_INPUTS_AT && r < DA_STATES_AT; }
static int da_is_state(unsigned r) { return r >= DA_STATES_AT && r < DA_OUTPUTS_AT; }

/* Zero, or why a value cannot be set. */
static const char *da_set(da_data *d, unsigned r, double value)
{
    if (da_is_input(r) || (!d->running && (da_is_parameter(r) || da_is_state(r)))) {
        d->values[r] = value;
        return 0;
    }
    return da_is_parameter(r) || da_is_state(r) ? "parameters and start values can be set before the initialisation ends only"
                                                : "this variable cannot be set";
}

static void da_reset(da_data *d)
{
    memset(d, 0, sizeof *d);
    memcpy(d->values, da_start_values, sizeof da_start_values);
}
