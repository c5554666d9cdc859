/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_TESTS_RELAY_CLUSTER_H
#define HWT_TESTS_RELAY_CLUSTER_H

/* Servers and relays on loopback, as processes. */

#include <stdint.h>
#include <sys/types.h>

enum { NODES_MAX = 3, SKIPPED = 77, PATIENCE = 120 };

extern int cluster_nodes;
extern pid_t cluster_servers[NODES_MAX], cluster_relays[NODES_MAX]; /* 0: it does not run */
extern char cluster_urls[512]; /* of the servers, with blanks */

/* Where the programs are, and a folder for all files. Before anything else. */
void cluster_set_paths(const char *relay, const char *nats, const char *directory);

/* Until they listen. */
void cluster_start_servers(void);
void cluster_start_server(int i);
void cluster_start_relay(int i);
/* Runs a command of hwt-relay by hand, and waits for it: its exit status. */
int cluster_by_hand(int i, const char *command);
void cluster_kill_child(pid_t *pid);
/* By SIGTERM, through `drain`, which finds it when it has begun; it has to end with 0. */
void cluster_drain_relay(int i);
void cluster_end_children(void);
_Noreturn void cluster_give_up(const char *format, ...) __attribute__((format(printf, 1, 2)));

uint64_t cluster_now_ms(void);
void cluster_sleep_ms(unsigned ms);

#endif
