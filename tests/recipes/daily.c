/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * "Every day at 03:00", and leases until a date: cc daily.c $(pkg-config --cflags --libs hwt)
 *
 * A timer counts CLOCK_MONOTONIC, which nobody sets. A date is an instant of CLOCK_REALTIME, which is
 * set, by hand or by a time server, and slewed. So keep the date, and derive the timeout from it:
 *
 *     when it is armed: by what is left until the date now;
 *     when the clock is set: anew. The kernel tells: a timerfd of CLOCK_REALTIME with
 *         TFD_TIMER_CANCEL_ON_SET becomes readable, and reading it fails with ECANCELED;
 *     when it fires: if the date is not reached yet, since the clock was slowed down, for the rest.
 *
 * The next date is counted in the calendar, not as 24 hours from the last: there are days of 23
 * and of 25. A process that may be suspended takes CLOCK_BOOTTIME for the timer, and
 * drives it itself.
 *
 * Here the clock that is set is the program's own, so that it can be tested.
 */

#define _GNU_SOURCE 1 /* POSIX beside -std=c11 too */

#include <errno.h>
#include <hwt/hwt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

struct daily {
    int hour;
    uint64_t date; /* nanoseconds since 1970 */
    hwt_timeout timeout;
    int runs;
};

static hwt_timer *timer;
static uint64_t monotonic = HWT_SEC(500), wall;

/* In a real program: clock_gettime(CLOCK_REALTIME). */
static uint64_t wall_now(void)
{
    return wall;
}

static uint64_t read_monotonic(void *unused)
{
    (void)unused;
    return monotonic;
}

/* The next instant at which a clock on the wall shows this hour. */
static uint64_t next_date(int hour)
{
    time_t now = (time_t)(wall_now() / HWT_SEC(1));
    struct tm tm;
    localtime_r(&now, &tm);
    tm.tm_mday += tm.tm_hour >= hour;
    tm.tm_hour = hour;
    tm.tm_min = tm.tm_sec = 0;
    tm.tm_isdst = -1; /* mktime() finds out */
    return HWT_SEC(mktime(&tm));
}

static uint64_t instant_of(uint64_t date)
{
    uint64_t now = wall_now();
    return hwt_timer_now(timer) + (date > now ? date - now : 0);
}

static void run(hwt_timeout timeout, void *arg)
{
    struct daily *daily = arg;
    if (wall_now() >= daily->date) {
        daily->runs++;
        daily->date = next_date(daily->hour);
    }
    hwt_timeout_reschedule_at(timeout, instant_of(daily->date));
}

static const hwt_task daily_task = { .run = run };

static int daily_start(struct daily *daily, int hour)
{
    *daily = (struct daily){ .hour = hour, .date = next_date(hour) };
    return hwt_timer_new_timeout_at(timer, &daily_task, daily, instant_of(daily->date),
                                    &daily->timeout);
}

/* The clock was set. If it was set back, the date is that of the day that it is now. */
static void daily_follow(struct daily *daily)
{
    uint64_t next = next_date(daily->hour);
    if (next < daily->date)
        daily->date = next;
    hwt_timeout_reschedule_at(daily->timeout, instant_of(daily->date));
}

/* For the event loop, beside hwt_timer_fd(): readable when the system's clock is set. */
static int open_clock_watch(void)
{
    static const struct itimerspec never = { .it_value.tv_sec = (time_t)INT64_C(0x7fffffff) };
    int fd = timerfd_create(CLOCK_REALTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    if (fd >= 0 &&
        timerfd_settime(fd, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &never, NULL) < 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static bool clock_was_set(int fd)
{
    uint64_t count;
    return read(fd, &count, sizeof(count)) < 0 && errno == ECANCELED;
}

/* ---- days that pass, and a clock that is set ---- */

static void pass(uint64_t duration)
{
    uint64_t until = monotonic + duration;
    for (uint64_t next; (next = hwt_timer_next_tick(timer)) <= until;) {
        wall += next - monotonic;
        monotonic = next;
        hwt_timer_dispatch(timer);
    }
    wall += until - monotonic;
    monotonic = until;
}

static uint64_t date_of(int year, int month, int day, int hour)
{
    struct tm tm = {
        .tm_year = year - 1900, .tm_mon = month - 1, .tm_mday = day, .tm_hour = hour, .tm_isdst = -1
    };
    return HWT_SEC(mktime(&tm));
}

static void expect(const char *what, int is, int should_be)
{
    if (is == should_be)
        return;
    printf("%s: %d, not %d\n", what, is, should_be);
    exit(1);
}

int main(void)
{
    struct daily daily;
    hwt_options options = HWT_OPTIONS_INIT;
    setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3", 1);
    tzset();
    options.flags = HWT_NO_WORKER | HWT_ONE_THREAD;
    options.clock = read_monotonic;
    int watch = open_clock_watch();
    if (watch < 0 || hwt_timer_create(&options, &timer) < 0)
        return 1;
    expect("the system's clock was set", clock_was_set(watch), false);

    wall = date_of(2026, 3, 27, 12);
    if (daily_start(&daily, 3) < 0)
        return 1;
    pass(HWT_MIN(15 * 60 - 1));
    expect("runs before 03:00", daily.runs, 0);
    pass(HWT_MIN(2));
    expect("runs after 03:00", daily.runs, 1);
    wall = date_of(2026, 3, 29, 1) + HWT_MIN(59); /* set forward; summer begins at 02:00 */
    daily_follow(&daily);
    pass(HWT_MIN(2));
    expect("runs at 03:00 that is 02:00", daily.runs, 2);
    wall -= HWT_MIN(24 * 60 * 7); /* set back by a week */
    daily_follow(&daily);
    pass(HWT_MIN(24 * 60 * 3));
    expect("runs in three days", daily.runs, 5);
    wall -= HWT_MIN(10); /* slewed: nobody tells, and it fires early */
    pass(HWT_MIN(24 * 60));
    expect("runs in the day after", daily.runs, 6);

    close(watch);
    hwt_timer_destroy(timer);
    printf("%d runs\n", daily.runs);
    return 0;
}
