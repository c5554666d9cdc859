/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "hwt/relay/nats_inside.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "hwt/relay/log.h"

uint64_t relay_nats_clock(struct relay_engine *engine)
{
    struct timespec now;

    (void)engine;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return HWT_SEC((uint64_t)now.tv_sec) + (uint64_t)now.tv_nsec;
}

void relay_nats_signal(struct relay_nats *nats)
{
    const uint64_t one = 1;
    ssize_t written = write(nats->event, &one, sizeof(one));

    (void)written; /* it fails only if it is readable already */
}

int relay_nats_errno(natsStatus status)
{
    switch (status) {
    case NATS_OK:
        return 0;
    case NATS_TIMEOUT:
        return -ETIMEDOUT;
    case NATS_NO_RESPONDERS:
    case NATS_NO_SERVER:
    case NATS_CONNECTION_CLOSED:
    case NATS_CONNECTION_DISCONNECTED:
        return -EHOSTUNREACH;
    case NATS_NO_MEMORY:
        return -ENOMEM;
    default:
        return -EIO;
    }
}

static int get_fd(struct relay_engine *engine)
{
    return relay_nats_of(engine)->event;
}

static void clear(struct relay_engine *engine)
{
    uint64_t events;
    ssize_t got = read(get_fd(engine), &events, sizeof(events));

    (void)got; /* it fails only if nothing was there */
}

static const struct relay_engine_calls calls = {
    .pull = relay_nats_pull,
    .extent = relay_nats_extent,
    .find = relay_nats_find,
    .send = relay_nats_send,
    .answers = relay_nats_answers,
    .read = relay_nats_read,
    .swap = relay_nats_swap,
    .written = relay_nats_written,
    .purge = relay_nats_purge,
    .clock = relay_nats_clock,
    .fd = get_fd,
    .clear = clear,
    .publish = relay_nats_publish,
    .dead = relay_nats_dead,
    .bury = relay_nats_bury,
    .close = relay_nats_close,
};

static bool is_set(const char *text)
{
    return text && *text;
}

/* Who the relay is. */
static natsStatus identify(natsOptions *options, const struct relay_config *config)
{
    natsStatus s = NATS_OK;

    if (is_set(config->user))
        s = natsOptions_SetUserInfo(options, config->user, config->password);
    if (s == NATS_OK && is_set(config->token))
        s = natsOptions_SetToken(options, config->token);
    if (s == NATS_OK && is_set(config->nkey))
        s = natsOptions_SetNKeyFromSeed(options, config->nkey, config->nkey_seed);
    if (s == NATS_OK && is_set(config->credentials))
        s = natsOptions_SetUserCredentialsFromFiles(options, config->credentials, NULL);
    return s;
}

/* The library takes a server without TLS if it is not told that TLS is wanted, whatever its address says. */
static bool wants_tls(const struct relay_config *config)
{
    for (size_t i = 0; i < config->servers.count; i++)
        if (strncasecmp(config->servers.word[i], "tls://", 6) == 0)
            return true;
    return is_set(config->ca) || is_set(config->certificate);
}

static natsStatus protect(natsOptions *options, const struct relay_config *config)
{
    natsStatus s = wants_tls(config) ? natsOptions_SetSecure(options, true) : NATS_OK;

    if (s == NATS_OK && is_set(config->ca))
        s = natsOptions_LoadCATrustedCertificates(options, config->ca);
    if (s == NATS_OK && is_set(config->certificate))
        s = natsOptions_LoadCertificatesChain(options, config->certificate, config->key);
    return s;
}

/*
 * A message that is published while there is no connection would be kept and sent later, perhaps
 * after the lease. So hardly anything is kept, and relay_nats_send() looks first.
 */
static natsStatus connect_to(struct relay_nats *nats)
{
    const struct relay_words *servers = &nats->config->servers;
    natsOptions *options = NULL;
    jsOptions js;
    char name[NATS_NAME_MAX];
    natsStatus s = natsOptions_Create(&options);

    snprintf(name, sizeof(name), "hwt-relay %s, shard %u", nats->config->replica, nats->shard);
    if (s == NATS_OK)
        s = natsOptions_SetServers(options, (const char **)(uintptr_t)servers->word,
                                   (int)servers->count);
    if (s == NATS_OK)
        s = natsOptions_SetName(options, name);
    if (s == NATS_OK)
        s = natsOptions_SetMaxReconnect(options, -1);
    if (s == NATS_OK)
        s = natsOptions_SetReconnectWait(options, 200);
    if (s == NATS_OK)
        s = natsOptions_SetReconnectBufSize(options, 1);
    if (s == NATS_OK)
        s = natsOptions_SetPingInterval(options, 1000);
    if (s == NATS_OK)
        s = natsOptions_SetMaxPingsOut(options, 3);
    if (s == NATS_OK)
        s = identify(options, nats->config);
    if (s == NATS_OK)
        s = protect(options, nats->config);
    if (s == NATS_OK)
        s = natsConnection_Connect(&nats->connection, options);
    natsOptions_Destroy(options);
    jsOptions_Init(&js);
    js.Wait = NATS_WAIT_MS;
    js.Prefix = nats->config->api;
    return s == NATS_OK ? natsConnection_JetStream(&nats->js, nats->connection, &js) : s;
}

/* An address may begin with a password. */
void relay_nats_see_server(struct relay_nats *nats)
{
    char url[512];
    const char *host;

    if (natsConnection_GetConnectedUrl(nats->connection, url, sizeof(url)) != NATS_OK)
        return;
    host = strrchr(url, '@');
    host = host ? host + 1 : strstr(url, "://") ? strstr(url, "://") + 3 : url;
    snprintf(nats->engine.server, RELAY_SERVER_MAX, "%.100s", host);
}

unsigned relay_nats_shard(const char *key, unsigned shards)
{
    uint32_t hash = UINT32_C(2166136261);

    for (; *key; key++)
        hash = (hash ^ (unsigned char)*key) * UINT32_C(16777619);
    return hash % shards;
}

static natsStatus begin(struct relay_nats *nats)
{
    natsStatus s = connect_to(nats);

    if (s == NATS_OK)
        s = relay_nats_make(nats);
    if (s == NATS_OK)
        s = relay_nats_send_begin(nats);
    if (s == NATS_OK)
        s = relay_nats_pull_begin(nats);
    return s;
}

/* The library names the port of an address that it cannot read, which may be a password. */
static void say_why(unsigned shard, natsStatus s)
{
    const char *more = nats_GetLastError(NULL);

    if (s == NATS_SECURE_CONNECTION_WANTED)
        more = "a server has no TLS, on which tls:// in `servers`, `ca` and `certificate` insist";
    else if (s == NATS_INVALID_ARG)
        more = "an address in `servers` is none; it is nats://HOST:PORT or tls://HOST:PORT";
    relay_log(shard, "NATS: %s%s%s", natsStatus_GetText(s), is_set(more) ? ": " : "",
              more ? more : "");
}

int relay_nats_open(const struct relay_config *config, unsigned shard,
                    struct relay_engine **ret_engine)
{
    struct relay_nats *nats = calloc(1, sizeof(*nats));
    natsStatus s;

    if (!nats)
        return -ENOMEM;
    nats->engine.calls = &calls;
    nats->config = config;
    nats->shard = shard;
    snprintf(nats->stream, NATS_NAME_MAX, "HWT-%s-%u", config->space, shard);
    snprintf(nats->subject, NATS_NAME_MAX, "hwt.%s.%u", config->space, shard);
    snprintf(nats->dead, NATS_NAME_MAX, "hwt.%s.dead", config->space);
    snprintf(nats->bucket, NATS_NAME_MAX, "hwt-%s", config->space);
    pthread_mutex_init(&nats->lock, NULL);
    nats->event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    s = nats->event < 0 ? NATS_NO_MEMORY : begin(nats);
    if (s == NATS_OK) {
        if (shard == 0)
            relay_nats_count_shards(nats);
        *ret_engine = &nats->engine;
        return 0;
    }
    say_why(shard, s);
    relay_nats_close(&nats->engine);
    return relay_nats_errno(s);
}

/* The library may still call back until the connection is gone. */
void relay_nats_close(struct relay_engine *engine)
{
    struct relay_nats *nats = relay_nats_of(engine);

    if (nats->connection)
        natsConnection_Close(nats->connection);
    relay_nats_pull_end(nats);
    relay_nats_send_end(nats);
    relay_nats_dead_free(nats);
    kvStore_Destroy(nats->entries);
    jsCtx_Destroy(nats->js);
    natsConnection_Destroy(nats->connection);
    if (nats->event >= 0)
        close(nats->event);
    pthread_mutex_destroy(&nats->lock);
    free(nats);
}
