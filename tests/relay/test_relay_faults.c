/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Three replicas through faults at random, and a ledger of all that was put: each message reaches its
 * target once and not early, or the dead letters once; none that was cancelled in time does. A message that
 * the broker loses before all replicas have it may or may not, and so may what it has cancelled. In every second
 * life it loses something. Messages may come twice then, because a store that reads again keeps what has
 * ended, and its replica may own the shard when the target has forgotten their ids.
 *
 *     HWT_TEST_SEED=n    the first life is that of this number
 *     RELAY_LIVES=n      so many lives; 2000 by default
 */

#include "tests/relay/fake.h"

#include <string.h>

enum { ORDERS = 60 };

/* A cancel is in time if it is there for so long before the due time: an owner that has not read what was there a
 * lease before does not send. The protocol promises it for a lease more. */
#define IN_TIME (FAKE_LEASE + FAKE_WRONG)

struct order {
    char key[24];
    uint64_t due;
    bool keyed, nobody, invalid;
    bool cancelled, late; /* late: it may or may not have been sent */
    bool lost;            /* likewise, because the broker has lost a message */
    unsigned arrived, dead;
};

static struct fake fake;
static struct order orders[ORDERS];
static unsigned count;

static void publish(unsigned number, const char *const *headers)
{
    char payload[16];
    snprintf(payload, sizeof(payload), "%u", number);
    fake_publish(&fake, payload, headers);
}

static void put(void)
{
    struct order *order = &orders[count];
    char due[RELAY_DUE_ROOM];
    uint64_t kind = fake_draw(&fake, 20);

    order->keyed = fake_draw(&fake, 2) == 0;
    order->nobody = kind == 0;
    order->invalid = kind == 1;
    order->due = fake.realtime + fake_draw(&fake, HWT_SEC(20));
    if (fake_draw(&fake, 5) == 0)
        order->due -= HWT_SEC(10);
    snprintf(order->key, sizeof(order->key), "k%u", count);
    relay_due_write(order->due, due);
    const char *target = order->nobody ? "t.nobody" : order->invalid ? "$JS.API.X" : "t.here";
    const char *const headers[] = {
        "Hwt-Due",  due, "Hwt-Target", target, "X-Own", "own", order->keyed ? "Hwt-Key" : NULL,
        order->key, NULL
    };
    publish(count++, headers);
}

/* Another number, at another time, in place of it. */
static void cancel_or_replace(struct order *order, bool replaces)
{
    char due[RELAY_DUE_ROOM], due_new[RELAY_DUE_ROOM];
    const char *const cancel[] = {
        "Hwt-Op", "cancel", "Hwt-Due", due, "Hwt-Key", order->key, NULL
    };
    struct order *put = &orders[count];

    relay_due_write(order->due, due);
    order->late = fake.realtime + IN_TIME > order->due;
    order->cancelled = true;
    if (!replaces) {
        publish(ORDERS, cancel);
        return;
    }
    *put = (struct order){ .due = order->due + fake_draw(&fake, HWT_SEC(10)), .keyed = true };
    strcpy(put->key, order->key);
    put->late = put->due == order->due;
    relay_due_write(put->due, due_new);
    const char *const replace[] = { "Hwt-Op",      "replace", "Hwt-Due", due_new,
                                    "Hwt-Due-Old", due,       "Hwt-Key", order->key,
                                    "Hwt-Target",  "t.here",  NULL };
    publish(count++, replace);
}

static void produce(struct fake *in)
{
    (void)in;
    if (count == ORDERS || fake_draw(&fake, 3) != 0)
        return;
    if (count > 0 && fake_draw(&fake, 3) == 0) {
        struct order *order = &orders[fake_draw(&fake, count)];
        if (order->keyed && !order->cancelled && !order->nobody && !order->invalid) {
            cancel_or_replace(order, fake_draw(&fake, 2) == 0);
            return;
        }
    }
    put();
}

static struct order *order_of(const struct fake_message *message)
{
    unsigned number = (unsigned)strtoul(message->payload, NULL, 10);
    must(number < count);
    return &orders[number];
}

static const char *header(const struct fake_message *message, const char *name)
{
    for (size_t i = 0; i < message->message.fields_count; i++)
        if (strcmp(message->fields[i].name, name) == 0)
            return message->fields[i].value;
    return NULL;
}

static void count_arrivals(void)
{
    for (size_t i = 0; i < fake.targets.count; i++) {
        const struct fake_message *message = fake.targets.messages[i];
        struct order *order = order_of(message);
        order->arrived++;
        if (message->at + FAKE_WRONG < order->due || !header(message, "Hwt-Due") ||
            header(message, "Hwt-Target"))
            ck_abort_msg("number %ld is early, or its headers are wrong", order - orders);
    }
    for (size_t i = 0; i < fake.dead.count; i++) {
        const struct fake_message *message = fake.dead.messages[i];
        if (!header(message, "Hwt-Reason"))
            ck_abort_msg("a dead letter without a reason");
        order_of(message)->dead++;
    }
}

/* The stream does not have it any more, and a replica that has not read it may be the owner. If it was known
 * to all, only what it has cancelled is in doubt, because a replica may read that again. */
static void note_lost(const struct fake_message *message, bool known)
{
    const char *key = header(message, "Hwt-Key");
    unsigned number = (unsigned)strtoul(message->payload, NULL, 10);

    for (unsigned i = 0; i < count; i++)
        if (i == number ? !known : key && strcmp(orders[i].key, key) == 0)
            orders[i].lost = true;
}

static void settle_ledger(uint64_t seed)
{
    count_arrivals();
    for (unsigned i = 0; i < count; i++) {
        const struct order *order = &orders[i];
        unsigned ends = order->arrived + order->dead;
        bool maybe = order->lost || (order->cancelled && order->late);
        unsigned wanted = order->cancelled && !order->late ? 0 : 1;
        bool twice = ends > 1 && fake.lacks && (wanted == 1 || maybe);
        if (ends != wanted && !(maybe && ends <= 1) && !twice)
            ck_abort_msg(
                "seed %llu: number %u of key %s, due at %llu%s, arrived %u times and is dead "
                "%u times",
                (unsigned long long)seed, i, order->key, (unsigned long long)order->due,
                order->cancelled ? ", cancelled" : "", order->arrived, order->dead);
        if ((order->invalid || order->nobody) && order->arrived > 0)
            ck_abort_msg("seed %llu: number %u has arrived", (unsigned long long)seed, i);
    }
}

static void live(uint64_t seed, unsigned made[FAULTS])
{
    const bool together = seed / 2 % 2 == 1;
    uint64_t end;

    memset(orders, 0, sizeof(orders));
    count = 0;
    fake_begin(&fake, seed, FAKE_REPLICAS);
    for (unsigned i = 0; i < FAKE_REPLICAS; i++)
        fake.replicas[i].engine.together = together;
    fake.between = produce;
    fake.lost = note_lost;
    fake.keeps = seed % 2 == 0;
    fake.faults = true;
    while (count < ORDERS)
        fake_step(&fake);
    end = fake.boottime + HWT_SEC(20);
    while (fake.boottime < end)
        fake_step(&fake);
    /* No faults: what is left must come. The attempts are 31 seconds apart in all. */
    fake.faults = false;
    fake.pace = HWT_MS(400);
    for (unsigned i = 0; i < FAKE_REPLICAS; i++)
        fake.replicas[i].process.die_at = fake.replicas[i].ahead = 0;
    end = fake.boottime + HWT_SEC(90);
    while (fake.boottime < end)
        fake_step(&fake);
    settle_ledger(seed);
    for (int i = 0; i < FAULTS; i++)
        made[i] += fake.made[i];
    if (fake.last > 0 && fake.first != fake.last + 1)
        ck_abort_msg("seed %llu: it has still %llu to %llu", (unsigned long long)seed,
                     (unsigned long long)fake.first, (unsigned long long)fake.last);
    fake_end(&fake);
}

START_TEST(test_each_message_ends_once_through_faults)
{
    uint64_t seed = test_seed();
    const char *lives = getenv("RELAY_LIVES");
    unsigned long n = lives ? strtoul(lives, NULL, 10) : test_scaled(2000);
    unsigned made[FAULTS] = { 0 };

    for (unsigned long i = 0; i < n; i++)
        live(seed + i, made);
    printf("faults: %u lost, %u refused, %u crashes, %u of the disk, %u pauses, %u few, %u still\n",
           made[FAULT_LOST], made[FAULT_REFUSED], made[FAULT_CRASH], made[FAULT_DISK],
           made[FAULT_PAUSE], made[FAULT_FEW], made[FAULT_STILL]);
    printf("%u ends lost, %u streams anew, %u clocks wrong, %u disks lost\n", made[FAULT_TAIL],
           made[FAULT_ANEW], made[FAULT_CLOCK], made[FAULT_LOST_DISK]);
    for (unsigned i = 0; i < FAULTS; i++)
        ck_assert_uint_gt(made[i], 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("relay_faults");
    TCase *tcase = tcase_create("faults");

    tcase_set_timeout(tcase, 1200);
    tcase_add_test(tcase, test_each_message_ends_once_through_faults);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
