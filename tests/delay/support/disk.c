/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The disk: its files, its names, and what a crash leaves of them. See disk.h. */

#include "tests/delay/support/disk_inside.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "check_main.h"

enum { SECTOR = 512, PAGE = 4096 };

const char *const disk_call_names[DISK_CALLS] = {
    "make_directory", "open_directory", "sync_above",     "open",     "read",
    "write",          "sync",           "sync_directory", "truncate", "allocate",
    "size",           "rename",         "unlink",         "list",     "lock",
};

void *grown(void *array, size_t *room, size_t needed, size_t each)
{
    if (needed <= *room)
        return array;
    *room = needed * 2 > 16 ? needed * 2 : 16;
    array = realloc(array, *room * each);
    if (!array)
        abort();
    return array;
}

/* ---- files ---- */

struct disk_file *file_new(void)
{
    struct disk_file *file = calloc(1, sizeof(*file));
    if (!file)
        abort();
    return file;
}

static void file_forget(struct disk_file *file)
{
    for (size_t i = 0; i < file->changes_count; i++)
        free(file->changes[i].bytes);
    file->changes_count = 0;
}

void file_drop(struct disk_file *file)
{
    if (--file->users > 0)
        return;
    file_forget(file);
    free(file->changes);
    free(file->seen.bytes);
    free(file->kept.bytes);
    free(file);
}

/* Room behind what is written is zero. */
static void bytes_reach(struct disk_bytes *of, size_t to)
{
    if (to > of->room) {
        size_t room = to > 2 * of->room ? to : 2 * of->room;
        of->bytes = realloc(of->bytes, room);
        if (!of->bytes)
            abort();
        memset(of->bytes + of->room, 0, room - of->room);
        of->room = room;
    }
    if (to > of->written)
        of->written = to;
}

static void bytes_resize(struct disk_bytes *of, size_t to)
{
    if (to < of->written) {
        memset(of->bytes + to, 0, of->written - to);
        of->written = to;
    }
    of->size = to;
}

static void bytes_write(struct disk_bytes *of, const unsigned char *from, size_t length,
                        size_t offset)
{
    if (offset + length > of->size)
        of->size = offset + length;
    if (length == 0)
        return;
    bytes_reach(of, offset + length);
    memcpy(of->bytes + offset, from, length);
}

static void bytes_copy(struct disk_bytes *to, const struct disk_bytes *from)
{
    bytes_write(to, from->bytes, from->written, 0);
    to->size = from->size;
}

static void bytes_flip(struct disk_bytes *of, size_t offset, unsigned char bits)
{
    bytes_reach(of, offset + 1);
    of->bytes[offset] ^= bits;
}

static struct disk_change *file_change(struct disk *disk, struct disk_file *file)
{
    file->changes =
        grown(file->changes, &file->changes_room, file->changes_count + 1, sizeof(*file->changes));
    struct disk_change *change = &file->changes[file->changes_count++];
    memset(change, 0, sizeof(*change));
    change->stamp = ++disk->stamp;
    return change;
}

void file_write(struct disk *disk, struct disk_file *file, const void *bytes, size_t length,
                size_t offset)
{
    struct disk_change *change = file_change(disk, file);
    change->offset = offset;
    change->length = length;
    change->bytes = malloc(length ? length : 1);
    if (!change->bytes)
        abort();
    if (length > 0)
        memcpy(change->bytes, bytes, length);
    bytes_write(&file->seen, bytes, length, offset);
}

void file_resize(struct disk *disk, struct disk_file *file, size_t size)
{
    struct disk_change *change = file_change(disk, file);
    change->truncates = true;
    change->offset = size;
    bytes_resize(&file->seen, size);
}

static void change_keep(struct disk_file *to, const struct disk_change *change)
{
    if (change->truncates)
        bytes_resize(&to->kept, (size_t)change->offset);
    else
        bytes_write(&to->kept, change->bytes, change->length, (size_t)change->offset);
}

/* What was changed is on the disk: no more than that, see file_sync_failed(). */
void file_keep(struct disk_file *file)
{
    for (size_t i = 0; i < file->changes_count; i++)
        change_keep(file, &file->changes[i]);
    file_forget(file);
}

/* ---- what a crash leaves ---- */

/*
 * How a crash chooses. Of the ways, `PREFIX` is a disk that keeps the order, with the last change
 * torn; in the others each piece of the given size has its own luck.
 */
enum luck_way { NOTHING, EVERYTHING, PREFIX, WHOLE, TORN };

struct luck {
    uint64_t *random;
    enum luck_way way;
    uint64_t last;   /* PREFIX: the stamp of the last change that arrived at all */
    size_t piece;    /* TORN, and the last one of PREFIX */
    unsigned chance; /* of 256 */
};

static bool lucky(const struct luck *luck)
{
    return (test_random(luck->random) & 255) < luck->chance;
}

static struct luck luck_draw(uint64_t *random, uint64_t oldest, uint64_t newest)
{
    static const unsigned chances[] = { 32, 128, 128, 224, 250 };
    uint64_t number = test_random(random);
    struct luck luck = { .random = random };
    luck.way = (enum luck_way)(number % 5);
    luck.piece = number & 0x100 ? SECTOR : PAGE;
    luck.chance = chances[(number >> 16) % (sizeof(chances) / sizeof(*chances))];
    if (luck.way == PREFIX)
        luck.last = oldest + (number >> 32) % (newest - oldest + 2);
    return luck;
}

/* Whether a change that cannot be torn has arrived. */
static bool arrives(const struct luck *luck, uint64_t stamp)
{
    if (luck->way == NOTHING || luck->way == EVERYTHING)
        return luck->way == EVERYTHING;
    return luck->way == PREFIX ? stamp <= luck->last : lucky(luck);
}

static void arrive_torn(struct disk_file *to, const struct disk_change *change,
                        const struct luck *luck)
{
    size_t at = 0;
    while (at < change->length) {
        size_t end = (size_t)((change->offset + at) / luck->piece + 1) * luck->piece -
                     (size_t)change->offset;
        if (end > change->length)
            end = change->length;
        if (lucky(luck))
            bytes_write(&to->kept, change->bytes + at, end - at, (size_t)change->offset + at);
        at = end;
    }
    /* The length of the file is there, but not the bytes: zeros. */
    if (change->offset + change->length > to->kept.size && lucky(luck))
        bytes_resize(&to->kept, (size_t)change->offset + change->length);
}

static struct disk_file *file_crashed(const struct disk_file *file, const struct luck *luck)
{
    struct disk_file *to = file_new();
    bytes_copy(&to->kept, &file->kept);
    for (size_t i = 0; i < file->changes_count; i++) {
        const struct disk_change *change = &file->changes[i];
        bool torn = luck->way == TORN || (luck->way == PREFIX && change->stamp == luck->last);
        if (!change->truncates && torn)
            arrive_torn(to, change, luck);
        else if (arrives(luck, change->stamp))
            change_keep(to, change);
    }
    bytes_copy(&to->seen, &to->kept);
    return to;
}

/* A failed sync: some of it may be there; the rest is seen until the machine restarts, and lost. */
void file_sync_failed(struct disk_file *file, uint64_t *random)
{
    uint64_t first = file->changes_count ? file->changes[0].stamp : 0;
    uint64_t last = file->changes_count ? file->changes[file->changes_count - 1].stamp : 0;
    struct luck luck = luck_draw(random, first, last);
    struct disk_file *left = file_crashed(file, &luck);
    file_forget(file);
    free(file->kept.bytes);
    file->kept = left->kept;
    left->kept.bytes = NULL;
    left->users = 1;
    file_drop(left);
}

/* There are few names, and room for many. */
static void names_copy(struct disk_names *to, const struct disk_names *from)
{
    to->count = from->count;
    memcpy(to->entries, from->entries, from->count * sizeof(*from->entries));
}

static uint64_t oldest_change(const struct disk *disk)
{
    uint64_t oldest = disk->stamp;
    for (size_t i = 0; i < disk->seen.count; i++) {
        const struct disk_file *file = disk->seen.entries[i].file;
        if (file->changes_count > 0 && file->changes[0].stamp < oldest)
            oldest = file->changes[0].stamp;
    }
    if (disk->changes_count > 0 && disk->changes[0].stamp < oldest)
        oldest = disk->changes[0].stamp;
    return oldest > 0 ? oldest - 1 : 0;
}

struct disk *disk_crashed(const struct disk *disk, uint64_t *random)
{
    uint64_t oldest = oldest_change(disk);
    struct luck luck = luck_draw(random, oldest, disk->stamp);
    struct luck of_names = luck;
    if (luck.way != PREFIX && test_random(random) % 2 == 0)
        of_names = luck_draw(random, oldest, disk->stamp);

    struct disk_names names;
    names_copy(&names, &disk->kept);
    for (size_t i = 0; i < disk->changes_count; i++) {
        if (arrives(&of_names, disk->changes[i].stamp))
            names_apply(&names, &disk->changes[i]);
    }
    struct disk *to = disk_new();
    to->made = to->named = disk->made && (disk->named || arrives(&of_names, disk->stamp));
    if (!to->made)
        return to;
    for (size_t i = 0; i < names.count; i++) {
        const struct disk_entry *entry = &names.entries[i];
        struct luck own = luck;
        if (luck.way != PREFIX && test_random(random) % 4 == 0)
            own = luck_draw(random, oldest, disk->stamp);
        disk_add(to, entry->name, file_crashed(entry->file, &own));
    }
    return to;
}

struct disk *disk_copy(const struct disk *disk)
{
    struct disk *to = disk_new();
    to->made = to->named = disk->made;
    for (size_t i = 0; i < disk->seen.count; i++) {
        const struct disk_file *file = disk->seen.entries[i].file;
        struct disk_file *copy = file_new();
        bytes_copy(&copy->kept, &file->seen);
        bytes_copy(&copy->seen, &file->seen);
        disk_add(to, disk->seen.entries[i].name, copy);
    }
    return to;
}

/* ---- names ---- */

static size_t names_find(const struct disk_names *names, const char *name)
{
    size_t i = 0;
    while (i < names->count && strcmp(names->entries[i].name, name) != 0)
        i++;
    return i;
}

/* Does not count users: where the names own files, the caller does. */
void names_apply(struct disk_names *names, const struct disk_name_change *change)
{
    size_t from = change->from[0] ? names_find(names, change->from) : names->count;
    bool moves = change->to[0] != 0;
    if (from < names->count && (!moves || names->entries[from].file == change->file))
        names->entries[from] = names->entries[--names->count];
    if (!moves)
        return;
    size_t to = names_find(names, change->to);
    if (to == names->count) {
        if (names->count == DISK_FILES_MAX)
            abort();
        names->count++;
    }
    strcpy(names->entries[to].name, change->to);
    names->entries[to].file = change->file;
}

static void names_use(struct disk_names *names, int by)
{
    for (size_t i = 0; i < names->count; i++) {
        if (by > 0)
            names->entries[i].file->users++;
        else
            file_drop(names->entries[i].file);
    }
}

void disk_name_change(struct disk *disk, const char *from, const char *to, struct disk_file *file)
{
    disk->changes =
        grown(disk->changes, &disk->changes_room, disk->changes_count + 1, sizeof(*disk->changes));
    struct disk_name_change *change = &disk->changes[disk->changes_count++];
    memset(change, 0, sizeof(*change));
    change->stamp = ++disk->stamp;
    strcpy(change->from, from);
    strcpy(change->to, to);
    change->file = file;
    file->users++;
    names_use(&disk->seen, 1);
    struct disk_names before;
    names_copy(&before, &disk->seen);
    names_apply(&disk->seen, change);
    names_use(&disk->seen, 1);
    names_use(&before, -1);
    names_use(&before, -1);
}

/* All names are on the disk as they are seen. */
void disk_names_keep(struct disk *disk)
{
    names_use(&disk->seen, 1);
    names_use(&disk->kept, -1);
    names_copy(&disk->kept, &disk->seen);
    for (size_t i = 0; i < disk->changes_count; i++)
        file_drop(disk->changes[i].file);
    disk->changes_count = 0;
}

void disk_add(struct disk *disk, const char *name, struct disk_file *file)
{
    disk_name_change(disk, "", name, file);
    disk_names_keep(disk);
}

struct disk *disk_new(void)
{
    struct disk *disk = malloc(sizeof(*disk));
    if (!disk)
        abort();
    memset(disk, 0, offsetof(struct disk, seen));
    disk->seen.count = disk->kept.count = 0;
    disk->capacity = UINT64_MAX;
    return disk;
}

void disk_free(struct disk *disk)
{
    disk_names_keep(disk);
    names_use(&disk->seen, -1);
    names_use(&disk->kept, -1);
    free(disk->changes);
    free(disk);
}

uint64_t disk_size(const struct disk *disk)
{
    uint64_t size = 0;
    for (size_t i = 0; i < disk->seen.count; i++)
        size += disk->seen.entries[i].file->seen.size;
    return size;
}

struct disk_file *disk_find(const struct disk *disk, const char *name)
{
    size_t i = names_find(&disk->seen, name);
    return i < disk->seen.count ? disk->seen.entries[i].file : NULL;
}

const unsigned char *disk_seen(struct disk_file *file)
{
    bytes_reach(&file->seen, file->seen.size);
    return file->seen.bytes;
}

void disk_cut(struct disk_file *file, size_t size)
{
    bytes_resize(&file->seen, size);
    bytes_resize(&file->kept, size);
}

void disk_flip(struct disk_file *file, size_t offset, unsigned char bits)
{
    bytes_flip(&file->seen, offset, bits);
    if (offset < file->kept.size)
        bytes_flip(&file->kept, offset, bits);
}
