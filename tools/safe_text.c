/* Escapes what would move a terminal's cursor, colour it, or not be a character at all. */
#include "tools/safe_text.h"

static void add_escaped(struct hr_buf *out, uint8_t c)
{
    if (c == '\n')
        hr_buf_add_str(out, "\\n");
    else if (c == '\t')
        hr_buf_add_str(out, "\\t");
    else
        hr_buf_addf(out, "\\x%02x", c);
}

/* Bytes of the character at s that may be shown, 0 = escape the byte. */
static size_t shown_bytes(const uint8_t *s, size_t bytes)
{
    size_t n = s[0] < 0x80 ? 1 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;

    if (s[0] < 0x20 || s[0] == 0x7f || n > bytes || hr_utf8_valid_prefix(s, n) != n)
        return 0;
    if (n == 2 && s[0] == 0xc2 && s[1] < 0xa0) /* C1 controls */
        return 0;
    /* marks that turn the direction of what follows: U+202A..202E, U+2066..2069 */
    if (n == 3 && s[0] == 0xe2 && ((s[1] == 0x80 && s[2] >= 0xaa && s[2] <= 0xae) ||
                                   (s[1] == 0x81 && s[2] >= 0xa6 && s[2] <= 0xa9)))
        return 0;
    return n;
}

void hr_safe_text(struct hr_buf *out, const char *s, size_t bytes, size_t max_bytes)
{
    const uint8_t *p = (const uint8_t *)s;
    size_t i = 0;

    while (i < bytes) {
        size_t n = shown_bytes(p + i, bytes - i);
        if (i + (n ? n : 1) > max_bytes) {
            hr_buf_add_str(out, "\xe2\x80\xa6");
            return;
        }
        if (n)
            hr_buf_add(out, p + i, n);
        else
            add_escaped(out, p[i]);
        i += n ? n : 1;
    }
}
