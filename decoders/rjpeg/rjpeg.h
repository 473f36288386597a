/* Repacked JPEG: the quantized coefficients of a JPEG file, entropy-decoded once and stored in plain
 * bit fields that a CPU reads at memory speed. The pixels are those of libjpeg-turbo's accurate
 * integer decode, bit for bit, for the whole picture and for any region; the original file can be
 * given back byte for byte. The bytes are specified in docs/formats/repacked-jpeg.md.
 *
 *   hr_rjpeg_encode()  jpeg -> packed   proves both promises before it says 0
 *   hr_rjpeg_restore() packed -> jpeg
 *   hr_rjpeg_info()    the fixed header, checked
 *   hr_rjpeg_ranges()  box -> which bytes of the value are needed
 *   hr_rjpeg_check()   checksums of those bytes, where the value has them
 *   hr_rjpeg_decode()  packed, box -> rows of pixels, on a context that each worker owns
 *   hr_rjpeg_decode_file()  jpeg, box -> the same, without repacking it
 *
 * Every function takes any bytes: what is damaged is an error or wrong pixels, never a stray access
 * and never unbounded time. All but those that take a context may be called from any thread. */
#ifndef HR_DECODERS_RJPEG_RJPEG_H
#define HR_DECODERS_RJPEG_RJPEG_H

#include "base/buf.h"
#include "base/err.h"

enum {
    HR_RJPEG_HEADER_BYTES = 32, /* fixed part of the head */
    HR_RJPEG_TILE_BLOCKS = 16,  /* 8x8 blocks in a full tile */
    HR_RJPEG_COMPONENTS = 4,
    HR_RJPEG_MAX_PANELS = 32,
    /* Files from this size on are stored in cells, which can be read and checked one by one. */
    HR_RJPEG_CELLS_BYTES = 256 << 10,
};

enum hr_rjpeg_colour {
    HR_RJPEG_GRAY = 0,
    HR_RJPEG_YCBCR = 1,
    HR_RJPEG_RGB = 2,
    HR_RJPEG_CMYK = 3,
    HR_RJPEG_YCCK = 4, /* of C, M, Y as R, G, B; and K */
};

struct hr_rjpeg_component {
    uint32_t h, v;                  /* sampling factors, 1..4 */
    uint32_t quantizer;             /* which of the stored tables */
    uint32_t width, height;         /* samples that belong to the picture */
    uint32_t blocks_w, blocks_h;    /* stored blocks, the padding up to whole MCUs included */
    uint32_t tiles_w, tile_first;   /* tiles in a block row; first tile inside an MCU row */
};

/* The value is head | tiles | kept. Values in cells have the tile sizes in their cells and a table of
 * cells in the head; that head is what the shard's seek table repeats, so that a read can be planned
 * without the payload. */
struct hr_rjpeg_info {
    uint32_t width, height; /* pixels */
    uint32_t components;    /* 1, 3 or 4 */
    enum hr_rjpeg_colour colour;
    uint32_t h_max, v_max; /* largest sampling factors: an MCU is 8 h_max x 8 v_max pixels */
    uint32_t mcu_rows, mcus_w, tiles_per_mcu_row, tile_count;
    uint32_t quantizers, quantizer_bytes; /* tables; bytes of one entry, 1 or 2 */
    uint32_t head_bytes, sizes_off;       /* whole head; where the tile sizes begin */
    uint64_t data_bytes;                  /* all tiles */
    uint32_t kept_bytes;                  /* original bytes around the scan, as stored */
    uint32_t jpeg_head_bytes, jpeg_tail_bytes; /* the same, as they were: before the last scan, after it */
    bool kept_lz4, pad_ones;
    bool several, progressive; /* the file has several scans; in steps of a progression */
    /* A cell is cell_rows MCU rows of a panel, and panels of panel_mcus MCUs stand side by side. Without
     * cells: one panel, and one cell in it. */
    bool cells;
    uint32_t panel_mcus, panels, cell_rows, cells_per_panel, cell_count;
    uint64_t value_bytes;                      /* head + tiles + kept */
    struct hr_rjpeg_component component[HR_RJPEG_COMPONENTS];
};

struct hr_rjpeg_box {
    uint32_t x, y, w, h; /* pixels; must lie inside of the picture and not be empty */
    /* Of the picture at 1/shrink, ceil(width / shrink) x ceil(height / shrink) pixels, as libjpeg's
     * scaled decode gives it: 1, 2, 4 or 8. 0 counts as 1. */
    uint32_t shrink;
};

struct hr_rjpeg_range {
    uint64_t off, bytes; /* inside of the value */
};

/* Repacks a JPEG file. out gets the value, seek (may be NULL) a copy of its head where the value is in
 * cells, else nothing; both are reset first. Returns 0 only after the packed bytes gave back the file, which
 * proves the pixels too (docs/formats/repacked-jpeg.md).
 * HR_E_FORMAT: sound, but of a kind that is not repacked (12 bits, arithmetic coding, a progression that is not
 * complete, codes that we would choose otherwise, absurd coefficients …): keep the file as it is. HR_E_DECODE: damaged.
 * err says why. Files of several scans take 128 bytes a block for the time, 256 MiB at most. */
int hr_rjpeg_encode(const uint8_t *jpeg, size_t bytes, struct hr_buf *out, struct hr_buf *seek,
                    struct hr_error *err) HR_MUST_CHECK;

/* Why a file was not repacked. */
enum hr_rjpeg_refusal {
    HR_RJPEG_REFUSED_PROGRESSIVE,
    HR_RJPEG_REFUSED_CMYK, /* four components */
    HR_RJPEG_REFUSED_DAMAGED,
    HR_RJPEG_REFUSED_OTHER, /* 12 bits, arithmetic coding, … */
    HR_RJPEG_REFUSALS,
};

/* Of a file that hr_rjpeg_encode() refused with this code. */
enum hr_rjpeg_refusal hr_rjpeg_refusal(const uint8_t *jpeg, size_t bytes, int code);
const char *hr_rjpeg_refusal_name(enum hr_rjpeg_refusal refusal);

/* Gives back the original file. jpeg is reset first. 0 or HR_E_DECODE, HR_E_TRUNCATED, HR_E_NOMEM. */
int hr_rjpeg_restore(const uint8_t *packed, size_t bytes, struct hr_buf *jpeg,
                     struct hr_error *err) HR_MUST_CHECK;

/* The original bytes before the last scan that are in none: how many they are and, with dst, the bytes. */
int hr_rjpeg_before(const uint8_t *packed, size_t bytes, uint8_t *dst, uint32_t *count,
                    struct hr_error *err) HR_MUST_CHECK;

/* True when the bytes begin like a repacked JPEG. */
bool hr_rjpeg_sniff(const uint8_t *bytes, size_t count);

/* Reads and checks the fixed header: the first HR_RJPEG_HEADER_BYTES bytes suffice. */
int hr_rjpeg_info(const uint8_t *packed, size_t bytes, struct hr_rjpeg_info *info,
                  struct hr_error *err) HR_MUST_CHECK;

/* Which bytes of the value (whole cells, where it has them) a box needs beside its head: fills at most
 * max ranges, in order, apart
 * from each other by more than `gap` bytes (closer ones are joined; so are the last ones when max
 * is reached). head: info->head_bytes bytes. Returns the count, at least 1, or HR_E_*. */
int hr_rjpeg_ranges(const struct hr_rjpeg_info *info, const uint8_t *head, size_t head_bytes,
                    const struct hr_rjpeg_box *box, uint64_t gap, struct hr_rjpeg_range *ranges,
                    int max, struct hr_error *err) HR_MUST_CHECK;

struct hr_rjpeg_part {
    const uint8_t *data; /* of the value's byte off */
    uint64_t off;
    size_t bytes;
};

/* A value, or those parts of it that a box needs: data[0] is the value's byte data_off. Where only
 * some ranges were read, they lie at their places and what is between them does not matter. Values in
 * cells also come as parts, which lie in one buffer in the order of their offsets. */
struct hr_rjpeg_view {
    const uint8_t *head;
    size_t head_bytes;
    const uint8_t *data;
    uint64_t data_off;
    size_t data_bytes;
    const struct hr_rjpeg_part *parts; /* instead of data */
    uint32_t part_count;
};

static inline struct hr_rjpeg_view hr_rjpeg_view_whole(const uint8_t *packed, size_t bytes)
{
    return (struct hr_rjpeg_view){
        .head = packed, .head_bytes = bytes, .data = packed, .data_bytes = bytes};
}

/* The checksums of all cells that the box needs. 0 (also for values without cells), HR_E_CHECKSUM,
 * HR_E_TRUNCATED where a cell is not among the parts, or HR_E_DECODE. *checked (may be NULL): bytes
 * that were looked at. */
int hr_rjpeg_check(const struct hr_rjpeg_view *view, const struct hr_rjpeg_box *box, uint64_t *checked,
                   struct hr_error *err) HR_MUST_CHECK;

/* Where rows go, from top to bottom, box.w * channels bytes each: to row() one by one (readable 64
 * bytes past the end, valid during the call), or, where row is NULL, to dst + y * stride (exactly
 * those bytes are written). channels 3: RGB (gray repeated); 1: gray, for gray and YCbCr pictures
 * (the luma, as libjpeg gives it); 4: CMYK as libjpeg gives it, and the only one for pictures of four components. With
 * planes(), which comes before row(), and channels 3, a row is three of box.w bytes each: red, green, blue. */
struct hr_rjpeg_sink {
    void (*row)(void *user, const uint8_t *row);
    void (*planes)(void *user, const uint8_t *const rows[3]);
    void *user;
    uint8_t *dst;
    size_t stride;
    uint32_t channels;
};

/* Scratch of one worker. Not for two threads at once. */
struct hr_rjpeg;

int hr_rjpeg_create(struct hr_rjpeg **out) HR_MUST_CHECK;
void hr_rjpeg_destroy(struct hr_rjpeg *ctx); /* NULL is fine */

/* Takes the scratch for boxes up to max_width pixels wide; later calls within it allocate nothing.
 * hr_rjpeg_decode() grows it by itself where this was not called. */
int hr_rjpeg_reserve(struct hr_rjpeg *ctx, uint32_t max_width) HR_MUST_CHECK;

/* Decodes a box. 0 or HR_E_DECODE, HR_E_TRUNCATED, HR_E_FORMAT, HR_E_NOMEM; rows before a damaged
 * place may already have been given out. */
int hr_rjpeg_decode(struct hr_rjpeg *ctx, const struct hr_rjpeg_view *view,
                    const struct hr_rjpeg_box *box, const struct hr_rjpeg_sink *sink,
                    struct hr_error *err) HR_MUST_CHECK;

/* A JPEG file whose head libjpeg has read: what it says of colours, and each component's quantizer in natural
 * order. */
struct hr_rjpeg_file {
    const uint8_t *jpeg;
    size_t bytes;
    enum hr_rjpeg_colour colour;
    uint16_t quantizer[HR_RJPEG_COMPONENTS][64];
};

/* Decodes a box of a file as it is, at full size, where it is of a kind that could be repacked and nothing is wrong
 * with it as far as the box reaches: then 0, and the pixels are those of libjpeg-turbo. What is damaged or unusual
 * in any way is an error, for libjpeg to judge. *rows: rows given out, right in any case. */
int hr_rjpeg_decode_file(struct hr_rjpeg *ctx, const struct hr_rjpeg_file *file, const struct hr_rjpeg_box *box,
                         const struct hr_rjpeg_sink *sink, uint32_t *rows, struct hr_error *err) HR_MUST_CHECK;

/* All names of what may decode; each CPU has some of them. */
#define HR_RJPEG_VARIANTS "c", "avx2", "avx2-nopdep", "avx512", "neon"

/* Which code decodes. Chosen by hr_cpu_flags() when the context is made. */
const char *hr_rjpeg_variant(const struct hr_rjpeg *ctx);
/* For tests: takes the named one; false when this CPU cannot run it. */
bool hr_rjpeg_set_variant(struct hr_rjpeg *ctx, const char *name);

#endif
