/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Tickets beside other threads, on the real disk: what is looked up or moved changes meanwhile, or the log is full. */

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "check_main.h"
#include "hwt/delay/whole.h"
#include "kit.h"

#define HOUR HWT_MIN(60)

static char directory[64];
static hwt_delay *store;

static void make_directory(void)
{
    strcpy(directory, "/tmp/hwt-tickets-XXXXXX");
    must(mkdtemp(directory) != NULL);
}

static void close_and_remove(void)
{
    char command[128];
    ck_assert_int_eq(hwt_delay_close(store), 0);
    snprintf(command, sizeof(command), "rm -rf %s", directory);
    ck_assert_int_eq(system(command), 0);
}

/* ---- a look ---- */

static _Atomic bool enough;
static _Atomic unsigned looks;

static void *look_up(void *arg)
{
    (void)arg;
    for (; !enough; looks++) {
        const hwt_delay_message *found;
        must(hwt_delay_look_up(store, "f-a", &found) == 0);
        must(found->first_due == 15 && found->payload_size == 4);
        hwt_delay_free(found);
    }
    return NULL;
}

/* It goes from slot to slot, and memory lets go of it each time. */
START_TEST(one_that_goes_elsewhere_meanwhile_is_found)
{
    const hwt_delay_message message = {
        .due = 15, .id = "a", .id_size = 1, .payload = "abcd", .payload_size = 4
    };
    hwt_delay_options options = HWT_DELAY_OPTIONS_INIT;
    make_directory();
    options.flags = HWT_DELAY_CREATE | HWT_DELAY_STANDBY; /* nothing is loaded */
    ck_assert_int_eq(hwt_delay_open(directory, &options, &store), 0);
    ck_assert_int_eq(hwt_delay_put(store, &message, 1), 0);
    enough = false;
    pthread_t looker = spawn(look_up, NULL);
    for (uint64_t i = 1; i <= 100; i++) {
        uint64_t due = hwt_delay_now(store) + (1 + i % 7) * 1000 * HOUR;
        ck_assert_int_eq(hwt_delay_move(store, "f-a", due), 0);
        ck_assert_int_eq(hwt_delay_checkpoint(store), 0);
        for (unsigned seen = looks; looks < seen + 2;) /* a whole look, in the slot */
            sched_yield();
    }
    enough = true;
    join(looker);
    close_and_remove();
}
END_TEST

/* ---- a move ---- */

static const char bytes[8000]; /* a payload */
static _Thread_local bool moves;
static hwt_delay_change filler; /* by others: a put or, with leases, a retry */
static hwt_delay_message filling;
static unsigned fills, fills_max;
static uint64_t leases[300];
static _Atomic unsigned told;

static void count_told(int result, void *arg)
{
    (void)arg;
    must(result == 0);
    told++;
}

static int fill_once(void)
{
    hwt_delay_batch batch = HWT_DELAY_BATCH_INIT;
    batch.flags = HWT_DELAY_NO_WAIT;
    batch.durable = count_told;
    filler.lease = leases[fills];
    return hwt_delay_apply(store, &filler, 1, &batch);
}

/* A change may also have found the lock taken. */
static bool is_full(void)
{
    const size_t size = sizeof(bytes) + 1000; /* more than any change here has */
    pthread_mutex_lock(&store->lock);
    int r = hwt_delay_log_try(store, size, size, true);
    pthread_mutex_unlock(&store->lock);
    return r != 0;
}

static void (*change_it)(void); /* once it was found, while its call reads on */

/* Others fill the log while the one that moves reads. */
static int64_t read_and_fill(void *data, int file, void *buffer, size_t size, uint64_t offset)
{
    if (moves && change_it && LIST_FIRST(&store->table.sought)->record) {
        void (*change)(void) = change_it;
        change_it = NULL;
        change();
    }
    for (bool full = !moves || change_it; !full && fills < fills_max;) {
        full = told == fills; /* else a frame is full, and is being written */
        int r = fill_once();
        must(r == 0 || r == -EAGAIN);
        fills += r == 0;
        full = full && r == -EAGAIN && is_full();
    }
    return hwt_delay_real_system.read(data, file, buffer, size, offset);
}

/* Others have leases, if their changes are retries. */
static void take_leases(void)
{
    const unsigned count = sizeof(leases) / sizeof(leases[0]);
    const hwt_delay_message *taken;
    for (unsigned i = 0; i < count; i++) {
        const hwt_delay_message message = { .due = 1, .id = &i, .id_size = sizeof(i) };
        ck_assert_int_eq(hwt_delay_put(store, &message, 1), 0);
    }
    ck_assert_int_eq(hwt_delay_take(store, count, 0, &taken), count);
    for (unsigned i = 0; i < count; i++)
        leases[i] = taken[i].lease;
    hwt_delay_free(taken);
}

static void open_to_be_filled(bool retries)
{
    static struct hwt_delay_system disk;
    hwt_delay_options options = HWT_DELAY_OPTIONS_INIT;
    disk = hwt_delay_real_system;
    disk.read = read_and_fill;
    make_directory();
    options.flags = HWT_DELAY_CREATE | (retries ? 0 : HWT_DELAY_STANDBY);
    options.payload_max = 8192;
    options.segment_size = 65536;
    options.memory = 1 << 20;
    options.lease = HWT_NEVER;
    ck_assert_int_eq(hwt_delay_open_on(directory, &options, &disk, false, &store), 0);
    fills = 0;
    told = 0;
    change_it = NULL;
    fills_max = sizeof(leases) / sizeof(leases[0]);
    filling = (hwt_delay_message){ .due = HWT_NEVER - 1,
                                   .id = "other",
                                   .id_size = 5,
                                   .payload = bytes,
                                   .payload_size = sizeof(bytes) };
    filler = (hwt_delay_change){ .op = retries ? HWT_DELAY_OP_RETRY : HWT_DELAY_OP_PUT,
                                 .due = HWT_NEVER - 1,
                                 .message = &filling };
    memset(leases, 0, sizeof(leases));
    if (retries)
        take_leases();
}

/*
 * Whenever it looks for its message, others leave no room in the log, neither for their own changes nor
 * for the move. So it waits for a checkpoint; and then it need not look once more.
 */
START_TEST(a_move_ends_though_others_fill_the_log)
{
    const hwt_delay_message message = { .due = HWT_NEVER - 2 * HOUR,
                                        .id = "a",
                                        .id_size = 1,
                                        .first_due = 15,
                                        .payload = bytes,
                                        .payload_size = sizeof(bytes) };
    open_to_be_filled(_i);
    ck_assert_int_eq(hwt_delay_put(store, &message, 1), 0);
    ck_assert_int_eq(hwt_delay_checkpoint(store), 0);
    moves = true;
    ck_assert_int_eq(hwt_delay_move(store, "f-a", message.due + HOUR), 0);
    moves = false;
    ck_assert_uint_gt(fills, 1);
    ck_assert_uint_lt(fills, fills_max); /* else it ended because they did */
    close_and_remove();
}
END_TEST

/* In a slot each, with the same first due time, so that a look for "a" reads both. */
static const hwt_delay_message sought = { .due = UINT64_C(1) << 61,
                                          .id = "a",
                                          .id_size = 1,
                                          .payload = bytes,
                                          .payload_size = sizeof(bytes),
                                          .first_due = 15 };
static const hwt_delay_message behind = {
    .due = UINT64_C(1) << 62, .id = "b", .id_size = 1, .first_due = 15
};
static uint64_t mark; /* of their put */

static void apply_one(hwt_delay_change change)
{
    hwt_delay_batch batch = HWT_DELAY_BATCH_INIT;
    batch.flags = HWT_DELAY_NO_WAIT;
    batch.durable = count_told;
    int r;
    while ((r = hwt_delay_apply(store, &change, 1, &batch)) ==
           -EAGAIN) /* another thread has the lock */
        sched_yield();
    must(r == 0);
    while (told == 0)
        sched_yield();
    told = 0;
}

static void cancel_it(void)
{
    apply_one((hwt_delay_change){
        .op = HWT_DELAY_OP_CANCEL, .due = sought.due, .id = "a", .id_size = 1 });
}

static void drop_it(void)
{
    apply_one((hwt_delay_change){ .op = HWT_DELAY_OP_DROP, .due = sought.due, .mark = mark });
}

static void put_it_in_its_place(void)
{
    hwt_delay_message message = sought;
    message.first_due = 0;
    apply_one((hwt_delay_change){ .op = HWT_DELAY_OP_PUT, .message = &message });
}

static void put_another_with_its_ticket(void)
{
    hwt_delay_message message = sought;
    message.due = UINT64_C(1) << 60;
    apply_one((hwt_delay_change){ .op = HWT_DELAY_OP_PUT, .message = &message });
}

static int count_one(const hwt_delay_message *message, void *data)
{
    (void)message;
    ++*(unsigned *)data;
    return 0;
}

/* The checkpoint for which the call waits then takes the change out of memory, too. */
START_TEST(what_changes_it_before_the_call_has_room_counts)
{
    static void (*const all[])(void) = { cancel_it, drop_it, put_it_in_its_place,
                                         put_another_with_its_ticket };
    hwt_delay_change puts[] = { { .op = HWT_DELAY_OP_PUT, .message = &sought },
                                { .op = HWT_DELAY_OP_PUT, .message = &behind } };
    hwt_delay_batch batch = HWT_DELAY_BATCH_INIT;
    const hwt_delay_message *found;
    open_to_be_filled(false);
    ck_assert_int_eq(hwt_delay_apply(store, puts, 2, &batch), 0);
    mark = batch.mark;
    ck_assert_int_eq(hwt_delay_checkpoint(store), 0);
    change_it = all[_i];
    moves = true;
    int r = hwt_delay_move(store, "f-a", sought.due + HOUR);
    moves = false;
    ck_assert(!change_it);
    ck_assert_int_eq(r, _i == 3 ? 0 : -ENOENT);
    if (_i == 3) {
        ck_assert_int_eq(hwt_delay_look_up(store, "f-a", &found), 0);
        ck_assert_uint_eq(found->due, sought.due + HOUR);
        hwt_delay_free(found);
        ck_assert_int_eq(hwt_delay_cancel_ticket(store, "f-a"), 0);
        ck_assert_int_eq(hwt_delay_look_up(store, "f-a", &found), 0); /* the first */
        ck_assert_uint_eq(found->due, sought.due);
        hwt_delay_free(found);
    }
    ck_assert_uint_gt(fills, 0);
    unsigned pending = 0;
    ck_assert_int_eq(hwt_delay_visit(store, 0, HWT_NEVER, count_one, &pending), 0);
    ck_assert_uint_eq(pending, _i < 2 ? 2 : 3); /* "b", the filler, and "a" */
    close_and_remove();
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("delay_tickets_beside");
    TCase *tcase = tcase_create("tickets_beside");
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, one_that_goes_elsewhere_meanwhile_is_found);
    tcase_add_loop_test(tcase, a_move_ends_though_others_fill_the_log, 0, 2);
    tcase_add_loop_test(tcase, what_changes_it_before_the_call_has_room_counts, 0, 4);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    return run_suite(make_suite());
}
