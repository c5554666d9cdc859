/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_PERF_LOOP_CHURN_H
#define HWT_PERF_LOOP_CHURN_H

/* Part of loop.h: timeouts that are cancelled or moved before they are due. */

static void print_cost(const struct options *options, void (*operation)(void *),
                       void (*exact)(void *), void *data)
{
    struct cost cost = repeat(options, operation, data);

    metric("ns", cost.ns);
    metric("cpu_ns", cost.cpu_ns);
    metric("exact_ns", repeat(options, exact, data).ns);
}

/* ---- loop-churn ---- */

struct churn {
    struct peer_timer *window;
    size_t oldest, count;
    uint64_t random;
};

static void churn_one(void *data)
{
    struct churn *churn = data;
    struct peer_timer *timer = &churn->window[churn->oldest];

    churn->oldest++;
    churn->oldest = churn->oldest == churn->count ? 0 : churn->oldest;
    peer_cancel(timer);
    peer_add(timer, random_delay(&churn->random, 30 * SECOND, 16 * SECOND), nothing);
}

static void churn_exactly(void *data)
{
    peer_update();
    churn_one(data);
}

static void run_churn(const struct options *options)
{
    check_options(options);
    peer_open();
    struct churn churn = { peer_array(options->window), 0, options->window, 1 };
    for (size_t i = 0; i < churn.count; i++)
        peer_add(&churn.window[i], random_delay(&churn.random, 30 * SECOND, 16 * SECOND), nothing);
    print_cost(options, churn_one, churn_exactly, &churn);
    peer_close();
    free(churn.window);
}

/* ---- loop-reset ---- */

struct connections {
    struct peer_timer *at;
    uint64_t count;
    uint64_t random;
    uint64_t next;            /* of loop-earlier */
    struct peer_timer *spare; /* TURN of them, of loop-earlier */
};

static struct peer_timer *random_connection(struct connections *connections)
{
    return &connections->at[random_below(&connections->random, connections->count)];
}

static struct connections connect_all(const struct options *options, uint64_t delay)
{
    check_options(options);
    peer_open();
    struct connections all = { peer_array(options->pending), options->pending, 1, 0, NULL };
    for (uint64_t i = 0; i < all.count; i++) {
        all.at[i].deadline = delay;
        peer_add(&all.at[i], delay, nothing);
    }
    return all;
}

static void reset_one(void *data)
{
    peer_move(random_connection(data), 30 * SECOND);
}

static void reset_exactly(void *data)
{
    peer_update();
    reset_one(data);
}

static void run_reset(const struct options *options)
{
    struct connections connections = connect_all(options, 30 * SECOND);

    print_cost(options, reset_one, reset_exactly, &connections);
    peer_close();
    free(connections.at);
}

/* ---- loop-earlier ---- */

#define FAR (10000 * SECOND)

/* TURN operations are timed together; what puts things right again, and the turn, are not. */
static double timed(const struct options *options, void (*operation)(void *data, int i),
                    void (*restore)(void *data, int i), void *data)
{
    uint64_t end = now_ns() + (uint64_t)(options->seconds * 1e9 / 2), spent = 0, count = 0, now;

    do {
        uint64_t begin = now_ns();
        for (int i = 0; i < TURN; i++)
            operation(data, i);
        now = now_ns();
        spent += now - begin;
        count += TURN;
        for (int i = 0; i < TURN; i++)
            restore(data, i);
        peer_turn(false);
    } while (now < end);
    return (double)spent / (double)count;
}

/* The next of all that stand there comes nearer by 1 to 10 ms. */
static void move_earlier(void *data, int i)
{
    struct connections *connections = data;
    struct peer_timer *timer = &connections->at[connections->next];

    (void)i;
    connections->next++;
    connections->next = connections->next == connections->count ? 0 : connections->next;
    uint64_t *delay = &timer->deadline;
    *delay -= random_delay(&connections->random, MS, 9 * MS);
    peer_move(timer, *delay);
}

/* One that has come near goes far away again, long before it is due. */
static void move_away(void *data, int i)
{
    struct connections *connections = data;
    struct peer_timer *timer =
        &connections->at[(connections->next + (uint64_t)i) % connections->count];

    if (timer->deadline < FAR / 10) {
        timer->deadline = FAR;
        peer_move(timer, FAR);
    }
}

static void add_far(void *data, int i)
{
    struct connections *connections = data;

    peer_add(&connections->spare[i], FAR - random_delay(&connections->random, MS, 9 * MS), nothing);
}

static void cancel_far(void *data, int i)
{
    struct connections *connections = data;

    peer_cancel(&connections->spare[i]);
}

static void run_earlier(const struct options *options)
{
    struct connections connections = connect_all(options, FAR);

    connections.spare = peer_array(TURN);
    metric("ns", timed(options, move_earlier, move_away, &connections));
    metric("add_ns", timed(options, add_far, cancel_far, &connections));
    peer_close();
    free(connections.spare);
    free(connections.at);
}

/* ---- http ---- */

/*
 * A server with keep-alive: N connections. A request ends the connection's idle limit and has 10 s
 * for its header; then 30 s for its body and the answer; then the idle limit of 60 s is armed.
 * So each request arms three timeouts and cancels three.
 */
struct http_connection {
    struct peer_timer header, answer, idle;
};

struct server {
    struct http_connection *at;
    uint64_t count;
    uint64_t random;
};

static void http_request(void *data)
{
    struct server *server = data;
    struct http_connection *c = &server->at[random_below(&server->random, server->count)];

    peer_cancel(&c->idle);
    peer_add(&c->header, 10 * SECOND, nothing);
    peer_cancel(&c->header);
    peer_add(&c->answer, 30 * SECOND, nothing);
    peer_cancel(&c->answer);
    peer_add(&c->idle, 60 * SECOND, nothing);
}

static void run_http(const struct options *options)
{
    check_options(options);
    peer_open();
    struct server server = { allocate(options->pending, sizeof(*server.at)), options->pending, 1 };
    for (uint64_t i = 0; i < server.count; i++) {
        struct http_connection *c = &server.at[i];
        peer_init(&c->header);
        peer_init(&c->answer);
        peer_init(&c->idle);
        peer_add(&c->idle, 60 * SECOND, nothing);
    }
    metric("request_ns", repeat(options, http_request, &server).ns);
    peer_close();
    free(server.at);
}

#endif
