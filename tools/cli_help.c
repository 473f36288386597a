/* The --help pages, written from the tables of the commands. */
#include "tools/cli.h"

#include <stdio.h>
#include <string.h>

#include <headrace/version.h>

enum { WIDTH = 90, HELP_COLUMN = 26 };

/* One paragraph, wrapped; lines that start with two spaces are kept. The first line continues at
 * column, the others begin at indent. */
static void wrap(struct hr_buf *out, const char *text, int indent, int column)
{
    const char *p = text;

    while (*p) {
        if (*p == '\n') {
            hr_buf_addf(out, "\n%s", p[1] == '\n' ? "\n" : "");
            p += p[1] == '\n' ? 2 : 1;
            column = 0;
            continue;
        }
        size_t verbatim = column == 0 && strncmp(p, "  ", 2) == 0 ? strcspn(p, "\n") : 0;
        if (verbatim) {
            hr_buf_addf(out, "%.*s", (int)verbatim, p);
            p += verbatim;
            column = (int)verbatim;
            continue;
        }
        size_t word = strcspn(p, " \n");
        if (column > indent && column + 1 + (int)word > WIDTH) {
            hr_buf_addf(out, "\n%*s", indent, "");
            column = indent;
        } else if (column > indent) {
            hr_buf_add_str(out, " ");
            column++;
        } else if (column < indent) {
            hr_buf_addf(out, "%*s", indent - column, "");
            column = indent;
        }
        hr_buf_add(out, p, word);
        column += (int)word;
        p += word;
        p += strspn(p, " ");
        /* A single line break inside a paragraph is a space, unless a kept line follows. */
        if (p[0] == '\n' && p[1] && p[1] != '\n' && strncmp(p + 1, "  ", 2) != 0)
            p++;
    }
    hr_buf_add_str(out, "\n");
}

static void labelled(struct hr_buf *out, const char *label, const char *text)
{
    int column = 2 + (int)strlen(label);

    hr_buf_addf(out, "  %s", label);
    if (column + 1 > HELP_COLUMN) {
        hr_buf_add_str(out, "\n");
        column = 0;
    } else {
        hr_buf_addf(out, "%*s", HELP_COLUMN - column, "");
        column = HELP_COLUMN;
    }
    wrap(out, text, HELP_COLUMN, column);
}

void hr_cli_usage(struct hr_buf *out, const struct hr_command *command)
{
    hr_buf_addf(out, "headrace %s [OPTION...]", command->name);
    for (const struct hr_cli_arg *arg = command->args; arg && arg->name; arg++)
        hr_buf_addf(out, arg->optional ? " [%s%s]" : " %s%s", arg->name,
                    arg->repeats ? "..." : "");
}

static void help_opt(void *arg, const struct hr_opt *opt)
{
    struct hr_buf *out = arg;
    struct hr_buf label = {0}, text = {0};

    if (opt->letter)
        hr_buf_addf(&label, "-%c, ", opt->letter);
    hr_buf_addf(&label, "--%s", opt->name);
    for (int i = 0; opt->choices && opt->choices[i]; i++)
        hr_buf_addf(&label, "%s%s", i ? "|" : "=", opt->choices[i]);
    if (opt->metavar && !opt->choices)
        hr_buf_addf(&label, " %s", opt->metavar);
    hr_buf_add_str(&text, opt->help);
    if (opt->fallback)
        hr_buf_addf(&text, " (default: %s)", opt->fallback);
    labelled(out, hr_buf_str(&label), hr_buf_str(&text));
    hr_buf_finish(&label);
    hr_buf_finish(&text);
}

static void help_exits(struct hr_buf *out, const struct hr_command *command)
{
    const struct hr_exit_note *lists[] = {hr_cli_exits, command->exits};
    char label[16];

    hr_buf_add_str(out, "\nExit codes:\n");
    for (const struct hr_exit_note *common = lists[0]; common->when; common++) {
        const char *when = common->when;
        for (const struct hr_exit_note *own = lists[1]; own && own->when; own++)
            if (own->code == common->code)
                when = own->when;
        snprintf(label, sizeof(label), "%d", common->code);
        labelled(out, label, when);
    }
}

static void help_all(struct hr_buf *out)
{
    int count;
    const struct hr_command *const *commands = hr_cli_commands(&count);

    hr_buf_add_str(out, "headrace " HR_VERSION_STRING
                        ": feeds training from sharded multimodal datasets\n\n"
                        "usage: headrace COMMAND [OPTION...] [ARGUMENT...]\n"
                        "       headrace COMMAND --help\n\nCommands:\n");
    for (int i = 0; i < count; i++)
        labelled(out, commands[i]->name, commands[i]->summary);
    hr_buf_add_str(out, "\nOptions:\n");
    labelled(out, "-h, --help", "print this page and end");
    labelled(out, "-V, --version", "print the version and end");
}

void hr_cli_help(struct hr_buf *out, const struct hr_command *command)
{
    if (!command) {
        help_all(out);
        return;
    }
    hr_buf_add_str(out, "usage: ");
    hr_cli_usage(out, command);
    hr_buf_add_str(out, "\n\n");
    wrap(out, command->description, 0, 0);
    if (command->args && command->args->name)
        hr_buf_add_str(out, "\nArguments:\n");
    for (const struct hr_cli_arg *arg = command->args; arg && arg->name; arg++)
        labelled(out, arg->name, arg->help);
    hr_buf_add_str(out, "\nOptions:\n");
    hr_cli_each_opt(command, help_opt, out);
    if (command->example) {
        hr_buf_add_str(out, "\nExample:\n");
        hr_buf_addf(out, "%s\n", command->example);
    }
    help_exits(out, command);
}
