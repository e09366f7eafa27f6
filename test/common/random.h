/* random.h - the one random generator of the tests: splitmix64, and what is drawn with it. */
#ifndef RANDOM_H
#define RANDOM_H
#include <math.h>
#include <stdint.h>

#if defined(__GNUC__)
#define SHARED static __attribute__((unused))
#else
#define SHARED static
#endif

SHARED uint64_t random_bits(uint64_t *state)            /* splitmix64 */
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}
SHARED double random_unit(uint64_t *state) { return ((double)(random_bits(state) >> 11) + 0.5) * 0x1p-53; }
SHARED double random_normal(uint64_t *state)            /* four uniforms of 14 bits: variance 1.01, at most 3.5, exact in f32 */
{
    uint64_t x = random_bits(state);
    int64_t sum = (int64_t)(x & 16383) + (int64_t)(x >> 16 & 16383) + (int64_t)(x >> 32 & 16383) + (int64_t)(x >> 48 & 16383);
    return (double)(sum - 32766) * 0x1.bcp-14;
}
/* The same with all digits that a number has, by Box and Muller: for programs built with ordinary floating point. */
SHARED double random_gauss(uint64_t *state)
{
    double a = random_unit(state), b = random_unit(state);
    return sqrt(-2 * log(a)) * cos(6.283185307179586 * b);
}
#endif
