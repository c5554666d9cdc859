/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The macros of time, compiled as C99 and as C++11 with warnings that a program may have chosen. */

#include <hwt/hwt.h>

static const uint64_t in_a_minute = HWT_MIN(1), too_many = HWT_MIN(HWT_NEVER);
typedef char array[HWT_US(1)];
enum { LABEL = HWT_US(2) };

static uint64_t of_variables(int n, unsigned char small, const int constant, bool truth)
{
    const int local = 4;
    uint64_t sum = HWT_SEC(n) + HWT_MS(small) + HWT_US(constant) + HWT_SEC(local) + HWT_US(truth);
    sum += HWT_SEC(n++);
    return sum + HWT_US(n) + HWT_MS(n == 3) + HWT_MS(n ? 1 : 2) + HWT_US(sizeof(array));
}

int main(void)
{
    switch (in_a_minute) {
    case HWT_SEC(60):
        break;
    default:
        return 1;
    }
    if (too_many != HWT_NEVER || HWT_US(-1) != HWT_NEVER || HWT_SEC(UINT64_C(1) << 40) != HWT_NEVER)
        return 2;
    if (LABEL != 2000 || sizeof(array) != 1000)
        return 3;
    /* 2 s + 5 ms + 3 us + 4 s + 1 us, 2 s, 3 us + 1 ms + 1 ms + 1 ms */
    if (of_variables(2, 5, 3, true) != UINT64_C(8008007000))
        return 4;
    return 0;
}
