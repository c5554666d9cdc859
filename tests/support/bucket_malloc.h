/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_TESTS_BUCKET_MALLOC_H
#define HWT_TESTS_BUCKET_MALLOC_H

/*
 * bucket.c is included, so that its malloc() can be refused; the linker then leaves out the
 * library's own.
 */

#include <stdbool.h>
#include <stdlib.h>

static bool refuse;
static unsigned refused;

static void *may_malloc(size_t size)
{
    refused += refuse;
    return refuse ? NULL : malloc(size);
}

#define malloc may_malloc
#include "hwt/store/bucket.c"
#undef malloc

#endif
