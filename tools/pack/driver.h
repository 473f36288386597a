/* Loads records on several threads and hands them over in order. Loaders claim the next number, so
 * that the oldest record is always being worked on; they wait when too many bytes are underway. */
#ifndef HR_PACK_DRIVER_H
#define HR_PACK_DRIVER_H

#include "tools/pack/source.h"

struct hr_driver_sink {
    /* Called on the caller's thread, in order. record is NULL when why says what is wrong with it;
     * key is set in either case. Not 0 ends the run with that. */
    int (*take)(void *user, const char *key, const struct hr_pack_record *record,
                const struct hr_error *why, struct hr_error *err);
    /* Called a few times a second; false ends the run with HR_E_CANCELLED. */
    bool (*tick)(void *user);
    void *user;
};

/* Records [first, source->record_count). 0 or what the sink said; out of memory ends the run too. */
int hr_driver_run(const struct hr_source *source, uint64_t first, int jobs,
                  const struct hr_driver_sink *sink, struct hr_error *err) HR_MUST_CHECK;

#endif
