/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Bytes make the program of tests/simulate/simulate.c, in place of random numbers. For libFuzzer
 * and AFL++, or fed by feed.c. `simulate FILE` makes what they find small. */

#include <stdio.h>
#include <stdlib.h>

#include "target.h"
#include "simulate.h"

_Noreturn void simulate_failed(const char *what)
{
    fprintf(stderr, "fuzz_timer: %s\n", what);
    abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static struct program program;
    static struct totals totals;
    struct source source = { .bytes = bytes, .size = size };
    simulate_draw(&source, UINT64_MAX, &program, &totals);
    return 0;
}
