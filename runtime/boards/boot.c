/* The check of an image before it runs: see boot.py, which writes manifests. No memory but the
   stack, about 400 bytes; reads neither beyond the image nor beyond the manifest. */
#include "boot.h"

static const uint32_t rounds[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t turned(uint32_t x, unsigned by)
{
    return (x >> by) | (x << (32u - by));
}

static void compress(uint32_t state[8], const uint8_t *block)
{
    uint32_t w[16], v[8];
    for (unsigned i = 0; i < 8; i++) {
        v[i] = state[i];
    }
    for (unsigned i = 0; i < 64; i++) {
        if (i < 16) {
            const uint8_t *b = block + 4 * i;
            w[i] = (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
        } else {
            const uint32_t x = w[(i + 1) & 15], y = w[(i + 14) & 15];
            w[i & 15] += (turned(x, 7) ^ turned(x, 18) ^ x >> 3) + w[(i + 9) & 15] +
                         (turned(y, 17) ^ turned(y, 19) ^ y >> 10);
        }
        const uint32_t e = v[4], a = v[0];
        const uint32_t one = v[7] + (turned(e, 6) ^ turned(e, 11) ^ turned(e, 25)) +
                             ((e & v[5]) ^ (~e & v[6])) + rounds[i] + w[i & 15];
        const uint32_t two = (turned(a, 2) ^ turned(a, 13) ^ turned(a, 22)) +
                             ((a & v[1]) ^ (a & v[2]) ^ (v[1] & v[2]));
        for (unsigned j = 7; j > 0; j--) {
            v[j] = v[j - 1];
        }
        v[4] += one;
        v[0] = one + two;
    }
    for (unsigned i = 0; i < 8; i++) {
        state[i] += v[i];
    }
}

void triton_sha256(uint8_t digest[32], const uint8_t *first, uint32_t first_size,
                   const uint8_t *then, uint32_t then_size)
{
    uint32_t state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    const uint64_t size = (uint64_t)first_size + then_size, all = (size + 72) / 64 * 64;
    uint8_t block[64];
    for (uint64_t i = 0; i < all; i++) {
        const uint64_t byte = i < first_size ? first[i]
                              : i < size     ? then[i - first_size]
                              : i == size    ? 0x80
                              : all - i <= 8 ? size << 3 >> 8 * (all - i - 1)
                                             : 0;
        block[i & 63] = (uint8_t)byte;
        if ((i & 63) == 63) {
            compress(state, block);
        }
    }
    for (unsigned i = 0; i < 32; i++) {
        digest[i] = (uint8_t)(state[i / 4] >> (8u * (3u - i % 4)));
    }
}

static uint32_t word(const uint8_t *at)
{
    return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* All bytes are looked at, so that the time tells nothing. */
static int differ(const uint8_t *a, const uint8_t *b, unsigned size)
{
    uint8_t seen = 0;
    for (unsigned i = 0; i < size; i++) {
        seen |= a[i] ^ b[i];
    }
    return seen != 0;
}

/* The manifest: 8 bytes "TRITBOO1", the image's size and a block's, little-endian, and the value of
   the chain behind each block. It starts with the hash of the 16 bytes; each value is the hash of
   the one before and of the block. The anchor is the last. */
int32_t triton_boot_check(const uint8_t *image, uint32_t image_size, const uint8_t *manifest,
                          uint32_t manifest_size, const uint8_t anchor[32])
{
    uint8_t value[32];
    if (manifest_size < 16 || differ(manifest, (const uint8_t *)"TRITBOO1", 8)) {
        return -1;
    }
    const uint32_t size = word(manifest + 8), block = word(manifest + 12);
    if (size == 0 || size > image_size || block == 0) {
        return -1;
    }
    const uint32_t count = (size - 1) / block + 1;
    const uint8_t *const values = manifest + 16;
    if (count > (manifest_size - 16) / 32 || differ(values + 32 * (count - 1), anchor, 32)) {
        return -1;
    }
    triton_sha256(value, manifest, 16, manifest, 0);
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t start = i * block, left = size - start;
        triton_sha256(value, value, 32, image + start, left < block ? left : block);
        if (differ(value, values + 32 * i, 32)) {
            return (int32_t)(i + 1);
        }
    }
    return 0;
}
