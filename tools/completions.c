/* headrace completions: the script that teaches a shell the commands and their options. */
#include "tools/headrace.h"

static const struct hr_cli_arg args[] = {
    {"SHELL", "bash, zsh or fish"},
    {NULL},
};

const struct hr_command hr_command_completions = {
    .name = "completions",
    .summary = "print a shell's completion script",
    .description = "Prints the script that lets bash, zsh or fish complete commands and options. "
                   "An installed headrace brings them; this is for other places.",
    .args = args,
    .example = "  headrace completions bash > ~/.local/share/bash-completion/completions/headrace",
    .run = hr_tool_completions,
};

int hr_tool_completions(int argc, char **argv)
{
    struct hr_buf out = {0};
    struct hr_cli o;

    int code = hr_cli_parse(&hr_command_completions, argc, argv, &o, sizeof(o));
    if (code != HR_CLI_RUN)
        return code;
    if (!hr_cli_completions(&out, o.args[0]))
        return hr_cli_wrong(&hr_command_completions, "no completions for '%s'; one of: bash, zsh, fish",
                            o.args[0]);
    return hr_cli_print(&out);
}
