/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Brokers of librdkafka's mock cluster, for programs that want some to talk to. See --help. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <librdkafka/rdkafka.h>
/* It wants rdkafka.h before it. */
#include <librdkafka/rdkafka_mock.h>

static const char help[] =
    "Usage: relay_kafka_mock BROKERS [TOPIC:PARTITIONS]...\n"
    "\n"
    "Starts so many brokers with these topics, prints where they listen, and ends when its "
    "standard\n"
    "input does. They keep all in memory, hide nothing of what was taken back, fence nobody, and\n"
    "give messages the timestamps of their producers. Other topics are made when they are asked\n"
    "for, of four partitions.\n"
    "\n"
    "  --help   this text\n"
    "\n"
    "Exit status: 0; 1 if it could not run; 2 for misuse.\n";

static void misuse(const char *why)
{
    fprintf(stderr, "relay_kafka_mock: %s; see --help\n", why);
    exit(2);
}

static int number(const char *text)
{
    char *end;
    long found = strtol(text, &end, 10);
    if (end == text || *end || found < 1 || found > 1000)
        misuse("numbers are 1 to 1000");
    return (int)found;
}

static void make_topic(rd_kafka_mock_cluster_t *mock, char *topic, int brokers)
{
    char *colon = strrchr(topic, ':');
    if (!colon)
        misuse("a topic is NAME:PARTITIONS");
    *colon = '\0';
    if (rd_kafka_mock_topic_create(mock, topic, number(colon + 1), brokers) != 0) {
        fprintf(stderr, "relay_kafka_mock: %s cannot be made\n", topic);
        exit(1);
    }
}

int main(int count, char **words)
{
    char why[256], ignored[64];

    if (count == 2 && strcmp(words[1], "--help") == 0)
        return fputs(help, stdout) < 0;
    if (count < 2)
        misuse("how many brokers?");
    const int brokers = number(words[1]);
    rd_kafka_t *base = rd_kafka_new(RD_KAFKA_PRODUCER, rd_kafka_conf_new(), why, sizeof(why));
    rd_kafka_mock_cluster_t *mock = base ? rd_kafka_mock_cluster_new(base, brokers) : NULL;
    if (!mock) {
        fprintf(stderr, "relay_kafka_mock: %s\n", base ? "no brokers" : why);
        return 1;
    }
    for (int i = 2; i < count; i++)
        make_topic(mock, words[i], brokers);
    puts(rd_kafka_mock_cluster_bootstraps(mock));
    fflush(stdout);
    while (read(STDIN_FILENO, ignored, sizeof(ignored)) > 0)
        ;
    rd_kafka_mock_cluster_destroy(mock);
    rd_kafka_destroy(base);
    return 0;
}
