/* Two steps of different lengths from one place, one in each lane of a vector: a whole one for comparison, of which the state is
   kept, and its first half. Both are bound by operations that wait for each other, and so take as long as one. They are those of
   loop.c to the last bit. What is out of the ordinary is left to it: -1 is returned then, else the iterations of the half. */

$functions

static inline long
da_pair(double t_, double h0, double h1, const da_memory from, double *whole, const da_memory to, double *lam_of, double *work_of,
        const double *par_, const double *u_, const da_rule *rule)
{
    const da_rule limits = *rule;
    const W h = {h0, h1}, t = da_wide(t_);
    W par[$parameters + 1], u[$inputs + 1], last[$unknowns + 1], before[$unknowns + 1], scale[$scales + 1];
    I iterations = (I){0};
    const I alive = (I)(da_wide(0) == da_wide(0)), looked = (I){0};
    $memory
    $load
    DA_UNROLL for (int j = 0; j < $parameters; j++) par[j] = da_wide(par_[j]);
    DA_UNROLL for (int j = 0; j < $inputs; j++) u[j] = da_wide(u_[j]);
    DA_UNROLL for (int j = 0; j < $unknowns; j++) last[j] = da_wide(from.last[j]);
    DA_UNROLL for (int j = 0; j < $unknowns; j++) before[j] = da_wide(from.before[j]);
    DA_UNROLL for (int j = 0; j < $scales; j++) scale[j] = da_wide(from.kept[j]);
    $run
    $solves
    $finish
    if (da_any(~(I)($check < da_wide(1e300)))) return -1;
    $write
    DA_UNROLL for (int j = 0; j < $scales; j++) to.kept[j] = from.kept[j];
    return iterations[1];
}
