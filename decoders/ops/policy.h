/* What the augmentation policies choose from, and the learned tables of auto_augment. */
#ifndef HR_DECODERS_OPS_POLICY_H
#define HR_DECODERS_OPS_POLICY_H

#include "base/base.h"

enum hr_change {
    HR_CHANGE_IDENTITY,
    HR_CHANGE_SHEAR_X, /* from here to sharpness: of either sign */
    HR_CHANGE_SHEAR_Y,
    HR_CHANGE_TRANSLATE_X,
    HR_CHANGE_TRANSLATE_Y,
    HR_CHANGE_ROTATE, /* the last that moves pixels */
    HR_CHANGE_BRIGHTNESS,
    HR_CHANGE_COLOR,
    HR_CHANGE_CONTRAST,
    HR_CHANGE_SHARPNESS,
    HR_CHANGE_POSTERIZE,
    HR_CHANGE_SOLARIZE,
    HR_CHANGE_AUTOCONTRAST,
    HR_CHANGE_EQUALIZE,
    HR_CHANGE_OF_RANDOM, /* rand_augment and trivial_augment choose among those before */
    HR_CHANGE_INVERT = HR_CHANGE_OF_RANDOM,
    HR_CHANGE_COUNT
};

/* Two changes one after the other, each with its chance and its magnitude of ten. */
struct hr_auto_pair {
    struct {
        enum hr_change change;
        int tenths, bin;
    } changes[2];
};

enum { HR_AUTO_POLICIES = 3, HR_AUTO_PAIRS = 25 };
extern const char *const hr_auto_policy_names[HR_AUTO_POLICIES + 1];
extern const struct hr_auto_pair hr_auto_policies[HR_AUTO_POLICIES][HR_AUTO_PAIRS];

#endif
