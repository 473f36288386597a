/* erasing: a random box is painted over, as torchvision's RandomErasing does. Before normalize it works
 * on pixels, after it on the output. */
#include <math.h>
#include <string.h>

#include "decoders/ops/op.h"

enum { TRIES = 10 };

static const char *const noise_words[] = {"random", NULL};

/* value: numbers, or the word. */
static bool is_word(const struct hr_call *call)
{
    for (int i = 0; i < call->arg_count; i++)
        if (strcmp(call->args[i].name, "value") == 0)
            return call->args[i].kind == HR_ARG_STR;
    return false;
}

static int parse(const struct hr_call *call, struct hr_op_params *p, struct hr_error *err)
{
    int colours = 1, word = 0;
    const struct hr_arg_spec numbers = {.name = "value", .type = HR_ARG_TYPE_FLOATS,
                                        .out = p->colour, .min = -1e6, .max = 1e6, .min_items = 1,
                                        .max_items = 3, .count = &colours};
    const struct hr_arg_spec words = {.name = "value", .type = HR_ARG_TYPE_ENUM, .out = &word,
                                      .choices = noise_words};
    const struct hr_arg_spec specs[] = {
        HR_OP_P_SPEC(p),
        {.name = "scale", .type = HR_ARG_TYPE_FLOATS, .out = p->scale, .min = 0, .max = 1,
         .min_items = 2, .max_items = 2},
        {.name = "ratio", .type = HR_ARG_TYPE_FLOATS, .out = p->ratio, .min = 1e-3, .max = 1e3,
         .min_items = 2, .max_items = 2},
        is_word(call) ? words : numbers,
    };

    memcpy(p->scale, (double[2]){0.02, 0.33}, sizeof(p->scale));
    memcpy(p->ratio, (double[2]){0.3, 3.3}, sizeof(p->ratio));
    p->p = 0.5;
    int ret = hr_args_read(call, specs, HR_ARRAY_SIZE(specs), err);
    if (ret == 0)
        ret = hr_op_check_pair(call, "scale", p->scale, err);
    if (ret == 0)
        ret = hr_op_check_pair(call, "ratio", p->ratio, err);
    if (ret < 0)
        return ret;
    p->noise = is_word(call);
    if (colours == 2) {
        hr_fail(err, HR_E_CONFIG, "'value' of '%s' is one number or three", call->name);
        hr_error_at_file(err, call->file, call->line, call->column);
        return HR_E_CONFIG;
    }
    for (int c = 1; colours == 1 && c < 3; c++)
        p->colour[c] = p->colour[0];
    return 0;
}

static bool try_box(const struct hr_op_params *p, struct hr_rng *rng, uint32_t w, uint32_t h,
                    struct hr_step *step)
{
    double area = (double)w * h * hr_rng_range(rng, p->scale[0], p->scale[1]);
    double aspect = exp(hr_rng_range(rng, log(p->ratio[0]), log(p->ratio[1])));
    double bh = nearbyint(sqrt(area * aspect)), bw = nearbyint(sqrt(area / aspect));

    if (!(bh < h && bw < w))
        return false;
    step->h = (uint32_t)bh;
    step->w = (uint32_t)bw;
    step->y = (uint32_t)hr_rng_below(rng, (uint64_t)(h - step->h) + 1);
    step->x = (uint32_t)hr_rng_below(rng, (uint64_t)(w - step->w) + 1);
    return true;
}

static uint64_t draw_word(struct hr_rng *rng)
{
    uint64_t high = hr_rng_u32(rng);

    return high << 32 | hr_rng_u32(rng);
}

static void draw(const struct hr_op_params *p, struct hr_rng *rng, uint32_t w, uint32_t h,
                 struct hr_steps *steps)
{
    if (!hr_rng_bernoulli(rng, p->p))
        return;
    struct hr_step box = {.kind = HR_STEP_ERASE, .noise = p->noise};
    bool found = false;
    memcpy(box.colour, p->colour, sizeof(box.colour));
    for (int i = 0; i < TRIES && !found; i++)
        found = try_box(p, rng, w, h, &box);
    if (!found)
        return;
    for (int i = 0; p->noise && i < 2; i++)
        box.noise_key[i] = draw_word(rng);
    *hr_steps_add(steps, HR_STEP_ERASE) = box;
}

static void describe(const struct hr_op_params *p, struct hr_buf *text)
{
    hr_buf_addf(text, "p=%.17g scale=%.17g,%.17g ratio=%.17g,%.17g value=", p->p, p->scale[0],
                p->scale[1], p->ratio[0], p->ratio[1]);
    if (p->noise)
        hr_buf_add_str(text, "random");
    else
        hr_buf_addf(text, "%.17g,%.17g,%.17g", p->colour[0], p->colour[1], p->colour[2]);
}

const struct hr_op hr_op_erasing = {.name = "erasing",
                                    .effects = HR_OP_PIXELS | HR_OP_FINISHES,
                                    .parse = parse,
                                    .draw = draw,
                                    .describe = describe};
