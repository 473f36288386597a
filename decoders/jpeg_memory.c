/* libjpeg's memory manager over a bump arena. libjpeg's rules kept: sample rows are aligned and
 * padded for its SIMD code, and block arrays are zeroed on request. Whole-picture sample arrays are
 * never asked for by a decoder without two-pass quantization. */
#include "decoders/jpeg_memory.h"

#include <string.h>

#include <jerror.h>

#include "base/mem.h"

enum { ALIGN = 64, ROW_PAD = 128, FIRST_CHUNK = 1 << 20 };

struct jvirt_barray_control {
    JBLOCKARRAY rows; /* NULL until realized */
    JDIMENSION width, height;
    boolean pre_zero;
    struct jvirt_barray_control *next;
};

static struct hr_jpeg_memory *self_of(j_common_ptr cinfo)
{
    return HR_CONTAINER_OF(cinfo->mem, struct hr_jpeg_memory, pub);
}

static bool add_chunk(struct hr_jpeg_memory *m, size_t bytes)
{
    size_t want = m->chunk_count ? m->chunks[m->chunk_count - 1].bytes : FIRST_CHUNK;

    if (m->chunk_count == HR_JPEG_MEMORY_CHUNKS)
        return false;
    if (want > m->limit - m->total)
        want = m->limit - m->total;
    if (want < bytes)
        want = bytes;
    int depth = hr_mem_steady_pause();
    uint8_t *base = hr_alloc_aligned(ALIGN, want);
    hr_mem_steady_resume(depth);
    if (!base)
        return false;
    m->chunks[m->chunk_count].base = base;
    m->chunks[m->chunk_count].bytes = want;
    m->chunk_count++;
    m->total += want;
    return true;
}

static void *take(j_common_ptr cinfo, uint64_t bytes)
{
    struct hr_jpeg_memory *m = self_of(cinfo);

    if (bytes > m->limit)
        ERREXIT1(cinfo, JERR_OUT_OF_MEMORY, 0);
    bytes = hr_align_up(bytes ? bytes : 1, ALIGN);
    while (m->current < m->chunk_count && bytes > m->chunks[m->current].bytes - m->used) {
        m->current++;
        m->used = 0;
    }
    if (m->current == m->chunk_count && (m->total + bytes > m->limit || !add_chunk(m, bytes)))
        ERREXIT1(cinfo, JERR_OUT_OF_MEMORY, 0);
    void *p = m->chunks[m->current].base + m->used;
    m->used += bytes;
    return p;
}

static void *alloc_any(j_common_ptr cinfo, int pool_id, size_t bytes)
{
    return take(cinfo, bytes);
}

static JSAMPARRAY alloc_sarray(j_common_ptr cinfo, int pool_id, JDIMENSION width, JDIMENSION rows)
{
    size_t stride = hr_align_up((uint64_t)width * sizeof(JSAMPLE), ROW_PAD);
    JSAMPARRAY array = take(cinfo, (uint64_t)rows * sizeof(*array));
    JSAMPLE *data = take(cinfo, (uint64_t)rows * stride + ROW_PAD);

    for (JDIMENSION i = 0; i < rows; i++)
        array[i] = data + i * stride;
    return array;
}

static JBLOCKARRAY alloc_barray(j_common_ptr cinfo, int pool_id, JDIMENSION width, JDIMENSION rows)
{
    JBLOCKARRAY array = take(cinfo, (uint64_t)rows * sizeof(*array));
    JBLOCK *data = take(cinfo, (uint64_t)rows * width * sizeof(JBLOCK));

    for (JDIMENSION i = 0; i < rows; i++)
        array[i] = data + (size_t)i * width;
    return array;
}

static jvirt_sarray_ptr request_sarray(j_common_ptr cinfo, int pool_id, boolean pre_zero,
                                       JDIMENSION width, JDIMENSION rows, JDIMENSION max_access)
{
    ERREXIT(cinfo, JERR_NOT_COMPILED);
    return NULL;
}

static JSAMPARRAY access_sarray(j_common_ptr cinfo, jvirt_sarray_ptr array, JDIMENSION first,
                                JDIMENSION rows, boolean writable)
{
    ERREXIT(cinfo, JERR_BAD_VIRTUAL_ACCESS);
    return NULL;
}

static jvirt_barray_ptr request_barray(j_common_ptr cinfo, int pool_id, boolean pre_zero,
                                       JDIMENSION width, JDIMENSION rows, JDIMENSION max_access)
{
    struct hr_jpeg_memory *m = self_of(cinfo);
    jvirt_barray_ptr array = take(cinfo, sizeof(*array));

    *array = (struct jvirt_barray_control){
        .width = width, .height = rows, .pre_zero = pre_zero, .next = m->block_arrays};
    m->block_arrays = array;
    return array;
}

static void realize(j_common_ptr cinfo)
{
    for (jvirt_barray_ptr a = self_of(cinfo)->block_arrays; a; a = a->next) {
        if (a->rows)
            continue;
        a->rows = alloc_barray(cinfo, JPOOL_IMAGE, a->width, a->height);
        if (a->pre_zero && a->height)
            memset(a->rows[0], 0, (size_t)a->width * a->height * sizeof(JBLOCK));
    }
}

static JBLOCKARRAY access_barray(j_common_ptr cinfo, jvirt_barray_ptr array, JDIMENSION first,
                                 JDIMENSION rows, boolean writable)
{
    if (!array->rows || rows > array->height || first > array->height - rows)
        ERREXIT(cinfo, JERR_BAD_VIRTUAL_ACCESS);
    return array->rows + first;
}

/* The chunks of a picture far larger than most go back; what is kept serves the usual ones. */
static void free_pool(j_common_ptr cinfo, int pool_id)
{
    struct hr_jpeg_memory *m = self_of(cinfo);

    while (m->chunk_count > 1 && m->total > HR_JPEG_MEMORY_KEEP) {
        m->chunk_count--;
        m->total -= m->chunks[m->chunk_count].bytes;
        hr_free(m->chunks[m->chunk_count].base);
    }
    m->current = 0;
    m->used = 0;
    m->block_arrays = NULL;
}

static void self_destruct(j_common_ptr cinfo)
{
}

int hr_jpeg_memory_attach(struct hr_jpeg_memory *memory, j_decompress_ptr cinfo,
                          size_t reserve_bytes, uint64_t limit)
{
    *memory = (struct hr_jpeg_memory){
        .pub = {.alloc_small = alloc_any,
                .alloc_large = alloc_any,
                .alloc_sarray = alloc_sarray,
                .alloc_barray = alloc_barray,
                .request_virt_sarray = request_sarray,
                .request_virt_barray = request_barray,
                .realize_virt_arrays = realize,
                .access_virt_sarray = access_sarray,
                .access_virt_barray = access_barray,
                .free_pool = free_pool,
                .self_destruct = self_destruct,
                .max_memory_to_use = cinfo->mem->max_memory_to_use,
                .max_alloc_chunk = cinfo->mem->max_alloc_chunk},
        .library = cinfo->mem,
        .limit = limit,
    };
    if (!add_chunk(memory, reserve_bytes))
        return HR_E_NOMEM;
    cinfo->mem = &memory->pub;
    return 0;
}

void hr_jpeg_memory_detach(struct hr_jpeg_memory *memory, j_decompress_ptr cinfo)
{
    if (!memory->library)
        return;
    cinfo->mem = memory->library;
    for (int i = 0; i < memory->chunk_count; i++)
        hr_free(memory->chunks[i].base);
    *memory = (struct hr_jpeg_memory){0};
}
