/* Where an emulated board starts, and how a program asks the emulator: a number of Arm's
   semihosting, and what it takes. */
#ifndef START_H
#define START_H

#include <stdint.h>

extern uint32_t stack_end[];
void reset(void);

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

#ifdef __riscv
__asm__(".section .vectors, \"ax\"\n.globl entry\nentry: la sp, stack_end\nj reset\n");
#else
__attribute__((section(".vectors"), used)) static const void *const vectors[] = {
    stack_end, (const void *)reset};
#endif

#endif
