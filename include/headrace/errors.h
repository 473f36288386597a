/* Error codes of Headrace: one table, used by the daemon, the tools and the client library.
 *
 * Every fallible function returns 0 (or a non-negative count) or one of these negative codes.
 * The scope says how far the damage reaches:
 *   sample   one record is bad; policy decides whether it is substituted, masked or fatal
 *   shard    a whole file is unusable
 *   session  one trainer's connection is ended; nobody else notices
 *   process  the command or daemon stops
 */
#ifndef HEADRACE_ERRORS_H
#define HEADRACE_ERRORS_H

#ifdef __cplusplus
extern "C" {
#endif

/*  X(name, value, scope, retryable, text) */
#define HR_ERROR_TABLE(X)                                                                          \
    X(USAGE, -1, PROCESS, 0, "wrong usage")                                                        \
    X(CONFIG, -2, PROCESS, 0, "wrong configuration")                                               \
    X(NOMEM, -3, PROCESS, 0, "out of memory")                                                      \
    X(INTERNAL, -4, PROCESS, 0, "internal error")                                                  \
    X(UNSUPPORTED, -5, PROCESS, 0, "not supported here")                                           \
    X(EXISTS, -6, PROCESS, 0, "already exists")                                                    \
    X(NOT_FOUND, -7, PROCESS, 0, "not found")                                                      \
    X(IO, -8, SHARD, 1, "input/output error")                                                      \
    X(NO_SPACE, -9, PROCESS, 0, "no space left")                                                   \
    X(DENIED, -10, PROCESS, 0, "permission denied")                                                \
    X(CORRUPT, -11, SHARD, 0, "corrupt data")                                                      \
    X(CHECKSUM, -12, SAMPLE, 0, "checksum mismatch")                                               \
    X(TRUNCATED, -13, SAMPLE, 0, "truncated data")                                                 \
    X(DECODE, -14, SAMPLE, 0, "cannot be decoded")                                                 \
    X(FORMAT, -15, SAMPLE, 0, "unknown or unexpected format")                                      \
    X(LIMIT, -16, SAMPLE, 0, "over a limit")                                                       \
    X(MISSING, -17, SAMPLE, 0, "value missing")                                                    \
    X(TIMEOUT, -18, SESSION, 1, "timed out")                                                       \
    X(PROTOCOL, -19, SESSION, 0, "protocol violation")                                             \
    X(VERSION, -20, SESSION, 0, "version mismatch")                                                \
    X(STATE, -21, SESSION, 0, "state does not fit")                                                \
    X(ALL_LEASED, -22, SESSION, 0, "every slot is leased")                                         \
    X(DISCONNECTED, -23, SESSION, 1, "sidecar is gone")                                            \
    X(RELEASED, -24, SESSION, 0, "batch was released")                                             \
    X(END, -25, SESSION, 0, "end of data")                                                         \
    X(BUDGET, -26, PROCESS, 0, "too many bad records")                                             \
    X(FORKED, -27, SESSION, 0, "used after fork")                                                  \
    X(CANCELLED, -28, SESSION, 0, "cancelled")                                                     \
    X(BUSY, -29, SESSION, 1, "busy")                                                               \
    X(CRASHED, -30, SAMPLE, 0, "crashed a decoder")                                                \
    X(DETACHED, -31, SESSION, 0, "detached from its stream")

enum hr_error_code {
    HR_OK = 0,
#define HR_ERROR_ENUM(name, value, scope, retryable, text) HR_E_##name = (value),
    HR_ERROR_TABLE(HR_ERROR_ENUM)
#undef HR_ERROR_ENUM
};

enum hr_error_scope {
    HR_SCOPE_SAMPLE,
    HR_SCOPE_SHARD,
    HR_SCOPE_SESSION,
    HR_SCOPE_PROCESS,
};

#ifdef __cplusplus
}
#endif

#endif
