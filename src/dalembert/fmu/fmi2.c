/* The interface of FMI 2.0 for co-simulation. */

#ifdef _WIN32
#define FMI2 __declspec(dllexport)
#else
#define FMI2 __attribute__((visibility("default")))
#endif
typedef void *fmi2Component;
typedef unsigned int fmi2ValueReference;
typedef double fmi2Real;
typedef int fmi2Integer;
typedef int fmi2Boolean;
typedef const char *fmi2String;
typedef char fmi2Byte;
typedef enum { fmi2OK, fmi2Warning, fmi2Discard, fmi2Error, fmi2Fatal, fmi2Pending } fmi2Status;

typedef struct {
    void (*logger)(void *, fmi2String, fmi2Status, fmi2String, fmi2String, ...);
    void *(*allocateMemory)(size_t, size_t);
    void (*freeMemory)(void *);
    void (*stepFinished)(void *, fmi2Status);
    void *environment;
} fmi2CallbackFunctions;

typedef struct {
    da_data data;
    fmi2CallbackFunctions callbacks;
    char name[256];
} da_component;

static fmi2Status da_say(da_component *c, const char *what)
{
    if (c->callbacks.logger) c->callbacks.logger(c->callbacks.environment, c->name, fmi2Error, "logStatusError", "%s", what);
    return fmi2Error;
}

static fmi2Status da_refuse(void *c, const char *what) { return c ? da_say((da_component *)c, what) : fmi2Error; }

FMI2 const char *fmi2GetTypesPlatform(void) { return "default"; }
FMI2 const char *fmi2GetVersion(void) { return "2.0"; }
FMI2 fmi2Status fmi2SetDebugLogging(fmi2Component c, fmi2Boolean on, size_t n, const fmi2String kinds[]) { return fmi2OK; }

FMI2 fmi2Component fmi2Instantiate(fmi2String name, int type, fmi2String guid, fmi2String location,
                                   const fmi2CallbackFunctions *functions, fmi2Boolean visible, fmi2Boolean logging)
{
    if (type != 1 || !guid || strcmp(guid, DA_TOKEN)) {
        if (functions && functions->logger)
            functions->logger(functions->environment, name, fmi2Error, "logStatusError",
                              type != 1 ? "this FMU is for co-simulation" : "the guid is not that of this FMU");
        return 0;
    }
    da_component *c = calloc(1, sizeof *c);
    if (!c) return 0;
    if (functions) c->callbacks = *functions;
    snprintf(c->name, sizeof c->name, "%s", name ? name : "");
    da_reset(&c->data);
    return c;
}

FMI2 void fmi2FreeInstance(fmi2Component c) { free(c); }

FMI2 fmi2Status fmi2SetupExperiment(fmi2Component c, fmi2Boolean has_tolerance, fmi2Real tolerance, fmi2Real start,
                                    fmi2Boolean has_stop, fmi2Real stop)
{
    ((da_component *)c)->data.t0 = ((da_component *)c)->data.values[0] = start;
    return fmi2OK;
}

FMI2 fmi2Status fmi2EnterInitializationMode(fmi2Component c) { return fmi2OK; }

FMI2 fmi2Status fmi2ExitInitializationMode(fmi2Component c)
{
    const char *wrong = da_begin(&((da_component *)c)->data);
    return wrong ? da_refuse(c, wrong) : fmi2OK;
}

FMI2 fmi2Status fmi2Terminate(fmi2Component c) { return fmi2OK; }

FMI2 fmi2Status fmi2Reset(fmi2Component c)
{
    da_reset(&((da_component *)c)->data);
    return fmi2OK;
}

FMI2 fmi2Status fmi2GetReal(fmi2Component c, const fmi2ValueReference r[], size_t n, fmi2Real value[])
{
    da_data *d = &((da_component *)c)->data;
    for (size_t i = 0; i < n; i++) {
        if (r[i] >= DA_VALUES) return da_refuse(c, "there is no variable with this value reference");
        if (!d->running && r[i] >= DA_OUTPUTS_AT) { /* asked for while values are still being set */
            da_data copy = *d;
            const char *wrong = da_begin(&copy);
            if (wrong) return da_refuse(c, wrong);
            value[i] = copy.values[r[i]];
        } else value[i] = d->values[r[i]];
    }
    return fmi2OK;
}

FMI2 fmi2Status fmi2SetReal(fmi2Component c, const fmi2ValueReference r[], size_t n, const fmi2Real value[])
{
    for (size_t i = 0; i < n; i++) {
        const char *wrong = da_set(&((da_component *)c)->data, r[i], value[i]);
        if (wrong) return da_refuse(c, wrong);
    }
    return fmi2OK;
}

#define DA_ONLY_REAL "all variables of this FMU are real numbers"
FMI2 fmi2Status fmi2GetInteger(fmi2Component c, const fmi2ValueReference r[], size_t n, fmi2Integer value[]) { return n ? da_refuse(c, DA_ONLY_REAL) : fmi2OK; }
FMI2 fmi2Status fmi2GetBoolean(fmi2Component c, const fmi2ValueReference r[], size_t n, fmi2Boolean value[]) { return n ? da_refuse(c, DA_ONLY_REAL) : fmi2OK; }
FMI2 fmi2Status fmi2GetString(fmi2Component c, const fmi2ValueReference r[], size_t n, fmi2String value[]) { return n ? da_refuse(c, DA_ONLY_REAL) : fmi2OK; }
FMI2 fmi2Status fmi2SetInteger(fmi2Component c, const fmi2ValueReference r[], size_t n, const fmi2Integer value[]) { return n ? da_refuse(c, DA_ONLY_REAL) : fmi2OK; }
FMI2 fmi2Status fmi2SetBoolean(fmi2Component c, const fmi2ValueReference r[], size_t n, const fmi2Boolean value[]) { return n ? da_refuse(c, DA_ONLY_REAL) : fmi2OK; }
FMI2 fmi2Status fmi2SetString(fmi2Component c, const fmi2ValueReference r[], size_t n, const fmi2String value[]) { return n ? da_refuse(c, DA_ONLY_REAL) : fmi2OK; }

FMI2 fmi2Status fmi2GetFMUstate(fmi2Component c, void **state)
{
    if (!*state) *state = malloc(sizeof(da_data));
    if (!*state) return da_refuse(c, "there is no memory left");
    memcpy(*state, &((da_component *)c)->data, sizeof(da_data));
    return fmi2OK;
}

FMI2 fmi2Status fmi2SetFMUstate(fmi2Component c, void *state)
{
    memcpy(&((da_component *)c)->data, state, sizeof(da_data));
    return fmi2OK;
}

FMI2 fmi2Status fmi2FreeFMUstate(fmi2Component c, void **state)
{
    free(*state);
    *state = 0;
    return fmi2OK;
}

FMI2 fmi2Status fmi2SerializedFMUstateSize(fmi2Component c, void *state, size_t *size)
{
    *size = sizeof(da_data);
    return fmi2OK;
}

FMI2 fmi2Status fmi2SerializeFMUstate(fmi2Component c, void *state, fmi2Byte bytes[], size_t size)
{
    if (size < sizeof(da_data)) return da_refuse(c, "there is too little room for the state");
    memcpy(bytes, state, sizeof(da_data));
    return fmi2OK;
}

FMI2 fmi2Status fmi2DeSerializeFMUstate(fmi2Component c, const fmi2Byte bytes[], size_t size, void **state)
{
    if (size != sizeof(da_data)) return da_refuse(c, "this is no state of this FMU");
    if (!*state) *state = malloc(sizeof(da_data));
    if (!*state) return da_refuse(c, "there is no memory left");
    memcpy(*state, bytes, sizeof(da_data));
    return fmi2OK;
}

FMI2 fmi2Status fmi2GetDirectionalDerivative(fmi2Component c, const fmi2ValueReference a[], size_t n,
                                             const fmi2ValueReference b[], size_t m, const fmi2Real seed[], fmi2Real out[])
{
    return da_refuse(c, "this FMU has no directional derivatives");
}

FMI2 fmi2Status fmi2SetRealInputDerivatives(fmi2Component c, const fmi2ValueReference r[], size_t n, const fmi2Integer order[],
                                            const fmi2Real value[])
{
    return da_refuse(c, "inputs are held during a communication step");
}

FMI2 fmi2Status fmi2GetRealOutputDerivatives(fmi2Component c, const fmi2ValueReference r[], size_t n, const fmi2Integer order[],
                                             fmi2Real value[])
{
    return da_refuse(c, "this FMU has no derivatives of outputs");
}

FMI2 fmi2Status fmi2DoStep(fmi2Component c, fmi2Real now, fmi2Real length, fmi2Boolean forgotten)
{
    const int64_t steps = da_count(length);
    char text[160];
    if (steps < 0) {
        snprintf(text, sizeof text, "the communication step %.17g is no multiple of the step %.17g", length, (double)DA_STEP);
        return da_refuse(c, text);
    }
    const char *wrong = da_advance(&((da_component *)c)->data, steps);
    return wrong ? da_refuse(c, wrong) : fmi2OK;
}

FMI2 fmi2Status fmi2CancelStep(fmi2Component c) { return da_refuse(c, "steps of this FMU are made at once"); }

FMI2 fmi2Status fmi2GetStatus(fmi2Component c, int kind, fmi2Status *value)
{
    *value = fmi2OK;
    return fmi2OK;
}

FMI2 fmi2Status fmi2GetRealStatus(fmi2Component c, int kind, fmi2Real *value)
{
    *value = da_time(&((da_component *)c)->data);
    return fmi2OK;
}

FMI2 fmi2Status fmi2GetIntegerStatus(fmi2Component c, int kind, fmi2Integer *value)
{
    *value = 0;
    return fmi2OK;
}

FMI2 fmi2Status fmi2GetBooleanStatus(fmi2Component c, int kind, fmi2Boolean *value)
{
    *value = 0;
    return fmi2OK;
}

FMI2 fmi2Status fmi2GetStringStatus(fmi2Component c, int kind, fmi2String *value)
{
    *value = "";
    return fmi2OK;
}
