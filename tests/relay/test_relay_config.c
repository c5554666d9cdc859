/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* The configuration file, and its mistakes by their line. */

#include "hwt/relay/config.h"

#include <errno.h>
#include <string.h>

#include <hwt/hwt.h>

#include "check_main.h"

#define REST                                                                                       \
    "replica = a\n"                                                                                \
    "\n"                                                                                           \
    "replicas = a b\tc  # three\n"                                                                 \
    "servers = nats://127.0.0.1:4222 nats://127.0.0.1:4223\n"                                      \
    "targets = orders.> mails.*.send\n"                                                            \
    "state = /var/lib/hwt relay\n"
#define GOOD "# all there is to say\nspace = shop\n" REST

#define TEN "1234567890"

static char path[64], said[4096];

/* What is said on stderr is in said[] then. */
static int read_config(const char *text, struct relay_config *config)
{
    FILE *file = fopen(path, "w"), *errors = tmpfile();
    int saved = dup(2), r;

    ck_assert(file && errors && fputs(text, file) >= 0 && fclose(file) == 0);
    fflush(stderr);
    dup2(fileno(errors), 2);
    r = relay_config_read(path, config);
    fflush(stderr);
    dup2(saved, 2);
    close(saved);
    rewind(errors);
    said[fread(said, 1, sizeof(said) - 1, errors)] = 0;
    fclose(errors);
    unlink(path);
    return r;
}

static void make_path(void)
{
    snprintf(path, sizeof(path), "relay-config-%d", (int)getpid());
}

START_TEST(test_what_a_file_says)
{
    struct relay_config config;

    ck_assert_int_eq(read_config(GOOD, &config), 0);
    ck_assert_str_eq(config.space, "shop");
    ck_assert_uint_eq(config.replicas.count, 3);
    ck_assert_str_eq(config.replicas.word[2], "c");
    ck_assert_uint_eq(config.servers.count, 2);
    ck_assert_str_eq(config.state, "/var/lib/hwt relay");
    ck_assert_uint_eq(config.shards, 1);
    ck_assert_uint_eq(config.copies, 3);
    ck_assert_uint_eq(config.lease, HWT_SEC(2));
    ck_assert_uint_eq(config.message_max + RELAY_ROOM, 1 << 20);
    ck_assert_str_eq(config.metrics, "");
    ck_assert_str_eq(config.api, "$JS.API");
    relay_config_free(&config);
    ck_assert_int_eq(
        read_config(GOOD "lease=500ms\nshards =16\nattempts= 3\ncopies = 1\n"
                         "message_max = 64K\nmetrics = [::1]:9464\napi_prefix = $JS.hub.API\n"
                         "user = relay\npassword = a#b  # c\ncredentials = my file",
                    &config),
        0);
    ck_assert_uint_eq(config.lease, HWT_MS(500));
    ck_assert_uint_eq(config.shards, 16);
    ck_assert_uint_eq(config.message_max, 65536);
    ck_assert_str_eq(config.metrics, "[::1]:9464");
    ck_assert_str_eq(config.api, "$JS.hub.API");
    ck_assert_str_eq(config.user, "relay");
    ck_assert_str_eq(config.password, "a#b");
    ck_assert_str_eq(config.credentials, "my file");
    ck_assert_str_eq(config.token, "");
    relay_config_free(&config);
}
END_TEST

START_TEST(test_mistakes_are_named_with_their_line)
{
    static const struct {
        const char *text, *says;
    } bad[] = {
        { "", ": it is empty" },
        { GOOD "nothing\n", ":9: a line is: name = value" },
        { GOOD "colour = red\n", ":9: there is no setting colour" },
        { GOOD "space = other\n", ":9: space is set in line 2 already" },
        { GOOD "lease =\n", ":9: lease has no value" },
        { GOOD "lease = 2\n", ":9: lease: 2 is not a duration" },
        { GOOD "lease = 100ms\n", ":9: lease: 100ms is out of range" },
        { GOOD "lease = 99999999999s\n", ":9: lease: 99999999999s is out of range" },
        { GOOD "shards = 0\n", ":9: shards: 0 is out of range" },
        { GOOD "shards = 17\n", ":9: shards: 17 is out of range" },
        { GOOD "shards = two\n", ":9: shards: two is not a number" },
        { GOOD "message_max = 1G\n", ":9: message_max: 1G is not bytes" },
        { GOOD "message_max = 99M\n", ":9: message_max: 99M is out of range" },
        { GOOD "api_prefix = $JS..API\n", ":9: api_prefix: $JS..API is no subject" },
        { GOOD "api_prefix = $JS.>\n", ":9: api_prefix: $JS.> is no subject" },
        { GOOD "metrics = 9464\n", ":9: metrics: 9464 is no address" },
        { GOOD "metrics = localhost:9464\n", ":9: metrics: localhost:9464 is no address" },
        { GOOD "metrics = 127.0.0.1:http\n", ":9: metrics: 127.0.0.1:http is no address" },
        { GOOD "metrics = []:1\n", ":9: metrics: []:1 is no address" },
        { "space = a.b\n" GOOD, ":1: space: a.b is no name" },
        { "space = -a\n" GOOD, ":1: space: -a is no name" },
        { "space = " TEN TEN TEN TEN TEN TEN TEN "\n" GOOD, " is no name" },
        { "shards = " TEN TEN "\n" GOOD, " is not a number" },
        { "replicas = a1 a2 a3 a4 a5 a6 a7 a8 a9 b1 b2 b3 b4 b5 b6 b7 b8\n" GOOD,
          ":1: replicas: more than 16" },
        { "replicas = a a\n" GOOD, ":1: replicas: word 1 is there twice" },
        { "servers = nats://u:p@a nats://u:p@a\n", ":1: servers: word 1 is there twice" },
        { GOOD "user = relay\n", ":9: user and password belong together: set both" },
        { GOOD "nkey_seed = s\n", ":9: nkey and nkey_seed belong together: set both" },
        { GOOD "key = k\n", ":9: certificate and key belong together: set both" },
        { GOOD "nats://u:pass=word\n", ":9: there is no setting of that name" },
        { "replicas = a b/c\n" GOOD, ":1: replicas: b/c is no name" },
        { "targets = orders.> $JS.>\n" GOOD, ":1: targets: $JS.> begins with $" },
        { "targets = a.>.b\n" GOOD, ":1: targets: a.>.b has a wildcard" },
        { "targets = hwt.>\n" GOOD, ":1: targets: hwt.> begins with hwt." },
        { GOOD "engine = kafka\nspace = x\n", ":10: space is set in line 2 already" },
        { "engine = kafka\nspace = shop-dead\n" REST, "no space ends with -dead" },
        { "engine = kafka\nspace = shop-entries\n" REST, "no space ends with -entries" },
        { "engine = kafka\nspace = shop-places\n" REST, "no space ends with -places" },
        { "space = shop\n", ":1: replica is not set up to here" },
    };
    struct relay_config config;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        ck_assert_int_eq(read_config(bad[i].text, &config), -EINVAL);
        ck_assert_msg(strstr(said, bad[i].says), "%s: said was %s", bad[i].says, said);
    }
    ck_assert_int_eq(read_config("space = s\nreplica = d\nreplicas = a b\nservers = x\n"
                                 "targets = t\nstate = s\n",
                                 &config),
                     -EINVAL);
    ck_assert_msg(strstr(said, "replicas does not have this one"), "%s", said);
    /* All of them at once. */
    ck_assert_int_eq(read_config("lease = x\nspace = s\nuser = u\nkey = k\nreplica = a\n", &config),
                     -EINVAL);
    ck_assert_msg(strstr(said, ":1: lease: x") && strstr(said, ":5: replicas is not set") &&
                      strstr(said, ":5: state is not set"),
                  "%s", said);
    ck_assert_int_eq(
        read_config("engine = kafka\nspace = x-dead\nuser = u\nkey = k\n" REST, &config), -EINVAL);
    ck_assert_msg(strstr(said, "ends with -dead") && strstr(said, "user and password") &&
                      strstr(said, "certificate and key"),
                  "%s", said);
    char words[600] = "targets =";
    for (int i = 0; i <= RELAY_WORDS_MAX; i++)
        snprintf(words + strlen(words), sizeof(words) - strlen(words), " t%d", i);
    ck_assert_int_eq(read_config(words, &config), -EINVAL);
    ck_assert_msg(strstr(said, ":1: targets: more than"), "%s", said);
    ck_assert_int_eq(read_config(GOOD "space", &config), -EINVAL);
    ck_assert_int_eq(relay_config_read("/nowhere/at/all", &config), -ENOENT);
}
END_TEST

/* Whatever the mistake is. */
START_TEST(test_passwords_are_not_said)
{
    static const char *const bad[] = {
        GOOD "kafka = sasl.password=secret secret\n",
        GOOD "kafka = sasl.password=secret sasl.password=secret\n",
        GOOD "kafka = =secret\n",
        GOOD "kafka sasl.password secret\n",
        GOOD "nats://relay:secret@host?x=1\n",
        GOOD "servers = nats://relay:secret@host\n",
        "servers = nats://relay:secret@host nats://relay:secret@host\n" GOOD,
    };
    struct relay_config config;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        ck_assert_int_eq(read_config(bad[i], &config), -EINVAL);
        ck_assert_ptr_nonnull(strstr(said, "relay-config"));
        ck_assert_msg(!strstr(said, "secret"), "%s", said);
    }
}
END_TEST

START_TEST(test_a_comment_begins_behind_a_blank)
{
    struct relay_config config;

    ck_assert_int_eq(read_config(GOOD "kafka = a=b#c d=#e #f=g\n\t# x\n#y\n", &config), 0);
    ck_assert_uint_eq(config.kafka.count, 2);
    ck_assert_str_eq(config.kafka.word[0], "a=b#c");
    ck_assert_str_eq(config.kafka.word[1], "d=#e");
    relay_config_free(&config);
}
END_TEST

static void add_name(const char *name, void *names)
{
    strcat(strcat(names, name), " ");
}

START_TEST(test_what_differs_is_named)
{
    static const struct {
        const char *text, *names;
    } cases[] = {
        { GOOD, "" },
        { GOOD "lease = 2s\nmessage_max = 1022K\nengine = nats\nkafka = a=b\n", "kafka " },
        { GOOD "lease = 3s\nmessage_max = 1K\nshards = 2\n", "shards lease message_max " },
        { GOOD "user = u\npassword = p\n", "user password " },
        { "space = shop\nreplica = b\nreplicas = a b\nservers = x\ntargets = orders.> mails.*.get\n"
          "state = s\n",
          "replica replicas servers targets state " },
    };
    struct relay_config one, other;

    ck_assert_int_eq(read_config(GOOD, &one), 0);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char names[256] = "";
        ck_assert_int_eq(read_config(cases[i].text, &other), 0);
        relay_config_compare(&one, &other, add_name, names);
        ck_assert_str_eq(names, cases[i].names);
        relay_config_free(&other);
    }
    relay_config_free(&one);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("relay_config");
    TCase *tcase = tcase_create("file");

    tcase_add_checked_fixture(tcase, make_path, NULL);
    tcase_add_test(tcase, test_what_a_file_says);
    tcase_add_test(tcase, test_mistakes_are_named_with_their_line);
    tcase_add_test(tcase, test_passwords_are_not_said);
    tcase_add_test(tcase, test_what_differs_is_named);
    tcase_add_test(tcase, test_a_comment_begins_behind_a_blank);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
