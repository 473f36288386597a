/* Made-up records as a source like any other, so that packing them is packing. */
#ifndef HR_SYNTH_SOURCE_H
#define HR_SYNTH_SOURCE_H

#include "tools/pack/source.h"

enum hr_synth_kind {
    HR_SYNTH_IMAGES,
    HR_SYNTH_CAPTIONS,
    HR_SYNTH_TEXT,
    HR_SYNTH_SPEECH,
    HR_SYNTH_VIDEO,
    HR_SYNTH_MIXED,
};

struct hr_synth_spec {
    enum hr_synth_kind kind;
    uint64_t record_count, seed;
    int width, height; /* 0 = varying */
    double seconds;    /* median of recordings and clips; 0 = the kind's own */
};

int hr_synth_source_open(const struct hr_synth_spec *spec, struct hr_source **out,
                         struct hr_error *err) HR_MUST_CHECK;

#endif
