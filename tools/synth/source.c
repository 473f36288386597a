/* Record i of a made-up dataset. */
#include "tools/synth/source.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "tools/synth/synth.h"

enum { FPS = 24, CLIP_WIDTH = 320, CLIP_HEIGHT = 240, MAX_SIDE = 2048, MIN_SIDE = 32 };

/* Index of the field in the schema, -1 = the kind has none. */
struct fields {
    int image, video, audio, text, label;
};

struct synth {
    struct hr_source base;
    struct hr_synth_spec spec;
    struct fields fields;
};

static void synth_close(struct hr_source *source)
{
    hr_free(source);
}

static struct hr_rng stream(const struct synth *synth, uint64_t i, enum hr_synth_stream which)
{
    struct hr_rng rng;

    hr_rng_init(&rng, synth->spec.seed, 0, i, which);
    return rng;
}

/* Moves what was made into the record and gives it to the field; empties buf. */
static int give(const struct synth *synth, struct hr_pack_record *record, int field,
                struct hr_buf *buf, const char *name, struct hr_error *err)
{
    void *room = hr_buf_failed(buf) ? NULL : hr_pack_record_room(record, buf->used, err);
    int ret;

    if (room && buf->used)
        memcpy(room, buf->data, buf->used);
    if (room)
        ret = hr_pack_record_set(&synth->base.intake, record, (uint32_t)field, room, buf->used, name,
                                 false, err);
    else
        ret = hr_fail(err, HR_E_NOMEM, "out of memory");
    hr_buf_finish(buf);
    return ret;
}

/* About 400 x 300, one in four upright. */
static void picture_size(const struct synth *synth, uint64_t i, int *w, int *h)
{
    struct hr_rng rng = stream(synth, i, HR_SYNTH_SIZE);
    double side = hr_synth_log_normal(&rng, 400, 0.25, MIN_SIDE, MAX_SIDE);
    double shape = hr_rng_range(&rng, 0.66, 0.84);
    bool upright = hr_rng_below(&rng, 4) == 0;

    *w = (int)(upright ? side * shape : side);
    *h = (int)(upright ? side : side * shape);
    if (synth->spec.width)
        *w = synth->spec.width;
    if (synth->spec.height)
        *h = synth->spec.height;
}

static int make_image(const struct synth *synth, uint64_t i, const struct hr_synth_scene *scene,
                      struct hr_pack_record *record, struct hr_error *err)
{
    struct hr_buf jpeg = {0};
    int w, h;

    picture_size(synth, i, &w, &h);
    uint8_t *rgb = hr_alloc((size_t)w * (size_t)h * 3);
    if (!rgb)
        return hr_fail(err, HR_E_NOMEM, "out of memory");
    hr_synth_render_ground(scene, w, h, rgb);
    hr_synth_render_things(scene, w, h, 0, rgb);
    int ret = hr_synth_jpeg(rgb, w, h, &jpeg, err);
    hr_free(rgb);
    if (ret == 0)
        return give(synth, record, synth->fields.image, &jpeg, "made-up.jpg", err);
    hr_buf_finish(&jpeg);
    return ret;
}

static int make_clip(const struct synth *synth, uint64_t i, const struct hr_synth_scene *scene,
                     struct hr_pack_record *record, struct hr_error *err)
{
    struct hr_rng rng = stream(synth, i, HR_SYNTH_MOVE);
    double median = synth->spec.seconds > 0 ? synth->spec.seconds : 3;
    double seconds = hr_synth_log_normal(&rng, median, 0.4, 0.5, median * 4);
    bool sized = synth->spec.kind == HR_SYNTH_VIDEO && synth->spec.width && synth->spec.height;
    /* 4:2:0 wants even sides. */
    int w = sized ? synth->spec.width & ~1 : CLIP_WIDTH;
    int h = sized ? synth->spec.height & ~1 : CLIP_HEIGHT;
    struct hr_buf clip = {0};

    int ret = hr_synth_clip(scene, w, h, (int)(seconds * FPS), FPS, &clip, err);
    if (ret == 0)
        return give(synth, record, synth->fields.video, &clip, "made-up.mp4", err);
    hr_buf_finish(&clip);
    return ret;
}

static int make_speech(const struct synth *synth, uint64_t i, struct hr_pack_record *record,
                       struct hr_error *err)
{
    struct hr_rng rng = stream(synth, i, HR_SYNTH_VOICE);
    double median = synth->spec.seconds > 0 ? synth->spec.seconds : 4;
    double seconds = hr_synth_log_normal(&rng, median, 0.5, 0.3, median * 8);
    struct hr_buf wav = {0}, text = {0};

    int ret = hr_synth_speech(&rng, seconds, &wav, &text, err);
    if (ret == 0)
        ret = give(synth, record, synth->fields.audio, &wav, "made-up.wav", err);
    if (ret == 0 && synth->spec.kind == HR_SYNTH_SPEECH)
        ret = give(synth, record, synth->fields.text, &text, "made-up.txt", err);
    hr_buf_finish(&wav);
    hr_buf_finish(&text);
    return ret;
}

static int make_text(const struct synth *synth, uint64_t i, const struct hr_synth_scene *scene,
                     struct hr_pack_record *record, struct hr_error *err)
{
    struct hr_rng rng = stream(synth, i, HR_SYNTH_WORDS);
    struct hr_buf text = {0};

    if (synth->spec.kind == HR_SYNTH_TEXT)
        hr_synth_words(&rng, (size_t)hr_synth_log_normal(&rng, 200, 0.7, 10, 20000), &text);
    else
        hr_synth_caption(&rng, scene, &text);
    return give(synth, record, synth->fields.text, &text, "made-up.txt", err);
}

static int synth_load(const struct hr_source *source, uint64_t i, struct hr_pack_record *record,
                      struct hr_error *err)
{
    const struct synth *synth = (const struct synth *)source;
    const struct fields *f = &synth->fields;
    struct hr_rng rng = stream(synth, i, HR_SYNTH_SCENE);
    struct hr_synth_scene scene;
    int ret = 0;

    snprintf(record->key, sizeof(record->key), "%08" PRIu64, i);
    hr_synth_scene_draw(&rng, &scene);
    if (f->image >= 0)
        ret = make_image(synth, i, &scene, record, err);
    if (ret == 0 && f->video >= 0)
        ret = make_clip(synth, i, &scene, record, err);
    if (ret == 0 && f->audio >= 0)
        ret = make_speech(synth, i, record, err);
    if (ret == 0 && f->text >= 0 && synth->spec.kind != HR_SYNTH_SPEECH)
        ret = make_text(synth, i, &scene, record, err);
    if (f->label >= 0)
        hr_pack_record_set_i64(record, (uint32_t)f->label, scene.things[0].shape);
    return ret;
}

static uint64_t synth_size_hint(const struct hr_source *source, uint64_t i)
{
    (void)source;
    (void)i;
    return 64 << 10;
}

static const struct hr_source_kind kind = {
    .name = "synth",
    .what = "made up",
    .load = synth_load,
    .size_hint = synth_size_hint,
    .close = synth_close,
};

static int add_classes(struct hr_schema *schema, int field, struct hr_error *err)
{
    schema->class_field = field;
    schema->classes = hr_alloc_zero(HR_SYNTH_SHAPES, sizeof(*schema->classes));
    for (int i = 0; schema->classes && i < HR_SYNTH_SHAPES; i++) {
        schema->classes[i] = hr_strdup(hr_synth_shape_names[i]);
        if (!schema->classes[i])
            return hr_fail(err, HR_E_NOMEM, "out of memory");
        schema->class_count++;
    }
    return schema->classes ? 0 : hr_fail(err, HR_E_NOMEM, "out of memory");
}

static int add_field(struct synth *synth, bool wanted, const char *name, enum hr_field_type type,
                     int *field, struct hr_error *err)
{
    *field = wanted ? hr_source_field(&synth->base.schema, name, type, err) : -1;
    return wanted && *field < 0 ? *field : 0;
}

static int add_fields(struct synth *synth, struct hr_error *err)
{
    static const unsigned has_image = 1 << HR_SYNTH_IMAGES | 1 << HR_SYNTH_CAPTIONS | 1 << HR_SYNTH_MIXED;
    static const unsigned has_video = 1 << HR_SYNTH_VIDEO | 1 << HR_SYNTH_MIXED;
    static const unsigned has_audio = 1 << HR_SYNTH_SPEECH | 1 << HR_SYNTH_MIXED;
    static const unsigned has_text =
        1 << HR_SYNTH_CAPTIONS | 1 << HR_SYNTH_TEXT | 1 << HR_SYNTH_SPEECH | 1 << HR_SYNTH_MIXED;
    static const unsigned has_label = 1 << HR_SYNTH_IMAGES | 1 << HR_SYNTH_VIDEO | 1 << HR_SYNTH_MIXED;
    unsigned k = synth->spec.kind;
    bool caption = k == HR_SYNTH_CAPTIONS || k == HR_SYNTH_MIXED;
    struct fields *f = &synth->fields;

    int ret = add_field(synth, has_image >> k & 1, "image", HR_FIELD_IMAGE, &f->image, err);
    if (ret == 0)
        ret = add_field(synth, has_video >> k & 1, "video", HR_FIELD_VIDEO, &f->video, err);
    if (ret == 0)
        ret = add_field(synth, has_audio >> k & 1, "audio", HR_FIELD_AUDIO, &f->audio, err);
    if (ret == 0)
        ret = add_field(synth, has_text >> k & 1, caption ? "caption" : "text", HR_FIELD_TEXT,
                        &f->text, err);
    if (ret == 0)
        ret = add_field(synth, has_label >> k & 1, "label", HR_FIELD_I64, &f->label, err);
    return ret == 0 && f->label >= 0 ? add_classes(&synth->base.schema, f->label, err) : ret;
}

int hr_synth_source_open(const struct hr_synth_spec *spec, struct hr_source **out,
                         struct hr_error *err)
{
    struct hr_listing listing;
    struct synth *synth = hr_alloc_zero(1, sizeof(*synth));

    if (!synth)
        return hr_fail(err, HR_E_NOMEM, "out of memory");
    synth->base.kind = &kind;
    synth->base.schema.class_field = -1;
    synth->base.record_count = spec->record_count;
    synth->spec = *spec;
    int ret = hr_listing_init(&listing, err);
    if (ret == 0) {
        hr_listing_add(&listing, "", spec->record_count, (int64_t)spec->seed);
        hr_listing_finish(&listing, &synth->base);
        ret = add_fields(synth, err);
    }
    if (ret < 0) {
        hr_source_close(&synth->base);
        return ret;
    }
    synth->base.intake.schema = &synth->base.schema;
    *out = &synth->base;
    return 0;
}
