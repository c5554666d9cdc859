/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Generations: a record has but the low 32 bits, so an entry that has served 2^28 timeouts passes
 * the worker before it is used again; and the low halves wrap around.
 */

#include "hwt/timer/timer.h"

#include "api_fixture.h"
#include "unit.h"

#define TICK HWT_MS(1)
#define RENEWALS 40 /* the low half wraps around after 16 */

static manual m;
static ends fate, others;

static const hwt_task silent = { count_run, NULL };
static const hwt_task telling = { count_run, count_cancelled };

static void open_timer(void)
{
    memset(&fate, 0, sizeof(fate));
    manual_open(&m, 0, TICK, 8);
}

static void close_timer(void)
{
    manual_close(&m);
}

static struct hwt_lane *own_lane(void)
{
    struct hwt_lane *lane = hwt_lane_enter(&m.timer->shared.lanes);
    must(!lane->locked);
    return lane;
}

static struct hwt_place *place_of_entry(const struct hwt_entry *entry)
{
    return hwt_directory_place(&m.timer->shared.pool.directory, hwt_entry_id(entry));
}

/* The entry that the next add of this thread takes. */
static struct hwt_entry *next_entry(void)
{
    const struct hwt_cache *cache = &own_lane()->cache;
    must(cache->first);
    return cache->first;
}

static hwt_timeout add(const hwt_task *task, uint64_t delay)
{
    return arm(m.timer, task, &fate, delay);
}

static void go(uint64_t ticks)
{
    manual_go(&m, m.now - m.start + ticks * TICK);
}

/* The free entry has been used so often since it last passed the worker. */
static void let_it_serve(struct hwt_entry *entry, uint64_t generation)
{
    uint64_t state = hwt_entry_state(entry);
    must(hwt_phase(state) == HWT_PHASE_CANCELLED || hwt_phase(state) == HWT_PHASE_EXPIRED);
    must(hwt_generation(state) <= generation);
    must(generation - hwt_generation(state) < HWT_RENEWAL);
    atomic_store(&entry->word.first, generation << HWT_GENERATION_SHIFT | HWT_PHASE_CANCELLED);
}

/* An entry that is free, and the next to be used. */
static struct hwt_entry *begin_entry(void)
{
    hwt_timeout first = add(&silent, 5 * TICK);
    must(hwt_timeout_cancel(first));
    go(1);
    must(next_entry() == first.entry);
    return first.entry;
}

/* What a timeout may go through: each is told its end once, and at its time. */
static void live(struct hwt_entry *entry)
{
    ends before = fate;
    hwt_timeout t = add(&silent, 5 * TICK);
    must(t.entry == entry);
    must(hwt_timeout_cancel(t) && !hwt_timeout_cancel(t));

    t = add(&silent, 3 * TICK);
    must(t.entry == entry);
    go(3);
    must(fate.runs == before.runs);
    go(1);
    must(fate.runs == before.runs + 1);

    t = add(&silent, 30 * TICK); /* to an earlier instant, and again */
    must(t.entry == entry);
    must(hwt_timeout_reschedule(t, 20 * TICK));
    go(1);
    must(hwt_timeout_reschedule(t, 2 * TICK));
    go(2);
    must(fate.runs == before.runs + 1);
    go(1);
    must(fate.runs == before.runs + 2);

    t = add(&silent, 2 * TICK); /* to a later one, of which the worker learns when it looks */
    go(1);
    must(hwt_timeout_reschedule(t, 10 * TICK));
    go(10);
    must(fate.runs == before.runs + 2);
    go(1);
    must(fate.runs == before.runs + 3);

    t = add(&telling, 5 * TICK);
    must(t.entry == entry);
    must(hwt_timeout_cancel(t));
    go(1);
    must(fate.cancelled == before.cancelled + 1);
}

START_TEST(an_entry_that_has_served_its_time_passes_the_worker)
{
    struct hwt_entry *entry = begin_entry();
    let_it_serve(entry, HWT_RENEWAL - 2);
    hwt_timeout last = add(&silent, 5 * TICK);
    ck_assert_ptr_eq(last.entry, entry);
    ck_assert_uint_eq(last.generation, HWT_RENEWAL - 1);
    ck_assert(hwt_timeout_cancel(last));
    hwt_timeout other = add(&silent, 5 * TICK);
    ck_assert_ptr_ne(other.entry, entry);
    ck_assert_uint_eq(hwt_generation(hwt_entry_state(entry)), HWT_RENEWAL);
    for (int i = 0; i < 1000; i++) /* it is nobody's until the worker has seen it */
        must(add(&silent, 5 * TICK).entry != entry);
    ck_assert(!hwt_timeout_cancel(last));
    go(1);
    ck_assert_uint_eq(place_of_entry(entry)->generation, (uint32_t)HWT_RENEWAL);
    ck_assert_ptr_eq(next_entry(), entry);
    hwt_timeout next = add(&silent, 5 * TICK);
    ck_assert_ptr_eq(next.entry, entry);
    ck_assert_uint_eq(next.generation, HWT_RENEWAL + 1);
    go(20);
    ck_assert_uint_eq(fate.runs, 1002);
}
END_TEST

/* A compaction that had no memory drops what is unread, and the worker looks at all entries. */
START_TEST(an_entry_whose_record_was_dropped_comes_back_too)
{
    struct hwt_entry *entry = begin_entry();
    let_it_serve(entry, HWT_RENEWAL - 2);
    ck_assert(hwt_timeout_cancel(add(&silent, 5 * TICK)));
    ck_assert_ptr_ne(add(&silent, 5 * TICK).entry, entry);
    struct hwt_shared *shared = hwt_shared_of(entry);
    struct hwt_stream *cancelled = &hwt_lane_enter(&shared->lanes)->cancelled;
    cancelled->at -= (uint32_t)sizeof(struct hwt_record);
    atomic_store(&cancelled->tail->used, cancelled->at);
    hwt_shared_need_rescan(shared);
    go(1);
    ck_assert_uint_eq(place_of_entry(entry)->generation, (uint32_t)HWT_RENEWAL);
    ck_assert_ptr_eq(next_entry(), entry);
    hwt_timeout next = add(&silent, 5 * TICK);
    ck_assert_ptr_eq(next.entry, entry);
    ck_assert_uint_eq(next.generation, HWT_RENEWAL + 1);
}
END_TEST

START_TEST(nothing_is_lost_from_renewal_to_renewal_while_low_halves_wrap_around)
{
    struct hwt_entry *entry = begin_entry();
    for (uint64_t k = 1; k <= RENEWALS; k++) {
        live(entry);
        let_it_serve(entry, k * HWT_RENEWAL - 8);
        live(entry); /* the last before it is renewed are five */
        let_it_serve(entry, k * HWT_RENEWAL - 2);
        hwt_timeout last = add(&silent, 5 * TICK);
        must(last.entry == entry && last.generation == k * HWT_RENEWAL - 1);
        if (k % 2)
            must(hwt_timeout_cancel(last));
        else
            go(7);
        must(next_entry() == entry);
        hwt_timeout other = arm(m.timer, &telling, &others, 5 * TICK);
        must(other.entry != entry);
        must(hwt_timeout_cancel(other));
        go(1);
        while (next_entry() != entry) /* the other came back too */
            must(arm(m.timer, &silent, &others, 5 * TICK).entry != entry);
        must(place_of_entry(entry)->generation == (uint32_t)(k * HWT_RENEWAL));
        must(!hwt_timeout_cancel(last));
        must(hwt_generation(hwt_entry_state(entry)) == k * HWT_RENEWAL);
    }
    hwt_stats stats = stats_of(m.timer);
    go(20);
    ck_assert_uint_eq(stats_of(m.timer).pending, 0);
    ck_assert_uint_ge(stats.added, RENEWALS * 12);
}
END_TEST

/* The records that say it wait in the stream while nobody drives the timer. */
START_TEST(a_renewal_is_not_left_out_when_a_stream_is_compacted)
{
    struct hwt_entry *entry = begin_entry();
    let_it_serve(entry, HWT_RENEWAL - 1);
    must(add(&silent, 5 * TICK).entry != entry);
    for (int i = 0; i < 100000; i++)
        must(hwt_timeout_cancel(add(&silent, HWT_SEC(5))));
    ck_assert_uint_le(hwt_stream_backlog(&own_lane()->cancelled), 4);
    go(1);
    ck_assert_uint_eq(place_of_entry(entry)->generation, (uint32_t)HWT_RENEWAL);
    for (int i = 0; i < 8 * HWT_CACHE_BATCH; i++) {
        if (add(&silent, 5 * TICK).entry == entry)
            return;
    }
    ck_abort_msg("the entry did not come back");
}
END_TEST

/* ---- with one thread the adder is the worker, and notes it itself ---- */

static void open_alone(void)
{
    hwt_options options = HWT_OPTIONS_INIT;
    options.tick_duration = TICK;
    options.flags = HWT_ONE_THREAD;
    memset(&fate, 0, sizeof(fate));
    manual_open_with(&m, 0, options);
}

/* From one time that it is filed to the next the low half may wrap around. */
START_TEST(with_one_thread_an_entry_is_used_on_and_nothing_is_lost)
{
    enum { FILED_EACH = 13 };
    hwt_timeout first = add(&silent, 5 * TICK);
    struct hwt_entry *entry = first.entry;
    must(hwt_timeout_cancel(first));
    for (uint64_t k = 1; k <= RENEWALS; k++) {
        let_it_serve(entry, k * HWT_RENEWAL - 2);
        for (uint64_t i = 0; i < 3; i++) {
            uint64_t runs = fate.runs;
            hwt_timeout t = add(&silent, (2 + i) * TICK);
            must(t.entry == entry && t.generation == k * HWT_RENEWAL - 1 + i);
            if (k % FILED_EACH != 0) {
                must(hwt_timeout_cancel(t));
                continue;
            }
            go(2 + i);
            must(fate.runs == runs);
            go(1);
            must(fate.runs == runs + 1);
        }
    }
}
END_TEST

static hwt_timeout neighbour;

static void cancel_neighbour_and_add(hwt_timeout timeout, void *arg)
{
    (void)timeout;
    (void)arg;
    must(hwt_timeout_cancel(neighbour));
    hwt_timeout overdue;
    must(hwt_timer_new_timeout_at(m.timer, &silent, &fate, 0, &overdue) == 0);
    must(overdue.entry == neighbour.entry && overdue.generation == HWT_RENEWAL);
}

/* The worker has both in its hands when the first one gives the entry of the second to another. */
START_TEST(with_one_thread_a_renewal_in_the_midst_of_a_pass_is_for_the_next)
{
    static const hwt_task cancelling = { cancel_neighbour_and_add, NULL };
    neighbour = add(&silent, 5 * TICK);
    struct hwt_entry *entry = neighbour.entry;
    must(hwt_timeout_cancel(neighbour));
    hwt_timeout other = add(&silent, 500 * TICK); /* in that entry, for the time being */
    must(other.entry == entry);
    add(&cancelling, 5 * TICK);
    must(hwt_timeout_cancel(other));
    let_it_serve(entry, HWT_RENEWAL - 2);
    neighbour = add(&silent, 5 * TICK);
    must(neighbour.entry == entry && neighbour.generation == HWT_RENEWAL - 1);
    ck_assert_uint_eq(manual_go(&m, 50 * TICK), 1);
    ck_assert_uint_eq(fate.runs, 0);
    ck_assert_uint_eq(manual_go(&m, 51 * TICK), 1);
    ck_assert_uint_eq(fate.runs, 1);
}
END_TEST

/* ---- records of two generations, in whichever order ---- */

static hwt_timeout handed; /* from thread to thread */

static void *cancel_it(void *data)
{
    must(hwt_timeout_cancel(handed));
    return data;
}

static void *cancel_and_add(void *data)
{
    must(hwt_timeout_cancel(handed));
    struct hwt_entry *entry = handed.entry;
    handed = add(data, 4 * TICK);
    must(handed.entry == entry); /* its own lane's now */
    return NULL;
}

/*
 * A timeout is added here, cancelled by another thread, which uses the entry for the next one;
 * maybe cancelled by a third; then the worker reads what all have said. From each generation near
 * where a low half begins anew.
 */
START_TEST(of_two_generations_the_newer_one_counts)
{
    uint64_t runs = 0;
    close_timer();
    for (uint64_t wrap = 1; wrap <= 3; wrap++) {
        for (uint64_t before = 0; before < 6; before++) {
            for (int third = 0; third < 2; third++) {
                open_timer();
                struct hwt_entry *entry = begin_entry();
                uint64_t generation = (wrap << 32) - before;
                /* It passed the worker where the last renewal was. */
                atomic_store(&entry->word.first,
                             generation << HWT_GENERATION_SHIFT | HWT_PHASE_CANCELLED);
                place_of_entry(entry)->generation = (uint32_t)(generation - HWT_RENEWAL / 2);
                if ((generation + 1) % HWT_RENEWAL == 0) {
                    close_timer();
                    continue;
                }
                handed = add(&silent, 2 * TICK);
                must(handed.entry == entry && handed.generation == generation + 1);
                if ((generation + 2) % HWT_RENEWAL == 0) {
                    close_timer();
                    continue;
                }
                join(spawn(cancel_and_add, (void *)&silent));
                must(handed.generation == generation + 2);
                if (third)
                    join(spawn(cancel_it, NULL));
                go(3);
                must(fate.runs == 0);
                go(3);
                must(fate.runs == !third);
                runs += fate.runs;
                close_timer();
            }
        }
    }
    open_timer();
    ck_assert_uint_gt(runs, 10);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("renewal");
    TCase *renewal = unit_case(suite, "renewal", open_timer, close_timer);
    tcase_add_test(renewal, an_entry_that_has_served_its_time_passes_the_worker);
    tcase_add_test(renewal, an_entry_whose_record_was_dropped_comes_back_too);
    tcase_add_test(renewal, nothing_is_lost_from_renewal_to_renewal_while_low_halves_wrap_around);
    tcase_add_test(renewal, a_renewal_is_not_left_out_when_a_stream_is_compacted);
    tcase_add_test(renewal, of_two_generations_the_newer_one_counts);
    TCase *alone = unit_case(suite, "one thread", open_alone, close_timer);
    tcase_add_test(alone, with_one_thread_an_entry_is_used_on_and_nothing_is_lost);
    tcase_add_test(alone, with_one_thread_a_renewal_in_the_midst_of_a_pass_is_for_the_next);
    return run_suite(suite);
}
