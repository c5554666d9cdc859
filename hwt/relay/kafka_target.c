/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "hwt/relay/kafka_inside.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * A message for a topic that is not there, or has no leader, would take its whole transaction with it. So the cluster
 * is asked for all its topics before something goes to one: in one question, because the answer is waited for. It is asked again for
 * a topic that is not among them, but no more often than twice a lease, and for others after half a minute.
 *
 * A topic that has failed all the same gets nothing for the length of a lease, and for twice as long each further time, up
 * to eight leases. Messages for it get the same answer at once, and disturb no transaction.
 */
#define GOOD HWT_SEC(30)
enum { DOUBLED_MAX = 3, PLACES = 8 };

static const char *topic_fault(const char *topic)
{
    size_t length = strlen(topic);

    if (length > KAFKA_NAME_MAX ||
        strspn(topic, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWX"
                      "YZ0123456789._-") != length)
        return "it is no name of a topic";
    return strncmp(topic, "__", 2) == 0 ? "it is one of the cluster's own" : NULL;
}

/* ---- Those that have failed, each in one of a few places by its hash ---- */

static struct kafka_target *place_of(struct relay_kafka *kafka, const char *name, uint32_t number)
{
    uint32_t hash = UINT32_C(0x811c9dc5);

    for (const char *c = name; *c; c++)
        hash = (hash ^ (unsigned char)*c) * UINT32_C(0x01000193);
    return &kafka->targets[(hash + number) % KAFKA_TARGETS_MAX];
}

static struct kafka_target *find(struct relay_kafka *kafka, const char *name)
{
    for (uint32_t i = 0; i < PLACES; i++)
        if (strcmp(place_of(kafka, name, i)->topic, name) == 0)
            return place_of(kafka, name, i);
    return NULL;
}

/* In place of the one that is tried again first. */
static struct kafka_target *make(struct relay_kafka *kafka, const char *name)
{
    struct kafka_target *target = place_of(kafka, name, 0);

    for (uint32_t i = 1; i < PLACES; i++)
        if (place_of(kafka, name, i)->until < target->until)
            target = place_of(kafka, name, i);
    *target = (struct kafka_target){ .until = 0 };
    snprintf(target->topic, sizeof(target->topic), "%s", name);
    return target;
}

/* ---- Those that are there ---- */

static int compare_names(const void *a, const void *b)
{
    const rd_kafka_metadata_topic_t *left = *(const rd_kafka_metadata_topic_t *const *)a,
                                    *right = *(const rd_kafka_metadata_topic_t *const *)b;

    return strcmp(left->topic, right->topic);
}

static void forget(struct kafka_topics *topics)
{
    free(topics->sorted);
    if (topics->all)
        rd_kafka_metadata_destroy(topics->all);
    *topics = (struct kafka_topics){ .asked_at = topics->asked_at };
}

void relay_kafka_targets_end(struct relay_kafka *kafka)
{
    forget(&kafka->topics);
    kafka->topics.asked_at = 0;
}

static void ask(struct relay_kafka *kafka)
{
    struct kafka_topics *topics = &kafka->topics;
    const struct rd_kafka_metadata *all;

    topics->asked_at = relay_kafka_clock(&kafka->engine);
    if (rd_kafka_metadata(kafka->owner.rk, 1, NULL, &all, relay_kafka_wait_ms(kafka)))
        return;
    forget(topics);
    topics->all = all;
    topics->sorted = malloc((size_t)all->topic_cnt * sizeof(topics->sorted[0]) + 1);
    for (int i = 0; topics->sorted && i < all->topic_cnt; i++)
        topics->sorted[topics->count++] = &all->topics[i];
    if (topics->sorted)
        qsort(topics->sorted, topics->count, sizeof(topics->sorted[0]), compare_names);
}

/* 0, or why nothing can go there. */
static int judge(const struct kafka_topics *topics, const char *name)
{
    rd_kafka_metadata_topic_t wanted = { .topic = (char *)(uintptr_t)name };
    const rd_kafka_metadata_topic_t *key = &wanted, **found;

    found = topics->count > 0 ? bsearch(&key, topics->sorted, topics->count,
                                        sizeof(topics->sorted[0]), compare_names)
                              : NULL;
    if (!found || (*found)->err)
        return found && relay_kafka_errno((*found)->err) == -EACCES ? -EACCES : -EHOSTUNREACH;
    for (int i = 0; i < (*found)->partition_cnt; i++)
        if ((*found)->partitions[i].leader < 0)
            return -EHOSTUNREACH;
    return 0;
}

static int look(struct relay_kafka *kafka, const char *name)
{
    struct kafka_topics *topics = &kafka->topics;
    const uint64_t ago = relay_kafka_clock(&kafka->engine) - topics->asked_at;
    int r = judge(topics, name);

    if (topics->asked_at == 0 || ago >= GOOD || (r < 0 && ago >= kafka->config->lease / 2)) {
        ask(kafka);
        r = judge(topics, name);
    }
    return topics->sorted ? r : -EAGAIN;
}

/* ---- Calls ---- */

int relay_kafka_target_look(struct relay_kafka *kafka, const char *name)
{
    const struct kafka_target *target;

    if (topic_fault(name))
        return -EINVAL;
    target = find(kafka, name);
    return target && relay_kafka_clock(&kafka->engine) < target->until ? target->error
                                                                       : look(kafka, name);
}

void relay_kafka_target_failed(struct relay_kafka *kafka, const char *name, int error)
{
    struct kafka_target *target = find(kafka, name);

    if (!target)
        target = make(kafka, name);
    target->error = error;
    target->until = relay_kafka_clock(&kafka->engine) + (kafka->config->lease << target->doubled);
    if (target->doubled < DOUBLED_MAX)
        target->doubled++;
}

void relay_kafka_target_took(struct relay_kafka *kafka, const char *name)
{
    struct kafka_target *target = find(kafka, name);

    if (target)
        target->doubled = 0;
}
