/* The order in which L D L^T is found, made once for a pattern: that of QDLDL. */
#define DA_EXPORT __attribute__((visibility("default")))

/* The columns of L: how many entries each has. */
DA_EXPORT void da_tree(long n, const int *begin, const int *row, int *parent, int *count, int *mark)
{
    for (long i = 0; i < n; i++) { parent[i] = -1; count[i] = 0; mark[i] = -1; }
    for (int j = 0; j < n; j++) {
        mark[j] = j;
        for (int p = begin[j]; p < begin[j + 1]; p++)
            for (int i = row[p]; mark[i] != j; i = parent[i]) {
                if (parent[i] < 0) parent[i] = j;
                count[i]++;
                mark[i] = j;
            }
    }
}

/* The rows of L, and for each row the columns that it needs, in the order in which QDLDL takes them, with its entry in each. */
DA_EXPORT void da_rows(long n, const int *begin, const int *row, const int *parent, const int *lp, int *li, int *starts,
                       int *list, int *entry, int *next, int *mark, int *found, int *path)
{
    int filled = 0;
    for (long i = 0; i < n; i++) { next[i] = lp[i]; mark[i] = 0; }
    for (int k = 0; k < n; k++) {
        int count = 0;
        starts[k] = filled;
        for (int p = begin[k]; p < begin[k + 1]; p++) {
            int b = row[p], length = 0;
            if (b == k) continue;
            for (; b >= 0 && b < k && !mark[b]; b = parent[b]) { mark[b] = 1; path[length++] = b; }
            while (length) found[count++] = path[--length];
        }
        while (count) {
            const int c = found[--count];
            list[filled] = c;
            li[entry[filled++] = next[c]++] = k;
            mark[c] = 0;
        }
    }
    starts[n] = filled;
}

typedef struct { unsigned long long a, b; } da_digest;

static void enter(da_digest *d, long value)
{
    d->a = (d->a ^ (unsigned long long)value) * 0x9E3779B97F4A7C15ull;
    d->b = (d->b + (unsigned long long)value) * 0xC2B2AE3D27D4EB4Full;
    d->a ^= d->a >> 29;
    d->b ^= d->b >> 31;
}

/* What is done for each row of L, and with each column, as numbers that are the same where it is; zero for those that are `wide`. */
DA_EXPORT void da_kinds(long n, const int *begin, const int *row, const int *lp, const int *li, const int *starts, const int *list,
                        const int *entry, const int *wide, da_digest *rows, da_digest *columns, int *place)
{
    for (int k = 0; k < n; k++) {
        const int m = starts[k + 1] - starts[k];
        rows[k].a = rows[k].b = columns[k].a = columns[k].b = 0;
        if (m <= *wide) {
            enter(rows + k, m + 1);
            for (int a = 0; a < m; a++) place[list[starts[k] + a]] = a;
            for (int p = begin[k]; p < begin[k + 1]; p++) enter(rows + k, row[p] == k ? -1 : place[row[p]]);
            for (int a = 0; a < m; a++) {
                enter(rows + k, -2);
                for (int j = lp[list[starts[k] + a]]; j < entry[starts[k] + a]; j++) enter(rows + k, place[li[j]]);
            }
        }
        if (lp[k + 1] - lp[k] <= *wide) {
            enter(columns + k, lp[k + 1] - lp[k] + 1);
            enter(columns + k, li[lp[k]] == k + 1);
            for (int j = lp[k]; j < lp[k + 1]; j++) enter(columns + k, li[j] - li[lp[k]]);
        }
    }
}
