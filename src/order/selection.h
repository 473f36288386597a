/* The records that a filter kept: a compact ascending set that answers "the i-th of them". A bitmap
 * with counts, or a plain list where that is smaller. Immutable once made, safe to read from any
 * thread. */
#ifndef HR_ORDER_SELECTION_H
#define HR_ORDER_SELECTION_H

#include "base/base.h"

struct hr_selection;
struct hr_selection_builder;

/* Out of [0, record_count). NULL = out of memory. */
struct hr_selection_builder *hr_selection_begin(uint64_t record_count) HR_MUST_CHECK;
void hr_selection_keep(struct hr_selection_builder *builder, uint64_t record); /* any order, twice is once */
/* Both free the builder; commit gives NULL when out of memory. */
struct hr_selection *hr_selection_commit(struct hr_selection_builder *builder) HR_MUST_CHECK;
void hr_selection_abort(struct hr_selection_builder *builder); /* NULL is fine */
void hr_selection_destroy(struct hr_selection *selection);     /* NULL is fine */

uint64_t hr_selection_count(const struct hr_selection *selection);
uint64_t hr_selection_at(const struct hr_selection *selection, uint64_t i); /* i < count */
/* The inverse: false when the record was not kept. */
bool hr_selection_find(const struct hr_selection *selection, uint64_t record, uint64_t *i);
uint64_t hr_selection_bytes(const struct hr_selection *selection); /* memory that it takes */

#endif
