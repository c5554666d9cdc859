/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_RELAY_HTTP_H
#define HWT_RELAY_HTTP_H

/*
 * One page over HTTP: GET /metrics. One thread answers one request after the other, and hangs up on who
 * wants more than a second to ask, or more than five to take the answer.
 */

#include <pthread.h>
#include <stdbool.h>

struct relay_http {
    int listener;
    pthread_t thread;
    char *(*page)(void *arg); /* allocated; NULL: no memory. Called on the thread */
    void *arg;
};

/* Whether it is an address and a port, as 127.0.0.1:9464 or [::1]:9464. */
bool relay_address_is_fine(const char *address);

/* Listens at such an address, until relay_http_end(). A negative errno: it cannot. */
int relay_http_begin(struct relay_http *http, const char *address, char *(*page)(void *arg),
                     void *arg);
void relay_http_end(struct relay_http *http);

#endif
