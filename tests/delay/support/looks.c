/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The calls of a running program that change nothing. */

#include "tests/delay/support/run.h"

#include <errno.h>

struct look {
    struct run *run;
    uint64_t to;
    size_t at;
};

static int look_one(const hwt_delay_message *message, void *arg)
{
    struct look *look = arg;
    const struct oracle *oracle = &look->run->before;
    /* One that is leased, and has been put anew, may be seen or not. */
    while (look->at < oracle->count && oracle->list[look->at].superseded &&
           message->lease != oracle->list[look->at].lease)
        look->at++;
    const struct message *expected = &oracle->list[look->at];
    /* A lease that has ended may still be shown until the next take. */
    if (look->at >= oracle->count || expected->due >= look->to || !message_is(message, expected) ||
        (message->lease != expected->lease && expected->expired == 0)) {
        wrong(look->run, "visit: due %" PRIu64 ", id %u is not expected", message->due,
              ((const unsigned char *)message->id)[message->id_size - 1]);
        return 17;
    }
    if (message->deliveries != expected->deliveries && !look->run->uncounted)
        wrong(look->run, "visit: %u deliveries, not %u", message->deliveries, expected->deliveries);
    look->at++;
    return 0;
}

void look_visit(struct run *run)
{
    uint64_t from = draw(run, 2) ? 0 : call_draw_due(run),
             to = draw(run, 2) ? HWT_NEVER : call_draw_due(run);
    struct look look = { .run = run, .to = to };
    while (look.at < run->before.count && run->before.list[look.at].due < from)
        look.at++;
    int r = hwt_delay_visit(run->store, from, to, look_one, &look);
    while (look.at < run->before.count && run->before.list[look.at].superseded)
        look.at++;
    if (r == 0 && from < to && look.at < run->before.count && run->before.list[look.at].due < to)
        wrong(run, "visit: due %" PRIu64 " is missing", run->before.list[look.at].due);
    if (!life_answer(run, "visit", r) && r != 0 && !life_may(run, r))
        wrong(run, "visit is %d", r);
}

void look_copy(struct run *run)
{
    struct disk *copied = disk_new();
    process_start(&run->copying, copied, &run->realtime, &run->boottime);
    int r = hwt_delay_copy(run->store, "copy");
    bool named = copied->made && disk_find(copied, "store");
    if (named != (r == 0) && !run->process.dead)
        wrong(run, "copy is %d, and there is %s store", r, named ? "a" : "no");
    if (r == 0)
        image_check_copy(run, copied);
    process_end(&run->copying);
    disk_free(copied);
    if (!life_answer(run, "copy", r) && r < 0 && !life_may(run, r))
        wrong(run, "copy is %d", r);
}

void look_around(struct run *run)
{
    const struct oracle *oracle = &run->before;
    uint64_t next = hwt_delay_next(run->store), earliest = HWT_NEVER;
    hwt_delay_stats stats = HWT_DELAY_STATS_INIT;
    int r = hwt_delay_get_stats(run->store, &stats);
    for (size_t i = 0; i < oracle->count; i++) {
        const struct message *message = &oracle->list[i];
        uint64_t at = message->lease == 0 ? message->due
                                          : run->realtime + (message->lease_end - run->boottime);
        earliest = at < earliest ? at : earliest;
    }
    if (next > earliest && earliest > run->realtime)
        wrong(run, "next is %" PRIu64 ", not %" PRIu64, next, earliest);
    if (earliest <= run->realtime && next > run->realtime)
        wrong(run, "next is %" PRIu64 ", and %" PRIu64 " is past", next, earliest);
    const hwt_delay_stats *expected = &run->expected;
    if (stats.put != expected->put || stats.cancelled != expected->cancelled ||
        stats.taken != expected->taken || stats.done != expected->done ||
        stats.retried != expected->retried)
        wrong(run,
              "stats: put %" PRIu64 ", cancelled %" PRIu64 ", taken %" PRIu64 ", done %" PRIu64
              ", retried %" PRIu64 ", not %" PRIu64 ", %" PRIu64 ", %" PRIu64 ", %" PRIu64
              ", %" PRIu64,
              stats.put, stats.cancelled, stats.taken, stats.done, stats.retried, expected->put,
              expected->cancelled, expected->taken, expected->done, expected->retried);
    check_pending(run, run->store, oracle, 0, "while it goes on");
    if (life_answer(run, "get_stats", r)) {
        int64_t n = hwt_delay_check(run->store, NULL, NULL);
        if (n > 0)
            wrong(run, "check finds %" PRId64 " damages", n);
        life_answer(run, "check", n);
    }
}

void look_nonsense(struct run *run)
{
    static const unsigned char bytes[ORACLE_PAYLOAD_MAX + 1];
    hwt_delay_message message = { .due = run->realtime, .id = bytes, .id_size = 1 };
    const hwt_delay_message *none;
    int64_t n = 0, expected = -EINVAL;
    unsigned which = (unsigned)draw(run, 8);
    message.due = which == 0 ? HWT_NEVER : message.due;
    message.id_size = which == 1 ? 0 : which == 2 ? HWT_DELAY_ID_MAX + 1 : 1;
    message.id = which == 3 ? NULL : bytes;
    message.payload_size = which == 4 ? sizeof(bytes) : which == 5;
    message.payload = which == 4 ? bytes : NULL;
    if (which < 6) {
        expected = which == 4 ? -EMSGSIZE : -EINVAL;
        n = hwt_delay_put(run->store, &message, 1);
    } else if (which == 6) {
        n = hwt_delay_put(run->store, &message, 0);
    } else {
        n = hwt_delay_take(run->store, 0, 0, &none);
    }
    life_answer(run, "nonsense", n);
    if (n != expected && !life_may(run, n))
        wrong(run, "nonsense %u is %" PRId64, which, n);
}
