/* XXH3 through xxHash's header, so that it is compiled for the CPU level at hand and nothing is
 * linked. */
#include "base/hash.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/mem.h"

struct hr_hasher {
    XXH3_state_t state;
};

uint64_t hr_hash64(const void *data, size_t bytes, uint64_t seed)
{
    return XXH3_64bits_withSeed(data, bytes, seed);
}

static struct hr_digest canonical(XXH128_hash_t hash)
{
    XXH128_canonical_t c;
    struct hr_digest digest;

    XXH128_canonicalFromHash(&c, hash);
    memcpy(digest.bytes, c.digest, sizeof(digest.bytes));
    return digest;
}

struct hr_digest hr_digest_of(const void *data, size_t bytes)
{
    return canonical(XXH3_128bits(data, bytes));
}

bool hr_digest_equal(const struct hr_digest *a, const struct hr_digest *b)
{
    return memcmp(a->bytes, b->bytes, sizeof(a->bytes)) == 0;
}

const char *hr_digest_hex(const struct hr_digest *digest, char hex[HR_DIGEST_HEX_BYTES])
{
    static const char digits[] = "0123456789abcdef";

    for (int i = 0; i < 16; i++) {
        hex[2 * i] = digits[digest->bytes[i] >> 4];
        hex[2 * i + 1] = digits[digest->bytes[i] & 15];
    }
    hex[32] = 0;
    return hex;
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

bool hr_digest_parse(const char *hex, struct hr_digest *digest)
{
    struct hr_digest out;

    for (int i = 0; i < 16; i++) {
        int hi = hex_value(hex[2 * i]);
        int lo = hi < 0 ? -1 : hex_value(hex[2 * i + 1]);
        if (lo < 0)
            return false;
        out.bytes[i] = (uint8_t)(hi << 4 | lo);
    }
    if (hex[32])
        return false;
    *digest = out;
    return true;
}

struct hr_hasher *hr_hasher_create(void)
{
    struct hr_hasher *hasher = hr_alloc_aligned(HR_CACHE_LINE, sizeof(*hasher));

    if (hasher)
        XXH3_128bits_reset(&hasher->state);
    return hasher;
}

void hr_hasher_update(struct hr_hasher *hasher, const void *data, size_t bytes)
{
    XXH3_128bits_update(&hasher->state, data, bytes);
}

void hr_hasher_update_u64(struct hr_hasher *hasher, uint64_t v)
{
    uint8_t b[8];

    hr_store_le64(b, v);
    hr_hasher_update(hasher, b, sizeof(b));
}

void hr_hasher_update_str(struct hr_hasher *hasher, const char *s)
{
    size_t n = strlen(s);

    hr_hasher_update_u64(hasher, n);
    hr_hasher_update(hasher, s, n);
}

struct hr_digest hr_hasher_digest(const struct hr_hasher *hasher)
{
    return canonical(XXH3_128bits_digest(&hasher->state));
}

void hr_hasher_destroy(struct hr_hasher *hasher)
{
    hr_free(hasher);
}
