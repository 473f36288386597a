/* Hashes. A value's checksum is the low 32 bits of XXH3-64 (seed 0): as fast as memory on every
 * CPU without a special instruction, where CRC32C would need one; 4 bytes keep the index small, and
 * a damaged value passes once in 2^32. Digests are XXH3-128: they name versions and guard against
 * accident, not against an attacker. */
#ifndef HR_BASE_HASH_H
#define HR_BASE_HASH_H

#include "base/base.h"

uint32_t hr_checksum(const void *data, size_t bytes);
uint64_t hr_hash64(const void *data, size_t bytes, uint64_t seed);

struct hr_digest {
    uint8_t bytes[16]; /* XXH3-128, canonical (big-endian) order */
};

#define HR_DIGEST_HEX_BYTES 33 /* 32 digits and the NUL */

struct hr_digest hr_digest_of(const void *data, size_t bytes);
bool hr_digest_equal(const struct hr_digest *a, const struct hr_digest *b);
/* Lower-case hex, NUL-terminated; returns hex. */
const char *hr_digest_hex(const struct hr_digest *digest, char hex[HR_DIGEST_HEX_BYTES]);
/* False when the text is not exactly 32 hex digits. */
bool hr_digest_parse(const char *hex, struct hr_digest *digest);

/* Streaming digest. */
struct hr_hasher;
struct hr_hasher *hr_hasher_create(void) HR_MUST_CHECK; /* NULL = out of memory */
void hr_hasher_update(struct hr_hasher *hasher, const void *data, size_t bytes);
void hr_hasher_update_u64(struct hr_hasher *hasher, uint64_t v); /* as 8 little-endian bytes */
void hr_hasher_update_str(struct hr_hasher *hasher, const char *s); /* length as u64, then bytes */
struct hr_digest hr_hasher_digest(const struct hr_hasher *hasher);
void hr_hasher_destroy(struct hr_hasher *hasher);

#endif
