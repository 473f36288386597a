/* From a record to the batches that deliver it, one line of JSON each. */
#include "tools/order/find.h"

#include <inttypes.h>
#include <string.h>

#include "base/log.h"
#include "tools/headrace.h"

/* Under drop a record may fall into the rest of an epoch again and again (for ever under order none). */
enum { DROPPED_MAX = 1000 };

bool hr_order_parse_wanted(const char *text, struct hr_order_wanted *wanted)
{
    char source[32] = "0";
    const char *colon = strchr(text, ':');
    uint64_t number;

    if (colon && (size_t)(colon - text) >= sizeof(source))
        return false;
    if (colon) {
        memcpy(source, text, (size_t)(colon - text));
        source[colon - text] = 0;
        text = colon + 1;
    }
    if (!hr_cli_parse_count(source, &number) || number >= HR_ORDER_MAX_SOURCES)
        return false;
    wanted->source = (uint32_t)number;
    return hr_cli_parse_count(text, &wanted->record);
}

int hr_order_check_wanted(const struct hr_order *order, const struct hr_order_wanted *wanted,
                          struct hr_error *err)
{
    uint64_t epoch = 0, position = 0;

    if (hr_order_find(order, wanted->source, wanted->record, &epoch, &position))
        return 0;
    hr_fail(err, HR_E_USAGE, "there is no record %" PRIu32 ":%" PRIu64 " in this order, or a filter leaves it out",
            wanted->source, wanted->record);
    hr_error_hint(err, "a record is SOURCE:NUMBER as 'headrace order' prints it; 'headrace check' says how many each "
                  "source has");
    return HR_E_USAGE;
}

/* The place after one that was found. */
static void step_past(const struct hr_order *order, uint64_t *epoch, uint64_t *position)
{
    if (++*position < order->epoch_samples)
        return;
    *position = 0;
    ++*epoch;
}

/* The next delivery from a place on, which is moved past it. */
static bool next_delivery(const struct hr_order *order, const struct hr_order_wanted *wanted,
                          uint64_t epochs, uint64_t *epoch, uint64_t *position,
                          struct hr_cursor *cursor, uint32_t *sample)
{
    for (int dropped = 0; dropped < DROPPED_MAX; dropped++) {
        if (!hr_order_find(order, wanted->source, wanted->record, epoch, position))
            return false;
        bool delivered = hr_order_batch_of(order, *epoch, *position, cursor, sample);
        if (epochs && cursor->epoch >= epochs)
            return false;
        step_past(order, epoch, position);
        if (delivered)
            return true;
    }
    return false;
}

static int print_delivery(const struct hr_order *order, const struct hr_order_wanted *wanted,
                          struct hr_cursor cursor, uint32_t sample, uint32_t world)
{
    uint32_t rank = hr_order_rank_of(order, cursor, world, &sample);
    struct hr_buf out = {0};

    hr_buf_addf(&out, "{\"record\":\"%" PRIu32 ":%" PRIu64 "\",\"epoch\":%" PRIu64 ",\"step\":%" PRIu64
                      ",\"rank\":%" PRIu32 ",\"sample\":%" PRIu32 "}\n",
                wanted->source, wanted->record, cursor.epoch, cursor.step, rank, sample);
    return hr_cli_print(&out);
}

int hr_order_print_found(const struct hr_order *order, const struct hr_order_wanted *wanted,
                         struct hr_cursor from, uint64_t count, uint64_t epochs, uint32_t world)
{
    struct hr_place first = hr_order_place(order, from, 0);
    uint64_t epoch = first.epoch, position = first.position, found = 0;
    struct hr_cursor cursor;
    uint32_t sample;

    for (; found < count; found++) {
        if (!next_delivery(order, wanted, epochs, &epoch, &position, &cursor, &sample))
            break;
        int code = print_delivery(order, wanted, cursor, sample, world);
        if (code != HR_EXIT_DONE)
            return code;
    }
    if (found || count == 0)
        return HR_EXIT_DONE;
    hr_log(HR_LOG_ERROR, "record %" PRIu32 ":%" PRIu64 " is in no batch from there on: 'last: drop' leaves it out, or "
           "the run's epochs end before", wanted->source, wanted->record);
    return HR_EXIT_FOUND;
}
