/* The .npy header: a magic, a version, a length, and a dict with the three keys descr,
 * fortran_order and shape, as NumPy itself writes it. */
#include "tools/pack/npy.h"

#include <inttypes.h>
#include <string.h>

enum { MAX_HEADER = 65535 };

static const struct {
    const char *descr;
    enum hr_dtype dtype;
} descrs[] = {
    {"|u1", HR_DTYPE_U8},   {"|i1", HR_DTYPE_I8},   {"<u2", HR_DTYPE_U16}, {"<i2", HR_DTYPE_I16},
    {"<u4", HR_DTYPE_U32},  {"<i4", HR_DTYPE_I32},  {"<u8", HR_DTYPE_U64}, {"<i8", HR_DTYPE_I64},
    {"<f2", HR_DTYPE_F16},  {"<f4", HR_DTYPE_F32},  {"<f8", HR_DTYPE_F64}, {"|b1", HR_DTYPE_BOOL},
};

struct cursor {
    const char *at, *end;
};

static void skip_space(struct cursor *c)
{
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\n'))
        c->at++;
}

static bool take(struct cursor *c, const char *word)
{
    size_t n = strlen(word);

    skip_space(c);
    if ((size_t)(c->end - c->at) < n || memcmp(c->at, word, n) != 0)
        return false;
    c->at += n;
    return true;
}

/* 'text' or "text" */
static bool take_string(struct cursor *c, char *out, size_t out_bytes)
{
    skip_space(c);
    if (c->at == c->end || (*c->at != '\'' && *c->at != '"'))
        return false;
    char quote = *c->at++;
    size_t n = 0;
    while (c->at < c->end && *c->at != quote && n + 1 < out_bytes)
        out[n++] = *c->at++;
    out[n] = 0;
    return c->at < c->end && *c->at++ == quote;
}

static bool take_u64(struct cursor *c, uint64_t *v)
{
    skip_space(c);
    if (c->at == c->end || *c->at < '0' || *c->at > '9')
        return false;
    for (*v = 0; c->at < c->end && *c->at >= '0' && *c->at <= '9'; c->at++)
        if (!hr_mul_u64(*v, 10, v) || !hr_add_u64(*v, (uint64_t)(*c->at - '0'), v))
            return false;
    return true;
}

static int bad_header(struct hr_error *err, const char *what)
{
    return hr_fail(err, HR_E_FORMAT, "the .npy header's %s is not as NumPy writes it", what);
}

static int parse_descr(struct cursor *c, struct hr_npy *npy, struct hr_error *err)
{
    char descr[32];

    if (!take_string(c, descr, sizeof(descr)))
        return hr_fail(err, HR_E_FORMAT, "arrays of records or objects are not taken");
    for (size_t i = 0; i < HR_ARRAY_SIZE(descrs); i++) {
        if (strcmp(descrs[i].descr, descr) == 0) {
            npy->dtype = descrs[i].dtype;
            return 0;
        }
    }
    hr_fail(err, HR_E_FORMAT, "array of dtype '%s'", descr);
    hr_error_hint(err, descr[0] == '>' ? "convert it: a.astype(a.dtype.newbyteorder('<'))"
                                       : "convert it, for example to float32: a.astype('float32')");
    return err->code;
}

static int parse_order(struct cursor *c, struct hr_error *err)
{
    if (take(c, "False"))
        return 0;
    if (!take(c, "True"))
        return bad_header(err, "fortran_order");
    hr_fail(err, HR_E_FORMAT, "array in Fortran order");
    hr_error_hint(err, "save it in C order: numpy.save(f, numpy.ascontiguousarray(a))");
    return err->code;
}

static int parse_shape(struct cursor *c, struct hr_npy *npy, struct hr_error *err)
{
    if (!take(c, "("))
        return bad_header(err, "shape");
    while (!take(c, ")")) {
        if (npy->dims == HR_MAX_DIMS)
            return hr_fail(err, HR_E_LIMIT, "array of more than %d dimensions", HR_MAX_DIMS);
        if (!take_u64(c, &npy->shape[npy->dims]))
            return bad_header(err, "shape");
        npy->dims++;
        if (!take(c, ",") && !(c->at < c->end && *c->at == ')'))
            return bad_header(err, "shape");
    }
    return 0;
}

static int parse_dict(struct cursor *c, struct hr_npy *npy, struct hr_error *err)
{
    static const char *const keys[] = {"descr", "fortran_order", "shape"};
    unsigned seen = 0;
    char key[32];

    if (!take(c, "{"))
        return bad_header(err, "dict");
    while (!take(c, "}")) {
        unsigned k = 0;
        if (!take_string(c, key, sizeof(key)) || !take(c, ":"))
            return bad_header(err, "dict");
        while (k < HR_ARRAY_SIZE(keys) && strcmp(keys[k], key) != 0)
            k++;
        if (k == HR_ARRAY_SIZE(keys) || (seen >> k & 1))
            return bad_header(err, "dict");
        seen |= 1u << k;
        int ret = k == 0   ? parse_descr(c, npy, err)
                  : k == 1 ? parse_order(c, err)
                           : parse_shape(c, npy, err);
        if (ret < 0)
            return ret;
        if (!take(c, ",") && !(c->at < c->end && *c->at == '}'))
            return bad_header(err, "dict");
    }
    skip_space(c);
    return seen == 7 && c->at == c->end ? 0 : bad_header(err, "dict");
}

static int check_bytes(struct hr_npy *npy, uint64_t file_bytes, struct hr_error *err)
{
    uint64_t bytes = hr_dtype_bytes(npy->dtype);

    for (uint32_t i = 0; i < npy->dims; i++)
        if (!hr_mul_u64(bytes, npy->shape[i], &bytes))
            return hr_fail(err, HR_E_LIMIT, "the array's size does not fit 64 bits");
    uint64_t have = file_bytes - npy->data_off;
    if (have < bytes)
        return hr_fail(err, HR_E_TRUNCATED,
                       "the array needs %" PRIu64 " bytes, the file has %" PRIu64, bytes, have);
    if (have > bytes)
        return hr_fail(err, HR_E_FORMAT, "%" PRIu64 " bytes after the array", have - bytes);
    npy->data_bytes = bytes;
    return 0;
}

int hr_npy_parse(const void *head, uint64_t head_bytes, uint64_t file_bytes, struct hr_npy *npy,
                 struct hr_error *err)
{
    const uint8_t *b = head;
    struct hr_npy found = {0};

    if (file_bytes == 0)
        return hr_fail(err, HR_E_TRUNCATED, "the file is empty");
    if (head_bytes < 12 || memcmp(b, "\x93NUMPY", 6) != 0)
        return hr_fail(err, HR_E_FORMAT, "not a .npy file");
    if (b[6] < 1 || b[6] > 3 || b[7] != 0)
        return hr_fail(err, HR_E_FORMAT, ".npy version %d.%d", b[6], b[7]);
    uint64_t start = b[6] == 1 ? 10 : 12;
    uint64_t length = b[6] == 1 ? hr_load_le16(b + 8) : hr_load_le32(b + 8);
    if (length > MAX_HEADER)
        return hr_fail(err, HR_E_LIMIT, ".npy header of %" PRIu64 " bytes", length);
    if (start + length > head_bytes)
        return hr_fail(err, HR_E_TRUNCATED, "the file ends inside the .npy header");
    struct cursor c = {(const char *)b + start, (const char *)b + start + length};
    int ret = parse_dict(&c, &found, err);
    if (ret < 0)
        return ret;
    found.data_off = start + length;
    ret = check_bytes(&found, file_bytes, err);
    if (ret == 0)
        *npy = found;
    return ret;
}
