/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Whether the processor's counter is trusted, its rate, and anchors. See counter.h. */

#include "hwt/base/counter.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "hwt/base/shield.h"
#include "hwt/base/time.h"

#ifdef __x86_64__
#include <cpuid.h>
#include <sys/prctl.h>
#endif

#define BRACKET 256                   /* counts between two readings with the clock between them */
#define MEASURE_NS UINT64_C(10000000) /* at least */
#define SPAN ((uint64_t)1 << 30)      /* counts: anchors that are older say nothing of the rate */
#define SLOWEST                                                                                    \
    ((uint64_t)1 << 32)     /* a rate: one nanosecond a count, for which the reach is made */
#define SLOWER 9            /* the rate is lowered by 1 / 2^9: NTP slews by 1 / 2^10 */
#define SLACK UINT64_C(500) /* nanoseconds: for the time that reading takes */
#define WRONG 7             /* a rate that differs by 1 / 2^7 is wrong */

HWT_THREAD_LOCAL struct hwt_counter_anchor hwt_counter_anchor;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool trusted;           /* frozen after `once` */
static _Atomic uint64_t known; /* the rate; 0: none */

/* ---- the system ---- */

#ifdef HWT_COUNTER_READ

uint64_t HWT_COUNTER_CLOCK(clockid_t id);
#define read_clock HWT_COUNTER_CLOCK

static bool is_trusted(void)
{
    return true;
}

#else

static uint64_t read_clock(clockid_t id)
{
    struct timespec now;
    clock_gettime(id, &now);
    return hwt_from_timespec(now);
}

#ifdef __x86_64__

/* Whether the kernel's clock is the counter: then the kernel watches that all counters agree. */
static bool is_clock_source(void)
{
    static const char name[] = "tsc\n";
    char source[16];
    int fd = open("/sys/devices/system/clocksource/clocksource0/current_clocksource",
                  O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t size = read(fd, source, sizeof(source));
    close(fd);
    return size == sizeof(name) - 1 && memcmp(source, name, sizeof(name) - 1) == 0;
}

static bool is_trusted(void)
{
    const unsigned invariant = 1 << 8;
    unsigned a, b, c, d;
    int reading = 0;
    return __get_cpuid(0x80000007, &a, &b, &c, &d) && d & invariant &&
           prctl(PR_GET_TSC, &reading) == 0 && reading == PR_TSC_ENABLE && is_clock_source();
}

#else

static bool is_trusted(void)
{
    return false;
}

#endif
#endif

void hwt_counter_drop_anchor(void)
{
    hwt_counter_anchor = (struct hwt_counter_anchor){ 0 };
}

static void look(void)
{
    trusted = is_trusted();
}

bool hwt_counter_is_trusted(void)
{
    int shield = hwt_shield();
    pthread_once(&once, look);
    hwt_unshield(shield);
    return trusted;
}

bool hwt_counter_is_used(void)
{
    return atomic_load_explicit(&known, memory_order_relaxed) != 0;
}

/* ---- the rate ---- */

/*
 * Measures the rate from this thread's first reading to one that is MEASURE_NS later. The first
 * count is read before its clock and the second one after its clock, so the rate is too low rather
 * than too high. It reads the clock that goes on while the machine is suspended, because the
 * counter may, too.
 */
static void measure(struct hwt_counter_anchor *begin)
{
    uint64_t before = hwt_counter_read();
    uint64_t instant = read_clock(CLOCK_BOOTTIME);
    uint64_t after = hwt_counter_read();
    uint64_t counts = after - begin->count;
    uint64_t elapsed = instant - begin->instant;
    if (after - before >= BRACKET)
        return;
    if (begin->instant == 0 || begin->reach != 0 || counts - 1 >= SPAN || elapsed >> 32 != 0) {
        *begin = (struct hwt_counter_anchor){ .count = before, .instant = instant };
    } else if (elapsed >= MEASURE_NS) {
        uint64_t rate = (elapsed << 32) / counts;
        if (rate <= SLOWEST)
            atomic_store_explicit(&known, rate - (rate >> SLOWER), memory_order_relaxed);
        hwt_counter_drop_anchor();
    }
}

/* Whether the counter and the clock have gone on by different times since the anchor. */
static bool is_wrong(const struct hwt_counter_anchor *anchor, uint64_t count, uint64_t instant)
{
    uint64_t counts = count - anchor->count;
    if (anchor->reach == 0 || counts >= SPAN)
        return false;
    uint64_t expected = counts * anchor->rate >> 32;
    uint64_t difference = instant - anchor->instant - expected; /* or 2^64 less */
    uint64_t allowed = (expected >> WRONG) + SLACK;
    return difference + allowed > 2 * allowed;
}

uint64_t hwt_counter_read_clock(uint64_t count)
{
    struct hwt_counter_anchor *anchor = &hwt_counter_anchor;
    uint64_t rate = atomic_load_explicit(&known, memory_order_relaxed);
    uint64_t instant = hwt_saturating_add(read_clock(CLOCK_MONOTONIC), HWT_COUNTER_LATE);
    uint64_t after = hwt_counter_read();
    if (rate == 0) {
        measure(anchor);
    } else if (after - count >= BRACKET) {
        hwt_counter_drop_anchor();
    } else if (is_wrong(anchor, after, instant)) {
        atomic_store_explicit(&known, 0, memory_order_relaxed);
        hwt_counter_drop_anchor();
    } else {
        *anchor = (struct hwt_counter_anchor){
            .count = after,
            .instant = instant,
            .last = after,
            .reach = HWT_COUNTER_REACH,
            .rate = rate,
        };
    }
    return instant;
}
