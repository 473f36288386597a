/* What most commands begin with: a pipeline file and the plan of it and its datasets. */
#ifndef HR_TOOLS_JOB_H
#define HR_TOOLS_JOB_H

#include "conf/conf.h"
#include "pipeline/plan.h"

struct hr_job {
    struct hr_conf conf;
    struct hr_plan *plan;
};

/* The pipeline file alone; "-" is standard input. */
int hr_job_load_conf(struct hr_conf *conf, const char *path, struct hr_error *err) HR_MUST_CHECK;

/* Versions of the datasets that the first engine of a run opened, so that a later one goes on with the
 * same after records were added. "" = the dataset has none. */
struct hr_job_pins {
    int count; /* 0 = not known yet */
    char versions[HR_ORDER_MAX_SOURCES][HR_DIGEST_HEX_BYTES];
};

/* path "-" reads the pipeline from standard input. On failure nothing is left open. */
int hr_job_open(struct hr_job *job, const char *path, struct hr_error *err) HR_MUST_CHECK;
/* The same of a text that was read before; path says where from. pins: used when known, else filled;
 * they outlive the job. NULL = none. */
int hr_job_open_text(struct hr_job *job, const char *path, const char *text, size_t bytes,
                     struct hr_job_pins *pins, struct hr_error *err) HR_MUST_CHECK;
void hr_job_close(struct hr_job *job);

/* Logs why there is no job. The exit code: HR_EXIT_USAGE for all that the user can set right (nothing
 * was done), HR_EXIT_FAILED for memory and devices. */
int hr_job_failed(const struct hr_error *err);

#endif
