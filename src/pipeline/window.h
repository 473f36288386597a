/* How much of the ring of bytes in flight is used. Little, when bytes come at once: what is read then is still in the
 * processor's caches when it is decoded. More, as soon as workers wait for storage; less again after a calm time,
 * since the first epoch may have come from the disk and the second comes from memory. */
#ifndef HR_PIPELINE_WINDOW_H
#define HR_PIPELINE_WINDOW_H

#include "base/base.h"

struct hr_window {
    uint64_t bytes;       /* least to most */
    uint64_t least, most;
    uint64_t since_ns;    /* of the last change, or of the last time that it was too little */
    uint64_t patience_ns; /* how long it must have been enough before less is tried */
    bool tried_less;      /* the last change made it smaller */
};

void hr_window_init(struct hr_window *window, uint64_t least, uint64_t most, uint64_t now_ns);
/* Workers sleep while reads are under way and there is no room for more: twice as much. */
void hr_window_starved(struct hr_window *window, uint64_t now_ns);
/* There is no room for more, and that is all. */
void hr_window_enough(struct hr_window *window, uint64_t now_ns);

#endif
