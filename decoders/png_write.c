/* libspng's encoder, streaming into a buffer; 1 to 4 channels. */
#include "decoders/png_write.h"

#include <spng.h>
#include <string.h>

static int take(spng_ctx *ctx, void *user, void *bytes, size_t count)
{
    struct hr_buf *out = user;

    hr_buf_add(out, bytes, count);
    return hr_buf_failed(out) ? SPNG_IO_ERROR : 0;
}

static int encode(spng_ctx *ctx, const struct hr_raw_pixels *p, struct hr_buf *out)
{
    static const uint8_t types[] = {SPNG_COLOR_TYPE_GRAYSCALE, SPNG_COLOR_TYPE_GRAYSCALE_ALPHA,
                                    SPNG_COLOR_TYPE_TRUECOLOR, SPNG_COLOR_TYPE_TRUECOLOR_ALPHA};
    struct spng_ihdr ihdr = {.width = p->width, .height = p->height, .bit_depth = 8,
                             .color_type = types[p->channels - 1]};
    struct spng_iccp iccp = {.profile_name = "ICC", .profile_len = p->icc_bytes,
                             .profile = (char *)(uintptr_t)p->icc};
    int ret = spng_set_png_stream(ctx, take, out);

    if (ret == 0)
        ret = spng_set_ihdr(ctx, &ihdr);
    if (ret == 0 && p->icc)
        ret = spng_set_iccp(ctx, &iccp);
    if (ret == 0)
        ret = spng_encode_image(ctx, p->pixels, (size_t)p->width * p->height * p->channels, SPNG_FMT_PNG,
                                SPNG_ENCODE_FINALIZE);
    return ret;
}

int hr_png_write(const struct hr_raw_pixels *picture, struct hr_buf *out, struct hr_error *err)
{
    spng_ctx *ctx = spng_ctx_new(SPNG_CTX_ENCODER);
    int ret = ctx ? encode(ctx, picture, out) : SPNG_EMEM;

    spng_ctx_free(ctx);
    if (ret)
        return hr_fail(err, ret == SPNG_EMEM || hr_buf_failed(out) ? HR_E_NOMEM : HR_E_DECODE,
                       "the picture cannot be written as PNG: %s", spng_strerror(ret));
    return 0;
}
