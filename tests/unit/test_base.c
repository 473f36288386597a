/* base: errors, hashes, random numbers, buffers, arguments, descriptors. */
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/arg.h"
#include "base/buf.h"
#include "base/cpu.h"
#include "base/err.h"
#include "base/fd.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/types.h"

static void error_names_place_and_way_out(void **state)
{
    struct hr_error err;
    char buf[512];

    (void)state;
    assert_int_equal(hr_fail(&err, HR_E_CONFIG, "no key '%s'", "oder"), HR_E_CONFIG);
    hr_error_at_file(&err, "train.yaml", 3, 7);
    hr_error_hint(&err, "did you mean '%s'?", "order");
    assert_string_equal(hr_error_format(&err, buf, sizeof(buf)),
                        "train.yaml:3:7: no key 'oder' (did you mean 'order'?)");
    hr_fail(&err, HR_E_CHECKSUM, "checksum mismatch");
    hr_error_at_value(&err, "a-0000.hrs", 12, "image", 4096);
    assert_string_equal(hr_error_format(&err, buf, sizeof(buf)),
                        "a-0000.hrs: record 12: field 'image': offset 4096: checksum mismatch");
}

static void every_error_has_name_and_scope(void **state)
{
    (void)state;
#define CHECK(name, value, scope, retryable, text)                                                 \
    assert_string_equal(hr_error_name(HR_E_##name), "HR_E_" #name);                                \
    assert_int_equal(hr_error_scope_of(HR_E_##name), HR_SCOPE_##scope);
    HR_ERROR_TABLE(CHECK)
#undef CHECK
}

static void philox_matches_published_vectors(void **state)
{
    /* Known-answer vectors of the Random123 distribution (kat_vectors, philox4x32 10). */
    static const struct {
        uint32_t counter[4], key[2], out[4];
    } kat[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    uint32_t out[4];

    (void)state;
    for (size_t i = 0; i < HR_ARRAY_SIZE(kat); i++) {
        hr_philox4x32(kat[i].counter, kat[i].key, out);
        assert_memory_equal(out, kat[i].out, sizeof(out));
    }
}

static void draws_depend_on_every_key_part(void **state)
{
    struct hr_rng a, b;

    (void)state;
    hr_rng_init(&a, 1, 2, 3, 4);
    uint32_t first = hr_rng_u32(&a);
    hr_rng_init(&b, 1, 2, 3, 4);
    assert_int_equal(hr_rng_u32(&b), first);
    uint64_t keys[4][4] = {{2, 2, 3, 4}, {1, 3, 3, 4}, {1, 2, 4, 4}, {1, 2, 3, 5}};
    for (int i = 0; i < 4; i++) {
        hr_rng_init(&b, keys[i][0], keys[i][1], keys[i][2], (uint32_t)keys[i][3]);
        assert_int_not_equal(hr_rng_u32(&b), first);
    }
    for (int i = 0; i < 1000; i++) {
        double u = hr_rng_uniform(&a);
        assert_true(u >= 0 && u < 1);
        assert_true(hr_rng_below(&a, 7) < 7);
    }
}

static void checksum_is_xxh3_at_every_length(void **state)
{
    /* Low 32 bits of XXH3-64 over the bytes i*7 mod 256, from the xxhash Python package. */
    static const struct {
        size_t bytes;
        uint32_t expected;
    } kat[] = {
        {0, 0x38d394c2},   {1, 0x074eecdb},   {3, 0xe968ad9e},   {16, 0xadf2be1e},
        {100, 0xf19d012e}, {240, 0x0ef8eed7}, {241, 0x6f0052e8}, {1000, 0x4426c830},
        {5000, 0xabcb2760},
    };
    uint8_t data[5000];

    (void)state;
    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = (uint8_t)(i * 7);
    for (size_t i = 0; i < HR_ARRAY_SIZE(kat); i++) {
        assert_int_equal(hr_checksum(data, kat[i].bytes), kat[i].expected);
        assert_int_equal((uint32_t)hr_hash64(data, kat[i].bytes, 0), kat[i].expected);
    }
}

static void digest_hex_round_trip(void **state)
{
    struct hr_digest d = hr_digest_of("headrace", 8), e;
    char hex[HR_DIGEST_HEX_BYTES];

    (void)state;
    hr_digest_hex(&d, hex);
    assert_string_equal(hex, "d204bc6c7a983ece79778286cfaaea08"); /* xxhash Python package */
    assert_true(hr_digest_parse(hex, &e));
    assert_true(hr_digest_equal(&d, &e));
    assert_false(hr_digest_parse("12", &e));
    hex[5] = 'x';
    assert_false(hr_digest_parse(hex, &e));
}

static void json_is_valid_whatever_the_bytes(void **state)
{
    struct hr_buf b = {0};

    (void)state;
    hr_json_open(&b, NULL, '{');
    hr_json_str(&b, "a\"b", "x\n\x01\xff\xc3\xa4");
    hr_json_open(&b, "list", '[');
    hr_json_int(&b, NULL, -3);
    hr_json_double(&b, NULL, 0.1);
    hr_json_bool(&b, NULL, true);
    hr_json_close(&b, ']');
    hr_json_null(&b, "n");
    hr_json_close(&b, '}');
    assert_string_equal(hr_buf_str(&b), "{\"a\\\"b\":\"x\\n\\u0001\xef\xbf\xbd\xc3\xa4\","
                                        "\"list\":[-3,0.1,true],\"n\":null}");
    hr_buf_finish(&b);
}

static void arguments_are_checked_against_their_table(void **state)
{
    int64_t size = 0;
    double p = 0.5;
    struct hr_arg_spec specs[] = {
        {.name = "size", .type = HR_ARG_TYPE_INT, .out = &size, .min = 1, .max = 1000,
         .required = true, .positional = true},
        {.name = "p", .type = HR_ARG_TYPE_FLOAT, .out = &p, .min = 0, .max = 1},
    };
    struct hr_arg args[2] = {
        {.name = "size", .kind = HR_ARG_INT, .integer = 224, .number = 224, .text = "224"},
        {.name = "P", .kind = HR_ARG_FLOAT, .number = 2, .text = "2.0", .line = 4, .column = 9},
    };
    struct hr_call call = {.name = "op", .args = args, .arg_count = 1, .file = "f.yaml"};
    struct hr_error err = HR_ERROR_INIT;

    (void)state;
    assert_int_equal(hr_args_read(&call, specs, 2, &err), 0);
    assert_int_equal(size, 224);
    call.arg_count = 2;
    assert_int_equal(hr_args_read(&call, specs, 2, &err), HR_E_CONFIG);
    assert_int_equal(err.line, 4);
    assert_string_equal(err.hint, "did you mean 'p'?");
    args[1].name = "p";
    assert_int_equal(hr_args_read(&call, specs, 2, &err), HR_E_CONFIG);
    assert_non_null(strstr(err.text, "from 0 to 1"));
    args[0].name = "";
    call.arg_count = 1;
    assert_int_equal(hr_args_read(&call, specs, 2, &err), 0);
    call.arg_count = 0;
    assert_int_equal(hr_args_read(&call, specs, 2, &err), HR_E_CONFIG);
}

static void texts_come_with_their_places(void **state)
{
    const struct hr_arg *names = NULL;
    int count = 0;
    const struct hr_arg_spec spec = {.name = "names", .type = HR_ARG_TYPE_STRS, .out = &names, .min_items = 1,
                                     .max_items = 2, .count = &count};
    struct hr_arg items[3] = {{.kind = HR_ARG_STR, .text = "a"}, {.kind = HR_ARG_STR, .text = "b", .column = 7},
                              {.kind = HR_ARG_NULL, .text = "~", .column = 9}};
    struct hr_arg arg = {.name = "names", .kind = HR_ARG_LIST, .items = items, .item_count = 2};
    struct hr_call call = {.name = "op", .args = &arg, .arg_count = 1, .file = "f.yaml"};
    struct hr_error err = HR_ERROR_INIT;

    (void)state;
    assert_int_equal(hr_args_read(&call, &spec, 1, &err), 0);
    assert_int_equal(count, 2);
    assert_int_equal(names[1].column, 7);
    arg.item_count = 3;
    assert_int_equal(hr_args_read(&call, &spec, 1, &err), HR_E_CONFIG);
    arg.items = items + 1;
    arg.item_count = 2;
    assert_int_equal(hr_args_read(&call, &spec, 1, &err), HR_E_CONFIG);
    assert_int_equal(err.column, 9);
    arg = (struct hr_arg){.name = "names", .kind = HR_ARG_STR, .text = "alone"};
    assert_int_equal(hr_args_read(&call, &spec, 1, &err), 0);
    assert_int_equal(count, 1);
    assert_string_equal(names[0].text, "alone");
}

static void descriptors_travel_over_a_socket(void **state)
{
    int pair[2], fds[8], count, pipe_fds[2];
    char buf[16];
    struct hr_error err;

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    assert_int_equal(pipe(pipe_fds), 0);
    assert_int_equal(hr_fd_send(pair[0], "hi", 2, &pipe_fds[1], 1, &err), 0);
    assert_int_equal(hr_fd_recv(pair[1], buf, sizeof(buf), fds, &count, &err), 2);
    assert_int_equal(count, 1);
    assert_int_equal(write(fds[0], "x", 1), 1);
    assert_int_equal(read(pipe_fds[0], buf, 1), 1);
    assert_int_equal(hr_fd_send(pair[0], "a long message for the buffer", 29, NULL, 0, &err), 0);
    assert_int_equal(hr_fd_recv(pair[1], buf, sizeof(buf), fds, &count, &err), HR_E_PROTOCOL);
    close(pair[0]);
    assert_int_equal(hr_fd_recv(pair[1], buf, sizeof(buf), fds, &count, &err), 0);
    assert_int_equal(hr_fd_send(pair[1], "x", 1, NULL, 0, &err), HR_E_DISCONNECTED);
}

static void an_event_that_another_emptied_is_not_waited_for(void **state)
{
    uint64_t count = 3;
    int fd = eventfd(0, EFD_CLOEXEC);

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(write(fd, &count, sizeof(count)), sizeof(count));
    alarm(5);
    hr_fd_drain_event(fd);
    hr_fd_drain_event(fd);
    alarm(0);
    struct pollfd p = {.fd = fd, .events = POLLIN};
    assert_int_equal(poll(&p, 1, 0), 0);
    close(fd);
}

/* Signatures as cpuid gives them. */
static void slow_pdep_is_known_by_vendor_and_family(void **state)
{
    (void)state;
    assert_true(hr_cpu_pdep_is_slow("AuthenticAMD", 0x00660f01));  /* Excavator, 15h */
    assert_true(hr_cpu_pdep_is_slow("AuthenticAMD", 0x00800f11));  /* Zen, 17h */
    assert_true(hr_cpu_pdep_is_slow("AuthenticAMD", 0x00830f10));  /* Zen 2 (Rome), 17h */
    assert_true(hr_cpu_pdep_is_slow("HygonGenuine", 0x00900f02));  /* Dhyana, 18h */
    assert_false(hr_cpu_pdep_is_slow("AuthenticAMD", 0x00a00f11)); /* Zen 3 (Milan), 19h */
    assert_false(hr_cpu_pdep_is_slow("AuthenticAMD", 0x00a10f11)); /* Zen 4 (Genoa), 19h */
    assert_false(hr_cpu_pdep_is_slow("AuthenticAMD", 0x00b00f21)); /* Zen 5, 1Ah */
    assert_false(hr_cpu_pdep_is_slow("GenuineIntel", 0x00050654)); /* Skylake-SP, 6 */
    assert_string_equal(hr_cpu_level_name(HR_CPU_AVX2 | HR_CPU_SLOW_PDEP), "avx2-nopdep");
    assert_string_equal(hr_cpu_level_name(HR_CPU_AVX2 | HR_CPU_AVX512), "avx512");
}

static void memory_file_is_sealed(void **state)
{
    struct hr_error err;
    int fd = hr_fd_memfd("test", 8192, &err);

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, 4096), -1);
    assert_int_equal(ftruncate(fd, 16384), -1);
    hr_fd_close(&fd);
    assert_int_equal(fd, -1);
}

static void quota_follows_the_cgroup(void **state)
{
    char dir[] = "/tmp/hr-cgroup-XXXXXX", path[64];
    struct hr_error err;

    (void)state;
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/cpu.max", dir);
    assert_int_equal(hr_fd_write_file_atomic(path, "50000 100000\n", 13, &err), 0);
    setenv("HEADRACE_CGROUP_ROOT", dir, 1);
    assert_true(hr_cpu_cgroup_limit() == 0.5);
    assert_int_equal(hr_cpu_quota(), 1);
    assert_int_equal(hr_fd_write_file_atomic(path, "max 100000\n", 11, &err), 0);
    assert_true(hr_cpu_cgroup_limit() < 0);
    unsetenv("HEADRACE_CGROUP_ROOT");
    unlink(path);
    rmdir(dir);
}

static void arrays_double_and_say_when_they_cannot(void **state)
{
    uint32_t *items = NULL;
    uint64_t cap = 0;

    (void)state;
    for (uint32_t i = 0; i < 100; i++) {
        uint32_t *grown = hr_array_grow(items, i, &cap, 3, sizeof(*items));
        assert_non_null(grown);
        items = grown;
        items[i] = i;
    }
    assert_int_equal(cap, 192); /* 3 * 2^6 */
    for (uint32_t i = 0; i < 100; i++)
        assert_int_equal(items[i], i);
    uint64_t most = UINT64_MAX;
    assert_null(hr_array_grow(items, most, &most, 3, sizeof(*items)));
    assert_true(most == UINT64_MAX);
    most = UINT64_MAX / 4;
    assert_null(hr_array_grow(items, most, &most, 3, sizeof(*items)));
    assert_true(most == UINT64_MAX / 4);
    hr_free(items);
}

static void names_round_trip(void **state)
{
    (void)state;
    for (int i = 1; i < HR_DTYPE_COUNT; i++)
        assert_int_equal(hr_dtype_parse(hr_dtype_name((enum hr_dtype)i)), i);
    for (int i = 1; i < HR_LAYOUT_COUNT; i++)
        assert_int_equal(hr_layout_parse(hr_layout_name((enum hr_layout)i)), i);
    for (int i = 1; i < HR_FIELD_COUNT; i++)
        assert_int_equal(hr_field_type_parse(hr_field_type_name((enum hr_field_type)i)), i);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(error_names_place_and_way_out),
        cmocka_unit_test(every_error_has_name_and_scope),
        cmocka_unit_test(philox_matches_published_vectors),
        cmocka_unit_test(draws_depend_on_every_key_part),
        cmocka_unit_test(checksum_is_xxh3_at_every_length),
        cmocka_unit_test(digest_hex_round_trip),
        cmocka_unit_test(json_is_valid_whatever_the_bytes),
        cmocka_unit_test(arguments_are_checked_against_their_table),
        cmocka_unit_test(texts_come_with_their_places),
        cmocka_unit_test(descriptors_travel_over_a_socket),
        cmocka_unit_test(an_event_that_another_emptied_is_not_waited_for),
        cmocka_unit_test(slow_pdep_is_known_by_vendor_and_family),
        cmocka_unit_test(memory_file_is_sealed),
        cmocka_unit_test(quota_follows_the_cgroup),
        cmocka_unit_test(arrays_double_and_say_when_they_cannot),
        cmocka_unit_test(names_round_trip),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
