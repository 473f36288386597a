/* Damaged repacked JPEG whose checksum somebody made right again: no packer writes such tiles, so only their decoders
 * can promise that the same record gives the same pixels on every CPU. Each level gives the plain C one's answer: the
 * same code, and the same samples where it is 0. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "rjpeg_check.h"

enum { VALUES = 8 };

struct answer {
    int ret;
    uint64_t samples; /* a hash of them, and of where each is */
};

struct taken {
    size_t bytes;
    uint64_t hash;
};

static void take(void *user, const uint8_t *row)
{
    struct taken *taken = user;

    for (size_t i = 0; i < taken->bytes; i++)
        taken->hash = (taken->hash ^ row[i]) * 0x100000001b3ull;
}

static struct answer decode(const char *variant, const struct bytes *value, const struct hr_rjpeg_box *box,
                            uint32_t channels)
{
    struct hr_rjpeg_view view = hr_rjpeg_view_whole(value->data, value->count);
    struct taken taken = {.bytes = (size_t)box->w * channels, .hash = 1};
    struct hr_rjpeg_sink sink = {.row = take, .user = &taken, .channels = channels};

    hr_rjpeg_set_variant(decoder, variant);
    int ret = hr_rjpeg_decode(decoder, &view, box, &sink, NULL);
    return (struct answer){ret, ret < 0 ? 0 : taken.hash};
}

/* Returns the code that all levels gave. */
static int compare(const struct bytes *value, const struct hr_rjpeg_box *box, uint32_t channels, int seed)
{
    struct answer plain = decode("c", value, box, channels);

    for (size_t v = 0; v < RJPEG_VARIANTS; v++) {
        if (!hr_rjpeg_set_variant(decoder, rjpeg_variants[v]))
            continue;
        struct answer other = decode(rjpeg_variants[v], value, box, channels);
        if (other.ret != plain.ret || other.samples != plain.samples)
            fail_msg("seed %d: box %u,%u %ux%u at 1/%u in %u channels: %s gives %d, c %d, or other samples", seed,
                     box->x, box->y, box->w, box->h, box->shrink, channels, rjpeg_variants[v], other.ret, plain.ret);
    }
    return plain.ret;
}

static struct hr_rjpeg_box random_box(struct hr_rng *rng, const struct hr_rjpeg_info *info)
{
    uint32_t shrink = 1u << hr_rng_below(rng, 4);
    struct picture size = {.width = (info->width + shrink - 1) / shrink,
                           .height = (info->height + shrink - 1) / shrink};
    struct hr_rjpeg_box box = rjpeg_random_box(rng, &size);

    box.shrink = shrink;
    return box;
}

/* Bytes of tiles: any, or such as make large numbers and long fields. */
static void damage_tiles(struct hr_rng *rng, uint8_t *tiles, size_t bytes)
{
    for (uint64_t n = 1 + hr_rng_below(rng, hr_rng_bernoulli(rng, 0.2) ? bytes : 12); n; n--)
        tiles[hr_rng_below(rng, bytes)] = hr_rng_bernoulli(rng, 0.5) ? (uint8_t)hr_rng_u32(rng) : 0xff;
}

static void damage(struct hr_rng *rng, const struct hr_rjpeg_info *info, const struct bytes *value)
{
    uint8_t *quantizers = value->data + HR_RJPEG_HEADER_BYTES;

    for (uint32_t i = 0; i < info->quantizers * 64 && hr_rng_bernoulli(rng, 0.5); i++)
        quantizers[i] = hr_rng_bernoulli(rng, 0.7) ? 0xff : (uint8_t)hr_rng_u32(rng);
    damage_tiles(rng, value->data + info->head_bytes, (size_t)info->data_bytes);
}

static struct bytes make_value(const struct recipe *r, struct hr_rng *rng)
{
    struct hr_buf packed = {0};
    struct bytes jpeg = jpeg_make(r, rng);

    assert_int_equal(hr_rjpeg_encode(jpeg.data, jpeg.count, &packed, NULL, NULL), 0);
    hr_free(jpeg.data);
    return (struct bytes){packed.data, packed.used};
}

static void damaged_tiles_give_the_same_on_every_level(void **state)
{
    int rounds = getenv("HR_RJPEG_ROUNDS") ? atoi(getenv("HR_RJPEG_ROUNDS")) : 1500, decoded = 0;
    struct bytes values[VALUES];
    struct hr_rng rng;

    hr_rng_init(&rng, 9, 0, 0, 1);
    for (uint32_t i = 0; i < VALUES; i++) {
        struct recipe r = {.width = 21 + 40 * i, .height = 75 - 4 * i, .components = i == 3 ? 1 : 3,
                           .h = 1 + (int)i % 2, .v = 1 + (int)i / 2 % 2, .quality = i < 4 ? 100 : 20 * (int)i - 50};
        values[i] = make_value(&r, &rng);
    }
    for (int i = 0; i < rounds; i++) {
        const struct bytes *from = &values[i % VALUES];
        struct bytes bad = {hr_alloc(from->count), from->count};
        struct hr_rjpeg_info info;

        hr_rng_init(&rng, 9, 1, (uint64_t)i, 1);
        memcpy(bad.data, from->data, from->count);
        assert_int_equal(hr_rjpeg_info(bad.data, bad.count, &info, NULL), 0);
        damage(&rng, &info, &bad);
        for (int b = 0; b < 3; b++) {
            struct hr_rjpeg_box box = random_box(&rng, &info);
            decoded += compare(&bad, &box, hr_rng_bernoulli(&rng, 0.8) ? 3 : 1, i) == 0;
        }
        hr_free(bad.data);
    }
    print_message("# %d of %d boxes of damaged values were decoded\n", decoded, 3 * rounds);
    assert_true(decoded > rounds / 2);
    for (int i = 0; i < VALUES; i++)
        hr_free(values[i].data);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(damaged_tiles_give_the_same_on_every_level),
    };
    return cmocka_run_group_tests(tests, rjpeg_open, rjpeg_close);
}
