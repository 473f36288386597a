/* conf: pipeline files as structs, and every mistake in them by line and column. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/buf.h"
#include "conf/conf.h"

static struct hr_conf parse(const char *text)
{
    struct hr_conf conf;
    struct hr_error err;
    char line[1024];

    if (hr_conf_parse(text, strlen(text), "t.yaml", &conf, &err) < 0)
        fail_msg("%s", hr_error_format(&err, line, sizeof(line)));
    return conf;
}

static const char whole[] =
    "dataset: imagenet.hrd\n"
    "seed: 18446744073709551615\n"
    "batch: 512\n"
    "order: {window: {block: 2048, open: 8}}\n"
    "last: wrap\n"
    "bad_records: mask\n"
    "bad_budget: 0\n"
    "bad_consecutive: 7\n"
    "slots: 6\n"
    "workers: 3\n"
    "reader: preadv\n"
    "io: direct\n"
    "read_ahead_bytes: 64MiB\n"
    "storage_deadline_s: 2.5\n"
    "epochs: 90\n"
    "fields:\n"
    "  image:\n"
    "    ops:\n"
    "      - random_resized_crop: {size: 224, scale: [0.08, 1]}\n"
    "      - hflip\n"
    "      - resize: 256\n"
    "      - normalize:\n"
    "          mean: [0.485, 0.456, 0.406]\n"
    "    output: {dtype: f16, layout: nchw}\n"
    "  label:\n"
    "  caption: {max_bytes: 512, start: '7', keep: true, list: [a, 1], none: null}\n";

static void whole_file_is_read(void **state)
{
    struct hr_conf conf = parse(whole);

    assert_int_equal(conf.dataset_count, 1);
    assert_string_equal(conf.datasets[0].path, "imagenet.hrd");
    assert_true(conf.datasets[0].weight == 1);
    assert_true(conf.seed == UINT64_MAX && conf.batch == 512);
    assert_int_equal(conf.seed_line, 2);
    assert_int_equal(conf.batch_line, 3);
    assert_int_equal(conf.order, HR_CONF_ORDER_WINDOW);
    assert_int_equal(conf.window_block_records, 2048);
    assert_int_equal(conf.window_open_blocks, 8);
    assert_int_equal(conf.last, HR_CONF_LAST_WRAP);
    assert_int_equal(conf.bad_records, HR_CONF_BAD_MASK);
    assert_true(conf.bad_budget == 0 && conf.bad_consecutive == 7);
    assert_true(conf.slots == 6 && conf.workers == 3 && conf.epochs == 90);
    assert_string_equal(conf.reader, "preadv");
    assert_int_equal(conf.io, HR_CONF_IO_DIRECT);
    assert_int_equal(conf.read_ahead_bytes, 64 << 20);
    assert_true(conf.storage_deadline_s == 2.5);
    assert_int_equal(conf.field_count, 3);
    hr_conf_finish(&conf);
}

static void mixing_becomes_calls(void **state)
{
    struct hr_conf conf = parse("dataset: d\nblend:\n  images: [a, b]\n  labels: label\n  mixup: 0.2\n"
                                "  cutmix: {alpha: 1}\n");
    const struct hr_conf_blend *b = conf.blend;

    assert_non_null(b);
    assert_int_equal(b->options.arg_count, 2);
    assert_string_equal(b->options.args[0].name, "images");
    assert_int_equal(b->options.args[0].item_count, 2);
    assert_int_equal(b->options.args[0].items[1].line, 3);
    assert_int_equal(b->options.args[0].items[1].column, 15);
    assert_string_equal(b->mixup.args[0].name, "");
    assert_true(b->mixup.args[0].number == 0.2);
    assert_string_equal(b->cutmix.args[0].name, "alpha");
    hr_conf_finish(&conf);
    conf = parse("dataset: d\nblend: {mixup: }\n");
    assert_string_equal(conf.blend->mixup.name, "mixup");
    assert_int_equal(conf.blend->mixup.arg_count, 0);
    assert_null(conf.blend->cutmix.name);
    hr_conf_finish(&conf);
    conf = parse("dataset: d\nblend:\n");
    assert_null(conf.blend);
    hr_conf_finish(&conf);
}

static void seeds_may_have_all_64_bits_however_they_are_written(void **state)
{
    static const struct {
        const char *text;
        uint64_t seed;
    } rows[] = {{"0", 0}, {"-0", 0}, {"007", 7}, {"+5", 5}, {"0o17", 15}, {"4294967296", UINT64_C(1) << 32},
                {"9223372036854775808", UINT64_C(1) << 63}, {"0x8000000000000000", UINT64_C(1) << 63},
                {"0xffffffffffffffff", UINT64_MAX}, {"+18446744073709551615", UINT64_MAX},
                {"0o1777777777777777777777", UINT64_MAX}};
    char text[64];

    (void)state;
    for (size_t i = 0; i < HR_ARRAY_SIZE(rows); i++) {
        snprintf(text, sizeof(text), "dataset: d\nseed: %s\n", rows[i].text);
        struct hr_conf conf = parse(text);
        assert_true(conf.seed == rows[i].seed);
        hr_conf_finish(&conf);
    }
}

static void ops_become_calls(void **state)
{
    struct hr_conf conf = parse(whole);
    struct hr_conf_field *image = &conf.fields[0];

    assert_string_equal(image->name, "image");
    assert_int_equal(image->op_count, 4);
    assert_string_equal(image->ops[0].name, "random_resized_crop");
    assert_int_equal(image->ops[0].line, 19);
    assert_int_equal(image->ops[0].column, 9);
    assert_int_equal(image->ops[0].arg_count, 2);
    assert_string_equal(image->ops[0].args[0].name, "size");
    assert_int_equal(image->ops[0].args[0].kind, HR_ARG_INT);
    assert_int_equal(image->ops[0].args[0].integer, 224);
    assert_int_equal(image->ops[0].args[0].column, 37);
    assert_int_equal(image->ops[0].args[0].key_line, 19);
    assert_int_equal(image->ops[0].args[0].key_column, 31);
    assert_int_equal(image->ops[0].args[1].kind, HR_ARG_LIST);
    assert_true(image->ops[0].args[1].items[0].number == 0.08);
    assert_true(image->ops[0].args[1].items[1].number == 1);
    assert_string_equal(image->ops[1].name, "hflip");
    assert_int_equal(image->ops[1].arg_count, 0);
    assert_string_equal(image->ops[2].args[0].name, "");
    assert_int_equal(image->ops[2].args[0].integer, 256);
    assert_int_equal(image->ops[3].args[0].item_count, 3);
    const struct hr_call *output = hr_conf_field_table(image, "output");
    assert_non_null(output);
    assert_string_equal(output->args[1].text, "nchw");
    assert_null(hr_conf_field_table(image, "clip"));
    hr_conf_finish(&conf);
}

static void options_keep_their_kinds(void **state)
{
    struct hr_conf conf = parse(whole);
    struct hr_conf_field *caption = &conf.fields[2];
    const struct hr_arg *args = caption->options.args;

    assert_int_equal(conf.fields[1].op_count + conf.fields[1].table_count, 0);
    assert_int_equal(caption->options.arg_count, 5);
    assert_true(args[0].kind == HR_ARG_INT && args[0].integer == 512 && args[0].number == 512);
    assert_true(args[1].kind == HR_ARG_STR && strcmp(args[1].text, "7") == 0);
    assert_true(args[2].kind == HR_ARG_BOOL && args[2].boolean);
    assert_true(args[3].kind == HR_ARG_LIST && args[3].items[0].kind == HR_ARG_STR);
    assert_int_equal(args[4].kind, HR_ARG_NULL);
    hr_conf_finish(&conf);
}

static void defaults_hold_where_nothing_is_said(void **state)
{
    struct hr_conf conf = parse("dataset: a");

    assert_true(conf.seed == 1 && conf.batch == 256 && conf.slots == 4 && conf.workers == 0);
    assert_int_equal(conf.order, HR_CONF_ORDER_FULL);
    assert_int_equal(conf.last, HR_CONF_LAST_DROP);
    assert_int_equal(conf.bad_records, HR_CONF_BAD_SUBSTITUTE);
    assert_true(conf.bad_budget == 0.001 && conf.bad_consecutive == 100);
    assert_string_equal(conf.reader, "auto");
    assert_int_equal(conf.io, HR_CONF_IO_AUTO);
    assert_true(conf.storage_deadline_s == 60 && conf.read_ahead_bytes == 0 && conf.epochs == 0);
    assert_int_equal(conf.field_count, 0);
    assert_int_equal(conf.batch_line, 0);
    hr_conf_finish(&conf);
}

static void json_is_read_too(void **state)
{
    struct hr_conf conf = parse("{\"dataset\": [{\"path\": \"a\\u0062\", \"weight\": 3}, \"c\"],"
                                "\t\"workers\": \"auto\",\r\n \"fields\": {\"x\": null,\n"
                                "\"y\": {\"ops\": [{\"hflip\": {\"p\": 5e-1}}, \"gray\"]}}}");

    assert_int_equal(conf.dataset_count, 2);
    assert_string_equal(conf.datasets[0].path, "ab");
    assert_true(conf.datasets[0].weight == 3 && conf.datasets[1].weight == 1);
    assert_true(conf.fields[1].ops[0].args[0].number == 0.5);
    assert_string_equal(conf.fields[1].ops[1].name, "gray");
    hr_conf_finish(&conf);
}

static void line_ends_bom_and_anchors_are_fine(void **state)
{
    struct hr_conf conf = parse("\xef\xbb\xbf" "dataset: a\r\nfields:\r\n  x: &same {ops: [hflip]}\r\n"
                                "  y: *same\r\n");

    assert_int_equal(conf.field_count, 2);
    assert_string_equal(conf.fields[1].ops[0].name, "hflip");
    hr_conf_finish(&conf);
    conf = parse("---\ndataset: a\norder: {window: {}}\nread_ahead_bytes: 4096\n...\n");
    assert_int_equal(conf.order, HR_CONF_ORDER_WINDOW);
    assert_int_equal(conf.window_block_records, 0);
    hr_conf_finish(&conf);
}

struct mistake {
    const char *text;
    int line, column;
    const char *reason, *hint; /* parts of them */
};

#define D "dataset: a\n"

static const struct mistake mistakes[] = {
    {"", 0, 0, "the file is empty", "dataset: PATH"},
    {"# nothing\n", 0, 0, "the file is empty", ""},
    {"\n\n---\n", 0, 0, "the file is empty", ""},
    {"just words", 1, 1, "is a mapping of keys", "begin with"},
    {"- a\n- b\n", 1, 1, "is a mapping of keys", ""},
    {"seed: 1\n", 1, 1, "no 'dataset' is given", "add 'dataset: PATH'"},
    {D "bacth: 4\n", 2, 1, "there is no key 'bacth'", "did you mean 'batch'?"},
    {D "batch_size: 4\n", 2, 1, "there is no key 'batch_size'", "did you mean 'batch'?"},
    {D "shuffle: true\n", 2, 1, "there is no key 'shuffle'", "did you mean 'order'?"},
    {D "quux: 4\n", 2, 1, "there is no key 'quux'", "known: dataset, where, stop, seed, batch"},
    {D "batch: 4\nbatch: 5\n", 3, 1, "'batch' is given twice", "line 2"},
    {D "batch: 0\n", 2, 8, "'batch' is 0; it must be from 1 to 1048576", ""},
    {D "batch: 1048577\n", 2, 8, "from 1 to 1048576", ""},
    {D "batch: -4\n", 2, 8, "'batch' is -4", ""},
    {D "batch: \"224\"\n", 2, 8, "must be an integer, not text '224'", "remove the quotes"},
    {D "batch: 2.5\n", 2, 8, "must be an integer, not a number '2.5'", ""},
    {D "batch: 1_000\n", 2, 8, "must be an integer, not text '1_000'", ""},
    {D "batch:\n", 2, 0, "'batch' has no value", ""},
    {D "batch: [4]\n", 2, 8, "must be an integer, not a list", ""},
    {D "batch: {a: 4}\n", 2, 8, "must be an integer, not a mapping", ""},
    {D "batch: 99999999999999999999\n", 2, 8, "does not fit 64 bits", ""},
    {D "batch: 0x\n", 2, 8, "not text '0x'", ""},
    {D "seed: 18446744073709551616\n", 2, 7, "from 0 to 18446744073709551615", ""},
    {D "seed: -1\n", 2, 7, "from 0 to 18446744073709551615", ""},
    {D "seed: 0x10000000000000000\n", 2, 7, "from 0 to 18446744073709551615", ""},
    {D "seed: +18446744073709551616\n", 2, 7, "from 0 to 18446744073709551615", ""},
    {D "seed: 0x\n", 2, 7, "must be an integer, not text '0x'", ""},
    {D "seed: 1e3\n", 2, 7, "must be an integer, not a number '1e3'", ""},
    {D "seed: \"5\"\n", 2, 7, "must be an integer, not text '5'", "remove the quotes"},
    {D "seed: yes\n", 2, 7, "must be an integer, not text 'yes'", "booleans are true and false"},
    {D "seed: true\n", 2, 7, "must be an integer, not a boolean 'true'", ""},
    {D "slots: 257\n", 2, 8, "from 1 to 256", ""},
    {D "workers: 1025\n", 2, 10, "from 0 to 1024", ""},
    {D "workers: many\n", 2, 10, "must be an integer, not text 'many'", ""},
    {D "order: ful\n", 2, 8, "'order' cannot be 'ful'", "did you mean 'full'? one of: full, window"},
    {D "order: {window: {blok: 4}}\n", 2, 18, "'window' has no key 'blok'", "'block'"},
    {D "order: {window: 4}\n", 2, 17, "'window' must be a mapping", ""},
    {D "order: {window: {block: 0}}\n", 2, 25, "from 1 to", ""},
    {D "order: {full: {}}\n", 2, 9, "'full' takes no arguments", ""},
    {D "order: [full]\n", 2, 8, "must be a word, not a list", ""},
    {D "last: nope\n", 2, 7, "'last' cannot be 'nope'", "one of: drop, pad, wrap, keep"},
    {D "bad_records: ignore\n", 2, 14, "'bad_records' cannot be 'ignore'", "substitute"},
    {D "bad_budget: 1.5\n", 2, 13, "from 0 to 1", ""},
    {D "bad_budget: .nan\n", 2, 13, "'.nan' is not a finite number", ""},
    {D "bad_budget: -.inf\n", 2, 13, "'-.inf' is not a finite number", ""},
    {D "bad_budget: 1e999\n", 2, 13, "'1e999' is too large for a number", ""},
    {D "storage_deadline_s: 0\n", 2, 21, "above 0", ""},
    {D "read_ahead_bytes: 64MB\n", 2, 19, "not text '64MB'", "64MiB"},
    {D "read_ahead_bytes: 9999999GiB\n", 2, 19, "at most 1024GiB", ""},
    {D "read_ahead_bytes: 1025GiB\n", 2, 19, "at most 1024GiB", ""},
    {D "read_ahead_bytes: 17179869184GiB\n", 2, 19, "at most 1024GiB", ""}, /* 2^64 */
    {D "read_ahead_bytes: 1099511627776MiB\n", 2, 19, "at most 1024GiB", ""},
    {D "read_ahead_bytes: 0KiB\n", 2, 19, "at most 1024GiB", ""},
    {D "reader: urng\n", 2, 9, "'reader' cannot be 'urng'", "did you mean 'uring'?"},
    {D "io: buffered\n", 2, 5, "'io' cannot be 'buffered'", "auto, cached, direct"},
    {"dataset: ''\n", 1, 10, "'dataset' is an empty path", ""},
    {"dataset: 5\n", 1, 10, "must be a path, not an integer '5'", ""},
    {"dataset: []\n", 1, 10, "lists 0", ""},
    {"dataset: [{weight: 1}]\n", 1, 11, "a dataset needs 'path'", ""},
    {"dataset: [{path: a, wieght: 1}]\n", 1, 21, "no key 'wieght'", "'weight'"},
    {"dataset: [{path: a, weight: 0}]\n", 1, 29, "above 0", ""},
    {"dataset: [{path: a, weight: \"2\"}]\n", 1, 29, "must be a number, not text '2'", "quotes"},
    {D "fields: image\n", 2, 9, "'fields' must be a mapping", "one line a field"},
    {D "fields: [image]\n", 2, 9, "'fields' must be a mapping", ""},
    {D "fields:\n  image: 4\n", 3, 10, "field 'image' must be empty or a mapping", ""},
    {D "fields:\n  x:\n  x:\n", 4, 3, "'x' is given twice", "line 3"},
    {D "fields: {x: {ops: hflip}}\n", 2, 19, "'ops' must be a list", "'- '"},
    {D "fields: {x: {ops: [[a]]}}\n", 2, 20, "an op must be a name or", ""},
    {D "fields: {x: {ops: [{a: 1, b: 2}]}}\n", 2, 27, "one op a list item, not 2", ""},
    {D "fields: {x: {ops: [{}]}}\n", 2, 20, "one op a list item, not 0", ""},
    {D "fields: {x: {ops: [{a: {b: {c: 1}}}]}}\n", 2, 28, "'b' cannot be a mapping", ""},
    {D "fields: {x: {ops: [{a: {b: [[1]]}}]}}\n", 2, 29, "a list inside 'b' holds a list", ""},
    {D "fields: {x: {p: .inf}}\n", 2, 17, "not a finite number", ""},
    {D "fields: {x: {p: 9223372036854775808}}\n", 2, 17, "does not fit 64 bits", ""},
    {D "fields:\n  x:\n\ty: 1\n", 4, 0, "", "indent with spaces"},
    {D "fields: {x: {a: 1}\n", 0, 0, "", ""},
    {D "a: b: c\n", 2, 0, "", ""},
    {D "---\ndataset: b\n", 2, 1, "a second document begins here", "one document"},
    {D "seed: !!int 3\n", 2, 0, "tags", ""},
    {D "<<: {seed: 1}\n", 2, 1, "there is no key '<<'", "merge keys"},
    {D "fields: *nothing\n", 2, 9, "no anchor '&nothing'", ""},
    {D "fields: &f {x: *f}\n", 2, 16, "'*f' stands inside what it names", ""},
    {D "[a]: 1\n", 2, 1, "a key must be a word", ""},
    {D "seed: \"\\0\"\n", 2, 7, "NUL byte", ""},
    {"\xff\xfe" "d\0", 1, 1, "UTF-16", "save it as UTF-8"},
    {D "seed: \xff\n", 2, 7, "not UTF-8", ""},
    {D "where: n = 3\n", 2, 10, "'=' alone", "'=='"},
    {D "where: 'n == 3 adn x'\n", 2, 16, "'adn' where", ""},
    {D "where: 'n == ''x'' y'\n", 2, 8, "character 10 of the filter", ""},
    {D "where: >\n  n == 3\n  or\n", 3, 1, "character 11 of the filter", ""},
    {D "where: 3\n", 2, 8, "must be a filter", ""},
    {"dataset: {path: d, where: n}\nwhere: n <\n", 2, 11, "ends where", ""},
    {"dataset: [{path: d, where: n ! 3}]\n", 1, 30, "'!' alone", ""},
    {"dataset: [{path: d, repeats: 0}]\n", 1, 30, "from 1 to", ""},
    {"dataset: [{path: d, repeats: 2}, {path: e, weight: 2}]\n", 1, 52, "where a dataset has 'repeats'", "not by both"},
    {D "stop: never\n", 2, 7, "'stop' cannot be 'never'", "one of: all_exhausted"},
    {D "stop: steps\n", 2, 7, "needs a number", "{steps: 1000}"},
    {D "stop: {steps: 0}\n", 2, 15, "'steps' is 0", ""},
    {D "stop: {first_exhausted: 3}\n", 2, 8, "takes no arguments", ""},
    {D "b\xc3\xa4tch: \xc3\n", 2, 8, "not UTF-8", ""},
};

static void mistakes_are_named_with_their_place(void **state)
{
    int wrong = 0;

    for (size_t i = 0; i < sizeof(mistakes) / sizeof(mistakes[0]); i++) {
        const struct mistake *m = &mistakes[i];
        struct hr_conf conf = {.batch = 77};
        struct hr_error err = HR_ERROR_INIT;
        char line[1024];
        int ret = hr_conf_parse(m->text, strlen(m->text), "t.yaml", &conf, &err);

        if (ret == HR_E_CONFIG && err.code == ret && strcmp(err.file, "t.yaml") == 0 &&
            (!m->line || m->line == err.line) && (!m->column || m->column == err.column) &&
            strstr(err.text, m->reason) && strstr(err.hint, m->hint) && conf.batch == 77)
            continue;
        wrong++;
        print_error("%s\n  gives %s\n", m->text, hr_error_format(&err, line, sizeof(line)));
        if (ret == 0)
            hr_conf_finish(&conf);
    }
    assert_int_equal(wrong, 0);
}

static void no_error_struct_is_fine(void **state)
{
    struct hr_conf conf;

    for (size_t i = 0; i < sizeof(mistakes) / sizeof(mistakes[0]); i++)
        assert_int_equal(hr_conf_parse(mistakes[i].text, strlen(mistakes[i].text), NULL, &conf, NULL),
                         HR_E_CONFIG);
}

static void expect_refused(struct hr_buf *text, const char *reason)
{
    struct hr_conf conf;
    struct hr_error err;

    assert_false(hr_buf_failed(text));
    assert_int_equal(hr_conf_parse(hr_buf_str(text), text->used, "t.yaml", &conf, &err),
                     HR_E_CONFIG);
    if (!strstr(err.text, reason))
        fail_msg("'%s' instead of '%s'", err.text, reason);
    hr_buf_finish(text);
}

static void alias_bombs_are_refused(void **state)
{
    struct hr_buf text = {0};

    hr_buf_add_str(&text, "dataset: a\na0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for (int i = 1; i < 12; i++) {
        hr_buf_addf(&text, "a%d: &a%d [", i, i);
        for (int j = 0; j < 10; j++)
            hr_buf_addf(&text, "%s*a%d", j ? ", " : "", i - 1);
        hr_buf_add_str(&text, "]\n");
    }
    expect_refused(&text, "more than 20000 values");
}

static void deep_and_large_texts_are_refused(void **state)
{
    struct hr_buf text = {0};

    hr_buf_add_str(&text, "a: ");
    for (int i = 0; i < 30; i++)
        hr_buf_add_str(&text, "[");
    expect_refused(&text, "nested more than 16 deep");
    for (int i = 0; i < 100000; i++)
        hr_buf_add_str(&text, "[");
    expect_refused(&text, "");
    hr_buf_add_str(&text, "a: [");
    for (int i = 0; i < 30000; i++)
        hr_buf_add_str(&text, "1,");
    expect_refused(&text, "more than 20000 values");
    for (int i = 0; i < 70000; i++)
        hr_buf_add_str(&text, "# sixteen bytes\n");
    expect_refused(&text, "1120000 bytes; a pipeline file has at most 1048576");
}

static void paths_are_taken_from_the_folder_of_the_file(void **state)
{
    char folder[] = "/tmp/hr-conf-XXXXXX", file[64];
    struct hr_conf conf;
    struct hr_error err;

    assert_non_null(mkdtemp(folder));
    snprintf(file, sizeof(file), "%s/c.yaml", folder);
    FILE *f = fopen(file, "w");
    fputs("dataset: [sub/a.hrd, /abs/b.hrd, 's3://bucket/c']\n", f);
    fclose(f);
    assert_int_equal(hr_conf_load(file, &conf, &err), 0);
    assert_int_equal(strncmp(conf.datasets[0].path, folder, strlen(folder)), 0);
    assert_string_equal(conf.datasets[0].path + strlen(folder), "/sub/a.hrd");
    assert_string_equal(conf.datasets[1].path, "/abs/b.hrd");
    assert_string_equal(conf.datasets[2].path, "s3://bucket/c");
    hr_conf_finish(&conf);
    unlink(file);
    rmdir(folder);
    assert_int_equal(hr_conf_load(file, &conf, &err), HR_E_NOT_FOUND);
}

static void prefixes_of_a_file_never_crash(void **state)
{
    for (size_t n = 0; n < sizeof(whole); n++) {
        struct hr_conf conf;
        char *copy = malloc(n + 1); /* exact, so that a sanitizer sees a read past it */
        memcpy(copy, whole, n);
        if (hr_conf_parse(copy, n, "t.yaml", &conf, NULL) == 0)
            hr_conf_finish(&conf);
        free(copy);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_file_is_read),
        cmocka_unit_test(seeds_may_have_all_64_bits_however_they_are_written),
        cmocka_unit_test(ops_become_calls),
        cmocka_unit_test(mixing_becomes_calls),
        cmocka_unit_test(options_keep_their_kinds),
        cmocka_unit_test(defaults_hold_where_nothing_is_said),
        cmocka_unit_test(json_is_read_too),
        cmocka_unit_test(line_ends_bom_and_anchors_are_fine),
        cmocka_unit_test(mistakes_are_named_with_their_place),
        cmocka_unit_test(no_error_struct_is_fine),
        cmocka_unit_test(alias_bombs_are_refused),
        cmocka_unit_test(deep_and_large_texts_are_refused),
        cmocka_unit_test(paths_are_taken_from_the_folder_of_the_file),
        cmocka_unit_test(prefixes_of_a_file_never_crash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
