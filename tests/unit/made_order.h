/* Orders of one source, made in one line. */
#ifndef HR_TESTS_UNIT_MADE_ORDER_H
#define HR_TESTS_UNIT_MADE_ORDER_H

#include "order/order.h"

/* Seed 7. */
struct hr_order order_make(enum hr_order_kind kind, enum hr_last_rule last, uint64_t records,
                           uint64_t batch);

#endif
