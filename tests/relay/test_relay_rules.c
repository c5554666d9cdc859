/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What a replica may not do, one rule at a time. Without other faults. */

#include "tests/relay/fake_inside.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct fake fake;
static struct fake_replica *owner;
static struct relay_engine_calls changed;
static const struct relay_engine_calls *usual;

/* Until the one that should own the shard does, and has renewed its lease: the heir of another one begins with none. */
static void set_up(void)
{
    fake_begin(&fake, test_seed(), FAKE_REPLICAS);
    fake.pace = HWT_MS(20);
    do {
        ck_assert_uint_lt(fake.boottime, HWT_MIN(5));
        fake_step(&fake);
        owner = fake_owner(&fake);
    } while (!owner || relay_rank(owner->shard, owner->config.replica) > 0);
    fake_run(&fake, FAKE_LEASE);
    usual = owner->engine.calls;
    changed = *usual;
}

static void tear_down(void)
{
    fake_end(&fake);
}

static void end_replica(struct fake_replica *replica)
{
    replica->starts_at = HWT_NEVER;
    fake_stop(replica);
}

/* As by SIGKILL: it gives nothing back. */
static void kill_replica(struct fake_replica *replica)
{
    replica->crashes = replica->process.dead = true;
    end_replica(replica);
}

static struct fake_replica *another(const struct fake_replica *than)
{
    return &fake.replicas[(than->number + 1) % FAKE_REPLICAS];
}

static void run_until(uint64_t boottime)
{
    while (fake.boottime < boottime)
        fake_step(&fake);
}

/* ---- The lease ---- */

START_TEST(an_owner_sends_for_three_quarters_of_its_lease)
{
    uint64_t from;

    fake_run(&fake, HWT_SEC(1));
    fake.entries_silent = true;
    from = owner->shard->lease_from;
    run_until(from + FAKE_LEASE / 2);
    fake_put(&fake, fake.realtime, NULL, "sent");
    run_until(from + FAKE_LEASE / 4 * 3 - HWT_MS(200));
    ck_assert_uint_eq(fake_arrived(&fake, "sent"), 1);
    run_until(from + FAKE_LEASE / 4 * 3);
    fake_put(&fake, fake.realtime, NULL, "not sent");
    run_until(from + 3 * FAKE_LEASE);
    ck_assert_uint_eq(fake_arrived(&fake, "not sent"), 0);
    fake.entries_silent = false;
    fake_run(&fake, HWT_SEC(20));
    ck_assert_uint_eq(fake_arrived(&fake, "not sent"), 1);
}
END_TEST

static bool answers_swaps;

static int swap_slowly(struct relay_engine *engine, const char *name, uint64_t revision,
                       const char *text, uint64_t *ret_revision)
{
    int r = usual->swap(engine, name, revision, text, ret_revision);

    if (strncmp(name, "shard.", 6) != 0)
        return r;
    fake.boottime += FAKE_LEASE / 2;
    return answers_swaps ? r : -ETIMEDOUT;
}

/* Others may have seen the write as soon as it was begun. */
START_TEST(a_lease_begins_before_the_write_that_renews_it)
{
    uint64_t before, from;

    answers_swaps = true;
    changed.swap = swap_slowly;
    owner->engine.calls = &changed;
    owner->shard->look_at = 0;
    before = fake.boottime;
    ck_assert_int_eq(relay_shard_step(owner->shard), 0);
    from = owner->shard->lease_from;
    ck_assert_uint_eq(from, before);
}
END_TEST

/* Nobody answers its first claim, which has arrived. */
START_TEST(a_lease_begins_before_the_claim_that_was_not_answered)
{
    struct fake_replica *next = another(owner);
    uint64_t before;

    fake_run(&fake, HWT_SEC(1));
    end_replica(another(next) == owner ? another(owner) : another(next));
    answers_swaps = false;
    changed.swap = swap_slowly;
    next->engine.calls = &changed;
    kill_replica(owner);
    fake_run(&fake, HWT_SEC(1)); /* it has seen what the owner wrote last */
    next->paused = true;         /* the steps are made here */
    fake_run(&fake, 2 * FAKE_LEASE);
    next->shard->look_at = 0;
    before = fake.boottime;
    ck_assert_int_eq(relay_shard_step(next->shard), 0);
    ck_assert_uint_ge(fake.boottime, before + FAKE_LEASE / 2);
    ck_assert_int_eq(next->shard->role, RELAY_FOLLOWS);
    next->engine.calls = usual;
    next->shard->look_at = 0;
    ck_assert_int_eq(relay_shard_step(next->shard), 0);
    ck_assert_int_ne(next->shard->role, RELAY_FOLLOWS);
    ck_assert_uint_le(next->shard->lease_from, before);
}
END_TEST

/* It is another owner, which waits for the lease's end. */
START_TEST(a_process_that_has_begun_again_owns_nothing)
{
    uint64_t died;

    for (unsigned i = 0; i < FAKE_REPLICAS; i++)
        if (&fake.replicas[i] != owner)
            end_replica(&fake.replicas[i]);
    fake_run(&fake, HWT_SEC(1));
    kill_replica(owner);
    died = fake.boottime;
    owner->starts_at = 0;
    run_until(died + FAKE_LEASE / 4 * 3);
    ck_assert_ptr_null(fake_owner(&fake));
    fake_run(&fake, FAKE_LEASE);
    ck_assert_ptr_eq(fake_owner(&fake), owner);
}
END_TEST

START_TEST(an_owner_that_has_slept_sees_that_it_is_none)
{
    owner->paused = true;
    fake_run(&fake, 4 * FAKE_LEASE);
    ck_assert_ptr_nonnull(fake_owner(&fake));
    ck_assert_int_eq(owner->shard->role, RELAY_OWNS); /* so it thinks */
    owner->paused = false;
    owner->drained = true; /* it stays as it is */
    fake_run(&fake, HWT_SEC(1));
    ck_assert_int_eq(owner->shard->role, RELAY_FOLLOWS);
    ck_assert(owner->shard->over);
}
END_TEST

static int extent_in_vain(struct relay_engine *engine, struct relay_extent *ret_extent)
{
    (void)engine;
    (void)ret_extent;
    return -ETIMEDOUT;
}

/* It could not catch up, and would keep it from those that can. */
START_TEST(one_that_does_not_know_the_stream_does_not_take_the_shard)
{
    struct fake_replica *blind = another(owner);

    end_replica(blind);
    changed.extent = extent_in_vain;
    blind->engine.calls = &changed;
    blind->starts_at = 0;
    fake_run(&fake, HWT_SEC(3));
    for (unsigned i = 0; i < FAKE_REPLICAS; i++)
        if (&fake.replicas[i] != blind)
            end_replica(&fake.replicas[i]);
    for (int i = 0; i < 20; i++) {
        fake_run(&fake, HWT_SEC(1));
        ck_assert_int_eq(blind->shard->role, RELAY_FOLLOWS);
    }
}
END_TEST

/* The one that should own the shard is dead, and its entry says that it lives. */
START_TEST(a_shard_is_not_given_to_the_dead)
{
    uint64_t end;

    fake_run(&fake, HWT_SEC(5));
    kill_replica(owner);
    fake_run(&fake, HWT_SEC(60)); /* until the better one of the two others has it */
    end = fake.boottime + HWT_SEC(60);
    while (fake.boottime < end) {
        fake_step(&fake);
        ck_assert_ptr_nonnull(fake_owner(&fake));
    }
}
END_TEST

/* ---- What was forwarded ---- */

/* A follower reads all at once, and has no place that the watermark covers. It does not send what has ended. */
START_TEST(an_heir_does_not_send_what_has_ended)
{
    const uint64_t due = fake.realtime + HWT_SEC(3);
    uint64_t sent;

    fake_run(&fake, HWT_MS(100));
    for (unsigned i = 0; i < FAKE_REPLICAS; i++)
        if (&fake.replicas[i] != owner)
            fake.replicas[i].shard->ingest_after = HWT_NEVER;
    for (int i = 0; i < 3; i++)
        fake_put(&fake, due, NULL, "first");
    fake_run(&fake, HWT_MS(2500)); /* it may lack what has come within its lease */
    owner->shard->ingest_after = HWT_NEVER;
    for (int i = 0; i < 3; i++)
        fake_put(&fake, due, NULL, "behind");
    for (unsigned i = 0; i < FAKE_REPLICAS; i++)
        if (&fake.replicas[i] != owner)
            fake.replicas[i].shard->ingest_after = 0;
    fake_run(&fake, HWT_MS(1500));
    ck_assert_uint_eq(fake_arrived(&fake, "first"), 3);
    ck_assert_uint_eq(fake_arrived(&fake, "behind"), 0);
    sent = fake.repeats;
    kill_replica(owner);
    fake_run(&fake, HWT_SEC(10));
    ck_assert_uint_eq(fake_arrived(&fake, "first"), 3);
    ck_assert_uint_eq(fake_arrived(&fake, "behind"), 3);
    ck_assert_uint_eq(fake.repeats, sent); /* the target has refused none */
}
END_TEST

/*
 * It goes back, and reads the first of them once more. What it had read before is put before these, and is behind
 * them in the stream. The owner's watermark covers the first ones alone.
 */
START_TEST(what_is_behind_is_not_dropped_while_a_store_reads_again)
{
    enum { FIRST = 32, ALL = 40 }; /* as many as come at once, and all */
    struct fake_replica *again = another(owner);
    hwt_delay_stats stats = HWT_DELAY_STATS_INIT;

    for (int i = 0; i < ALL; i++)
        fake_put(&fake, fake.realtime + HWT_SEC(1), NULL, "m");
    ck_assert_int_eq(relay_shard_step(owner->shard), 0);
    owner->shard->ingest_after = HWT_NEVER;
    fake_run(&fake, HWT_MS(500));
    ck_assert_uint_eq(owner->shard->at.position, FIRST);
    ck_assert_uint_eq(again->shard->at.position, ALL);
    again->shard->at = (struct relay_place){ .incarnation = fake.incarnation };
    again->shard->points_count = 0;
    for (int i = 0; i < 3 && again->shard->at.position < FIRST; i++)
        ck_assert_int_eq(relay_shard_step(again->shard), 0);
    ck_assert_uint_eq(again->shard->at.position, FIRST);
    again->shard->ingest_after = HWT_NEVER;
    fake_run(&fake, HWT_MS(1500));
    ck_assert_uint_eq(fake.targets.count, FIRST);
    ck_assert_int_eq(hwt_delay_get_stats(again->store, &stats), 0);
    ck_assert_uint_ge(stats.pending, ALL - FIRST);
    again->shard->ingest_after = owner->shard->ingest_after = 0;
    fake_run(&fake, HWT_SEC(10));
    ck_assert_uint_eq(fake.targets.count, ALL);
}
END_TEST

static unsigned sends;

static int send_later(struct relay_engine *engine, const struct relay_outgoing *message,
                      uint64_t cookie)
{
    (void)engine;
    (void)message;
    (void)cookie;
    sends++;
    return -EAGAIN;
}

/* It has taken the message, and sleeps for longer than its lease. Then the shard is still its own. It reads the
 * cancel, which is behind many others, before it sends. */
START_TEST(an_owner_that_catches_up_does_not_send)
{
    const uint64_t due = fake.realtime + HWT_SEC(1);
    char text[RELAY_DUE_ROOM];

    for (unsigned i = 0; i < FAKE_REPLICAS; i++)
        if (&fake.replicas[i] != owner)
            end_replica(&fake.replicas[i]);
    sends = 0;
    changed.send = send_later;
    owner->engine.calls = &changed;
    fake_put(&fake, due, "k", "k");
    fake_run(&fake, HWT_SEC(2));
    ck_assert_uint_gt(sends, 0);
    owner->paused = true;
    for (int i = 0; i < 80; i++)
        fake_put(&fake, due + HWT_MIN(60), NULL, "other");
    relay_due_write(due, text);
    fake_publish(
        &fake, "",
        (const char *const[]){ "Hwt-Op", "cancel", "Hwt-Due", text, "Hwt-Key", "k", NULL });
    fake_run(&fake, 2 * FAKE_LEASE);
    owner->engine.calls = usual;
    owner->paused = false;
    fake_run(&fake, HWT_SEC(10));
    ck_assert_ptr_eq(fake_owner(&fake), owner);
    ck_assert_uint_eq(fake.targets.count, 0);
}
END_TEST

static bool taken_back;

/* The first transaction with a message in it is taken back. */
static int swap_taken_back(struct relay_engine *engine, const char *name, uint64_t revision,
                           const char *text, uint64_t *ret_revision)
{
    struct fake_replica *replica = (struct fake_replica *)engine;

    if (taken_back || replica->held_count == 0 || strncmp(name, "shard.", 6) != 0)
        return usual->swap(engine, name, revision, text, ret_revision);
    taken_back = true;
    for (size_t i = 0; i < replica->held_count; i++)
        fake_answer(replica, replica->held_cookies[i], -ECANCELED);
    fake_forget_held(replica);
    return -ETIMEDOUT;
}

/* The watermark stays below it, so a new owner would send again what had passed it. */
START_TEST(none_passes_one_whose_transaction_was_taken_back)
{
    uint64_t due;

    tear_down();
    fake_begin(&fake, test_seed(), FAKE_REPLICAS);
    fake.pace = HWT_MS(5);
    for (unsigned i = 0; i < FAKE_REPLICAS; i++)
        fake.replicas[i].engine.together = true;
    while (!(owner = fake_owner(&fake)))
        fake_step(&fake);
    fake_run(&fake, FAKE_LEASE);
    owner = fake_owner(&fake);
    taken_back = false;
    changed.swap = swap_taken_back;
    owner->engine.calls = &changed;
    due = fake.realtime + HWT_SEC(1);
    fake_put(&fake, due, NULL, "first");
    fake_put(&fake, due + FAKE_LEASE / 64, NULL, "second");
    fake_run(&fake, HWT_SEC(10));
    ck_assert(taken_back);
    ck_assert_uint_eq(fake.targets.count, 2);
    ck_assert_str_eq(fake.targets.messages[0]->payload, "first");
    ck_assert_str_eq(fake.targets.messages[1]->payload, "second");
}
END_TEST

static uint64_t begins;

/* Of the shard's entry at the broker. */
static uint64_t watermark_due(void)
{
    struct relay_entry entry = { .owner = "-" };

    for (size_t i = 0; i < fake.entries_count; i++)
        if (strcmp(fake.entries[i].name, "shard.0") == 0)
            ck_assert_int_eq(relay_entry_read(fake.entries[i].text, &entry), 0);
    return entry.watermark.due;
}

/* The payload is how many ms after the beginning it is due. */
static void put_at(uint64_t ms, const char *target)
{
    char due[RELAY_DUE_ROOM], payload[24];

    relay_due_write(begins + HWT_MS(ms), due);
    snprintf(payload, sizeof(payload), "%" PRIu64, ms);
    fake_publish(&fake, payload,
                 (const char *const[]){ "Hwt-Due", due, "Hwt-Target", target, NULL });
}

static int send_few(struct relay_engine *engine, const struct relay_outgoing *outgoing,
                    uint64_t cookie)
{
    return ((struct fake_replica *)engine)->held_count < 1 ? usual->send(engine, outgoing, cookie)
                                                           : -EAGAIN;
}

/* Each second transaction is taken back. */
static int swap_half(struct relay_engine *engine, const char *name, uint64_t revision,
                     const char *text, uint64_t *ret_revision)
{
    static bool taken;

    if (((struct fake_replica *)engine)->held_count > 0 && strncmp(name, "shard.", 6) == 0) {
        taken = !taken;
        taken_back = !taken;
    }
    return swap_taken_back(engine, name, revision, text, ret_revision);
}

static void put_late(unsigned number)
{
    put_at(2 * number + 1, number % 2 == 0 ? "t.nobody" : "t.a");
}

/* What arrives in a transaction is covered by the watermark in it, though targets refuse what is due before, and what was due
 * long ago arrives late: so whoever owns the shard next, however the owner ends, sends it not again. Nor does the watermark
 * go back when transactions are taken back. */
START_TEST(what_arrives_with_the_entry_is_covered_by_it)
{
    uint64_t due = 0;
    size_t seen = 0;
    unsigned late = 0;

    tear_down();
    fake_begin(&fake, test_seed(), FAKE_REPLICAS);
    fake.pace = HWT_MS(5);
    changed.send = _i == 0 ? send_few : usual->send;
    changed.swap = _i == 0 ? usual->swap : swap_half;
    for (unsigned i = 0; i < FAKE_REPLICAS; i++) {
        fake.replicas[i].engine.together = true;
        fake.replicas[i].engine.calls = &changed;
    }
    while (!fake_owner(&fake))
        fake_step(&fake);
    begins = fake.realtime + HWT_SEC(1);
    for (uint64_t ms = 0; ms < 1000; ms += 10)
        put_at(ms, ms % 50 == 0 ? "t.nobody" : "t.a");
    for (uint64_t ms = 501; ms < 600; ms += 2)
        put_at(ms, "t.a");
    while (fake.realtime < begins + HWT_SEC(30) && seen < 140) {
        fake_step(&fake);
        for (; late < 20 && fake.realtime > begins + HWT_MS(500 + 10 * late); late++)
            put_late(late);
        for (; seen < fake.targets.count; seen++) {
            uint64_t ms = strtoull(fake.targets.messages[seen]->payload, NULL, 10);
            ck_assert_uint_le(begins + HWT_MS(ms), watermark_due());
        }
        ck_assert(_i == 0 || watermark_due() >= due);
        due = watermark_due();
    }
    ck_assert_uint_eq(seen, 140);
}
END_TEST

/* ---- What a store holds is a function of the message alone ---- */

static const char *header(const struct fake_message *message, const char *name)
{
    for (size_t i = 0; i < message->message.fields_count; i++)
        if (strcmp(message->fields[i].name, name) == 0)
            return message->fields[i].value;
    return "";
}

static void put_to(const char *target, uint64_t due, const char *key, const char *later)
{
    char text[RELAY_DUE_ROOM];

    relay_due_write(due, text);
    fake_publish(&fake, key,
                 (const char *const[]){ "Hwt-Due", text, "Hwt-Target", target, "Hwt-Key", key,
                                        later ? later : NULL, "x", NULL });
}

/* Replicas are given one target more, one after the other. A message for it comes meanwhile. */
START_TEST(what_one_owner_may_not_send_the_next_one_may)
{
    for (unsigned i = 0; i < FAKE_REPLICAS; i++)
        if (&fake.replicas[i] != owner)
            fake.replicas[i].config.targets = (struct relay_words){ { "t.>", "u.>" }, 2 };
    put_to("u.x", fake.realtime + 10 * FAKE_LEASE, "new", NULL);
    fake_run(&fake, 5 * FAKE_LEASE);
    ck_assert_uint_eq(relay_count_get(&owner->shard->counts.policies), 2);
    ck_assert_uint_eq(fake.dead.count, 0);
    kill_replica(owner);
    fake_run(&fake, 10 * FAKE_LEASE);
    ck_assert_uint_eq(fake_arrived(&fake, "new"), 1);
    ck_assert_uint_eq(fake.dead.count, 0);
    fake_check_empty(&fake);
}
END_TEST

/* So a cancel finds it, and an owner that may send it does. */
START_TEST(what_an_owner_may_not_send_is_a_dead_letter_when_it_is_due)
{
    const uint64_t due = fake.realtime + 3 * FAKE_LEASE;
    char text[RELAY_DUE_ROOM];

    put_to("u.x", due, "target", NULL);
    put_to("t.a", due, "header", "Hwt-Later");
    put_to("u.x", due, "cancelled", NULL);
    relay_due_write(due, text);
    fake_publish(
        &fake, "",
        (const char *const[]){ "Hwt-Op", "cancel", "Hwt-Due", text, "Hwt-Key", "cancelled", NULL });
    fake_run(&fake, 2 * FAKE_LEASE);
    ck_assert_uint_eq(fake.dead.count, 0);
    fake_run(&fake, 3 * FAKE_LEASE);
    ck_assert_uint_eq(fake.dead.count, 2);
    for (size_t i = 0; i < 2; i++) {
        const struct fake_message *dead = fake.dead.messages[i];
        bool unknown = strcmp(dead->payload, "header") == 0;
        ck_assert_ptr_nonnull(strstr(header(dead, "Hwt-Reason"),
                                     unknown ? "no header Hwt-Later" : "may publish to: u.x"));
        ck_assert_str_eq(header(dead, "Hwt-Later"), unknown ? "x" : "");
        ck_assert_str_eq(header(dead, "Hwt-Key"), unknown ? "header" : "target");
    }
    ck_assert_uint_eq(fake.targets.count, 0);
    fake_check_empty(&fake);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("relay_rules");
    TCase *tcase = tcase_create("rules");

    tcase_set_timeout(tcase, 100);
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, an_owner_sends_for_three_quarters_of_its_lease);
    tcase_add_test(tcase, a_lease_begins_before_the_write_that_renews_it);
    tcase_add_test(tcase, a_lease_begins_before_the_claim_that_was_not_answered);
    tcase_add_test(tcase, a_process_that_has_begun_again_owns_nothing);
    tcase_add_test(tcase, an_owner_that_has_slept_sees_that_it_is_none);
    tcase_add_test(tcase, one_that_does_not_know_the_stream_does_not_take_the_shard);
    tcase_add_test(tcase, a_shard_is_not_given_to_the_dead);
    tcase_add_test(tcase, an_heir_does_not_send_what_has_ended);
    tcase_add_test(tcase, what_is_behind_is_not_dropped_while_a_store_reads_again);
    tcase_add_test(tcase, an_owner_that_catches_up_does_not_send);
    tcase_add_test(tcase, none_passes_one_whose_transaction_was_taken_back);
    tcase_add_loop_test(tcase, what_arrives_with_the_entry_is_covered_by_it, 0, 2);
    tcase_add_test(tcase, what_one_owner_may_not_send_the_next_one_may);
    tcase_add_test(tcase, what_an_owner_may_not_send_is_a_dead_letter_when_it_is_due);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
