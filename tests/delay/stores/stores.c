/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Stores that earlier releases have made, kept in stores/, must be read by later ones.
 *
 *     delay_stores make DIRECTORY    makes one and ends without closing it
 *     delay_stores read DIRECTORY    compares, and uses it
 *     delay_stores refuse DIRECTORY  looks that one of an earlier format is refused, and left as it is
 *
 * What is in it: slots with messages and tombstones, a checkpoint with messages that were leased, and
 * a log with puts, cancels, done and retry. To keep one, with a release of that number:
 *
 *     delay_stores make 0.3.0 && tar --sort=name --owner=0 --group=0 -czf 0.3.0.tar.gz 0.3.0
 */

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hwt/delay.h"

enum { FILED = 40, NUMBERS = 50, MISUSE = 2 };

#define PAST UINT64_C(1500000000000000000) /* in 2017 */
#define FAR UINT64_C(4000000000000000000)  /* in 2096 */

static hwt_delay *store;

#define must(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "delay_stores: line %d: not so: %s\n", __LINE__, #condition);          \
            exit(EXIT_FAILURE);                                                                    \
        }                                                                                          \
    } while (0)

/* Every third one is past. */
static uint64_t due_of(uint32_t i)
{
    return i % 3 == 0 ? PAST + i : FAR + i * HWT_SEC(100000);
}

static hwt_delay_message message_of(uint32_t *i, unsigned char payload[300])
{
    memset(payload, (int)(*i * 7 + 1), *i * 6);
    return (hwt_delay_message){
        .due = due_of(*i),
        .id = i,
        .id_size = sizeof(*i),
        .payload = payload,
        .payload_size = *i * 6,
    };
}

static void open_store(const char *directory, uint32_t flags)
{
    hwt_delay_options options = HWT_DELAY_OPTIONS_INIT;
    options.flags = flags;
    options.payload_max = 8192;
    options.segment_size = 1 << 16;
    options.memory = 1 << 20;
    must(hwt_delay_open(directory, &options, &store) == 0);
}

static void put(uint32_t from, uint32_t to)
{
    unsigned char payload[300];
    for (uint32_t i = from; i < to; i++) {
        hwt_delay_message message = message_of(&i, payload);
        must(hwt_delay_put(store, &message, 1) == 0);
    }
}

/* 0 to 39 are filed; of the past ones 0, 3, 6 and 9 are taken; 0 and 3 are done, 6 is put back for
 * later, 9 is only leased. Cancelled: 4 before, 7 after its filing, 40 in the log. */
static void make(const char *directory)
{
    const hwt_delay_message *taken;
    open_store(directory, HWT_DELAY_CREATE);
    put(0, FILED / 2);
    must(hwt_delay_cancel(store, due_of(4), &(uint32_t){ 4 }, 4) == 0);
    must(hwt_delay_checkpoint(store) == 0);
    put(FILED / 2, FILED);
    must(hwt_delay_cancel(store, due_of(7), &(uint32_t){ 7 }, 4) == 0);
    must(hwt_delay_take(store, 4, 0, &taken) == 4);
    must(hwt_delay_checkpoint(store) == 0);
    must(hwt_delay_done(store, &taken[0].lease, 1) == 1);
    must(hwt_delay_done(store, &taken[1].lease, 1) == 1);
    must(hwt_delay_retry(store, taken[2].lease, FAR + 6) == 0);
    put(FILED, NUMBERS);
    must(hwt_delay_cancel(store, due_of(40), &(uint32_t){ 40 }, 4) == 0);
    _exit(EXIT_SUCCESS);
}

static unsigned char found[NUMBERS];

static bool is_there(uint32_t i)
{
    return i != 0 && i != 3 && i != 4 && i != 7 && i != 40;
}

static int find_one(const hwt_delay_message *message, void *data)
{
    unsigned char payload[300];
    uint32_t i;
    (void)data;
    must(message->id_size == sizeof(i));
    memcpy(&i, message->id, sizeof(i));
    must(i < NUMBERS && is_there(i) && found[i]++ == 0);
    hwt_delay_message expected = message_of(&i, payload);
    must(message->due == (i == 6 ? FAR + 6 : expected.due) && message->retries == (i == 6));
    must(message->payload_size == expected.payload_size);
    must(memcmp(message->payload, payload, expected.payload_size) == 0);
    return 0;
}

static void look(void)
{
    memset(found, 0, sizeof(found));
    must(hwt_delay_visit(store, 0, HWT_NEVER, find_one, NULL) == 0);
    for (uint32_t i = 0; i < NUMBERS; i++)
        must(found[i] == is_there(i));
    must(hwt_delay_check(store, NULL, NULL) == 0);
}

static void read_store(const char *directory)
{
    const hwt_delay_message *taken;
    uint32_t past = 0;
    open_store(directory, HWT_DELAY_READ_ONLY);
    look();
    hwt_delay_close(store);
    open_store(directory, 0);
    look();
    for (uint32_t i = 9; i < NUMBERS; i += 3)
        past++;
    must(hwt_delay_take(store, NUMBERS, 0, &taken) == past);
    for (uint32_t i = 0; i < past; i++) {
        must(taken[i].due == due_of(9 + 3 * i));
        must(hwt_delay_done(store, &taken[i].lease, 1) == 1);
    }
    hwt_delay_free(taken);
    must(hwt_delay_checkpoint(store) == 0);
    must(hwt_delay_next(store) > hwt_delay_now(store));
    hwt_delay_close(store);
}

static void refuse(const char *directory)
{
    static const uint32_t flags[] = { 0, HWT_DELAY_CREATE, HWT_DELAY_READ_ONLY, HWT_DELAY_SALVAGE };
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
        hwt_delay_options options = HWT_DELAY_OPTIONS_INIT;
        options.flags = flags[i];
        must(hwt_delay_open(directory, &options, &store) == -EPROTONOSUPPORT);
    }
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "make") == 0)
        make(argv[2]);
    if (argc == 3 && strcmp(argv[1], "refuse") == 0) {
        refuse(argv[2]);
        return EXIT_SUCCESS;
    }
    if (argc != 3 || strcmp(argv[1], "read") != 0) {
        fputs("usage: delay_stores make|read|refuse DIRECTORY\n", stderr);
        return MISUSE;
    }
    read_store(argv[2]);
    return EXIT_SUCCESS;
}
