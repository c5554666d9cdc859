/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Copyright (C) the hwt authors */
#ifndef HWT_HWT_H
#define HWT_HWT_H

/*
 * hwt: a hashed wheel timer with round counts, after Netty's HashedWheelTimer.
 *
 * OVERVIEW
 *
 * A timer keeps any number of timeouts. A timeout runs its task once, in the first tick after its
 * deadline, unless it is cancelled before. A task may re-arm its own timeout. Arming, cancelling
 * and pushing back cost some tens of nanoseconds from any thread and take no lock. They are for
 * heartbeats, idle limits, request time-outs and retries, of which millions are pending and few
 * ever fire.
 *
 * One worker thread owns the wheel. Producers reach it through lock-free queues only. It sleeps to
 * the tick boundary at which something can be due, and does not wake at all while nothing is
 * pending. With HWT_NO_WORKER there is no thread, and an event loop calls hwt_timer_dispatch() when
 * hwt_timer_fd() is readable.
 *
 * USAGE
 *
 *     static void run(hwt_timeout timeout, void *arg) { puts(arg); }
 *     static const hwt_task task = { .run = run };
 *
 *     hwt_timer *timer;
 *     hwt_timeout timeout;
 *     int r = hwt_timer_create(NULL, &timer);                  // the defaults
 *     r = hwt_timer_new_timeout(timer, &task, "late", HWT_SEC(5), &timeout);
 *     hwt_timeout_reschedule(timeout, HWT_SEC(10));            // 10 s from now instead
 *     hwt_timeout_cancel(timeout);                             // or not at all
 *     hwt_timer_destroy(timer);
 *
 * CONVENTIONS
 *
 * Durations and instants are nanoseconds in a uint64_t. An instant is a reading of the timer's
 * clock, which is CLOCK_MONOTONIC unless the options say otherwise. Sums of the two saturate at
 * HWT_NEVER, the instant that does not come.
 *
 * A function that can fail returns 0 or a count, or a negative errno value. An output parameter is
 * called ret_..., stands last, and is left alone on failure. "Already expired" or "somebody else
 * cancelled it" is an answer (false), not a failure.
 *
 * Any thread may call any function at any time, callbacks included, unless the function's comment
 * says otherwise. No function is async-signal-safe. "Wait-free" means that a caller needs a bounded
 * number of its own steps. "Lock-free" means that some caller always gets on.
 *
 * If another thread cancels a thread by pthread_cancel(), that thread ends after the call that it
 * is in has returned. That is for deferred cancellation, the default. Asynchronous cancellation is
 * not supported.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The release of this header. hwt_version() tells the release of the library. */
#define HWT_VERSION_MAJOR 0
#define HWT_VERSION_MINOR 3
#define HWT_VERSION_PATCH 0

/* Only the library's own build needs the attribute. */
#ifdef HWT_BUILDING
#define HWT_PUBLIC __attribute__((visibility("default")))
#else
#define HWT_PUBLIC
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* A timeout with this delay or deadline never fires, and is pending until it is cancelled. */
#define HWT_NEVER UINT64_MAX

/*
 * Nanoseconds in n microseconds, milliseconds, seconds, minutes. They are HWT_NEVER if they are too
 * many, and if n is negative. n is an integer and is evaluated once. A fraction does not compile.
 * With a constant n they are constant expressions.
 */
#define HWT_US(n) HWT_NANOSECONDS(n, UINT64_C(1000))
#define HWT_MS(n) HWT_NANOSECONDS(n, UINT64_C(1000000))
#define HWT_SEC(n) HWT_NANOSECONDS(n, UINT64_C(1000000000))
#define HWT_MIN(n) HWT_NANOSECONDS(n, UINT64_C(60000000000))

/* The macros above are made of this function. In C the | refuses a fraction. */
#ifdef __cplusplus
constexpr uint64_t hwt_nanoseconds(uint64_t n, uint64_t unit)
{
    return n > UINT64_MAX / unit ? UINT64_MAX : n * unit;
}
extern "C++" {
template <typename T> constexpr uint64_t hwt_nanoseconds_of(T n, uint64_t unit)
{
    static_assert(T(1) / 2 == T(0), "HWT_US(), HWT_MS(), HWT_SEC() and HWT_MIN() take an integer: "
                                    "write HWT_MS(1500), not HWT_SEC(1.5)");
    return hwt_nanoseconds(static_cast<uint64_t>(n), unit);
}
}
/* The 0 makes a number of what is converted to one. */
#define HWT_NANOSECONDS(n, unit) hwt_nanoseconds_of((n) + 0, unit)
#else
static inline uint64_t hwt_nanoseconds(uint64_t n, uint64_t unit)
{
    return n > UINT64_MAX / unit ? UINT64_MAX : n * unit;
}
#define HWT_IF_CONSTANT(n, value, other)                                                           \
    __builtin_choose_expr(__builtin_constant_p((n) | 0), value, other)
#define HWT_PRODUCT(n, unit) ((n) > UINT64_MAX / (unit) ? UINT64_MAX : (n) * (unit))
#define HWT_NANOSECONDS(n, unit)                                                                   \
    HWT_IF_CONSTANT(n, HWT_PRODUCT((uint64_t)HWT_IF_CONSTANT(n, (n) | 0, 0), unit),                \
                    hwt_nanoseconds((uint64_t)((n) | 0), unit))
#endif

typedef struct hwt_timer hwt_timer;

/*
 * A handle on one timeout. It is copied freely, owns nothing, and is never released. Until its
 * timer is destroyed it may be passed to every handle function, however long ago the timeout ended.
 * A zero-initialised handle is valid and never pending. A thread that hands a handle to another
 * thread orders that as for any object, for example by a lock, or by a store with release that the
 * other thread loads with acquire.
 */
typedef struct hwt_timeout {
    struct hwt_entry *entry;
    uint64_t generation;
} hwt_timeout;

/*
 * The functions of a timeout. The timer keeps the struct by reference until the timeout has ended,
 * so it is usually a static const. If it has no `cancelled`, the struct and arg may go once
 * hwt_timeout_cancel_sync() has returned. Both functions are called on the worker thread, on the
 * executor if there is one, or in hwt_timer_advance() and its like. Runs of one timeout and its
 * `cancelled` never overlap.
 *
 * `cancelled` tells that the timeout will never run, or never run again. It is called once, within
 * a tick of the hwt_timeout_cancel() that returned true, or by hwt_timer_stop(). In one case the
 * call that arms the timeout calls it: hwt_timer_visit() has shown the timeout before that call
 * returned, and meanwhile it was cancelled by its handle and the timer was stopped.
 *
 * Both must return, as every function must that hwt calls. No C++ exception and no longjmp() may
 * leave them. Their thread may not end in them by pthread_exit() or pthread_cancel(). The worker
 * cannot be cancelled. If others may cancel a thread that drives a timer or runs the executor's
 * work, that thread disables cancellation meanwhile, unless the callbacks have no cancellation
 * point. A coroutine may be left in them, and resumed on the same thread.
 */
typedef struct hwt_task {
    void (*run)(hwt_timeout timeout, void *arg);
    void (*cancelled)(hwt_timeout timeout, void *arg); /* may be NULL */
} hwt_task;

/*
 * An executor has work(work_arg) run on another thread, soon and once, and returns 0. Or it returns
 * anything else and does not run it, and then the worker runs it. It must run all that it has
 * accepted, because hwt_timer_stop() waits for that. Only the worker thread calls it, or with
 * HWT_NO_WORKER the thread that dispatches.
 */
typedef int (*hwt_executor)(void *executor_data, void (*work)(void *), void *work_arg);

/* Returns nanoseconds, never less than before. Called by any thread. */
typedef uint64_t (*hwt_clock)(void *clock_data);

/* hwt_options.flags. The timer starts no thread, and the caller drives it, see below. */
#define HWT_NO_WORKER UINT32_C(1)

/*
 * Only together with HWT_NO_WORKER. The program promises that one thread at a time makes all calls
 * on the timer and its handles, as in most event loops. Then an operation on a timeout uses no
 * locked instruction, except one for every 32 or 62 operations, and those that count against
 * max_pending. A timeout that is cancelled soon is never filed. Every call is two to three times as
 * fast. An executor must run its work on that thread too.
 */
#define HWT_ONE_THREAD UINT32_C(2)

/*
 * Each call with a delay reads the clock. Without this flag such calls take the time from the
 * processor's counter if that is sound, which halves their time. It is sound with CLOCK_MONOTONIC
 * and a tick of at least 512 us, on 64-bit x86, if the kernel's own clock is that counter. The
 * instant that such a call reads may be up to 8 us late, and is never early.
 */
#define HWT_EXACT_CLOCK UINT32_C(4)

/*
 * Begin with HWT_OPTIONS_INIT or hwt_options_init(), and change the fields that are to be
 * different. A struct that was only zeroed, and has its size set, stands for the defaults too,
 * because each field that is 0 takes its default while `initialised` is 0.
 */
typedef struct hwt_options {
    size_t size;              /* sizeof(hwt_options) */
    uint64_t tick_duration;   /* at least HWT_US(1); default HWT_MS(100) */
    uint32_t ticks_per_wheel; /* 1 to 2^30, rounded up to a power of two; default 512 */
    uint32_t flags;           /* HWT_NO_WORKER, HWT_ONE_THREAD, HWT_EXACT_CLOCK */
    uint64_t max_pending;     /* more than so many pending: -ENOBUFS; default 0: no limit */
    hwt_executor executor;    /* default NULL: the worker runs tasks itself */
    void *executor_data;
    hwt_clock clock; /* only with HWT_NO_WORKER; default NULL: clock_id */
    void *clock_data;
    int clock_id;            /* CLOCK_MONOTONIC (default); with HWT_NO_WORKER also CLOCK_BOOTTIME */
    int worker_cpu;          /* the one processor the worker runs on; default -1: its starter's */
    const char *worker_name; /* copied, 15 bytes used; default "hwt-worker" */
    uint64_t initialised; /* 1: a field that is 0 means 0, so worker_cpu 0 is the first processor */
} hwt_options;

/* The 1 before -1 is Linux's CLOCK_MONOTONIC, which a strict C99 <time.h> does not name. */
#define HWT_OPTIONS_INIT                                                                           \
    {                                                                                              \
        sizeof(hwt_options), HWT_MS(100), 512, 0, 0, NULL, NULL, NULL, NULL, 1, -1, "hwt-worker",  \
            1                                                                                      \
    }

/*
 * HWT_OPTIONS_INIT as a function, for languages that cannot read macros. It sets the fields of a
 * struct of `size` bytes, which is what sizeof(hwt_options) is for the caller. Wait-free.
 *
 * -EINVAL: NULL; a size that no release has
 */
HWT_PUBLIC int hwt_options_init(hwt_options *options, size_t size);

typedef enum hwt_state {
    HWT_PENDING,   /* waits for its deadline, or re-armed by the task that still runs */
    HWT_EXPIRED,   /* its task has begun or ended */
    HWT_CANCELLED, /* it will never run */
    HWT_GONE       /* ended, and its memory serves another timeout or went back to the system */
} hwt_state;

/*
 * ---- The timer ----
 *
 * -EINVAL below also stands for a NULL timer.
 */

/*
 * Makes a timer. NULL options are the defaults. Time starts here: the timer counts its ticks from
 * this instant. It starts no thread yet.
 *
 * -EINVAL: an option out of its range; unknown flags, or HWT_ONE_THREAD without HWT_NO_WORKER;
 *   tick_duration times the wheel over INT64_MAX; a clock function or CLOCK_BOOTTIME without
 *   HWT_NO_WORKER; a size that no release has, or bytes that are not zero past those this build
 *   knows
 * -ENOMEM
 */
HWT_PUBLIC int hwt_timer_create(const hwt_options *options, hwt_timer **ret_timer);

/*
 * Starts the worker now rather than with the first timeout. Returns 0 also if it runs already, and
 * under HWT_NO_WORKER. May block on other callers that start it.
 *
 * The worker has the scheduling policy, the priority and the nice value of the thread that starts
 * it, and its processors, unless worker_cpu says which. So if a thread that is idle, of real time or
 * bound to a processor may arm the first timeout, call this early, from another one. The worker
 * blocks all signals but those that a fault of a task raises: SIGSEGV, SIGBUS, SIGFPE, SIGILL,
 * SIGTRAP, SIGABRT, SIGSYS.
 *
 * -EINVAL (also: worker_cpu cannot be had); -EAGAIN: no thread could be started, try again later;
 *   -ESHUTDOWN: after stop or end, or the timer is that of the parent of a fork(); -EMFILE,
 *   -ENFILE, -ENOMEM: in a child of fork() that could have no descriptor, see NOTES
 */
HWT_PUBLIC int hwt_timer_start(hwt_timer *timer);

/*
 * Stops the timer for good, and returns how many timeouts it left unprocessed, after every task
 * that began has returned, on the executor too. `unprocessed`, if any, is called once for each of
 * them, on this thread, with the nanoseconds that remained, which are 0 if it was due. Without one,
 * the timeout's `cancelled` is called in its place. The library's own timeouts are counted and not
 * visited: a retry tells its owner by its `ended`, a heartbeat tells nothing. From then on, nothing
 * is accepted, nothing runs, and handles may still be asked. Blocks. A second stop waits for the
 * first and returns 0.
 *
 * -EINVAL; -EDEADLK: called from a task, `cancelled`, `unprocessed` or the executor of this
 * timer
 */
HWT_PUBLIC int64_t hwt_timer_stop(hwt_timer *timer,
                                  void (*unprocessed)(const hwt_task *task, void *arg,
                                                      uint64_t remaining, void *data),
                                  void *data);

/*
 * Stops the timer without a visitor, if that has not been done, and frees it. No other call may be
 * under way or follow, on handles neither. NULL is fine. A task of this timer may not call it:
 * there it does nothing. In the child of a fork() it calls nothing back.
 */
HWT_PUBLIC void hwt_timer_destroy(hwt_timer *timer);

/* How many timeouts are pending, and 0 for NULL. Exact while no other call is under way.
 * Wait-free. */
HWT_PUBLIC uint64_t hwt_timer_pending(const hwt_timer *timer);

/* The timer's clock. 0 for NULL. Wait-free. */
HWT_PUBLIC uint64_t hwt_timer_now(const hwt_timer *timer);

/*
 * ---- Timeouts ----
 */

/*
 * Arms a timeout that runs task->run in the first tick after now + delay, never before. Delay 0 is
 * the next tick. ret_timeout may be NULL. Takes no lock and makes no system call but to wake a
 * parked worker, or to map memory when more timeouts are pending than ever before. The first
 * timeout starts the worker, and others that are armed meanwhile do not wait for it. Lock-free.
 *
 * Timeouts of one tick start in the order in which one thread added them. The task may run before
 * *ret_timeout is written, so it uses the handle that it has as an argument.
 *
 * -EINVAL: no task or no run (also: worker_cpu cannot be had); -ENOMEM; -ENOBUFS: max_pending is
 *   reached; -EAGAIN: no thread could be started; -ESHUTDOWN: after stop or end, or the timer is
 *   that of the parent of a fork(); -EMFILE, -ENFILE: in a child of fork() that could have no
 *   descriptor, see NOTES
 */
HWT_PUBLIC int hwt_timer_new_timeout(hwt_timer *timer, const hwt_task *task, void *arg,
                                     uint64_t delay, hwt_timeout *ret_timeout);

/* The same with an instant, past or to come. Reads no clock. */
HWT_PUBLIC int hwt_timer_new_timeout_at(hwt_timer *timer, const hwt_task *task, void *arg,
                                        uint64_t deadline, hwt_timeout *ret_timeout);

/*
 * The same as hwt_timer_new_timeout() for what need not be exact. The deadline is chosen between
 * now + earliest and now + latest. It gathers timeouts, so that fewer wake-ups serve as many: it
 * takes the tick at which a parked worker wakes anyway, or one that other windows are likely to
 * take too. It takes the time once. Lock-free.
 *
 * As hwt_timer_new_timeout(); -EINVAL also: earliest is more than latest
 */
HWT_PUBLIC int hwt_timer_new_timeout_within(hwt_timer *timer, const hwt_task *task, void *arg,
                                            uint64_t earliest, uint64_t latest,
                                            hwt_timeout *ret_timeout);

/*
 * True for exactly one caller, and only if what was pending will never run. With either answer the
 * task does not start again once this has returned. A task that is running at that moment can no
 * longer re-arm itself, and if it had done so already, that is what was cancelled. Lock-free; does
 * not wait.
 *
 * The `cancelled` of the task, if there is one, is called or handed to the executor within one
 * tick, unless a callback keeps the worker longer. The timeout has its memory and its place under
 * max_pending until then. Without a max_pending nothing bounds how many wait to be told. But a
 * thread of which more than some thirty thousand wait calls sched_yield() for every 4000 more,
 * unless it is in a callback, so that a worker that waits for a processor gets one.
 *
 * Without a `cancelled`, the timeout's place under max_pending is free at once, its memory is for
 * the next timeout of this thread, and nobody is woken. If the executor has the timeout, or its own
 * task has armed it again and still runs, both are free when that has returned.
 */
HWT_PUBLIC bool hwt_timeout_cancel(hwt_timeout timeout);

/*
 * The same, and when it returns, with either answer, `run` is not running on any other thread, and
 * hwt_timer_stop() is not showing the timeout to its visitor. So if the task has no `cancelled`,
 * its arg may be freed. It does not wait for `cancelled`. From inside the task itself it does not
 * wait. Blocks as long as the task or the visitor runs.
 *
 * Do not wait in a circle, because nothing detects it:
 *
 *     task A, executor thread 1          task B, executor thread 2
 *     hwt_timeout_cancel_sync(B)
 *                                        hwt_timeout_cancel_sync(A)
 *     waits for B to return              waits for A to return
 *
 * Do not hold a lock across it that the task takes.
 */
HWT_PUBLIC bool hwt_timeout_cancel_sync(hwt_timeout timeout);

/*
 * Moves a pending timeout to now + delay and keeps its handle. A move to a later instant writes
 * nothing but the timeout itself and a counter of the calling thread's own. Inside the timeout's
 * own task it re-arms it, without an allocation and outside max_pending. That takes effect when the
 * task returns. If two calls overlap, either may be the last. Lock-free.
 *
 * False: it was not pending any more. Inside its own task that means that somebody has cancelled
 * it, so this run is its end.
 */
HWT_PUBLIC bool hwt_timeout_reschedule(hwt_timeout timeout, uint64_t delay);

/* The same with an instant. Reads no clock. */
HWT_PUBLIC bool hwt_timeout_reschedule_at(hwt_timeout timeout, uint64_t deadline);

/*
 * Inside the timeout's own task: re-arms it for its last deadline + period, without drift. Periods
 * that were missed already are skipped, and never made up for in a burst. A period below a tick
 * comes once a tick. False elsewhere, for a period of 0, and if hwt_timeout_reschedule() would be
 * false.
 */
HWT_PUBLIC bool hwt_timeout_repeat(hwt_timeout timeout, uint64_t period);

/* HWT_GONE for a zeroed handle. Wait-free. Old by the time it is read, as every such answer. */
HWT_PUBLIC hwt_state hwt_timeout_state(hwt_timeout timeout);

/* Nanoseconds to its deadline; 0: due or not pending; HWT_NEVER: never. Wait-free. */
HWT_PUBLIC uint64_t hwt_timeout_remaining(hwt_timeout timeout);

/*
 * Inside the timeout's own task, after hwt_timeout_repeat(): how many periods that has skipped,
 * because the run was late. A task that counts or streams makes up for them. 0 elsewhere.
 */
HWT_PUBLIC uint64_t hwt_timeout_missed(hwt_timeout timeout);

/*
 * hwt_timeout_reschedule() to an instant that is chosen between now + earliest and now + latest as
 * by hwt_timer_new_timeout_within(). False also: earliest is more than latest.
 */
HWT_PUBLIC bool hwt_timeout_reschedule_within(hwt_timeout timeout, uint64_t earliest,
                                              uint64_t latest);

/*
 * The deadline, the task and the arg of one pending timeout. They belong together, and each pointer
 * may be NULL. Old by the time they are read. Lock-free. -ENOENT: it is not pending.
 */
HWT_PUBLIC int hwt_timeout_get(hwt_timeout timeout, uint64_t *ret_deadline,
                               const hwt_task **ret_task, void **ret_arg);

/*
 * Arms a timeout whatever its state. If *timeout is pending, it moves it as
 * hwt_timeout_reschedule() does. If not, it arms a new one for the task and arg and writes its
 * handle. *timeout may be zeroed. It is the caller's, who lets no two threads use it at once.
 * Returns 0 if it was moved, 1 if a new one was armed, or an error, as hwt_timer_new_timeout(), and
 * then *timeout is as it was. Lock-free.
 *
 * If it meets a run on another thread, that run goes on and a new timeout is armed beside it. So
 * with one task and arg the task may run on two threads at once if an executor runs it. Inside the
 * timeout's own task the same timeout is re-armed, unless somebody has cancelled it. Then a new one
 * is armed there too.
 */
HWT_PUBLIC int hwt_timer_set(hwt_timer *timer, const hwt_task *task, void *arg, uint64_t delay,
                             hwt_timeout *timeout);
HWT_PUBLIC int hwt_timer_set_at(hwt_timer *timer, const hwt_task *task, void *arg,
                                uint64_t deadline, hwt_timeout *timeout);

/*
 * ---- All that is pending ----
 */

/*
 * Shows each pending timeout to `visit`, in no order, until that returns false, and returns how
 * many it was shown, the last one included. It stops nothing. A timeout that is armed, moved or
 * ended meanwhile may be shown or not. The visitor may cancel and reschedule what it is shown, so
 * it can cancel a group. It may look into `arg` only if it knows that the timeout cannot end
 * meanwhile, or that arg outlives it. The library's own timeouts are shown too. -EINVAL
 */
HWT_PUBLIC int64_t hwt_timer_visit(hwt_timer *timer,
                                   bool (*visit)(hwt_timeout timeout, const hwt_task *task,
                                                 void *arg, uint64_t remaining, void *data),
                                   void *data);

/* A pending timeout, as hwt_timeout_get() has it. */
typedef struct hwt_pending {
    hwt_timeout timeout;
    uint64_t deadline;
    const hwt_task *task;
    void *arg;
} hwt_pending;

/*
 * Writes the soonest `count` of what is pending and `wanted` to an array, in the order of their
 * deadlines, and returns how many they are. Deadlines that are equal come in no order. If `wanted`
 * is NULL, all are wanted. So a group is looked at, or moved to now, from its soonest timeout on.
 *
 * It looks at all entries, on this thread. That takes some nanoseconds for each of the most
 * timeouts that were ever pending at once, and more for the few that enter the array. `wanted` is
 * called only for those that may be among the soonest, once for each. As a visitor, it may look
 * into `arg` only if it knows that the timeout cannot end meanwhile, or that arg outlives it. The
 * library's own timeouts are looked at too.
 *
 * It stops nothing. A timeout that is pending all the time, and not moved, is found if it is among
 * the soonest. One that is armed, moved or ended meanwhile may be found or not, with a deadline
 * that it had. No timeout is found twice. Lock-free but for what `wanted` does.
 *
 * -EINVAL: NULL timer; NULL array with a count that is not 0
 */
HWT_PUBLIC int64_t hwt_timer_soonest(hwt_timer *timer,
                                     bool (*wanted)(const hwt_pending *pending, void *data),
                                     void *data, hwt_pending *ret_soonest, size_t count);

/*
 * A stop that first lets run what is due before the instant `until`. From now on new timeouts are
 * refused, as after a stop. The timeouts that are pending may run, re-arm themselves, be moved and
 * be cancelled. The call becomes hwt_timer_stop() as soon as nothing is due before `until` and no
 * task runs, or when `until` has come. All that is due before `until` runs first, though its tick
 * is not over. A timeout that re-arms itself in that last turn is left over. The call does not wait
 * for timeouts whose deadline is HWT_NEVER. Without a worker it dispatches meanwhile. If the timer
 * has a clock function, the call takes that clock to stand still, and goes on from tick to tick as
 * far as `until`. Blocks until then at the most, and for the tasks that run. The results are those
 * of hwt_timer_stop().
 */
HWT_PUBLIC int64_t hwt_timer_end(hwt_timer *timer, uint64_t until,
                                 void (*unprocessed)(const hwt_task *task, void *arg,
                                                     uint64_t remaining, void *data),
                                 void *data);

/*
 * ---- Without a worker (HWT_NO_WORKER) ----
 *
 * One thread at a time is in the functions of this group, so a second one waits, as
 * hwt_timer_stop() does. Any thread adds, cancels and reschedules meanwhile. `cancelled` is called
 * here too, so "within a tick" holds if the loop dispatches when it should. The functions do
 * nothing, and return 0, HWT_NEVER or an error, if a task calls them, if the timer is NULL, or if
 * it has a worker, was stopped, or is that of the parent of a fork(). To end a timer from its own
 * task, have the task set a flag, and stop when dispatch has returned.
 */

/*
 * Runs all that is due by `now`, however much, and returns how many tasks it started, or handed to
 * the executor. Its cost is in proportion to the timeouts that are due or were added or cancelled
 * since, never to the ticks gone by. Time does not go back: if `now` is before the instant of the
 * last call, that instant counts.
 */
HWT_PUBLIC uint64_t hwt_timer_advance(hwt_timer *timer, uint64_t now);

/*
 * The same, but starts no more than `most` tasks, so that an event loop gets on with other things
 * when very much is due at once. The others stay due, so the descriptor stays readable, and the
 * next call goes on where this one ended. A call that has gone by some hundred thousand timeouts
 * which were cancelled or moved ends too, though it may have started fewer tasks, or none. With a
 * `most` of 0 it does nothing.
 */
HWT_PUBLIC uint64_t hwt_timer_advance_some(hwt_timer *timer, uint64_t now, uint64_t most);

/* hwt_timer_advance() by the timer's own clock. */
HWT_PUBLIC uint64_t hwt_timer_dispatch(hwt_timer *timer);

/*
 * The instant of the next tick at which something is due or must be moved, because a timeout that
 * was pushed back is moved when its old tick comes. HWT_NEVER: there is none. Looks at what was
 * added, and calls `cancelled` of what was cancelled. Calls of other threads may make it old, and
 * only the descriptor below tells that. For poll()'s milliseconds, round up.
 */
HWT_PUBLIC uint64_t hwt_timer_next_tick(hwt_timer *timer);

/*
 * A descriptor for poll, epoll and their like, readable when hwt_timer_dispatch() has work. That
 * work may be only to find that a timeout was cancelled or pushed back, so that it may run nothing.
 * Watch it level-triggered, and do not read from it. It belongs to the timer and is the same at
 * each call. hwt_timer_destroy() closes it, so take it out of the loop before that. Once the timer
 * is stopped it is not readable again, but for a moment if another thread is still in a call that
 * was to wake the loop. With a clock function it goes by the distance to the next tick at the last
 * call of this group.
 *
 * -EINVAL (also: the timer has a worker); -EMFILE, -ENFILE, -ENOMEM; -EPERM, -ENOSYS: the system
 *   refuses timerfd_create(); -ESHUTDOWN (also: called from a task, and there is none yet)
 */
HWT_PUBLIC int hwt_timer_fd(hwt_timer *timer);

/*
 * ---- Seeing inside ----
 */

typedef struct hwt_stats {
    size_t size;           /* set by HWT_STATS_INIT */
    uint64_t pending;      /* as hwt_timer_pending() */
    uint64_t added;        /* timeouts accepted */
    uint64_t expired;      /* runs begun, those of re-armed timeouts included */
    uint64_t cancelled;    /* cancels that returned true */
    uint64_t unprocessed;  /* left over by hwt_timer_stop() */
    uint64_t rescheduled;  /* reschedules and repeats that returned true */
    uint64_t rejected;     /* timeouts refused for a limit, or for want of memory and the like */
    uint64_t wakeups;      /* times the worker came out of a sleep */
    uint64_t memory;       /* bytes held; not what the allocator keeps of what was freed to it */
    uint64_t lateness_max; /* ns from deadline to start of task */
    uint64_t lateness[64]; /* [i]: runs late by 2^i to 2^(i+1) - 1 ns; 0 ns is in [0] */
    uint64_t lateness_sum; /* ns, over all runs; modulo 2^64 */
    uint64_t fast_clock;   /* 1: delays count by the processor's counter; see HWT_EXACT_CLOCK */
} hwt_stats;

#define HWT_STATS_INIT                                                                             \
    {                                                                                              \
        sizeof(hwt_stats), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, { 0 }, 0, 0                               \
    }

/*
 * HWT_STATS_INIT as a function. It zeroes a struct of `size` bytes, and sets its size. Wait-free.
 *
 * -EINVAL: NULL; a size below the first release's
 */
HWT_PUBLIC int hwt_stats_init(hwt_stats *stats, size_t size);

/*
 * Reads the counters. They are exact while no other call is under way and the worker sleeps.
 * ret_stats->size says how much the caller knows. Fields that this build does not know are set to
 * 0. Wait-free. -EINVAL: NULL, or a size below the first release's.
 */
HWT_PUBLIC int hwt_timer_stats(const hwt_timer *timer, hwt_stats *ret_stats);

/*
 * Writes the stats of `count` timers, from an array, as a page in Prometheus' text exposition
 * format, version 0.0.4. The i-th timer's samples have the label timer="names[i]", escaped as need
 * be. Names are UTF-8, and no two are the same. Without names, count is 1 and there is no label.
 * Each metric is described once, so a page of several timers cannot be put together from several
 * calls. The metrics are hwt_timeouts_pending, hwt_timeouts_..._total, hwt_worker_wakeups_total,
 * hwt_memory_bytes, hwt_lateness_max_seconds, and the histogram hwt_lateness_seconds, whose buckets
 * end at 2^i - 1 ns, from 1 us to 34 s.
 *
 * Returns the length of the whole text without its final zero byte, as snprintf() does. The text is
 * terminated. If the result is not below `size`, it has been cut short. A NULL buffer with size 0
 * asks for the length. Wait-free.
 *
 * -EINVAL: NULL, a count of 0, no names for several; a size below the first release's, or not
 *   the same in all
 */
HWT_PUBLIC int64_t hwt_stats_prometheus(const hwt_stats *stats, const char *const *names,
                                        size_t count, char *buffer, size_t size);

/*
 * Writes what is pending as a text for a human, which may change with each release: the state of
 * the worker, how many timeouts there are, how many of them are filed in the wheel or wait in
 * queues, the next wake-up, and for each bucket that is in use how many are in it and its next
 * tick.
 *
 * The buffer and the result are as for hwt_stats_prometheus(). The worker itself writes the text
 * between two passes, which takes time in proportion to what is filed. So this blocks as long as a
 * task runs. Do not hold a lock across it that a task takes, and do not let tasks of two timers
 * dump each other's. Without a worker, it waits for the call that drives the timer. From a callback
 * it is written at once, without the timeouts that the worker has in hand in that moment. If a
 * callback calls it while hwt_timer_stop() is under way, or a child of fork() whose parent has the
 * timer, it writes only the first line.
 *
 * -EINVAL; -EDEADLK: called from a callback of this timer, and the timer has an executor
 */
HWT_PUBLIC int64_t hwt_timer_dump(hwt_timer *timer, char *buffer, size_t size);

/* "major.minor.patch" of the library to which the program is linked. Wait-free. */
HWT_PUBLIC const char *hwt_version(void);

/*
 * NOTES
 *
 * Tick T covers the deadlines from start + T * tick_duration up to the next tick, and is handled
 * once now >= start + (T + 1) * tick_duration. So a task starts after its deadline by at most one
 * tick, plus what the scheduler and slow tasks before it add. A thread that adds and cancels faster
 * than the worker reads looks now and then through what is not read yet. If the worker comes just
 * then, it comes again a tick later, so that thread's tasks may start, and its `cancelled` be
 * called, one tick later.
 *
 * A slow task delays the others when there is no executor. hwt_timer_stop() and
 * destroy() wait for it.
 *
 * fork(): a timer that has accepted no timeout and was not started goes along, and is the child's
 * own there. The child may ask, cancel and destroy any other. A call that arms or drives it is
 * refused (-ESHUTDOWN, false, 0), and the parent's descriptor is not touched. hwt_timer_destroy()
 * of such a timer gives back the timeouts' memory. The memory of the worker and of the threads
 * stays until the child ends. A timer that goes along and has a descriptor has one of its own in
 * the child, of the same number. If the child cannot have it, hwt_timer_start() and the first
 * timeout are refused with -EMFILE, -ENFILE or -ENOMEM until hwt_timer_fd() has returned another. In
 * a child that a callback has made
 * nothing more is called back. If that callback was the worker's, the child ends when it returns,
 * because the child has no other thread.
 *
 * At most 8192 threads at once have their own way to a timer. Any others, and a thread that is
 * about to end, share one under a lock that is held for the time of a call. Their timeouts wait
 * while any thread looks through what is not read yet, so that the order holds. A thread that has
 * called keeps up to 64 free entries of a timer until it ends, or until it is asked for them and
 * calls again. It also keeps half a KiB, or up to 2.5 KiB if it has added or cancelled, which the
 * next thread that comes uses again.
 *
 * A wheel of more than 65536 ticks is made as one of 65536, with more rounds, which a program
 * cannot see. A bucket takes 80 bytes. A small timer takes one of the 65530 mappings that Linux
 * allows a process.
 */

#ifdef __cplusplus
}
#endif

#endif
