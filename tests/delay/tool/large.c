/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Makes a store in the directory `store`, with payloads that are longer than the program's stores take. */

#include <stdlib.h>

#include "hwt/delay.h"

int main(void)
{
    enum { LARGE = 5 << 20 };
    static const char payload[LARGE];
    hwt_delay_options options = HWT_DELAY_OPTIONS_INIT;
    hwt_delay *store;
    options.flags = HWT_DELAY_CREATE;
    options.payload_max = LARGE;
    options.memory = 32 * (uint64_t)LARGE;
    if (hwt_delay_open("store", &options, &store) != 0)
        return EXIT_FAILURE;
    int r = 0;
    for (char id[] = "large0"; r == 0 && id[5] < '5'; id[5]++) {
        const hwt_delay_message message = {
            .due = 1, .id = id, .id_size = 6, .payload = payload, .payload_size = LARGE
        };
        r = hwt_delay_put(store, &message, 1);
    }
    const hwt_delay_message small = { .due = 2, .id = "small", .id_size = 5 };
    if (r == 0)
        r = hwt_delay_put(store, &small, 1);
    if (hwt_delay_close(store) != 0 || r != 0)
        return EXIT_FAILURE;
    return EXIT_SUCCESS;
}
