/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What the worker is as a thread of the system: its processors, its scheduling, its signals.
 *
 * The rule: it has what the thread has that starts it, by hwt_timer_start() or by the first timeout.
 * So a program that starts it early has a worker like its first thread, whatever the threads that
 * add have made of themselves.
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
static hwt_timer *timer;

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

static void *pin_and_add(void *data)
{
    pin_to_the_first();
    arm(timer, &seeing, data, 0);
    return NULL;
}

/* Each loop: it is started by the thread that is bound to a processor and adds, or before. */
START_TEST(the_worker_may_use_the_processors_of_its_starter)
{
    sight worker = { 0 };
    timer = create_ticking(HWT_MS(1));
    if (_i)
        ck_assert_int_eq(hwt_timer_start(timer), 0);
    join(spawn(pin_and_add, &worker));
    ck_assert(await_count(&worker.seen, 1));
    ck_assert_int_eq(CPU_COUNT(&worker.processors), _i ? CPU_COUNT(&at_load.processors) : 1);
    hwt_timer_destroy(timer);
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
    timer = create(&options);
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

/* What the adder has made of itself, if the system lets it. */
typedef struct adder {
    const schedule *schedule;
    sight own, worker;
} adder;

static void *change_and_add(void *data)
{
    adder *a = data;
    struct sched_param param = { .sched_priority = a->schedule->priority };
    if (sched_setscheduler(0, a->schedule->policy, &param) != 0)
        printf("policy %d is refused here\n", a->schedule->policy);
    must(setpriority(PRIO_PROCESS, 0, 20 - at_load.nice + 3) == 0); /* of this thread alone */
    look(&a->own);
    arm(timer, &seeing, &a->worker, 0);
    return NULL;
}

/* Each loop: another policy; it is started by the thread that adds, or before. */
START_TEST(the_worker_has_the_scheduling_of_its_starter)
{
    adder a = { .schedule = &schedules[_i / 2] };
    if (at_load.policy < 0) /* musl tells no policies */
        return;
    timer = create_ticking(HWT_MS(1));
    if (_i % 2)
        ck_assert_int_eq(hwt_timer_start(timer), 0);
    join(spawn(change_and_add, &a));
    ck_assert(await_count(&a.worker.seen, 1));
    const sight *like = _i % 2 ? &at_load : &a.own;
    ck_assert_int_eq(a.worker.policy, like->policy);
    ck_assert_int_eq(a.worker.priority, like->priority);
    ck_assert_int_eq(a.worker.nice, like->nice);
    hwt_timer_destroy(timer);
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
    timer = create_ticking(HWT_MS(1));
    arm(timer, &seeing, &worker, 0);
    ck_assert(await_count(&worker.seen, 1));
    hwt_timer_destroy(timer);
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
    timer = create_ticking(HWT_MS(1));
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
    tcase_add_loop_test(processors, the_worker_may_use_the_processors_of_its_starter, 0, 2);
    tcase_add_test(processors, a_worker_cpu_that_was_asked_for_holds_whoever_adds);
    TCase *scheduling = add_case(suite, "scheduling");
    tcase_add_loop_test(scheduling, the_worker_has_the_scheduling_of_its_starter, 0,
                        2 * sizeof(schedules) / sizeof(schedules[0]));
    TCase *signals = add_case(suite, "signals");
    if (!is_emulated()) /* which has signals of its own */
        tcase_add_loop_test(signals, the_worker_blocks_all_signals_but_those_of_a_fault, 0, 2);
    tcase_add_loop_test(signals, a_fault_in_a_task_reaches_the_handler_of_the_program, 0, FAULTS);
}

int main(void)
{
    look(&at_load);
    Suite *suite = suite_create("api: the worker as a thread");
    add_all(suite);
    return run_suite(suite);
}
