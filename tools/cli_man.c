/* Manual pages in roff, written from the tables of the commands. */
#include "tools/cli.h"

#include <stdio.h>
#include <string.h>

#include <headrace/version.h>

/* Text with roff's special characters escaped; a dot or quote that begins a line is guarded. */
static void escaped(struct hr_buf *out, const char *text)
{
    bool line_start = out->used == 0 || out->data[out->used - 1] == '\n';

    for (; *text; text++) {
        if (line_start && (*text == '.' || *text == '\''))
            hr_buf_add_str(out, "\\&");
        if (*text == '\\')
            hr_buf_add_str(out, "\\e");
        else if (*text == '-')
            hr_buf_add_str(out, "\\-");
        else
            hr_buf_add(out, text, 1);
        line_start = *text == '\n';
    }
}

/* Paragraphs, with lines that start with two spaces set as they are. */
static void paragraphs(struct hr_buf *out, const char *text)
{
    bool kept = false;

    while (*text) {
        size_t n = strcspn(text, "\n");
        char line[1024];
        snprintf(line, sizeof(line), "%.*s", (int)n, text);
        bool keep = strncmp(line, "  ", 2) == 0;
        if (keep != kept)
            hr_buf_add_str(out, keep ? ".nf\n" : ".fi\n");
        kept = keep;
        if (n == 0)
            hr_buf_add_str(out, ".PP");
        else
            escaped(out, line);
        hr_buf_add_str(out, "\n");
        text += n + (text[n] == '\n');
    }
    if (kept)
        hr_buf_add_str(out, ".fi\n");
}

static void man_opt(void *arg, const struct hr_opt *opt)
{
    struct hr_buf *out = arg;

    hr_buf_add_str(out, ".TP\n");
    if (opt->letter)
        hr_buf_addf(out, "\\fB\\-%c\\fR, ", opt->letter);
    hr_buf_add_str(out, "\\fB\\-\\-");
    escaped(out, opt->name);
    hr_buf_add_str(out, "\\fR");
    for (int i = 0; opt->choices && opt->choices[i]; i++) {
        hr_buf_add_str(out, i ? "|" : "=");
        escaped(out, opt->choices[i]);
    }
    if (opt->metavar && !opt->choices)
        hr_buf_addf(out, " \\fI%s\\fR", opt->metavar);
    hr_buf_add_str(out, "\n");
    escaped(out, opt->help);
    if (opt->fallback) {
        hr_buf_add_str(out, " (default: ");
        escaped(out, opt->fallback);
        hr_buf_add_str(out, ")");
    }
    hr_buf_add_str(out, "\n");
}

static void man_exits(struct hr_buf *out, const struct hr_command *command)
{
    hr_buf_add_str(out, ".SH EXIT STATUS\n");
    for (const struct hr_exit_note *common = hr_cli_exits; common->when; common++) {
        const char *when = common->when;
        for (const struct hr_exit_note *own = command ? command->exits : NULL; own && own->when;
             own++)
            if (own->code == common->code)
                when = own->when;
        hr_buf_addf(out, ".TP\n.B %d\n", common->code);
        escaped(out, when);
        hr_buf_add_str(out, "\n");
    }
}

static void man_all(struct hr_buf *out)
{
    int count;
    const struct hr_command *const *commands = hr_cli_commands(&count);

    hr_buf_add_str(out, ".TH HEADRACE 1 \"\" \"headrace " HR_VERSION_STRING "\"\n"
                        ".SH NAME\nheadrace \\- feeds training from sharded multimodal datasets\n"
                        ".SH SYNOPSIS\n.B headrace\n\\fICOMMAND\\fR [\\fIOPTION\\fR...] "
                        "[\\fIARGUMENT\\fR...]\n.SH COMMANDS\n");
    for (int i = 0; i < count; i++) {
        hr_buf_addf(out, ".TP\n\\fBheadrace\\-%s\\fR(1)\n", commands[i]->name);
        escaped(out, commands[i]->summary);
        hr_buf_add_str(out, "\n");
    }
    hr_buf_add_str(out, ".SH ENVIRONMENT\n.TP\n.B HEADRACE_LOG\n"
                        "error, warn, info or debug: what is said on standard error\n");
    man_exits(out, NULL);
}

static void man_see_also(struct hr_buf *out, const char *names)
{
    hr_buf_add_str(out, ".SH SEE ALSO\n\\fBheadrace\\fR(1)");
    for (; names && *names; names += strspn(names, " ")) {
        size_t n = strcspn(names, " ");
        hr_buf_addf(out, ", \\fBheadrace\\-%.*s\\fR(1)", (int)n, names);
        names += n;
    }
    hr_buf_add_str(out, "\n");
}

void hr_cli_man(struct hr_buf *out, const struct hr_command *command)
{
    if (!command) {
        man_all(out);
        return;
    }
    hr_buf_addf(out, ".TH \"HEADRACE\\-%s\" 1 \"\" \"headrace " HR_VERSION_STRING "\"\n",
                command->name);
    hr_buf_addf(out, ".SH NAME\nheadrace\\-%s \\- ", command->name);
    escaped(out, command->summary);
    hr_buf_addf(out, "\n.SH SYNOPSIS\n.B headrace %s\n[\\fIOPTION\\fR...]", command->name);
    for (const struct hr_cli_arg *arg = command->args; arg && arg->name; arg++)
        hr_buf_addf(out, arg->optional ? " [\\fI%s\\fR%s]" : " \\fI%s\\fR%s", arg->name,
                    arg->repeats ? "..." : "");
    hr_buf_add_str(out, "\n.SH DESCRIPTION\n");
    paragraphs(out, command->description);
    if (command->args && command->args->name)
        hr_buf_add_str(out, ".SH ARGUMENTS\n");
    for (const struct hr_cli_arg *arg = command->args; arg && arg->name; arg++) {
        hr_buf_addf(out, ".TP\n.I %s\n", arg->name);
        escaped(out, arg->help);
        hr_buf_add_str(out, "\n");
    }
    hr_buf_add_str(out, ".SH OPTIONS\n");
    hr_cli_each_opt(command, man_opt, out);
    if (command->example) {
        hr_buf_add_str(out, ".SH EXAMPLE\n.nf\n");
        escaped(out, command->example);
        hr_buf_add_str(out, "\n.fi\n");
    }
    man_exits(out, command);
    man_see_also(out, command->see_also);
}
