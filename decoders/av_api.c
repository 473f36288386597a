/* Loads FFmpeg's five libraries and fills the table of its functions, once. What FFmpeg would print is
 * kept instead: its last complaint becomes the reason in an error. */
#include "decoders/av_api.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

struct hr_av_api hr_av;

enum library { UTIL, CODEC, FORMAT, RESAMPLE, SCALE, LIBRARIES };

#define TEXT_OF(x)  TEXT_OF_(x)
#define TEXT_OF_(x) #x
#define LIBRARY(name, major) {"lib" name ".so." TEXT_OF(major), "lib" name TEXT_OF(major)}

static const struct {
    const char *file, *package;
} libraries[LIBRARIES] = {
    [UTIL] = LIBRARY("avutil", LIBAVUTIL_VERSION_MAJOR),
    [CODEC] = LIBRARY("avcodec", LIBAVCODEC_VERSION_MAJOR),
    [FORMAT] = LIBRARY("avformat", LIBAVFORMAT_VERSION_MAJOR),
    [RESAMPLE] = LIBRARY("swresample", LIBSWRESAMPLE_VERSION_MAJOR),
    [SCALE] = LIBRARY("swscale", LIBSWSCALE_VERSION_MAJOR),
};

static const struct {
    enum library library;
    const char *name;
    size_t at; /* of the pointer in struct hr_av_api */
} functions[] = {
#define FUNCTION(library, function) {library, #function, offsetof(struct hr_av_api, function)},
    HR_AV_FUNCTIONS(FUNCTION)
#undef FUNCTION
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct hr_error failure = HR_ERROR_INIT; /* of the one attempt; constant after it */

/* ---- FFmpeg's messages ---- */

static _Thread_local char last_message[160];

static void keep_message(void *avcl, int level, const char *fmt, va_list args)
{
    if (level > AV_LOG_ERROR)
        return;
    vsnprintf(last_message, sizeof(last_message), fmt, args);
    last_message[strcspn(last_message, "\r\n")] = 0;
    size_t n = strlen(last_message);
    if (n && last_message[n - 1] == '.')
        last_message[n - 1] = 0;
}

void hr_av_forget(void)
{
    last_message[0] = 0;
}

const char *hr_av_message(void)
{
    return last_message;
}

const char *hr_av_reason(int averror)
{
    if (!last_message[0])
        hr_av.av_strerror(averror, last_message, sizeof(last_message));
    return last_message;
}

/* ---- loading ---- */

static int fail_missing(const char *what, enum library library)
{
    hr_fail(&failure, HR_E_UNSUPPORTED, "FFmpeg cannot be loaded: %s", what);
    hr_error_hint(&failure, "install the package '%s'", libraries[library].package);
    return HR_E_UNSUPPORTED;
}

static int open_libraries(void *handles[LIBRARIES])
{
    for (int i = 0; i < LIBRARIES; i++) {
        handles[i] = dlopen(libraries[i].file, RTLD_LAZY | RTLD_LOCAL);
        if (!handles[i]) {
            const char *text = dlerror();
            return fail_missing(text ? text : libraries[i].file, (enum library)i);
        }
    }
    return 0;
}

static int find_functions(void *const handles[LIBRARIES])
{
    struct hr_av_api api;

    for (size_t i = 0; i < HR_ARRAY_SIZE(functions); i++) {
        void *function = dlsym(handles[functions[i].library], functions[i].name);
        if (!function) {
            char what[128];
            snprintf(what, sizeof(what), "%s has no %s: it is older than the one Headrace was built with",
                     libraries[functions[i].library].file, functions[i].name);
            return fail_missing(what, functions[i].library);
        }
        memcpy((char *)&api + functions[i].at, &function, sizeof(function));
    }
    hr_av = api;
    return 0;
}

/* The libraries stay for the life of the process. */
static void load(void)
{
    void *handles[LIBRARIES];

    if (open_libraries(handles) < 0 || find_functions(handles) < 0)
        return;
    hr_av.av_log_set_callback(keep_message);
    hr_av.av_max_alloc((size_t)1 << 30);
}

int hr_av_load(struct hr_error *err)
{
    pthread_once(&once, load);
    if (failure.code && err)
        *err = failure;
    return failure.code;
}

int hr_av_prepare(AVPacket **packet, AVFrame **frame, struct hr_error *err)
{
    int ret = *frame ? 0 : hr_av_load(err);

    if (ret < 0)
        return ret;
    if (!*packet)
        *packet = hr_av.av_packet_alloc();
    if (!*frame)
        *frame = hr_av.av_frame_alloc();
    return *packet && *frame ? 0 : hr_fail(err, HR_E_NOMEM, "no memory for a decoder");
}
