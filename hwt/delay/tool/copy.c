/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "hwt/delay/tool/tool.h"

#include <errno.h>
#include <sys/resource.h>

/* A slot takes a descriptor while the store is copied, so allows as many as this process may
 * have. */
static void allow_descriptors(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

int command_copy(const struct request *request)
{
    const char *new = request->operands[0];
    int tries = 100; /* an owner makes a checkpoint now and then */
    int r;

    allow_descriptors();
    do {
        hwt_delay *store = open_store(request->directory, HWT_DELAY_READ_ONLY);
        r = hwt_delay_copy(store, new);
        hwt_delay_close(store);
    } while (r == -ESTALE && --tries > 0);
    if (r == -ENOTEMPTY)
        return fail("%s: there is something in it: name a new directory", new);
    return r < 0 ? fail("%s to %s: %s", request->directory, new, hwt_delay_strerror(r)) : 0;
}
