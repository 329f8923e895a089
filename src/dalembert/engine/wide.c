/* Vectors of DA_W numbers, or as long as the processor has them, of at most DA_MOST numbers, and what numbers have operators for
   and vectors have not. */

#if defined(__GNUC__) && !defined(__clang__)
#define DA_UNROLL _Pragma("GCC unroll 8")
#else
#define DA_UNROLL _Pragma("unroll")
#endif

#if defined(DA_W)
#elif defined(__AVX512F__) && !(defined(DA_MOST) && DA_MOST < 8)
#define DA_W 8
#elif defined(__AVX__)
#define DA_W 4
#else
#define DA_W 2
#endif

typedef double W __attribute__((vector_size(8 * DA_W)));
typedef long long I __attribute__((vector_size(8 * DA_W)));

static inline W da_wide(double x) { return x - (W){0}; }
static inline W da_pick(I mask, W a, W b) { return (W)(((I)a & mask) | ((I)b & ~mask)); }
static inline W da_abs(W x) { return (W)((I)x & 0x7fffffffffffffffLL); }

static inline I da_true(W x) { return (I)(x != da_wide(0)); }
static inline W da_one(I mask) { return (W)((I)da_wide(1) & mask); }

static inline int da_any(I mask)
{
    long long r = 0;
    DA_UNROLL
    for (int e = 0; e < DA_W; e++) r |= mask[e];
    return r != 0;
}
