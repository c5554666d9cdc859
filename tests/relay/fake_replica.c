/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The replicas: their processes, disks and clocks. */

#include "tests/relay/fake_inside.h"

#include <errno.h>

bool fake_is_dead(struct fake_replica *replica)
{
    struct fake *fake = replica->fake;

    if (fake_happens(fake, FAULT_CRASH, 400))
        replica->crashes = replica->process.dead = true;
    if (fake_happens(fake, FAULT_DISK, 400))
        replica->process.die_at = replica->process.calls + 1 + fake_draw(fake, 8);
    if (!replica->crashes && fake->depth == 0 && fake_happens(fake, FAULT_PAUSE, 400)) {
        uint64_t until = fake->boottime + fake_draw(fake, 3 * FAKE_LEASE);
        replica->paused = true;
        fake->depth++;
        while (fake->boottime < until)
            fake_step(fake);
        fake->depth--;
        replica->paused = false;
    }
    return replica->crashes;
}

void fake_set_clock(struct fake_replica *replica)
{
    replica->realtime = replica->fake->realtime + replica->ahead;
}

void fake_stop(struct fake_replica *replica)
{
    if (!replica->shard)
        return;
    relay_shard_close(replica->shard);
    replica->shard = NULL;
    hwt_delay_close(replica->store);
    process_end(&replica->process);
    fake_forget_held(replica);
    replica->answers_count = 0;
    replica->pulls = replica->crashes = false;
}

void fake_start(struct fake_replica *replica)
{
    struct fake *fake = replica->fake;
    hwt_delay_options options = relay_shard_store(&replica->config);
    int r;

    options.payload_max = 8192;
    options.memory = 1 << 20;
    options.segment_size = 64 << 10;
    fake_set_clock(replica);
    process_start(&replica->process, replica->disk, &replica->realtime, &fake->boottime);
    replica->process.random = &fake->random;
    r = hwt_delay_open_on("store", &options, &replica->process.system, true, &replica->store);
    ck_assert_int_eq(r, 0);
    r = relay_shard_open(&replica->config, 0, &replica->engine, replica->store,
                         1 + fake_draw(fake, UINT64_MAX), &replica->shard);
    ck_assert_int_eq(r, 0);
}

void fake_lose_disk(struct fake_replica *replica, const struct fake_replica *from)
{
    struct disk *disk = from ? disk_crashed(from->disk, &replica->fake->random) : disk_new();

    must(!replica->shard);
    disk_free(replica->disk);
    replica->disk = disk;
    replica->reported = false;
    replica->lost_disk = true;
}

/* From whom, is drawn. */
static void lose_disk(struct fake_replica *replica)
{
    struct fake *fake = replica->fake;
    const struct fake_replica *from = &fake->replicas[fake_draw(fake, FAKE_REPLICAS)];

    fake_lose_disk(replica, fake->first > 1 || fake->lacks || from == replica ? from : NULL);
}

/* What the stream does not have any more is in the stores of the others: only then may a disk be lost, since
 * nothing brings back what all have lost. */
static bool others_have_all(const struct fake_replica *replica)
{
    const struct fake *fake = replica->fake;

    for (size_t i = 0; i < FAKE_REPLICAS; i++) {
        const struct fake_replica *other = &fake->replicas[i];
        if (other == replica || !other->fake)
            continue;
        if (!other->shard || !other->reported ||
            other->shard->at.incarnation != fake->incarnation ||
            other->shard->at.position + 1 < fake->first)
            return false;
    }
    return true;
}

void fake_replica_step(struct fake_replica *replica)
{
    struct fake *fake = replica->fake;
    int r;

    if (replica->paused)
        return;
    if (!replica->shard) {
        if (fake->boottime >= replica->starts_at)
            fake_start(replica);
        return;
    }
    r = relay_shard_step(replica->shard);
    if (r < 0 && replica->may_fail) {
        replica->failed = r;
        replica->starts_at = HWT_NEVER;
        fake_stop(replica);
        return;
    }
    if (r == -ENODATA &&
        (fake->lacks || replica->lost_disk)) { /* see hwt-relay(1): it is given a copy */
        fake_stop(replica);
        lose_disk(replica);
        return;
    }
    if (!replica->process.dead && !replica->crashes) {
        if (r < 0)
            ck_abort_msg("a step has failed with %d", r);
        if (replica->shard->over && !replica->drained)
            fake_stop(replica);
        return;
    }
    replica->crashes = true;
    fake_stop(replica);
    if (fake_draw(fake, 2) == 0) { /* the power, too */
        struct disk *left = disk_crashed(replica->disk, &fake->random);
        disk_free(replica->disk);
        replica->disk = left;
    }
    if (others_have_all(replica) && fake_happens(fake, FAULT_LOST_DISK, 4))
        lose_disk(replica);
    replica->starts_at = fake->boottime + fake_draw(fake, 2 * FAKE_LEASE);
}
