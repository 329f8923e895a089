/* Steps with a controller that is asked every so many of them, around the loop of any compiled program. */

#define DA_EXPORT __attribute__((visibility("default")))
#define MIN(a, b) ((b) < (a) ? (b) : (a))

typedef struct {
    long steps, iterations, failed;
    double size;
} da_outcome;

typedef void da_step(long, long, double, double, double *, double *, double *, const double *, const double *, long, long,
                     double *, double *, double *, double *, const void *, da_outcome *, double *, long, double *);

typedef struct {
    da_step *step;
    const void *rule;
    double *work, *state, *last, *before, *kept;
    const double *par;
    double *out_state, *out_lam, *out_work, *out_unknowns, *u;
    const da_asked *asked;
    double *result, *held, *hold, *own, *log_t, *log_y, *log_u, *log_own; /* held in this step; of the last sample */
    const long *places; /* in the inputs of a step: pairs of a place and the number of what is held */
    double t0, h;
    long steps, first, save_every, varying, n_state, n_lam, n_unknowns, width, n_places, n_y, n_held, n_own;
    long number, next, stride, count, look; /* of the sample at step `next`; how many were taken */
    long done, iterations, failed;
    double size;
} da_sampled;

static void copy(double *to, const double *from, long count) { memcpy(to, from, count * sizeof(double)); }

/* What is held from here on; not zero where Python has an error. */
static long sample(da_sampled *s, double t)
{
    if (s->number < s->count) { /* it was taken */
        copy(s->held, s->log_u + s->number * s->n_held, s->n_held);
        return 0;
    }
    copy(s->asked->x, s->state, s->n_state);
    copy(s->log_own + s->number * s->n_own, s->own, s->n_own);
    if (asked(s->asked, t, s->result, s->hold, s->n_held, s->own, s->n_own)) return 1;
    s->log_t[s->number] = t;
    copy(s->log_y + s->number * s->n_y, s->asked->y, s->n_y);
    copy(s->log_u + s->number * s->n_held, s->hold, s->n_held);
    copy(s->held, s->hold, s->n_held);
    s->count = s->number + 1;
    return 0;
}

/* Steps up to the last, to one that fails, or to a sample that cannot be taken (1). */
DA_EXPORT long da_sample(da_sampled *s)
{
    while (s->done < s->steps) {
        const long k = s->first + s->done, row = k / s->save_every - s->first / s->save_every;
        if (k >= s->next) {
            if (sample(s, s->t0 + (double)k * s->h)) return 1;
            s->number++;
            s->next += s->stride;
        }
        const long count = MIN(s->steps - s->done, s->next - k);
        double *const u = s->u + (s->varying ? s->done * s->width : 0);
        for (long i = 0; i < (s->varying ? count : 1); i++)
            for (long j = 0; j < s->n_places; j++) u[i * s->width + s->places[2 * j]] = s->held[s->places[2 * j + 1]];
        const long look = s->done ? k % WEIGH_EVERY == 0 : s->look;
        da_outcome outcome = {0, 0, -1, 0.0};
        void *const lock = s->asked->py->leave();
        s->step(count, k, s->t0, s->h, s->state, s->last, s->before, s->par, u, s->varying, s->save_every,
                s->out_state + row * s->n_state, s->out_lam + row * s->n_lam, s->out_work + 2 * row,
                s->out_unknowns ? s->out_unknowns + row * s->n_unknowns : 0, s->rule, &outcome, s->kept, look, s->work);
        s->asked->py->enter(lock);
        s->done += outcome.steps;
        s->iterations += outcome.iterations;
        if (outcome.failed >= 0) {
            s->failed = outcome.failed;
            s->size = outcome.size;
            return 0;
        }
    }
    return 0;
}
