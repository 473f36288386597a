/* Runs measuring, decoding and whole chains on one file and writes what comes out, for tests that
 * compare it with other programs.
 *
 *   av_tool measure FILE [audio|video|image]      facts as JSON
 *   av_tool pcm FILE                              samples as interleaved f32
 *   av_tool yuv FILE                              frames as stored, planes without padding
 *   av_tool chain TYPE FILE OUT KEY…              outputs to OUT.0, OUT.1 …; shapes as JSON
 *
 * KEY: op:NAME[,k=v…] output:k=v[,…] clip:k=v[,…] option:k=v[,…] position=N */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "decoders/av_measure.h"
#include "decoders/chain.h"
#include "decoders/pcm.h"

static uint8_t *bytes;
static size_t count;

static int fail(const struct hr_error *err)
{
    char text[1024];

    printf("{\"error\": \"%s\", \"text\": \"", hr_error_name(err->code));
    for (const char *c = hr_error_format(err, text, sizeof(text)); *c; c++)
        putchar(*c == '"' || *c == '\\' ? '\'' : *c);
    printf("\"}\n");
    return 1;
}

static void load(const char *path)
{
    FILE *f = fopen(path, "rb");
    struct stat st;

    if (!f || fstat(fileno(f), &st) < 0) {
        perror(path);
        exit(2);
    }
    count = (size_t)st.st_size;
    /* The padding lies outside of the file's bytes, so that a sanitizer sees reads past it. */
    bytes = hr_alloc_zero(count + HR_CHAIN_PADDING, 1);
    if (!bytes || fread(bytes, 1, count, f) != count)
        exit(2);
    fclose(f);
}

static int run_measure(const char *type_name)
{
    struct hr_error err = HR_ERROR_INIT;
    struct hr_facts f;
    enum hr_field_type type;

    if (hr_media_measure(bytes, count, hr_field_type_parse(type_name), true, &type, &f, &err) < 0)
        return fail(&err);
    printf("{\"type\": \"%s\", \"format\": \"%s\", \"width\": %u, \"height\": %u, \"channels\": %u, "
           "\"bit_depth\": %u, \"orientation\": %u, \"frames\": %u, \"rate\": [%u, %u], "
           "\"sample_rate\": %u, \"samples\": %" PRIu64 ", \"duration_ns\": %" PRIu64 "}\n",
           hr_field_type_name(type), hr_media_format_name(f.format), f.width, f.height, f.channels,
           f.bit_depth, f.orientation, f.frames, f.rate_num, f.rate_den, f.sample_rate, f.samples,
           f.duration_ns);
    return 0;
}

static int run_pcm(void)
{
    struct hr_error err = HR_ERROR_INIT;
    struct hr_pcm pcm = {0};
    int n = hr_pcm_open(&pcm, hr_media_sniff(bytes, count), bytes, count, &err);
    while (n >= 0 && (n = hr_pcm_next(&pcm, &err)) > 0)
        for (int i = 0; i < n; i++)
            for (uint32_t c = 0; c < pcm.channels; c++)
                fwrite(&pcm.planes[c][i], sizeof(float), 1, stdout);
    hr_pcm_finish(&pcm);
    if (n < 0)
        fprintf(stderr, "%s\n", err.text);
    return n < 0;
}

static int run_yuv(void)
{
    struct hr_av_open how = {.container = hr_media_sniff(bytes, count), .type = HR_FIELD_VIDEO};
    struct hr_frame_clock clock = {0};
    struct hr_error err = HR_ERROR_INIT;
    struct hr_av_source av = {0};
    int ret = hr_av_open(&av, &how, bytes, count, &err);
    while (ret >= 0 && (ret = hr_av_next(&av, &err)) > 0) {
        AVFrame *f = av.frame;
        int n = hr_av.av_image_get_buffer_size(f->format, f->width, f->height, 1);
        uint8_t *out = malloc((size_t)n + 64);
        hr_av.av_image_copy_to_buffer(out, n, (const uint8_t *const *)f->data, f->linesize,
                                      f->format, f->width, f->height, 1);
        fwrite(out, 1, (size_t)n, stdout);
        free(out);
        fprintf(stderr, "%.9f\n", hr_frame_time(&clock, f, av.stream));
    }
    hr_av_source_finish(&av);
    if (ret < 0)
        fprintf(stderr, "error %s %s\n", hr_error_name(ret), err.text);
    return ret < 0;
}

/* ---- chains ---- */

static void parse_arg(char *text, struct hr_arg *arg)
{
    char *eq = strchr(text, '='), *end;

    *arg = (struct hr_arg){.name = "", .line = 1, .column = 1};
    if (eq) {
        *eq = 0;
        arg->name = text;
        text = eq + 1;
    }
    arg->text = text;
    arg->kind = HR_ARG_STR;
    arg->number = strtod(text, &end);
    if (*text && !*end) {
        arg->kind = HR_ARG_FLOAT;
        arg->integer = strtoll(text, &end, 10);
        if (!*end)
            arg->kind = HR_ARG_INT;
    } else if (!strcmp(text, "true") || !strcmp(text, "false")) {
        arg->kind = HR_ARG_BOOL;
        arg->boolean = !strcmp(text, "true");
    }
}

static void parse_call(char *text, bool named, const char *name, struct hr_call *call)
{
    static struct hr_arg args[32][16];
    static int used;

    *call = (struct hr_call){.name = name, .file = "<tool>", .line = 1, .column = 1};
    call->args = args[used++ % 32];
    char *save, *word = strtok_r(text, ",", &save);
    if (named) {
        call->name = word;
        word = strtok_r(NULL, ",", &save);
    }
    for (; word && call->arg_count < 16; word = strtok_r(NULL, ",", &save))
        parse_arg(word, &call->args[call->arg_count++]);
}

struct job {
    struct hr_chain_spec spec;
    struct hr_call ops[16], output, clip, options;
    uint64_t position;
    int repeat;
};

static int parse_job(int argc, char **argv, struct job *job)
{
    job->repeat = 1;
    for (int i = 0; i < argc; i++) {
        if (!strncmp(argv[i], "op:", 3)) {
            parse_call(argv[i] + 3, true, NULL, &job->ops[job->spec.op_count++]);
        } else if (!strncmp(argv[i], "output:", 7)) {
            parse_call(argv[i] + 7, false, "output", &job->output);
            job->spec.output = &job->output;
        } else if (!strncmp(argv[i], "clip:", 5)) {
            parse_call(argv[i] + 5, false, "clip", &job->clip);
            job->spec.clip = &job->clip;
        } else if (!strncmp(argv[i], "option:", 7)) {
            parse_call(argv[i] + 7, false, job->spec.field, &job->options);
            job->spec.options = &job->options;
        } else if (!strncmp(argv[i], "position=", 9)) {
            job->position = strtoull(argv[i] + 9, NULL, 10);
        } else if (!strncmp(argv[i], "repeat=", 7)) {
            job->repeat = atoi(argv[i] + 7);
        } else if (!strncmp(argv[i], "max_sample_rate=", 16)) {
            job->spec.max_sample_rate = (uint32_t)atoi(argv[i] + 16);
        } else {
            fprintf(stderr, "unknown key %s\n", argv[i]);
            return -1;
        }
    }
    job->spec.ops = job->ops;
    return 0;
}

static void print_outputs(const struct hr_chain *chain, const struct hr_sample_plan *plan,
                          const char *out, void *const *dst, double seconds)
{
    printf("{\"describe\": ");
    struct hr_buf text = {0};
    hr_json_open(&text, NULL, '[');
    hr_json_str(&text, NULL, hr_chain_describe(chain));
    hr_json_close(&text, ']');
    printf("%s, \"first_sample\": %" PRIu64 ", \"first_frame\": %u, \"start_s\": %.9f, ",
           hr_buf_str(&text), plan->audio.first_sample, plan->video.first_frame, plan->video.start_s);
    hr_buf_finish(&text);
    printf("\"seconds\": %.6f, \"outputs\": [", seconds);
    for (int i = 0; i < hr_chain_output_count(chain); i++) {
        const struct hr_chain_output *o = hr_chain_output_at(chain, i);
        char path[512];
        snprintf(path, sizeof(path), "%s.%d", out, i);
        FILE *f = fopen(path, "wb");
        if (!f || fwrite(dst[i], 1, plan->bytes[i], f) != plan->bytes[i] || fclose(f) != 0)
            perror(path);
        printf("%s{\"suffix\": \"%s\", \"dtype\": \"%s\", \"layout\": \"%s\", \"shape\": [",
               i ? ", " : "", o->suffix, hr_dtype_name(o->dtype), hr_layout_name(o->layout));
        for (uint32_t d = 0; d < o->dims; d++)
            printf("%s%" PRIu64, d ? ", " : "", plan->shape[i][d]);
        printf("]}");
    }
    printf("]}\n");
}

static int run_chain(enum hr_field_type type, const char *out, int argc, char **argv)
{
    struct hr_error err = HR_ERROR_INIT;
    struct job job = {.spec = {.type = type, .field = "media", .file = "<tool>"}};
    struct hr_chain *chain = NULL;
    struct hr_context *context = NULL;
    struct hr_sample_plan plan;
    struct hr_facts facts;
    void *dst[HR_CHAIN_MAX_OUTPUTS] = {0};

    if (parse_job(argc, argv, &job) < 0)
        return 2;
    int ret = hr_media_measure(bytes, count, type, false, NULL, &facts, &err);
    if (ret < 0)
        return fail(&err);
    job.spec.max_width = facts.width;
    job.spec.max_height = facts.height;
    job.spec.max_samples = facts.samples;
    job.spec.max_frames = facts.frames;
    if (!job.spec.max_sample_rate)
        job.spec.max_sample_rate = facts.sample_rate;
    job.spec.max_bytes = count;
    ret = hr_chain_create(&job.spec, &chain, &err);
    if (ret == 0)
        ret = hr_context_create(chain, &context, &err);
    if (ret == 0)
        ret = hr_chain_plan(chain, &facts, count, 1, 0, job.position, 0, &plan, &err);
    if (ret == 0) {
        for (int i = 0; i < hr_chain_output_count(chain); i++)
            dst[i] = hr_alloc_aligned(64, plan.bytes[i] + 64);
        uint64_t begin = hr_clock_thread_ns();
        for (int i = 0; i < job.repeat && ret == 0; i++)
            ret = hr_chain_decode(chain, context, &plan, 0, bytes, count, dst, &err);
        double seconds = (double)(hr_clock_thread_ns() - begin) / 1e9 / job.repeat;
        if (ret == 0)
            print_outputs(chain, &plan, out, dst, seconds);
    }
    for (int i = 0; i < HR_CHAIN_MAX_OUTPUTS; i++)
        hr_free(dst[i]);
    hr_context_destroy(context);
    hr_chain_destroy(chain);
    return ret < 0 ? fail(&err) : 0;
}

int main(int argc, char **argv)
{
    int ret = 2;

    if (argc < 3)
        return 2;
    bool chain = !strcmp(argv[1], "chain") && argc >= 5;
    load(argv[chain ? 3 : 2]);
    if (chain)
        ret = run_chain(hr_field_type_parse(argv[2]), argv[4], argc - 5, argv + 5);
    else if (!strcmp(argv[1], "measure"))
        ret = run_measure(argc > 3 ? argv[3] : "none");
    else if (!strcmp(argv[1], "pcm"))
        ret = run_pcm();
    else if (!strcmp(argv[1], "yuv"))
        ret = run_yuv();
    hr_free(bytes);
    return ret;
}
