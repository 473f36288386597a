/* The codec libraries that this binary runs with. */
#include <stdio.h>
#include <string.h>

#include <jpeglib.h>
#include <spng.h>
#include <webp/decode.h>

#include "decoders/av_api.h"
#include "tools/doctor/checks.h"

#define TEXT_OF(x)  TEXT_OF_(x)
#define TEXT_OF_(x) #x

#ifdef LIBJPEG_TURBO_VERSION
static const char jpeg_version[] = "libjpeg-turbo " TEXT_OF(LIBJPEG_TURBO_VERSION);
#else
static const char jpeg_version[] = "libjpeg " TEXT_OF(JPEG_LIB_VERSION);
#endif

void hr_doctor_images(struct hr_doctor_row *row, const char *path)
{
    int v = WebPGetDecoderVersion();
    char webp[32];

    snprintf(webp, sizeof(webp), "%d.%d.%d", v >> 16 & 255, v >> 8 & 255, v & 255);
    hr_json_str(&row->facts, "jpeg", jpeg_version);
    hr_json_str(&row->facts, "spng", spng_version_string());
    hr_json_str(&row->facts, "webp", webp);
    hr_doctor_say(row, HR_DOCTOR_OK, "%s, spng %s, webp %s", jpeg_version, spng_version_string(),
                  webp);
}

static const struct {
    const char *name;
    enum AVCodecID id;
} wanted[] = {
    {"h264", AV_CODEC_ID_H264},     {"hevc", AV_CODEC_ID_HEVC}, {"av1", AV_CODEC_ID_AV1},
    {"vp9", AV_CODEC_ID_VP9},       {"vp8", AV_CODEC_ID_VP8},   {"mpeg4", AV_CODEC_ID_MPEG4},
    {"mjpeg", AV_CODEC_ID_MJPEG},   {"aac", AV_CODEC_ID_AAC},   {"mp3", AV_CODEC_ID_MP3},
    {"opus", AV_CODEC_ID_OPUS},     {"flac", AV_CODEC_ID_FLAC}, {"vorbis", AV_CODEC_ID_VORBIS},
    {"pcm", AV_CODEC_ID_PCM_S16LE},
};

/* The decoder named "av1" only drives hardware; libdav1d and libaom decode. */
static bool has_decoder(enum AVCodecID id)
{
    const AVCodec *codec = hr_av.avcodec_find_decoder(id);

    return codec && (id != AV_CODEC_ID_AV1 || strcmp(codec->name, "av1") != 0);
}

void hr_doctor_av(struct hr_doctor_row *row, const char *path)
{
    struct hr_error err = HR_ERROR_INIT;

    if (hr_av_load(&err) < 0) {
        hr_doctor_say(row, HR_DOCTOR_WARN, "%s", err.text);
        hr_doctor_fix(row, "%s, if your data is audio or video", err.hint);
        return;
    }
    unsigned v = hr_av.avcodec_version();
    char there[160] = "", missing[160] = "", version[32];

    snprintf(version, sizeof(version), "%u.%u.%u", v >> 16, v >> 8 & 255, v & 255);
    hr_json_str(&row->facts, "libavcodec", version);
    hr_json_open(&row->facts, "decoders", '{');
    for (size_t i = 0; i < HR_ARRAY_SIZE(wanted); i++) {
        bool has = has_decoder(wanted[i].id);
        char *list = has ? there : missing;
        size_t used = strlen(list);
        snprintf(list + used, sizeof(there) - used, " %s", wanted[i].name);
        hr_json_bool(&row->facts, wanted[i].name, has);
    }
    hr_json_close(&row->facts, '}');
    hr_doctor_say(row, missing[0] ? HR_DOCTOR_WARN : HR_DOCTOR_OK, "libavcodec %s:%s%s%s", version,
                  there, missing[0] ? "; missing:" : "", missing);
    if (missing[0])
        hr_doctor_fix(row, "an FFmpeg with these decoders (Debian's libavcodec has them), if your "
                           "data needs them");
}
