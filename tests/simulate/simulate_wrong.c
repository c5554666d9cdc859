/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * Linked to simulate in front of the library, so that there is something to find. $WRONG says what:
 *
 *     remaining    of more than a second, what remains is a nanosecond short
 *     crash        at an attempt to move what has ended
 */

#include <hwt/hwt.h>

#include <stdlib.h>
#include <string.h>

bool __real_hwt_timeout_reschedule_at(hwt_timeout timeout, uint64_t deadline);
bool __wrap_hwt_timeout_reschedule_at(hwt_timeout timeout, uint64_t deadline);
uint64_t __real_hwt_timeout_remaining(hwt_timeout timeout);
uint64_t __wrap_hwt_timeout_remaining(hwt_timeout timeout);

static bool is_wrong(const char *what)
{
    const char *wrong = getenv("WRONG");
    return wrong && strcmp(wrong, what) == 0;
}

bool __wrap_hwt_timeout_reschedule_at(hwt_timeout timeout, uint64_t deadline)
{
    bool moved = __real_hwt_timeout_reschedule_at(timeout, deadline);
    if (timeout.entry && !moved && is_wrong("crash"))
        abort();
    return moved;
}

uint64_t __wrap_hwt_timeout_remaining(hwt_timeout timeout)
{
    uint64_t remaining = __real_hwt_timeout_remaining(timeout);
    return remaining - (remaining > HWT_SEC(1) && is_wrong("remaining"));
}
