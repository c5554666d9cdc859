/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Batches: what each change answers, all or none, the note and the marks. */

#include <sched.h>
#include <stdatomic.h>

#include "tests/delay/support/delay_fixture.h"

static hwt_delay *store;

static void open_store(void)
{
    hwt_delay_options options = small_options();
    options.lease = HWT_MIN(60);
    ck_assert_int_eq(hwt_delay_open(store_directory, &options, &store), 0);
}

static void setup(void)
{
    make_directory_name();
    open_store();
}

static void teardown(void)
{
    ck_assert_int_eq(hwt_delay_close(store), 0);
    remove_store();
}

static void reopen(void)
{
    ck_assert_int_eq(hwt_delay_close(store), 0);
    open_store();
}

/* ---- shorthands ---- */

static hwt_delay_change put_of(const hwt_delay_message *message)
{
    return (hwt_delay_change){ .op = HWT_DELAY_OP_PUT, .message = message };
}

static hwt_delay_change cancel_of(uint64_t due, const char *id)
{
    return (
        hwt_delay_change){ .op = HWT_DELAY_OP_CANCEL, .due = due, .id = id, .id_size = strlen(id) };
}

static hwt_delay_change done_of(uint64_t lease)
{
    return (hwt_delay_change){ .op = HWT_DELAY_OP_DONE, .lease = lease };
}

static hwt_delay_change retry_of(uint64_t lease, uint64_t due)
{
    return (hwt_delay_change){ .op = HWT_DELAY_OP_RETRY, .lease = lease, .due = due };
}

static void put(uint64_t due, const char *id, const char *payload)
{
    const hwt_delay_message message = message_of(due, id, payload);
    ck_assert_int_eq(hwt_delay_put(store, &message, 1), 0);
}

static const hwt_delay_message *take(int64_t count)
{
    const hwt_delay_message *taken;
    ck_assert_int_eq(hwt_delay_take(store, 100, 0, &taken), count);
    return taken;
}

/* The ids that are pending, in order, one letter each. */
struct list {
    char ids[100];
    size_t count;
};

static int add_id(const hwt_delay_message *message, void *data)
{
    struct list *list = data;
    list->ids[list->count++] = ((const char *)message->id)[0];
    return 0;
}

static void check_pending(const char *ids)
{
    struct list list = { .count = 0 };
    ck_assert_int_eq(hwt_delay_visit(store, 0, HWT_NEVER, add_id, &list), 0);
    ck_assert_str_eq(list.ids, ids);
}

static void check_note(const char *note, uint64_t mark)
{
    char bytes[HWT_DELAY_NOTE_MAX + 1] = "";
    uint64_t its;
    ck_assert_int_eq(hwt_delay_note(store, bytes, HWT_DELAY_NOTE_MAX, &its), strlen(note));
    ck_assert_str_eq(bytes, note);
    ck_assert_uint_eq(its, mark);
}

/* ---- all or none ---- */

START_TEST(a_job_is_done_and_its_next_stage_put_in_one_step)
{
    const hwt_delay_message next = message_of(2, "n", "stage 2");
    put(1, "j", "stage 1");
    const hwt_delay_message *taken = take(1);
    hwt_delay_change changes[] = { done_of(taken->lease), put_of(&next) };
    ck_assert_int_eq(hwt_delay_apply(store, changes, 2, NULL), 0);
    ck_assert_int_eq(changes[0].result, 0);
    ck_assert_int_eq(changes[1].result, 0);
    hwt_delay_free(taken);
    check_pending("n");
    reopen();
    check_pending("n");
}
END_TEST

START_TEST(one_that_is_refused_stops_all)
{
    const hwt_delay_message message = message_of(3, "c", "");
    put(1, "a", "");
    put(2, "b", "");
    const hwt_delay_message *taken = take(2);
    hwt_delay_change changes[] = { put_of(&message), done_of(taken[0].lease), done_of(12345),
                                   cancel_of(2, "b") };
    uint64_t before[] = { taken[0].lease, taken[1].lease };
    hwt_delay_free(taken);
    ck_assert_int_eq(hwt_delay_apply(store, changes, 4, NULL), -ENOENT);
    ck_assert_int_eq(changes[0].result, -ECANCELED);
    ck_assert_int_eq(changes[1].result, -ECANCELED);
    ck_assert_int_eq(changes[2].result, -ENOENT);
    ck_assert_int_eq(changes[3].result, -EBUSY);
    check_pending("ab");
    ck_assert_int_eq(hwt_delay_done(store, before, 2), 2); /* they were left alone */
}
END_TEST

START_TEST(one_that_may_fail_is_refused_alone)
{
    const hwt_delay_message message = message_of(3, "c", "");
    hwt_delay_change changes[] = { done_of(12345), put_of(&message), cancel_of(7, "x") };
    changes[0].flags = changes[2].flags = HWT_DELAY_MAY_FAIL;
    ck_assert_int_eq(hwt_delay_apply(store, changes, 3, NULL), 0);
    ck_assert_int_eq(changes[0].result, -ENOENT);
    ck_assert_int_eq(changes[1].result, 0);
    ck_assert_int_eq(changes[2].result, -ENOENT);
    check_pending("c");
}
END_TEST

START_TEST(each_change_sees_those_before_it)
{
    const hwt_delay_message message = message_of(3, "c", "");
    put(1, "a", "");
    put(2, "a", "");
    const hwt_delay_message *taken = take(2);
    uint64_t leases[] = { taken[0].lease, taken[1].lease };
    hwt_delay_free(taken);

    hwt_delay_change cancels[] = { put_of(&message), cancel_of(3, "c"), cancel_of(3, "c") };
    ck_assert_int_eq(hwt_delay_apply(store, cancels, 3, NULL), -ENOENT);
    ck_assert_int_eq(cancels[2].result, -ENOENT);
    ck_assert_int_eq(hwt_delay_apply(store, cancels, 2, NULL), 0);

    hwt_delay_change same[] = { retry_of(leases[0], 9), retry_of(leases[1], 9) };
    ck_assert_int_eq(hwt_delay_apply(store, same, 2, NULL), -EEXIST);
    ck_assert_int_eq(same[0].result, -ECANCELED);
    ck_assert_int_eq(same[1].result, -EEXIST);

    hwt_delay_change twice[] = { done_of(leases[0]), done_of(leases[0]), cancel_of(1, "a"),
                                 retry_of(leases[1], 1) };
    twice[1].flags = twice[2].flags = HWT_DELAY_MAY_FAIL;
    ck_assert_int_eq(hwt_delay_apply(store, twice, 4, NULL), 0);
    ck_assert_int_eq(twice[1].result, -ENOENT);
    ck_assert_int_eq(twice[2].result, -ENOENT); /* it is leased no more */
    check_pending("a"); /* at 1, where the other one was leased until then */
}
END_TEST

START_TEST(a_retry_may_have_a_new_payload)
{
    hwt_delay_message message = { .payload = "second", .payload_size = 6 };
    put(1, "a", "first");
    const hwt_delay_message *taken = take(1);
    hwt_delay_change change = retry_of(taken->lease, 2);
    change.message = &message;
    ck_assert_int_eq(hwt_delay_apply(store, &change, 1, NULL), 0);
    hwt_delay_free(taken);
    reopen();
    taken = take(1);
    ck_assert_uint_eq(taken->due, 2);
    ck_assert_uint_eq(taken->retries, 1);
    ck_assert_uint_eq(taken->payload_size, 6);
    ck_assert_mem_eq(taken->payload, "second", 6);
    hwt_delay_free(taken);
}
END_TEST

/* ---- the note ---- */

START_TEST(a_note_changes_with_its_batch)
{
    const hwt_delay_message message = message_of(3, "c", "");
    hwt_delay_batch batch = HWT_DELAY_BATCH_INIT;
    hwt_delay_change changes[] = { put_of(&message), done_of(12345) };
    check_note("", 0);
    batch.note = "at 1";
    batch.note_size = 4;
    ck_assert_int_eq(hwt_delay_apply(store, changes, 2, &batch), -ENOENT);
    check_note("", 0);
    ck_assert_uint_eq(batch.mark, 0);
    ck_assert_int_eq(hwt_delay_apply(store, changes, 1, &batch), 0);
    uint64_t first = batch.mark;
    check_note("at 1", first);
    reopen();
    check_note("at 1", first);
    ck_assert_int_eq(hwt_delay_checkpoint(store), 0);
    reopen();
    check_note("at 1", first);
    put(4, "d", "");
    batch.note = "at 22";
    batch.note_size = 5;
    ck_assert_int_eq(hwt_delay_apply(store, NULL, 0, &batch), 0);
    ck_assert_uint_gt(batch.mark, first + 1);
    check_note("at 22", batch.mark);
    char part[3] = "";
    ck_assert_int_eq(hwt_delay_note(store, part, 2, NULL), 5);
    ck_assert_str_eq(part, "at");
    ck_assert_int_eq(hwt_delay_note(store, NULL, 0, NULL), 5);
    ck_assert_int_eq(hwt_delay_note(store, NULL, 1, NULL), -EINVAL);
}
END_TEST

START_TEST(a_note_is_of_up_to_its_limit)
{
    static char note[HWT_DELAY_NOTE_MAX + 1];
    memset(note, 'x', HWT_DELAY_NOTE_MAX);
    hwt_delay_batch batch = HWT_DELAY_BATCH_INIT;
    batch.note = note;
    batch.note_size = HWT_DELAY_NOTE_MAX + 1;
    ck_assert_int_eq(hwt_delay_apply(store, NULL, 0, &batch), -EMSGSIZE);
    batch.note_size--;
    ck_assert_int_eq(hwt_delay_apply(store, NULL, 0, &batch), 0);
    ck_assert_int_eq(hwt_delay_checkpoint(store), 0);
    reopen();
    check_note(note, batch.mark);
    batch.note_size = 0;
    ck_assert_int_eq(hwt_delay_apply(store, NULL, 0, &batch), 0);
    reopen();
    check_note("", batch.mark);
}
END_TEST

/* ---- being told ---- */

static void count_told(int result, void *arg)
{
    ck_assert_int_eq(result, 0);
    atomic_fetch_add((atomic_int *)arg, 1);
}

START_TEST(a_batch_is_told_when_it_is_durable)
{
    atomic_int told = 0;
    const hwt_delay_message message = message_of(3, "c", "");
    hwt_delay_batch batch = HWT_DELAY_BATCH_INIT;
    batch.durable = count_told;
    batch.arg = &told;
    hwt_delay_change changes[] = { put_of(&message), done_of(12345) };
    ck_assert_int_eq(hwt_delay_apply(store, changes, 2, &batch), -ENOENT);
    ck_assert_int_eq(hwt_delay_apply(store, changes, 1, &batch), 0);
    changes[1].flags = HWT_DELAY_MAY_FAIL; /* nothing is to be made: that is told, too */
    ck_assert_int_eq(hwt_delay_apply(store, changes + 1, 1, &batch), 0);
    ck_assert_int_eq(changes[1].result, -ENOENT);
    batch.flags = HWT_DELAY_NO_WAIT;
    int r;
    while ((r = hwt_delay_apply(store, changes, 2, &batch)) == -EAGAIN)
        ck_assert_int_eq(changes[0].result, -ECANCELED);
    ck_assert_int_eq(r, 0);
    reopen();
    ck_assert_int_eq(atomic_load(&told), 3);
}
END_TEST

struct in_order {
    char told[4];
    atomic_int count;
};

static void note_first(int result, void *arg)
{
    struct in_order *order = arg;
    ck_assert_int_eq(result, 0);
    order->told[atomic_fetch_add(&order->count, 1)] = '1';
}

static void note_second(int result, void *arg)
{
    struct in_order *order = arg;
    ck_assert_int_eq(result, 0);
    order->told[atomic_fetch_add(&order->count, 1)] = '2';
}

/* Both come while callbacks are called, so neither is told before this returns. */
static void make_two(int result, void *arg)
{
    const hwt_delay_message message = message_of(3, "c", "");
    hwt_delay_batch batch = HWT_DELAY_BATCH_INIT;
    hwt_delay_change change = done_of(12345);
    ck_assert_int_eq(result, 0);
    ck_assert_int_eq(hwt_delay_put_async(store, &message, 1, note_first, arg), 0);
    batch.durable = note_second;
    batch.arg = arg;
    change.flags = HWT_DELAY_MAY_FAIL;
    ck_assert_int_eq(hwt_delay_apply(store, &change, 1, &batch), 0);
}

START_TEST(a_batch_that_makes_nothing_is_told_in_its_turn)
{
    static struct in_order order;
    const hwt_delay_message message = message_of(2, "b", "");
    ck_assert_int_eq(hwt_delay_put_async(store, &message, 1, make_two, &order), 0);
    reopen();
    ck_assert_str_eq(order.told, "12");
}
END_TEST

/* ---- many ---- */

START_TEST(a_thousand_changes_take_one_flush)
{
    enum { COUNT = 300, BATCHES = 4 };
    static hwt_delay_change changes[COUNT];
    static hwt_delay_message messages[COUNT];
    static char ids[COUNT][8];
    for (unsigned i = 0; i < COUNT; i++) {
        snprintf(ids[i], sizeof(ids[i]), "%u", i);
        messages[i] = message_of(1, ids[i], "");
    }
    for (unsigned batch = 0; batch < BATCHES; batch++) {
        const hwt_delay_message *taken;
        hwt_delay_stats before = HWT_DELAY_STATS_INIT, after = HWT_DELAY_STATS_INIT;
        ck_assert_int_eq(hwt_delay_put(store, messages, COUNT), 0);
        ck_assert_int_eq(hwt_delay_take(store, COUNT, 0, &taken), COUNT);
        for (unsigned i = 0; i < COUNT; i++)
            changes[i] = i % 3 == 0 ? retry_of(taken[i].lease, 2) : done_of(taken[i].lease);
        hwt_delay_free(taken);
        ck_assert_int_eq(hwt_delay_get_stats(store, &before), 0);
        ck_assert_int_eq(hwt_delay_apply(store, changes, COUNT, NULL), 0);
        ck_assert_int_eq(hwt_delay_get_stats(store, &after), 0);
        ck_assert_uint_eq(after.commits, before.commits + 1);
        ck_assert_uint_eq(after.done, before.done + COUNT);
        ck_assert_uint_eq(after.retried, before.retried + COUNT / 3);
        ck_assert_int_eq(hwt_delay_take(store, COUNT, 0, &taken), COUNT / 3);
        for (unsigned i = 0; i < COUNT / 3; i++) {
            hwt_delay_change *change = &changes[i];
            *change = cancel_of(2, ids[3 * i]);
            ck_assert_uint_eq(taken[i].id_size, change->id_size);
            ck_assert_mem_eq(taken[i].id, change->id, change->id_size);
            ck_assert_int_eq(hwt_delay_extend(store, taken[i].lease, 0), 0);
        }
        hwt_delay_free(taken);
        ck_assert_int_eq(hwt_delay_apply(store, changes, COUNT / 3, NULL), 0);
    }
    check_pending("");
}
END_TEST

/* A log whose frames have no room for all of them. */
START_TEST(more_leases_end_than_a_frame_has_room_for)
{
    enum { COUNT = 300 };
    static hwt_delay_message messages[COUNT];
    static char ids[COUNT][HWT_DELAY_ID_MAX];
    static uint64_t leases[COUNT];
    const hwt_delay_message *taken;
    for (unsigned i = 0; i < COUNT; i++) {
        snprintf(ids[i], sizeof(ids[i]), "%u", i);
        messages[i] = message_of(1, ids[i], "");
        messages[i].id_size = sizeof(ids[i]);
        ck_assert_int_eq(hwt_delay_put(store, &messages[i], 1), 0);
    }
    ck_assert_int_eq(hwt_delay_take(store, COUNT, 0, &taken), COUNT);
    for (unsigned i = 0; i < COUNT; i++)
        leases[i] = taken[i].lease;
    hwt_delay_free(taken);
    hwt_delay_change changes[COUNT];
    for (unsigned i = 0; i < COUNT; i++)
        changes[i] = done_of(leases[i]);
    ck_assert_int_eq(hwt_delay_apply(store, changes, COUNT, NULL), -EMSGSIZE);
    ck_assert_int_eq(changes[0].result, -ECANCELED);
    ck_assert_int_eq(hwt_delay_done(store, leases, COUNT), COUNT);
    reopen();
    check_pending("");
}
END_TEST

/* ---- drops ---- */

static hwt_delay_change drop_of(uint64_t due, uint64_t mark)
{
    return (hwt_delay_change){ .op = HWT_DELAY_OP_DROP, .due = due, .mark = mark };
}

static uint64_t mark_of_now(void)
{
    hwt_delay_batch batch = HWT_DELAY_BATCH_INIT;
    batch.note = "";
    ck_assert_int_eq(hwt_delay_apply(store, NULL, 0, &batch), 0);
    return batch.mark;
}

/* 0: all in the log; 1: in slots; 2: in slots that were not read, in a process of its own. */
START_TEST(a_drop_ends_what_was_put_up_to_a_mark)
{
    const uint64_t now = hwt_delay_now(store), later = now + HWT_MIN(60);
    put(1, "a", ""), put(2, "b", ""), put(3, "c", ""), put(later, "d", ""), put(later + 1, "e", "");
    uint64_t mark = mark_of_now();
    put(1, "f", ""), put(later, "g", "");
    if (_i > 0)
        ck_assert_int_eq(hwt_delay_checkpoint(store), 0);
    if (_i > 1)
        reopen();
    const hwt_delay_message *taken = _i > 1 ? NULL : take(4);
    hwt_delay_change change = drop_of(later, mark);
    ck_assert_int_eq(hwt_delay_apply(store, &change, 1, NULL), 0);
    check_pending("fge");
    for (int i = 0; taken && i < 4; i++) /* its lease is over, but for that of "f" */
        ck_assert_int_eq(hwt_delay_extend(store, taken[i].lease, 0),
                         ((const char *)taken[i].id)[0] == 'f' ? 0 : -ENOENT);
    hwt_delay_free(taken);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(hwt_delay_apply(store, &change, 1, NULL), 0); /* once more: nothing */
        ck_assert_int_eq(hwt_delay_checkpoint(store), 0);
        reopen();
        check_pending("fge");
    }
}
END_TEST

/* Slots that are wholly under it go with the next checkpoint. */
START_TEST(slots_that_were_dropped_are_deleted)
{
    hwt_delay_stats stats = HWT_DELAY_STATS_INIT;
    const uint64_t later = hwt_delay_now(store) + HWT_MIN(60);
    for (uint64_t i = 0; i < 20; i++)
        put(later + i * HWT_MIN(10), "a", "");
    uint64_t mark = mark_of_now();
    ck_assert_int_eq(hwt_delay_checkpoint(store), 0);
    ck_assert_int_eq(hwt_delay_get_stats(store, &stats), 0);
    uint64_t files = stats.files;
    ck_assert_uint_gt(files, 4);
    hwt_delay_change change = drop_of(later - 1, mark);
    ck_assert_int_eq(hwt_delay_apply(store, &change, 1, NULL), 0);
    ck_assert_int_eq(hwt_delay_checkpoint(store), 0);
    ck_assert_int_eq(hwt_delay_get_stats(store, &stats), 0);
    ck_assert_uint_eq(stats.files, files);
    change = drop_of(HWT_NEVER, mark);
    ck_assert_int_eq(hwt_delay_apply(store, &change, 1, NULL), 0);
    ck_assert_int_eq(hwt_delay_checkpoint(store), 0);
    ck_assert_int_eq(hwt_delay_get_stats(store, &stats), 0);
    ck_assert_uint_eq(stats.files, 0);
    ck_assert_uint_eq(stats.pending, 0);
    ck_assert_uint_eq(stats.taken, 0);
}
END_TEST

START_TEST(drops_that_cannot_be_are_refused)
{
    const uint64_t later = hwt_delay_now(store) + HWT_MIN(60);
    uint64_t mark = mark_of_now();
    hwt_delay_change change = drop_of(1, mark + 1);
    ck_assert_int_eq(hwt_delay_apply(store, &change, 1, NULL), -EINVAL);
    for (uint64_t i = 0; i < 70; i++) {
        put(later + i, "a", "");
        mark = mark_of_now();
        change = drop_of(later - i, mark);
        ck_assert_int_eq(hwt_delay_apply(store, &change, 1, NULL), i < 64 ? 0 : -ENOBUFS);
    }
    ck_assert_int_eq(hwt_delay_checkpoint(store), 0);
    reopen();
    change = drop_of(later + 100, mark); /* it covers all of them */
    if (hwt_delay_apply(store, &change, 1, NULL) == -ENOBUFS)
        ck_abort_msg("a checkpoint has left them all");
    check_pending("");
}
END_TEST

/* ---- misuse ---- */

START_TEST(what_is_wrong_is_refused)
{
    const hwt_delay_message message = message_of(3, "c", ""), wrong = message_of(3, "", "");
    hwt_delay_batch batch = HWT_DELAY_BATCH_INIT;
    hwt_delay_change changes[] = { put_of(&message), put_of(&wrong) };
    ck_assert_int_eq(hwt_delay_apply(store, changes, 2, &batch), -EINVAL);
    ck_assert_int_eq(changes[0].result, -ECANCELED);
    ck_assert_int_eq(changes[1].result, -EINVAL);
    ck_assert_int_eq(hwt_delay_apply(NULL, changes, 1, &batch), -EINVAL);
    ck_assert_int_eq(hwt_delay_apply(store, NULL, 1, &batch), -EINVAL);
    ck_assert_int_eq(hwt_delay_apply(store, changes, 0, &batch), -EINVAL);
    batch.flags = HWT_DELAY_NO_WAIT;
    ck_assert_int_eq(hwt_delay_apply(store, changes, 1, &batch), -EINVAL);
    batch.flags = 0;
    batch.reserved = 1;
    ck_assert_int_eq(hwt_delay_apply(store, changes, 1, &batch), -EINVAL);
    batch.reserved = 0;
    changes[0].flags = 2;
    ck_assert_int_eq(hwt_delay_apply(store, changes, 1, &batch), -EINVAL);
    changes[0].flags = 0;
    changes[0].reserved[1] = 1;
    ck_assert_int_eq(hwt_delay_apply(store, changes, 1, &batch), -EINVAL);
    changes[0].reserved[1] = 0;
    changes[0].reserved32 = 1;
    ck_assert_int_eq(hwt_delay_apply(store, changes, 1, &batch), -EINVAL);
    changes[0].reserved32 = 0;
    changes[0].op = 0;
    ck_assert_int_eq(hwt_delay_apply(store, changes, 1, &batch), -EINVAL);
    changes[0].op = 1000;
    ck_assert_int_eq(hwt_delay_apply(store, changes, 1, &batch), -EINVAL);
    changes[0] = retry_of(1, HWT_NEVER);
    ck_assert_int_eq(hwt_delay_apply(store, changes, 1, &batch), -EINVAL);
    changes[0] = cancel_of(1, "");
    ck_assert_int_eq(hwt_delay_apply(store, changes, 1, &batch), -EINVAL);
    changes[0] = (hwt_delay_change){ .op = HWT_DELAY_OP_PUT };
    ck_assert_int_eq(hwt_delay_apply(store, changes, 1, &batch), -EINVAL);
    check_pending("");
}
END_TEST

START_TEST(a_batch_says_how_long_it_is)
{
    struct {
        hwt_delay_batch now;
        uint64_t more;
    } later;
    const hwt_delay_message message = message_of(3, "c", "");
    hwt_delay_change change = put_of(&message);
    memset(&later, 1, sizeof(later));
    ck_assert_int_eq(hwt_delay_batch_init(&later.now, sizeof(later)), 0);
    ck_assert_uint_eq(later.now.size, sizeof(later));
    ck_assert_int_eq(hwt_delay_apply(store, &change, 1, &later.now), 0);
    ck_assert_uint_gt(later.now.mark, 0);
    later.more = 1;
    ck_assert_int_eq(hwt_delay_apply(store, &change, 1, &later.now), -EINVAL);
    later.now.size = sizeof(size_t);
    ck_assert_int_eq(hwt_delay_apply(store, &change, 1, &later.now), -EINVAL);
    ck_assert_int_eq(hwt_delay_batch_init(NULL, sizeof(later)), -EINVAL);
    ck_assert_int_eq(hwt_delay_batch_init(&later.now, 8), -EINVAL);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("delay_apply");
    TCase *tcase = tcase_create("apply");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, a_job_is_done_and_its_next_stage_put_in_one_step);
    tcase_add_test(tcase, one_that_is_refused_stops_all);
    tcase_add_test(tcase, one_that_may_fail_is_refused_alone);
    tcase_add_test(tcase, each_change_sees_those_before_it);
    tcase_add_test(tcase, a_retry_may_have_a_new_payload);
    tcase_add_test(tcase, a_note_changes_with_its_batch);
    tcase_add_test(tcase, a_note_is_of_up_to_its_limit);
    tcase_add_test(tcase, a_batch_is_told_when_it_is_durable);
    tcase_add_test(tcase, a_batch_that_makes_nothing_is_told_in_its_turn);
    tcase_add_test(tcase, a_thousand_changes_take_one_flush);
    tcase_add_test(tcase, more_leases_end_than_a_frame_has_room_for);
    tcase_add_loop_test(tcase, a_drop_ends_what_was_put_up_to_a_mark, 0, 3);
    tcase_add_test(tcase, slots_that_were_dropped_are_deleted);
    tcase_add_test(tcase, drops_that_cannot_be_are_refused);
    tcase_add_test(tcase, what_is_wrong_is_refused);
    tcase_add_test(tcase, a_batch_says_how_long_it_is);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    return run_suite(make_suite());
}
