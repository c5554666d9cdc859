/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Sessions that outlive their connections: cc sessions.c $(pkg-config --cflags --libs hwt)
 *
 * As in MQTT 5: a client that is lost may come back within its session's expiry and find it as it
 * was; its last will is published some seconds after it was lost, unless it is back by then, and at
 * the latest when the session ends. Both by one timeout, which stands for the next of the two, and
 * moves itself to the other in its own task.
 *
 * There are many sessions, and seconds are what they are counted in: a tick of a second would do. An
 * idle timer of shorter ticks costs nothing either, so take what serves the strictest user.
 *
 * It is also how to test such a program: HWT_NO_WORKER and a clock of the program's own. An hour
 * passes in no time, and what runs when is the same in each run.
 */

#include <hwt/hwt.h>
#include <stdio.h>
#include <stdlib.h>

#define SESSIONS 3000
#define NONE HWT_NEVER

struct session {
    bool connected, has_will, ended;
    uint64_t expiry, will_delay; /* nanoseconds, as the client asked for */
    uint64_t lost_at;
    hwt_timeout timeout;
};

static hwt_timer *timer;
static uint64_t now = HWT_SEC(1000);
static struct session sessions[SESSIONS];
static int wills, ends, wrong;

static uint64_t read_now(void *unused)
{
    (void)unused;
    return now;
}

static uint64_t end_of(const struct session *session)
{
    return session->expiry == NONE ? NONE : session->lost_at + session->expiry;
}

static uint64_t will_of(const struct session *session)
{
    uint64_t due = session->lost_at + session->will_delay;
    return due < end_of(session) ? due : end_of(session);
}

/* The next of the two, to come or due. */
static uint64_t due_of(const struct session *session)
{
    return session->has_will ? will_of(session) : end_of(session);
}

static void run(hwt_timeout timeout, void *arg)
{
    struct session *session = arg;
    uint64_t end = end_of(session);
    wrong += session->connected || session->ended || now < due_of(session);
    if (session->has_will) {
        session->has_will = false;
        wills++;
    }
    if (now < end) {
        hwt_timeout_reschedule_at(timeout, end); /* NONE: it stays, until the client is back */
        return;
    }
    session->ended = true;
    ends++;
}

static const hwt_task session_task = { .run = run };

static int session_lose(struct session *session)
{
    session->connected = false;
    session->lost_at = now;
    return hwt_timer_new_timeout_at(timer, &session_task, session, due_of(session),
                                    &session->timeout);
}

/* True: it goes on. False: it is over, and another one begins. */
static bool session_resume(struct session *session)
{
    hwt_timeout_cancel(session->timeout);
    bool goes_on = !session->ended;
    session->connected = session->has_will = true;
    session->ended = false;
    return goes_on;
}

/* What an event loop does, by hwt_timer_fd() and the clock. */
static void pass(uint64_t seconds)
{
    uint64_t until = now + HWT_SEC(seconds);
    for (uint64_t next = hwt_timer_next_tick(timer); next <= until;
         next = hwt_timer_next_tick(timer)) {
        now = next;
        hwt_timer_dispatch(timer);
    }
    now = until;
}

static void expect(const char *what, int is, int should_be)
{
    if (is == should_be)
        return;
    printf("%s: %d, not %d\n", what, is, should_be);
    exit(1);
}

/* A third each: 60 s and a will after 10, ten minutes and a will after an hour, for ever. */
static void begin(struct session *session, int i)
{
    static const uint64_t expiries[] = { HWT_SEC(60), HWT_MIN(10), NONE };
    static const uint64_t will_delays[] = { HWT_SEC(10), HWT_MIN(60), HWT_MIN(5) };
    *session = (struct session){ .connected = true,
                                 .has_will = true,
                                 .expiry = expiries[i % 3],
                                 .will_delay = will_delays[i % 3] };
}

int main(void)
{
    hwt_options options = HWT_OPTIONS_INIT;
    int resumed = 0;
    options.tick_duration = HWT_MS(100);
    options.flags = HWT_NO_WORKER | HWT_ONE_THREAD;
    options.clock = read_now;
    if (hwt_timer_create(&options, &timer) < 0)
        return 1;
    for (int i = 0; i < SESSIONS; i++) {
        begin(&sessions[i], i);
        if (session_lose(&sessions[i]) < 0)
            return 1;
    }
    pass(9);
    expect("wills before 10 s", wills, 0);
    for (int i = 0; i < 300; i++) /* a hundred of each kind are back in time */
        resumed += session_resume(&sessions[i]);
    expect("resumed", resumed, 300);
    pass(2);
    expect("wills after 10 s", wills, 900);
    pass(50);
    expect("sessions that ended after 60 s", ends, 900);
    pass(240);
    expect("wills after 5 min", wills, 1800);
    pass(300);
    expect("sessions that ended after 10 min", ends, 1800);
    expect("wills at the end of a session", wills, 2700);
    for (int i = 300; i < SESSIONS; i++)
        resumed += session_resume(&sessions[i]);
    expect("resumed after an hour", resumed, 300 + 900);
    pass(3600);
    expect("pending", (int)hwt_timer_pending(timer), 0);
    expect("told of what was not so", wrong, 0);
    hwt_timer_destroy(timer);
    printf("%d wills, %d sessions ended, %d resumed\n", wills, ends, resumed);
    return 0;
}
