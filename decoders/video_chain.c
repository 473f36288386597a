/* Video fields: a clip of frames, one draw of the image ops for all of them. The stream is decoded in
 * order up to the last wanted frame, and the wanted ones are picked by their place in the
 * presentation: what comes out never depends on where a keyframe lies. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "decoders/av_index.h"
#include "decoders/av_measure.h"
#include "decoders/av_source.h"
#include "decoders/clip.h"
#include "decoders/decoder.h"
#include "decoders/frame_rgb.h"
#include "decoders/ops/picture.h"
#include "decoders/output.h"
#include "decoders/sink.h"

/* Rounded timestamps, and 30000/1001 asked for as 30, must not show a frame twice: frames count as
 * shown this share of the average interval early. */
#define EARLY 0.1

struct video_chain {
    struct hr_chain head;
    struct hr_op_chain ops;
    struct hr_image_target target; /* dst unset */
    enum hr_layout layout;
    enum hr_clip_start start;
    enum hr_past_end past_end;
    uint32_t frames, stride; /* of the clip; stride 0: by time, or uniform */
    double fps;              /* 0: by index */
};

struct video_context {
    struct hr_context head;
    struct hr_av_source av;
    struct hr_av_index index;
    AVFrame *held; /* by time: shown until the next one's time */
    struct hr_frame_rgb rgb;
    struct hr_picture *picture;
    uint32_t *places; /* in the presentation, of each frame of the clip */
};

/* ---- init ---- */

static int fail_at_call(const struct hr_call *call, const char *text, struct hr_error *err)
{
    hr_fail(err, HR_E_CONFIG, "%s", text);
    hr_error_at_file(err, call->file, call->line, call->column);
    return HR_E_CONFIG;
}

static int set_clip(struct video_chain *chain, const struct hr_chain_spec *spec,
                    const struct hr_clip *clip, struct hr_error *err)
{
    bool uniform = clip->start == HR_START_UNIFORM;

    if (!clip->given) {
        hr_fail(err, HR_E_CONFIG, "a video field needs a clip");
        hr_error_hint(err, "add 'clip: {frames: 16, stride: 4}' or 'clip: {seconds: 2, fps: 8}'");
        return HR_E_CONFIG;
    }
    if ((clip->frames > 0) == (clip->seconds > 0))
        return fail_at_call(spec->clip, "a video clip needs either 'frames' or 'seconds'", err);
    if (clip->seconds > 0 && clip->fps <= 0)
        return fail_at_call(spec->clip, "a clip in seconds needs 'fps'", err);
    if (clip->stride && clip->fps > 0)
        return fail_at_call(spec->clip, "a clip takes 'stride' or 'fps', not both", err);
    if (uniform && (clip->stride || clip->fps > 0))
        return fail_at_call(spec->clip, "'start: uniform' spreads the frames over the whole video: "
                                        "it takes no 'stride' or 'fps'", err);
    if (clip->past_end == HR_PAST_MASK) {
        hr_fail(err, HR_E_CONFIG, "'past_end: mask' is not supported yet");
        hr_error_hint(err, "take repeat_last, loop or reject");
        return HR_E_CONFIG;
    }
    double frames = clip->frames ? (double)clip->frames : round(clip->seconds * clip->fps);
    if (frames < 1 || frames > 65536)
        return fail_at_call(spec->clip, "a clip has 1 to 65536 frames", err);
    chain->frames = (uint32_t)frames;
    chain->fps = clip->fps;
    chain->stride = uniform || clip->fps > 0 ? 0 : clip->stride ? (uint32_t)clip->stride : 1;
    chain->start = clip->start;
    chain->past_end = clip->past_end;
    return 0;
}

static int set_target(struct video_chain *chain, const struct hr_clip *clip,
                      const struct hr_output *output, struct hr_error *err)
{
    enum hr_channels channels = output->channels;

    if (clip->channels) {
        channels = hr_channels_parse(clip->channels, HR_FIELD_VIDEO);
        if (channels == HR_CHANNELS_DEFAULT)
            return hr_fail(err, HR_E_CONFIG, "'channels' is '%s'; known: rgb, gray", clip->channels);
    }
    chain->layout = output->layout ? output->layout : HR_LAYOUT_NTHWC;
    chain->target.channels = channels == HR_CHANNELS_GRAY ? 1 : 3;
    chain->target.dtype = output->dtype ? output->dtype : HR_DTYPE_U8;
    chain->target.planar = chain->layout != HR_LAYOUT_NTHWC;
    if (chain->ops.normalize && chain->target.dtype == HR_DTYPE_U8) {
        hr_fail(err, HR_E_CONFIG, "'normalize' makes fractions, the output is u8");
        hr_error_hint(err, "output: {dtype: f16} (or bf16, f32), or leave normalize out");
        return HR_E_CONFIG;
    }
    if (!output->ragged && !(chain->ops.shape.w && chain->ops.shape.h)) {
        hr_fail(err, HR_E_CONFIG, "the ops leave pictures of different sizes");
        hr_error_hint(err, "end with random_resized_crop, center_crop, random_crop or resize: "
                           "[H, W], or say output: {ragged: true}");
        return HR_E_CONFIG;
    }
    return hr_op_chain_scale(&chain->ops, chain->target.channels, chain->target.scale,
                             chain->target.bias, err);
}

/* The axes of one sample in the layout's order. */
static void set_shape(const struct video_chain *chain, uint64_t w, uint64_t h, uint64_t shape[4])
{
    uint64_t t = chain->frames, c = chain->target.channels;

    if (chain->layout == HR_LAYOUT_NTHWC)
        memcpy(shape, (uint64_t[4]){t, h, w, c}, sizeof(uint64_t[4]));
    else if (chain->layout == HR_LAYOUT_NTCHW)
        memcpy(shape, (uint64_t[4]){t, c, h, w}, sizeof(uint64_t[4]));
    else
        memcpy(shape, (uint64_t[4]){c, t, h, w}, sizeof(uint64_t[4]));
}

static uint64_t clip_bytes(const struct video_chain *chain, uint64_t pixels)
{
    return pixels * chain->frames * chain->target.channels * hr_dtype_bytes(chain->target.dtype);
}

static void set_outputs(struct video_chain *chain, bool ragged)
{
    const struct hr_op_shape *shape = &chain->ops.shape;
    uint64_t w = shape->w, h = shape->h;
    uint64_t pixels = w && h ? w * h : shape->max_pixels;

    if (!pixels || pixels > HR_IMAGE_MAX_PIXELS)
        pixels = HR_IMAGE_MAX_PIXELS;
    chain->head.output_count = 2;
    chain->head.outputs[0] = (struct hr_chain_output){
        .dtype = chain->target.dtype, .layout = chain->layout, .dims = 4, .ragged = ragged,
        .max_bytes = clip_bytes(chain, pixels)};
    set_shape(chain, ragged ? 0 : w, ragged ? 0 : h, chain->head.outputs[0].shape);
    chain->head.outputs[1] = (struct hr_chain_output){
        .suffix = ".pts", .dtype = HR_DTYPE_F64, .dims = 1, .shape = {chain->frames},
        .max_bytes = chain->frames * sizeof(double)};
}

static void describe(const struct hr_chain *head, struct hr_buf *text)
{
    const struct video_chain *chain = HR_CONTAINER_OF(head, struct video_chain, head);

    hr_buf_addf(text, "video clip{frames: %u", chain->frames);
    if (chain->fps > 0)
        hr_buf_addf(text, ", fps: %.17g", chain->fps);
    else if (chain->stride)
        hr_buf_addf(text, ", stride: %u", chain->stride);
    hr_buf_addf(text, ", start: %s, past_end: %s} ops[", hr_start_name(chain->start),
                hr_past_end_name(chain->past_end));
    hr_op_chain_describe(&chain->ops, text);
    hr_buf_addf(text, "] channels=%u output{%s %s%s}", chain->target.channels, hr_dtype_name(chain->target.dtype),
                hr_layout_name(chain->layout), head->outputs[0].ragged ? " ragged" : "");
}

static int init(struct hr_chain *head, const struct hr_chain_spec *spec, struct hr_error *err)
{
    struct video_chain *chain = HR_CONTAINER_OF(head, struct video_chain, head);
    /* Rotation may swap the axes, so each bound is the larger of the two. */
    uint32_t side = spec->max_width > spec->max_height ? spec->max_width : spec->max_height;
    struct hr_op_shape shape = {
        .max_w = side, .max_h = side, .max_pixels = (uint64_t)spec->max_width * spec->max_height};
    struct hr_output output;
    struct hr_clip clip;
    int ret = hr_output_read(spec->output, HR_FIELD_VIDEO, &output, err);

    if (ret == 0)
        ret = hr_av_load(err);
    if (ret == 0)
        ret = hr_clip_read(spec, &clip, err);
    if (ret == 0)
        ret = set_clip(chain, spec, &clip, err);
    if (ret == 0)
        ret = hr_op_chain_init(&chain->ops, spec->ops, spec->op_count, &shape, err);
    if (ret == 0)
        ret = set_target(chain, &clip, &output, err);
    if (ret == 0)
        set_outputs(chain, output.ragged);
    return ret;
}

/* ---- plan ---- */

static int too_short(const struct hr_facts *facts, struct hr_error *err)
{
    return hr_fail(err, HR_E_LIMIT, "the clip is longer than the video (%u frames, %.3f s)",
                   facts->frames, (double)facts->duration_ns / 1e9);
}

static int plan_by_index(const struct video_chain *chain, struct hr_rng *rng,
                         const struct hr_facts *facts, struct hr_video_plan *plan,
                         struct hr_error *err)
{
    uint64_t have = facts->frames, span = (uint64_t)(chain->frames - 1) * chain->stride + 1;

    if (chain->start == HR_START_UNIFORM) /* more frames than there are: some show twice */
        return chain->past_end == HR_PAST_REJECT && have < chain->frames ? too_short(facts, err) : 0;
    if (span > have) {
        if (chain->past_end == HR_PAST_REJECT)
            return too_short(facts, err);
        if (chain->past_end == HR_PAST_LOOP && chain->start == HR_START_RANDOM)
            plan->first_frame = (uint32_t)hr_rng_below(rng, have);
        return 0;
    }
    if (chain->start == HR_START_RANDOM)
        plan->first_frame = (uint32_t)hr_rng_below(rng, have - span + 1);
    else if (chain->start == HR_START_CENTER)
        plan->first_frame = (uint32_t)((have - span) / 2);
    return 0;
}

static int plan_by_time(const struct video_chain *chain, struct hr_rng *rng,
                        const struct hr_facts *facts, struct hr_video_plan *plan,
                        struct hr_error *err)
{
    double have = (double)facts->duration_ns / 1e9, room = have - chain->frames / chain->fps;

    if (have <= 0)
        return hr_fail(err, HR_E_FORMAT, "the video's duration is not known");
    if ((chain->frames - 1) / chain->fps >= have) {
        if (chain->past_end == HR_PAST_REJECT)
            return too_short(facts, err);
        if (chain->past_end == HR_PAST_LOOP && chain->start == HR_START_RANDOM)
            plan->start_s = hr_rng_range(rng, 0, have);
    } else if (room > 0) {
        if (chain->start == HR_START_RANDOM)
            plan->start_s = hr_rng_range(rng, 0, room);
        else if (chain->start == HR_START_CENTER)
            plan->start_s = room / 2;
    }
    return 0;
}

static uint8_t exif_of_rotation(uint32_t degrees)
{
    return degrees == 90 ? 6 : degrees == 180 ? 3 : degrees == 270 ? 8 : 1;
}

static int plan_picture(const struct video_chain *chain, const struct hr_draw_key *key,
                        struct hr_sample_plan *plan, struct hr_error *err)
{
    const struct hr_facts *facts = &plan->facts;
    struct hr_image_plan *image = &plan->video.image;

    image->orientation = exif_of_rotation(facts->orientation);
    bool turned = image->orientation >= 5;
    int ret = hr_op_chain_plan(&chain->ops, key, turned ? facts->height : facts->width,
                               turned ? facts->width : facts->height, image, err);
    if (ret < 0)
        return ret;
    set_shape(chain, (uint64_t)image->end_w, (uint64_t)image->end_h, plan->shape[0]);
    plan->bytes[0] = clip_bytes(chain, (uint64_t)image->end_w * (uint64_t)image->end_h);
    plan->shape[1][0] = chain->frames;
    plan->bytes[1] = chain->frames * sizeof(double);
    if (plan->bytes[0] > chain->head.outputs[0].max_bytes)
        return hr_fail(err, HR_E_LIMIT, "%d x %d pixels are more than the field's samples may have",
                       image->end_w, image->end_h);
    return 0;
}

static int plan_sample(const struct hr_chain *head, const struct hr_draw_key *key,
                       uint64_t value_bytes, struct hr_sample_plan *plan, struct hr_error *err)
{
    const struct video_chain *chain = HR_CONTAINER_OF(head, struct video_chain, head);
    struct hr_rng rng;
    int ret = hr_image_check_size(plan->facts.width, plan->facts.height, err);

    if (ret < 0)
        return ret;
    if (plan->facts.frames == 0)
        return hr_fail(err, HR_E_FORMAT, "the record's facts hold no frames");
    plan->video.frames = chain->frames;
    plan->video.stride = chain->stride;
    plan->video.fps = chain->fps;
    plan->video.past_end = (uint8_t)chain->past_end;
    hr_clip_rng(key, &rng);
    if (chain->fps > 0)
        ret = plan_by_time(chain, &rng, &plan->facts, &plan->video, err);
    else
        ret = plan_by_index(chain, &rng, &plan->facts, &plan->video, err);
    return ret < 0 ? ret : plan_picture(chain, key, plan, err);
}

/* ---- context ---- */

static void context_finish(struct hr_context *head)
{
    struct video_context *context = HR_CONTAINER_OF(head, struct video_context, head);

    hr_av_source_finish(&context->av);
    hr_av_index_finish(&context->index);
    hr_av.av_frame_free(&context->held);
    hr_frame_rgb_finish(&context->rgb);
    hr_picture_destroy(context->picture);
    hr_free(context->places);
}

static int context_init(const struct hr_chain *head, struct hr_context *context_head)
{
    const struct video_chain *chain = HR_CONTAINER_OF(head, struct video_chain, head);
    struct video_context *context = HR_CONTAINER_OF(context_head, struct video_context, head);

    context->held = hr_av.av_frame_alloc();
    context->places = hr_alloc_zero(chain->frames, sizeof(uint32_t));
    return context->held && context->places ? hr_picture_create(&context->picture) : HR_E_NOMEM;
}

/* ---- decode ---- */

/* One clip being decoded. */
struct job {
    const struct video_chain *chain;
    struct video_context *context;
    const struct hr_sample_plan *plan;
    uint8_t *dst;
    uint8_t *pts; /* doubles, at any alignment */
    uint32_t given; /* frames of the clip that are written */
    struct hr_error *err;
};

/* Where frame k of the clip begins in dst, in elements. */
static uint64_t frame_at(const struct job *job, uint32_t k)
{
    const struct hr_image_plan *image = &job->plan->video.image;
    uint64_t pixels = (uint64_t)image->end_w * (uint64_t)image->end_h;

    return job->chain->layout == HR_LAYOUT_NCTHW ? k * pixels
                                                 : k * pixels * job->chain->target.channels;
}

static int check_size(const struct job *job, const AVFrame *frame)
{
    const struct hr_facts *facts = &job->plan->facts;

    if ((uint32_t)frame->width == facts->width && (uint32_t)frame->height == facts->height)
        return 0;
    return hr_fail(job->err, HR_E_FORMAT, "a frame is %dx%d, the video %ux%u", frame->width,
                   frame->height, facts->width, facts->height);
}

static int write_frame(struct job *job, const AVFrame *frame, uint32_t k)
{
    const struct hr_image_plan *image = &job->plan->video.image;
    struct video_context *context = job->context;
    struct hr_image_target target = job->chain->target;
    struct hr_image_region region;

    target.dst = job->dst + frame_at(job, k) * hr_dtype_bytes(target.dtype);
    if (target.planar) {
        target.row_stride = (uint64_t)image->end_w;
        target.plane_stride = (uint64_t)image->end_w * (uint64_t)image->end_h;
        if (job->chain->layout == HR_LAYOUT_NCTHW)
            target.plane_stride *= job->chain->frames;
    }
    int ret = hr_picture_begin(context->picture, &job->chain->ops, image, &target,
                               job->plan->facts.width, job->plan->facts.height, 1, &region, job->err);
    struct hr_frame_box box = {region.x, region.y, region.w, region.h, target.channels};
    if (ret == 0 && region.w)
        ret = hr_frame_rgb_convert(&context->rgb, frame, &box, job->err);
    if (ret < 0)
        return ret;
    for (uint32_t y = region.y; y < region.y + region.h; y++)
        if (!hr_picture_push(context->picture, hr_frame_rgb_row(&context->rgb, &box, y)))
            break;
    ret = hr_picture_end(context->picture, job->err);
    return ret > 0 ? hr_fail(job->err, HR_E_INTERNAL, "a frame gave too few rows") : ret;
}

/* A frame that shows more than once is converted once. */
static void repeat_frame(struct job *job, uint32_t from, uint32_t k)
{
    const struct hr_image_target *t = &job->chain->target;
    const struct hr_image_plan *image = &job->plan->video.image;
    size_t item = hr_dtype_bytes(t->dtype);
    size_t plane = (size_t)image->end_w * (size_t)image->end_h * item;
    bool apart = job->chain->layout == HR_LAYOUT_NCTHW;
    size_t step = apart ? plane * job->chain->frames : 0;

    for (uint32_t c = 0; c < (apart ? t->channels : 1); c++)
        memcpy(job->dst + frame_at(job, k) * item + c * step,
               job->dst + frame_at(job, from) * item + c * step,
               apart ? plane : plane * t->channels);
}

/* Writes the frame wherever the clip wants it: wanted says of each place whether it does. */
static int give(struct job *job, const AVFrame *frame, double t,
                bool (*wanted)(const struct job *, uint32_t k, const void *arg), const void *arg)
{
    uint32_t first = UINT32_MAX;

    for (uint32_t k = 0; k < job->chain->frames; k++) {
        if (!wanted(job, k, arg))
            continue;
        int ret = 0;
        if (first == UINT32_MAX) {
            first = k;
            ret = check_size(job, frame);
            if (ret == 0)
                ret = write_frame(job, frame, k);
        } else {
            repeat_frame(job, first, k);
        }
        if (ret < 0)
            return ret;
        memcpy(job->pts + k * sizeof(t), &t, sizeof(t));
        job->given++;
    }
    return 0;
}

/* Index in the presentation of frame k of the clip. */
static uint64_t index_of(const struct job *job, uint32_t k)
{
    uint64_t have = job->plan->facts.frames;

    if (job->plan->video.stride == 0) /* the middle of the k-th of equal parts */
        return ((2 * (uint64_t)k + 1) * have) / (2 * (uint64_t)job->chain->frames);
    uint64_t at = job->plan->video.first_frame + (uint64_t)k * job->plan->video.stride;
    if (job->plan->video.past_end == HR_PAST_LOOP)
        return at % have;
    return at < have ? at : have - 1;
}

static bool has_index(const struct job *job, uint32_t k, const void *index)
{
    return index_of(job, k) == *(const uint64_t *)index;
}

static int ended_early(const struct job *job, uint64_t frames)
{
    return hr_fail(job->err, HR_E_TRUNCATED, "the video ends after %" PRIu64 " frames of %u", frames,
                   job->plan->facts.frames);
}

static int decode_by_index(struct job *job)
{
    struct hr_av_source *av = &job->context->av;
    struct hr_frame_clock clock = {0};
    int ret;

    for (uint64_t i = 0; job->given < job->chain->frames; i++) {
        ret = hr_av_next(av, job->err);
        if (ret == 0)
            return ended_early(job, i);
        if (ret < 0)
            return ret;
        double t = hr_frame_time(&clock, av->frame, av->stream);
        ret = give(job, av->frame, t, has_index, &i);
        if (ret < 0)
            return ret;
    }
    return 0;
}

/* The span of time, from the first frame on, in which a frame is shown. */
struct span {
    double from, until;
};

static bool in_span(const struct job *job, uint32_t k, const void *arg)
{
    const struct hr_video_plan *plan = &job->plan->video;
    const struct span *span = arg;
    double have = (double)job->plan->facts.duration_ns / 1e9, t = plan->start_s + k / plan->fps;

    if (plan->past_end == HR_PAST_LOOP)
        t = fmod(t, have);
    return t >= span->from && t < span->until;
}

static int decode_by_time(struct job *job)
{
    const struct hr_facts *facts = &job->plan->facts;
    struct hr_av_source *av = &job->context->av;
    struct hr_frame_clock clock = {0};
    double early = facts->rate_num ? EARLY * facts->rate_den / facts->rate_num : 0, first = 0, t = 0;
    struct span span = {.from = -INFINITY};
    int ret = 0;

    for (uint64_t i = 0; job->given < job->chain->frames; i++) {
        ret = hr_av_next(av, job->err);
        if (ret < 0)
            return ret;
        if (ret == 0 && i < facts->frames)
            return ended_early(job, i);
        double next = ret ? hr_frame_time(&clock, av->frame, av->stream) : INFINITY;
        if (i > 0) {
            span.until = next - first - early;
            int gave = give(job, job->context->held, t, in_span, &span);
            if (gave < 0)
                return gave;
            span.from = span.until;
        } else {
            first = next;
        }
        if (ret == 0)
            break;
        t = next;
        hr_av.av_frame_unref(job->context->held);
        hr_av.av_frame_move_ref(job->context->held, av->frame);
    }
    return job->given == job->chain->frames ? 0 : ended_early(job, facts->frames);
}

static int decode_in_order(struct job *job)
{
    return job->plan->video.fps > 0 ? decode_by_time(job) : decode_by_index(job);
}

/* ---- decode from a keyframe, by packets read ahead ---- */

/* What decode_by_time would find, from the packets' times alone. */
static uint32_t place_at_time(const struct job *job, uint32_t k, double tick)
{
    const struct hr_av_index *index = &job->context->index;
    const struct hr_facts *facts = &job->plan->facts;
    double early = facts->rate_num ? EARLY * facts->rate_den / facts->rate_num : 0;
    double first = (double)index->shown[0].pts * tick;
    uint32_t low = 0, high = index->shown_count - 1;

    while (low < high) {
        uint32_t middle = low + (high - low + 1) / 2;
        struct span span = {.from = (double)index->shown[middle].pts * tick - first - early,
                            .until = INFINITY};
        if (in_span(job, k, &span))
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

static bool has_place(const struct job *job, uint32_t k, const void *place)
{
    return job->context->places[k] == *(const uint32_t *)place;
}

/* 1: done. 0: to be decoded in order, which is also the judge of everything unexpected. */
static int decode_from_keyframe(struct job *job)
{
    struct video_context *context = job->context;
    struct hr_av_source *av = &context->av;
    double tick = av_q2d(av->stream->time_base);
    int ret = hr_av_index_read(&context->index, av, job->plan->facts.frames, job->err);

    if (ret <= 0)
        return ret;
    for (uint32_t k = 0; k < job->chain->frames; k++) {
        context->places[k] = job->plan->video.fps > 0 ? place_at_time(job, k, tick)
                                                      : (uint32_t)index_of(job, k);
        hr_av_index_want(&context->index, context->places[k]);
    }
    hr_av_index_start(&context->index, av, true);
    while (job->given < job->chain->frames) {
        ret = hr_av_next(av, NULL);
        if (ret <= 0)
            return 0;
        int64_t place = hr_av_index_place(&context->index, av->frame);
        if (place < 0)
            return 0;
        uint32_t shown = (uint32_t)place;
        ret = give(job, av->frame, (double)av->frame->pts * tick, has_place, &shown);
        if (ret < 0)
            return ret;
    }
    return 1;
}

static int decode(const struct hr_chain *head, struct hr_context *context_head,
                  const struct hr_sample_plan *plan, unsigned encoding, const uint8_t *value,
                  size_t value_bytes, void *const dst[HR_CHAIN_MAX_OUTPUTS], struct hr_error *err)
{
    struct video_context *context = HR_CONTAINER_OF(context_head, struct video_context, head);
    struct hr_av_open how = {.container = (enum hr_media_format)plan->facts.format,
                             .type = HR_FIELD_VIDEO,
                             .quick = true};
    struct job job = {
        .chain = HR_CONTAINER_OF(head, struct video_chain, head),
        .context = context,
        .plan = plan,
        .dst = dst[0],
        .pts = dst[1],
        .err = err,
    };

    if (encoding != 0)
        return hr_fail(err, HR_E_FORMAT, "video stored with encoding %u is not known", encoding);
    int ret = hr_av_open(&context->av, &how, value, value_bytes, err);
    bool opened = ret == 0, fits = opened && hr_av_index_fits(&context->av);
    if (fits)
        ret = decode_from_keyframe(&job);
    if (!opened || (ret == 0 && (fits || !context->av.probed))) {
        job.given = 0;
        how.quick = false;
        ret = hr_av_open(&context->av, &how, value, value_bytes, err);
    }
    if (ret == 0)
        ret = decode_in_order(&job);
    hr_av.av_frame_unref(context->held);
    hr_av_close(&context->av);
    hr_av_index_drop(&context->index);
    if (ret > 0)
        return 0;
    return ret == HR_E_MISSING ? hr_fail(err, HR_E_FORMAT, "the file has no video stream") : ret;
}

const struct hr_chain_media hr_video_chain_media = {
    .name = "video",
    .chain_bytes = sizeof(struct video_chain),
    .context_bytes = sizeof(struct video_context),
    .init = init,
    .describe = describe,
    .plan = plan_sample,
    .context_init = context_init,
    .context_finish = context_finish,
    .decode = decode,
};
