/* A progress line on stderr: share done, rate, time left. Drawn only on a terminal and not under -q;
 * otherwise every call does nothing. One thread uses it. */
#ifndef HR_TOOLS_PROGRESS_H
#define HR_TOOLS_PROGRESS_H

#include "base/base.h"

struct hr_progress {
    const char *unit; /* "records" */
    uint64_t total;   /* 0 = not known */
    uint64_t start_ns, drawn_ns;
    bool shown, enabled;
};

void hr_progress_init(struct hr_progress *progress, const char *unit, uint64_t total);
/* Cheap to call often: draws at most ten times a second. bytes = 0: no throughput shown. */
void hr_progress_update(struct hr_progress *progress, uint64_t done, uint64_t bytes);
/* Takes the line away, before a message and at the end. */
void hr_progress_clear(struct hr_progress *progress);

#endif
