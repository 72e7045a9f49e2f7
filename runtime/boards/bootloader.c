/* What runs first on an emulated board: it starts the image at IMAGE only where the manifest at
   MANIFEST and the anchor, which is compiled in, say that it may. Both stand in flash, up to
   IMAGE_SIZE and MANIFEST_SIZE bytes; ANCHOR is a list of 32 bytes. */
#include "boot.h"
#include "start.h"

static const uint8_t anchor[32] = {ANCHOR};

__attribute__((used, noreturn)) void reset(void)
{
    const int32_t wrong = triton_boot_check((const uint8_t *)IMAGE, IMAGE_SIZE,
                                            (const uint8_t *)MANIFEST, MANIFEST_SIZE, anchor);
    if (wrong == 0) {
#ifdef __riscv
        __asm__ volatile(".word 0x0000100f\njr %0" /* fence.i */ : : "r"(IMAGE) : "memory");
#else
        const uint32_t *const vectors = (const uint32_t *)IMAGE;
        *(volatile uint32_t *)0xe000ed08u = (uint32_t)IMAGE; /* where vectors are from now on */
        __asm__ volatile("msr msp, %0\nbx %1" : : "r"(vectors[0]), "r"(vectors[1]) : "memory");
#endif
    }
    host(4, "boot: the image is not the one of the manifest\n");
    host(0x18, (const void *)0x20023); /* an error, for whoever started the emulator */
    for (;;) {
    }
}
