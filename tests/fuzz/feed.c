/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Runs a fuzz target on files, without a fuzzer: on each that is named, or is in a folder named. */

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "target.h"

enum { BYTES_MAX = 1 << 20, MISUSE = 2 };

static unsigned files;

static void fail(const char *path)
{
    fprintf(stderr, "feed: %s: %s\n", path, strerror(errno));
    exit(MISUSE);
}

static void feed_file(const char *path)
{
    static uint8_t bytes[BYTES_MAX];
    FILE *file = fopen(path, "rb");
    if (!file)
        fail(path);
    size_t size = fread(bytes, 1, sizeof bytes, file);
    if (ferror(file))
        fail(path);
    fclose(file);

    fprintf(stderr, "%s\n", path); /* before it runs: the last one is the one that failed */
    uint8_t *exact = malloc(size ? size : 1); /* so that reading past it is seen */
    if (!exact)
        fail(path);
    memcpy(exact, bytes, size);
    LLVMFuzzerTestOneInput(exact, size);
    free(exact);
    files++;
}

static void feed(const char *path)
{
    char inside[PATH_MAX];
    struct dirent *entry;
    DIR *folder = opendir(path);
    if (!folder && errno == ENOTDIR) {
        feed_file(path);
        return;
    }
    if (!folder)
        fail(path);
    while ((entry = readdir(folder)) != NULL) {
        snprintf(inside, sizeof inside, "%s/%s", path, entry->d_name);
        if (entry->d_name[0] != '.')
            feed_file(inside);
    }
    closedir(folder);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        feed(argv[i]);
    if (files == 0) {
        fputs("feed: there was no file; usage: feed FILE|FOLDER...\n", stderr);
        return MISUSE;
    }
    printf("%u files\n", files);
    return EXIT_SUCCESS;
}
