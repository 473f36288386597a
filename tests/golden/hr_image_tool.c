/* Decodes one picture by a chain given on the command line: raw output to stdout, shape and plan as
 * one line of JSON to stderr. For golden tests, which compare with other programs.
 *
 *   hr_image_tool FILE [--ops 'random_resized_crop size=224 scale=0.1,1; hflip p=1']
 *                      [--output 'dtype=f16 layout=nchw'] [--options 'exif=ignore']
 *                      [--seed N] [--epoch N] [--position N] [--repack]
 *                      [--measure | --verify | --plan-only N | --steps N]
 *
 * --repack stores the picture first as pack would. --measure and --verify print the facts instead;
 * --plan-only prints the plans of N positions for a picture of --size WxH, --steps what is drawn for
 * it and where its corners go. Exit 1 with {"error":…} when the library refuses. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "decoders/chain.h"
#include "decoders/decoder.h"
#include "decoders/ops/geometry.h"

enum { MAX_CALLS = 16, MAX_ARGS = 8, MAX_ITEMS = 8 };

struct calls {
    struct hr_call calls[MAX_CALLS];
    struct hr_arg args[MAX_CALLS][MAX_ARGS];
    struct hr_arg items[MAX_CALLS][MAX_ARGS][MAX_ITEMS];
    int count;
};

static void parse_scalar(char *text, struct hr_arg *arg)
{
    char *end;

    arg->text = text;
    arg->integer = strtoll(text, &end, 10);
    arg->number = (double)arg->integer;
    arg->kind = HR_ARG_INT;
    if (*end == 0)
        return;
    arg->number = strtod(text, &end);
    arg->kind = *end == 0 ? HR_ARG_FLOAT : HR_ARG_STR;
    if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0) {
        arg->kind = HR_ARG_BOOL;
        arg->boolean = text[0] == 't';
    }
}

static void parse_value(char *text, struct hr_arg *arg, struct hr_arg *items)
{
    char *save = NULL;

    if (!strchr(text, ',')) {
        parse_scalar(text, arg);
        return;
    }
    arg->kind = HR_ARG_LIST;
    arg->items = items;
    for (char *t = strtok_r(text, ",", &save); t; t = strtok_r(NULL, ",", &save))
        if (arg->item_count < MAX_ITEMS)
            parse_scalar(t, &items[arg->item_count++]);
}

/* "name key=value value; name …"; a table is one call whose name is given. */
static void parse_call(char *text, const char *name, struct calls *calls)
{
    struct hr_call *call = &calls->calls[calls->count];
    char *save = NULL;

    *call = (struct hr_call){
        .name = name, .args = calls->args[calls->count], .file = "arguments", .line = 1};
    for (char *t = strtok_r(text, " ", &save); t; t = strtok_r(NULL, " ", &save)) {
        if (!call->name) {
            call->name = t;
            continue;
        }
        if (call->arg_count == MAX_ARGS)
            break;
        struct hr_arg *arg = &call->args[call->arg_count];
        char *equals = strchr(t, '=');
        *arg = (struct hr_arg){.name = equals ? t : "", .line = 1};
        if (equals)
            *equals = 0;
        parse_value(equals ? equals + 1 : t, arg, calls->items[calls->count][call->arg_count]);
        call->arg_count++;
    }
    if (call->name)
        calls->count++;
}

static void parse_ops(char *text, struct calls *calls)
{
    char *save = NULL;

    for (char *t = strtok_r(text, ";", &save); t && calls->count < MAX_CALLS;
         t = strtok_r(NULL, ";", &save))
        parse_call(t, NULL, calls);
}

static int report(const struct hr_error *err)
{
    struct hr_buf b = {0};

    hr_json_open(&b, NULL, '{');
    hr_json_str(&b, "error", hr_error_name(err->code));
    hr_json_str(&b, "text", err->text);
    hr_json_str(&b, "hint", err->hint);
    hr_json_close(&b, '}');
    fprintf(stderr, "%s\n", hr_buf_str(&b));
    hr_buf_finish(&b);
    return 1;
}

static void print_facts(const struct hr_facts *f)
{
    printf("{\"format\":\"%s\",\"width\":%u,\"height\":%u,\"channels\":%u,\"bit_depth\":%u,"
           "\"orientation\":%u,\"frames\":%u}\n",
           hr_media_format_name((enum hr_media_format)f->format), f->width, f->height, f->channels,
           f->bit_depth, f->orientation, f->frames);
}

static void print_plan(FILE *out, const struct hr_sample_plan *p)
{
    const struct hr_image_plan *i = &p->image;

    fprintf(out,
            "{\"shape\":[%" PRIu64 ",%" PRIu64 ",%" PRIu64 "],\"bytes\":%" PRIu64
            ",\"crop\":[%d,%d,%d,%d],\"out\":[%d,%d],\"full\":[%d,%d],\"at\":[%d,%d],"
            "\"orientation\":%u,\"flip\":[%u,%u]}\n",
            p->shape[0][0], p->shape[0][1], p->shape[0][2], p->bytes[0], i->crop_x, i->crop_y,
            i->crop_w, i->crop_h, i->out_w, i->out_h, i->full_out_w, i->full_out_h, i->out_x,
            i->out_y, i->orientation, i->flip_h, i->flip_v);
}

struct arguments {
    const char *path;
    struct calls ops, output, options;
    uint64_t seed, epoch, position, plan_only, steps;
    uint32_t width, height;
    bool measure, verify, repack;
};

static int parse_arguments(int argc, char **argv, struct arguments *a)
{
    for (int i = 1; i < argc; i++) {
        char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (argv[i][0] != '-') {
            a->path = argv[i];
            continue;
        }
        if (strcmp(argv[i], "--measure") == 0 || strcmp(argv[i], "--verify") == 0) {
            a->measure = true;
            a->verify = argv[i][2] == 'v';
            continue;
        }
        if (strcmp(argv[i], "--repack") == 0) {
            a->repack = true;
            continue;
        }
        if (!value)
            return 2;
        if (strcmp(argv[i], "--ops") == 0)
            parse_ops(value, &a->ops);
        else if (strcmp(argv[i], "--output") == 0)
            parse_call(value, "output", &a->output);
        else if (strcmp(argv[i], "--options") == 0)
            parse_call(value, "options", &a->options);
        else if (strcmp(argv[i], "--seed") == 0)
            a->seed = strtoull(value, NULL, 10);
        else if (strcmp(argv[i], "--epoch") == 0)
            a->epoch = strtoull(value, NULL, 10);
        else if (strcmp(argv[i], "--position") == 0)
            a->position = strtoull(value, NULL, 10);
        else if (strcmp(argv[i], "--plan-only") == 0)
            a->plan_only = strtoull(value, NULL, 10);
        else if (strcmp(argv[i], "--steps") == 0)
            a->steps = strtoull(value, NULL, 10);
        else if (strcmp(argv[i], "--size") != 0 ||
                 sscanf(value, "%ux%u", &a->width, &a->height) != 2)
            return 2;
        i++;
    }
    return a->path || a->plan_only || a->steps ? 0 : 2;
}

static int print_plans(const struct arguments *a, const struct hr_chain *chain)
{
    struct hr_facts facts = {.width = a->width, .height = a->height};
    struct hr_sample_plan plan;
    struct hr_error err;

    for (uint64_t i = 0; i < a->plan_only; i++) {
        if (hr_chain_plan(chain, &facts, 1, a->seed, a->epoch, a->position + i, 0, &plan, &err) < 0)
            return report(&err);
        print_plan(stdout, &plan);
    }
    return 0;
}

static void print_step(struct hr_buf *b, const struct hr_step *s)
{
    static const char *const names[] = {"brightness", "contrast", "solarize", "posterize",
                                        "equalize", "autocontrast", "invert", "saturation", "hue",
                                        "grayscale", "sharpness", "blur", "warp", "erase"};

    hr_json_open(b, NULL, '{');
    hr_json_str(b, "kind", names[s->kind]);
    hr_json_double(b, "value", s->value);
    hr_json_int(b, "bits", s->bits);
    hr_json_open(b, "box", '[');
    for (int i = 0; i < 4; i++)
        hr_json_uint(b, NULL, (const uint32_t[]){s->x, s->y, s->w, s->h}[i]);
    hr_json_close(b, ']');
    hr_json_open(b, "map", '[');
    for (int i = 0; i < 9; i++)
        hr_json_double(b, NULL, s->map[i]);
    hr_json_close(b, ']');
    hr_json_str(b, "interpolation", hr_interpolation_names[s->interpolation]);
    hr_json_close(b, '}');
}

/* One line a position: the steps of all ops for a picture of the given size, and the whole geometry. */
static int print_steps(const struct arguments *a)
{
    static struct hr_op_chain chain;
    struct hr_steps steps;
    struct hr_geometry g;
    struct hr_error err;

    if (hr_op_chain_init(&chain, a->ops.calls, a->ops.count, &(struct hr_op_shape){0}, &err) < 0)
        return report(&err);
    for (uint64_t n = 0; n < a->steps; n++) {
        struct hr_draw_key key = {.seed = a->seed, .epoch = a->epoch, .position = a->position + n};
        struct hr_buf b = {0};
        hr_json_open(&b, NULL, '{');
        hr_json_open(&b, "steps", '[');
        for (int i = 0; i < chain.count; i++) {
            hr_op_chain_draw(&chain, &key, i, a->width, a->height, &steps);
            for (int k = 0; k < steps.count; k++)
                print_step(&b, &steps.steps[k]);
        }
        hr_json_close(&b, ']');
        if (hr_op_chain_geometry(&chain, &key, a->width, a->height, &g, &err) < 0)
            return report(&err);
        hr_json_open(&b, "to_result", '[');
        for (int i = 0; i < 9; i++)
            hr_json_double(&b, NULL, g.to_result.m[i]);
        hr_json_close(&b, ']');
        hr_json_close(&b, '}');
        printf("%s\n", hr_buf_str(&b));
        hr_buf_finish(&b);
    }
    return 0;
}

static int decode_to_stdout(const struct hr_chain *chain, const struct hr_sample_plan *plan,
                            unsigned encoding, const uint8_t *value, size_t bytes)
{
    void *dst[HR_CHAIN_MAX_OUTPUTS] = {hr_alloc_aligned(64, plan->bytes[0])};
    struct hr_context *context = NULL;
    struct hr_error err;
    int ret = hr_context_create(chain, &context, &err);

    if (ret == 0)
        ret = hr_chain_decode(chain, context, plan, encoding, value, bytes, dst, &err);
    if (ret < 0)
        report(&err);
    else {
        print_plan(stderr, plan);
        fwrite(dst[0], 1, plan->bytes[0], stdout);
    }
    hr_context_destroy(context);
    hr_free(dst[0]);
    return ret < 0;
}

/* The same from the value that pack would store. */
static int decode_repacked(const struct hr_chain *chain, const struct hr_sample_plan *plan, const uint8_t *value,
                           size_t bytes)
{
    struct hr_buf packed = {0}, seek = {0};
    struct hr_error err;
    int ret = hr_media_repack(value, bytes, &packed, &seek, &err);

    hr_buf_finish(&seek);
    if (ret < 0) {
        hr_buf_finish(&packed);
        return report(&err);
    }
    uint8_t *padded = hr_alloc_zero(1, packed.used + HR_CHAIN_PADDING);
    memcpy(padded, packed.data, packed.used);
    ret = decode_to_stdout(chain, plan, HR_ENCODING_REPACKED_JPEG, padded, packed.used);
    hr_free(padded);
    hr_buf_finish(&packed);
    return ret;
}

static int run(const struct arguments *a, const struct hr_chain *chain, const uint8_t *value,
               size_t bytes)
{
    struct hr_sample_plan plan;
    struct hr_facts facts;
    struct hr_error err;

    if (hr_media_measure(value, bytes, HR_FIELD_IMAGE, a->verify, NULL, &facts, &err) < 0)
        return report(&err);
    if (a->measure) {
        print_facts(&facts);
        return 0;
    }
    if (hr_chain_plan(chain, &facts, bytes, a->seed, a->epoch, a->position, 0, &plan, &err) < 0)
        return report(&err);
    return a->repack ? decode_repacked(chain, &plan, value, bytes)
                     : decode_to_stdout(chain, &plan, HR_ENCODING_AS_IS, value, bytes);
}

static int with_file(const struct arguments *a, const struct hr_chain *chain)
{
    struct hr_error err;
    void *read;
    size_t bytes;

    if (hr_fd_read_file(a->path, 1u << 30, &read, &bytes, &err) < 0)
        return report(&err);
    /* Exactly the promised padding, so that the sanitizer sees any read past it. */
    uint8_t *value = hr_alloc(bytes + HR_CHAIN_PADDING);
    memcpy(value, read, bytes);
    memset(value + bytes, 0xa5, HR_CHAIN_PADDING);
    hr_free(read);
    int ret = run(a, chain, value, bytes);
    hr_free(value);
    return ret;
}

int main(int argc, char **argv)
{
    static struct arguments a;
    struct hr_chain *chain = NULL;
    struct hr_error err;

    if (parse_arguments(argc, argv, &a)) {
        fprintf(stderr, "usage: hr_image_tool FILE [--ops …] [--output …] [--options …]\n");
        return 2;
    }
    struct hr_chain_spec spec = {
        .type = HR_FIELD_IMAGE, .field = "image", .file = "arguments",
        .ops = a.ops.calls, .op_count = a.ops.count,
        .options = a.options.count ? a.options.calls : NULL,
        .output = a.output.count ? a.output.calls : NULL,
    };
    if (a.steps)
        return print_steps(&a);
    if (!a.measure && hr_chain_create(&spec, &chain, &err) < 0)
        return report(&err);
    int ret = a.plan_only ? print_plans(&a, chain) : with_file(&a, chain);
    hr_chain_destroy(chain);
    return ret;
}
