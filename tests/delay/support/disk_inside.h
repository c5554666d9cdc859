/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_TESTS_DELAY_SUPPORT_DISK_INSIDE_H
#define HWT_TESTS_DELAY_SUPPORT_DISK_INSIDE_H

/* What disk.c does for disk_process.c. */

#include "tests/delay/support/disk.h"

/* An array with room for `needed` elements; ends the program where there is no memory. */
void *grown(void *array, size_t *room, size_t needed, size_t each);

struct disk_file *file_new(void);
void file_drop(struct disk_file *file);
void file_write(struct disk *disk, struct disk_file *file, const void *bytes, size_t length,
                size_t offset);
void file_resize(struct disk *disk, struct disk_file *file, size_t size);
void file_keep(struct disk_file *file);
void file_sync_failed(struct disk_file *file, uint64_t *random);

void names_apply(struct disk_names *names, const struct disk_name_change *change);
void disk_name_change(struct disk *disk, const char *from, const char *to, struct disk_file *file);
void disk_names_keep(struct disk *disk);
void disk_add(struct disk *disk, const char *name, struct disk_file *file);

#endif
