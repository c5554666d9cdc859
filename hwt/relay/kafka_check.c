/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "hwt/relay/kafka_inside.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hwt/relay/log.h"

/*
 * The topics' properties are looked at when the engine is opened and once a minute. One by which messages are lost is said
 * when it is seen and when it has gone. The shard goes on, since nobody loses less if it stands still.
 */
#define AGAIN HWT_MIN(1)
enum { WAIT_MS = 1000 };

enum { DELAY = 1, KEPT = 2 }; /* the delay topic; those of entries */

static const struct rule {
    unsigned topics;
    const char *name, *value, *otherwise;
} rules[] = {
    { DELAY, "cleanup.policy", "delete", "it keeps one message of each key" },
    { DELAY, "retention.ms", "-1", "it deletes messages that are not due yet" },
    { DELAY, "retention.bytes", "-1", "it deletes messages that are not due yet" },
    { KEPT, "cleanup.policy", "compact", "it deletes entries" },
    { DELAY | KEPT, "message.timestamp.type", "LogAppendTime", "it has the clocks of producers" },
    { DELAY | KEPT, "unclean.leader.election.enable", "false", "it loses what was acknowledged" },
};

struct topic {
    const char *name;
    unsigned kind;
};

enum { TOPICS = 3 };

static void list_topics(const struct relay_kafka *kafka, struct topic topics[TOPICS])
{
    topics[0] = (struct topic){ kafka->topic, DELAY };
    topics[1] = (struct topic){ kafka->shards.reader.topic, KEPT };
    topics[2] = (struct topic){ kafka->places.reader.topic, KEPT };
}

/* ---- Properties ---- */

/* NULL: it has none of that name. */
static const char *value_of(const rd_kafka_ConfigResource_t *resource, const char *name)
{
    size_t count;
    const rd_kafka_ConfigEntry_t **entries = rd_kafka_ConfigResource_configs(resource, &count);

    for (size_t i = 0; i < count; i++)
        if (strcmp(rd_kafka_ConfigEntry_name(entries[i]), name) == 0)
            return rd_kafka_ConfigEntry_value(entries[i]);
    return NULL;
}

static void judge(const rd_kafka_ConfigResource_t *resource, const struct topic *topic,
                  char fault[RELAY_FAULT_MAX])
{
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]) && !*fault; i++) {
        const char *value = value_of(resource, rules[i].name);
        if ((rules[i].topics & topic->kind) && value && strcmp(value, rules[i].value) != 0)
            snprintf(fault, RELAY_FAULT_MAX, "the topic %s has %s=%s: set it to %s, else %s",
                     topic->name, rules[i].name, value, rules[i].value, rules[i].otherwise);
    }
}

/* With one copy nothing is lost but with its disk; with more of them, what one alone had may be. */
static void judge_copies(const rd_kafka_ConfigResource_t *resource,
                         const rd_kafka_metadata_topic_t *metadata, char fault[RELAY_FAULT_MAX])
{
    const char *least = value_of(resource, "min.insync.replicas");

    if (!*fault && least && metadata->partition_cnt > 0 &&
        metadata->partitions[0].replica_cnt > 1 && strtol(least, NULL, 10) < 2)
        snprintf(
            fault, RELAY_FAULT_MAX,
            "the topic %s has min.insync.replicas=%s and %d copies: set it to 2, else what one "
            "copy alone has is lost with it",
            metadata->topic, least, metadata->partitions[0].replica_cnt);
}

/* Nobody reads what is in a partition of no shard. */
static void judge_partitions(const struct relay_kafka *kafka,
                             const rd_kafka_metadata_topic_t *metadata, char fault[RELAY_FAULT_MAX])
{
    const unsigned shards = (unsigned)kafka->config->shards;

    if (!*fault && (unsigned)metadata->partition_cnt > shards)
        snprintf(fault, RELAY_FAULT_MAX,
                 "the topic %s has %d partitions, and there are %u shards: set shards to %d, else "
                 "messages in the others are never forwarded",
                 metadata->topic, metadata->partition_cnt, shards, metadata->partition_cnt);
}

static void say_unknown(struct relay_kafka *kafka, const char *why)
{
    if (!kafka->check_unknown)
        relay_log(kafka->shard,
                  "the properties of the topics cannot be looked at, so nobody says if they lose "
                  "messages: %s",
                  why);
    kafka->check_unknown = true;
}

/* ---- Questions ---- */

static void judge_all(struct relay_kafka *kafka, rd_kafka_event_t *event,
                      const struct topic topics[TOPICS], const struct rd_kafka_metadata *of_delay,
                      char fault[RELAY_FAULT_MAX])
{
    size_t count = 0;
    const rd_kafka_ConfigResource_t **resources = rd_kafka_DescribeConfigs_result_resources(
        rd_kafka_event_DescribeConfigs_result(event), &count);

    for (size_t i = 0; i < count; i++) {
        const char *name = rd_kafka_ConfigResource_name(resources[i]);
        if (rd_kafka_ConfigResource_error(resources[i]))
            say_unknown(kafka, rd_kafka_err2str(rd_kafka_ConfigResource_error(resources[i])));
        for (size_t j = 0; j < TOPICS; j++)
            if (strcmp(topics[j].name, name) == 0)
                judge(resources[i], &topics[j], fault);
        if (strcmp(name, kafka->topic) == 0)
            judge_copies(resources[i], &of_delay->topics[0], fault);
    }
}

static void ask_for_properties(struct relay_kafka *kafka, const struct rd_kafka_metadata *of_delay,
                               char fault[RELAY_FAULT_MAX])
{
    rd_kafka_t *rk = kafka->looker.rk;
    rd_kafka_AdminOptions_t *options =
        rd_kafka_AdminOptions_new(rk, RD_KAFKA_ADMIN_OP_DESCRIBECONFIGS);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(rk);
    rd_kafka_ConfigResource_t *resources[TOPICS];
    struct topic topics[TOPICS];
    rd_kafka_event_t *event;

    list_topics(kafka, topics);
    for (size_t i = 0; i < TOPICS; i++)
        resources[i] = rd_kafka_ConfigResource_new(RD_KAFKA_RESOURCE_TOPIC, topics[i].name);
    rd_kafka_AdminOptions_set_request_timeout(options, WAIT_MS, NULL, 0);
    rd_kafka_DescribeConfigs(rk, resources, TOPICS, options, queue);
    event = rd_kafka_queue_poll(queue, WAIT_MS + 100);
    if (!event || rd_kafka_event_error(event))
        say_unknown(kafka, event ? rd_kafka_event_error_string(event) : "no broker answers");
    else
        judge_all(kafka, event, topics, of_delay, fault);
    if (event)
        rd_kafka_event_destroy(event);
    rd_kafka_ConfigResource_destroy_array(resources, TOPICS);
    rd_kafka_queue_destroy(queue);
    rd_kafka_AdminOptions_destroy(options);
}

/* False: no broker says what there is. */
static bool ask(struct relay_kafka *kafka, char fault[RELAY_FAULT_MAX])
{
    rd_kafka_topic_t *handle = rd_kafka_topic_new(kafka->looker.rk, kafka->topic, NULL);
    const struct rd_kafka_metadata *metadata = NULL;
    rd_kafka_resp_err_t error = rd_kafka_metadata(kafka->looker.rk, 0, handle, &metadata, WAIT_MS);

    *fault = 0;
    if (!error) {
        judge_partitions(kafka, &metadata->topics[0], fault);
        ask_for_properties(kafka, metadata, fault);
        rd_kafka_metadata_destroy(metadata);
    }
    rd_kafka_topic_destroy(handle);
    return !error;
}

void relay_kafka_check(struct relay_kafka *kafka)
{
    const uint64_t now = relay_kafka_clock(&kafka->engine);
    char fault[RELAY_FAULT_MAX], *before = kafka->engine.fault;

    if (now < kafka->check_at)
        return;
    kafka->check_at = now + AGAIN;
    if (!ask(kafka, fault))
        return;
    if (*fault && strcmp(fault, before) != 0)
        relay_log(kafka->shard, RELAY_ERROR "Kafka: %s", fault);
    else if (!*fault && *before)
        relay_log(kafka->shard, RELAY_INFO "Kafka: that is well again: %s", before);
    strcpy(before, fault);
}

/* ---- The configuration's own properties ---- */

/* The engine goes by them, so they cannot be others. */
bool relay_kafka_is_own(const char *property)
{
    static const char *const names[] = {
        "acks",
        "allow.auto.create.topics",
        "auto.commit.enable",
        "auto.offset.reset",
        "bootstrap.servers",
        "delivery.timeout.ms",
        "enable.auto.commit",
        "enable.auto.offset.store",
        "enable.gapless.guarantee",
        "enable.idempotence",
        "enable.partition.eof",
        "group.id",
        "group.instance.id",
        "isolation.level",
        "max.in.flight",
        "max.in.flight.requests.per.connection",
        "message.max.bytes",
        "message.send.max.retries",
        "message.timeout.ms",
        "metadata.broker.list",
        "partition.assignment.strategy",
        "partitioner",
        "request.required.acks",
        "retries",
        "transaction.timeout.ms",
        "transactional.id",
    };

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(names[i], property) == 0)
            return true;
    return false;
}
