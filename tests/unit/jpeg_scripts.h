/* Random scan scripts for files that libjpeg makes. */
#ifndef HR_TESTS_UNIT_JPEG_SCRIPTS_H
#define HR_TESTS_UNIT_JPEG_SCRIPTS_H

#include "jpeg_tool.h"

enum { JPEG_MOST_SCANS = 64 };

struct jpeg_script {
    jpeg_scan_info scans[JPEG_MOST_SCANS];
    int count;
};

/* The DCs of all components together or of each alone, then bands of each component, in up to three steps each. */
void jpeg_make_progression(struct jpeg_script *script, int components, struct hr_rng *rng);
/* Not progressive: the components in scans of one to all of them. */
void jpeg_make_sequential(struct jpeg_script *script, int components, struct hr_rng *rng);

#endif
