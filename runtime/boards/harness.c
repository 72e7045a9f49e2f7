/* Runs a program on the samples of a file, under an emulator with semihosting: what a board needs
   to start, and counts of instructions and of stack. From the command line of the compiler come
   HEADER, which declares the function, CALL, which calls it for `input` and `output`, and INPUT and
   OUTPUT, the bytes of a sample. */
#include HEADER
#include "start.h"

#include <stdint.h>

extern uint32_t bss_start[], bss_end[], data_start[], data_end[], data_source[], stack_start[];
int main(void);

static uintptr_t open_file(const char *name, uintptr_t mode, uintptr_t length)
{
    const uintptr_t block[3] = {(uintptr_t)name, mode, length};
    return (uintptr_t)host(1, block);
}

static int read_file(uintptr_t file, void *data, uintptr_t size)
{
    const uintptr_t block[3] = {file, (uintptr_t)data, size};
    return host(6, block);
}

static void write_file(uintptr_t file, const void *data, uintptr_t size)
{
    const uintptr_t block[3] = {file, (uintptr_t)data, size};
    (void)host(5, block);
}

/* One instruction is a nanosecond of the emulator; the counter of ARM has 25 MHz and 24 bits. */
#ifdef __riscv
static uint32_t start(void)
{
    register uint32_t a0 __asm__("a0");
    __asm__ volatile(".word 0xb0202573" : "=r"(a0)); /* csrr a0, minstret */
    return a0;
}

static uint32_t since(uint32_t before)
{
    return start() - before;
}
#else
#define TIMER ((volatile uint32_t *)0xe000e010u)
static uint32_t start(void)
{
    TIMER[1] = 0xffffffu;
    TIMER[2] = 0;
    TIMER[0] = 5;
    return TIMER[2];
}

static uint32_t since(uint32_t before)
{
    return ((before - TIMER[2]) & 0xffffffu) * 40u;
}
#endif

static union {
    uint64_t aligned;
    uint8_t bytes[INPUT];
} given;
static union {
    uint64_t aligned;
    uint8_t bytes[OUTPUT];
} result;

int main(void)
{
    const uintptr_t samples = open_file("samples.bin", 1, 11);
    const uintptr_t results = open_file("results.bin", 5, 11);
    const uintptr_t counts = open_file("counts.bin", 5, 10);
    uint32_t *const here = __builtin_frame_address(0);
    uint8_t *const input = given.bytes, *const output = result.bytes;
    while (read_file(samples, input, INPUT) == 0) {
        uint32_t record[2];
        for (volatile uint32_t *word = stack_start; word < here - 64; word++) {
            *word = 0xa5a5a5a5u;
        }
        const uint32_t before = start();
        CALL;
        record[0] = since(before);
        const uint32_t *deepest = stack_start;
        while (*deepest == 0xa5a5a5a5u) {
            deepest++;
        }
        record[1] = (uint32_t)((uintptr_t)here - (uintptr_t)deepest);
        write_file(results, output, OUTPUT);
        write_file(counts, record, sizeof record);
    }
    return 0;
}

/* Keeps the loops from becoming calls of functions that use what is not set up yet. */
__attribute__((used, noreturn, optimize("no-tree-loop-distribute-patterns"))) void reset(void)
{
    for (uint32_t *to = data_start, *from = data_source; to < data_end;) {
        *to++ = *from++;
    }
    for (uint32_t *to = bss_start; to < bss_end;) {
        *to++ = 0;
    }
#ifndef __riscv
    *(volatile uint32_t *)0xe000ed88u |= 0xf00000u; /* the unit of floats */
#endif
    (void)main();
    (void)host(0x18, (const void *)0x20026);
    for (;;) {
    }
}
