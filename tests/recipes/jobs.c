/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A service that runs jobs: cc jobs.c $(pkg-config --cflags --libs hwt-delay)
 *
 *     ./a.out DIRECTORY PORT COMMAND [ARGUMENT...]
 *     curl -d 'the job' 'localhost:PORT/jobs?in=1500'    # answers with a ticket, once it is on the disk
 *     curl -d '' localhost:PORT/cancel?ticket=TICKET     # a job that waits, again or not, will not run
 *     curl localhost:PORT                                # counters, what waits, dead letters
 *
 * A job is a text. When its time has come, `in` milliseconds from now, COMMAND is run with the text as
 * its last argument. If that ends with another status than 0, it is run again later. A job is run
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
#include <sys/socket.h>
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
    size_t read, length, written;
    char in[TEXT_MAX + 1024];
    char out[PAGE_MAX];
};

/* A place for a job. */
struct job {
    enum kind kind;
    enum { FREE, RUNS, ENDED, COMMITS } state;
    const hwt_delay_message *message;
    pid_t pid;
    int status;
};

/* Through the pipe: what was durable, for whom. */
struct told {
    enum kind *whom;
    int result;
};

static hwt_delay *store;
static char **command; /* and room for the text behind it */
static int arguments, epoll, told_pipe[2], peers;
static enum kind own[] = { LISTENER, SIGNALS, STORE, PIPE };
static int own_fd[4];
static struct job jobs[AT_ONCE];
static bool ending;

static int check(const char *what, int64_t r)
{
    if (r >= 0)
        return (int)r;
    fprintf(stderr, "jobs: %s: %s\n", what, strerror((int)-r));
    exit(1);
}

/* For what says why in errno. */
static int checked(const char *what, int r)
{
    return check(what, r < 0 ? -errno : r);
}

static int watch(int operation, enum kind *whom, int fd, uint32_t events)
{
    struct epoll_event event = { 0 };
    event.events = events;
    event.data.ptr = whom;
    return epoll_ctl(epoll, operation, fd, &event);
}

/* ---- changes ---- */

/* On a thread of the library. There are fewer on the way than the pipe has room for. */
static void tell(int result, void *whom)
{
    const struct told told = { whom, result };
    checked("pipe", (int)write(told_pipe[1], &told, sizeof(told)));
}

/* 0: `whom` will be told. -EAGAIN: later; or why it cannot be. */
static int apply(hwt_delay_change *changes, size_t count, void *whom)
{
    hwt_delay_batch batch = HWT_DELAY_BATCH_INIT;
    batch.flags = HWT_DELAY_NO_WAIT;
    batch.durable = tell;
    batch.arg = whom;
    int r = hwt_delay_apply(store, changes, count, &batch);
    if (r == -EIO)
        check("store", r); /* the disk has failed: opening it anew says what it has */
    return r;
}

/* ---- jobs ---- */

static void run(struct job *job)
{
    char text[TEXT_MAX + 1];
    memcpy(text, job->message->payload, job->message->payload_size);
    text[job->message->payload_size] = 0;
    command[arguments] = text;
    pid_t parent = getpid();
    job->pid = fork();
    if (job->pid == 0) {
        sigset_t none;
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() == parent)
            execvp(command[0], command);
        _exit(127);
    }
    job->state = job->pid < 0 ? ENDED : RUNS; /* no process: as one that failed */
    job->status = -1;
}

/* It is done with, goes to the dead letters, or runs again later: in one step. */
static void finish(struct job *job)
{
    hwt_delay_change changes[2];
    hwt_delay_message dead = *job->message;
    uint32_t runs = job->message->deliveries;
    bool good = job->status == 0, last = runs >= RUNS_MAX;
    memset(changes, 0, sizeof(changes));
    changes[0].op = good || last ? HWT_DELAY_OP_DONE : HWT_DELAY_OP_RETRY;
    changes[0].lease = job->message->lease;
    changes[0].due = hwt_delay_now(store) + (last ? 0 : FIRST_DELAY << (runs - 1));
    changes[1].op = HWT_DELAY_OP_PUT;
    changes[1].message = &dead;
    dead.due = DEAD;
    int r = apply(changes, good || !last ? 1 : 2, job);
    if (r == 0)
        job->state = COMMITS;
    else if (r != -EAGAIN && r != -ENOSPC) /* these are tried again */
        check("the end of a job", r);
}

/* Fills the places that are free. One that has had its runs, and ended this process, is not run. */
static void take(void)
{
    bool full = true;
    for (int i = 0; i < AT_ONCE; i++) {
        struct job *job = &jobs[i];
        if (job->state != FREE)
            continue;
        int64_t n = hwt_delay_take(store, 1, 0, &job->message);
        if (n == -EIO)
            check("store", n);
        if (n < 0)
            fprintf(stderr, "jobs: nothing is run: %s\n", strerror((int)-n));
        if (n != 1) {
            full = false;
            break;
        }
        job->state = ENDED;
        job->status = -1;
        if (job->message->deliveries <= RUNS_MAX)
            run(job);
    }
    checked("epoll", watch(EPOLL_CTL_MOD, &own[STORE], own_fd[STORE], full ? 0 : EPOLLIN));
}

static void reap(void)
{
    struct signalfd_siginfo signals;
    pid_t pid;
    int status;
    while (read(own_fd[SIGNALS], &signals, sizeof(signals)) == (ssize_t)sizeof(signals))
        ending = ending || signals.ssi_signo != SIGCHLD;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        for (int i = 0; i < AT_ONCE; i++) {
            if (jobs[i].state != RUNS || jobs[i].pid != pid)
                continue;
            jobs[i].state = ENDED;
            jobs[i].status = status;
        }
    }
}

/* True: some ends have to wait until the store has room. */
static bool finish_all(void)
{
    bool waits = false;
    for (int i = 0; i < AT_ONCE; i++) {
        if (jobs[i].state == ENDED)
            finish(&jobs[i]);
        waits = waits || jobs[i].state == ENDED;
    }
    return waits;
}

/* ---- answers ---- */

/* A child that has not begun its program has the descriptor too, so closing it here is not enough for
 * epoll to forget it. */
static void hang_up(struct peer *peer)
{
    watch(EPOLL_CTL_DEL, &peer->kind, peer->fd, 0);
    close(peer->fd);
    free(peer);
    peers--;
}

static void send_out(struct peer *peer)
{
    ssize_t n =
        send(peer->fd, peer->out + peer->written, peer->length - peer->written, MSG_NOSIGNAL);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    peer->written += n > 0 ? (size_t)n : 0;
    if (n <= 0 || peer->written == peer->length)
        hang_up(peer);
}

/* The text is in `out` already, `length` of it; the head goes before it. */
static void answer(struct peer *peer, const char *status)
{
    char head[128];
    size_t size = (size_t)snprintf(head, sizeof(head),
                                   "HTTP/1.0 %s\r\nContent-Type: text/plain\r\n"
                                   "Content-Length: %zu\r\n\r\n",
                                   status, peer->length);
    memmove(peer->out + size, peer->out, peer->length);
    memcpy(peer->out, head, size);
    peer->length += size;
    if (watch(EPOLL_CTL_MOD, &peer->kind, peer->fd, EPOLLOUT) < 0 &&
        watch(EPOLL_CTL_ADD, &peer->kind, peer->fd, EPOLLOUT) < 0)
        hang_up(peer);
}

static void say(struct peer *peer, const char *status, const char *text)
{
    peer->length = (size_t)snprintf(peer->out, sizeof(peer->out) / 2, "%s\n", text);
    answer(peer, status);
}

/* What the store has said to a change that a peer waits for; 0: it is durable. */
static void say_result(struct peer *peer, int r)
{
    if (r == 0)
        answer(peer, "200 OK"); /* what is in `out` */
    else if (r == -ENOENT)
        say(peer, "404 Not Found", "no such job waits");
    else if (r == -EBUSY)
        say(peer, "409 Conflict", "it runs");
    else if (r == -EINVAL)
        say(peer, "400 Bad Request", "that is no ticket");
    else
        say(peer, "503 Service Unavailable", strerror(-r));
}

/* Its change is under way. Until that is durable epoll does not know the peer, so it stays. */
static void submit(struct peer *peer, hwt_delay_change *change)
{
    int r = apply(change, 1, peer);
    if (r < 0)
        say_result(peer, r);
    else
        checked("epoll", watch(EPOLL_CTL_DEL, &peer->kind, peer->fd, 0));
}

/* ---- requests ---- */

static void put(struct peer *peer, const char *text, uint64_t in)
{
    static uint64_t count;
    char id[64];
    hwt_delay_message message = { 0 };
    hwt_delay_change change = { 0 };
    uint64_t now = hwt_delay_now(store);
    message.due = now + (in > UINT64_C(1) << 40 ? HWT_MS(UINT64_C(1) << 40) : HWT_MS(in));
    message.id = id;
    message.id_size = (size_t)snprintf(id, sizeof(id), "%" PRIx64 ".%" PRIx64, now, ++count);
    message.payload = text;
    message.payload_size = strlen(text);
    change.op = HWT_DELAY_OP_PUT;
    change.message = &message;
    peer->length = (size_t)hwt_delay_ticket(&message, peer->out, HWT_DELAY_TICKET_MAX);
    peer->out[peer->length++] = '\n';
    submit(peer, &change);
}

/* A dead letter has the ticket of its job, because it has the due time of its first put. */
static void cancel(struct peer *peer, const char *ticket)
{
    hwt_delay_change change = { 0 };
    change.op = HWT_DELAY_OP_CANCEL;
    change.ticket = ticket;
    peer->length = (size_t)snprintf(peer->out, sizeof(peer->out), "cancelled\n");
    submit(peer, &change);
}

struct page {
    struct peer *peer;
    int shown;
};

static int show(const hwt_delay_message *message, void *data)
{
    struct page *page = data;
    struct peer *peer = page->peer;
    char ticket[100];
    int text = (int)(message->payload_size < 80 ? message->payload_size : 80);
    hwt_delay_ticket(message, ticket, sizeof(ticket));
    peer->length += (size_t)snprintf(peer->out + peer->length, 200, "%s %s %.*s\n",
                                     message->lease != 0    ? "runs"
                                     : message->due >= DEAD ? "dead"
                                                            : "waits",
                                     ticket, text, (const char *)message->payload);
    return ++page->shown == SHOWN;
}

/* A page of the first SHOWN that wait, and as many that are dead. This reads the disk, so it is for
 * people, now and then. */
static void show_all(struct peer *peer)
{
    hwt_delay_stats stats = HWT_DELAY_STATS_INIT;
    struct page waiting = { peer, 0 }, dead = { peer, 0 };
    check("stats", hwt_delay_get_stats(store, &stats));
    peer->length = (size_t)snprintf(peer->out, 1000,
                                    "pending %" PRIu64 "\nrunning %" PRIu64 "\nput %" PRIu64
                                    "\ndone %" PRIu64 "\nretried %" PRIu64 "\ncancelled %" PRIu64
                                    "\nfull %" PRIu32 "\ngaps %" PRIu64 "\n",
                                    stats.pending, stats.leased, stats.put, stats.done,
                                    stats.retried, stats.cancelled, stats.full, stats.gaps);
    hwt_delay_visit(store, 0, DEAD, show, &waiting);
    hwt_delay_visit(store, DEAD, HWT_NEVER, show, &dead);
    answer(peer, "200 OK");
}

static void serve(struct peer *peer, const char *body)
{
    char *in = peer->in, *end = strstr(in, " HTTP/");
    const char *line = strchr(in, '\r');
    if (end && end < line)
        *end = 0;
    if (strncmp(in, "POST /jobs", 10) == 0)
        put(peer, body, strncmp(in + 10, "?in=", 4) == 0 ? strtoull(in + 14, NULL, 10) : 0);
    else if (strncmp(in, "POST /cancel?ticket=", 20) == 0)
        cancel(peer, in + 20);
    else if (strcmp(in, "GET /") == 0)
        show_all(peer);
    else
        say(peer, "404 Not Found", "POST /jobs?in=MILLISECONDS, POST /cancel?ticket=TICKET, GET /");
}

/* Reads until there is a whole request. */
static void hear(struct peer *peer)
{
    ssize_t n = recv(peer->fd, peer->in + peer->read, sizeof(peer->in) - 1 - peer->read, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        hang_up(peer);
        return;
    }
    peer->read += (size_t)n;
    peer->in[peer->read] = 0;
    const char *length = strcasestr(peer->in, "\r\nContent-Length:"),
               *body = strstr(peer->in, "\r\n\r\n");
    size_t size = body && length && length < body ? strtoul(length + 17, NULL, 10) : 0;
    if (size > TEXT_MAX || (!body && peer->read == sizeof(peer->in) - 1))
        say(peer, "413 Too Long", "a job is of up to 4096 bytes");
    else if (body && strlen(body + 4) != (size_t)(peer->in + peer->read - body - 4))
        say(peer, "400 Bad Request", "a job is a text");
    else if (body && (size_t)(peer->in + peer->read - body - 4) >= size)
        serve(peer, body + 4);
    else if (peer->read == sizeof(peer->in) - 1)
        say(peer, "413 Too Long", "the head is too long");
}

static void meet(void)
{
    int fd = peers < PEERS_MAX ? accept4(own_fd[LISTENER], NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)
                               : -1;
    struct peer *peer = fd < 0 ? NULL : calloc(1, sizeof(*peer));
    if (!peer) {
        if (fd >= 0)
            close(fd);
        return;
    }
    peer->kind = PEER;
    peer->fd = fd;
    peers++;
    if (watch(EPOLL_CTL_ADD, &peer->kind, fd, EPOLLIN) < 0)
        hang_up(peer);
}

/* ---- the loop ---- */

static void hear_of_durable(void)
{
    struct told told;
    while (read(told_pipe[0], &told, sizeof(told)) == (ssize_t)sizeof(told)) {
        if (told.result < 0)
            check("store", told.result);
        if (*told.whom == PEER) {
            say_result((struct peer *)told.whom, 0);
            continue;
        }
        struct job *job = (struct job *)told.whom;
        hwt_delay_free(job->message);
        job->state = FREE;
    }
}

static void handle(enum kind *whom, uint32_t events)
{
    if (*whom == LISTENER)
        meet();
    else if (*whom == SIGNALS)
        reap();
    else if (*whom == PIPE)
        hear_of_durable();
    else if (*whom == PEER && events & EPOLLOUT)
        send_out((struct peer *)whom);
    else if (*whom == PEER && events & EPOLLIN)
        hear((struct peer *)whom);
    else if (*whom == PEER)
        hang_up((struct peer *)whom);
    /* STORE: take() comes after each round. */
}

static int listen_on(const char *port)
{
    struct sockaddr_in address = { 0 };
    int fd = checked("socket", socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)),
        on = 1;
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons((uint16_t)atoi(port));
    checked("socket", setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)));
    checked(port, bind(fd, (struct sockaddr *)&address, sizeof(address)));
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
    checked("pipe", pipe2(told_pipe, O_CLOEXEC | O_NONBLOCK));
    own_fd[LISTENER] = listen_on(port);
    own_fd[SIGNALS] = checked("signals", signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
    own_fd[STORE] = check("descriptor", hwt_delay_fd(store));
    own_fd[PIPE] = told_pipe[0];
    for (int i = LISTENER; i <= PIPE; i++)
        checked("epoll", watch(EPOLL_CTL_ADD, &own[i], own_fd[i], EPOLLIN));
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "usage: %s DIRECTORY PORT COMMAND [ARGUMENT...]\n", argv[0]);
        return 2;
    }
    arguments = argc - 3;
    command = calloc((size_t)arguments + 2, sizeof(*command));
    if (!command)
        return 1;
    memcpy(command, argv + 3, (size_t)arguments * sizeof(*command));
    for (int i = 0; i < AT_ONCE; i++)
        jobs[i].kind = JOB;
    open_all(argv[1], argv[2]);
    while (!ending) {
        struct epoll_event events[64];
        take();
        int n = epoll_wait(epoll, events, 64, finish_all() ? 10 : -1);
        for (int i = 0; i < n; i++)
            handle(events[i].data.ptr, events[i].events);
    }
    /* What runs is ended with this process, and runs again after the next start. */
    return hwt_delay_close(store) < 0;
}
