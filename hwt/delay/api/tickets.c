/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Tickets find messages by the due time of their first put and their id, however often they were
 * put back or moved since.
 *
 * A message that is not due when it was put first has that instant, its origin, in its record. No
 * index of all of them is kept. Those in the table and those that are leased are in a map by
 * origin. A slot has the lowest and the highest origin of what was ever written to it, in the
 * checkpoint too. So a ticket is looked for in memory, then at its own due time, and then in those
 * slots alone whose range it is in. Most slots have no range, because few messages are moved to
 * where memory does not reach.
 *
 * The slots are read without the lock, one stretch after the other. A message that is neither in
 * memory nor put or ended meanwhile stays in its stretch, whatever checkpoints and others do. So
 * the result, a message or none, holds until such a message goes into the table, as it also does by
 * loading, or the one that was found is ended. The list of what is sought is told of both. A call
 * that waits for room after it has looked need not look again because a checkpoint made the room,
 * however many changes of other messages there are.
 */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "hwt/delay/api/steps.h"
#include "hwt/delay/whole.h"
#include "hwt/delay/base/text.h"

/* ---- as text ---- */

static bool is_plain(unsigned char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
           c == '.' || c == '_' || c == '~';
}

int64_t hwt_delay_ticket(const hwt_delay_message *message, char *buffer, size_t size)
{
    struct hwt_delay_text text;
    if (!message || !hwt_delay_is_identity(message->due, message->id, message->id_size) ||
        message->first_due == HWT_NEVER || hwt_delay_text_init(&text, buffer, size) < 0)
        return -EINVAL;
    const unsigned char *id = message->id;
    hwt_delay_text_add(&text, "%" PRIx64 "-",
                       message->first_due != 0 ? message->first_due : message->due);
    for (size_t i = 0; i < message->id_size; i++)
        hwt_delay_text_add(&text, is_plain(id[i]) ? "%c" : "%%%02x", id[i]);
    return (int64_t)text.length;
}

/* A byte of an id, at *at, which moves on; -1: none can be there. */
static int read_byte(const char **at)
{
    static const char digits[] = "0123456789abcdef";
    const char *c = *at;
    if (*c != '%') {
        *at = c + 1;
        return is_plain((unsigned char)*c) ? (unsigned char)*c : -1;
    }
    const char *high = c[1] ? strchr(digits, c[1]) : NULL;
    const char *low = high && c[2] ? strchr(digits, c[2]) : NULL;
    *at = c + 3;
    return low ? (int)((high - digits) * 16 + (low - digits)) : -1;
}

/* Nothing was looked for yet. -EINVAL: it is no ticket; -ENOMEM */
int hwt_delay_ticket_read(const char *ticket, struct hwt_delay_found *ret_found)
{
    unsigned char id[HWT_DELAY_ID_MAX];
    char its[HWT_DELAY_TICKET_MAX];
    hwt_delay_message message = { .id = id };
    int length = 0;
    if (!ticket || sscanf(ticket, "%16" SCNx64 "-%n", &message.due, &length) != 1 || length == 0)
        return -EINVAL;
    for (const char *at = ticket + length; *at;) {
        int byte = message.id_size < sizeof(id) ? read_byte(&at) : -1;
        if (byte < 0)
            return -EINVAL;
        id[message.id_size++] = (unsigned char)byte;
    }
    /* There is one way to write each. */
    if (hwt_delay_ticket(&message, its, sizeof(its)) < 0 || strcmp(its, ticket) != 0)
        return -EINVAL;
    *ret_found = (struct hwt_delay_found){
        .ticket = hwt_delay_record_new(HWT_DELAY_PUT, &message),
        .touched = true,
    };
    return ret_found->ticket ? 0 : -ENOMEM;
}

/* ---- in slots ---- */

struct stretch {
    uint64_t from, to;
};

static int by_start(const void *a, const void *b)
{
    const struct stretch *x = a, *y = b;
    return (x->from > y->from) - (x->from < y->from);
}

/* Lists the stretches in which it may be: its own due time, and the times of slots that have such
 * origins. */
static size_t list_stretches(hwt_delay *store, uint64_t due, struct stretch *stretches)
{
    const struct hwt_delay_key behind = { due, UINT64_MAX };
    size_t count = 0;
    if (due >= hwt_delay_loaded(store).due || hwt_delay_gap_at(store, behind))
        stretches[count++] = (struct stretch){ due, due + 1 };
    struct hwt_delay_slot *slot;
    HWT_DELAY_FOREACH_SLOT(slot, store)
    {
        uint64_t last = hwt_delay_slot_last(slot);
        if (slot->origins.from <= due && due <= slot->origins.to && !slot->passed)
            stretches[count++] =
                (struct stretch){ hwt_delay_slot_start(slot), last == HWT_NEVER ? last : last + 1 };
    }
    qsort(stretches, count, sizeof(*stretches), by_start);
    return count;
}

/* Lets go of the lock. *found has a reference. -EBADMSG: all that can be read was searched. */
static int search(hwt_delay *store, const struct hwt_delay_record *ticket,
                  struct hwt_delay_record **found)
{
    struct stretch *stretches = malloc((hwt_delay_slots_count(store) + 1) * sizeof(*stretches));
    if (!stretches)
        return -ENOMEM;
    size_t count = list_stretches(store, ticket->key.due, stretches);
    uint64_t from = 0;
    int r = 0;
    for (size_t i = 0; i < count && (r == 0 || r == -EBADMSG); i++) {
        from = stretches[i].from > from ? stretches[i].from : from;
        int its = hwt_delay_visit_for(store, from, stretches[i].to, ticket, found);
        r = its < 0 ? its : r;
        from = stretches[i].to > from ? stretches[i].to : from;
    }
    free(stretches);
    return r;
}

/* ---- both ---- */

/* Whether what was found still holds. Does not let go of the lock. */
bool hwt_delay_found_holds(hwt_delay *store, const struct hwt_delay_found *found)
{
    const struct hwt_delay_record *there = hwt_delay_find_ticket(store, found->ticket);
    if (found->in_memory || there)
        return found->in_memory && there == found->record;
    return !found->touched;
}

/* A message of a slot that memory says has ended since. */
bool hwt_delay_found_is_gone(hwt_delay *store, const struct hwt_delay_found *found)
{
    const struct hwt_delay_record *record = found->record;
    return !found->in_memory &&
           (hwt_delay_is_dropped(store, record->key) || hwt_delay_has_newer(store, record));
}

void hwt_delay_found_clear(struct hwt_delay_found *found)
{
    if (found->record)
        hwt_delay_record_unref(found->record);
    found->record = NULL;
}

/* With the lock, which it may let go of. 0: it was found, and has a reference; -ENOENT; -EBADMSG:
 * it may be in what cannot be read. It is watched from then on. */
int hwt_delay_found_look(hwt_delay *store, struct hwt_delay_found *found)
{
    for (;;) {
        hwt_delay_found_clear(found);
        hwt_delay_found_watch(store, found);
        found->record = hwt_delay_find_ticket(store, found->ticket);
        found->in_memory = found->record != NULL;
        if (found->in_memory) {
            found->record->refs++;
            return 0;
        }
        int r = search(store, found->ticket, &found->record);
        if (r < 0 && r != -EBADMSG)
            return r;
        if (hwt_delay_found_holds(store, found))
            return found->record ? 0 : r < 0 ? r : -ENOENT;
    }
}

/* ---- calls ---- */

static const hwt_delay_message *copy_message(const struct hwt_delay_record *record)
{
    size_t size = record->id_size + (size_t)record->payload_size;
    hwt_delay_message *message = malloc(sizeof(*message) + size);
    if (!message)
        return NULL;
    unsigned char *bytes = (unsigned char *)(message + 1);
    memcpy(bytes, record->bytes, size);
    *message = hwt_delay_message_of(record);
    message->lease = record->state == HWT_DELAY_LEASED ? record->lease->token : 0;
    message->expired = record->expired;
    message->id = bytes;
    message->payload = bytes + record->id_size;
    return message;
}

int hwt_delay_look_up(hwt_delay *store, const char *ticket, const hwt_delay_message **ret_message)
{
    struct hwt_delay_found found;
    if (!store || !ret_message)
        return -EINVAL;
    int r = hwt_delay_ticket_read(ticket, &found);
    if (r < 0)
        return r;
    int shield = hwt_delay_enter(store);
    if (!store->read_only)
        hwt_delay_leases_expire(store);
    r = hwt_delay_found_look(store, &found);
    hwt_delay_found_unwatch(&found);
    if (r == 0 && hwt_delay_found_is_gone(store, &found))
        r = -ENOENT;
    const hwt_delay_message *message = r == 0 ? copy_message(found.record) : NULL;
    hwt_delay_found_clear(&found);
    hwt_delay_leave(store, shield);
    hwt_delay_record_unref(found.ticket);
    if (r == 0 && !message)
        r = -ENOMEM;
    if (r == 0)
        *ret_message = message;
    return r;
}

static int change(hwt_delay *store, uint8_t op, const char *ticket, uint64_t due)
{
    struct hwt_delay_steps steps;
    if (!store || due == HWT_NEVER)
        return -EINVAL;
    if (store->read_only)
        return -EROFS;
    hwt_delay_steps_init(&steps, 1); /* one needs no memory */
    steps.list->op = op;
    steps.list->due = due;
    int r = hwt_delay_ticket_read(ticket, &steps.list->found);
    if (r == 0)
        r = hwt_delay_steps_apply(store, &steps);
    hwt_delay_steps_free(&steps);
    return r;
}

int hwt_delay_cancel_ticket(hwt_delay *store, const char *ticket)
{
    return change(store, HWT_DELAY_OP_CANCEL, ticket, 0);
}

int hwt_delay_move(hwt_delay *store, const char *ticket, uint64_t due)
{
    return change(store, HWT_DELAY_OP_MOVE, ticket, due);
}
