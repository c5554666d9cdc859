/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Callbacks of hwt_delay_put_async() that put again: when a frame is full, when memory is. */

#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "hwt/delay/whole.h"
#include "tests/delay/support/simulated.h"

enum { BATCH = 3, PAYLOAD = 8000, LINKS = 40, CHAINS = 3, PUTS = 200 };

static struct hwt_delay_system held_system;
static char directory[64];
static hwt_delay *store;
static atomic_bool hold; /* syncs */
static _Atomic int fail_sync;
static _Atomic uint32_t next_id;

static int sync_file(void *data, int file)
{
    while (hold)
        sched_yield();
    return fail_sync != 0 ? fail_sync : hwt_delay_real_system.sync(data, file);
}

/* The log is as long as it becomes, and empty, so that no put that follows waits for that. */
static void lengthen_log(void)
{
    static const char payload[4000];
    hwt_delay_stats stats = HWT_DELAY_STATS_INIT;
    hwt_delay_message message = {
        .id = "id", .id_size = 2, .payload = payload, .payload_size = sizeof(payload)
    };
    for (message.due = HWT_NEVER / 2; stats.disk < 3 * 86016; message.due++) {
        ck_assert_int_eq(hwt_delay_put(store, &message, 1), 0);
        ck_assert_int_eq(hwt_delay_get_stats(store, &stats), 0);
    }
    ck_assert_int_eq(hwt_delay_checkpoint(store), 0);
}

static void begin(void)
{
    strcpy(directory, "/tmp/hwt-delay-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(directory));
    held_system = hwt_delay_real_system;
    held_system.sync = sync_file;
    hold = false;
    fail_sync = 0;
    next_id = 0;
    hwt_delay_options options = HWT_DELAY_OPTIONS_INIT;
    options.flags = HWT_DELAY_CREATE;
    options.payload_max = 8192;
    options.segment_size = 1 << 17;
    options.memory = 1 << 20;
    ck_assert_int_eq(hwt_delay_open_on(directory, &options, &held_system, false, &store), 0);
    lengthen_log();
}

static void end(void)
{
    char command[128];
    hwt_delay_close(store);
    snprintf(command, sizeof(command), "rm -rf %s", directory);
    ck_assert_int_eq(system(command), 0);
}

/* So much that no frame has room for two. */
static int put_batch(hwt_delay_durable durable, void *arg)
{
    static const char payload[PAYLOAD];
    uint32_t ids[BATCH];
    hwt_delay_message batch[BATCH];
    for (int i = 0; i < BATCH; i++) {
        ids[i] = next_id++;
        batch[i] = (hwt_delay_message){
            .due = hwt_delay_now(store) + HWT_MIN(60),
            .id = &ids[i],
            .id_size = sizeof(ids[i]),
            .payload = payload,
            .payload_size = sizeof(payload),
        };
    }
    return hwt_delay_put_async(store, batch, BATCH, durable, arg);
}

struct chain {
    atomic_uint told, refused;
};

static void go_on(int result, void *arg)
{
    struct chain *chain = arg;
    unsigned told = ++chain->told;
    if (result != 0 || told < LINKS) {
        int r = put_batch(go_on, chain);
        must(r == result);
        chain->refused += r != 0;
    }
}

static void await(const atomic_uint *count, unsigned least)
{
    while (*count < least)
        usleep(1000);
}

/* Syncs are held, so what was put is in a frame that is being written, and stays there. */
static void await_frame(void)
{
    for (bool led = false; !led; sched_yield()) {
        pthread_mutex_lock(&store->lock);
        led = store->log.led && store->log.count == 0;
        pthread_mutex_unlock(&store->lock);
    }
}

/* Its frame is full: another batch waits there already. */
START_TEST(test_a_callback_puts_while_a_full_frame_waits)
{
    struct chain first = { 0 }, second = { .told = LINKS - 1 };
    hold = true;
    ck_assert_int_eq(put_batch(go_on, &first), 0);
    await_frame();
    ck_assert_int_eq(put_batch(go_on, &second), 0);
    hold = false;
    await(&first.told, LINKS);
    await(&second.told, LINKS);
}
END_TEST

static void *begin_chain(void *chain)
{
    ck_assert_int_eq(put_batch(go_on, chain), 0);
    return NULL;
}

/* Memory and the log are full all the time, and others make checkpoints and lead frames. */
START_TEST(test_callbacks_put_beside_threads)
{
    static struct chain chains[CHAINS];
    pthread_t threads[CHAINS];
    memset(chains, 0, sizeof(chains));
    for (int i = 0; i < CHAINS; i++)
        threads[i] = spawn(begin_chain, &chains[i]);
    for (uint32_t i = 0; i < PUTS; i++) {
        const hwt_delay_message message = {
            .due = hwt_delay_now(store) + HWT_MIN(60),
            .id = &i,
            .id_size = sizeof(i),
        };
        ck_assert_int_eq(hwt_delay_put(store, &message, 1), 0);
        if (i % 16 == 0)
            ck_assert_int_eq(hwt_delay_checkpoint(store), 0);
    }
    for (int i = 0; i < CHAINS; i++) {
        join(threads[i]);
        await(&chains[i].told, LINKS);
    }
}
END_TEST

/* Closing waits for what callbacks put, too. */
START_TEST(test_closing_waits_for_callbacks)
{
    static struct chain chain;
    chain.told = 0;
    ck_assert_int_eq(put_batch(go_on, &chain), 0);
    hwt_delay_close(store);
    store = NULL;
    ck_assert_uint_eq(chain.told, LINKS);
}
END_TEST

/* ---- the order ---- */

static unsigned order[PUTS];
static atomic_uint ordered;

static void note_order(int result, void *arg)
{
    must(result == 0);
    order[ordered] = (unsigned)(uintptr_t)arg;
    ordered++;
    if (ordered % 7 == 0)
        sched_yield();
}

static void *put_some(void *arg)
{
    for (uint32_t i = 0; !*(atomic_bool *)arg; i++) {
        const hwt_delay_message message = { .due = 1 + i % 100, .id = "x", .id_size = 1 };
        ck_assert_int_eq(hwt_delay_put(store, &message, 1), 0);
    }
    return NULL;
}

START_TEST(test_callbacks_come_in_the_order_of_puts)
{
    atomic_bool stop = false;
    pthread_t thread = spawn(put_some, &stop);
    ordered = 0;
    for (uintptr_t i = 0; i < PUTS; i++) {
        const hwt_delay_message message = { .due = 1 + i, .id = "y", .id_size = 1 };
        ck_assert_int_eq(hwt_delay_put_async(store, &message, 1, note_order, (void *)i), 0);
    }
    await(&ordered, PUTS);
    stop = true;
    join(thread);
    for (unsigned i = 0; i < PUTS; i++)
        ck_assert_uint_eq(order[i], i);
}
END_TEST

/* ---- failure, and one thread ---- */

START_TEST(test_callbacks_are_told_of_a_failure_and_put_in_vain)
{
    static struct chain chains[CHAINS];
    memset(chains, 0, sizeof(chains));
    hold = true;
    ck_assert_int_eq(put_batch(go_on, &chains[0]), 0);
    await_frame();
    ck_assert_int_eq(put_batch(go_on, &chains[1]), 0); /* not written any more */
    fail_sync = -EIO;
    hold = false;
    for (int i = 0; i < 2; i++)
        await(&chains[i].refused, 1);
    hwt_delay_close(store);
    store = NULL;
    for (int i = 0; i < 2; i++)
        ck_assert_uint_eq(chains[i].told, 1);
}
END_TEST

static struct simulated s;
static unsigned told, depth;

static void put_on_one_thread(int result, void *arg)
{
    const hwt_delay_message message = { .due = 5, .id = "z", .id_size = 1 };
    must(result == 0 && depth++ == 0);
    if (++told < LINKS)
        must(hwt_delay_put_async(s.store, &message, 1, put_on_one_thread, arg) == 0);
    depth--;
}

START_TEST(test_one_thread_tells_without_recursion)
{
    told = LINKS - 1;
    simulated_new(&s);
    simulated_open(&s);
    const hwt_delay_message message = { .due = 5, .id = "z", .id_size = 1 };
    ck_assert_int_eq(hwt_delay_put_async(s.store, &message, 1, put_on_one_thread, NULL), 0);
    told = 0;
    ck_assert_int_eq(hwt_delay_put_async(s.store, &message, 1, put_on_one_thread, NULL), 0);
    ck_assert_uint_eq(told, LINKS);
    simulated_free(&s);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("delay_callbacks");
    TCase *tcase = tcase_create("callbacks");
    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, begin, end);
    tcase_add_test(tcase, test_a_callback_puts_while_a_full_frame_waits);
    tcase_add_test(tcase, test_callbacks_put_beside_threads);
    tcase_add_test(tcase, test_closing_waits_for_callbacks);
    tcase_add_test(tcase, test_callbacks_come_in_the_order_of_puts);
    tcase_add_test(tcase, test_callbacks_are_told_of_a_failure_and_put_in_vain);
    tcase_add_test(tcase, test_one_thread_tells_without_recursion);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    return run_suite(make_suite());
}
