/* The original bytes around the scan, kept verbatim: with LZ4 and a dictionary of what nearly every
 * JPEG file repeats, where that is smaller. */
#ifndef HR_DECODERS_RJPEG_KEPT_H
#define HR_DECODERS_RJPEG_KEPT_H

#include "rjpeg/layout.h"

/* Appends the stored form to out, whose head (quantizers included) is complete, and fills kept_bytes
 * and kept_lz4. info->jpeg_head_bytes and jpeg_tail_bytes say how many bytes there are. */
int rj_kept_add(struct hr_rjpeg_info *info, const uint8_t *head, const uint8_t *jpeg_head,
                const uint8_t *jpeg_tail, struct hr_buf *out, struct hr_error *err) HR_MUST_CHECK;

/* How many bytes there are, before the scan and after it. HR_E_DECODE: more than can be. */
int rj_kept_bytes(const struct hr_rjpeg_info *info, uint64_t *bytes, struct hr_error *err) HR_MUST_CHECK;
/* The first so many of those bytes into plain. packed holds value_bytes bytes. */
int rj_kept_read(const struct hr_rjpeg_info *info, const uint8_t *packed, uint8_t *plain, uint64_t bytes,
                 struct hr_error *err) HR_MUST_CHECK;

/* The bytes before the scan and, right behind them, those after it; the caller frees *kept with
 * hr_free(). packed holds value_bytes bytes. */
int rj_kept_load(const struct hr_rjpeg_info *info, const uint8_t *packed, uint8_t **kept,
                 struct hr_error *err) HR_MUST_CHECK;

#endif
