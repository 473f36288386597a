/* A consumer in C, as the side-by-side runs need it: starts a private sidecar, takes batches, and speaks the lines of
 * bench/peerkit/child.py: "ready" after the first batch, then for each "go SECONDS" a "begin" and an "end".
 *
 * usage: consume HEADRACE PIPELINE DEPTH WARMUP SPAWNED_NS */
#include <stdio.h>
#include <stdlib.h>

#include <headrace/client.h>

#include "base/clock.h"

struct source {
    struct hr_client *client;
    char shape[128]; /* of the last batch, as JSON */
};

static void fail(struct hr_client *client)
{
    fprintf(stderr, "%s\n", hr_client_error(client));
    exit(1);
}

/* Takes a batch, has a look at it and gives it back; its pictures. */
static uint64_t take(struct source *source)
{
    struct hr_batch *batch;
    struct hr_array image;

    if (hr_client_next(source->client, -1, &batch) < 0)
        fail(source->client);
    if (hr_batch_field(batch, "image", &image) < 0 || image.dims != 4)
        fail(NULL);
    snprintf(source->shape, sizeof(source->shape), "{\"shape\": [%d, %d, %d, %d], \"dtype\": \"%s\"}",
             (int)image.shape[0], (int)image.shape[1], (int)image.shape[2], (int)image.shape[3], image.dtype);
    hr_batch_release(batch);
    return (uint64_t)image.shape[0];
}

static double since(uint64_t began_ns)
{
    return (double)(hr_clock_ns() - began_ns) / 1e9;
}

static void measure(struct source *source, double seconds, int depth, double warmup)
{
    uint64_t began = hr_clock_ns(), pictures = 0;
    double took = 0;

    for (int taken = 0; taken <= depth || since(began) < warmup; taken++)
        take(source);
    puts("{\"event\": \"begin\"}");
    fflush(stdout);
    began = hr_clock_ns();
    while (took < seconds) {
        pictures += take(source);
        took = since(began);
    }
    printf("{\"event\": \"end\", \"pictures\": %llu, \"seconds\": %.6f}\n", (unsigned long long)pictures, took);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    struct source source = {0};
    char line[64];
    double seconds;

    if (argc != 6) {
        fprintf(stderr, "usage: consume HEADRACE PIPELINE DEPTH WARMUP SPAWNED_NS\n");
        return 2;
    }
    if (hr_client_spawn(argv[1], argv[2], NULL, &source.client) < 0)
        fail(NULL);
    take(&source);
    printf("{\"event\": \"ready\", \"seconds\": %.6f, \"first\": %s}\n", since(strtoull(argv[5], NULL, 10)),
           source.shape);
    fflush(stdout);
    while (fgets(line, sizeof(line), stdin))
        if (sscanf(line, "go %lf", &seconds) == 1)
            measure(&source, seconds, atoi(argv[3]), atof(argv[4]));
    hr_client_close(source.client);
    return 0;
}
