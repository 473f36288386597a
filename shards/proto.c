/* The schema between memory and protobuf. */
#include "proto.h"

#include <string.h>

#include "base/mem.h"

Headrace__Schema *hr_proto_schema_create(const struct hr_schema *schema)
{
    Headrace__Schema *m = hr_alloc_zero(1, sizeof(*m));
    Headrace__SchemaField *rows = hr_alloc_zero(schema->field_count, sizeof(*rows));
    Headrace__SchemaField **fields = hr_alloc_zero(schema->field_count, sizeof(*fields));
    ProtobufCBinaryData *classes = hr_alloc_zero(schema->class_count, sizeof(*classes));

    if (!m || !rows || !fields || !classes) {
        hr_free(m);
        hr_free(rows);
        hr_free(fields);
        hr_free(classes);
        return NULL;
    }
    headrace__schema__init(m);
    for (uint32_t i = 0; i < schema->field_count; i++) {
        const struct hr_schema_field *f = &schema->fields[i];
        fields[i] = &rows[i];
        headrace__schema_field__init(&rows[i]);
        rows[i].name = (char *)f->name;
        rows[i].type = f->type;
        rows[i].dtype = f->dtype;
        rows[i].codec = f->codec;
        rows[i].n_shape = f->dims;
        rows[i].shape = (uint64_t *)f->shape;
    }
    for (uint32_t i = 0; i < schema->class_count; i++)
        classes[i] = (ProtobufCBinaryData){.len = strlen(schema->classes[i]),
                                           .data = (uint8_t *)schema->classes[i]};
    m->n_fields = schema->field_count;
    m->fields = fields;
    m->class_field = (uint32_t)(schema->class_field + 1);
    m->n_classes = schema->class_count;
    m->classes = classes;
    return m;
}

void hr_proto_schema_destroy(Headrace__Schema *message)
{
    if (!message)
        return;
    if (message->n_fields > 0)
        hr_free(message->fields[0]);
    hr_free(message->fields);
    hr_free(message->classes);
    hr_free(message);
}

static int read_field(const Headrace__SchemaField *m, struct hr_schema_field *f,
                      struct hr_error *err)
{
    size_t n = strlen(m->name);

    if (n >= HR_NAME_BYTES || m->n_shape > HR_MAX_DIMS)
        return hr_fail(err, HR_E_CORRUPT, "schema: a field's name or shape is too long");
    memcpy(f->name, m->name, n + 1);
    f->type = (enum hr_field_type)m->type;
    f->dtype = (enum hr_dtype)m->dtype;
    f->codec = (enum hr_codec)m->codec;
    f->dims = (uint32_t)m->n_shape;
    for (size_t d = 0; d < m->n_shape; d++)
        f->shape[d] = m->shape[d];
    return 0;
}

static int read_classes(const Headrace__Schema *m, struct hr_schema *s, struct hr_error *err)
{
    s->classes = hr_alloc_zero(m->n_classes, sizeof(char *));
    if (!s->classes)
        return hr_fail(err, HR_E_NOMEM, "no memory for class names");
    for (size_t i = 0; i < m->n_classes; i++) {
        const ProtobufCBinaryData *name = &m->classes[i];
        if (name->len && memchr(name->data, 0, name->len))
            return hr_fail(err, HR_E_CORRUPT, "schema: class %zu has a NUL in its name", i);
        s->classes[i] = name->len ? hr_strndup((const char *)name->data, name->len) : hr_strdup("");
        if (!s->classes[i])
            return hr_fail(err, HR_E_NOMEM, "no memory for class names");
        s->class_count++;
    }
    return 0;
}

int hr_proto_schema_read(const Headrace__Schema *m, struct hr_schema *schema, struct hr_error *err)
{
    struct hr_schema s = {.class_field = -1};
    int ret = 0;

    if (!m)
        return hr_fail(err, HR_E_CORRUPT, "schema: missing");
    if (m->n_fields > HR_MAX_FIELDS || m->class_field > m->n_fields || m->n_classes > UINT32_MAX)
        return hr_fail(err, HR_E_CORRUPT, "schema: more fields or classes than can be");
    s.field_count = (uint32_t)m->n_fields;
    s.class_field = (int)m->class_field - 1;
    for (uint32_t i = 0; ret == 0 && i < s.field_count; i++)
        ret = read_field(m->fields[i], &s.fields[i], err);
    if (ret == 0)
        ret = read_classes(m, &s, err);
    if (ret == 0 && hr_schema_check(&s, err) < 0) {
        struct hr_error reason = err ? *err : HR_ERROR_INIT;
        ret = hr_fail(err, HR_E_CORRUPT, "schema: %s", reason.text);
        hr_error_at_value(err, NULL, HR_NO_RECORD, reason.field, -1);
    }
    if (ret < 0) {
        hr_schema_finish(&s);
        return ret;
    }
    *schema = s;
    return 0;
}
