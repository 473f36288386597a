/* Opens a pipeline file and its plan together. */
#include "tools/job.h"

#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "tools/cli.h"

int hr_job_load_conf(struct hr_conf *conf, const char *path, struct hr_error *err)
{
    void *text;
    size_t bytes;

    if (strcmp(path, "-") != 0)
        return hr_conf_load(path, conf, err);
    int ret = hr_conf_read(path, &text, &bytes, err);
    if (ret < 0)
        return ret;
    ret = hr_conf_parse(text, bytes, "<stdin>", conf, err);
    hr_free(text);
    return ret;
}

/* The rest, when job->conf is there. */
static int open_rest(struct hr_job *job, struct hr_error *err)
{
    int ret = hr_plan_open(&job->conf, &job->plan, err);
    if (ret < 0)
        hr_job_close(job);
    return ret;
}

int hr_job_open(struct hr_job *job, const char *path, struct hr_error *err)
{
    *job = (struct hr_job){0};
    int ret = hr_job_load_conf(&job->conf, path, err);

    return ret < 0 ? ret : open_rest(job, err);
}

static void use_pins(struct hr_conf *conf, const struct hr_job_pins *pins)
{
    for (int i = 0; i < pins->count && i < conf->dataset_count; i++)
        if (pins->versions[i][0])
            conf->datasets[i].version = pins->versions[i];
}

static void fill_pins(const struct hr_plan *plan, struct hr_job_pins *pins)
{
    struct stat st;

    for (uint32_t i = 0; i < plan->sources.count; i++) {
        const struct hr_source *source = &plan->sources.items[i];
        struct hr_digest digest = hr_dataset_digest(source->dataset);
        pins->versions[i][0] = 0;
        if (stat(source->path, &st) == 0 && S_ISDIR(st.st_mode)) /* a lone shard has no versions */
            hr_digest_hex(&digest, pins->versions[i]);
    }
    pins->count = (int)plan->sources.count;
}

int hr_job_open_text(struct hr_job *job, const char *path, const char *text, size_t bytes,
                     struct hr_job_pins *pins, struct hr_error *err)
{
    *job = (struct hr_job){0};
    int ret = strcmp(path, "-") == 0 ? hr_conf_parse(text, bytes, "<stdin>", &job->conf, err)
                                     : hr_conf_load_text(text, bytes, path, &job->conf, err);

    if (ret == 0 && pins)
        use_pins(&job->conf, pins);
    if (ret == 0)
        ret = open_rest(job, err);
    if (ret == 0 && pins && pins->count == 0)
        fill_pins(job->plan, pins);
    return ret;
}

void hr_job_close(struct hr_job *job)
{
    hr_plan_destroy(job->plan);
    hr_conf_finish(&job->conf);
    *job = (struct hr_job){0};
}

int hr_job_failed(const struct hr_error *err)
{
    int code = hr_cli_failed("", err);
    bool ours = err->code == HR_E_NOMEM || err->code == HR_E_IO || err->code == HR_E_INTERNAL;

    return ours ? code : HR_EXIT_USAGE;
}
