/* NumPy's .npy files: the header only, read strictly. Format versions 1 to 3 as described in NumPy's
 * documentation of numpy.lib.format. */
#ifndef HR_PACK_NPY_H
#define HR_PACK_NPY_H

#include "base/err.h"
#include "base/types.h"

struct hr_npy {
    enum hr_dtype dtype;
    uint32_t dims;
    uint64_t shape[HR_MAX_DIMS];
    uint64_t data_off, data_bytes;
};

/* head: the first head_bytes of a file of file_bytes. HR_E_FORMAT, HR_E_TRUNCATED, HR_E_LIMIT. */
int hr_npy_parse(const void *head, uint64_t head_bytes, uint64_t file_bytes, struct hr_npy *npy,
                 struct hr_error *err) HR_MUST_CHECK;

#endif
