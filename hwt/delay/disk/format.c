/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Checksums and versions. See format.h. */

#include <errno.h>
#include <isa-l/crc.h>
#include <limits.h>

#include "hwt/delay/disk/format.h"

uint32_t hwt_delay_crc(uint64_t key, const void *bytes, size_t size)
{
    unsigned char seed[8];
    hwt_delay_set64(seed, key);
    /* ISA-L takes what it only reads without const, and lengths as int. */
    uint32_t crc = crc32_iscsi(seed, sizeof(seed), UINT32_MAX);
    unsigned char *at = (unsigned char *)(uintptr_t)bytes;
    while (size > 0) {
        int part = size < INT_MAX ? (int)size : INT_MAX;
        crc = crc32_iscsi(at, part, crc);
        at += part;
        size -= (size_t)part;
    }
    return ~crc;
}

void hwt_delay_head_seal(unsigned char *head, uint64_t key, uint32_t magic, size_t size)
{
    hwt_delay_set64(head + HWT_DELAY_HEAD_KEY, key);
    hwt_delay_set32(head + HWT_DELAY_HEAD_MAGIC, magic);
    hwt_delay_set32(head + HWT_DELAY_HEAD_CRC,
                    hwt_delay_crc(key, head + HWT_DELAY_HEAD_MAGIC, size - HWT_DELAY_HEAD_MAGIC));
}

bool hwt_delay_head_is(const unsigned char *head, uint64_t key, uint32_t magic, size_t size)
{
    return hwt_delay_get64(head + HWT_DELAY_HEAD_KEY) == key &&
           hwt_delay_get32(head + HWT_DELAY_HEAD_MAGIC) == magic &&
           hwt_delay_get32(head + HWT_DELAY_HEAD_CRC) ==
               hwt_delay_crc(key, head + HWT_DELAY_HEAD_MAGIC, size - HWT_DELAY_HEAD_MAGIC);
}

int hwt_delay_version_check(const unsigned char *at)
{
    uint32_t version = hwt_delay_get32(at);
    return version == HWT_DELAY_VERSION  ? 0
           : version < HWT_DELAY_VERSION ? -EPROTONOSUPPORT
                                         : -ENOTSUP;
}
