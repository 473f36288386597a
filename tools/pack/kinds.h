/* What file names promise: the type of value that a suffix stands for. A promise only: content
 * decides when a value is loaded. */
#ifndef HR_PACK_KINDS_H
#define HR_PACK_KINDS_H

#include "base/types.h"

struct hr_kind {
    const char *suffix;           /* lower case, without the dot */
    enum hr_field_type type;
    enum hr_media_format format;  /* UNKNOWN: not one of ours, or several */
    const char *field;            /* name of a field that holds such files */
};

/* By the last suffix of a name, in any case; NULL when it is none of those known. */
const struct hr_kind *hr_kind_of_name(const char *name);

/* The type that content and name together suggest: the name's if it is known, else what the first
 * bytes are; BYTES when neither says. */
enum hr_field_type hr_kind_sniff_file(const char *path);

/* "picture", "recording", "clip" … for messages. */
const char *hr_kind_noun(enum hr_field_type type);

/* A field name from any text: bytes that names may not have become '_', a digit in front gets a '_'.
 * False when nothing is left or it is too long. */
bool hr_kind_field_name(const char *text, size_t bytes, char name[HR_NAME_BYTES]);

/* Text for keys and class names: bytes that are not UTF-8, and control characters, become \xHH.
 * Always terminated; longer text is cut. */
void hr_kind_printable(const char *text, char *out, size_t out_bytes);

#endif
