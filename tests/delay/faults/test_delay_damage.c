/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Bits that flip, and files that are cut or gone, at every place of small stores. What is wrong is
 * found (-EBADMSG, or a damage that check reports), or it does not matter: then all is as
 * it was. With HWT_DELAY_SALVAGE the rest is delivered, nothing that was never put, and what is
 * missing has been counted.
 *
 * The one exception is the last frame of the log of a store that was not closed: without its checksum
 * it cannot be told from a write that the power cut short, which was never acknowledged. It is cut
 * off, and check says so.
 */

#include "hwt/delay/disk/format.h"
#include "tests/delay/support/simulated.h"

#include <stdlib.h>

enum { FILED = 60, LOGGED = 12, NUMBERS = FILED + LOGGED, LAST = NUMBERS - 1, PARTS = 8 };

#define HOUR HWT_MIN(60)
#define DAY (24 * HOUR)

static struct disk *whole, *closed;

static uint64_t due_of(uint32_t i)
{
    return SIMULATED_START + (1 + i % 4) * HOUR + i;
}

static bool is_cancelled(uint32_t i)
{
    return i % 10 == 3 && i < FILED;
}

static void put_and_cancel(struct simulated *s, uint32_t from, uint32_t to, bool file)
{
    for (uint32_t i = from; i < to; i++)
        ck_assert_int_eq(simulated_put(s, due_of(i), i, i % 3 * 40), 0);
    if (file)
        ck_assert_int_eq(hwt_delay_checkpoint(s->store), 0);
    for (uint32_t i = from; i < to; i++) {
        if (is_cancelled(i))
            ck_assert_int_eq(hwt_delay_cancel(s->store, due_of(i), &i, sizeof(i)), 0);
    }
}

/* A store with two runs in its slots, a checkpoint and a log, and tombstones in both. */
static void make(void)
{
    struct simulated s;
    simulated_new(&s);
    simulated_open(&s);
    put_and_cancel(&s, 0, FILED / 2, true);
    put_and_cancel(&s, FILED / 2, FILED, true);
    put_and_cancel(&s, FILED, NUMBERS, false);
    whole = disk_copy(s.disk);
    simulated_close(&s);
    closed = disk_copy(s.disk);
    simulated_free(&s);
}

static void unmake(void)
{
    disk_free(whole);
    disk_free(closed);
}

/* ---- what may be found ---- */

struct damaged {
    const char *file;
    size_t at;
    const char *how;
    bool closed;
};

static void complain(const struct damaged *damaged, const char *what, int64_t value)
{
    ck_abort_msg("%s %s at %zu: %s (%" PRId64 ")", damaged->file, damaged->how, damaged->at, what,
                 value);
}

static void begin(struct simulated *s, struct disk *disk, uint32_t flags)
{
    simulated_new(s);
    disk_free(s->disk);
    s->disk = disk;
    s->options.flags = flags;
    simulated_begin(s);
}

/* Whether all that should be there was counted once, and nothing else; or all but the last one. */
static bool is_right(const unsigned *counts, bool but_last)
{
    for (uint32_t i = 0; i < NUMBERS; i++) {
        bool there = !is_cancelled(i) && !(but_last && i == LAST);
        if (counts[i] != there)
            return false;
    }
    return true;
}

/* What check tells, and does not count. */
struct told {
    unsigned all, cuts;
};

static void note_told(const hwt_delay_damage *damage, void *arg)
{
    struct told *told = arg;
    told->all++;
    if (strncmp(damage->file, "log.", 4) == 0 && strstr(damage->reason, "did not end"))
        told->cuts++;
}

static void look(struct disk *disk, const struct damaged *damaged)
{
    struct told told = { 0 };
    struct simulated s;
    unsigned seen[SIMULATED_IDS] = { 0 }, taken[SIMULATED_IDS] = { 0 };
    begin(&s, disk, 0);
    int r = simulated_try_open(&s);
    if (r != 0) {
        if (r != -EBADMSG && !(r == -ENOENT && strcmp(damaged->file, "store") == 0))
            complain(damaged, "open", r);
        disk_free(s.disk);
        return;
    }
    r = simulated_list(&s, seen);
    int64_t damages = hwt_delay_check(s.store, note_told, &told);
    bool cut = told.cuts == 1;
    if (cut != (simulated_stats(&s).cut > 0) || told.all != damages + cut)
        complain(damaged, "check tells something else than it counts", damages);
    cut = cut && !damaged->closed; /* then it is the mark of the close, and no message */
    if (r != 0 && r != -EBADMSG)
        complain(damaged, "visit", r);
    if (r == -EBADMSG && damages == 0)
        complain(damaged, "visit finds what check does not", 0);
    if (r == 0 && !is_right(seen, false) && !(cut && is_right(seen, true)))
        complain(damaged, "visit is wrong, and silent", damages);
    simulated_advance(&s, DAY);
    int64_t n = simulated_deliver(&s, SIZE_MAX, taken);
    if (n < 0 && n != -EBADMSG)
        complain(damaged, "take", n);
    if (n == -EBADMSG && damages == 0)
        complain(damaged, "take finds what check does not", 0);
    if (n >= 0 && !is_right(taken, false) && !(cut && is_right(taken, true)))
        complain(damaged, "take is wrong, and silent", n);
    for (uint32_t i = 0; i < NUMBERS; i++) {
        if (taken[i] > !is_cancelled(i))
            complain(damaged, "handed over, and should not be", i);
    }
    simulated_free(&s);
}

static void salvage(struct disk *disk, const struct damaged *damaged)
{
    struct simulated s;
    unsigned taken[SIMULATED_IDS] = { 0 };
    begin(&s, disk, HWT_DELAY_SALVAGE);
    int r = simulated_try_open(&s);
    if (r != 0) {
        /* Without a `store` there is nothing to be salvaged. */
        bool gone = strcmp(damaged->file, "store") == 0 && strcmp(damaged->how, "removed") == 0;
        if (!gone || r != -ENOENT)
            complain(damaged, "open with salvage", r);
        disk_free(s.disk);
        return;
    }
    simulated_advance(&s, DAY);
    int64_t n = simulated_deliver(&s, SIZE_MAX, taken);
    if (n < 0)
        complain(damaged, "take after salvage", n);
    hwt_delay_stats stats = simulated_stats(&s);
    bool told = stats.salvaged > 0 || stats.cut > 0;
    bool of_slot = strncmp(damaged->file, "slot-", 5) == 0;
    unsigned lost = 0;
    for (uint32_t i = 0; i < NUMBERS; i++) {
        if (taken[i] > 1 || (!told && taken[i] != !is_cancelled(i)))
            complain(damaged, "after salvage, delivered in error or missing, and not told", i);
        lost += taken[i] < !is_cancelled(i);
    }
    /* A slot has a quarter of what is filed. */
    if (of_slot && lost > FILED / 4)
        complain(damaged, "more is lost than was damaged", lost);
    if (hwt_delay_checkpoint(s.store) != 0 || hwt_delay_check(s.store, NULL, NULL) != 0)
        complain(damaged, "damage is left after salvage", 0);
    simulated_close(&s);
    s.options.flags = 0;
    simulated_begin(&s);
    r = simulated_try_open(&s);
    if (r != 0)
        complain(damaged, "open after salvage", r);
    simulated_free(&s);
}

/* ---- every place ---- */

static void flip(const struct disk *of, const char *name, size_t at, unsigned char bits)
{
    const struct damaged damaged = { name, at, "flipped", of == closed };
    struct disk *one = disk_copy(of), *other = disk_copy(of);
    disk_flip(disk_find(one, name), at, bits);
    disk_flip(disk_find(other, name), at, bits);
    look(one, &damaged);
    salvage(other, &damaged);
}

static void cut(const char *name, size_t at)
{
    const struct damaged damaged = { .file = name, .at = at, .how = "cut" };
    struct disk *one = disk_copy(whole), *other = disk_copy(whole);
    disk_cut(disk_find(one, name), at);
    disk_cut(disk_find(other, name), at);
    look(one, &damaged);
    salvage(other, &damaged);
}

/* How far a file is in use: zeros follow. */
static size_t used(const struct disk_file *file)
{
    size_t size = file->seen.written;
    while (size > 0 && file->seen.bytes[size - 1] == 0)
        size--;
    return size;
}

static size_t part_of(int i)
{
    return (test_seed() + (uint64_t)i) % PARTS;
}

START_TEST(test_a_flipped_bit_is_found_or_does_not_matter)
{
    uint64_t random = test_seed() + (uint64_t)_i;
    size_t part = part_of(_i);
    for (size_t f = 0; f < whole->seen.count; f++) {
        const struct disk_entry *entry = &whole->seen.entries[f];
        size_t end = used(entry->file);
        for (size_t at = part; at < end; at += PARTS) {
            /* What is zero between the head of a segment and its frames is not read. */
            bool gap = strncmp(entry->name, "log.", 4) == 0 && at >= 64 && at < 4096;
            if (!gap || at % 256 == part)
                flip(whole, entry->name, at, (unsigned char)(1u << test_random(&random) % 8));
        }
        for (size_t at = end + test_random(&random) % 2000; at < entry->file->seen.size;
             at += 1 + test_random(&random) % 8000)
            flip(whole, entry->name, at, (unsigned char)(1u << test_random(&random) % 8));
    }
}
END_TEST

/* Every bit of the last frame with a message, and of the mark behind it. */
START_TEST(test_after_a_close_the_last_frame_is_not_lost_in_silence)
{
    const struct disk_file *file = disk_find(closed, "log.0");
    size_t end = used(file), from = used(disk_find(whole, "log.0")) - 100;
    ck_assert_uint_eq(used(disk_find(closed, "log.1")), HWT_DELAY_SEGMENT_EXTENT + 2);
    ck_assert_uint_gt(end, from + 100);
    for (size_t at = from; at < end; at++) {
        for (unsigned bit = 0; bit < 8; bit++)
            flip(closed, "log.0", at, (unsigned char)(1u << bit));
    }
}
END_TEST

/* So many bytes are inserted before it: a frame, and all behind it, stand where they were not written. */
static void shift_from(struct disk_file *file, size_t at, size_t by)
{
    const size_t size = file->seen.size;
    unsigned char *bytes = malloc(size);
    memcpy(bytes, disk_seen(file), size);
    for (size_t i = at; i < size; i++)
        disk_flip(file, i, bytes[i] ^ (i < at + by ? 0 : bytes[i - by]));
    free(bytes);
}

START_TEST(test_frames_that_stand_at_another_place_are_damage)
{
    static const size_t by[] = { 1, 8, 4096 };
    unsigned tried = 0;
    struct disk_file *log = disk_find(whole, "log.0");
    for (size_t at = HWT_DELAY_SEGMENT_FRAMES; at + 8192 < log->seen.size; at += 8) {
        if (hwt_delay_get32(disk_seen(log) + at + HWT_DELAY_HEAD_MAGIC) != HWT_DELAY_MAGIC_FRAME)
            continue;
        struct disk *disk = disk_copy(whole);
        struct simulated s;
        unsigned counts[SIMULATED_IDS] = { 0 };
        shift_from(disk_find(disk, "log.0"), at, by[_i]);
        begin(&s, disk, 0);
        int r = simulated_try_open(&s);
        if (r == 0)
            ck_assert_int_eq(simulated_list(&s, counts), 0);
        ck_assert_msg(r == -EBADMSG || (r == 0 && is_right(counts, false)), "at %zu: %d", at, r);
        tried++;
        simulated_free(&s);
    }
    ck_assert_uint_gt(tried, 10);
}
END_TEST

START_TEST(test_a_cut_file_is_found_or_does_not_matter)
{
    for (size_t f = 0; f < whole->seen.count; f++) {
        const struct disk_entry *entry = &whole->seen.entries[f];
        size_t end = used(entry->file);
        for (size_t at = part_of(_i); at < end; at += at < 128 ? PARTS : 5 * PARTS + 1)
            cut(entry->name, at);
    }
}
END_TEST

START_TEST(test_a_file_that_is_gone_is_found)
{
    for (size_t f = 0; f < whole->seen.count; f++) {
        const char *name = whole->seen.entries[f].name;
        struct disk *one = disk_copy(whole), *other = disk_copy(whole);
        const struct damaged damaged = { .file = name, .how = "removed" };
        for (int i = 0; i < 2; i++) {
            struct simulated s;
            begin(&s, i ? other : one, 0);
            int directory = s.process.system.open_directory(&s.process, "store");
            ck_assert_int_eq(s.process.system.unlink(&s.process, directory, name), 0);
            process_end(&s.process);
        }
        look(one, &damaged);
        salvage(other, &damaged);
    }
}
END_TEST

/* With HWT_DELAY_CREATE, what is left of a store is not taken for an empty directory. */
START_TEST(test_a_store_without_a_file_is_not_made_anew)
{
    for (size_t f = 0; f < whole->seen.count; f++) {
        struct simulated s;
        unsigned seen[SIMULATED_IDS] = { 0 };
        begin(&s, disk_copy(whole), HWT_DELAY_CREATE);
        int directory = s.process.system.open_directory(&s.process, "store");
        s.process.system.unlink(&s.process, directory, whole->seen.entries[f].name);
        process_end(&s.process);
        simulated_begin(&s);
        int r = simulated_try_open(&s);
        if (r == 0)
            r = simulated_list(&s, seen);
        ck_assert_msg(r == -EBADMSG || r == -ENOTEMPTY || (r == 0 && is_right(seen, false)),
                      "without %s: %d", whole->seen.entries[f].name, r);
        simulated_free(&s);
    }
}
END_TEST

START_TEST(test_nothing_is_wrong_with_what_is_whole)
{
    const struct damaged none = { .file = "none", .how = "untouched" };
    struct simulated s;
    unsigned seen[SIMULATED_IDS] = { 0 };
    look(disk_copy(whole), &none);
    salvage(disk_copy(whole), &none);
    begin(&s, disk_copy(whole), 0);
    ck_assert_int_eq(simulated_try_open(&s), 0);
    ck_assert_int_eq(simulated_list(&s, seen), 0);
    ck_assert(is_right(seen, false));
    ck_assert_int_eq(hwt_delay_check(s.store, NULL, NULL), 0);
    ck_assert_uint_eq(simulated_stats(&s).cut, 0);
    simulated_free(&s);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("delay_damage");
    TCase *tcase = tcase_create("damage");
    /* HWT_TEST_SCALE: other places with each seed. */
    int parts = (int)test_scaled(PARTS);
    tcase_set_timeout(tcase, 120);
    tcase_add_checked_fixture(tcase, make, unmake);
    tcase_add_test(tcase, test_nothing_is_wrong_with_what_is_whole);
    tcase_add_loop_test(tcase, test_a_flipped_bit_is_found_or_does_not_matter, 0, parts);
    tcase_add_test(tcase, test_after_a_close_the_last_frame_is_not_lost_in_silence);
    tcase_add_loop_test(tcase, test_frames_that_stand_at_another_place_are_damage, 0, 3);
    tcase_add_loop_test(tcase, test_a_cut_file_is_found_or_does_not_matter, 0, parts);
    tcase_add_test(tcase, test_a_file_that_is_gone_is_found);
    tcase_add_test(tcase, test_a_store_without_a_file_is_not_made_anew);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    return run_suite(make_suite());
}
