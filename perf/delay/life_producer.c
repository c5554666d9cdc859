/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A producer has each so-manieth message. It puts them in order, in batches of one to four, and
 * cancels each tenth a little later. A put that was begun when the process was killed is made
 * again, with the same due time and id: nobody knows whether it arrived. So is a cancel.
 */

#include "life.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BATCH 4
#define CANCEL_AFTER 50 /* own messages */

/* Half: 1 to 8 s; the others 10 s to 4 weeks, as many of each magnitude. */
static uint64_t delay_of(const struct run *run, uint64_t number)
{
    uint64_t random = hash_of(run, number, 1);
    double unit = (double)(random >> 11) * 0x1p-53;

    if (random & 1)
        return HWT_SEC(1) + (uint64_t)(unit * (double)HWT_SEC(7));
    return (uint64_t)(10 * pow(241920, unit) * (double)HWT_SEC(1));
}

static bool is_to_be_cancelled(const struct run *run, uint64_t number)
{
    return hash_of(run, number, 2) % 10 == 0;
}

static void cancel(struct run *run, uint64_t number)
{
    struct entry *e = &run->shared->entries[number];
    char id[ID_SIZE + 1];

    if (!is_to_be_cancelled(run, number) || e->put != GRANTED || e->cancel > ASKED)
        return;
    id_of(number, id);
    /* Where a kill came before the answer, "there is none" may be by that cancel. */
    bool again = e->cancel == ASKED;
    e->cancel = ASKED;
    int r = hwt_delay_cancel(run->store, e->due, id, ID_SIZE);
    if (r == 0 || (again && r == -ENOENT)) {
        e->cancel = GRANTED;
        if (e->deliveries == 0)
            count(&run->shared->cancelled, 1);
    } else if (r == -ENOENT || r == -EBUSY) {
        e->cancel = REFUSED;
    } else {
        die("cancel", r);
    }
}

struct batch {
    hwt_delay_message messages[BATCH];
    uint64_t numbers[BATCH];
    char ids[BATCH][ID_SIZE + 1];
    size_t count;
};

static void add(struct run *run, struct batch *batch, uint64_t number, unsigned char *payload)
{
    struct entry *e = &run->shared->entries[number];
    size_t at = batch->count++;

    if (e->due == 0)
        e->due = hwt_delay_now(run->store) + delay_of(run, number);
    id_of(number, batch->ids[at]);
    payload_of(run, number, payload);
    batch->numbers[at] = number;
    batch->messages[at] = (hwt_delay_message){
        .due = e->due,
        .id = batch->ids[at],
        .id_size = ID_SIZE,
        .payload = payload,
        .payload_size = run->options.payload,
    };
}

static void put(struct run *run, struct batch *batch)
{
    int r;

    for (size_t i = 0; i < batch->count; i++) {
        struct entry *e = &run->shared->entries[batch->numbers[i]];
        e->puts++;
        e->put = ASKED;
    }
    while ((r = hwt_delay_put(run->store, batch->messages, batch->count)) == -ENOSPC)
        nanosleep(&(struct timespec){ 0, 100000000 }, NULL);
    if (r < 0)
        die("put", r);
    for (size_t i = 0; i < batch->count; i++)
        run->shared->entries[batch->numbers[i]].put = GRANTED;
    count(&run->shared->acknowledged, batch->count);
    batch->count = 0;
}

void *producer_main(void *arg)
{
    struct producer *producer = arg;
    struct run *run = producer->run;
    uint64_t step = run->options.threads, number = producer->number;
    unsigned char *payloads = malloc(BATCH * run->options.payload + 1);
    struct batch batch = { .count = 0 };

    if (!payloads)
        die("a producer", -ENOMEM);
    for (; number < run->options.messages; number += step) {
        if (run->shared->entries[number].put != GRANTED) {
            add(run, &batch, number, payloads + batch.count * run->options.payload);
            if (batch.count > hash_of(run, number, 3) % BATCH)
                put(run, &batch);
        }
        if (number >= CANCEL_AFTER * step)
            cancel(run, number - CANCEL_AFTER * step);
    }
    if (batch.count > 0)
        put(run, &batch);
    for (uint64_t i = 0; i < CANCEL_AFTER; i++, number += step)
        if (number >= CANCEL_AFTER * step && number - CANCEL_AFTER * step < run->options.messages)
            cancel(run, number - CANCEL_AFTER * step);
    free(payloads);
    return NULL;
}
