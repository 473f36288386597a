/* Memory that this process may still use, as the kernel and its control groups see it. */
#ifndef HR_IO_MEMORY_H
#define HR_IO_MEMORY_H

#include "base/base.h"

/* Smallest memory limit from the process's control group up to the root; UINT64_MAX = none. */
uint64_t hr_io_cgroup_limit_bytes(void);

/* What that limit leaves, page cache counted as free because it is given back; UINT64_MAX = none. */
uint64_t hr_io_cgroup_left_bytes(void);

#endif
