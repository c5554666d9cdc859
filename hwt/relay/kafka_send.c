/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "hwt/relay/kafka_inside.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * A message that cannot be delivered takes its whole transaction with it. Often its own report
 * tells which one it was; then all others are sent again. A broker that does not permit a topic, or
 * finds a batch too long, does not tell. Then the next transactions are of half as many messages,
 * until one is of a single one. Each that succeeds lets the next one be of twice as many.
 *
 * A message that has timed out may have waited for the coordinator, or for its topic's leader. It was the topic if
 * the entry, which goes last, was stored.
 */

static void add_answer(struct relay_kafka *kafka, uint64_t cookie, int result)
{
    kafka->answers[kafka->answers_count++] =
        (struct relay_answer){ .cookie = cookie, .result = result };
    relay_kafka_signal(kafka);
}

size_t relay_kafka_answers(struct relay_engine *engine, size_t max,
                           struct relay_answer *ret_answers)
{
    struct relay_kafka *kafka = relay_kafka_of(engine);
    size_t count = kafka->answers_count < max ? kafka->answers_count : max;

    kafka->answers_count -= count; /* in any order */
    memcpy(ret_answers, kafka->answers + kafka->answers_count, count * sizeof(*ret_answers));
    return count;
}

/* ---- The end of a transaction ---- */

static bool is_of_topic(int error)
{
    return error == -EHOSTUNREACH || error == -EACCES || error == -ETIMEDOUT;
}

void relay_kafka_delivered(struct relay_kafka *kafka, const rd_kafka_t *rk, uintptr_t number,
                           const rd_kafka_message_t *message)
{
    struct kafka_writer *owner = &kafka->owner;

    if (rk != owner->rk) {
        kafka->plain_offset = message->offset;
        kafka->plain_error = message->err;
    } else if (number == 0) {
        owner->offset = message->err ? -1 : message->offset;
        owner->entry_error = message->err;
    } else if (number <= kafka->sends_count)
        kafka->sends[number - 1].error = message->err;
}

static bool is_purged(rd_kafka_resp_err_t error)
{
    return error == RD_KAFKA_RESP_ERR__PURGE_QUEUE || error == RD_KAFKA_RESP_ERR__PURGE_INFLIGHT;
}

/* A message may be to blame for it; otherwise the cluster is. */
static bool is_of_message(rd_kafka_resp_err_t error)
{
    int r = relay_kafka_errno(error);

    return r == -EMSGSIZE || r == -EINVAL ||
           error == RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED ||
           (r == -EHOSTUNREACH && error != RD_KAFKA_RESP_ERR__TRANSPORT &&
            error != RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN);
}

/* Why a message has failed of its own; 0: it has not, as far as is known. The broker refuses a
 * batch as a whole, so if it is not the topic's fault, it may be that of another message. */
static int fault_of(const struct relay_kafka *kafka, const struct kafka_send *send)
{
    int r = relay_kafka_errno(send->error);

    if (r == -ETIMEDOUT && kafka->owner.offset < 0)
        return 0;
    return is_purged(send->error) || (!is_of_topic(r) && kafka->sends_count > 1) ? 0 : r;
}

/* Half as many next time; or it was this one. */
static void search(struct relay_kafka *kafka, rd_kafka_resp_err_t error)
{
    if (kafka->sends_count == 1)
        kafka->sends[0].error = error;
    else
        kafka->limit = (kafka->sends_count + 1) / 2;
}

static void find_fault(struct relay_kafka *kafka)
{
    rd_kafka_resp_err_t error = is_of_message(kafka->owner.error) ? kafka->owner.error : 0;

    for (size_t i = 0; i < kafka->sends_count; i++) {
        if (fault_of(kafka, &kafka->sends[i]) < 0)
            return;
        if (kafka->sends[i].error && !is_purged(kafka->sends[i].error))
            error = kafka->sends[i].error;
    }
    if (kafka->sends_count > 0 && error)
        search(kafka, error);
}

/* No message is to blame if the producer has ended, or if the entry has failed of its own, which
 * has a topic to itself. */
static bool may_blame(const struct kafka_writer *owner)
{
    return owner->rk && (!owner->entry_error || is_purged(owner->entry_error));
}

static void end_sends(struct relay_kafka *kafka, bool committed)
{
    bool blames = !committed && may_blame(&kafka->owner);

    if (blames)
        find_fault(kafka);
    else if (committed && kafka->limit < KAFKA_SENDS_MAX)
        kafka->limit *= 2;
    for (size_t i = 0; i < kafka->sends_count; i++) {
        struct kafka_send *send = &kafka->sends[i];
        int fault = blames ? fault_of(kafka, send) : 0;
        if (fault < 0 && is_of_topic(fault) && send->topic)
            relay_kafka_target_failed(kafka, send->topic, fault);
        else if (committed && send->topic)
            relay_kafka_target_took(kafka, send->topic);
        add_answer(kafka, send->cookie, committed ? 0 : fault < 0 ? fault : -ECANCELED);
        free(send->topic);
    }
    kafka->sends_count = 0;
}

/* ---- Calls ---- */

static const char *topic_of(const struct relay_kafka *kafka, const struct relay_outgoing *message)
{
    return !message->target ? kafka->topic : *message->target ? message->target : kafka->dead;
}

int relay_kafka_send(struct relay_engine *engine, const struct relay_outgoing *message,
                     uint64_t cookie)
{
    struct relay_kafka *kafka = relay_kafka_of(engine);
    const char *topic = topic_of(kafka, message);
    bool is_target = message->target && *message->target;
    rd_kafka_resp_err_t error;
    int r;

    if (!kafka->owner.holds || kafka->owner.state > KAFKA_OPEN)
        return -EHOSTUNREACH;
    if (kafka->sends_count >= kafka->limit || kafka->sends_count == KAFKA_SENDS_MAX ||
        kafka->answers_count >= KAFKA_SENDS_MAX)
        return -EAGAIN;
    r = relay_kafka_target_look(kafka, topic);
    if (r == -EAGAIN)
        return r;
    if (r < 0) {
        add_answer(kafka, cookie, r);
        return 0;
    }
    r = relay_kafka_writer_begin(kafka, &kafka->owner);
    if (r < 0)
        return r;
    error = relay_kafka_produce(kafka->owner.rk, topic,
                                message->target ? RD_KAFKA_PARTITION_UA : (int32_t)kafka->shard,
                                message, is_target ? message->id : NULL, kafka->sends_count + 1);
    if (error && is_of_message(error)) {
        add_answer(kafka, cookie, relay_kafka_errno(error));
        return 0;
    }
    if (error)
        return relay_kafka_errno(error);
    kafka->sends[kafka->sends_count++] =
        (struct kafka_send){ .cookie = cookie, .topic = strdup(topic) };
    return 0;
}

/* Settles a transaction of before by what is known now. The caller knew less when it wrote its
 * text. */
static int settle(struct relay_kafka *kafka)
{
    int r = relay_kafka_writer_settle(kafka, &kafka->owner);

    if (r == -ETIMEDOUT)
        return r;
    end_sends(kafka, r == 0);
    return r == 0 ? -EAGAIN : -EIO;
}

int relay_kafka_swap(struct relay_engine *engine, const char *name, uint64_t revision,
                     const char *text, uint64_t *ret_revision)
{
    struct relay_kafka *kafka = relay_kafka_of(engine);
    struct kafka_writer *writer = &kafka->owner;
    int r;

    if (strncmp(name, "shard.", 6) != 0)
        return relay_kafka_place_swap(kafka, name, revision, text, ret_revision);
    if (writer->state > KAFKA_OPEN)
        return settle(kafka);
    r = relay_kafka_writer_hold(kafka, writer, name, revision);
    if (r < 0 && writer->state == KAFKA_IDLE)
        return r;
    if (r == 0)
        r = relay_kafka_writer_begin(kafka, writer);
    else
        r = relay_kafka_writer_abort(kafka, writer) == -ETIMEDOUT ? -ETIMEDOUT : r;
    if (r == 0)
        r = relay_kafka_writer_commit(kafka, writer, text);
    if (r == 0)
        *ret_revision = writer->revision;
    if (r != -ETIMEDOUT)
        end_sends(kafka, r == 0);
    return r == -ECANCELED ? -EIO : r;
}
