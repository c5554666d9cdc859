/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * What tests do with a stream of a server.
 *
 *     stream URL add NAME SUBJECT
 *     stream URL anew NAME TEXT       deletes it, and makes one with the same configuration but this description
 *     stream URL purge NAME
 *     stream URL read NAME            prints the payloads, a line each
 */

#include <nats/nats.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static jsCtx *js;

static void check(natsStatus s, const char *what)
{
    if (s == NATS_OK)
        return;
    fprintf(stderr, "%s: %s\n", what, natsStatus_GetText(s));
    exit(1);
}

static void add(const char *name, const char *subject)
{
    jsStreamConfig config;

    jsStreamConfig_Init(&config);
    config.Name = name;
    config.Subjects = &subject;
    config.SubjectsLen = 1;
    check(js_AddStream(NULL, js, &config, NULL, NULL), name);
}

static void make_anew(const char *name, const char *description)
{
    jsStreamInfo *info = NULL;

    check(js_GetStreamInfo(&info, js, name, NULL, NULL), name);
    check(js_DeleteStream(js, name, NULL, NULL), "delete");
    const char *before = info->Config->Description;
    info->Config->Description = description;
    check(js_AddStream(NULL, js, info->Config, NULL, NULL), "add");
    info->Config->Description = before;
    jsStreamInfo_Destroy(info);
}

static void print(const char *name)
{
    jsStreamInfo *info = NULL;

    check(js_GetStreamInfo(&info, js, name, NULL, NULL), name);
    for (uint64_t i = info->State.FirstSeq; i <= info->State.LastSeq; i++) {
        natsMsg *msg = NULL;
        check(js_GetMsg(&msg, js, name, i, NULL, NULL), "read");
        printf("%.*s\n", natsMsg_GetDataLength(msg), natsMsg_GetData(msg));
        natsMsg_Destroy(msg);
    }
    jsStreamInfo_Destroy(info);
}

int main(int argc, char **argv)
{
    natsConnection *connection = NULL;

    if (argc < 4) {
        fputs("usage: stream URL add|anew|purge|read NAME [SUBJECT or TEXT]\n", stderr);
        return 2;
    }
    check(natsConnection_ConnectTo(&connection, argv[1]), argv[1]);
    check(natsConnection_JetStream(&js, connection, NULL), argv[1]);
    if (strcmp(argv[2], "add") == 0 && argc == 5)
        add(argv[3], argv[4]);
    else if (strcmp(argv[2], "anew") == 0 && argc == 5)
        make_anew(argv[3], argv[4]);
    else if (strcmp(argv[2], "purge") == 0)
        check(js_PurgeStream(js, argv[3], NULL, NULL), argv[3]);
    else if (strcmp(argv[2], "read") == 0)
        print(argv[3]);
    else
        return 2;
    jsCtx_Destroy(js);
    natsConnection_Destroy(connection);
    nats_Close();
    return fflush(stdout) == 0 ? 0 : 1;
}
