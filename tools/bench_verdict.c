/* The verdict. The ground truth is who waits for whom: the consumer never waits = the trainer bounds;
 * it waits and the workers are busy = decoding bounds, or other processes that have the cores; it waits and
 * the workers wait too = reading does. */
#include "tools/bench_verdict.h"

#include <stdio.h>
#include <string.h>

#include "base/cpu.h"
#include "tools/cli.h"

static double share(uint64_t ns, double seconds)
{
    return seconds > 0 ? (double)ns / 1e9 / seconds : 0;
}

static double per_sample_us(const struct hr_bench_result *r, uint64_t ns)
{
    return r->finished_samples ? (double)ns / 1e3 / (double)r->finished_samples : 0;
}

static double rate(const struct hr_bench_result *r)
{
    return r->seconds > 0 ? (double)r->samples / r->seconds : 0;
}

/* Cores that the feeding itself uses: what a sidecar takes from the trainer. */
static double cores_used(const struct hr_bench_result *r)
{
    return share(r->process_cpu_ns - r->consumer_cpu_ns, r->seconds);
}

static double hand_off_us(const struct hr_bench_result *r)
{
    return r->fed_batches ? (double)r->hand_off_ns / 1e3 / (double)r->fed_batches : 0;
}

/* All the CPU time of the process, the consumer's included: it shares the cores. */
static double all_cores_used(const struct hr_bench_result *r)
{
    return share(r->process_cpu_ns, r->seconds);
}

/* What the rate would be with one core and one worker more, where the workers bound it: they and the cores
 * grow in step, until one reader thread cannot keep up. */
static double rate_with_one_more(const struct hr_bench_result *r, int quota)
{
    double by_workers = rate(r) * (r->workers + 1) / r->workers;
    double by_cores = rate(r) * (quota + 1) / all_cores_used(r);
    double by_reader = r->reader_cpu_ns ? (double)r->finished_samples * 1e9 / (double)r->reader_cpu_ns : by_cores;
    double least = by_workers < by_cores ? by_workers : by_cores;

    return least < by_reader ? least : by_reader;
}

static double most_gain(double busy)
{
    return busy > 0.01 ? 1 / busy : 100;
}

static void judge_trainer(struct hr_bench_result *r, double wait, double busy)
{
    r->bound_by = "trainer";
    snprintf(r->verdict, sizeof(r->verdict),
             "the trainer bounds the rate: it waited for data %.1f %% of the time. Nothing to fix "
             "here; the workers are busy %.0f %%, so this node could feed about %.1fx as fast.",
             100 * wait, 100 * busy, most_gain(busy));
}

static void judge_decode(struct hr_bench_result *r, double busy, int quota)
{
    double used = cores_used(r);

    r->bound_by = "decode";
    r->one_more_core = rate_with_one_more(r, quota);
    if (r->workers < quota && used < quota - 0.5) {
        r->gain = (double)(r->workers + 1) / r->workers;
        if (r->gain * used > quota)
            r->gain = quota / used;
        snprintf(r->verdict, sizeof(r->verdict),
                 "decoding bounds the rate: %d worker%s busy %.0f %% of the time. One more worker "
                 "(%d cores may be used, %.1f are) should give about %+.0f %%.",
                 r->workers, r->workers == 1 ? " is" : "s are", 100 * busy, quota, used,
                 100 * (r->gain - 1));
        return;
    }
    r->gain = r->one_more_core / rate(r);
    snprintf(r->verdict, sizeof(r->verdict),
             "decoding bounds the rate: all %d core%s this process may use are busy: %.1f us of CPU a "
             "sample (decode %.1f, checksum %.1f, reading %.1f). One more core should give about %.0f "
             "samples/s (%+.0f %%); smaller stored media or fewer ops would help too.",
             quota, quota == 1 ? "" : "s", per_sample_us(r, r->process_cpu_ns - r->consumer_cpu_ns),
             per_sample_us(r, r->decode_ns), per_sample_us(r, r->checksum_ns),
             per_sample_us(r, r->reader_cpu_ns), r->one_more_core, 100 * (r->gain - 1));
}

/* The share of the cores asked for that the process got. On a core that all its threads share, workers
 * that wait for their turn count as busy as well. */
static double cores_got(const struct hr_bench_result *r, int quota)
{
    double got = all_cores_used(r) / (r->workers < quota ? r->workers : quota);

    return got < 0.01 ? 0.01 : got;
}

/* The share of the time with a sample in hand that the workers had a core for it. */
static double core_while_busy(const struct hr_bench_result *r)
{
    double got = r->worker_busy_ns ? (double)r->worker_cpu_ns / (double)r->worker_busy_ns : 1;

    return got < 0.01 ? 0.01 : got;
}

/* The workers have work, but not a core. */
static void judge_others(struct hr_bench_result *r, double got)
{
    r->bound_by = "other processes";
    r->gain = 1 / got;
    snprintf(r->verdict, sizeof(r->verdict),
             "other processes bound the rate: the workers have work, but they get a core only "
             "%.0f %% of the time. A quiet machine should give up to %.1fx.", 100 * got, r->gain);
}

/* No faster storage would help with those. */
static bool from_page_cache(const struct hr_bench_result *r)
{
    return r->storage_known && r->read_bytes > 0 && r->storage_bytes < r->read_bytes / 50;
}

static void judge_read(struct hr_bench_result *r, double busy)
{
    double cpu = share(r->reader_cpu_ns, r->seconds);

    if (strncmp(r->reader_reason, "nil", 3) == 0) {
        r->bound_by = "hand-off";
        snprintf(r->verdict, sizeof(r->verdict),
                 "without storage and decoding, planning and hand-off bound the rate: %.0f batches a "
                 "second, %.1f us of hand-off a batch and %.2f us of planning a sample.",
                 (double)r->batches / r->seconds, hand_off_us(r), per_sample_us(r, r->plan_ns));
        return;
    }
    r->gain = most_gain(busy);
    if (cpu > 0.8) {
        r->bound_by = "hand-off";
        snprintf(r->verdict, sizeof(r->verdict),
                 "the reader thread bounds the rate: it is busy %.0f %% of the time with %.0f "
                 "requests a second. Larger records, 'order: window' or larger batches should give "
                 "up to %.1fx; another core gives nothing.",
                 100 * cpu, (double)r->read_requests / r->seconds, r->gain);
        return;
    }
    r->bound_by = "read";
    if (from_page_cache(r)) {
        snprintf(r->verdict, sizeof(r->verdict),
                 "reading ahead bounds the rate: %.1f MB/s, all from the page cache, and yet the workers wait for "
                 "them %.0f %% of the time. More 'slots' or larger batches let more be read at once and should "
                 "give up to %.1fx; faster storage or another core gives nothing.",
                 (double)r->read_bytes / 1e6 / r->seconds, 100 * (1 - busy), r->gain);
        return;
    }
    snprintf(r->verdict, sizeof(r->verdict),
             "storage bounds the rate: it gives %.1f MB/s and the workers wait for it %.0f %% of the "
             "time. Faster storage, a warm page cache or 'order: window' should give up to %.1fx; "
             "another core gives nothing.",
             (double)r->read_bytes / 1e6 / r->seconds, 100 * (1 - busy), r->gain);
}

void hr_bench_judge(struct hr_bench_result *r)
{
    double wait = share(r->consumer_wait_ns, r->seconds);
    double busy = share(r->worker_busy_ns, r->seconds) / r->workers;
    int quota = r->cores ? r->cores : hr_cpu_quota();

    r->gain = 1;
    r->one_more_core = rate(r);
    if (r->batches == 0) {
        r->bound_by = "read";
        snprintf(r->verdict, sizeof(r->verdict), "no batch arrived in %.1f s", r->seconds);
    } else if (wait < 0.1) {
        judge_trainer(r, wait, busy);
    } else if (busy > 0.85 && cores_got(r, quota) < 0.8) {
        judge_others(r, cores_got(r, quota));
    } else if (busy > 0.5 && from_page_cache(r) && core_while_busy(r) < 0.7) {
        judge_others(r, core_while_busy(r)); /* the reader thread waits for one as well */
    } else if (busy > 0.85 || all_cores_used(r) > 0.9 * quota) {
        judge_decode(r, busy, quota);
    } else {
        judge_read(r, busy);
    }
}

/* Realised share of a source among the samples finished. */
static double realised(const struct hr_bench_result *r, uint32_t source)
{
    return r->finished_samples ? (double)r->sources[source].samples / (double)r->finished_samples : 0;
}

/* Bytes read for each byte that samples asked for. */
static double amplification(const struct hr_bench_result *r)
{
    return r->wanted_bytes ? (double)r->read_bytes / (double)r->wanted_bytes : 0;
}

static void json_sources(struct hr_buf *b, const struct hr_bench_result *r)
{
    hr_json_open(b, "sources", '[');
    for (uint32_t i = 0; i < r->source_count; i++) {
        hr_json_open(b, NULL, '{');
        hr_json_str(b, "dataset", r->sources[i].path);
        hr_json_uint(b, "samples", r->sources[i].samples);
        hr_json_double(b, "share", realised(r, i));
        hr_json_double(b, "asked", r->sources[i].asked);
        hr_json_close(b, '}');
    }
    hr_json_close(b, ']');
}

void hr_bench_print_json(struct hr_buf *b, const struct hr_bench_result *r)
{
    hr_json_open(b, NULL, '{');
    hr_json_double(b, "samples_per_s", rate(r));
    hr_json_uint(b, "batches", r->batches);
    hr_json_uint(b, "samples", r->samples);
    hr_json_double(b, "seconds", r->seconds);
    hr_json_double(b, "bytes_read_per_s", r->seconds > 0 ? (double)r->read_bytes / r->seconds : 0);
    if (r->storage_known)
        hr_json_double(b, "storage_bytes_per_s", r->seconds > 0 ? (double)r->storage_bytes / r->seconds : 0);
    hr_json_double(b, "read_amplification", amplification(r));
    hr_json_double(b, "shuffle_distance", r->shuffle_distance);
    hr_json_double(b, "cpu_us_per_sample",
                   per_sample_us(r, r->process_cpu_ns - r->consumer_cpu_ns));
    hr_json_uint(b, "bad_samples", r->bad_samples);
    hr_json_int(b, "workers", r->workers);
    hr_json_str(b, "reader", r->reader_reason);
    hr_json_open(b, "stages", '{');
    hr_json_open(b, "read", '{');
    hr_json_double(b, "cpu_us_per_sample", per_sample_us(r, r->reader_cpu_ns));
    hr_json_double(b, "plan_us_per_sample", per_sample_us(r, r->plan_ns));
    hr_json_double(b, "requests_per_s", (double)r->read_requests / r->seconds);
    hr_json_uint(b, "window_bytes", r->window_bytes);
    hr_json_double(b, "thread_busy", share(r->reader_cpu_ns, r->seconds));
    hr_json_close(b, '}');
    hr_json_open(b, "decode", '{');
    hr_json_double(b, "checksum_us_per_sample", per_sample_us(r, r->checksum_ns));
    hr_json_double(b, "decode_us_per_sample", per_sample_us(r, r->decode_ns));
    hr_json_double(b, "busy_us_per_sample", per_sample_us(r, r->worker_busy_ns));
    hr_json_double(b, "workers_busy", share(r->worker_busy_ns, r->seconds) / r->workers);
    hr_json_close(b, '}');
    hr_json_open(b, "hand_off", '{');
    hr_json_double(b, "consumer_cpu_us_per_batch",
                   r->batches ? (double)r->consumer_cpu_ns / 1e3 / (double)r->batches : 0);
    hr_json_double(b, "producer_us_per_batch", hand_off_us(r));
    hr_json_close(b, '}');
    hr_json_open(b, "trainer", '{');
    hr_json_double(b, "waits_for_data", share(r->consumer_wait_ns, r->seconds));
    hr_json_close(b, '}');
    hr_json_close(b, '}');
    if (r->source_count)
        json_sources(b, r);
    hr_json_str(b, "bound_by", r->bound_by);
    hr_json_double(b, "expected_gain", r->gain);
    hr_json_double(b, "samples_per_s_with_one_more_core", r->one_more_core);
    hr_json_str(b, "verdict", r->verdict);
    hr_json_close(b, '}');
    hr_buf_add_str(b, "\n");
}

static void print_read(struct hr_buf *b, const struct hr_bench_result *r)
{
    char bytes[32];

    hr_buf_addf(b, "  read      %s/s", hr_cli_format_bytes((uint64_t)((double)r->read_bytes / r->seconds), bytes));
    if (r->storage_known)
        hr_buf_addf(b, " (%s/s from storage, the rest from the page cache)",
                    hr_cli_format_bytes((uint64_t)((double)r->storage_bytes / r->seconds), bytes));
    hr_buf_addf(b, ", %.0f requests/s, %.1f us of CPU a sample\n", (double)r->read_requests / r->seconds,
                per_sample_us(r, r->reader_cpu_ns));
    if (amplification(r) > 1.005)
        hr_buf_addf(b, "            %.2fx what the samples need: gaps between them, whole blocks\n", amplification(r));
}

void hr_bench_print_text(struct hr_buf *b, const struct hr_bench_result *r)
{
    char count[32];

    hr_buf_addf(b, "%.1f samples/s  (%s batches in %.1f s, %d worker%s)\n", rate(r),
                hr_cli_format_count(r->batches, count), r->seconds, r->workers,
                r->workers == 1 ? "" : "s");
    print_read(b, r);
    hr_buf_addf(b, "  checksum  %.1f us a sample\n", per_sample_us(r, r->checksum_ns));
    hr_buf_addf(b, "  decode    %.1f us a sample, workers busy %.0f %%\n",
                per_sample_us(r, r->decode_ns),
                100 * share(r->worker_busy_ns, r->seconds) / r->workers);
    hr_buf_addf(b, "  hand-off  %.1f us a batch here, %.1f us of the consumer's CPU\n", hand_off_us(r),
                r->batches ? (double)r->consumer_cpu_ns / 1e3 / (double)r->batches : 0);
    hr_buf_addf(b, "  trainer   waits for data %.0f %% of the time\n",
                100 * share(r->consumer_wait_ns, r->seconds));
    hr_buf_addf(b, "  cost      %.1f us of CPU a sample, %.2f cores in all\n",
                per_sample_us(r, r->process_cpu_ns - r->consumer_cpu_ns), cores_used(r));
    if (r->bad_samples)
        hr_buf_addf(b, "  bad       %llu samples were bad\n", (unsigned long long)r->bad_samples);
    for (uint32_t i = 0; i < r->source_count; i++)
        hr_buf_addf(b, "  source    %s: %.3f %% of the samples, %.3f %% asked\n", r->sources[i].path,
                    100 * realised(r, i), 100 * r->sources[i].asked);
    hr_buf_addf(b, "  order     records stored side by side come %s samples apart\n",
                hr_cli_format_count((uint64_t)(r->shuffle_distance + 0.5), count));
    hr_buf_addf(b, "verdict: %s\n", r->verdict);
}
