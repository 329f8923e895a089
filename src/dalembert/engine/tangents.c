/* A loop over the steps of a run, forwards or backwards. What stands after dollar signs is written from the function of a step;
   see sweeping.py. Entry k of an argument in step i and direction j is in[a][i * rows[a] + j * each[a] + k]. */

DA_EXPORT const long da_work = $length;

DA_EXPORT void da_sweep(long steps, long count, const double *const *in, const long *rows, const long *each,
                        double *const *out, double *w)
{
    $pointers
    $run
    for (long k = 0; k < steps; k++) {
        const long i = $index;
        $row
        $step
        for (long j = 0; j < count; j++) {
            $column
            $direction
            $write
            $carry
        }
    }
}
