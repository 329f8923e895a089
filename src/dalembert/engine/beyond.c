/* The first of some states at which one of the functions above is negative or not a number; their count where there is none. */

DA_EXPORT long da_beyond(long rows, const double *states, const double *times, const double *par)
{
    double out[$count];
    for (long k = 0; k < rows; k++) {
        da_values(states + k * $width, times[k], par, out);
        for (int i = 0; i < $count; i++)
            if (!(out[i] >= 0)) return k;
    }
    return rows;
}
