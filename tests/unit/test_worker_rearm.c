/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What re-arms itself on the worker is filed when its task returns, if nothing that the worker's
 * thread added before waits in a queue. More is in test_worker_rearm_order.c and test_worker_rearm_threads.c.
 *
 * worker.c is included, so that filing can be refused, and be followed by what another thread
 * might do before the timeout is ARMED; the linker then leaves out the library's own.
 */

#include "room_fixture.h"

static int filing(struct hwt_wheel *wheel, struct hwt_entry *entry, uint64_t deadline,
                  uint64_t earliest);

#define hwt_wheel_file filing
#include "hwt/worker.c"
#undef hwt_wheel_file

#define TICK HWT_MS(1)

enum { WHEEL = 64, MOST = 1000 };

static struct room room;
static hwt_timer *timer;
static struct hwt_worker *worker;
static bool refuse;
static int refusals;               /* -ENOBUFS */
static void (*after_filing)(void); /* once */

static int filing(struct hwt_wheel *wheel, struct hwt_entry *entry, uint64_t deadline,
                  uint64_t earliest)
{
    void (*next)(void) = after_filing;
    if (refuse)
        return -ENOMEM;
    int r = hwt_wheel_file(wheel, entry, deadline, earliest);
    after_filing = NULL;
    if (next)
        next();
    return r;
}

static void open_with(hwt_executor executor)
{
    hwt_options options = HWT_OPTIONS_INIT;
    options.tick_duration = TICK;
    options.ticks_per_wheel = WHEEL;
    options.max_pending = MOST;
    options.executor = executor;
    room_open_with(&room, 0, options);
    timer = room.timer;
    worker = &timer->worker;
    refuse = false;
    refusals = 0;
    after_filing = NULL;
}

static void open_room(void)
{
    open_with(NULL);
}

static void close_room(void)
{
    ck_assert_uint_eq(worker->transit, 0);
    ck_assert_uint_eq(timer->reserved, hwt_timer_pending(timer));
    room_close(&room);
}

static uint64_t pass(uint64_t now)
{
    atomic_store(&room.now, now);
    uint64_t n = hwt_worker_pass(timer, now);
    must(hwt_wheel_check(&worker->wheel));
    return n;
}

/* A timeout whose task re-arms it as long as it is to, and then does more. */
struct job {
    hwt_timeout timeout;
    uint64_t next; /* the instant it is re-armed for */
    bool ends;     /* it is not */
    unsigned runs, told;
    unsigned found; /* the phase of another, when this one ran */
    const struct job *other;
    void (*more)(void);
};

/* The tests' own: they outlive the timer, which tells them at last. */
static struct job self, next, added, others, between;

static unsigned phase_of(const struct job *of)
{
    return hwt_phase(of->timeout.entry->state);
}

static void run(hwt_timeout timeout, void *arg)
{
    struct job *job = arg;
    job->runs++;
    if (!job->ends)
        must(hwt_timeout_reschedule_at(timeout, job->next));
    if (job->other)
        job->found = phase_of(job->other);
    if (job->more)
        job->more();
}

static void cancelled(hwt_timeout timeout, void *arg)
{
    (void)timeout;
    ((struct job *)arg)->told++;
}

static const hwt_task working = { run, cancelled };

static void arm(struct job *job, uint64_t deadline)
{
    must(hwt_timer_new_timeout_at(timer, &working, job, deadline, &job->timeout) == 0);
}

/* ---- when it is filed at once ---- */

/* The phase in which the job itself, which re-arms itself in tick 5, is found by the next. */
static unsigned phase_found(void)
{
    next = (struct job){ .ends = true, .other = &self };
    arm(&self, 5 * TICK);
    arm(&next, 5 * TICK);
    ck_assert_uint_eq(pass(8 * TICK), 2); /* ticks 6 and 7 are over too */
    ck_assert_uint_eq(next.runs, 1);
    return next.found;
}

START_TEST(what_rearmed_itself_is_armed_once_its_task_has_returned_unless_it_is_due_already)
{
    static const struct {
        uint64_t next;
        unsigned phase;
        uint64_t tick; /* of the next run */
    } rearmings[] = {
        { 0, HWT_PHASE_QUEUED, 8 },
        { 7 * TICK, HWT_PHASE_QUEUED, 8 },
        { 8 * TICK - 1, HWT_PHASE_QUEUED, 8 },
        { 8 * TICK, HWT_PHASE_ARMED, 8 },
        { 9 * TICK - 1, HWT_PHASE_ARMED, 8 },
        { 9 * TICK, HWT_PHASE_ARMED, 9 },
        { (5 + WHEEL) * TICK, HWT_PHASE_ARMED, 5 + WHEEL }, /* the bucket that it comes from */
        { 1000 * TICK, HWT_PHASE_ARMED, 1000 },
    };
    self = (struct job){ .next = rearmings[_i].next };
    ck_assert_uint_eq(phase_found(), rearmings[_i].phase);
    self.ends = true;
    uint64_t end = (rearmings[_i].tick + 1) * TICK;
    ck_assert_uint_eq(hwt_worker_next_tick(timer), end);
    ck_assert_uint_eq(pass(end - 1), 0);
    ck_assert_uint_eq(pass(end), 1);
    ck_assert_uint_eq(self.runs, 2);
}
END_TEST

START_TEST(what_rearms_itself_for_never_stands_and_can_be_cancelled)
{
    self = (struct job){ .next = HWT_NEVER };
    ck_assert_uint_eq(phase_found(), HWT_PHASE_ARMED);
    ck_assert_uint_eq(hwt_worker_next_tick(timer), HWT_NEVER);
    ck_assert_uint_eq(hwt_timer_pending(timer), 1);
    ck_assert(hwt_timeout_cancel(self.timeout));
    pass(8 * TICK);
    ck_assert_uint_eq(self.told, 1);
}
END_TEST

static void add_one(void)
{
    arm(&added, 20 * TICK);
}

START_TEST(what_its_thread_has_added_before_goes_first)
{
    self = (struct job){ .next = 20 * TICK, .more = add_one };
    added = (struct job){ .ends = true, .other = &self };
    ck_assert_uint_eq(phase_found(), HWT_PHASE_QUEUED);
    self.ends = true;
    self.more = NULL;
    ck_assert_uint_eq(pass(21 * TICK), 2);
    ck_assert_uint_eq(added.found, HWT_PHASE_ARMED); /* had it run already, it were EXPIRED */
    ck_assert_uint_eq(self.runs, 2);
}
END_TEST

static struct hwt_entry *in_hand;

/* Another lane's adder salvages: it has taken from the queue what this thread has added, and not
 * put it on the snapshot yet. */
static void add_one_and_have_it_taken(void)
{
    add_one();
    room.lane->consuming = true;
    in_hand = caa_container_of(hwt_mpsc_pop(&room.lane->pending_head, &room.lane->pending_tail),
                               struct hwt_entry, link);
    must(in_hand == added.timeout.entry);
}

static void have_it_put_back(void)
{
    hwt_mpsc_push(&room.lane->drained_head, &room.lane->drained_tail, &in_hand->link);
    room.lane->consuming = false;
}

START_TEST(what_its_thread_has_added_before_goes_first_though_it_is_being_salvaged)
{
    self = (struct job){ .next = 20 * TICK, .more = add_one_and_have_it_taken };
    added = (struct job){ .ends = true, .other = &self };
    unsigned found = phase_found();
    have_it_put_back();
    self.ends = true;
    self.more = NULL;
    ck_assert_uint_eq(pass(21 * TICK), 2);
    ck_assert_uint_eq(added.found, HWT_PHASE_ARMED); /* had it run already, it were EXPIRED */
    ck_assert_uint_eq(found, HWT_PHASE_QUEUED);
}
END_TEST

/* As another thread does. */
static void add_on_another_lane(void)
{
    uint32_t before = share_lane(1);
    add_one();
    hwt_thread_number = before;
}

START_TEST(what_others_have_added_does_not_matter)
{
    self = (struct job){ .next = 20 * TICK, .more = add_on_another_lane };
    added = (struct job){ .ends = true };
    ck_assert_uint_eq(phase_found(), HWT_PHASE_ARMED);
    ck_assert_uint_eq(hwt_timer_pending(timer), 2);
}
END_TEST

static int execute(void *data, void (*work)(void *), void *arg)
{
    (void)data;
    work(arg);
    return 0;
}

START_TEST(an_executors_run_goes_through_the_queue)
{
    self = (struct job){ .next = 20 * TICK };
    hwt_timer_destroy(timer);
    open_with(execute);
    ck_assert_uint_eq(phase_found(), HWT_PHASE_QUEUED);
    self.ends = true;
    ck_assert_uint_eq(pass(21 * TICK), 1);
}
END_TEST

/* ---- what comes between filing and arming ---- */

static uint64_t moved_to;

static void cancel_it(void)
{
    must(hwt_timeout_cancel(between.timeout));
}

static void move_it(void)
{
    must(hwt_timeout_reschedule_at(between.timeout, moved_to));
}

static void strike_cancel(void)
{
    after_filing = cancel_it;
}

static void strike_move(void)
{
    after_filing = move_it;
}

START_TEST(a_cancel_before_it_is_armed_is_the_end)
{
    between = (struct job){ .next = 20 * TICK, .more = strike_cancel };
    arm(&between, 0);
    ck_assert_uint_eq(pass(TICK), 1);
    ck_assert_uint_eq(between.told, 1);
    ck_assert_int_eq(hwt_timeout_state(between.timeout), HWT_CANCELLED);
    ck_assert_uint_eq(hwt_wheel_next(&worker->wheel), HWT_NEVER);
    ck_assert_uint_eq(hwt_timer_pending(timer), 0);
    ck_assert_uint_eq(pass(30 * TICK), 0);
    ck_assert(room_has_back(&room, between.timeout.entry));
}
END_TEST

/* So that the second move leaves the state as it was before. */
static void move_and_strike_move(void)
{
    must(hwt_timeout_reschedule_at(between.timeout, 25 * TICK));
    strike_move();
}

/* Earlier, later, due already; as the first move, or the second. */
START_TEST(a_move_before_it_is_armed_holds)
{
    static const uint64_t to[] = { 10, 30, 0 };
    uint64_t tick = to[_i % 3] < 1 ? 1 : to[_i % 3];
    moved_to = to[_i % 3] * TICK;
    between = (struct job){ .next = 20 * TICK };
    between.more = _i < 3 ? strike_move : move_and_strike_move;
    arm(&between, 0);
    ck_assert_uint_eq(pass(TICK), 1);
    between.ends = true;
    between.more = NULL;
    ck_assert_uint_eq(hwt_worker_next_tick(timer), (tick + 1) * TICK);
    ck_assert_uint_eq(pass((tick + 1) * TICK - 1), 0);
    ck_assert_uint_eq(pass((tick + 1) * TICK), 1);
    ck_assert_uint_eq(hwt_wheel_next(&worker->wheel), HWT_NEVER);
}
END_TEST

/* ---- want of memory ---- */

static void want_memory(void)
{
    refuse = true;
}

START_TEST(what_cannot_be_filed_goes_through_the_queue_and_runs_in_time)
{
    self = (struct job){ .next = 20 * TICK, .more = want_memory };
    ck_assert_uint_eq(phase_found(), HWT_PHASE_QUEUED);
    for (uint64_t i = 1; i < 5; i++) { /* without any memory all the time */
        self.next = 20 * (i + 1) * TICK;
        ck_assert_uint_eq(pass((20 * i + 1) * TICK - 1), 0);
        ck_assert(worker->unfiled);
        ck_assert_uint_eq(pass((20 * i + 1) * TICK), 1);
    }
    refuse = false;
    self.more = NULL;
    ck_assert_uint_eq(pass(99 * TICK), 0);
    ck_assert(!worker->unfiled);
    ck_assert_uint_eq(hwt_worker_next_tick(timer), 101 * TICK);
    self.ends = true;
    ck_assert_uint_eq(pass(101 * TICK), 1);
    ck_assert_uint_eq(self.runs, 6);
}
END_TEST

/* ---- max_pending ---- */

static void fill_up(void)
{
    int r;
    others.ends = true;
    while ((r = hwt_timer_new_timeout_at(timer, &working, &others, HWT_NEVER, NULL)) == 0)
        ;
    refusals += r == -ENOBUFS;
}

START_TEST(a_rearming_is_never_refused_and_keeps_its_place)
{
    self = (struct job){ .next = 20 * TICK, .more = fill_up };
    arm(&self, 0);
    ck_assert_uint_eq(pass(TICK), 1); /* re-armed, it has its place: there are MOST - 1 left */
    ck_assert_int_eq(refusals, 1);
    ck_assert_uint_eq(hwt_timer_pending(timer), MOST);
    ck_assert_uint_eq(timer->reserved, MOST);
    self.next = 40 * TICK;
    ck_assert_uint_eq(pass(21 * TICK), 1);
    ck_assert_int_eq(refusals, 2);
    ck_assert_uint_eq(timer->reserved, MOST);
    ck_assert(hwt_timeout_cancel(self.timeout));
    ck_assert_uint_eq(timer->reserved, MOST - 1);
}
END_TEST

static void fill_up_and_rearm(hwt_timeout timeout, void *arg)
{
    fill_up(); /* its own place is free while it has not re-armed itself */
    ck_assert_uint_eq(timer->reserved, MOST);
    (void)arg;
    must(hwt_timeout_reschedule_at(timeout, self.next));
    ck_assert_uint_eq(timer->reserved, MOST + 1);
}

START_TEST(a_rearming_goes_beyond_the_limit_where_its_place_was_taken)
{
    static const hwt_task task = { fill_up_and_rearm, NULL };
    self = (struct job){ .next = 20 * TICK };
    ck_assert_int_eq(hwt_timer_new_timeout_at(timer, &task, &self, 0, &self.timeout), 0);
    ck_assert_uint_eq(pass(TICK), 1);
    ck_assert_uint_eq(timer->reserved, MOST + 1);
    ck_assert_uint_eq(hwt_timer_pending(timer), MOST + 1);
    ck_assert(hwt_timeout_cancel(self.timeout));
    ck_assert_uint_eq(timer->reserved, MOST);
    ck_assert_int_eq(hwt_timer_new_timeout_at(timer, &task, &self, 0, NULL), -ENOBUFS);
}
END_TEST

/* ---- the end ---- */

static void begin_stop(void)
{
    atomic_store(&timer->stopping, true); /* as stop does on another thread */
}

START_TEST(what_rearms_itself_while_the_timer_stops_is_left_over)
{
    self = (struct job){ .next = 20 * TICK, .more = begin_stop };
    arm(&self, 0);
    ck_assert_uint_eq(pass(TICK), 1);
    ck_assert_int_eq(hwt_timer_stop(timer, NULL, NULL), 1);
    ck_assert_uint_eq(self.runs, 1);
    ck_assert_uint_eq(self.told, 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("worker_rearm");
    TCase *filed = room_case(suite, "filed", open_room, close_room);
    tcase_add_loop_test(
        filed, what_rearmed_itself_is_armed_once_its_task_has_returned_unless_it_is_due_already, 0,
        8);
    tcase_add_test(filed, what_rearms_itself_for_never_stands_and_can_be_cancelled);
    tcase_add_test(filed, what_its_thread_has_added_before_goes_first);
    tcase_add_test(filed, what_its_thread_has_added_before_goes_first_though_it_is_being_salvaged);
    tcase_add_test(filed, what_others_have_added_does_not_matter);
    tcase_add_test(filed, an_executors_run_goes_through_the_queue);
    TCase *meanwhile = room_case(suite, "meanwhile", open_room, close_room);
    tcase_add_test(meanwhile, a_cancel_before_it_is_armed_is_the_end);
    tcase_add_loop_test(meanwhile, a_move_before_it_is_armed_holds, 0, 6);
    tcase_add_test(meanwhile, what_cannot_be_filed_goes_through_the_queue_and_runs_in_time);
    TCase *places = room_case(suite, "places", open_room, close_room);
    tcase_add_test(places, a_rearming_is_never_refused_and_keeps_its_place);
    tcase_add_test(places, a_rearming_goes_beyond_the_limit_where_its_place_was_taken);
    tcase_add_test(places, what_rearms_itself_while_the_timer_stops_is_left_over);
    return run_suite(suite);
}
