/* Messages to people, on stderr. Level from HEADRACE_LOG (error, warn, info, debug) or a tool's
 * -q/-v. Never called on the hot path. Safe from any thread: one write(2) per line. */
#ifndef HR_BASE_LOG_H
#define HR_BASE_LOG_H

#include "base/base.h"
#include "base/err.h"

enum hr_log_level { HR_LOG_ERROR, HR_LOG_WARN, HR_LOG_INFO, HR_LOG_DEBUG };

void hr_log_set_level(enum hr_log_level level);
enum hr_log_level hr_log_get_level(void);

/* Reads HEADRACE_LOG; the default is info. */
void hr_log_init_from_env(void);

void hr_log(enum hr_log_level level, const char *fmt, ...) HR_PRINTF(2, 3);

/* Logs an error with its place and hint, prefixed by what was being done ("" for none). */
void hr_log_error(enum hr_log_level level, const char *doing, const struct hr_error *err);

#endif
