/* Fused multiply-adds for QEMU on an Intel, preloaded into it: the same numbers, sooner.
 *
 * QEMU computes each of an emulated program's with fmaf or fma of libm, one number at a time. What it
 * generates is of AVX and leaves the upper halves of registers in use; its own code is of SSE. In such a
 * state an Intel saves and restores them, some 70 cycles, at every step from one to the other: before and
 * behind each of these. With the halves cleared first it has nothing to save. An AMD does not care.
 */
#include <immintrin.h>

float fmaf(float a, float b, float c)
{
    _mm256_zeroupper();
    return _mm_cvtss_f32(_mm_fmadd_ss(_mm_set_ss(a), _mm_set_ss(b), _mm_set_ss(c)));
}

double fma(double a, double b, double c)
{
    _mm256_zeroupper();
    return _mm_cvtsd_f64(_mm_fmadd_sd(_mm_set_sd(a), _mm_set_sd(b), _mm_set_sd(c)));
}
