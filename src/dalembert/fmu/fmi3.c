/* The interface of FMI 3.0 for co-simulation. */

#include <stdbool.h>

#ifdef _WIN32
#define FMI3 __declspec(dllexport)
#else
#define FMI3 __attribute__((visibility("default")))
#endif
typedef void *fmi3Instance;
typedef uint32_t fmi3ValueReference;
typedef const char *fmi3String;
typedef enum { fmi3OK, fmi3Warning, fmi3Discard, fmi3Error, fmi3Fatal } fmi3Status;
typedef void (*da_logger)(void *environment, fmi3Status status, fmi3String category, fmi3String message);

typedef struct {
    da_data data;
    da_logger logger;
    void *environment;
} da_component;

static fmi3Status da_refuse(void *instance, const char *what)
{
    da_component *c = instance;
    if (c && c->logger) c->logger(c->environment, fmi3Error, "logStatusError", what);
    return fmi3Error;
}

FMI3 const char *fmi3GetVersion(void) { return "3.0"; }
FMI3 fmi3Status fmi3SetDebugLogging(fmi3Instance c, bool on, size_t n, const fmi3String kinds[]) { return fmi3OK; }

FMI3 fmi3Instance fmi3InstantiateCoSimulation(fmi3String name, fmi3String token, fmi3String resources, bool visible, bool logging,
                                              bool events, bool early, const fmi3ValueReference required[], size_t n,
                                              void *environment, da_logger logger, void *intermediate)
{
    if (!token || strcmp(token, DA_TOKEN)) {
        if (logger) logger(environment, fmi3Error, "logStatusError", "the instantiation token is not that of this FMU");
        return 0;
    }
    da_component *c = calloc(1, sizeof *c);
    if (!c) return 0;
    c->logger = logger;
    c->environment = environment;
    da_reset(&c->data);
    return c;
}

FMI3 fmi3Instance fmi3InstantiateModelExchange(fmi3String name, fmi3String token, fmi3String resources, bool visible,
                                               bool logging, void *environment, da_logger logger)
{
    if (logger) logger(environment, fmi3Error, "logStatusError", "this FMU is for co-simulation");
    return 0;
}

FMI3 fmi3Instance fmi3InstantiateScheduledExecution(fmi3String name, fmi3String token, fmi3String resources, bool visible,
                                                    bool logging, void *environment, da_logger logger, void *update, void *lock,
                                                    void *unlock)
{
    if (logger) logger(environment, fmi3Error, "logStatusError", "this FMU is for co-simulation");
    return 0;
}

FMI3 void fmi3FreeInstance(fmi3Instance c) { free(c); }

FMI3 fmi3Status fmi3EnterInitializationMode(fmi3Instance c, bool has_tolerance, double tolerance, double start, bool has_stop,
                                            double stop)
{
    ((da_component *)c)->data.t0 = ((da_component *)c)->data.values[0] = start;
    return fmi3OK;
}

FMI3 fmi3Status fmi3ExitInitializationMode(fmi3Instance c)
{
    const char *wrong = da_begin(&((da_component *)c)->data);
    return wrong ? da_refuse(c, wrong) : fmi3OK;
}

FMI3 fmi3Status fmi3EnterEventMode(fmi3Instance c) { return da_refuse(c, "this FMU has no events"); }
FMI3 fmi3Status fmi3EnterStepMode(fmi3Instance c) { return fmi3OK; }
FMI3 fmi3Status fmi3Terminate(fmi3Instance c) { return fmi3OK; }

FMI3 fmi3Status fmi3Reset(fmi3Instance c)
{
    da_reset(&((da_component *)c)->data);
    return fmi3OK;
}

FMI3 fmi3Status fmi3GetFloat64(fmi3Instance c, const fmi3ValueReference r[], size_t n, double value[], size_t count)
{
    da_data *d = &((da_component *)c)->data;
    if (count != n) return da_refuse(c, "all variables of this FMU are single numbers");
    for (size_t i = 0; i < n; i++) {
        if (r[i] >= DA_VALUES) return da_refuse(c, "there is no variable with this value reference");
        if (!d->running && r[i] >= DA_OUTPUTS_AT) { /* asked for while values are still being set */
            da_data copy = *d;
            const char *wrong = da_begin(&copy);
            if (wrong) return da_refuse(c, wrong);
            value[i] = copy.values[r[i]];
        } else value[i] = d->values[r[i]];
    }
    return fmi3OK;
}

FMI3 fmi3Status fmi3SetFloat64(fmi3Instance c, const fmi3ValueReference r[], size_t n, const double value[], size_t count)
{
    if (count != n) return da_refuse(c, "all variables of this FMU are single numbers");
    for (size_t i = 0; i < n; i++) {
        const char *wrong = da_set(&((da_component *)c)->data, r[i], value[i]);
        if (wrong) return da_refuse(c, wrong);
    }
    return fmi3OK;
}

#define DA_OTHER(kind, type)                                                                                              \
    FMI3 fmi3Status fmi3Get##kind(fmi3Instance c, const fmi3ValueReference r[], size_t n, type value[], size_t count)     \
    {                                                                                                                     \
        return n ? da_refuse(c, "all variables of this FMU are of type Float64") : fmi3OK;                                \
    }                                                                                                                     \
    FMI3 fmi3Status fmi3Set##kind(fmi3Instance c, const fmi3ValueReference r[], size_t n, const type value[], size_t count) \
    {                                                                                                                     \
        return n ? da_refuse(c, "all variables of this FMU are of type Float64") : fmi3OK;                                \
    }
DA_OTHER(Float32, float)
DA_OTHER(Int8, int8_t)
DA_OTHER(UInt8, uint8_t)
DA_OTHER(Int16, int16_t)
DA_OTHER(UInt16, uint16_t)
DA_OTHER(Int32, int32_t)
DA_OTHER(UInt32, uint32_t)
DA_OTHER(Int64, int64_t)
DA_OTHER(UInt64, uint64_t)
DA_OTHER(Boolean, bool)
DA_OTHER(String, fmi3String)

#define DA_WITHOUT(name, arguments) \
    FMI3 fmi3Status name arguments { return da_refuse(c, "this FMU has no such ability: " #name); }
DA_WITHOUT(fmi3GetBinary, (fmi3Instance c, const fmi3ValueReference r[], size_t n, size_t sizes[], const uint8_t *value[], size_t count))
DA_WITHOUT(fmi3SetBinary, (fmi3Instance c, const fmi3ValueReference r[], size_t n, const size_t sizes[], const uint8_t *const value[], size_t count))
DA_WITHOUT(fmi3GetClock, (fmi3Instance c, const fmi3ValueReference r[], size_t n, bool value[]))
DA_WITHOUT(fmi3SetClock, (fmi3Instance c, const fmi3ValueReference r[], size_t n, const bool value[]))
DA_WITHOUT(fmi3GetNumberOfVariableDependencies, (fmi3Instance c, fmi3ValueReference r, size_t *n))
DA_WITHOUT(fmi3GetVariableDependencies, (fmi3Instance c, fmi3ValueReference r, size_t a[], fmi3ValueReference b[], size_t e[], int kinds[], size_t n))
DA_WITHOUT(fmi3GetDirectionalDerivative, (fmi3Instance c, const fmi3ValueReference a[], size_t n, const fmi3ValueReference b[], size_t m, const double seed[], size_t k, double out[], size_t l))
DA_WITHOUT(fmi3GetAdjointDerivative, (fmi3Instance c, const fmi3ValueReference a[], size_t n, const fmi3ValueReference b[], size_t m, const double seed[], size_t k, double out[], size_t l))
DA_WITHOUT(fmi3EnterConfigurationMode, (fmi3Instance c))
DA_WITHOUT(fmi3ExitConfigurationMode, (fmi3Instance c))
DA_WITHOUT(fmi3GetIntervalDecimal, (fmi3Instance c, const fmi3ValueReference r[], size_t n, double a[], int kinds[]))
DA_WITHOUT(fmi3GetIntervalFraction, (fmi3Instance c, const fmi3ValueReference r[], size_t n, uint64_t a[], uint64_t b[], int kinds[]))
DA_WITHOUT(fmi3GetShiftDecimal, (fmi3Instance c, const fmi3ValueReference r[], size_t n, double a[]))
DA_WITHOUT(fmi3GetShiftFraction, (fmi3Instance c, const fmi3ValueReference r[], size_t n, uint64_t a[], uint64_t b[]))
DA_WITHOUT(fmi3SetIntervalDecimal, (fmi3Instance c, const fmi3ValueReference r[], size_t n, const double a[]))
DA_WITHOUT(fmi3SetIntervalFraction, (fmi3Instance c, const fmi3ValueReference r[], size_t n, const uint64_t a[], const uint64_t b[]))
DA_WITHOUT(fmi3SetShiftDecimal, (fmi3Instance c, const fmi3ValueReference r[], size_t n, const double a[]))
DA_WITHOUT(fmi3SetShiftFraction, (fmi3Instance c, const fmi3ValueReference r[], size_t n, const uint64_t a[], const uint64_t b[]))
DA_WITHOUT(fmi3EvaluateDiscreteStates, (fmi3Instance c))
DA_WITHOUT(fmi3UpdateDiscreteStates, (fmi3Instance c, bool *a, bool *b, bool *d, bool *e, bool *f, double *t))
DA_WITHOUT(fmi3EnterContinuousTimeMode, (fmi3Instance c))
DA_WITHOUT(fmi3CompletedIntegratorStep, (fmi3Instance c, bool a, bool *b, bool *d))
DA_WITHOUT(fmi3SetTime, (fmi3Instance c, double t))
DA_WITHOUT(fmi3SetContinuousStates, (fmi3Instance c, const double x[], size_t n))
DA_WITHOUT(fmi3GetContinuousStateDerivatives, (fmi3Instance c, double x[], size_t n))
DA_WITHOUT(fmi3GetEventIndicators, (fmi3Instance c, double x[], size_t n))
DA_WITHOUT(fmi3GetContinuousStates, (fmi3Instance c, double x[], size_t n))
DA_WITHOUT(fmi3GetNominalsOfContinuousStates, (fmi3Instance c, double x[], size_t n))
DA_WITHOUT(fmi3GetNumberOfEventIndicators, (fmi3Instance c, size_t *n))
DA_WITHOUT(fmi3GetNumberOfContinuousStates, (fmi3Instance c, size_t *n))
DA_WITHOUT(fmi3GetOutputDerivatives, (fmi3Instance c, const fmi3ValueReference r[], size_t n, const int32_t order[], double value[], size_t count))
DA_WITHOUT(fmi3ActivateModelPartition, (fmi3Instance c, fmi3ValueReference r, double t))

FMI3 fmi3Status fmi3GetFMUState(fmi3Instance c, void **state)
{
    if (!*state) *state = malloc(sizeof(da_data));
    if (!*state) return da_refuse(c, "there is no memory left");
    memcpy(*state, &((da_component *)c)->data, sizeof(da_data));
    return fmi3OK;
}

FMI3 fmi3Status fmi3SetFMUState(fmi3Instance c, void *state)
{
    memcpy(&((da_component *)c)->data, state, sizeof(da_data));
    return fmi3OK;
}

FMI3 fmi3Status fmi3FreeFMUState(fmi3Instance c, void **state)
{
    free(*state);
    *state = 0;
    return fmi3OK;
}

FMI3 fmi3Status fmi3SerializedFMUStateSize(fmi3Instance c, void *state, size_t *size)
{
    *size = sizeof(da_data);
    return fmi3OK;
}

FMI3 fmi3Status fmi3SerializeFMUState(fmi3Instance c, void *state, uint8_t bytes[], size_t size)
{
    if (size < sizeof(da_data)) return da_refuse(c, "there is too little room for the state");
    memcpy(bytes, state, sizeof(da_data));
    return fmi3OK;
}

FMI3 fmi3Status fmi3DeserializeFMUState(fmi3Instance c, const uint8_t bytes[], size_t size, void **state)
{
    if (size != sizeof(da_data)) return da_refuse(c, "this is no state of this FMU");
    if (!*state) *state = malloc(sizeof(da_data));
    if (!*state) return da_refuse(c, "there is no memory left");
    memcpy(*state, bytes, sizeof(da_data));
    return fmi3OK;
}

FMI3 fmi3Status fmi3DoStep(fmi3Instance c, double now, double length, bool forgotten, bool *event, bool *terminate, bool *early,
                           double *last)
{
    da_data *d = &((da_component *)c)->data;
    const int64_t steps = da_count(length);
    char text[160];
    *event = *terminate = *early = false;
    *last = da_time(d);
    if (steps < 0) {
        snprintf(text, sizeof text, "the communication step %.17g is no multiple of the step %.17g", length, (double)DA_STEP);
        return da_refuse(c, text);
    }
    const char *wrong = da_advance(d, steps);
    *last = da_time(d);
    return wrong ? da_refuse(c, wrong) : fmi3OK;
}
