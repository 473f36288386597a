/* What an image field's chain tells those that follow it: the upright size of a picture and the drawn geometry. */
#include "decoders/chain_media.h"
#include "decoders/decoder.h"
#include "decoders/image_lead.h"
#include "decoders/ops/geometry.h"

uint8_t hr_image_orient(const struct hr_facts *facts, bool apply_exif, uint32_t *w, uint32_t *h)
{
    bool known = apply_exif && facts->orientation >= 1 && facts->orientation <= 8;
    bool turned = known && facts->orientation >= 5;

    *w = turned ? facts->height : facts->width;
    *h = turned ? facts->width : facts->height;
    return known ? (uint8_t)facts->orientation : 1;
}

bool hr_chain_leads(const struct hr_chain *chain)
{
    struct hr_image_lead lead;

    return hr_image_chain_lead(chain, &lead);
}

void hr_chain_upright(const struct hr_chain *chain, const struct hr_facts *facts, uint32_t *w, uint32_t *h)
{
    struct hr_image_lead lead;

    HR_ASSERT(hr_image_chain_lead(chain, &lead));
    hr_image_orient(facts, lead.apply_exif, w, h);
}

int hr_chain_geometry(const struct hr_chain *chain, const struct hr_facts *facts, const struct hr_draw_key *key,
                      struct hr_geometry *geometry, struct hr_error *err)
{
    struct hr_image_lead lead;
    uint32_t w, h;

    HR_ASSERT(hr_image_chain_lead(chain, &lead));
    int ret = hr_image_check_size(facts->width, facts->height, err);
    if (ret < 0)
        return ret;
    hr_image_orient(facts, lead.apply_exif, &w, &h);
    return hr_op_chain_geometry(lead.ops, key, w, h, geometry, err);
}
