/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A keep-alive server on one thread: cc keepalive.c $(pkg-config --cflags --libs hwt)
 *
 * Three limits a connection, and one timeout: a connection is either idle, or sends us a request, or
 * takes our answer, and only one limit counts at a time. So going from one to the next moves the
 * timeout, which is the cheapest call there is, and three timeouts armed and cancelled for each
 * request are not needed.
 *
 * The epoll loop drives the timer, so the tasks run on the loop's thread and need no lock.
 *
 * Here a child process plays the clients: one that is served twice and leaves, one that stays idle,
 * one that sends half a request, one that never reads its answer.
 */

#define _GNU_SOURCE 1 /* accept4(), and POSIX beside -std=c11 too */

#include <arpa/inet.h>
#include <errno.h>
#include <hwt/hwt.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define IDLE_LIMIT HWT_SEC(2)    /* between requests */
#define REQUEST_LIMIT HWT_SEC(1) /* from its first byte to its last */
#define ANSWER_LIMIT HWT_SEC(1)  /* until the client has taken it */
#define ANSWER_SIZE (32 << 20)   /* more than a socket holds */

enum phase { IDLE, REQUEST, ANSWER, PHASES };

struct connection {
    int fd;
    enum phase phase;
    hwt_timeout limit;
    char request[64];
    size_t request_size, answer_left;
};

static const uint64_t limits[PHASES] = { IDLE_LIMIT, REQUEST_LIMIT, ANSWER_LIMIT };
static hwt_timer *timer;
static int epoll, open_connections;
static int late[PHASES], served, left;

static int check(const char *what, int r)
{
    if (r >= 0)
        return r;
    fprintf(stderr, "keepalive: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void watch(struct connection *connection, int operation, uint32_t events)
{
    struct epoll_event event = { .events = events, .data.ptr = connection };
    check("epoll", epoll_ctl(epoll, operation, connection->fd, &event));
}

/* Frees it. From the timeout's own task the cancel is false, and nothing is pending any more. */
static void connection_close(struct connection *connection)
{
    hwt_timeout_cancel(connection->limit);
    close(connection->fd);
    free(connection);
    open_connections--;
}

static void expire(hwt_timeout timeout, void *arg)
{
    struct connection *connection = arg;
    struct linger reset = { 1, 0 }; /* what it has not taken yet is thrown away */
    (void)timeout;
    setsockopt(connection->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    late[connection->phase]++;
    connection_close(connection);
}

static const hwt_task limit_task = { .run = expire };

static void enter(struct connection *connection, enum phase phase)
{
    connection->phase = phase;
    hwt_timeout_reschedule(connection->limit, limits[phase]);
}

static void accept_one(int listener)
{
    struct connection *connection = calloc(1, sizeof(*connection));
    check("memory", connection ? 0 : -1);
    connection->fd = check("accept", accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (hwt_timer_new_timeout(timer, &limit_task, connection, limits[IDLE], &connection->limit) <
        0) {
        close(connection->fd); /* no memory for one more: refuse it */
        free(connection);
        return;
    }
    open_connections++;
    watch(connection, EPOLL_CTL_ADD, EPOLLIN);
}

/* The answer's bytes are of no interest here, their number is. */
static void send_answer(struct connection *connection)
{
    static const char zeros[65536];
    while (connection->answer_left > 0) {
        size_t size =
            connection->answer_left < sizeof(zeros) ? connection->answer_left : sizeof(zeros);
        ssize_t n = send(connection->fd, zeros, size, MSG_NOSIGNAL);
        if (n < 0 && errno == EAGAIN)
            return;
        if (n < 0) {
            connection_close(connection);
            return;
        }
        connection->answer_left -= (size_t)n;
    }
    served++;
    watch(connection, EPOLL_CTL_MOD, EPOLLIN);
    enter(connection, IDLE);
}

/* "GET n\n": an answer of n bytes. */
static void read_request(struct connection *connection)
{
    size_t room = sizeof(connection->request) - 1 - connection->request_size;
    ssize_t n = read(connection->fd, connection->request + connection->request_size, room);
    if (n <= 0) {
        left += n == 0;
        connection_close(connection);
        return;
    }
    if (connection->phase == IDLE)
        enter(connection, REQUEST); /* once: slow bytes do not push the limit back */
    connection->request_size += (size_t)n;
    if (connection->request[connection->request_size - 1] != '\n')
        return;
    connection->answer_left = strtoul(connection->request + 4, NULL, 10);
    connection->request_size = 0;
    memset(connection->request, 0, sizeof(connection->request));
    enter(connection, ANSWER);
    watch(connection, EPOLL_CTL_MOD, EPOLLOUT);
}

static void serve(int listener)
{
    struct epoll_event events[16];
    while (left < 1 || open_connections > 0) {
        int n = epoll_wait(epoll, events, 16, -1);
        check("epoll", n < 0 && errno != EINTR ? -1 : 0);
        bool due = false;
        for (int i = 0; i < n; i++) {
            struct connection *connection = events[i].data.ptr;
            if (events[i].data.ptr == &timer)
                due = true;
            else if (events[i].data.ptr == &epoll)
                accept_one(listener);
            else if (events[i].events & EPOLLOUT)
                send_answer(connection);
            else
                read_request(connection);
        }
        /* Last: a task frees connections, which must not be in `events` any more. */
        if (due)
            hwt_timer_dispatch(timer);
    }
}

/* ---- the clients ---- */

static int client(const struct sockaddr_in *address, const char *words)
{
    int fd = check("socket", socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    check("connect", connect(fd, (const struct sockaddr *)address, sizeof(*address)));
    check("write", (int)write(fd, words, strlen(words)));
    return fd;
}

static void take(int fd, size_t size)
{
    static char bytes[65536];
    while (size > 0) {
        ssize_t n = read(fd, bytes, size < sizeof(bytes) ? size : sizeof(bytes));
        check("answer", n > 0 ? 0 : -1);
        size -= (size_t)n;
    }
}

/* Reads nothing. */
static void wait_for_reset(int fd)
{
    struct pollfd pollfd = { .fd = fd };
    check("poll", poll(&pollfd, 1, -1));
}

static void play_clients(const struct sockaddr_in *address)
{
    char words[32];
    snprintf(words, sizeof(words), "GET %d\n", ANSWER_SIZE);
    int twice = client(address, "GET 10\n"), idle = client(address, "");
    int half = client(address, "GE"), deaf = client(address, words);
    take(twice, 10);
    check("write", (int)write(twice, "GET 100000\n", 11));
    take(twice, 100000);
    close(twice);
    wait_for_reset(idle);
    wait_for_reset(half);
    wait_for_reset(deaf);
    exit(0);
}

int main(void)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof(address);
    int listener = check("socket", socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    check("bind", bind(listener, (struct sockaddr *)&address, sizeof(address)));
    check("listen", listen(listener, 16));
    check("address", getsockname(listener, (struct sockaddr *)&address, &size));
    /* Where not even the loopback is up, there is nothing to show. */
    int probe = check("socket", socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (connect(probe, (struct sockaddr *)&address, sizeof(address)) < 0) {
        perror("keepalive: no loopback");
        return 77;
    }
    close(probe);
    close(check("accept", accept4(listener, NULL, NULL, SOCK_CLOEXEC)));
    pid_t clients = check("fork", fork()); /* before there is a timer */
    if (clients == 0)
        play_clients(&address);

    hwt_options options = HWT_OPTIONS_INIT;
    options.tick_duration = HWT_MS(10);
    options.flags = HWT_NO_WORKER | HWT_ONE_THREAD;
    errno = -hwt_timer_create(&options, &timer);
    check("timer", -errno);
    epoll = check("epoll", epoll_create1(EPOLL_CLOEXEC));
    struct epoll_event event = { .events = EPOLLIN, .data.ptr = &timer };
    check("epoll", epoll_ctl(epoll, EPOLL_CTL_ADD, hwt_timer_fd(timer), &event));
    event.data.ptr = &epoll;
    check("epoll", epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event));
    serve(listener);
    close(epoll);
    hwt_timer_destroy(timer);

    int status = -1;
    waitpid(clients, &status, 0);
    printf("%d served, %d left, late: %d idle, %d sending, %d not reading\n", served, left,
           late[IDLE], late[REQUEST], late[ANSWER]);
    return status == 0 && served == 2 && left == 1 && late[IDLE] == 1 && late[REQUEST] == 1 &&
                   late[ANSWER] == 1
               ? 0
               : 1;
}
