/* Peers of a product of bytes on 64-bit ARM, rescaled to bytes: plain C, and where the processor has
 * dot products the design of XNNPACK's `qs8-qc8w-gemm-4x16c4-minmax-rndnu-neondot-ld64` by hand. */

#include <stdint.h>
#include <stdlib.h>
#ifdef BY_HAND
#include <arm_neon.h>
#endif

enum { ROWS = 196, INS = 64, OUTS = 384 };
int8_t x[ROWS * INS], w[INS * OUTS], y[ROWS * OUTS];
int32_t bias[OUTS], multiplier[OUTS];

#ifdef BY_HAND
#define STEP(lane)                                                                                 \
    for (int j = 0; j < 4; j++)                                                                    \
        for (int i = 0; i < 4; i++) sums[i][j] = vdotq_lane_s32(sums[i][j], b[j], a[i], lane);

/* Weights stand in panels of 16 outputs, four values of each together. */
void product(void) {
    for (int m = 0; m < ROWS; m += 4) {
        const int8_t *at = w;
        for (int n = 0; n < OUTS; n += 16) {
            int32x4_t sums[4][4];
            for (int i = 0; i < 4; i++)
                for (int j = 0; j < 4; j++) sums[i][j] = vld1q_s32(bias + n + 4 * j);
            for (int k = 0; k < INS; k += 8) {
                int8x8_t a[4];
                int8x16_t b[4];
                for (int i = 0; i < 4; i++) a[i] = vld1_s8(x + (m + i) * INS + k);
                for (int j = 0; j < 4; j++) b[j] = vld1q_s8(at + 16 * j);
                STEP(0)
                for (int j = 0; j < 4; j++) b[j] = vld1q_s8(at + 64 + 16 * j);
                STEP(1)
                at += 128;
            }
            for (int i = 0; i < 4; i++) {
                int32x4_t r[4];
                for (int j = 0; j < 4; j++) {
                    r[j] = vqdmulhq_s32(sums[i][j], vld1q_s32(multiplier + n + 4 * j));
                    r[j] = vrshlq_s32(r[j], vdupq_n_s32(-6));
                }
                int16x8_t low = vqmovn_high_s32(vqmovn_s32(r[0]), r[1]);
                int16x8_t high = vqmovn_high_s32(vqmovn_s32(r[2]), r[3]);
                low = vqaddq_s16(low, vdupq_n_s16(-3)), high = vqaddq_s16(high, vdupq_n_s16(-3));
                vst1q_s8(y + (m + i) * OUTS + n, vqmovn_high_s16(vqmovn_s16(low), high));
            }
        }
    }
}
#else
void product(void) {
    for (int m = 0; m < ROWS; m++)
        for (int n = 0; n < OUTS; n++) {
            int32_t sum = bias[n];
            for (int k = 0; k < INS; k++) sum += x[m * INS + k] * w[n * INS + k];
            int32_t scaled = (int32_t)(((int64_t)sum * multiplier[n] + (1LL << 37)) >> 38) - 3;
            y[m * OUTS + n] = (int8_t)(scaled < -128 ? -128 : scaled > 127 ? 127 : scaled);
        }
}
#endif

int main(int count, char **arguments) {
    for (int i = count > 1 ? atoi(arguments[1]) : 1; i > 0; i--) {
        product();
        __asm__ volatile("" ::: "memory");
    }
    return 0;
}
