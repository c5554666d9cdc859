/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The calls of a running program, each made beside the oracle. */

#include "tests/delay/support/run.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    BATCH_MAX = 8,
    BATCH_BYTES = 12000,
    MESSAGE_MAX = 512 /* of memory, without the payload */
};

/* ---- what is put ---- */

uint64_t call_draw_due(struct run *run)
{
    static const uint64_t far[] = { 0, 1, HWT_NEVER - 1, UINT64_C(16725225600000000000) };
    const uint64_t now = run->realtime, ten = HWT_SEC(10);
    switch (draw(run, 12)) {
    case 0:
        return now - draw(run, HWT_SEC(3600));
    case 1:
        return now;
    case 2:
        return now + draw(run, HWT_SEC(1));
    case 3:
        return far[draw(run, 4)];
    case 4:
        return now + draw(run, HWT_MIN(60));
    case 5:
        return now + draw(run, HWT_SEC(86400));
    case 6:
        return now + draw(run, HWT_SEC(86400) * 60);
    case 7:
        return now + draw(run, HWT_SEC(86400) * 3660);
    default:
        return (now / ten + draw(run, 12)) * ten; /* many at the same instant */
    }
}

struct message call_draw_message(struct run *run, uint32_t most)
{
    static const uint32_t sizes[] = { 0, 1, 30, 200, 1000, ORACLE_PAYLOAD_MAX };
    struct message message = { .due = call_draw_due(run), .id = (unsigned)draw(run, ORACLE_IDS) };
    uint32_t limit = sizes[draw(run, 16) % 6 < 3 ? draw(run, 4) : draw(run, 6)];
    limit = limit < most ? limit : most;
    message.value = draw(run, UINT64_MAX);
    message.size = (uint32_t)draw(run, limit + 1);
    return message;
}

hwt_delay_message call_carry(const struct message *message, struct carried *carried)
{
    payload_bytes(message->value, message->size, carried->payload);
    return (hwt_delay_message){
        .due = message->due,
        .id = carried->id,
        .id_size = id_bytes(message->id, carried->id),
        .payload = message->size ? carried->payload : NULL,
        .payload_size = message->size,
    };
}

void call_note_durable(int result, void *arg)
{
    *(int *)arg += result == 0 ? 1 : 1000;
}

static void put_batch(struct run *run, unsigned count, uint32_t most, bool async)
{
    static struct carried carried[BATCH_MAX];
    hwt_delay_message messages[BATCH_MAX];
    uint32_t bytes = 0;
    int r, told = 0;
    for (unsigned i = 0; i < count; i++) {
        struct message message =
            call_draw_message(run, most < BATCH_BYTES - bytes ? most : BATCH_BYTES - bytes);
        bytes += message.size;
        messages[i] = call_carry(&message, &carried[i]);
        oracle_put(&run->after, &message);
        said(run, "    due %" PRIu64 " (%+" PRId64 "), id %u, %u bytes", message.due,
             (int64_t)(message.due - run->realtime), message.id, message.size);
    }
    if (async)
        r = hwt_delay_put_async(run->store, messages, count, call_note_durable, &told);
    else
        r = hwt_delay_put(run->store, messages, count);
    if (async && !run->process.dead && told != (r == 0)) {
        if (r == 0 && told == 1000)
            r = -EIO; /* it was told so */
        else
            wrong(run, "put_async: %d, told %d", r, told);
    }
    run->expected.put += r == 0 ? count : 0;
    if (!life_answer(run, async ? "put_async" : "put", r) && r != 0 && !life_may(run, r))
        wrong(run, "put is %d", r);
}

static void do_put(struct run *run, bool async)
{
    if (run->before.count < CALL_MESSAGES_MAX)
        put_batch(run, (unsigned)(1 + draw(run, draw(run, 2) ? 2 : BATCH_MAX)), ORACLE_PAYLOAD_MAX,
                  async);
}

static void do_flood(struct run *run)
{
    for (int i = 0; i < 60 && run->before.count < CALL_MESSAGES_MAX && !run->result->failed; i++)
        put_batch(run, 3, ORACLE_PAYLOAD_MAX, false);
}

/* ---- by identity ---- */

struct message call_draw_identity(struct run *run, const struct oracle *oracle)
{
    if (oracle->count > 0 && draw(run, 4) > 0)
        return oracle->list[draw(run, oracle->count)];
    return call_draw_message(run, 0);
}

static bool is_leased(const struct oracle *oracle, const struct message *identity)
{
    for (size_t i = 0; i < oracle->count; i++) {
        const struct message *message = &oracle->list[i];
        if (message->due == identity->due && message->id == identity->id && message->lease != 0 &&
            !message->superseded)
            return true;
    }
    return false;
}

static void cancel_one(struct run *run, struct message identity, bool replaces)
{
    static struct carried old_carried, new_carried;
    struct message message = call_draw_message(run, ORACLE_PAYLOAD_MAX);
    struct message *found = oracle_find(&run->after, identity.due, identity.id);
    bool leased = is_leased(&run->before, &identity), pending = found && !leased;
    const char *call = replaces ? "replace" : "cancel";
    hwt_delay_message old = call_carry(&identity, &old_carried),
                      new = call_carry(&message, &new_carried);
    int r;
    said(run, "    due %" PRIu64 ", id %u", identity.due, identity.id);
    if (pending)
        oracle_remove(&run->after, found);
    run->after.doubt += !found;
    if (replaces && !leased)
        oracle_put(&run->after, &message);
    if (replaces)
        r = hwt_delay_replace(run->store, old.due, old.id, old.id_size, &new);
    else
        r = hwt_delay_cancel(run->store, old.due, old.id, old.id_size);
    if (r == 0 && leased)
        wrong(run, "%s is 0, and it is leased", call);
    run->expected.put += r == 0 && replaces;
    run->expected.cancelled += r == 0;
    if (life_answer(run, call, r) || r == 0 || life_may(run, r))
        return;
    if (r != (leased ? -EBUSY : -ENOENT) || pending)
        wrong(run, "%s of one that is %s is %d", call,
              leased    ? "leased"
              : pending ? "pending"
                        : "not there",
              r);
}

static void do_cancel(struct run *run, bool replaces)
{
    cancel_one(run, call_draw_identity(run, &run->before), replaces);
}

/* Most of what is pending, so that slots get to be worth a rewriting. */
static void do_clear(struct run *run)
{
    uint64_t chosen = draw(run, UINT64_MAX), late = run->realtime + draw(run, HWT_MIN(2));
    for (unsigned n = 0; n < 40 && !run->result->failed && !run->process.dead; n++) {
        size_t i = 0;
        for (; i < run->before.count; i++) {
            const struct message *message = &run->before.list[i];
            if (message->due > late && message->lease == 0 && (message->value ^ chosen) % 8 > 0)
                break;
        }
        if (i == run->before.count)
            return;
        cancel_one(run, run->before.list[i], false);
    }
}

/* ---- taking ---- */

static uint64_t held_leases(const struct oracle *oracle)
{
    uint64_t held = 0;
    for (size_t i = 0; i < oracle->count; i++)
        held += oracle->list[i].lease != 0;
    return held;
}

/* Whether there may be no room for another lease, in number or in bytes. */
static bool may_be_full(const struct oracle *oracle)
{
    uint64_t bytes = 0, held = held_leases(oracle);
    for (size_t i = 0; i < oracle->count; i++)
        bytes += oracle->list[i].lease != 0 ? oracle->list[i].size + MESSAGE_MAX : 0;
    return held == RUN_LEASES_MAX ||
           (held > 0 && bytes + ORACLE_PAYLOAD_MAX + MESSAGE_MAX > RUN_MEMORY / 8);
}

static void expire(struct run *run)
{
    oracle_expire(&run->before, run->boottime);
    oracle_copy(&run->after, &run->before);
}

/* Whether the clock may, and must, be held to have leapt. */
static void check_held(struct run *run, bool held)
{
    hwt_delay_options options;
    run_options(&options);
    int64_t offset = (int64_t)(run->realtime - run->boottime), leap = (int64_t)options.clock_leap;
    bool may = offset - (int64_t)run->offset_low > leap;
    bool corrected = run->behind > 0 && run->realtime >= run->behind;
    bool must_be = offset - (int64_t)run->offset_high > leap && !corrected;
    if (corrected)
        run->behind = 0;
    if (held ? !may : must_be)
        wrong(run, "take: the clock is %s to have leapt", held ? "held" : "not held");
    if (!held && offset > (int64_t)run->offset_low)
        run->offset_low = (uint64_t)offset;
    if (!held && offset > (int64_t)run->offset_high)
        run->offset_high = (uint64_t)offset;
}

static void accept_taken(struct run *run, const hwt_delay_message *taken, int64_t n)
{
    hwt_delay_options options;
    run_options(&options);
    size_t at = 0;
    for (int64_t i = 0; i < n && !run->result->failed; i++) {
        at = oracle_due(&run->after, at, run->realtime);
        struct message *expected = at < run->after.count ? &run->after.list[at] : NULL;
        if (!expected || !message_is(&taken[i], expected) ||
            taken[i].expired != expected->expired) {
            wrong(run,
                  "take: number %" PRId64 " of %" PRId64 " is due %" PRIu64
                  ", id %u, not due %" PRIu64 ", id %u, or its counts differ",
                  i, n, taken[i].due, ((const unsigned char *)taken[i].id)[taken[i].id_size - 1],
                  expected ? expected->due : 0, expected ? expected->id : 0);
            return;
        }
        if (taken[i].lease == 0 || oracle_leased(&run->after, taken[i].lease))
            wrong(run, "take: lease %" PRIu64 " is no new one", taken[i].lease);
        uint32_t deliveries = taken[i].deliveries;
        if (deliveries == 0 || deliveries > expected->deliveries + 1 ||
            (deliveries <= expected->deliveries && !run->uncounted))
            wrong(run, "take: delivery number %u of what has had %u", deliveries,
                  expected->deliveries);
        expected->deliveries = deliveries;
        expected->lease = taken[i].lease;
        expected->lease_end = run->boottime + options.lease;
    }
}

/* It stands by: takes are refused until it leads. */
static void do_take_in_standby(struct run *run)
{
    const hwt_delay_message *taken;
    int64_t n = hwt_delay_take(run->store, 1, HWT_SEC(1), &taken);
    if (!life_answer(run, "take", n) && n != -EPERM && !life_may(run, n))
        wrong(run, "in standby, take is %" PRId64, n);
    if (run->standby && !run->result->failed && draw(run, 2)) {
        run->standby = false;
        life_answer(run, "lead", hwt_delay_lead(run->store));
    }
}

/* What is due before it is leased; where there is nothing to take, that is up to now. */
static void check_frontier(struct run *run, int64_t n, uint64_t frontier)
{
    for (size_t i = 0; i < run->after.count; i++) {
        const struct message *message = &run->after.list[i];
        if (message->lease == 0 && message->due < frontier)
            wrong(run, "take: the frontier is %" PRIu64 ", and due %" PRIu64 " is left", frontier,
                  message->due);
    }
    if (frontier > run->realtime + 1 || (n == 0 && frontier <= run->realtime))
        wrong(run, "take: is %" PRId64 ", and the frontier is %" PRIu64, n, frontier);
}

static void do_take(struct run *run)
{
    uint64_t frontier = 0;
    if (run->standby) {
        do_take_in_standby(run);
        return;
    }
    const hwt_delay_message *taken = NULL;
    size_t max = 1 + draw(run, draw(run, 2) ? 4 : 2 * RUN_LEASES_MAX);
    uint64_t held = held_leases(&run->before);
    bool full = may_be_full(&run->before);
    size_t due = oracle_due(&run->before, 0, run->realtime);
    run->taking = true;
    int64_t n =
        hwt_delay_take_frontier(run->store, max, draw(run, 2) ? 0 : HWT_SEC(1), &taken, &frontier);
    run->taking = false;
    if (!run->process.dead && n != -EIO)
        check_held(run, n == -ETIME);
    if (n > 0 && (uint64_t)n > RUN_LEASES_MAX - held)
        wrong(run, "take is %" PRId64 ", with %" PRIu64 " leased", n, held);
    if (n > 0)
        accept_taken(run, taken, n);
    if (n >= 0 && !run->process.dead)
        check_frontier(run, n, frontier);
    run->expected.taken += n > 0 ? (uint64_t)n : 0;
    hwt_delay_free(taken);
    bool went = life_answer(run, "take", n);
    if (n == 0 && went && due < run->before.count && held < RUN_LEASES_MAX)
        wrong(run, "take is 0, and due is %" PRIu64, run->before.list[due].due);
    if (!went && n < 0 && n != -ETIME && !life_may(run, n) && !(n == -ENOBUFS && full))
        wrong(run, "take is %" PRId64, n);
    if (n == -ETIME && !run->result->failed && draw(run, 4) > 0) {
        run->offset_low = run->offset_high = run->realtime - run->boottime;
        run->behind = 0;
        life_answer(run, "accept_clock", hwt_delay_accept_clock(run->store));
    }
}

void call_note_old(struct run *run, uint64_t lease)
{
    run->old[run->old_count++ % RUN_OLD_MAX] = lease;
}

uint64_t call_draw_lease(struct run *run)
{
    size_t some = run->before.count ? draw(run, run->before.count) : 0;
    if (draw(run, 12) == 0)
        return run->old_count ? run->old[draw(run, run->old_count) % RUN_OLD_MAX] : 12345678;
    for (size_t i = 0; i < run->before.count; i++) {
        uint64_t lease = run->before.list[(some + i) % run->before.count].lease;
        if (lease != 0)
            return lease;
    }
    return 87654321;
}

static void do_done(struct run *run)
{
    uint64_t leases[RUN_LEASES_MAX];
    size_t count = 1 + draw(run, draw(run, 2) ? 3 : RUN_LEASES_MAX);
    int64_t held = 0;
    run->partly = true;
    for (size_t i = 0; i < count; i++) {
        leases[i] = call_draw_lease(run);
        struct message *message = oracle_leased(&run->after, leases[i]);
        if (message) {
            oracle_remove(&run->after, message);
            held++;
        }
    }
    int64_t n = hwt_delay_done(run->store, leases, count);
    if (n >= 0 && n != held && !run->process.dead)
        wrong(run, "done of %zu is %" PRId64 ", not %" PRId64, count, n, held);
    run->expected.done += n > 0 ? (uint64_t)n : 0;
    for (size_t i = 0; i < count && n >= 0; i++)
        call_note_old(run, leases[i]);
    if (!life_answer(run, "done", n) && n < 0 && !life_may(run, n))
        wrong(run, "done is %" PRId64, n);
}

static void do_retry(struct run *run)
{
    uint64_t lease = call_draw_lease(run), due = call_draw_due(run);
    struct message *message = oracle_leased(&run->after, lease);
    bool held = message != NULL;
    const struct message *other = held ? oracle_find(&run->after, due, message->id) : NULL;
    bool taken = other && other != message;
    if (held) {
        struct message again = *message;
        oracle_remove(&run->after, message);
        again.due = due;
        again.retries++;
        again.expired = 0;
        again.lease = 0;
        again.superseded = false;
        oracle_put(&run->after, &again);
    }
    said(run, "    lease %" PRIu64 " to %" PRIu64, lease, due);
    int r = hwt_delay_retry(run->store, lease, due);
    if (r == 0)
        call_note_old(run, lease);
    if (r == 0 && !held)
        wrong(run, "retry is 0, and it is not leased");
    run->expected.done += r == 0;
    run->expected.retried += r == 0;
    if (!life_answer(run, "retry", r) && r < 0 && !life_may(run, r) && (held || r != -ENOENT) &&
        (!taken || r != -EEXIST))
        wrong(run, "retry is %d", r);
}

static void do_extend(struct run *run)
{
    static const uint64_t durations[] = { 0, HWT_MS(1), HWT_SEC(59), HWT_MIN(60) };
    uint64_t lease = call_draw_lease(run), duration = durations[draw(run, 4)];
    struct message *message = oracle_leased(&run->after, lease);
    bool held = message != NULL;
    if (held)
        message->lease_end = run->boottime + duration;
    int r = hwt_delay_extend(run->store, lease, duration);
    if (!life_answer(run, "extend", r) && !life_may(run, r) && r != (held ? 0 : -ENOENT))
        wrong(run, "extend is %d", r);
}

/* ---- the clock ---- */

static void do_advance(struct run *run)
{
    static const uint64_t steps[] = { HWT_MS(1),   HWT_SEC(1),     HWT_SEC(30),
                                      HWT_MIN(10), HWT_SEC(86400), HWT_SEC(86400) * 30 };
    uint64_t by = draw(run, steps[draw(run, 6)]);
    if (run->before.count > 0 && draw(run, 2)) {
        uint64_t due = run->before.list[draw(run, run->before.count)].due - draw(run, 2);
        if (due > run->realtime && due - run->realtime < HWT_SEC(86400) * 400)
            by = due - run->realtime;
    }
    run->realtime += by;
    run->boottime += by;
    said(run, "    by %" PRIu64 " to %" PRIu64, by, run->realtime);
}

static void do_leap(struct run *run)
{
    static const int64_t leaps[] = { -3600, -2, 1, 600, 3 * 3600, 400 * 86400 };
    run->realtime += (uint64_t)(leaps[draw(run, 6)] * (int64_t)HWT_SEC(1));
    int64_t offset = (int64_t)(run->realtime - run->boottime);
    hwt_delay_options options;
    run_options(&options);
    /* Any call may have seen it. */
    if (offset > (int64_t)run->offset_high &&
        offset - (int64_t)run->offset_high <= (int64_t)options.clock_leap)
        run->offset_high = (uint64_t)offset;
    said(run, "    to %" PRIu64, run->realtime);
}

/* ---- */

void call_make(struct run *run, const struct operation *operation)
{
    switch (operation->kind) {
    case OP_PUT:
    case OP_PUT_ASYNC:
        do_put(run, operation->kind == OP_PUT_ASYNC);
        break;
    case OP_CANCEL:
    case OP_REPLACE:
        expire(run);
        do_cancel(run, operation->kind == OP_REPLACE);
        break;
    case OP_TAKE:
        expire(run);
        do_take(run);
        break;
    case OP_DONE:
        expire(run);
        do_done(run);
        break;
    case OP_RETRY:
        expire(run);
        do_retry(run);
        break;
    case OP_EXTEND:
        expire(run);
        do_extend(run);
        break;
    case OP_ADVANCE:
        do_advance(run);
        break;
    case OP_LEAP:
        do_leap(run);
        break;
    case OP_CHECKPOINT:
        life_answer(run, "checkpoint", hwt_delay_checkpoint(run->store));
        break;
    case OP_VISIT:
        expire(run);
        look_visit(run);
        break;
    case OP_COPY:
        expire(run);
        look_copy(run);
        break;
    case OP_LOOK:
        expire(run);
        look_around(run);
        break;
    case OP_NONSENSE:
        look_nonsense(run);
        break;
    case OP_APPLY:
        expire(run);
        batch_make(run);
        break;
    case OP_CLEAR:
        expire(run);
        do_clear(run);
        break;
    default:
        do_flood(run);
        break;
    }
}
