/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * One commit for all who wait. The first to come leads: it commits what has gathered, over and
 * over, until its own is among it; then one of those that wait leads. All fields are under the
 * lock; the commit itself is not.
 */

#include "compare.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct gathered *waiting;
static bool led;

void gather(const struct message *messages, size_t count,
            void (*commit)(const struct gathered *list))
{
    struct gathered own = { .messages = messages, .count = count };

    pthread_mutex_lock(&lock);
    own.next = waiting;
    waiting = &own;
    while (!own.done) {
        if (led) {
            pthread_cond_wait(&changed, &lock);
            continue;
        }
        struct gathered *list = waiting;
        waiting = NULL;
        led = true;
        pthread_mutex_unlock(&lock);
        commit(list);
        pthread_mutex_lock(&lock);
        led = false;
        for (struct gathered *g = list, *next; g; g = next) {
            next = g->next; /* it may return as soon as it is done */
            g->done = true;
        }
        pthread_cond_broadcast(&changed);
    }
    pthread_mutex_unlock(&lock);
}
