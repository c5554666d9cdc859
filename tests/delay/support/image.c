/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Opens what a crash left, and compares it with the oracle. */

#include "tests/delay/support/run.h"

#include <stdlib.h>
#include <string.h>

enum { SLACK = 3 * 65536 }; /* the checkpoint, and room for the next one */

/* Slots of which all was cancelled, and less than half as far as the store can tell, stay until they are
 * due: a tombstone says nothing of the length of its message. */
enum { LEFT_MAX = 65536 };

/* Each of the two files of the checkpoint has room set aside for what the slots that are left might lease: an
 * eighth of the memory at most. */
enum { LEASED_ROOM = 2 * (RUN_MEMORY / 8) };

/* What was cancelled goes in some steps: messages, their tombstones in other slots, and then the room
 * that the last checkpoint but one has set aside for as many slots. */
enum { CHECKPOINTS = 6 };

struct image {
    struct run *run;
    struct disk *disk;
    struct process process;
    hwt_delay *store;
    uint64_t realtime, boottime, luck;
};

void check_pending(struct run *run, hwt_delay *store, const struct oracle *oracle, uint64_t taken,
                   const char *when)
{
    hwt_delay_stats stats = HWT_DELAY_STATS_INIT;
    uint64_t pending = oracle_pending(oracle) - taken;
    /* Where the disk was full, or failed, a checkpoint may have counted what it did not bring. */
    if (hwt_delay_get_stats(store, &stats) == 0 && !run->uncounted &&
        !oracle_may_be(oracle, pending, stats.pending))
        wrong(run, "%s, %" PRIu64 " are pending, not %" PRIu64 " (in doubt: %" PRIu64 ")", when,
              stats.pending, pending, oracle->doubt);
}

static int list_one(const hwt_delay_message *message, void *listing)
{
    listing_next(listing, message);
    return 0;
}

static int image_open(struct image *image)
{
    hwt_delay_options options;
    run_options(&options);
    image->disk->owner = NULL;
    process_start(&image->process, image->disk, &image->realtime, &image->boottime);
    image->process.random = &image->luck;
    return hwt_delay_open_on("store", &options, &image->process.system, true, &image->store);
}

static void image_close(struct image *image)
{
    hwt_delay_close(image->store);
    image->store = NULL;
    process_end(&image->process);
}

/* A power failure while what the first one left is being opened. */
static void crash_again(struct image *image)
{
    hwt_delay_options options;
    run_options(&options);
    process_start(&image->process, image->disk, &image->realtime, &image->boottime);
    image->process.random = &image->luck;
    image->process.die_at = 1 + test_random(&image->luck) % 60;
    if (hwt_delay_open_on("store", &options, &image->process.system, true, &image->store) == 0)
        hwt_delay_close(image->store);
    image->store = NULL;
    process_end(&image->process);
    if (test_random(&image->luck) % 2 == 0) {
        struct disk *again = disk_crashed(image->disk, &image->luck);
        disk_free(image->disk);
        image->disk = again;
    }
}

/* Takes all that is due; it has to be what the list says, from *at on. */
static void deliver_due(struct image *image, const struct oracle *list, size_t *at)
{
    for (;;) {
        const hwt_delay_message *taken;
        uint64_t leases[RUN_LEASES_MAX];
        int64_t n =
            hwt_delay_take(image->store, 1 + test_random(&image->luck) % RUN_LEASES_MAX, 0, &taken);
        if (n < 0)
            wrong(image->run, "after a crash, take is %" PRId64, n);
        if (n <= 0)
            break;
        for (int64_t i = 0; i < n; i++) {
            if (taken[i].due > image->realtime)
                wrong(image->run, "after a crash, handed over early");
            if (*at >= list->count || !message_is(&taken[i], &list->list[*at]) ||
                taken[i].deliveries != list->list[*at].deliveries + 1)
                wrong(image->run,
                      "after a crash, message %zu of %zu handed over is due %" PRIu64 ", id %u",
                      *at, list->count, taken[i].due,
                      ((const unsigned char *)taken[i].id)[taken[i].id_size - 1]);
            leases[i] = taken[i].lease;
            ++*at;
        }
        hwt_delay_free(taken);
        if (hwt_delay_done(image->store, leases, (size_t)n) != n)
            wrong(image->run, "after a crash, done is not %" PRId64, n);
        check_pending(image->run, image->store, list, *at, "after a crash and a delivery");
        if (image->run->result->failed)
            return;
    }
    if (*at < list->count && list->list[*at].due <= image->realtime)
        wrong(image->run, "after a crash, message %zu of %zu, due %" PRIu64 ", is not handed over",
              *at, list->count, list->list[*at].due);
}

static void advance(struct image *image, uint64_t to)
{
    if (to <= image->realtime)
        return;
    image->boottime += to - image->realtime;
    image->realtime = to;
}

static uint64_t slots_size(const struct disk *disk)
{
    uint64_t size = 0;
    for (size_t i = 0; i < disk->seen.count; i++) {
        if (strncmp(disk->seen.entries[i].name, "slot-", 5) == 0)
            size += disk->seen.entries[i].file->seen.size;
    }
    return size;
}

/* Hands over everything, and looks at what is left then. */
static void deliver_all(struct image *image, const struct oracle *list)
{
    size_t at = 0;
    deliver_due(image, list, &at);
    while (at < list->count && !image->run->result->failed) {
        size_t next = at + (test_random(&image->luck) % 2 ? 0 : test_random(&image->luck) % 20);
        if (next >= list->count)
            next = list->count - 1;
        advance(image, list->list[next].due - 1);
        deliver_due(image, list, &at);
        advance(image, list->list[next].due);
        deliver_due(image, list, &at);
        if (test_random(&image->luck) % 16 == 0) {
            image_close(image);
            int r = image_open(image);
            if (r != 0) {
                wrong(image->run, "after a crash and a delivery, open is %d", r);
                return;
            }
        }
    }
    deliver_due(image, list, &at);
    if (image->run->result->failed)
        return;
    /* It may be that of one that was cancelled, but not for ever. */
    uint64_t at_last = hwt_delay_next(image->store);
    if (at_last <= image->realtime)
        wrong(image->run, "take was 0, and next is %" PRIu64 ", which is past", at_last);
    int r = 0;
    for (int i = 0; i < CHECKPOINTS; i++) {
        r = hwt_delay_checkpoint(image->store);
        if (r != 0)
            wrong(image->run, "after all was delivered, checkpoint is %d", r);
    }
    hwt_delay_stats stats = HWT_DELAY_STATS_INIT;
    r = hwt_delay_get_stats(image->store, &stats);
    if (r != 0 || (stats.files == 0 && stats.next == HWT_NEVER && stats.pending > 0))
        wrong(image->run, "after all was delivered, stats is %d, %" PRIu64 " pending", r,
              stats.pending);
    uint64_t left = slots_size(image->disk), fixed = disk_size(image->disk) - left;
    uint64_t most = 2 * RUN_SEGMENT + SLACK + (left > 0 ? LEASED_ROOM : 0);
    if (fixed > most || left > LEFT_MAX)
        wrong(image->run,
              "after all was delivered, the store has %" PRIu64 " bytes, and slots %" PRIu64, fixed,
              left);
}

static void image_look(struct image *image)
{
    struct run *run = image->run;
    struct oracle found = { 0 };
    struct listing listing;
    if (test_random(&image->luck) % 8 == 0)
        crash_again(image);
    int r = image_open(image);
    if (r != 0) {
        wrong(run, "after a crash, open is %d (%s)", r, strerror(-r));
        image->store = NULL;
        process_end(&image->process);
        return;
    }
    hwt_delay_stats stats = HWT_DELAY_STATS_INIT;
    if (hwt_delay_get_stats(image->store, &stats) == 0)
        run->result->cut += stats.cut > 0;
    listing_begin(&listing, &run->before, &run->after, run->partly);
    listing.taking = run->taking;
    r = hwt_delay_visit(image->store, 0, HWT_NEVER, list_one, &listing);
    if (r != 0)
        wrong(run, "after a crash, visit is %d", r);
    listing_note(&listing, image->store);
    if (!listing_end(&listing, &found))
        wrong(run, "after a crash, %s", listing.wrong);
    else
        check_pending(run, image->store, &found, 0, "after a crash");
    if (!run->result->failed && test_random(&image->luck) % 4 == 0)
        deliver_all(image, &found);
    oracle_free(&found);
    image_close(image);
}

void image_check(struct run *run)
{
    image_check_copy(run, run->disk);
}

void image_check_copy(struct run *run, const struct disk *disk)
{
    if (run->result->failed)
        return;
    struct image image = {
        .run = run,
        .realtime = run->realtime,
        .boottime = test_random(&run->luck) % HWT_SEC(1000), /* the machine has restarted */
    };
    image.disk = disk_crashed(disk, &run->luck);
    image.luck = test_random(&run->luck);
    image_look(&image);
    disk_free(image.disk);
    run->result->states++;
}

void image_changed(void *data, enum disk_call call, const char *name)
{
    struct run *run = data;
    if (run->result->failed || run->process.dead)
        return;
    if (run->say)
        said(run, "    %s of %s", disk_call_names[call], name);
    /* A flood changes much: not each of its changes. */
    if (run->program->crashes && (run->before.count < 200 || test_random(&run->luck) % 16 == 0))
        image_check(run);
    if (run->result->failed)
        said(run, "    ^ the power failed here");
}
