/* Records made of several files with the same stem: `x.jpg`, `x.txt`, `x.cls` are the fields image,
 * text and label of record x. Folders of pairs and WebDataset tars are both this; they differ only in
 * where a file's bytes are. */
#ifndef HR_PACK_GROUPS_H
#define HR_PACK_GROUPS_H

#include "tools/pack/source.h"

/* One suffix as it is written, and the field it stands for. */
struct hr_suffix {
    char text[HR_NAME_BYTES];
    uint32_t field;
};

struct hr_member {
    uint64_t off, bytes; /* tar: place of the bytes */
    uint32_t file;       /* tar: which one */
    uint32_t suffix;
};

struct hr_group {
    char *key; /* as in the source: the record's key is its printable form */
    uint64_t first, bytes;
    uint32_t count;
};

struct hr_groups {
    struct hr_group *items;
    uint64_t count, cap;
    struct hr_member *members;
    uint64_t member_count, member_cap;
    struct hr_suffix *suffixes;
    uint32_t suffix_count;
    uint64_t suffix_cap;
};

/* Adds a file to the last group when the key is the same, else to a new one. suffix is what follows
 * the key and a dot. Two files for one field: HR_E_CONFIG that names both. */
int hr_groups_add(struct hr_groups *groups, struct hr_schema *schema, const char *key,
                  size_t key_bytes, const char *suffix, const struct hr_member *place,
                  struct hr_error *err) HR_MUST_CHECK;
void hr_groups_finish(struct hr_groups *groups);

/* Loads record i: its key, then each of its files by load, which gives the file's bytes to the record. */
int hr_groups_load(const struct hr_groups *groups, uint64_t i,
                   int (*load)(const void *source, const struct hr_group *group,
                               const struct hr_member *member, struct hr_pack_record *record,
                               struct hr_error *err),
                   const void *source, struct hr_pack_record *record,
                   struct hr_error *err) HR_MUST_CHECK;

#endif
