/* The constant part of the dictionary that kept bytes are packed with. */
#ifndef HR_DECODERS_RJPEG_DICTIONARY_H
#define HR_DECODERS_RJPEG_DICTIONARY_H

#include "base/base.h"

enum { RJ_DICTIONARY_BYTES = 3630 };

/* RJ_DICTIONARY_BYTES bytes. From any thread. */
const uint8_t *rj_dictionary(void);

#endif
