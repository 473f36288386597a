/* The table of ops, how an unknown one is refused, and the arguments that many ops have. */
#include "decoders/ops/op.h"

#include <string.h>

static const struct hr_op *const ops[] = {
    &hr_op_random_resized_crop, &hr_op_resize, &hr_op_center_crop, &hr_op_random_crop,
    &hr_op_hflip, &hr_op_vflip, &hr_op_color_jitter, &hr_op_grayscale, &hr_op_gaussian_blur,
    &hr_op_solarize, &hr_op_posterize, &hr_op_equalize, &hr_op_autocontrast, &hr_op_sharpness,
    &hr_op_invert, &hr_op_erasing, &hr_op_rotate, &hr_op_affine, &hr_op_perspective,
    &hr_op_rand_augment, &hr_op_trivial_augment, &hr_op_auto_augment, &hr_op_normalize,
};

const char *const hr_filter_names[HR_FILTER_COUNT + 1] = {
    [HR_FILTER_BILINEAR] = "bilinear", [HR_FILTER_BICUBIC] = "bicubic",
    [HR_FILTER_LANCZOS3] = "lanczos3", [HR_FILTER_AREA] = "area",
    [HR_FILTER_NEAREST] = "nearest",
};

const char *const hr_interpolation_names[4] = {
    [HR_INTERPOLATION_NEAREST] = "nearest", [HR_INTERPOLATION_BILINEAR] = "bilinear",
    [HR_INTERPOLATION_BICUBIC] = "bicubic"};

const char *const hr_pad_mode_names[5] = {
    [HR_PAD_CONSTANT] = "constant", [HR_PAD_EDGE] = "edge", [HR_PAD_REFLECT] = "reflect",
    [HR_PAD_SYMMETRIC] = "symmetric"};

const struct hr_op *hr_op_find(const char *name)
{
    for (size_t i = 0; i < HR_ARRAY_SIZE(ops); i++)
        if (strcmp(ops[i]->name, name) == 0)
            return ops[i];
    return NULL;
}

static void hint_all(struct hr_error *err)
{
    struct hr_buf list = {0};

    for (size_t i = 0; i < HR_ARRAY_SIZE(ops); i++)
        hr_buf_addf(&list, "%s%s", i ? ", " : "", ops[i]->name);
    hr_error_hint(err, "known: %s", hr_buf_str(&list));
    hr_buf_finish(&list);
}

int hr_op_refuse_unknown(const struct hr_call *call, struct hr_error *err)
{
    const char *names[HR_ARRAY_SIZE(ops)];

    for (size_t i = 0; i < HR_ARRAY_SIZE(ops); i++)
        names[i] = ops[i]->name;
    hr_fail(err, HR_E_CONFIG, "there is no op '%s'", call->name);
    hr_error_at_file(err, call->file, call->line, call->column);
    const char *near = hr_nearest_word(call->name, names, HR_ARRAY_SIZE(ops));
    if (near)
        hr_error_hint(err, "did you mean '%s'?", near);
    else
        hint_all(err);
    return HR_E_CONFIG;
}

void hr_op_size(struct hr_op_params *params, const int64_t size[2], int count)
{
    params->h = size[0];
    params->w = count == 2 ? size[1] : size[0];
}

int hr_op_check_pair(const struct hr_call *call, const char *name, const double pair[2],
                     struct hr_error *err)
{
    if (pair[0] <= pair[1])
        return 0;
    hr_fail(err, HR_E_CONFIG, "'%s' of '%s' is [low, high]", name, call->name);
    hr_error_at_file(err, call->file, call->line, call->column);
    return HR_E_CONFIG;
}

int hr_op_fill(const struct hr_call *call, struct hr_op_params *params, const int64_t fill[3],
               int count, struct hr_error *err)
{
    if (count == 2) {
        hr_fail(err, HR_E_CONFIG, "'fill' of '%s' is one number or three", call->name);
        hr_error_at_file(err, call->file, call->line, call->column);
        return HR_E_CONFIG;
    }
    for (int c = 0; c < 3; c++)
        params->fill[c] = (uint8_t)fill[count == 3 ? c : 0];
    return 0;
}

void hr_op_describe_fill(const struct hr_op_params *params, struct hr_buf *text)
{
    hr_buf_addf(text, " fill=%u,%u,%u", params->fill[0], params->fill[1], params->fill[2]);
}
