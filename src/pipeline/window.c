/* The window of bytes in flight: doubled when it was too little, halved when it has been enough for long. */
#include "pipeline/window.h"

#include "base/clock.h"

#define PATIENCE_FIRST_NS (10 * HR_NS_PER_S)
#define PATIENCE_MOST_NS (600 * HR_NS_PER_S)

void hr_window_init(struct hr_window *w, uint64_t least, uint64_t most, uint64_t now_ns)
{
    *w = (struct hr_window){
        .bytes = hr_min_u64(least, most),
        .least = hr_min_u64(least, most),
        .most = most,
        .since_ns = now_ns,
        .patience_ns = PATIENCE_FIRST_NS,
    };
}

void hr_window_starved(struct hr_window *w, uint64_t now_ns)
{
    w->since_ns = now_ns;
    if (w->tried_less) /* in vain: do not try again so soon */
        w->patience_ns = hr_min_u64(2 * w->patience_ns, PATIENCE_MOST_NS);
    w->tried_less = false;
    w->bytes = hr_min_u64(2 * w->bytes, w->most);
}

void hr_window_enough(struct hr_window *w, uint64_t now_ns)
{
    if (w->bytes == w->least || now_ns - w->since_ns < w->patience_ns)
        return;
    w->since_ns = now_ns;
    w->tried_less = true;
    w->bytes = hr_max_u64(w->bytes / 2, w->least);
}
