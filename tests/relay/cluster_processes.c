/* SPDX-License-Identifier: LGPL-2.1-or-later */

#include "cluster.h"

#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

int cluster_nodes;
pid_t cluster_servers[NODES_MAX], cluster_relays[NODES_MAX];
char cluster_urls[512];

static const char *relay_path, *nats_path, *directory;
static int client_ports[NODES_MAX], route_ports[NODES_MAX];

void cluster_set_paths(const char *relay, const char *nats, const char *files)
{
    relay_path = relay;
    nats_path = nats;
    directory = files;
}

void cluster_end_children(void)
{
    for (int i = 0; i < cluster_nodes; i++) {
        if (cluster_relays[i] > 0)
            kill(cluster_relays[i], SIGKILL);
        if (cluster_servers[i] > 0)
            kill(cluster_servers[i], SIGKILL);
    }
}

_Noreturn void cluster_give_up(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    fputs("FAILED: ", stdout);
    vprintf(format, arguments);
    printf("; see the logs in %s\n", directory);
    va_end(arguments);
    cluster_end_children();
    exit(1);
}

uint64_t cluster_now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

void cluster_sleep_ms(unsigned ms)
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
            cluster_give_up("no port: %s", strerror(errno));
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
        cluster_give_up("%s: %s", path, strerror(errno));
    return file;
}

static void write_files(void)
{
    cluster_urls[0] = 0;
    for (int i = 0; i < cluster_nodes; i++) {
        FILE *file = create("nats", i);
        fprintf(file,
                "listen: 127.0.0.1:%d\nserver_name: n%d\njetstream { store_dir: \"%s/js-%d\" }\n",
                client_ports[i], i, directory, i);
        fprintf(file, "mappings = { \"hwt.shop.in.*\": \"hwt.shop.{{partition(2,1)}}\" }\n");
        if (cluster_nodes > 1) {
            fprintf(file, "cluster { name: c, listen: 127.0.0.1:%d, routes: [", route_ports[i]);
            for (int n = 0; n < cluster_nodes; n++)
                fprintf(file, "%s nats://127.0.0.1:%d", n > 0 ? "," : "", route_ports[n]);
            fprintf(file, " ] }\n");
        }
        fclose(file);
        snprintf(cluster_urls + strlen(cluster_urls), sizeof(cluster_urls) - strlen(cluster_urls),
                 " nats://127.0.0.1:%d", client_ports[i]);
    }
    for (int i = 0; i < cluster_nodes; i++) {
        FILE *file = create("relay", i);
        fprintf(file,
                "space = shop\nshards = 2\ncopies = %d\nlease = 2s\nreplica = r%d\n"
                "replicas = %s\nservers =%s\ntargets = orders.>\nstate = %s/state-%d\n",
                cluster_nodes, i, cluster_nodes > 1 ? "r0 r1 r2" : "r0", cluster_urls, directory,
                i);
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

void cluster_start_server(int i)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/nats-%d.conf", directory, i);
    cluster_servers[i] = start("nats", i, (const char *const[]){ nats_path, "-c", path, NULL });
}

void cluster_start_relay(int i)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/relay-%d.conf", directory, i);
    cluster_relays[i] = start("relay", i, (const char *const[]){ relay_path, "-c", path, NULL });
}

int cluster_by_hand(int i, const char *command)
{
    char path[512];
    int status;
    pid_t pid;

    snprintf(path, sizeof(path), "%s/relay-%d.conf", directory, i);
    pid = start(command, i, (const char *const[]){ relay_path, "-c", path, command, NULL });
    return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void cluster_kill_child(pid_t *pid)
{
    kill(*pid, SIGKILL);
    waitpid(*pid, NULL, 0);
    *pid = 0;
}

void cluster_drain_relay(int i)
{
    int status;

    for (int n = 0; cluster_by_hand(i, "drain") != 0; n++) {
        if (n == 2 * PATIENCE)
            cluster_give_up("relay %d could not be drained", i);
        cluster_sleep_ms(500);
    }
    if (waitpid(cluster_relays[i], &status, 0) != cluster_relays[i] || !WIFEXITED(status) ||
        WEXITSTATUS(status))
        cluster_give_up("relay %d did not end well: %d", i, status);
    cluster_relays[i] = 0;
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
    for (int i = 0; i < cluster_nodes; i++)
        while (!listens(client_ports[i]) || (cluster_nodes > 1 && !listens(route_ports[i]))) {
            if (waitpid(cluster_servers[i], NULL, WNOHANG) == cluster_servers[i]) {
                cluster_servers[i] = 0;
                return false;
            }
            cluster_sleep_ms(100);
        }
    return true;
}

/* With other ports, if they are taken. */
void cluster_start_servers(void)
{
    for (int tries = 0; tries < 10; tries++) {
        choose_ports();
        write_files();
        for (int i = 0; i < cluster_nodes; i++)
            cluster_start_server(i);
        if (do_servers_begin())
            return;
        for (int i = 0; i < cluster_nodes; i++)
            if (cluster_servers[i] > 0)
                cluster_kill_child(&cluster_servers[i]);
    }
    cluster_give_up("the servers do not begin");
}
