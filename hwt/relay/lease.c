/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "hwt/relay/shard.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "hwt/relay/log.h"

/*
 * The lease has no clock in common. The owner counts it from before the write that has renewed it;
 * the others count it from when they have seen that write, which is later. An owner sends in the
 * first three quarters only, so one that is paused between this check and the send has a
 * quarter to spare. One that is paused for longer may send what the next owner sends too; the
 * target's stream knows it by its id.
 *
 * How long a lease is, is the owner's own matter. It is in the owner's place entry, see trim.c, because an entry with more
 * in it ends the relays of 0.3; and there before the owner claims anything, since it compares its clock by it.
 */

static uint64_t safe_lease(const struct relay_shard *shard)
{
    return shard->config->lease / 4 * 3;
}

static void entry_name(const struct relay_shard *shard, char name[RELAY_ENTRY_MAX])
{
    snprintf(name, RELAY_ENTRY_MAX, "shard.%u", shard->number);
}

static uint64_t weight(const struct relay_shard *shard, const char *replica)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325) + shard->number;

    for (const char *c = replica; *c; c++)
        hash = (hash ^ (unsigned char)*c) * UINT64_C(0x100000001b3);
    return (hash ^ hash >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
}

/* The replica that should own the shard, by rendezvous hash, which is the one of the highest
 * weight. */
uint64_t relay_rank(const struct relay_shard *shard, const char *replica)
{
    const struct relay_words *replicas = &shard->config->replicas;
    uint64_t own = weight(shard, replica), before = 0;

    for (size_t i = 0; i < replicas->count; i++)
        before += weight(shard, replicas->word[i]) > own;
    return before;
}

static bool is_own(const struct relay_shard *shard, const struct relay_entry *entry)
{
    return entry->life == shard->life && strcmp(entry->owner, shard->config->replica) == 0;
}

static void set_entry(struct relay_shard *shard, const struct relay_entry *entry, uint64_t revision)
{
    if (shard->revision == revision)
        return;
    shard->entry = *entry;
    shard->revision = revision;
    shard->seen_at = relay_clock(shard);
}

/* What the owner's place entry says of its leases; until that is read they may be as long as any. A process of the same
 * replica that has written it since is the only one that runs, so those of the owner before do no harm. One of 0.3 says
 * nothing, and has those of this replica. */
static void learn_lease(struct relay_shard *shard)
{
    struct relay_member member;
    uint64_t revision;
    int r;

    if (shard->lease_of == shard->entry.life || strcmp(shard->entry.owner, "-") == 0)
        return;
    r = relay_read_member(shard, shard->entry.owner, &member, &revision);
    if (r < 0)
        shard->engine->lease = RELAY_LEASE_MAX;
    else
        shard->engine->lease = member.lease > 0 ? member.lease : shard->config->lease;
    if (r == 0 || r == -EBADMSG)
        shard->lease_of = shard->entry.life;
}

static void set_role(struct relay_shard *shard, enum relay_role role)
{
    static const char *const texts[] = { "follows", "takes the shard, and catches up",
                                         "owns the shard" };

    if (shard->role != role)
        relay_log(shard->number, RELAY_INFO "%s %s", shard->config->replica, texts[role]);
    shard->role = role;
    if (role == RELAY_FOLLOWS && shard->leads)
        shard->over = true;
}

static void begin_to_own(struct relay_shard *shard, uint64_t lease_from)
{
    if (shard->role == RELAY_FOLLOWS)
        shard->inherited = shard->entry.watermark;
    shard->lease_from = lease_from;
    shard->owned_from = relay_clock(shard);
    shard->asked_at = shard->end_at = 0;
    set_role(shard, RELAY_CATCHES_UP);
}

/* The entry is none, or one of a later version that this one cannot read. Nobody takes the shard by it, and whoever had it
 * has it no more. */
static int meet_nonsense(struct relay_shard *shard, const char *name, const char *text,
                         uint64_t revision)
{
    if (shard->unreadable != revision)
        relay_log(shard->number,
                  RELAY_ERROR "the entry %s is none of a relay, or of a later version, so %s does "
                              "not own the shard: %s",
                  name, shard->config->replica, text);
    shard->unreadable = revision;
    set_role(shard, RELAY_FOLLOWS);
    return 0;
}

/* Reads the entry, and says whose the shard is. */
static int look(struct relay_shard *shard)
{
    char name[RELAY_ENTRY_MAX], text[RELAY_ENTRY_MAX];
    struct relay_entry entry;
    uint64_t revision;

    entry_name(shard, name);
    if (shard->engine->calls->read(shard->engine, name, text, &revision) < 0)
        return 0;
    if (relay_entry_read(text, &entry) < 0)
        return meet_nonsense(shard, name, text, revision);
    shard->unreadable = 0;
    if (is_own(shard, &entry) && revision != shard->revision)
        shard->inherited = entry.watermark; /* a write of its own that it did not hear of */
    set_entry(shard, &entry, revision);
    learn_lease(shard);
    if (!is_own(shard, &entry)) {
        if (shard->role != RELAY_FOLLOWS)
            relay_log(shard->number, "%s has taken the shard", entry.owner);
        set_role(shard, RELAY_FOLLOWS);
        shard->asked_at = 0;
    } else if (shard->role == RELAY_FOLLOWS) {
        begin_to_own(shard,
                     shard->asked_at); /* its claim has arrived unanswered, or it is the heir */
        shard->look_at = 0;
    }
    return 0;
}

/* Writes the entry; see struct relay_engine_calls for what is returned. */
static int write_entry(struct relay_shard *shard, const struct relay_entry *entry)
{
    char name[RELAY_ENTRY_MAX], text[RELAY_ENTRY_MAX];
    uint64_t revision;
    int r;

    entry_name(shard, name);
    relay_entry_write(entry, text);
    r = shard->engine->calls->swap(shard->engine, name, shard->revision, text, &revision);
    if (r == 0)
        set_entry(shard, entry, revision);
    return r;
}

static int claim(struct relay_shard *shard)
{
    struct relay_entry entry = shard->entry;
    uint64_t from = relay_clock(shard);
    int r;

    snprintf(entry.owner, sizeof(entry.owner), "%s", shard->config->replica);
    entry.life = shard->life;
    if (shard->asked_at == 0)
        shard->asked_at = from;
    r = write_entry(shard, &entry);
    if (r == 0)
        begin_to_own(shard, from);
    return 0;
}

/* Whether nobody owns the shard, and it is this one's turn. */
static bool is_free(const struct relay_shard *shard)
{
    uint64_t patience = relay_rank(shard, shard->config->replica) * shard->config->lease / 64;

    if (shard->drains || shard->over || !shard->clock_agrees || !shard->knows_stream ||
        !relay_stores(shard) || shard->unreadable > 0)
        return false;
    if (strcmp(shard->entry.owner, "-") != 0)
        patience += shard->engine->lease;
    return relay_clock(shard) - shard->seen_at >= patience;
}

static bool is_anything_sent(const struct relay_shard *shard)
{
    for (size_t i = 0; i < shard->flights_count; i++)
        if (shard->flights[i].state == RELAY_SENT)
            return true;
    return false;
}

/*
 * See watermark.h. A copy of the stream may have lacked some of what is behind the place at which
 * the leader has agreed; but an engine whose sends become visible together with the entry reads one
 * log, and no copy of it. The answers come first, since what was given back has not ended.
 */
static struct relay_watermark make_watermark(struct relay_shard *shard)
{
    const struct relay_place *before = &shard->entry.watermark.place;
    struct relay_watermark mark = shard->taken;
    uint64_t lowest;

    relay_answers_step(shard);
    lowest = relay_flights_lowest(shard);

    if (!shard->engine->together && mark.place.position > shard->agreed.position)
        mark.place = shard->agreed;
    if (mark.place.incarnation == 0 || /* nothing was taken yet, or nothing was agreed on */
        (mark.place.incarnation == before->incarnation && mark.place.position < before->position))
        return shard->entry.watermark;
    mark.due = relay_min(mark.due, lowest > 0 ? lowest - 1 : 0);
    if (shard->engine->together && mark.due < shard->entry.watermark.due &&
        mark.place.incarnation == before->incarnation && !is_anything_sent(shard))
        return shard->entry.watermark; /* it stays true, and covers more that was sent */
    return mark;
}

static int renew(struct relay_shard *shard)
{
    struct relay_entry entry = shard->entry;
    uint64_t from = relay_clock(shard);
    int r;

    if (shard->role == RELAY_OWNS)
        entry.watermark = make_watermark(shard);
    r = write_entry(shard, &entry);
    if (r == 0) {
        shard->lease_from = from;
        shard->look_at = from + relay_interval(shard);
        return 0;
    }
    /* An earlier write of this process may have arrived late. Then the lease counts from before
     * it. */
    shard->look_at = from + shard->config->lease / 32;
    return r == -EAGAIN ? look(shard) : 0;
}

/* Up to what the stream has since the shard is its own. */
static int catch_up(struct relay_shard *shard)
{
    int r = 0;

    if (shard->end_at == 0 || shard->at.position >= shard->end)
        r = relay_agree(shard);
    if (r < 0 || shard->role != RELAY_CATCHES_UP || !shard->knows_stream ||
        shard->read_at <= shard->owned_from)
        return r;
    r = shard->leads ? 0 : relay_drop_step(shard);
    if (r == 0)
        r = hwt_delay_lead(shard->store);
    if (relay_is_for_now(r)) {
        relay_is_short(shard, r);
        return 0;
    }
    if (r < 0)
        return r;
    shard->leads = true;
    shard->owns_since = relay_clock(shard);
    set_role(shard, RELAY_OWNS);
    return 0;
}

int relay_lease_release(struct relay_shard *shard)
{
    struct relay_entry entry = shard->entry;
    int r;

    if (shard->role == RELAY_FOLLOWS)
        return 0;
    if (shard->role == RELAY_OWNS)
        entry.watermark = make_watermark(shard);
    snprintf(entry.owner, sizeof(entry.owner), "%s", shard->heir ? shard->heir : "-");
    entry.life = shard->heir_life;
    r = write_entry(shard, &entry);
    if (r == 0)
        set_role(shard, RELAY_FOLLOWS);
    return r;
}

void relay_lease_resign(struct relay_shard *shard, const char *why)
{
    if (shard->role == RELAY_FOLLOWS)
        return;
    relay_log(shard->number, "%s gives the shard back: %s", shard->config->replica, why);
    relay_lease_release(shard);
    set_role(shard, RELAY_FOLLOWS);
}

/* What was taken goes out first, so that nothing holds the watermark below what was sent: whoever has the shard next
 * would send that again. A shard that could not be given back is taken by another one when the lease is over. */
static void drain(struct relay_shard *shard, uint64_t now)
{
    bool late = now - shard->drains_since >= shard->config->lease;

    if (now - shard->drains_since >= shard->config->lease / 2)
        relay_flights_give_up(shard);
    if (shard->role == RELAY_OWNS && shard->flights_count > 0 && !late)
        return;
    (void)relay_agree(shard); /* it is given away whatever the stream has */
    shard->over = relay_lease_release(shard) == 0 || late;
}

/* An owner that reads nothing, though there is something, gives others their turn. */
static void look_at_progress(struct relay_shard *shard)
{
    uint64_t from = shard->read_at > shard->moved_at ? shard->read_at : shard->moved_at;

    if (from < shard->owned_from)
        from = shard->owned_from;
    if (relay_clock(shard) - from >= 2 * shard->config->lease)
        relay_lease_resign(shard, "it has not read the stream for two leases");
}

static int look_or_renew(struct relay_shard *shard)
{
    int r = shard->role == RELAY_OWNS ? relay_agree(shard) : 0;

    if (r == 0)
        r = shard->role == RELAY_FOLLOWS ? look(shard) : renew(shard);
    if (r < 0 || shard->role != RELAY_FOLLOWS || !is_free(shard))
        return r;
    if (!relay_is_near(shard))
        r = relay_agree(shard);
    return r == 0 && relay_is_near(shard) && is_free(shard) ? claim(shard) : r;
}

int relay_lease_step(struct relay_shard *shard)
{
    uint64_t now = relay_clock(shard);
    int r = 0;

    if (shard->drains) {
        drain(shard, now);
        if (shard->over)
            return 0;
    }
    if (now >= shard->look_at) {
        shard->look_at = now + relay_interval(shard);
        r = look_or_renew(shard);
    }
    if (r == 0 && shard->role == RELAY_CATCHES_UP)
        r = catch_up(shard);
    if (r == 0 && shard->role != RELAY_FOLLOWS)
        look_at_progress(shard);
    return r;
}

int relay_lease_commit(struct relay_shard *shard)
{
    bool due = shard->engine->together && shard->role != RELAY_FOLLOWS && is_anything_sent(shard);

    return due ? renew(shard) : 0;
}

bool relay_lease_holds(struct relay_shard *shard)
{
    return shard->role == RELAY_OWNS &&
           relay_clock(shard) - shard->lease_from < safe_lease(shard) && relay_is_near(shard);
}
