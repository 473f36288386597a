/* Any bytes as a checkpoint: refused, or read and then written and read again as the same state; and
 * a cursor that the order accepts can be stepped past. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "order/order.h"
#include "order/state.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void step(const struct hr_state *state)
{
    struct hr_order_spec spec = {
        .kind = (enum hr_order_kind)(state->samples % 3),
        .last = (enum hr_last_rule)(state->seed % 4),
        .seed = state->seed,
        .record_count = 1 + state->order_digest % HR_ORDER_MAX_RECORDS,
        .batch = 1 + state->samples % 700,
        .block_records = state->samples % 17,
    };
    struct hr_state next = *state;
    struct hr_order order;

    if (hr_order_init(&order, &spec, NULL) < 0 || hr_order_check_cursor(&order, state->cursor, NULL) < 0)
        return;
    hr_state_advance(&next, &order);
    if (state->cursor.epoch < HR_ORDER_MAX_EPOCH - 1000 &&
        hr_order_check_cursor(&order, next.cursor, NULL) < 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct hr_state defaults = {.seed = 1}, state, again;
    char text[HR_STATE_BYTES];
    struct hr_error err = HR_ERROR_INIT;
    int ret = hr_state_decode(&state, &defaults, (const char *)data, bytes, &err);

    if (ret < 0) {
        if (err.code != ret || !err.text[0])
            abort();
        return 0;
    }
    int n = hr_state_encode(&state, text);
    if (n <= 0 || n >= HR_STATE_BYTES ||
        hr_state_decode(&again, &defaults, text, (size_t)n, NULL) < 0 ||
        memcmp(&state, &again, sizeof(state)) != 0)
        abort();
    step(&state);
    return 0;
}
