/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "hwt/delay/tool/tool.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Options of long form only; a command has those whose letters it names. */
static const struct option options[] = {
    { "create", no_argument, NULL, 'c' },     { "lines", no_argument, NULL, 'l' },
    { "messages", no_argument, NULL, 'm' },   { "prometheus", no_argument, NULL, 'p' },
    { "from", required_argument, NULL, 'f' }, { "to", required_argument, NULL, 't' },
    { "max", required_argument, NULL, 'n' },  { "wait", required_argument, NULL, 'w' },
    { "help", no_argument, NULL, 'h' },       { NULL, 0, NULL, 0 },
};

static const struct command {
    const char *name;
    int (*run)(const struct request *request);
    int least, most; /* operands after the directory */
    const char *options;
    const char *form;
    const char *help;
} commands[] = {
    { "stat", command_stat, 0, 0, "p", "[--prometheus] DIRECTORY", "counters and sizes" },
    { "stats", command_stat, 0, 0, "p", "[--prometheus] DIRECTORY", "the same as stat" },
    { "dump", command_dump, 0, 0, "mft", "[--messages [--from TIME] [--to TIME]] DIRECTORY",
      "what the store consists of; or the messages that are pending" },
    { "check", command_check, 0, 0, "", "DIRECTORY", "reads everything and names what is damaged" },
    { "put", command_put, 0, 3, "cl", "[--create] DIRECTORY TIME ID [PAYLOAD]",
      "puts a message, on the disk when this returns; or with --lines\n"
      "            instead of TIME, ID and PAYLOAD: lines of stdin, all or none" },
    { "cancel", command_cancel, 2, 2, "", "DIRECTORY TIME ID",
      "cancels the message with this due time and id" },
    { "take", command_take, 0, 0, "nw", "[--max N] [--wait DURATION] DIRECTORY",
      "prints messages that are due, and is done with them" },
    { "copy", command_copy, 1, 1, "", "DIRECTORY NEW",
      "copies the store, which may be in use, to a new directory" },
    { "salvage", command_salvage, 1, 1, "", "DIRECTORY NEW",
      "puts what can be read of a damaged store into a new one" },
};

#define COMMANDS (sizeof(commands) / sizeof(commands[0]))

static void usage(void)
{
    printf("Usage: hwt-delay COMMAND [OPTION]... DIRECTORY [OPERAND]...\n\n"
           "Looks into a store of delayed messages, and changes it by hand.\n\n");
    for (size_t i = 0; i < COMMANDS; i++)
        printf("  %-7s %s\n            %s\n", commands[i].name, commands[i].form, commands[i].help);
    printf("\nTIME is now, +90s, @1800000000.5 (seconds since 1970) or 2026-11-22T10:00:00.5Z;\n"
           "DURATION is 90s, with ns, us, ms, s, m, h or d, or forever. In ID and PAYLOAD\n"
           "\\xHH is any byte and \\\\ a backslash. Messages are printed as they are read by\n"
           "put --lines: TIME, ID and PAYLOAD with tabs between.\n\n"
           "Exit status: 0; 1 if it could not be done, something is damaged, or there was\n"
           "nothing to cancel or to take; 2 for misuse.\n");
}

void misuse(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    fputs("hwt-delay: ", stderr);
    vfprintf(stderr, format, arguments);
    fputs("; see hwt-delay --help\n", stderr);
    va_end(arguments);
    exit(MISUSED);
}

int fail(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    fputs("hwt-delay: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    return FAILED;
}

hwt_delay *open_store(const char *directory, uint32_t flags)
{
    return open_store_for(directory, flags, 0);
}

hwt_delay *open_store_for(const char *directory, uint32_t flags, uint64_t payload)
{
    hwt_delay_options opening = HWT_DELAY_OPTIONS_INIT;
    hwt_delay *store = NULL;
    int tries = 10;
    int r;

    opening.flags = flags;
    if (opening.memory < 32 * payload) {
        opening.memory = 32 * payload;
        opening.segment_size = (opening.memory / 4 + 4095) / 4096 * 4096;
    }
    opening.payload_max = (uint32_t)(opening.memory / 32); /* as long as there may be */
    do
        r = hwt_delay_open(directory, &opening, &store);
    while (r == -ESTALE && --tries > 0);
    /* hwt-delay check cannot open it either, unless a file of messages is all that is damaged. */
    if (r == -EBADMSG && !(flags & HWT_DELAY_SALVAGE))
        exit(fail("%s: it is damaged so that it cannot be opened: hwt-delay salvage saves the rest",
                  directory));
    if (r < 0)
        exit(fail("%s: %s", directory, hwt_delay_strerror(r)));
    return store;
}

int finish_output(void)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return 0;
    return fail("writing the output failed: %s", strerror(errno));
}

static void set_option(struct request *request, int letter)
{
    switch (letter) {
    case 'c':
        request->create = true;
        break;
    case 'l':
        request->lines = true;
        break;
    case 'm':
        request->messages = true;
        break;
    case 'p':
        request->prometheus = true;
        break;
    case 'f':
        request->from = optarg;
        break;
    case 't':
        request->to = optarg;
        break;
    case 'n':
        request->max = optarg;
        break;
    default:
        request->wait = optarg;
        break;
    }
}

static void parse_request(struct request *request, const struct command *command, int argc,
                          char **argv)
{
    int letter;

    /* Parses up to the first operand, because an id may begin with a minus. */
    while ((letter = getopt_long(argc, argv, "+h", options, NULL)) != -1) {
        if (letter == 'h') {
            usage();
            exit(finish_output());
        }
        if (letter == '?') /* getopt_long has said why */
            misuse("%s: a bad option", command->name);
        if (!strchr(command->options, letter))
            misuse("%s has no such option", command->name);
        set_option(request, letter);
    }
    argc -= optind;
    argv += optind;
    if (argc == 0)
        misuse("%s: no directory; it is: %s %s", command->name, command->name, command->form);
    request->directory = argv[0];
    request->operands = argv + 1;
    request->count = argc - 1;
    if (request->count < command->least || request->count > command->most)
        misuse("%s: too %s operands; it is: %s %s", command->name,
               request->count < command->least ? "few" : "many", command->name, command->form);
}

int main(int argc, char **argv)
{
    struct request request = { 0 };

    if (argc < 2)
        misuse("no command");
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        usage();
        return finish_output();
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("hwt-delay %s\n", hwt_version());
        return finish_output();
    }
    for (size_t i = 0; i < COMMANDS; i++)
        if (strcmp(argv[1], commands[i].name) == 0) {
            argv[1] = argv[0]; /* getopt_long names the program by it */
            parse_request(&request, &commands[i], argc - 1, argv + 1);
            return commands[i].run(&request);
        }
    misuse("%s: no such command", argv[1]);
}
