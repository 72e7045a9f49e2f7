/* A network of 8 bits as one writes it down: a byte a weight, loops, nothing else. */
#include <stdint.h>

static int64_t rounded(int32_t sum, int32_t multiplier, int32_t shift)
{
    return ((int64_t)sum * multiplier + ((int64_t)1 << (shift - 1))) >> shift;
}

static int8_t scaled(int32_t sum, int32_t multiplier, int32_t shift)
{
    const int64_t value = rounded(sum, multiplier, shift) - 128;
    return (int8_t)(value < -128 ? -128 : value > 127 ? 127 : value);
}

void sums(const int8_t *x, const int8_t *w, const int32_t *bias, int32_t ins, int32_t outs,
          int32_t *y)
{
    for (int32_t n = 0; n < outs; n++) {
        int32_t sum = bias[n];
        for (int32_t i = 0; i < ins; i++) {
            sum += w[n * ins + i] * x[i];
        }
        y[n] = sum;
    }
}

void linear(const int8_t *x, const int8_t *w, const int32_t *bias, const int32_t *multiplier,
            const int32_t *shift, int32_t ins, int32_t outs, int8_t *y)
{
    for (int32_t n = 0; n < outs; n++) {
        int32_t sum = bias[n];
        for (int32_t i = 0; i < ins; i++) {
            sum += w[n * ins + i] * x[i];
        }
        y[n] = scaled(sum, multiplier[n], shift[n]);
    }
}

/* Sums that are scaled before the bias comes to them. */
void linear_scaled_first(const int8_t *x, const int8_t *w, const int32_t *multiplier,
                         const int32_t *shift, int32_t ins, int32_t outs, const int32_t *bias,
                         const int32_t *next, const int32_t *next_shift, int8_t *y)
{
    for (int32_t n = 0; n < outs; n++) {
        int32_t sum = 0;
        for (int32_t i = 0; i < ins; i++) {
            sum += w[n * ins + i] * x[i];
        }
        y[n] = scaled((int32_t)rounded(sum, multiplier[n], shift[n]) + bias[n], next[0],
                      next_shift[0]);
    }
}

/* 3x3 with a pixel of padding, which is written around the image first. */
void convolution(const int8_t *x, const int8_t *w, const int32_t *bias,
                 const int32_t *multiplier, const int32_t *shift, int32_t channels, int32_t size,
                 int32_t outs, int8_t *padded, int8_t *y)
{
    const int32_t width = size + 2;
    for (int32_t i = 0; i < channels * width * width; i++) {
        const int32_t row = i / width % width - 1, column = i % width - 1;
        const int inside = row >= 0 && row < size && column >= 0 && column < size;
        padded[i] = inside ? x[(i / (width * width) * size + row) * size + column] : -128;
    }
    for (int32_t n = 0; n < outs; n++) {
        for (int32_t row = 0; row < size; row++) {
            for (int32_t column = 0; column < size; column++) {
                const int8_t *p = padded + row * width + column, *v = w + n * channels * 9;
                int32_t sum = bias[n];
                for (int32_t c = 0; c < channels; c++, p += width * width, v += 9) {
                    sum += v[0] * p[0] + v[1] * p[1] + v[2] * p[2];
                    sum += v[3] * p[width] + v[4] * p[width + 1] + v[5] * p[width + 2];
                    sum += v[6] * p[2 * width] + v[7] * p[2 * width + 1] + v[8] * p[2 * width + 2];
                }
                y[(n * size + row) * size + column] = scaled(sum, multiplier[n], shift[n]);
            }
        }
    }
}

/* Means of 2x2 pixels. */
void pool(const int8_t *x, const int32_t *bias, const int32_t *multiplier, const int32_t *shift,
          int32_t channels, int32_t size, int8_t *y)
{
    const int32_t half = size / 2;
    for (int32_t c = 0; c < channels; c++) {
        for (int32_t row = 0; row < half; row++) {
            for (int32_t column = 0; column < half; column++) {
                const int8_t *const p = x + (c * size + 2 * row) * size + 2 * column;
                const int32_t sum = bias[c] + p[0] + p[1] + p[size] + p[size + 1];
                y[(c * half + row) * half + column] = scaled(sum, multiplier[0], shift[0]);
            }
        }
    }
}
