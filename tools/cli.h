/* The command line, described once. A command is one const table: what it is, its arguments and its
 * options. From it come option parsing, `--help`, the manual page and the shells' completions, so
 * that none of them can disagree.
 *
 * A command's file holds its table `hr_command_NAME` and `hr_tool_NAME(argc, argv)`:
 *
 *     struct options { struct hr_cli cli; int64_t jobs; const char *from; };
 *     static const struct hr_opt opts[] = {
 *         {"jobs", 'j', HR_OPT_INT, "N", offsetof(struct options, jobs), "threads", .fallback = "auto"},
 *         HR_OPT_END};
 *     int hr_tool_x(int argc, char **argv)
 *     {
 *         struct options o;
 *         int code = hr_cli_parse(&hr_command_x, argc, argv, &o, sizeof(o));
 *         if (code != HR_CLI_RUN)
 *             return code;
 */
#ifndef HR_TOOLS_CLI_H
#define HR_TOOLS_CLI_H

#include "base/buf.h"
#include "base/err.h"

/* What a process ends with; 128 + n when signal n ended it. */
enum hr_exit_code {
    HR_EXIT_DONE = 0,
    HR_EXIT_FOUND = 1,  /* done, and something was found wrong */
    HR_EXIT_USAGE = 2,  /* wrong usage or configuration: nothing was done */
    HR_EXIT_FAILED = 3, /* failed underway */
};

enum hr_opt_type {
    HR_OPT_FLAG,   /* bool */
    HR_OPT_STR,    /* const char *, borrowed from argv */
    HR_OPT_INT,    /* int64_t */
    HR_OPT_SIZE,   /* uint64_t bytes: 4096, 256K, 64M, 1.5G (powers of 1,024) */
    HR_OPT_FLOAT,  /* double */
    HR_OPT_CHOICE, /* int: index into choices */
    HR_OPT_LIST,   /* struct hr_cli_list: may be given many times */
};

/* What a word on the command line stands for, so that shells complete it. */
enum hr_word { HR_WORD_ANY, HR_WORD_FILE, HR_WORD_FOLDER };

enum { HR_CLI_MAX_LIST = 32, HR_CLI_MAX_ARGS = 4096, HR_CLI_MAX_OPTS = 40 };

struct hr_cli_list {
    const char *items[HR_CLI_MAX_LIST];
    int count;
};

struct hr_opt {
    const char *name; /* without the dashes */
    char letter;      /* 0 = no short form */
    enum hr_opt_type type;
    const char *metavar; /* NULL for flags and choices */
    size_t offset;       /* of the value in the command's options struct */
    const char *help;
    const char *fallback; /* the default, as a user would type it; NULL = zero. With "auto" the word
                             auto is accepted and means 0 */
    const char *const *choices; /* CHOICE: NULL-terminated */
    double min, max;            /* INT, SIZE, FLOAT; not checked when min == max */
    enum hr_word word;
};

#define HR_OPT_END                                                                                 \
    {                                                                                              \
        0                                                                                          \
    }

struct hr_cli_arg {
    const char *name; /* NULL ends the list */
    const char *help;
    bool optional;
    bool repeats; /* one of them only */
    enum hr_word word;
};

struct hr_exit_note {
    int code;
    const char *when; /* NULL ends the list */
};

struct hr_command {
    const char *name;
    const char *summary;     /* one line, no full stop, lower case */
    const char *description; /* paragraphs split by empty lines; lines that start with two spaces
                                are kept as they are */
    const struct hr_cli_arg *args;     /* NULL = none */
    const struct hr_opt *opts;         /* ends with HR_OPT_END; NULL = none */
    const char *example;               /* kept as it is, one or more lines */
    const struct hr_exit_note *exits;  /* what differs from the common meanings; NULL = nothing */
    const char *see_also;              /* "pack verify": names of commands; NULL = none */
    bool has_json;                     /* takes --json */
    int (*run)(int argc, char **argv); /* argv[0] is the command's name */
};

/* First member of every options struct. */
struct hr_cli {
    const char *args[HR_CLI_MAX_ARGS];
    int arg_count;
    bool json;
};

/* Returned by hr_cli_parse() when the command is to go on. */
enum { HR_CLI_RUN = -1 };

/* Fills the options struct (zeroed first, then the defaults, then what was given), sets the log
 * level by -q and -v, answers --help. Returns HR_CLI_RUN, or the exit code to return. */
int hr_cli_parse(const struct hr_command *command, int argc, char **argv, void *options,
                 size_t option_bytes) HR_MUST_CHECK;

/* Complaint about usage, with the command that shows the right one. Returns HR_EXIT_USAGE. */
int hr_cli_wrong(const struct hr_command *command, const char *fmt, ...) HR_PRINTF(2, 3);

/* Logs the error and returns the exit code that belongs to it: HR_EXIT_USAGE for usage and
 * configuration, otherwise HR_EXIT_FAILED. */
int hr_cli_failed(const char *doing, const struct hr_error *err);
/* The same for what the command line names: that it is not there, may not be read or is something
 * else is wrong usage, and nothing was done. */
int hr_cli_unopened(const char *doing, const struct hr_error *err);

/* "256M" -> bytes. False when it is not a size or does not fit. */
bool hr_cli_parse_size(const char *text, uint64_t *bytes);
/* A whole number of up to 64 bits, digits only. False when it is none. */
bool hr_cli_parse_count(const char *text, uint64_t *out);
/* Bytes for people: "1.2 GB" (powers of 1,000). Returns buf. */
const char *hr_cli_format_bytes(uint64_t bytes, char buf[32]);
/* A count for people: "1,234,567". Returns buf. */
const char *hr_cli_format_count(uint64_t count, char buf[32]);

/* Writes all of buf to stdout, and finishes buf. Exit code: HR_EXIT_FAILED when stdout cannot take it. */
int hr_cli_print(struct hr_buf *buf);

/* Options that every command has, after its own. */
extern const struct hr_opt hr_cli_common[];
/* Meanings of exit codes that every command shares. */
extern const struct hr_exit_note hr_cli_exits[];

/* All commands, in the order in which help shows them (headrace.c). */
const struct hr_command *const *hr_cli_commands(int *count);
const struct hr_command *hr_cli_find(const char *name); /* NULL = none of that name */
/* "did you mean" for commands; NULL when none is near. */
const char *hr_cli_nearest_command(const char *name);

/* Renderings of the table. command NULL: the page of headrace itself. */
void hr_cli_usage(struct hr_buf *out, const struct hr_command *command);
void hr_cli_help(struct hr_buf *out, const struct hr_command *command);
void hr_cli_man(struct hr_buf *out, const struct hr_command *command);
bool hr_cli_completions(struct hr_buf *out, const char *shell); /* false: no such shell */

/* Calls fn for the command's own options, then the common ones that it takes. */
void hr_cli_each_opt(const struct hr_command *command,
                     void (*fn)(void *arg, const struct hr_opt *opt), void *arg);

#endif
