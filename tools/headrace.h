/* The table of commands: one line each, in the order in which help shows them. The file tools/NAME.c
 * holds hr_command_NAME and hr_tool_NAME. */
#ifndef HR_TOOLS_HEADRACE_H
#define HR_TOOLS_HEADRACE_H

#include "tools/cli.h"

#define HR_COMMAND_TABLE(X)                                                                        \
    X(pack)                                                                                        \
    X(inspect)                                                                                     \
    X(verify)                                                                                      \
    X(versions)                                                                                    \
    X(init)                                                                                        \
    X(check)                                                                                       \
    X(order)                                                                                       \
    X(serve)                                                                                       \
    X(bench)                                                                                       \
    X(synth)                                                                                       \
    X(rjpeg)                                                                                       \
    X(doctor)                                                                                      \
    X(completions)                                                                                 \
    X(help)

#define HR_COMMAND_DECLARE(name)                                                                   \
    extern const struct hr_command hr_command_##name;                                              \
    int hr_tool_##name(int argc, char **argv);
HR_COMMAND_TABLE(HR_COMMAND_DECLARE)
#undef HR_COMMAND_DECLARE

#endif
