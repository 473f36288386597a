/* headrace help: the pages of the commands, as text or as manual pages. */
#include "tools/headrace.h"

#include "base/log.h"

struct options {
    struct hr_cli cli;
    bool man;
};

static const struct hr_cli_arg args[] = {
    {"COMMAND", "the command to explain; without one, all are listed", .optional = true},
    {NULL},
};

static const struct hr_opt opts[] = {
    {"man", 0, HR_OPT_FLAG, NULL, offsetof(struct options, man), "print the manual page in roff"},
    HR_OPT_END,
};

const struct hr_command hr_command_help = {
    .name = "help",
    .summary = "explain a command",
    .description = "Prints what a command does, its arguments and options. The same text is its "
                   "manual page.",
    .args = args,
    .opts = opts,
    .example = "  headrace help pack\n  headrace help --man pack | man -l -",
    .run = hr_tool_help,
};

int hr_tool_help(int argc, char **argv)
{
    const struct hr_command *command = NULL;
    struct hr_buf out = {0};
    struct options o;

    int code = hr_cli_parse(&hr_command_help, argc, argv, &o, sizeof(o));
    if (code != HR_CLI_RUN)
        return code;
    if (o.cli.arg_count) {
        command = hr_cli_find(o.cli.args[0]);
        if (!command) {
            const char *near = hr_cli_nearest_command(o.cli.args[0]);
            hr_log(HR_LOG_ERROR, "there is no command '%s'%s%s%s", o.cli.args[0],
                   near ? ", did you mean '" : "", near ? near : "", near ? "'?" : "");
            return HR_EXIT_USAGE;
        }
    }
    if (o.man)
        hr_cli_man(&out, command);
    else
        hr_cli_help(&out, command);
    return hr_cli_print(&out);
}
