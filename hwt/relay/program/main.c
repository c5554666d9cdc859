/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "hwt/relay/program/program.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <hwt/hwt.h>

#include "hwt/relay/open.h"

enum { HEADERS_MAX = 64, ANY = -1 };

#define CHECK_CONFIG "--check-config" /* an option that is a command */

static const struct option options[] = {
    { "config", required_argument, NULL, 'c' },
    { "shard", required_argument, NULL, 's' },
    { "due", required_argument, NULL, 'd' },
    { "delay", required_argument, NULL, 'w' },
    { "due-old", required_argument, NULL, 'o' },
    { "key", required_argument, NULL, 'k' },
    { "header", required_argument, NULL, 'H' },
    { "help", no_argument, NULL, 'h' },
    { "version", no_argument, NULL, 'V' },
    { &CHECK_CONFIG[2], required_argument, NULL, 'C' },
    { NULL, 0, NULL, 0 },
};

/* The file was read before, so there is no mistake in it. */
static int command_check_config(const struct request *request)
{
    printf("%s: there is no mistake in it\n", request->path);
    return fflush(stdout) == 0 ? 0 : FAILED;
}

static const struct command {
    const char *name;
    int (*run)(const struct request *request);
    int operands;        /* or ANY number */
    const char *options; /* besides -c */
    const char *form, *help;
} commands[] = {
    { "run", command_run, 0, "", "", "runs the relay until SIGTERM; also without a command" },
    { "status", command_status, 0, "", "", "who owns which shard, and how far each replica is" },
    { "drain", command_drain, 0, "", "",
      "ends the relay of this configuration on this machine, and waits for its end" },
    { "forget", command_forget, 1, "", " NAME",
      "a replica that is gone for good is waited for no more" },
    { "check", command_check, ANY, "", " [DIRECTORY]...",
      "compares replicas while they run: this one's state and those in DIRECTORY" },
    { "dump", command_dump, 0, "s", " [--shard N]", "writes what waits in this replica's stores" },
    { "dead", command_dead, ANY, "", " list | (put-back | drop) (all | POSITION...)",
      "lists dead letters, puts them back as new orders, or deletes them" },
    { "put", command_put, 2, "sdwkH",
      " (--due TIME | --delay MS) [--key KEY] [--header 'NAME: VALUE']... [--shard N] TARGET "
      "PAYLOAD",
      "publishes a message to be forwarded later" },
    { "cancel", command_cancel, 0, "sdk", " --due TIME --key KEY [--shard N]",
      "publishes a cancel of a message" },
    { "replace", command_replace, 2, "sdwokH",
      " --due-old TIME (--due TIME | --delay MS) --key KEY [--header 'NAME: VALUE']... "
      "[--shard N] TARGET PAYLOAD",
      "publishes a message in place of another one" },
    { CHECK_CONFIG, command_check_config, 0, "C", " FILE",
      "says what is wrong with a configuration, and does nothing else" },
};

#define COMMANDS (sizeof(commands) / sizeof(commands[0]))

void misuse(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    fputs("hwt-relay: ", stderr);
    vfprintf(stderr, format, arguments);
    fputs("; see hwt-relay --help\n", stderr);
    va_end(arguments);
    exit(MISUSED);
}

int fail(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    fputs("hwt-relay: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    return FAILED;
}

static int usage(void)
{
    printf("Usage: hwt-relay -c FILE [COMMAND] [OPTION]... [OPERAND]...\n\n"
           "Forwards messages of NATS JetStream or Kafka when they are due, with several "
           "replicas.\n\n");
    for (size_t i = 0; i < COMMANDS; i++)
        printf("  %s%s\n            %s\n", commands[i].name, commands[i].form, commands[i].help);
    printf("\nTIME is milliseconds since 1970, or as 2026-11-22T10:00:00.5Z.\n\n"
           "Exit status: 0; 1 if it could not be done; 2 for misuse, or a mistake in FILE.\n");
    return fflush(stdout) == 0 ? 0 : FAILED;
}

static void set_option(struct request *request, int letter, const char **path)
{
    const char **fields[] = { ['c'] = path,
                              ['C'] = path,
                              ['s'] = &request->shard,
                              ['d'] = &request->due,
                              ['w'] = &request->delay,
                              ['o'] = &request->due_old,
                              ['k'] = &request->key };

    if (letter != 'H')
        *fields[letter] = optarg;
    else if (request->headers_count == HEADERS_MAX)
        misuse("more than %d headers", HEADERS_MAX);
    else
        request->headers[request->headers_count++] = optarg;
}

static const struct command *find_command(const char *name)
{
    for (size_t i = 0; i < COMMANDS; i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    misuse("%s: no such command", name);
}

static void check_request(const struct request *request, const struct command *command,
                          const char *letters)
{
    for (; *letters; letters++)
        if (*letters != 'c' && !strchr(command->options, *letters))
            misuse("%s has no option -%c", command->name, *letters);
    if (command->operands != ANY && request->operands_count != command->operands)
        misuse("too %s operands; it is: hwt-relay -c FILE %s%s",
               request->operands_count < command->operands ? "few" : "many", command->name,
               command->form);
}

static int run(struct request *request, const struct command *command)
{
    struct relay_config config;
    int r = relay_config_read(request->path, &config);

    if (r < 0)
        return r == -EINVAL ? MISUSED : FAILED;
    request->config = &config;
    if (relay_engine_fault(&config)) {
        fail("%s: engine: %s is not there, because %s", request->path, config.engine,
             relay_engine_fault(&config));
        r = MISUSED;
    } else {
        r = command->run(request);
    }
    relay_config_free(&config);
    return r;
}

int main(int argc, char **argv)
{
    char *headers[HEADERS_MAX], letters[256] = "";
    struct request request = { .headers = headers };
    const struct command *command = &commands[0];
    const char *path = NULL;
    int letter;

    while ((letter = getopt_long(argc, argv, "c:s:d:w:o:k:H:hV", options, NULL)) != -1) {
        if (letter == 'h')
            return usage();
        if (letter == 'V')
            return printf("hwt-relay %s\n", hwt_version()) < 0;
        if (letter == '?') /* getopt_long has said why */
            misuse("a bad option");
        set_option(&request, letter, &path);
        if (!strchr(letters, letter))
            letters[strlen(letters)] = (char)letter;
    }
    request.operands = argv + optind;
    request.operands_count = argc - optind;
    if (strchr(letters, 'C')) {
        command = find_command(CHECK_CONFIG);
    } else if (request.operands_count > 0) {
        command = find_command(*request.operands++);
        request.operands_count--;
    }
    check_request(&request, command, letters);
    if (!path)
        misuse("no configuration file: -c FILE");
    request.path = path;
    return run(&request, command);
}
