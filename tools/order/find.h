/* headrace order --find: from a record to the batches that deliver it. */
#ifndef HR_TOOLS_ORDER_FIND_H
#define HR_TOOLS_ORDER_FIND_H

#include "order/order.h"

/* One record of one source, as SOURCE:RECORD names it. */
struct hr_order_wanted {
    uint32_t source;
    uint64_t record;
};

/* "SOURCE:RECORD", or "RECORD" of the first source. */
bool hr_order_parse_wanted(const char *text, struct hr_order_wanted *wanted);

/* HR_E_USAGE when the order has no such record. */
int hr_order_check_wanted(const struct hr_order *order, const struct hr_order_wanted *wanted,
                          struct hr_error *err) HR_MUST_CHECK;

/* Prints a line for each of the next count deliveries from a batch on, before epoch `epochs` (0 = no end). Returns
 * the exit code: HR_EXIT_FOUND when there is none. */
int hr_order_print_found(const struct hr_order *order, const struct hr_order_wanted *wanted,
                         struct hr_cursor from, uint64_t count, uint64_t epochs, uint32_t world);

#endif
