/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Random programs of all calls on a set clock, beside a list that does the same in the dumbest way.
 * The store is synchronous, so a seed gives the same program again. It is closed, or left as a killed
 * process leaves it, and opened again and again.
 */

#include "tests/delay/support/delay_fixture.h"
#include "hwt/delay/open/open.h"

#define MODEL_MAX 20000

struct entry {
    uint64_t due, order;
    char id[16];
    size_t payload_size;
    unsigned char fill;
    uint64_t lease, lease_end;
    bool superseded, live;
};

static struct entry model[MODEL_MAX];
static size_t model_count;
static uint64_t order, realtime_now, boottime_now, seed_state;
static struct hwt_delay_system set_system;
static hwt_delay *store;
static hwt_delay_options options;

static uint64_t set_realtime(void *data)
{
    (void)data;
    return realtime_now;
}

static uint64_t set_boottime(void *data)
{
    (void)data;
    return boottime_now;
}

/* The process ends, the machine does not: the tests of the simulated disk look at the rest. */
static int no_sync(void *data, int file)
{
    (void)data;
    (void)file;
    return 0;
}

static uint64_t below(uint64_t n)
{
    return test_random(&seed_state) % n;
}

static void open_store(void)
{
    ck_assert_int_eq(hwt_delay_open_on(store_directory, &options, &set_system, true, &store), 0);
    for (size_t i = 0; i < model_count; i++) {
        model[i].lease = 0;
        if (model[i].superseded)
            model[i].live = false;
    }
}

static struct entry *find(uint64_t due, const char *id, bool leased)
{
    for (size_t i = 0; i < model_count; i++) {
        struct entry *entry = &model[i];
        if (entry->live && !entry->superseded && (entry->lease != 0) == leased &&
            entry->due == due && strcmp(entry->id, id) == 0)
            return entry;
    }
    return NULL;
}

static struct entry *find_lease(uint64_t lease)
{
    for (size_t i = 0; i < model_count; i++) {
        if (model[i].live && model[i].lease == lease)
            return &model[i];
    }
    return NULL;
}

static void compact(void)
{
    size_t kept = 0;
    for (size_t i = 0; i < model_count; i++) {
        if (model[i].live)
            model[kept++] = model[i];
    }
    model_count = kept;
}

static void model_put(uint64_t due, const char *id, size_t payload_size, unsigned char fill)
{
    struct entry *old = find(due, id, false);
    if (old)
        old->live = false;
    old = find(due, id, true);
    if (old)
        old->superseded = true;
    if (model_count == MODEL_MAX)
        compact();
    ck_assert_uint_lt(model_count, MODEL_MAX);
    struct entry *entry = &model[model_count++];
    *entry = (struct entry){
        .due = due,
        .order = ++order,
        .payload_size = payload_size,
        .fill = fill,
        .live = true,
    };
    snprintf(entry->id, sizeof(entry->id), "%s", id);
}

static void model_expire(void)
{
    for (size_t i = 0; i < model_count; i++) {
        struct entry *entry = &model[i];
        if (entry->live && entry->lease != 0 && entry->lease_end <= boottime_now) {
            entry->lease = 0;
            if (entry->superseded)
                entry->live = false;
        }
    }
}

static struct entry *model_first(void)
{
    struct entry *first = NULL;
    for (size_t i = 0; i < model_count; i++) {
        struct entry *entry = &model[i];
        if (!entry->live || entry->lease != 0 || entry->due > realtime_now)
            continue;
        if (!first || entry->due < first->due ||
            (entry->due == first->due && entry->order < first->order))
            first = entry;
    }
    return first;
}

/* Near, far, past, and the same ones again and again. */
static uint64_t choose_due(void)
{
    switch (below(8)) {
    case 0:
        return realtime_now - below(HWT_SEC(10));
    case 1:
        return realtime_now + HWT_SEC(5);
    case 2:
        return realtime_now / HWT_SEC(4) * HWT_SEC(4) + HWT_SEC(8);
    case 3:
        return realtime_now + below(HWT_SEC(3600));
    case 4:
        return realtime_now + below(HWT_SEC(86400 * 40));
    case 5:
        return 0;
    default:
        return realtime_now + below(HWT_SEC(20));
    }
}

static void do_put(void)
{
    static unsigned char bytes[8][8192];
    char ids[8][16];
    hwt_delay_message messages[8];
    size_t count = 1 + below(8);
    for (size_t i = 0; i < count; i++) {
        uint64_t due = choose_due();
        size_t size = below(10) == 0 ? below(8000) : below(300);
        snprintf(ids[i], sizeof(ids[i]), "id%d", (int)below(below(2) ? 5 : 5000));
        unsigned char fill = (unsigned char)below(256);
        memset(bytes[i], fill, size);
        messages[i] = (hwt_delay_message){ .due = due,
                                           .id = ids[i],
                                           .id_size = strlen(ids[i]),
                                           .payload = bytes[i],
                                           .payload_size = size };
        model_put(due, ids[i], size, fill);
    }
    if (below(2))
        for (size_t i = 0; i < count; i++)
            ck_assert_int_eq(hwt_delay_put(store, &messages[i], 1), 0);
    else {
        int r = hwt_delay_put(store, messages, count);
        /* A quarter of a segment. */
        if (r == -EMSGSIZE) {
            for (size_t i = 0; i < count; i++)
                ck_assert_int_eq(hwt_delay_put(store, &messages[i], 1), 0);
        } else {
            ck_assert_int_eq(r, 0);
        }
    }
}

static void do_cancel(void)
{
    if (model_count == 0)
        return;
    const struct entry *entry = &model[below(model_count)];
    uint64_t due = entry->due;
    char id[16];
    memcpy(id, entry->id, sizeof(id));
    model_expire();
    int r = hwt_delay_cancel(store, due, id, strlen(id));
    struct entry *pending = find(due, id, false);
    if (find(due, id, true)) {
        ck_assert_int_eq(r, -EBUSY);
    } else if (pending) {
        ck_assert_int_eq(r, 0);
        pending->live = false;
    } else {
        ck_assert(r == 0 || r == -ENOENT);
    }
}

static void do_take(void)
{
    const hwt_delay_message *taken = NULL;
    size_t max = 1 + below(below(2) ? 5 : 200);
    model_expire();
    int64_t n = hwt_delay_take(store, max, 0, &taken);
    /* Leases have an eighth of the memory. */
    ck_assert(n >= 0 || n == -ENOBUFS);
    for (int64_t i = 0; i < n; i++) {
        struct entry *first = model_first();
        ck_assert_ptr_nonnull(first);
        ck_assert_uint_eq(taken[i].due, first->due);
        ck_assert_uint_eq(taken[i].id_size, strlen(first->id));
        ck_assert_mem_eq(taken[i].id, first->id, taken[i].id_size);
        ck_assert_uint_eq(taken[i].payload_size, first->payload_size);
        if (first->payload_size > 0)
            ck_assert_uint_eq(*(const unsigned char *)taken[i].payload, first->fill);
        first->lease = taken[i].lease;
        first->lease_end = boottime_now + options.lease;
    }
    if (n == 0)
        ck_assert_ptr_null(model_first());
    hwt_delay_free(taken);
}

static struct entry *choose_leased(void)
{
    for (int i = 0; i < 20 && model_count > 0; i++) {
        struct entry *entry = &model[below(model_count)];
        if (entry->live && entry->lease != 0)
            return entry;
    }
    return NULL;
}

static void do_done(void)
{
    uint64_t leases[300];
    size_t count = 0;
    for (size_t i = 0; i < model_count && count < 300; i++) {
        if (model[i].live && model[i].lease != 0 && below(3))
            leases[count++] = model[i].lease;
    }
    if (count == 0)
        return;
    ck_assert_int_eq(hwt_delay_done(store, leases, count), (int64_t)count);
    for (size_t i = 0; i < count; i++)
        find_lease(leases[i])->live = false;
}

static void do_retry(void)
{
    struct entry *entry = choose_leased();
    if (!entry)
        return;
    struct entry old = *entry;
    uint64_t due = choose_due();
    const struct entry *leased = find(due, old.id, true);
    bool taken = find(due, old.id, false) || (leased && leased != entry);
    int r = hwt_delay_retry(store, old.lease, due);
    if (taken && r == -EEXIST)
        return;
    ck_assert_int_eq(r, 0); /* what is in a slot alone is replaced */
    entry->live = false;
    model_put(due, old.id, old.payload_size, old.fill);
}

static void do_replace(void)
{
    if (model_count == 0)
        return;
    struct entry old = model[below(model_count)];
    uint64_t due = choose_due();
    hwt_delay_message message = message_of(due, old.id, "replaced");
    model_expire();
    int r = hwt_delay_replace(store, old.due, old.id, strlen(old.id), &message);
    struct entry *pending = find(old.due, old.id, false);
    if (find(old.due, old.id, true)) {
        ck_assert_int_eq(r, -EBUSY);
        return;
    }
    if (pending)
        ck_assert_int_eq(r, 0);
    if (r == 0) {
        if (pending)
            pending->live = false;
        model_put(due, old.id, 8, 'r');
    }
}

static int count_message(const hwt_delay_message *message, void *data)
{
    const char *id = message->id;
    char name[16] = "";
    memcpy(name, id, message->id_size < 15 ? message->id_size : 15);
    ck_assert_ptr_nonnull(find(message->due, name, message->lease != 0));
    ++*(size_t *)data;
    return 0;
}

static void do_visit(void)
{
    size_t seen = 0, live = 0;
    hwt_delay_stats stats = HWT_DELAY_STATS_INIT;
    for (size_t i = 0; i < model_count; i++)
        live += model[i].live && !model[i].superseded;
    ck_assert_int_eq(hwt_delay_visit(store, 0, HWT_NEVER, count_message, &seen), 0);
    ck_assert_uint_eq(seen, live);
    ck_assert_int_eq(hwt_delay_get_stats(store, &stats), 0);
    ck_assert_int_eq(hwt_delay_check(store, NULL, NULL), 0);
}

static void pass_time(uint64_t ns)
{
    realtime_now += ns;
    boottime_now += ns;
    const hwt_delay_message *taken = NULL;
    model_expire();
    /* Ends leases in the store too. */
    int64_t n = hwt_delay_take(store, 1, 0, &taken);
    for (int64_t i = 0; i < n; i++) {
        struct entry *first = model_first();
        ck_assert_ptr_nonnull(first);
        ck_assert_uint_eq(taken[i].due, first->due);
        first->lease = taken[i].lease;
        first->lease_end = boottime_now + options.lease;
    }
    hwt_delay_free(taken);
}

static void step(void)
{
    switch (below(24)) {
    case 0:
        hwt_delay_close(store);
        open_store();
        break;
    case 1:
        ck_assert_int_eq(hwt_delay_checkpoint(store), 0);
        break;
    case 2:
        do_visit();
        break;
    case 3:
        pass_time(below(3) ? below(HWT_SEC(5)) : below(HWT_SEC(3000)));
        break;
    case 4:
        pass_time(below(HWT_SEC(30)));
        break;
    case 5:
        do_retry();
        break;
    case 6:
        do_replace();
        break;
    case 7:
    case 8:
    case 9:
        do_cancel();
        break;
    case 10:
    case 11:
    case 12:
        do_take();
        break;
    case 13:
    case 14:
        do_done();
        break;
    default:
        do_put();
    }
}

/* Everything that is left comes, in order, and nothing else does. */
static void drain(void)
{
    for (int rounds = 0; rounds < 100000; rounds++) {
        const hwt_delay_message *taken = NULL;
        model_expire();
        int64_t n = hwt_delay_take(store, 100, 0, &taken);
        if (n == -ENOBUFS) { /* until the leases from before have ended */
            realtime_now += options.lease;
            boottime_now += options.lease;
            continue;
        }
        ck_assert_int_ge(n, 0);
        for (int64_t i = 0; i < n; i++) {
            struct entry *first = model_first();
            ck_assert_ptr_nonnull(first);
            ck_assert_uint_eq(taken[i].due, first->due);
            ck_assert_mem_eq(taken[i].id, first->id, taken[i].id_size);
            ck_assert_int_eq(hwt_delay_done(store, &taken[i].lease, 1), 1);
            first->live = false;
        }
        hwt_delay_free(taken);
        if (n > 0)
            continue;
        ck_assert_ptr_null(model_first());
        compact();
        /* Slots of nothing but cancelled messages are passed too. */
        uint64_t next = hwt_delay_next(store);
        if (next == HWT_NEVER)
            break;
        uint64_t ns = next > realtime_now ? next - realtime_now : HWT_SEC(1);
        realtime_now += ns;
        boottime_now += ns;
    }
    ck_assert_uint_eq(model_count, 0);
    ck_assert_int_eq(hwt_delay_checkpoint(store), 0);
    hwt_delay_stats stats = HWT_DELAY_STATS_INIT;
    ck_assert_int_eq(hwt_delay_get_stats(store, &stats), 0);
    ck_assert_uint_eq(stats.files, 0);
    ck_assert_uint_eq(stats.pending, 0);
}

static void run(uint64_t seed, int steps)
{
    seed_state = seed;
    make_directory_name();
    options = small_options();
    options.lease = HWT_SEC(30);
    set_system = hwt_delay_real_system;
    set_system.realtime = set_realtime;
    set_system.boottime = set_boottime;
    set_system.sync = no_sync;
    set_system.sync_directory = no_sync;
    model_count = 0;
    realtime_now = UINT64_C(1700000000) * HWT_SEC(1);
    boottime_now = HWT_SEC(1000);
    open_store();
    for (int i = 0; i < steps; i++)
        step();
    drain();
    hwt_delay_close(store);
    remove_store();
}

START_TEST(random_programs_do_what_a_list_does)
{
    uint64_t seed = test_seed();
    int programs = 6;
    for (int i = 0; i < programs; i++) {
        printf("program %d: seed %llu\n", i, (unsigned long long)(seed + (uint64_t)i));
        fflush(stdout);
        run(seed + (uint64_t)i, 1500);
    }
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("delay_random");
    TCase *random = tcase_create("random");
    tcase_set_timeout(random, 110);
    tcase_add_test(random, random_programs_do_what_a_list_does);
    suite_add_tcase(suite, random);
    return suite;
}

int main(void)
{
    return run_suite(make_suite());
}
