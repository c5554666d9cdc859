/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Salvage: what is damaged is put aside and counted once, what is whole is delivered, and what was
 * made up does not harm what comes after.
 */

#include "tests/delay/support/spoil.h"

#include <fcntl.h>

#define HOUR HWT_MIN(60)

/* ---- what is lost ---- */

static void lose_log(size_t from)
{
    static const char *const names[] = { "log.0", "log.1" };
    for (int i = 0; i < 2; i++) {
        struct disk_file *file = file_of(names[i]);
        for (size_t at = i == 0 ? from : HWT_DELAY_SEGMENT_FRAMES; at < file->seen.size; at++)
            disk_flip(file, at, disk_seen(file)[at]);
    }
    spoil_checkpoint();
}

static void spoil_block(unsigned n)
{
    struct disk_file *file = file_of("slot-");
    disk_flip(file, find(file, HWT_DELAY_MAGIC_BLOCK, n) + HWT_DELAY_BLOCK_SIZE, 1);
}

static void make_in_store(const char *name)
{
    simulated_begin(&s);
    const struct hwt_delay_system *system = &s.process.system;
    int directory = system->open_directory(&s.process, "store");
    ck_assert_int_ge(system->open(&s.process, directory, name, O_RDWR | O_CREAT), 0);
    process_end(&s.process);
}

static void remove_from_store(const char *name)
{
    const struct hwt_delay_system *system = &s.process.system;
    int directory = system->open_directory(&s.process, "store");
    ck_assert_int_eq(system->unlink(&s.process, directory, name), 0);
    system->close(&s.process, directory);
}

/* ---- what was read ---- */

static int64_t (*read_before)(void *data, int file, void *buffer, size_t size, uint64_t offset);
static uint64_t bytes_read;

static int64_t count_read(void *data, int file, void *buffer, size_t size, uint64_t offset)
{
    int64_t n = read_before(data, file, buffer, size, offset);
    bytes_read += n > 0 ? (uint64_t)n : 0;
    return n;
}

static int open_counting(uint32_t flags)
{
    s.options.flags = flags;
    simulated_begin(&s);
    bytes_read = 0;
    read_before = s.process.system.read;
    s.process.system.read = count_read;
    return simulated_try_open(&s);
}

/* ---- a checkpoint that is made up ---- */

/* Slots have what the log has lost, its end or all of it, and that more than once. */
START_TEST(test_numbers_go_on_after_salvage)
{
    static const struct {
        bool end; /* only its end is lost */
        int times;
    } cases[] = { { true, 0 }, { false, 1 }, { false, 2 }, { true, 1 }, { true, 2 } };
    const uint64_t due = s.realtime + HOUR;
    const hwt_delay_message *taken;
    put_some(0, 10, due, 0);
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    simulated_kill(&s);
    const size_t from =
        cases[_i].end ? find(file_of("log.0"), HWT_DELAY_MAGIC_FRAME, 5) : HWT_DELAY_SEGMENT_FRAMES;
    lose_log(from);
    for (int times = 0; times < cases[_i].times; times++) {
        ck_assert_int_eq(open_with(HWT_DELAY_SALVAGE), 0);
        put_some(10, 20, due, 100);
        ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
        simulated_kill(&s);
        simulated_advance(&s, HWT_SEC(1));
        lose_log(from);
    }
    ck_assert_int_eq(open_with(HWT_DELAY_SALVAGE), 0);
    simulated_advance(&s, 2 * HOUR);
    /* All at once: what is done takes numbers, too. */
    ck_assert_int_eq(hwt_delay_take(s.store, 100, 0, &taken), cases[_i].times > 0 ? 20 : 10);
    hwt_delay_free(taken);
}
END_TEST

/* What was made up counts once it is whole: numbers must not come back. */
START_TEST(test_a_checkpoint_is_made_up_on_a_full_disk)
{
    unsigned refused = 0;
    for (uint64_t room = 0; room < 16384; room += 512) {
        put_some(0, 10, s.realtime + HOUR, 0);
        ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
        put_some(10, 20, s.realtime + 9 * HOUR, 700);
        simulated_kill(&s);
        spoil_checkpoint();
        disk_cut(file_of("reserve"), 0);
        s.disk->capacity = disk_size(s.disk) + file_of("checkpoint")->seen.size + room;
        int r = open_with(HWT_DELAY_SALVAGE);
        ck_assert(r == 0 || r == -ENOSPC);
        refused += r == -ENOSPC;
        s.disk->capacity = UINT64_MAX;
        if (r == -ENOSPC) {
            r = open_with(0);
            ck_assert(r == 0 || r == -EBADMSG);
        }
        if (r == -EBADMSG)
            ck_assert_int_eq(open_with(HWT_DELAY_SALVAGE), 0);
        ck_assert_int_eq(hwt_delay_check(s.store, NULL, NULL), 0);
        assert_delivers(0, 20);
        end();
        begin();
    }
    ck_assert_uint_gt(refused, 0);
}
END_TEST

/* Only numbers are missing in it. */
START_TEST(test_a_log_that_is_whole_is_not_put_aside)
{
    const uint64_t due = s.realtime + HOUR;
    put_some(0, 10, due, 10);
    /* Or the first frame behind them begins the other segment. */
    if (_i > 0)
        put_some(20, 24, due, 8000);
    for (int times = 0; times < 2; times++) {
        simulated_kill(&s);
        spoil_checkpoint();
        ck_assert_int_eq(open_with(HWT_DELAY_SALVAGE), 0);
        ck_assert_uint_eq(simulated_stats(&s).salvaged, 1);
        put_some(10, 11, due, 4000);
        put_some(11, 20, due, 10);
        simulated_advance(&s, HWT_SEC(1));
    }
    assert_delivers(0, 20);
}
END_TEST

/* The last frame of a segment is damaged, and the next one is where it should be. */
START_TEST(test_a_lost_end_of_a_segment_is_counted)
{
    size_t at = 0, next;
    uint32_t i = 0;
    while (find(file_of("log.1"), HWT_DELAY_MAGIC_FRAME, 1) == file_of("log.1")->seen.size)
        put_some(i, i + 1, s.realtime + HOUR, 4000), i++;
    simulated_kill(&s);
    struct disk_file *file = file_of("log.0");
    for (unsigned n = 1; (next = find(file, HWT_DELAY_MAGIC_FRAME, n)) < file->seen.size; n++)
        at = next;
    disk_flip(file, at + HWT_DELAY_HEAD_CRC, 1);
    ck_assert_int_eq(open_with(HWT_DELAY_SALVAGE), 0);
    ck_assert_uint_eq(simulated_stats(&s).salvaged, 1);
}
END_TEST

/* ---- other files ---- */

/* Only what has a slot's name is one. */
START_TEST(test_a_copy_beside_a_slot)
{
    put_some(0, 10, s.realtime + HOUR, 0);
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    simulated_kill(&s);
    make_in_store("slot-30-5-1.bak");
    make_in_store("slot-old");
    make_in_store("slot-30-5-fffff"); /* of a checkpoint that did not end */
    if (_i == 0)
        spoil_checkpoint();
    ck_assert_int_eq(open_with(_i == 0 ? HWT_DELAY_SALVAGE : 0), 0);
    ck_assert_ptr_nonnull(disk_find(s.disk, "slot-30-5-1.bak"));
    ck_assert_ptr_nonnull(disk_find(s.disk, "slot-old"));
    ck_assert(_i == 0 || !disk_find(s.disk, "slot-30-5-fffff"));
    assert_delivers(0, 10);
}
END_TEST

/* The log's heads say what its key is. */
START_TEST(test_a_store_of_zeros)
{
    put_some(0, 10, s.realtime + HOUR, 0);
    simulated_kill(&s);
    disk_cut(file_of("store"), 0);
    ck_assert_int_eq(open_with(0), -ENOENT);
    ck_assert_int_eq(open_with(HWT_DELAY_SALVAGE), 0);
    ck_assert_uint_eq(simulated_stats(&s).salvaged, 1);
    assert_delivers(0, 10);
}
END_TEST

/* What was put aside is on the disk, though the file was shorter than it should be. */
START_TEST(test_what_is_put_aside_is_on_the_disk)
{
    simulated_kill(&s);
    disk_cut(file_of("store"), 10);
    ck_assert_int_eq(open_with(HWT_DELAY_SALVAGE), 0);
    const struct disk_file *file = file_of("salvage-");
    ck_assert_uint_eq(file->seen.size, 10);
    ck_assert_uint_eq(file->kept.size, 10);
}
END_TEST

START_TEST(test_a_slot_that_somebody_has_removed)
{
    put_some(0, 10, s.realtime + HOUR, 0);
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    ck_assert_int_eq(hwt_delay_check(s.store, NULL, NULL), 0);
    for (size_t i = 0; i < s.disk->seen.count; i++) {
        const char *name = s.disk->seen.entries[i].name;
        if (strncmp(name, "slot-", 5) == 0) {
            remove_from_store(name);
            break;
        }
    }
    ck_assert_int_eq(hwt_delay_check(s.store, NULL, NULL), 1);
}
END_TEST

static void see_the_end_of_a_slot(const hwt_delay_damage *damage, void *end)
{
    ck_assert_int_eq(strncmp(damage->file, "slot-", 5), 0);
    ck_assert_uint_eq(damage->offset + damage->length, *(const uint64_t *)end);
}

/* By one byte, by half of it, by all of it: no reader may find less than the checkpoint says. Who
 * only looks is told which file that is. */
START_TEST(test_a_slot_that_is_too_short)
{
    unsigned counts[SIMULATED_IDS] = { 0 };
    put_some(0, 10, s.realtime + HOUR, 100);
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    simulated_kill(&s);
    struct disk_file *file = file_of("slot-");
    uint64_t end = file->seen.size;
    const size_t sizes[] = { file->seen.size - 1, file->seen.size / 2, 0 };
    disk_cut(file, sizes[_i]);
    ck_assert_int_eq(open_with(0), -EBADMSG);
    ck_assert_int_eq(open_with(HWT_DELAY_READ_ONLY), 0);
    ck_assert_int_eq(hwt_delay_check(s.store, see_the_end_of_a_slot, &end), 1);
    ck_assert_int_eq(simulated_list(&s, counts), -EBADMSG);
    for (unsigned i = 0; i < SIMULATED_IDS; i++)
        ck_assert_uint_eq(counts[i], 0);
    simulated_kill(&s);
    ck_assert_int_eq(open_with(HWT_DELAY_SALVAGE), 0);
    ck_assert_uint_gt(simulated_stats(&s).salvaged, 0);
}
END_TEST

/* The head of its last run claims bytes that are not there. So nothing is appended, where that would be. */
START_TEST(test_what_is_put_behind_a_slot_that_is_too_short)
{
    const uint64_t due = s.realtime + HOUR;
    put_some(0, 10, due, 100);
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    simulated_kill(&s);
    struct disk_file *file = file_of("slot-");
    disk_cut(file, file->seen.size / 2);
    ck_assert_int_eq(open_with(HWT_DELAY_SALVAGE), 0);
    put_some(10, 20, due, 100);
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    simulated_kill(&s);
    ck_assert_int_eq(open_with(HWT_DELAY_SALVAGE), 0);
    assert_delivers(10, 20);
}
END_TEST

/* ---- blocks ---- */

START_TEST(test_damage_is_put_aside_once)
{
    unsigned counts[SIMULATED_IDS] = { 0 };
    put_some(0, 10, s.realtime + HOUR, 0);
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    simulated_kill(&s);
    spoil_block(1);
    ck_assert_int_eq(open_with(HWT_DELAY_SALVAGE), 0);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(simulated_list(&s, counts), 0);
    ck_assert_uint_eq(simulated_stats(&s).salvaged, 1);
}
END_TEST

/* What is due first comes last in the file. */
START_TEST(test_each_damage_is_put_aside)
{
    const uint64_t start = s.realtime >> 38 << 38, due = start + (UINT64_C(40) << 38);
    unsigned counts[SIMULATED_IDS] = { 0 };
    for (uint32_t i = 0; i < 2; i++) {
        put_some(10 * i, 10 * i + 10, due + (1 - i) * HWT_SEC(100), 0);
        ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    }
    simulated_kill(&s);
    spoil_block(1);
    spoil_block(2);
    ck_assert_int_eq(open_with(HWT_DELAY_SALVAGE), 0);
    s.options.flags = 0;
    simulated_advance(&s, due - s.realtime);
    hwt_delay_accept_clock(s.store);
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, counts), 0);
    ck_assert_uint_eq(simulated_stats(&s).salvaged, 1);
    simulated_advance(&s, HWT_SEC(100));
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, counts), 0);
    ck_assert_uint_eq(simulated_stats(&s).salvaged, 2);
    ck_assert_int_eq(simulated_list(&s, counts), 0);
    ck_assert_uint_eq(simulated_stats(&s).salvaged, 2);
}
END_TEST

/* A block with its checksum that no checkpoint can have brought there. */
START_TEST(test_a_number_that_was_never_given_is_put_aside)
{
    unsigned counts[SIMULATED_IDS] = { 0 };
    put_backwards(0, 10, s.realtime + HOUR, 0);
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    put_backwards(10, 20, s.realtime + HOUR, 0);
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    simulated_kill(&s);
    struct disk_file *file = file_of("slot-");
    size_t at = find(file, HWT_DELAY_MAGIC_BLOCK, 1);
    set_sequence(file, at + HWT_DELAY_BLOCK_SIZE, 100);
    seal_block(file, at);
    ck_assert_int_eq(open_with(0), 0);
    ck_assert_int_eq(hwt_delay_check(s.store, NULL, NULL), 1);
    simulated_kill(&s);
    ck_assert_int_eq(open_with(HWT_DELAY_SALVAGE), 0);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(simulated_list(&s, counts), 0);
    simulated_advance(&s, 2 * HOUR);
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, counts), 10);
    ck_assert_uint_eq(simulated_stats(&s).salvaged, 1);
}
END_TEST

/* ---- the end of the log ---- */

/* The frame that was to begin the other segment did not get whole; or its length is nonsense. */
START_TEST(test_what_was_cut_is_counted)
{
    uint32_t i = 0;
    put_some(i, 1, s.realtime + HOUR, 4000);
    while (find(file_of("log.1"), HWT_DELAY_MAGIC_FRAME, 1) == file_of("log.1")->seen.size) {
        i++;
        put_some(i, i + 1, s.realtime + HOUR, 4000);
    }
    simulated_kill(&s);
    struct disk_file *file = file_of("log.1");
    if (_i == 0)
        disk_flip(file, HWT_DELAY_SEGMENT_FRAMES + 1000, 1);
    else
        set32(file, HWT_DELAY_SEGMENT_FRAMES + HWT_DELAY_FRAME_LENGTH, UINT32_MAX - 7);
    ck_assert_int_eq(open_with(0), 0);
    ck_assert_uint_ge(simulated_stats(&s).cut, _i == 0 ? 4000 : HWT_DELAY_FRAME_SIZE);
    ck_assert_uint_le(simulated_stats(&s).cut, 5000);
    assert_delivers(0, i);
}
END_TEST

/* ---- payloads that look like heads ---- */

/* With an id of 4 bytes, so that the payload begins at a multiple of 8. */
static void put_units(uint32_t i, uint64_t due, const unsigned char *unit, size_t unit_size)
{
    unsigned char payload[8192];
    for (size_t at = 0; at < sizeof(payload); at++)
        payload[at] = unit[at % unit_size];
    const hwt_delay_message message = {
        .due = due,
        .id = &i,
        .id_size = sizeof(i),
        .payload = payload,
        .payload_size = sizeof(payload),
    };
    ck_assert_int_eq(hwt_delay_put(s.store, &message, 1), 0);
}

/* Heads of another store, or of this one that belong elsewhere: at offset 0 there is no frame. */
static void put_frames(uint32_t n, uint64_t key, uint64_t sequence)
{
    unsigned char unit[HWT_DELAY_FRAME_SIZE] = { 0 };
    hwt_delay_set32(unit + HWT_DELAY_FRAME_LENGTH, 15000);
    hwt_delay_set32(unit + HWT_DELAY_FRAME_COUNT, 1);
    hwt_delay_set64(unit + HWT_DELAY_FRAME_SEQUENCE, sequence);
    hwt_delay_head_seal(unit, key, HWT_DELAY_MAGIC_FRAME, sizeof(unit));
    for (uint32_t i = 0; i < n; i++)
        put_units(i, s.realtime + HOUR, unit, sizeof(unit));
}

static uint64_t log_size(void)
{
    return file_of("log.0")->seen.size + file_of("log.1")->seen.size;
}

START_TEST(test_payloads_like_frames)
{
    const uint32_t n = _i < 4 ? 3 : 21; /* into a new log; over old frames */
    put_frames(n, key_of() ^ (_i % 2 == 0), _i / 2 % 2 == 0 ? 40 : UINT64_C(1) << 40);
    /* Ends within an old one. */
    for (uint32_t i = 0; i < 3; i++) {
        const hwt_delay_message message = { .due = s.realtime + HOUR,
                                            .id = "xyz",
                                            .id_size = i + 1 };
        ck_assert_int_eq(hwt_delay_put(s.store, &message, 1), 0);
    }
    simulated_kill(&s);
    ck_assert_int_eq(open_counting(0), 0);
    ck_assert_uint_le(bytes_read, 4 * log_size());
    simulated_kill(&s);
    ck_assert_int_eq(open_counting(HWT_DELAY_SALVAGE), 0);
    ck_assert_uint_le(bytes_read, 5 * log_size()); /* and what is put aside */
    ck_assert_uint_eq(simulated_stats(&s).pending, n + 3);
}
END_TEST

/* Of runs, and of blocks. */
START_TEST(test_payloads_like_heads_of_slots)
{
    unsigned char unit[HWT_DELAY_RUN_SIZE] = { 0 };
    const size_t unit_size = _i == 0 ? HWT_DELAY_RUN_SIZE : HWT_DELAY_BLOCK_SIZE;
    hwt_delay_head_seal(unit, key_of(), _i == 0 ? HWT_DELAY_MAGIC_RUN : HWT_DELAY_MAGIC_BLOCK,
                        unit_size);
    for (uint32_t i = 0; i < 3; i++) {
        put_units(i, s.realtime + HOUR, unit, unit_size);
        put_units(i + 3, s.realtime + HOUR, unit, unit_size);
        ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    }
    simulated_kill(&s);
    struct disk_file *file = file_of("slot-");
    if (_i == 0)
        disk_flip(file, HWT_DELAY_HEAD_CRC, 1);
    disk_flip(file, HWT_DELAY_RUN_SIZE + HWT_DELAY_BLOCK_SIZE, 1);
    ck_assert_int_eq(open_counting(HWT_DELAY_SALVAGE), 0);
    const hwt_delay_message *taken;
    bytes_read = 0;
    simulated_advance(&s, 2 * HOUR);
    ck_assert_int_eq(hwt_delay_take(s.store, 10, 0, &taken), 5);
    hwt_delay_free(taken);
    ck_assert_uint_le(bytes_read, 8 * file->seen.size);
    ck_assert_uint_gt(simulated_stats(&s).salvaged, 0);
}
END_TEST

/* ---- beside an owner ---- */

static void put_and_count(void)
{
    static uint32_t i = 1000;
    put_some(i, i + 1, s.realtime + HOUR, 10);
    i++;
}

/* The owner puts one whenever the reader looks through the log. */
static int64_t read_beside(void *data, int file, void *buffer, size_t size, uint64_t offset)
{
    if (size > SIMULATED_SEGMENT)
        put_and_count();
    return read_before(data, file, buffer, size, offset);
}

START_TEST(test_a_reader_beside_a_busy_owner)
{
    struct process reader;
    hwt_delay *read;
    hwt_delay_options options = s.options;
    unsigned counts[SIMULATED_IDS] = { 0 };
    put_some(0, 5, s.realtime + HOUR, 10);
    process_start(&reader, s.disk, &s.realtime, &s.boottime);
    read_before = reader.system.read;
    reader.system.read = read_beside;
    options.flags = HWT_DELAY_READ_ONLY;
    ck_assert_int_eq(hwt_delay_open_on("store", &options, &reader.system, true, &read), 0);
    ck_assert_int_eq(hwt_delay_visit(read, 0, HWT_NEVER, simulated_list_one, counts), 0);
    for (uint32_t i = 0; i < 5; i++)
        ck_assert_uint_eq(counts[i], 1);
    ck_assert_int_eq(hwt_delay_check(read, NULL, NULL), 0);
    hwt_delay_close(read);
    process_end(&reader);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("delay_salvage");
    TCase *tcase = tcase_create("salvage");
    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, begin, end);
    tcase_add_loop_test(tcase, test_numbers_go_on_after_salvage, 0, 5);
    tcase_add_test(tcase, test_a_checkpoint_is_made_up_on_a_full_disk);
    tcase_add_loop_test(tcase, test_a_log_that_is_whole_is_not_put_aside, 0, 2);
    tcase_add_test(tcase, test_a_lost_end_of_a_segment_is_counted);
    tcase_add_loop_test(tcase, test_a_copy_beside_a_slot, 0, 2);
    tcase_add_test(tcase, test_a_store_of_zeros);
    tcase_add_test(tcase, test_what_is_put_aside_is_on_the_disk);
    tcase_add_test(tcase, test_a_slot_that_somebody_has_removed);
    tcase_add_loop_test(tcase, test_a_slot_that_is_too_short, 0, 3);
    tcase_add_test(tcase, test_what_is_put_behind_a_slot_that_is_too_short);
    tcase_add_test(tcase, test_damage_is_put_aside_once);
    tcase_add_test(tcase, test_each_damage_is_put_aside);
    tcase_add_test(tcase, test_a_number_that_was_never_given_is_put_aside);
    tcase_add_loop_test(tcase, test_what_was_cut_is_counted, 0, 2);
    tcase_add_loop_test(tcase, test_payloads_like_frames, 0, 8);
    tcase_add_loop_test(tcase, test_payloads_like_heads_of_slots, 0, 2);
    tcase_add_test(tcase, test_a_reader_beside_a_busy_owner);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    return run_suite(make_suite());
}
