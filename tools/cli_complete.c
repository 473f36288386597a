/* Completion scripts for bash, zsh and fish, written from the tables of the commands. */
#include "tools/cli.h"

#include <string.h>

/* Inside single quotes of sh, zsh and fish a quote is written as '\''. */
static void quoted(struct hr_buf *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '\'')
            hr_buf_add_str(out, "'\\''");
        else
            hr_buf_add(out, text, 1);
    }
}

static void bash_name(void *arg, const struct hr_opt *opt)
{
    struct hr_buf *out = arg;

    hr_buf_addf(out, " --%s", opt->name);
    if (opt->letter)
        hr_buf_addf(out, " -%c", opt->letter);
}

static bool takes_folders_only(const struct hr_command *command)
{
    const struct hr_cli_arg *arg = command->args;

    for (; arg && arg->name; arg++)
        if (arg->word != HR_WORD_FOLDER)
            return false;
    return command->args && command->args->name;
}

static void bash_choices(struct hr_buf *out, const struct hr_command *command)
{
    for (const struct hr_opt *opt = command->opts; opt && opt->name; opt++) {
        if (!opt->choices)
            continue;
        hr_buf_addf(out, "    %s:--%s) words='", command->name, opt->name);
        for (int i = 0; opt->choices[i]; i++)
            hr_buf_addf(out, "%s%s", i ? " " : "", opt->choices[i]);
        hr_buf_add_str(out, "' ;;\n");
    }
}

static void bash(struct hr_buf *out)
{
    int count;
    const struct hr_command *const *commands = hr_cli_commands(&count);

    hr_buf_add_str(out, "# bash completion for headrace; written by: headrace completions bash\n"
                        "_headrace() {\n"
                        "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
                        "  local cmd=${COMP_WORDS[1]} words='' files=-f\n"
                        "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n    COMPREPLY=($(compgen -W '");
    for (int i = 0; i < count; i++)
        hr_buf_addf(out, "%s ", commands[i]->name);
    hr_buf_add_str(out, "--help --version' -- \"$cur\"))\n    return\n  fi\n"
                        "  [ \"$cur\" = '=' ] && cur=''\n"
                        "  [ \"$prev\" = '=' ] && prev=${COMP_WORDS[COMP_CWORD-2]}\n"
                        "  case \"$cmd:$prev\" in\n");
    for (int i = 0; i < count; i++)
        bash_choices(out, commands[i]);
    hr_buf_add_str(out, "  esac\n  if [ -n \"$words\" ]; then\n"
                        "    COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n    return\n  fi\n"
                        "  case \"$cmd\" in\n");
    for (int i = 0; i < count; i++) {
        hr_buf_addf(out, "    %s) words='", commands[i]->name);
        hr_cli_each_opt(commands[i], bash_name, out);
        hr_buf_addf(out, "'%s ;;\n", takes_folders_only(commands[i]) ? "; files=-d" : "");
    }
    hr_buf_add_str(out, "  esac\n  case \"$cur\" in\n"
                        "    -*) COMPREPLY=($(compgen -W \"$words\" -- \"$cur\")) ;;\n"
                        "    *) COMPREPLY=($(compgen $files -- \"$cur\")) ;;\n  esac\n}\n"
                        "complete -o filenames -F _headrace headrace\n");
}

/* Text inside [..] of an _arguments specification. */
static void zsh_text(struct hr_buf *out, const char *text)
{
    for (; *text; text++) {
        if (strchr("[]:\\", *text))
            hr_buf_add_str(out, "\\");
        if (*text == '\'')
            hr_buf_add_str(out, "'\\''");
        else
            hr_buf_add(out, text, 1);
    }
}

static const char *zsh_action(enum hr_word word)
{
    return word == HR_WORD_FOLDER ? "_files -/" : word == HR_WORD_FILE ? "_files" : " ";
}

static void zsh_opt(void *arg, const struct hr_opt *opt)
{
    struct hr_buf *out = arg;

    hr_buf_add_str(out, " \\\n        ");
    if (opt->type == HR_OPT_LIST)
        hr_buf_add_str(out, "'*'");
    if (opt->letter)
        hr_buf_addf(out, "{-%c,--%s%s}'[", opt->letter, opt->name,
                    opt->type == HR_OPT_FLAG ? "" : "=");
    else
        hr_buf_addf(out, "'--%s%s[", opt->name, opt->type == HR_OPT_FLAG ? "" : "=");
    zsh_text(out, opt->help);
    hr_buf_add_str(out, "]");
    if (opt->choices) {
        hr_buf_addf(out, ":%s:(", opt->name);
        for (int i = 0; opt->choices[i]; i++)
            hr_buf_addf(out, "%s%s", i ? " " : "", opt->choices[i]);
        hr_buf_add_str(out, ")");
    } else if (opt->type != HR_OPT_FLAG) {
        hr_buf_addf(out, ":%s:%s", opt->metavar ? opt->metavar : "value", zsh_action(opt->word));
    }
    hr_buf_add_str(out, "'");
}

static void zsh(struct hr_buf *out)
{
    int count;
    const struct hr_command *const *commands = hr_cli_commands(&count);

    hr_buf_add_str(out, "#compdef headrace\n# written by: headrace completions zsh\n"
                        "_headrace() {\n  local -a commands\n  commands=(\n");
    for (int i = 0; i < count; i++) {
        hr_buf_addf(out, "    '%s:", commands[i]->name);
        zsh_text(out, commands[i]->summary);
        hr_buf_add_str(out, "'\n");
    }
    hr_buf_add_str(out, "  )\n  if (( CURRENT == 2 )); then\n"
                        "    _describe command commands\n    return\n  fi\n"
                        "  local cmd=$words[2]\n  shift words\n  (( CURRENT-- ))\n"
                        "  case $cmd in\n");
    for (int i = 0; i < count; i++) {
        hr_buf_addf(out, "    %s)\n      _arguments -s", commands[i]->name);
        hr_cli_each_opt(commands[i], zsh_opt, out);
        for (const struct hr_cli_arg *arg = commands[i]->args; arg && arg->name; arg++)
            hr_buf_addf(out, " \\\n        '%s%s:%s:%s'", arg->repeats ? "*" : "",
                        arg->optional && !arg->repeats ? ":" : "", arg->name,
                        zsh_action(arg->word));
        hr_buf_add_str(out, "\n      ;;\n");
    }
    hr_buf_add_str(out, "  esac\n}\n_headrace \"$@\"\n");
}

struct fish_arg {
    struct hr_buf *out;
    const char *command;
};

static void fish_opt(void *arg, const struct hr_opt *opt)
{
    struct fish_arg *a = arg;

    hr_buf_addf(a->out, "complete -c headrace -n '__fish_seen_subcommand_from %s' -l %s",
                a->command, opt->name);
    if (opt->letter)
        hr_buf_addf(a->out, " -s %c", opt->letter);
    if (opt->choices) {
        hr_buf_add_str(a->out, " -xa '");
        for (int i = 0; opt->choices[i]; i++)
            hr_buf_addf(a->out, "%s%s", i ? " " : "", opt->choices[i]);
        hr_buf_add_str(a->out, "'");
    } else if (opt->type != HR_OPT_FLAG) {
        hr_buf_add_str(a->out, opt->word == HR_WORD_ANY ? " -x" : " -r");
    }
    hr_buf_add_str(a->out, " -d '");
    quoted(a->out, opt->help);
    hr_buf_add_str(a->out, "'\n");
}

static void fish(struct hr_buf *out)
{
    int count;
    const struct hr_command *const *commands = hr_cli_commands(&count);

    hr_buf_add_str(out, "# fish completion for headrace; written by: headrace completions fish\n");
    for (int i = 0; i < count; i++) {
        hr_buf_addf(out, "complete -c headrace -n __fish_use_subcommand -fa %s -d '",
                    commands[i]->name);
        quoted(out, commands[i]->summary);
        hr_buf_add_str(out, "'\n");
        hr_cli_each_opt(commands[i], fish_opt, &(struct fish_arg){out, commands[i]->name});
    }
}

bool hr_cli_completions(struct hr_buf *out, const char *shell)
{
    static const struct {
        const char *shell;
        void (*write)(struct hr_buf *out);
    } writers[] = {{"bash", bash}, {"zsh", zsh}, {"fish", fish}};

    for (size_t i = 0; i < HR_ARRAY_SIZE(writers); i++) {
        if (strcmp(writers[i].shell, shell) == 0) {
            writers[i].write(out);
            return true;
        }
    }
    return false;
}
