/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * An outbox beside SQLite: cc -pthread outbox.c $(pkg-config --cflags --libs hwt-delay sqlite3)
 *
 *     (echo 1500 tea; sleep 2) | ./a.out orders.db DIRECTORY
 *
 * A line of input is a number of milliseconds and a name: an order, and when to remind of it. The order is in
 * the program's own database, the reminder is to be in the store, and no kill may leave one without the
 * other. No transaction spans both. So the transaction that writes the order also writes a row of the
 * outbox, with the due time and the id that the message will have. A thread puts such rows into the store,
 * and deletes them when that is on the disk.
 *
 * If the program is killed between the two, the put is repeated after the next start. A message with the
 * same due time and id replaces the first one, so there are not two. If the first one was delivered
 * already, it is delivered again; so the order says whether it was reminded of.
 */

#include <errno.h>
#include <hwt/delay.h>
#include <inttypes.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { AT_ONCE = 100, NAME_MAX_SIZE = 64 };

static const char *path;
static hwt_delay *store;
static atomic_bool ending;

static int64_t check(const char *what, int64_t r)
{
    if (r >= 0)
        return r;
    fprintf(stderr, "outbox: %s: %s\n", what, strerror((int)-r));
    exit(1);
}

static void check_sql(sqlite3 *db, bool good)
{
    if (good)
        return;
    fprintf(stderr, "outbox: %s: %s\n", path, sqlite3_errmsg(db));
    exit(1);
}

static void execute(sqlite3 *db, const char *sql)
{
    check_sql(db, sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK);
}

/* A statement has the name as ?1 and the number as ?2, as far as it has them. Returns how many rows it
 * has changed. */
static int change(sqlite3 *db, const char *sql, const char *name, size_t name_size, uint64_t number)
{
    sqlite3_stmt *statement;
    check_sql(db, sqlite3_prepare_v2(db, sql, -1, &statement, NULL) == SQLITE_OK);
    sqlite3_bind_text(statement, 1, name, (int)name_size, SQLITE_STATIC);
    sqlite3_bind_int64(statement, 2, (sqlite3_int64)number);
    check_sql(db, sqlite3_step(statement) == SQLITE_DONE);
    sqlite3_finalize(statement);
    return sqlite3_changes(db);
}

/* Each thread has a connection of its own. */
static sqlite3 *connect_db(void)
{
    sqlite3 *db;
    int result = sqlite3_open(path, &db); /* sets `db` also where it fails */
    check_sql(db, result == SQLITE_OK);
    sqlite3_busy_timeout(db, 60000);
    execute(db, "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL");
    execute(db, "CREATE TABLE IF NOT EXISTS orders"
                " (name TEXT PRIMARY KEY, due INTEGER, reminded INTEGER DEFAULT 0);"
                "CREATE TABLE IF NOT EXISTS outbox"
                " (number INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT, due INTEGER)");
    return db;
}

/* The due time is chosen here, once, so that a put may be repeated. */
static void order(sqlite3 *db, const char *name, uint64_t ms)
{
    uint64_t due = hwt_delay_now(store) + HWT_MS(ms);
    size_t size = strlen(name);
    execute(db, "BEGIN IMMEDIATE");
    bool is_new =
        change(db, "INSERT OR IGNORE INTO orders (name, due) VALUES (?1, ?2)", name, size, due) > 0;
    if (is_new)
        change(db, "INSERT INTO outbox (name, due) VALUES (?1, ?2)", name, size, due);
    execute(db, "COMMIT");
    printf("%s %s\n", is_new ? "ordered" : "known", name);
    fflush(stdout);
    check("store", hwt_delay_wake(store));
}

/* Rows of the outbox become messages, then they are deleted. */
static void move_rows(sqlite3 *db)
{
    hwt_delay_message messages[AT_ONCE];
    char names[AT_ONCE][NAME_MAX_SIZE];
    size_t count;
    do {
        sqlite3_stmt *rows;
        uint64_t last = 0;
        memset(messages, 0, sizeof(messages));
        check_sql(db, sqlite3_prepare_v2(db, "SELECT number, name, due FROM outbox ORDER BY number",
                                         -1, &rows, NULL) == SQLITE_OK);
        for (count = 0; count < AT_ONCE && sqlite3_step(rows) == SQLITE_ROW; count++) {
            last = (uint64_t)sqlite3_column_int64(rows, 0);
            snprintf(names[count], NAME_MAX_SIZE, "%s", (const char *)sqlite3_column_text(rows, 1));
            messages[count].id = names[count];
            messages[count].id_size = strlen(names[count]);
            messages[count].due = (uint64_t)sqlite3_column_int64(rows, 2);
        }
        check_sql(db, sqlite3_finalize(rows) == SQLITE_OK);
        if (count > 0) {
            check("put", hwt_delay_put(store, messages, count)); /* 0: it is on the disk */
            change(db, "DELETE FROM outbox WHERE number <= ?2", "", 0, last);
        }
    } while (count == AT_ONCE);
}

/* The database says that it was reminded of before the store says that this is done. */
static void deliver(sqlite3 *db, uint64_t wait)
{
    const hwt_delay_message *taken;
    uint64_t leases[AT_ONCE];
    int64_t n = hwt_delay_take(store, AT_ONCE, wait, &taken);
    if (n <= 0) {
        check("take", n == -ECANCELED ? 0 : n);
        return;
    }
    execute(db, "BEGIN IMMEDIATE");
    for (int64_t i = 0; i < n; i++) {
        bool first = change(db, "UPDATE orders SET reminded = 1 WHERE name = ?1 AND reminded = 0",
                            taken[i].id, taken[i].id_size, 0) > 0;
        printf("%s %.*s\n", first ? "remind" : "again", (int)taken[i].id_size,
               (const char *)taken[i].id);
        leases[i] = taken[i].lease;
    }
    execute(db, "COMMIT");
    fflush(stdout);
    check("done", hwt_delay_done(store, leases, (size_t)n));
    hwt_delay_free(taken);
}

/* An order wakes it, and so does the end of the input. */
static void *move_and_deliver(void *unused)
{
    sqlite3 *db = connect_db();
    bool last;
    (void)unused;
    do {
        last = atomic_load(&ending);
        move_rows(db);
        deliver(db, last ? 0 : HWT_NEVER);
    } while (!last);
    sqlite3_close(db);
    return NULL;
}

int main(int argc, char **argv)
{
    hwt_delay_options options = HWT_DELAY_OPTIONS_INIT;
    char line[256], name[NAME_MAX_SIZE];
    pthread_t thread;
    unsigned ms;
    if (argc != 3) {
        fprintf(stderr, "usage: %s DATABASE DIRECTORY\n", argv[0]);
        return 2;
    }
    path = argv[1];
    sqlite3 *db = connect_db();
    options.flags = HWT_DELAY_CREATE;
    options.payload_max = 4096;
    options.segment_size = 1 << 20;
    check(argv[2], hwt_delay_open(argv[2], &options, &store));
    check("thread", -pthread_create(&thread, NULL, move_and_deliver, NULL));
    while (fgets(line, sizeof(line), stdin)) {
        if (sscanf(line, "%u %63s", &ms, name) == 2)
            order(db, name, ms);
        else
            fprintf(stderr, "outbox: a line is MILLISECONDS NAME, and not: %s", line);
    }
    atomic_store(&ending, true);
    check("store", hwt_delay_wake(store));
    pthread_join(thread, NULL);
    sqlite3_close(db);
    return hwt_delay_close(store) < 0;
}
