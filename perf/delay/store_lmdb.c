/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * LMDB: due time and id as key, all that waits in one transaction, which is flushed when it is
 * committed.
 */

#include "compare.h"

#include <lmdb.h>
#include <stdlib.h>
#include <string.h>

#define KEY_SIZE (8 + ID_SIZE)
#define MAP_SIZE ((size_t)1 << 38)

static MDB_env *environment;
static MDB_dbi table;

static void check(const char *what, int result)
{
    if (result != 0)
        die("%s: %s", what, mdb_strerror(result));
}

static MDB_txn *begin(void)
{
    MDB_txn *transaction;

    check("begin", mdb_txn_begin(environment, NULL, 0, &transaction));
    return transaction;
}

static void open_store(const char *directory)
{
    check("open", mdb_env_create(&environment));
    check("open", mdb_env_set_mapsize(environment, MAP_SIZE));
    check("open", mdb_env_open(environment, directory, 0, 0666));
    MDB_txn *transaction = begin();
    check("open", mdb_dbi_open(transaction, NULL, 0, &table));
    check("open", mdb_txn_commit(transaction));
}

static void close_store(void)
{
    mdb_env_close(environment);
}

static void commit(const struct gathered *list)
{
    MDB_txn *transaction = begin();

    for (; list; list = list->next)
        for (size_t i = 0; i < list->count; i++) {
            const struct message *m = &list->messages[i];
            char bytes[KEY_SIZE];
            uint64_t sorted = __builtin_bswap64(m->due);
            memcpy(bytes, &sorted, 8);
            memcpy(bytes + 8, m->id, ID_SIZE);
            MDB_val key = { KEY_SIZE, bytes }, value = { m->payload_size, (void *)m->payload };
            check("put", mdb_put(transaction, table, &key, &value, 0));
        }
    check("commit", mdb_txn_commit(transaction));
}

static void put(void *handle, const struct message *messages, size_t count)
{
    (void)handle;
    gather(messages, count, commit);
}

/* Only a store that has something due is written to. */
static bool is_due(uint64_t now)
{
    MDB_txn *transaction;
    MDB_cursor *cursor;
    MDB_val key, value;
    uint64_t due;

    check("take", mdb_txn_begin(environment, NULL, MDB_RDONLY, &transaction));
    check("take", mdb_cursor_open(transaction, table, &cursor));
    bool found = mdb_cursor_get(cursor, &key, &value, MDB_FIRST) == 0;
    if (found) {
        memcpy(&due, key.mv_data, 8);
        found = __builtin_bswap64(due) <= now;
    }
    mdb_cursor_close(cursor);
    mdb_txn_abort(transaction);
    return found;
}

static size_t take(void *handle, uint64_t now, size_t max, taken_function taken, void *arg)
{
    size_t count = 0;
    MDB_cursor *cursor;
    MDB_val key, value;

    (void)handle;
    if (!is_due(now))
        return 0;
    MDB_txn *transaction = begin();
    check("take", mdb_cursor_open(transaction, table, &cursor));
    for (; count < max && mdb_cursor_get(cursor, &key, &value, MDB_FIRST) == 0; count++) {
        uint64_t due;
        memcpy(&due, key.mv_data, 8);
        due = __builtin_bswap64(due);
        if (due > now)
            break;
        if (taken)
            taken(due, arg);
        check("done", mdb_cursor_del(cursor, 0));
    }
    mdb_cursor_close(cursor);
    check("done", mdb_txn_commit(transaction));
    return count;
}

const struct contender contender = {
    .name = "lmdb",
    .open = open_store,
    .close = close_store,
    .put = put,
    .take = take,
};
