/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The client: very many peers, each with one connection to the server. A peer
 *
 *     sends a heartbeat when it has written nothing for the period: an hwt_heartbeat;
 *     sends a request now and then, with a time-out that the answer cancels, and sends
 *         it again when that fires, as a new one, up to a limit;
 *     comes back when its connection is lost, with exponential backoff and jitter:
 *         an hwt_retry.
 *
 *     AWAY -> attempt: connect -> welcome: the attempt succeeded -> OPEN -> [SILENT]
 *      ^          ^                   |                              |
 *      |          '----- backoff -----'                              |
 *      '---------------------- connection lost ----------------------'
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

/* If this program could run, and something is this much overdue at the end, it never came. */
#define LOST HWT_SEC(2)

enum peer_state { AWAY, OPEN, SILENT };

struct peer {
    struct client *client;
    uint32_t index;
    enum peer_state state;
    int fd;
    uint64_t welcomes;
    struct inbox inbox;
    struct fault *silence; /* why it is SILENT */
    struct alarm step;     /* to connect for the first time, or to send the next request */

    hwt_retry retry;        /* while AWAY */
    _Atomic uint64_t begun; /* attempt, by the timer's task */
    uint64_t attempt;       /* whose connection this is */
    uint64_t not_before;    /* the next attempt */
    uint64_t since;         /* when all was last known to go on */
    struct post attempt_post, success_post;

    struct pulse pulse; /* while OPEN */
    uint64_t requests;  /* sent */
    uint64_t request;   /* the one under way, or 0 */
    unsigned tries;     /* to get it answered */
    struct alarm limit;
};

static struct run *run_of(const struct peer *peer)
{
    return peer->client->loop.run;
}

static void peer_send(struct peer *peer, enum message_kind kind, uint64_t id)
{
    if (message_send(peer->fd, kind, peer->index, id))
        pulse_note(&peer->pulse, hwt_heartbeat_written_at);
}

static void on_quiet(struct post *post)
{
    struct peer *peer = container_of(post, struct peer, pulse.post);

    if (pulse_stands(&peer->pulse)) {
        count(&run_of(peer)->counts.beats);
        peer_send(peer, MESSAGE_BEAT, 0);
    }
}

/* ---- Requests ---- */

/* Some time later; the same for all would send in bursts. */
static void request_next(struct peer *peer)
{
    uint64_t pause = HWT_MS(run_of(peer)->options.request_ms);

    alarm_arm(&peer->step, now_ns() + pause / 2 + random_below(&peer->client->random, pause));
}

static void request_send(struct peer *peer)
{
    struct run *run = run_of(peer);

    peer->request = (uint64_t)peer->index << 32 | ++peer->requests;
    peer->tries++;
    count(&run->counts.requests);
    if (request_is_unanswered(&run->options, peer->request))
        count(&run->counts.unanswered);
    alarm_arm(&peer->limit, now_ns() + HWT_MS(run->options.timeout_ms));
    peer_send(peer, MESSAGE_REQUEST, peer->request);
}

static void request_end(struct peer *peer)
{
    alarm_disarm(&peer->limit);
    peer->request = 0;
    peer->tries = 0;
}

static void on_limit(struct post *post)
{
    struct peer *peer = container_of(post, struct peer, limit.post);
    struct counts *counts = &run_of(peer)->counts;

    count(&counts->timed_out);
    if (request_is_unanswered(&run_of(peer)->options, peer->request))
        count(&counts->timed_out_unanswered);
    if (peer->tries < TRIES) {
        count(&counts->retries);
        request_send(peer);
    } else {
        count(&counts->given_up);
        request_end(peer);
        request_next(peer);
    }
}

static void on_answer(struct peer *peer, uint64_t id)
{
    if (peer->request != id)
        return; /* too late, it was sent again */
    count(&run_of(peer)->counts.answers);
    request_end(peer);
    request_next(peer);
}

/* ---- Connections ---- */

/* Nothing is written any more. */
static void peer_fall_silent(struct peer *peer)
{
    if (peer->state == OPEN)
        atomic_fetch_sub(&run_of(peer)->counts.open, 1);
    alarm_disarm(&peer->step);
    pulse_stop(&peer->pulse);
    request_end(peer);
}

static void peer_hang_up(struct peer *peer)
{
    peer_fall_silent(peer);
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

/* Where the timer runs its tasks, as is the next one. */
static void begin_attempt(hwt_retry *retry, uint64_t attempt, void *arg)
{
    struct peer *peer = arg;

    (void)retry;
    atomic_store(&peer->begun, attempt);
    loop_post(&peer->client->loop, &peer->attempt_post);
}

static void attempts_ended(hwt_retry *retry, hwt_retry_end end, void *arg)
{
    struct peer *peer = arg;

    (void)retry;
    if (end == HWT_RETRY_SUCCEEDED)
        loop_post(&peer->client->loop, &peer->success_post);
}

static const hwt_retry_task connect_task = { .attempt = begin_attempt, .ended = attempts_ended };

static void peer_come_back(struct peer *peer)
{
    struct client *client = peer->client;

    peer->state = AWAY;
    peer->since = peer->not_before = now_ns();
    client->backoff.seed = random_next(&client->random);
    int r =
        hwt_retry_start(&peer->retry, run_of(peer)->timer, &client->backoff, &connect_task, peer);
    if (r < 0)
        die("no retry", -r);
}

static void attempt_failed(struct peer *peer)
{
    peer->since = now_ns();
    /* False: it was given up already, or it has succeeded, and on_success() is to come. */
    if (hwt_retry_failed(&peer->retry, peer->attempt)) {
        count(&run_of(peer)->counts.connect_failed);
        peer->not_before = peer->since + BACKOFF_LEAST / 2;
    }
}

static void peer_lost(struct peer *peer)
{
    struct truth *truth = &run_of(peer)->truth[peer->index];

    peer_hang_up(peer);
    if (peer->state == AWAY) {
        attempt_failed(peer);
        return;
    }
    if (peer->state == SILENT && !atomic_load(&truth->found))
        silence_again(peer);
    atomic_store(&truth->silent, false);
    peer_come_back(peer);
}

static void on_attempt(struct post *post)
{
    struct peer *peer = container_of(post, struct peer, attempt_post);
    struct client *client = peer->client;
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                   .sin_port = htons(run_of(peer)->server.port) };

    if (client->loop.posted_at < peer->not_before)
        count(&run_of(peer)->counts.early);
    peer_hang_up(peer); /* the last attempt, if it took too long */
    peer->since = peer->not_before = client->loop.posted_at;
    peer->attempt = atomic_load(&peer->begun);
    peer->inbox.start = peer->inbox.end = 0;
    peer->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (peer->fd < 0)
        die("socket", errno);
    socket_prepare(peer->fd);
    if (connect(peer->fd, (struct sockaddr *)&address, sizeof(address)) < 0 && errno != EINPROGRESS)
        peer_lost(peer);
    else
        loop_watch(&client->loop, EPOLL_CTL_ADD, peer->fd, EPOLLOUT, peer);
}

static void on_connected(struct peer *peer)
{
    loop_watch(&peer->client->loop, EPOLL_CTL_MOD, peer->fd, EPOLLIN, peer);
    peer_send(peer, MESSAGE_HELLO, peer->welcomes);
}

static void on_success(struct post *post)
{
    struct peer *peer = container_of(post, struct peer, success_post);
    struct client *client = peer->client;
    struct counts *counts = &run_of(peer)->counts;

    if (peer->fd < 0) { /* lost again meanwhile */
        peer_come_back(peer);
        return;
    }
    count(peer->welcomes++ == 0 ? &counts->opened : &counts->reconnected);
    count(&counts->open);
    peer->state = OPEN;
    request_next(peer);
    pulse_start(&peer->pulse, &client->rules, client->rules.writer_idle);
}

static void on_step(struct post *post)
{
    struct peer *peer = container_of(post, struct peer, step.post);

    if (peer->state == AWAY)
        peer_come_back(peer);
    else
        request_send(peer);
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
        if (message.kind == MESSAGE_WELCOME)
            hwt_retry_succeeded(&peer->retry, peer->attempt);
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
    peer_fall_silent(peer);
    peer->state = SILENT;
    peer->silence = fault;
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
        peer->since = run->begin + i * CONNECT_PACE;
        peer->attempt_post.deliver = on_attempt;
        peer->success_post.deliver = on_success;
        alarm_init(&peer->limit, &client->loop, on_limit);
        alarm_init(&peer->step, &client->loop, on_step);
        alarm_arm(&peer->step, peer->since);
        pulse_init(&peer->pulse, &client->loop, on_quiet);
    }
    for (size_t i = 0; i < client->silence_count; i++) {
        alarm_init(&client->silences[i].alarm, &client->loop, on_silence);
        alarm_arm(&client->silences[i].alarm, run->begin + client->silences[i].after);
    }
}

static bool timeout_is_lost(const struct peer *peer, uint64_t now)
{
    return peer->request != 0 && stall_free(run_of(peer), peer->limit.deadline, now) > LOST;
}

static bool attempt_is_lost(const struct peer *peer, uint64_t now)
{
    uint64_t connecting = peer->fd < 0 ? 0 : CONNECT_LIMIT;

    return peer->state == AWAY &&
           stall_free(run_of(peer), peer->since, now) > connecting + BACKOFF_MOST + LOST;
}

static void client_end(struct client *client)
{
    struct run *run = client->loop.run;
    uint64_t now = now_ns();

    for (size_t i = 0; i < client->silence_count; i++)
        alarm_disarm(&client->silences[i].alarm);
    for (uint32_t i = 0; i < run->options.connections; i++) {
        struct peer *peer = &client->peers[i];
        if (timeout_is_lost(peer, now))
            count(&run->counts.timed_out_missed);
        if (attempt_is_lost(peer, now))
            count(&run->counts.not_reconnected);
        peer_hang_up(peer);
        hwt_retry_cancel_sync(&peer->retry);
        loop_withdraw(&client->loop, &peer->attempt_post);
    }
}

void client_open(struct client *client, struct run *run)
{
    loop_open(&client->loop, run);
    client->rules = (hwt_heartbeat_rules){ .writer_idle = HWT_MS(run->options.heartbeat_ms),
                                           .notify = pulse_notify };
    client->backoff = (hwt_retry_options)HWT_RETRY_OPTIONS_INIT;
    client->backoff.first_delay = BACKOFF_LEAST;
    client->backoff.max_delay = BACKOFF_MOST;
    client->backoff.attempt_timeout = CONNECT_LIMIT;
    client->backoff.jitter = HWT_JITTER_EQUAL; /* half of the delay is certain, half at random */
    client->peers = calloc(run->options.connections, sizeof(*client->peers));
    if (client->peers == NULL)
        die("peers", ENOMEM);
}

void *client_main(void *arg)
{
    struct client *client = arg;

    thread_begins(&client->loop.run->threads, THREAD_CLIENT);
    client_start(client);
    loop_run(&client->loop, on_ready);
    client_end(client);
    return NULL;
}

void client_close(struct client *client)
{
    loop_close(&client->loop);
    free(client->peers);
    free(client->silences);
}
