/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Requests with time-outs and retries: cc -pthread rpc.c $(pkg-config --cflags --libs hwt)
 *
 * An hwt_retry in each request does all of it by one timeout: the limit of each attempt, the delay
 * before the next one, how many there may be. An attempt has a number, which goes over the wire
 * and comes back in the answer: an answer to an attempt that was given up is refused by it, so that
 * it cannot be taken for that of the next.
 *
 * Any thread may bring the answer. hwt_retry_succeeded() is true for one of them, and `ended` is
 * called once, whatever happens: there the request may be freed.
 *
 * Here the server is a thread with a socket of its own that loses one datagram in three, and never
 * answers one request in ten. It is over when all requests have ended.
 */

#define _GNU_SOURCE 1 /* pthread_tryjoin_np(), and POSIX beside -std=c11 too */

#include <errno.h>
#include <hwt/hwt.h>
#include <hwt/retry.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define REQUESTS 200

struct message {
    uint64_t attempt;
    uint32_t request;
    uint32_t value;
};

struct request {
    hwt_retry retry;
    uint32_t number;
    _Atomic uint32_t answer; /* written before hwt_retry_succeeded(), read in `ended` */
    hwt_retry_end end;
    int ends;
};

static struct request requests[REQUESTS];
static int client_socket, server_socket;
static atomic_int refused;
static sem_t all_ended;

static int check(const char *what, int r)
{
    if (r >= 0)
        return r;
    fprintf(stderr, "rpc: %s: %s\n", what, strerror(errno));
    exit(1);
}

static bool has_no_answer(uint32_t number)
{
    return number % 10 == 9;
}

/* ---- the client ---- */

/* On the worker. What cannot be sent now is as good as lost: the attempt's limit sees to it. */
static void attempt(hwt_retry *retry, uint64_t number, void *arg)
{
    struct request *request = arg;
    struct message message = { number, request->number, 0 };
    if (send(client_socket, &message, sizeof(message), MSG_DONTWAIT) < 0 && errno == EBADF)
        hwt_retry_failed(retry, number); /* where it is known to fail, say so: no need to wait */
}

static void ended(hwt_retry *retry, hwt_retry_end end, void *arg)
{
    struct request *request = arg;
    (void)retry;
    request->end = end;
    request->ends++;
    sem_post(&all_ended);
}

static const hwt_retry_task task = { attempt, ended };

/* A thread that reads the answers; in a real program, its event loop. */
static void *read_answers(void *unused)
{
    struct message message;
    (void)unused;
    while (recv(client_socket, &message, sizeof(message), 0) == sizeof(message)) {
        if (message.request >= REQUESTS)
            break; /* the server's last word */
        struct request *request = &requests[message.request];
        atomic_store(&request->answer, message.value);
        if (!hwt_retry_succeeded(&request->retry, message.attempt))
            atomic_fetch_add(&refused, 1); /* too late: given up, or answered twice */
    }
    return NULL;
}

static void start(hwt_timer *timer, struct request *request, uint32_t number)
{
    hwt_retry_options options = HWT_RETRY_OPTIONS_INIT;
    options.attempt_timeout = HWT_MS(30);
    options.first_delay = HWT_MS(5); /* grows by 2, with full jitter */
    options.max_delay = HWT_MS(100);
    options.max_attempts = has_no_answer(number) ? 3 : 0;
    request->number = number;
    errno = -hwt_retry_start_now(&request->retry, timer, &options, &task, request);
    check("request", -errno);
}

/* ---- the server ---- */

static void *serve(void *unused)
{
    struct message message;
    unsigned count = 0;
    (void)unused;
    while (recv(server_socket, &message, sizeof(message), 0) == sizeof(message)) {
        if (message.request >= REQUESTS)
            break;
        if (has_no_answer(message.request) || count++ % 3 == 0)
            continue;
        message.value = message.request * 2;
        send(server_socket, &message, sizeof(message), MSG_DONTWAIT);
    }
    return NULL;
}

/* A message that ends a thread; sent until it is taken. */
static void stop_thread(int from, pthread_t thread)
{
    struct message last = { 0, REQUESTS, 0 };
    do {
        send(from, &last, sizeof(last), MSG_DONTWAIT);
        usleep(1000);
    } while (pthread_tryjoin_np(thread, NULL) != 0);
}

int main(void)
{
    hwt_timer *timer;
    hwt_options options = HWT_OPTIONS_INIT;
    pthread_t reader, server;
    int sockets[2], succeeded = 0, exhausted = 0, wrong = 0;

    options.tick_duration = HWT_MS(1);
    errno = -hwt_timer_create(&options, &timer);
    check("timer", -errno);
    check("sockets", socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, sockets));
    client_socket = sockets[0];
    server_socket = sockets[1];
    sem_init(&all_ended, 0, 0);
    errno = pthread_create(&server, NULL, serve, NULL);
    check("thread", -errno);
    errno = pthread_create(&reader, NULL, read_answers, NULL);
    check("thread", -errno);
    for (uint32_t i = 0; i < REQUESTS; i++)
        start(timer, &requests[i], i);
    for (uint32_t i = 0; i < REQUESTS; i++)
        while (sem_wait(&all_ended) < 0)
            ;

    /* The reader uses the requests and their timer: it goes first. */
    stop_thread(client_socket, server);
    stop_thread(server_socket, reader);
    hwt_timer_destroy(timer);
    for (uint32_t i = 0; i < REQUESTS; i++) {
        struct request *request = &requests[i];
        bool answered = request->end == HWT_RETRY_SUCCEEDED;
        succeeded += answered;
        exhausted += request->end == HWT_RETRY_EXHAUSTED;
        wrong += request->ends != 1 || answered == has_no_answer(i) ||
                 (answered && atomic_load(&request->answer) != i * 2);
    }
    printf("%d succeeded, %d exhausted, %d late answers refused, %d wrong\n", succeeded, exhausted,
           atomic_load(&refused), wrong);
    return succeeded == REQUESTS * 9 / 10 && exhausted == REQUESTS / 10 && wrong == 0 ? 0 : 1;
}
