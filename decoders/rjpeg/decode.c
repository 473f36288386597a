/* Decodes a box: goes down the picture one MCU row (a strip) at a time, through planes of samples that
 * hold the last two strips, and gives out each row of pixels as soon as its samples are there. */
#include <string.h>

#include "base/cpu.h"
#include "base/mem.h"
#include "rjpeg/decode.h"

enum {
    PLANE_ROWS = 160,      /* all components: two strips each, rounded up to powers of two */
    STRIP_BLOCK_ROWS = 10, /* v summed over the components is at most that */
    CMYK_STEP = 256,
};

static const struct rj_variant *find_variant(const char *name)
{
    unsigned flags HR_UNUSED = hr_cpu_flags();

#ifdef __x86_64__
    if (flags & HR_CPU_AVX512 && (!name || !strcmp(name, "avx512")))
        return &rj_variant_avx512;
    if (flags & HR_CPU_AVX2 && (name ? !strcmp(name, "avx2") : !(flags & HR_CPU_SLOW_PDEP)))
        return &rj_variant_avx2;
    if (flags & HR_CPU_AVX2 && (!name || !strcmp(name, "avx2-nopdep")))
        return &rj_variant_avx2_nopdep;
#elif defined(__aarch64__)
    if (flags & HR_CPU_NEON && (!name || !strcmp(name, "neon")))
        return &rj_variant_neon;
#endif
    return !name || !strcmp(name, "c") ? &rj_variant_c : NULL;
}

static bool choose(struct hr_rjpeg *d, const char *name)
{
    const struct rj_variant *variant = find_variant(name);

    if (!variant)
        return false;
    HR_ASSERT(variant->scratch_bytes <= RJ_SCRATCH_BYTES);
    if (variant->init)
        variant->init();
    d->variant = variant;
    return true;
}

int hr_rjpeg_create(struct hr_rjpeg **out)
{
    struct hr_rjpeg *d = hr_alloc_aligned(64, hr_align_up(sizeof(*d), 64));

    if (!d)
        return HR_E_NOMEM;
    memset(d, 0, offsetof(struct hr_rjpeg, tables));
    choose(d, NULL);
    *out = d;
    return 0;
}

void hr_rjpeg_destroy(struct hr_rjpeg *d)
{
    if (!d)
        return;
    rj_scan_destroy(d->scan);
    hr_free(d->memory);
    hr_free(d);
}

const char *hr_rjpeg_variant(const struct hr_rjpeg *d)
{
    return d->variant->name;
}

bool hr_rjpeg_set_variant(struct hr_rjpeg *d, const char *name)
{
    return choose(d, name);
}

int hr_rjpeg_reserve(struct hr_rjpeg *d, uint32_t max_width)
{
    if (max_width <= d->max_width)
        return 0;
    if (max_width > 65535)
        return HR_E_LIMIT;

    /* A box begins anywhere in a tile and ends anywhere in one, with a neighbour on each side. */
    size_t stride = hr_align_up(max_width + 2 * 8 * RJ_TILE_BLOCKS + 32, 64) + 2 * RJ_GUARD;
    stride += stride % 1024 ? 0 : 64; /* rows must not share cache sets */
    size_t row = hr_align_up(max_width + 64, 64) + 2 * RJ_GUARD;
    size_t job_count = (max_width / (8 * RJ_TILE_BLOCKS) + 3) * STRIP_BLOCK_ROWS;
    size_t planes = stride * PLANE_ROWS + 4 * RJ_GUARD, pixels = 4 * row;
    size_t jobs = hr_align_up(job_count * sizeof(struct rj_job), 64);
    uint8_t *memory = hr_alloc_aligned(64, planes + HR_RJPEG_COMPONENTS * row + 2 * row + pixels + jobs);

    if (!memory)
        return HR_E_NOMEM;
    hr_free(d->memory);
    d->memory = memory;
    d->max_width = max_width;
    d->stride = stride;
    d->planes = memory;
    memory += planes;
    for (int c = 0; c < HR_RJPEG_COMPONENTS; c++, memory += row)
        d->rows[c] = memory;
    d->sums = (uint16_t *)memory;
    d->pixels = memory + 2 * row;
    d->pixels_stride = row;
    d->jobs = (struct rj_job *)(memory + 2 * row + pixels);
    return 0;
}

static int add_job(struct hr_rjpeg *d, uint32_t c, uint32_t by, uint32_t bx, uint32_t p, struct hr_error *err)
{
    uint32_t blocks = rj_tile_blocks(&d->info.component[c], bx), size = d->reach.component[c].size;
    uint32_t first = d->reach.component[c].block, end = d->reach.component[c].block_end;
    struct rj_plane *plane = &d->plane[c];
    struct rj_job *job = &d->jobs[d->job_count];

    int ret = rj_tiles_take(&d->tiles, p, blocks, &job->bytes, &job->size, err);
    if (ret < 0)
        return ret;
    job->out = plane->samples + (by * size & plane->row_mask) * d->stride + (bx * size - plane->column);
    job->blocks = (uint8_t)blocks;
    job->first = (uint8_t)(first > bx ? first - bx : 0);
    job->end = (uint8_t)(end - bx < blocks ? end - bx : blocks);
    job->component = (uint8_t)c;
    d->job_count++;
    return 0;
}

/* The wanted tiles that panel p has of one block row. */
static int add_block_row(struct hr_rjpeg *d, uint32_t c, uint32_t by, uint32_t p, struct hr_error *err)
{
    const struct hr_rjpeg_component *k = &d->info.component[c];
    uint32_t first = d->reach.component[c].block / RJ_TILE_BLOCKS;
    uint32_t end = (d->reach.component[c].block_end - 1) / RJ_TILE_BLOCKS + 1;
    uint32_t from = rj_panel_tile(&d->info, k, p), to = rj_panel_tile(&d->info, k, p + 1);
    bool wanted = c < d->components && by >= d->reach.component[c].row && by < d->reach.component[c].row_end;

    first = !wanted || first > to ? to : first < from ? from : first;
    end = !wanted || end < first ? first : end > to ? to : end;
    rj_tiles_skip(&d->tiles, p, first - from);
    for (uint32_t t = first; t < end; t++) {
        int ret = add_job(d, c, by, t * RJ_TILE_BLOCKS, p, err);
        if (ret < 0)
            return ret;
    }
    rj_tiles_skip(&d->tiles, p, to - end);
    return 0;
}

static bool run_jobs(struct hr_rjpeg *d, uint32_t c, uint32_t first)
{
    const struct rj_job *jobs = d->jobs + first;
    uint32_t count = d->job_count - first, size = c < d->components ? d->reach.component[c].size : 8;

    if (size == 8)
        return d->blocks->run(jobs, count, d->tables, d->stride, d->scratch);
    return d->variant->run_scaled(jobs, count, d->quantizers[c], size, d->stride, d->scratch);
}

/* Components that are decoded at full size go through together. */
static int decode_strip(struct hr_rjpeg *d, uint32_t m, struct hr_error *err)
{
    int ret = rj_tiles_row(&d->tiles, m, err);
    uint32_t done = 0;

    d->job_count = 0;
    for (uint32_t c = 0; c < d->info.components; c++) {
        const struct hr_rjpeg_component *k = &d->info.component[c];
        for (uint32_t by = m * k->v; by < (m + 1) * k->v; by++)
            for (uint32_t p = d->reach.panel; p < d->reach.panel_end && ret == 0; p++)
                ret = add_block_row(d, c, by, p, err);
        if (ret < 0)
            return ret;
        bool more = c + 1 < d->components;
        if (more && d->reach.component[c].size == 8 && d->reach.component[c + 1].size == 8)
            continue;
        if (!run_jobs(d, c, done))
            return hr_fail(err, HR_E_DECODE, "repacked JPEG has a damaged tile");
        done = d->job_count;
    }
    return 0;
}

static uint8_t *sample_row(const struct hr_rjpeg *d, const struct rj_plane *p, uint32_t y)
{
    return p->samples + (y & p->row_mask) * d->stride - p->column;
}

/* Repeats the picture's first and last sample beyond its edges, where the filter reaches there. */
static void mirror_edges(const struct hr_rjpeg *d, uint32_t c, uint8_t *row)
{
    uint32_t width = d->reach.component[c].width;

    if (d->reach.component[c].x == 0)
        row[-1] = row[0];
    if (d->reach.component[c].x_end == width)
        row[width] = row[width - 1];
}

static void repeat(const uint8_t *in, uint32_t step, uint32_t count, uint8_t *out)
{
    for (uint32_t x = 0; x < count; x++, out += step)
        memset(out, in[x], step);
}

/* Row y of the picture in component c, at full resolution: a pointer to the box's first column. */
static const uint8_t *full_row(struct hr_rjpeg *d, uint32_t c, uint32_t y)
{
    uint32_t hs = d->reach.component[c].h_step, vs = d->reach.component[c].v_step;
    uint32_t x = d->reach.component[c].x, count = d->reach.component[c].x_end - x;
    uint32_t cy = vs == 1 ? y : vs == 2 ? y / 2 : y / vs; /* division is slow */
    bool smooth_h = d->reach.component[c].smooth_h, smooth_v = d->reach.component[c].smooth_v;
    struct rj_plane *p = &d->plane[c];
    uint8_t *near = sample_row(d, p, cy), *far = near, *out = p->upsampled;

    if (hs == 1 && !smooth_v)
        return near + d->box.x;
    if (!smooth_v && p->made_row == cy)
        return out + (d->box.x - x * hs);
    if (smooth_v) {
        uint32_t other = y & 1 ? cy + 1 : cy - (cy > 0);
        far = sample_row(d, p, other < d->reach.component[c].height ? other : cy);
    }
    if (smooth_h) {
        mirror_edges(d, c, near);
        mirror_edges(d, c, far);
    }
    if (smooth_h && smooth_v)
        d->variant->both(near + x, far + x, count, out, d->sums);
    else if (smooth_h)
        d->variant->across(near + x, count, out);
    else if (smooth_v)
        d->variant->down(near + x, far + x, y & 1 ? 2 : 1, count, out);
    else
        repeat(near + x, hs, count, out);
    p->made_row = cy;
    return out + (d->box.x - x * hs);
}

static void write_rgb(struct hr_rjpeg *d, const uint8_t *const rows[3], uint8_t *rgb)
{
    if (d->components == 1)
        d->variant->interleave(rows[0], rows[0], rows[0], d->box.w, rgb);
    else if (d->info.colour == HR_RJPEG_RGB)
        d->variant->interleave(rows[0], rows[1], rows[2], d->box.w, rgb);
    else
        d->variant->ycc_to_rgb(rows[0], rows[1], rows[2], d->box.w, rgb);
}

static void give_planes(struct hr_rjpeg *d, const uint8_t *const rows[3])
{
    uint8_t *const rgb[3] = {d->pixels, d->pixels + d->pixels_stride, d->pixels + 2 * d->pixels_stride};
    const uint8_t *const converted[3] = {rgb[0], rgb[1], rgb[2]}, *const gray[3] = {rows[0], rows[0], rows[0]};

    if (d->components == 1) {
        d->sink.planes(d->sink.user, gray);
    } else if (d->info.colour == HR_RJPEG_RGB) {
        d->sink.planes(d->sink.user, rows);
    } else {
        (d->variant->ycc_to_planes ? d->variant : &rj_variant_c)
            ->ycc_to_planes(rows[0], rows[1], rows[2], d->box.w, rgb);
        d->sink.planes(d->sink.user, converted);
    }
}

/* Rare, so without kernels of its own. */
static void write_cmyk(struct hr_rjpeg *d, const uint8_t *const rows[4], uint8_t *cmyk)
{
    uint8_t rgb[3 * CMYK_STEP];

    for (uint32_t x = 0; x < d->box.w; x += CMYK_STEP) {
        uint32_t count = d->box.w - x < CMYK_STEP ? d->box.w - x : CMYK_STEP;
        if (d->info.colour == HR_RJPEG_YCCK)
            d->variant->ycc_to_rgb(rows[0] + x, rows[1] + x, rows[2] + x, count, rgb);
        for (uint32_t i = 0; i < count; i++, cmyk += 4) {
            for (uint32_t c = 0; c < 3; c++)
                cmyk[c] = d->info.colour == HR_RJPEG_YCCK ? (uint8_t)(255 - rgb[3 * i + c]) : rows[c][x + i];
            cmyk[3] = rows[3][x + i];
        }
    }
}

static void give_row(struct hr_rjpeg *d, uint32_t y)
{
    const struct hr_rjpeg_sink *sink = &d->sink;
    uint8_t *direct = sink->row || sink->planes ? NULL : sink->dst + (size_t)(y - d->box.y) * sink->stride;
    const uint8_t *rows[HR_RJPEG_COMPONENTS] = {0};

    for (uint32_t c = 0; c < d->components; c++)
        rows[c] = full_row(d, c, y);
    if (sink->planes && sink->channels == 3) {
        give_planes(d, rows);
        return;
    }
    if (sink->channels == 3)
        write_rgb(d, rows, direct ? direct : d->pixels);
    else if (sink->channels == 4)
        write_cmyk(d, rows, direct ? direct : d->pixels);
    else if (direct)
        memcpy(direct, rows[0], d->box.w);
    if (sink->row)
        sink->row(sink->user, sink->channels == 1 ? rows[0] : d->pixels);
}

void rj_give_strip(struct hr_rjpeg *d, uint32_t m)
{
    uint32_t end = (m + 1) * d->reach.mcu_height, box_end = d->box.y + d->box.h;

    if (d->reach.smooth_v && m + 1 < d->reach.mcu_row_end)
        end--;
    if (end > box_end || m + 1 == d->reach.mcu_row_end)
        end = box_end;
    for (; d->y < end; d->y++)
        give_row(d, d->y);
}

static void prepare_planes(struct hr_rjpeg *d)
{
    uint8_t *at = d->planes + RJ_GUARD;

    for (uint32_t c = 0; c < d->components; c++) {
        uint32_t size = d->reach.component[c].size;
        uint32_t need = d->info.component[c].v * size * (d->reach.smooth_v ? 2 : 1), rows = 8;
        while (rows < need)
            rows *= 2;
        d->plane[c] = (struct rj_plane){
            .samples = at,
            .row_mask = rows - 1,
            .column = d->reach.component[c].block / RJ_TILE_BLOCKS * RJ_TILE_BLOCKS * size,
            .made_row = UINT32_MAX,
            .upsampled = d->rows[c] + 64,
        };
        at += rows * d->stride;
    }
}

static void prepare_tables(struct hr_rjpeg *d, const uint8_t *head)
{
    unsigned largest = 0;

    for (uint32_t c = 0; c < d->components; c++) {
        rj_load_quantizer(&d->info, head, d->info.component[c].quantizer, d->quantizers[c]);
        for (int i = 0; d->info.quantizer_bytes == 2 && i < 64; i++)
            largest = d->quantizers[c][i] > largest ? d->quantizers[c][i] : largest;
    }
    d->blocks = largest <= d->variant->max_quantizer ? d->variant : &rj_variant_c;
    for (uint32_t c = 0; c < d->components; c++)
        d->blocks->prepare(d->quantizers[c], d->tables[c]);
}

static bool has_channels(const struct hr_rjpeg_info *info, uint32_t channels)
{
    if (info->components == 4)
        return channels == 4;
    return channels == 3 || (channels == 1 && info->colour != HR_RJPEG_RGB);
}

static int check_call(struct hr_rjpeg *d, const struct hr_rjpeg_view *view, const struct hr_rjpeg_box *box,
                      const struct hr_rjpeg_sink *sink, struct hr_error *err)
{
    int ret = hr_rjpeg_info(view->head, view->head_bytes, &d->info, err);

    if (ret < 0)
        return ret;
    if (view->head_bytes < d->info.head_bytes)
        return hr_fail(err, HR_E_TRUNCATED, "repacked JPEG's head is cut off");
    if (!has_channels(&d->info, sink->channels))
        return hr_fail(err, HR_E_FORMAT, "a repacked JPEG of %u components does not decode to %u channels",
                       d->info.components, sink->channels);
    return rj_check_box(&d->info, box, err);
}

int rj_begin_box(struct hr_rjpeg *d, const struct hr_rjpeg_box *box, const struct hr_rjpeg_sink *sink,
                 struct hr_error *err)
{
    uint32_t shrink = box->shrink ? box->shrink : 1;

    if (hr_rjpeg_reserve(d, box->w * shrink < d->info.width ? box->w * shrink : d->info.width) < 0)
        return hr_fail(err, HR_E_NOMEM, "no memory to decode a picture");
    d->box = *box;
    d->sink = *sink;
    d->components = sink->channels == 1 ? 1 : d->info.components;
    d->y = box->y;
    rj_find_reach(&d->info, box, d->components, &d->reach);
    prepare_planes(d);
    return 0;
}

int hr_rjpeg_decode(struct hr_rjpeg *d, const struct hr_rjpeg_view *view, const struct hr_rjpeg_box *box,
                    const struct hr_rjpeg_sink *sink, struct hr_error *err)
{
    int ret = check_call(d, view, box, sink, err);

    if (ret == 0)
        ret = rj_begin_box(d, box, sink, err);
    if (ret < 0)
        return ret;
    prepare_tables(d, view->head);
    rj_tiles_begin(&d->tiles, &d->info, view, d->reach.panel, d->reach.panel_end);
    for (uint32_t m = d->reach.mcu_row; m < d->reach.mcu_row_end; m++) {
        ret = decode_strip(d, m, err);
        if (ret < 0)
            return ret;
        rj_give_strip(d, m);
    }
    return 0;
}
