/* Sizes and counts for people. */
#include "tools/cli.h"

#include <stdio.h>

const char *hr_cli_format_bytes(uint64_t bytes, char buf[32])
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
    double v = (double)bytes;
    size_t unit = 0;

    /* 999.95 would be printed as 1000.0 */
    while (v >= (unit ? 999.95 : 1000) && unit + 1 < HR_ARRAY_SIZE(units)) {
        v /= 1000;
        unit++;
    }
    snprintf(buf, 32, unit ? "%.1f %s" : "%.0f %s", v, units[unit]);
    return buf;
}

const char *hr_cli_format_count(uint64_t count, char buf[32])
{
    char digits[24];
    int n = snprintf(digits, sizeof(digits), "%llu", (unsigned long long)count), o = 0;

    for (int i = 0; i < n; i++) {
        if (i && (n - i) % 3 == 0)
            buf[o++] = ',';
        buf[o++] = digits[i];
    }
    buf[o] = 0;
    return buf;
}
