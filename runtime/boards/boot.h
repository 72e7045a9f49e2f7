/* Checks an image in memory by a chain of hashes. C99, without a library; see boot.c. */
#ifndef TRITON_BOOT_H
#define TRITON_BOOT_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* SHA-256 (FIPS 180-4) of two parts of memory, one behind the other; either may be empty. */
void triton_sha256(uint8_t digest[32], const uint8_t *first, uint32_t first_size,
                   const uint8_t *then, uint32_t then_size);

/* 0 where image and manifest are those that the anchor stands for; else the number of the first
   block that is not, from 1, or -1 for a manifest that is none, or does not lead to the anchor. */
int32_t triton_boot_check(const uint8_t *image, uint32_t image_size, const uint8_t *manifest,
                          uint32_t manifest_size, const uint8_t anchor[32]);

#ifdef __cplusplus
}
#endif

#endif /* TRITON_BOOT_H */
