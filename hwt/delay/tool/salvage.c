/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Puts the messages of a damaged store that can be read into a new one, in batches. The damaged one
 * keeps all that it has; the library puts copies of the damaged bytes aside in it.
 */

#include "hwt/delay/tool/tool.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BATCH_MESSAGES 1000
#define BATCH_BYTES (1 << 20)

struct salvage {
    hwt_delay *to;
    hwt_delay_message messages[BATCH_MESSAGES];
    size_t count, size; /* of the batch; bytes of ids and payloads */
    uint64_t put;
};

/* Puts the batch, and frees the copies in it. */
static int put_batch(struct salvage *salvage)
{
    int r = salvage->count > 0 ? hwt_delay_put(salvage->to, salvage->messages, salvage->count) : 0;

    for (size_t i = 0; i < salvage->count; i++)
        free((void *)salvage->messages[i].id);
    if (r == 0)
        salvage->put += salvage->count;
    salvage->count = salvage->size = 0;
    return r;
}

/* The message's bytes are there only now, so id and payload are copied, one behind the other. */
static int add_copy(const hwt_delay_message *message, void *data)
{
    struct salvage *salvage = data;
    char *copy = malloc(message->id_size + message->payload_size);
    hwt_delay_message *own = &salvage->messages[salvage->count];

    if (!copy)
        return -ENOMEM;
    memcpy(copy, message->id, message->id_size);
    if (message->payload_size > 0)
        memcpy(copy + message->id_size, message->payload, message->payload_size);
    *own = *message;
    own->id = copy;
    own->payload = copy + message->id_size;
    salvage->count++;
    salvage->size += message->id_size + message->payload_size;
    if (salvage->count < BATCH_MESSAGES && salvage->size < BATCH_BYTES)
        return 0;
    return put_batch(salvage);
}

static int note_longest(const hwt_delay_message *message, void *longest)
{
    uint64_t *size = longest;

    if (message->payload_size > *size)
        *size = message->payload_size;
    return 0;
}

int command_salvage(const struct request *request)
{
    static struct salvage salvage;
    const char *new = request->operands[0];
    hwt_delay *from = open_store(request->directory, HWT_DELAY_SALVAGE);
    hwt_delay_stats stats = HWT_DELAY_STATS_INIT;

    uint64_t longest = 0;
    int r = hwt_delay_visit(from, 0, HWT_NEVER, note_longest, &longest);
    salvage.to = open_store_for(new, HWT_DELAY_CREATE, longest);
    if (r == 0)
        r = hwt_delay_visit(from, 0, HWT_NEVER, add_copy, &salvage);
    if (r == 0)
        r = put_batch(&salvage);
    if (r == 0)
        r = hwt_delay_get_stats(from, &stats);
    int closed = hwt_delay_close(salvage.to);
    if (r == 0)
        r = closed;
    hwt_delay_close(from);
    if (r < 0)
        return fail("%s to %s: %s; remove %s and try again", request->directory, new,
                    hwt_delay_strerror(r), new);
    printf("%" PRIu64 " damaged blocks, %" PRIu64 " bytes, put aside in %s\n", stats.salvaged,
           stats.salvaged_bytes, request->directory);
    printf("%" PRIu64 " messages put into %s\n", salvage.put, new);
    return finish_output();
}
