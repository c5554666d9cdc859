/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "tests/delay/support/oracle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check_main.h"

size_t id_bytes(unsigned id, unsigned char bytes[HWT_DELAY_ID_MAX])
{
    static const unsigned char sizes[] = { 1, 2, 3, 8, 17, 40, 254, 255 };
    size_t size = sizes[id % sizeof(sizes)];
    memset(bytes, (int)(id / sizeof(sizes)), size); /* zero bytes are fine too */
    bytes[size - 1] = (unsigned char)id;
    return size;
}

void payload_bytes(uint64_t value, uint32_t size, unsigned char *bytes)
{
    for (uint32_t i = 0; i < size; i += 8) {
        uint64_t word = test_random(&value);
        memcpy(bytes + i, &word, size - i < 8 ? size - i : 8);
    }
}

static bool is_id(const hwt_delay_message *message, unsigned id)
{
    unsigned char bytes[HWT_DELAY_ID_MAX];
    return message->id_size == id_bytes(id, bytes) &&
           memcmp(message->id, bytes, message->id_size) == 0;
}

bool message_is(const hwt_delay_message *message, const struct message *expected)
{
    unsigned char bytes[ORACLE_PAYLOAD_MAX];
    if (message->due != expected->due || message->payload_size != expected->size ||
        message->retries != expected->retries || message->first_due != expected->first ||
        !is_id(message, expected->id))
        return false;
    payload_bytes(expected->value, expected->size, bytes);
    return expected->size == 0 || memcmp(message->payload, bytes, expected->size) == 0;
}

static void oracle_reserve(struct oracle *oracle, size_t count)
{
    if (count <= oracle->room)
        return;
    oracle->room = 2 * count;
    oracle->list = realloc(oracle->list, oracle->room * sizeof(*oracle->list));
    if (!oracle->list)
        abort();
}

static void copy_note(struct oracle *to, const struct oracle *from)
{
    to->note = from->note;
    to->note_size = from->note_size;
    to->mark = from->mark;
}

void oracle_copy(struct oracle *to, const struct oracle *from)
{
    oracle_reserve(to, from->count);
    if (from->count > 0)
        memcpy(to->list, from->list, from->count * sizeof(*from->list));
    to->count = from->count;
    to->next_order = from->next_order;
    to->doubt = from->doubt;
    copy_note(to, from);
}

uint64_t oracle_pending(const struct oracle *oracle)
{
    uint64_t pending = 0;
    for (size_t i = 0; i < oracle->count; i++)
        pending += !oracle->list[i].superseded;
    return pending;
}

bool oracle_may_be(const struct oracle *oracle, uint64_t pending, uint64_t found)
{
    return (found > pending ? found - pending : pending - found) <= oracle->doubt;
}

void oracle_free(struct oracle *oracle)
{
    free(oracle->list);
    memset(oracle, 0, sizeof(*oracle));
}

struct message *oracle_find(struct oracle *oracle, uint64_t due, unsigned id)
{
    for (size_t i = 0; i < oracle->count; i++) {
        struct message *message = &oracle->list[i];
        if (message->due == due && message->id == id && !message->superseded)
            return message;
    }
    return NULL;
}

struct message *oracle_leased(struct oracle *oracle, uint64_t lease)
{
    for (size_t i = 0; i < oracle->count; i++) {
        if (lease != 0 && oracle->list[i].lease == lease)
            return &oracle->list[i];
    }
    return NULL;
}

void oracle_remove(struct oracle *oracle, struct message *message)
{
    size_t at = (size_t)(message - oracle->list);
    memmove(message, message + 1, (--oracle->count - at) * sizeof(*message));
}

static void oracle_insert(struct oracle *oracle, struct message message)
{
    size_t at = oracle->count;
    message.order = ++oracle->next_order;
    oracle_reserve(oracle, oracle->count + 1);
    while (at > 0 && oracle->list[at - 1].due > message.due)
        at--;
    memmove(&oracle->list[at + 1], &oracle->list[at], (oracle->count++ - at) * sizeof(message));
    oracle->list[at] = message;
}

void oracle_put(struct oracle *oracle, const struct message *message)
{
    struct message *old = oracle_find(oracle, message->due, message->id);
    oracle->doubt += old && old->lease == 0;
    if (old && old->lease != 0)
        old->superseded = true;
    else if (old)
        oracle_remove(oracle, old);
    struct message its = *message;
    its.first = its.first != 0 ? its.first : its.due;
    oracle_insert(oracle, its);
}

void oracle_expire(struct oracle *oracle, uint64_t boottime)
{
    for (size_t i = 0; i < oracle->count;) {
        struct message *message = &oracle->list[i];
        bool ends = message->lease != 0 && message->lease_end <= boottime;
        if (ends && message->superseded) {
            oracle_remove(oracle, message);
            continue;
        }
        if (ends) {
            message->lease = 0;
            message->expired++;
        }
        i++;
    }
}

void oracle_restart(struct oracle *oracle)
{
    for (size_t i = 0; i < oracle->count;) {
        struct message *message = &oracle->list[i];
        message->lease = 0;
        message->expired = 0;
        if (message->superseded)
            oracle_remove(oracle, message);
        else
            i++;
    }
}

size_t oracle_due(const struct oracle *oracle, size_t at, uint64_t now)
{
    while (at < oracle->count && oracle->list[at].due <= now && oracle->list[at].lease != 0)
        at++;
    return at < oracle->count && oracle->list[at].due <= now ? at : oracle->count;
}

/* ---- listings ---- */

void listing_begin(struct listing *listing, const struct oracle *before, const struct oracle *after,
                   bool partly)
{
    memset(listing, 0, sizeof(*listing));
    listing->before = before;
    listing->after = after;
    listing->partly = partly;
    listing->fits_before = listing->fits_after = true;
}

static size_t present(const struct oracle *oracle, size_t at)
{
    while (at < oracle->count && oracle->list[at].superseded)
        at++;
    return at;
}

/* The one at `at` may be missing: it is not in `after`. */
static bool may_miss(const struct listing *listing, size_t at)
{
    const struct message *message = &listing->before->list[at];
    struct oracle after = *listing->after;
    return listing->partly && !oracle_find(&after, message->due, message->id);
}

static void stop_to_fit(struct listing *listing, const char *which, const struct message *expected,
                        const hwt_delay_message *message)
{
    int n = snprintf(listing->wrong, sizeof(listing->wrong), "%s: message %zu: ", which,
                     listing->found.count);
    char *to = listing->wrong + n;
    size_t room = sizeof(listing->wrong) - (size_t)n;
    if (expected)
        n = snprintf(
            to, room, "due %" PRIu64 ", id %u, %u bytes, %u retries, %u deliveries expected, ",
            expected->due, expected->id, expected->size, expected->retries, expected->deliveries);
    else
        n = snprintf(to, room, "none expected, ");
    to += n;
    room -= (size_t)n;
    if (message)
        snprintf(to, room, "due %" PRIu64 ", id %u, %zu bytes, %u retries, %u deliveries found",
                 message->due, ((const unsigned char *)message->id)[message->id_size - 1],
                 message->payload_size, message->retries, message->deliveries);
    else
        snprintf(to, room, "none found");
}

static const struct message *same(const struct oracle *oracle, const struct message *message)
{
    for (size_t i = 0; i < oracle->count; i++) {
        if (oracle->list[i].order == message->order)
            return &oracle->list[i];
    }
    return message;
}

/* A take that is under way may count or not. */
static bool is_counted(const struct listing *listing, const struct message *expected,
                       const hwt_delay_message *message)
{
    uint32_t before = same(listing->before, expected)->deliveries;
    uint32_t after = same(listing->after, expected)->deliveries;
    uint32_t least = before < after ? before : after, most = before < after ? after : before;
    return message->deliveries <= most + listing->taking &&
           (!listing->counted || message->deliveries >= least);
}

void listing_next(struct listing *listing, const hwt_delay_message *message)
{
    const struct message *expected = NULL, *fitting = NULL;
    if (listing->fits_before) {
        size_t at = present(listing->before, listing->at_before);
        while (at < listing->before->count && !message_is(message, &listing->before->list[at]) &&
               may_miss(listing, at))
            at = present(listing->before, at + 1);
        expected = at < listing->before->count ? &listing->before->list[at] : NULL;
        listing->fits_before =
            expected && message_is(message, expected) && is_counted(listing, expected, message);
        if (listing->fits_before)
            fitting = expected;
        else
            stop_to_fit(listing, "before", expected, message);
        listing->at_before = at + 1;
    }
    if (listing->fits_after) {
        size_t at = present(listing->after, listing->at_after);
        expected = at < listing->after->count ? &listing->after->list[at] : NULL;
        listing->fits_after =
            expected && message_is(message, expected) && is_counted(listing, expected, message);
        if (listing->fits_after)
            fitting = expected;
        else
            stop_to_fit(listing, "after", expected, message);
        listing->at_after = at + 1;
    }
    if (!fitting)
        return;
    oracle_reserve(&listing->found, listing->found.count + 1);
    listing->found.list[listing->found.count] = *fitting;
    listing->found.list[listing->found.count++].deliveries = message->deliveries;
}

static bool is_note(const struct oracle *oracle, const unsigned char *note, int64_t size,
                    uint64_t mark)
{
    unsigned char bytes[HWT_DELAY_NOTE_MAX + 8];
    payload_bytes(oracle->note, oracle->note_size, bytes);
    return size == oracle->note_size && memcmp(bytes, note, oracle->note_size) == 0 &&
           (oracle->mark == 0 || oracle->mark == mark);
}

void listing_note(struct listing *listing, hwt_delay *store)
{
    unsigned char note[HWT_DELAY_NOTE_MAX];
    uint64_t mark;
    int64_t size = hwt_delay_note(store, note, sizeof(note), &mark);
    bool fitted = listing->fits_before || listing->fits_after;
    listing->fits_before = listing->fits_before && is_note(listing->before, note, size, mark);
    listing->fits_after = listing->fits_after && is_note(listing->after, note, size, mark);
    copy_note(&listing->found, listing->fits_before ? listing->before : listing->after);
    listing->found.mark = mark;
    if (fitted && !listing->fits_before && !listing->fits_after)
        snprintf(listing->wrong, sizeof(listing->wrong),
                 "a note of %" PRId64 " bytes, mark %" PRIu64 ", not %u and %" PRIu64
                 " before, %u and %" PRIu64 " after",
                 size, mark, listing->before->note_size, listing->before->mark,
                 listing->after->note_size, listing->after->mark);
}

bool listing_end(struct listing *listing, struct oracle *ret)
{
    if (listing->fits_before) {
        size_t at = present(listing->before, listing->at_before);
        while (at < listing->before->count && may_miss(listing, at))
            at = present(listing->before, at + 1);
        listing->fits_before = at >= listing->before->count;
        if (!listing->fits_before)
            stop_to_fit(listing, "before", &listing->before->list[at], NULL);
    }
    if (listing->fits_after) {
        size_t at = present(listing->after, listing->at_after);
        listing->fits_after = at >= listing->after->count;
        if (!listing->fits_after)
            stop_to_fit(listing, "after", &listing->after->list[at], NULL);
    }
    bool fits = listing->fits_before || listing->fits_after;
    listing->found.next_order = listing->after->next_order;
    listing->found.doubt = listing->before->doubt > listing->after->doubt ? listing->before->doubt
                                                                          : listing->after->doubt;
    if (fits && ret) {
        oracle_restart(&listing->found);
        oracle_free(ret);
        *ret = listing->found;
    } else {
        oracle_free(&listing->found);
    }
    return fits;
}
