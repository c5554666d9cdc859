/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Heartbeats whose limits are one connection's own, by the tick, on a set clock. */

#include "heartbeat_fixture.h"

static manual m;

static void open_manual(void)
{
    manual_open(&m, 123456789, TICK, WHEEL);
}

static void close_manual(void)
{
    manual_close(&m);
}

struct client {
    peer peer; /* first: the rules' callbacks take it */
    uint64_t keep_alive;
};

static uint64_t limit_of_client(hwt_heartbeat_event event, void *arg)
{
    struct client *client = arg;
    return event == HWT_HEARTBEAT_DEAD ? client->keep_alive * 3 / 2 : 0;
}

static void start_client(struct client *client, const hwt_heartbeat_rules *rules,
                         uint64_t keep_alive)
{
    client->peer = peer_for(&m, HWT_HEARTBEAT_DEAD, 1);
    client->keep_alive = keep_alive;
    ck_assert_int_eq(hwt_heartbeat_start(&client->peer.heartbeat, m.timer, rules, client), 0);
}

START_TEST(connections_of_different_limits_share_their_rules)
{
    static const hwt_heartbeat_rules rules = {
        .dead = 1, .send = 1, .notify = peer_told, .limit = limit_of_client
    };
    struct client clients[5];
    for (uint64_t i = 0; i < 5; i++)
        start_client(&clients[i], &rules, HWT_SEC(i)); /* MQTT's 0: none */
    manual_go(&m, HWT_SEC(1));
    read_at(&clients[2].peer, HWT_SEC(1));
    go_by_ticks(&m, HWT_MS(6010));
    ck_assert_uint_eq(clients[0].peer.count, 0);
    ck_assert_uint_eq(clients[1].peer.count, 4);
    for (size_t i = 0; i < 4; i++)
        assert_told(&clients[1].peer, i, HWT_HEARTBEAT_DEAD, i + 1, HWT_MS(1500) * (i + 1) + TICK);
    ck_assert_uint_eq(clients[2].peer.count, 1);
    assert_told(&clients[2].peer, 0, HWT_HEARTBEAT_DEAD, 1, HWT_MS(4010));
    ck_assert_uint_eq(clients[3].peer.count, 1);
    assert_told(&clients[3].peer, 0, HWT_HEARTBEAT_DEAD, 1, HWT_MS(4510));
    ck_assert_uint_eq(clients[4].peer.count, 1);
    assert_told(&clients[4].peer, 0, HWT_HEARTBEAT_DEAD, 1, HWT_MS(6010));
    close_manual();
}
END_TEST

START_TEST(another_limit_counts_from_the_next_look_or_start_on)
{
    static const hwt_heartbeat_rules rules = { .notify = peer_told, .limit = limit_of_client };
    struct client client;
    start_client(&client, &rules, HWT_SEC(2));
    client.keep_alive = HWT_SEC(4);
    go_by_ticks(&m, HWT_MS(6000)); /* looked at 3 s, it is due at 6 s */
    ck_assert_uint_eq(client.peer.count, 0);
    client.keep_alive = HWT_SEC(1);
    go_by_ticks(&m, HWT_MS(6010));
    assert_told(&client.peer, 0, HWT_HEARTBEAT_DEAD, 1, HWT_MS(6010));
    client.keep_alive = HWT_SEC(2);
    ck_assert(hwt_heartbeat_stop(&client.peer.heartbeat));
    ck_assert_int_eq(hwt_heartbeat_start(&client.peer.heartbeat, m.timer, &rules, &client), 0);
    go_by_ticks(&m, HWT_MS(9020));
    ck_assert_uint_eq(client.peer.count, 2);
    assert_told(&client.peer, 1, HWT_HEARTBEAT_DEAD, 1, HWT_MS(9020));
    close_manual();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("heartbeat_limits");
    TCase *tcase = add_opened_case(suite, "own", open_manual);
    tcase_add_test(tcase, connections_of_different_limits_share_their_rules);
    tcase_add_test(tcase, another_limit_counts_from_the_next_look_or_start_on);
    return run_suite(suite);
}
