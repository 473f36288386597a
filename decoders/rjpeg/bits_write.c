/* Bits of a scan on their way into a file: what is done once a chunk. */
#include "rjpeg/bits_write.h"

#include <stddef.h>
#include <string.h>

void rj_bits_begin(struct rj_bit_writer *w, bool pad_ones, void (*take)(void *user, const uint8_t *bytes, size_t count),
                   void *user)
{
    memset(w, 0, offsetof(struct rj_bit_writer, chunk));
    w->pad_ones = pad_ones;
    w->take = take;
    w->user = user;
}

/* With a zero behind each FF. */
void rj_bits_flush(struct rj_bit_writer *w)
{
    const uint8_t *p = w->chunk, *end = p + w->used;
    uint8_t *out = w->stuffed;

    while (p < end) {
        const uint8_t *ff = memchr(p, 0xff, (size_t)(end - p));
        size_t count = (size_t)((ff ? ff + 1 : end) - p);
        memcpy(out, p, count);
        out += count;
        p += count;
        if (ff)
            *out++ = 0;
    }
    w->take(w->user, w->stuffed, (size_t)(out - w->stuffed));
    w->used = 0;
}

void rj_bits_pad(struct rj_bit_writer *w)
{
    if (w->held) {
        w->chunk[w->used] = (uint8_t)(w->hold >> 56);
        if (w->pad_ones)
            w->chunk[w->used] |= (uint8_t)(0xff >> w->held);
        w->used++;
    }
    w->hold = 0;
    w->held = 0;
    rj_bits_flush(w);
}

void rj_bits_restart(struct rj_bit_writer *w)
{
    const uint8_t marker[2] = {0xff, (uint8_t)(0xd0 + (w->restarts++ & 7))};

    rj_bits_pad(w);
    w->take(w->user, marker, sizeof(marker));
}

void rj_load_codes(uint32_t codes[256], const struct rj_huffman *h)
{
    for (int i = 0; i < 256; i++)
        codes[i] = h->size[i] ? (uint32_t)h->code[i] << RJ_CODE_LENGTH_BITS | h->size[i] : RJ_CODE_MISSING;
}
