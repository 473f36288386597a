/* What a manifest's file begins and ends with (internal to manifest.c and manifest_write.c). */
#ifndef HR_SHARDS_MANIFEST_PARTS_H
#define HR_SHARDS_MANIFEST_PARTS_H

#include "manifest.pb-c.h"

#define HR_MANIFEST_MAGIC "\x89HRM\r\n\x1a\n"

enum {
    HR_MANIFEST_FORMAT = 1,
    HR_MANIFEST_HEAD_BYTES = 8,  /* the magic */
    HR_MANIFEST_TAIL_BYTES = 16, /* the message's length, the checksum of all before it */
    HR_MANIFEST_MAX_BYTES = 1 << 30,
};

#endif
