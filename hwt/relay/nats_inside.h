/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_RELAY_NATS_INSIDE_H
#define HWT_RELAY_NATS_INSIDE_H

/*
 *     nats_connect.c connection, names, the table of calls
 *     nats_make.c    streams and the bucket
 *     nats_ask.c     the API's answers, and settings of streams that lose messages
 *     nats_pull.c    the delay stream's messages
 *     nats_status.c  what a pull is answered instead of messages
 *     nats_send.c    messages to targets, and their acknowledgements
 *     nats_entry.c   entries, the stream's extent, purge
 *     nats_dead.c    the dead letters, for who looks at them
 *
 * The library calls back on threads of its own. What these have is guarded by `lock`; all else belongs
 * to the shard's thread.
 */

#include <nats/nats.h>
#include <pthread.h>

#include "hwt/relay/nats.h"
#include "hwt/relay/shard.h"

/* In a stream's metadata, and at the beginning of its description. */
#define NATS_INCARNATION "hwt-relay-incarnation"
#define NATS_DESCRIPTION "hwt-relay incarnation="

enum { NATS_NAME_MAX = 160, NATS_SENDS_MAX = 2 * RELAY_FLIGHTS_MAX, NATS_WAIT_MS = 2000 };

/* What an answer without a message means for the consumer and what was asked of it. */
enum nats_status {
    NATS_ALL_IS_WELL,
    NATS_REQUEST_ENDS,    /* and the messages that it has not got are said */
    NATS_REQUESTS_END,    /* perhaps all */
    NATS_REQUEST_REFUSED, /* and so will be the next one, until somebody changes a setting */
    NATS_CONSUMER_ENDS,
    NATS_UNKNOWN,
};

/* A message that was sent. Its number in the reply subject tells an answer from one to an earlier
 * message in the same place. */
struct nats_send {
    uint64_t number; /* 0: free */
    uint64_t cookie;
    uint64_t until; /* without an answer until then it is -ETIMEDOUT */
};

/* A message as the shard has it. */
struct nats_pulled {
    natsMsg *msg;
    struct relay_field *fields;
};

struct relay_nats {
    struct relay_engine engine;
    const struct relay_config *config;
    unsigned shard;
    char stream[NATS_NAME_MAX], subject[NATS_NAME_MAX], dead[NATS_NAME_MAX], bucket[NATS_NAME_MAX];
    natsConnection *connection;
    jsCtx *js;
    kvStore *entries;
    int event;

    pthread_mutex_t lock;
    struct nats_send sends[NATS_SENDS_MAX];
    struct relay_answer answers[2 * NATS_SENDS_MAX];
    size_t answers_count;
    natsMsg **arrived; /* by the pull's subscription, in order */
    size_t arrived_count, arrived_room;

    /* Sends. */
    natsInbox *answer_inbox;
    natsSubscription *answer_sub;
    uint64_t send_number;
    size_t send_next; /* where a free place is looked for */
    uint64_t look_for_late_at;

    /* Pulls. */
    natsInbox *pull_inbox;
    natsSubscription *pull_sub;
    char consumer[NATS_NAME_MAX]; /* "": there is none */
    uint64_t given;               /* the position given to the shard last */
    uint64_t delivered;           /* by the consumer, as it counts */
    int64_t requested;            /* messages that are still to come */
    uint64_t heard_at;
    uint64_t last; /* the stream's last position, as its leader has told last; and on which */
    char leader[NATS_NAME_MAX]; /* server that is. "": it is no cluster */
    uint64_t moved_at;          /* when a message has come last, or none was to come */
    uint64_t retry_at;          /* no new consumer before */
    uint64_t ask_at;            /* no new request before */
    uint64_t say_at;            /* no line about a status before */
    uint64_t judge_at;          /* when the settings are looked at next */
    int64_t batch;              /* messages of a request */
    int64_t threshold;          /* ns without requests after which the consumer goes */
    uint64_t incarnation;       /* as the shard knows it */
    uint64_t consumed;          /* the incarnation that the consumer was made for */
    struct nats_pulled pulled[RELAY_PULL_MAX];
    struct relay_message messages[RELAY_PULL_MAX];
    size_t pulled_count;

    struct relay_field *dead_fields; /* of the dead letter that was read last */
    char *dead_payload;
};

static inline struct relay_nats *relay_nats_of(struct relay_engine *engine)
{
    return (struct relay_nats *)engine; /* its first field */
}

uint64_t relay_nats_clock(struct relay_engine *engine);
int relay_nats_publish(struct relay_engine *engine, const struct relay_outgoing *message,
                       uint64_t *ret_position);
void relay_nats_signal(struct relay_nats *nats);
/* A negative errno for what the library says. */
int relay_nats_errno(natsStatus status);

/* Sets the engine's server to the one that it is connected to. */
void relay_nats_see_server(struct relay_nats *nats);

natsStatus relay_nats_make(struct relay_nats *nats);

enum { NATS_VALUE_MAX = 64 };
/* Asks the API: a call, and the stream that it is about. */
natsStatus relay_nats_ask(struct relay_nats *nats, const char *call, const char *stream,
                          const char *text, natsMsg **ret_answer);
/* The value of a name in an answer, quoted or not. Behind a name with a dot is one of a later place. False: it is not
 * there. */
bool relay_nats_value(natsMsg *answer, const char *name, char ret_value[NATS_VALUE_MAX]);
/* The API's code of the error in an answer; 0: there is none. */
uint64_t relay_nats_code(natsMsg *answer);
uint64_t relay_nats_incarnation(natsMsg *info);
/* Once a minute: says what in the settings of the delay stream and the bucket loses or withholds messages. */
natsStatus relay_nats_judge(struct relay_nats *nats, natsMsg *info);

enum nats_status relay_nats_status(const char *status, const char *text);

natsStatus relay_nats_pull_begin(struct relay_nats *nats);
void relay_nats_pull_end(struct relay_nats *nats);
/* The leader has told of the stream. */
void relay_nats_pull_told(struct relay_nats *nats, const struct relay_extent *extent,
                          const char *leader);
int64_t relay_nats_pull(struct relay_engine *engine, uint64_t after, size_t max,
                        const struct relay_message **ret_messages);

natsStatus relay_nats_send_begin(struct relay_nats *nats);
void relay_nats_send_end(struct relay_nats *nats);
int relay_nats_send(struct relay_engine *engine, const struct relay_outgoing *message,
                    uint64_t cookie);
size_t relay_nats_answers(struct relay_engine *engine, size_t max,
                          struct relay_answer *ret_answers);

int relay_nats_extent(struct relay_engine *engine, struct relay_extent *ret_extent);
int relay_nats_find(struct relay_engine *engine, uint64_t position, uint64_t *ret_position,
                    uint64_t *ret_timestamp);
int relay_nats_written(struct relay_engine *engine, const char *name, uint64_t revision,
                       uint64_t *ret_written);
int relay_nats_read(struct relay_engine *engine, const char *name, char ret_text[RELAY_ENTRY_MAX],
                    uint64_t *ret_revision);
void relay_nats_count_shards(struct relay_nats *nats);
int relay_nats_swap(struct relay_engine *engine, const char *name, uint64_t revision,
                    const char *text, uint64_t *ret_revision);
int relay_nats_dead(struct relay_engine *engine, uint64_t from, struct relay_message *ret_message);
void relay_nats_dead_free(struct relay_nats *nats);
int relay_nats_bury(struct relay_engine *engine, uint64_t position);
int relay_nats_purge(struct relay_engine *engine, uint64_t incarnation, uint64_t below);

#endif
