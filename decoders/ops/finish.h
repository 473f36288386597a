/* What is done to finished output: erasing after normalize. */
#ifndef HR_DECODERS_OPS_FINISH_H
#define HR_DECODERS_OPS_FINISH_H

#include "decoders/ops/step.h"
#include "decoders/sink.h"

/* An erase step on an output of w x h: its colour or noise, rounded once to the output's type. */
void hr_finish_erase(const struct hr_image_target *target, const struct hr_step *step, uint32_t w,
                     uint32_t h);

#endif
