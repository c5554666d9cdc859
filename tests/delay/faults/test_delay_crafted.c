/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Files whose checksums fit, and that no store has written: somebody's program, or damage that was
 * salvaged twice. What is in them is answered with an error or delivered; nothing hangs, nothing
 * is used after it was freed, no message that is whole is lost.
 */

#include "tests/delay/support/spoil.h"

#include "hwt/delay/whole.h"

#define HOUR HWT_MIN(60)

enum { IMPOSSIBLE = 14, SIZES = 16 };

/* ---- memory ---- */

static size_t longest; /* that was asked for */

void *__real_realloc(void *block, size_t size);
void *__wrap_realloc(void *block, size_t size);

void *__wrap_realloc(void *block, size_t size)
{
    longest = size > longest ? size : longest;
    return __real_realloc(block, size);
}

/* ---- bytes ---- */

/* For a frame, of as many bytes of records as its head says. */
static void seal_frame(struct disk_file *file, size_t at)
{
    size_t records = at + HWT_DELAY_FRAME_SIZE;
    seal(file, key_of(), at + HWT_DELAY_FRAME_RECORDS_CRC, records,
         records + hwt_delay_get32(disk_seen(file) + at + HWT_DELAY_FRAME_LENGTH));
    seal_head(file, at, HWT_DELAY_MAGIC_FRAME, HWT_DELAY_FRAME_SIZE);
}

/* A frame without records. */
static void write_frame(const char *name, size_t at, uint64_t sequence)
{
    struct disk_file *file = file_of(name);
    set32(file, at + HWT_DELAY_FRAME_LENGTH, 0);
    set32(file, at + HWT_DELAY_FRAME_COUNT, 0);
    seal(file, key_of(), at + HWT_DELAY_FRAME_RECORDS_CRC, at, at);
    set32(file, at + HWT_DELAY_FRAME_PLACE, hwt_delay_place(strcmp(name, "log.1") == 0, at));
    set64(file, at + HWT_DELAY_FRAME_SEQUENCE, sequence);
    set64(file, at + HWT_DELAY_FRAME_HAND, 0);
    seal_head(file, at, HWT_DELAY_MAGIC_FRAME, HWT_DELAY_FRAME_SIZE);
}

/* ---- the log ---- */

START_TEST(test_frames_without_records)
{
    put_some(0, 10, s.realtime + HOUR, 10);
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    simulated_kill(&s);
    const unsigned char *head = disk_seen(file_of("checkpoint"));
    uint64_t sequence = hwt_delay_get64(head + HWT_DELAY_CHECKPOINT_SEQUENCE);
    size_t at = hwt_delay_get64(head + HWT_DELAY_CHECKPOINT_POSITION);
    ck_assert_uint_eq(hwt_delay_get32(head + HWT_DELAY_CHECKPOINT_SEGMENT), 0);
    if (_i == 0) {
        write_frame("log.0", at, sequence);
    } else {
        write_frame("log.0", HWT_DELAY_SEGMENT_FRAMES, sequence);
        write_frame("log.1", HWT_DELAY_SEGMENT_FRAMES, sequence);
    }
    ck_assert_int_eq(open_with(_i < 2 ? HWT_DELAY_SALVAGE : 0), 0);
    assert_delivers(0, 10);
}
END_TEST

START_TEST(test_a_place_in_the_log_that_cannot_be)
{
    static const uint64_t places[] = { 0, 8, 4100, 1 << 20, UINT64_MAX - 7 };
    put_some(0, 10, s.realtime + HOUR, 10);
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    simulated_kill(&s);
    set64(file_of("checkpoint"), HWT_DELAY_CHECKPOINT_POSITION, places[_i]);
    seal_checkpoint();
    ck_assert_int_eq(open_with(0), -EBADMSG);
    ck_assert_int_eq(open_with(HWT_DELAY_SALVAGE), 0);
    assert_delivers(0, 10);
}
END_TEST

static uint64_t slot_files(void)
{
    uint64_t count = 0;
    for (size_t i = 0; i < s.disk->seen.count; i++)
        count += strncmp(s.disk->seen.entries[i].name, "slot-", 5) == 0;
    return count;
}

/* Its sum fits, and what it says cannot be: salvage makes one up, as for one that is damaged. */
START_TEST(test_a_checkpoint_that_cannot_be)
{
    static const struct {
        size_t at;
        unsigned size;
        uint64_t value;
    } cases[] = {
        { HWT_DELAY_CHECKPOINT_FILES, 4, 3 },
        { HWT_DELAY_CHECKPOINT_FILES, 4, UINT32_MAX },
        { HWT_DELAY_CHECKPOINT_ENTRY, 4, HWT_DELAY_FILE_SIZE + 8 },
        { HWT_DELAY_CHECKPOINT_ENTRY, 4, UINT32_MAX },
        { HWT_DELAY_CHECKPOINT_GAPS, 4, 1 },
        { HWT_DELAY_CHECKPOINT_GAPS, 4, 65 },
        { HWT_DELAY_CHECKPOINT_SPANS, 4, 0 },
        { HWT_DELAY_CHECKPOINT_SPANS, 4, 1 << 20 },
        { HWT_DELAY_CHECKPOINT_SHIFT, 4, 29 },
        { HWT_DELAY_CHECKPOINT_SHIFT, 4, 64 },
        { HWT_DELAY_CHECKPOINT_RECORDS, 8, 0 },
        { HWT_DELAY_CHECKPOINT_RECORDS, 8, UINT64_MAX },
        { HWT_DELAY_CHECKPOINT_SIZE + HWT_DELAY_FILE_SHIFT, 4, 64 },
        { HWT_DELAY_CHECKPOINT_SIZE + HWT_DELAY_FILE_INDEX, 8, UINT64_MAX },
    };
    const hwt_delay_message *taken;
    ck_assert_uint_eq(sizeof(cases) / sizeof(cases[0]), IMPOSSIBLE);
    put_some(0, 10, s.realtime + HOUR, 10);
    put_some(10, 11, s.realtime, 10);
    ck_assert_int_eq(hwt_delay_take(s.store, 1, 0, &taken), 1);
    hwt_delay_free(taken);
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    simulated_kill(&s);
    if (cases[_i].size == 4)
        set32(file_of("checkpoint"), cases[_i].at, (uint32_t)cases[_i].value);
    else
        set64(file_of("checkpoint"), cases[_i].at, cases[_i].value);
    seal_checkpoint();
    ck_assert_int_eq(open_with(0), -EBADMSG);
    ck_assert_int_eq(open_with(HWT_DELAY_READ_ONLY), -EBADMSG);
    ck_assert_int_eq(open_with(HWT_DELAY_SALVAGE), 0);
    ck_assert_uint_eq(simulated_stats(&s).salvaged, 1);
    ck_assert_uint_eq(simulated_stats(&s).files, slot_files());
    ck_assert_uint_eq(simulated_stats(&s).gaps, 0);
    simulated_kill(&s);
    ck_assert_int_eq(open_with(0), 0);
    ck_assert_uint_eq(simulated_stats(&s).files, slot_files());
    assert_delivers(0, 11);
}
END_TEST

/* The log is whole, and its size as `store` says it is not; nor as its own heads say it. */
START_TEST(test_a_size_of_the_log_that_cannot_be)
{
    static const uint64_t sizes[] = {
        0, 4096, 40961, UINT64_C(1) << 62, 32768, 81920, UINT64_C(1) << 28,
    };
    struct disk_file *file = file_of("store");
    put_some(0, 10, s.realtime + HOUR, 4000);
    simulated_kill(&s);
    s.disk->capacity = 1 << 20;
    set64(file, HWT_DELAY_STORE_SEGMENT_SIZE, sizes[_i % 7]);
    seal(file, 0, HWT_DELAY_STORE_CRC, HWT_DELAY_STORE_VERSION, HWT_DELAY_STORE_SIZE);
    for (unsigned i = 0; i < 2 && _i >= 7; i++) { /* the heads of the log say the same */
        struct disk_file *log = file_of(i == 0 ? "log.0" : "log.1");
        set64(log, HWT_DELAY_SEGMENT_LENGTH, sizes[_i % 7]);
        seal(log, 0, HWT_DELAY_SEGMENT_CRC, HWT_DELAY_SEGMENT_VERSION, HWT_DELAY_SEGMENT_SIZE);
    }
    /* Where all say the same, and the log is not longer than that, nobody can know better. */
    if (_i < 7 || sizes[_i % 7] < 40960 || sizes[_i % 7] % 4096 != 0 || sizes[_i % 7] >> 32 > 0)
        ck_assert_int_eq(open_with(0), -EBADMSG);
    ck_assert_int_eq(open_with(HWT_DELAY_SALVAGE), 0);
    assert_delivers(0, 10);
}
END_TEST

/* ---- records ---- */

/* The mark of a drop was given before it, so what is put behind it is not dropped. */
START_TEST(test_a_drop_of_what_is_put_later)
{
    hwt_delay_change drop = { .op = HWT_DELAY_OP_DROP, .due = s.realtime, .mark = 1 };
    put_some(0, 1, s.realtime + HOUR, 10);
    ck_assert_int_eq(hwt_delay_apply(s.store, &drop, 1, NULL), 0);
    simulated_kill(&s);
    struct disk_file *file = file_of("log.0");
    const size_t at = find(file, HWT_DELAY_MAGIC_FRAME, 2), record = at + HWT_DELAY_FRAME_SIZE;
    ck_assert_uint_eq(disk_seen(file)[record + HWT_DELAY_RECORD_KIND], HWT_DELAY_DROP);
    /* Its own sequence is 2. That of its mark, 1, has no byte: it gets one, of the padding. */
    const unsigned char key = disk_seen(file)[record + HWT_DELAY_RECORD_KEY] | 16;
    ck_assert_uint_eq(key, 16 + 8);
    write_at(file, record + HWT_DELAY_RECORD_KEY, &key, 1);
    set32(file, at + HWT_DELAY_FRAME_LENGTH, HWT_DELAY_RECORD_LEAST + 9);
    set_sequence(file, record, 2 + (uint64_t)_i);
    seal_frame(file, at);
    ck_assert_int_eq(open_with(0), -EBADMSG);
    ck_assert_int_eq(open_with(HWT_DELAY_READ_ONLY), -EBADMSG);
}
END_TEST

/* Of a kind, or with a flag, that no release has written yet. */
static void make_unknown(struct disk_file *file, size_t at, int which)
{
    static const unsigned char kinds[] = { 6, 255 }, flags[] = { 0x80, 0xf0 };
    if (which < 2) {
        write_at(file, at + HWT_DELAY_RECORD_KIND, &kinds[which], 1);
    } else {
        unsigned char byte = disk_seen(file)[at + HWT_DELAY_RECORD_FLAGS] | flags[which - 2];
        write_at(file, at + HWT_DELAY_RECORD_FLAGS, &byte, 1);
    }
}

static void assert_is_of_a_later_release(void)
{
    struct disk *before = disk_copy(s.disk);
    static const uint32_t flags[] = { 0, HWT_DELAY_READ_ONLY, HWT_DELAY_SALVAGE };
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
        ck_assert_int_eq(open_with(flags[i]), -ENOTSUP);
    struct disk_file *old = disk_find(before, "log.0"), *new = disk_find(s.disk, "log.0");
    ck_assert_uint_eq(old->seen.size, new->seen.size);
    ck_assert_int_eq(memcmp(disk_seen(old), disk_seen(new), old->seen.size), 0);
    disk_free(before);
}

START_TEST(test_an_unknown_record_in_the_log)
{
    put_some(0, 10, s.realtime + HOUR, 10);
    simulated_kill(&s);
    struct disk_file *file = file_of("log.0");
    size_t at = find(file, HWT_DELAY_MAGIC_FRAME, 5);
    make_unknown(file, at + HWT_DELAY_FRAME_SIZE, _i);
    seal_frame(file, at);
    assert_is_of_a_later_release();
}
END_TEST

START_TEST(test_an_unknown_record_in_the_checkpoint)
{
    const hwt_delay_message *taken;
    put_some(0, 1, s.realtime, 10);
    ck_assert_int_eq(hwt_delay_take(s.store, 1, 0, &taken), 1);
    hwt_delay_free(taken);
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    simulated_kill(&s);
    struct disk_file *file = file_of("checkpoint");
    size_t slots = hwt_delay_get32(disk_seen(file) + HWT_DELAY_CHECKPOINT_FILES);
    ck_assert_uint_eq(hwt_delay_get64(disk_seen(file) + HWT_DELAY_CHECKPOINT_RECORDS), 1);
    make_unknown(file, HWT_DELAY_CHECKPOINT_SIZE + slots * HWT_DELAY_FILE_SIZE, _i);
    seal_checkpoint();
    assert_is_of_a_later_release();
}
END_TEST

/* It is no damage: it is not kept back as a gap, and nothing is put aside. */
START_TEST(test_an_unknown_record_in_a_slot)
{
    const hwt_delay_message *taken;
    unsigned counts[SIMULATED_IDS] = { 0 };
    put_some(0, 10, s.realtime + HOUR, 10);
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    simulated_kill(&s);
    struct disk_file *file = file_of("slot-");
    size_t at = find(file, HWT_DELAY_MAGIC_BLOCK, 1);
    make_unknown(file, at + HWT_DELAY_BLOCK_SIZE, _i);
    seal_block(file, at);
    ck_assert_int_eq(open_with(0), 0);
    ck_assert_int_eq(simulated_list(&s, counts), -ENOTSUP);
    ck_assert_int_eq(hwt_delay_check(s.store, NULL, NULL), -ENOTSUP);
    simulated_advance(&s, 2 * HOUR);
    ck_assert_int_eq(hwt_delay_take(s.store, 1, 0, &taken), -ENOTSUP);
    ck_assert_uint_eq(simulated_stats(&s).gaps, 0);
    ck_assert_uint_eq(simulated_stats(&s).salvaged, 0);
}
END_TEST

/* A field is longer than it may be, or than what is left, or is not all that is left. */
START_TEST(test_a_size_in_a_record_that_cannot_be)
{
    static const struct {
        size_t at;
        unsigned char value;
    } cases[SIZES] = {
        { HWT_DELAY_RECORD_KEY, 9 },      { HWT_DELAY_RECORD_KEY, 15 },
        { HWT_DELAY_RECORD_KEY, 0x98 },   { HWT_DELAY_RECORD_KEY, 0xff },
        { HWT_DELAY_RECORD_KEY, 0x08 },   { HWT_DELAY_RECORD_FLAGS, 0 },
        { HWT_DELAY_RECORD_FLAGS, 4 },    { HWT_DELAY_RECORD_FLAGS, 5 },
        { HWT_DELAY_RECORD_FLAGS, 15 },   { HWT_DELAY_RECORD_FLAGS, 0x21 },
        { HWT_DELAY_RECORD_FLAGS, 0x41 }, { HWT_DELAY_RECORD_SHARED, 1 },
        { HWT_DELAY_RECORD_SHARED, 255 }, { HWT_DELAY_RECORD_REST, 0 },
        { HWT_DELAY_RECORD_REST, 3 },     { HWT_DELAY_RECORD_REST, 255 },
    };
    put_some(0, 2, s.realtime + HOUR, 10);
    simulated_kill(&s);
    struct disk_file *file = file_of("log.0");
    size_t at = find(file, HWT_DELAY_MAGIC_FRAME, 2);
    write_at(file, at + HWT_DELAY_FRAME_SIZE + cases[_i].at, &cases[_i].value, 1);
    seal_frame(file, at);
    ck_assert_int_eq(open_with(0), -EBADMSG);
    ck_assert_int_eq(open_with(HWT_DELAY_READ_ONLY), -EBADMSG);
}
END_TEST

/* ---- slots ---- */

/* It goes on behind its run, and its checksums fit. */
START_TEST(test_a_block_longer_than_its_run)
{
    for (uint32_t i = 0; i < 2; i++) {
        put_some(i, i + 1, s.realtime + HOUR, 10);
        ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    }
    simulated_kill(&s);
    struct disk_file *file = file_of("slot-");
    const size_t at = HWT_DELAY_RUN_SIZE + HWT_DELAY_BLOCK_LENGTH;
    set32(file, at, hwt_delay_get32(disk_seen(file) + at) + 1);
    seal_block(file, HWT_DELAY_RUN_SIZE);
    ck_assert_int_eq(open_with(0), 0);
    simulated_advance(&s, 2 * HOUR);
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, NULL), -EBADMSG);
    ck_assert_uint_eq(simulated_stats(&s).gaps, 1);
}
END_TEST

/* As long as its run and its file, and its checksums fit; but no record is so long. */
START_TEST(test_a_block_longer_than_any_record)
{
    const size_t length = _i == 0 ? HWT_DELAY_RECORD_MAX + 1 : 64 << 20;
    const size_t run = HWT_DELAY_BLOCK_SIZE + length;
    put_some(0, 1, s.realtime + HOUR, 10);
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    simulated_kill(&s);
    struct disk_file *file = file_of("slot-"), *checkpoint = file_of("checkpoint");
    disk_cut(file, HWT_DELAY_RUN_SIZE + run);
    set64(file, HWT_DELAY_RUN_LENGTH, run);
    seal_head(file, 0, HWT_DELAY_MAGIC_RUN, HWT_DELAY_RUN_SIZE);
    set32(file, HWT_DELAY_RUN_SIZE + HWT_DELAY_BLOCK_LENGTH, (uint32_t)length);
    seal_block(file, HWT_DELAY_RUN_SIZE);
    set64(checkpoint, HWT_DELAY_CHECKPOINT_SIZE + HWT_DELAY_FILE_LENGTH, HWT_DELAY_RUN_SIZE + run);
    seal_checkpoint();
    ck_assert_int_eq(open_with(0), 0);
    simulated_advance(&s, 2 * HOUR);
    longest = 0;
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, NULL), -EBADMSG);
    ck_assert_uint_gt(longest, 0);
    ck_assert_uint_lt(longest, 1 << 20);
}
END_TEST

enum { MANY = 5000 }; /* more than a visit shows at a time */

static int count_to_limit(const hwt_delay_message *message, void *count)
{
    (void)message;
    return ++*(unsigned *)count > MANY ? 1 : 0;
}

/* All messages of a block get the sequence 1, for which they have payload to give up, or get some. */
static void give_one_key(struct disk_file *file, size_t at)
{
    struct hwt_delay_before old = { 0 }, new = { 0 };
    uint32_t length = hwt_delay_get32(disk_seen(file) + at + HWT_DELAY_BLOCK_LENGTH);
    const unsigned char *from = disk_seen(file) + at + HWT_DELAY_BLOCK_SIZE, *end = from + length;
    size_t payload = 2 + (from[HWT_DELAY_RECORD_KEY] >> 4); /* of the first one */
    unsigned char bytes[HWT_DELAY_BLOCK_RECORDS + 64], text[8], *to = bytes;
    while (from < end) {
        struct hwt_delay_packed packed;
        ck_assert_int_eq(hwt_delay_unpack(&old, &from, end, &packed), 0);
        const hwt_delay_message message = { .due = packed.key.due,
                                            .id = packed.id,
                                            .id_size = packed.id_size,
                                            .payload = text,
                                            .payload_size = payload };
        memset(text, packed.payload[0], sizeof(text));
        struct hwt_delay_record *record = hwt_delay_record_new(HWT_DELAY_PUT, &message);
        ck_assert_ptr_nonnull(record);
        record->key.sequence = 1;
        to = hwt_delay_encode(&new, record, to);
        hwt_delay_record_unref(record);
        payload = 1;
    }
    ck_assert_uint_eq((uint32_t)(to - bytes), length);
    write_at(file, at + HWT_DELAY_BLOCK_SIZE, bytes, length);
    seal_block(file, at);
}

START_TEST(test_many_messages_of_one_key)
{
    unsigned count = 0;
    put_some(0, MANY, s.realtime + HOUR, 2);
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    simulated_kill(&s);
    for (size_t f = 0; f < s.disk->seen.count; f++) {
        struct disk_file *file = s.disk->seen.entries[f].file;
        if (strncmp(s.disk->seen.entries[f].name, "slot-", 5) != 0)
            continue;
        size_t at;
        for (unsigned n = 1; (at = find(file, HWT_DELAY_MAGIC_BLOCK, n)) < file->seen.size; n++)
            give_one_key(file, at);
    }
    ck_assert_int_eq(open_with(0), 0);
    ck_assert_int_eq(hwt_delay_visit(s.store, 0, HWT_NEVER, count_to_limit, &count), 0);
    ck_assert_uint_eq(count, MANY);
    simulated_advance(&s, 2 * HOUR);
    ck_assert_int_eq(simulated_deliver(&s, 1, NULL), 1);
    count = 0;
    ck_assert_int_eq(hwt_delay_visit(s.store, 0, HWT_NEVER, count_to_limit, &count), 0);
    ck_assert_uint_eq(count, MANY - 1);
}
END_TEST

/* The head of a run hides the newer one of two messages until the older one is leased. */
START_TEST(test_a_newer_message_than_the_one_leased)
{
    enum { OTHERS = 40 };
    const uint64_t due = s.realtime + HOUR;
    const hwt_delay_message *taken;
    uint64_t leases[2];
    size_t count = 0;
    put_some(0, OTHERS, due, 4096);
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    put_some(0, 1, due, 4096);
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    simulated_kill(&s);
    struct disk_file *file = file_of("slot-");
    size_t at = 0, next;
    for (unsigned n = 2; (next = find(file, HWT_DELAY_MAGIC_RUN, n)) < file->seen.size; n++)
        at = next;
    ck_assert_uint_gt(at, 0);
    for (int i = 0; i < 2; i++) {
        size_t key = at + (i ? HWT_DELAY_RUN_LAST : HWT_DELAY_RUN_FIRST);
        set64(file, key, due + 1);
        set64(file, key + 8, 0);
    }
    seal_head(file, at, HWT_DELAY_MAGIC_RUN, HWT_DELAY_RUN_SIZE);
    ck_assert_int_eq(open_with(0), 0);
    simulated_advance(&s, 2 * HOUR);
    while (hwt_delay_take(s.store, 1, 0, &taken) > 0) {
        if (simulated_number(taken) == 0) {
            ck_assert_uint_lt(count, 2);
            leases[count++] = taken->lease;
        } else {
            ck_assert_int_eq(hwt_delay_done(s.store, &taken->lease, 1), 1);
        }
        hwt_delay_free(taken);
    }
    ck_assert_uint_eq(count, 2);
    unsigned shown = 0; /* the older one is nobody's any more */
    ck_assert_int_eq(hwt_delay_visit(s.store, 0, HWT_NEVER, count_to_limit, &shown), 0);
    ck_assert_uint_eq(shown, 1);
    ck_assert_int_eq(hwt_delay_done(s.store, leases, count), 2);
    ck_assert_uint_eq(simulated_stats(&s).leased, 0);
}
END_TEST

/* No checkpoint can have brought it there. */
START_TEST(test_a_sequence_that_was_never_given)
{
    put_backwards(0, 10, s.realtime + HOUR, 0);
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    simulated_kill(&s);
    struct disk_file *file = file_of("slot-");
    size_t at = find(file, HWT_DELAY_MAGIC_BLOCK, 1);
    set_sequence(file, at + HWT_DELAY_BLOCK_SIZE, 11);
    seal_block(file, at);
    ck_assert_int_eq(open_with(0), 0);
    simulated_advance(&s, 2 * HOUR);
    ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, NULL), -EBADMSG);
}
END_TEST

/* ---- read-only ---- */

/* The owner writes the log over: that is no damage. */
START_TEST(test_the_log_of_an_owner_who_goes_on)
{
    struct process reader;
    hwt_delay *read;
    hwt_delay_options options = s.options;
    put_some(0, 5, s.realtime + HOUR, 1000);
    process_start(&reader, s.disk, &s.realtime, &s.boottime);
    options.flags = HWT_DELAY_READ_ONLY;
    ck_assert_int_eq(hwt_delay_open_on("store", &options, &reader.system, true, &read), 0);
    ck_assert_int_eq(hwt_delay_check(read, NULL, NULL), 0);
    for (uint32_t i = 0; i < 20; i++) {
        put_some(5 + 10 * i, 15 + 10 * i, s.realtime + HOUR, 1000);
        ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    }
    ck_assert_int_eq(hwt_delay_check(read, NULL, NULL), -ESTALE);
    hwt_delay_close(read);
    process_end(&reader);
}
END_TEST

static int (*open_of_disk)(void *data, int directory, const char *name, int flags);
static unsigned slots_opened;

/* Before a reader opens its first slot, the owner is done with all of them. */
static int open_late(void *data, int directory, const char *name, int flags)
{
    if (strncmp(name, "slot-", 5) == 0 && slots_opened++ == 0) {
        simulated_advance(&s, 2 * HOUR);
        ck_assert_int_eq(hwt_delay_accept_clock(s.store), 0);
        ck_assert_int_eq(simulated_deliver(&s, SIZE_MAX, NULL), 10);
        ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
        ck_assert_uint_eq(simulated_stats(&s).files, 0);
    }
    return open_of_disk(data, directory, name, flags);
}

/* What it has read of the checkpoint is old: it begins anew. */
START_TEST(test_slots_of_an_owner_who_goes_on)
{
    struct process reader;
    hwt_delay *read;
    hwt_delay_options options = s.options;
    unsigned counts[SIMULATED_IDS] = { 0 };
    slots_opened = 0;
    put_some(0, 10, s.realtime + HOUR, 1000);
    ck_assert_int_eq(hwt_delay_checkpoint(s.store), 0);
    process_start(&reader, s.disk, &s.realtime, &s.boottime);
    open_of_disk = reader.system.open;
    reader.system.open = open_late;
    options.flags = HWT_DELAY_READ_ONLY;
    ck_assert_int_eq(hwt_delay_open_on("store", &options, &reader.system, true, &read), 0);
    ck_assert_uint_gt(slots_opened, 0);
    struct simulated view = { .store = read };
    ck_assert_int_eq(simulated_list(&view, counts), 0);
    for (uint32_t i = 0; i < 10; i++)
        ck_assert_uint_eq(counts[i], 0);
    ck_assert_int_eq(hwt_delay_close(read), 0);
    process_end(&reader);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("delay_crafted");
    TCase *tcase = tcase_create("crafted");
    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, begin, end);
    tcase_add_loop_test(tcase, test_frames_without_records, 0, 3);
    tcase_add_loop_test(tcase, test_a_drop_of_what_is_put_later, 0, 2);
    tcase_add_loop_test(tcase, test_a_checkpoint_that_cannot_be, 0, IMPOSSIBLE);
    tcase_add_loop_test(tcase, test_a_place_in_the_log_that_cannot_be, 0, 5);
    tcase_add_loop_test(tcase, test_a_size_of_the_log_that_cannot_be, 0, 14);
    tcase_add_loop_test(tcase, test_an_unknown_record_in_the_log, 0, 4);
    tcase_add_loop_test(tcase, test_an_unknown_record_in_the_checkpoint, 0, 4);
    tcase_add_loop_test(tcase, test_an_unknown_record_in_a_slot, 0, 4);
    tcase_add_loop_test(tcase, test_a_size_in_a_record_that_cannot_be, 0, SIZES);
    tcase_add_test(tcase, test_a_block_longer_than_its_run);
    tcase_add_loop_test(tcase, test_a_block_longer_than_any_record, 0, 2);
    tcase_add_test(tcase, test_many_messages_of_one_key);
    tcase_add_test(tcase, test_a_newer_message_than_the_one_leased);
    tcase_add_test(tcase, test_a_sequence_that_was_never_given);
    tcase_add_test(tcase, test_the_log_of_an_owner_who_goes_on);
    tcase_add_test(tcase, test_slots_of_an_owner_who_goes_on);
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    return run_suite(make_suite());
}
