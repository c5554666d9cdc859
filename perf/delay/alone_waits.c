/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * How long a put, a take or a cancel waits for a call that goes through all that is pending: a checkpoint,
 * a visit, a search for a ticket, a copy, a drop. Another thread makes the short calls flat out. None waits
 * for the disk: the puts are those of HWT_DELAY_NO_WAIT, which are refused if the lock is not free soon, and
 * the refused ones are counted. The longest call may have been preempted, so the longest of the calls during
 * which the thread was not preempted stands beside it.
 */

#include "alone.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { BATCH = 1000, PAYLOAD = 200, LEASED = 60000, SEARCHES = 2000 };

static hwt_delay *store;
static uint64_t pending, last_mark, first_due;
static const unsigned char payload[PAYLOAD];

/* ---- the short calls ---- */

static atomic_bool ending;
/* Of each kind of call. */
enum kind { PUT, TAKE, CANCEL, KINDS };
static const char *const kinds[KINDS] = { "put", "take", "cancel" };
static uint64_t longest[KINDS], kept[KINDS], refused;
static _Atomic uint64_t calls;

static void ignore(int result, void *arg)
{
    (void)result;
    (void)arg;
}

static uint64_t preemptions(void)
{
    struct rusage its;
    getrusage(RUSAGE_THREAD, &its);
    return (uint64_t)its.ru_nivcsw;
}

static void note(enum kind kind, uint64_t start, uint64_t preempted)
{
    uint64_t took = now_ns() - start;
    calls++;
    longest[kind] = took > longest[kind] ? took : longest[kind];
    if (took > kept[kind] && preemptions() == preempted)
        kept[kind] = took;
}

/* What it puts it cancels. Nothing is due that is not leased. */
static void call_each(uint64_t id)
{
    const uint64_t due = first_due + HWT_SEC(86400);
    const hwt_delay_message one = { .due = due, .id = &id, .id_size = sizeof(id) };
    hwt_delay_change cancel = {
        .op = HWT_DELAY_OP_CANCEL, .due = due, .id = &id, .id_size = sizeof(id)
    };
    hwt_delay_batch batch = HWT_DELAY_BATCH_INIT;
    const hwt_delay_message *taken;
    batch.durable = ignore;

    uint64_t preempted = preemptions(), start = now_ns();
    int r = hwt_delay_put_async(store, &one, 1, ignore, NULL);
    note(PUT, start, preempted);
    check("put", r == -EAGAIN ? 0 : r);
    refused += r == -EAGAIN;
    preempted = preemptions();
    start = now_ns();
    check("take", hwt_delay_take(store, 1, 0, &taken));
    note(TAKE, start, preempted);
    preempted = preemptions();
    start = now_ns();
    r = hwt_delay_apply(store, &cancel, 1, &batch);
    note(CANCEL, start, preempted);
    check("cancel", r == -ENOENT ? 0 : r);
}

static void *make_calls(void *arg)
{
    (void)arg;
    for (uint64_t id = 0; !ending; id++) {
        call_each(id);
        nanosleep(&(struct timespec){ .tv_nsec = (long)HWT_US(20) }, NULL);
    }
    return NULL;
}

/* ---- the long ones ---- */

static int look(const hwt_delay_message *message, void *data)
{
    (void)message;
    ++*(uint64_t *)data;
    return 0;
}

static void visit(void)
{
    uint64_t seen = 0;
    check("visit", hwt_delay_visit(store, 0, HWT_NEVER, look, &seen));
    check("visit", seen < pending ? -ENOENT : 0);
}

static void search(void)
{
    for (uint64_t i = 0; i < SEARCHES; i++) {
        const hwt_delay_message absent = { .due = first_due + i % 997 * HWT_SEC(60),
                                           .id = "none",
                                           .id_size = 4 };
        char ticket[HWT_DELAY_TICKET_MAX];
        const hwt_delay_message *found;
        check("ticket", hwt_delay_ticket(&absent, ticket, sizeof(ticket)));
        check("look_up", hwt_delay_look_up(store, ticket, &found) == -ENOENT ? 0 : -EINVAL);
    }
}

static void make_checkpoint(void)
{
    check("checkpoint", hwt_delay_checkpoint(store));
}

static void copy(void)
{
    char path[sizeof(directory) + 32];
    snprintf(path, sizeof(path), "%s.copy", directory);
    check("copy", hwt_delay_copy(store, path));
    snprintf(path, sizeof(path), "rm -rf '%s.copy'", directory);
    check(path, system(path) != 0 ? -EIO : 0);
}

/* All but what the other thread puts. */
static void drop(void)
{
    hwt_delay_change all = { .op = HWT_DELAY_OP_DROP,
                             .due = first_due + HWT_SEC(86000),
                             .mark = last_mark };
    check("drop", hwt_delay_apply(store, &all, 1, NULL));
}

static void beside(const char *name, void (*long_call)(void))
{
    pthread_t thread;
    memset(longest, 0, sizeof(longest));
    memset(kept, 0, sizeof(kept));
    calls = refused = 0;
    ending = false;
    check("thread", -pthread_create(&thread, NULL, make_calls, NULL));
    while (calls == 0)
        nanosleep(&(struct timespec){ .tv_nsec = (long)HWT_US(20) }, NULL);
    uint64_t start = now_ns();
    long_call();
    uint64_t took = now_ns() - start;
    ending = true;
    pthread_join(thread, NULL);
    for (int i = 0; i < KINDS; i++)
        printf("waits_%s_%s_us %.0f\nwaits_%s_%s_kept_us %.0f\n", name, kinds[i],
               (double)longest[i] / 1e3, name, kinds[i], (double)kept[i] / 1e3);
    printf("waits_%s_calls %.0f\nwaits_%s_refused %.0f\nwaits_%s_took_ms %.0f\n", name,
           (double)calls, name, (double)refused, name, (double)took / 1e6);
}

/* ---- the beginning ---- */

static void put_all(uint64_t count, uint64_t due)
{
    static hwt_delay_change changes[BATCH];
    static hwt_delay_message messages[BATCH];
    static uint64_t ids[BATCH];
    for (uint64_t i = 0; i < count; i += BATCH) {
        hwt_delay_batch batch = HWT_DELAY_BATCH_INIT;
        for (uint64_t j = 0; j < BATCH; j++) {
            ids[j] = i + j;
            messages[j] = (hwt_delay_message){ .due = due + (i + j) % 997 * HWT_SEC(60),
                                               .id = &ids[j],
                                               .id_size = sizeof(ids[j]),
                                               .payload = payload,
                                               .payload_size = PAYLOAD };
            changes[j] = (hwt_delay_change){ .op = HWT_DELAY_OP_PUT, .message = &messages[j] };
        }
        check("put", hwt_delay_apply(store, changes, BATCH, &batch));
        last_mark = batch.mark;
    }
}

static void lease_all(void)
{
    for (uint64_t left = LEASED; left > 0;) {
        const hwt_delay_message *taken;
        int64_t n = check("take", hwt_delay_take(store, (size_t)left, HWT_SEC(10), &taken));
        check("take", n == 0 ? -ETIMEDOUT : 0);
        hwt_delay_free(taken);
        left -= (uint64_t)n;
    }
}

void measure_waits(bool quick)
{
    hwt_delay_options options = HWT_DELAY_OPTIONS_INIT;
    options.flags = HWT_DELAY_CREATE | HWT_DELAY_NO_WAIT;
    options.memory = UINT64_C(1) << 30;
    options.lease = HWT_SEC(3600);
    check(directory, hwt_delay_open(directory, &options, &store));
    pending = quick ? 100000 : 1000000;
    put_all(LEASED, 0); /* its minutes are of 1970 */
    lease_all();
    first_due = hwt_delay_now(store) + HWT_SEC(7200);
    put_all(pending, first_due);
    beside("visit_of_memory", visit);
    beside("checkpoint", make_checkpoint);
    beside("visit", visit);
    beside("search", search);
    beside("copy", copy);
    put_all(pending, first_due + HWT_SEC(30)); /* memory has as many as slots */
    beside("drop", drop);
    check("close", hwt_delay_close(store));
}
