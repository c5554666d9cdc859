/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Makes a store of a relay that has read messages, was closed, and has read them again.
 *
 *     store PATH COUNT
 *
 * Files have the first ones then, and memory has the second ones, so the store's own count of what is pending has each
 * of them twice.
 */

#include <hwt/delay.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hwt/relay/watermark.h"

enum { PAYLOAD = 1000 };

#define DUE UINT64_C(3800000000000000000)

static void check(int r, const char *what)
{
    if (r >= 0)
        return;
    fprintf(stderr, "%s: %s\n", what, strerror(-r));
    exit(1);
}

static void put(hwt_delay *store, uint64_t number)
{
    static const char payload[PAYLOAD];
    unsigned char id[RELAY_ID_MAX];
    const struct relay_record record = { .place = { 1, number, number },
                                         .target = "orders.later",
                                         .id = "",
                                         .key = "",
                                         .payload = payload,
                                         .payload_size = sizeof(payload) };
    hwt_delay_message message = { .due = DUE + number, .id = id };
    void *bytes = relay_record_write(&record, &message.payload_size);

    message.id_size = relay_store_id(NULL, number, 0, id);
    message.payload = bytes;
    check(hwt_delay_put(store, &message, 1), "put");
    free(bytes);
}

static void read_all(const char *path, uint64_t count)
{
    hwt_delay_options options = HWT_DELAY_OPTIONS_INIT;
    const struct relay_place place = { 1, count, count };
    hwt_delay_batch note = HWT_DELAY_BATCH_INIT;
    char text[RELAY_ENTRY_MAX];
    hwt_delay *store;

    options.flags = HWT_DELAY_CREATE | HWT_DELAY_STANDBY;
    options.payload_max = 2 * PAYLOAD;
    options.segment_size = 64 << 10;
    check(hwt_delay_open(path, &options, &store), path);
    for (uint64_t i = 1; i <= count; i++)
        put(store, i);
    relay_note_write(&place, &place, text);
    note.note = text;
    note.note_size = strlen(text);
    check(hwt_delay_apply(store, NULL, 0, &note), "the note");
    hwt_delay_close(store);
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    for (int i = 0; i < 2; i++)
        read_all(argv[1], strtoul(argv[2], NULL, 10));
    return 0;
}
