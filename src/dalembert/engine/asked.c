/* What a controller measures and does, called through Python's own interface. Its functions are given by address: nothing is linked, and no
   header is needed. Whoever calls holds the lock of the interpreter. */

typedef struct {
    void *(*call)(void *function, void *arguments);
    void *(*ask)(void *function);
    void *(*tuple)(ptrdiff_t size);
    int (*set)(void *tuple, ptrdiff_t i, void *item); /* it takes the item over */
    void *(*number)(double);
    double (*value)(void *);
    ptrdiff_t (*size)(void *);
    void *(*item)(void *, ptrdiff_t i);
    void *(*type)(void *);
    void (*keep)(void *);
    void (*drop)(void *);
    void (*clear)(void);
    void *(*leave)(void); /* the lock, while steps are made */
    void (*enter)(void *);
} da_python;

enum { AS_IT_IS, MADE, TIME }; /* an argument: itself, what it returns when it is called, the time */

typedef struct {
    const da_python *py;
    void *measure, *controller, *accept;
    void **arguments, **plain; /* plain: the types of numbers that are read here, the others are left to Python */
    const long *kinds;
    double *x, *time;
    const double *y, *after; /* what is measured; what is returned, where that is computed with it */
    long n_arguments, n_plain, paired;
} da_asked;

static int number(const da_asked *a, void *object, double *to)
{
    void *const type = a->py->type(object);
    int known = 0;
    a->py->drop(type);
    for (long i = 0; i < a->n_plain; i++) known |= type == a->plain[i];
    if (known) *to = a->py->value(object);
    return known && isfinite(*to);
}

static int numbers(const da_asked *a, void *object, double *to, long count)
{
    if (count == 1 && number(a, object, to)) return 1;
    const ptrdiff_t size = a->py->size(object);
    if (size < 0) a->py->clear();
    for (long i = 0; i < count && size == count; i++) {
        void *const item = a->py->item(object, i);
        if (!item) {
            a->py->clear();
            return 0;
        }
        const int good = number(a, item, to + i);
        a->py->drop(item);
        if (!good) return 0;
    }
    return size == count;
}

/* What was returned, in numbers: inputs, and the next own state where there is one. */
static int understood(const da_asked *a, void *result, double *u, long n_u, double *own, long n_own)
{
    if (!a->paired) return numbers(a, result, u, n_u);
    const ptrdiff_t size = a->py->size(result);
    if (size < 0) a->py->clear();
    if (size != 2) return 0;
    void *const first = a->py->item(result, 0), *const second = a->py->item(result, 1);
    const int good = first && second && numbers(a, first, u, n_u) && numbers(a, second, own, n_own);
    if (!first || !second) a->py->clear();
    if (first) a->py->drop(first);
    if (second) a->py->drop(second);
    return good;
}

static void *argument(const da_asked *a, long i, double t)
{
    if (a->kinds[i] == MADE) return a->py->ask(a->arguments[i]);
    if (a->kinds[i] == TIME) return a->py->number(t);
    a->py->keep(a->arguments[i]);
    return a->arguments[i];
}

static void *called(const da_asked *a, double t)
{
    void *const arguments = a->py->tuple(a->n_arguments);
    for (long i = 0; arguments && i < a->n_arguments; i++) {
        void *const one = argument(a, i, t);
        if (!one) {
            a->py->drop(arguments);
            return 0;
        }
        a->py->set(arguments, i, one);
    }
    void *const result = arguments ? a->py->call(a->controller, arguments) : 0;
    if (arguments) a->py->drop(arguments);
    return result;
}

/* What the controller returns, in `found`: -1 where Python has an error, 0 where Python is to look at `result`. */
static int answered(const da_asked *a, double t, double *found, long n_u, long n_own, void **result)
{
    if (a->after) {
        double sum = 0.0;
        for (long i = 0; i < n_u + n_own; i++) sum += 0.0 * (found[i] = a->after[i]);
        return isfinite(sum) ? 1 : 0;
    }
    *result = called(a, t);
    return *result ? understood(a, *result, found, n_u, found + n_u, n_own) : -1;
}

/* Measure and ask; not zero where Python has an error. `found` has room for what is returned. */
static long asked(const da_asked *a, double t, double *found, double *u, long n_u, double *own, long n_own)
{
    a->time[0] = t;
    void *result = 0, *const measured = a->py->ask(a->measure);
    if (!measured) return 1;
    a->py->drop(measured);
    const int good = answered(a, t, found, n_u, n_own, &result);
    if (good > 0) {
        memcpy(u, found, n_u * sizeof(double));
        memcpy(own, found + n_u, n_own * sizeof(double));
        if (result) a->py->drop(result);
    }
    if (good) return good < 0;
    void *const arguments = a->py->tuple(result ? 1 : 0); /* anything else is for Python to read, or to refuse */
    if (!arguments) return 1;
    if (result) a->py->set(arguments, 0, result);
    void *const done = a->py->call(a->accept, arguments);
    a->py->drop(arguments);
    if (done) a->py->drop(done);
    return !done;
}
