/* Any bytes as a picture, built once for each family of formats: measured, and decoded through chains that
 * crop, shrink, turn and resize, by the facts that measuring found or by made-up ones where it refused.
 * The first two bytes choose chain and epoch, whether there are views, and whether it is a mask as well. A JPEG is also
 * repacked: what is taken comes back byte for byte, and is decoded in that form. Every failure is one of a
 * sample, with a reason. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "decoders/chain.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

enum { MAX_PIXELS = 1 << 20 }; /* larger claims: left to the size limit */
enum { HEAD_BYTES = 2, CHAINS = 4, VIEWS = 64, MASK = 128 };

/* FUZZ_FORMAT: the one; UNKNOWN: those that FFmpeg decodes. */
static bool ours(enum hr_media_format format)
{
    return FUZZ_FORMAT ? format == FUZZ_FORMAT : format >= HR_MEDIA_GIF && format <= HR_MEDIA_AVIF;
}

static void check(int ret, const struct hr_error *err)
{
    if (ret < 0 && (err->code != ret || !err->text[0] || hr_error_scope_of(ret) != HR_SCOPE_SAMPLE))
        abort();
}

/* ---- chains ---- */

static struct hr_arg number(const char *name, int64_t value, const char *text)
{
    return (struct hr_arg){.name = name, .kind = HR_ARG_INT, .integer = value, .number = (double)value,
                           .text = text};
}

static struct hr_arg word(const char *name, const char *text)
{
    return (struct hr_arg){.name = name, .kind = HR_ARG_STR, .text = text};
}

static struct hr_arg yes(const char *name)
{
    return (struct hr_arg){.name = name, .kind = HR_ARG_BOOL, .boolean = true, .text = "true"};
}

static struct hr_chain *make_chain(int head, const struct hr_facts *facts)
{
    int which = head % CHAINS;
    struct hr_arg size = number("size", 24, "24"), ragged = yes("ragged"), planar = word("layout", "nchw");
    struct hr_arg gray = word("channels", "gray"), scaled = word("scaled_decode", which == 2 ? "auto" : "never");
    struct hr_arg option[2] = {which == 1 ? gray : scaled, number("views", 3, "3")};
    struct hr_call cut[] = {{.name = "random_resized_crop", .args = &size, .arg_count = 1}, {.name = "hflip"}};
    struct hr_call center[] = {{.name = "center_crop", .args = &size, .arg_count = 1}};
    struct hr_call shrink[] = {{.name = "resize", .args = &size, .arg_count = 1},
                               {.name = "random_crop", .args = &size, .arg_count = 1}};
    const struct hr_call output_planar = {.name = "output", .args = &planar, .arg_count = 1};
    const struct hr_call output_ragged = {.name = "output", .args = &ragged, .arg_count = 1};
    const struct hr_call options = {.name = "f", .args = option, .arg_count = head & VIEWS && which < 3 ? 2 : 1};
    const struct hr_chain_spec specs[CHAINS] = {
        {.ops = cut, .op_count = 2},
        {.ops = center, .op_count = 1},
        {.ops = shrink, .op_count = 2, .output = &output_planar},
        {.output = &output_ragged},
    };
    struct hr_chain_spec spec = specs[which];
    struct hr_chain *chain = NULL;
    struct hr_error err = HR_ERROR_INIT;

    spec.type = HR_FIELD_IMAGE;
    spec.field = "f";
    spec.options = &options;
    spec.max_width = facts->width;
    spec.max_height = facts->height;
    if (hr_chain_create(&spec, &chain, &err) < 0)
        abort();
    return chain;
}

static struct hr_chain *make_mask(const struct hr_chain *leader, const struct hr_facts *facts)
{
    struct hr_arg wide = word("dtype", "i64");
    const struct hr_call output = {.name = "output", .args = &wide, .arg_count = 1};
    struct hr_chain_spec spec = {.type = HR_FIELD_IMAGE, .field = "m", .leader = leader, .output = &output,
                                 .max_width = facts->width, .max_height = facts->height};
    struct hr_chain *chain = NULL;
    struct hr_error err = HR_ERROR_INIT;

    if (hr_chain_create(&spec, &chain, &err) < 0)
        abort();
    return chain;
}

static void decode_by(struct hr_chain *chain, const uint8_t *head, const struct hr_facts *facts, unsigned encoding,
                      const uint8_t *value, size_t bytes)
{
    struct hr_context *context = NULL;
    struct hr_error err = HR_ERROR_INIT;
    struct hr_sample_plan plan;

    if (hr_context_create(chain, &context, NULL) < 0)
        abort();
    for (uint64_t position = 0; position < 2; position++) { /* the second in a context in use */
        void *dst[HR_CHAIN_MAX_OUTPUTS] = {0};
        if (hr_chain_plan(chain, facts, bytes, 1, head[1], position, 0, &plan, &err) < 0)
            break;
        dst[0] = hr_alloc_aligned(64, hr_align_up(plan.bytes[0] ? plan.bytes[0] : 1, 64));
        check(hr_chain_decode(chain, context, &plan, encoding, value, bytes, dst, &err), &err);
        hr_free(dst[0]);
    }
    hr_context_destroy(context);
}

static void decode(const uint8_t *head, const struct hr_facts *facts, unsigned encoding, const uint8_t *value,
                   size_t bytes)
{
    struct hr_chain *chain = make_chain(head[0], facts);

    decode_by(chain, head, facts, encoding, value, bytes);
    if (head[0] & MASK && hr_chain_leads(chain)) {
        struct hr_chain *mask = make_mask(chain, facts);
        decode_by(mask, head, facts, encoding, value, bytes);
        hr_chain_destroy(mask);
    }
    hr_chain_destroy(chain);
}

static void repack(const uint8_t *head, const struct hr_facts *facts, const uint8_t *jpeg, size_t bytes)
{
    struct hr_buf packed = {0}, seek = {0}, restored = {0};
    struct hr_error err = HR_ERROR_INIT;
    int ret = hr_media_repack(jpeg, bytes, &packed, &seek, &err);

    check(ret, &err);
    if (ret == 0) {
        size_t packed_bytes = packed.used;
        static const uint8_t padding[HR_CHAIN_PADDING];
        if (hr_media_restore(HR_ENCODING_REPACKED_JPEG, packed.data, packed_bytes, &restored, NULL) < 0 ||
            restored.used != bytes || memcmp(restored.data, jpeg, bytes) != 0)
            abort();
        hr_buf_add(&packed, padding, sizeof(padding));
        decode(head, facts, HR_ENCODING_REPACKED_JPEG, packed.data, packed_bytes);
    }
    hr_buf_finish(&packed);
    hr_buf_finish(&seek);
    hr_buf_finish(&restored);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct hr_facts facts = {.width = 40, .height = 30};
    struct hr_error err = HR_ERROR_INIT;

    if (bytes < HEAD_BYTES || !ours(hr_media_sniff(data + HEAD_BYTES, bytes - HEAD_BYTES)))
        return 0;
    uint8_t *padded = calloc(bytes - HEAD_BYTES + HR_CHAIN_PADDING, 1);
    memcpy(padded, data + HEAD_BYTES, bytes - HEAD_BYTES);
    bytes -= HEAD_BYTES;
    check(hr_media_measure(data + HEAD_BYTES, bytes, HR_FIELD_IMAGE, data[0] & 64, NULL, &facts, &err), &err);
    if ((uint64_t)facts.width * facts.height <= MAX_PIXELS)
        decode(data, &facts, HR_ENCODING_AS_IS, padded, bytes);
    if (FUZZ_FORMAT == HR_MEDIA_JPEG && (uint64_t)facts.width * facts.height <= MAX_PIXELS)
        repack(data, &facts, data + HEAD_BYTES, bytes);
    free(padded);
    return 0;
}
