/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "tests/relay/kafka_kit.h"

#include <check.h>
#include <errno.h>

rd_kafka_mock_cluster_t *mock;
struct relay_config config;
struct relay_engine *engine;
static rd_kafka_t *base;

struct relay_kafka *kafka(void)
{
    return relay_kafka_of(engine);
}

static void make_topic(const char *name)
{
    ck_assert_int_eq(rd_kafka_mock_topic_create(mock, name, 1, 1), RD_KAFKA_RESP_ERR_NO_ERROR);
}

/* On a machine that is busy the mock cluster, which has threads of this process, may answer too late. */
struct relay_engine *kafka_open(void)
{
    struct relay_engine *opened = NULL;
    uint64_t limit = until();
    int r;
    do {
        r = relay_kafka_open(&config, 0, &opened);
    } while (r == -EHOSTUNREACH && relay_kafka_clock(NULL) < limit);
    ck_assert_int_eq(r, 0);
    return opened;
}

void kafka_set_up(void)
{
    char why[256];

    base = rd_kafka_new(RD_KAFKA_PRODUCER, rd_kafka_conf_new(), why, sizeof(why));
    ck_assert_ptr_nonnull(base);
    mock = rd_kafka_mock_cluster_new(base, 1);
    make_topic("orders"); /* others are made when they are asked for, of four partitions */
    make_topic("mails");
    make_topic("hwt-shop");
    config = (struct relay_config){ .space = "shop",
                                    .replica = "a",
                                    .engine = "kafka",
                                    .shards = 1,
                                    .lease = HWT_SEC(20),
                                    .message_max = 65536 };
    config.servers.word[config.servers.count++] = rd_kafka_mock_cluster_bootstraps(mock);
    config.kafka.word[config.kafka.count++] = "fetch.wait.max.ms=10";
    engine = kafka_open();
}

void kafka_tear_down(void)
{
    if (engine)
        engine->calls->close(engine);
    rd_kafka_mock_cluster_destroy(mock);
    rd_kafka_destroy(base);
}

uint64_t until(void)
{
    return relay_kafka_clock(NULL) + HWT_SEC(60);
}
