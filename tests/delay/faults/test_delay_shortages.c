/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The system refuses something in the middle of a call: each use of the disk in a checkpoint, with each
 * error; each sync, with an error that is otherwise a shortage; and memory, wherever the store
 * asks for it. Then all is well again, what was refused is asked for once more, a good checkpoint
 * is made, and the power goes. What has returned counts, and of what was refused nothing.
 */

#include <errno.h>

#include "hwt/delay/whole.h"
#include "kit.h"
#include "tests/delay/support/story_inside.h"

static struct disk *base;
static uint64_t requests, refuse_from, refuse_count; /* of memory; from 0: none is refused */
static char words[100];                              /* what is refused, for story_broken() */

static void begin(void)
{
    story.random = test_seed();
    refuse_from = 0;
    base = story_prepare(false);
}

static void end(void)
{
    disk_free(base);
}

/* A store with all kinds of records that are not in slots yet, and with slots that are done with. */
static void begin_loaded_or_not(enum operation operation, bool loaded)
{
    story_begin(base, false, true);
    story.count = 1;
    story.players[0] = (struct player){ .operation = (int)operation, .point = words };
    if (loaded)
        story_do(LOAD_AND_DO, 0);
    story_do(DONE, 0);
    story_do(RETRY_FRESH, 0);
    story_do(PUT_AGAIN, 0);
    story_do(PUT, 1);
    story_do(CANCEL_FAR, 0);
    story_do(END_LEASE, 0);
}

static void begin_story(enum operation operation)
{
    begin_loaded_or_not(operation, true);
}

/* ---- the disk ---- */

static const int errors[] = { -EMFILE, -ENFILE, -ENOMEM, -ENOSPC, -EDQUOT, -EIO };

enum { ERRORS = sizeof(errors) / sizeof(errors[0]) };

/* After a failure of one of these it is not known what the disk has. */
static bool must_poison(enum disk_call call, int error)
{
    return call == DISK_SYNC || call == DISK_SYNC_DIRECTORY || call == DISK_RENAME ||
           (error == -EIO && (call == DISK_OPEN || call == DISK_WRITE || call == DISK_TRUNCATE));
}

static void refuse(enum disk_call call, uint64_t nth, uint64_t count, int error)
{
    story.process.calls = 0;
    story.process.fail_only = 1u << call;
    story.process.fail_at = nth;
    story.process.fail_count = count;
    story.process.fail_with = error;
    snprintf(words, sizeof(words), "%s %" PRIu64 " and %" PRIu64 " more: %d", disk_call_names[call],
             nth, count - 1, error);
}

/* False: nothing was refused. */
static bool refuse_no_more(void)
{
    bool refused = story.process.calls >= story.process.fail_at;
    story.process.fail_with = 0;
    return refused;
}

/* All that can be called is called, and is answered; restarted: nothing is leased. */
static void go_on(bool restarted)
{
    story_do(TAKE_AND_DO, 2);
    story_do(CANCEL_FAR, 1);
    if (!restarted)
        story_do(DONE_FRESH, 0);
    must(hwt_delay_checkpoint(story.store) == 0);
    story_crash(2);
    story_do(PUT, 2);
    if (!restarted)
        story_do(RETRY, 2);
    story_do(PUT_MUCH, 0);
    story_crash(1);
}

/* Some failures do not matter: room that could not be set aside, a file that stays for a while. */
static bool checkpoint_with(enum disk_call call, uint64_t nth, uint64_t count, int error)
{
    begin_story(CHECKPOINT);
    refuse(call, nth, count, error);
    int r = hwt_delay_checkpoint(story.store);
    bool refused = refuse_no_more(), poisoned = story_stats().poisoned;
    story_crash(2);
    if (!refused)
        ck_assert_int_eq(r, 0);
    ck_assert_msg(poisoned == (r == -EIO), "%s: %d, and poisoned: %d", words, r, poisoned);
    if (refused && poisoned && !must_poison(call, error))
        ck_abort_msg("%s ends the store", words);
    if (poisoned)
        story_restart();
    go_on(poisoned);
    story_end();
    return refused;
}

START_TEST(test_a_checkpoint_that_is_refused_something)
{
    static const enum disk_call calls[] = { DISK_OPEN,     DISK_WRITE,    DISK_SYNC,
                                            DISK_TRUNCATE, DISK_ALLOCATE, DISK_SYNC_DIRECTORY,
                                            DISK_RENAME,   DISK_UNLINK };
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        for (uint64_t n = 1; checkpoint_with(calls[i], n, 1, errors[_i]); n++)
            ;
        for (uint64_t n = 1; checkpoint_with(calls[i], n, 1000, errors[_i]); n++)
            ;
    }
}
END_TEST

/* What has no room is made with that of the reserve. A sync that has none is known to have failed. */
static bool is_full(enum disk_call call, int error)
{
    return (call == DISK_RENAME || call == DISK_WRITE) && (error == -ENOSPC || error == -EDQUOT);
}

/* The first sync of a checkpoint's that fails is the last that the store makes. */
START_TEST(test_a_sync_that_fails_poisons)
{
    static const enum disk_call calls[] = { DISK_SYNC, DISK_SYNC_DIRECTORY, DISK_RENAME };
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        for (uint64_t n = 1; !is_full(calls[i], errors[_i]); n++) {
            begin_story(CHECKPOINT);
            refuse(calls[i], n, 1, errors[_i]);
            int r = hwt_delay_checkpoint(story.store);
            bool refused = refuse_no_more();
            ck_assert_msg(r == (refused ? -EIO : 0), "%s: %d", words, r);
            ck_assert_uint_eq(story_stats().poisoned, refused);
            if (refused)
                ck_assert_int_eq(hwt_delay_checkpoint(story.store), -EIO);
            story_restart();
            story_end();
            if (!refused)
                break;
        }
    }
}
END_TEST

/* The log's own: the put is not acknowledged, and nothing is from then on. */
START_TEST(test_a_put_whose_sync_fails_poisons)
{
    const uint32_t number = NEW;
    const uint64_t lease = 12345;
    static const enum disk_call calls[] = { DISK_SYNC, DISK_WRITE };
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        begin_story(PUT);
        /* Also where there is none with the room of the reserve. */
        refuse(calls[i], 1, is_full(calls[i], errors[_i]) ? 2 : 1, errors[_i]);
        story_will(0, number, true, 1, number);
        ck_assert_int_eq(story_put(number, 1), -EIO);
        ck_assert(refuse_no_more());
        ck_assert_uint_eq(story_stats().poisoned, 1);
        ck_assert_int_eq(story_put(number, 1), -EIO);
        ck_assert_int_eq(hwt_delay_done(story.store, &lease, 1), -EIO);
        story_crash(4);
        story_restart();
        story_settle(number);
        go_on(true);
        story_end();
    }
}
END_TEST

/* ---- memory ---- */

static bool is_refused(void)
{
    if (refuse_from == 0 || held_is_inside())
        return false;
    requests++;
    return requests >= refuse_from && requests - refuse_from < refuse_count;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);

void *__wrap_malloc(size_t size)
{
    return is_refused() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return is_refused() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    return is_refused() ? NULL : __real_realloc(old, size);
}

static void count_one(int result, void *count)
{
    must(result == 0);
    ++*(unsigned *)count;
}

static int ignore(const hwt_delay_message *message, void *data)
{
    (void)message;
    (void)data;
    return 0;
}

/* ---- calls that are tried: 0, or an error ---- */

static int64_t try_put(void)
{
    return story_put(NEW, 1);
}

static void note_put(void)
{
    story_did(0, NEW, true);
}

static int64_t try_async(void)
{
    unsigned count = 0;
    int r = story_put_async(NEW, 1, count_one, &count);
    must(count == (r == 0));
    return r;
}

static int64_t try_cancel(void)
{
    const uint32_t number = FAR + 4;
    return hwt_delay_cancel(story.store, story.messages[number].due, &number, sizeof(number));
}

static void note_cancel(void)
{
    story.messages[FAR + 4].is.pending = false;
}

static int64_t try_replace(void)
{
    return story_replace(FAR + 5, NEW, 1);
}

static void note_replace(void)
{
    story.messages[FAR + 5].is.pending = false;
    note_put();
}

static int64_t try_done(void)
{
    int64_t r = hwt_delay_done(story.store, &story.messages[HELD + 4].lease, 1);
    return r == 1 ? 0 : r;
}

static void note_done(void)
{
    story.messages[HELD + 4].is.pending = false;
    story.messages[HELD + 4].lease = 0;
}

static int64_t try_retry(void)
{
    const struct message *to = &story.messages[RETRIED + HELD + 7];
    return hwt_delay_retry(story.store, story.messages[HELD + 7].lease, to->due);
}

static void note_retry(void)
{
    story.messages[HELD + 7].is.pending = false;
    story.messages[HELD + 7].lease = 0;
    story.messages[RETRIED + HELD + 7].is = (struct change){ .pending = true, .version = 1 };
}

/* Behind what is due it has to read slots. */
static int64_t try_take(void)
{
    const hwt_delay_message *taken;
    int64_t n;
    while ((n = hwt_delay_take(story.store, 100, 0, &taken)) > 0) {
        for (int64_t i = 0; i < n; i++)
            story_taken(&taken[i], story.tickets);
        hwt_delay_free(taken);
    }
    return n;
}

static int64_t try_checkpoint(void)
{
    return hwt_delay_checkpoint(story.store);
}

static int64_t try_visit(void)
{
    return hwt_delay_visit(story.store, 0, HWT_NEVER, ignore, NULL);
}

static int64_t try_check(void)
{
    return hwt_delay_check(story.store, NULL, NULL);
}

static int64_t try_open(void)
{
    return story_open();
}

static void note_nothing(void)
{
}

/* What was refused at first is all given. */
static void note_take(void)
{
    ck_assert_int_eq(try_take(), 0);
    for (uint32_t i = 0; i < MESSAGES; i++) {
        const struct message *message = &story.messages[i];
        if (message->is.pending && message->due <= held_realtime && message->lease == 0)
            story_broken("was not given", i);
    }
}

static const struct attempt {
    const char *name;
    int64_t (*call)(void);
    void (*note)(void);
} attempts[] = {
    { "put", try_put, note_put },          { "put_async", try_async, note_put },
    { "cancel", try_cancel, note_cancel }, { "replace", try_replace, note_replace },
    { "done", try_done, note_done },       { "retry", try_retry, note_retry },
    { "take", try_take, note_take },       { "checkpoint", try_checkpoint, note_nothing },
    { "visit", try_visit, note_nothing },  { "check", try_check, note_nothing },
    { "open", try_open, note_nothing },
};

enum { ATTEMPTS = sizeof(attempts) / sizeof(attempts[0]) };

static int64_t refused(const struct attempt *attempt, uint64_t from, uint64_t count)
{
    snprintf(words, sizeof(words), "%s, memory %" PRIu64 " and %" PRIu64 " more", attempt->name,
             from, count - 1);
    requests = 0;
    refuse_from = from;
    refuse_count = count;
    int64_t r = attempt->call();
    refuse_from = 0;
    return r;
}

/* False: nothing was refused. */
static bool try_without_memory(const struct attempt *attempt, uint64_t from, uint64_t count)
{
    bool opens = attempt->call == try_open;
    begin_loaded_or_not(CHECKPOINT,
                        attempt->call != try_take); /* SOON is to be loaded by the take */
    story_pass_time(HWT_SEC(100));
    story_will(0, NEW, true, 1, NEW);
    /* As if there were many floors: each epoch asks for memory. Under AddressSanitizer nothing leaks. */
    story.store->slots.positions.room = story.store->slots.positions.count + 1;
    if (opens)
        story_kill();
    int64_t r = refused(attempt, from, count);
    bool any = requests >= from;
    ck_assert_msg(r == 0 || (any && r == -ENOMEM), "%s: %" PRId64, words, r);
    if (r < 0) {
        story_did(0, NEW, false);
        story_crash(1);
        story_will(0, NEW, true, 1, NEW);
        ck_assert_msg((r = attempt->call()) == 0, "%s, and then %" PRId64, words, r);
    }
    attempt->note();
    story_did(0, NEW, false);
    if (!opens)
        story_crash(1);
    must(hwt_delay_checkpoint(story.store) == 0);
    story_crash(1);
    story_end();
    return any;
}

START_TEST(test_memory_is_refused)
{
    const struct attempt *attempt = &attempts[_i];
    for (uint64_t n = 1; try_without_memory(attempt, n, 1); n++)
        ;
    for (uint64_t n = 1; try_without_memory(attempt, n, UINT64_MAX); n++)
        ;
}
END_TEST

/* ---- a take alone ---- */

static hwt_delay *open_alone(struct process *process, struct disk *disk)
{
    hwt_delay_options options = HWT_DELAY_OPTIONS_INIT;
    hwt_delay *store;
    options.flags = HWT_DELAY_CREATE;
    options.payload_max = 8192;
    options.memory = 1 << 20;
    options.segment_size = 1 << 17;
    held_start(process, disk);
    must(hwt_delay_open_on("store", &options, &process->system, true, &store) == 0);
    return store;
}

/* How often the message was handed over, with this time; or an error. */
static int64_t hand_over(hwt_delay *store)
{
    const hwt_delay_message *taken;
    int64_t n = hwt_delay_take(store, 1, 0, &taken);
    if (n <= 0)
        return n;
    n = taken->deliveries;
    hwt_delay_free(taken);
    return n;
}

/* One that gives something counts, whatever it had no memory for; one that fails does not. [1]: it is tried
 * again at once. */
START_TEST(test_a_take_without_memory_counts)
{
    const uint64_t due = 1;
    const hwt_delay_message message = { .due = due, .id = &due, .id_size = sizeof(due) };
    held_realtime = HWT_SEC(1000);
    held_boottime = HWT_SEC(100);
    bool any = true;
    for (uint64_t n = 1; any; n++) {
        struct disk *disk = disk_new();
        struct process process;
        hwt_delay *store = open_alone(&process, disk);
        must(hwt_delay_put(store, &message, 1) == 0);
        requests = 0;
        refuse_from = n;
        refuse_count = 1;
        int64_t r = hand_over(store);
        refuse_from = 0;
        any = requests >= n;
        ck_assert(r == 1 || (any && r == -ENOMEM));
        hwt_delay_stats stats = HWT_DELAY_STATS_INIT;
        ck_assert_int_eq(hwt_delay_get_stats(store, &stats), 0);
        ck_assert_uint_eq(stats.taken, r == 1);
        if (r < 0 && _i == 1)
            ck_assert_int_eq(r = hand_over(store), 1);
        must(hwt_delay_close(store) == 0);
        process_end(&process);
        store = open_alone(&process, disk);
        ck_assert_int_eq(hand_over(store), r == 1 ? 2 : 1);
        must(hwt_delay_close(store) == 0);
        process_end(&process);
        disk_free(disk);
    }
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("delay_shortages");
    TCase *tcase = tcase_create("shortages");
    tcase_set_timeout(tcase, 300);
    tcase_add_checked_fixture(tcase, begin, end);
    tcase_add_loop_test(tcase, test_a_checkpoint_that_is_refused_something, 0, ERRORS);
    tcase_add_loop_test(tcase, test_a_sync_that_fails_poisons, 0, ERRORS);
    tcase_add_loop_test(tcase, test_a_put_whose_sync_fails_poisons, 0, ERRORS);
    tcase_add_loop_test(tcase, test_memory_is_refused, 0, ATTEMPTS);
    tcase_add_loop_test(tcase, test_a_take_without_memory_counts, 0, 2);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    return run_suite(make_suite());
}
