/* How a program asks the emulator that it runs under: a number of Arm's semihosting, and what it
   takes. */
#ifndef SEMIHOSTING_H
#define SEMIHOSTING_H

static int host(int operation, const void *argument)
{
#ifdef __riscv
    register int a0 __asm__("a0") = operation;
    register const void *a1 __asm__("a1") = argument;
    /* Aligned first: what fills may need instructions of two bytes. */
    __asm__ volatile(".balign 16\n.option push\n.option norvc\nslli zero, zero, 0x1f\nebreak\n"
                     "srai zero, zero, 7\n.option pop"
                     : "+r"(a0)
                     : "r"(a1)
                     : "memory");
    return a0;
#else
    register int r0 __asm__("r0") = operation;
    register const void *r1 __asm__("r1") = argument;
    __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
    return r0;
#endif
}

#endif
