/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Producers: put, cancel, replace.
 *
 * Each first has room in the log, then decides and changes the table under the lock without letting go
 * of it, and then waits for its frame. So what the table says is what the log will say, and others
 * see it at once; nobody is handed a message that is not durable yet (take.c).
 */

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "hwt/delay/store.h"

/* Later releases give them a meaning. */
static bool is_reserved(const hwt_delay_message *message)
{
    uint64_t any = 0;
    for (size_t i = 0; i < sizeof(message->reserved) / sizeof(message->reserved[0]); i++)
        any |= message->reserved[i];
    return any == 0;
}

static bool is_identity(uint64_t due, const void *id, size_t id_size)
{
    return due != HWT_NEVER && id && id_size > 0 && id_size <= HWT_DELAY_ID_MAX;
}

static int check_messages(const hwt_delay *store, const hwt_delay_message *messages, size_t count)
{
    if (!store || !messages || count == 0)
        return -EINVAL;
    if (store->read_only)
        return -EROFS;
    bool too_long = false;
    for (size_t i = 0; i < count; i++) {
        const hwt_delay_message *message = &messages[i];
        if (!is_identity(message->due, message->id, message->id_size) ||
            (message->payload_size > 0 && !message->payload) ||
            message->retries > HWT_DELAY_RETRIES_MAX || !is_reserved(message))
            return -EINVAL;
        too_long = too_long || message->payload_size > store->options.payload_max;
    }
    return too_long ? -EMSGSIZE : 0;
}

static void free_batch(struct hwt_delay_record **records, size_t count)
{
    for (size_t i = 0; i < count; i++)
        hwt_delay_record_unref(records[i]);
    free(records);
}

/* Records of a batch, made without the lock. */
static int make_batch(const hwt_delay_message *messages, size_t count,
                      struct hwt_delay_record ***ret_records)
{
    if (count > SIZE_MAX / sizeof(struct hwt_delay_record *))
        return -EMSGSIZE;
    struct hwt_delay_record **records = malloc(count * sizeof(struct hwt_delay_record *));
    if (!records)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++) {
        records[i] = hwt_delay_record_new(HWT_DELAY_PUT, &messages[i]);
        if (!records[i]) {
            free_batch(records, i);
            return -ENOMEM;
        }
    }
    *ret_records = records;
    return 0;
}

/* Their bytes in the log; *ret_memory those in memory. */
static size_t size_batch(struct hwt_delay_record **records, size_t count, size_t *ret_memory)
{
    size_t size = 0, memory = 0;
    for (size_t i = 0; i < count; i++) {
        size += hwt_delay_encoded_size(records[i]);
        memory += hwt_delay_record_bytes(records[i]);
    }
    *ret_memory = memory;
    return size;
}

/* All slots are passed, and nothing is pending besides. */
static bool nothing_is_left(const hwt_delay *store)
{
    return store->wheel.passed_count == store->wheel.count && RB_EMPTY(&store->keys) &&
           store->leased_count == 0;
}

/* For the memory, the log, or to delete slots: those of a whole segment's length, or the last ones. */
static bool checkpoint_is_due(const hwt_delay *store)
{
    uint64_t segment = store->options.segment_size;
    return store->bytes[HWT_DELAY_FRESH] + store->erased_bytes >= store->options.memory / 4 ||
           store->log.kept_bytes >= segment / 2 || store->wheel.passed_bytes >= segment ||
           (store->wheel.passed_count > 0 && nothing_is_left(store)) || store->rewriting;
}

/* Called where the log has grown, or something is done. */
void hwt_delay_look_at_log(hwt_delay *store)
{
    if (store->checkpointing || store->wanted || store->stuck != 0 || !checkpoint_is_due(store))
        return;
    if (store->alone)
        hwt_delay_checkpoint_make(store);
    else
        hwt_delay_checkpoint_want(store);
}

/* Room was reserved, and the lock was held since. */
static uint64_t put_batch(hwt_delay *store, struct hwt_delay_record **records, size_t count)
{
    uint64_t frame = 0, now = store->system.realtime(store->system.data);
    for (size_t i = 0; i < count; i++) {
        records[i]->arrived = now;
        frame = hwt_delay_log_add(store, records[i], true);
        hwt_delay_apply_put(store, records[i]);
    }
    store->stats.put += count;
    return frame;
}

static int note_rejected(hwt_delay *store, size_t count, int r)
{
    if (r == -ENOSPC)
        store->stats.rejected += count;
    return r;
}

static int reserve_batch(hwt_delay *store, struct hwt_delay_record **records, size_t count,
                         bool wait)
{
    /* What was put can be retried, with an erase in the same frame. */
    const size_t erase = HWT_DELAY_RECORD_SIZE + HWT_DELAY_ID_MAX;
    size_t memory, size = size_batch(records, count, &memory);
    if (size + erase > store->log.frame_max - HWT_DELAY_FRAME_SIZE - 8)
        return -EMSGSIZE;
    int r = wait ? hwt_delay_log_reserve(store, size, memory, true)
                 : hwt_delay_log_try(store, size, memory);
    return note_rejected(store, count, r);
}

int hwt_delay_put(hwt_delay *store, const hwt_delay_message *messages, size_t count)
{
    struct hwt_delay_record **records;
    int r = check_messages(store, messages, count);
    if (r == 0)
        r = make_batch(messages, count, &records);
    if (r < 0)
        return r;
    pthread_mutex_lock(&store->lock);
    r = reserve_batch(store, records, count, true);
    if (r < 0) {
        pthread_mutex_unlock(&store->lock);
        free_batch(records, count);
        return r;
    }
    r = hwt_delay_log_wait(store, put_batch(store, records, count));
    hwt_delay_look_at_log(store);
    pthread_mutex_unlock(&store->lock);
    free(records);
    return r;
}

/*
 * Others have the lock for long now and then, as when a checkpoint begins. -EAGAIN: they still do. If
 * the clock is set back meanwhile, this is an ordinary wait for the lock.
 */
static int lock_soon(hwt_delay *store)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += (long)HWT_US(500);
    if (until.tv_nsec >= (long)HWT_SEC(1)) {
        until.tv_nsec -= (long)HWT_SEC(1);
        until.tv_sec++;
    }
    return pthread_mutex_timedlock(&store->lock, &until) == 0 ? 0 : -EAGAIN;
}

/* With the lock: the batch is in the log, and its notice is where it will be told. */
static int put_noticed(hwt_delay *store, struct hwt_delay_record **records, size_t count,
                       struct hwt_delay_notice *notice, bool wait)
{
    int r = reserve_batch(store, records, count, wait);
    if (r < 0)
        return r;
    uint64_t frame = put_batch(store, records, count);
    STAILQ_INSERT_TAIL(&store->log.notices, notice, link);
    if (store->alone)
        hwt_delay_log_wait(store, frame);
    else
        pthread_cond_signal(&store->committer_wake);
    hwt_delay_look_at_log(store);
    return 0;
}

int hwt_delay_put_async(hwt_delay *store, const hwt_delay_message *messages, size_t count,
                        hwt_delay_durable durable, void *arg)
{
    struct hwt_delay_record **records;
    int r = durable ? check_messages(store, messages, count) : -EINVAL;
    if (r < 0)
        return r;
    struct hwt_delay_notice *notice = malloc(sizeof(*notice));
    if (!notice)
        return -ENOMEM;
    *notice = (struct hwt_delay_notice){ .durable = durable, .arg = arg };
    r = make_batch(messages, count, &records);
    if (r < 0) {
        free(notice);
        return r;
    }
    bool wait = store->alone || !(store->options.flags & HWT_DELAY_NO_WAIT);
    r = wait ? pthread_mutex_lock(&store->lock) : lock_soon(store);
    if (r == 0) {
        r = put_noticed(store, records, count, notice, wait);
        pthread_mutex_unlock(&store->lock);
    }
    if (r < 0) {
        free_batch(records, count);
        free(notice);
        return r;
    }
    free(records);
    return 0;
}

/* The thread that writes what nobody waits for, and calls back. */
void *hwt_delay_committer(void *arg)
{
    hwt_delay *store = arg;
    pthread_mutex_lock(&store->lock);
    while (!store->closing) {
        if (!STAILQ_EMPTY(&store->log.to_tell))
            hwt_delay_log_tell(store);
        else if (STAILQ_EMPTY(&store->log.notices))
            pthread_cond_wait(&store->committer_wake, &store->lock);
        else if (!store->log.writing)
            hwt_delay_log_lead(store);
        else
            pthread_cond_wait(&store->changed, &store->lock);
    }
    pthread_mutex_unlock(&store->lock);
    return NULL;
}

/* 0: there is, or may be, such a message. -EBUSY, -ENOENT */
static int look_for(hwt_delay *store, uint64_t due, const void *id, size_t id_size)
{
    if (hwt_delay_find(&store->leased, due, id, id_size))
        return -EBUSY;
    const struct hwt_delay_record *there = hwt_delay_find(&store->identities, due, id, id_size);
    if (there && there->kind == HWT_DELAY_PUT)
        return 0;
    /* An erase that opening read from the log may be of an older message than what a slot has. */
    if (there && there->key.sequence >= store->log.kept_sequence)
        return -ENOENT;
    const struct hwt_delay_key behind = { due, UINT64_MAX };
    bool is_unknown = due >= store->loaded.due || hwt_delay_gap_at(store, behind);
    return is_unknown && hwt_delay_wheel_covers(store, due) ? 0 : -ENOENT;
}

/* Cancels, and puts `record` if there is one. *ret_frame brings it to the disk. */
static int cancel(hwt_delay *store, struct hwt_delay_record *erase, struct hwt_delay_record *record,
                  uint64_t *ret_frame)
{
    size_t size = hwt_delay_encoded_size(erase), memory = 0;
    if (record) {
        size += hwt_delay_encoded_size(record);
        memory = hwt_delay_record_bytes(record);
    }
    int r = hwt_delay_log_reserve(store, size, memory, record != NULL);
    if (r < 0)
        return record ? note_rejected(store, 1, r) : r;
    hwt_delay_leases_expire(store);
    r = look_for(store, erase->key.due, erase->bytes, erase->id_size);
    if (r < 0)
        return r;
    *ret_frame = hwt_delay_log_add(store, erase, true);
    hwt_delay_apply_erase(store, erase);
    if (record)
        *ret_frame = put_batch(store, &record, 1);
    store->stats.cancelled++;
    return 0;
}

static int cancel_and_put(hwt_delay *store, uint64_t due, const void *id, size_t id_size,
                          struct hwt_delay_record *record)
{
    const hwt_delay_message message = { .due = due, .id = id, .id_size = id_size };
    struct hwt_delay_record *erase = hwt_delay_record_new(HWT_DELAY_ERASE, &message);
    uint64_t frame;
    int r = erase ? 0 : -ENOMEM;
    pthread_mutex_lock(&store->lock);
    if (r == 0)
        r = cancel(store, erase, record, &frame);
    if (r == 0) { /* the table has both */
        r = hwt_delay_log_wait(store, frame);
        hwt_delay_look_at_log(store);
        pthread_mutex_unlock(&store->lock);
        return r;
    }
    pthread_mutex_unlock(&store->lock);
    if (erase)
        hwt_delay_record_unref(erase);
    if (record)
        hwt_delay_record_unref(record);
    return r;
}

int hwt_delay_cancel(hwt_delay *store, uint64_t due, const void *id, size_t id_size)
{
    if (!store || !is_identity(due, id, id_size))
        return -EINVAL;
    if (store->read_only)
        return -EROFS;
    return cancel_and_put(store, due, id, id_size, NULL);
}

int hwt_delay_replace(hwt_delay *store, uint64_t due, const void *id, size_t id_size,
                      const hwt_delay_message *message)
{
    int r = check_messages(store, message, 1);
    if (r == 0 && !is_identity(due, id, id_size))
        r = -EINVAL;
    if (r < 0)
        return r;
    struct hwt_delay_record *record = hwt_delay_record_new(HWT_DELAY_PUT, message);
    if (!record)
        return -ENOMEM;
    return cancel_and_put(store, due, id, id_size, record);
}
