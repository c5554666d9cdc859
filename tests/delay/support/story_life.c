/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The beginning of a story, what a crash would leave of it, and its end. See story.h. */

#include "tests/delay/support/story_inside.h"

#include <errno.h>
#include <string.h>

#include "hwt/delay/whole.h"
#include "kit.h"

/* ---- looking ---- */

/* What a listing has shown. */
struct seen {
    bool there[MESSAGES];
    uint32_t version[MESSAGES];
    uint64_t last;
};

static int see(const hwt_delay_message *message, void *data)
{
    struct seen *seen = data;
    uint32_t version, number = story_number(message, &version);
    if (seen->there[number] || message->due < seen->last)
        story_broken("is listed twice, or not in its order", number);
    seen->there[number] = true;
    seen->version[number] = version;
    seen->last = message->due;
    return 0;
}

static bool is_as(const struct seen *seen, uint32_t number, const struct change *change)
{
    return seen->there[number] == change->pending &&
           (!change->pending || seen->version[number] == change->version);
}

/* The call of this player was made: in all messages that it changes, or in none. */
static void compare_calls(const struct seen *seen, const struct message *messages, uint32_t i)
{
    for (unsigned player = 0; player < 3; player++) {
        const struct change *change = &messages[i].maybe[player];
        const struct change *other = &messages[change->other].maybe[player];
        if (change->ticket == 0 || change->other == i || other->ticket == 0)
            continue;
        if (is_as(seen, i, change) != is_as(seen, change->other, other))
            story_broken("was changed, or not, and what belongs to it otherwise", i);
    }
}

static void compare(const struct seen *seen, const struct message *messages, const char *where)
{
    for (uint32_t i = 0; i < MESSAGES; i++) {
        const struct message *message = &messages[i];
        bool fits = is_as(seen, i, &message->is);
        for (unsigned player = 0; player < 3; player++)
            fits = fits || (message->maybe[player].ticket > message->is.ticket &&
                            is_as(seen, i, &message->maybe[player]));
        if (!fits)
            story_broken(where, i);
        compare_calls(seen, messages, i);
    }
}

static bool is_changing(const struct message *message)
{
    return message->maybe[0].ticket != 0 || message->maybe[1].ticket != 0 ||
           message->maybe[2].ticket != 0;
}

/* Beside other calls: what they change meanwhile is seen or not, and all else is as it was. */
void story_list(void)
{
    struct message before[MESSAGES];
    struct seen seen = { 0 };
    story_lock();
    memcpy(before, story.messages, sizeof(before));
    story_unlock();
    must(hwt_delay_visit(story.store, 0, HWT_NEVER, see, &seen) == 0);
    story_lock();
    for (uint32_t i = 0; i < MESSAGES; i++) {
        const struct message *now = &story.messages[i];
        bool same = now->since == before[i].since && !is_changing(now) && !is_changing(&before[i]);
        if (same && !is_as(&seen, i, &now->is))
            story_broken("is not listed as it is", i);
    }
    story_unlock();
}

static void tell_damage(const hwt_delay_damage *damage, void *data)
{
    (void)data;
    printf("%s: %s at %" PRIu64 "\n", damage->file, damage->reason, damage->offset);
}

void story_check(void)
{
    if (hwt_delay_check(story.store, tell_damage, NULL) != 0)
        story_broken("or another is damaged", 0);
}

/* ---- the beginning ---- */

static void set_messages(bool bulk)
{
    memset(story.messages, 0, sizeof(story.messages));
    for (uint32_t i = 0; i < MESSAGES; i++) {
        struct message *message = &story.messages[i];
        message->due = story_due(i);
        message->size = i < BULK ? 40 : 7000;
        bool is_new = i >= NEW && i < BULK;
        message->is = (struct change){ .pending = !is_new && (i < BULK || bulk), .version = 1 };
        message->versions = 1;
        for (unsigned player = 0; player < 3; player++)
            message->maybe[player].other = i;
    }
}

/* In batches, so that the log has few frames. */
static void put_all(hwt_delay *store, bool slots)
{
    enum { BATCH = 12 };
    static unsigned char payloads[BATCH][8192];
    uint32_t numbers[BATCH];
    hwt_delay_message messages[BATCH];
    size_t count = 0;
    for (uint32_t i = 0; i <= MESSAGES; i++) {
        if (count == BATCH || (count > 0 && (i == MESSAGES || i >= BULK))) {
            must(hwt_delay_put(store, messages, count) == 0);
            count = 0;
        }
        bool in_slot = i < BULK && i % EACH < EACH / 2;
        if (i == MESSAGES || !story.messages[i].is.pending || in_slot != slots)
            continue;
        numbers[count] = i;
        messages[count] = story_message(&numbers[count], 1, payloads[count]);
        count++;
    }
}

static void set_options(bool bulk)
{
    story.options = (hwt_delay_options)HWT_DELAY_OPTIONS_INIT;
    story.options.flags = HWT_DELAY_CREATE;
    story.options.payload_max = 8192;
    story.options.segment_size = bulk ? 1 << 20 : 1 << 17;
    story.options.memory = 1 << 20;
    story.options.lease = HWT_SEC(3000);
}

struct disk *story_prepare(bool bulk)
{
    uint64_t now = STORY_NOW, boottime = HWT_SEC(100);
    struct disk *disk = disk_new();
    struct process process;
    hwt_delay *store;
    set_options(bulk);
    set_messages(bulk);
    process_start(&process, disk, &now, &boottime);
    must(hwt_delay_open_on("store", &story.options, &process.system, true, &store) == 0);
    put_all(store, true);
    must(hwt_delay_checkpoint(store) == 0);
    put_all(store, false);
    process.dead = true;
    hwt_delay_close(store);
    process_end(&process);
    struct disk *base = disk_copy(disk);
    disk_free(disk);
    return base;
}

void story_begin(const struct disk *base, bool bulk, bool alone)
{
    uint32_t number;
    story.bulk = bulk;
    story.count = 0;
    story.disk = disk_copy(base);
    set_options(bulk);
    set_messages(bulk);
    held_realtime = STORY_NOW;
    held_boottime = HWT_SEC(100);
    held_start(&story.process, story.disk);
    story.process.random = &story.random;
    must(hwt_delay_open_on("store", &story.options, &story.process.system, alone, &story.store) ==
         0);
    for (uint32_t left = EACH; left > 0;)
        left -= (uint32_t)story_take(left, &number);
}

/* ---- the end ---- */

/* The note is of a batch whose put is there, and there is one if any such batch is. */
static void compare_note(hwt_delay *store, const struct seen *seen)
{
    uint32_t note[2] = { 0 };
    bool any = false;
    int64_t n = hwt_delay_note(store, note, sizeof(note), NULL);
    for (uint32_t i = STORY_NOTED; i < STORY_NOTED + 3; i++)
        any = any || seen->version[i] > 1;
    must(n == (any ? (int64_t)sizeof(note) : 0));
    if (any && seen->version[note[0]] != note[1])
        story_broken("is not as the note says", note[0]);
}

static void compare_listing(hwt_delay *store, const struct message *messages, const char *where)
{
    struct seen seen = { 0 };
    must(hwt_delay_visit(store, 0, HWT_NEVER, see, &seen) == 0);
    compare(&seen, messages, where);
    compare_note(store, &seen);
}

/* There is no file of a slot that the store does not know. */
static void compare_files(hwt_delay *store, const struct disk *disk)
{
    hwt_delay_stats stats = HWT_DELAY_STATS_INIT;
    uint64_t files = 0;
    must(hwt_delay_get_stats(store, &stats) == 0);
    for (size_t i = 0; i < disk->seen.count; i++)
        files += strncmp(disk->seen.entries[i].name, "slot-", 5) == 0;
    if (files != stats.files)
        story_broken("and others are in files that are not known", 0);
}

/* What a store knows of its log. */
struct log {
    bool quiet; /* nothing is under way, so that another who reads the log knows the same */
    uint64_t next, kept, bytes, erased;
};

static struct log log_of(const hwt_delay *store)
{
    const struct hwt_delay_log *log = &store->log;
    return (struct log){ !store->poisoned && !log->pinned && !log->led && log->count == 0,
                         log->next_sequence, log->kept.sequence, log->kept_bytes,
                         log->tombstone_bytes };
}

static void compare_logs(const struct log *wrote, const struct log *read)
{
    if (wrote->next != read->next || wrote->kept != read->kept || wrote->bytes != read->bytes ||
        wrote->erased != read->erased)
        ck_abort_msg("next %" PRIu64 " and %" PRIu64 ", kept %" PRIu64 " and %" PRIu64
                     ", bytes %" PRIu64 " and %" PRIu64 ", erased %" PRIu64 " and %" PRIu64,
                     wrote->next, read->next, wrote->kept, read->kept, wrote->bytes, read->bytes,
                     wrote->erased, read->erased);
}

/* What a crash has left is opened and looked at. */
static void look_at_image(struct disk *disk, const struct message *messages,
                          const struct log *wrote)
{
    uint64_t now = held_realtime, boottime = HWT_SEC(1);
    struct process process;
    hwt_delay *store;
    process_start(&process, disk, &now, &boottime);
    must(hwt_delay_open_on("store", &story.options, &process.system, true, &store) == 0);
    compare_files(store, disk);
    if (wrote->quiet) {
        const struct log read = log_of(store);
        compare_logs(wrote, &read);
    }
    compare_listing(store, messages, "is not as it should be after a crash");
    process.dead = true;
    hwt_delay_close(store);
    process_end(&process);
    story.images++;
}

/* No call begins or is noted between the copy of the messages and that of the disk. */
static void look_at_crash(void)
{
    static struct message messages[MESSAGES];
    struct log log = { 0 };
    story_lock();
    memcpy(messages, story.messages, sizeof(messages));
    if (story.store) {
        pthread_mutex_lock(&story.store->lock);
        log = log_of(story.store);
    }
    struct disk *left = held_crashed(&story.process, &story.random);
    if (story.store)
        pthread_mutex_unlock(&story.store->lock);
    story_unlock();
    look_at_image(left, messages, &log);
    disk_free(left);
}

void story_crash(unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        look_at_crash();
}

/* So many of what is due, or all. */
static void take_and_do_all(size_t most)
{
    const hwt_delay_message *taken;
    int64_t n = 1;
    while (most > 0 && (n = hwt_delay_take(story.store, most < 7 ? most : 7, 0, &taken)) > 0) {
        for (int64_t i = 0; i < n; i++) {
            uint32_t number = story_taken(&taken[i], story.tickets);
            must(hwt_delay_done(story.store, &taken[i].lease, 1) == 1);
            story.messages[number].is.pending = false;
            story.messages[number].lease = 0;
        }
        hwt_delay_free(taken);
        most -= (size_t)n;
    }
    must(most == 0 || n == 0 || (n == -ENOBUFS && story.bulk));
}

static void deliver_all(void)
{
    take_and_do_all(SIZE_MAX);
    /* All leases end, and all is due. */
    story_pass_time(2 * HWT_SEC(3100));
    for (uint32_t i = 0; i < MESSAGES; i++)
        story.messages[i].lease = 0;
    take_and_do_all(SIZE_MAX);
    for (uint32_t i = 0; i < MESSAGES; i++) {
        if (story.messages[i].is.pending)
            story_broken("did not come", i);
    }
}

hwt_delay_stats story_stats(void)
{
    hwt_delay_stats stats = HWT_DELAY_STATS_INIT;
    must(hwt_delay_get_stats(story.store, &stats) == 0);
    return stats;
}

int story_open(void)
{
    held_start(&story.process, story.disk);
    story.process.random = &story.random;
    int r = hwt_delay_open_on("store", &story.options, &story.process.system, true, &story.store);
    if (r < 0)
        process_end(&story.process);
    return r;
}

static void close_store(void)
{
    hwt_delay_close(story.store);
    story.store = NULL;
    process_end(&story.process);
}

void story_kill(void)
{
    struct disk *left = disk_crashed(story.disk, &story.random);
    story.process.dead = true;
    close_store();
    disk_free(story.disk);
    story.disk = left;
    for (uint32_t i = 0; i < MESSAGES; i++)
        story.messages[i].lease = 0;
}

void story_restart(void)
{
    story_kill();
    must(story_open() == 0);
    compare_listing(story.store, story.messages, "is not as it should be after a restart");
}

static int note_there(const hwt_delay_message *message, void *data)
{
    uint32_t version, number = story_number(message, &version);
    if (number == *(const uint32_t *)data)
        story.messages[number].is.pending = true;
    return 0;
}

void story_settle(uint32_t number)
{
    story.messages[number].is.pending = false;
    must(hwt_delay_visit(story.store, 0, HWT_NEVER, note_there, &number) == 0);
    story_did(0, number, false);
}

void story_end(void)
{
    compare_listing(story.store, story.messages, "is not listed as it should be");
    story_check();
    look_at_crash();
    uint64_t way = test_random(&story.random) % 4;
    take_and_do_all(test_random(&story.random) % EACH);
    if (way > 0)
        must(hwt_delay_checkpoint(story.store) == 0);
    if (way > 1)
        story_restart();
    deliver_all();
    must(hwt_delay_checkpoint(story.store) == 0);
    if (story_stats().pending != 0)
        story_broken("and others are pending", 0);
    if (story_stats().files != 0)
        story_broken("and others have left a file", 0);
    close_store();
    disk_free(story.disk);
}
