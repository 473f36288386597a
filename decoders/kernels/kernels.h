/* The inner loops of the row machine (resample.c), as a table of functions: filled with the C
 * reference first, then overridden by what the CPU has. Every level gives the same bits as C.
 *
 * A source row is resized horizontally into a row of the ring (int16: an 8-bit pixel << ring_shift),
 * ring rows are combined into one row of bytes, and bytes are converted and stored. Ring rows hold
 * HR_RING_PAD elements more than they need, which the kernels may read and write; byte rows are
 * readable 64 bytes past their end. Destinations are written exactly. docs/kernels.md has the
 * formulas. */
#ifndef HR_DECODERS_KERNELS_KERNELS_H
#define HR_DECODERS_KERNELS_KERNELS_H

#include "base/types.h"

struct hr_axis_wide;
struct hr_resample;

enum { HR_PACKED_PERIOD = 48, HR_RING_PAD = 64, HR_NARROW_SHIFT = 7, HR_NARROW_TAPS = 16 };

/* How the horizontal coefficients are laid out in memory, best first. An element is one channel of
 * one output pixel. A lane is a set of elements whose first two taps lie in one window of the row, so
 * that one byte shuffle brings them together; the next two taps are the same shuffle two pixels
 * further on. */
enum hr_hlayout {
    HR_HLAYOUT_PAIR64, /* steps of 32 elements in one 64-byte window: the even ones, the odd ones */
    HR_HLAYOUT_LANE64, /* steps of 2 lanes: 16 elements, 64-byte windows */
    HR_HLAYOUT_PAIR16, /* steps of 2 lanes: 8 elements, 16-byte windows; in the order 0 2 1 3 of four */
    HR_HLAYOUT_LANE16, /* steps of 4 lanes: 4 elements, 16-byte windows; in the order 0 2 1 3 */
    HR_HLAYOUT_PIXEL,  /* steps of 1 pixel; taps padded to 4 (3 channels) or 8 (1 channel) */
    HR_HLAYOUT_PAIRS,  /* the same for the C reference: taps padded to 2, each pair of coefficients four
                          times over (3 channels), or to 8 (1 channel) */
    HR_HLAYOUT_COUNT
};

struct hr_hplan {
    uint32_t channels;
    uint32_t steps;
    uint32_t taps;         /* of every position; even for lanes */
    uint32_t bits;         /* coefficients are << bits */
    uint32_t fine_shift;   /* not 0: a coefficient is coarse << fine_shift | fine */
    bool one_window;       /* 16-byte windows with 2 tap pairs: the first window has the second pair, too */
    uint32_t ring_shift;
    const uint32_t *base;  /* byte offset in the row: one a lane, step (PAIR64) or pixel */
    const uint8_t *index;  /* 4 bytes an element (tap, 0x80, next tap, 0x80) */
    /* with an index: [step][tap pair][element][2]; others: [pixel][taps]. With fine_shift, the fine parts
     * follow the coarse ones of each tap pair, or pixel. */
    const int16_t *coeff;
};

/* dst[e] = clamp((sum(row * coeff) + half) >> bits, 0, 255) << ring_shift. Without fine_shift the
 * coefficients are not negative and sum to 1 << bits, so that there is nothing to clamp. */
typedef void hr_hresize_fn(const struct hr_hplan *plan, const uint8_t *row, int16_t *dst);

/* The same for three rows of one channel, whose results go to dst, dst + pitch and dst + 2 * pitch. */
typedef void hr_hresize_planes_fn(const struct hr_hplan *plan, const uint8_t *const rows[3], int16_t *dst,
                                  size_t pitch);

/* dst[e] = (64 + sum(mulhrs(rows[t][e], coeff[t]))) >> 7, for ring rows << 7 and coefficients << 15
 * that are not negative; at most HR_NARROW_TAPS taps. */
typedef void hr_vnarrow_fn(const int16_t *const *rows, const int16_t *coeff, uint32_t taps,
                           uint8_t *dst, size_t elements);

/* dst[e] = clamp((sum(rows[t][e] * coeff[t]) + half) >> bits, 0, 255), for any taps; rows and coeff
 * hold one entry more when taps is odd (any row, coefficient 0). */
typedef void hr_vwide_fn(const int16_t *const *rows, const int16_t *coeff, uint32_t taps,
                         uint32_t bits, uint8_t *dst, size_t elements);

struct hr_store {
    uint32_t channels;     /* 1 or 3 */
    float scale[3], bias[3];
    /* the same for element i of a packed row: whole pixels of 1 and of 3 channels, whole vectors */
    float packed_scale[HR_PACKED_PERIOD], packed_bias[HR_PACKED_PERIOD];
    uint64_t plane_stride; /* in elements, for the planar ones */
    const void *table; /* where the level has fill_table: what a pixel becomes, 256 items a channel */
};

/* dst = row as floats, fma(pixel, scale[c], bias[c]) rounded once to nearest even, or as bytes. */
typedef void hr_store_fn(const struct hr_store *store, const uint8_t *row, void *dst, size_t pixels);

/* Three rows of bytes to one of pixels: exactly 3 * pixels bytes. */
typedef void hr_interleave_fn(const uint8_t *const rows[3], uint8_t *dst, size_t pixels);

enum hr_store_type { HR_STORE_U8, HR_STORE_F16, HR_STORE_BF16, HR_STORE_F32, HR_STORE_COUNT };

/* Makes the table of a type, from scale and bias. */
typedef void hr_fill_table_fn(const struct hr_store *store, enum hr_store_type type, void *table);

struct hr_kernels {
    const struct hr_axis_wide *axis; /* NULL: none */
    hr_hresize_fn *hresize[HR_HLAYOUT_COUNT]; /* NULL: this level does not use the layout */
    hr_hresize_planes_fn *hresize_planes[HR_HLAYOUT_COUNT]; /* NULL: one after the other */
    hr_interleave_fn *interleave; /* NULL: planes make no interleaved output */
    hr_vnarrow_fn *vnarrow;
    hr_vwide_fn *vwide;
    hr_store_fn *packed[HR_STORE_COUNT]; /* HWC, 1 or 3 channels */
    hr_store_fn *planar[HR_STORE_COUNT]; /* CHW, 3 channels */
    hr_fill_table_fn *fill_table;        /* NULL: the level converts without a table */
};

/* The table for this CPU (hr_cpu_flags), made at the first call; safe from any thread. */
const struct hr_kernels *hr_kernels_get(void);

/* Fills a table for given CPU flags, and makes a machine use it: for tests and benchmarks. */
void hr_kernels_fill(struct hr_kernels *kernels, unsigned cpu_flags);
void hr_resample_use_kernels(struct hr_resample *resample, const struct hr_kernels *kernels);

/* Each level overrides what it has. */
void hr_kernels_fill_c(struct hr_kernels *kernels);
void hr_kernels_fill_avx2(struct hr_kernels *kernels);
void hr_kernels_fill_avx512(struct hr_kernels *kernels);
void hr_kernels_fill_neon(struct hr_kernels *kernels);

#endif
