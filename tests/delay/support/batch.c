/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Batches of any changes, with and without a note, made beside the oracle. */

#include "tests/delay/support/run.h"

#include <errno.h>
#include <string.h>

enum { CHANGES_MAX = 12, BYTES_MAX = 10500, EACH = 2 * (64 + HWT_DELAY_ID_MAX) };

struct batch {
    struct run *run;
    hwt_delay_change changes[CHANGES_MAX];
    hwt_delay_message messages[CHANGES_MAX];
    struct carried carried[CHANGES_MAX], identities[CHANGES_MAX];
    char tickets[CHANGES_MAX][HWT_DELAY_TICKET_MAX];
    int expected[CHANGES_MAX]; /* what has to become of each; 1: 0 or a refusal */
    unsigned count;
    uint32_t bytes;
    int refused; /* the first refusal that has to be, and is of the whole */
    bool may;    /* there may be one that is of the whole */
    hwt_delay_stats made;
    bool has_note;
    struct message drops[CHANGES_MAX]; /* due and order alone */
    unsigned drop_count;
    unsigned char note[HWT_DELAY_NOTE_MAX];
};

/* The last change was drawn: what is to become of it. 0: the oracle has it. */
static bool judge(struct batch *batch, int expected, bool uncertain)
{
    hwt_delay_change *change = &batch->changes[batch->count];
    if (!uncertain && draw(batch->run, 2))
        change->flags = HWT_DELAY_MAY_FAIL;
    batch->expected[batch->count++] = uncertain ? 1 : expected;
    batch->may = batch->may || uncertain;
    if (expected < 0 && change->flags == 0 && batch->refused == 0)
        batch->refused = expected;
    return expected == 0;
}

static bool has_room(const struct batch *batch, uint32_t size)
{
    return batch->bytes + size + EACH <= BYTES_MAX;
}

static struct message new_message(struct batch *batch)
{
    uint32_t left = BYTES_MAX - EACH - batch->bytes;
    struct message message =
        call_draw_message(batch->run, left < ORACLE_PAYLOAD_MAX ? left : ORACLE_PAYLOAD_MAX);
    batch->bytes += message.size + EACH;
    batch->messages[batch->count] = call_carry(&message, &batch->carried[batch->count]);
    batch->changes[batch->count].message = &batch->messages[batch->count];
    return message;
}

static void add_put(struct batch *batch)
{
    batch->changes[batch->count].op = HWT_DELAY_OP_PUT;
    struct message message = new_message(batch);
    judge(batch, 0, false);
    oracle_put(&batch->run->after, &message);
    batch->made.put++;
}

/* One that is not there may be taken for one that is, in a slot. */
static void add_cancel(struct batch *batch, bool replaces)
{
    struct oracle *after = &batch->run->after;
    struct message identity = call_draw_identity(batch->run, after), message = { 0 };
    struct message *found = oracle_find(after, identity.due, identity.id);
    hwt_delay_change *change = &batch->changes[batch->count];
    const hwt_delay_message old = call_carry(&identity, &batch->identities[batch->count]);
    change->op = replaces ? HWT_DELAY_OP_REPLACE : HWT_DELAY_OP_CANCEL;
    change->due = old.due;
    change->id = old.id;
    change->id_size = old.id_size;
    if (replaces)
        message = new_message(batch);
    else
        batch->bytes += EACH;
    if (!judge(batch, found && found->lease != 0 ? -EBUSY : 0, !found))
        return;
    if (found)
        oracle_remove(after, found);
    after->doubt += !found;
    if (replaces)
        oracle_put(after, &message);
    batch->made.put += replaces;
    batch->made.cancelled++;
}

static void add_done(struct batch *batch)
{
    struct oracle *after = &batch->run->after;
    hwt_delay_change *change = &batch->changes[batch->count];
    change->op = HWT_DELAY_OP_DONE;
    change->lease = call_draw_lease(batch->run);
    batch->bytes += EACH;
    struct message *message = oracle_leased(after, change->lease);
    if (!judge(batch, message ? 0 : -ENOENT, false))
        return;
    oracle_remove(after, message);
    batch->made.done++;
}

/* One that another message has to make way for may be refused: a slot is not read for that. */
static void add_retry(struct batch *batch)
{
    struct oracle *after = &batch->run->after;
    hwt_delay_change *change = &batch->changes[batch->count];
    change->op = HWT_DELAY_OP_RETRY;
    change->lease = call_draw_lease(batch->run);
    change->due = call_draw_due(batch->run);
    struct message *message = oracle_leased(after, change->lease), again = { 0 };
    /* One that a change before this ends is given room, too, before it is refused. */
    const struct message *old = oracle_leased(&batch->run->before, change->lease);
    if (old && !has_room(batch, old->size))
        return;
    batch->bytes += old ? old->size : 0;
    again = message ? *message : again;
    if (draw(batch->run, 2)) {
        const struct message new = new_message(batch);
        again.value = new.value;
        again.size = new.size;
    } else {
        change->message = NULL;
        batch->bytes += EACH;
    }
    const struct message *other = message ? oracle_find(after, change->due, message->id) : NULL;
    if (!judge(batch, message ? 0 : -ENOENT, other && other != message))
        return;
    oracle_remove(after, message);
    again.due = change->due;
    again.retries++;
    again.expired = 0;
    again.lease = 0;
    again.superseded = false;
    oracle_put(after, &again);
    batch->made.done++;
    batch->made.retried++;
}

static size_t count_of_ticket(const struct oracle *oracle, const struct message *message)
{
    size_t count = 0;
    for (size_t i = 0; i < oracle->count; i++)
        count += oracle->list[i].first == message->first && oracle->list[i].id == message->id;
    return count;
}

/* A ticket names what is there before the batch: one that no change before this has touched. */
static struct message *draw_ticket(struct batch *batch)
{
    struct oracle *before = &batch->run->before, *after = &batch->run->after;
    if (before->count == 0)
        return NULL;
    const struct message *old = &before->list[draw(batch->run, before->count)];
    struct message *message = oracle_find(after, old->due, old->id);
    if (!message || message->order != old->order || message->lease != old->lease ||
        count_of_ticket(before, old) != 1 || count_of_ticket(after, old) != 1)
        return NULL;
    return message;
}

static void add_ticket(struct batch *batch, bool moves)
{
    struct oracle *after = &batch->run->after;
    struct message *message = draw_ticket(batch), again;
    hwt_delay_change *change = &batch->changes[batch->count];
    if (!message || !has_room(batch, message->size))
        return;
    hwt_delay_message its = call_carry(message, &batch->identities[batch->count]);
    its.first_due = message->first;
    hwt_delay_ticket(&its, batch->tickets[batch->count], HWT_DELAY_TICKET_MAX);
    change->ticket = batch->tickets[batch->count];
    change->op = moves ? HWT_DELAY_OP_MOVE : HWT_DELAY_OP_CANCEL;
    change->due = moves ? call_draw_due(batch->run) : 0;
    batch->bytes += message->size + EACH;
    const struct message *other = moves ? oracle_find(after, change->due, message->id) : NULL;
    if (!judge(batch, message->lease != 0 ? -EBUSY : 0,
               message->lease == 0 && other && other != message))
        return;
    again = *message;
    oracle_remove(after, message);
    batch->made.cancelled += !moves;
    if (!moves)
        return;
    again.due = change->due;
    again.expired = 0;
    oracle_put(after, &again);
}

/* What was put up to a mark that is known, and is due by some time. */
static void add_drop(struct batch *batch)
{
    struct run *run = batch->run;
    hwt_delay_change *change = &batch->changes[batch->count];
    change->op = HWT_DELAY_OP_DROP;
    change->due = draw(run, 3) && run->after.count > 0
                      ? run->after.list[draw(run, run->after.count)].due
                      : call_draw_due(run);
    const struct marked *marked = &run->marks[draw(run, RUN_MARKS_MAX)];
    change->mark = marked->mark;
    batch->drops[batch->drop_count].due = change->due;
    batch->drops[batch->drop_count++].order = marked->order;
    batch->bytes += EACH;
    judge(batch, 0, false);
}

/* Behind all other changes. */
static void make_drops(struct batch *batch)
{
    struct oracle *after = &batch->run->after;
    for (unsigned d = 0; d < batch->drop_count; d++) {
        for (size_t i = after->count; i-- > 0;) {
            if (after->list[i].due <= batch->drops[d].due &&
                after->list[i].order <= batch->drops[d].order) {
                oracle_remove(after, &after->list[i]);
                after->doubt++; /* a slot may have it, and it may count on */
            }
        }
    }
}

static void add_note(struct batch *batch, hwt_delay_batch *its)
{
    static const uint32_t sizes[] = { 1, 9, 200, HWT_DELAY_NOTE_MAX + 1 };
    struct oracle *after = &batch->run->after;
    after->note = draw(batch->run, UINT64_MAX);
    after->note_size = (uint32_t)draw(batch->run, sizes[draw(batch->run, 4)]);
    after->mark = 0;
    payload_bytes(after->note, after->note_size, batch->note);
    its->note = batch->note;
    its->note_size = after->note_size;
    batch->has_note = true;
}

static void draw_changes(struct batch *batch)
{
    unsigned wanted = (unsigned)draw(batch->run, CHANGES_MAX + 1);
    for (unsigned i = 0; i < wanted && has_room(batch, 0); i++) {
        memset(&batch->changes[batch->count], 0, sizeof(batch->changes[0]));
        switch (draw(batch->run, 8)) {
        case 0:
            add_put(batch);
            break;
        case 1:
        case 2:
            add_cancel(batch, draw(batch->run, 2));
            break;
        case 3:
            add_done(batch);
            break;
        case 4:
            if (draw(batch->run, 3) == 0)
                add_drop(batch);
            break;
        case 5:
        case 6:
            add_ticket(batch, draw(batch->run, 2));
            break;
        default:
            add_retry(batch);
            break;
        }
    }
    make_drops(batch);
}

static void check_results(struct batch *batch, int r)
{
    int refusal = 0;
    for (unsigned i = 0; i < batch->count; i++) {
        int result = batch->changes[i].result, expected = batch->expected[i];
        bool refused = result == -ENOENT || result == -EBUSY || result == -EEXIST;
        bool fits = expected == 1   ? result == 0 || refused
                    : expected == 0 ? result == 0
                                    : result == expected;
        if (r < 0 && refusal < 0) /* those behind it may have needed what it would have made */
            fits = refused || result == -ECANCELED;
        else if (r < 0)
            fits = refused ? expected == 1 || result == expected : result == -ECANCELED;
        if (!fits)
            wrong(batch->run, "apply is %d: change %u is %d, not %d", r, i, result, expected);
        if (refused && batch->changes[i].flags == 0 && refusal == 0)
            refusal = result;
    }
    if (r != refusal)
        wrong(batch->run, "apply is %d, and the first refusal is %d", r, refusal);
}

static void accept(struct batch *batch, uint64_t mark)
{
    struct run *run = batch->run;
    run->expected.put += batch->made.put;
    run->expected.cancelled += batch->made.cancelled;
    run->expected.done += batch->made.done;
    run->expected.retried += batch->made.retried;
    if (mark < run->mark)
        wrong(run, "apply: a mark of %" PRIu64 " behind %" PRIu64, mark, run->mark);
    run->mark = mark;
    run->marks[draw(run, RUN_MARKS_MAX)] = (struct marked){ mark, run->after.next_order };
    if (batch->has_note)
        run->after.mark = mark;
    for (unsigned i = 0; i < batch->count; i++) {
        if (batch->changes[i].lease != 0 && batch->changes[i].result == 0)
            call_note_old(run, batch->changes[i].lease);
    }
}

void batch_make(struct run *run)
{
    static struct batch batch;
    hwt_delay_batch its = HWT_DELAY_BATCH_INIT;
    int told = 0;
    memset(&batch, 0, sizeof(batch));
    batch.run = run;
    if (run->before.count < CALL_MESSAGES_MAX)
        draw_changes(&batch);
    if (batch.count == 0 || draw(run, 3) == 0)
        add_note(&batch, &its);
    if (draw(run, 2)) {
        its.durable = call_note_durable;
        its.arg = &told;
        its.flags = draw(run, 2) ? HWT_DELAY_NO_WAIT : 0;
    }
    said(run, "    %u changes%s", batch.count, batch.has_note ? ", a note" : "");
    int r = hwt_delay_apply(run->store, batch.changes, batch.count, &its);
    bool dead = run->process.dead;
    if (!dead && its.durable && told != (r == 0) && !(r == 0 && told == 1000))
        wrong(run, "apply is %d, told %d", r, told);
    r = r == 0 && told == 1000 ? -EIO : r;
    bool refused = r == -ENOENT || r == -EBUSY || r == -EEXIST;
    if (!dead && (r == 0 || refused))
        check_results(&batch, r);
    if (!dead && ((r == 0 && batch.refused < 0) || (refused && batch.refused == 0 && !batch.may)))
        wrong(run, "apply is %d, not %d", r, batch.refused);
    if (!dead && r == 0)
        accept(&batch, its.mark);
    if (!life_answer(run, "apply", r) && r < 0 && !refused && !life_may(run, r))
        wrong(run, "apply is %d", r);
}
