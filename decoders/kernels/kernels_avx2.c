/* AVX2, FMA and F16C. Pixels never leave their 128-bit lane: each lane of a horizontal step has its
 * own 16-byte window of the row, so a byte shuffle stands in for a gather. */
#include <immintrin.h>
#include <string.h>

#include "decoders/kernels/kernels.h"

#define ALWAYS_INLINE static inline __attribute__((always_inline))

ALWAYS_INLINE __m256i load256(const void *p)
{
    return _mm256_loadu_si256(p);
}

ALWAYS_INLINE __m128i load128(const void *p)
{
    return _mm_loadu_si128(p);
}

ALWAYS_INLINE __m256i two_windows(const uint8_t *low, const uint8_t *high)
{
    return _mm256_inserti128_si256(_mm256_castsi128_si256(load128(low)), load128(high), 1);
}

ALWAYS_INLINE __m256i clamp_words(__m256i v, __m128i ring_shift)
{
    v = _mm256_max_epi16(v, _mm256_setzero_si256());
    v = _mm256_min_epi16(v, _mm256_set1_epi16(255));
    return _mm256_sll_epi16(v, ring_shift);
}

ALWAYS_INLINE __m256i join_fine(__m256i sum, __m256i fine, __m128i fine_shift, __m256i bits)
{
    return _mm256_srav_epi32(_mm256_add_epi32(_mm256_sll_epi32(sum, fine_shift), fine), bits);
}

ALWAYS_INLINE __m256i multiply_add(__m256i sum, __m256i v, const int16_t *coeff)
{
    return _mm256_add_epi32(sum, _mm256_madd_epi16(v, load256(coeff)));
}

/* Rows that one layout serves, 1 or 3, and where their results go. */
struct rows {
    const uint8_t *const *row;
    int16_t *dst;
    size_t pitch;
    int count;
};

/* How a step is made: known where the loop is compiled. */
struct shape {
    uint32_t pairs;
    bool fine, one_window, shared; /* shared: PAIR16 */
};

struct finish {
    __m128i fine_shift, ring_shift;
    __m256i bits, half, down, pixel;
};

ALWAYS_INLINE struct finish finish_init(const struct hr_hplan *plan)
{
    return (struct finish){
        .fine_shift = _mm_cvtsi32_si128((int)plan->fine_shift),
        .ring_shift = _mm_cvtsi32_si128((int)plan->ring_shift),
        .bits = _mm256_set1_epi32((int)plan->bits),
        .half = _mm256_set1_epi32(1 << plan->bits >> 1),
        /* without clamping: shift the pixel to its place in the ring word and mask it */
        .down = _mm256_set1_epi32((int)(plan->bits - plan->ring_shift)),
        .pixel = _mm256_set1_epi16((short)(255 << plan->ring_shift)),
    };
}

/* 16 elements of a row. */
ALWAYS_INLINE __m256i resize_step(const struct hr_hplan *plan, const struct finish *f, struct shape shape,
                                  const uint8_t *row, const uint32_t *base, const uint8_t *index, const int16_t *coeff)
{
    const size_t pitch = 2 * (size_t)plan->channels;
    const __m256i next_pair = _mm256_set1_epi8((char)pitch); /* leaves the 0x80 negative */
    const uint8_t *w0 = row + base[0], *w1 = row + base[1];
    const uint8_t *w2 = shape.shared ? w0 : row + base[2], *w3 = shape.shared ? w1 : row + base[3];
    __m256i pick0 = load256(index), pick1 = load256(index + 32);
    __m256i sum0 = shape.fine ? _mm256_setzero_si256() : f->half, sum1 = sum0, fine0 = f->half, fine1 = f->half;
    __m256i window0 = two_windows(w0, w1), window1 = shape.shared ? window0 : two_windows(w2, w3);

    for (size_t p = 0; p < shape.pairs; p++, coeff += 32) {
        if (p && shape.one_window) {
            pick0 = _mm256_add_epi8(pick0, next_pair);
            pick1 = _mm256_add_epi8(pick1, next_pair);
        } else if (p) {
            window0 = two_windows(w0 + p * pitch, w1 + p * pitch);
            window1 = shape.shared ? window0 : two_windows(w2 + p * pitch, w3 + p * pitch);
        }
        __m256i v0 = _mm256_shuffle_epi8(window0, pick0);
        __m256i v1 = _mm256_shuffle_epi8(window1, pick1);
        sum0 = multiply_add(sum0, v0, coeff);
        sum1 = multiply_add(sum1, v1, coeff + 16);
        if (shape.fine) {
            coeff += 32;
            fine0 = multiply_add(fine0, v0, coeff);
            fine1 = multiply_add(fine1, v1, coeff + 16);
        }
    }
    if (shape.fine)
        return clamp_words(_mm256_packs_epi32(join_fine(sum0, fine0, f->fine_shift, f->bits),
                                              join_fine(sum1, fine1, f->fine_shift, f->bits)), f->ring_shift);
    return _mm256_and_si256(_mm256_packus_epi32(_mm256_srlv_epi32(sum0, f->down), _mm256_srlv_epi32(sum1, f->down)),
                            f->pixel);
}

ALWAYS_INLINE void hresize_lanes(const struct hr_hplan *plan, const struct rows *rows, struct shape shape)
{
    const struct finish f = finish_init(plan);
    const uint32_t *base = plan->base;
    const uint8_t *index = plan->index;
    const int16_t *coeff = plan->coeff;

    for (size_t step = 0; step < plan->steps; step++, base += shape.shared ? 2 : 4, index += 64) {
        __m256i v[3]; /* all loads before all stores, which could change what is loaded as far as the compiler knows */
        for (int r = 0; r < rows->count; r++)
            v[r] = resize_step(plan, &f, shape, rows->row[r], base, index, coeff);
        coeff += (shape.fine ? 64 : 32) * shape.pairs;
        for (int r = 0; r < rows->count; r++)
            _mm256_storeu_si256((void *)(rows->dst + (size_t)r * rows->pitch + 16 * step), v[r]);
    }
}

ALWAYS_INLINE void hresize_rows(const struct hr_hplan *plan, const struct rows *rows, bool shared)
{
    const uint32_t pairs = plan->taps / 2;

    if (plan->fine_shift)
        hresize_lanes(plan, rows, (struct shape){pairs, true, false, shared});
    else if (pairs == 1)
        hresize_lanes(plan, rows, (struct shape){1, false, false, shared});
    else if (pairs == 2 && plan->one_window)
        hresize_lanes(plan, rows, (struct shape){2, false, true, shared});
    else if (pairs == 2)
        hresize_lanes(plan, rows, (struct shape){2, false, false, shared});
    else
        hresize_lanes(plan, rows, (struct shape){pairs, false, false, shared});
}

static void hresize_lane16(const struct hr_hplan *plan, const uint8_t *row, int16_t *dst)
{
    hresize_rows(plan, &(struct rows){&row, dst, 0, 1}, false);
}

static void hresize_lane16_planes(const struct hr_hplan *plan, const uint8_t *const rows[3], int16_t *dst, size_t pitch)
{
    hresize_rows(plan, &(struct rows){rows, dst, pitch, 3}, false);
}

static void hresize_pair16(const struct hr_hplan *plan, const uint8_t *row, int16_t *dst)
{
    hresize_rows(plan, &(struct rows){&row, dst, 0, 1}, true);
}

static void hresize_pair16_planes(const struct hr_hplan *plan, const uint8_t *const rows[3], int16_t *dst, size_t pitch)
{
    hresize_rows(plan, &(struct rows){rows, dst, pitch, 3}, true);
}

/* Sums of four taps of one RGB pixel at a time: the low lane has taps 0 and 1, the high lane 2 and
 * 3. */
ALWAYS_INLINE __m128i sum_rgb(const uint8_t *src, const int16_t *coeff, uint32_t taps)
{
    const __m256i spread = _mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1);
    const __m256i pick =
        _mm256_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1, 6, -1, 9, -1, 7,
                         -1, 10, -1, 8, -1, 11, -1, -1, -1, -1, -1);
    __m256i sum = _mm256_setzero_si256();

    for (uint32_t t = 0; t < taps; t += 4, src += 12) {
        __m256i four = _mm256_castsi128_si256(_mm_loadl_epi64((const void *)(coeff + t)));
        __m256i v = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(load128(src)), pick);
        v = _mm256_madd_epi16(v, _mm256_permutevar8x32_epi32(four, spread));
        sum = _mm256_add_epi32(sum, v);
    }
    return _mm_add_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
}

static void hresize_rgb(const struct hr_hplan *plan, const uint8_t *row, int16_t *dst)
{
    const __m128i bits = _mm_cvtsi32_si128((int)plan->bits);
    const __m128i shift = _mm_cvtsi32_si128((int)plan->ring_shift);
    const __m128i fine_shift = _mm_cvtsi32_si128((int)plan->fine_shift);
    const __m128i half = _mm_set1_epi32(1 << plan->bits >> 1);
    const uint32_t taps = plan->taps;
    const int16_t *coeff = plan->coeff;

    for (uint32_t x = 0; x < plan->steps; x++, dst += 3, coeff += taps) {
        const uint8_t *src = row + plan->base[x];
        __m128i v = _mm_add_epi32(half, _mm_sll_epi32(sum_rgb(src, coeff, taps), fine_shift));
        if (plan->fine_shift) {
            coeff += taps;
            v = _mm_add_epi32(v, sum_rgb(src, coeff, taps));
        }
        v = _mm_sra_epi32(v, bits);
        v = _mm_packs_epi32(v, v);
        v = _mm_min_epi16(_mm_max_epi16(v, _mm_setzero_si128()), _mm_set1_epi16(255));
        _mm_storel_epi64((void *)dst, _mm_sll_epi16(v, shift)); /* the next one mends dst[3] */
    }
}

ALWAYS_INLINE int sum_gray(const uint8_t *src, const int16_t *coeff, uint32_t taps)
{
    __m128i sum = _mm_setzero_si128();

    for (uint32_t t = 0; t < taps; t += 8) {
        __m128i v = _mm_cvtepu8_epi16(_mm_loadl_epi64((const void *)(src + t)));
        sum = _mm_add_epi32(sum, _mm_madd_epi16(v, load128(coeff + t)));
    }
    sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0x4e));
    sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0xb1));
    return _mm_cvtsi128_si32(sum);
}

static void hresize_gray(const struct hr_hplan *plan, const uint8_t *row, int16_t *dst)
{
    const int half = 1 << plan->bits >> 1;
    const int16_t *coeff = plan->coeff;
    const uint32_t taps = plan->taps;

    for (uint32_t x = 0; x < plan->steps; x++, coeff += taps) {
        const uint8_t *src = row + plan->base[x];
        int v = sum_gray(src, coeff, taps) * (1 << plan->fine_shift) + half;
        if (plan->fine_shift) {
            coeff += taps;
            v += sum_gray(src, coeff, taps);
        }
        v >>= plan->bits;
        v = v < 0 ? 0 : v > 255 ? 255 : v;
        dst[x] = (int16_t)(v << plan->ring_shift);
    }
}

static void hresize_pixel(const struct hr_hplan *plan, const uint8_t *row, int16_t *dst)
{
    if (plan->channels == 3)
        hresize_rgb(plan, row, dst);
    else
        hresize_gray(plan, row, dst);
}

/* 32 bytes of a row, of which the first `left` are wanted. */
ALWAYS_INLINE void put_bytes(uint8_t *dst, __m256i v, size_t left)
{
    uint8_t all[32];

    if (HR_LIKELY(left >= 32)) {
        _mm256_storeu_si256((void *)dst, v);
        return;
    }
    _mm256_storeu_si256((void *)all, v);
    memcpy(dst, all, left);
}

ALWAYS_INLINE void vnarrow_taps(const int16_t *const *rows, const int16_t *coeff, uint32_t taps,
                                uint8_t *dst, size_t elements)
{
    __m256i weight[HR_NARROW_TAPS];

    for (uint32_t t = 0; t < taps; t++)
        weight[t] = _mm256_set1_epi16(coeff[t]);
    for (size_t e = 0; e < elements; e += 32) {
        __m256i a = _mm256_set1_epi16(1 << HR_NARROW_SHIFT >> 1), b = a;
        for (uint32_t t = 0; t < taps; t++) {
            a = _mm256_add_epi16(a, _mm256_mulhrs_epi16(load256(rows[t] + e), weight[t]));
            b = _mm256_add_epi16(b, _mm256_mulhrs_epi16(load256(rows[t] + e + 16), weight[t]));
        }
        a = _mm256_srai_epi16(a, HR_NARROW_SHIFT);
        b = _mm256_srai_epi16(b, HR_NARROW_SHIFT);
        a = _mm256_permute4x64_epi64(_mm256_packus_epi16(a, b), 0xd8);
        put_bytes(dst + e, a, elements - e);
    }
}

static void vnarrow(const int16_t *const *rows, const int16_t *coeff, uint32_t taps, uint8_t *dst,
                    size_t elements)
{
    switch (taps) {
    case 1: vnarrow_taps(rows, coeff, 1, dst, elements); break;
    case 2: vnarrow_taps(rows, coeff, 2, dst, elements); break;
    case 3: vnarrow_taps(rows, coeff, 3, dst, elements); break;
    case 4: vnarrow_taps(rows, coeff, 4, dst, elements); break;
    default: vnarrow_taps(rows, coeff, taps, dst, elements); break;
    }
}

/* 16 elements of two ring rows at a time. */
ALWAYS_INLINE __m256i vwide_16(const int16_t *const *rows, const int16_t *coeff, uint32_t taps,
                               __m128i bits, __m256i half, size_t e)
{
    __m256i low = half, high = half;

    for (uint32_t t = 0; t < taps; t += 2) {
        int32_t two;
        memcpy(&two, coeff + t, sizeof(two));
        __m256i weight = _mm256_set1_epi32(two);
        __m256i a = load256(rows[t] + e), b = load256(rows[t + 1] + e);
        low = _mm256_add_epi32(low, _mm256_madd_epi16(_mm256_unpacklo_epi16(a, b), weight));
        high = _mm256_add_epi32(high, _mm256_madd_epi16(_mm256_unpackhi_epi16(a, b), weight));
    }
    return _mm256_packs_epi32(_mm256_sra_epi32(low, bits), _mm256_sra_epi32(high, bits));
}

static void vwide(const int16_t *const *rows, const int16_t *coeff, uint32_t taps, uint32_t bits,
                  uint8_t *dst, size_t elements)
{
    const __m128i shift = _mm_cvtsi32_si128((int)bits);
    const __m256i half = _mm256_set1_epi32(1 << bits >> 1);

    for (size_t e = 0; e < elements; e += 32) {
        __m256i a = vwide_16(rows, coeff, taps, shift, half, e);
        __m256i b = vwide_16(rows, coeff, taps, shift, half, e + 16);
        a = _mm256_permute4x64_epi64(_mm256_packus_epi16(a, b), 0xd8);
        put_bytes(dst + e, a, elements - e);
    }
}

/* For each third of 16 pixels of three bytes, which byte of each channel goes where. */
static const int8_t interleave_pick[3][3][16] = {
    {{0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1, -1, 5},
     {-1, 0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1, -1},
     {-1, -1, 0, -1, -1, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4, -1}},
    {{-1, -1, 6, -1, -1, 7, -1, -1, 8, -1, -1, 9, -1, -1, 10, -1},
     {5, -1, -1, 6, -1, -1, 7, -1, -1, 8, -1, -1, 9, -1, -1, 10},
     {-1, 5, -1, -1, 6, -1, -1, 7, -1, -1, 8, -1, -1, 9, -1, -1}},
    {{-1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15, -1, -1},
     {-1, -1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15, -1},
     {10, -1, -1, 11, -1, -1, 12, -1, -1, 13, -1, -1, 14, -1, -1, 15}},
};

/* 32 pixels; 16 in each lane at first. */
ALWAYS_INLINE void interleave_32(const uint8_t *const rows[3], size_t x, uint8_t *dst)
{
    __m256i third[3];

    for (int k = 0; k < 3; k++) {
        __m256i part[3];
        for (int c = 0; c < 3; c++)
            part[c] = _mm256_shuffle_epi8(load256(rows[c] + x),
                                          _mm256_broadcastsi128_si256(load128(interleave_pick[k][c])));
        third[k] = _mm256_or_si256(part[0], _mm256_or_si256(part[1], part[2]));
    }
    _mm256_storeu_si256((void *)dst, _mm256_permute2x128_si256(third[0], third[1], 0x20));
    _mm256_storeu_si256((void *)(dst + 32), _mm256_permute2x128_si256(third[2], third[0], 0x30));
    _mm256_storeu_si256((void *)(dst + 64), _mm256_permute2x128_si256(third[1], third[2], 0x31));
}

static void interleave(const uint8_t *const rows[3], uint8_t *dst, size_t pixels)
{
    uint8_t last[96];
    size_t x = 0;

    for (; x + 32 <= pixels; x += 32)
        interleave_32(rows, x, dst + 3 * x);
    if (x == pixels)
        return;
    interleave_32(rows, x, last);
    memcpy(dst + 3 * x, last, 3 * (pixels - x));
}

/* ---- conversion and store ---- */

ALWAYS_INLINE __m128i to_bf16(__m256 f)
{
    __m256i u = _mm256_castps_si256(f);
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));

    u = _mm256_add_epi32(u, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    u = _mm256_srli_epi32(u, 16);
    return _mm_packus_epi32(_mm256_castsi256_si128(u), _mm256_extracti128_si256(u, 1));
}

/* 8 values at element i of dst, all of them. */
ALWAYS_INLINE void put_8(void *dst, size_t i, __m256 f, enum hr_store_type type)
{
    if (type == HR_STORE_F32)
        _mm256_storeu_ps((float *)dst + i, f);
    else if (type == HR_STORE_F16)
        _mm_storeu_si128((void *)((uint16_t *)dst + i),
                         _mm256_cvtps_ph(f, _MM_FROUND_TO_NEAREST_INT));
    else
        _mm_storeu_si128((void *)((uint16_t *)dst + i), to_bf16(f));
}

/* The first n of them. */
static inline void put_some(void *dst, size_t i, __m256 f, size_t n, enum hr_store_type type)
{
    size_t item = type == HR_STORE_F32 ? 4 : 2;
    uint8_t all[32];

    put_8(all, 0, f, type);
    memcpy((uint8_t *)dst + i * item, all, n * item);
}

ALWAYS_INLINE __m256 convert_8(__m256i bytes, __m256 scale, __m256 bias)
{
    return _mm256_fmadd_ps(_mm256_cvtepi32_ps(bytes), scale, bias);
}

/* Eight bytes as numbers of 32 bits, by a shuffle, which has two ports where widening has one. */
ALWAYS_INLINE __m256i widen_8(const uint8_t *row)
{
    const __m256i spread = _mm256_setr_epi8(0, -1, -1, -1, 1, -1, -1, -1, 2, -1, -1, -1, 3, -1, -1, -1,
                                            4, -1, -1, -1, 5, -1, -1, -1, 6, -1, -1, -1, 7, -1, -1, -1);

    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(load128(row)), spread);
}

/* 24 elements have whole pixels of 1 and of 3 channels. */
ALWAYS_INLINE void store_packed(const struct hr_store *store, const uint8_t *row, void *dst,
                                size_t pixels, enum hr_store_type type)
{
    const size_t elements = pixels * store->channels;
    __m256 scale[3], bias[3];
    size_t i = 0;

    for (size_t k = 0; k < 3; k++) {
        scale[k] = _mm256_loadu_ps(store->packed_scale + 8 * k);
        bias[k] = _mm256_loadu_ps(store->packed_bias + 8 * k);
    }
    for (; i + 24 <= elements; i += 24)
        for (size_t k = 0; k < 3; k++)
            put_8(dst, i + 8 * k, convert_8(widen_8(row + i + 8 * k), scale[k], bias[k]), type);
    for (size_t k = 0; i < elements; i += 8, k++) {
        __m256 v = convert_8(widen_8(row + i), scale[k], bias[k]);
        if (elements - i >= 8)
            put_8(dst, i, v, type);
        else
            put_some(dst, i, v, elements - i, type);
    }
}

/* Byte 3i + c of the low and 12 + 3i + c of the high window, as 32-bit numbers. */
ALWAYS_INLINE __m256i pick_channel(int c)
{
    const __m128i four = _mm_setr_epi8(0, -1, -1, -1, 3, -1, -1, -1, 6, -1, -1, -1, 9, -1, -1, -1);
    const __m128i add = _mm_set1_epi32(c);

    return _mm256_broadcastsi128_si256(_mm_add_epi32(four, add));
}

ALWAYS_INLINE void store_planar(const struct hr_store *store, const uint8_t *row, void *dst,
                                size_t pixels, enum hr_store_type type)
{
    const size_t item = type == HR_STORE_F32 ? 4 : 2;
    __m256i pick[3];
    __m256 scale[3], bias[3];
    uint8_t *plane[3];
    size_t x = 0;

    for (int c = 0; c < 3; c++) {
        pick[c] = pick_channel(c);
        scale[c] = _mm256_set1_ps(store->scale[c]);
        bias[c] = _mm256_set1_ps(store->bias[c]);
        plane[c] = (uint8_t *)dst + (size_t)c * store->plane_stride * item;
    }
    for (; x + 8 <= pixels; x += 8) {
        __m256i v = two_windows(row + 3 * x, row + 3 * x + 12);
        for (int c = 0; c < 3; c++) {
            __m256i bytes = _mm256_shuffle_epi8(v, pick[c]);
            put_8(plane[c], x, convert_8(bytes, scale[c], bias[c]), type);
        }
    }
    if (x == pixels)
        return;
    __m256i v = two_windows(row + 3 * x, row + 3 * x + 12);
    for (int c = 0; c < 3; c++) {
        __m256i bytes = _mm256_shuffle_epi8(v, pick[c]);
        put_some(plane[c], x, convert_8(bytes, scale[c], bias[c]), pixels - x, type);
    }
}

static void planar_u8(const struct hr_store *store, const uint8_t *row, void *dst, size_t pixels)
{
    /* per 128-bit lane: 4 bytes of each channel; then the dwords of a channel side by side */
    const __m256i pick = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11, -1, -1, -1, -1));
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    uint8_t *plane = dst;

    for (size_t x = 0; x < pixels; x += 8) {
        uint64_t eight[4];
        size_t left = pixels - x < 8 ? pixels - x : 8;
        __m256i v = _mm256_shuffle_epi8(two_windows(row + 3 * x, row + 3 * x + 12), pick);
        _mm256_storeu_si256((void *)eight, _mm256_permutevar8x32_epi32(v, order));
        for (size_t c = 0; c < 3; c++)
            if (left == 8)
                memcpy(plane + c * store->plane_stride + x, &eight[c], 8);
            else
                memcpy(plane + c * store->plane_stride + x, &eight[c], left);
    }
}

#define FLOAT_STORES(name, type)                                                                   \
    static void packed_##name(const struct hr_store *store, const uint8_t *row, void *dst,         \
                              size_t pixels)                                                       \
    {                                                                                              \
        store_packed(store, row, dst, pixels, type);                                               \
    }                                                                                              \
    static void planar_##name(const struct hr_store *store, const uint8_t *row, void *dst,         \
                              size_t pixels)                                                       \
    {                                                                                              \
        store_planar(store, row, dst, pixels, type);                                               \
    }

FLOAT_STORES(f16, HR_STORE_F16)
FLOAT_STORES(bf16, HR_STORE_BF16)
FLOAT_STORES(f32, HR_STORE_F32)

extern const struct hr_axis_wide hr_axis_wide_avx2; /* axis_wide.c */

void hr_kernels_fill_avx2(struct hr_kernels *kernels)
{
    kernels->axis = &hr_axis_wide_avx2;
    kernels->interleave = interleave;
    kernels->hresize[HR_HLAYOUT_PAIR16] = hresize_pair16;
    kernels->hresize[HR_HLAYOUT_LANE16] = hresize_lane16;
    kernels->hresize_planes[HR_HLAYOUT_PAIR16] = hresize_pair16_planes;
    kernels->hresize_planes[HR_HLAYOUT_LANE16] = hresize_lane16_planes;
    kernels->hresize[HR_HLAYOUT_PIXEL] = hresize_pixel;
    kernels->vnarrow = vnarrow;
    kernels->vwide = vwide;
    kernels->packed[HR_STORE_F16] = packed_f16;
    kernels->packed[HR_STORE_BF16] = packed_bf16;
    kernels->packed[HR_STORE_F32] = packed_f32;
    kernels->planar[HR_STORE_U8] = planar_u8;
    kernels->planar[HR_STORE_F16] = planar_f16;
    kernels->planar[HR_STORE_BF16] = planar_bf16;
    kernels->planar[HR_STORE_F32] = planar_f32;
    kernels->fill_table = NULL;
}
