/* The scans of a file of several: whether they follow each other as they may and bring every coefficient whole, and the
 * file's bytes around them. */
#ifndef HR_DECODERS_RJPEG_SCRIPT_H
#define HR_DECODERS_RJPEG_SCRIPT_H

#include "base/buf.h"
#include "rjpeg/markers.h"

/* Real files have about ten. Each scan costs a pass over the picture; no coefficient can be in more than 14. */
enum { RJ_MAX_SCANS = 100 };

struct rj_script {
    uint32_t scans;
    /* Of each coefficient, the lowest bit that has come so far; 0 = it is complete. */
    struct {
        bool begun[64];
        uint8_t low[64];
    } component[HR_RJPEG_COMPONENTS];
};

/* Adds the scan that the markers end with. HR_E_FORMAT: too many; HR_E_DECODE: it does not follow. */
int rj_script_add(struct rj_script *script, const struct rj_markers *markers, struct hr_error *err) HR_MUST_CHECK;
bool rj_script_complete(const struct rj_script *script, uint32_t components);

/* Goes through a file from its first scan on. kept gets all bytes before the last scan that are in none, *tail is where
 * those after it begin. HR_E_FORMAT: another kind of file; HR_E_DECODE, HR_E_TRUNCATED: damaged. */
int rj_script_read(const uint8_t *jpeg, size_t bytes, struct rj_markers *markers, struct hr_buf *kept, size_t *tail,
                   struct hr_error *err) HR_MUST_CHECK;

#endif
