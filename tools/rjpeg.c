/* headrace rjpeg: repacks JPEG files in memory, restores and compares them, and measures how fast the
 * result decodes. Writes nothing: it tells what packing a dataset with repacked pictures would give. */
#include "tools/headrace.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "decoders/rjpeg/rjpeg.h"

enum { MAX_FILE = 1 << 30 };

struct options {
    struct hr_cli cli;
    int64_t rounds;
};

static const struct hr_cli_arg args[] = {
    {"FILE", "JPEG files", .repeats = true, .word = HR_WORD_FILE},
    {NULL},
};

static const struct hr_opt opts[] = {
    {"rounds", 'n', HR_OPT_INT, "N", offsetof(struct options, rounds), "decodes of each picture; the fastest counts",
     .fallback = "5", .min = 1, .max = 10000},
    HR_OPT_END,
};

static const struct hr_exit_note exits[] = {
    {HR_EXIT_FOUND, "some file is not repacked: another kind of JPEG, or damaged"},
    {0},
};

const struct hr_command hr_command_rjpeg = {
    .name = "rjpeg",
    .summary = "repack JPEG files in memory, restore and compare them",
    .description =
        "A repacked JPEG stores the same coefficients without the entropy coder: it decodes several times as "
        "fast to the same pixels, and the original file can be given back byte for byte. This command does "
        "both for each file, checks them, and prints sizes and times. Nothing is written.\n\nFiles that "
        "cannot be repacked are named with the reason; packing keeps those as they are.",
    .args = args,
    .opts = opts,
    .example = "  headrace rjpeg photos/*.jpg\n  headrace rjpeg --json photo.jpg",
    .exits = exits,
    .see_also = "pack",
    .has_json = true,
    .run = hr_tool_rjpeg,
};

struct result {
    uint64_t jpeg_bytes, packed_bytes, pixels;
    uint64_t repack_ns, restore_ns, decode_ns;
    uint32_t progressive, cmyk; /* files of these kinds */
};

struct rows {
    uint64_t count;
};

static void count_row(void *user, const uint8_t *row)
{
    struct rows *rows = user;
    rows->count++;
}

static int measure_decode(struct hr_rjpeg *decoder, const struct hr_buf *packed, int64_t rounds, struct result *r,
                          struct hr_error *err)
{
    struct hr_rjpeg_view view = hr_rjpeg_view_whole(packed->data, packed->used);
    struct hr_rjpeg_info info;
    struct rows rows = {0};
    int ret = hr_rjpeg_info(packed->data, packed->used, &info, err);

    if (ret < 0)
        return ret;
    struct hr_rjpeg_box box = {0, 0, info.width, info.height};
    struct hr_rjpeg_sink sink = {.row = count_row, .user = &rows, .channels = info.components};
    r->pixels = (uint64_t)info.width * info.height;
    r->progressive = info.progressive;
    r->cmyk = info.components == 4;
    r->decode_ns = UINT64_MAX;
    for (int64_t i = 0; i < rounds && ret >= 0; i++) {
        uint64_t start = hr_clock_thread_ns();
        ret = hr_rjpeg_decode(decoder, &view, &box, &sink, err);
        r->decode_ns = hr_min_u64(r->decode_ns, hr_clock_thread_ns() - start);
    }
    return ret;
}

static int repack(struct hr_rjpeg *decoder, const uint8_t *jpeg, size_t bytes, int64_t rounds, struct result *r,
                  struct hr_error *err)
{
    struct hr_buf packed = {0}, restored = {0};
    uint64_t start = hr_clock_thread_ns();
    int ret = hr_rjpeg_encode(jpeg, bytes, &packed, NULL, err);

    r->repack_ns = hr_clock_thread_ns() - start;
    if (ret >= 0) {
        start = hr_clock_thread_ns();
        ret = hr_rjpeg_restore(packed.data, packed.used, &restored, err);
        r->restore_ns = hr_clock_thread_ns() - start;
    }
    if (ret >= 0 && (restored.used != bytes || memcmp(restored.data, jpeg, bytes) != 0))
        ret = hr_fail(err, HR_E_INTERNAL, "the restored file differs");
    if (ret >= 0)
        ret = measure_decode(decoder, &packed, rounds, r, err);
    r->jpeg_bytes = bytes;
    r->packed_bytes = packed.used;
    hr_buf_finish(&packed);
    hr_buf_finish(&restored);
    return ret;
}

static void add_json(struct hr_buf *out, const struct result *r)
{
    hr_json_uint(out, "jpeg_bytes", r->jpeg_bytes);
    hr_json_uint(out, "packed_bytes", r->packed_bytes);
    hr_json_double(out, "ratio", (double)r->packed_bytes / (double)r->jpeg_bytes);
    hr_json_uint(out, "pixels", r->pixels);
    hr_json_double(out, "repack_us", (double)r->repack_ns * 1e-3);
    hr_json_double(out, "restore_us", (double)r->restore_ns * 1e-3);
    hr_json_double(out, "decode_us", (double)r->decode_ns * 1e-3);
    hr_json_uint(out, "progressive", r->progressive);
    hr_json_uint(out, "cmyk", r->cmyk);
}

/* ", progressive" of one file, ", 21 progressive, 2 cmyk" of several. */
static void add_kinds(struct hr_buf *out, const struct result *r, bool several)
{
    const struct {
        const char *name;
        uint32_t count;
    } kinds[] = {{"progressive", r->progressive}, {"cmyk", r->cmyk}};

    for (size_t i = 0; i < HR_ARRAY_SIZE(kinds); i++)
        if (kinds[i].count && several)
            hr_buf_addf(out, ", %u %s", kinds[i].count, kinds[i].name);
        else if (kinds[i].count)
            hr_buf_addf(out, ", %s", kinds[i].name);
    hr_buf_add_str(out, "\n");
}

static void add_text(struct hr_buf *out, const char *name, const struct result *r, bool several)
{
    hr_buf_addf(out, "%s: %llu -> %llu bytes (%.3fx), repacked in %.0f us, restored in %.0f us, decoded in %.0f us",
                name, (unsigned long long)r->jpeg_bytes, (unsigned long long)r->packed_bytes,
                (double)r->packed_bytes / (double)r->jpeg_bytes, (double)r->repack_ns * 1e-3,
                (double)r->restore_ns * 1e-3, (double)r->decode_ns * 1e-3);
    add_kinds(out, r, several);
}

static void add_refusal(struct hr_buf *out, bool json, const struct hr_error *err, const char *name)
{
    if (!json) {
        hr_buf_addf(out, "%s: not repacked: %s\n", name, err->text);
        return;
    }
    hr_json_str(out, "error", hr_error_name(err->code));
    hr_json_str(out, "reason", err->text);
}

static void add_result(struct result *total, const struct result *r)
{
    total->jpeg_bytes += r->jpeg_bytes;
    total->packed_bytes += r->packed_bytes;
    total->pixels += r->pixels;
    total->repack_ns += r->repack_ns;
    total->restore_ns += r->restore_ns;
    total->decode_ns += r->decode_ns;
    total->progressive += r->progressive;
    total->cmyk += r->cmyk;
}

/* Adds one file's result; returns 1 when it was repacked, 0 when not, or the error of reading it. */
static int do_file(struct hr_rjpeg *decoder, const char *name, const struct options *o, struct hr_buf *out,
                   struct result *total, struct hr_error *err)
{
    struct result r = {0};
    void *jpeg = NULL;
    size_t bytes = 0;
    int ret = hr_fd_read_file(name, MAX_FILE, &jpeg, &bytes, err);

    if (ret < 0)
        return ret;
    ret = repack(decoder, jpeg, bytes, o->rounds, &r, err);
    hr_free(jpeg);
    if (o->cli.json) {
        hr_json_open(out, NULL, '{');
        hr_json_str(out, "file", name);
    }
    if (ret < 0)
        add_refusal(out, o->cli.json, err, name);
    else if (o->cli.json)
        add_json(out, &r);
    else
        add_text(out, name, &r, false);
    if (o->cli.json)
        hr_json_close(out, '}');
    if (ret < 0)
        return 0;
    add_result(total, &r);
    return 1;
}

static void add_total(struct hr_buf *out, const struct options *o, int good, const char *variant,
                      const struct result *total)
{
    char name[64];

    if (o->cli.json) {
        hr_json_open(out, "total", '{');
        hr_json_int(out, "files", o->cli.arg_count);
        hr_json_int(out, "repacked", good);
        hr_json_str(out, "decoder", variant);
        if (good)
            add_json(out, total);
        hr_json_close(out, '}');
        return;
    }
    if (good && o->cli.arg_count > 1) {
        snprintf(name, sizeof(name), "%d of %d files (%s)", good, o->cli.arg_count, variant);
        add_text(out, name, total, true);
    }
}

static int do_files(struct hr_rjpeg *decoder, const struct options *o, struct hr_buf *out, struct hr_error *err)
{
    struct result total = {0};
    int good = 0;

    if (o->cli.json) {
        hr_json_open(out, NULL, '{');
        hr_json_open(out, "files", '[');
    }
    for (int i = 0; i < o->cli.arg_count; i++) {
        int ret = do_file(decoder, o->cli.args[i], o, out, &total, err);
        if (ret < 0)
            return ret;
        good += ret;
    }
    if (o->cli.json)
        hr_json_close(out, ']');
    add_total(out, o, good, hr_rjpeg_variant(decoder), &total);
    if (o->cli.json) {
        hr_json_close(out, '}');
        hr_buf_add_str(out, "\n");
    }
    return good;
}

int hr_tool_rjpeg(int argc, char **argv)
{
    struct options o;
    struct hr_buf out = {0};
    struct hr_rjpeg *decoder = NULL;
    struct hr_error err = HR_ERROR_INIT;
    int code = hr_cli_parse(&hr_command_rjpeg, argc, argv, &o, sizeof(o));

    if (code != HR_CLI_RUN)
        return code;
    int good = hr_rjpeg_create(&decoder);
    if (good < 0)
        hr_fail(&err, good, "no memory for a decoder");
    else
        good = do_files(decoder, &o, &out, &err);
    hr_rjpeg_destroy(decoder);
    if (good < 0) {
        hr_buf_finish(&out);
        return hr_cli_failed("rjpeg", &err);
    }
    code = hr_cli_print(&out);
    return code != HR_EXIT_DONE ? code : good < o.cli.arg_count ? HR_EXIT_FOUND : HR_EXIT_DONE;
}
