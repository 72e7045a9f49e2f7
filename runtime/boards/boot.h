/* Checks an image in memory by a chain of hashes. C99, without a library; see boot.c. */
#ifndef TRITON_BOOT_H
#define TRITON_BOOT_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* SHA-256 (FIPS 180-4) of up to 2^32 - 1 bytes, given in parts. */
typedef struct {
    uint32_t state[8];
    uint32_t count;
    uint8_t block[64];
} triton_sha256;

void triton_sha256_start(triton_sha256 *hash);
void triton_sha256_add(triton_sha256 *hash, const uint8_t *data, uint32_t size);
void triton_sha256_end(triton_sha256 *hash, uint8_t digest[32]);

/* 0 where image and manifest are those that the anchor stands for; else the number of the first
   block that is not, from 1, or -1 for a manifest that is none, or does not lead to the anchor. */
int32_t triton_boot_check(const uint8_t *image, uint32_t image_size, const uint8_t *manifest,
                          uint32_t manifest_size, const uint8_t anchor[32]);

#ifdef __cplusplus
}
#endif

#endif /* TRITON_BOOT_H */
