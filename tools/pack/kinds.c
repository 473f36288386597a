/* The table of suffixes. */
#include "tools/pack/kinds.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "decoders/chain.h"

static const struct hr_kind kinds[] = {
    {"jpg", HR_FIELD_IMAGE, HR_MEDIA_JPEG, "image"},
    {"jpeg", HR_FIELD_IMAGE, HR_MEDIA_JPEG, "image"},
    {"jpe", HR_FIELD_IMAGE, HR_MEDIA_JPEG, "image"},
    {"jfif", HR_FIELD_IMAGE, HR_MEDIA_JPEG, "image"},
    {"png", HR_FIELD_IMAGE, HR_MEDIA_PNG, "image"},
    {"webp", HR_FIELD_IMAGE, HR_MEDIA_WEBP, "image"},
    {"gif", HR_FIELD_IMAGE, HR_MEDIA_GIF, "image"},
    {"bmp", HR_FIELD_IMAGE, HR_MEDIA_BMP, "image"},
    {"tif", HR_FIELD_IMAGE, HR_MEDIA_TIFF, "image"},
    {"tiff", HR_FIELD_IMAGE, HR_MEDIA_TIFF, "image"},
    {"avif", HR_FIELD_IMAGE, HR_MEDIA_AVIF, "image"},
    {"wav", HR_FIELD_AUDIO, HR_MEDIA_WAV, "audio"},
    {"flac", HR_FIELD_AUDIO, HR_MEDIA_FLAC, "audio"},
    {"mp3", HR_FIELD_AUDIO, HR_MEDIA_MP3, "audio"},
    {"ogg", HR_FIELD_AUDIO, HR_MEDIA_OGG, "audio"},
    {"oga", HR_FIELD_AUDIO, HR_MEDIA_OGG, "audio"},
    {"opus", HR_FIELD_AUDIO, HR_MEDIA_OGG, "audio"},
    {"aac", HR_FIELD_AUDIO, HR_MEDIA_ADTS, "audio"},
    {"m4a", HR_FIELD_AUDIO, HR_MEDIA_MP4, "audio"},
    {"mka", HR_FIELD_AUDIO, HR_MEDIA_MATROSKA, "audio"},
    {"aif", HR_FIELD_AUDIO, HR_MEDIA_UNKNOWN, "audio"},
    {"aiff", HR_FIELD_AUDIO, HR_MEDIA_UNKNOWN, "audio"},
    {"wma", HR_FIELD_AUDIO, HR_MEDIA_UNKNOWN, "audio"},
    {"mp4", HR_FIELD_VIDEO, HR_MEDIA_MP4, "video"},
    {"m4v", HR_FIELD_VIDEO, HR_MEDIA_MP4, "video"},
    {"mov", HR_FIELD_VIDEO, HR_MEDIA_MP4, "video"},
    {"3gp", HR_FIELD_VIDEO, HR_MEDIA_MP4, "video"},
    {"mkv", HR_FIELD_VIDEO, HR_MEDIA_MATROSKA, "video"},
    {"webm", HR_FIELD_VIDEO, HR_MEDIA_MATROSKA, "video"},
    {"avi", HR_FIELD_VIDEO, HR_MEDIA_AVI, "video"},
    {"ts", HR_FIELD_VIDEO, HR_MEDIA_MPEGTS, "video"},
    {"mts", HR_FIELD_VIDEO, HR_MEDIA_MPEGTS, "video"},
    {"mpg", HR_FIELD_VIDEO, HR_MEDIA_UNKNOWN, "video"},
    {"mpeg", HR_FIELD_VIDEO, HR_MEDIA_UNKNOWN, "video"},
    {"ogv", HR_FIELD_VIDEO, HR_MEDIA_OGG, "video"},
    {"flv", HR_FIELD_VIDEO, HR_MEDIA_UNKNOWN, "video"},
    {"wmv", HR_FIELD_VIDEO, HR_MEDIA_UNKNOWN, "video"},
    {"txt", HR_FIELD_TEXT, HR_MEDIA_UNKNOWN, "text"},
    {"text", HR_FIELD_TEXT, HR_MEDIA_UNKNOWN, "text"},
    {"caption", HR_FIELD_TEXT, HR_MEDIA_UNKNOWN, "caption"},
    {"transcript", HR_FIELD_TEXT, HR_MEDIA_UNKNOWN, "transcript"},
    {"json", HR_FIELD_JSON, HR_MEDIA_UNKNOWN, "json"},
    {"npy", HR_FIELD_TENSOR, HR_MEDIA_UNKNOWN, "tensor"},
    {"cls", HR_FIELD_I64, HR_MEDIA_UNKNOWN, "label"},
    {"cls2", HR_FIELD_I64, HR_MEDIA_UNKNOWN, "label2"},
    {"class", HR_FIELD_I64, HR_MEDIA_UNKNOWN, "label"},
    {"id", HR_FIELD_I64, HR_MEDIA_UNKNOWN, "id"},
    {"index", HR_FIELD_I64, HR_MEDIA_UNKNOWN, "index"},
    {"inx", HR_FIELD_I64, HR_MEDIA_UNKNOWN, "inx"},
    {"count", HR_FIELD_I64, HR_MEDIA_UNKNOWN, "count"},
};

const struct hr_kind *hr_kind_of_name(const char *name)
{
    const char *slash = strrchr(name, '/');
    const char *dot = strrchr(slash ? slash : name, '.');

    for (size_t i = 0; dot && i < HR_ARRAY_SIZE(kinds); i++)
        if (strcasecmp(dot + 1, kinds[i].suffix) == 0)
            return &kinds[i];
    return NULL;
}

enum hr_field_type hr_kind_sniff_file(const char *path)
{
    const struct hr_kind *kind = hr_kind_of_name(path);
    uint8_t head[4096];

    if (kind)
        return kind->type;
    int fd = hr_fd_open(path, O_RDONLY | O_NONBLOCK, 0, NULL);
    if (fd < 0)
        return HR_FIELD_BYTES;
    ssize_t n = pread(fd, head, sizeof(head), 0);
    hr_fd_close(&fd);
    enum hr_field_type type =
        n > 0 ? hr_media_format_type(hr_media_sniff(head, (size_t)n)) : HR_FIELD_NONE;
    return type == HR_FIELD_NONE ? HR_FIELD_BYTES : type;
}

const char *hr_kind_noun(enum hr_field_type type)
{
    switch (type) {
    case HR_FIELD_IMAGE:
        return "a picture";
    case HR_FIELD_AUDIO:
        return "a recording";
    case HR_FIELD_VIDEO:
        return "a clip";
    case HR_FIELD_TEXT:
        return "text";
    case HR_FIELD_TENSOR:
        return "an array";
    default:
        return "data";
    }
}

static bool name_byte(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           c == '_' || c == '.' || c == '-';
}

bool hr_kind_field_name(const char *text, size_t bytes, char name[HR_NAME_BYTES])
{
    size_t n = 0;

    if (bytes == 0)
        return false;
    if (!((text[0] >= 'a' && text[0] <= 'z') || (text[0] >= 'A' && text[0] <= 'Z') ||
          text[0] == '_') && name_byte(text[0]))
        name[n++] = '_';
    if (n + bytes >= HR_NAME_BYTES)
        return false;
    for (size_t i = 0; i < bytes; i++)
        name[n++] = name_byte(text[i]) ? text[i] : '_';
    name[n] = 0;
    return true;
}

void hr_kind_printable(const char *text, char *out, size_t out_bytes)
{
    size_t left = strlen(text), o = 0;

    while (left) {
        size_t good = hr_utf8_valid_prefix(text, left), n = 0;
        while (n < good && (uint8_t)text[n] >= 0x20 && text[n] != 0x7f)
            n++;
        if (n) {
            if (o + n >= out_bytes)
                n = hr_utf8_valid_prefix(text, out_bytes - 1 - o);
            if (n == 0)
                break;
            memcpy(out + o, text, n);
            o += n;
        } else {
            if (o + 4 >= out_bytes)
                break;
            o += (size_t)snprintf(out + o, out_bytes - o, "\\x%02X", (uint8_t)text[0]);
            n = 1;
        }
        text += n;
        left -= n;
    }
    out[o] = 0;
}
