/* Traps for tests: with HEADRACE_TEST_DECODER=1 in the environment, a value whose first bytes hold
 * "HEADRACE-TEST:crash", ":abort", ":overflow", ":kill" or ":hang" does that to the worker which
 * decodes it, as a broken codec library might. (A comment segment makes a picture of it that is
 * otherwise sound.) */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pipeline/engine_parts.h"

enum { LOOKED_AT = 256 };

static const char mark[] = "HEADRACE-TEST:";

bool hr_trap_wanted(void)
{
    const char *v = getenv("HEADRACE_TEST_DECODER");

    return v && strcmp(v, "1") == 0;
}

static int overflow(volatile char *above, int depth)
{
    volatile char page[4096];

    page[0] = (char)(above[0] + depth);
    return depth < 0 ? page[0] : overflow(page, depth + 1) + page[1];
}

static void spring(const char *how, size_t bytes)
{
    volatile char none = 0;
    volatile uintptr_t nowhere = 8;

    if (bytes >= 5 && memcmp(how, "crash", 5) == 0)
        *(volatile int *)nowhere = 1;
    if (bytes >= 5 && memcmp(how, "abort", 5) == 0)
        abort();
    if (bytes >= 8 && memcmp(how, "overflow", 8) == 0)
        overflow(&none, 0);
    if (bytes >= 4 && memcmp(how, "kill", 4) == 0)
        kill(getpid(), SIGKILL);
    while (bytes >= 4 && memcmp(how, "hang", 4) == 0)
        pause();
}

void hr_trap_look(const struct hr_sample *s, struct hr_flight_seat *seat)
{
    for (uint32_t i = 0; i < s->batch->plan->field_count; i++) {
        const struct hr_sample_field *f = &s->fields[i];
        if (!f->place.present || !f->bytes)
            continue;
        atomic_store_explicit(&seat->field, i, memory_order_relaxed);
        const char *bytes = (const char *)f->bytes;
        size_t n = hr_min_u64(f->want_bytes, LOOKED_AT);
        const char *at = memmem(bytes, n, mark, sizeof(mark) - 1);
        if (at)
            spring(at + sizeof(mark) - 1, n - (size_t)(at - bytes) - (sizeof(mark) - 1));
    }
}
