/* The one binary: finds the command named on the command line and runs it. A command is one line in
 * the table below and one in tools/meson.build. */
#include "tools/headrace.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <headrace/version.h>

#include "base/arg.h"
#include "base/log.h"

static const struct hr_command *const commands[] = {
#define COMMAND_ROW(name) &hr_command_##name,
    HR_COMMAND_TABLE(COMMAND_ROW)
#undef COMMAND_ROW
};

const struct hr_command *const *hr_cli_commands(int *count)
{
    *count = (int)HR_ARRAY_SIZE(commands);
    return commands;
}

const struct hr_command *hr_cli_find(const char *name)
{
    for (size_t i = 0; i < HR_ARRAY_SIZE(commands); i++)
        if (strcmp(commands[i]->name, name) == 0)
            return commands[i];
    return NULL;
}

const char *hr_cli_nearest_command(const char *name)
{
    const char *names[HR_ARRAY_SIZE(commands)];

    for (size_t i = 0; i < HR_ARRAY_SIZE(commands); i++)
        names[i] = commands[i]->name;
    return hr_nearest_word(name, names, (int)HR_ARRAY_SIZE(commands));
}

static int unknown_command(const char *word)
{
    const char *near = hr_cli_nearest_command(word);

    if (near)
        hr_log(HR_LOG_ERROR, "unknown command '%s', did you mean '%s'?", word, near);
    else
        hr_log(HR_LOG_ERROR, "unknown command '%s' (see: headrace --help)", word);
    return HR_EXIT_USAGE;
}

/* Some start us without standard streams. What is printed must not land in a socket or a shard that
 * got one of their numbers; the wrong mode makes reads and writes fail as on a closed stream. */
static void fill_standard_streams(void)
{
    static const int modes[] = {O_WRONLY, O_RDONLY, O_RDONLY};

    for (int fd = 0; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", modes[fd]) < 0)
            _exit(HR_EXIT_FAILED); /* nobody to tell */
}

/* A shard is a descriptor or two: takes as many as the system lets us have. */
static void raise_file_limit(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

int main(int argc, char **argv)
{
    struct hr_buf out = {0};

    fill_standard_streams();
    raise_file_limit();
    hr_log_init_from_env();
    /* A reader that goes away (`headrace inspect | head`) is an error of that write. */
    signal(SIGPIPE, SIG_IGN);
    if (argc < 2) {
        hr_cli_help(&out, NULL);
        fputs(hr_buf_str(&out), stderr);
        hr_buf_finish(&out);
        return HR_EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        hr_cli_help(&out, NULL);
        return hr_cli_print(&out);
    }
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0) {
        hr_buf_add_str(&out, "headrace " HR_VERSION_STRING "\n");
        return hr_cli_print(&out);
    }
    const struct hr_command *command = hr_cli_find(argv[1]);
    return command ? command->run(argc - 1, argv + 1) : unknown_command(argv[1]);
}
