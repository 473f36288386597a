/* Keeps the last error of a client, or of a thread that has no client yet. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "client/internal.h"

void hr_report_clear(struct hr_report *report)
{
    *report = (struct hr_report){.record = HR_NO_RECORD};
}

int hr_report_set(struct hr_report *report, const struct hr_error *err)
{
    hr_report_clear(report);
    report->code = err->code;
    report->record = err->record;
    memcpy(report->shard, err->file, sizeof(report->shard));
    memcpy(report->field, err->field, sizeof(report->field));
    hr_error_format(err, report->text, sizeof(report->text));
    return err->code;
}

int hr_report_fail(struct hr_report *report, int code, const char *fmt, ...)
{
    va_list ap;

    hr_report_clear(report);
    report->code = code;
    va_start(ap, fmt);
    vsnprintf(report->text, sizeof(report->text), fmt, ap);
    va_end(ap);
    return code;
}

struct hr_report *hr_report_of_thread(void)
{
    static _Thread_local struct hr_report report = {.record = HR_NO_RECORD};

    return &report;
}

static struct hr_report *report_of(struct hr_client *client)
{
    return client ? &client->report : hr_report_of_thread();
}

const char *hr_client_error(struct hr_client *client)
{
    return report_of(client)->text;
}

int hr_client_error_detail(struct hr_client *client, int *code, const char **shard,
                           uint64_t *record, const char **field)
{
    struct hr_report *report = report_of(client);

    if (code)
        *code = report->code;
    if (shard)
        *shard = report->shard;
    if (record)
        *record = report->record;
    if (field)
        *field = report->field;
    return report->code;
}

const char *hr_client_version(void)
{
    return HR_VERSION_STRING;
}
