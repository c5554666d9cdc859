/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * RocksDB, by its C interface: due time and id as key, one write with sync a batch; it gathers
 * what several threads write. Payloads do not compress, so that is off. What is behind a take
 * is not looked at again: the tombstones there would make each take slower.
 */

#include "compare.h"

#include <rocksdb/c.h>
#include <stdlib.h>
#include <string.h>

#define KEY_SIZE (8 + ID_SIZE)

static rocksdb_t *db;
static rocksdb_options_t *opening;
static rocksdb_writeoptions_t *synced;
/* The last key that was taken; under the lock, as taking is. */
static char position[KEY_SIZE];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void check(const char *what, char *error)
{
    if (error)
        die("%s: %s", what, error);
}

static void open_store(const char *directory)
{
    char *error = NULL;

    opening = rocksdb_options_create();
    rocksdb_options_set_create_if_missing(opening, 1);
    rocksdb_options_increase_parallelism(opening, 2);
    rocksdb_options_set_compression(opening, rocksdb_no_compression);
    synced = rocksdb_writeoptions_create();
    rocksdb_writeoptions_set_sync(synced, 1);
    memset(position, 0, sizeof(position));
    db = rocksdb_open(opening, directory, &error);
    check("open", error);
}

static void close_store(void)
{
    rocksdb_close(db);
    rocksdb_options_destroy(opening);
    rocksdb_writeoptions_destroy(synced);
}

static void key_of(char key[KEY_SIZE], uint64_t due, const char *id)
{
    uint64_t sorted = __builtin_bswap64(due);

    memcpy(key, &sorted, 8);
    memcpy(key + 8, id, ID_SIZE);
}

static void put(void *handle, const struct message *messages, size_t count)
{
    rocksdb_writebatch_t *batch = rocksdb_writebatch_create();
    char *error = NULL;

    (void)handle;
    for (size_t i = 0; i < count; i++) {
        char key[KEY_SIZE];
        key_of(key, messages[i].due, messages[i].id);
        rocksdb_writebatch_put(batch, key, KEY_SIZE, messages[i].payload, messages[i].payload_size);
    }
    rocksdb_write(db, synced, batch, &error);
    check("put", error);
    rocksdb_writebatch_destroy(batch);
}

static size_t take(void *handle, uint64_t now, size_t max, taken_function taken, void *arg)
{
    char end[KEY_SIZE], *error = NULL;
    size_t count = 0;

    (void)handle;
    key_of(end, now, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff");
    pthread_mutex_lock(&lock);
    rocksdb_readoptions_t *reading = rocksdb_readoptions_create();
    rocksdb_readoptions_set_iterate_upper_bound(reading, end, KEY_SIZE);
    rocksdb_iterator_t *at = rocksdb_create_iterator(db, reading);
    rocksdb_writebatch_t *batch = rocksdb_writebatch_create();
    for (rocksdb_iter_seek(at, position, KEY_SIZE); count < max && rocksdb_iter_valid(at);
         rocksdb_iter_next(at), count++) {
        size_t size;
        uint64_t due;
        const char *key = rocksdb_iter_key(at, &size);
        rocksdb_iter_value(at, &size);
        rocksdb_writebatch_delete(batch, key, KEY_SIZE);
        memcpy(position, key, KEY_SIZE);
        memcpy(&due, key, 8);
        if (taken)
            taken(__builtin_bswap64(due), arg);
    }
    rocksdb_iter_get_error(at, &error);
    check("take", error);
    if (count > 0)
        rocksdb_write(db, synced, batch, &error);
    check("done", error);
    pthread_mutex_unlock(&lock);
    rocksdb_writebatch_destroy(batch);
    rocksdb_iter_destroy(at);
    rocksdb_readoptions_destroy(reading);
    return count;
}

const struct contender contender = {
    .name = "rocksdb",
    .open = open_store,
    .close = close_store,
    .put = put,
    .take = take,
};
