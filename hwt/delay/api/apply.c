/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The call for all changes. Its arguments become steps, and the steps' results become its
 * answers. */

#include <errno.h>

#include "hwt/delay/api/steps.h"
#include "hwt/delay/whole.h"

static int check_change(const hwt_delay *store, const hwt_delay_change *change)
{
    const hwt_delay_message *message = change->message;
    uint64_t any = change->reserved[0] | change->reserved[1] | change->reserved32 |
                   (change->flags & ~HWT_DELAY_MAY_FAIL);
    if (any != 0)
        return -EINVAL;
    switch (change->op) {
    case HWT_DELAY_OP_PUT:
        return hwt_delay_check_message(store, message);
    case HWT_DELAY_OP_REPLACE:
    case HWT_DELAY_OP_CANCEL:
        if (!change->ticket && !hwt_delay_is_identity(change->due, change->id, change->id_size))
            return -EINVAL;
        return change->op == HWT_DELAY_OP_CANCEL ? 0 : hwt_delay_check_message(store, message);
    case HWT_DELAY_OP_DONE:
    case HWT_DELAY_OP_DROP:
        return 0;
    case HWT_DELAY_OP_MOVE:
        return change->ticket && change->due != HWT_NEVER ? 0 : -EINVAL;
    case HWT_DELAY_OP_RETRY:
        if (change->due == HWT_NEVER)
            return -EINVAL;
        return message ? hwt_delay_check_payload(store, message) : 0;
    default:
        return -EINVAL;
    }
}

static int check_batch(const hwt_delay *store, const hwt_delay_change *changes, size_t count,
                       const hwt_delay_batch *batch)
{
    if (!store || (count > 0 && !changes))
        return -EINVAL;
    if (store->read_only)
        return -EROFS;
    if ((count == 0 && !batch->note) || batch->reserved != 0 ||
        (batch->flags & ~HWT_DELAY_NO_WAIT) != 0 || (batch->flags != 0 && !batch->durable))
        return -EINVAL;
    return batch->note_size > HWT_DELAY_NOTE_MAX ? -EMSGSIZE : 0;
}

/* Which ones it is that cannot be. */
static int check_changes(const hwt_delay *store, hwt_delay_change *changes, size_t count)
{
    int first = 0;
    for (size_t i = 0; i < count; i++) {
        int r = check_change(store, &changes[i]);
        changes[i].result = r < 0 ? r : -ECANCELED;
        first = first == 0 ? r : first;
    }
    return first;
}

static int make_drop_of(struct hwt_delay_step *step, const hwt_delay_change *change)
{
    const hwt_delay_message message = { .due = change->due };
    step->drop = hwt_delay_record_new(HWT_DELAY_DROP, &message);
    if (!step->drop)
        return -ENOMEM;
    step->drop->key.sequence = change->mark;
    return 0;
}

static int make_step_of(struct hwt_delay_step *step, const hwt_delay_change *change)
{
    int r = 0;
    step->op = (uint8_t)change->op;
    step->may_fail = (change->flags & HWT_DELAY_MAY_FAIL) != 0;
    if (change->op == HWT_DELAY_OP_DONE || change->op == HWT_DELAY_OP_RETRY) {
        hwt_delay_step_lease(step, step->op, change->lease);
        step->due = change->due;
        step->message = change->op == HWT_DELAY_OP_RETRY ? change->message : NULL;
        return 0;
    }
    if (change->op == HWT_DELAY_OP_DROP)
        return make_drop_of(step, change);
    step->due = change->due;
    if (change->op != HWT_DELAY_OP_PUT)
        r = change->ticket
                ? hwt_delay_ticket_read(change->ticket, &step->found)
                : hwt_delay_step_tombstone(step, change->due, change->id, change->id_size);
    if (r == 0 && change->op != HWT_DELAY_OP_CANCEL && change->op != HWT_DELAY_OP_MOVE)
        r = hwt_delay_step_put(step, change->message);
    return r;
}

static int make_note_of(struct hwt_delay_steps *steps, const hwt_delay_batch *batch)
{
    const hwt_delay_message note = { .payload = batch->note, .payload_size = batch->note_size };
    if (!batch->note)
        return 0;
    steps->note = hwt_delay_record_new(HWT_DELAY_NOTE, &note);
    return steps->note ? 0 : -ENOMEM;
}

static int apply(hwt_delay *store, hwt_delay_change *changes, size_t count, hwt_delay_batch *batch)
{
    struct hwt_delay_steps steps;
    int r = hwt_delay_steps_init(&steps, count);
    if (r == 0)
        r = make_note_of(&steps, batch);
    for (size_t i = 0; i < count && r == 0; i++)
        r = make_step_of(&steps.list[i], &changes[i]);
    if (r == 0) {
        steps.no_wait = (batch->flags & HWT_DELAY_NO_WAIT) != 0;
        steps.durable = batch->durable;
        steps.arg = batch->arg;
        r = hwt_delay_steps_apply(store, &steps);
        for (size_t i = 0; i < count; i++) {
            int result = steps.list[i].result;
            changes[i].result = r < 0 && result == 0 ? -ECANCELED : result;
        }
        if (r == 0)
            batch->mark = steps.mark;
    }
    hwt_delay_steps_free(&steps);
    return r;
}

int hwt_delay_apply(hwt_delay *store, hwt_delay_change *changes, size_t count,
                    hwt_delay_batch *batch)
{
    hwt_delay_batch own = HWT_DELAY_BATCH_INIT;
    int r = batch ? hwt_delay_batch_read(batch, &own) : 0;
    if (r == 0)
        r = check_batch(store, changes, count, &own);
    if (r == 0)
        r = check_changes(store, changes, count);
    if (r == 0)
        r = apply(store, changes, count, &own);
    if (r == 0 && batch)
        batch->mark = own.mark;
    return r;
}
