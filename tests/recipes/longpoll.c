/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Long polling on one thread: cc longpoll.c $(pkg-config --cflags --libs hwt)
 *
 *     WAIT KEY MILLISECONDS    is answered with the next text that is posted to KEY, or with "late"
 *     POST KEY TEXT            is answered with the number of those that have waited and got it
 *
 * Each connection brings one such line, and ends with the answer. One that waits has one timeout, and is
 * in the list of its key. It ends in one of three ways: somebody posts, the timeout runs, or the client
 * leaves. Each of them takes it from the list, cancels the timeout and frees it. All of this is done on one
 * thread, the epoll loop's, so there is nothing to lock, and no second way comes after the first.
 *
 * Where posts come on other threads and a worker runs the timeouts, hwt_timeout_cancel() decides between
 * the two: only if it says true, the timeout will not run, and it is for the caller to answer.
 *
 * Here a child process plays the clients.
 */

#define _GNU_SOURCE 1 /* accept4(), and POSIX beside -std=c11 too */

#include <arpa/inet.h>
#include <errno.h>
#include <hwt/hwt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define KEY_MAX 31
#define LISTS 1024                /* a power of two; about as many as wait at a time, for speed */
#define LIMIT_MAX HWT_MS(3600000) /* a client may ask for less */

struct connection {
    int fd;
    char line[256], key[KEY_MAX + 1];
    size_t size;
    hwt_timeout limit;               /* of one that waits */
    struct connection *next, **link; /* of the list that it is in; NULL: it is in none */
};

static struct connection *lists[LISTS];
static hwt_timer *timer;
static int epoll, listener, open_connections, answered, late, left;
static int clients_end[2]; /* a pipe that ends with the clients */
static bool clients_play = true;

static int check(const char *what, int r)
{
    if (r >= 0)
        return r;
    fprintf(stderr, "longpoll: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void watch(int fd, void *what)
{
    struct epoll_event event = { .events = EPOLLIN, .data.ptr = what };
    check("epoll", epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event));
}

static struct connection **list_of(const char *key)
{
    uint32_t hash = 2166136261u; /* FNV-1a */
    while (*key)
        hash = (hash ^ (unsigned char)*key++) * 16777619u;
    return &lists[hash % LISTS];
}

/* It waits no longer, if it did, and is freed. */
static void finish(struct connection *connection, const char *answer)
{
    if (connection->link) {
        hwt_timeout_cancel(connection->limit); /* from its own task: there is nothing to cancel */
        *connection->link = connection->next;
        if (connection->next)
            connection->next->link = connection->link;
    }
    /* A socket that has sent nothing yet has room for a line, so this never waits. */
    if (answer && send(connection->fd, answer, strlen(answer), MSG_NOSIGNAL) < 0)
        perror("longpoll: a client has not got its answer");
    close(connection->fd);
    free(connection);
    open_connections--;
}

static void expire(hwt_timeout timeout, void *arg)
{
    (void)timeout;
    late++;
    finish(arg, "late\n");
}

static const hwt_task limit_task = { .run = expire };

static void wait_for(struct connection *connection, uint64_t limit)
{
    struct connection **list = list_of(connection->key);
    if (hwt_timer_new_timeout(timer, &limit_task, connection, limit < LIMIT_MAX ? limit : LIMIT_MAX,
                              &connection->limit) < 0) {
        finish(connection, "busy\n"); /* no memory for one more: refuse it */
        return;
    }
    connection->next = *list;
    connection->link = list;
    if (*list)
        (*list)->link = &connection->next;
    *list = connection;
}

static void post(struct connection *poster, const char *text)
{
    struct connection *next;
    int count = 0;
    char answer[256];
    snprintf(answer, sizeof(answer), "%s\n", text);
    for (struct connection *waiter = *list_of(poster->key); waiter; waiter = next) {
        next = waiter->next;
        if (strcmp(waiter->key, poster->key) != 0)
            continue;
        finish(waiter, answer);
        count++;
    }
    answered += count;
    snprintf(answer, sizeof(answer), "%d\n", count);
    finish(poster, answer);
}

static void read_line(struct connection *connection)
{
    unsigned ms;
    char text[200];
    ssize_t n = read(connection->fd, connection->line + connection->size,
                     sizeof(connection->line) - 1 - connection->size);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0 || connection->link) { /* who waits has nothing more to say */
        left += connection->link != NULL;
        finish(connection, NULL);
        return;
    }
    connection->size += (size_t)n;
    if (connection->line[connection->size - 1] != '\n' &&
        connection->size < sizeof(connection->line) - 1)
        return;
    if (sscanf(connection->line, "WAIT %31s %u\n", connection->key, &ms) == 2)
        wait_for(connection, HWT_MS(ms));
    else if (sscanf(connection->line, "POST %31s %199[^\n]\n", connection->key, text) == 2)
        post(connection, text);
    else
        finish(connection, "say WAIT KEY MILLISECONDS, or POST KEY TEXT\n");
}

static void accept_one(void)
{
    struct connection *connection = calloc(1, sizeof(*connection));
    check("memory", connection ? 0 : -1);
    connection->fd = check("accept", accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC));
    watch(connection->fd, connection);
    open_connections++;
}

static void clients_left(void)
{
    clients_play = false;
    check("epoll", epoll_ctl(epoll, EPOLL_CTL_DEL, clients_end[0], NULL));
}

/* One event at a time: a post frees connections of which a second event could tell. */
static void serve_one(void)
{
    struct epoll_event event;
    int n = epoll_wait(epoll, &event, 1, -1);
    check("epoll", n < 0 && errno != EINTR ? -1 : 0);
    if (n != 1)
        return;
    if (event.data.ptr == &timer)
        hwt_timer_dispatch(timer);
    else if (event.data.ptr == &listener)
        accept_one();
    else if (event.data.ptr == &clients_end)
        clients_left();
    else
        read_line(event.data.ptr);
}

/* ---- the clients ---- */

static struct sockaddr_in address;

static int ask(const char *line)
{
    int fd = check("socket", socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    check("connect", connect(fd, (struct sockaddr *)&address, sizeof(address)));
    check("write", (int)write(fd, line, strlen(line)));
    return fd;
}

static void expect(int fd, const char *answer)
{
    char text[256] = "";
    size_t size = 0;
    ssize_t n;
    while ((n = read(fd, text + size, sizeof(text) - 1 - size)) > 0)
        size += (size_t)n;
    close(fd);
    if (strcmp(text, answer) == 0)
        return;
    fprintf(stderr, "longpoll: the answer was %s, not %s\n", text, answer);
    exit(1);
}

/* Posts until so many have got it: those that wait may come behind the first post. */
static void post_to(const char *line, int count)
{
    while (count > 0) {
        char text[16] = "";
        int fd = ask(line);
        check("answer", (int)read(fd, text, sizeof(text) - 1));
        close(fd);
        count -= atoi(text);
        usleep(1000);
    }
}

static void play_clients(void)
{
    int tea = ask("WAIT tea 60000\n"), tea_too = ask("WAIT tea 3600000\n");
    int coffee = ask("WAIT coffee 60000\n"), nothing = ask("WAIT nothing 100\n");
    close(ask("WAIT gone 60000\n"));
    post_to("POST coffee it is hot\n", 1);
    expect(coffee, "it is hot\n");
    expect(nothing, "late\n");
    post_to("POST tea with milk\n", 2);
    expect(tea, "with milk\n");
    expect(tea_too, "with milk\n");
    expect(ask("POST coffee again\n"), "0\n");
    expect(ask("nonsense\n"), "say WAIT KEY MILLISECONDS, or POST KEY TEXT\n");
    exit(0);
}

static void listen_on_loopback(void)
{
    socklen_t size = sizeof(address);
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    listener = check("socket", socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    check("bind", bind(listener, (struct sockaddr *)&address, sizeof(address)));
    check("listen", listen(listener, 128));
    check("address", getsockname(listener, (struct sockaddr *)&address, &size));
}

int main(void)
{
    listen_on_loopback();
    check("pipe", pipe(clients_end));
    pid_t clients = check("fork", fork()); /* before there is a timer */
    if (clients == 0)
        play_clients();
    close(clients_end[1]);

    hwt_options options = HWT_OPTIONS_INIT;
    options.tick_duration = HWT_MS(10);
    options.flags = HWT_NO_WORKER | HWT_ONE_THREAD;
    errno = -hwt_timer_create(&options, &timer);
    check("timer", -errno);
    epoll = check("epoll", epoll_create1(EPOLL_CLOEXEC));
    watch(check("descriptor", hwt_timer_fd(timer)), &timer);
    watch(listener, &listener);
    watch(clients_end[0], &clients_end);
    while (clients_play || open_connections > 0)
        serve_one();
    int pending = (int)hwt_timer_pending(timer), status = -1;
    close(epoll);
    hwt_timer_destroy(timer);

    waitpid(clients, &status, 0);
    printf("%d answered, %d late, %d left, %d pending\n", answered, late, left, pending);
    return status == 0 && answered == 3 && late == 1 && left == 1 && pending == 0 ? 0 : 1;
}
