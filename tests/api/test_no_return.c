/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A callback that does not return is forbidden. Where it ends its thread (pthread_exit, a cancelled
 * thread), that is not a silent hang: the program is aborted with a message that names hwt. Where
 * the library keeps such a thing from happening, the timer goes on as ever; and what does return, by
 * whatever way, is never taken for one that does not.
 */

#include <sys/auxv.h>
#include <sys/mman.h>

#if defined(__has_include) && __has_include(<ucontext.h>) && defined(__GLIBC__)
#include <ucontext.h>
#define WITH_COROUTINES 1
#else
#define WITH_COROUTINES 0
#endif

#include "children.h"

/* ---- what a callback does instead of returning ---- */

static void leave_thread(hwt_timeout timeout, void *arg)
{
    (void)timeout, (void)arg;
    pthread_exit(NULL);
}

static void cancel_own_thread(hwt_timeout timeout, void *arg)
{
    (void)timeout, (void)arg;
    pthread_cancel(pthread_self());
    pthread_testcancel();
}

/* The library learns of a thread's end by a cleanup of its own functions. musl does not run these, nor
 * does glibc in a wholly static program, which has no interpreter. */
static bool ends_are_told(void)
{
#ifdef __GLIBC__
    return getauxval(AT_BASE) != 0;
#else
    return false;
#endif
}

/* ---- how the program ends ---- */

/* Aborted, and told why. */
static void expect_abort(const char *what, void (*work)(void *), void *arg)
{
    child_end end = run_child(work, arg);
    if (!WIFSIGNALED(end.status) || WTERMSIG(end.status) != SIGABRT || !strstr(end.said, "hwt"))
        ck_abort_msg("%s: %s. It said: \"%s\"", what, child_words(&end), end.said);
}

/* Whether the timer still runs what is due. */
static void expect_to_go_on(hwt_timer *timer)
{
    ends e = { 0 };
    child_must(hwt_timer_new_timeout(timer, &counting, &e, 0, NULL) == 0);
    child_must(await_within(HWT_SEC(10), &e.runs, 1));
    hwt_timer_destroy(timer);
}

static hwt_timer *child_timer(uint32_t flags)
{
    hwt_options options = HWT_OPTIONS_INIT;
    hwt_timer *timer = NULL;
    options.flags = flags;
    options.tick_duration = HWT_MS(1);
    child_must(hwt_timer_create(&options, &timer) == 0);
    return timer;
}

/* ---- on the worker ---- */

static void run_on_worker(void *task)
{
    hwt_timer *timer = child_timer(0);
    child_must(hwt_timer_new_timeout(timer, task, NULL, 0, NULL) == 0);
    usleep(20000);
    expect_to_go_on(timer);
}

static void cancel_on_worker(void *task)
{
    hwt_timer *timer = child_timer(0);
    hwt_timeout timeout;
    child_must(hwt_timer_new_timeout(timer, task, NULL, HWT_SEC(3600), &timeout) == 0);
    child_must(hwt_timeout_cancel(timeout));
    usleep(20000);
    expect_to_go_on(timer);
}

static hwt_task leaving = { leave_thread, leave_thread };
static hwt_task cancelling = { cancel_own_thread, cancel_own_thread };

START_TEST(a_task_that_ends_the_worker_is_not_silent)
{
    expect_abort("pthread_exit in a task", run_on_worker, &leaving);
}
END_TEST

START_TEST(a_cancelled_that_ends_the_worker_is_not_silent)
{
    expect_abort("pthread_exit in `cancelled`", cancel_on_worker, &leaving);
}
END_TEST

/* The worker takes no part in the cancelling of threads. */
START_TEST(a_task_that_cancels_the_worker_does_not_end_it)
{
    expect_well("pthread_cancel in a task", run_on_worker, &cancelling);
    expect_well("pthread_cancel in `cancelled`", cancel_on_worker, &cancelling);
}
END_TEST

/* ---- in a call that drives the timer ---- */

static void *dispatch_once(void *timer)
{
    hwt_timer_dispatch(timer);
    return NULL;
}

/* The thread that dispatched is gone: another one would wait for it for ever. */
static void leave_dispatch(void *task)
{
    pthread_t thread;
    hwt_timer *timer = child_timer(HWT_NO_WORKER);
    child_must(hwt_timer_new_timeout(timer, task, NULL, 0, NULL) == 0);
    usleep(3000);
    child_must(pthread_create(&thread, NULL, dispatch_once, timer) == 0);
    pthread_join(thread, NULL);
    hwt_timer_dispatch(timer);
    child_must(!"dispatch returned");
}

START_TEST(a_thread_that_ends_in_dispatch_is_not_silent)
{
    expect_abort("pthread_exit in dispatch", leave_dispatch, &leaving);
    expect_abort("pthread_cancel in dispatch", leave_dispatch, &cancelling);
}
END_TEST

/* ---- a callback that does return, by way of another stack ---- */

#if WITH_COROUTINES

enum { STACK_SIZE = 1 << 20 };

static ucontext_t main_context, loop_context;
static hwt_timer *driven_timer;
static uint64_t answers;

/* Further up than the loop: it has the thread's own stack, the loop one that was mapped. */
static void resume_main(hwt_timeout timeout, void *arg)
{
    (void)timeout, (void)arg;
    must(swapcontext(&loop_context, &main_context) == 0);
}

static void loop_once(void)
{
    answers += hwt_timer_advance(driven_timer, HWT_SEC(1));
}

START_TEST(a_coroutine_that_a_task_resumes_may_ask_the_timer)
{
    static const hwt_task resuming = { resume_main, NULL };
    manual m;
    hwt_options options = HWT_OPTIONS_INIT;
    options.flags = _i ? HWT_ONE_THREAD : 0;
    manual_open_with(&m, 0, options);
    driven_timer = m.timer;
    (void)arm(m.timer, &resuming, NULL, 0);
    void *stack =
        mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(stack, MAP_FAILED);
    ck_assert_int_eq(getcontext(&loop_context), 0);
    loop_context.uc_stack.ss_sp = stack;
    loop_context.uc_stack.ss_size = STACK_SIZE;
    loop_context.uc_link = &main_context;
    makecontext(&loop_context, loop_once, 0);
    answers = 0;
    ck_assert_int_eq(swapcontext(&main_context, &loop_context), 0);
    /* From within the task, it does nothing. */
    ck_assert_uint_eq(hwt_timer_advance(m.timer, HWT_SEC(2)), 0);
    ck_assert_uint_eq(hwt_timer_next_tick(m.timer), HWT_NEVER);
    ck_assert_int_eq(swapcontext(&main_context, &loop_context), 0);
    ck_assert_uint_eq(answers, 1);
    manual_close(&m);
    munmap(stack, STACK_SIZE);
}
END_TEST

/* A stack that is an array in a frame of the thread's own stack, above whatever that calls. */
static void ask_on_array(void)
{
    answers += hwt_timer_advance(driven_timer, HWT_SEC(2)) == 0;
    answers += hwt_timer_next_tick(driven_timer) == HWT_NEVER;
}

static void resume_loop(hwt_timeout timeout, void *arg)
{
    (void)timeout, (void)arg;
    must(swapcontext(&main_context, &loop_context) == 0);
}

__attribute__((noinline)) static void drive_below(void)
{
    answers += hwt_timer_advance(driven_timer, HWT_SEC(1));
}

START_TEST(a_coroutine_on_an_array_may_ask_the_timer)
{
    static const hwt_task resuming = { resume_loop, NULL };
    _Alignas(16) char stack[1 << 16];
    manual m;
    manual_open(&m, 0, HWT_MS(1), 64);
    driven_timer = m.timer;
    (void)arm(m.timer, &resuming, NULL, 0);
    ck_assert_int_eq(getcontext(&loop_context), 0);
    loop_context.uc_stack.ss_sp = stack;
    loop_context.uc_stack.ss_size = sizeof(stack);
    loop_context.uc_link = &main_context;
    makecontext(&loop_context, ask_on_array, 0);
    answers = 0;
    drive_below();
    ck_assert_uint_eq(answers, 3);
    manual_close(&m);
}
END_TEST

/* Two loops, each on a stack of its own. */
static ucontext_t loops[2];
static manual manuals[2];
static bool armed_again[2];

static void resume_main_and_arm(hwt_timeout timeout, void *arg)
{
    size_t i = (size_t)((bool *)arg - armed_again);
    must(swapcontext(&loops[i], &main_context) == 0);
    armed_again[i] = hwt_timeout_reschedule(timeout, HWT_SEC(1));
}

static void drive_one(int i)
{
    (void)manual_go(&manuals[i], HWT_SEC(1));
}

/* Returns its stack. */
static void *begin_loop(int i)
{
    static const hwt_task resuming = { resume_main_and_arm, NULL };
    void *stack =
        mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(stack, MAP_FAILED);
    manual_open(&manuals[i], 0, HWT_MS(1), 64);
    (void)arm(manuals[i].timer, &resuming, &armed_again[i], HWT_MS(5));
    ck_assert_int_eq(getcontext(&loops[i]), 0);
    loops[i].uc_stack.ss_sp = stack;
    loops[i].uc_stack.ss_size = STACK_SIZE;
    loops[i].uc_link = &main_context;
    makecontext(&loops[i], (void (*)(void))drive_one, 1, i);
    ck_assert_int_eq(swapcontext(&main_context, &loops[i]), 0);
    return stack;
}

static void end_loop(int i, void *stack)
{
    ck_assert_int_eq(swapcontext(&main_context, &loops[i]), 0);
    ck_assert(armed_again[i]);
    munmap(stack, STACK_SIZE);
}

START_TEST(two_coroutines_end_in_the_order_in_which_they_began)
{
    void *stacks[2];
    for (int i = 0; i < 2; i++)
        stacks[i] = begin_loop(i);
    for (int i = 0; i < 2; i++)
        end_loop(i, stacks[i]);
    for (int i = 0; i < 2; i++)
        manual_close(&manuals[i]);
}
END_TEST

#endif

int main(void)
{
    Suite *suite = suite_create("api: callbacks that do not return");
    bool told = ends_are_told();
    TCase *on_worker = add_case(suite, "worker");
    if (told) {
        tcase_add_test(on_worker, a_task_that_ends_the_worker_is_not_silent);
        tcase_add_test(on_worker, a_cancelled_that_ends_the_worker_is_not_silent);
    }
    tcase_add_test(on_worker, a_task_that_cancels_the_worker_does_not_end_it);
    TCase *driven = add_case(suite, "dispatch");
    if (told)
        tcase_add_test(driven, a_thread_that_ends_in_dispatch_is_not_silent);
#if WITH_COROUTINES
    if (!WITH_SANITIZER) { /* which would have to be told */
        tcase_add_loop_test(driven, a_coroutine_that_a_task_resumes_may_ask_the_timer, 0, 2);
        tcase_add_test(driven, a_coroutine_on_an_array_may_ask_the_timer);
        tcase_add_test(driven, two_coroutines_end_in_the_order_in_which_they_began);
    }
#endif
    return run_suite(suite);
}
