/* The parser of regular expressions; it writes the nodes as it goes.
 *
 *   branches = branch { "|" branch }
 *   branch   = { atom { "*" | "+" | "?" | "{" m [ "," [ n ] ] "}" } }
 *   atom     = "(" branches ")" | "[" set "]" | "." | "^" | "$" | "\" character | character */
#include <ctype.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "conf/regex_parts.h"

struct parser {
    const char *at;
    struct hr_regex *regex;
    uint64_t set_cap;
    int depth;
    bool no_memory;
    const char *trouble; /* the first one */
};

static bool fail(struct parser *p, const char *trouble)
{
    if (!p->trouble)
        p->trouble = trouble;
    return false;
}

/* ---- nodes ---- */

static bool room(struct parser *p, uint64_t more)
{
    /* One is kept for the match at the end. */
    return p->regex->node_count + more < HR_REGEX_MAX_NODES ||
           fail(p, "it is too large, with its repetitions multiplied out");
}

static bool add(struct parser *p, enum regex_op op, int a, int b)
{
    if (!room(p, 1))
        return false;
    p->regex->nodes[p->regex->node_count++] = (struct regex_node){(int16_t)op, (int16_t)a, (int16_t)b};
    return true;
}

/* In front of the nodes from `from` on, to whose end b counts. */
static bool insert_split(struct parser *p, uint32_t from)
{
    struct hr_regex *r = p->regex;
    uint32_t count = r->node_count - from;

    if (!add(p, REGEX_JUMP, 1, 0))
        return false;
    memmove(&r->nodes[from + 1], &r->nodes[from], count * sizeof(*r->nodes));
    r->nodes[from] = (struct regex_node){REGEX_SPLIT, 1, (int16_t)(count + 1)};
    return true;
}

static bool make_optional(struct parser *p, uint32_t from)
{
    return insert_split(p, from);
}

static bool make_star(struct parser *p, uint32_t from)
{
    if (!insert_split(p, from))
        return false;
    p->regex->nodes[from].b++;
    return add(p, REGEX_JUMP, (int)from - (int)p->regex->node_count, 0);
}

static bool make_plus(struct parser *p, uint32_t from)
{
    return add(p, REGEX_SPLIT, (int)from - (int)p->regex->node_count, 1);
}

static bool copy(struct parser *p, uint32_t from, uint32_t count)
{
    struct hr_regex *r = p->regex;

    if (!room(p, count))
        return false;
    memcpy(&r->nodes[r->node_count], &r->nodes[from], count * sizeof(*r->nodes));
    r->node_count += count;
    return true;
}

/* least copies, and more up to most, each optional and only after the one before; most < 0: any number. */
static bool make_interval(struct parser *p, uint32_t from, long least, long most)
{
    struct hr_regex *r = p->regex;
    uint32_t count = r->node_count - from;
    bool optional = least == 0;

    if (most == 0) {
        r->node_count = from;
        return add(p, REGEX_JUMP, 1, 0);
    }
    if (optional && most < 0)
        return make_star(p, from);
    least += optional;
    for (long i = 1; i < least; i++)
        if (!copy(p, from, count))
            return false;
    if (most < 0)
        return make_plus(p, r->node_count - count);
    if (!room(p, (uint64_t)(most - least) * (count + 1)))
        return false;
    int end = (int)r->node_count + (int)(most - least) * (int)(count + 1);
    for (long i = least; i < most; i++)
        if (!add(p, REGEX_SPLIT, 1, end - (int)r->node_count) || !copy(p, from, count))
            return false;
    return !optional || make_optional(p, from);
}

/* ---- sets ---- */

static void set_add(struct regex_set *set, unsigned c)
{
    set->bits[c / 8] |= (uint8_t)(1u << (c % 8));
}

static void set_invert(struct regex_set *set)
{
    for (size_t i = 0; i < sizeof(set->bits); i++)
        set->bits[i] = (uint8_t)~set->bits[i];
}

static bool add_set(struct parser *p, const struct regex_set *set)
{
    struct hr_regex *r = p->regex;

    struct regex_set *sets = hr_array_grow(r->sets, r->set_count, &p->set_cap, 8, sizeof(*sets));
    if (!sets) {
        p->no_memory = true;
        return fail(p, "no memory");
    }
    r->sets = sets;
    r->sets[r->set_count] = *set;
    return add(p, REGEX_SET, (int)r->set_count++, 0);
}

static int is_word(int c)
{
    return regex_is_word((uint8_t)c);
}

/* The process never leaves the C locale. */
static void set_add_class(struct regex_set *set, int (*is)(int c))
{
    for (int c = 0; c < 256; c++)
        if (is(c))
            set_add(set, (unsigned)c);
}

/* Behind "[:". */
static bool parse_class(struct parser *p, struct regex_set *set)
{
    static const struct {
        const char *name;
        int (*is)(int c);
    } classes[] = {{"alnum", isalnum}, {"alpha", isalpha}, {"blank", isblank}, {"cntrl", iscntrl},
                   {"digit", isdigit}, {"graph", isgraph}, {"lower", islower}, {"print", isprint},
                   {"punct", ispunct}, {"space", isspace}, {"upper", isupper}, {"xdigit", isxdigit}};

    for (size_t i = 0; i < HR_ARRAY_SIZE(classes); i++) {
        size_t n = strlen(classes[i].name);
        if (strncmp(p->at, classes[i].name, n) != 0 || strncmp(p->at + n, ":]", 2) != 0)
            continue;
        set_add_class(set, classes[i].is);
        p->at += n + 2;
        return true;
    }
    return fail(p, "an unknown class in [: :]");
}

/* One character, which may be written [.c.] or [=c=]. */
static bool parse_member(struct parser *p, unsigned *c)
{
    const char *s = p->at;
    bool named = s[0] == '[' && (s[1] == '.' || s[1] == '=');

    if (!s[0])
        return fail(p, "a [ without ]");
    if (named && (!s[2] || s[3] != s[1] || s[4] != ']'))
        return fail(p, "more than a character in [. .] or [= =]");
    *c = (uint8_t)s[named ? 2 : 0];
    p->at += named ? 5 : 1;
    return true;
}

static bool parse_range(struct parser *p, struct regex_set *set)
{
    unsigned low, high;

    if (p->at[0] == '[' && p->at[1] == ':') {
        p->at += 2;
        return parse_class(p, set);
    }
    if (!parse_member(p, &low))
        return false;
    high = low;
    if (p->at[0] == '-' && p->at[1] && p->at[1] != ']') {
        p->at++;
        if (!parse_member(p, &high))
            return false;
    }
    if (low > high)
        return fail(p, "a range that ends before it begins");
    for (unsigned c = low; c <= high; c++)
        set_add(set, c);
    return true;
}

/* Behind "[". */
static bool parse_bracket(struct parser *p)
{
    struct regex_set set = {{0}};
    bool inverse = *p->at == '^', first = true;

    p->at += inverse;
    while (first || *p->at != ']') {
        if (!parse_range(p, &set))
            return false;
        first = false;
    }
    p->at++;
    if (inverse)
        set_invert(&set);
    return add_set(p, &set);
}

/* ---- atoms ---- */

/* Behind "\". */
static bool parse_escape(struct parser *p)
{
    struct regex_set set = {{0}};
    char c = *p->at++;

    switch (c) {
    case 'w':
    case 'W':
    case 's':
    case 'S':
        set_add_class(&set, c == 'w' || c == 'W' ? is_word : isspace);
        if (c == 'W' || c == 'S')
            set_invert(&set);
        return add_set(p, &set);
    case 'b':
        return add(p, REGEX_EDGE, 0, 0);
    case 'B':
        return add(p, REGEX_INSIDE, 0, 0);
    case '<':
        return add(p, REGEX_WORD_BEGIN, 0, 0);
    case '>':
        return add(p, REGEX_WORD_END, 0, 0);
    case '`':
        return add(p, REGEX_BEGIN, 0, 0);
    case '\'':
        return add(p, REGEX_END, 0, 0);
    case 0:
        return fail(p, "a \\ at its end");
    default:
        if (c >= '1' && c <= '9')
            return fail(p, "back-references are not taken");
        if (isalnum((uint8_t)c))
            return fail(p, "a \\ before a letter that means nothing (digits are [0-9])");
        return add(p, REGEX_BYTE, (uint8_t)c, 0);
    }
}

static bool parse_branches(struct parser *p);

/* Behind "(". */
static bool parse_group(struct parser *p)
{
    uint32_t from = p->regex->node_count;

    if (++p->depth == HR_REGEX_MAX_DEPTH)
        return fail(p, "its groups nest too deep");
    if (!parse_branches(p))
        return false;
    p->depth--;
    if (*p->at != ')')
        return fail(p, "a ( without )");
    p->at++;
    return p->regex->node_count > from || add(p, REGEX_JUMP, 1, 0);
}

static bool parse_atom(struct parser *p)
{
    char c = *p->at++;

    switch (c) {
    case '(':
        return parse_group(p);
    case '[':
        return parse_bracket(p);
    case '\\':
        return parse_escape(p);
    case '.':
        return add(p, REGEX_ANY, 0, 0);
    case '^':
        return add(p, REGEX_BEGIN, 0, 0);
    case '$':
        return add(p, REGEX_END, 0, 0);
    case '*':
    case '+':
    case '?':
    case '{':
        return fail(p, "a repetition of nothing");
    default:
        return add(p, REGEX_BYTE, (uint8_t)c, 0);
    }
}

/* ---- repetitions, branches ---- */

/* Saturates above anything that fits. */
static long parse_number(struct parser *p)
{
    long n = 0;

    for (; isdigit((uint8_t)*p->at); p->at++)
        n = n > HR_REGEX_MAX_NODES ? n : n * 10 + (*p->at - '0');
    return n;
}

/* Behind "{": m}, m,}, ,n} or m,n}. */
static bool parse_interval(struct parser *p, uint32_t from)
{
    bool has_least = isdigit((uint8_t)*p->at);
    long least = parse_number(p), most = least;

    if (*p->at == ',') {
        p->at++;
        most = isdigit((uint8_t)*p->at) ? parse_number(p) : -1;
    }
    if (*p->at != '}' || (!has_least && most <= 0))
        return fail(p, "a { that is no repetition");
    p->at++;
    if (most >= 0 && least > most)
        return fail(p, "a repetition that ends before it begins");
    return make_interval(p, from, least, most);
}

static bool parse_repetitions(struct parser *p, uint32_t from)
{
    /* ^* and \b+ repeat nothing, (^)* may. */
    enum regex_op op = (enum regex_op)p->regex->nodes[from].op;
    bool anchor = op >= REGEX_BEGIN && op <= REGEX_WORD_END && p->at[-1] != ')';

    for (char c; (c = *p->at) && strchr("*+?{", c);) {
        if (anchor)
            return fail(p, "a repetition of nothing");
        p->at++;
        bool ok = c == '*'   ? make_star(p, from)
                  : c == '+' ? make_plus(p, from)
                  : c == '?' ? make_optional(p, from)
                             : parse_interval(p, from);
        if (!ok)
            return false;
    }
    return true;
}

/* A ) that closes nothing stands for itself. */
static bool parse_branch(struct parser *p)
{
    while (*p->at && *p->at != '|' && (*p->at != ')' || p->depth == 0)) {
        uint32_t from = p->regex->node_count;
        if (!parse_atom(p) || !parse_repetitions(p, from))
            return false;
    }
    return true;
}

static bool parse_branches(struct parser *p)
{
    uint32_t from = p->regex->node_count;

    if (!parse_branch(p))
        return false;
    while (*p->at == '|') {
        p->at++;
        if (!insert_split(p, from))
            return false;
        p->regex->nodes[from].b++; /* behind the jump, to the other branch */
        uint32_t jump = p->regex->node_count;
        if (!add(p, REGEX_JUMP, 0, 0) || !parse_branch(p))
            return false;
        p->regex->nodes[jump].a = (int16_t)(p->regex->node_count - jump);
    }
    return true;
}

/* ---- all of it ---- */

static bool make_room(struct hr_regex *r)
{
    r->seen = hr_alloc_zero(r->node_count, sizeof(*r->seen));
    r->now.items = hr_alloc_zero(r->node_count, sizeof(*r->now.items));
    r->next.items = hr_alloc_zero(r->node_count, sizeof(*r->next.items));
    r->stack = hr_alloc_zero(r->node_count, sizeof(*r->stack));
    return r->seen && r->now.items && r->next.items && r->stack;
}

int hr_regex_create(const char *text, struct hr_regex **out, const char **trouble)
{
    struct hr_regex *r = hr_alloc_zero(1, sizeof(*r));
    struct parser p = {.at = text, .regex = r};
    bool ok = r != NULL;

    *trouble = "no memory";
    if (ok)
        r->nodes = hr_alloc_zero(HR_REGEX_MAX_NODES, sizeof(*r->nodes));
    if (!ok || !r->nodes) {
        hr_regex_destroy(r);
        return HR_E_NOMEM;
    }
    ok = strlen(text) <= HR_REGEX_MAX_BYTES || fail(&p, "it has more than 512 bytes");
    ok = ok && parse_branches(&p);
    if (ok) {
        r->nodes[r->node_count++] = (struct regex_node){.op = REGEX_MATCH};
        struct regex_node *fitting = hr_realloc(r->nodes, r->node_count, sizeof(*r->nodes));
        r->nodes = fitting ? fitting : r->nodes;
        p.no_memory = !make_room(r);
    }
    if (!ok || p.no_memory) {
        *trouble = p.trouble ? p.trouble : *trouble;
        hr_regex_destroy(r);
        return p.no_memory ? HR_E_NOMEM : HR_E_CONFIG;
    }
    *out = r;
    return 0;
}
