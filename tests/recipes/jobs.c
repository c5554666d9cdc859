/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A service that runs jobs: cc jobs.c $(pkg-config --cflags --libs hwt-delay)
 *
 *     ./a.out DIRECTORY PORT COMMAND [ARGUMENT...]
 *     curl -d 'the job' 'localhost:PORT/jobs?in=1500'    # answers with a ticket, once it is on the disk
 *     curl -d '' localhost:PORT/cancel?ticket=TICKET     # a job that waits, again or not, will not run
 *     curl localhost:PORT                                # counters, what waits, dead letters
 *
 * A job is a text. When its time has come, `in` milliseconds from now, COMMAND is run with the text in
 * the environment's JOB. If that ends with another status than 0, it is run again later. A job is run
 * RUNS_MAX times at most, also if it ends this process each time: the store counts how often it has
 * handed a job over. Then it becomes a dead letter, in the step that ends it.
 *
 * To end the service, kill it. What runs then is ended by the system, and runs again after the next
 * start.
 *
 * There is one thread, and it never waits for the disk: each change is one hwt_delay_apply() that is
 * told when it is durable. The library tells that on a thread of its own, so a pipe brings it here, and
 * the client gets its answer. A change for which the store has no room yet (-EAGAIN) is tried again a
 * little later, and its client waits so long. The store bounds how many jobs run: it hands over none
 * while AT_ONCE are leased, and its descriptor is not readable then.
 */

#define _GNU_SOURCE 1 /* accept4(), pipe2(), and POSIX beside -std=c11 too */

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <hwt/delay.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RUNS_MAX = 3, AT_ONCE = 4, PEERS_MAX = 1000, TEXT_MAX = 4096, PAGE_MAX = 32768, SHOWN = 50 };
enum { LATER = 5 }; /* ms, until what the store could not take is tried again */

#define FIRST_DELAY HWT_MS(200)       /* before the second run; doubles with each one */
#define DEAD (HWT_NEVER - HWT_SEC(1)) /* the due time of dead letters: it does not come */

/* A descriptor that epoll watches. */
struct source {
    void (*ready)(struct source *source);
    int fd;
};

/* A connection: it brings one request, and gets one answer. */
struct peer {
    struct source source; /* the first member, as in a job */
    size_t read;
    const char *body;                                    /* of the request, once that is whole */
    struct peer *next;                                   /* that waits */
    char in[TEXT_MAX + 1024], out[HWT_DELAY_TICKET_MAX]; /* what it is told if all goes well */
};

/* A place for a job, which has a lease. */
struct job {
    struct source source; /* its process */
    enum { FREE, RUNS, ENDED } state;
    const hwt_delay_message *message;
    pid_t pid;
    int status;
};

static hwt_delay *store;
static char **command;
static int epoll, told[2], peers;
static struct job jobs[AT_ONCE];
static struct peer *waiting, **end = &waiting; /* those for whose changes the store had no room */
static bool has_room;

/* -1: errno says why; other negative numbers are the store's, and say it themselves. */
static int check(const char *what, int64_t r)
{
    if (r >= 0)
        return (int)r;
    fprintf(stderr, "jobs: %s: %s\n", what, strerror(r == -1 ? errno : (int)-r));
    _exit(1);
}

static void watch(struct source *source, int fd, void (*ready)(struct source *source))
{
    struct epoll_event event = { .events = EPOLLIN, .data = { .ptr = source } };
    *source = (struct source){ ready, fd };
    check("epoll", epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event));
}

/* A child that has not begun its program has the descriptor too, so closing it is not enough. */
static void unwatch(const struct source *source)
{
    epoll_ctl(epoll, EPOLL_CTL_DEL, source->fd, NULL);
}

/* On a thread of the library. Fewer are on the way than the pipe has room for. */
static void tell(int result, void *peer)
{
    check("store", result);
    if (peer)
        check("pipe", write(told[1], &peer, sizeof(peer)));
}

/* Does not wait; a peer is told when it is durable. -EAGAIN: later; or why it cannot be. */
static int apply(hwt_delay_change *changes, size_t count, struct peer *peer)
{
    hwt_delay_batch batch = HWT_DELAY_BATCH_INIT;
    batch.flags = HWT_DELAY_NO_WAIT;
    batch.durable = tell;
    batch.arg = peer;
    int r = hwt_delay_apply(store, changes, count, &batch);
    return r == -EIO ? check("store", r) : r; /* the disk: opening anew says what it has */
}

/* ---- jobs ---- */

static void note_end(struct source *source)
{
    struct job *job = (struct job *)source;
    check("job", waitpid(job->pid, &job->status, 0));
    unwatch(source);
    close(source->fd);
    job->state = ENDED;
}

static void run(struct job *job)
{
    pid_t parent = getpid();
    job->pid = fork();
    if (job->pid < 0)
        return; /* as one that failed */
    if (job->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() == parent && setenv("JOB", job->message->payload, 1) == 0)
            execvp(command[0], command);
        _exit(127);
    }
    job->state = RUNS;
    watch(&job->source, check("job", syscall(SYS_pidfd_open, job->pid, 0)), note_end);
}

/* It is done with, goes to the dead letters, or runs again later: in one step. */
static void finish(struct job *job)
{
    hwt_delay_message dead = *job->message;
    const uint32_t runs = dead.deliveries;
    const bool good = job->status == 0, last = runs >= RUNS_MAX;
    hwt_delay_change changes[] = {
        { .op = good || last ? HWT_DELAY_OP_DONE : HWT_DELAY_OP_RETRY,
          .lease = dead.lease,
          .due = hwt_delay_now(store) + (last ? 0 : FIRST_DELAY << (runs - 1)) },
        { .op = HWT_DELAY_OP_PUT, .message = &dead },
    };
    dead.due = DEAD;
    int r = apply(changes, good || !last ? 1 : 2, NULL);
    if (r == -EAGAIN || r == -ENOSPC)
        return;
    check("the end of a job", r);
    hwt_delay_free(job->message);
    job->state = FREE;
}

/* False: ends have to wait until the store has room. */
static bool finish_all(void)
{
    bool all = true;
    for (struct job *job = jobs; job < jobs + AT_ONCE; job++) {
        if (job->state == ENDED)
            finish(job);
        all = all && job->state != ENDED;
    }
    return all;
}

/* There is a place for each, as the store leases AT_ONCE at most. One that has had its runs, and ended
 * this process each time, is not run. */
static void take_all(struct source *source)
{
    const hwt_delay_message *message;
    int64_t n;
    (void)source;
    while ((n = hwt_delay_take(store, 1, 0, &message)) == 1) {
        struct job *job = jobs;
        while (job->state != FREE)
            job++;
        *job = (struct job){ .state = ENDED, .message = message, .status = -1 };
        if (message->deliveries <= RUNS_MAX)
            run(job);
    }
    if (n == -EIO)
        check("store", n);
    if (n < 0 && n != -ENOBUFS)
        fprintf(stderr, "jobs: nothing is run: %s\n", strerror((int)-n));
}

/* ---- answers ---- */

/* The socket's buffer takes a whole one. */
static void answer(struct peer *peer, const char *status, const char *text)
{
    static char bytes[PAGE_MAX + 200];
    int size = snprintf(bytes, sizeof(bytes), "HTTP/1.0 %s\r\nContent-Length: %zu\r\n\r\n%s\n",
                        status, strlen(text) + 1, text);
    send(peer->source.fd, bytes, (size_t)size, MSG_NOSIGNAL);
    unwatch(&peer->source);
    close(peer->source.fd);
    free(peer);
    peers--;
}

static void answer_durable(struct source *pipe)
{
    struct peer *peer;
    while (read(pipe->fd, &peer, sizeof(peer)) == (ssize_t)sizeof(peer))
        answer(peer, "200 OK", peer->out);
}

/* Until the change is durable epoll does not know the peer, so it stays. */
static void submit(struct peer *peer, hwt_delay_change change)
{
    int r = apply(&change, 1, peer);
    has_room = r != -EAGAIN;
    if (r == 0 || !has_room)
        unwatch(&peer->source);
    if (!has_room) {
        peer->next = NULL;
        *end = peer;
        end = &peer->next;
    } else if (r < 0) {
        answer(peer,
               r == -ENOENT   ? "404 Not Found"
               : r == -EBUSY  ? "409 Conflict" /* it runs */
               : r == -EINVAL ? "400 Bad Request"
                              : "503 Service Unavailable",
               strerror(-r));
    }
}

static void put(struct peer *peer, const char *text, uint64_t in)
{
    static uint64_t count;
    const uint64_t ids[] = { hwt_delay_now(store), ++count };
    const hwt_delay_message message = { .due = ids[0] + HWT_MS(in < UINT32_MAX ? in : UINT32_MAX),
                                        .id = ids,
                                        .id_size = sizeof(ids),
                                        .payload = text,
                                        .payload_size = strlen(text) + 1 };
    hwt_delay_ticket(&message, peer->out, sizeof(peer->out));
    submit(peer, (hwt_delay_change){ .op = HWT_DELAY_OP_PUT, .message = &message });
}

struct page {
    size_t length;
    int shown;
    char text[PAGE_MAX];
};

static int show(const hwt_delay_message *message, void *data)
{
    struct page *page = data;
    char ticket[100];
    hwt_delay_ticket(message, ticket, sizeof(ticket));
    const char *state = message->lease != 0 ? "runs" : message->due >= DEAD ? "dead" : "waits";
    page->length += (size_t)snprintf(page->text + page->length, 200, "%s %s %.80s\n", state, ticket,
                                     (const char *)message->payload);
    return ++page->shown == SHOWN;
}

/* The store's metrics, the first SHOWN that wait, and as many that are dead. This reads the disk, so it
 * is for people, now and then. */
static void show_all(struct peer *peer)
{
    static struct page page;
    hwt_delay_stats stats = HWT_DELAY_STATS_INIT;
    check("stats", hwt_delay_get_stats(store, &stats));
    page.length = (size_t)hwt_delay_stats_prometheus(&stats, NULL, 1, page.text, PAGE_MAX / 3);
    page.shown = 0;
    hwt_delay_visit(store, 0, DEAD, show, &page);
    page.shown = 0;
    hwt_delay_visit(store, DEAD, HWT_NEVER, show, &page);
    page.text[page.length - 1] = 0; /* answer() ends the last line */
    answer(peer, "200 OK", page.text);
}

/* ---- requests ---- */

/* Once more for one that has waited. A dead letter has the ticket of its job, because it has the due
 * time of its first put. */
static void serve(struct peer *peer)
{
    char *in = peer->in;
    in[strcspn(in + 5, " \r") + 5] = 0; /* behind the path */
    if (strncmp(in, "POST /jobs", 10) == 0)
        put(peer, peer->body, strncmp(in + 10, "?in=", 4) == 0 ? strtoull(in + 14, NULL, 10) : 0);
    else if (strncmp(in, "POST /cancel?ticket=", 20) == 0)
        submit(peer, (hwt_delay_change){ .op = HWT_DELAY_OP_CANCEL, .ticket = in + 20 });
    else if (strcmp(in, "GET /") == 0)
        show_all(peer);
    else
        answer(peer, "404 Not Found", "POST /jobs?in=MS, POST /cancel?ticket=TICKET, GET /");
}

/* False: some have to wait until the store has room. */
static bool serve_waiting(void)
{
    has_room = true;
    while (has_room && waiting) {
        struct peer *peer = waiting;
        waiting = peer->next;
        end = waiting ? end : &waiting;
        serve(peer);
    }
    return !waiting;
}

/* Reads until there is a whole request. */
static void hear(struct source *source)
{
    struct peer *peer = (struct peer *)source;
    ssize_t n = recv(source->fd, peer->in + peer->read, sizeof(peer->in) - 1 - peer->read, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    peer->read += n > 0 ? (size_t)n : 0;
    peer->in[peer->read] = 0;
    const char *length = strcasestr(peer->in, "\r\nContent-Length:");
    const char *body = strstr(peer->in, "\r\n\r\n");
    const size_t size = body && length && length < body ? strtoul(length + 17, NULL, 10) : 0;
    const size_t its = body ? (size_t)(peer->in + peer->read - body - 4) : 0;
    if (size > TEXT_MAX || (its < size + !body && peer->read == sizeof(peer->in) - 1))
        answer(peer, "413 Too Long", "a job is of up to 4096 bytes");
    else if (n <= 0 || (body && strlen(body + 4) != its))
        answer(peer, "400 Bad Request", "a job is a text");
    else if (body && its >= size) {
        peer->body = body + 4;
        serve(peer);
    }
}

static void meet(struct source *listener)
{
    int fd = accept4(listener->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    struct peer *peer = fd < 0 || peers == PEERS_MAX ? NULL : calloc(1, sizeof(*peer));
    if (!peer) {
        close(fd);
        return;
    }
    peers++;
    watch(&peer->source, fd, hear);
}

/* ---- the loop ---- */

static int listen_on(const char *port)
{
    const struct sockaddr_in address = { .sin_family = AF_INET,
                                         .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                         .sin_port = htons((uint16_t)atoi(port)) };
    const int fd = check("socket", socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    const int on = 1, size = 4 * PAGE_MAX;
    check("socket", setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)));
    check("socket", setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)));
    check(port, bind(fd, (const struct sockaddr *)&address, sizeof(address)));
    check("listen", listen(fd, 128));
    return fd;
}

static void open_store(const char *directory)
{
    hwt_delay_options options = HWT_DELAY_OPTIONS_INIT;
    options.flags = HWT_DELAY_CREATE;
    options.payload_max = TEXT_MAX + 1; /* with the text's end */
    options.segment_size = 1 << 20;
    options.lease = HWT_NEVER; /* a job is leased as long as this process and its own live */
    options.leased_max = AT_ONCE;
    check(directory, hwt_delay_open(directory, &options, &store));
}

int main(int argc, char **argv)
{
    static struct source listener, pipe, due;
    if (argc < 4) {
        fprintf(stderr, "usage: %s DIRECTORY PORT COMMAND [ARGUMENT...]\n", argv[0]);
        return 2;
    }
    command = argv + 3;
    open_store(argv[1]);
    epoll = check("epoll", epoll_create1(EPOLL_CLOEXEC));
    check("pipe", pipe2(told, O_CLOEXEC | O_NONBLOCK));
    watch(&listener, listen_on(argv[2]), meet);
    watch(&pipe, told[0], answer_durable);
    watch(&due, check("descriptor", hwt_delay_fd(store)), take_all);
    for (;;) {
        struct epoll_event events[64];
        bool all = serve_waiting();
        all = finish_all() && all;
        int n = epoll_wait(epoll, events, 64, all ? -1 : LATER);
        for (int i = 0; i < n; i++) {
            struct source *source = events[i].data.ptr;
            source->ready(source);
        }
    }
}
