/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * How many messages slots have. The rule of `pending`:
 *
 *   pending = messages in the table that are FRESH or FLUSHING + messages that are leased, but for those
 *             that are superseded + messages that slots have
 *
 * A slot has a message from the checkpoint on that brought it there, until it is taken, or until a
 * record ends it. Each record says whether it ended a message (`ends`), so that replaying the log
 * counts as the process did that wrote it. A checkpoint has the numbers of its own instant; where
 * it leaves the log as it is, because the disk is full, what the log says up to that instant ends
 * nothing once more.
 *
 * The numbers are kept for each span of due times, and not for each slot, because a cancel does not
 * know in which slot its message is. So they do not change when a message is loaded, evicted or
 * moved by a rewriting. `known` are those that are FILED in the table.
 *
 * Memory can be wrong in three ways. A message that is put a second time while a slot alone has the
 * first counts twice. A cancel of what is not there counts as if it was. Dropped messages count on
 * while a slot has something of its span that was not dropped. All are over when `loaded` has
 * passed the span: then the table has all that is left of it, and the number known is the number.
 */

#include <errno.h>

#include "hwt/delay/whole.h"

/* A second; each time that there are too many spans, they are made twice as long. */
#define SHIFT_MIN 30

void hwt_delay_filed_init(struct hwt_delay_filed *filed)
{
    *filed = (struct hwt_delay_filed){ .shift = SHIFT_MIN };
}

/* The first span that is not before the index. */
static size_t find(const struct hwt_delay_filed *filed, uint64_t index)
{
    size_t low = 0, high = filed->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (filed->spans[middle].index < index)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct hwt_delay_span *span_of(struct hwt_delay_filed *filed, uint64_t due)
{
    size_t at = find(filed, due >> filed->shift);
    bool is_there = at < filed->count && filed->spans[at].index == due >> filed->shift;
    return is_there ? &filed->spans[at] : NULL;
}

static void widen(struct hwt_delay_filed *filed)
{
    size_t count = 0;
    filed->shift++;
    for (size_t i = 0; i < filed->count; i++) {
        struct hwt_delay_span span = filed->spans[i];
        span.index >>= 1;
        if (count > 0 && filed->spans[count - 1].index == span.index) {
            filed->spans[count - 1].count += span.count;
            filed->spans[count - 1].known += span.known;
        } else {
            filed->spans[count++] = span;
        }
    }
    filed->count = count;
}

static struct hwt_delay_span *make_span(struct hwt_delay_filed *filed, uint64_t due)
{
    struct hwt_delay_span *span = span_of(filed, due);
    while (!span && filed->count == HWT_DELAY_SPANS_MAX) {
        widen(filed);
        span = span_of(filed, due);
    }
    if (span)
        return span;
    uint64_t index = due >> filed->shift;
    span = &filed->spans[find(filed, index)];
    memmove(span + 1, span, (size_t)(filed->spans + filed->count - span) * sizeof(*span));
    *span = (struct hwt_delay_span){ .index = index };
    filed->count++;
    return span;
}

/* So many of a span are not there. */
static void lower(struct hwt_delay_filed *filed, struct hwt_delay_span *span, uint64_t by)
{
    span->count -= by;
    filed->total -= by;
    if (span->count > 0)
        return;
    filed->count--;
    memmove(span, span + 1, (size_t)(filed->spans + filed->count - span) * sizeof(*span));
    if (filed->count == 0)
        filed->shift = SHIFT_MIN;
}

/* A slot has so many more. */
void hwt_delay_filed_add(struct hwt_delay_filed *filed, uint64_t due, uint64_t count)
{
    make_span(filed, due)->count += count;
    filed->total += count;
}

/* May a slot have one that is not in memory? */
bool hwt_delay_filed_may_have(const struct hwt_delay_filed *filed, uint64_t due)
{
    size_t at = find(filed, due >> filed->shift);
    return at < filed->count && filed->spans[at].index == due >> filed->shift &&
           filed->spans[at].count > filed->spans[at].known;
}

/* One that is not in memory is not pending any more. */
void hwt_delay_filed_end(struct hwt_delay_filed *filed, uint64_t due)
{
    if (hwt_delay_filed_may_have(filed, due))
        lower(filed, span_of(filed, due), 1);
}

/* One is in memory from now on. */
void hwt_delay_filed_know(struct hwt_delay_filed *filed, uint64_t due)
{
    struct hwt_delay_span *span = make_span(filed, due);
    if (++span->known <= span->count)
        return;
    span->count++;
    filed->total++;
}

/* One leaves memory, and is still in its slot. */
void hwt_delay_filed_forget(struct hwt_delay_filed *filed, uint64_t due)
{
    struct hwt_delay_span *span = span_of(filed, due);
    if (span && span->known > 0)
        span->known--;
}

/* A message in a gap is in slots alone, wherever `loaded` is. */
static bool is_in_gap(const hwt_delay *store, uint64_t first, uint64_t last)
{
    for (size_t i = 0; i < store->table.gaps.count; i++) {
        if (store->table.gaps.all[i].from.due <= last && store->table.gaps.all[i].to.due >= first)
            return true;
    }
    return false;
}

static uint64_t first_of(const struct hwt_delay_filed *filed, size_t i)
{
    return filed->spans[i].index << filed->shift;
}

static uint64_t last_of(const struct hwt_delay_filed *filed, size_t i)
{
    return first_of(filed, i) + ((UINT64_C(1) << filed->shift) - 1);
}

/* Slots have nothing of it that is not in memory. */
static void settle(hwt_delay *store, size_t i)
{
    struct hwt_delay_filed *filed = &store->table.filed;
    struct hwt_delay_span *span = &filed->spans[i];
    if (!is_in_gap(store, first_of(filed, i), last_of(filed, i)))
        lower(filed, span, span->count - span->known);
}

/* The table has all that is due up to an instant, so spans that end there are right from now on. */
void hwt_delay_filed_settle(hwt_delay *store, uint64_t until)
{
    for (size_t i = store->table.filed.count; i-- > 0;) {
        if (last_of(&store->table.filed, i) <= until)
            settle(store, i);
    }
}

/* Which spans have something of a slot that was not dropped, as far as is known without reading it.
 * All that the slot has is due from `start` on, and not behind the end. */
void hwt_delay_filed_mark(const hwt_delay *store, uint64_t start, struct hwt_delay_key end,
                          bool left[HWT_DELAY_SPANS_MAX])
{
    const struct hwt_delay_filed *filed = &store->table.filed;
    size_t i = find(filed, start >> filed->shift);
    for (; i < filed->count && first_of(filed, i) <= end.due; i++) {
        uint64_t last = last_of(filed, i) < end.due ? last_of(filed, i) : end.due;
        const struct hwt_delay_key key = { last, end.sequence };
        left[i] = left[i] || !hwt_delay_is_dropped(store, key);
    }
}

/* Dropped messages are not pending any more, in spans of which slots have nothing else. */
void hwt_delay_filed_settle_dropped(hwt_delay *store, const bool left[HWT_DELAY_SPANS_MAX])
{
    const struct hwt_delay_filed *filed = &store->table.filed;
    for (size_t i = filed->count; i-- > 0;) {
        const struct hwt_delay_key first = { first_of(filed, i), 0 };
        if (!left[i] && hwt_delay_is_dropped(store, first))
            settle(store, i);
    }
}

/* ---- on the disk ---- */

void hwt_delay_filed_encode(const struct hwt_delay_filed *filed, unsigned char *at)
{
    for (size_t i = 0; i < filed->count; i++, at += HWT_DELAY_SPAN_SIZE) {
        hwt_delay_set64(at + HWT_DELAY_SPAN_INDEX, filed->spans[i].index);
        hwt_delay_set64(at + HWT_DELAY_SPAN_COUNT, filed->spans[i].count);
    }
}

/* 0; -EBADMSG */
int hwt_delay_filed_decode(struct hwt_delay_filed *filed, const unsigned char *at, uint32_t count,
                           uint32_t shift)
{
    hwt_delay_filed_init(filed);
    if (count > HWT_DELAY_SPANS_MAX || shift < SHIFT_MIN || shift >= 64)
        return -EBADMSG;
    filed->shift = shift;
    for (uint32_t i = 0; i < count; i++, at += HWT_DELAY_SPAN_SIZE) {
        const struct hwt_delay_span span = {
            .index = hwt_delay_get64(at + HWT_DELAY_SPAN_INDEX),
            .count = hwt_delay_get64(at + HWT_DELAY_SPAN_COUNT),
        };
        if (span.count == 0 || span.index > UINT64_MAX >> shift ||
            (i > 0 && span.index <= filed->spans[i - 1].index))
            return -EBADMSG;
        filed->spans[filed->count++] = span;
        filed->total += span.count;
    }
    return 0;
}

struct hwt_delay_filed *hwt_delay_filed_of(hwt_delay *store)
{
    return &store->table.filed;
}
