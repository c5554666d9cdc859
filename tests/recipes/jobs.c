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
 * handed a job over. Then it becomes a dead letter, in the step that ends it. What runs when this process
 * ends, is ended by the system, and runs again after the next start.
 *
 * There is one thread, and it never waits for the disk: each change is one hwt_delay_apply() that is
 * told when it is durable. The library tells that on a thread of its own, so a pipe brings it here. An
 * answer to a client, and a place for the next job, come after that.
 */

#define _GNU_SOURCE 1 /* accept4(), pipe2(), and POSIX beside -std=c11 too */

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <hwt/delay.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RUNS_MAX = 3, AT_ONCE = 4, PEERS_MAX = 1000, TEXT_MAX = 4096, PAGE_MAX = 32768, SHOWN = 50 };

#define FIRST_DELAY HWT_MS(200)       /* before the second run; doubles with each one */
#define DEAD (HWT_NEVER - HWT_SEC(1)) /* the due time of dead letters: it does not come */

/* What epoll and the pipe say something of: its first member is who it is for. */
enum kind { LISTENER, SIGNALS, STORE, PIPE, PEER, JOB };

/* A connection: it brings one request, and gets one answer. */
struct peer {
    enum kind kind;
    int fd;
    size_t read;
    char in[TEXT_MAX + 1024], out[HWT_DELAY_TICKET_MAX]; /* what it is told if all goes well */
};

/* A place for a job. */
struct job {
    enum kind kind;
    enum { FREE, RUNS, ENDED, COMMITS } state;
    const hwt_delay_message *message;
    pid_t pid;
    int status;
};

static hwt_delay *store;
static char **command;
static int epoll, told[2], peers;
static enum kind own[] = { LISTENER, SIGNALS, STORE, PIPE };
static int own_fd[4];
static struct job jobs[AT_ONCE];
static bool ending;

static int check(const char *what, int64_t r)
{
    if (r >= 0)
        return (int)r;
    fprintf(stderr, "jobs: %s: %s\n", what, strerror((int)-r));
    _exit(1);
}

/* For what says why in errno. */
static int checked(const char *what, int64_t r)
{
    return check(what, r < 0 ? -errno : r);
}

static int watch(int operation, enum kind *whom, int fd, uint32_t events)
{
    return epoll_ctl(epoll, operation, fd,
                     &(struct epoll_event){ .events = events, .data = { .ptr = whom } });
}

/* On a thread of the library. There are fewer on the way than the pipe has room for. */
static void tell(int result, void *whom)
{
    check("store", result);
    checked("pipe", write(told[1], &whom, sizeof(whom)));
}

/* 0: `whom` will be told. -EAGAIN: later; or why it cannot be. */
static int apply(hwt_delay_change *changes, size_t count, void *whom)
{
    hwt_delay_batch batch = HWT_DELAY_BATCH_INIT;
    batch.flags = HWT_DELAY_NO_WAIT;
    batch.durable = tell;
    batch.arg = whom;
    int r = hwt_delay_apply(store, changes, count, &batch);
    return r == -EIO ? check("store", r) : r; /* the disk: opening anew says what it has */
}

/* ---- jobs ---- */

static void run(struct job *job)
{
    char text[TEXT_MAX + 1] = "";
    pid_t parent = getpid();
    memcpy(text, job->message->payload, job->message->payload_size);
    job->pid = fork();
    if (job->pid == 0) {
        sigset_t none;
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() == parent && setenv("JOB", text, 1) == 0)
            execvp(command[0], command);
        _exit(127);
    }
    job->state = job->pid < 0 ? ENDED : RUNS; /* no process: as one that failed */
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
    int r = apply(changes, good || !last ? 1 : 2, job);
    if (r == 0)
        job->state = COMMITS;
    else if (r != -EAGAIN && r != -ENOSPC) /* these are tried again */
        check("the end of a job", r);
}

/* The next job, for a place that is free. False: there is none. One that has had its runs, and ended
 * this process each time, is not run. */
static bool take(struct job *job)
{
    int64_t n = hwt_delay_take(store, 1, 0, &job->message);
    if (n == -EIO)
        check("store", n);
    if (n < 0)
        fprintf(stderr, "jobs: nothing is run: %s\n", strerror((int)-n));
    if (n != 1)
        return false;
    job->kind = JOB;
    job->state = ENDED;
    job->status = -1;
    if (job->message->deliveries <= RUNS_MAX)
        run(job);
    return true;
}

/* Returns how long to wait then, in ms: ends may have to wait until the store has room. */
static int tend(void)
{
    bool full = true;
    int wait = -1;
    for (struct job *job = jobs; job < jobs + AT_ONCE; job++) {
        if (job->state == FREE)
            full = full && take(job);
        if (job->state == ENDED)
            finish(job);
        wait = job->state == ENDED ? 10 : wait;
    }
    checked("epoll", watch(EPOLL_CTL_MOD, &own[STORE], own_fd[STORE], full ? 0 : EPOLLIN));
    return wait;
}

static void reap(void)
{
    struct signalfd_siginfo signals;
    int status;
    while (read(own_fd[SIGNALS], &signals, sizeof(signals)) == (ssize_t)sizeof(signals))
        ending = ending || signals.ssi_signo != SIGCHLD;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
        for (struct job *job = jobs; job < jobs + AT_ONCE; job++) {
            if (job->state != RUNS || job->pid != pid)
                continue;
            job->state = ENDED;
            job->status = status;
        }
    }
}

/* ---- answers ---- */

/* The socket's buffer takes a whole one. A child that has not begun its program has the descriptor too,
 * so closing it here is not enough for epoll to forget it. */
static void answer(struct peer *peer, const char *status, const char *text)
{
    static char bytes[PAGE_MAX + 200];
    int size = snprintf(bytes, sizeof(bytes), "HTTP/1.0 %s\r\nContent-Length: %zu\r\n\r\n%s\n",
                        status, strlen(text) + 1, text);
    if (*status)
        send(peer->fd, bytes, (size_t)size, MSG_NOSIGNAL);
    watch(EPOLL_CTL_DEL, &peer->kind, peer->fd, 0);
    close(peer->fd);
    free(peer);
    peers--;
}

/* What the store has said to a change that a peer waits for; 0: it is durable. */
static void answer_result(struct peer *peer, int r)
{
    const char *status = r == 0         ? "200 OK"
                         : r == -ENOENT ? "404 Not Found"
                         : r == -EBUSY  ? "409 Conflict" /* it runs */
                         : r == -EINVAL ? "400 Bad Request"
                                        : "503 Service Unavailable";
    answer(peer, status, r == 0 ? peer->out : strerror(-r));
}

/* Its change is under way. Until that is durable epoll does not know the peer, so it stays. */
static void submit(struct peer *peer, hwt_delay_change change)
{
    int r = apply(&change, 1, peer);
    if (r < 0)
        answer_result(peer, r);
    else
        checked("epoll", watch(EPOLL_CTL_DEL, &peer->kind, peer->fd, 0));
}

static void put(struct peer *peer, const char *text, uint64_t in)
{
    static uint64_t count;
    const uint64_t ids[] = { hwt_delay_now(store), ++count };
    const hwt_delay_message message = { .due = ids[0] + HWT_MS(in < UINT32_MAX ? in : UINT32_MAX),
                                        .id = ids,
                                        .id_size = sizeof(ids),
                                        .payload = text,
                                        .payload_size = strlen(text) };
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
    page->length +=
        (size_t)snprintf(page->text + page->length, 200, "%s %s %.*s\n",
                         message->lease != 0    ? "runs"
                         : message->due >= DEAD ? "dead"
                                                : "waits",
                         ticket, (int)(message->payload_size < 80 ? message->payload_size : 80),
                         (const char *)message->payload);
    return ++page->shown == SHOWN;
}

/* The first SHOWN that wait, and as many that are dead. This reads the disk, so it is for people, now
 * and then. */
static void show_all(struct peer *peer)
{
    static struct page page;
    hwt_delay_stats stats = HWT_DELAY_STATS_INIT;
    check("stats", hwt_delay_get_stats(store, &stats));
    page.length = (size_t)snprintf(
        page.text, 1000,
        "pending %" PRIu64 "\nrunning %" PRIu64 "\ndone %" PRIu64 "\nretried %" PRIu64
        "\ncancelled %" PRIu64 "\nfull %" PRIu32 "\n",
        stats.pending, stats.leased, stats.done, stats.retried, stats.cancelled, stats.full);
    page.shown = 0;
    hwt_delay_visit(store, 0, DEAD, show, &page);
    page.shown = 0;
    hwt_delay_visit(store, DEAD, HWT_NEVER, show, &page);
    page.text[page.length - 1] = 0; /* answer() ends the last line */
    answer(peer, "200 OK", page.text);
}

/* ---- requests ---- */

/* A dead letter has the ticket of its job, because it has the due time of its first put. */
static void serve(struct peer *peer, const char *body)
{
    char *in = peer->in;
    in[strcspn(in + 5, " \r") + 5] = 0; /* behind the path */
    if (strncmp(in, "POST /jobs", 10) == 0)
        put(peer, body, strncmp(in + 10, "?in=", 4) == 0 ? strtoull(in + 14, NULL, 10) : 0);
    else if (strncmp(in, "POST /cancel?ticket=", 20) == 0)
        submit(peer, (hwt_delay_change){ .op = HWT_DELAY_OP_CANCEL, .ticket = in + 20 });
    else if (strcmp(in, "GET /") == 0)
        show_all(peer);
    else
        answer(peer, "404 Not Found", "POST /jobs?in=MS, POST /cancel?ticket=TICKET, GET /");
}

/* Reads until there is a whole request. */
static void hear(struct peer *peer)
{
    ssize_t n = recv(peer->fd, peer->in + peer->read, sizeof(peer->in) - 1 - peer->read, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    peer->read += n > 0 ? (size_t)n : 0;
    peer->in[peer->read] = 0;
    const char *length = strcasestr(peer->in, "\r\nContent-Length:");
    const char *body = strstr(peer->in, "\r\n\r\n");
    const size_t size = body && length && length < body ? strtoul(length + 17, NULL, 10) : 0;
    const size_t its = body ? (size_t)(peer->in + peer->read - body - 4) : 0;
    if (n <= 0)
        answer(peer, "", ""); /* it has gone */
    else if (size > TEXT_MAX || (its < size + !body && peer->read == sizeof(peer->in) - 1))
        answer(peer, "413 Too Long", "a job is of up to 4096 bytes");
    else if (body && strlen(body + 4) != its)
        answer(peer, "400 Bad Request", "a job is a text");
    else if (body && its >= size)
        serve(peer, body + 4);
}

static void meet(void)
{
    int fd = accept4(own_fd[LISTENER], NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    struct peer *peer = fd < 0 || peers == PEERS_MAX ? NULL : calloc(1, sizeof(*peer));
    if (!peer) {
        close(fd);
        return;
    }
    peer->kind = PEER;
    peer->fd = fd;
    peers++;
    checked("epoll", watch(EPOLL_CTL_ADD, &peer->kind, fd, EPOLLIN));
}

/* ---- the loop ---- */

static void hear_of_durable(void)
{
    enum kind *whom;
    while (read(told[0], &whom, sizeof(whom)) == (ssize_t)sizeof(whom)) {
        struct job *job = (struct job *)whom;
        if (*whom == PEER) {
            answer_result((struct peer *)whom, 0);
            continue;
        }
        hwt_delay_free(job->message);
        job->state = FREE;
    }
}

static void handle(enum kind *whom)
{
    if (*whom == LISTENER)
        meet();
    else if (*whom == SIGNALS)
        reap();
    else if (*whom == PIPE)
        hear_of_durable();
    else if (*whom == PEER)
        hear((struct peer *)whom);
    /* STORE: tend() comes before each wait. */
}

static int listen_on(const char *port)
{
    const struct sockaddr_in address = { .sin_family = AF_INET,
                                         .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                         .sin_port = htons((uint16_t)atoi(port)) };
    const int fd =
        checked("socket", socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    const int on = 1, size = 4 * PAGE_MAX;
    checked("socket", setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)));
    checked("socket", setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)));
    checked(port, bind(fd, (const struct sockaddr *)&address, sizeof(address)));
    checked("listen", listen(fd, 128));
    return fd;
}

static void open_all(const char *directory, const char *port)
{
    hwt_delay_options options = HWT_DELAY_OPTIONS_INIT;
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGCHLD);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    checked("signals", sigprocmask(SIG_BLOCK, &signals, NULL));
    options.flags = HWT_DELAY_CREATE;
    options.payload_max = TEXT_MAX;
    options.segment_size = 1 << 20;
    options.lease = HWT_NEVER; /* a job is leased as long as this process and its own live */
    check(directory, hwt_delay_open(directory, &options, &store));
    epoll = checked("epoll", epoll_create1(EPOLL_CLOEXEC));
    checked("pipe", pipe2(told, O_CLOEXEC | O_NONBLOCK));
    own_fd[LISTENER] = listen_on(port);
    own_fd[SIGNALS] = checked("signals", signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
    own_fd[STORE] = check("descriptor", hwt_delay_fd(store));
    own_fd[PIPE] = told[0];
    for (int i = LISTENER; i <= PIPE; i++)
        checked("epoll", watch(EPOLL_CTL_ADD, &own[i], own_fd[i], EPOLLIN));
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "usage: %s DIRECTORY PORT COMMAND [ARGUMENT...]\n", argv[0]);
        return 2;
    }
    command = argv + 3;
    open_all(argv[1], argv[2]);
    while (!ending) {
        struct epoll_event events[64];
        int n = epoll_wait(epoll, events, 64, tend());
        for (int i = 0; i < n; i++)
            handle(events[i].data.ptr);
    }
    /* What runs is ended with this process, and runs again after the next start. */
    return hwt_delay_close(store) < 0;
}
