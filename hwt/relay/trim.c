/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "hwt/relay/shard.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "hwt/relay/log.h"
#include "hwt/relay/policy.h"

/*
 * Each replica says in an entry of its own, once a lease, how far it has read durably, and that it
 * lives; and how long its leases are, before it owns anything. From these the owner learns two things.
 *
 * A message may be deleted from the stream when every replica of the configuration has it in its
 * store, that is below the lowest place. A place counts only if the stream has that time there
 * still, since otherwise the replica has read something else. A replica that is away holds that up,
 * unless it is forgotten. One that has read nothing yet, or another incarnation, does so too.
 *
 * And a shard goes back to the replica that should own it, when that one lives, and has read as far
 * as the owner had a lease before.
 *
 * When its own entry was written, by the broker's clock, tells a replica whether its clock is
 * right.
 */

/* An owner stays for so many leases at least, whoever comes back. */
enum { STAYS = 10 };

static void member_name(const struct relay_shard *shard, const char *replica,
                        char name[RELAY_ENTRY_MAX])
{
    snprintf(name, RELAY_ENTRY_MAX, "place.%s.%u", replica, shard->number);
}

int relay_read_member(struct relay_shard *shard, const char *replica,
                      struct relay_member *ret_member, uint64_t *ret_revision)
{
    char name[RELAY_ENTRY_MAX], text[RELAY_ENTRY_MAX];
    int r;

    member_name(shard, replica, name);
    r = shard->engine->calls->read(shard->engine, name, text, ret_revision);
    return r < 0 ? r : relay_member_read(text, ret_member);
}

/* The broker's clock has shown `written` at an instant between `from` and `to` by this one's. */
static void compare_clocks(struct relay_shard *shard, uint64_t from, uint64_t written, uint64_t to)
{
    const uint64_t bound = shard->config->clock_bound;
    bool ahead = from > written && from - written > bound;
    bool behind = written > to && written - to > bound;

    relay_count_set(&shard->counts.clock_ahead, from > written ? from - written
                                                : written > to ? to - written
                                                               : 0);
    if (!ahead && !behind) {
        if (!shard->clock_agrees)
            hwt_delay_accept_clock(shard->store); /* it may have leapt to where it should be */
        if (shard->clock_said)
            relay_log(shard->number, RELAY_NOTICE "the clock of %s is the broker's again",
                      shard->config->replica);
        shard->clock_agrees = true;
        shard->clock_said = false;
        return;
    }
    if (!shard->clock_said)
        relay_log(shard->number, "the clock of %s is %" PRIu64 " ms %s the broker's",
                  shard->config->replica, (ahead ? from - written : written - to) / 1000000,
                  ahead ? "ahead of" : "behind");
    shard->clock_agrees = false;
    shard->clock_said = true;
    relay_lease_resign(shard, "the clocks disagree");
}

/* Its own entry as it is at the broker. If another process has written it since this one did, that one has the same name. */
static int read_own(struct relay_shard *shard, struct relay_member *ret_before,
                    uint64_t *ret_revision)
{
    const uint64_t now = relay_clock(shard);
    int r = relay_read_member(shard, shard->config->replica, ret_before, ret_revision);
    bool twin = r == 0 && shard->reported_as > 0 && *ret_revision != shard->reported_as &&
                ret_before->life != shard->life && ret_before->life != 0;

    if (twin && (shard->twin_said_at == 0 || now - shard->twin_said_at >= HWT_SEC(60))) {
        shard->twin_said_at = now;
        relay_log(shard->number,
                  RELAY_ERROR "another relay runs as %s: each of replicas has a name of its own",
                  shard->config->replica);
    }
    return r == -EBADMSG ? 0 : r; /* nobody else writes there, so it is written anew */
}

static void report(struct relay_shard *shard)
{
    const struct relay_engine_calls *calls = shard->engine->calls;
    struct relay_member before = { .ready = false },
                        member = { .place = shard->at,
                                   .life = shard->life,
                                   .ready =
                                       shard->clock_agrees && !shard->drains && relay_stores(shard),
                                   .policy = relay_policy_hash(shard->config),
                                   .lease = shard->config->lease };
    char name[RELAY_ENTRY_MAX], text[RELAY_ENTRY_MAX];
    uint64_t revision, written, from;

    snprintf(member.why, sizeof(member.why), "%s", relay_whys[relay_shard_unready(shard)].word);
    snprintf(member.server, sizeof(member.server), "%.63s", shard->engine->server);
    if (member.place.incarnation == 0 || read_own(shard, &before, &revision) < 0)
        return;
    /* It stays forgotten until it knows that it can read on. */
    if (relay_place_is_forgotten(&before.place) && !shard->knows_stream)
        return;
    member_name(shard, shard->config->replica, name);
    relay_member_write(&member, text);
    from = hwt_delay_now(shard->store);
    if (calls->swap(shard->engine, name, revision, text, &revision) < 0)
        return;
    shard->reported = member.place;
    shard->reported_as = revision;
    if (calls->written(shard->engine, name, revision, &written) == 0)
        compare_clocks(shard, from, written, hwt_delay_now(shard->store));
}

/* A replica that judges messages otherwise than this one, see policy.h, is logged when that begins
 * and when it ends. */
static void compare_policy(struct relay_shard *shard, size_t i, uint64_t policy)
{
    atomic_uint_least64_t *count = &shard->counts.policies;
    bool differs = policy > 0 && policy != relay_policy_hash(shard->config);

    if (differs == shard->differs[i])
        return;
    shard->differs[i] = differs;
    relay_count_set(count, relay_count_get(count) + (differs ? 1 : UINT64_MAX));
    relay_log(shard->number, "targets, message_max, attempts or version of %s are %s those of %s",
              shard->config->replicas.word[i], differs ? "not" : "again", shard->config->replica);
}

/*
 * A purge may be done late, by a server that leads since. If its copy lacks the newest messages, it
 * has given their positions to others, which nobody has read. So messages stay for a while after
 * all have them, because only those are deleted that were common at the trim before.
 */
static void trim(struct relay_shard *shard)
{
    const struct relay_words *replicas = &shard->config->replicas;
    const struct relay_place before = shard->common;
    struct relay_place lowest = shard->at;
    struct relay_extent extent;
    uint64_t revision, waits = 0;

    if (relay_extent(shard, &extent) < 0)
        return;
    for (size_t i = 0; i < replicas->count; i++) {
        struct relay_member member;
        if (relay_read_member(shard, replicas->word[i], &member, &revision) < 0)
            return;
        compare_policy(shard, i, member.policy);
        if (relay_place_is_forgotten(&member.place))
            continue;
        if (relay_agrees(shard, &extent, &member.place) != 1) {
            relay_count_set(&shard->counts.trim_waits, i + 1);
            return;
        }
        if (member.place.position < lowest.position) {
            lowest = member.place;
            waits = i + 1;
        }
    }
    relay_count_set(&shard->counts.trim_waits, waits);
    shard->common = lowest;
    if (before.position > 0 && before.position >= extent.first &&
        before.position <= lowest.position && relay_agrees(shard, &extent, &before) == 1)
        shard->engine->calls->purge(shard->engine, extent.incarnation, before.position + 1);
}

/* Looks whether a better owner lives, which has written its entry since the last look. */
static void look_for_heir(struct relay_shard *shard)
{
    const struct relay_words *replicas = &shard->config->replicas;
    const uint64_t own = relay_rank(shard, shard->config->replica);

    for (size_t i = 0; i < replicas->count; i++) {
        struct relay_member member;
        uint64_t revision, before = shard->revisions[i];
        if (relay_rank(shard, replicas->word[i]) >= own ||
            relay_read_member(shard, replicas->word[i], &member, &revision) < 0)
            continue;
        shard->revisions[i] = revision;
        if (before == 0 || before == revision || !member.ready ||
            member.place.incarnation != shard->at.incarnation ||
            member.place.position < shard->reported.position)
            continue;
        relay_log(shard->number, RELAY_INFO "%s gives the shard back to %s", shard->config->replica,
                  replicas->word[i]);
        shard->heir = replicas->word[i];
        shard->heir_life = member.life;
        relay_shard_drain(shard);
        return;
    }
}

int relay_trim_step(struct relay_shard *shard)
{
    const uint64_t now = relay_clock(shard), lease = shard->config->lease;

    if (now >= shard->report_at) {
        shard->report_at = now + lease;
        if (shard->role == RELAY_OWNS && !shard->drains && now - shard->owns_since >= STAYS * lease)
            look_for_heir(shard);
        report(shard);
    }
    if (now >= shard->trim_at && shard->role == RELAY_OWNS) {
        shard->trim_at = now + lease * 4;
        trim(shard);
    }
    return 0;
}
