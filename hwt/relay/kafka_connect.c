/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "hwt/relay/kafka_inside.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "hwt/relay/log.h"

uint64_t relay_kafka_clock(struct relay_engine *engine)
{
    struct timespec now;

    (void)engine;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return HWT_SEC((uint64_t)now.tv_sec) + (uint64_t)now.tv_nsec;
}

void relay_kafka_signal(struct relay_kafka *kafka)
{
    const uint64_t one = 1;
    ssize_t written = write(kafka->event, &one, sizeof(one));

    (void)written; /* it fails only if it is readable already */
}

int relay_kafka_patience(const struct relay_kafka *kafka)
{
    return (int)(kafka->config->lease / 4 * 3 / 1000000);
}

int relay_kafka_wait_ms(const struct relay_kafka *kafka)
{
    return (int)(kafka->config->lease / 4 / 1000000);
}

int relay_kafka_errno(rd_kafka_resp_err_t error)
{
    switch (error) {
    case RD_KAFKA_RESP_ERR_NO_ERROR:
        return 0;
    case RD_KAFKA_RESP_ERR__TIMED_OUT:
    case RD_KAFKA_RESP_ERR__MSG_TIMED_OUT:
    case RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT:
        return -ETIMEDOUT;
    case RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE:
    case RD_KAFKA_RESP_ERR_RECORD_LIST_TOO_LARGE:
        return -EMSGSIZE;
    case RD_KAFKA_RESP_ERR__INVALID_ARG:
    case RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION:
    case RD_KAFKA_RESP_ERR_INVALID_RECORD:
    case RD_KAFKA_RESP_ERR_INVALID_MSG:
        return -EINVAL;
    case RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED:
    case RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED:
    case RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED:
    case RD_KAFKA_RESP_ERR_TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
        return -EACCES;
    case RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC:
    case RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION:
    case RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART:
    case RD_KAFKA_RESP_ERR__TRANSPORT:
    case RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN:
        return -EHOSTUNREACH;
    case RD_KAFKA_RESP_ERR__QUEUE_FULL:
        return -EAGAIN;
    default:
        return -EIO;
    }
}

/* ---- Clients ---- */

static void on_report(rd_kafka_t *rk, const rd_kafka_message_t *message, void *opaque)
{
    relay_kafka_delivered(opaque, rk, (uintptr_t)message->_private, message);
}

static void on_log(const rd_kafka_t *rk, int level, const char *facility, const char *text)
{
    const struct relay_kafka *kafka = rd_kafka_opaque(rk);

    /* From a warning on; but not that a broker is too old to be told that topics are not made by
     * reading them, nor that a property is of the other kind of clients. */
    if (level <= 4 && strcmp(facility, "AUTOCREATE") != 0 && strcmp(facility, "CONFWARN") != 0)
        relay_log(kafka->shard, "librdkafka %s: %s", facility, text);
}

static bool set(struct relay_kafka *kafka, rd_kafka_conf_t *conf, const char *name,
                const char *value)
{
    char why[256]; /* it may have the value, which may be a password */
    rd_kafka_conf_res_t r = rd_kafka_conf_set(conf, name, value, why, sizeof(why));

    if (r != RD_KAFKA_CONF_OK)
        relay_log(kafka->shard, "Kafka: %s %s", name,
                  r == RD_KAFKA_CONF_UNKNOWN ? "is no property of librdkafka"
                                             : "does not take the value that it is given");
    return r == RD_KAFKA_CONF_OK;
}

/* Both kinds of clients get those of the configuration; the library takes what is of the other
 * kind, too. */
static bool set_all(struct relay_kafka *kafka, rd_kafka_conf_t *conf, const char *const *properties)
{
    const struct relay_words *servers = &kafka->config->servers, *own = &kafka->config->kafka;
    char list[4096] = "", patience[24];
    bool fine;

    for (size_t i = 0; i < servers->count; i++) {
        size_t length = strlen(list);
        snprintf(list + length, sizeof(list) - length, "%s%s", i > 0 ? "," : "", servers->word[i]);
    }
    /* A broker that is silent for so long is taken for dead. */
    snprintf(patience, sizeof(patience), "%u", 2000 + (unsigned)(kafka->config->lease / 1000000));
    fine = set(kafka, conf, "bootstrap.servers", list) &&
           set(kafka, conf, "socket.timeout.ms", patience);
    for (; fine && properties[0]; properties += 2)
        fine = set(kafka, conf, properties[0], properties[1]);
    for (size_t i = 0; fine && i < own->count; i++) {
        char *name = strdup(own->word[i]), *value = name ? strchr(name, '=') : NULL;
        if (value)
            *value++ = 0;
        fine = value && !relay_kafka_is_own(name);
        if (value && !fine)
            relay_log(kafka->shard, "Kafka: %s cannot be set, because the relay goes by its own",
                      name);
        fine = fine && set(kafka, conf, name, value);
        free(name);
    }
    return fine;
}

rd_kafka_t *relay_kafka_client(struct relay_kafka *kafka, rd_kafka_type_t type,
                               const char *const *properties)
{
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_t *rk = NULL;
    char why[256];

    rd_kafka_conf_set_opaque(conf, kafka);
    rd_kafka_conf_set_log_cb(conf, on_log);
    if (type == RD_KAFKA_PRODUCER)
        rd_kafka_conf_set_dr_msg_cb(conf, on_report);
    if (set_all(kafka, conf, properties))
        rk = rd_kafka_new(type, conf, why, sizeof(why));
    else
        strcpy(why, "see above");
    if (rk)
        return rk;
    relay_log(kafka->shard, "Kafka: no client: %s", why);
    rd_kafka_conf_destroy(conf);
    return NULL;
}

/* ---- The engine ---- */

static int get_fd(struct relay_engine *engine)
{
    return relay_kafka_of(engine)->event;
}

static void clear(struct relay_engine *engine)
{
    uint64_t events;
    ssize_t got = read(get_fd(engine), &events, sizeof(events));

    (void)got; /* it fails only if nothing was there */
}

static void end(struct relay_engine *engine)
{
    struct relay_kafka *kafka = relay_kafka_of(engine);

    relay_kafka_writer_end(&kafka->owner);
    relay_kafka_plain_end(kafka);
    relay_kafka_targets_end(kafka);
    relay_kafka_pull_end(kafka);
    relay_kafka_entries_end(&kafka->shards);
    relay_kafka_entries_end(&kafka->places);
    if (kafka->event >= 0)
        close(kafka->event);
    free(kafka);
}

static const struct relay_engine_calls calls = {
    .pull = relay_kafka_pull,
    .extent = relay_kafka_extent,
    .find = relay_kafka_find,
    .send = relay_kafka_send,
    .answers = relay_kafka_answers,
    .read = relay_kafka_read,
    .swap = relay_kafka_swap,
    .written = relay_kafka_written,
    .purge = relay_kafka_purge,
    .clock = relay_kafka_clock,
    .fd = get_fd,
    .clear = clear,
    .publish = relay_kafka_publish,
    .close = end,
};

int relay_kafka_topic(struct relay_kafka *kafka, rd_kafka_t *rk, const char *topic, int partitions)
{
    rd_kafka_topic_t *handle = rd_kafka_topic_new(rk, topic, NULL);
    const struct rd_kafka_metadata *metadata = NULL;
    rd_kafka_resp_err_t error = rd_kafka_metadata(rk, 0, handle, &metadata, KAFKA_WAIT_MS);

    if (!error)
        error = metadata->topics[0].err;
    if (!error && metadata->topics[0].partition_cnt < partitions)
        error = RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION;
    if (metadata)
        rd_kafka_metadata_destroy(metadata);
    rd_kafka_topic_destroy(handle);
    if (!error)
        return 0;
    relay_log(kafka->shard, "the topic %s of %d partitions or more is wanted: %s", topic,
              partitions, rd_kafka_err2str(error));
    return relay_kafka_errno(error);
}

/* Places of one cluster mean nothing in another one. */
static int know_cluster(struct relay_kafka *kafka)
{
    char *id = rd_kafka_clusterid(kafka->reader.rk, KAFKA_WAIT_MS);

    if (!id) {
        relay_log(kafka->shard, "Kafka: no broker answers");
        return -EHOSTUNREACH;
    }
    kafka->cluster = UINT64_C(0xcbf29ce484222325);
    for (const char *c = id; *c; c++)
        kafka->cluster = (kafka->cluster ^ (unsigned char)*c) * UINT64_C(0x100000001b3);
    kafka->cluster = (kafka->cluster >> 1) | 1; /* neither 0 nor that of RELAY_FORGOTTEN */
    rd_kafka_mem_free(kafka->reader.rk, id);
    return 0;
}

/* Topics are not made, because the cluster's keeper has to say how many copies and bytes they may
 * have. */
static int look_for_topics(struct relay_kafka *kafka)
{
    rd_kafka_t *rk = kafka->reader.rk;
    int shards = (int)kafka->config->shards;
    int r = relay_kafka_topic(kafka, rk, kafka->topic, shards);

    if (r == 0)
        r = relay_kafka_topic(kafka, rk, kafka->shards.reader.topic, shards);
    if (r == 0)
        r = relay_kafka_topic(kafka, rk, kafka->places.reader.topic, shards);
    if (r == 0)
        r = relay_kafka_topic(kafka, rk, kafka->dead, 1);
    if (r == 0)
        relay_kafka_check(kafka);
    return r;
}

static int open_readers(struct relay_kafka *kafka)
{
    char entries[KAFKA_NAME_MAX + 1], places[KAFKA_NAME_MAX + 1];
    int r = relay_kafka_reader_open(kafka, &kafka->reader, kafka->topic, KAFKA_SIGNALS);

    snprintf(entries, sizeof(entries), "hwt-%s-entries", kafka->config->space);
    snprintf(places, sizeof(places), "hwt-%s-places", kafka->config->space);
    if (r == 0)
        r = relay_kafka_reader_open(kafka, &kafka->looker, kafka->topic, KAFKA_LOOKS);
    if (r == 0)
        r = relay_kafka_reader_open(kafka, &kafka->shards.reader, entries, KAFKA_LOOKS);
    return r == 0
               ? relay_kafka_reader_open(kafka, &kafka->places.reader, places, KAFKA_LOOKS_AT_ALL)
               : r;
}

static int begin(struct relay_kafka *kafka)
{
    int r = kafka->event < 0 ? -errno : 0;

    if (r == 0)
        r = open_readers(kafka);
    if (r == 0)
        r = know_cluster(kafka);
    return r == 0 ? look_for_topics(kafka) : r;
}

int relay_kafka_open(const struct relay_config *config, unsigned shard,
                     struct relay_engine **ret_engine)
{
    struct relay_kafka *kafka = calloc(1, sizeof(*kafka));
    int r;

    if (!kafka)
        return -ENOMEM;
    kafka->engine.calls = &calls;
    kafka->engine.together = true;
    kafka->config = config;
    kafka->shard = shard;
    kafka->limit = KAFKA_SENDS_MAX;
    snprintf(kafka->topic, sizeof(kafka->topic), "hwt-%s", config->space);
    snprintf(kafka->dead, sizeof(kafka->dead), "hwt-%s-dead", config->space);
    kafka->waits_at = -1;
    kafka->event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    r = begin(kafka);
    if (r == 0)
        *ret_engine = &kafka->engine;
    else
        end(&kafka->engine);
    return r;
}

unsigned relay_kafka_shard(const char *key, unsigned shards)
{
    return (unsigned)rd_kafka_msg_partitioner_murmur2(NULL, key, strlen(key), (int32_t)shards, NULL,
                                                      NULL);
}
