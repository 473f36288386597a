/* client: a sidecar that is wrong, by one field or at random, does no harm. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/fd.h"
#include "base/rng.h"
#include "client/internal.h"
#include "ipc/numbered.h"
#include "ipc/played_sidecar.h"
#include "ring/consumer.h"
#include "ring/ring.h"

struct welcome_fault {
    const char *name;
    int code;
    void (*break_it)(struct hr_wire_welcome *w, int fds[3], int *fd_count, size_t *bytes);
};

#define FAULT(name_)                                                                               \
    static void name_(struct hr_wire_welcome *w, int fds[3], int *fd_count, size_t *bytes)

FAULT(other_version) { w->wire_version = 9; }
FAULT(no_slots) { w->slot_count = 0; }
FAULT(many_slots) { w->slot_count = 1000; }
FAULT(huge_slots) { w->slot_bytes = UINT64_MAX - 63; }
FAULT(tiny_slots) { w->slot_bytes = 64; }
FAULT(odd_slots) { w->slot_bytes -= 1; }
FAULT(long_data) { w->data_bytes = 1ull << 40; }
FAULT(long_control) { w->control_bytes = 1 << 20; }
FAULT(short_control) { w->control_bytes = 64; }
FAULT(no_descriptors) { *fd_count = 0; }
FAULT(no_wake) { *fd_count = 2; }
FAULT(swapped) { int t = fds[0]; fds[0] = fds[2]; fds[2] = t; }
FAULT(wrong_size) { w->head.bytes = 12; }
FAULT(cut_short) { w->head.bytes = *bytes = 100; }
FAULT(no_head) { *bytes = 3; }
FAULT(wrong_kind) { w->head.kind = 77; }
FAULT(not_sealed) { fds[0] = memfd_create("x", MFD_CLOEXEC); if (ftruncate(fds[0], 1 << 20) < 0) abort(); }
FAULT(a_pipe) { int p[2]; if (pipe(p) < 0) abort(); fds[0] = p[0]; }
FAULT(data_for_control) { fds[1] = fds[0]; }

static void malformed_welcomes_are_refused(void **state)
{
    static const struct welcome_fault faults[] = {
#define ROW(f, code) {#f, code, f}
        ROW(other_version, HR_E_VERSION), ROW(no_slots, HR_E_PROTOCOL),
        ROW(many_slots, HR_E_PROTOCOL), ROW(huge_slots, HR_E_PROTOCOL),
        ROW(tiny_slots, HR_E_PROTOCOL), ROW(odd_slots, HR_E_PROTOCOL),
        ROW(long_data, HR_E_PROTOCOL), ROW(long_control, HR_E_PROTOCOL),
        ROW(short_control, HR_E_PROTOCOL), ROW(no_descriptors, HR_E_PROTOCOL),
        ROW(no_wake, HR_E_PROTOCOL), ROW(swapped, HR_E_PROTOCOL),
        ROW(wrong_size, HR_E_PROTOCOL), ROW(cut_short, HR_E_PROTOCOL),
        ROW(no_head, HR_E_PROTOCOL), ROW(wrong_kind, HR_E_PROTOCOL),
        ROW(not_sealed, HR_E_PROTOCOL), ROW(a_pipe, HR_E_PROTOCOL),
        ROW(data_for_control, HR_E_PROTOCOL),
    };

    (void)state;
    for (size_t i = 0; i < HR_ARRAY_SIZE(faults); i++) {
        struct server s;
        struct hr_batch *b;
        server_start(&s, 2, false);
        struct hr_wire_welcome w = server_good_welcome(&s);
        int fds[3] = {s.fds[0], s.fds[1], s.fds[2]}, fd_count = 3;
        size_t bytes = sizeof(w);
        faults[i].break_it(&w, fds, &fd_count, &bytes);
        server_send(&s, &w, bytes, fds, fd_count);
        int ret = hr_client_ready(s.client, 1000);
        if (ret != faults[i].code)
            fail_msg("%s: %d, not %d (%s)", faults[i].name, ret, faults[i].code,
                     hr_client_error(s.client));
        assert_int_equal(hr_client_next(s.client, 0, &b), faults[i].code);
        server_close(&s);
    }
}

static struct hr_wire_field *fields_of(struct hr_wire_batch *h)
{
    return (struct hr_wire_field *)((uint8_t *)h + sizeof(*h));
}

/* Fields: 0 label i64, 1 x f32, 2 image, 3 half, 4 caption ragged, 5 crop ragged. */
#define WRONG(name_, change)                                                                       \
    static void name_(struct hr_wire_batch *h, struct hr_wire_field *f)                            \
    {                                                                                              \
        (void)h;                                                                                   \
        (void)f;                                                                                   \
        change;                                                                                    \
    }

WRONG(bad_magic, h->magic++)
WRONG(bad_version, h->wire_version = HR_WIRE_VERSION + 1)
WRONG(bad_header_bytes, h->header_bytes = UINT32_MAX & ~7u)
WRONG(short_header, h->header_bytes = 64)
WRONG(many_fields, h->field_count = 1u << 30)
WRONG(bad_field_bytes, h->field_bytes = 8)
WRONG(huge_field_bytes, h->field_bytes = UINT32_MAX & ~7u)
WRONG(data_outside, f[0].data_off = NUMBERED_SLOT_BYTES - 64 + 64)
WRONG(data_overflows, f[0].data_off = UINT64_MAX - 63)
WRONG(data_unaligned, f[0].data_off += 8)
WRONG(data_missing, f[0].data_off = 0)
WRONG(negative_shape, f[1].shape[1] = -1)
WRONG(huge_shape, f[1].shape[1] = INT64_MAX)
WRONG(wrong_batch_axis, f[1].shape[0] = 3)
WRONG(huge_stride, f[1].strides[0] = INT64_MAX & ~3ll)
WRONG(negative_stride, f[1].strides[0] = -12)
WRONG(odd_stride, f[1].strides[1] = 3)
WRONG(many_dims, f[1].dims = 9)
WRONG(no_dims, f[1].dims = 0)
WRONG(unknown_dtype, f[2].dtype = 99)
WRONG(endless_name, memset(f[2].name, 'a', sizeof(f[2].name)))
WRONG(no_name, f[2].name[0] = 0)
WRONG(records_outside, h->records_off = NUMBERED_SLOT_BYTES - 8)
WRONG(records_odd, h->records_off += 4)
WRONG(many_samples, h->count = UINT32_MAX)
WRONG(more_samples, h->count = 5)
WRONG(long_state, h->state_bytes = 512)
WRONG(offsets_outside, f[4].offsets_off = NUMBERED_SLOT_BYTES - 8)
WRONG(no_offsets, f[4].offsets_off = 0)
WRONG(shapes_outside, f[5].shapes_off = NUMBERED_SLOT_BYTES - 4)
WRONG(many_sample_dims, f[5].sample_dims = 1u << 31)
WRONG(sequence_jump, h->sequence = 7)

static void malformed_batches_are_refused(void **state)
{
    static void (*const wrongs[])(struct hr_wire_batch *, struct hr_wire_field *) = {
        bad_magic, bad_version, bad_header_bytes, short_header, many_fields, bad_field_bytes,
        huge_field_bytes, data_outside, data_overflows, data_unaligned, data_missing,
        negative_shape, huge_shape, wrong_batch_axis, huge_stride, negative_stride, odd_stride,
        many_dims, no_dims, unknown_dtype, endless_name, no_name, records_outside, records_odd,
        many_samples, more_samples, long_state, offsets_outside, no_offsets, shapes_outside,
        many_sample_dims, sequence_jump};

    (void)state;
    for (size_t i = 0; i < HR_ARRAY_SIZE(wrongs); i++) {
        struct server s;
        struct hr_batch *b;
        server_open(&s, 2);
        server_publish(&s);
        take_and_release(s.client, 0);
        int slot = hr_ring_acquire(s.ring);
        struct hr_wire_batch *h = (struct hr_wire_batch *)hr_ring_slot(s.ring, (uint32_t)slot);
        numbered_fill((uint8_t *)h, &s.plan, s.cursor, 1);
        wrongs[i](h, fields_of(h));
        hr_ring_publish(s.ring, (uint32_t)slot, next_position());
        int ret = hr_client_next(s.client, 1000, &b);
        if (ret != (wrongs[i] == bad_version ? HR_E_VERSION : HR_E_PROTOCOL))
            fail_msg("fault %zu: %d", i, ret);
        assert_null(b);
        assert_int_equal(hr_client_next(s.client, 0, &b), ret); /* and it stays so */
        server_close(&s);
    }
}

static void malformed_ragged_offsets_are_refused(void **state)
{
    static const int64_t bad[] = {-1, 1 << 20, INT64_MAX, INT64_MIN};

    (void)state;
    for (size_t i = 0; i < HR_ARRAY_SIZE(bad); i++) {
        struct server s;
        struct hr_array a;
        server_open(&s, 1);
        server_publish(&s);
        struct hr_batch *b = take(s.client);
        assert_int_equal(hr_batch_field(b, "label", &a), 0);
        uint8_t *slot = hr_ring_slot(s.ring, 0);
        struct hr_wire_field *f = fields_of((struct hr_wire_batch *)slot);
        ((int64_t *)(slot + f[4].offsets_off))[2] = bad[i];
        ((int32_t *)(slot + f[5].shapes_off))[1] = (int32_t)bad[i];
        assert_int_equal(hr_batch_field(b, "caption", &a), HR_E_PROTOCOL);
        assert_int_equal(hr_batch_field(b, "crop", &a), HR_E_PROTOCOL);
        hr_batch_release(b);
        server_close(&s);
    }
}

/* Whatever passes the checks must be safe to read to the last byte. */
static void read_everything(struct hr_batch *b)
{
    struct hr_batch_info info;
    volatile uint64_t sum = 0;

    hr_batch_info(b, &info);
    for (uint32_t i = 0; i < info.count; i++)
        sum += (info.records ? info.records[i] : 0) + (info.valid ? info.valid[i] : 0) +
               (info.sources ? info.sources[i] : 0);
    for (uint32_t i = 0; i < info.field_count; i++) {
        struct hr_array a;
        if (hr_batch_field_at(b, i, &a) < 0)
            continue;
        uint64_t last = 0;
        bool empty = a.dims == 0;
        for (int32_t d = 0; !a.ragged && d < a.dims; d++) {
            empty |= a.shape[d] == 0;
            last += (uint64_t)(a.shape[d] - 1) * (uint64_t)a.strides[d];
        }
        if (!a.ragged && !empty)
            sum += ((uint8_t *)a.data)[0] + ((uint8_t *)a.data)[last];
        if (a.ragged && a.offsets[info.count] > 0)
            sum += ((uint8_t *)a.data)[a.offsets[info.count] - 1];
    }
}

static void random_bytes_in_batches_do_no_harm(void **state)
{
    struct server s;
    struct hr_rng rng;
    int parsed = 0;

    (void)state;
    hr_rng_init(&rng, 3, 0, 0, 0);
    server_open(&s, 1);
    uint8_t *slot = hr_ring_slot(s.ring, 0);
    struct hr_batch *b = &s.client->session->batches[0];
    atomic_store(&b->held, 1);
    for (int i = 0; i < 20000; i++) {
        numbered_fill(slot, &s.plan, s.cursor, 0);
        uint32_t flips = 1 + hr_rng_u32(&rng) % 4;
        while (flips--) {
            uint32_t at = hr_rng_u32(&rng) % 2800;
            uint32_t v = hr_rng_u32(&rng);
            if (v & 1)
                slot[at] = (uint8_t)(v >> 8);
            else
                memset(slot + (at & ~7u), (int)(v >> 8 & 1) * 255, 8);
        }
        struct hr_error err;
        if (hr_batch_parse(b, &err) == 0) {
            parsed++;
            read_everything(b);
        }
    }
    assert_true(parsed > 1000 && parsed < 19000);
    atomic_store(&b->held, 0);
    server_close(&s);
}

static void random_bytes_in_the_control_page_do_no_harm(void **state)
{
    struct hr_rng rng;

    (void)state;
    hr_rng_init(&rng, 4, 0, 0, 0);
    for (int round = 0; round < 24; round++) {
        struct server s;
        server_open(&s, 2);
        server_publish(&s);
        volatile uint8_t *page = (volatile uint8_t *)s.consumer->page;
        for (int i = 0; i < 40; i++) {
            uint32_t at = round % 2 ? 64 + hr_rng_u32(&rng) % 64
                                    : hr_rng_u32(&rng) % sizeof(struct hr_wire_control);
            page[at] = (uint8_t)hr_rng_u32(&rng);
            struct hr_batch *b;
            if (hr_client_next(s.client, 0, &b) == 0) {
                read_everything(b);
                hr_batch_release(b);
            }
        }
        server_close(&s);
    }
}

static void random_messages_do_no_harm(void **state)
{
    struct hr_rng rng;

    (void)state;
    hr_rng_init(&rng, 5, 0, 0, 0);
    for (int round = 0; round < 300; round++) {
        struct server s;
        struct hr_batch *b;
        uint32_t message[HR_WIRE_MAX_MESSAGE / 4 + 10];
        server_start(&s, 2, false);
        struct hr_wire_welcome w = server_good_welcome(&s);
        if (round % 2) {
            server_send(&s, &w, sizeof(w), s.fds, 3);
            assert_int_equal(hr_client_ready(s.client, 1000), 0);
        } else if (round % 4 == 0) { /* a welcome with a few wrong bytes */
            for (int i = 0; i < 3; i++)
                ((uint8_t *)&w)[8 + hr_rng_u32(&rng) % 100] = (uint8_t)hr_rng_u32(&rng);
            server_send(&s, &w, sizeof(w), s.fds, 3);
            (void)!hr_client_ready(s.client, 50);
        }
        size_t bytes = 8 + hr_rng_u32(&rng) % (sizeof(message) - 8);
        for (size_t i = 0; i < bytes / 4; i++)
            message[i] = hr_rng_u32(&rng);
        message[0] = hr_rng_u32(&rng) % 10;
        message[1] = (uint32_t)bytes;
        struct hr_error err;
        (void)!hr_fd_send(s.sock, message, bytes, s.fds, round % 3, &err);
        if (hr_client_next(s.client, 1, &b) == 0)
            hr_batch_release(b);
        server_close(&s);
    }
}

/* A caller who waits goes on after some codes: with one of those a peer would make it spin for ever. */
static void codes_that_a_sidecar_cannot_say_are_not_passed_on(void **state)
{
    static const int codes[] = {HR_E_TIMEOUT, HR_E_ALL_LEASED, 0, 7, -1000, INT32_MIN, INT32_MAX};

    (void)state;
    for (size_t i = 0; i < HR_ARRAY_SIZE(codes); i++) {
        struct hr_wire_error e = {.head = {HR_WIRE_ERROR, sizeof(e)}, .code = codes[i]};
        struct hr_batch *b;
        struct server s;
        server_open(&s, 2);
        server_send(&s, &e, sizeof(e), NULL, 0);
        assert_int_equal(hr_client_next(s.client, 1000, &b), HR_E_PROTOCOL);
        server_close(&s);
        server_open(&s, 2);
        if (codes[i] < 0 && codes[i] > INT32_MIN) {
            hr_ring_close_consumer(s.consumer, codes[i]);
            assert_int_equal(hr_client_next(s.client, 1000, &b), HR_E_PROTOCOL);
        }
        server_close(&s);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(malformed_welcomes_are_refused),
        cmocka_unit_test(malformed_batches_are_refused),
        cmocka_unit_test(malformed_ragged_offsets_are_refused),
        cmocka_unit_test(random_bytes_in_batches_do_no_harm),
        cmocka_unit_test(random_bytes_in_the_control_page_do_no_harm),
        cmocka_unit_test(random_messages_do_no_harm),
        cmocka_unit_test(codes_that_a_sidecar_cannot_say_are_not_passed_on),
    };

    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests_name("client_hostile", tests, NULL, NULL);
}
