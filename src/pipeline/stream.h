/* A stream inside the engine: one rank's ring, its batches in flight, and publishing them in order. */
#ifndef HR_PIPELINE_STREAM_H
#define HR_PIPELINE_STREAM_H

#include <pthread.h>

#include "pipeline/batch.h"
#include "pipeline/engine.h"

struct hr_stream {
    struct hr_engine *engine;
    uint32_t rank, world;
    struct hr_ring *ring;
    struct hr_slot_layout layout;
    struct hr_batch *batches; /* [slot_count]: batch k of the run is batches[k % slot_count] */
    uint32_t slot_count;

    /* reader thread only */
    struct hr_state state;    /* after the batch planned last */
    uint64_t sequence;        /* of the next batch in this generation */
    bool running, ended;
    bool wants_slot;          /* waiting for the trainer */
    struct hr_state *before;  /* [slot_count] by slot: what its batch was planned from */

    /* commands from the control thread; under the engine's command lock */
    bool seek_wanted, pause_wanted, halt_wanted, close_wanted, idle;
    struct hr_state seek_state; /* halt answers here */

    pthread_mutex_t lock;     /* publishing order: everything below */
    uint64_t begun, published; /* counts; begun - published are in flight */
    bool dropping;            /* a batch was dropped, so all after it are too, until a seek */
    struct hr_state dropped;  /* what the first of them was planned from */
    int status;               /* 0, HR_E_END, or why it stopped */
    struct hr_error error;
};

int hr_stream_create(struct hr_engine *engine, const struct hr_plan *plan, uint32_t rank,
                     uint32_t world, bool shared, struct hr_stream **out, struct hr_error *err)
    HR_MUST_CHECK;
void hr_stream_destroy(struct hr_stream *stream);

/* The last sample of a batch is done (any thread): completes it, and publishes all that is next in
 * order. */
void hr_stream_batch_done(struct hr_batch *batch);
/* Stops the stream for good with an error; the first one wins. */
void hr_stream_fail(struct hr_stream *stream, const struct hr_error *err);
/* Batches begun and not yet published or dropped. */
uint64_t hr_stream_in_flight(struct hr_stream *stream);

#endif
