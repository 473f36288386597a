/* What `headrace pack` was told. */
#ifndef HR_PACK_OPTIONS_H
#define HR_PACK_OPTIONS_H

#include "tools/cli.h"

enum hr_pack_jpeg { HR_PACK_JPEG_REPACK, HR_PACK_JPEG_KEEP };
enum hr_pack_png { HR_PACK_PNG_KEEP, HR_PACK_PNG_REPACK };
enum hr_pack_store { HR_PACK_STORE_FILES, HR_PACK_STORE_RAW };

enum { HR_PACK_QUALITY = 90 }; /* of JPEG files made here, when none is given */

struct hr_pack_options {
    struct hr_cli cli;
    int from; /* 0 = guess, else 1 + index of the source kind */
    uint64_t shard_bytes;
    int64_t jobs; /* 0 = as many as this process may use */
    int64_t limit; /* records, 0 = all */
    bool resume, append, strict, dry_run, verify_media;
    bool follow_symlinks, allow_outside;
    int jpeg;  /* enum hr_pack_jpeg */
    int png;   /* enum hr_pack_png */
    int store; /* enum hr_pack_store */
    int64_t resize_short, max_side, quality; /* 0 = not given */
    const char *root;           /* tree that embedded paths may lie in; NULL = the JSONL's folder */
    struct hr_cli_list compress; /* FIELD=CODEC */
    struct hr_cli_list embed;    /* KEY or KEY=TYPE */
    struct hr_cli_list types;    /* KEY=TYPE */
};

#endif
