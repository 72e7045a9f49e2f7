/* Answers `cpuid` as a processor that has AVX2 and no later vectors: `as_processor.py` has put `int3` and
 * `nop` in its place. Loaded before the libraries that ask. */

#define _GNU_SOURCE
#include <cpuid.h>
#include <signal.h>
#include <ucontext.h>

enum { EXTENDED = 7, SAVED_STATE = 13, BREAKPOINT = 0xCC, NO_OPERATION = 0x90 };

/* AVX-512 F, DQ, IFMA, PF, ER, CD, BW and VL in EBX; all else that is later stands in ECX, EDX and subleaves. */
static const unsigned later = 0xDC230000;

static void answer(int number, siginfo_t *info, void *context) {
    (void)info;
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    const unsigned char *next = (const unsigned char *)registers[REG_RIP];
    if (next[-1] != BREAKPOINT || next[0] != NO_OPERATION) {
        signal(number, SIG_DFL);
        raise(number);
        return;
    }
    unsigned leaf = (unsigned)registers[REG_RAX], subleaf = (unsigned)registers[REG_RCX];
    unsigned a, b, c, d;
    __cpuid_count(leaf, subleaf, a, b, c, d);
    if (leaf == EXTENDED) {
        b = subleaf ? 0 : b & ~later;
        a = c = d = 0;
    }
    registers[REG_RAX] = a;
    registers[REG_RBX] = b;
    registers[REG_RCX] = c;
    registers[REG_RDX] = d;
}

__attribute__((constructor)) static void begin(void) {
    struct sigaction action = {.sa_sigaction = answer, .sa_flags = SA_SIGINFO};
    sigaction(SIGTRAP, &action, NULL);
}

/* Whether this thread has masks or the registers 16 to 31 of AVX-512 in use, which lasts from the first write
 * on; no where the processor does not tell. */
int wide_registers(void) {
    unsigned a, b, c, d;
    __cpuid_count(SAVED_STATE, 1, a, b, c, d);
    if (!(a & 1u << 2))
        return 0;
    __asm__ volatile("xgetbv" : "=a"(a), "=d"(d) : "c"(1));
    return (a & 0xA0) != 0;
}
