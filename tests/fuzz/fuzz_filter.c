/* Filter expressions of any form: parsed, bound to a few columns, and asked for a few records. What
 * holds for a record must be the opposite of what its negation says. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "conf/filter.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static int find(void *context, const char *name, struct hr_filter_column *out, struct hr_error *err)
{
    if (name[0] < 'a' || name[0] > 'f')
        return hr_fail(err, HR_E_CONFIG, "unknown");
    if (name[0] == 'f')
        return HR_FILTER_LACKING;
    *out = (struct hr_filter_column){.type = (enum hr_filter_type)(name[0] - 'a'),
                                     .id = (uint32_t)(name[0] - 'a')};
    return HR_FILTER_FOUND;
}

static void get(void *context, uint32_t id, uint64_t record, struct hr_filter_value *out)
{
    static const char text[] = "some text.jpg";

    *out = (struct hr_filter_value){
        .present = (record + id) % 3 != 0,
        .integer = record % 2 ? -(int64_t)record : (int64_t)(record << 50),
        .number = (double)record / 3,
        .text = text,
        .text_bytes = (uint32_t)(record % sizeof(text)),
    };
}

static int number_of(void *context, uint32_t id, const char *text, uint32_t text_bytes, int64_t *out,
                     struct hr_error *err)
{
    *out = text_bytes;
    if (text_bytes > 5)
        return hr_fail(err, HR_E_CONFIG, "no such name");
    return id == 0 && text_bytes ? text[0] != 'x' : 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    const struct hr_filter_columns columns = {.find = find, .get = get, .number_of = number_of};
    struct hr_error err = HR_ERROR_INIT;
    struct hr_filter *filter = NULL, *inverse = NULL;
    char *text = hr_strndup((const char *)data, bytes), *negated;
    int ret = hr_filter_parse(text, &filter, &err);

    if (ret == 0)
        ret = hr_filter_bind(filter, &columns, &err);
    if (ret < 0 && (err.code != ret || !err.text[0] || err.column < 1 ||
                    err.column > (int)strlen(text) + 1))
        abort();
    negated = hr_asprintf("not (%s)", text);
    if (ret == 0 && hr_filter_parse(negated, &inverse, NULL) == 0 &&
        hr_filter_bind(inverse, &columns, NULL) == 0)
        for (uint64_t r = 0; r < 8; r++)
            if (hr_filter_keeps(filter, &columns, r) == hr_filter_keeps(inverse, &columns, r))
                abort();
    hr_filter_destroy(filter);
    hr_filter_destroy(inverse);
    hr_free(negated);
    hr_free(text);
    return 0;
}
