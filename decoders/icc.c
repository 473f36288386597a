/* Transforms by profile, in a small table of which the one not used for longest goes. lcms2 reads profiles
 * and says what is right (perceptual intent, 8 bits, its defaults otherwise); those of a matrix
 * and three curves are then applied by icc_matrix.c, where that gives the same within 1. */
#include "decoders/icc.h"

#include <lcms2.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "decoders/icc_matrix.h"

enum { MAX_TRANSFORMS = 16, GRID = 17, RUN = 1024 };

struct hr_icc_transform {
    struct hr_digest digest; /* of the profile */
    cmsHTRANSFORM lcms;      /* NULL: changes nothing */
    struct hr_icc_matrix *matrix; /* used in its place; NULL = none */
    cmsColorSpaceSignature space;
    uint64_t used; /* 0: a free place */
};

struct hr_icc {
    cmsContext context;
    cmsHPROFILE srgb;
    struct hr_icc_transform transforms[MAX_TRANSFORMS];
    uint64_t uses;
    uint8_t encode[HR_ICC_STEPS + 1];
};

static void drop(struct hr_icc_transform *t)
{
    if (t->lcms)
        cmsDeleteTransform(t->lcms);
    hr_free(t->matrix);
    *t = (struct hr_icc_transform){.used = 0};
}

void hr_icc_destroy(struct hr_icc *icc)
{
    if (!icc)
        return;
    for (int i = 0; i < MAX_TRANSFORMS; i++)
        drop(&icc->transforms[i]);
    if (icc->srgb)
        cmsCloseProfile(icc->srgb);
    if (icc->context)
        cmsDeleteContext(icc->context);
    hr_free(icc);
}

int hr_icc_create(struct hr_icc **out)
{
    struct hr_icc *icc = hr_alloc_zero(1, sizeof(*icc));

    if (icc)
        icc->context = cmsCreateContext(NULL, NULL);
    if (icc && icc->context)
        icc->srgb = cmsCreate_sRGBProfileTHR(icc->context);
    if (!icc || !icc->srgb) {
        hr_icc_destroy(icc);
        return HR_E_NOMEM;
    }
    hr_icc_fill_encode(icc->encode);
    *out = icc;
    return 0;
}

uint32_t hr_icc_channels(const struct hr_icc_transform *transform)
{
    return transform->space == cmsSigCmykData ? 4 : 3;
}

static void gray_row(cmsHTRANSFORM lcms, uint8_t *dst, const uint8_t *src, uint32_t pixels)
{
    uint8_t gray[RUN];

    for (uint32_t at = 0; at < pixels; at += RUN) {
        uint32_t n = pixels - at < RUN ? pixels - at : RUN;
        for (uint32_t i = 0; i < n; i++)
            gray[i] = src[3 * (at + i)];
        cmsDoTransform(lcms, gray, dst + 3 * (size_t)at, n);
    }
}

void hr_icc_row(const struct hr_icc_transform *transform, uint8_t *dst, const uint8_t *src, uint32_t pixels)
{
    if (transform->matrix)
        hr_icc_matrix_row(transform->matrix, dst, src, pixels);
    else if (transform->space == cmsSigGrayData)
        gray_row(transform->lcms, dst, src, pixels);
    else
        cmsDoTransform(transform->lcms, src, dst, pixels);
}

static bool differs(const uint8_t *a, const uint8_t *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (a[i] > b[i] + 1 || b[i] > a[i] + 1)
            return true;
    return false;
}

/* Row g of a grid over all colours, at red r; of gray: its ramp. */
static void fill_grid_row(const struct hr_icc_transform *t, int r, int g, uint8_t row[GRID * 3])
{
    bool gray = t->space == cmsSigGrayData;

    for (int b = 0; b < GRID; b++) {
        row[3 * b] = (uint8_t)((gray ? b : r) * 255 / (GRID - 1));
        row[3 * b + 1] = (uint8_t)((gray ? b : g) * 255 / (GRID - 1));
        row[3 * b + 2] = (uint8_t)(b * 255 / (GRID - 1));
    }
}

/* Whether two ways (NULL: no way at all) differ by more than 1 somewhere. */
static bool ways_differ(const struct hr_icc_transform *a, const struct hr_icc_transform *b)
{
    uint8_t from[GRID * 3], to_a[GRID * 3], to_b[GRID * 3];

    for (int i = 0; i < GRID * GRID; i++) {
        fill_grid_row(a, i / GRID, i % GRID, from);
        hr_icc_row(a, to_a, from, GRID);
        if (b)
            hr_icc_row(b, to_b, from, GRID);
        if (differs(to_a, b ? to_b : from, sizeof(from)))
            return true;
    }
    return false;
}

static void scale_rows(float rows[3][3], const double inverse[3][3], const cmsCIEXYZ columns[3])
{
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++)
            rows[i][k] = (float)(HR_ICC_STEPS * (inverse[i][0] * columns[k].X + inverse[i][1] * columns[k].Y +
                                                 inverse[i][2] * columns[k].Z));
}

static bool read_columns(cmsHPROFILE profile, cmsCIEXYZ columns[3])
{
    static const cmsTagSignature tags[3] = {cmsSigRedColorantTag, cmsSigGreenColorantTag, cmsSigBlueColorantTag};

    for (int c = 0; c < 3; c++) {
        const cmsCIEXYZ *tag = cmsReadTag(profile, tags[c]);
        if (!tag)
            return false;
        columns[c] = *tag;
    }
    return true;
}

/* The inverse of the matrix whose columns are sRGB's primaries. */
static bool invert(const cmsCIEXYZ c[3], double inverse[3][3])
{
    const double m[3][3] = {{c[0].X, c[1].X, c[2].X}, {c[0].Y, c[1].Y, c[2].Y}, {c[0].Z, c[1].Z, c[2].Z}};
    double det = 0;

    for (int i = 0; i < 3; i++)
        det += m[0][i] * (m[1][(i + 1) % 3] * m[2][(i + 2) % 3] - m[1][(i + 2) % 3] * m[2][(i + 1) % 3]);
    if (det == 0)
        return false;
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++) {
            int a = (k + 1) % 3, b = (k + 2) % 3, p = (i + 1) % 3, q = (i + 2) % 3;
            inverse[i][k] = (m[a][p] * m[b][q] - m[a][q] * m[b][p]) / det;
        }
    return true;
}

static bool fill_matrix(struct hr_icc *icc, cmsHPROFILE profile, struct hr_icc_matrix *m)
{
    static const cmsTagSignature curves[3] = {cmsSigRedTRCTag, cmsSigGreenTRCTag, cmsSigBlueTRCTag};
    cmsCIEXYZ srgb[3], own[3];
    double inverse[3][3];

    if (!read_columns(icc->srgb, srgb) || !read_columns(profile, own) || !invert(srgb, inverse))
        return false;
    scale_rows(m->rows, inverse, own);
    for (int c = 0; c < 3; c++) {
        const cmsToneCurve *curve = cmsReadTag(profile, curves[c]);
        for (int i = 0; curve && i < 256; i++)
            m->linear[c][i] = cmsEvalToneCurveFloat(curve, (float)i / 255);
        if (!curve)
            return false;
    }
    m->encode = icc->encode;
    return true;
}

/* Takes the short way where it leads to the same. */
static void try_matrix(struct hr_icc *icc, cmsHPROFILE profile, struct hr_icc_transform *t)
{
    struct hr_icc_transform quick = *t;

    if (t->space != cmsSigRgbData || !cmsIsMatrixShaper(profile))
        return;
    quick.matrix = hr_alloc_zero(1, sizeof(*quick.matrix));
    if (quick.matrix && fill_matrix(icc, profile, quick.matrix) && !ways_differ(t, &quick))
        t->matrix = quick.matrix;
    else
        hr_free(quick.matrix);
}

static int make_lcms(struct hr_icc *icc, cmsHPROFILE profile, struct hr_icc_transform *t, struct hr_error *err)
{
    cmsUInt32Number format = t->space == cmsSigCmykData   ? TYPE_CMYK_8_REV
                             : t->space == cmsSigGrayData ? TYPE_GRAY_8
                                                          : TYPE_RGB_8;

    t->lcms = cmsCreateTransformTHR(icc->context, profile, format, icc->srgb, TYPE_RGB_8, INTENT_PERCEPTUAL, 0);
    if (!t->lcms)
        return hr_fail(err, HR_E_DECODE, "the picture's colour profile cannot be turned into sRGB");
    /* Most profiles of photographs are sRGB in other words. */
    if (t->space == cmsSigCmykData || ways_differ(t, NULL)) {
        try_matrix(icc, profile, t);
        return 0;
    }
    cmsDeleteTransform(t->lcms);
    t->lcms = NULL;
    return 0;
}

static int make_transform(struct hr_icc *icc, const uint8_t *bytes, size_t count, struct hr_icc_transform *t,
                          struct hr_error *err)
{
    if (count > HR_ICC_MAX_BYTES)
        return hr_fail(err, HR_E_LIMIT, "the picture's colour profile has more than %d MB", HR_ICC_MAX_BYTES >> 20);
    cmsHPROFILE profile = cmsOpenProfileFromMemTHR(icc->context, bytes, (cmsUInt32Number)count);
    if (!profile)
        return hr_fail(err, HR_E_DECODE, "the picture's colour profile cannot be read");
    t->space = cmsGetColorSpace(profile);
    int ret = 0;
    if (t->space == cmsSigGrayData || t->space == cmsSigRgbData || t->space == cmsSigCmykData)
        ret = make_lcms(icc, profile, t, err);
    cmsCloseProfile(profile);
    return ret;
}

static bool fits(const struct hr_icc_transform *t, uint32_t picture)
{
    switch (t->space) {
    case cmsSigGrayData:
        return picture == 1;
    case cmsSigRgbData:
        return picture != 4;
    default:
        return picture == 4;
    }
}

int hr_icc_find(struct hr_icc *icc, const uint8_t *profile, size_t bytes, uint32_t picture,
                const struct hr_icc_transform **out, struct hr_error *err)
{
    struct hr_digest digest = hr_digest_of(profile, bytes);
    struct hr_icc_transform *found = NULL, *oldest = &icc->transforms[0];

    for (int i = 0; i < MAX_TRANSFORMS && !found; i++) {
        struct hr_icc_transform *t = &icc->transforms[i];
        if (t->used && hr_digest_equal(&t->digest, &digest))
            found = t;
        if (t->used < oldest->used)
            oldest = t;
    }
    if (!found) {
        struct hr_icc_transform made = {.digest = digest};
        int depth = hr_mem_steady_pause();
        int ret = make_transform(icc, profile, bytes, &made, err);
        hr_mem_steady_resume(depth);
        if (ret < 0)
            return ret;
        drop(oldest);
        *oldest = made;
        found = oldest;
    }
    found->used = ++icc->uses;
    *out = found->lcms && fits(found, picture) ? found : NULL;
    return 0;
}
