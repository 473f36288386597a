/* The constant part of the dictionary that kept bytes are packed with. */
#ifndef HR_DECODERS_RJPEG_DICTIONARY_H
#define HR_DECODERS_RJPEG_DICTIONARY_H

#include "base/base.h"

enum { RJ_DICTIONARY_BYTES = 468 };

extern const uint8_t rj_dictionary[RJ_DICTIONARY_BYTES];

#endif
