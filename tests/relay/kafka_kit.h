/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef TESTS_RELAY_KAFKA_KIT_H
#define TESTS_RELAY_KAFKA_KIT_H

/*
 * The engine on Kafka, with the mock cluster of its library. That has one broker here, knows no isolation (what was taken
 * back can be read), and gives messages the timestamps of their producers.
 */

#include "hwt/relay/kafka_inside.h"
/* It wants rdkafka.h before it. */
#include <librdkafka/rdkafka_mock.h>

/* Of Kafka's protocol. */
enum { PRODUCE = 0, FETCH = 1, INIT_PRODUCER_ID = 22, ADD_PARTITIONS = 24, END_TXN = 26 };

/* Of the fixture: a topic `orders`, and an engine of shard 0 of the space `shop`. */
extern rd_kafka_mock_cluster_t *mock;
extern struct relay_config config;
extern struct relay_engine *engine;

void kafka_set_up(void);
void kafka_tear_down(void);
struct relay_engine *kafka_open(void);
struct relay_kafka *kafka(void);
/* The clock at which what comes in a moment would have come, on whatever machine. */
uint64_t until(void);

#endif
