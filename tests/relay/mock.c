/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A mock cluster of librdkafka, for programs that want brokers: it prints their addresses, and ends with its input.
 *
 *     relay_mock BROKERS [TOPIC PARTITIONS]...
 */

#include <librdkafka/rdkafka.h>
/* It wants rdkafka.h before it. */
#include <librdkafka/rdkafka_mock.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    char why[256], byte;
    rd_kafka_t *rk = rd_kafka_new(RD_KAFKA_PRODUCER, rd_kafka_conf_new(), why, sizeof(why));
    rd_kafka_mock_cluster_t *mock;
    int brokers = argc > 1 ? atoi(argv[1]) : 0;

    if (!rk || brokers < 1 || argc % 2 != 0) {
        fprintf(stderr, "usage: relay_mock BROKERS [TOPIC PARTITIONS]...\n");
        return 2;
    }
    mock = rd_kafka_mock_cluster_new(rk, brokers);
    for (int i = 2; mock && i < argc; i += 2)
        if (rd_kafka_mock_topic_create(mock, argv[i], atoi(argv[i + 1]), brokers < 3 ? brokers : 3))
            return 1;
    if (!mock)
        return 1;
    puts(rd_kafka_mock_cluster_bootstraps(mock));
    fflush(stdout);
    while (read(STDIN_FILENO, &byte, 1) > 0)
        ;
    rd_kafka_mock_cluster_destroy(mock);
    rd_kafka_destroy(rk);
    return 0;
}
