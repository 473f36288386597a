/* Walks the tiles of a value one MCU row after the other: where each lies and how long it is, in cells or
 * not, whole values or parts of them. The decoder and the way back to JPEG go through here. */
#ifndef HR_DECODERS_RJPEG_TILES_H
#define HR_DECODERS_RJPEG_TILES_H

#include "rjpeg/layout.h"

struct rj_tiles {
    const struct hr_rjpeg_info *info;
    struct hr_rjpeg_view view;
    uint32_t panel, panel_end; /* those that are walked */
    uint32_t next_row;         /* UINT32_MAX: none yet */
    /* The next tile of each panel is at off in the value, of which [first, end) is at hand. */
    struct rj_panel_place {
        const uint8_t *sizes, *data;
        uint64_t first, off, end;
    } place[HR_RJPEG_MAX_PANELS];
    const uint8_t *readable_end; /* of the one buffer in which everything is */
    size_t tail_bytes;
    bool tail_ready;
    uint8_t tail[2 * RJ_TILE_READ];
};

/* info, and what view points to, must outlive the walk. */
void rj_tiles_begin(struct rj_tiles *tiles, const struct hr_rjpeg_info *info, const struct hr_rjpeg_view *view,
                    uint32_t panel, uint32_t panel_end);

/* Goes to MCU row m: any one at first, then the next each time. All tiles of the panels in the row
 * before must have been taken or skipped. */
int rj_tiles_row(struct rj_tiles *tiles, uint32_t m, struct hr_error *err) HR_MUST_CHECK;

static inline void rj_tiles_skip(struct rj_tiles *tiles, uint32_t p, uint32_t count)
{
    struct rj_panel_place *place = &tiles->place[p];
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < count; i++)
        bytes += hr_load_le16(place->sizes + 2 * (size_t)i);
    place->sizes += 2 * (size_t)count;
    place->off += bytes;
}

/* Why the next tile cannot be taken. */
HR_COLD int rj_tiles_fail(const struct rj_tiles *tiles, uint32_t p, uint32_t blocks, struct hr_error *err);
/* A tile near the end of what was given, in a copy with a guard zone behind. */
HR_COLD const uint8_t *rj_tiles_tail(struct rj_tiles *tiles, const uint8_t *at);

/* The next tile of panel p, which has so many blocks: RJ_TILE_READ bytes are readable from it on. */
HR_MUST_CHECK static inline int rj_tiles_take(struct rj_tiles *tiles, uint32_t p, uint32_t blocks,
                                              const uint8_t **bytes, uint32_t *size, struct hr_error *err)
{
    struct rj_panel_place *place = &tiles->place[p];
    uint32_t n = hr_load_le16(place->sizes);
    uint64_t off = place->off;

    if (HR_UNLIKELY(n < rj_tile_min_bytes(blocks) || n > RJ_TILE_MAX || off < place->first || off + n > place->end))
        return rj_tiles_fail(tiles, p, blocks, err);
    const uint8_t *at = place->data + (off - place->first);
    place->sizes += 2;
    place->off += n;
    *bytes = HR_LIKELY(tiles->readable_end - at >= RJ_TILE_READ) ? at : rj_tiles_tail(tiles, at);
    *size = n;
    return 0;
}

#endif
