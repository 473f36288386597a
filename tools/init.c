/* headrace init: a commented pipeline file that suits what a dataset holds. It is a beginning to edit: each
 * field gets what is usual for its type and sizes, and every other key stands there at its default. */
#include "tools/headrace.h"

#include <inttypes.h>
#include <string.h>

#include "conf/conf.h"
#include "shards/dataset.h"

enum { USUAL_SIDE = 224, USUAL_RATE = 16000, USUAL_BATCH = 256, VIDEO_BATCH = 32, USUAL_STEPS = 7, NAMED_CLASSES = 8 };

struct options {
    struct hr_cli cli;
};

static const struct hr_cli_arg args[] = {
    {"DATASET", "a dataset folder, or one .hrs file", .word = HR_WORD_FOLDER},
    {NULL},
};

const struct hr_command hr_command_init = {
    .name = "init",
    .summary = "print a pipeline file that suits a dataset",
    .description =
        "Prints a commented pipeline file (YAML) for the dataset: each field with the ops that are usual for "
        "its type and sizes, and all other keys at their defaults. Keep it beside the dataset's folder, since "
        "a relative path in it starts at the file's own folder; edit it, and ask 'headrace check' what it gives.",
    .args = args,
    .example = "  headrace init imagenet.hrd > train.yaml\n  headrace check train.yaml",
    .see_also = "check serve",
    .run = hr_tool_init,
};

struct field {
    const struct hr_schema_field *schema;
    struct hr_field_totals totals;
    char bytes[32], count[32];
    const char *picture; /* the dataset's image field that this one may follow, NULL = none */
};

static void comment_range(struct hr_buf *out, const char *unit, uint64_t min, uint64_t max)
{
    if (min == max)
        hr_buf_addf(out, ", %" PRIu64 " %s", max, unit);
    else
        hr_buf_addf(out, ", %" PRIu64 " to %" PRIu64 " %s", min, max, unit);
}

static double mean_seconds(const struct hr_field_totals *t)
{
    return t->present ? (double)t->duration_ns / 1e9 / (double)t->present : 0;
}

static bool same_size(const struct hr_field_totals *t)
{
    return t->min_width == t->max_width && t->min_height == t->max_height && t->max_width;
}

/* The comment above a field: what the dataset says of it. */
static void comment_field(struct hr_buf *out, const struct field *f, uint64_t records)
{
    const struct hr_field_totals *t = &f->totals;

    hr_buf_addf(out, "  # %s", hr_field_type_name(f->schema->type));
    if (f->schema->type == HR_FIELD_IMAGE || f->schema->type == HR_FIELD_VIDEO) {
        comment_range(out, "pixels wide", t->min_width, t->max_width);
        comment_range(out, "high", t->min_height, t->max_height);
    }
    if (hr_field_type_is_media(f->schema->type) && t->duration_ns)
        hr_buf_addf(out, ", %.3g s each on average", mean_seconds(t));
    if (f->schema->type == HR_FIELD_AUDIO)
        comment_range(out, "Hz", t->min_sample_rate, t->max_sample_rate);
    if (!hr_field_type_is_scalar(f->schema->type))
        hr_buf_addf(out, ", %s in all", f->bytes);
    if (t->present < records)
        hr_buf_addf(out, "; %s of the records have it: '%s.present' says which", f->count, f->schema->name);
    hr_buf_add_str(out, "\n");
}

static bool is_mask_name(const char *name)
{
    static const char *const words[] = {"mask", "masks", "seg", "segmentation", "segmap", "semantic", "label_map"};

    for (size_t i = 0; i < HR_ARRAY_SIZE(words); i++)
        if (strcmp(name, words[i]) == 0)
            return true;
    return false;
}

static bool holds_pictures(const struct hr_dataset *dataset, uint32_t field)
{
    const struct hr_schema_field *sf = &hr_dataset_schema(dataset)->fields[field];
    struct hr_field_totals totals;

    hr_dataset_totals(dataset, field, &totals);
    return sf->type == HR_FIELD_IMAGE && totals.present > 0 && !is_mask_name(sf->name);
}

/* The only one that is no mask by its name. */
static const char *find_picture(const struct hr_dataset *dataset)
{
    const struct hr_schema *schema = hr_dataset_schema(dataset);
    const char *found = NULL;

    for (uint32_t i = 0; i < schema->field_count; i++) {
        if (!holds_pictures(dataset, i))
            continue;
        if (found)
            return NULL;
        found = schema->fields[i].name;
    }
    return found;
}

static void add_mask(struct hr_buf *out, const struct field *f)
{
    hr_buf_addf(out, "    follow: %s # class ids: the same crop and flips, the nearest pixels\n"
                     "    output: {dtype: u8} # u8 | i32 | i64\n", f->picture);
}

static void add_image(struct hr_buf *out, const struct field *f)
{
    const struct hr_field_totals *t = &f->totals;
    uint32_t longest = t->max_width > t->max_height ? t->max_width : t->max_height;
    uint32_t side = longest == 0 || longest >= USUAL_SIDE ? USUAL_SIDE : longest < 16 ? 16 : longest / 16 * 16;

    hr_buf_add_str(out, "    ops:\n");
    if (same_size(t) && longest <= USUAL_SIDE)
        hr_buf_addf(out, "      - random_crop: {size: [%" PRIu32 ", %" PRIu32 "], pad: %" PRIu32
                         "} # for evaluation: center_crop: [%" PRIu32 ", %" PRIu32 "]\n",
                    t->max_height, t->max_width, (longest + 7) / 8, t->max_height, t->max_width);
    else
        hr_buf_addf(out, "      - random_resized_crop: {size: %" PRIu32 "} # for evaluation: resize: %" PRIu32
                         ", then center_crop: %" PRIu32 "\n", side, side * 8 / 7, side);
    hr_buf_add_str(out, "      - hflip: {p: 0.5}\n"
                        "      - normalize: {mean: [0.485, 0.456, 0.406], std: [0.229, 0.224, 0.225]}\n"
                        "    output: {dtype: f16, layout: nchw} # dtype: u8 (without normalize) | f16 | bf16 | "
                        "f32; layout: nchw | nhwc\n");
}

static void add_video(struct hr_buf *out, const struct field *f)
{
    const struct hr_field_totals *t = &f->totals;

    hr_buf_addf(out, "    clip: {frames: 16, stride: %d} # start: random | center | begin | uniform\n",
                t->max_frames && t->max_frames < 64 ? 1 : 4);
    hr_buf_addf(out, "    ops:\n      - random_resized_crop: {size: %d} # one draw for all frames of a clip\n"
                     "      - hflip: {p: 0.5}\n", t->max_width && t->max_width < USUAL_SIDE ? 112 : USUAL_SIDE);
    hr_buf_add_str(out, "    output: {dtype: u8, layout: nthwc} # layout: nthwc | ntchw | ncthw\n");
}

/* A usual length that most recordings reach. */
static double clip_seconds(const struct hr_field_totals *t)
{
    static const double usual[] = {30, 20, 15, 10, 8, 5, 4, 3, 2, 1, 0.5};
    double mean = mean_seconds(t);

    for (size_t i = 0; i < HR_ARRAY_SIZE(usual); i++)
        if (mean >= usual[i])
            return usual[i];
    return 1;
}

static void add_audio(struct hr_buf *out, const struct field *f)
{
    uint32_t rate = f->totals.max_sample_rate;

    hr_buf_addf(out, "    clip: {seconds: %g} # start: random | center | begin; without a clip: output: {ragged: "
                     "true}\n", clip_seconds(&f->totals));
    hr_buf_addf(out, "    ops:\n      - downmix: mono\n      - resample: %" PRIu32 "\n",
                rate >= 100 && rate < USUAL_RATE ? rate : USUAL_RATE);
    hr_buf_add_str(out, "    output: {dtype: f32} # i16 | f16 | bf16 | f32\n");
}

static void add_text(struct hr_buf *out, const struct field *f)
{
    hr_buf_addf(out, "    #max_bytes: 512 # longer ones are cut at a character; the longest has %" PRIu64 "\n",
                f->totals.max_bytes);
}

static void add_array(struct hr_buf *out, const struct field *f)
{
    if (f->totals.uniform_shape)
        hr_buf_add_str(out, "    # all of one shape: one array a batch\n");
    else
        hr_buf_add_str(out, "    # of different shapes: values and offsets\n");
    const struct hr_facts *first = &f->totals.first;
    uint64_t last = first->dims >= 2 ? first->shape[first->dims - 1] : 0;
    if (!f->picture || f->schema->type != HR_FIELD_TENSOR || last < 2 || last > 4)
        return;
    hr_buf_addf(out, "    # where they are %s in the picture, they can follow it: {follow: %s, as: %s}\n",
                last == 4 ? "boxes" : "points", f->picture,
                last == 4 ? "boxes, format: xyxy | xywh | cxcywh" : "keypoints");
}

static void add_field(struct hr_buf *out, const struct field *f, uint64_t records)
{
    if (f->totals.present == 0) {
        hr_buf_addf(out, "  # %s (%s): no record has it\n", f->schema->name,
                    hr_field_type_name(f->schema->type));
        return;
    }
    comment_field(out, f, records);
    hr_buf_addf(out, "  %s:\n", f->schema->name);
    switch (f->schema->type) {
    case HR_FIELD_IMAGE:
        (f->picture && is_mask_name(f->schema->name) ? add_mask : add_image)(out, f);
        break;
    case HR_FIELD_VIDEO:
        add_video(out, f);
        break;
    case HR_FIELD_AUDIO:
        add_audio(out, f);
        break;
    case HR_FIELD_TEXT:
    case HR_FIELD_JSON:
    case HR_FIELD_BYTES:
        add_text(out, f);
        break;
    case HR_FIELD_TOKENS:
    case HR_FIELD_TENSOR:
        add_array(out, f);
        break;
    default:
        break;
    }
}

/* Names come from folders and files: whatever could end a comment is left out. */
static void add_plain(struct hr_buf *out, const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text >= 0x20 && *text != 0x7f)
            hr_buf_add(out, text, 1);
}

static void comment_classes(struct hr_buf *out, const struct hr_schema *schema)
{
    if (schema->class_field < 0 || schema->class_count == 0)
        return;
    hr_buf_addf(out, "  # %s is one of %" PRIu32 " class%s:", schema->fields[schema->class_field].name,
                schema->class_count, schema->class_count == 1 ? "" : "es");
    for (uint32_t i = 0; i < schema->class_count && i < NAMED_CLASSES; i++) {
        hr_buf_addf(out, "%s %" PRIu32 " = ", i ? "," : "", i);
        add_plain(out, schema->classes[i]);
    }
    hr_buf_add_str(out, schema->class_count > NAMED_CLASSES ? " ...\n" : "\n");
}

/* A JSON string is a YAML one. */
static void add_quoted(struct hr_buf *out, const char *text)
{
    struct hr_buf quoted = {0};

    hr_json_str(&quoted, NULL, text);
    hr_buf_add(out, hr_buf_str(&quoted), quoted.used);
    out->failed |= quoted.failed;
    hr_buf_finish(&quoted);
}

/* A clip takes as much memory as many pictures. */
static uint64_t usual_batch(const struct hr_dataset *dataset)
{
    const struct hr_schema *schema = hr_dataset_schema(dataset);
    uint64_t batch = USUAL_BATCH;

    for (uint32_t i = 0; i < schema->field_count; i++) {
        struct hr_field_totals totals;
        hr_dataset_totals(dataset, i, &totals);
        if (schema->fields[i].type == HR_FIELD_VIDEO && totals.present)
            batch = VIDEO_BATCH;
    }
    /* What does not fill a batch is left out: of a small dataset that would be much of it. */
    while (batch > 1 && batch * USUAL_STEPS > hr_dataset_record_count(dataset))
        batch /= 2;
    return batch;
}

static void add_head(struct hr_buf *out, const struct hr_dataset *dataset, const char *path)
{
    struct hr_digest digest = hr_dataset_digest(dataset);
    char count[32], bytes[32], hex[HR_DIGEST_HEX_BYTES];

    hr_buf_addf(out, "# Headrace pipeline for a dataset of %s records, %s, digest %s.\n",
                hr_cli_format_count(hr_dataset_record_count(dataset), count),
                hr_cli_format_bytes(hr_dataset_bytes(dataset), bytes),
                hr_digest_hex(&digest, hex));
    hr_buf_add_str(out, "# Keys that are commented out stand at their defaults. docs/pipeline-file.md explains "
                        "all of them,\n# 'headrace check' shows what this file gives.\n\ndataset: ");
    add_quoted(out, path);
    hr_buf_addf(out, " # a relative path starts at this file's folder\nseed: 1\n"
                     "batch: %" PRIu64 " # the global batch: all ranks together; their number must divide it\n",
                usual_batch(dataset));
    hr_buf_add_str(out,
                   "#order: full # full | window | none; window: {block: 1024, open: 16} for slow storage\n"
                   "#last: drop # an epoch's last records when a batch does not fill: drop | pad | wrap | keep\n"
                   "#epochs: 0 # 0 = without end\n"
                   "#bad_records: substitute # substitute | mask | fail\n"
                   "#bad_budget: 0.001 # share of records (16 at least) that may be bad before the run stops\n"
                   "#bad_consecutive: 100\n"
                   "#slots: 4 # batches that can be ready or held at once\n"
                   "#workers: auto\n"
                   "#reader: auto # auto | uring | preadv | nil\n"
                   "#io: auto # auto | cached | direct\n"
                   "#read_ahead_bytes: auto\n"
                   "#storage_deadline_s: 60\n\n"
                   "# Fields that are not listed are not read.\nfields:\n");
}

static void add_fields(struct hr_buf *out, const struct hr_dataset *dataset)
{
    const struct hr_schema *schema = hr_dataset_schema(dataset);

    for (uint32_t i = 0; i < schema->field_count; i++) {
        struct field f = {.schema = &schema->fields[i], .picture = find_picture(dataset)};
        hr_dataset_totals(dataset, i, &f.totals);
        hr_cli_format_bytes(f.totals.bytes, f.bytes);
        hr_cli_format_count(f.totals.present, f.count);
        if (schema->class_field == (int)i)
            comment_classes(out, schema);
        add_field(out, &f, hr_dataset_record_count(dataset));
    }
}

/* Where there are pictures of classes. */
static void add_blend(struct hr_buf *out, const struct hr_dataset *dataset)
{
    const struct hr_schema *schema = hr_dataset_schema(dataset);
    const char *picture = find_picture(dataset);

    if (schema->class_field < 0 || schema->class_count == 0 || !picture)
        return;
    hr_buf_addf(out, "\n# Pictures of a batch mixed with one another; labels become rows of class weights.\n"
                     "#blend: {images: %s, labels: %s, mixup: 0.2, cutmix: 1} # numbers: alpha; mode: pair | batch | "
                     "elem | roll\n", picture, schema->fields[schema->class_field].name);
}

/* What is printed must parse; a name that breaks it is found here and not by the user. */
static int check(const struct hr_buf *out, struct hr_error *err)
{
    struct hr_conf conf;

    if (hr_buf_failed(out))
        return hr_fail(err, HR_E_NOMEM, "out of memory");
    int ret = hr_conf_parse(hr_buf_str(out), out->used, "<init>", &conf, err);
    if (ret == 0)
        hr_conf_finish(&conf);
    return ret;
}

int hr_tool_init(int argc, char **argv)
{
    struct hr_error err = HR_ERROR_INIT;
    struct hr_dataset *dataset;
    struct hr_buf out = {0};
    struct options o;

    int code = hr_cli_parse(&hr_command_init, argc, argv, &o, sizeof(o));
    if (code != HR_CLI_RUN)
        return code;
    const char *path = o.cli.args[0];
    if (hr_utf8_valid_prefix(path, strlen(path)) != strlen(path))
        return hr_cli_wrong(&hr_command_init, "the dataset's path is not UTF-8 and cannot stand in a YAML file");
    if (hr_dataset_open(path, NULL, &dataset, &err) < 0)
        return hr_cli_unopened("init", &err);
    add_head(&out, dataset, path);
    add_fields(&out, dataset);
    add_blend(&out, dataset);
    hr_dataset_close(dataset);
    if (check(&out, &err) == 0)
        return hr_cli_print(&out);
    hr_buf_finish(&out);
    return hr_cli_failed("init", &err);
}
