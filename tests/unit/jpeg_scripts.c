/* Random scan scripts. */
#include "jpeg_scripts.h"

/* Scans that must follow each other: a band, and the steps that bring its lower bits. */
struct chain {
    jpeg_scan_info next;
    bool done;
};

static int below(struct hr_rng *rng, int n)
{
    return (int)hr_rng_below(rng, (uint64_t)n);
}

static void step(struct jpeg_script *s, struct chain *chain)
{
    jpeg_scan_info *scan = &chain->next;

    s->scans[s->count++] = *scan;
    chain->done = scan->Al == 0;
    scan->Ah = scan->Al;
    scan->Al--;
}

static void step_any(struct jpeg_script *s, struct chain *chains, int count, struct hr_rng *rng)
{
    int left = 0;

    for (int i = 0; i < count; i++)
        left += !chains[i].done;
    while (left) {
        struct chain *chain = &chains[below(rng, count)];
        if (chain->done)
            continue;
        step(s, chain);
        left -= chain->done;
    }
}

void jpeg_make_progression(struct jpeg_script *s, int components, struct hr_rng *rng)
{
    struct chain chains[JPEG_MOST_SCANS] = {{{0}}};
    bool together = components > 1 && hr_rng_bernoulli(rng, 0.6);
    int count = together ? 1 : components;

    s->count = 0;
    for (int i = 0; i < count; i++) {
        jpeg_scan_info *scan = &chains[i].next;
        scan->comps_in_scan = together ? components : 1;
        for (int c = 0; c < scan->comps_in_scan; c++)
            scan->component_index[c] = i + c;
        scan->Al = below(rng, 3);
        step(s, &chains[i]);
    }
    for (int c = 0; c < components; c++)
        for (int k = 1; k < 64; count++) {
            int last = hr_rng_bernoulli(rng, 0.5) ? 63 : k + below(rng, 64 - k);
            last = count > 12 ? 63 : last;
            chains[count].next = (jpeg_scan_info){.comps_in_scan = 1, .component_index = {c}, .Ss = k, .Se = last,
                                                  .Al = below(rng, 3)};
            k = last + 1;
        }
    step_any(s, chains, count, rng);
}

void jpeg_make_sequential(struct jpeg_script *s, int components, struct hr_rng *rng)
{
    s->count = 0;
    for (int c = 0; c < components; s->count++) {
        jpeg_scan_info *scan = &s->scans[s->count];
        *scan = (jpeg_scan_info){.Se = 63, .comps_in_scan = 1 + below(rng, components - c)};
        for (int i = 0; i < scan->comps_in_scan; i++)
            scan->component_index[i] = c++;
    }
}
