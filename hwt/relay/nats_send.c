/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "hwt/relay/nats_inside.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hwt/relay/header.h"

/* The server answers within a second, unless it has lost its leader. */
#define ANSWER_MAX HWT_SEC(5)

/* Under the lock. */
static void add_answer(struct relay_nats *nats, struct nats_send *sent, int result, bool repeated)
{
    nats->answers[nats->answers_count++] =
        (struct relay_answer){ .cookie = sent->cookie, .repeated = repeated, .result = result };
    sent->number = 0;
}

/* An acknowledgement is JSON; an error in it has a code. A stream may be called as a name in it,
 * which the colon tells from it. */
static int read_answer(natsMsg *msg, bool *ret_repeated)
{
    char text[512];
    const char *code;

    *ret_repeated = false;
    if (natsMsg_IsNoResponders(msg))
        return -EHOSTUNREACH;
    snprintf(text, sizeof(text), "%.*s", natsMsg_GetDataLength(msg), natsMsg_GetData(msg));
    *ret_repeated = strstr(text, "\"duplicate\":") != NULL;
    if (strstr(text, "\"seq\":0,"))
        return -ETIMEDOUT; /* a double of one that the leader has not stored yet, and may never (2.10) */
    if (!strstr(text, "\"error\":"))
        return strstr(text, "\"stream\":") ? 0 : -EIO;
    code = strstr(text, "\"err_code\":");
    return code && strtol(code + strlen("\"err_code\":"), NULL, 10) == 10054
               ? -EMSGSIZE /* message size exceeds maximum allowed */
               : -EIO;
}

/* The reply subject ends with the place and the number. */
static void on_answer(natsConnection *connection, natsSubscription *sub, natsMsg *msg,
                      void *closure)
{
    struct relay_nats *nats = closure;
    const char *subject = natsMsg_GetSubject(msg) + strlen(nats->answer_inbox);
    uint64_t number;
    size_t place;
    bool repeated;
    int result;

    (void)connection;
    (void)sub;
    if (sscanf(subject, ".%zu.%" SCNu64, &place, &number) == 2 && place < NATS_SENDS_MAX) {
        result = read_answer(msg, &repeated);
        pthread_mutex_lock(&nats->lock);
        if (nats->sends[place].number == number)
            add_answer(nats, &nats->sends[place], result, repeated);
        pthread_mutex_unlock(&nats->lock);
        relay_nats_signal(nats);
    }
    natsMsg_Destroy(msg);
}

natsStatus relay_nats_send_begin(struct relay_nats *nats)
{
    char subject[NATS_NAME_MAX];
    natsStatus s = natsInbox_Create(&nats->answer_inbox);

    if (s != NATS_OK)
        return s;
    snprintf(subject, sizeof(subject), "%s.*.*", nats->answer_inbox);
    s = natsConnection_Subscribe(&nats->answer_sub, nats->connection, subject, on_answer, nats);
    return s == NATS_OK ? natsSubscription_SetPendingLimits(nats->answer_sub, -1, -1) : s;
}

void relay_nats_send_end(struct relay_nats *nats)
{
    natsSubscription_Destroy(nats->answer_sub);
    natsInbox_Destroy(nats->answer_inbox);
}

static natsStatus make(const struct relay_nats *nats, const struct relay_outgoing *message,
                       const char *reply, natsMsg **ret_msg)
{
    const char *target = !message->target   ? nats->subject
                         : *message->target ? message->target
                                            : nats->dead;
    const char *last;
    char *names = relay_header_write(message->id, message->fields, message->fields_count, &last);
    natsStatus s =
        names ? natsMsg_Create(ret_msg, target, reply, message->payload, (int)message->payload_size)
              : NATS_NO_MEMORY;

    /* The library orders headers by a hash. It writes the name of one as it stands, so this is all of them. */
    if (s == NATS_OK && *names)
        s = natsMsgHeader_Set(*ret_msg, names, last);
    free(names);
    return s;
}

/* A free place; NATS_SENDS_MAX: there is none. Answers have room, because there are fewer than half
 * as many as places here, and at most one more for each place that is taken. */
static size_t take_place(struct relay_nats *nats, uint64_t cookie)
{
    size_t place = NATS_SENDS_MAX;

    pthread_mutex_lock(&nats->lock);
    for (size_t i = 0; i < NATS_SENDS_MAX && nats->answers_count < NATS_SENDS_MAX / 2; i++) {
        size_t at = (nats->send_next + i) % NATS_SENDS_MAX;
        if (nats->sends[at].number != 0)
            continue;
        nats->sends[at] = (struct nats_send){ ++nats->send_number, cookie,
                                              relay_nats_clock(&nats->engine) + ANSWER_MAX };
        nats->send_next = at + 1;
        place = at;
        break;
    }
    pthread_mutex_unlock(&nats->lock);
    return place;
}

static void end_send(struct relay_nats *nats, size_t place, uint64_t number, int result)
{
    pthread_mutex_lock(&nats->lock);
    if (nats->sends[place].number == number)
        add_answer(nats, &nats->sends[place], result, false);
    pthread_mutex_unlock(&nats->lock);
    relay_nats_signal(nats);
}

int relay_nats_send(struct relay_engine *engine, const struct relay_outgoing *message,
                    uint64_t cookie)
{
    struct relay_nats *nats = relay_nats_of(engine);
    char reply[NATS_NAME_MAX];
    natsMsg *msg = NULL;
    natsStatus s;
    size_t place;

    if (natsConnection_Status(nats->connection) != NATS_CONN_STATUS_CONNECTED)
        return -EHOSTUNREACH;
    place = take_place(nats, cookie);
    if (place == NATS_SENDS_MAX)
        return -EAGAIN;
    uint64_t number = nats->send_number;
    snprintf(reply, sizeof(reply), "%s.%zu.%" PRIu64, nats->answer_inbox, place, number);
    s = make(nats, message, reply, &msg);
    if (s == NATS_OK)
        s = natsConnection_PublishMsg(nats->connection, msg);
    natsMsg_Destroy(msg);
    if (s != NATS_OK)
        end_send(nats, place, number,
                 s == NATS_MAX_PAYLOAD   ? -EMSGSIZE
                 : s == NATS_INVALID_ARG ? -EINVAL
                                         : relay_nats_errno(s));
    return 0;
}

static void end_late(struct relay_nats *nats)
{
    uint64_t now = relay_nats_clock(&nats->engine);

    if (now < nats->look_for_late_at)
        return;
    nats->look_for_late_at = now + HWT_MS(500);
    for (size_t i = 0; i < NATS_SENDS_MAX; i++)
        if (nats->sends[i].number != 0 && nats->sends[i].until <= now)
            add_answer(nats, &nats->sends[i], -ETIMEDOUT, false);
}

size_t relay_nats_answers(struct relay_engine *engine, size_t max, struct relay_answer *ret_answers)
{
    struct relay_nats *nats = relay_nats_of(engine);
    size_t count;

    pthread_mutex_lock(&nats->lock);
    end_late(nats);
    count = nats->answers_count < max ? nats->answers_count : max;
    memcpy(ret_answers, nats->answers, count * sizeof(*ret_answers));
    nats->answers_count -= count;
    memmove(nats->answers, nats->answers + count, nats->answers_count * sizeof(*ret_answers));
    pthread_mutex_unlock(&nats->lock);
    return count;
}

int relay_nats_publish(struct relay_engine *engine, const struct relay_outgoing *message,
                       uint64_t *ret_position)
{
    struct relay_nats *nats = relay_nats_of(engine);
    jsPubAck *ack = NULL;
    natsMsg *msg = NULL;
    natsStatus s = make(nats, message, NULL, &msg);

    if (s == NATS_OK)
        s = js_PublishMsg(&ack, nats->js, msg, NULL, NULL);
    if (s == NATS_OK && ack->Sequence == 0)
        s = NATS_TIMEOUT; /* as in read_answer() */
    if (s == NATS_OK)
        *ret_position = ack->Sequence;
    jsPubAck_Destroy(ack);
    natsMsg_Destroy(msg);
    return relay_nats_errno(s);
}
