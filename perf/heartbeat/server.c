/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The server: notes every read of a connection for its hwt_heartbeat, and closes one that
 * this tells to be dead. Once it has closed one it looks at the truth, and keeps the score.
 *
 * A connection is freed where it is closed: pulse_stop(), that is hwt_heartbeat_stop_sync(),
 * makes sure that nobody else holds it.
 *
 * With --loop its event loop also watches the timer's descriptor, and runs the tasks.
 */

#include "heartbeat.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define NO_PEER UINT32_MAX

/* Percent of the peers that come back and are turned away, so that backoff has work. */
#define TURN_AWAY 25

struct connection {
    struct server *server;
    int fd;
    uint32_t peer; /* NO_PEER before its hello */
    struct pulse pulse;
    struct inbox inbox;
    LIST_ENTRY(connection) link;
};

/* ---- One connection ---- */

static void connection_close(struct connection *connection)
{
    struct server *server = connection->server;

    pulse_stop(&connection->pulse);
    if (connection->peer != NO_PEER && server->by_peer[connection->peer] == connection)
        server->by_peer[connection->peer] = NULL;
    LIST_REMOVE(connection, link);
    close(connection->fd);
    free(connection);
}

/* False: turned away. */
static bool on_hello(struct connection *connection, const struct message *message)
{
    struct server *server = connection->server;

    if (message->id > 0 && random_below(&server->random, 100) < TURN_AWAY) {
        count(&server->loop.run->counts.turned_away);
        return false;
    }
    connection->peer = message->peer;
    server->by_peer[message->peer] = connection;
    message_send(connection->fd, MESSAGE_WELCOME, message->peer, 0);
    return true;
}

/* False: the connection is to be closed. */
static bool on_message(struct connection *connection, const struct message *message)
{
    const struct options *options = &connection->server->loop.run->options;

    switch (message->kind) {
    case MESSAGE_HELLO:
        return on_hello(connection, message);
    case MESSAGE_REQUEST:
        if (!request_is_unanswered(options, message->id))
            message_send(connection->fd, MESSAGE_ANSWER, message->peer, message->id);
        return true;
    default: /* a heartbeat: that it was read is all there is to it */
        return true;
    }
}

/* False: there was nothing to read. Otherwise the connection may be gone. */
static bool connection_read(struct connection *connection)
{
    struct message message;
    int n = inbox_fill(&connection->inbox, connection->fd);

    if (n == -EAGAIN || n == -EINTR)
        return false;
    if (n <= 0) {
        connection_close(connection);
        return true;
    }

    pulse_note(&connection->pulse, hwt_heartbeat_read_at);
    while (inbox_next(&connection->inbox, &message)) {
        if (!on_message(connection, &message)) {
            connection_close(connection);
            return true;
        }
    }
    return true;
}

/* ---- Dead connections ---- */

static void judge(const struct connection *connection)
{
    struct server *server = connection->server;
    struct run *run = server->loop.run;
    uint64_t now = now_ns();
    struct truth *truth = connection->peer == NO_PEER ? NULL : &run->truth[connection->peer];

    if (truth != NULL && atomic_load(&truth->silent)) {
        atomic_store(&truth->found, true);
        histogram_add(&server->lateness,
                      (int64_t)(now - (connection->pulse.noted + server->rules.dead)));
        count(&run->counts.found);
    } else {
        /* Whose fault that was can only be told when it is known who was kept waiting. */
        server->suspect = realloc(server->suspect, (server->suspect_count + 1) * sizeof(uint64_t));
        if (server->suspect == NULL)
            die("suspects", ENOMEM);
        server->suspect[server->suspect_count++] = now;
        count(&run->counts.live_closed);
    }
}

static void on_dead(struct post *post)
{
    struct connection *connection = container_of(post, struct connection, pulse.post);
    struct run *run = connection->server->loop.run;

    /* What has arrived counts, even if this loop was too busy to read it in time. */
    if (connection_read(connection) || !pulse_stands(&connection->pulse)) {
        count(&run->counts.spared);
        return;
    }
    judge(connection);
    connection_close(connection);
}

/* ---- The loop ---- */

static void accept_one(struct server *server, int fd)
{
    struct connection *connection = calloc(1, sizeof(*connection));

    if (connection == NULL)
        die("connection", ENOMEM);
    socket_prepare(fd);
    connection->server = server;
    connection->fd = fd;
    connection->peer = NO_PEER;
    LIST_INSERT_HEAD(&server->connections, connection, link);
    loop_watch(&server->loop, EPOLL_CTL_ADD, fd, EPOLLIN, connection);
    pulse_init(&connection->pulse, &server->loop, on_dead);
    pulse_start(&connection->pulse, &server->rules, server->rules.dead);
}

static void accept_all(struct server *server)
{
    int fd;

    while ((fd = accept4(server->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0)
        accept_one(server, fd);
    if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
        die("accept", errno);
}

/* Runs the tasks that are due, and counts what that costs. */
static void dispatch(struct run *run)
{
    uint64_t before = clock_ns(CLOCK_THREAD_CPUTIME_ID);

    hwt_timer_dispatch(run->timer);
    count(&run->counts.dispatches);
    run->counts.dispatch_cpu += clock_ns(CLOCK_THREAD_CPUTIME_ID) - before;
}

static void on_ready(struct loop *loop, void *source, uint32_t events)
{
    struct server *server = container_of(loop, struct server, loop);

    (void)events;
    if (source == loop->run->timer)
        dispatch(loop->run);
    else if (source == &server->listener)
        accept_all(server);
    else
        connection_read(source);
}

static void on_drop(struct post *post)
{
    struct fault *fault = container_of(post, struct fault, alarm.post);
    struct server *server = container_of(fault->alarm.loop, struct server, loop);
    struct connection *connection = server->by_peer[fault->peer];

    if (connection == NULL) { /* just coming back: later, then */
        alarm_arm(&fault->alarm, now_ns() + HWT_MS(50));
        return;
    }
    count(&server->loop.run->counts.dropped);
    connection_close(connection);
}

static void watch_timer(struct server *server)
{
    hwt_timer *timer = server->loop.run->timer;
    int fd = hwt_timer_fd(timer);

    if (fd < 0)
        die("no descriptor for the timer", -fd);
    loop_watch(&server->loop, EPOLL_CTL_ADD, fd, EPOLLIN, timer);
}

void server_open(struct server *server, struct run *run)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t length = sizeof(address);

    loop_open(&server->loop, run);
    if (run->options.loop)
        watch_timer(server);
    server->rules =
        (hwt_heartbeat_rules){ .dead = HWT_MS(run->options.idle_ms), .notify = pulse_notify };
    LIST_INIT(&server->connections);
    server->by_peer = calloc(run->options.connections, sizeof(*server->by_peer));
    if (server->by_peer == NULL)
        die("server", ENOMEM);
    server->listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (server->listener < 0 ||
        bind(server->listener, (struct sockaddr *)&address, sizeof(address)) < 0 ||
        listen(server->listener, SOMAXCONN) < 0 ||
        getsockname(server->listener, (struct sockaddr *)&address, &length) < 0)
        die("cannot listen on 127.0.0.1", errno);
    server->port = ntohs(address.sin_port);
    loop_watch(&server->loop, EPOLL_CTL_ADD, server->listener, EPOLLIN, &server->listener);
}

void *server_main(void *arg)
{
    struct server *server = arg;
    struct connection *connection;

    thread_begins(&server->loop.run->threads, THREAD_SERVER);
    for (size_t i = 0; i < server->drop_count; i++) {
        alarm_init(&server->drops[i].alarm, &server->loop, on_drop);
        alarm_arm(&server->drops[i].alarm, server->loop.run->begin + server->drops[i].after);
    }

    loop_run(&server->loop, on_ready);

    for (size_t i = 0; i < server->drop_count; i++)
        alarm_disarm(&server->drops[i].alarm);
    while ((connection = LIST_FIRST(&server->connections)) != NULL)
        connection_close(connection);
    return NULL;
}

void server_close(struct server *server)
{
    close(server->listener);
    loop_close(&server->loop);
    free(server->by_peer);
    free(server->drops);
    free(server->suspect);
}
