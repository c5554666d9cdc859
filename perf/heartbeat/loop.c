/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What the server and the client are made of: an epoll loop that other threads post
 * to, alarms (a timeout that posts), pulses (an hwt_heartbeat that posts), and the wire.
 *
 * Who runs the timer's tasks must not be held up, and sockets belong to their loop. So a
 * task only posts: a mutex held for a few instructions, and a write to an eventfd if the
 * loop may be asleep.
 */

#include "heartbeat.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

/* As many events, then as many posts: neither can keep the other waiting. */
#define TURN 256

void die(const char *what, int error)
{
    fprintf(stderr, "heartbeat: %s: %s\n", what, strerror(error));
    exit(1);
}

uint64_t clock_ns(clockid_t clock)
{
    struct timespec ts;

    clock_gettime(clock, &ts);
    return HWT_SEC(ts.tv_sec) + (uint64_t)ts.tv_nsec;
}

uint64_t now_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

/* splitmix64 */
uint64_t random_next(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

uint64_t random_below(uint64_t *state, uint64_t limit)
{
    return limit == 0 ? 0 : random_next(state) % limit;
}

/* ---- The loop ---- */

static void on_stop(struct post *post)
{
    container_of(post, struct loop, stop)->stopping = true;
}

void loop_open(struct loop *loop, struct run *run)
{
    loop->run = run;
    loop->stop.deliver = on_stop;
    pthread_mutex_init(&loop->lock, NULL);
    TAILQ_INIT(&loop->posts);
    loop->epoll = epoll_create1(EPOLL_CLOEXEC);
    loop->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (loop->epoll < 0 || loop->bell < 0)
        die("no descriptor for a loop", errno);
    loop_watch(loop, EPOLL_CTL_ADD, loop->bell, EPOLLIN, NULL);
}

void loop_close(struct loop *loop)
{
    close(loop->bell);
    close(loop->epoll);
    pthread_mutex_destroy(&loop->lock);
}

void loop_watch(struct loop *loop, int operation, int fd, uint32_t events, void *source)
{
    struct epoll_event event = { .events = events, .data.ptr = source };

    if (epoll_ctl(loop->epoll, operation, fd, &event) < 0)
        die("epoll_ctl", errno);
}

void loop_stop(struct loop *loop)
{
    loop_post(loop, &loop->stop);
}

void loop_post(struct loop *loop, struct post *post)
{
    bool first = false;
    uint64_t now = now_ns();

    pthread_mutex_lock(&loop->lock);
    if (!post->queued) {
        first = TAILQ_EMPTY(&loop->posts);
        TAILQ_INSERT_TAIL(&loop->posts, post, link);
        post->queued = true;
        post->posted_at = now;
    }
    pthread_mutex_unlock(&loop->lock);
    /* Outside, or the loop would wake up to wait for the lock. */
    if (first)
        eventfd_write(loop->bell, 1);
}

/* Under the lock. One that waited long says that this thread was kept from running. */
static void take_out(struct loop *loop, struct post *post)
{
    TAILQ_REMOVE(&loop->posts, post, link);
    post->queued = false;
    stall_note(loop->run, post->posted_at, now_ns());
}

void loop_withdraw(struct loop *loop, struct post *post)
{
    pthread_mutex_lock(&loop->lock);
    if (post->queued)
        take_out(loop, post);
    pthread_mutex_unlock(&loop->lock);
}

/* One at a time, as delivering one may withdraw another. */
static struct post *take_post(struct loop *loop)
{
    pthread_mutex_lock(&loop->lock);
    struct post *post = TAILQ_FIRST(&loop->posts);
    if (post != NULL) {
        loop->posted_at = post->posted_at;
        take_out(loop, post);
    }
    pthread_mutex_unlock(&loop->lock);
    return post;
}

/* True: there is more. */
static bool loop_deliver(struct loop *loop)
{
    for (int i = 0; i < TURN; i++) {
        struct post *post = take_post(loop);
        if (post == NULL)
            return false;
        post->deliver(post);
    }
    return true;
}

void loop_run(struct loop *loop, void (*ready)(struct loop *loop, void *source, uint32_t events))
{
    struct epoll_event events[TURN];
    eventfd_t rings;
    bool more = false;

    while (!loop->stopping) {
        int n = epoll_wait(loop->epoll, events, TURN, more ? 0 : -1);
        if (n < 0 && errno != EINTR)
            die("epoll_wait", errno);
        for (int i = 0; i < n; i++) {
            if (events[i].data.ptr == NULL)
                eventfd_read(loop->bell, &rings);
            else
                ready(loop, events[i].data.ptr, events[i].events);
        }
        /* Last, as posts free connections that may still stand in events[]. */
        more = loop_deliver(loop);
    }
}

/* ---- Alarms ---- */

static void alarm_run(hwt_timeout timeout, void *arg)
{
    struct alarm *alarm = arg;

    (void)timeout;
    count_fired(alarm->loop->run, alarm->deadline);
    loop_post(alarm->loop, &alarm->post);
}

static const hwt_task alarm_task = { .run = alarm_run };

void alarm_init(struct alarm *alarm, struct loop *loop, void (*deliver)(struct post *post))
{
    alarm->loop = loop;
    alarm->timeout = (hwt_timeout){ 0 };
    alarm->post.queued = false;
    alarm->post.deliver = deliver;
}

void alarm_arm(struct alarm *alarm, uint64_t deadline)
{
    uint64_t now = now_ns();

    /* Who is late to arm must not blame the timer. */
    alarm->deadline = deadline > now ? deadline : now;
    int r = hwt_timer_new_timeout_at(alarm->loop->run->timer, &alarm_task, alarm, alarm->deadline,
                                     &alarm->timeout);
    if (r < 0)
        die("no timeout", -r);
}

/* After this the alarm can be freed: no task uses it, no post of it waits. */
void alarm_disarm(struct alarm *alarm)
{
    hwt_timeout_cancel_sync(alarm->timeout);
    loop_withdraw(alarm->loop, &alarm->post);
}

/* ---- Pulses ---- */

void pulse_init(struct pulse *pulse, struct loop *loop, void (*deliver)(struct post *post))
{
    pulse->loop = loop;
    pulse->post.deliver = deliver;
}

/* Where the timer runs its tasks, as alarm_run(). */
void pulse_notify(hwt_heartbeat *heartbeat, hwt_heartbeat_event event, uint64_t times, void *arg)
{
    struct pulse *pulse = arg;

    (void)heartbeat;
    (void)event;
    (void)times;
    loop_post(pulse->loop, &pulse->post);
}

void pulse_start(struct pulse *pulse, const hwt_heartbeat_rules *rules, uint64_t limit)
{
    pulse->limit = limit;
    pulse->noted = now_ns();
    pulse->due = pulse->noted + limit;
    pulse->was_due = false;
    int r = hwt_heartbeat_start(&pulse->heartbeat, pulse->loop->run->timer, rules, pulse);
    if (r < 0)
        die("no heartbeat", -r);
}

void pulse_note(struct pulse *pulse, void (*note)(hwt_heartbeat *heartbeat, uint64_t now))
{
    pulse->noted = now_ns();
    note(&pulse->heartbeat, pulse->noted);
    if (now_ns() >= pulse->due)
        pulse->was_due = true;
    pulse->due = pulse->noted + pulse->limit;
}

bool pulse_stands(struct pulse *pulse)
{
    if (pulse->loop->posted_at < pulse->due) {
        if (!pulse->was_due)
            count(&pulse->loop->run->counts.early);
        return false;
    }
    pulse->due += pulse->limit;
    return true;
}

/* After this the pulse can be freed, as an alarm. */
void pulse_stop(struct pulse *pulse)
{
    hwt_heartbeat_stop_sync(&pulse->heartbeat);
    loop_withdraw(pulse->loop, &pulse->post);
}

/* ---- The wire ---- */

void socket_prepare(int fd)
{
    int one = 1;
    /* Closing resets: ports in TIME_WAIT would run out over a few runs with many peers. */
    struct linger reset = { .l_onoff = 1, .l_linger = 0 };

    if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) < 0 ||
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)) < 0)
        die("setsockopt", errno);
}

/* False: not sent. Whoever needs it to arrive has a timeout on the answer. */
bool message_send(int fd, uint32_t kind, uint32_t peer, uint64_t id)
{
    struct message message = { .kind = kind, .peer = peer, .id = id };

    return send(fd, &message, sizeof(message), MSG_NOSIGNAL | MSG_DONTWAIT) ==
           (ssize_t)sizeof(message);
}

int inbox_fill(struct inbox *inbox, int fd)
{
    memmove(inbox->bytes, inbox->bytes + inbox->start, inbox->end - inbox->start);
    inbox->end -= inbox->start;
    inbox->start = 0;
    ssize_t n =
        recv(fd, inbox->bytes + inbox->end, sizeof(inbox->bytes) - inbox->end, MSG_DONTWAIT);
    if (n < 0)
        return -errno;
    inbox->end += (size_t)n;
    return (int)n;
}

bool inbox_next(struct inbox *inbox, struct message *ret_message)
{
    if (inbox->end - inbox->start < sizeof(*ret_message))
        return false;
    memcpy(ret_message, inbox->bytes + inbox->start, sizeof(*ret_message));
    inbox->start += sizeof(*ret_message);
    return true;
}
