/* Draws the progress line. */
#include "tools/progress.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "tools/cli.h"

enum { DRAW_EVERY_MS = 100, MAX_COLUMNS = 256 };

/* Where the cursor goes back and a line can be wiped. */
static bool is_screen(void)
{
    const char *term = getenv("TERM");

    return isatty(STDERR_FILENO) && term && *term && strcmp(term, "dumb") != 0;
}

void hr_progress_init(struct hr_progress *progress, const char *unit, uint64_t total)
{
    *progress = (struct hr_progress){
        .unit = unit,
        .total = total,
        .start_ns = hr_clock_ns(),
        .enabled = is_screen() && hr_log_get_level() >= HR_LOG_INFO,
    };
}

static int terminal_columns(void)
{
    struct winsize size;

    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) < 0 || size.ws_col < 20)
        return 80;
    return size.ws_col < MAX_COLUMNS ? size.ws_col : MAX_COLUMNS;
}

static void put(const char *text, size_t bytes)
{
    ssize_t ignored = write(STDERR_FILENO, text, bytes);
    (void)ignored;
}

static void add_time(struct hr_buf *line, double seconds)
{
    uint64_t s = (uint64_t)(seconds + 0.5);

    if (s >= 3600)
        hr_buf_addf(line, "%d:%02d:%02d", (int)(s / 3600), (int)(s / 60 % 60), (int)(s % 60));
    else
        hr_buf_addf(line, "%d:%02d", (int)(s / 60), (int)(s % 60));
}

static void draw(struct hr_progress *progress, uint64_t done, uint64_t bytes, double seconds)
{
    struct hr_buf line = {0};
    char text[32];
    double rate = seconds > 0 ? (double)done / seconds : 0;

    if (progress->total)
        hr_buf_addf(&line, "%3d%%  ", (int)(100.0 * (double)done / (double)progress->total));
    hr_buf_addf(&line, "%s %s  %.0f %s/s", hr_cli_format_count(done, text), progress->unit, rate, progress->unit);
    if (bytes && seconds > 0)
        hr_buf_addf(&line, "  %s/s",
                    hr_cli_format_bytes((uint64_t)((double)bytes / seconds), text));
    if (progress->total && rate > 0 && done <= progress->total) {
        hr_buf_add_str(&line, "  ");
        add_time(&line, (double)(progress->total - done) / rate);
        hr_buf_add_str(&line, " left");
    }
    if (!hr_buf_failed(&line)) {
        char shown[MAX_COLUMNS + 16];
        int n = snprintf(shown, sizeof(shown), "\r%.*s\x1b[K", terminal_columns() - 1,
                         hr_buf_str(&line));
        put(shown, (size_t)n);
        progress->shown = true;
    }
    hr_buf_finish(&line);
}

void hr_progress_update(struct hr_progress *progress, uint64_t done, uint64_t bytes)
{
    if (!progress->enabled)
        return;
    uint64_t now = hr_clock_ns();
    if (now - progress->drawn_ns < DRAW_EVERY_MS * HR_NS_PER_MS)
        return;
    progress->drawn_ns = now;
    draw(progress, done, bytes, (double)(now - progress->start_ns) / 1e9);
}

void hr_progress_clear(struct hr_progress *progress)
{
    static const char blank[] = "\r\x1b[K";

    if (!progress->shown)
        return;
    put(blank, sizeof(blank) - 1);
    progress->shown = false;
    progress->drawn_ns = 0;
}
