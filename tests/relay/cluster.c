/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Real NATS servers and real relays on loopback, with kills, and a ledger in the end.
 *
 *     cluster RELAY NATS-SERVER DIRECTORY NODES
 *
 * NODES (1 or 3) servers and as many relays are started in DIRECTORY. A producer publishes messages with
 * due times, keys, cancels and nonsense, while relays are killed and drained and, of three servers, one is
 * killed. All begin again. Then the target's stream is read: each message must be there once,
 * not early; none that was cancelled; each piece of nonsense once among the dead letters.
 *
 * Exit status: 0; 1: something is wrong, and is said; 77: no server can be started here.
 */

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <nats/nats.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { NODES_MAX = 3, MESSAGES = 600, SKIPPED = 77, PATIENCE = 120 };

struct message {
    uint64_t due; /* ms */
    bool cancelled, nonsense;
    bool late; /* its cancel was, so it may come or not */
    unsigned arrived, early, dead;
};

static const char *relay_path, *nats_path, *directory;
static int nodes;
static int client_ports[NODES_MAX], route_ports[NODES_MAX];
static pid_t servers[NODES_MAX], relays[NODES_MAX];
static char urls[512];
static natsConnection *connection;
static jsCtx *js;
static struct message messages[MESSAGES];

static void end_children(void)
{
    for (int i = 0; i < nodes; i++) {
        if (relays[i] > 0)
            kill(relays[i], SIGKILL);
        if (servers[i] > 0)
            kill(servers[i], SIGKILL);
    }
}

__attribute__((format(printf, 1, 2))) static _Noreturn void give_up(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    fputs("FAILED: ", stdout);
    vprintf(format, arguments);
    printf("; see the logs in %s\n", directory);
    va_end(arguments);
    end_children();
    exit(1);
}

static uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void sleep_ms(unsigned ms)
{
    struct timespec time = { ms / 1000, (long)(ms % 1000) * 1000000 };
    nanosleep(&time, NULL);
}

/*
 * Ports that nobody has now. They are below those that the system gives to whoever does not ask for one, so that
 * nobody gets them before a server does, or while it is dead.
 */
static void choose_ports(void)
{
    int sockets[2 * NODES_MAX];
    unsigned tries = 0;

    for (int i = 0; i < 2 * NODES_MAX; i++) {
        struct sockaddr_in address = { .sin_family = AF_INET };
        int port = 10000 + rand() % 20000;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        address.sin_port = htons((uint16_t)port);
        sockets[i] = socket(AF_INET, SOCK_STREAM, 0);
        if (sockets[i] < 0 || tries++ > 1000)
            give_up("no port: %s", strerror(errno));
        (i < NODES_MAX ? client_ports : route_ports)[i % NODES_MAX] = port;
        if (bind(sockets[i], (struct sockaddr *)&address, sizeof(address)) < 0)
            close(sockets[i--]);
    }
    for (int i = 0; i < 2 * NODES_MAX; i++)
        close(sockets[i]);
}

static FILE *create(const char *format, int i)
{
    char name[64], path[512];
    FILE *file;

    snprintf(name, sizeof(name), "%s-%d.conf", format, i);
    snprintf(path, sizeof(path), "%s/%s", directory, name);
    file = fopen(path, "w");
    if (!file)
        give_up("%s: %s", path, strerror(errno));
    return file;
}

static void write_files(void)
{
    urls[0] = 0;
    for (int i = 0; i < nodes; i++) {
        FILE *file = create("nats", i);
        fprintf(file,
                "listen: 127.0.0.1:%d\nserver_name: n%d\njetstream { store_dir: \"%s/js-%d\" }\n",
                client_ports[i], i, directory, i);
        fprintf(file, "mappings = { \"hwt.shop.in.*\": \"hwt.shop.{{partition(2,1)}}\" }\n");
        if (nodes > 1) {
            fprintf(file, "cluster { name: c, listen: 127.0.0.1:%d, routes: [", route_ports[i]);
            for (int n = 0; n < nodes; n++)
                fprintf(file, "%s nats://127.0.0.1:%d", n > 0 ? "," : "", route_ports[n]);
            fprintf(file, " ] }\n");
        }
        fclose(file);
        snprintf(urls + strlen(urls), sizeof(urls) - strlen(urls), " nats://127.0.0.1:%d",
                 client_ports[i]);
    }
    for (int i = 0; i < nodes; i++) {
        FILE *file = create("relay", i);
        fprintf(file,
                "space = shop\nshards = 2\ncopies = %d\nlease = 2s\nreplica = r%d\n"
                "replicas = %s\nservers =%s\ntargets = orders.>\nstate = %s/state-%d\n",
                nodes, i, nodes > 1 ? "r0 r1 r2" : "r0", urls, directory, i);
        fclose(file);
    }
}

/* A child whose output goes to the end of a log. */
static pid_t start(const char *log, int i, const char *const *argv)
{
    char path[512];
    pid_t pid;

    snprintf(path, sizeof(path), "%s/%s-%d.log", directory, log, i);
    fflush(stdout);
    pid = fork();
    if (pid == 0) {
        if (!freopen(path, "a", stdout) || dup2(1, 2) < 0)
            _exit(1);
        execv(argv[0], (char *const *)(uintptr_t)argv);
        _exit(SKIPPED);
    }
    return pid;
}

static void start_server(int i)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/nats-%d.conf", directory, i);
    servers[i] = start("nats", i, (const char *const[]){ nats_path, "-c", path, NULL });
}

static void start_relay(int i)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/relay-%d.conf", directory, i);
    relays[i] = start("relay", i, (const char *const[]){ relay_path, "-c", path, NULL });
}

/* Runs a command of hwt-relay by hand, and waits for it: its exit status. */
static int by_hand(int i, const char *command)
{
    char path[512];
    int status;
    pid_t pid;

    snprintf(path, sizeof(path), "%s/relay-%d.conf", directory, i);
    pid = start(command, i, (const char *const[]){ relay_path, "-c", path, command, NULL });
    return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void kill_child(pid_t *pid)
{
    kill(*pid, SIGKILL);
    waitpid(*pid, NULL, 0);
    *pid = 0;
}

/* By SIGTERM, through `drain`, which finds it when it has begun; it has to end with 0. */
static void drain_relay(int i)
{
    int status;

    for (int n = 0; by_hand(i, "drain") != 0; n++) {
        if (n == 2 * PATIENCE)
            give_up("relay %d could not be drained", i);
        sleep_ms(500);
    }
    if (waitpid(relays[i], &status, 0) != relays[i] || !WIFEXITED(status) || WEXITSTATUS(status))
        give_up("relay %d did not end well: %d", i, status);
    relays[i] = 0;
}

static bool listens(int port)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    bool is_there;

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    is_there = connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0;
    close(fd);
    return is_there;
}

/* Whether all listen; false: one has ended, so it did not get its ports. */
static bool do_servers_begin(void)
{
    for (int i = 0; i < nodes; i++)
        while (!listens(client_ports[i]) || (nodes > 1 && !listens(route_ports[i]))) {
            if (waitpid(servers[i], NULL, WNOHANG) == servers[i]) {
                servers[i] = 0;
                return false;
            }
            sleep_ms(100);
        }
    return true;
}

/* With other ports, if they are taken. */
static void start_servers(void)
{
    for (int tries = 0; tries < 10; tries++) {
        choose_ports();
        write_files();
        for (int i = 0; i < nodes; i++)
            start_server(i);
        if (do_servers_begin())
            return;
        for (int i = 0; i < nodes; i++)
            if (servers[i] > 0)
                kill_child(&servers[i]);
    }
    give_up("the servers do not begin");
}

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

    strcpy(copy, urls);
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
    config.Replicas = nodes;
    config.Duplicates = INT64_C(3600) * 1000000000; /* longer than the test on any machine */
    for (int i = 0; i < 2 * PATIENCE && s != NATS_OK; i++) {
        if (!connection && natsConnection_Connect(&connection, options) == NATS_OK)
            natsConnection_JetStream(&js, connection, NULL);
        if (js)
            s = js_AddStream(NULL, js, &config, NULL, NULL);
        if (s != NATS_OK)
            sleep_ms(500);
    }
    natsOptions_Destroy(options);
    if (s != NATS_OK)
        give_up("NATS does not begin: %s", natsStatus_GetText(s));
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
            sleep_ms(500);
    }
    natsMsg_Destroy(msg);
    if (s != NATS_OK)
        give_up("number %d could not be published: %s", number, natsStatus_GetText(s));
}

static void produce(int number)
{
    struct message *message = &messages[number];

    message->nonsense = number % 50 == 7;
    message->due = now_ms() + 500 + (uint64_t)(number * 7919 % 8000);
    if (number % 10 == 3) { /* far enough away for every fail-over before it */
        message->cancelled = true;
        message->due = now_ms() + 60000;
    }
    publish(number, "put", message->due, message->nonsense ? "$JS.API.STREAM.NAMES" : "orders.new",
            false);
    if (message->cancelled && !message->nonsense)
        publish(number, "cancel", message->due, NULL, true);
    message->late = message->cancelled && now_ms() + 20000 > message->due;
}

/* By how much was published, so that each is hit in the middle of its work. */
static void make_trouble(int number)
{
    int last = nodes - 1;

    switch (number) {
    case 100:
        kill_child(&relays[0]);
        break;
    case 160:
        start_relay(0);
        break;
    case 220:
        drain_relay(last);
        break;
    case 280:
        start_relay(last);
        break;
    case 340:
        if (nodes > 1)
            kill_child(&servers[1]);
        break;
    case 420:
        if (nodes > 1)
            start_server(1);
        break;
    case 480:
        kill(relays[last], SIGSTOP);
        break;
    case 540:
        kill(relays[last], SIGCONT);
        for (int i = 0; i < last; i++) {
            kill_child(&relays[i]);
            start_relay(i);
        }
        break;
    default:
        break;
    }
    sleep_ms(10);
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
    if (number < 0 || number >= MESSAGES)
        give_up("a message that nobody has put: %s", payload);
    struct message *message = &messages[number];
    if (dead) {
        message->dead++;
        if (natsMsgHeader_Get(msg, "Hwt-Reason", &value) != NATS_OK)
            give_up("a dead letter without a reason: %d", number);
        return;
    }
    message->arrived++;
    if ((uint64_t)natsMsg_GetTime(msg) / 1000000 < message->due)
        message->early++;
    if (natsMsgHeader_Get(msg, "X-Own", &value) != NATS_OK ||
        natsMsgHeader_Get(msg, "Hwt-Due", &value) != NATS_OK ||
        natsMsgHeader_Get(msg, "Hwt-Target", &value) == NATS_OK)
        give_up("number %d has not the headers that it should", number);
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

    for (int i = 0; i < MESSAGES; i++) {
        const struct message *message = &messages[i];
        open +=
            message->nonsense ? message->dead == 0 : !message->cancelled && message->arrived == 0;
    }
    return open;
}

/* Until all has come, and the last cancelled one would have. */
static void wait_for_all(void)
{
    uint64_t orders = 1, dead = 1, last_due = 0, end;

    for (int i = 0; i < MESSAGES; i++)
        if (messages[i].due > last_due)
            last_due = messages[i].due;
    end = last_due + PATIENCE * 1000;
    while (now_ms() < end && (count_open() > 0 || now_ms() < last_due + 3000)) {
        orders = read_stream("ORDERS", orders, false);
        dead = read_stream("HWT-shop-dead", dead, true);
        sleep_ms(500);
    }
    read_stream("ORDERS", orders, false);
    read_stream("HWT-shop-dead", dead, true);
}

static void settle_ledger(void)
{
    unsigned missing = 0, early = 0, twice = 0, revived = 0, wrong = 0;

    for (int i = 0; i < MESSAGES; i++) {
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
           MESSAGES, missing, early, twice, revived, wrong);
    if (missing + early + twice + revived + wrong > 0)
        give_up("the ledger does not settle");
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
        sleep_ms(500);
    }
    give_up("the delay streams are not trimmed");
}

int main(int argc, char **argv)
{
    if (argc != 5) {
        fputs("usage: cluster RELAY NATS-SERVER DIRECTORY NODES\n", stderr);
        return 2;
    }
    relay_path = argv[1];
    nats_path = argv[2];
    directory = argv[3];
    nodes = atoi(argv[4]) > 1 ? NODES_MAX : 1;
    if (mkdir(directory, 0755) < 0)
        give_up("%s: %s", directory, strerror(errno));
    srand((unsigned)getpid() ^ (unsigned)now_ms());
    start_servers();
    make_target();
    for (int i = 0; i < nodes; i++)
        start_relay(i);
    for (int i = 0; i < PATIENCE && by_hand(0, "status") != 0; i++)
        sleep_ms(500); /* until the streams are made */
    for (int i = 0; i < MESSAGES; i++) {
        produce(i);
        make_trouble(i);
    }
    wait_for_all();
    settle_ledger();
    wait_for_trim();
    if (by_hand(0, "status") != 0)
        give_up("status has failed");
    for (int i = 0; i < nodes; i++)
        drain_relay(i);
    jsCtx_Destroy(js);
    natsConnection_Destroy(connection);
    nats_Close();
    end_children();
    return 0;
}
