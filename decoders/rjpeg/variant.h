/* The inner loops of decoding as a table, one table a CPU level: tiles to samples, and rows of samples
 * to rows of pixels. Each level gives the bits of the plain C one. */
#ifndef HR_DECODERS_RJPEG_VARIANT_H
#define HR_DECODERS_RJPEG_VARIANT_H

#include "rjpeg/layout.h"

enum {
    RJ_GUARD = 128,        /* bytes around rows that loops may read, or write as they like */
    RJ_TABLE_BYTES = 2048, /* a quantizer, prepared */
    /* The second pass's rounding and its + 128, as what 2^13 makes 2^17 + 128 * 2^18 of: every level adds it to
     * coefficient 0, saturated to 16 bits, so that absurd blocks give the same samples everywhere, too. */
    RJ_SECOND_ROUND = (1 << 4) + (128 << 5),
};

/* One tile of a strip. Blocks [first, end) of it are wanted; writing its others is allowed. */
struct rj_job {
    const uint8_t *bytes; /* RJ_TILE_READ bytes are readable, and `size` bytes before the end */
    uint8_t *out;         /* first sample of the tile's first block; 128 columns are writable */
    uint32_t size;
    uint8_t blocks, first, end;
    uint8_t component; /* whose table */
};

struct rj_variant {
    const char *name;
    size_t scratch_bytes; /* for run(); 64-byte aligned, contents free */
    unsigned max_quantizer; /* run() and prepare() are right up to this entry */
    void (*init)(void); /* before any other; from any thread, as often as liked. NULL = nothing */
    void (*prepare)(const uint16_t natural[64], void *table);
    /* Decodes tiles; tables[component] were prepared. False when a tile is damaged. */
    bool (*run)(const struct rj_job *jobs, uint32_t count, uint8_t (*tables)[RJ_TABLE_BYTES],
                size_t stride, void *scratch);
    /* Blocks of dequantized coefficients in natural order, 16-byte aligned, to samples side by side. Whole groups of
     * four are read and written. */
    void (*inverse)(const int16_t (*blocks)[64], uint32_t count, uint8_t *out, size_t stride);
    /* run() at reduced size: a block gives size x size samples (4, 2, 1). All tiles are of the one
     * component whose quantizer is given, of any size of entries; 16 size columns are writable. */
    bool (*run_scaled)(const struct rj_job *jobs, uint32_t count, const uint16_t quantizer[64], uint32_t size,
                       size_t stride, void *scratch);

    /* Triangle filters of libjpeg-turbo on a row of samples (in[-1] and in[count] are set) and its
     * neighbour row. across: 2 count samples out; down: count; both: 2 count, sums has room for
     * count + RJ_GUARD numbers. All read and write up to RJ_GUARD bytes further. */
    void (*across)(const uint8_t *in, uint32_t count, uint8_t *out);
    void (*down)(const uint8_t *near, const uint8_t *far, unsigned bias, uint32_t count, uint8_t *out);
    void (*both)(const uint8_t *near, const uint8_t *far, uint32_t count, uint8_t *out, uint16_t *sums);

    /* Rows of pixels: read up to RJ_GUARD bytes further, write exactly 3 count bytes. */
    void (*ycc_to_rgb)(const uint8_t *y, const uint8_t *cb, const uint8_t *cr, uint32_t count, uint8_t *rgb);
    /* The same as three rows: written up to RJ_GUARD bytes further. */
    void (*ycc_to_planes)(const uint8_t *y, const uint8_t *cb, const uint8_t *cr, uint32_t count,
                          uint8_t *const rgb[3]);
    void (*interleave)(const uint8_t *r, const uint8_t *g, const uint8_t *b, uint32_t count, uint8_t *rgb);
};

/* run_scaled of the levels. */
bool rj_run_scaled_c(const struct rj_job *jobs, uint32_t count, const uint16_t quantizer[64], uint32_t size,
                     size_t stride, void *scratch);
bool rj_run_scaled_avx2(const struct rj_job *jobs, uint32_t count, const uint16_t quantizer[64], uint32_t size,
                        size_t stride, void *scratch);
bool rj_run_scaled_avx2_nopdep(const struct rj_job *jobs, uint32_t count, const uint16_t quantizer[64], uint32_t size,
                               size_t stride, void *scratch);
bool rj_run_scaled_avx512(const struct rj_job *jobs, uint32_t count, const uint16_t quantizer[64], uint32_t size,
                          size_t stride, void *scratch);
bool rj_run_scaled_neon(const struct rj_job *jobs, uint32_t count, const uint16_t quantizer[64], uint32_t size,
                        size_t stride, void *scratch);

extern const struct rj_variant rj_variant_c, rj_variant_avx2, rj_variant_avx2_nopdep, rj_variant_avx512,
    rj_variant_neon;

#endif
