/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Producers: put, cancel and replace, each a call with one step; and the thread that calls them
 * back. */

#include <errno.h>
#include <stdlib.h>

#include "hwt/delay/api/steps.h"
#include "hwt/delay/whole.h"

/* Later releases give them a meaning. */
static bool is_reserved(const hwt_delay_message *message)
{
    uint64_t any = message->reserved32;
    for (size_t i = 0; i < sizeof(message->reserved) / sizeof(message->reserved[0]); i++)
        any |= message->reserved[i];
    return any == 0;
}

bool hwt_delay_is_identity(uint64_t due, const void *id, size_t id_size)
{
    return due != HWT_NEVER && id && id_size > 0 && id_size <= HWT_DELAY_ID_MAX;
}

int hwt_delay_check_payload(const hwt_delay *store, const hwt_delay_message *message)
{
    if (message->payload_size > 0 && !message->payload)
        return -EINVAL;
    return message->payload_size > store->options.payload_max ? -EMSGSIZE : 0;
}

int hwt_delay_check_message(const hwt_delay *store, const hwt_delay_message *message)
{
    if (!message || !hwt_delay_is_identity(message->due, message->id, message->id_size) ||
        message->first_due == HWT_NEVER || message->retries > HWT_DELAY_RETRIES_MAX ||
        !is_reserved(message))
        return -EINVAL;
    return hwt_delay_check_payload(store, message);
}

/* -EINVAL comes before -EMSGSIZE. */
static int check_messages(const hwt_delay *store, const hwt_delay_message *messages, size_t count)
{
    int r = 0;
    if (!store || !messages || count == 0)
        return -EINVAL;
    if (store->read_only)
        return -EROFS;
    for (size_t i = 0; i < count; i++) {
        int its = hwt_delay_check_message(store, &messages[i]);
        if (its == -EINVAL)
            return its;
        r = its < 0 ? its : r;
    }
    return r;
}

static int put(hwt_delay *store, const hwt_delay_message *messages, size_t count,
               hwt_delay_durable durable, void *arg)
{
    struct hwt_delay_steps steps;
    int r = check_messages(store, messages, count);
    if (r < 0)
        return r;
    r = hwt_delay_steps_init(&steps, count);
    for (size_t i = 0; i < count && r == 0; i++)
        r = hwt_delay_step_put(&steps.list[i], &messages[i]);
    steps.no_wait = durable && (store->options.flags & HWT_DELAY_NO_WAIT);
    steps.durable = durable;
    steps.arg = arg;
    if (r == 0)
        r = hwt_delay_steps_apply(store, &steps);
    hwt_delay_steps_free(&steps);
    return r;
}

int hwt_delay_put(hwt_delay *store, const hwt_delay_message *messages, size_t count)
{
    return put(store, messages, count, NULL, NULL);
}

int hwt_delay_put_async(hwt_delay *store, const hwt_delay_message *messages, size_t count,
                        hwt_delay_durable durable, void *arg)
{
    return durable ? put(store, messages, count, durable, arg) : -EINVAL;
}

/* Cancels, and puts the message if there is one. */
static int cancel(hwt_delay *store, uint64_t due, const void *id, size_t id_size,
                  const hwt_delay_message *message)
{
    struct hwt_delay_steps steps;
    int r = hwt_delay_steps_init(&steps, 1);
    if (r == 0)
        r = hwt_delay_step_tombstone(steps.list, due, id, id_size);
    if (r == 0 && message)
        r = hwt_delay_step_put(steps.list, message);
    if (r == 0)
        r = hwt_delay_steps_apply(store, &steps);
    hwt_delay_steps_free(&steps);
    return r;
}

int hwt_delay_cancel(hwt_delay *store, uint64_t due, const void *id, size_t id_size)
{
    if (!store || !hwt_delay_is_identity(due, id, id_size))
        return -EINVAL;
    return store->read_only ? -EROFS : cancel(store, due, id, id_size, NULL);
}

int hwt_delay_replace(hwt_delay *store, uint64_t due, const void *id, size_t id_size,
                      const hwt_delay_message *message)
{
    int r = check_messages(store, message, 1);
    if (r == 0 && !hwt_delay_is_identity(due, id, id_size))
        r = -EINVAL;
    return r < 0 ? r : cancel(store, due, id, id_size, message);
}
