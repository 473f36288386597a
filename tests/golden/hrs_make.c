/* Writes the golden shard that docs/formats/hrs.md dumps. usage: hrs_make FILE */
#include <stdio.h>
#include <string.h>

#include "shards/writer.h"

static char cat_name[] = "cat", dog_name[] = "dog";
static char *class_names[] = {cat_name, dog_name};

static const struct hr_schema schema = {
    .fields = {{.name = "blob", .type = HR_FIELD_BYTES},
               {.name = "text", .type = HR_FIELD_TEXT, .codec = HR_CODEC_LZ4},
               {.name = "label", .type = HR_FIELD_I64},
               {.name = "name", .type = HR_FIELD_STR}},
    .field_count = 4,
    .class_field = 2,
    .classes = class_names,
    .class_count = 2,
};

static struct hr_value bytes_of(const char *s)
{
    return (struct hr_value){.present = s != NULL, .data = s, .bytes = s ? strlen(s) : 0,
                             .facts = {.items = s ? strlen(s) : 0}};
}

static int add(struct hr_shard_writer *w, const char *key, const char *blob, const char *text,
               const int *label, const char *name, struct hr_error *err)
{
    struct hr_value values[4] = {bytes_of(blob), bytes_of(text), {0}, bytes_of(name)};

    values[0].facts.items = 0;
    values[2] = (struct hr_value){.present = label != NULL, .i64 = label ? *label : 0};
    return hr_shard_writer_add(w, key, values, err);
}

int main(int argc, char **argv)
{
    struct hr_shard_writer *w;
    struct hr_error err = HR_ERROR_INIT;
    char text[1400];
    int cat = 0, dog = 1, ret;

    if (argc != 2)
        return 2;
    ret = hr_shard_writer_open(argv[1], &schema, NULL, &w, &err);
    if (ret == 0)
        ret = add(w, "a", "BLOB", "row row row row row your boat your boat", &dog, "Anna", &err);
    if (ret == 0)
        ret = add(w, "b", NULL, "", &cat, "Bo", &err);
    if (ret == 0)
        ret = add(w, "c/d", "0123456789", "gently down the stream", NULL, "", &err);
    if (ret == 0)
        ret = hr_shard_writer_commit(w, NULL, &err);
    if (ret < 0)
        fprintf(stderr, "%s\n", hr_error_format(&err, text, sizeof(text)));
    return ret < 0;
}
