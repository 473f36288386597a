/* See made_order.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "made_order.h"
#include "order/order.h"

struct hr_order order_make(enum hr_order_kind kind, enum hr_last_rule last, uint64_t records,
                           uint64_t batch)
{
    struct hr_order_spec spec = {
        .kind = kind, .last = last, .seed = 7, .record_count = records, .batch = batch};
    struct hr_order order;
    struct hr_error err;

    assert_int_equal(hr_order_init(&order, &spec, &err), 0);
    return order;
}
