/* What each media (image, mask, video, audio) implements of a chain, and the common heads of its chain and
 * context objects. chain.c dispatches over the four tables; a media's private structs begin with
 * these heads. */
#ifndef HR_DECODERS_CHAIN_MEDIA_H
#define HR_DECODERS_CHAIN_MEDIA_H

#include "decoders/chain.h"

struct hr_chain_media;

/* Head of a media's chain; constant after create, shared by all threads. */
struct hr_chain {
    const struct hr_chain_media *media;
    int output_count;
    struct hr_chain_output outputs[HR_CHAIN_MAX_OUTPUTS];
    char *description; /* canonical text with every default filled in */
    char field[HR_NAME_BYTES];
};

/* Head of a worker's context. */
struct hr_context {
    const struct hr_chain_media *media;
};

struct hr_chain_media {
    const char *name;
    size_t chain_bytes, context_bytes; /* of its structs, which chain.c makes, zeroed, and frees */
    /* Fills in outputs, output_count and its own. Whatever comes back, finish is called in the end; it may be NULL. */
    int (*init)(struct hr_chain *chain, const struct hr_chain_spec *spec, struct hr_error *err);
    void (*finish)(struct hr_chain *chain);
    void (*describe)(const struct hr_chain *chain, struct hr_buf *text); /* once init went well */
    /* plan arrives zeroed, with facts set and read_bytes = value_bytes. */
    int (*plan)(const struct hr_chain *chain, const struct hr_draw_key *key, uint64_t value_bytes,
                struct hr_sample_plan *plan, struct hr_error *err);
    /* Sets plan->seek and read_bytes where reading in parts pays; NULL: never. */
    void (*plan_parts)(const struct hr_chain *chain, unsigned encoding, const uint8_t *seek,
                       uint32_t seek_bytes, struct hr_sample_plan *plan);
    /* Of hr_chain_parts and hr_chain_check_parts, where plan_parts has set plan->seek. */
    void (*parts)(const struct hr_chain *chain, const struct hr_sample_plan *plan, struct hr_chain_parts *parts);
    int (*check_parts)(const struct hr_chain *chain, const struct hr_sample_plan *plan, const uint8_t *value,
                       size_t bytes, struct hr_error *err);
    /* 0 or the code of what it could not get; context_finish is called in the end. NULL: zeroes will do. */
    int (*context_init)(const struct hr_chain *chain, struct hr_context *context);
    void (*context_finish)(struct hr_context *context);
    int (*decode)(const struct hr_chain *chain, struct hr_context *context,
                  const struct hr_sample_plan *plan, unsigned encoding, const uint8_t *value,
                  size_t value_bytes, void *const dst[HR_CHAIN_MAX_OUTPUTS], struct hr_error *err);
};

extern const struct hr_chain_media hr_image_chain_media; /* image_chain.c */
extern const struct hr_chain_media hr_mask_chain_media;  /* mask_chain.c */
extern const struct hr_chain_media hr_video_chain_media; /* video_chain.c */
extern const struct hr_chain_media hr_audio_chain_media; /* audio_chain.c */

#endif
