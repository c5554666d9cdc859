/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The client: very many peers, each with one connection to the server. A peer
 *
 *     sends a heartbeat when it has written nothing for the period. Writes do not touch
 *         the timeout: its task looks when the last one was, and re-arms itself for that
 *         plus the period;
 *     sends a request now and then, with a time-out that the answer cancels, and sends
 *         it again when that fires, as a new one, up to a limit;
 *     comes back when its connection is lost, with exponential backoff and jitter.
 *
 * One alarm, `step`, does what comes next, whatever the state:
 *
 *     WAITING -> step: connect -> CONNECTING -> welcome -> OPEN -> step: next request
 *        ^                         | step: took too long    |
 *        +---- backoff ------------+------------------------+ connection lost
 */

#include "heartbeat.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define BACKOFF_LEAST HWT_MS(10)
#define BACKOFF_MOST HWT_SEC(1)
#define CONNECT_LIMIT HWT_SEC(2)
#define TRIES 4

/* A time-out this much overdue at the end never came. */
#define TIMEOUT_LOST HWT_SEC(2)

enum peer_state { WAITING, CONNECTING, OPEN, SILENT };

struct peer {
    struct client *client;
    uint32_t index;
    enum peer_state state;
    int fd;
    unsigned failures; /* to connect, since it was last open */
    uint64_t welcomes;
    uint64_t next_id;
    struct alarm step;
    struct fault *silence;   /* why it is SILENT */
    struct request *request; /* the one under way, or NULL */
    struct inbox inbox;

    hwt_timeout beat;
    uint64_t beat_deadline;      /* the task's, while armed */
    _Atomic uint64_t last_write; /* the task reads it */
    struct post beat_post;
};

/*
 * One try of a request. It is freed in one place whatever happens: by `cancelled` when
 * the answer came in time, or the timer was stopped; otherwise by the loop, when it is
 * handed what the task posted.
 */
struct request {
    struct peer *peer;
    hwt_timeout timeout;
    uint64_t id;
    uint64_t deadline;
    unsigned tries;
    bool over;         /* answered, or its connection was lost */
    atomic_bool fired; /* set by the task */
    struct post post;
};

static struct run *run_of(const struct peer *peer)
{
    return peer->client->loop.run;
}

static void peer_send(struct peer *peer, enum message_kind kind, uint64_t id)
{
    if (message_send(peer->fd, kind, peer->index, id))
        atomic_store(&peer->last_write, now_ns());
}

/* ---- Heartbeats ---- */

static void beat_run(hwt_timeout timeout, void *arg)
{
    struct peer *peer = arg;
    const struct options *options = &run_of(peer)->options;
    uint64_t period = HWT_MS(options->heartbeat_ms);

    count_fired(run_of(peer), peer->beat_deadline);
    uint64_t now = now_ns();
    uint64_t next = atomic_load(&peer->last_write) + period;
    if (next <= now) {
        loop_post(&peer->client->loop, &peer->beat_post);
        /* A tick more, as the loop writes it a moment later: or this would look too soon. */
        next = now + period + HWT_US(options->tick_us);
    }
    peer->beat_deadline = next;
    hwt_timeout_reschedule_at(timeout, next); /* false: the peer is just taking it down */
}

static const hwt_task beat_task = { .run = beat_run };

static void on_beat(struct post *post)
{
    struct peer *peer = container_of(post, struct peer, beat_post);

    count(&run_of(peer)->counts.beats);
    peer_send(peer, MESSAGE_BEAT, 0);
}

static void beat_start(struct peer *peer)
{
    peer->beat_deadline =
        not_past(atomic_load(&peer->last_write) + HWT_MS(run_of(peer)->options.heartbeat_ms));
    int r = hwt_timer_new_timeout_at(run_of(peer)->timer, &beat_task, peer, peer->beat_deadline,
                                     &peer->beat);
    if (r < 0)
        die("no timeout", -r);
}

static void beat_stop(struct peer *peer)
{
    hwt_timeout_cancel_sync(peer->beat);
    loop_withdraw(&peer->client->loop, &peer->beat_post);
}

/* ---- Requests ---- */

static void request_run(hwt_timeout timeout, void *arg)
{
    struct request *request = arg;

    (void)timeout;
    count_fired(run_of(request->peer), request->deadline);
    atomic_store(&request->fired, true);
    loop_post(&request->peer->client->loop, &request->post);
}

static void request_cancelled(hwt_timeout timeout, void *arg)
{
    (void)timeout;
    free(arg);
}

static const hwt_task request_task = { .run = request_run, .cancelled = request_cancelled };

/* Some time later; the same for all would send in bursts. */
static void request_next(struct peer *peer)
{
    uint64_t pause = HWT_MS(run_of(peer)->options.request_ms);

    alarm_arm(&peer->step, now_ns() + pause / 2 + random_below(&peer->client->random, pause));
}

static void on_request_timeout(struct post *post);

static void request_send(struct peer *peer, unsigned tries)
{
    struct run *run = run_of(peer);
    struct request *request = calloc(1, sizeof(*request));

    if (request == NULL)
        die("request", ENOMEM);
    request->peer = peer;
    request->id = (uint64_t)peer->index << 32 | peer->next_id++;
    request->tries = tries;
    request->deadline = now_ns() + HWT_MS(run->options.timeout_ms);
    request->post.deliver = on_request_timeout;
    peer->request = request;
    count(&run->counts.requests);
    peer_send(peer, MESSAGE_REQUEST, request->id);
    if (request_is_unanswered(&run->options, request->id))
        count(&run->counts.unanswered);

    int r = hwt_timer_new_timeout_at(run->timer, &request_task, request, request->deadline,
                                     &request->timeout);
    if (r < 0)
        die("no timeout", -r);
}

/* The peer has no more use for it. Where this cancels, it is not to be touched any more. */
static void request_end(struct peer *peer)
{
    struct request *request = peer->request;

    if (request == NULL)
        return;
    peer->request = NULL;
    request->over = true;
    hwt_timeout_cancel(request->timeout);
}

static void on_request_timeout(struct post *post)
{
    struct request *request = container_of(post, struct request, post);
    struct peer *peer = request->peer;
    struct counts *counts = &run_of(peer)->counts;
    unsigned tries = request->tries + 1;

    if (request->over) { /* the task began before request_end() came */
        free(request);
        return;
    }
    count(&counts->timed_out);
    if (request_is_unanswered(&run_of(peer)->options, request->id))
        count(&counts->timed_out_unanswered);
    peer->request = NULL;
    free(request);

    if (tries < TRIES) {
        count(&counts->retries);
        request_send(peer, tries);
    } else {
        count(&counts->given_up);
        request_next(peer);
    }
}

static void on_answer(struct peer *peer, uint64_t id)
{
    if (peer->request == NULL || peer->request->id != id)
        return; /* too late, it was sent again */
    count(&run_of(peer)->counts.answers);
    request_end(peer);
    request_next(peer);
}

/* ---- Connections ---- */

static void peer_hang_up(struct peer *peer)
{
    if (peer->state == OPEN)
        atomic_fetch_sub(&run_of(peer)->counts.open, 1);
    alarm_disarm(&peer->step);
    beat_stop(peer);
    request_end(peer);
    if (peer->fd >= 0)
        close(peer->fd);
    peer->fd = -1;
}

/* Not found, but closed before it fell silent, and only told now: that was no silence. */
static void silence_again(struct peer *peer)
{
    atomic_fetch_sub(&run_of(peer)->counts.silenced, 1);
    alarm_arm(&peer->silence->alarm, now_ns() + HWT_MS(50));
}

static void peer_lost(struct peer *peer)
{
    struct truth *truth = &run_of(peer)->truth[peer->index];
    uint64_t wait = BACKOFF_LEAST << (peer->failures < 7 ? peer->failures : 7);

    peer_hang_up(peer);
    if (wait > BACKOFF_MOST)
        wait = BACKOFF_MOST;
    if (peer->state == CONNECTING)
        count(&run_of(peer)->counts.connect_failed);
    if (peer->state == SILENT && !atomic_load(&truth->found))
        silence_again(peer);
    peer->failures++;
    peer->state = WAITING;
    atomic_store(&truth->silent, false);
    /* The half of it at random: those lost together do not come back together. */
    alarm_arm(&peer->step, now_ns() + wait / 2 + random_below(&peer->client->random, wait / 2));
}

static void peer_connect(struct peer *peer)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                   .sin_port = htons(run_of(peer)->server.port) };

    peer->state = CONNECTING;
    peer->inbox.start = peer->inbox.end = 0;
    peer->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (peer->fd < 0)
        die("socket", errno);
    socket_prepare(peer->fd);
    if (connect(peer->fd, (struct sockaddr *)&address, sizeof(address)) < 0 &&
        errno != EINPROGRESS) {
        peer_lost(peer);
        return;
    }
    loop_watch(&peer->client->loop, EPOLL_CTL_ADD, peer->fd, EPOLLOUT, peer);
    alarm_arm(&peer->step, now_ns() + CONNECT_LIMIT);
}

static void on_connected(struct peer *peer)
{
    loop_watch(&peer->client->loop, EPOLL_CTL_MOD, peer->fd, EPOLLIN, peer);
    peer_send(peer, MESSAGE_HELLO, peer->welcomes);
}

static void on_welcome(struct peer *peer)
{
    struct counts *counts = &run_of(peer)->counts;

    count(peer->welcomes++ == 0 ? &counts->opened : &counts->reconnected);
    count(&counts->open);
    peer->failures = 0;
    peer->state = OPEN;
    alarm_disarm(&peer->step);
    request_next(peer);
    beat_start(peer);
}

static void on_step(struct post *post)
{
    struct peer *peer = container_of(post, struct peer, step.post);

    switch (peer->state) {
    case WAITING:
        peer_connect(peer);
        break;
    case CONNECTING:
        peer_lost(peer);
        break;
    case OPEN:
        request_send(peer, 0);
        break;
    case SILENT:
        break;
    }
}

static void peer_read(struct peer *peer)
{
    struct message message;
    int n = inbox_fill(&peer->inbox, peer->fd);

    if (n == -EAGAIN || n == -EINTR)
        return;
    if (n <= 0) {
        peer_lost(peer);
        return;
    }
    while (inbox_next(&peer->inbox, &message)) {
        if (peer->state == CONNECTING && message.kind == MESSAGE_WELCOME)
            on_welcome(peer);
        else if (peer->state == OPEN && message.kind == MESSAGE_ANSWER)
            on_answer(peer, message.id);
    }
}

static void on_ready(struct loop *loop, void *source, uint32_t events)
{
    struct peer *peer = source;

    (void)loop;
    if (events & (EPOLLERR | EPOLLHUP))
        peer_lost(peer);
    else if (events & EPOLLOUT)
        on_connected(peer);
    else
        peer_read(peer);
}

/* Falls silent: the connection stays, but nothing is written on it any more. */
static void on_silence(struct post *post)
{
    struct fault *fault = container_of(post, struct fault, alarm.post);
    struct client *client = container_of(fault->alarm.loop, struct client, loop);
    struct peer *peer = &client->peers[fault->peer];
    uint64_t now = now_ns();

    if (now > client->loop.run->begin + fault->after + GRACE)
        return;
    if (peer->state != OPEN) { /* just coming back: later, then */
        alarm_arm(&fault->alarm, now + HWT_MS(50));
        return;
    }
    alarm_disarm(&peer->step);
    beat_stop(peer);
    request_end(peer);
    peer->state = SILENT;
    peer->silence = fault;
    atomic_fetch_sub(&client->loop.run->counts.open, 1);
    atomic_store(&client->loop.run->truth[peer->index].silent, true);
    atomic_store(&client->last_silence, now);
    count(&client->loop.run->counts.silenced);
}

/* ---- The loop ---- */

static void client_start(struct client *client)
{
    struct run *run = client->loop.run;

    for (uint32_t i = 0; i < run->options.connections; i++) {
        struct peer *peer = &client->peers[i];
        peer->client = client;
        peer->index = i;
        peer->fd = -1;
        peer->beat_post.deliver = on_beat;
        alarm_init(&peer->step, &client->loop, on_step);
        alarm_arm(&peer->step, run->begin + i * CONNECT_PACE);
    }
    for (size_t i = 0; i < client->silence_count; i++) {
        alarm_init(&client->silences[i].alarm, &client->loop, on_silence);
        alarm_arm(&client->silences[i].alarm, run->begin + client->silences[i].after);
    }
}

static bool timeout_is_lost(const struct request *request, uint64_t now)
{
    return request != NULL && !atomic_load(&request->fired) &&
           request->deadline + TIMEOUT_LOST < now;
}

static void client_end(struct client *client)
{
    struct run *run = client->loop.run;
    uint64_t now = now_ns();

    for (size_t i = 0; i < client->silence_count; i++)
        alarm_disarm(&client->silences[i].alarm);
    for (uint32_t i = 0; i < run->options.connections; i++) {
        struct peer *peer = &client->peers[i];
        if (timeout_is_lost(peer->request, now))
            count(&run->counts.timed_out_missed);
        peer_hang_up(peer);
    }
}

void client_open(struct client *client, struct run *run)
{
    loop_open(&client->loop, run);
    client->peers = calloc(run->options.connections, sizeof(*client->peers));
    if (client->peers == NULL)
        die("peers", ENOMEM);
}

void *client_main(void *arg)
{
    struct client *client = arg;

    client_start(client);
    loop_run(&client->loop, on_ready);
    client_end(client);
    return NULL;
}

/* After the timer was stopped: requests whose task came first are still in the post. */
void client_close(struct client *client)
{
    while (loop_deliver(&client->loop))
        ;
    loop_close(&client->loop);
    free(client->peers);
    free(client->silences);
}
