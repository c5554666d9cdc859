/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Mistakes that a store could make, made for it: each must be found by the random programs of
 * program.h within some thousand states. A sync that does nothing, one that happens after the
 * rename that relies on it, an acknowledgement before the sync, a checksum that is not looked at, a
 * slot that is deleted too early.
 */

#include "hwt/delay/whole.h"
#include "tests/delay/support/program.h"
#include "tests/delay/support/simulated.h"

enum { STATES_MAX = 100000 };

/* ---- checksums: of which kind of thing none is looked at ---- */

static uint32_t blind; /* the magic number in front of what is covered, its low half; 0: none */

uint32_t __real_hwt_delay_crc(uint64_t seed, const void *bytes, size_t size);
uint32_t __wrap_hwt_delay_crc(uint64_t seed, const void *bytes, size_t size);

/* Blind to all: writers and readers agree on it whatever the bytes are. */
uint32_t __wrap_hwt_delay_crc(uint64_t seed, const void *bytes, size_t size)
{
    return blind ? blind : __real_hwt_delay_crc(seed, bytes, size);
}

/* ---- rewriting ---- */

static enum rewriting { AS_IT_SHOULD_BE, DELETED_EARLY, TOMBSTONES_LEFT_OUT } rewriting;

int __real_hwt_delay_publish(hwt_delay *store);
int __wrap_hwt_delay_publish(hwt_delay *store);

/* The files of moved slots go before the checkpoint that does not need them. */
int __wrap_hwt_delay_publish(hwt_delay *store)
{
    const struct hwt_delay_slot *slot;
    TAILQ_FOREACH(slot, &store->checkpoint.snapshot.moved, listed)
    {
        char name[HWT_DELAY_NAME_MAX];
        hwt_delay_slot_name(slot, name);
        if (rewriting == DELETED_EARLY && slot->new_length == 0)
            hwt_delay_unlink(store, name);
    }
    return __real_hwt_delay_publish(store);
}

void __real_hwt_delay_gathered_mark(struct hwt_delay_gathered *gathered,
                                    const struct hwt_delay_slot *moved);
void __wrap_hwt_delay_gathered_mark(struct hwt_delay_gathered *gathered,
                                    const struct hwt_delay_slot *moved);

/* No tombstone is thought to be needed: the message is in another slot. */
void __wrap_hwt_delay_gathered_mark(struct hwt_delay_gathered *gathered,
                                    const struct hwt_delay_slot *moved)
{
    struct hwt_delay_record *record;
    __real_hwt_delay_gathered_mark(gathered, moved);
    RB_FOREACH(record, hwt_delay_keys, &gathered->keys)
    {
        record->needed = record->needed && rewriting != TOMBSTONES_LEFT_OUT;
    }
}

/* ---- */

static const struct mistake {
    const char *name;
    enum disk_mistake_kind kind;
    enum disk_sync_kind sync;
    enum mistake_moment moment;
} mistakes[] = {
    { "creating: the log is not synced", MISTAKE_NO_SYNC, SYNC_LOG, CREATING },
    { "creating: the checkpoint is not synced", MISTAKE_NO_SYNC, SYNC_CHECKPOINT, CREATING },
    { "creating: the store's head is not synced", MISTAKE_NO_SYNC, SYNC_STORE, CREATING },
    { "creating: the rename is not synced", MISTAKE_NO_SYNC, SYNC_NAMES_RENAMED, CREATING },
    { "creating: the directory's own name is not synced", MISTAKE_NO_SYNC, SYNC_ABOVE, CREATING },
    { "opening: the log is not synced", MISTAKE_NO_SYNC, SYNC_LOG, OPENING },
    { "opening: the checkpoint is not synced", MISTAKE_NO_SYNC, SYNC_CHECKPOINT, OPENING },
    { "the log is not synced", MISTAKE_NO_SYNC, SYNC_LOG, RUNNING },
    { "slots are not synced", MISTAKE_NO_SYNC, SYNC_SLOT, RUNNING },
    { "the checkpoint is not synced", MISTAKE_NO_SYNC, SYNC_CHECKPOINT, RUNNING },
    { "new names are not synced", MISTAKE_NO_SYNC, SYNC_NAMES_NEW, RUNNING },
    { "the rename is not synced", MISTAKE_NO_SYNC, SYNC_NAMES_RENAMED, RUNNING },
    { "the rename comes before the checkpoint's sync", MISTAKE_SYNC_LATE, SYNC_CHECKPOINT,
      RUNNING },
    { "the rename comes before the slots' sync", MISTAKE_SYNC_LATE, SYNC_SLOT, RUNNING },
    { "the rename comes before the new names' sync", MISTAKE_SYNC_LATE, SYNC_NAMES_NEW, RUNNING },
    { "a put is acknowledged before it is synced", MISTAKE_SYNC_UNAWAITED, SYNC_LOG, RUNNING },
};

enum { MISTAKES = sizeof(mistakes) / sizeof(mistakes[0]) };

/* How many states it took; 0: it was not found. */
static uint64_t states_to_find(const struct mistake *mistake)
{
    uint64_t seed = test_seed(), states = 0, made = 0;
    while (states < STATES_MAX) {
        struct program program;
        struct result result;
        program_draw(&program, test_random(&seed), false, false);
        if (mistake) {
            program.mistake = mistake->kind;
            program.mistaken = mistake->sync;
            program.moment = mistake->moment;
        }
        program_run_apart(&program, &result);
        states += result.states;
        made += result.mistakes;
        if (result.failed) {
            printf("found after %" PRIu64 " states: %s\n", states, result.wrong);
            return states + 1;
        }
    }
    ck_assert_msg(!mistake || made > 0, "the mistake was never made");
    return 0;
}

START_TEST(test_a_mistake_is_found)
{
    printf("%s: ", mistakes[_i].name);
    fflush(stdout);
    ck_assert_msg(states_to_find(&mistakes[_i]) > 0, "not found: %s", mistakes[_i].name);
}
END_TEST

START_TEST(test_checksums_that_nobody_looks_at_are_found)
{
    blind = 0x1234567;
    printf("no checksum is looked at: ");
    fflush(stdout);
    ck_assert_uint_gt(states_to_find(NULL), 0);
}
END_TEST

START_TEST(test_a_slot_that_is_deleted_before_it_was_moved_is_found)
{
    rewriting = DELETED_EARLY;
    printf("a moved slot is deleted before the checkpoint: ");
    fflush(stdout);
    ck_assert_uint_gt(states_to_find(NULL), 0);
}
END_TEST

START_TEST(test_tombstones_that_are_left_out_are_found)
{
    rewriting = TOMBSTONES_LEFT_OUT;
    printf("tombstones are left out that are needed: ");
    fflush(stdout);
    ck_assert_uint_gt(states_to_find(NULL), 0);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("delay_mistakes");
    TCase *tcase = tcase_create("mistakes");
    tcase_set_timeout(tcase, 300);
    tcase_add_loop_test(tcase, test_a_mistake_is_found, 0, MISTAKES);
    tcase_add_test(tcase, test_checksums_that_nobody_looks_at_are_found);
    tcase_add_test(tcase, test_a_slot_that_is_deleted_before_it_was_moved_is_found);
    tcase_add_test(tcase, test_tombstones_that_are_left_out_are_found);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    return run_suite(make_suite());
}
