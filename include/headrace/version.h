/* Version of the headrace library and of the C API in this directory. */
#ifndef HEADRACE_VERSION_H
#define HEADRACE_VERSION_H

#define HR_VERSION_MAJOR 0
#define HR_VERSION_MINOR 1
#define HR_VERSION_PATCH 0
#define HR_VERSION_STRING "0.1.0"

#endif
