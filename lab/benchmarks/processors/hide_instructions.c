/* Answers `cpuid` for a library in which hide_instructions.py replaced it by a breakpoint: as this
 * processor does, less what HIDE names. So a program runs at full speed as on an older processor.
 *
 *     HIDE=vnni    x86-64 with AVX-512, before Cascade Lake
 *     HIDE=avx512  x86-64 with AVX2: Zen to Zen 3, Haswell to Comet Lake
 *
 * gcc -O2 -Wall -shared -fPIC -o libhide.so hide_instructions.c; then LD_PRELOAD=libhide.so.
 */
#define _GNU_SOURCE
#include <cpuid.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#define BIT(n) (1u << (n))

/* Leaf 7: foundation, DQ, IFMA, PF, ER, CD, BW, VL; VBMI, VBMI2, BITALG, VPOPCNTDQ; 4VNNIW, 4FMAPS,
 * VP2INTERSECT, FP16. AVX512_VNNI is bit 11 of ECX; AMX has bits 22, 24 and 25 of EDX. */
static const unsigned avx512_b = BIT(16) | BIT(17) | BIT(21) | BIT(26) | BIT(27) | BIT(28) | BIT(30) | BIT(31);
static const unsigned avx512_c = BIT(1) | BIT(6) | BIT(12) | BIT(14);
static const unsigned avx512_d = BIT(2) | BIT(3) | BIT(8) | BIT(23);
static const unsigned vnni_c = BIT(11);
static const unsigned amx_d = BIT(22) | BIT(24) | BIT(25);
/* Leaf 7, subleaf 1: AVX_VNNI, AVX512_BF16; AVX_VNNI_INT8, AVX_NE_CONVERT, AVX_VNNI_INT16. */
static const unsigned newer_a = BIT(4) | BIT(5);
static const unsigned newer_d = BIT(4) | BIT(5) | BIT(10);

static int hides_avx512;

static void answer(int number, siginfo_t *info, void *context) {
    (void)number;
    (void)info;
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    unsigned leaf = (unsigned)registers[REG_RAX], subleaf = (unsigned)registers[REG_RCX];
    unsigned a, b, c, d;
    __cpuid_count(leaf, subleaf, a, b, c, d);
    if (leaf == 7 && subleaf == 0) {
        c &= ~vnni_c;
        d &= ~amx_d;
        if (hides_avx512) {
            b &= ~avx512_b;
            c &= ~avx512_c;
            d &= ~avx512_d;
        }
    }
    if (leaf == 7 && subleaf == 1) {
        a &= ~newer_a;
        d &= ~newer_d;
    }
    registers[REG_RAX] = a;
    registers[REG_RBX] = b;
    registers[REG_RCX] = c;
    registers[REG_RDX] = d;
}

__attribute__((constructor)) static void start(void) {
    const char *hidden = getenv("HIDE");
    struct sigaction action;
    hides_avx512 = hidden != NULL && strcmp(hidden, "avx512") == 0;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = answer;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    sigaction(SIGTRAP, &action, NULL);
}
