/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * All calls at once, by threads that are late at points of hwt/base/sched_point.h.
 *
 * A round has a timer of its own, driven in one of the four ways, and points of its own at which
 * threads are held up for long. Owners add, move and cancel what is in their slots; one of them is
 * played by threads that come and go, one may have a lane with others. Meddlers do to anybody's
 * timeouts what can be done with a handle, old ones included, and ask and dump. When enough has
 * been done the timer is stopped, amidst all that.
 *
 * - What was accepted ends once: with a run that does not re-arm it, with its `cancelled` or, where
 *   it has none, the cancel that was true, or with a visit of stop.
 * - Runs of one timeout do not overlap, and never start before the deadline.
 * - It does not run any more once a cancel was true; nor once one that waits has returned.
 *
 *     HWT_TEST_SECONDS=n    begins rounds for so long (default 3)
 *     HWT_TEST_SEED=n       the seed of the first round; the next has the next number
 */

#include "schedule.h"

#include "hwt/base/thread.h"
#include "stress.h"

#define TICK HWT_US(50)

enum { SLOTS = 24, OWNERS = 3, MEDDLERS = 2, VISITS = 40 };

/* Who may move it: its owner; its own task, by re-arming it; anybody, then nobody knows when it is
 * due. */
enum kind { OWNERS_OWN, REARMING, ANYBODYS, KINDS };

struct slot {
    pthread_mutex_t lock; /* of the handle and its number */
    hwt_timeout timeout;
    uint64_t number; /* how many have been here; the task reads it unlocked */
    bool tells;
    enum kind kind;
    uint64_t random;   /* plain: of its task, whose runs must be in order */
    unsigned left;     /* so often its task re-arms it yet; plain too */
    shared_count ends; /* catches up with number */
    shared_count dead; /* those up to this number must not run any more */
    shared_count earliest;
    shared_count running; /* the number of the one whose task runs; 0: none */
};

struct round {
    struct rig rig;
    struct slot slots[OWNERS][SLOTS];
    uint64_t seed;
    shared_count threads, operations, cancelled, refused, over;
    uint64_t enough;
    bool shares;
};

static struct round theround;

static void never_less(shared_count *count, uint64_t value)
{
    uint64_t seen = *count;
    while (seen < value && !atomic_compare_exchange_weak(count, &seen, value))
        ;
}

static void never_more(shared_count *count, uint64_t value)
{
    uint64_t seen = *count;
    while (seen > value && !atomic_compare_exchange_weak(count, &seen, value))
        ;
}

static uint64_t delay_of(uint64_t *random)
{
    static const uint64_t widths[] = { TICK / 4, 3 * TICK, 40 * TICK, HWT_SEC(100) };
    return below(random, widths[below(random, 4)]);
}

/* ---- tasks ---- */

static bool rearm(hwt_timeout timeout, struct slot *slot)
{
    uint64_t delay = delay_of(&slot->random) / 8;
    if (slot->kind == OWNERS_OWN || slot->left == 0)
        return false;
    slot->left--;
    if (below(&slot->random, 2)) {
        slot->earliest = 0; /* the last deadline + period: that is not known here */
        return hwt_timeout_repeat(timeout, 1 + delay);
    }
    slot->earliest = slot->kind == REARMING ? hwt_timer_now(theround.rig.timer) + delay : 0;
    return hwt_timeout_reschedule(timeout, delay);
}

static void slot_run(hwt_timeout timeout, void *arg)
{
    struct slot *slot = arg;
    shared_count *broken = &theround.rig.broken;
    expect(atomic_exchange(&slot->running, slot->number) == 0, broken);
    expect(slot->number > slot->dead, broken);
    expect(hwt_timer_now(theround.rig.timer) >= slot->earliest, broken);
    spin(below(&slot->random, 500));
    bool again = rearm(timeout, slot);
    if (below(&slot->random, 8) == 0)
        (void)hwt_timeout_state(timeout);
    slot->running = 0;
    if (!again)
        slot->ends++;
}

static void slot_cancelled(hwt_timeout timeout, void *arg)
{
    struct slot *slot = arg;
    (void)timeout;
    expect(slot->running == 0, &theround.rig.broken);
    slot->ends++;
}

static void slot_left(const hwt_task *task, void *arg, uint64_t remaining, void *data)
{
    (void)task;
    (void)remaining;
    (void)data;
    ((struct slot *)arg)->ends++;
}

static const hwt_task slot_tasks[] = { { slot_run, NULL }, { slot_run, slot_cancelled } };

/* ---- what is done to a slot ---- */

static int call_add(struct slot *slot, uint64_t delay, uint64_t how, hwt_timeout *ret_timeout)
{
    hwt_timer *timer = theround.rig.timer;
    const hwt_task *task = &slot_tasks[slot->tells];
    uint64_t now = hwt_timer_now(timer);
    slot->earliest = now + delay;
    switch (how) {
    case 0:
        return hwt_timer_new_timeout_at(timer, task, slot, now + delay, ret_timeout);
    case 1:
        return hwt_timer_new_timeout_within(timer, task, slot, delay, delay + TICK, ret_timeout);
    default:
        return hwt_timer_new_timeout(timer, task, slot, delay, ret_timeout);
    }
}

/* The owner's, and nothing is in it. False: the timer was stopped. */
static bool add_to(struct slot *slot, uint64_t *random)
{
    hwt_timeout timeout = { NULL, 0 };
    pthread_mutex_lock(&slot->lock);
    slot->number++;
    slot->tells = below(random, 2);
    slot->left = (unsigned)below(random, 4);
    slot->random = test_random(random);
    int r = call_add(slot, delay_of(random), below(random, 4), &timeout);
    expect(r == 0 || r == -ESHUTDOWN, &theround.rig.broken);
    if (r == 0)
        slot->timeout = timeout;
    else
        slot->number--;
    pthread_mutex_unlock(&slot->lock);
    return r == 0;
}

struct handle {
    hwt_timeout timeout;
    uint64_t number;
    bool tells;
};

static struct handle handle_of(struct slot *slot)
{
    pthread_mutex_lock(&slot->lock);
    struct handle handle = { slot->timeout, slot->number, slot->tells };
    pthread_mutex_unlock(&slot->lock);
    return handle;
}

static void cancel(struct slot *slot, const struct handle *handle, bool waits)
{
    shared_count *broken = &theround.rig.broken;
    bool won =
        waits ? hwt_timeout_cancel_sync(handle->timeout) : hwt_timeout_cancel(handle->timeout);
    if (waits)
        expect(slot->running != handle->number, broken);
    if (won || waits)
        never_less(&slot->dead, handle->number);
    expect(hwt_timeout_state(handle->timeout) != HWT_PENDING, broken);
    expect(!hwt_timeout_cancel(handle->timeout), broken);
    theround.cancelled += won;
    if (won && !handle->tells) {
        expect(!hwt_timeout_cancel_sync(handle->timeout), broken); /* it may run yet */
        slot->ends++;
    }
}

static void move(struct slot *slot, const struct handle *handle, uint64_t *random)
{
    uint64_t delay = delay_of(random);
    uint64_t deadline = hwt_timer_now(theround.rig.timer) + delay;
    if (slot->kind == ANYBODYS)
        slot->earliest = 0;
    else
        never_more(&slot->earliest, deadline);
    if (below(random, 2))
        (void)hwt_timeout_reschedule_at(handle->timeout, deadline);
    else
        (void)hwt_timeout_reschedule(handle->timeout, delay);
}

static void ask(const struct handle *handle, uint64_t *random)
{
    hwt_timer *timer = theround.rig.timer;
    hwt_stats stats = HWT_STATS_INIT;
    switch (below(random, 5)) {
    case 0:
        (void)hwt_timeout_remaining(handle->timeout);
        break;
    case 1:
        (void)hwt_timeout_state(handle->timeout);
        break;
    case 2:
        expect(hwt_timer_stats(timer, &stats) == 0, &theround.rig.broken);
        break;
    case 3:
        expect(hwt_timer_dump(timer, NULL, 0) > 0, &theround.rig.broken);
        break;
    default:
        (void)hwt_timer_next_tick(timer); /* does nothing where there is a worker */
    }
}

static void do_something(struct slot *slot, bool may_move, uint64_t *random)
{
    struct handle handle = handle_of(slot);
    if (handle.number == 0)
        return; /* nothing has been in it yet */
    switch (below(random, 6)) {
    case 0:
        cancel(slot, &handle, false);
        break;
    case 1:
        cancel(slot, &handle, true);
        break;
    case 2:
    case 3:
        if (may_move)
            move(slot, &handle, random);
        break;
    case 4:
        ask(&handle, random);
        break;
    default:
        spin(below(random, 1000));
    }
}

/* ---- threads ---- */

static uint64_t new_random(void)
{
    uint64_t state = theround.seed + theround.threads++;
    return test_random(&state);
}

/* False: the timer was stopped. */
static bool own(struct slot *slots, uint64_t *random)
{
    struct slot *slot = &slots[below(random, SLOTS)];
    theround.operations++;
    if (slot->ends == slot->number)
        return add_to(slot, random);
    do_something(slot, slot->kind != REARMING, random);
    return true;
}

static void *own_till_the_end(void *arg)
{
    uint64_t random = new_random();
    if (theround.shares && arg == theround.slots[1])
        hwt_thread_number = HWT_THREAD_NONE;
    while (own(arg, &random))
        ;
    theround.over++;
    return NULL;
}

static void *own_for_a_while(void *arg)
{
    uint64_t random = new_random();
    bool goes_on = true;
    for (int i = 0; i < VISITS && goes_on; i++)
        goes_on = own(arg, &random);
    return (void *)(uintptr_t)goes_on;
}

static void *own_by_turns(void *arg)
{
    void *goes_on;
    do {
        pthread_t thread;
        if (pthread_create(&thread, NULL, own_for_a_while, arg) != 0)
            abort();
        pthread_join(thread, &goes_on);
    } while (goes_on);
    theround.over++;
    return NULL;
}

static void *meddle(void *arg)
{
    uint64_t random = new_random();
    (void)arg;
    while (theround.over < OWNERS) {
        struct slot *slot = &theround.slots[below(&random, OWNERS)][below(&random, SLOTS)];
        do_something(slot, slot->kind == ANYBODYS, &random);
    }
    return NULL;
}

/* ---- a round ---- */

static void round_open(uint64_t seed)
{
    memset(&theround, 0, sizeof(theround));
    theround.seed = seed;
    theround.shares = test_random(&seed) % 2;
    theround.enough = TEST_SANITIZED ? 1000 : 4000;
    for (int i = 0; i < OWNERS; i++) {
        for (int k = 0; k < SLOTS; k++) {
            pthread_mutex_init(&theround.slots[i][k].lock, NULL);
            theround.slots[i][k].kind = (enum kind)(k % KINDS);
        }
    }
    rig_open(&theround.rig, (int)(test_random(&seed) % WAYS), TICK, 64);
}

static void round_close(uint64_t left)
{
    uint64_t accepted = 0;
    for (int i = 0; i < OWNERS; i++) {
        for (int k = 0; k < SLOTS; k++) {
            struct slot *slot = &theround.slots[i][k];
            must(slot->ends == slot->number);
            must(slot->running == 0);
            accepted += slot->number;
            pthread_mutex_destroy(&slot->lock);
        }
    }
    hwt_stats stats = stats_of(theround.rig.timer);
    ck_assert_uint_eq(stats.pending, 0);
    ck_assert_uint_eq(stats.added, accepted);
    ck_assert_uint_eq(stats.cancelled, theround.cancelled);
    ck_assert_uint_eq(stats.unprocessed, left);
    rig_close(&theround.rig);
}

static uint64_t play_round(uint64_t seed)
{
    pthread_t threads[OWNERS + MEDDLERS];
    round_open(seed);
    perturb(seed);
    for (int i = 0; i < OWNERS; i++)
        threads[i] = spawn(i == 0 ? own_by_turns : own_till_the_end, theround.slots[i]);
    for (int i = 0; i < MEDDLERS; i++)
        threads[OWNERS + i] = spawn(meddle, NULL);
    must(await_within(HWT_SEC(200), &theround.operations, theround.enough));
    int64_t left = hwt_timer_stop(theround.rig.timer, slot_left, NULL);
    ck_assert_int_ge(left, 0);
    for (int i = 0; i < OWNERS + MEDDLERS; i++)
        join(threads[i]);
    round_close((uint64_t)left);
    return theround.operations;
}

static uint64_t seconds(void)
{
    const char *text = getenv("HWT_TEST_SECONDS");
    return text && *text ? strtoull(text, NULL, 0) : 3;
}

START_TEST(nothing_is_lost_early_or_twice_when_everybody_is_late)
{
    uint64_t limit = monotonic() + HWT_SEC(seconds()), seed = test_seed(), operations = 0, n = 0;
    do {
        operations += play_round(seed + n++);
    } while (monotonic() < limit);
    printf("%" PRIu64 " rounds, %" PRIu64 " operations\n", n, operations);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("schedules: stress");
    TCase *perturbed = stress_case(suite, "perturbed");
    tcase_set_timeout(perturbed, 300 + (double)seconds());
    tcase_add_test(perturbed, nothing_is_lost_early_or_twice_when_everybody_is_late);
    return run_suite(suite);
}
