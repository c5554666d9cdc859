/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Who has not read must not send: owners and those that would be, with leases of different lengths, with pulls that bring
 * nothing, with full disks, and with clocks that are set back. Without other faults.
 */

#include "tests/relay/fake.h"

#include <errno.h>
#include <string.h>

static struct fake fake;
static struct fake_replica
    *ranked[FAKE_REPLICAS]; /* the one that should own the shard is the first */

/* With these leases, until the one that should own the shard does, and has renewed its lease. */
static void begin(const uint64_t *leases)
{
    fake_begin(&fake, test_seed(), FAKE_REPLICAS);
    fake.pace = HWT_MS(20);
    for (unsigned i = 0; leases && i < FAKE_REPLICAS; i++)
        fake.replicas[i].config.lease = leases[i];
    fake_step(&fake);
    for (unsigned i = 0; i < FAKE_REPLICAS; i++) {
        struct fake_replica *replica = &fake.replicas[i];
        ranked[relay_rank(replica->shard, replica->config.replica)] = replica;
    }
    while (fake_owner(&fake) != ranked[0]) {
        ck_assert_uint_lt(fake.boottime, HWT_MIN(10));
        fake_step(&fake);
    }
    fake_run(&fake, ranked[0]->config.lease);
}

static void set_up(void)
{
    begin(NULL);
}

static void tear_down(void)
{
    fake_end(&fake);
}

static void kill_replica(struct fake_replica *replica)
{
    replica->crashes = replica->process.dead = true;
    replica->starts_at = HWT_NEVER;
    fake_stop(replica);
}

/* No file gets more room. What it has is soon full. */
static void fill_disk(struct fake_replica *replica)
{
    static char text[200];

    memset(text, 'x', sizeof(text) - 1);
    replica->process.fail_with = -ENOSPC;
    replica->process.fail_only = 1u << DISK_OPEN | 1u << DISK_ALLOCATE;
    replica->process.fail_at = replica->process.calls + 1;
    replica->process.fail_count = UINT64_MAX - replica->process.fail_at;
    for (int i = 0; i < 2000; i++)
        fake_put(&fake, fake.realtime + HWT_MIN(60), NULL, text);
}

static void put_key(const char *op, uint64_t due, const char *key)
{
    char text[RELAY_DUE_ROOM];

    relay_due_write(due, text);
    fake_publish(&fake, key,
                 (const char *const[]){ "Hwt-Op", op, "Hwt-Due", text, "Hwt-Key", key,
                                        strcmp(op, "put") == 0 ? "Hwt-Target" : NULL, "t.a",
                                        NULL });
}

/* Until another replica owns the shard: how long that took. Looks are so far apart that either of the two may be it. */
static uint64_t wait_for_another(const struct fake_replica *than)
{
    const uint64_t began = fake.boottime;

    while (!fake_owner(&fake) || fake_owner(&fake) == than) {
        ck_assert_uint_lt(fake.boottime - began, HWT_MIN(2));
        fake_step(&fake);
    }
    return fake.boottime - began;
}

/* ---- Leases ---- */

static unsigned count_owners(void)
{
    unsigned count = 0;

    for (unsigned i = 0; i < FAKE_REPLICAS; i++)
        count += fake.replicas[i].shard && relay_lease_holds(fake.replicas[i].shard);
    return count;
}

static void run_with_one_owner(uint64_t time)
{
    const uint64_t end = fake.boottime + time;

    while (fake.boottime < end) {
        fake_step(&fake);
        ck_assert_uint_le(count_owners(), 1);
    }
}

/* One that is changed on one replica after the other: the owner's is what counts. */
START_TEST(an_owner_has_its_own_lease_whatever_the_others_have)
{
    static const uint64_t all[][FAKE_REPLICAS] = {
        { HWT_SEC(10), HWT_SEC(1), HWT_SEC(1) },
        { HWT_SEC(1), HWT_SEC(10), HWT_SEC(1) },
        { HWT_SEC(1), HWT_SEC(1), HWT_SEC(10) },
        { HWT_SEC(1), HWT_SEC(10), HWT_SEC(10) },
    };

    fake_end(&fake);
    begin(all[_i]);
    run_with_one_owner(HWT_SEC(60));
    ck_assert_ptr_eq(fake_owner(&fake), ranked[0]);
    ranked[0]->paused = true;
    run_with_one_owner(ranked[0]->config.lease / 4 * 3);
    ck_assert_ptr_eq(fake_owner(&fake), ranked[0]); /* so it thinks, and nobody else does */
    ck_assert_int_eq(ranked[1]->shard->role, RELAY_FOLLOWS);
    ck_assert_int_eq(ranked[2]->shard->role, RELAY_FOLLOWS);
    run_with_one_owner(ranked[0]->config.lease);
    ranked[0]->paused = false;
    run_with_one_owner(HWT_SEC(3));
    ck_assert_ptr_ne(fake_owner(&fake), ranked[0]);
}
END_TEST

/* ---- Cancels ---- */

/* The server that has its consumer is stopped. */
START_TEST(an_owner_that_reads_nothing_sends_nothing_and_goes)
{
    const uint64_t due = fake.realtime + 3 * FAKE_LEASE;

    put_key("put", due, "cancelled");
    put_key("put", due, "wanted");
    fake_run(&fake, FAKE_LEASE / 2);
    ranked[0]->still_until = fake.boottime + 10 * FAKE_LEASE;
    put_key("cancel", due, "cancelled");
    fake_run(&fake, 2 * FAKE_LEASE + FAKE_LEASE / 4);
    ck_assert_ptr_nonnull(fake_owner(&fake));
    ck_assert_ptr_ne(fake_owner(&fake), ranked[0]);
    fake_run(&fake, FAKE_LEASE);
    ck_assert_uint_eq(fake_arrived(&fake, "cancelled"), 0);
    ck_assert_uint_eq(fake_arrived(&fake, "wanted"), 1);
    ck_assert_uint_eq(fake.repeats, 0);
}
END_TEST

/* A message is put for now, as the owner's pulls begin to bring nothing. */
START_TEST(an_owner_sends_for_a_lease_what_it_has_when_it_reads_nothing)
{
    fake_put(&fake, fake.realtime + FAKE_LEASE / 2, NULL, "sent");
    fake_put(&fake, fake.realtime + FAKE_LEASE * 5 / 4, NULL, "not sent");
    fake_run(&fake, HWT_MS(100));
    for (unsigned i = 0; i < FAKE_REPLICAS; i++)
        fake.replicas[i].still_until = fake.boottime + 10 * FAKE_LEASE;
    fake_put(&fake, fake.realtime + HWT_MIN(10), NULL, "not read");
    fake_run(&fake, 3 * FAKE_LEASE);
    ck_assert_uint_eq(fake_arrived(&fake, "sent"), 1);
    ck_assert_uint_eq(fake_arrived(&fake, "not sent"), 0);
    ck_assert_ptr_null(fake_owner(&fake));
    fake_run(&fake, 10 * FAKE_LEASE);
    ck_assert_uint_eq(fake_arrived(&fake, "not sent"), 1);
}
END_TEST

static struct relay_engine_calls changed;

static int send_later(struct relay_engine *engine, const struct relay_outgoing *message,
                      uint64_t cookie)
{
    (void)engine;
    (void)message;
    (void)cookie;
    return -EAGAIN;
}

/* It has taken a message before its time, and has not sent it, when its clock is set right. */
START_TEST(a_cancel_finds_what_was_taken_by_a_clock_that_was_ahead)
{
    const struct relay_engine_calls *usual = ranked[0]->engine.calls;
    const uint64_t due = fake.realtime + HWT_MS(1000);

    changed = *usual;
    changed.send = send_later;
    ranked[0]->engine.calls = &changed;
    ranked[0]->ahead = HWT_MS(800);
    put_key("put", due, "k");
    fake_run(&fake, HWT_MS(500));
    ck_assert_uint_eq(ranked[0]->shard->flights_count, 1);
    ranked[0]->ahead = 0;
    fake_run(&fake, HWT_MS(60));
    put_key(_i == 0 ? "cancel" : "put", due, "k"); /* a put of the same name replaces it */
    fake_run(&fake, HWT_MS(60));
    ranked[0]->engine.calls = usual;
    fake_run(&fake, HWT_SEC(5));
    ck_assert_uint_eq(fake_arrived(&fake, "k"), (unsigned)_i);
}
END_TEST

/* ---- Who takes the shard ---- */

/* The best of those that are left cannot store: the next one takes the shard. */
START_TEST(one_with_a_full_disk_leaves_the_shard_to_the_next_one)
{
    fill_disk(ranked[1]);
    fake_run(&fake, FAKE_LEASE);
    fake_put(&fake, fake.realtime + 2 * FAKE_LEASE, NULL, "m");
    fake_run(&fake, FAKE_LEASE);
    ck_assert_uint_lt(ranked[1]->shard->at.position, fake.last);
    kill_replica(ranked[0]);
    ck_assert_uint_le(wait_for_another(ranked[0]), FAKE_LEASE + HWT_MS(300));
    ck_assert_ptr_eq(fake_owner(&fake), ranked[2]);
    fake_run(&fake, 2 * FAKE_LEASE);
    ck_assert_uint_eq(fake_arrived(&fake, "m"), 1);
}
END_TEST

START_TEST(one_that_is_far_behind_leaves_the_shard_to_the_next_one)
{
    ranked[1]->shard->ingest_after = HWT_NEVER;
    for (int i = 0; i < 50; i++) {
        fake_put(&fake, fake.realtime + 2 * FAKE_LEASE, NULL, "m");
        fake_run(&fake, HWT_MS(50));
    }
    kill_replica(ranked[0]);
    ck_assert_uint_le(wait_for_another(ranked[0]), FAKE_LEASE + HWT_MS(300));
    ck_assert_ptr_eq(fake_owner(&fake), ranked[2]);
    fake_run(&fake, 3 * FAKE_LEASE);
    ck_assert_uint_eq(fake_arrived(&fake, "m"), 50);
}
END_TEST

/* They compare less often than once a lease, so they do when the shard is free. */
START_TEST(one_takes_the_shard_at_once_with_a_short_lease)
{
    static const uint64_t leases[FAKE_REPLICAS] = { HWT_MS(200), HWT_MS(200), HWT_MS(200) };

    fake_end(&fake);
    begin(leases);
    fake.pace = HWT_MS(2);
    fake_run(&fake, HWT_MS(100 * _i));
    kill_replica(ranked[0]);
    ck_assert_uint_le(wait_for_another(ranked[0]), HWT_MS(250));
}
END_TEST

/* Another one forwards within a moment. */
START_TEST(an_owner_with_a_full_disk_resigns)
{
    const uint64_t due = fake.realtime + 4 * FAKE_LEASE;

    put_key("put", due, "cancelled");
    put_key("put", due, "wanted");
    fake_run(&fake, HWT_MS(100));
    ranked[0]->starts_at = HWT_NEVER; /* when it is over */
    fill_disk(ranked[0]);
    put_key("cancel", due, "cancelled");
    wait_for_another(ranked[0]);
    ck_assert_uint_lt(fake.realtime + 2 * FAKE_LEASE, due);
    fake_run(&fake, 4 * FAKE_LEASE);
    ck_assert_uint_eq(fake_arrived(&fake, "cancelled"), 0);
    ck_assert_uint_eq(fake_arrived(&fake, "wanted"), 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("relay_reads");
    TCase *tcase = tcase_create("reads");

    tcase_set_timeout(tcase, 100);
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_loop_test(tcase, an_owner_has_its_own_lease_whatever_the_others_have, 0, 4);
    tcase_add_test(tcase, an_owner_that_reads_nothing_sends_nothing_and_goes);
    tcase_add_test(tcase, an_owner_sends_for_a_lease_what_it_has_when_it_reads_nothing);
    tcase_add_loop_test(tcase, a_cancel_finds_what_was_taken_by_a_clock_that_was_ahead, 0, 2);
    tcase_add_test(tcase, one_with_a_full_disk_leaves_the_shard_to_the_next_one);
    tcase_add_test(tcase, one_that_is_far_behind_leaves_the_shard_to_the_next_one);
    tcase_add_loop_test(tcase, one_takes_the_shard_at_once_with_a_short_lease, 0, 5);
    tcase_add_test(tcase, an_owner_with_a_full_disk_resigns);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
