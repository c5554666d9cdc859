/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What the worker is as a thread of the system: its processors, its scheduling, its signals.
 *
 * The rule: it gets the processors and the nice value that the process's first thread had when the
 * library was loaded (by taskset, a cpuset, nice), and SCHED_OTHER; nothing of what the thread that
 * adds first has made of itself. So a network thread that has pinned itself does not get the worker on
 * its own processor, and a process that was started on two processors stays on two. For
 * what a thread without privileges can have of it see test_scheduling.c.
 */

#include <sys/mman.h>
#include <sys/syscall.h>

#include "children.h"

/* ---- what a task sees of its thread ---- */

typedef struct sight {
    shared_count seen;
    cpu_set_t processors;
    int policy, nice, priority;
    sigset_t blocked;
} sight;

static sight at_load; /* of the first thread, before it did anything */

static void look(sight *s)
{
    struct sched_param param = { 0 };
    sched_getaffinity(0, sizeof(s->processors), &s->processors);
    s->policy = sched_getscheduler(0);
    sched_getparam(0, &param);
    s->priority = param.sched_priority;
    errno = 0;
    s->nice = (int)syscall(SYS_getpriority, PRIO_PROCESS, 0); /* 20 - nice, of this thread */
    pthread_sigmask(SIG_SETMASK, NULL, &s->blocked);
    s->seen++;
}

static void see(hwt_timeout timeout, void *arg)
{
    (void)timeout;
    look(arg);
}

static const hwt_task seeing = { see, NULL };

/* Of the worker of a timer that this thread makes and adds to first. */
static void *see_worker(void *data)
{
    hwt_timer *timer = create_ticking(HWT_MS(1));
    arm(timer, &seeing, data, 0);
    must(await_count(&((sight *)data)->seen, 1));
    hwt_timer_destroy(timer);
    return NULL;
}

/* ---- processors ---- */

static void pin_to_the_first(void)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    for (size_t i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; i++)
        if (CPU_ISSET(i, &at_load.processors))
            CPU_SET(i, &one);
    ck_assert_int_eq(sched_setaffinity(0, sizeof(one), &one), 0);
}

static void assert_all_processors(const sight *worker)
{
    if (!CPU_EQUAL(&worker->processors, &at_load.processors))
        ck_abort_msg("the worker may use %d processors, the process was given %d",
                     CPU_COUNT(&worker->processors), CPU_COUNT(&at_load.processors));
}

START_TEST(the_worker_of_a_pinned_first_thread_is_not_pinned)
{
    sight worker = { 0 };
    pin_to_the_first();
    see_worker(&worker);
    assert_all_processors(&worker);
}
END_TEST

static void *pin_and_see_worker(void *data)
{
    pin_to_the_first();
    return see_worker(data);
}

START_TEST(the_worker_of_another_thread_that_is_pinned_is_not_pinned)
{
    sight worker = { 0 };
    join(spawn(pin_and_see_worker, &worker));
    assert_all_processors(&worker);
}
END_TEST

typedef struct first_adder {
    hwt_timer *timer;
    sight worker;
} first_adder;

static void *pin_and_add(void *data)
{
    first_adder *a = data;
    pin_to_the_first();
    arm(a->timer, &seeing, &a->worker, 0);
    return NULL;
}

START_TEST(a_timer_made_by_one_thread_and_started_by_a_pinned_one_is_not_pinned)
{
    first_adder a = { .timer = create_ticking(HWT_MS(1)) };
    join(spawn(pin_and_add, &a));
    ck_assert(await_count(&a.worker.seen, 1));
    hwt_timer_destroy(a.timer);
    assert_all_processors(&a.worker);
}
END_TEST

/* ---- a process that was given one processor ---- */

/* What the program does when it is called with this word. */
#define SEE_ONE "see-one-processor"

static int see_one(void)
{
    sight worker = { 0 };
    hwt_timer *timer = NULL;
    hwt_options options = HWT_OPTIONS_INIT;
    options.tick_duration = HWT_MS(1);
    if (hwt_timer_create(&options, &timer) < 0 ||
        hwt_timer_new_timeout(timer, &seeing, &worker, 0, NULL) < 0)
        return EXIT_FAILURE;
    (void)await_count(&worker.seen, 1);
    hwt_timer_destroy(timer);
    return CPU_COUNT(&worker.processors) == 1 ? EXIT_SUCCESS : EXIT_FAILURE;
}

static void start_on_one(void *arg)
{
    (void)arg;
    pin_to_the_first();
    execl("/proc/self/exe", "test_worker_thread", SEE_ONE, (char *)NULL);
    child_must(!"execl");
}

START_TEST(a_process_that_was_started_on_one_processor_stays_there)
{
    expect_well("a program started on one processor", start_on_one, NULL);
}
END_TEST

START_TEST(a_worker_cpu_that_was_asked_for_holds_whoever_adds)
{
    hwt_options options = HWT_OPTIONS_INIT;
    sight worker = { 0 };
    int last = -1;
    for (int i = 0; i < CPU_SETSIZE; i++)
        last = CPU_ISSET((size_t)i, &at_load.processors) ? i : last;
    options.worker_cpu = last;
    options.tick_duration = HWT_MS(1);
    hwt_timer *timer = create(&options);
    pin_to_the_first();
    arm(timer, &seeing, &worker, 0);
    ck_assert(await_count(&worker.seen, 1));
    ck_assert(CPU_COUNT(&worker.processors) == 1 && CPU_ISSET((size_t)last, &worker.processors));
    hwt_timer_destroy(timer);
}
END_TEST

/* ---- scheduling ---- */

typedef struct schedule {
    int policy, priority;
} schedule;

static const schedule schedules[] = {
    { SCHED_BATCH, 0 }, { SCHED_IDLE, 0 }, { SCHED_RR, 1 }, { SCHED_FIFO, 1 }
};

/* A first adder whose own policy the system refuses to set is one like all others. */
static void *be_scheduled_and_see_worker(void *data)
{
    first_adder *a = data;
    const schedule *s = &schedules[a->worker.priority];
    struct sched_param param = { .sched_priority = s->priority };
    a->worker.priority = 0;
    if (sched_setscheduler(0, s->policy, &param) != 0)
        printf("policy %d is refused here\n", s->policy);
    return see_worker(&a->worker);
}

START_TEST(the_worker_does_not_take_the_policy_of_the_first_adder)
{
    first_adder a = { .worker = { .priority = _i } };
    if (sched_getscheduler(0) < 0) /* musl tells no policies */
        return;
    join(spawn(be_scheduled_and_see_worker, &a));
    ck_assert_int_eq(a.worker.policy, SCHED_OTHER);
    ck_assert_int_eq(a.worker.priority, 0);
}
END_TEST

static bool may_lower_nice(void)
{
    int nice = (int)setpriority(PRIO_PROCESS, 0, 1) == 0;
    return nice && setpriority(PRIO_PROCESS, 0, 0) == 0;
}

static void *be_nice_and_see_worker(void *data)
{
    must(setpriority(PRIO_PROCESS, 0, 20 - at_load.nice + 3) == 0); /* of this thread alone */
    return see_worker(data);
}

/* Where the system lets a thread have its old priority again, which takes a privilege. */
START_TEST(the_worker_is_not_nicer_than_the_process)
{
    sight worker = { 0 };
    if (at_load.nice != 20 || !may_lower_nice())
        return;
    join(spawn(be_nice_and_see_worker, &worker));
    ck_assert_int_eq(worker.nice, at_load.nice);
}
END_TEST

/* ---- signals ---- */

static const int faults[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS };

enum { FAULTS = sizeof(faults) / sizeof(faults[0]) };

static bool is_fault(int number)
{
    for (int i = 0; i < FAULTS; i++)
        if (faults[i] == number)
            return true;
    return false;
}

static void assert_only_faults_are_open(const sight *worker)
{
    for (int number = 1; number <= SIGRTMAX; number++) {
        if (number == SIGKILL || number == SIGSTOP || (number >= 32 && number < SIGRTMIN))
            continue;
        if (sigismember(&worker->blocked, number) == is_fault(number))
            ck_abort_msg("signal %d is %s", number, is_fault(number) ? "blocked" : "open");
    }
}

/* Each loop: the adder blocks none, or all. */
START_TEST(the_worker_blocks_all_signals_but_those_of_a_fault)
{
    sight worker = { 0 };
    sigset_t mask, after;
    _i ? sigfillset(&mask) : sigemptyset(&mask);
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
    see_worker(&worker);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    assert_only_faults_are_open(&worker);
    ck_assert_int_eq(sigismember(&after, SIGUSR1), _i); /* the adder's are as they were */
    ck_assert_int_eq(sigismember(&after, SIGSEGV), _i);
}
END_TEST

/* ---- a fault in a task ---- */

enum { HANDLED = 42 };

static void handle_fault(int number)
{
    _exit(HANDLED + number);
}

static void fault(int number)
{
    void *page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (number == SIGSEGV)
        *(volatile char *)page = 1;
    if (number == SIGABRT)
        abort();
    raise(number); /* the others are not to be had the same way on all machines */
    child_must(!"the signal was open");
}

static void fault_in_task(hwt_timeout timeout, void *arg)
{
    (void)timeout;
    fault(*(const int *)arg);
}

static void wait_for_a_fault(void *arg)
{
    static const hwt_task faulting = { fault_in_task, NULL };
    const struct sigaction action = { .sa_handler = handle_fault };
    hwt_timer *timer = create_ticking(HWT_MS(1));
    child_must(sigaction(*(const int *)arg, &action, NULL) == 0);
    arm(timer, &faulting, arg, 0);
    sleep(CHILD_PATIENCE / 2);
    child_must(!"the handler was called");
}

START_TEST(a_fault_in_a_task_reaches_the_handler_of_the_program)
{
    int number = faults[_i];
    child_end end = run_child(wait_for_a_fault, &number);
    if (!WIFEXITED(end.status) || WEXITSTATUS(end.status) != HANDLED + number)
        ck_abort_msg("signal %d: %s. It said: %s", number, child_words(&end), end.said);
}
END_TEST

/* ---- */

static void add_all(Suite *suite)
{
    TCase *processors = add_case(suite, "processors");
    tcase_add_test(processors, the_worker_of_a_pinned_first_thread_is_not_pinned);
    tcase_add_test(processors, the_worker_of_another_thread_that_is_pinned_is_not_pinned);
    tcase_add_test(processors,
                   a_timer_made_by_one_thread_and_started_by_a_pinned_one_is_not_pinned);
    if (!is_emulated()) /* which cannot run itself */
        tcase_add_test(processors, a_process_that_was_started_on_one_processor_stays_there);
    tcase_add_test(processors, a_worker_cpu_that_was_asked_for_holds_whoever_adds);
    TCase *scheduling = add_case(suite, "scheduling");
    tcase_add_loop_test(scheduling, the_worker_does_not_take_the_policy_of_the_first_adder, 0,
                        sizeof(schedules) / sizeof(schedules[0]));
    tcase_add_test(scheduling, the_worker_is_not_nicer_than_the_process);
    TCase *signals = add_case(suite, "signals");
    if (!is_emulated()) /* which has signals of its own */
        tcase_add_loop_test(signals, the_worker_blocks_all_signals_but_those_of_a_fault, 0, 2);
    tcase_add_loop_test(signals, a_fault_in_a_task_reaches_the_handler_of_the_program, 0, FAULTS);
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], SEE_ONE) == 0)
        return see_one();
    look(&at_load);
    Suite *suite = suite_create("api: the worker as a thread");
    add_all(suite);
    return run_suite(suite);
}
