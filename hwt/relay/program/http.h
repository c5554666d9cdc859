/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_RELAY_HTTP_H
#define HWT_RELAY_HTTP_H

/*
 * A few pages over HTTP, by GET. One thread answers one request after the other, and hangs up on who
 * wants more than a second to ask, or more than five to take the answer.
 */

#include <pthread.h>
#include <stdbool.h>

struct relay_http_page {
    const char *path;
    /* Called on the thread. Allocated; NULL: no memory. ret_well is set to false if the page says what is wrong. */
    char *(*make)(void *arg, bool *ret_well);
};

struct relay_http {
    int listener;
    pthread_t thread;
    const struct relay_http_page *pages;
    void *arg;
};

/* Listens at an address, see address.h, until relay_http_end(). A page without a path is behind the last one. A negative errno: it
 * cannot. */
int relay_http_begin(struct relay_http *http, const char *address,
                     const struct relay_http_page *pages, void *arg);
void relay_http_end(struct relay_http *http);

#endif
