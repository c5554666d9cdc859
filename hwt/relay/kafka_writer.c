/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "hwt/relay/kafka_inside.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "hwt/relay/log.h"

/*
 * The library's classes of errors, and what is done:
 *
 *     retriable   the call is made again later; until then nothing is known of the transaction
 *     abortable   the transaction is taken back, and there will be another one
 *     fatal       the producer is ended, and the next one begins with fencing. A producer that was fenced
 *                 itself ends so; it then sees in the entry whether another replica has the shard
 */

void relay_kafka_writer_end(struct kafka_writer *writer)
{
    if (writer->rk) {
        rd_kafka_purge(writer->rk, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT |
                                       RD_KAFKA_PURGE_F_NON_BLOCKING);
        rd_kafka_destroy(writer->rk);
    }
    writer->rk = NULL;
    writer->holds = false;
    writer->state = KAFKA_IDLE;
}

static int open_writer(struct relay_kafka *kafka, struct kafka_writer *writer, const char *name)
{
    const uint64_t lease = kafka->config->lease / 1000000;
    char id[RELAY_ENTRY_MAX], patience[24], transaction[24], bytes[24];
    const char *number = strchr(name, '.') + 1; /* of "shard.0" */
    const char *const properties[] = { "transactional.id",
                                       id,
                                       "transaction.timeout.ms",
                                       transaction,
                                       "message.timeout.ms",
                                       patience,
                                       "message.max.bytes",
                                       bytes,
                                       "topic.metadata.propagation.max.ms",
                                       "0",
                                       "partitioner",
                                       "murmur2_random",
                                       "retry.backoff.ms",
                                       "50",
                                       "reconnect.backoff.max.ms",
                                       "1000",
                                       "allow.auto.create.topics",
                                       "false",
                                       NULL };
    int r;

    relay_kafka_writer_end(writer);
    relay_kafka_targets_end(kafka); /* the next producer has to know them, too */
    snprintf(id, sizeof(id), "%s-%s", kafka->config->space, number);
    snprintf(patience, sizeof(patience), "%" PRIu64, lease / 2); /* before the commit gives up */
    snprintf(transaction, sizeof(transaction), "%" PRIu64, lease < 5000 ? 10000 : 2 * lease);
    snprintf(bytes, sizeof(bytes), "%" PRIu64, kafka->config->message_max + 65536);
    writer->rk = relay_kafka_client(kafka, RD_KAFKA_PRODUCER, properties);
    snprintf(writer->name, sizeof(writer->name), "%s", name);
    if (!writer->rk)
        return -EINVAL;
    r = relay_kafka_topic(kafka, writer->rk, kafka->shards.reader.topic, (int)kafka->shard + 1);
    if (r < 0)
        relay_kafka_writer_end(writer);
    return r;
}

/* Notes an error and frees it. Whether the same call may be made again. */
static bool may_go_on(struct relay_kafka *kafka, struct kafka_writer *writer,
                      rd_kafka_error_t *error)
{
    bool retriable = rd_kafka_error_is_retriable(error) != 0;

    writer->error = rd_kafka_error_code(error);
    if (!retriable)
        relay_log(kafka->shard, "the transaction of %s: %s", writer->name,
                  rd_kafka_error_string(error));
    rd_kafka_error_destroy(error);
    return retriable;
}

static int fence(struct relay_kafka *kafka, struct kafka_writer *writer, const char *name)
{
    rd_kafka_error_t *error;
    int r = open_writer(kafka, writer, name);

    if (r < 0)
        return r;
    error = rd_kafka_init_transactions(writer->rk, relay_kafka_patience(kafka));
    if (!error)
        return 0;
    if (may_go_on(kafka, writer, error))
        r = -ETIMEDOUT;
    relay_kafka_writer_end(writer); /* else it goes on, and fences later who has the shard then */
    return r < 0 ? r : relay_kafka_errno(writer->error);
}

/* Somebody's entries arrive, though they cannot be read yet. */
static bool is_alive(struct relay_kafka *kafka)
{
    const struct kafka_table *table = &kafka->shards;

    return relay_kafka_entries_hide(table) &&
           relay_kafka_clock(&kafka->engine) - table->high_at < kafka->engine.lease;
}

/*
 * Replicas that claim a shard at the same time fence each other, and only the one that commits before the next one
 * begins has it. So one that was fenced waits for a time that is not the others'.
 */
static void stand_back(struct relay_kafka *kafka, struct kafka_writer *writer)
{
    const uint64_t now = relay_kafka_clock(&kafka->engine);

    writer->not_before = now + now % (kafka->config->lease / 8);
}

/* -EBUSY: somebody else's transaction may hide the entry. */
static int compare_behind_fence(struct relay_kafka *kafka, struct kafka_writer *writer,
                                const char *name, uint64_t revision)
{
    int r = relay_kafka_entry_compare(kafka, &kafka->shards, name, revision);
    bool hides = r != -ETIMEDOUT && relay_kafka_entries_hide(&kafka->shards);

    if (r == 0 && hides) {
        stand_back(kafka, writer);
        r = -EBUSY;
    }
    if (hides != kafka->hides)
        relay_log(kafka->shard,
                  hides ? "%s, partition %u, has an open transaction that is none of its owners', "
                          "so nobody can own the "
                          "shard until it ends"
                        : "%s, partition %u: that transaction has ended",
                  kafka->shards.reader.topic, kafka->shard);
    kafka->hides = hides;
    return r;
}

/*
 * It looks before it fences, too, so that a replica which has missed that another one has the shard does not disturb
 * that one. To take a transaction back the library may ask for a new epoch, which fences as well: a replica that was
 * stopped, and could do that, would hold the shard by a revision of before.
 */
int relay_kafka_writer_hold(struct relay_kafka *kafka, struct kafka_writer *writer,
                            const char *name, uint64_t revision)
{
    struct kafka_table *table = &kafka->shards;
    int r;

    if (writer->holds && writer->revision == revision) {
        r = writer->bumped ? relay_kafka_entry_compare(kafka, table, name, revision) : 0;
        writer->bumped = writer->bumped && r < 0;
        return r;
    }
    if (writer->state == KAFKA_OPEN || relay_kafka_clock(&kafka->engine) < writer->not_before)
        return -EAGAIN;
    if (writer->holds)
        relay_kafka_writer_end(writer); /* it, or the caller, does not know what there is */
    r = relay_kafka_entry_compare(kafka, table, name, revision);
    if (r == 0 && is_alive(kafka))
        r = -EAGAIN;
    if (r == 0)
        r = fence(kafka, writer, name);
    if (r == 0)
        r = compare_behind_fence(kafka, writer, name, revision);
    if (r < 0) {
        relay_kafka_writer_end(writer);
        return r;
    }
    writer->holds = true;
    writer->bumped = false;
    writer->revision = revision;
    return 0;
}

int relay_kafka_writer_begin(struct relay_kafka *kafka, struct kafka_writer *writer)
{
    rd_kafka_error_t *error;

    if (writer->state == KAFKA_OPEN)
        return 0;
    error = rd_kafka_begin_transaction(writer->rk);
    if (error) {
        may_go_on(kafka, writer, error);
        relay_kafka_writer_end(writer);
        return -ECANCELED;
    }
    writer->state = KAFKA_OPEN;
    writer->error = RD_KAFKA_RESP_ERR_NO_ERROR;
    writer->entry_error = RD_KAFKA_RESP_ERR_NO_ERROR;
    writer->offset = -1;
    return 0;
}

static int settle_abort(struct relay_kafka *kafka, struct kafka_writer *writer)
{
    const rd_kafka_resp_err_t why = writer->error;
    rd_kafka_error_t *error = rd_kafka_abort_transaction(writer->rk, relay_kafka_patience(kafka));
    bool again = error && may_go_on(kafka, writer, error);

    writer->error = why;
    if (again)
        return -ETIMEDOUT;
    writer->state = KAFKA_IDLE;
    writer->bumped = true;
    if (error)
        relay_kafka_writer_end(writer);
    return -ECANCELED;
}

int relay_kafka_writer_settle(struct relay_kafka *kafka, struct kafka_writer *writer)
{
    rd_kafka_error_t *error;
    bool aborts;

    if (writer->state == KAFKA_ABORTS)
        return settle_abort(kafka, writer);
    error = rd_kafka_commit_transaction(writer->rk, relay_kafka_patience(kafka));
    if (!error) {
        writer->state = KAFKA_IDLE;
        writer->revision = (uint64_t)writer->offset + 1;
        return 0;
    }
    aborts = rd_kafka_error_txn_requires_abort(error) != 0;
    if (may_go_on(kafka, writer, error))
        return -ETIMEDOUT;
    if (!aborts) {
        relay_kafka_writer_end(writer);
        stand_back(kafka, writer);
        return -ECANCELED;
    }
    return relay_kafka_writer_abort(kafka, writer);
}

int relay_kafka_writer_abort(struct relay_kafka *kafka, struct kafka_writer *writer)
{
    writer->state = KAFKA_ABORTS;
    return settle_abort(kafka, writer);
}

int relay_kafka_writer_commit(struct relay_kafka *kafka, struct kafka_writer *writer,
                              const char *text)
{
    rd_kafka_resp_err_t error = rd_kafka_producev(
        writer->rk, RD_KAFKA_V_TOPIC(kafka->shards.reader.topic),
        RD_KAFKA_V_PARTITION((int32_t)kafka->shard), RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY),
        RD_KAFKA_V_KEY(writer->name, strlen(writer->name)),
        RD_KAFKA_V_VALUE((void *)(uintptr_t)text, strlen(text)), RD_KAFKA_V_OPAQUE(NULL),
        RD_KAFKA_V_END);

    if (error) {
        writer->error = error;
        return relay_kafka_writer_abort(kafka, writer);
    }
    writer->state = KAFKA_COMMITS;
    return relay_kafka_writer_settle(kafka, writer);
}
