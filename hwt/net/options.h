/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_NET_OPTIONS_H
#define HWT_NET_OPTIONS_H

/* The options of retries, read from whatever release the caller was compiled with. */

#include <errno.h>
#include <string.h>

#include "hwt/retry.h"

#define HWT_RETRY_FACTOR_MAX 1000
/* The struct of the first release ended with `jitter`. */
#define HWT_RETRY_OPTIONS_SIZE_MIN (offsetof(hwt_retry_options, jitter) + sizeof(hwt_jitter))

/* Copies what the caller's options have; the others keep their defaults. */
static inline int hwt_retry_options_copy(const hwt_retry_options *options,
                                         hwt_retry_options *ret_options)
{
    if (!options)
        return 0;
    size_t size = options->size;
    /* The size of every struct is a multiple of its alignment, so a size that is not cuts a
     * field. */
    if (size < HWT_RETRY_OPTIONS_SIZE_MIN || size % _Alignof(hwt_retry_options) != 0)
        return -EINVAL;
    for (size_t i = sizeof(*options); i < size; i++) {
        if (((const char *)options)[i] != 0)
            return -EINVAL;
    }
    memcpy(ret_options, options, size < sizeof(*options) ? size : sizeof(*options));
    return 0;
}

static inline int hwt_retry_options_check(const hwt_retry_options *options)
{
    if (options->first_delay > options->max_delay)
        return -EINVAL;
    /* Written so that what is not a number is refused too, here and below. */
    if (!(options->factor >= 1 && options->factor <= HWT_RETRY_FACTOR_MAX))
        return -EINVAL;
    if (options->attempt_timeout == 0 || options->total_timeout == 0)
        return -EINVAL;
    if ((unsigned)options->jitter > HWT_JITTER_AROUND)
        return -EINVAL;
    if (!(options->jitter_fraction >= 0 && options->jitter_fraction <= 1))
        return -EINVAL;
    if (options->budget && options->budget->max_tokens == 0)
        return -EINVAL;
    return 0;
}

/* All of them as this build knows them. NULL: the defaults. */
static inline int hwt_retry_options_read(const hwt_retry_options *options,
                                         hwt_retry_options *ret_options)
{
    hwt_retry_options known = HWT_RETRY_OPTIONS_INIT;
    if (hwt_retry_options_copy(options, &known) < 0 || hwt_retry_options_check(&known) < 0)
        return -EINVAL;
    *ret_options = known;
    return 0;
}

#endif
