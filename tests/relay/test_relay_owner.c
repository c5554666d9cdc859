/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Who owns the shard: an owner that must not resigns, one that should gets it back, and a replica that has lost
 * its disk takes part again. Without other faults. */

#include "tests/relay/fake.h"

#include <errno.h>
#include <string.h>

static struct fake fake;

static bool all_have_started(void)
{
    bool all = true;

    for (unsigned i = 0; i < FAKE_REPLICAS; i++)
        all = all && fake.replicas[i].shard;
    return all;
}

/* Until all have started, and the one that should own the shard does. */
static void set_up(void)
{
    const struct fake_replica *owner;

    fake_begin(&fake, test_seed(), FAKE_REPLICAS);
    do {
        ck_assert_uint_lt(fake.boottime, HWT_MIN(5));
        fake_step(&fake);
        owner = fake_owner(&fake);
    } while (!all_have_started() || !owner || relay_rank(owner->shard, owner->config.replica) > 0);
}

static void tear_down(void)
{
    fake_end(&fake);
}

/* Until another replica owns the shard: how long that took. */
static uint64_t wait_for_another(const struct fake_replica *first)
{
    uint64_t began = fake.boottime;

    for (;;) {
        const struct fake_replica *owner = fake_owner(&fake);
        ck_assert(fake.boottime - began < HWT_MIN(5));
        if (owner && owner != first)
            return fake.boottime - began;
        fake_step(&fake);
    }
}

static void check_arrived_in_time(const char *payload, uint64_t due)
{
    ck_assert_uint_eq(fake_arrived(&fake, payload), 1);
    ck_assert_uint_eq(fake.targets.count, 1);
    ck_assert_uint_ge(fake.targets.messages[0]->at, due);
}

START_TEST(test_followers_read_nothing_back)
{
    for (int i = 0; i < 20; i++)
        fake_put(&fake, fake.realtime + HWT_SEC(i), NULL, "m");
    fake_run(&fake, HWT_SEC(30));
    ck_assert_uint_eq(fake_arrived(&fake, "m"), 20);
    for (unsigned i = 0; i < FAKE_REPLICAS; i++) {
        const struct fake_replica *replica = &fake.replicas[i];
        hwt_delay_stats stats = HWT_DELAY_STATS_INIT;
        ck_assert_int_eq(hwt_delay_get_stats(replica->store, &stats), 0);
        ck_assert_uint_eq(stats.taken, (replica == fake_owner(&fake) ? 20 : 0));
        ck_assert_uint_eq(stats.pending, 0);
    }
}
END_TEST

static unsigned pulls[FAKE_REPLICAS]; /* that have brought something */
static const struct relay_engine_calls *usual;

static int64_t pull_counted(struct relay_engine *engine, uint64_t after, size_t max,
                            const struct relay_message **ret_messages)
{
    int64_t n = usual->pull(engine, after, max, ret_messages);
    pulls[((struct fake_replica *)engine)->number] += n > 0;
    return n;
}

/* They read together what has come in a sixty-fourth of a lease, and the owner reads each message at once. */
START_TEST(test_followers_gather_what_they_read)
{
    struct relay_engine_calls calls = *fake.replicas[0].engine.calls;
    struct fake_replica *owner = fake_owner(&fake);
    uint64_t began;

    usual = fake.replicas[0].engine.calls;
    calls.pull = pull_counted;
    memset(pulls, 0, sizeof(pulls));
    fake.pace = HWT_MS(1);
    fake_run(&fake, HWT_MS(100));
    for (unsigned i = 0; i < FAKE_REPLICAS; i++)
        fake.replicas[i].engine.calls = &calls;
    began = fake.boottime;
    for (unsigned i = 0; i < 200; i++) {
        fake_put(&fake, fake.realtime + HWT_SEC(60), NULL, "m");
        fake_run(&fake, HWT_MS(5));
    }
    fake_run(&fake, FAKE_LEASE / 64);
    for (unsigned i = 0; i < FAKE_REPLICAS; i++) {
        ck_assert_uint_eq(fake.replicas[i].shard->at.position, fake.last);
        if (&fake.replicas[i] == owner)
            ck_assert_uint_eq(pulls[i], 200);
        else
            ck_assert_uint_le(pulls[i], 1 + (fake.boottime - began) / (FAKE_LEASE / 64));
        fake.replicas[i].engine.calls = usual;
    }
}
END_TEST

/* Ahead and behind. It was right when it took the shard, and gives it up in time for the message. */
START_TEST(test_an_owner_whose_clock_becomes_wrong_resigns)
{
    struct fake_replica *first = fake_owner(&fake);
    const uint64_t due = fake.realtime + HWT_SEC(60);

    fake_put(&fake, due, NULL, "m");
    fake_run(&fake, HWT_SEC(5));
    first->ahead = _i == 0 ? HWT_SEC(30) : 0 - HWT_SEC(30);
    ck_assert_uint_lt(wait_for_another(first), 2 * FAKE_LEASE);
    fake_run(&fake, HWT_SEC(80));
    ck_assert_ptr_ne(fake_owner(&fake), first);
    check_arrived_in_time("m", due);
    first->ahead = 0; /* it is right again, and may own the shard */
    wait_for_another(fake_owner(&fake));
    ck_assert_ptr_eq(fake_owner(&fake), first);
}
END_TEST

/* It leaps between two comparisons with the broker's, so the store has to see it. */
START_TEST(test_nothing_is_early_by_a_clock_that_leaps)
{
    static const uint64_t leaps[] = { 2 * FAKE_BOUND, HWT_SEC(30), HWT_MIN(120) };
    struct fake_replica *first = fake_owner(&fake);
    const uint64_t due = fake.realtime + HWT_SEC(5) + leaps[_i] - HWT_MS(100);

    fake_put(&fake, due, NULL, "m");
    fake_run(&fake, HWT_SEC(5));
    first->shard->report_at = fake.boottime + FAKE_LEASE;
    first->ahead = leaps[_i];
    fake_step(&fake);
    fake_step(&fake);
    ck_assert_ptr_ne(fake_owner(&fake), first);
    fake_run(&fake, due + HWT_SEC(20) - fake.realtime);
    check_arrived_in_time("m", due);
}
END_TEST

/* A follower's clock has leapt when it takes the shard. */
START_TEST(test_nothing_is_early_by_an_heir_whose_clock_has_leapt)
{
    struct fake_replica *first = fake_owner(&fake);
    const uint64_t due = fake.realtime + HWT_SEC(40);

    fake_put(&fake, due, NULL, "m");
    fake_run(&fake, HWT_SEC(5));
    for (unsigned i = 0; i < FAKE_REPLICAS; i++)
        if (&fake.replicas[i] != first) {
            fake.replicas[i].ahead = HWT_SEC(60);
            fake.replicas[i].shard->report_at = fake.boottime + 4 * FAKE_LEASE;
        }
    first->starts_at = HWT_NEVER;
    fake_stop(first);
    fake_run(&fake, HWT_SEC(20));
    ck_assert_uint_eq(fake.targets.count, 0);
    first->starts_at = 0;
    fake_run(&fake, HWT_SEC(40));
    check_arrived_in_time("m", due);
}
END_TEST

/* As after a pause of all machines, the broker's too, whose clocks are then set right. */
START_TEST(test_clocks_that_leap_together_are_right)
{
    const uint64_t due = fake.realtime + HWT_SEC(60);
    struct fake_replica *first = fake_owner(&fake);

    fake_put(&fake, fake.realtime + HWT_SEC(2), NULL,
             "before"); /* for which the store reads its clock */
    fake_put(&fake, due, NULL, "m");
    fake_run(&fake, HWT_SEC(5));
    for (unsigned i = 0; i < FAKE_REPLICAS; i++)
        if (&fake.replicas[i] != first) {
            fake.replicas[i].starts_at = HWT_NEVER;
            fake_stop(&fake.replicas[i]);
        }
    fake.realtime += HWT_SEC(20);
    fake_run(&fake, HWT_SEC(60));
    ck_assert_uint_eq(fake_arrived(&fake, "m"), 1);
}
END_TEST

static struct fake_entry *find_entry(const char *name)
{
    size_t i = 0;

    while (i < fake.entries_count && strcmp(fake.entries[i].name, name) != 0)
        i++;
    ck_assert_uint_lt(i, fake.entries_count);
    return &fake.entries[i];
}

/* Of a later version, perhaps. Nobody owns the shard by it, all go on with the rest, and it is said once. */
START_TEST(test_an_entry_that_cannot_be_read_is_waited_out)
{
    struct fake_entry *entry = find_entry("shard.0");
    char before[RELAY_ENTRY_MAX];

    strcpy(before, entry->text);
    strcpy(entry->text, "version=9 holder=x");
    entry->revision++;
    fake_put(&fake, fake.realtime + HWT_SEC(3), NULL, "m");
    fake_run(&fake, HWT_SEC(20));
    ck_assert_ptr_null(fake_owner(&fake));
    ck_assert_uint_eq(fake.targets.count, 0);
    ck_assert(all_have_started());
    ck_assert_uint_le(fake_logged("none of a relay, or of a later version"), FAKE_REPLICAS + 1);
    ck_assert_uint_ge(fake_logged("none of a relay, or of a later version"), FAKE_REPLICAS);
    strcpy(entry->text, before);
    entry->revision++;
    fake_run(&fake, HWT_SEC(10));
    ck_assert_ptr_nonnull(fake_owner(&fake));
    ck_assert_uint_eq(fake.targets.count, 1);
}
END_TEST

/* It is nobody's else, so it is written anew. */
START_TEST(test_a_place_of_its_own_that_cannot_be_read_is_written_anew)
{
    struct fake_entry *entry = find_entry("place.a.0");
    struct relay_member member;

    strcpy(entry->text, "hello");
    entry->revision++;
    fake_run(&fake, 2 * FAKE_LEASE);
    ck_assert_int_eq(relay_member_read(entry->text, &member), 0);
}
END_TEST

START_TEST(test_two_relays_of_one_name_are_said)
{
    fake_run(&fake, 5 * FAKE_LEASE);
    fake_stop(&fake.replicas[0]); /* it begins again at once, as another process of its name */
    fake_run(&fake, 5 * FAKE_LEASE);
    ck_assert_uint_eq(fake_logged("another relay runs as"), 0);
    fake.replicas[0].config.replica = fake.replicas[1].config.replica;
    fake_run(&fake, 3 * FAKE_LEASE);
    ck_assert_uint_ge(fake_logged("another relay runs as"), 1);
    ck_assert_uint_le(fake_logged("another relay runs as"), 2);
}
END_TEST

START_TEST(test_a_clock_that_is_wrong_from_the_start_is_said)
{
    struct fake_replica *first = fake_owner(&fake);

    first->starts_at = HWT_NEVER;
    fake_stop(first);
    first->ahead = 0 - HWT_SEC(30);
    first->starts_at = 0;
    fake_run(&fake, HWT_SEC(30));
    ck_assert_uint_eq(fake_logged("ms behind the broker's"), 1);
    first->ahead = 0;
    fake_run(&fake, HWT_SEC(30));
    ck_assert_uint_eq(fake_logged("is the broker's again"), 1);
}
END_TEST

START_TEST(test_a_clock_that_is_wrong_within_the_bound_is_right)
{
    struct fake_replica *first = fake_owner(&fake);

    first->ahead = _i == 0 ? FAKE_BOUND - HWT_MS(100) : 0 - FAKE_BOUND + HWT_MS(100);
    fake_run(&fake, HWT_SEC(30));
    ck_assert_ptr_eq(fake_owner(&fake), first);
}
END_TEST

START_TEST(test_nobody_with_a_wrong_clock_takes_the_shard)
{
    for (unsigned i = 0; i < FAKE_REPLICAS; i++) {
        fake_stop(&fake.replicas[i]);
        fake.replicas[i].ahead = HWT_SEC(5);
    }
    fake_put(&fake, fake.realtime + HWT_SEC(30), NULL, "m");
    fake_run(&fake, HWT_SEC(40));
    ck_assert_ptr_null(fake_owner(&fake));
    ck_assert_uint_eq(fake.targets.count, 0);
    fake.replicas[1].ahead = 0;
    fake_run(&fake, HWT_SEC(10));
    ck_assert_ptr_eq(fake_owner(&fake), &fake.replicas[1]);
    ck_assert_uint_eq(fake.targets.count, 1);
}
END_TEST

/* The store says -ETIME. The broker's clock would not tell for so wide a bound. */
START_TEST(test_an_owner_whose_clock_has_leapt_resigns)
{
    struct fake_replica *first = fake_owner(&fake);
    const uint64_t due = fake.realtime + HWT_SEC(60);

    first->config.clock_bound = HWT_MIN(600);
    fake_put(&fake, due, NULL, "m");
    fake_run(&fake, HWT_SEC(5));
    first->ahead = HWT_MIN(120);
    fake_step(&fake);
    fake_step(&fake);
    ck_assert_ptr_ne(fake_owner(&fake), first);
    first->ahead = 0;
    fake_run(&fake, HWT_SEC(80));
    check_arrived_in_time("m", due);
}
END_TEST

/* It gives the shard back before it ends, so nobody waits for the lease's end. */
START_TEST(test_an_owner_whose_disk_fails_resigns)
{
    struct fake_replica *first = fake_owner(&fake);
    const uint64_t due = fake.realtime + HWT_SEC(10);

    first->may_fail = true;
    first->process.fail_at = first->process.calls + 1;
    first->process.fail_count = UINT64_MAX;
    first->process.fail_with = -EIO;
    fake_put(&fake, due, NULL, "m");
    while (!first->failed)
        fake_step(&fake);
    ck_assert_int_eq(first->failed, -EIO);
    ck_assert_uint_lt(wait_for_another(first), FAKE_LEASE);
    fake_run(&fake, HWT_SEC(20));
    check_arrived_in_time("m", due);
}
END_TEST

/* The one that should own it comes back, and gets it without a pause: what is due meanwhile is sent once. */
START_TEST(test_a_shard_goes_back)
{
    struct fake_replica *first = fake_owner(&fake);
    unsigned sent = 0;

    first->starts_at = HWT_NEVER;
    fake_stop(first);
    wait_for_another(first);
    for (; sent < 100; sent++)
        fake_put(&fake, fake.realtime + sent * HWT_MS(500), NULL, "m");
    first->starts_at = 0;
    ck_assert_uint_gt(wait_for_another(fake_owner(&fake)), 8 * FAKE_LEASE);
    ck_assert_ptr_eq(fake_owner(&fake), first);
    fake_run(&fake, HWT_SEC(60));
    ck_assert_ptr_eq(fake_owner(&fake), first);
    ck_assert_uint_eq(fake_arrived(&fake, "m"), sent);
    ck_assert_uint_eq(fake.repeats, 0);
}
END_TEST

/* It lives, but reads nothing more. */
START_TEST(test_a_shard_does_not_go_back_to_one_that_is_behind)
{
    struct fake_replica *first = fake_owner(&fake);

    first->starts_at = HWT_NEVER;
    fake_stop(first);
    wait_for_another(first);
    first->starts_at = 0;
    fake_run(&fake, HWT_SEC(1));
    first->shard->ingest_after = HWT_NEVER;
    for (int i = 0; i < 30; i++) {
        fake_put(&fake, fake.realtime + HWT_SEC(90), NULL, "m");
        fake_run(&fake, HWT_SEC(1));
        ck_assert_int_eq(first->shard->role, RELAY_FOLLOWS); /* it would catch up for ever */
    }
    first->shard->ingest_after = 0;
    wait_for_another(fake_owner(&fake));
    ck_assert_ptr_eq(fake_owner(&fake), first);
}
END_TEST

/* It has the shard and reads up to the stream's end, when the broker loses that end. */
START_TEST(test_an_owner_does_not_wait_for_what_is_lost)
{
    struct fake_replica *first = fake_owner(&fake), *next = NULL;

    for (unsigned i = 0; i < FAKE_REPLICAS; i++)
        if (&fake.replicas[i] != first)
            fake.replicas[i].shard->ingest_after = HWT_NEVER;
    for (int i = 0; i < 6; i++)
        fake_put(&fake, fake.realtime + HWT_SEC(30), NULL, "m");
    first->starts_at = HWT_NEVER;
    fake_stop(first);
    while (!next) {
        fake_step(&fake);
        for (unsigned i = 0; i < FAKE_REPLICAS; i++)
            if (fake.replicas[i].shard && fake.replicas[i].shard->end_at > 0 &&
                fake.replicas[i].shard->role == RELAY_CATCHES_UP)
                next = &fake.replicas[i];
    }
    fake_lose_tail(&fake, 3);
    fake_run(&fake, HWT_SEC(3));
    ck_assert_ptr_null(fake_owner(&fake));
    next->shard->ingest_after = 0;
    fake_run(&fake, HWT_SEC(3));
    ck_assert_ptr_eq(fake_owner(&fake), next);
    fake_run(&fake, HWT_SEC(40));
    ck_assert_uint_eq(fake_arrived(&fake, "m"), 3);
}
END_TEST

static void lose_all_others(const struct fake_replica *but)
{
    for (unsigned i = 0; i < FAKE_REPLICAS; i++)
        if (&fake.replicas[i] != but) {
            fake.replicas[i].starts_at = HWT_NEVER;
            fake_stop(&fake.replicas[i]);
        }
}

/* The stream has all: it is read from its beginning. */
START_TEST(test_a_lost_disk_and_a_whole_stream)
{
    struct fake_replica *lost = &fake.replicas[_i];
    const uint64_t due = fake.realtime + HWT_SEC(60);

    fake.replicas[(_i + 1) % FAKE_REPLICAS].starts_at = HWT_NEVER; /* it holds up the trim */
    fake_stop(&fake.replicas[(_i + 1) % FAKE_REPLICAS]);
    fake_put(&fake, due, NULL, "m");
    fake_run(&fake, HWT_SEC(20));
    ck_assert_uint_le(fake.first, 1);
    fake_stop(lost);
    fake_lose_disk(lost, NULL);
    fake_run(&fake, HWT_SEC(10));
    lose_all_others(lost);
    fake_run(&fake, HWT_SEC(80));
    check_arrived_in_time("m", due);
}
END_TEST

/* The stream was trimmed: it says so, and takes the copy of another one's store. */
START_TEST(test_a_lost_disk_and_a_trimmed_stream)
{
    struct fake_replica *lost = &fake.replicas[_i], *other = &fake.replicas[(_i + 1) % 3];
    const uint64_t due = fake.realtime + HWT_SEC(120);

    fake_put(&fake, due, NULL, "m");
    fake_run(&fake, HWT_SEC(30));
    ck_assert_uint_eq(fake.first, 2);
    fake_stop(lost);
    fake_lose_disk(lost, NULL);
    lost->may_fail = true;
    fake_run(&fake, HWT_SEC(1));
    ck_assert_int_eq(lost->failed, -ENODATA);
    fake_put(&fake, due, NULL, "behind");
    fake_run(&fake, HWT_SEC(10));
    fake_lose_disk(lost, other);
    fake_put(&fake, due, NULL, "later");
    fake_run(&fake, HWT_SEC(20));
    ck_assert_uint_eq(fake.first, 2); /* it has not said that it has more */
    lost->starts_at = 0;
    fake_run(&fake, HWT_SEC(40));
    ck_assert_uint_eq(fake.first, 4);
    lose_all_others(lost);
    fake_run(&fake, HWT_SEC(80));
    ck_assert_uint_eq(fake_arrived(&fake, "m"), 1);
    ck_assert_uint_eq(fake_arrived(&fake, "behind"), 1);
    ck_assert_uint_eq(fake_arrived(&fake, "later"), 1);
}
END_TEST

static struct relay_member read_member(const char *name)
{
    struct relay_member member = { .life = 0 };

    for (size_t i = 0; i < fake.entries_count; i++)
        if (strcmp(fake.entries[i].name, name) == 0)
            ck_assert_int_eq(relay_member_read(fake.entries[i].text, &member), 0);
    return member;
}

/* It begins while the stream does not answer. It does not say that it is back before it knows that it can read on,
 * which it cannot, so nobody waits for it. */
START_TEST(test_one_that_is_forgotten_comes_back_too_late)
{
    struct fake_replica *lost = &fake.replicas[2];
    struct relay_member member;
    char name[RELAY_ENTRY_MAX];

    if (lost == fake_owner(&fake))
        lost = &fake.replicas[1];
    snprintf(name, sizeof(name), "place.%s.0", lost->config.replica);
    fake_put(&fake, fake.realtime, NULL, "m");
    fake_run(&fake, HWT_SEC(5));
    lost->starts_at = HWT_NEVER;
    fake_stop(lost);
    for (size_t i = 0; i < fake.entries_count; i++)
        if (strcmp(fake.entries[i].name, name) == 0) {
            relay_member_write(&(struct relay_member){ .place = RELAY_FORGOTTEN },
                               fake.entries[i].text);
            fake.entries[i].revision++;
        }
    fake_put(&fake, fake.realtime, NULL, "m");
    fake_run(&fake, HWT_SEC(20));
    ck_assert_uint_eq(fake.first, fake.last + 1);
    fake.stream_silent = true;
    lost->may_fail = true;
    lost->starts_at = 0;
    fake_run(&fake, HWT_SEC(5));
    fake.stream_silent = false;
    fake_run(&fake, HWT_SEC(5));
    ck_assert_int_eq(lost->failed, -ENODATA);
    member = read_member(name);
    ck_assert(relay_place_is_forgotten(&member.place));
    fake_put(&fake, fake.realtime, NULL, "m");
    fake_run(&fake, HWT_SEC(20));
    ck_assert_uint_eq(fake.first, fake.last + 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("relay_owner");
    TCase *tcase = tcase_create("owner");

    tcase_set_timeout(tcase, 100);
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, test_followers_read_nothing_back);
    tcase_add_test(tcase, test_followers_gather_what_they_read);
    tcase_add_loop_test(tcase, test_an_owner_whose_clock_becomes_wrong_resigns, 0, 2);
    tcase_add_loop_test(tcase, test_nothing_is_early_by_a_clock_that_leaps, 0, 3);
    tcase_add_test(tcase, test_nothing_is_early_by_an_heir_whose_clock_has_leapt);
    tcase_add_test(tcase, test_clocks_that_leap_together_are_right);
    tcase_add_loop_test(tcase, test_a_clock_that_is_wrong_within_the_bound_is_right, 0, 2);
    tcase_add_test(tcase, test_nobody_with_a_wrong_clock_takes_the_shard);
    tcase_add_test(tcase, test_an_owner_whose_clock_has_leapt_resigns);
    tcase_add_test(tcase, test_an_owner_whose_disk_fails_resigns);
    tcase_add_test(tcase, test_a_shard_goes_back);
    tcase_add_test(tcase, test_a_shard_does_not_go_back_to_one_that_is_behind);
    tcase_add_test(tcase, test_an_owner_does_not_wait_for_what_is_lost);
    tcase_add_loop_test(tcase, test_a_lost_disk_and_a_whole_stream, 0, FAKE_REPLICAS);
    tcase_add_loop_test(tcase, test_a_lost_disk_and_a_trimmed_stream, 0, FAKE_REPLICAS);
    tcase_add_test(tcase, test_one_that_is_forgotten_comes_back_too_late);
    tcase_add_test(tcase, test_an_entry_that_cannot_be_read_is_waited_out);
    tcase_add_test(tcase, test_a_place_of_its_own_that_cannot_be_read_is_written_anew);
    tcase_add_test(tcase, test_two_relays_of_one_name_are_said);
    tcase_add_test(tcase, test_a_clock_that_is_wrong_from_the_start_is_said);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
