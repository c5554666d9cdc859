/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * SQLite: a table by due time and id, journal_mode WAL, synchronous FULL, one connection under a
 * lock, all that waits in one transaction.
 */

#include "compare.h"

#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

static sqlite3 *db;
static sqlite3_stmt *beginning, *committing, *inserting, *selecting, *deleting;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all of these */

static void check(const char *what, int result)
{
    if (result != SQLITE_OK && result != SQLITE_DONE && result != SQLITE_ROW)
        die("%s: %s", what, sqlite3_errmsg(db));
}

static sqlite3_stmt *prepare(const char *text)
{
    sqlite3_stmt *statement;

    check(text, sqlite3_prepare_v2(db, text, -1, &statement, NULL));
    return statement;
}

static void run(sqlite3_stmt *statement)
{
    check(sqlite3_sql(statement), sqlite3_step(statement));
    check(sqlite3_sql(statement), sqlite3_reset(statement));
}

static void open_store(const char *directory)
{
    char path[4096];

    snprintf(path, sizeof(path), "%s/messages.db", directory);
    check(path, sqlite3_open(path, &db));
    check("open", sqlite3_exec(db,
                               "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
                               "CREATE TABLE IF NOT EXISTS message (due INTEGER, id BLOB,"
                               " payload BLOB, PRIMARY KEY (due, id)) WITHOUT ROWID",
                               NULL, NULL, NULL));
    beginning = prepare("BEGIN IMMEDIATE");
    committing = prepare("COMMIT");
    inserting = prepare("INSERT OR REPLACE INTO message VALUES (?, ?, ?)");
    selecting = prepare("SELECT due, id, payload FROM message WHERE due <= ?"
                        " ORDER BY due, id LIMIT ?");
    deleting = prepare("DELETE FROM message WHERE due = ? AND id = ?");
}

static void close_store(void)
{
    sqlite3_finalize(beginning);
    sqlite3_finalize(committing);
    sqlite3_finalize(inserting);
    sqlite3_finalize(selecting);
    sqlite3_finalize(deleting);
    sqlite3_close(db);
}

static void commit(const struct gathered *list)
{
    pthread_mutex_lock(&lock);
    run(beginning);
    for (; list; list = list->next)
        for (size_t i = 0; i < list->count; i++) {
            const struct message *m = &list->messages[i];
            sqlite3_bind_int64(inserting, 1, (sqlite3_int64)m->due);
            sqlite3_bind_blob(inserting, 2, m->id, ID_SIZE, SQLITE_STATIC);
            sqlite3_bind_blob(inserting, 3, m->payload, (int)m->payload_size, SQLITE_STATIC);
            run(inserting);
        }
    run(committing);
    pthread_mutex_unlock(&lock);
}

static void put(void *handle, const struct message *messages, size_t count)
{
    (void)handle;
    gather(messages, count, commit);
}

/* Reads up to so many that are due; their keys are what is to be deleted. */
static size_t read_due(uint64_t now, size_t max, sqlite3_int64 *dues, char (*ids)[ID_SIZE])
{
    size_t count = 0;

    sqlite3_bind_int64(selecting, 1, (sqlite3_int64)now);
    sqlite3_bind_int64(selecting, 2, (sqlite3_int64)max);
    while (sqlite3_step(selecting) == SQLITE_ROW) {
        dues[count] = sqlite3_column_int64(selecting, 0);
        memcpy(ids[count++], sqlite3_column_blob(selecting, 1), ID_SIZE);
        sqlite3_column_blob(selecting, 2);
    }
    check("take", sqlite3_reset(selecting));
    return count;
}

#define AT_ONCE 1000

static size_t take(void *handle, uint64_t now, size_t max, taken_function taken, void *arg)
{
    static sqlite3_int64 dues[AT_ONCE]; /* under the lock */
    static char ids[AT_ONCE][ID_SIZE];

    (void)handle;
    pthread_mutex_lock(&lock);
    size_t count = read_due(now, max < AT_ONCE ? max : AT_ONCE, dues, ids);
    for (size_t i = 0; taken && i < count; i++)
        taken((uint64_t)dues[i], arg);
    if (count > 0)
        run(beginning);
    for (size_t i = 0; i < count; i++) {
        sqlite3_bind_int64(deleting, 1, dues[i]);
        sqlite3_bind_blob(deleting, 2, ids[i], ID_SIZE, SQLITE_STATIC);
        run(deleting);
    }
    if (count > 0)
        run(committing);
    pthread_mutex_unlock(&lock);
    return count;
}

const struct contender contender = {
    .name = "sqlite",
    .open = open_store,
    .close = close_store,
    .put = put,
    .take = take,
};
