/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Real NATS servers and real relays on loopback, with kills, and a ledger in the end.
 *
 *     cluster RELAY NATS-SERVER DIRECTORY NODES
 *
 * NODES (1 or 3) servers and as many relays are started in DIRECTORY. A producer publishes messages with
 * due times, keys, cancels and nonsense, while relays are killed and drained and, of three servers, one is
 * killed. All begin again. Then the target's stream is read: each message must be there once,
 * not early; none that was cancelled; each piece of nonsense once among the dead letters. In the end all
 * servers are killed at once, some times, with messages between.
 *
 * Exit status: 0; 1: something is wrong, and is said; 77: no server can be started here.
 */

#include "cluster.h"

#include <errno.h>
#include <inttypes.h>
#include <nats/nats.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MESSAGES = 600, AFTERWARDS = 3 };

struct message {
    uint64_t due; /* ms */
    bool cancelled, nonsense;
    bool late; /* its cancel was, so it may come or not */
    unsigned arrived, early, dead;
};

static natsConnection *connection;
static jsCtx *js;
static struct message messages[MESSAGES + AFTERWARDS];
static int produced;

/* Tries until it works: a cluster wants some time to choose its leaders. */
static void make_target(void)
{
    const char *subject = "orders.>";
    const char *servers_of[NODES_MAX] = { NULL };
    char copy[512], *rest = copy, *url;
    natsOptions *options;
    jsStreamConfig config;
    natsStatus s = NATS_ERR;
    int count = 0;

    strcpy(copy, cluster_urls);
    while ((url = strtok_r(rest, " ", &rest)))
        servers_of[count++] = url;
    natsOptions_Create(&options);
    natsOptions_SetServers(options, servers_of, count);
    natsOptions_SetMaxReconnect(options, -1);
    natsOptions_SetReconnectWait(options, 200);
    jsStreamConfig_Init(&config);
    config.Name = "ORDERS";
    config.Subjects = &subject;
    config.SubjectsLen = 1;
    config.Replicas = cluster_nodes;
    config.Duplicates = INT64_C(3600) * 1000000000; /* longer than the test on any machine */
    for (int i = 0; i < 2 * PATIENCE && s != NATS_OK; i++) {
        if (!connection && natsConnection_Connect(&connection, options) == NATS_OK)
            natsConnection_JetStream(&js, connection, NULL);
        if (js)
            s = js_AddStream(NULL, js, &config, NULL, NULL);
        if (s != NATS_OK)
            cluster_sleep_ms(500);
    }
    natsOptions_Destroy(options);
    if (s != NATS_OK)
        cluster_give_up("NATS does not begin: %s", natsStatus_GetText(s));
}

/* Until it is acknowledged: the id makes one of several tries. */
static void publish(int number, const char *op, uint64_t due, const char *target, bool cancels)
{
    char subject[64], text[32], key[32], id[64], payload[32];
    natsMsg *msg;
    natsStatus s = NATS_ERR;

    snprintf(subject, sizeof(subject), "hwt.shop.in.k%d", number);
    snprintf(text, sizeof(text), "%" PRIu64, due);
    snprintf(key, sizeof(key), "k%d", number);
    snprintf(id, sizeof(id), "%s-%d", op, number);
    snprintf(payload, sizeof(payload), "%d", number);
    natsMsg_Create(&msg, subject, NULL, payload, cancels ? 0 : (int)strlen(payload));
    natsMsgHeader_Set(msg, "Hwt-Op", op);
    natsMsgHeader_Set(msg, "Hwt-Due", text);
    natsMsgHeader_Set(msg, "Hwt-Key", key);
    if (target)
        natsMsgHeader_Set(msg, "Hwt-Target", target);
    natsMsgHeader_Set(msg, "Nats-Msg-Id", id);
    natsMsgHeader_Set(msg, "X-Own", "own");
    for (int i = 0; i < PATIENCE && s != NATS_OK; i++) {
        s = js_PublishMsg(NULL, js, msg, NULL, NULL);
        if (s != NATS_OK)
            cluster_sleep_ms(500);
    }
    natsMsg_Destroy(msg);
    if (s != NATS_OK)
        cluster_give_up("number %d could not be published: %s", number, natsStatus_GetText(s));
}

static void produce(int number)
{
    struct message *message = &messages[number];

    produced = number + 1;
    message->nonsense = number % 50 == 7;
    message->due = cluster_now_ms() + 500 + (uint64_t)(number * 7919 % 8000);
    if (number % 10 == 3) { /* far enough away for every fail-over before it */
        message->cancelled = true;
        message->due = cluster_now_ms() + 60000;
    }
    publish(number, "put", message->due, message->nonsense ? "$JS.API.STREAM.NAMES" : "orders.new",
            false);
    if (message->cancelled && !message->nonsense)
        publish(number, "cancel", message->due, NULL, true);
    message->late = message->cancelled && cluster_now_ms() + 20000 > message->due;
}

/* By how much was published, so that each is hit in the middle of its work. */
static void make_trouble(int number)
{
    int last = cluster_nodes - 1;

    switch (number) {
    case 100:
        cluster_kill_child(&cluster_relays[0]);
        break;
    case 160:
        cluster_start_relay(0);
        break;
    case 220:
        cluster_drain_relay(last);
        break;
    case 280:
        cluster_start_relay(last);
        break;
    case 340:
        if (cluster_nodes > 1)
            cluster_kill_child(&cluster_servers[1]);
        break;
    case 420:
        if (cluster_nodes > 1)
            cluster_start_server(1);
        break;
    case 480:
        kill(cluster_relays[last], SIGSTOP);
        break;
    case 540:
        kill(cluster_relays[last], SIGCONT);
        for (int i = 0; i < last; i++) {
            cluster_kill_child(&cluster_relays[i]);
            cluster_start_relay(i);
        }
        break;
    default:
        break;
    }
    cluster_sleep_ms(10);
}

static uint64_t last_of(const char *stream, uint64_t *ret_first)
{
    jsStreamInfo *info = NULL;
    uint64_t last;

    if (js_GetStreamInfo(&info, js, stream, NULL, NULL) != NATS_OK)
        return 0;
    last = info->State.LastSeq;
    *ret_first = info->State.FirstSeq;
    jsStreamInfo_Destroy(info);
    return last;
}

static void count_message(natsMsg *msg, bool dead)
{
    char payload[32];
    const char *value = NULL;
    int number;

    snprintf(payload, sizeof(payload), "%.*s", natsMsg_GetDataLength(msg), natsMsg_GetData(msg));
    number = atoi(payload);
    if (number < 0 || number >= produced)
        cluster_give_up("a message that nobody has put: %s", payload);
    struct message *message = &messages[number];
    if (dead) {
        message->dead++;
        if (natsMsgHeader_Get(msg, "Hwt-Reason", &value) != NATS_OK)
            cluster_give_up("a dead letter without a reason: %d", number);
        return;
    }
    message->arrived++;
    if ((uint64_t)natsMsg_GetTime(msg) / 1000000 < message->due)
        message->early++;
    if (natsMsgHeader_Get(msg, "X-Own", &value) != NATS_OK ||
        natsMsgHeader_Get(msg, "Hwt-Due", &value) != NATS_OK ||
        natsMsgHeader_Get(msg, "Hwt-Target", &value) == NATS_OK)
        cluster_give_up("number %d has not the headers that it should", number);
}

/* Reads what a stream has from `next` on. */
static uint64_t read_stream(const char *stream, uint64_t next, bool dead)
{
    uint64_t first = 1, last = last_of(stream, &first);

    for (; next <= last; next++) {
        natsMsg *msg = NULL;
        natsStatus s = js_GetMsg(&msg, js, stream, next, NULL, NULL);
        if (s != NATS_OK)
            break; /* tried again; none is deleted here, but a new leader may not have it yet */
        count_message(msg, dead);
        natsMsg_Destroy(msg);
    }
    return next;
}

static unsigned count_open(void)
{
    unsigned open = 0;

    for (int i = 0; i < produced; i++) {
        const struct message *message = &messages[i];
        open +=
            message->nonsense ? message->dead == 0 : !message->cancelled && message->arrived == 0;
    }
    return open;
}

/* Until all has come, and the last cancelled one would have. */
static void wait_for_all(void)
{
    static uint64_t orders = 1, dead = 1; /* up to here they were read before */
    uint64_t last_due = 0, end;

    for (int i = 0; i < produced; i++)
        if (messages[i].due > last_due)
            last_due = messages[i].due;
    end = last_due + PATIENCE * 1000;
    while (cluster_now_ms() < end && (count_open() > 0 || cluster_now_ms() < last_due + 3000)) {
        orders = read_stream("ORDERS", orders, false);
        dead = read_stream("HWT-shop-dead", dead, true);
        cluster_sleep_ms(500);
    }
    orders = read_stream("ORDERS", orders, false);
    dead = read_stream("HWT-shop-dead", dead, true);
}

static void settle_ledger(void)
{
    unsigned missing = 0, early = 0, twice = 0, revived = 0, wrong = 0;

    for (int i = 0; i < produced; i++) {
        const struct message *message = &messages[i];
        missing +=
            message->nonsense ? message->dead == 0 : !message->cancelled && message->arrived == 0;
        early += message->early;
        twice += message->arrived > 1 || message->dead > 1;
        revived +=
            message->cancelled && !message->nonsense && !message->late && message->arrived > 0;
        wrong += (message->nonsense ? message->arrived : message->dead) > 0;
    }
    printf("%d messages: %u missing, %u early, %u double, %u cancelled and forwarded, "
           "%u in the wrong place\n",
           produced, missing, early, twice, revived, wrong);
    if (missing + early + twice + revived + wrong > 0)
        cluster_give_up("the ledger does not settle");
}

/* All replicas have all, so the delay streams are empty in the end. */
static void wait_for_trim(void)
{
    for (int i = 0; i < 2 * PATIENCE; i++) {
        uint64_t first[2] = { 0, 0 }, last[2];
        for (int n = 0; n < 2; n++)
            last[n] = last_of(n == 0 ? "HWT-shop-0" : "HWT-shop-1", &first[n]);
        if (first[0] > last[0] && first[1] > last[1] && last[0] > 0 && last[1] > 0)
            return;
        cluster_sleep_ms(500);
    }
    cluster_give_up("the delay streams are not trimmed");
}

static bool is_current(const char *stream)
{
    jsStreamInfo *info = NULL;
    bool current = js_GetStreamInfo(&info, js, stream, NULL, NULL) == NATS_OK;

    if (current && info->Cluster)
        for (int i = 0; i < info->Cluster->ReplicasLen; i++)
            current = current && info->Cluster->Leader && info->Cluster->Replicas[i]->Current;
    jsStreamInfo_Destroy(info);
    return current;
}

/* All servers are killed at once while nothing is on its way, and a message goes its way. */
static void restart_servers(void)
{
    for (int n = 0; n < AFTERWARDS; n++) {
        int tries = 0;
        for (int i = 0; i < cluster_nodes; i++)
            kill(cluster_servers[i], SIGKILL);
        for (int i = 0; i < cluster_nodes; i++) {
            waitpid(cluster_servers[i], NULL, 0);
            cluster_start_server(i);
        }
        while (!is_current("HWT-shop-0") || !is_current("HWT-shop-1") || !is_current("ORDERS")) {
            if (tries++ == 2 * PATIENCE)
                cluster_give_up("the servers do not agree");
            cluster_sleep_ms(500);
        }
        produce(MESSAGES + n);
        wait_for_all();
    }
    settle_ledger();
}

int main(int argc, char **argv)
{
    if (argc != 5) {
        fputs("usage: cluster RELAY NATS-SERVER DIRECTORY NODES\n", stderr);
        return 2;
    }
    cluster_set_paths(argv[1], argv[2], argv[3]);
    cluster_nodes = atoi(argv[4]) > 1 ? NODES_MAX : 1;
    if (mkdir(argv[3], 0755) < 0)
        cluster_give_up("%s: %s", argv[3], strerror(errno));
    srand((unsigned)getpid() ^ (unsigned)cluster_now_ms());
    cluster_start_servers();
    make_target();
    for (int i = 0; i < cluster_nodes; i++)
        cluster_start_relay(i);
    for (int i = 0; i < PATIENCE && cluster_by_hand(0, "status") != 0; i++)
        cluster_sleep_ms(500); /* until the streams are made */
    for (int i = 0; i < MESSAGES; i++) {
        produce(i);
        make_trouble(i);
    }
    wait_for_all();
    settle_ledger();
    wait_for_trim();
    restart_servers();
    if (cluster_by_hand(0, "status") != 0)
        cluster_give_up("status has failed");
    for (int i = 0; i < cluster_nodes; i++)
        cluster_drain_relay(i);
    jsCtx_Destroy(js);
    natsConnection_Destroy(connection);
    nats_Close();
    cluster_end_children();
    return 0;
}
