/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The USAGE of hwt/delay.h as the body of a function; see run.sh. The store's directory is made a
 * variable there. */

#include <hwt/delay.h>

#include <stdio.h>
#include <string.h>

static void handle(const hwt_delay_message *message)
{
    printf("%.*s %.*s\n", (int)message->payload_size, (const char *)message->payload,
           (int)message->id_size, (const char *)message->id);
}

static int use(const char *directory)
{
#include "usage.inc"
}

int main(int argc, char **argv)
{
    int r = argc == 2 ? use(argv[1]) : -1;
    if (r < 0)
        fprintf(stderr, "it fails: %s\n", strerror(-r));
    return r < 0;
}
