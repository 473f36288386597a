/* From counters to a sentence: what bounds the rate, what would change it, and by how much. Pure
 * arithmetic, tested by itself. */
#ifndef HR_TOOLS_BENCH_VERDICT_H
#define HR_TOOLS_BENCH_VERDICT_H

#include "base/buf.h"

enum { HR_BENCH_SOURCES = 16 };

struct hr_bench_result {
    /* measured */
    double seconds;
    uint64_t batches, samples, bad_samples, finished_samples;
    int workers, cores; /* cores: that may be used; 0 = ask the system */
    char reader_reason[256];
    uint64_t read_bytes, read_requests;
    uint64_t wanted_bytes;     /* of them asked for by samples */
    uint64_t storage_bytes;    /* that came from storage, not from the page cache */
    bool storage_known;
    double shuffle_distance;   /* samples between records stored side by side; of several sources the least */
    uint64_t window_bytes; /* of bytes in flight, at the end */
    uint64_t reader_cpu_ns, plan_ns, hand_off_ns, fed_batches;
    uint64_t worker_busy_ns, worker_idle_ns, worker_cpu_ns, checksum_ns, decode_ns;
    uint64_t consumer_wait_ns, consumer_cpu_ns, process_cpu_ns;
    uint32_t source_count; /* listed; 0 = a single dataset */
    struct {
        const char *path;
        uint64_t samples;
        double asked; /* share of all samples */
    } sources[HR_BENCH_SOURCES];
    /* concluded by hr_bench_judge */
    const char *bound_by; /* "decode", "read", "hand-off", "trainer", "other processes" */
    double gain;          /* expected rate over the present one when the advice is taken */
    double one_more_core; /* expected samples a second with one more core and one more worker */
    char verdict[512];
};

void hr_bench_judge(struct hr_bench_result *result);
void hr_bench_print_json(struct hr_buf *out, const struct hr_bench_result *result);
void hr_bench_print_text(struct hr_buf *out, const struct hr_bench_result *result);

#endif
