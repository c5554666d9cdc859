/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_PERF_HEARTBEAT_H
#define HWT_PERF_HEARTBEAT_H

/*
 * What the files of the heartbeat program share. Four threads, and with --metrics one more:
 *
 *     main      starts the others, prints the live lines, says when it is over
 *     client    an epoll loop: owns all peers and their sockets
 *     server    an epoll loop: owns all accepted connections
 *     worker    the timer's: runs the tasks; they never touch a socket, but post to
 *               the loop that owns it. With --loop there is none: the server runs them
 *     metrics   answers HTTP requests, one at a time; only reads the timer's stats
 *
 * A field is touched by the thread that owns its struct, unless it is atomic or says
 * otherwise.
 */

#include <hwt/heartbeat.h>
#include <hwt/hwt.h>
#include <hwt/retry.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/queue.h>

#include "../histogram.h"

#define container_of(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

struct run;

/* ---- options.c ---- */

struct options {
    uint64_t connections, seconds;
    uint64_t tick_us, ticks_per_wheel;
    uint64_t heartbeat_ms, idle_ms;
    uint64_t request_ms, timeout_ms;
    uint64_t silent, dropped, unanswered; /* percent */
    uint64_t seed;
    uint64_t metrics;    /* port; 0: none */
    uint64_t loop;       /* 1: no worker */
    const char *picture; /* path; NULL: none */
};

void options_parse(struct options *options, int argc, char **argv); /* exits 2 on misuse */

/* ---- loop.c: what both loops are made of ---- */

_Noreturn void die(const char *what, int error);
uint64_t clock_ns(clockid_t clock);
uint64_t now_ns(void);
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
    uint64_t posted_at; /* what is being delivered */
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

/* A timeout whose task posts to a loop. All calls on that loop's thread. */
struct alarm {
    struct loop *loop;
    hwt_timeout timeout;
    uint64_t deadline; /* the timeout must not fire before it */
    struct post post;
};

void alarm_init(struct alarm *alarm, struct loop *loop, void (*deliver)(struct post *post));
void alarm_arm(struct alarm *alarm, uint64_t deadline);
void alarm_disarm(struct alarm *alarm);

/*
 * An hwt_heartbeat with rules of one event, which it posts to a loop. All calls on that
 * loop's thread.
 */
struct pulse {
    struct loop *loop;
    hwt_heartbeat heartbeat;
    uint64_t limit; /* of the event */
    uint64_t noted; /* last */
    uint64_t due;   /* no event before */
    bool was_due;   /* when a note came: the event may be delivered after that */
    struct post post;
};

void pulse_init(struct pulse *pulse, struct loop *loop, void (*deliver)(struct post *post));
void pulse_notify(hwt_heartbeat *heartbeat, hwt_heartbeat_event event, uint64_t times, void *arg);
void pulse_start(struct pulse *pulse, const hwt_heartbeat_rules *rules, uint64_t limit);
void pulse_note(struct pulse *pulse, void (*note)(hwt_heartbeat *heartbeat, uint64_t now));
bool pulse_stands(struct pulse *pulse); /* what is delivered: no note came after it */
void pulse_stop(struct pulse *pulse);

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

/* ---- server.c, client.c ---- */

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
    hwt_heartbeat_rules rules;
    int listener;
    uint16_t port;
    uint64_t random;
    struct connection **by_peer;
    LIST_HEAD(, connection) connections;
    struct fault *drops;
    size_t drop_count;
    struct histogram lateness; /* of silent peers that were found */
    uint64_t *suspect;         /* when peers were closed that were not silent */
    size_t suspect_count;
};

struct client {
    struct loop loop;
    hwt_heartbeat_rules rules;
    hwt_retry_options backoff;
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

/* ---- metrics.c ---- */

struct metrics {
    const hwt_timer *timer;
    int listener;
    pthread_t thread;
};

void metrics_start(struct metrics *metrics, const hwt_timer *timer, uint16_t port);
void metrics_stop(struct metrics *metrics);

/* ---- picture.c ---- */

#define PICTURE_USUAL 400
#define PICTURE_SAMPLES 1000 /* a run may take longer; what comes then is left out */

struct picture_sample {
    uint64_t begin, end; /* ns from the start */
    uint64_t pending, open;
    uint64_t wakeups, fired;
    uint32_t lateness[64]; /* as in hwt_stats */
    uint64_t lateness_max; /* up to its end, of the whole run */
};

struct picture {
    struct picture_sample samples[PICTURE_SAMPLES];
    size_t count;
    uint64_t noted; /* ns from the start */
    hwt_stats before;
    uint64_t wakeups_before;
};

void picture_note(struct picture *picture, struct run *run, const hwt_stats *stats, uint64_t now);
/* A row a sample: seconds, pending, open, runs and wake-ups a second, half of the runs and all at most so
 * late in ms, nan: there were none. */
void picture_rows(const struct picture *picture, FILE *to);
bool picture_write(const struct picture *picture, const struct run *run, const char *path);

/* ---- threads.c ---- */

enum thread_kind { THREAD_WORKER, THREAD_SERVER, THREAD_CLIENT, THREADS };

struct threads {
    _Atomic int ids[THREADS]; /* 0: has not begun */
    uint64_t waited[THREADS]; /* for a processor, ns, at the last look */
    uint64_t looked;          /* when that was */
};

void thread_begins(struct threads *threads, enum thread_kind kind);
void threads_look(struct run *run, uint64_t now);

/* ---- main.c, report.c ---- */

typedef _Atomic uint64_t counter;

struct counts {
    /* the client's */
    counter open, opened, reconnected, connect_failed, not_reconnected, beats;
    counter requests, answers, retries, given_up;
    counter unanswered, timed_out, timed_out_unanswered, timed_out_missed;
    counter silenced;
    /* the server's */
    counter found, live_closed, spared, dropped, turned_away;
    counter dispatches, dispatch_cpu;
    /* anybody's */
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
    struct metrics metrics;
    struct picture picture;
    struct threads threads;

    clockid_t worker_clock; /* set in the worker's first task */
    atomic_bool worker_known;

    pthread_mutex_t stall_lock;
    struct stall stalls[STALLS];
    size_t stall_count;

    uint64_t pending_peak;
    uint64_t memory_before; /* the first timeout */
    uint64_t overslept;     /* by the main thread, at most */
    /* At the end, before everything is torn down. */
    hwt_stats stats;
    uint64_t timer_cpu, wakeups, elapsed;
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
void stall_note(struct run *run, uint64_t begin, uint64_t end);
uint64_t stall_free(struct run *run, uint64_t from, uint64_t to);

void report_head(const struct run *run);
void report_line(struct run *run, const hwt_stats *now, const hwt_stats *before, double seconds);
/* The exit status. */
enum { REPORT_WELL = 0, REPORT_FAILED = 1, REPORT_NOT_KNOWN = 3 };
int report_end(struct run *run);

#endif
