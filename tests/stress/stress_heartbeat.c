/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Heartbeats whose callbacks stop, restart and free while threads do the same.
 *
 * - A connection that is closed by its callback or by a thread, whoever takes it first, is freed
 *   once, at once, and nobody looks at it after. Its fields are plain, so that a sanitizer sees
 *   an access that is not ordered before the free.
 * - Whatever is called at once on one object: callbacks never overlap, none runs after the last
 *   synchronous stop, and starts and stops that were true take turns.
 * - Of the instants that threads note at once the newest counts.
 */

#include "stress.h"

#include <hwt/heartbeat.h>

enum { LIVE = 0x11fe11fe, THREADS = 2, SLOTS = 48, OBJECTS = 12 };

#define TICK HWT_US(20)

/* Whether a thread goes on: until there have been rounds and events enough. */
static bool goes_on(unsigned round, unsigned rounds, shared_count *events, uint64_t begin)
{
    return round < rounds || (*events < test_scaled(10000) && monotonic() < begin + HWT_SEC(30));
}

/* ---- Freed once ---- */

struct connection {
    hwt_heartbeat heartbeat;
    unsigned magic, told;
    struct slot *slot;
};

struct slot {
    struct connection *_Atomic connection;
    struct traffic *traffic;
};

struct traffic {
    struct rig rig;
    struct slot slots[SLOTS];
    uint64_t seed;
    shared_count next_thread, opened, closed_by_thread, closed_by_callback, told, restarted;
};

static void connection_free(struct connection *connection)
{
    memset(connection, 0x6b, sizeof(*connection));
    free(connection);
}

static void connection_told(hwt_heartbeat *heartbeat, hwt_heartbeat_event event, uint64_t count,
                            void *arg);

static const hwt_heartbeat_rules connection_rules[] = {
    { .dead = 3 * TICK, .send = TICK, .notify = connection_told },
    { .dead = TICK, .reader_idle = 1, .notify = connection_told },
    { .dead = 5 * TICK, .writer_idle = 2 * TICK, .all_idle = 1, .notify = connection_told },
    { .dead = 1,
      .reader_idle = 1,
      .writer_idle = 1,
      .all_idle = 1,
      .send = 1,
      .notify = connection_told },
};

static const hwt_heartbeat_rules *any_rules(uint64_t random)
{
    return &connection_rules[random % (sizeof(connection_rules) / sizeof(*connection_rules))];
}

static void connection_told(hwt_heartbeat *heartbeat, hwt_heartbeat_event event, uint64_t count,
                            void *arg)
{
    struct connection *connection = arg, *mine = arg;
    struct traffic *traffic = connection->slot->traffic;
    expect(connection->magic == LIVE && count > 0, &traffic->rig.broken);
    connection->told++;
    traffic->told++;
    spin(connection->told % 64);
    if (event == HWT_HEARTBEAT_SEND) {
        hwt_heartbeat_written(heartbeat);
    } else if (event == HWT_HEARTBEAT_WRITER_IDLE) {
        hwt_heartbeat_stop(heartbeat);
        traffic->restarted += hwt_heartbeat_start(heartbeat, traffic->rig.timer,
                                                  any_rules(connection->told), arg) == 0;
    } else if (event == HWT_HEARTBEAT_DEAD && connection->told > 3 &&
               atomic_compare_exchange_strong(&connection->slot->connection, &mine, NULL)) {
        expect(hwt_heartbeat_stop(heartbeat), &traffic->rig.broken);
        traffic->closed_by_callback++;
        connection_free(connection);
    }
}

static struct connection *connection_open(struct slot *slot, uint64_t *random)
{
    struct connection *connection = calloc(1, sizeof(*connection));
    if (!connection)
        abort();
    connection->magic = LIVE;
    connection->slot = slot;
    expect(hwt_heartbeat_start(&connection->heartbeat, slot->traffic->rig.timer,
                               any_rules(test_random(random)), connection) == 0,
           &slot->traffic->rig.broken);
    slot->traffic->opened++;
    return connection;
}

/* What the thread that has taken a connection out of its slot does with it. False: freed. */
static bool connection_use(struct traffic *traffic, struct connection *connection, uint64_t *random)
{
    hwt_heartbeat *heartbeat = &connection->heartbeat;
    uint64_t now = hwt_timer_now(traffic->rig.timer);
    spin(below(random, 10000));
    switch (below(random, 16)) {
    case 0:
        hwt_heartbeat_stop_sync(heartbeat);
        expect(connection->magic == LIVE, &traffic->rig.broken);
        connection->told = 0;
        traffic->closed_by_thread++;
        connection_free(connection);
        return false;
    case 1: /* another limit, from now on */
        hwt_heartbeat_stop(heartbeat);
        expect(hwt_heartbeat_start(heartbeat, traffic->rig.timer, any_rules(test_random(random)),
                                   connection) == 0,
               &traffic->rig.broken);
        break;
    default:
        hwt_heartbeat_read_at(heartbeat, now);
        hwt_heartbeat_written_at(heartbeat, now);
        break;
    }
    return true;
}

static void *traffic_thread(void *arg)
{
    struct traffic *traffic = arg;
    uint64_t random = traffic->seed + traffic->next_thread++, begin = monotonic();
    for (unsigned round = 0; goes_on(round, test_scaled(50000), &traffic->told, begin); round++) {
        struct slot *slot = &traffic->slots[below(&random, SLOTS)];
        struct connection *connection = atomic_exchange(&slot->connection, NULL);
        if (!connection)
            connection = connection_open(slot, &random);
        if (!connection_use(traffic, connection, &random))
            continue;
        struct connection *empty = NULL;
        if (!atomic_compare_exchange_strong(&slot->connection, &empty, connection)) {
            hwt_heartbeat_stop_sync(&connection->heartbeat);
            traffic->closed_by_thread++;
            connection_free(connection);
        }
    }
    return NULL;
}

START_TEST(a_connection_is_freed_once_by_whoever_takes_it)
{
    static struct traffic traffic;
    pthread_t threads[THREADS];
    memset(&traffic, 0, sizeof(traffic));
    traffic.seed = test_seed() + (uint64_t)_i;
    rig_open(&traffic.rig, _i, TICK, 64);
    for (int i = 0; i < SLOTS; i++)
        traffic.slots[i].traffic = &traffic;
    for (int i = 0; i < THREADS; i++)
        threads[i] = spawn(traffic_thread, &traffic);
    for (int i = 0; i < THREADS; i++)
        join(threads[i]);
    for (int i = 0; i < SLOTS; i++) {
        struct connection *last = atomic_exchange(&traffic.slots[i].connection, NULL);
        if (last) {
            hwt_heartbeat_stop_sync(&last->heartbeat);
            traffic.closed_by_thread++;
            connection_free(last);
        }
    }
    printf("way %d: %" PRIu64 " opened, closed %" PRIu64 " by threads, %" PRIu64
           " by callbacks, which restarted %" PRIu64 "; %" PRIu64 " events\n",
           _i, (uint64_t)traffic.opened, (uint64_t)traffic.closed_by_thread,
           (uint64_t)traffic.closed_by_callback, (uint64_t)traffic.restarted,
           (uint64_t)traffic.told);
    ck_assert_uint_eq(traffic.closed_by_thread + traffic.closed_by_callback, traffic.opened);
    ck_assert_uint_eq(hwt_timer_pending(traffic.rig.timer), 0);
    rig_close(&traffic.rig);
}
END_TEST

/* ---- Everything at once ---- */

struct arena;

struct object {
    hwt_heartbeat heartbeat;
    struct arena *arena;
    unsigned inside; /* plain */
    shared_count told, started, stopped;
};

struct arena {
    struct rig rig;
    struct object objects[OBJECTS];
    uint64_t seed;
    shared_count next_thread, told, calm;
};

static void object_told(hwt_heartbeat *heartbeat, hwt_heartbeat_event event, uint64_t count,
                        void *arg);

static const hwt_heartbeat_rules object_rules[] = {
    { .dead = 1, .send = 1, .notify = object_told },
    { .reader_idle = TICK, .writer_idle = 2 * TICK, .all_idle = TICK, .notify = object_told },
};

static void object_start(struct object *object, const hwt_heartbeat_rules *rules)
{
    int r = hwt_heartbeat_start(&object->heartbeat, object->arena->rig.timer, rules, object);
    expect(r == 0 || r == -EALREADY || r == -ECANCELED, &object->arena->rig.broken);
    object->started += r == 0;
}

static void object_stop(struct object *object, bool waits)
{
    object->stopped += (waits ? hwt_heartbeat_stop_sync : hwt_heartbeat_stop)(&object->heartbeat);
}

/* Callbacks stop others too, but wait for none: two of them might wait in a circle. */
static void object_told(hwt_heartbeat *heartbeat, hwt_heartbeat_event event, uint64_t count,
                        void *arg)
{
    struct object *object = arg;
    expect(object->inside++ == 0 && count > 0, &object->arena->rig.broken);
    unsigned turn = object->arena->calm ? 1 : (unsigned)(object->told + 1);
    object->arena->told++;
    spin(turn % 128);
    if (event == HWT_HEARTBEAT_SEND)
        hwt_heartbeat_written(heartbeat);
    if (turn % 3 == 0)
        object_stop(object, turn % 2);
    if (turn % 4 == 0)
        object_start(object, &object_rules[turn % 8 / 4]);
    if (turn % 16 == 0)
        object_stop(&object->arena->objects[turn / 16 % OBJECTS], false);
    spin(turn % 32);
    object->inside--;
    object->told++;
}

static void *arena_thread(void *arg)
{
    struct arena *arena = arg;
    uint64_t random = arena->seed + arena->next_thread++, begin = monotonic();
    for (unsigned round = 0; goes_on(round, test_scaled(50000), &arena->told, begin); round++) {
        struct object *object = &arena->objects[below(&random, OBJECTS)];
        switch (below(&random, 8)) {
        case 0:
        case 1:
        case 2:
        case 3:
            object_start(object, &object_rules[below(&random, 2)]);
            break;
        case 4:
            object_stop(object, below(&random, 2));
            break;
        case 5:
            hwt_heartbeat_written_at(&object->heartbeat, hwt_timer_now(arena->rig.timer));
            break;
        default:
            hwt_heartbeat_read(&object->heartbeat);
            break;
        }
        spin(below(&random, 15000));
    }
    return NULL;
}

/* Whatever has gone before, one that is started is told of its events. */
static void arena_is_alive(struct arena *arena)
{
    for (int i = 0; i < OBJECTS; i++)
        object_stop(&arena->objects[i], true);
    arena->calm = 1;
    for (int i = 0; i < OBJECTS; i++) {
        struct object *object = &arena->objects[i];
        uint64_t told = object->told;
        object_start(object, &object_rules[i % 2]);
        ck_assert(await_count(&object->told, told + 2));
    }
}

START_TEST(whatever_is_called_at_once_the_promises_hold)
{
    static struct arena arena;
    pthread_t threads[THREADS];
    memset(&arena, 0, sizeof(arena));
    arena.seed = test_seed() + (uint64_t)_i;
    rig_open(&arena.rig, _i, TICK, 64);
    for (int i = 0; i < OBJECTS; i++)
        arena.objects[i].arena = &arena;
    for (int i = 0; i < THREADS; i++)
        threads[i] = spawn(arena_thread, &arena);
    for (int i = 0; i < THREADS; i++)
        join(threads[i]);
    arena_is_alive(&arena);
    uint64_t starts = 0;
    for (int i = 0; i < OBJECTS; i++) {
        struct object *object = &arena.objects[i];
        object_stop(object, true);
        ck_assert_uint_eq(object->inside, 0);
        object->inside = 1; /* a callback that still came would find it so */
        starts += object->started;
    }
    for (int i = 0; i < OBJECTS; i++)
        ck_assert_uint_eq(arena.objects[i].started, arena.objects[i].stopped);
    printf("way %d: %" PRIu64 " starts, %" PRIu64 " events\n", _i, starts, (uint64_t)arena.told);
    ck_assert_uint_eq(hwt_timer_pending(arena.rig.timer), 0);
    rig_close(&arena.rig);
}
END_TEST

/* ---- Notes ---- */

struct notes {
    hwt_heartbeat heartbeat;
    shared_count told, newest, broken;
};

static void notes_told(hwt_heartbeat *heartbeat, hwt_heartbeat_event event, uint64_t count,
                       void *arg)
{
    (void)heartbeat;
    (void)event;
    (void)count;
    ((struct notes *)arg)->told++;
}

/* Looks after a while, when what another thread was about to store has been stored. */
static void *note_on(void *arg)
{
    struct notes *notes = arg;
    for (unsigned i = 0; i < 100000; i++) {
        uint64_t now = HWT_SEC(1) + ++notes->newest;
        hwt_heartbeat_read_at(&notes->heartbeat, now);
        spin(i % 256);
        expect(__atomic_load_n(&notes->heartbeat.last_read, __ATOMIC_RELAXED) >= now,
               &notes->broken);
    }
    return NULL;
}

START_TEST(the_newest_of_the_instants_noted_at_once_counts)
{
    static const hwt_heartbeat_rules rules = { .dead = HWT_SEC(60), .notify = notes_told };
    static struct notes notes;
    for (unsigned round = 0; round < test_scaled(16); round++) {
        manual m;
        pthread_t threads[THREADS];
        memset(&notes, 0, sizeof(notes));
        manual_open(&m, 0, HWT_US(1), 64);
        ck_assert_int_eq(hwt_heartbeat_start(&notes.heartbeat, m.timer, &rules, &notes), 0);
        for (int i = 0; i < THREADS; i++)
            threads[i] = spawn(note_on, &notes);
        for (int i = 0; i < THREADS; i++)
            join(threads[i]);
        ck_assert_uint_eq(notes.broken, 0);
        uint64_t due = HWT_SEC(61) + notes.newest;
        manual_go(&m, HWT_SEC(60) + HWT_US(2));
        manual_go(&m, due - 1);
        ck_assert_uint_eq(notes.told, 0);
        manual_go(&m, due_at(due, HWT_US(1)));
        ck_assert_uint_eq(notes.told, 1);
        manual_close(&m);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("stress_heartbeat");
    TCase *test_case = stress_case(suite, "free");
    tcase_add_loop_test(test_case, a_connection_is_freed_once_by_whoever_takes_it, 0, WAYS);

    test_case = stress_case(suite, "all");
    tcase_add_loop_test(test_case, whatever_is_called_at_once_the_promises_hold, 0, WAYS);

    test_case = stress_case(suite, "notes");
    tcase_add_test(test_case, the_newest_of_the_instants_noted_at_once_counts);
    return run_suite(suite);
}
