/* The yardstick: how fast one core decodes JPEG files in full with libjpeg-turbo, doing nothing else. The
 * files are read into memory first. Prints pictures a second, one line a round.
 *
 * usage: decode_only ROUNDS FILE... */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <jpeglib.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"

struct file {
    void *data;
    size_t bytes;
};

struct trap {
    struct jpeg_error_mgr base;
    jmp_buf jump;
};

static void on_error(j_common_ptr cinfo)
{
    longjmp(((struct trap *)cinfo->err)->jump, 1);
}

static void on_message(j_common_ptr cinfo)
{
}

/* Decodes one file; false when it is none that libjpeg reads. */
static bool decode(const struct file *file, uint8_t **pixels, size_t *room)
{
    struct jpeg_decompress_struct cinfo;
    struct trap trap;

    cinfo.err = jpeg_std_error(&trap.base);
    trap.base.error_exit = on_error;
    trap.base.output_message = on_message;
    jpeg_create_decompress(&cinfo);
    if (setjmp(trap.jump)) {
        jpeg_destroy_decompress(&cinfo);
        return false;
    }
    jpeg_mem_src(&cinfo, file->data, file->bytes);
    jpeg_read_header(&cinfo, TRUE);
    jpeg_start_decompress(&cinfo);
    size_t stride = (size_t)cinfo.output_width * (size_t)cinfo.output_components;
    if (stride * cinfo.output_height > *room) {
        *room = stride * cinfo.output_height;
        hr_free(*pixels);
        *pixels = hr_alloc(*room);
    }
    while (*pixels && cinfo.output_scanline < cinfo.output_height) {
        JSAMPROW row = *pixels + stride * cinfo.output_scanline;
        jpeg_read_scanlines(&cinfo, &row, 1);
    }
    jpeg_finish_decompress(&cinfo);
    jpeg_destroy_decompress(&cinfo);
    return true;
}

int main(int argc, char **argv)
{
    int rounds = argc > 2 ? atoi(argv[1]) : 0, count = 0;
    struct hr_error err;
    uint8_t *pixels = NULL;
    size_t room = 0;

    if (rounds < 1) {
        fprintf(stderr, "usage: decode_only ROUNDS FILE...\n");
        return 2;
    }
    struct file *files = hr_alloc_zero((size_t)argc, sizeof(*files));
    for (int i = 2; files && i < argc; i++) {
        if (hr_fd_read_file(argv[i], 1 << 30, &files[count].data, &files[count].bytes, &err) == 0 &&
            decode(&files[count], &pixels, &room))
            count++;
    }
    for (int round = 0; round < rounds && count; round++) {
        uint64_t t0 = hr_clock_ns();
        for (int i = 0; i < count; i++)
            decode(&files[i], &pixels, &room);
        printf("%.1f\n", count * 1e9 / (double)(hr_clock_ns() - t0));
        fflush(stdout);
    }
    return count ? 0 : 1;
}
