/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_RETRY_H
#define HWT_RETRY_H

/*
 * Attempts with exponential backoff, by one timeout.
 *
 * OVERVIEW
 *
 * A program embeds an hwt_retry in what has something to attempt, such as a request or a
 * connection. The retry begins an attempt. When that fails or takes too long, it begins another one
 * after a delay, which grows from one to the next and is spread at random. It tells once how it all
 * ended. A callback begins an attempt. The attempt is over when hwt_retry_succeeded() or
 * hwt_retry_failed() is told of it, inside of that callback, or at any time later and on any
 * thread.
 *
 * Every attempt has a number, which no other attempt of the same object ever has, in whichever
 * start. So an answer that comes late, when another attempt is under way or none, is refused.
 *
 * It all ends in one of:
 *
 *     HWT_RETRY_SUCCEEDED      an attempt succeeded
 *     HWT_RETRY_EXHAUSTED      the last of max_attempts failed
 *     HWT_RETRY_OUT_OF_TIME    total_timeout ran out during an attempt, or would during the delay
 *     HWT_RETRY_CANCELLED      by hwt_retry_cancel(), or the timer was stopped
 *     HWT_RETRY_FAILED         an attempt failed for good, by hwt_retry_failed_for_good()
 *     HWT_RETRY_THROTTLED      an attempt failed, and the budget allows no other
 *
 * USAGE
 *
 *     struct connection { hwt_retry retry; ... };            // zeroed: not started
 *
 *     static void attempt(hwt_retry *retry, uint64_t attempt, void *arg)
 *     {
 *         if (begin_connect(arg, attempt) < 0)              // notes the number
 *             hwt_retry_failed(retry, attempt);
 *     }
 *
 *     static void ended(hwt_retry *retry, hwt_retry_end end, void *arg)
 *     {
 *         if (end != HWT_RETRY_SUCCEEDED)
 *             free(arg);
 *     }
 *     static const hwt_retry_task task = { attempt, ended };
 *
 *     hwt_retry_options options = HWT_RETRY_OPTIONS_INIT;
 *     options.max_attempts = 5;
 *     options.attempt_timeout = HWT_SEC(3);
 *     r = hwt_retry_start_now(&connection->retry, timer, &options, &task, connection);
 *
 *     hwt_retry_succeeded(&connection->retry, attempt);     // when it is connected: that number
 *
 * OWNERSHIP
 *
 * The object is the caller's. A zeroed one is not started. To zero it again makes it forget the
 * numbers of its attempts. A started one must stay where it is until its `ended` is called, which
 * may free it, or start it again. Nothing in the library touches it after that. Until then any
 * thread may call any function on it at any time. A thread that may come too late, and find the
 * object freed, needs a reference of its own. If the object has ended and is still there, or was
 * started again, that thread just gets false. While any call on a started object is under way, its
 * timer must not be destroyed, as with handles.
 */

#include <hwt/hwt.h>

/* For objects with atomic words of 64 bits, which some 32-bit machines align to 4 bytes only. */
#ifndef HWT_ALIGNED_8
#if UINTPTR_MAX == UINT32_MAX && defined(__GNUC__)
#define HWT_ALIGNED_8 __attribute__((aligned(8)))
#else
#define HWT_ALIGNED_8
#endif
#endif

#ifdef __cplusplus
extern "C" {
#endif

/*
 * ---- The delays alone ----
 */

/*
 * How the delay after an attempt that failed is drawn. The base is first_delay after the first
 * attempt. After that it is factor times the last base, but at most max_delay. This is after Marc
 * Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 4 March 2015. Decorrelated
 * jitter has a factor of 3 there.
 */
typedef enum hwt_jitter {
    HWT_JITTER_NONE,         /* the base itself: what fails together is tried together again */
    HWT_JITTER_FULL,         /* from 0 to the base */
    HWT_JITTER_EQUAL,        /* from half of the base to the base */
    HWT_JITTER_DECORRELATED, /* from first_delay to factor times the last delay, at first factor
                                times first_delay; where that is over max_delay, max_delay */
    HWT_JITTER_AROUND        /* from the base less jitter_fraction of it to the base and
                                jitter_fraction of it, but not over max_delay */
} hwt_jitter;

typedef struct hwt_retry_budget hwt_retry_budget;

typedef struct hwt_retry_options {
    size_t size;              /* set by HWT_RETRY_OPTIONS_INIT */
    uint64_t first_delay;     /* default HWT_MS(100) */
    uint64_t max_delay;       /* at least first_delay; default HWT_SEC(30) */
    double factor;            /* 1 to 1000; default 2 */
    uint64_t attempt_timeout; /* an attempt without answer for so long has failed; not 0;
                                 default HWT_NEVER */
    uint64_t total_timeout;   /* from the start; not 0; default HWT_NEVER */
    uint64_t seed;            /* the same seed, the same delays; default 0: at random, other ones in
                                 each object, thread and child of fork() */
    uint32_t max_attempts;    /* default 0: no limit */
    hwt_jitter jitter;        /* default HWT_JITTER_FULL */
    double jitter_fraction;   /* 0 to 1, for HWT_JITTER_AROUND alone; default 0.2 */
    hwt_retry_budget *budget; /* kept by reference until the end; default NULL: no budget */
} hwt_retry_options;

#define HWT_RETRY_OPTIONS_INIT                                                                     \
    {                                                                                              \
        sizeof(hwt_retry_options), HWT_MS(100), HWT_SEC(30), 2.0, HWT_NEVER, HWT_NEVER, 0, 0,      \
            HWT_JITTER_FULL, 0.2, NULL                                                             \
    }

/*
 * HWT_RETRY_OPTIONS_INIT as a function, for languages that cannot read macros. It sets the defaults
 * in the first `size` bytes, which is the size of the struct as the caller knows it. With NULL, or
 * a size below the first release's, it does nothing. Wait-free.
 */
HWT_PUBLIC void hwt_retry_options_init(hwt_retry_options *options, size_t size);

/* For embedding and copying only, because the fields are the library's. */
typedef struct hwt_backoff {
    uint64_t first_delay, max_delay;
    double factor;
    uint64_t delay;  /* decorrelated: the last one; else the next base */
    uint64_t random; /* of a sequence that has a seed */
    hwt_jitter jitter;
    uint32_t seeded;
    double jitter_fraction;
    uint64_t reserved;
} hwt_backoff;

/*
 * Begins a sequence of delays, for a program that does the retrying itself. NULL options are the
 * defaults. Only first_delay, max_delay, factor, jitter, jitter_fraction and seed count, but all
 * are checked. Wait-free.
 *
 * -EINVAL: no backoff; an option out of its range; a budget that was not initialised; a size below
 *   the first release's, or no multiple of the struct's alignment; bytes that are not zero past
 *   those this build knows
 */
HWT_PUBLIC int hwt_backoff_init(hwt_backoff *backoff, const hwt_retry_options *options);

/*
 * The next delay, in nanoseconds. All in its range are equally likely. A seed gives the same delays
 * in every release, and on every machine that computes in IEEE 754 doubles. Without a seed, a child
 * of fork() draws other delays than its parent and its siblings, also from a sequence that was
 * begun before the fork(). One thread at a time on one object. NULL: HWT_NEVER.
 */
HWT_PUBLIC uint64_t hwt_backoff_next(hwt_backoff *backoff);

/*
 * ---- A budget of retries, shared by many ----
 *
 * A service that is down, or overloaded, gets several times its usual requests if every client
 * retries, and stays down. So a program keeps a budget for each service. It holds tokens,
 * max_tokens at first. A failure takes one token. A success puts token_ratio of a token back, but
 * never over max_tokens. Retries are allowed while more than half of max_tokens are there. (This is
 * gRPC's retry throttling, proposal A6.)
 *
 * If the options name it, hwt_retry keeps it. Each attempt that failed or was timed out takes a
 * token, and each success puts its part back. An attempt that failed for good, was cancelled or ran
 * out of time changes nothing. A program that does the retrying itself calls the functions below.
 */

/* For embedding only, because the fields are the library's. It outlives the `ended` of all retries
 * that were started with it, and is not copied. */
struct hwt_retry_budget {
    uint64_t tokens; /* in thousandths, as the others */
    uint64_t max_tokens;
    uint64_t token_ratio;
    uint64_t reserved;
} HWT_ALIGNED_8;

/*
 * Fills the budget. No other call on it may be under way. gRPC's example has 10 tokens and a ratio
 * of 0.1, so it allows four retries in a burst, and later one retry for about ten successes.
 *
 * -EINVAL: no budget; max_tokens is 0 or over 1000000; token_ratio is below 0.001 or over
 *   max_tokens (it is rounded to thousandths)
 */
HWT_PUBLIC int hwt_retry_budget_init(hwt_retry_budget *budget, uint32_t max_tokens,
                                     double token_ratio);

/* Tells that a request failed in a way that a retry could mend. True: it may be retried. NULL is a
 * budget without a limit. Lock-free. */
HWT_PUBLIC bool hwt_retry_budget_failed(hwt_retry_budget *budget);

/* Tells that a request succeeded. Lock-free. */
HWT_PUBLIC void hwt_retry_budget_succeeded(hwt_retry_budget *budget);

/* Whether retries are allowed now. It takes nothing. NULL: true. Wait-free. */
HWT_PUBLIC bool hwt_retry_budget_allows(const hwt_retry_budget *budget);

/*
 * ---- Retrying ----
 */

typedef enum hwt_retry_end {
    HWT_RETRY_SUCCEEDED,
    HWT_RETRY_EXHAUSTED,
    HWT_RETRY_OUT_OF_TIME,
    HWT_RETRY_CANCELLED,
    HWT_RETRY_FAILED,
    HWT_RETRY_THROTTLED
} hwt_retry_end;

typedef struct hwt_retry hwt_retry;

/*
 * The functions of a retry. The retry keeps the struct by reference until `ended` is called, so it
 * is usually a static const. The timer calls both where it runs its tasks: on the worker, on the
 * executor if there is one, or in hwt_timer_advance() and its like. hwt_retry_start_now() says what
 * is different there. For one object the timer never calls both, or one twice, at the same time,
 * unless another thread starts the object again while `ended` runs.
 *
 * `attempt` begins an attempt and should not wait for its answer. An attempt is not timed out
 * before `attempt` has returned. The number of an attempt is one higher than that of the attempt
 * before, and goes further up with a new start. No attempt has the number 0. If an attempt was
 * timed out, give up its remains when the next one begins, or at the end.
 *
 * `ended` is called exactly once for every start that returned 0, and is the last callback of that
 * start. It may free the object, or start it again. hwt_timer_stop() calls it too, with or without
 * a visitor, and does not show the timeouts of retries to the visitor. An end that was decided
 * before is told as it is, any other as HWT_RETRY_CANCELLED.
 */
typedef struct hwt_retry_task {
    void (*attempt)(hwt_retry *retry, uint64_t attempt, void *arg);
    void (*ended)(hwt_retry *retry, hwt_retry_end end, void *arg);
} hwt_retry_task;

/* For embedding and zeroing only, because the fields are the library's. */
struct hwt_retry {
    uint64_t state;
    hwt_timeout timeout;
    hwt_timer *timer;
    const hwt_retry_task *task;
    void *arg;
    hwt_backoff backoff;
    uint64_t attempt_timeout;
    uint64_t deadline;
    uint64_t attempts_left;
    uint64_t wake;
    hwt_retry_budget *budget;
    uint64_t pen;
    uint64_t told;
    uint64_t line;
    uint64_t reserved;
} HWT_ALIGNED_8;

/*
 * Starts the retry. The first attempt begins in the next tick, on the timer's thread. The retry
 * copies the options. NULL are the defaults. It takes one timeout of the timer for its whole life,
 * so nothing can fail later. Lock-free.
 *
 * An attempt begins within a tick after its delay. The delay counts from the instant at which the
 * timer notices the failure: when the attempt is timed out; when `attempt` returns, if it failed in
 * there; or, if it failed after that, at the end of the tick in which hwt_retry_failed() was
 * called.
 *
 * With a total_timeout, no attempt begins when it has run out, and one that is under way then ends
 * within a tick as HWT_RETRY_OUT_OF_TIME. If a delay would not be over before that, the end comes
 * at once, because a wait would be for nothing. The same holds for a delay of HWT_NEVER.
 *
 * After an error it is not started, and nothing is called.
 *
 * -EINVAL: NULL retry, timer, task, or a function of it; options as for hwt_backoff_init()
 * -EALREADY: it is started, or another thread is about to start it; -ENOMEM, -ENOBUFS, -EAGAIN,
 *   -EMFILE, -ENFILE, -ESHUTDOWN: as hwt_timer_new_timeout()
 */
HWT_PUBLIC int hwt_retry_start(hwt_retry *retry, hwt_timer *timer, const hwt_retry_options *options,
                               const hwt_retry_task *task, void *arg);

/*
 * The same, and the first attempt begins at once: this thread calls `attempt` before this returns,
 * with no wait for a tick. The timer calls everything else where it runs its tasks: later attempts,
 * and `ended` within a tick of the answer. So another thread may have called `ended` when this
 * returns. attempt_timeout counts from this call, but does not run out before `attempt` has
 * returned, and is noticed within a tick after that. If the attempt fails inside of the call, the
 * delay counts from the return of `attempt`.
 *
 * While `attempt` runs here, other threads may answer it, cancel it and stop the timer. Nothing
 * else is called meanwhile. hwt_retry_cancel_sync() on another thread waits for it.
 * hwt_timer_stop() does not wait. If the timer is stopped meanwhile, this thread calls `ended`
 * before this returns, with HWT_RETRY_CANCELLED or with the end that was decided before. So hold no
 * lock across this that one of the callbacks takes. Any callback may call it, also `ended` for the
 * same object, and with any timer. Blocks as long as `attempt` does, and is lock-free apart from
 * that.
 *
 * Errors as hwt_retry_start(): then `attempt` was not called either.
 */
HWT_PUBLIC int hwt_retry_start_now(hwt_retry *retry, hwt_timer *timer,
                                   const hwt_retry_options *options, const hwt_retry_task *task,
                                   void *arg);

/*
 * Tells that the attempt of this number succeeded. True: it was under way and this is its answer,
 * and `ended` is called within a tick. False: it was answered already, timed out or cancelled, or
 * retry is NULL. Lock-free.
 */
HWT_PUBLIC bool hwt_retry_succeeded(hwt_retry *retry, uint64_t attempt);

/* Tells that the attempt of this number failed. The same answers. Lock-free. */
HWT_PUBLIC bool hwt_retry_failed(hwt_retry *retry, uint64_t attempt);

/*
 * Tells that the attempt of this number failed, and that the other side has said when to come
 * again, as HTTP's Retry-After and gRPC's pushback do. The next attempt begins within a tick after
 * `delay` nanoseconds, and not before. max_delay does not limit this delay. max_attempts,
 * total_timeout and the budget hold as for any failure. The delays that are drawn afterwards begin
 * anew with first_delay.
 *
 * The same answers. False also if another thread is about to answer this attempt by this function
 * or the next one. Lock-free, but waits for a thread that is in the middle of such a call for an
 * earlier attempt.
 */
HWT_PUBLIC bool hwt_retry_failed_with_delay(hwt_retry *retry, uint64_t attempt, uint64_t delay);

/*
 * Tells that the attempt of this number failed in a way that no other attempt will mend. It ends as
 * HWT_RETRY_FAILED, and hwt_retry_reason() has `reason`, a number of the caller's, for example an
 * errno value or a status. Answers and waits as hwt_retry_failed_with_delay().
 */
HWT_PUBLIC bool hwt_retry_failed_for_good(hwt_retry *retry, uint64_t attempt, int reason);

/* The reason, after an end as HWT_RETRY_FAILED, in `ended` or later, until it is started again. At
 * any other time a number without a meaning. NULL: 0. Wait-free. */
HWT_PUBLIC int hwt_retry_reason(const hwt_retry *retry);

/*
 * True for exactly one caller, and only if the retry ends by that, as HWT_RETRY_CANCELLED, within
 * one tick. False: it is not started, or its end is decided. With either answer no attempt of this
 * start begins any more but one that is just about to, on another thread. Lock-free; does not wait.
 */
HWT_PUBLIC bool hwt_retry_cancel(hwt_retry *retry);

/*
 * The same, and when it returns, with either answer, `attempt` is not running on any other thread.
 * It does not wait for `ended`, which is called later, as hwt_timeout_cancel_sync() does not wait
 * for `cancelled`. So free the object in `ended`, and not after this. From inside either callback
 * it does not wait. Blocks as long as `attempt` runs. Do not wait in a circle, and do not hold a
 * lock across it that `attempt` takes. A lock that only `ended` takes may be held.
 */
HWT_PUBLIC bool hwt_retry_cancel_sync(hwt_retry *retry);

#ifdef __cplusplus
}
#endif

#endif
