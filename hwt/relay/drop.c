/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "hwt/relay/shard.h"

#include <errno.h>
#include <string.h>

#include "hwt/relay/log.h"

/*
 * A follower never looks at the messages that it has. It stands by, and drops those that the
 * watermark covers with one record of its log. For that it keeps points: when the store had put so
 * much, which is a mark of its own, it had read the stream up to a place. A message has ended if it
 * was put up to the mark of a point that the watermark's P covers, and is due at T or before.
 *
 * While a store reads again, its marks are behind messages of higher positions, which it had read
 * before. So there are no points until it has read up to there.
 *
 * Any selection of points will do, because the watermark goes on and reaches the next one. When
 * there are too many, every second one goes, so those of the last moments are close together.
 */

void relay_points_add(struct relay_shard *shard, const struct relay_place *place, uint64_t mark)
{
    struct relay_point *points = shard->points;

    if (place->position < shard->top.position)
        return; /* the store has more than that: it reads again */
    if (shard->points_count == RELAY_POINTS_MAX) {
        shard->points_count /= 2;
        for (size_t i = 0; i < shard->points_count; i++)
            points[i] = points[2 * i + 1];
    }
    points[shard->points_count++] = (struct relay_point){ *place, mark };
}

/* The newest one that a watermark covers; NULL: none. */
static const struct relay_point *find_covered(const struct relay_shard *shard,
                                              const struct relay_watermark *watermark)
{
    for (size_t i = shard->points_count; i-- > 0;)
        if (relay_watermark_covers(watermark, &shard->points[i].place, 0))
            return &shard->points[i];
    return NULL;
}

int relay_drop_step(struct relay_shard *shard)
{
    const struct relay_watermark *watermark = &shard->entry.watermark;
    const struct relay_point *point = find_covered(shard, watermark);
    hwt_delay_change drop = { .op = HWT_DELAY_OP_DROP, .due = watermark->due };
    int r;

    if (!point || (shard->dropped_due == drop.due && shard->dropped_mark == point->mark))
        return 0;
    drop.mark = point->mark;
    r = hwt_delay_apply(shard->store, &drop, 1, NULL);
    if (r == 0) {
        shard->dropped_due = drop.due;
        shard->dropped_mark = drop.mark;
    } else if (r == -EIO || r == -EBADMSG) {
        relay_log(shard->number, RELAY_ERROR "the store cannot drop messages: %s", strerror(-r));
        return r;
    }
    return 0; /* what is short now is there later */
}
