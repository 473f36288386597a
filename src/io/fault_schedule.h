/* What goes wrong, and when: the text given to --fault.
 *
 *   schedule = item { "," item }
 *   item     = "seed="  number          other draws, same chances (default 0)
 *            | "eio="   chance          fails with HR_E_IO (EIO); a retry may succeed
 *            | "burst=" number ":" share  so many requests in a row fail like eio, in this share of runs
 *            | "bad="   share           bad sectors: this share of blocks cannot be read, ever
 *            | "short=" chance          HR_E_TRUNCATED: fewer bytes arrive, the rest is overwritten
 *            | "flip="  share           bad media: this share of blocks has one wrong bit, always the same
 *            | "noise=" chance          one bit of what arrives is wrong; another read may be right
 *            | "delay=" time ":" share  comes back that much later
 *            | "delay=" time "@" number
 *            | "stall=" time "@" number from that request on nothing comes back for so long
 *   chance   = share | "@" number       by draw, or exactly the request of that number, from 1
 *   share    = 0 .. 1
 *   time     = number ( "ns" | "us" | "ms" | "s" ), at most an hour */
#ifndef HR_IO_FAULT_SCHEDULE_H
#define HR_IO_FAULT_SCHEDULE_H

#include "base/err.h"

struct hr_fault_chance {
    double share;
    uint64_t at; /* 0 = none */
};

struct hr_fault_schedule {
    uint64_t seed;
    struct hr_fault_chance eio, burst, bad, cut, flip, noise, delay, stall;
    uint64_t burst_requests, delay_ns, stall_ns;
};

/* HR_E_CONFIG with the offset of the item that is not understood. */
int hr_fault_schedule_parse(const char *text, struct hr_fault_schedule *s,
                            struct hr_error *err) HR_MUST_CHECK;

#endif
