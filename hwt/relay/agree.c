/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "hwt/relay/shard.h"

#include <errno.h>
#include <inttypes.h>

#include "hwt/relay/log.h"

/*
 * Whether the stream is still the one that the store has read. It is another one if it was deleted
 * and made anew, which its incarnation tells if a relay has made it; or if the broker has lost
 * messages that it had acknowledged, and has given their positions to others. Then the message at
 * the store's place has another time. So the stream's leader is asked for that time whenever the
 * engine begins to read behind that place, which it does after each failure of the broker, before
 * each watermark, and four times a lease.
 *
 * In the second case the store reads again all that the stream has. It trusts no older place that
 * agrees, because copies of a stream may differ before messages that all of them have. To put a
 * message once more changes nothing, as it is identified by its time and sum, or by its key. Those
 * that the broker has lost stay in the store. The same is done if the leader's copy has lost
 * nothing, and the one that was read has.
 *
 * The same questions say how near the store is to the stream's end. Who has not read must not send: an owner sends,
 * and another replica takes the shard, only if all up to the end of some question within the last lease is in its
 * store, and has been compared. So a cancel that is acknowledged a lease before the send holds, whoever sends.
 */

/* A position before the stream's first message cannot be compared, because all replicas have said
 * to have it. -ENOENT: nor can one that was deleted alone. */
int relay_agrees(struct relay_shard *shard, const struct relay_extent *extent,
                 const struct relay_place *place)
{
    uint64_t position, timestamp;
    int r;

    if (place->incarnation != extent->incarnation)
        return 0;
    if (place->position == 0 || place->position < extent->first)
        return 1;
    if (place->position > extent->last || place->timestamp == 0)
        return 0;
    r = shard->engine->calls->find(shard->engine, place->position, &position, &timestamp);
    if (r < 0)
        return r;
    return position != place->position ? -ENOENT : timestamp == place->timestamp;
}

/* Before the first message of the stream, whose timestamp is not known. */
static struct relay_place place_before(const struct relay_extent *extent)
{
    return (struct relay_place){ .incarnation = extent->incarnation,
                                 .position = extent->first > 0 ? extent->first - 1 : 0 };
}

/* The place does not agree, so it is not before the stream's first message, and all that is before
 * that is in the store. */
static int go_back(struct relay_shard *shard, const struct relay_extent *extent)
{
    const struct relay_place place = place_before(extent);

    relay_log(shard->number,
              "the stream's leader does not have what was read: the store has read up to %" PRIu64
              ", and reads again what is behind %" PRIu64,
              shard->at.position, place.position);
    relay_count_add(&shard->counts.divergences, 1);
    shard->knows_stream = false;
    shard->points_count = 0;
    shard->agreed = shard->taken.place = (struct relay_place){ 0 };
    shard->report_at = shard->read_at = shard->end_at = 0;
    relay_lease_resign(shard, "its stream was not the leader's");
    return relay_ingest_place(shard, &place, &shard->top);
}

/* Compares the newest place whose message is not deleted, and goes back if it does not agree.
 * -EAGAIN: the leader does not answer now; else it is the store's error. */
static int compare(struct relay_shard *shard, const struct relay_extent *extent)
{
    const struct relay_place *place = &shard->at;
    int r = relay_agrees(shard, extent, place);

    for (size_t i = shard->points_count; r == -ENOENT && i-- > 0;) {
        place = &shard->points[i].place;
        r = relay_agrees(shard, extent, place);
    }
    if (r == 0)
        return go_back(shard, extent);
    if (r == 1 && (place->incarnation != shard->agreed.incarnation ||
                   place->position > shard->agreed.position))
        shard->agreed = *place;
    return r == 1 || r == -ENOENT ? 0 : -EAGAIN;
}

static int begin_anew(struct relay_shard *shard, const struct relay_extent *extent)
{
    const struct relay_place place = { .incarnation = extent->incarnation };

    shard->knows_stream = false;
    shard->read_at = shard->end_at = 0;
    if (shard->at.incarnation != 0) {
        relay_log(shard->number, "the stream was made anew, and is read from its beginning");
        relay_count_add(&shard->counts.divergences, 1);
        relay_lease_resign(shard, "its stream is gone");
    }
    return relay_ingest_place(shard, &place, &place);
}

/* Whether the stream is the one that was read, but for the number by which it is known: 1, 0, or a
 * negative errno. */
static int is_renamed(struct relay_shard *shard, const struct relay_extent *extent)
{
    const struct relay_extent renamed = { shard->at.incarnation, extent->first, extent->last };
    int r;

    if (shard->at.position == 0 || shard->at.position < extent->first)
        return 0;
    r = relay_agrees(shard, &renamed, &shard->at);
    return r == -ENOENT ? 0 : r;
}

/* It is known by another number than before. If somebody has edited its description only, it goes by the number of before. -EAGAIN:
 * that is not known now. */
static int meet_another(struct relay_shard *shard, struct relay_extent *extent)
{
    int r = is_renamed(shard, extent);

    if (r <= 0) {
        shard->knows_stream = false;
        shard->renamed = 0;
        return r == 0 ? begin_anew(shard, extent) : -EAGAIN;
    }
    if (shard->renamed != extent->incarnation)
        relay_log(shard->number,
                  "the stream's description was changed: set it to \"hwt-relay incarnation=%" PRIu64
                  "\" again; until then nothing is deleted that all have read",
                  shard->at.incarnation);
    shard->renamed = extent->incarnation;
    extent->incarnation = shard->at.incarnation;
    return compare(shard, extent);
}

int relay_extent(struct relay_shard *shard, struct relay_extent *ret_extent)
{
    int r = shard->engine->calls->extent(shard->engine, ret_extent);

    if (r == 0 && ret_extent->incarnation == shard->renamed)
        ret_extent->incarnation = shard->at.incarnation;
    return r;
}

/*
 * Whether a replica, this one or another, says that it has all that the stream has no more: 1, 0,
 * or a negative errno. Nobody deletes anything that no replica has. A replica whose place does not
 * agree with the stream just now may have it, because it will go back to where it agrees, or is
 * forgotten.
 */
static int has_anybody(struct relay_shard *shard, const struct relay_extent *extent)
{
    const struct relay_words *replicas = &shard->config->replicas;
    int r = 0;

    for (size_t i = 0; i < replicas->count && r == 0; i++) {
        struct relay_member member;
        uint64_t revision;
        r = relay_read_member(shard, replicas->word[i], &member, &revision);
        if (r < 0 || member.place.incarnation != extent->incarnation ||
            member.place.position + 1 < extent->first)
            continue;
        r = relay_agrees(shard, extent, &member.place);
        if (r == 0)
            relay_log(shard->number,
                      "the stream begins at %" PRIu64 ", and %s, which may have what is before it, "
                      "has not compared its place",
                      extent->first, replicas->word[i]);
        r = r == 0 ? -EAGAIN : r;
    }
    return r;
}

/* Whether the store has read up to a place of this stream that has all before it which is deleted:
 * 1, 0, or a negative errno. */
static int has_read(struct relay_shard *shard, const struct relay_extent *extent,
                    const struct relay_place *place)
{
    int r = place->position + 1 < extent->first ? 0 : relay_agrees(shard, extent, place);

    return r == -ENOENT ? 0 : r;
}

/* The messages that all have said to have are deleted, also while one of them has gone back. So it
 * goes on behind that, if it had read so far before. */
static int skip_deleted(struct relay_shard *shard, const struct relay_extent *extent)
{
    struct relay_member own;
    uint64_t revision;
    int r = has_read(shard, extent, &shard->top);

    if (r == 0) {
        r = relay_read_member(shard, shard->config->replica, &own, &revision);
        if (r == 0 && own.place.position <= shard->top.position)
            r = has_read(shard, extent, &own.place);
    }
    if (r == 1)
        shard->at = place_before(extent);
    return r < 0 ? r : 0;
}

/* The stream begins behind the place. */
static int find_missing(struct relay_shard *shard, const struct relay_extent *extent)
{
    int r = skip_deleted(shard, extent);

    if (r < 0 || extent->first <= shard->at.position + 1)
        return r;
    r = has_anybody(shard, extent);
    if (r < 0)
        return r;
    relay_log(shard->number,
              RELAY_ERROR "the stream begins at %" PRIu64 ", but the store has read up to %" PRIu64
                          " only: %s",
              extent->first, shard->at.position,
              r == 1 ? "copy the store of another replica; see hwt-relay(1)"
                     : "the broker has lost what is between them, and nobody has it");
    if (r == 1)
        return -ENODATA;
    relay_count_add(&shard->counts.divergences, 1);
    shard->at = place_before(extent);
    return 0;
}

/* The last messages of the stream may have been deleted one by one, so there is nothing to read up to its end. */
static bool has_reached_end(struct relay_shard *shard)
{
    uint64_t position, timestamp;

    return shard->at.position >= shard->end ||
           shard->engine->calls->find(shard->engine, shard->at.position + 1, &position,
                                      &timestamp) == -ENOENT;
}

/* The place was compared. An end that is not reached stays, unless the stream has become shorter. */
static void note_end(struct relay_shard *shard, uint64_t asked, uint64_t end)
{
    if (shard->end_at > 0 && shard->end <= end) {
        if (!has_reached_end(shard))
            return;
        shard->read_at = shard->end_at;
    }
    shard->end_at = asked;
    shard->end = end;
    if (shard->at.position >= end)
        shard->read_at = asked;
}

bool relay_is_near(const struct relay_shard *shard)
{
    return shard->read_at > 0 && relay_clock(shard) - shard->read_at < shard->config->lease;
}

int relay_agree(struct relay_shard *shard)
{
    const uint64_t asked = relay_clock(shard), quarter = shard->config->lease / 4;
    struct relay_extent extent;
    int r = 0;

    shard->compare_at = asked + (quarter < HWT_MS(500) ? HWT_MS(500) : quarter);
    if (shard->engine->calls->extent(shard->engine, &extent) < 0)
        return 0;
    relay_count_set(&shard->counts.last, extent.last);
    if (shard->at.incarnation == extent.incarnation) {
        shard->renamed = 0;
        r = compare(shard, &extent);
    } else {
        r = meet_another(shard, &extent);
    }
    if (r < 0)
        return r == -EAGAIN || relay_is_for_now(r) ? 0 : r;
    r = extent.first > shard->at.position + 1 ? find_missing(shard, &extent) : 0;
    shard->knows_stream = r == 0;
    if (r == 0)
        note_end(shard, asked, extent.last);
    return r == -ENODATA ? r : 0;
}

int relay_agree_step(struct relay_shard *shard)
{
    return relay_clock(shard) >= shard->compare_at ? relay_agree(shard) : 0;
}
