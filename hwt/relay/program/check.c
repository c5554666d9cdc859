/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "hwt/relay/program/look.h"
#include "hwt/relay/open.h"
#include "hwt/relay/program/program.h"

/*
 * Whether one store lacks a message that another has, while both relays run. Let `here` be opened
 * after `there`, with a position that is not behind that of `there`. Let `here` have a message M
 * that `there` has read over, which means that M's position is not behind the position of `there`. A
 * replica that has read M loses it in two ways only: M has ended, which is not before its due time;
 * or M was cancelled or replaced by a message in the stream, at a position that `there` has read, and
 * so `here` has read it too and would not have M. So if M is due later, and `there` does not have
 * it, then `there` has lost it. No time passes in this but the due time's, for which the clocks of
 * machines may differ by DUE_SOON.
 */
#define DUE_SOON HWT_SEC(60)

enum { PRINTS_MAX = 1 << 20, LINES_MAX = 20 };

/* A message, as far as it is compared. */
struct print {
    uint64_t identity; /* of due time, id and content */
    uint64_t due, position;
};

struct prints {
    struct print *all;
    size_t count, room;
    uint64_t incarnation; /* only what is of this stream */
    uint64_t rest;        /* due times from here on had no room */
};

/* Prints what is wrong. Returns 1, to be counted. */
__attribute__((format(printf, 1, 2))) static int find(const char *format, ...)
{
    va_list arguments;

    fputs("    ", stdout);
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    putchar('\n');
    return 1;
}

static uint64_t hash(uint64_t before, const void *bytes, size_t size)
{
    const unsigned char *at = bytes;

    for (size_t i = 0; i < size; i++)
        before = (before ^ at[i]) * UINT64_C(0x100000001b3);
    return before;
}

/* All of one due time, also if there are more than PRINTS_MAX. */
static int add_print(const hwt_delay_message *message, void *data)
{
    struct prints *prints = data;
    struct relay_record record;
    struct print *print;

    if (relay_record_read(message->payload, message->payload_size, &record) < 0)
        return -EBADMSG;
    if (record.place.incarnation != prints->incarnation)
        return 0;
    if (prints->count >= PRINTS_MAX && prints->all[prints->count - 1].due != message->due) {
        prints->rest = message->due;
        return 1;
    }
    if (prints->count == prints->room) {
        prints->room = prints->room > 0 ? 2 * prints->room : 1024;
        print = realloc(prints->all, prints->room * sizeof(*print));
        if (!print)
            return -ENOMEM;
        prints->all = print;
    }
    print = &prints->all[prints->count++];
    *print = (struct print){ .due = message->due, .position = record.place.position };
    print->identity = hash(UINT64_C(0xcbf29ce484222325), &message->due, sizeof(message->due));
    print->identity = hash(print->identity, message->id, message->id_size);
    print->identity = hash(print->identity, &record.crc, sizeof(record.crc));
    return 0;
}

static int collect(const struct look *look, uint64_t from, uint64_t to, struct prints *prints)
{
    int r;

    prints->count = 0;
    prints->rest = to;
    r = hwt_delay_visit(look->store, from, to, add_print, prints);
    return r < 0 ? r : 0;
}

static int compare_prints(const void *a, const void *b)
{
    const struct print *left = a, *right = b;

    return (left->identity > right->identity) - (left->identity < right->identity);
}

/* Up to the due time `to`. Returns how many are missing `there` in all. */
static uint64_t print_missing(const struct look *here, const struct look *there,
                              const struct prints *has, const struct prints *lacks, uint64_t to,
                              uint64_t before)
{
    char due[RELAY_DUE_ROOM];

    qsort(lacks->all, lacks->count, sizeof(*lacks->all), compare_prints);
    for (size_t i = 0; i < has->count; i++) {
        const struct print *print = &has->all[i];
        if (print->due >= to || print->position > there->place.position ||
            (lacks->count > 0 &&
             bsearch(print, lacks->all, lacks->count, sizeof(*lacks->all), compare_prints)))
            continue;
        relay_due_write(print->due, due);
        if (before++ < LINES_MAX)
            find("%s has position %" PRIu64 ", due %s, and %s lacks it", here->state,
                 print->position, due, there->state);
    }
    return before;
}

/* How many messages `there` lacks, which are printed. */
static int64_t find_missing(const struct look *here, const struct look *there, uint64_t from)
{
    struct prints has = { .incarnation = here->place.incarnation }, lacks = has;
    uint64_t missing = 0;
    int r = 0;

    while (r == 0 && from < HWT_NEVER) {
        r = collect(here, from, HWT_NEVER, &has);
        if (r == 0)
            r = collect(there, from, has.rest, &lacks);
        if (r == 0)
            missing = print_missing(here, there, &has, &lacks, lacks.rest, missing);
        from = lacks.rest;
    }
    free(has.all);
    free(lacks.all);
    if (missing > LINES_MAX)
        find("and so on: %" PRIu64 " messages in all", missing);
    return r < 0 ? r : (int64_t)missing;
}

/* `here`, when it has read as far as `there`. It may never do so. */
static int open_behind(const struct relay_config *config, const char *state, unsigned shard,
                       const struct look *there, struct look *ret_here)
{
    const struct timespec while_it_reads = { .tv_nsec = 200000000 };
    int r = look_open_store(config, state, shard, ret_here);

    for (int i = 1; r == 0 && i < LOOKS_MAX && ret_here->place.position < there->place.position;
         i++) {
        hwt_delay_close(ret_here->store);
        nanosleep(&while_it_reads, NULL);
        r = look_open_store(config, state, shard, ret_here);
    }
    return r;
}

static int64_t compare_opened(const struct look *here, const struct look *there)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    if (here->place.incarnation != there->place.incarnation)
        return find("%s and %s have read different streams: one was deleted and made anew",
                    here->state, there->state);
    if (here->place.position < there->place.position)
        return find("%s has read up to %" PRIu64 " only, and %s up to %" PRIu64
                    ", so what is missing there cannot be told; check again when it has read on",
                    here->state, here->place.position, there->state, there->place.position);
    return find_missing(here, there, HWT_SEC((uint64_t)now.tv_sec) + DUE_SOON);
}

/* How much `there` lacks of what is here, or what keeps it from being told. */
static int64_t compare(const struct relay_config *config, unsigned shard, const char *here_state,
                       const char *there_state)
{
    struct look here, there;
    int64_t found = -ESTALE;

    for (int i = 0; i < LOOKS_MAX && found == -ESTALE; i++) {
        found = look_open_store(config, there_state, shard, &there);
        if (found < 0)
            return find("%s: %s", there_state, look_explain((int)found));
        found = open_behind(config, here_state, shard, &there, &here);
        if (found == 0) {
            found = compare_opened(&here, &there);
            hwt_delay_close(here.store);
        }
        hwt_delay_close(there.store);
    }
    return found >= 0 ? found : find("%s: %s", here_state, look_explain((int)found));
}

/* ---- At the broker, and here ---- */

/* 1 if there is something wrong with the replica. */
static int print_replica(const struct relay_extent *extent, const char *replica,
                         const struct relay_place *place)
{
    if (relay_place_is_forgotten(place)) {
        printf("    %s: is forgotten\n", replica);
        return 0;
    }
    if (place->incarnation == 0)
        return find("%s: has read nothing yet, so nothing is deleted; start it, or forget it",
                    replica);
    if (place->incarnation != extent->incarnation)
        return find(
            "%s: has read another stream, or the description of this one was changed; see its log",
            replica);
    if (place->position > extent->last)
        return find("%s: has read up to %" PRIu64 ": the servers have lost messages", replica,
                    place->position);
    if (place->position + 1 < extent->first)
        return find("%s: has read up to %" PRIu64 " only: give it the store of another replica",
                    replica, place->position);
    printf("    %s: has read up to %" PRIu64 ", %" PRIu64 " behind\n", replica, place->position,
           extent->last - place->position);
    return 0;
}

static int count_one(const hwt_delay_message *message, void *count)
{
    (void)message;
    ++*(uint64_t *)count;
    return 0;
}

/* The store's own number of what is pending counts some twice which the relay has read twice, and for a while what it
 * has dropped. */
static int count_pending(const struct look *look, hwt_delay_stats *ret_stats)
{
    int r = hwt_delay_get_stats(look->store, ret_stats);

    ret_stats->pending = 0;
    return r < 0 ? r : hwt_delay_visit(look->store, 0, HWT_NEVER, count_one, &ret_stats->pending);
}

static int print_state(const struct relay_config *config, const char *state, unsigned shard)
{
    hwt_delay_stats stats = HWT_DELAY_STATS_INIT;
    struct look look;
    int r = -ESTALE;

    for (int i = 0; i < LOOKS_MAX && r == -ESTALE; i++) {
        r = look_open_store(config, state, shard, &look);
        if (r < 0)
            break;
        r = count_pending(&look, &stats);
        hwt_delay_close(look.store);
    }
    if (r < 0)
        return find("%s: %s", state, look_explain(r));
    printf("    %s: %" PRIu64 " pending, read up to %" PRIu64 "\n", state, stats.pending,
           look.place.position);
    return stats.gaps == 0 ? 0 : find("%s: is damaged; see hwt-delay check", state);
}

/* How much was found, or what asking has failed with. */
static int64_t check_entries(const struct request *request, unsigned shard)
{
    const struct relay_words *replicas = &request->config->replicas;
    struct relay_engine *engine = look_open_engine(request, shard);
    struct relay_extent extent;
    char fault[RELAY_ENTRY_MAX];
    int64_t found = 0;
    int r = engine->calls->extent(engine, &extent);

    relay_engine_shards_fault(request->config, engine, fault);
    if (shard == 0 && *fault)
        found += find("%s", fault);

    if (r == 0 && extent.first > extent.last)
        printf("shard %u: the stream has nothing left, and had up to %" PRIu64 "\n", shard,
               extent.last);
    else if (r == 0)
        printf("shard %u: the stream has %" PRIu64 " to %" PRIu64 "\n", shard, extent.first,
               extent.last);
    if (*engine->fault)
        found += find("messages may be lost: %s", engine->fault);
    for (size_t i = 0; r == 0 && i < replicas->count; i++) {
        struct relay_member member;
        uint64_t revision;
        r = look_read_member(engine, shard, replicas->word[i], &member, &revision);
        if (r == 0)
            found += print_replica(&extent, replicas->word[i], &member.place);
    }
    engine->calls->close(engine);
    return r < 0 ? r : found;
}

static const char *state_of(const struct request *request, int i)
{
    return i == 0 ? request->config->state : request->operands[i - 1];
}

/* How much is wrong with the states, each by itself, or else beside each other. */
static int64_t check_states(const struct request *request, unsigned shard)
{
    const struct relay_config *config = request->config;
    const int count = request->operands_count + 1;
    int64_t found = 0;

    for (int i = 0; i < count; i++)
        found += print_state(config, state_of(request, i), shard);
    if (found > 0 || count == 1)
        return found;
    for (int i = 0; i < count; i++)
        for (int n = 0; n < count; n++)
            if (i != n)
                found += compare(config, shard, state_of(request, i), state_of(request, n));
    if (found == 0)
        printf("    each of them has what the others have\n");
    return found;
}

static int64_t check_shard(const struct request *request, unsigned shard)
{
    int64_t found = check_entries(request, shard);

    return found < 0 ? found : found + check_states(request, shard);
}

int command_check(const struct request *request)
{
    int64_t found = 0, all = 0;

    for (unsigned i = 0; found >= 0 && i < request->config->shards; i++) {
        found = check_shard(request, i);
        all += found;
    }
    if (found < 0)
        return fail("%s", strerror((int)-found));
    if (fflush(stdout) < 0)
        return fail("writing the output failed");
    return all == 0 ? 0 : fail("something is wrong in %" PRId64 " cases; see above", all);
}
