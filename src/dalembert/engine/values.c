/* Functions of the state, $count of them. */

DA_EXPORT void da_values(const double *state, double t, const double *par, double *out)
{
    $body
}
