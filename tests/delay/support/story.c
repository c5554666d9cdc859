/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The messages of a story, and its calls. See story.h. */

#include "tests/delay/support/story_inside.h"

#include <errno.h>
#include <string.h>

#include "kit.h"

struct story story = { .lock = PTHREAD_MUTEX_INITIALIZER };

const char *const operation_names[OPERATIONS] = {
    [CHECKPOINT] = "checkpoint",
    [PUT] = "put",
    [PUT_AGAIN] = "put again",
    [PUT_AGAIN_SLOT] = "put again what a slot has",
    [PUT_AGAIN_LEASED] = "put again what is leased",
    [PUT_MUCH] = "put much",
    [PUT_AND_CANCEL] = "put and cancel",
    [PUT_AGAIN_AND_CANCEL] = "put again and cancel",
    [PUT_SAME] = "put the same",
    [CANCEL_SAME] = "cancel the same",
    [CANCEL_DUE] = "cancel what is due",
    [CANCEL_SLOT] = "cancel what a slot has",
    [CANCEL_FAR] = "cancel what is far",
    [CANCEL_AND_PUT] = "cancel and put",
    [REPLACE] = "replace",
    [APPLY] = "apply",
    [DROP] = "drop",
    [TAKE] = "take",
    [TAKE_AND_DO] = "take and do",
    [TAKE_AND_END] = "take and end the lease",
    [DONE] = "done",
    [DONE_FRESH] = "done, from the log",
    [RETRY] = "retry",
    [RETRY_FRESH] = "retry, from the log",
    [END_LEASE] = "end a lease",
    [END_LEASE_FRESH] = "end a lease, from the log",
    [LOAD] = "load",
    [LOAD_AND_DO] = "load and do",
    [LIST] = "list",
    [CHECK] = "check",
};

void story_broken(const char *what, uint32_t number)
{
    char players[200] = "";
    size_t at = 0;
    for (unsigned i = 0; i < story.count; i++)
        at += (size_t)snprintf(players + at, sizeof(players) - at, "%s (%s), ",
                               operation_names[story.players[i].operation], story.players[i].point);
    ck_abort_msg("%s%smessage %u %s", players, story.bulk ? "with bulk, " : "", number, what);
}

uint64_t story_due(uint32_t number)
{
    static const uint64_t from[] = {
        [HELD / EACH] = STORY_NOW - HWT_SEC(40), [DUE / EACH] = STORY_NOW - HWT_SEC(10),
        [SOON / EACH] = STORY_NOW + HWT_SEC(5),  [FAR / EACH] = STORY_NOW + HWT_SEC(3600),
        [NEW / EACH] = STORY_NOW - HWT_SEC(1),   [RETRIED / EACH] = STORY_NOW + HWT_SEC(4),
        [BULK / EACH] = STORY_NOW - HWT_SEC(5),
    };
    /* Of what is due, the log has the first. */
    uint64_t before = number >= DUE + EACH / 2 && number < SOON ? HWT_SEC(1) : 0;
    return from[(number < BULK ? number : BULK) / EACH] + number * HWT_MS(1) - before;
}

static void set_payload(unsigned char *payload, uint32_t number, uint32_t version, uint32_t size)
{
    memset(payload, (int)(number * 7 + version * 31), size);
    memcpy(payload, &version, sizeof(version));
}

/* Which one it is, and which version; all of its bytes are looked at. */
uint32_t story_number(const hwt_delay_message *message, uint32_t *ret_version)
{
    unsigned char payload[8192];
    uint32_t id, number;
    must(message->id_size == sizeof(id));
    memcpy(&id, message->id, sizeof(id));
    must(id < MESSAGES);
    number = message->retries > 0 ? RETRIED + id : id;
    must(message->retries == 0 || (id < HELD + EACH && message->retries == 1));
    if (message->payload_size != story.messages[number].size)
        story_broken("is of another size", number);
    if (message->due != story.messages[number].due)
        story_broken("is of another time", number);
    memcpy(ret_version, message->payload, sizeof(*ret_version));
    set_payload(payload, id, *ret_version, story.messages[number].size);
    if (memcmp(payload, message->payload, message->payload_size) != 0)
        story_broken("has other bytes", number);
    return number;
}

hwt_delay_message story_message(const uint32_t *number, uint32_t version,
                                unsigned char payload[8192])
{
    const struct message *its = &story.messages[*number];
    set_payload(payload, *number, version, its->size);
    return (hwt_delay_message){
        .due = its->due,
        .id = number,
        .id_size = sizeof(*number),
        .payload = payload,
        .payload_size = its->size,
    };
}

/* ---- what a call will do, and has done ---- */

void story_lock(void)
{
    pthread_mutex_lock(&story.lock);
}

void story_unlock(void)
{
    pthread_mutex_unlock(&story.lock);
}

/* With the lock. */
void story_will(unsigned player, uint32_t number, bool pending, uint32_t version, uint32_t other)
{
    story.messages[number].maybe[player] =
        (struct change){ ++story.tickets, pending, version, other };
}

/* With the lock. A ticket is drawn before its call, so it does not say when the change was made. */
static void count(struct message *message, const struct change *change)
{
    message->is = *change;
    message->since = ++story.tickets;
}

/* With the lock. `it`: it has happened. */
void story_did(unsigned player, uint32_t number, bool it)
{
    struct message *message = &story.messages[number];
    struct change *change = &message->maybe[player];
    if (it && change->ticket > message->is.ticket)
        count(message, change);
    change->ticket = 0;
}

/* With the lock. Whether this player's call may find, or have found, that there is no such message. */
static bool may_be_absent(unsigned player, uint32_t number)
{
    const struct message *message = &story.messages[number];
    bool changes = message->since > message->maybe[player].ticket;
    for (unsigned i = 0; i < 3; i++)
        changes = changes || (i != player && message->maybe[i].ticket != 0);
    return changes || !message->is.pending;
}

/* ---- the calls ---- */

int story_put(uint32_t number, uint32_t version)
{
    unsigned char payload[8192];
    const hwt_delay_message message = story_message(&number, version, payload);
    return hwt_delay_put(story.store, &message, 1);
}

int story_put_async(uint32_t number, uint32_t version, hwt_delay_durable durable, void *arg)
{
    unsigned char payload[8192];
    const hwt_delay_message message = story_message(&number, version, payload);
    return hwt_delay_put_async(story.store, &message, 1, durable, arg);
}

int story_replace(uint32_t number, uint32_t by, uint32_t version)
{
    unsigned char payload[8192];
    const hwt_delay_message message = story_message(&by, version, payload);
    return hwt_delay_replace(story.store, story.messages[number].due, &number, sizeof(number),
                             &message);
}

static void do_put(unsigned player, uint32_t number)
{
    unsigned char payload[8192];
    story_lock();
    uint32_t version = ++story.messages[number].versions;
    story_will(player, number, true, version, number);
    story_unlock();
    const hwt_delay_message message = story_message(&number, version, payload);
    if (hwt_delay_put(story.store, &message, 1) != 0)
        story_broken("was not put", number);
    story_lock();
    story_did(player, number, true);
    story_unlock();
}

/* -EBUSY: somebody has taken it beside this. */
static void do_cancel(unsigned player, uint32_t number)
{
    const struct message *message = &story.messages[number];
    story_lock();
    story_will(player, number, false, 0, number);
    story_unlock();
    int r = hwt_delay_cancel(story.store, message->due, &number, sizeof(number));
    story_lock();
    if (r != 0 && r != -EBUSY && !(r == -ENOENT && may_be_absent(player, number)))
        story_broken("was not cancelled", number);
    bool is_same = message->since <= message->maybe[player].ticket;
    if (r == 0 && is_same && message->lease != 0 && message->leased_version == message->is.version)
        story_broken("was taken, and cancelled beside that", number);
    story_did(player, number, r == 0);
    story_unlock();
}

static void do_replace(unsigned player, uint32_t number, uint32_t by)
{
    unsigned char payload[8192];
    story_lock();
    uint32_t version = ++story.messages[by].versions;
    story_will(player, number, false, 0, by);
    story_will(player, by, true, version, number);
    story_unlock();
    const hwt_delay_message message = story_message(&by, version, payload);
    int r = hwt_delay_replace(story.store, story.messages[number].due, &number, sizeof(number),
                              &message);
    story_lock();
    if (r != 0 && r != -EBUSY && !(r == -ENOENT && may_be_absent(player, number)))
        story_broken("was not replaced", number);
    story_did(player, number, r == 0);
    story_did(player, by, r == 0);
    story_unlock();
}

/* With the lock, before and behind the call. What is put in its place meanwhile stays, also where that
 * put is under way already: it comes behind the end of the lease. */
static uint64_t begin_done(unsigned player, uint32_t number)
{
    struct message *message = &story.messages[number];
    if (message->leased_version != message->is.version)
        return message->lease;
    story_will(player, number, false, 0, number);
    for (unsigned i = 0; i < 3; i++) {
        struct change *put = &message->maybe[i];
        bool is_later = put->pending && put->version != message->leased_version;
        if (put->ticket != 0 && is_later)
            put->ticket = ++story.tickets;
    }
    return message->lease;
}

static void end_done(unsigned player, uint32_t number)
{
    story_did(player, number, true);
    story.messages[number].lease = 0;
}

static void do_done(unsigned player, uint32_t number)
{
    story_lock();
    uint64_t lease = begin_done(player, number);
    story_unlock();
    if (hwt_delay_done(story.store, &lease, 1) != 1)
        story_broken("was not done with", number);
    story_lock();
    end_done(player, number);
    story_unlock();
}

static void do_retry(unsigned player, uint32_t number)
{
    struct message *message = &story.messages[number];
    uint32_t to = RETRIED + number;
    story_lock();
    uint64_t lease = message->lease;
    story_will(player, number, false, 0, to);
    story_will(player, to, true, message->is.version, number);
    story_unlock();
    if (hwt_delay_retry(story.store, lease, story.messages[to].due) != 0)
        story_broken("was not put back", number);
    story_lock();
    story_did(player, number, true);
    story_did(player, to, true);
    message->lease = 0;
    story_unlock();
}

/* The end of a lease, a cancel and a put, in one step with a note that says what was put. */
static void do_apply(unsigned player, uint32_t held, uint32_t cancelled, uint32_t put)
{
    unsigned char payload[8192];
    story_lock();
    uint32_t version = ++story.messages[put].versions;
    story_will(player, held, false, 0, cancelled);
    story_will(player, cancelled, false, 0, put);
    story_will(player, put, true, version, held);
    story_unlock();
    const hwt_delay_message message = story_message(&put, version, payload);
    const uint32_t note[] = { put, version };
    hwt_delay_change changes[] = {
        { .op = HWT_DELAY_OP_DONE, .lease = story.messages[held].lease },
        { .op = HWT_DELAY_OP_CANCEL,
          .due = story.messages[cancelled].due,
          .id = &cancelled,
          .id_size = sizeof(cancelled) },
        { .op = HWT_DELAY_OP_PUT, .message = &message },
    };
    hwt_delay_batch batch = HWT_DELAY_BATCH_INIT;
    batch.note = note;
    batch.note_size = sizeof(note);
    if (hwt_delay_apply(story.store, changes, 3, &batch) != 0)
        story_broken("was not changed together with others", put);
    story_lock();
    story_did(player, held, true);
    story_did(player, cancelled, true);
    story_did(player, put, true);
    story.messages[held].lease = 0;
    story_unlock();
}

/* The first messages that were put: they are HELD. Drops of other players may have some of them. */
static void do_drop(unsigned player)
{
    hwt_delay_change drop = { .op = HWT_DELAY_OP_DROP,
                              .due = story.messages[HELD + player].due,
                              .mark = player + 1 };
    story_lock();
    for (uint32_t i = HELD; i <= HELD + player; i++)
        story_will(player, i, false, 0, i);
    story_unlock();
    if (hwt_delay_apply(story.store, &drop, 1, NULL) != 0)
        story_broken("was not dropped", HELD + player);
    story_lock();
    for (uint32_t i = HELD; i <= HELD + player; i++) {
        story_did(player, i, true);
        story.messages[i].lease = 0;
    }
    story_unlock();
}

static void do_end_lease(uint32_t number)
{
    struct message *message = &story.messages[number];
    story_lock();
    uint64_t lease = message->lease;
    message->lease = 0;
    story_unlock();
    if (hwt_delay_extend(story.store, lease, 0) != 0)
        story_broken("had no lease that could end", number);
    /* Whatever call comes next sees that it has ended. */
    must(hwt_delay_extend(story.store, lease, 0) == -ENOENT);
}

/* ---- taking ---- */

static uint64_t last_ticket(void)
{
    story_lock();
    uint64_t ticket = story.tickets;
    story_unlock();
    return ticket;
}

/* With the lock. A message that is handed over counts from now on: it is durable. Others may have put
 * or cancelled it anew since the ticket. */
uint32_t story_taken(const hwt_delay_message *taken, uint64_t ticket)
{
    uint32_t version, number = story_number(taken, &version);
    struct message *message = &story.messages[number];
    if (taken->due > held_realtime)
        story_broken("was taken early", number);
    for (unsigned i = 0; i < 3; i++) {
        const struct change *maybe = &message->maybe[i];
        if (maybe->pending && maybe->version == version && maybe->ticket > message->is.ticket)
            count(message, maybe);
    }
    if ((!message->is.pending || message->is.version != version) && message->since <= ticket)
        story_broken("was taken and is not pending", number);
    if (message->lease != 0 && message->leased_version == version)
        story_broken("was taken twice", number);
    message->lease = taken->lease;
    message->leased_version = version;
    return number;
}

/* Returns how many; the number of the last one. With bulk there is more than may be leased. */
int64_t story_take(size_t max, uint32_t *ret_number)
{
    const hwt_delay_message *taken;
    uint64_t ticket = last_ticket();
    int64_t n = hwt_delay_take(story.store, max, 0, &taken);
    if (n == -ENOBUFS && story.bulk)
        return 0;
    must(n >= 0);
    story_lock();
    for (int64_t i = 0; i < n; i++) {
        if (i > 0 && taken[i].due < taken[i - 1].due)
            story_broken("or another was not taken in its order", 0);
        *ret_number = story_taken(&taken[i], ticket);
    }
    story_unlock();
    if (n > 0)
        hwt_delay_free(taken);
    return n;
}

static void take_and_do(unsigned player)
{
    uint32_t number;
    if (story_take(1, &number) == 1)
        do_done(player, number);
}

static void take_and_end(void)
{
    uint32_t number;
    if (story_take(1, &number) == 1)
        do_end_lease(number);
}

void story_pass_time(uint64_t by)
{
    atomic_fetch_add(&held_realtime, by);
    atomic_fetch_add(&held_boottime, by);
}

/* What is SOON is due now: it is in slots that were not read yet. */
static void load(void)
{
    uint32_t number;
    story_pass_time(HWT_SEC(6));
    while (story_take(100, &number) > 0)
        ;
}

/* The same, and is done with all of it in one call. */
static void load_and_do(unsigned player)
{
    const hwt_delay_message *taken;
    int64_t n;
    story_pass_time(HWT_SEC(6));
    uint64_t ticket = last_ticket();
    for (; (n = hwt_delay_take(story.store, 100, 0, &taken)) > 0; ticket = last_ticket()) {
        uint64_t leases[100];
        uint32_t numbers[100];
        held_pass("behind its take");
        story_lock();
        for (int64_t i = 0; i < n; i++) {
            numbers[i] = story_taken(&taken[i], ticket);
            leases[i] = begin_done(player, numbers[i]);
        }
        story_unlock();
        must(hwt_delay_done(story.store, leases, (size_t)n) == n);
        story_lock();
        for (int64_t i = 0; i < n; i++)
            end_done(player, numbers[i]);
        story_unlock();
        hwt_delay_free(taken);
    }
}

/* ---- the parts ---- */

static void call_that_puts(enum operation operation, unsigned n)
{
    const uint32_t slot = n, fresh = EACH / 2 + n;
    switch (operation) {
    case PUT:
        do_put(n, NEW + n);
        break;
    case PUT_AGAIN:
        do_put(n, FAR + fresh);
        break;
    case PUT_AGAIN_SLOT:
        do_put(n, SOON + slot);
        break;
    case PUT_AGAIN_LEASED:
        do_put(n, HELD + 12 + slot);
        break;
    case PUT_MUCH:
        for (int i = 0; i < 30; i++)
            do_put(n, BULK + 3 + n);
        break;
    case PUT_AND_CANCEL:
        do_put(n, NEW + 3 + n);
        do_cancel(n, NEW + 3 + n);
        break;
    case PUT_AGAIN_AND_CANCEL:
        do_put(n, DUE + 6 + fresh);
        do_cancel(n, DUE + 6 + fresh);
        break;
    case PUT_SAME:
        do_put(n, NEW);
        break;
    default:
        break;
    }
}

static void call_that_changes(enum operation operation, unsigned n)
{
    const uint32_t slot = n, fresh = EACH / 2 + n;
    switch (operation) {
    case CHECKPOINT:
        must(hwt_delay_checkpoint(story.store) == 0);
        break;
    case CANCEL_SAME:
        do_cancel(n, NEW);
        break;
    case CANCEL_DUE:
        do_cancel(n, DUE + 9 + fresh);
        break;
    case CANCEL_SLOT:
        do_cancel(n, SOON + 3 + slot);
        break;
    case CANCEL_FAR:
        do_cancel(n, FAR + slot);
        break;
    case CANCEL_AND_PUT:
        do_cancel(n, FAR + 3 + slot);
        do_put(n, FAR + 3 + slot);
        break;
    case REPLACE:
        do_replace(n, SOON + fresh, NEW + 6 + n);
        break;
    case APPLY:
        do_apply(n, HELD + fresh, FAR + 6 + slot, STORY_NOTED + n);
        break;
    case DROP:
        do_drop(n);
        break;
    default:
        break;
    }
}

static void call_as_consumer(enum operation operation, unsigned n)
{
    const uint32_t slot = 3 + n, fresh = EACH / 2 + 3 + n;
    uint32_t number;
    switch (operation) {
    case TAKE:
        story_take(EACH / 2 + 3, &number);
        break;
    case TAKE_AND_DO:
        take_and_do(n);
        break;
    case TAKE_AND_END:
        take_and_end();
        break;
    case DONE:
        do_done(n, HELD + slot);
        break;
    case DONE_FRESH:
        do_done(n, HELD + fresh);
        break;
    case RETRY:
        do_retry(n, HELD + 3 + slot);
        break;
    case RETRY_FRESH:
        do_retry(n, HELD + 3 + fresh);
        break;
    case END_LEASE:
        do_end_lease(HELD + 6 + slot);
        break;
    case END_LEASE_FRESH:
        do_end_lease(HELD + 6 + fresh);
        break;
    case LOAD:
        load();
        break;
    case LOAD_AND_DO:
        load_and_do(n);
        break;
    case LIST:
        story_list();
        break;
    case CHECK:
        story_check();
        break;
    default:
        break;
    }
}

void story_do(enum operation operation, unsigned n)
{
    call_that_puts(operation, n);
    call_that_changes(operation, n);
    call_as_consumer(operation, n);
}

/* Each player has its own messages. */
void story_call(struct player *player)
{
    unsigned n = (unsigned)(player - story.players);
    story_do((enum operation)player->operation, n);
}
