/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_PERF_HEARTBEAT_H
#define HWT_PERF_HEARTBEAT_H

/*
 * What the files of the heartbeat program share. Four threads:
 *
 *     main      starts the others, prints the live lines, says when it is over
 *     client    an epoll loop: owns all peers and their sockets
 *     server    an epoll loop: owns all accepted connections
 *     worker    the timer's: runs the tasks; they never touch a socket, but post to
 *               the loop that owns it
 *
 * A field is touched by the thread that owns its struct, unless it is atomic or says
 * otherwise.
 */

#include <hwt/hwt.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#define container_of(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

struct run;

/* ---- heartbeat_options.c ---- */

struct options {
    uint64_t connections, seconds;
    uint64_t tick_us, ticks_per_wheel;
    uint64_t heartbeat_ms, idle_ms;
    uint64_t request_ms, timeout_ms;
    uint64_t silent, dropped, unanswered; /* percent */
    uint64_t seed;
};

void options_parse(struct options *options, int argc, char **argv); /* exits 2 on misuse */

/* ---- heartbeat_loop.c: what both loops are made of ---- */

_Noreturn void die(const char *what, int error);
uint64_t now_ns(void);
uint64_t not_past(uint64_t deadline); /* or now: who is late to arm must not blame the timer */
uint64_t random_next(uint64_t *state);
uint64_t random_below(uint64_t *state, uint64_t limit); /* 0 for a limit of 0 */

/* One piece of work for a loop; part of what it is about, so that posting cannot fail. */
struct post {
    TAILQ_ENTRY(post) link;
    bool queued; /* under the loop's lock, as all of this but deliver */
    uint64_t posted_at;
    void (*deliver)(struct post *post);
};

struct loop {
    struct run *run;
    int epoll;
    int bell; /* eventfd: posts wait */
    bool stopping;
    struct post stop;
    pthread_mutex_t lock;
    TAILQ_HEAD(, post) posts;
};

void loop_open(struct loop *loop, struct run *run);
void loop_close(struct loop *loop);
void loop_watch(struct loop *loop, int operation, int fd, uint32_t events, void *source);
void loop_run(struct loop *loop, void (*ready)(struct loop *loop, void *source, uint32_t events));
void loop_stop(struct loop *loop);                    /* any thread */
void loop_post(struct loop *loop, struct post *post); /* any thread */
void loop_withdraw(struct loop *loop, struct post *post);
bool loop_deliver(struct loop *loop); /* true: there is more */

/* A timeout whose task posts to a loop. All calls on that loop's thread. */
struct alarm {
    struct loop *loop;
    hwt_timeout timeout;
    _Atomic uint64_t deadline; /* the timeout must not fire before it */
    struct post post;
};

void alarm_init(struct alarm *alarm, struct loop *loop, void (*deliver)(struct post *post));
void alarm_arm(struct alarm *alarm, uint64_t deadline);
void alarm_push_back(struct alarm *alarm, uint64_t deadline);
void alarm_disarm(struct alarm *alarm);

/* The wire: messages of one size, in host order, as both ends are this process. */
enum message_kind { MESSAGE_HELLO, MESSAGE_WELCOME, MESSAGE_BEAT, MESSAGE_REQUEST, MESSAGE_ANSWER };

struct message {
    uint32_t kind;
    uint32_t peer;
    uint64_t id; /* of the request; how many times welcomed before, for a hello */
};

struct inbox {
    size_t start, end;
    unsigned char bytes[16 * sizeof(struct message)];
};

void socket_prepare(int fd);
bool message_send(int fd, uint32_t kind, uint32_t peer, uint64_t id);
int inbox_fill(struct inbox *inbox, int fd); /* bytes; 0: closed; or a negative errno */
bool inbox_next(struct inbox *inbox, struct message *ret_message);

/* ---- heartbeat_server.c, heartbeat_client.c ---- */

/* From one peer's first connection to the next one's: a backlog that overflows costs a second. */
#define CONNECT_PACE HWT_US(100)

/*
 * How much later than planned a peer may fall silent, if it is not connected just then; and
 * how long the server may take to find the last one once its limit is past.
 */
#define GRACE HWT_SEC(10)

/* What really is, as against what the server finds out; one a peer. */
struct truth {
    atomic_bool silent; /* set and cleared by the client */
    atomic_bool found;  /* set by the server */
};

/* A misfortune that the program brings about itself. */
struct fault {
    struct alarm alarm;
    uint64_t after; /* ns from the start */
    uint32_t peer;
};

struct server {
    struct loop loop;
    int listener;
    uint16_t port;
    uint64_t random;
    struct connection **by_peer;
    LIST_HEAD(, connection) connections;
    struct fault *drops;
    size_t drop_count;
    uint64_t *lateness; /* one a silent peer that was found */
    uint64_t *suspect;  /* when peers were closed that were not silent */
    size_t suspect_count;
};

struct client {
    struct loop loop;
    uint64_t random;
    struct peer *peers;
    struct fault *silences;
    size_t silence_count;
    uint64_t silent_until;         /* ns from the start, as planned */
    _Atomic uint64_t last_silence; /* when it came */
};

void server_open(struct server *server, struct run *run);
void *server_main(void *server);
void server_close(struct server *server);
void client_open(struct client *client, struct run *run);
void *client_main(void *client);
void client_close(struct client *client);

/* ---- heartbeat.c, heartbeat_report.c ---- */

typedef _Atomic uint64_t counter;

struct counts {
    /* the client's */
    counter open, opened, reconnected, connect_failed, beats;
    counter requests, answers, retries, given_up;
    counter unanswered, timed_out, timed_out_unanswered, timed_out_missed;
    counter silenced;
    /* the server's */
    counter found, live_closed, closed_early, spared, dropped, turned_away;
    /* the worker's */
    counter early;
};

/* Times at which the machine, not the timer, kept this program from working. */
struct stall {
    uint64_t begin, end;
};

#define STALLS 256

struct run {
    struct options options;
    hwt_timer *timer;
    uint64_t begin;
    struct truth *truth;
    struct counts counts;
    struct server server;
    struct client client;

    clockid_t worker_clock; /* set in the worker's first task */
    atomic_bool worker_known;

    pthread_mutex_t stall_lock;
    struct stall stalls[STALLS];
    size_t stall_count;

    uint64_t pending_peak;
    uint64_t overslept; /* by the main thread, at most */
    hwt_stats stats;    /* at the end, before everything is torn down */
    uint64_t worker_cpu, elapsed;
};

static inline void count(counter *c)
{
    atomic_fetch_add_explicit(c, 1, memory_order_relaxed);
}

static inline uint64_t counted(counter *c)
{
    return atomic_load_explicit(c, memory_order_relaxed);
}

void count_fired(struct run *run, uint64_t deadline); /* first thing in every task */
bool request_is_unanswered(const struct options *options, uint64_t id);
uint64_t heartbeat_slack(const struct options *options);
void stall_note(struct run *run, uint64_t begin, uint64_t end);

void report_head(const struct run *run);
void report_line(struct run *run, const hwt_stats *now, const hwt_stats *before, double seconds);
bool report_end(struct run *run);

#endif
