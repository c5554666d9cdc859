/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * The note is bytes of the program's own that change with a batch, in its frame. The last one
 * counts. Each checkpoint has it, so the log need not keep it.
 */

#include <errno.h>

#include "hwt/delay/whole.h"

/* Takes over the caller's reference. */
void hwt_delay_set_note(hwt_delay *store, struct hwt_delay_record *note)
{
    if (store->table.note)
        hwt_delay_record_unref(store->table.note);
    store->table.note = note;
}

int64_t hwt_delay_note(hwt_delay *store, void *buffer, size_t size, uint64_t *ret_mark)
{
    if (!store || (!buffer && size > 0))
        return -EINVAL;
    int shield = hwt_delay_enter(store);
    const struct hwt_delay_record *note = store->table.note;
    size_t length = note ? note->payload_size : 0;
    if (note && size > 0) /* a NULL buffer has no bytes */
        memcpy(buffer, note->bytes, length < size ? length : size);
    if (ret_mark)
        *ret_mark = note ? note->key.sequence : 0;
    hwt_delay_leave(store, shield);
    return (int64_t)length;
}

struct hwt_delay_record *hwt_delay_note_of(const hwt_delay *store)
{
    return store->table.note;
}
