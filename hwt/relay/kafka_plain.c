/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "hwt/relay/kafka_inside.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/*
 * One message at a time, whose report is waited for. If that does not come, the producer ends, so that the message is
 * not sent any more later. A broker may have it all the same.
 */
enum { PUBLISH_MS = 5000 };

void relay_kafka_plain_end(struct relay_kafka *kafka)
{
    if (!kafka->plain)
        return;
    rd_kafka_purge(kafka->plain, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT |
                                     RD_KAFKA_PURGE_F_NON_BLOCKING);
    rd_kafka_destroy(kafka->plain);
    kafka->plain = NULL;
}

static int begin(struct relay_kafka *kafka, int wait_ms)
{
    char wait[24], bytes[24];
    const char *const properties[] = { "enable.idempotence",
                                       "true",
                                       "message.timeout.ms",
                                       wait,
                                       "message.max.bytes",
                                       bytes,
                                       "retry.backoff.ms",
                                       "50",
                                       "reconnect.backoff.max.ms",
                                       "1000",
                                       "allow.auto.create.topics",
                                       "false",
                                       NULL };

    snprintf(wait, sizeof(wait), "%d", wait_ms);
    snprintf(bytes, sizeof(bytes), "%" PRIu64, kafka->config->message_max + 65536);
    if (!kafka->plain)
        kafka->plain = relay_kafka_client(kafka, RD_KAFKA_PRODUCER, properties);
    kafka->plain_error = RD_KAFKA_RESP_ERR__TIMED_OUT;
    return kafka->plain ? 0 : -EINVAL;
}

static int end(struct relay_kafka *kafka, rd_kafka_resp_err_t error, int wait_ms)
{
    if (!error) {
        rd_kafka_flush(kafka->plain, wait_ms + 1000);
        error = kafka->plain_error;
    }
    if (error)
        relay_kafka_plain_end(kafka);
    return relay_kafka_errno(error);
}

int relay_kafka_place_swap(struct relay_kafka *kafka, const char *name, uint64_t revision,
                           const char *text, uint64_t *ret_revision)
{
    const struct kafka_reader *reader = &kafka->places.reader;
    const int wait = relay_kafka_patience(kafka);
    rd_kafka_resp_err_t error;
    int r = relay_kafka_entry_compare(kafka, &kafka->places, name, revision);

    if (r == 0)
        r = begin(kafka, wait);
    if (r < 0)
        return r;
    error = rd_kafka_producev(
        kafka->plain, RD_KAFKA_V_TOPIC(reader->topic), RD_KAFKA_V_PARTITION(reader->partition),
        RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY), RD_KAFKA_V_KEY(name, strlen(name)),
        RD_KAFKA_V_VALUE((void *)(uintptr_t)text, strlen(text)), RD_KAFKA_V_END);
    r = end(kafka, error, wait);
    if (r == 0)
        *ret_revision = (uint64_t)kafka->plain_offset + 1;
    return r;
}

int relay_kafka_publish(struct relay_engine *engine, const struct relay_outgoing *message,
                        uint64_t *ret_position)
{
    struct relay_kafka *kafka = relay_kafka_of(engine);
    int r = begin(kafka, PUBLISH_MS);

    if (r < 0)
        return r;
    r = end(
        kafka,
        relay_kafka_produce(kafka->plain, kafka->topic, (int32_t)kafka->shard, message, NULL, 0),
        PUBLISH_MS);
    if (r == 0)
        *ret_position = (uint64_t)kafka->plain_offset + 1;
    return r;
}
