/* Bad records: each is logged once, listed in the quarantine file, counted by reason, and held against
 * two budgets. Called rarely; locked inside. */
#ifndef HR_PIPELINE_BAD_H
#define HR_PIPELINE_BAD_H

#include "base/err.h"
#include "pipeline/flight.h"
#include "pipeline/plan.h"

struct hr_bad;

/* quarantine_path: JSON lines are appended; NULL = none. A file that cannot be written is a warning,
 * never an error. The flight recorder's culprits count as bad from the start; those that are new are
 * logged and listed. */
int hr_bad_create(const struct hr_plan *plan, const char *quarantine_path, struct hr_flight *flight,
                  struct hr_bad **out, struct hr_error *err) HR_MUST_CHECK;
void hr_bad_destroy(struct hr_bad *bad); /* NULL is fine */

/* Why a culprit is bad, with its place. */
void hr_culprit_error(const struct hr_plan *plan, const struct hr_culprit *culprit,
                      struct hr_error *err);

/* Notes one occurrence. 0, or HR_E_BUDGET with the culprits when a budget is used up: distinct bad
 * records exceed max(16, bad_budget x records), or bad_consecutive samples failed in a row. The error
 * names as many records as fit in a line; the log has them all. */
int hr_bad_note(struct hr_bad *bad, uint32_t source, uint64_t record, const struct hr_error *why,
                struct hr_error *err) HR_MUST_CHECK;
/* A sample went well: ends a row of failures. Cheap when there is none. */
void hr_bad_note_good(struct hr_bad *bad);

/* A record whose bytes were wrong was right when it was read again: no bad record, but a sign of bad
 * hardware. The first few are logged. */
void hr_bad_note_mended(struct hr_bad *bad, uint32_t source, uint64_t record);

struct hr_bad_stats {
    uint64_t occurrences, records;
    uint64_t checksum, truncated, decode, crashed, other;
};
void hr_bad_stats(struct hr_bad *bad, struct hr_bad_stats *stats);

#endif
