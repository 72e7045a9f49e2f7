/* What code of the target `c` calls: each function, and those that it calls, is copied into the
   file of a model. Blank lines part functions. INPUT, SUM and TABLE stand for types. */

/* A divisor by which an integer can be divided: 1 in the place of 0, and of -1 where that
   would overflow. */
static int64_t divisor(int64_t x, int64_t y)
{
    return y == 0 || (y == -1 && x == INT64_MIN) ? 1 : y;
}

static uint64_t unsigned_divisor(uint64_t y)
{
    return y == 0 ? 1 : y;
}

static int64_t floor_division(int64_t x, int64_t y)
{
    const int64_t d = divisor(x, y);
    const int64_t quotient = x / d, rest = x % d;
    return rest != 0 && (rest < 0) != (d < 0) ? quotient - 1 : quotient;
}

static int64_t ceiling_division(int64_t x, int64_t y)
{
    const int64_t d = divisor(x, y);
    const int64_t quotient = x / d, rest = x % d;
    return rest != 0 && (rest < 0) == (d < 0) ? quotient + 1 : quotient;
}

/* A place within 0 … last. */
static int64_t inside(int64_t place, int64_t last)
{
    return place < 0 ? 0 : place > last ? last : place;
}

/* A sum of four products of bytes and another, by instructions of ARM for two at once. */
static int32_t dot4(const int8_t *x, const int8_t *weights, int32_t sum)
{
#ifdef __ARM_FEATURE_SIMD32
    uint32_t a, b, odd_a, odd_b;
    memcpy(&a, x, sizeof a);
    memcpy(&b, weights, sizeof b);
    __asm__("sxtb16 %0, %1, ror #8" : "=r"(odd_a) : "r"(a));
    __asm__("sxtb16 %0, %1, ror #8" : "=r"(odd_b) : "r"(b));
    sum = __smlad(__sxtb16((int8x4_t)a), __sxtb16((int8x4_t)b), sum);
    return __smlad((int16x2_t)odd_a, (int16x2_t)odd_b, sum);
#else
    return (int32_t)((uint32_t)sum + (uint32_t)(x[0] * weights[0] + x[1] * weights[1] +
                                                x[2] * weights[2] + x[3] * weights[3]));
#endif
}

/* Sums of products with bytes, modulo 2^32. */
static int32_t dot_int8_t(const int8_t *x, const int8_t *weights, int32_t count)
{
    int32_t sum = 0, i = 0;
    for (; i + 8 <= count; i += 8) {
        sum = dot4(x + i + 4, weights + i + 4, dot4(x + i, weights + i, sum));
    }
    for (; i < count; i++) {
        sum = (int32_t)((uint32_t)sum + (uint32_t)(x[i] * weights[i]));
    }
    return sum;
}

static int32_t dot_int16_t(const int16_t *x, const int8_t *weights, int32_t count)
{
    uint32_t sum = 0;
    int32_t i = 0;
    for (; i + 4 <= count; i += 4) {
        sum += (uint32_t)(x[i] * weights[i] + x[i + 1] * weights[i + 1] +
                          x[i + 2] * weights[i + 2] + x[i + 3] * weights[i + 3]);
    }
    for (; i < count; i++) {
        sum += (uint32_t)(x[i] * weights[i]);
    }
    return (int32_t)sum;
}

static float max_float(float a, float b)
{
    return a > b || a != a ? a : b;
}

static float min_float(float a, float b)
{
    return a < b || a != a ? a : b;
}

static double max_double(double a, double b)
{
    return a > b || a != a ? a : b;
}

static double min_double(double a, double b)
{
    return a < b || a != a ? a : b;
}

static uint32_t bits_of_float(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static float float_of_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static uint64_t bits_of_double(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static double double_of_bits(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* The float of the bits of an IEEE half. */
static float from_half(uint16_t half)
{
    const int exponent = (half >> 10) & 31;
    const float fraction = (float)(half & 1023u);
    float x = ldexpf(fraction + (exponent ? 1024.0f : 0.0f), (exponent ? exponent : 1) - 25);
    if (exponent == 31) {
        x = half & 1023u ? NAN : INFINITY;
    }
    return half >> 15 ? -x : x;
}

/* The bits of the nearest IEEE half, ties to even. */
static uint16_t to_half(double x)
{
    const uint32_t sign = signbit(x) ? 0x8000u : 0u;
    const double size = fabs(x);
    int exponent = 0;
    if (size != size) {
        return (uint16_t)(sign | 0x7e00u);
    }
    if (size >= 65520.0) {
        return (uint16_t)(sign | 0x7c00u);
    }
    (void)frexp(size, &exponent);
    exponent = size == 0.0 || exponent < -13 ? -13 : exponent;
    /* A fraction of 2048 carries into the exponent. */
    const double fraction = rint(ldexp(size, 11 - exponent));
    const uint32_t field = (uint32_t)(exponent + 13) << 10;
    return (uint16_t)(sign | (field + (uint32_t)fraction));
}

static float from_bfloat(uint16_t bits)
{
    return float_of_bits((uint32_t)bits << 16);
}

/* The bits of the nearest bfloat16, ties to even. */
static uint16_t to_bfloat(float x)
{
    const uint32_t bits = bits_of_float(x);
    if (x != x) {
        return (uint16_t)((bits >> 16) | 0x40u);
    }
    return (uint16_t)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

static int32_t ones(uint64_t x, int32_t width)
{
    int32_t count = 0;
    for (int32_t i = 0; i < width; i++) {
        count += (int32_t)(x >> i & 1u);
    }
    return count;
}

static int32_t leading_zeros(uint64_t x, int32_t width)
{
    int32_t count = 0;
    while (count < width && !(x >> (width - 1 - count) & 1u)) {
        count++;
    }
    return count;
}

static int32_t trailing_zeros(uint64_t x, int32_t width)
{
    int32_t count = 0;
    while (count < width && !(x >> count & 1u)) {
        count++;
    }
    return count;
}

/* The window of an image [channels, height, width] that starts in row `top` and column `left`;
   0 where it reaches beyond the image. */
static void window_INPUT(const INPUT *x, INPUT *patch, const int32_t *shape, int32_t top,
                         int32_t left)
{
    const int32_t channels = shape[0], height = shape[1], width = shape[2];
    for (int32_t c = 0; c < channels; c++, x += height * width) {
        for (int32_t i = 0, row = top; i < shape[3]; i++, row += shape[5]) {
            for (int32_t j = 0, column = left; j < shape[4]; j++, column += shape[6]) {
                const int inner = row >= 0 && row < height && column >= 0 && column < width;
                *patch++ = inner ? x[row * width + column] : (INPUT)0;
            }
        }
    }
}

static void spread_TABLE(TABLE *table, TABLE number, int32_t size)
{
    const TABLE sum = table[0];
    table[0] = sum - number;
    table[size] = sum;
    table[2 * size] = sum + number;
}

/* Each sum of `count` numbers with the signs -, 0 and + on top of table[0]: digit i of the
   place, in base 3, is the sign of number i, plus 1. */
static void all_sums_TABLE(TABLE *table, const TABLE *numbers, int32_t count)
{
    spread_TABLE(table, numbers[0], 1);
    for (int32_t i = 1, size = 3; i < count; i++, size *= 3) {
        for (int32_t j = 0; j < size; j += 3) {
            spread_TABLE(table + j, numbers[i], size);
            spread_TABLE(table + j + 1, numbers[i], size);
            spread_TABLE(table + j + 2, numbers[i], size);
        }
    }
}

/* Ten numbers from place `first` on, 0 behind the end: two in a word, those of the first five in
   the lower half. */
static void pairs_INPUT(const INPUT *x, int32_t first, int32_t ins, uint32_t *numbers)
{
    for (int32_t i = 0; i < 5; i++) {
        const int32_t low = first + i, high = low + 5;
        numbers[i] = (low < ins ? (uint32_t)x[low] : 0u) +
                     ((high < ins ? (uint32_t)x[high] : 0u) << 16);
    }
}

static int32_t both_halves(uint32_t low, uint32_t high)
{
    return (int32_t)((low & 0xffffu) + (high >> 16));
}

/* sums[n] = Σ x[i]·trit[i][n], weights of five inputs in a byte, those of the first five inputs
   first. All sums of ten inputs are tabled, five in each half of a word; BASE keeps halves
   positive. Behind the end x is 0, and any byte is right. */
static void product_INPUT(const uint8_t *weights, const INPUT *x, int32_t ins, int32_t outs,
                          uint32_t *table, int32_t *sums)
{
    uint32_t numbers[5];
    for (int32_t n = 0; n < outs; n++) {
        sums[n] = -2 * BASE * ((ins + 9) / 10);
    }
    for (int32_t first = 0; first < ins; first += 10, weights += 2 * outs) {
        const uint8_t *const other = first + 5 < ins ? weights + outs : weights;
        pairs_INPUT(x, first, ins, numbers);
        table[0] = BASE * 0x10001u;
        all_sums_uint32_t(table, numbers, 5);
        int32_t n = 0;
        for (; n + 4 <= outs; n += 4) {
            sums[n] += both_halves(table[weights[n]], table[other[n]]);
            sums[n + 1] += both_halves(table[weights[n + 1]], table[other[n + 1]]);
            sums[n + 2] += both_halves(table[weights[n + 2]], table[other[n + 2]]);
            sums[n + 3] += both_halves(table[weights[n + 3]], table[other[n + 3]]);
        }
        for (; n < outs; n++) {
            sums[n] += both_halves(table[weights[n]], table[other[n]]);
        }
    }
}

/* The same for few outputs: a byte is looked up in two tables, of three inputs and of two. */
static void product_few_INPUT(const uint8_t *weights, const INPUT *x, int32_t ins, int32_t outs,
                              uint32_t *table, int32_t *sums)
{
    uint32_t numbers[5];
    for (int32_t n = 0; n < outs; n++) {
        sums[n] = -4 * BASE * ((ins + 9) / 10);
    }
    for (int32_t first = 0; first < ins; first += 10, weights += 2 * outs) {
        const uint8_t *const other = first + 5 < ins ? weights + outs : weights;
        pairs_INPUT(x, first, ins, numbers);
        table[0] = table[27] = BASE * 0x10001u;
        all_sums_uint32_t(table, numbers, 3);
        all_sums_uint32_t(table + 27, numbers + 3, 2);
        for (int32_t n = 0; n < outs; n++) {
            const uint32_t a = weights[n], b = other[n];
            const uint32_t c = (a * 19u) >> 9, d = (b * 19u) >> 9; /* a / 27, b / 27 */
            const uint32_t low = table[a - 27u * c] + table[27u + c];
            const uint32_t high = table[b - 27u * d] + table[27u + d];
            sums[n] += both_halves(low, high);
        }
    }
}

/* The same for the windows of two places, which have their sums in the halves of a word: all tables
   of 100 inputs stand beside each other, and the weights of an output follow each other. */
static void product_pair_INPUT(const uint8_t *weights, const INPUT *x, int32_t ins, int32_t outs,
                               uint32_t *table, int32_t *sums, int32_t *others)
{
    for (int32_t n = 0; n < outs; n++) {
        sums[n] = others[n] = 0;
    }
    for (int32_t first = 0; first < ins; first += 100) {
        const int32_t rest = ins - first, groups = rest < 100 ? (rest + 4) / 5 : 20;
        for (int32_t g = 0; g < groups; g++) {
            uint32_t numbers[5];
            for (int32_t i = 0; i < 5; i++) {
                const int32_t place = first + 5 * g + i;
                numbers[i] = place < ins ? (uint32_t)x[place] + ((uint32_t)x[ins + place] << 16)
                                         : 0u;
            }
            table[36 * g] = BASE / 5 * 3 * 0x10001u;
            table[36 * g + 27] = BASE / 5 * 2 * 0x10001u;
            all_sums_uint32_t(table + 36 * g, numbers, 3);
            all_sums_uint32_t(table + 36 * g + 27, numbers + 3, 2);
        }
        for (int32_t n = 0; n < outs; n++) {
            const uint8_t *const end = weights + groups;
            uint32_t word = 0;
            for (const uint32_t *t = table; weights < end; t += 36) {
                const uint32_t a = *weights++, c = (a * 19u) >> 9;
                word += t[a - 27u * c] + t[27u + c];
            }
            sums[n] += (int32_t)(word & 0xffffu) - groups * BASE;
            others[n] += (int32_t)(word >> 16) - groups * BASE;
        }
    }
}

/* The same for numbers of more than a byte: the sums of five inputs are tabled. */
static void product_wide_INPUT(const uint8_t *weights, const INPUT *x, int32_t ins, int32_t outs,
                               TABLE *table, SUM *sums)
{
    TABLE numbers[5];
    for (int32_t n = 0; n < outs; n++) {
        sums[n] = 0;
    }
    for (int32_t first = 0; first < ins; first += 5, weights += outs) {
        for (int32_t i = 0; i < 5; i++) {
            numbers[i] = first + i < ins ? (TABLE)x[first + i] : (TABLE)0;
        }
        table[0] = 0;
        all_sums_TABLE(table, numbers, 5);
        for (int32_t n = 0; n < outs; n++) {
            sums[n] = (SUM)((TABLE)sums[n] + table[weights[n]]);
        }
    }
}

/* sums[n] = Σ trit[i][n] over the inputs i that fire, weights of five outputs in a byte. The five
   codes of a byte, trit + 1, are tabled as fields of six bits, in which 31 inputs are counted. */
static void fired_trits(const uint8_t *weights, const uint8_t *fires, int32_t ins, int32_t outs,
                        uint32_t *table, uint32_t *fields, int32_t *sums)
{
    static const uint32_t units[5] = {1u, 1u << 6, 1u << 12, 1u << 18, 1u << 24};
    const int32_t bytes = (outs + 4) / 5;
    int32_t count = 0;
    table[0] = 0x1041041u;
    all_sums_uint32_t(table, units, 5);
    memset(sums, 0, sizeof *sums * (size_t)outs);
    memset(fields, 0, sizeof *fields * (size_t)bytes);
    for (int32_t i = 0; i <= ins; i++) {
        if (i == ins || count == 31) {
            for (int32_t n = 0; n < outs; n++) {
                sums[n] += (int32_t)(fields[n / 5] >> n % 5 * 6 & 63u) - count;
            }
            memset(fields, 0, sizeof *fields * (size_t)bytes);
            count = 0;
        }
        if (i < ins && fires[i]) {
            const uint8_t *const row = weights + i * bytes;
            for (int32_t b = 0; b < bytes; b++) {
                fields[b] += table[row[b]];
            }
            count++;
        }
    }
}

/* sums[n] = Σ weights[i][n] over the inputs i that fire. */
static void fired_INPUT(const INPUT *weights, const uint8_t *fires, int32_t ins, int32_t outs,
                        SUM *sums)
{
    for (int32_t n = 0; n < outs; n++) {
        sums[n] = 0;
    }
    for (int32_t i = 0; i < ins; i++, weights += outs) {
        for (int32_t n = 0; fires[i] && n < outs; n++) {
            sums[n] += weights[n];
        }
    }
}
