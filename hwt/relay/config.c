/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "hwt/relay/config.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <hwt/hwt.h>

#include "hwt/relay/address.h"

/* The line of the file that is read. A value belongs to a name on that line. */
struct line {
    const char *path;
    unsigned number;
    const char *name;
    char *value;
};

enum kind {
    ENGINE,
    NAME,
    NAMES,
    WORDS,
    PROPERTIES,
    PATTERNS,
    PATH,
    ADDRESS,
    SUBJECT,
    TEXT, /* which may be secret */
    COUNT,
    SIZE,
    DURATION
};

static const struct setting {
    const char *name;
    enum kind kind;
    size_t offset;
    uint64_t least, most;
    const char *missing; /* its value if the file does not say it; NULL: the file has to */
} settings[] = {
    { "space", NAME, offsetof(struct relay_config, space), 0, 0, NULL },
    { "engine", ENGINE, offsetof(struct relay_config, engine), 0, 0, "nats" },
    { "replica", NAME, offsetof(struct relay_config, replica), 0, 0, NULL },
    { "replicas", NAMES, offsetof(struct relay_config, replicas), 0, 0, NULL },
    { "servers", WORDS, offsetof(struct relay_config, servers), 0, 0, NULL },
    { "user", TEXT, offsetof(struct relay_config, user), 0, 0, "" },
    { "password", TEXT, offsetof(struct relay_config, password), 0, 0, "" },
    { "token", TEXT, offsetof(struct relay_config, token), 0, 0, "" },
    { "nkey", TEXT, offsetof(struct relay_config, nkey), 0, 0, "" },
    { "nkey_seed", TEXT, offsetof(struct relay_config, nkey_seed), 0, 0, "" },
    { "credentials", TEXT, offsetof(struct relay_config, credentials), 0, 0, "" },
    { "ca", TEXT, offsetof(struct relay_config, ca), 0, 0, "" },
    { "certificate", TEXT, offsetof(struct relay_config, certificate), 0, 0, "" },
    { "key", TEXT, offsetof(struct relay_config, key), 0, 0, "" },
    { "api_prefix", SUBJECT, offsetof(struct relay_config, api), 0, 0, "$JS.API" },
    { "kafka", PROPERTIES, offsetof(struct relay_config, kafka), 0, 0, "" },
    { "targets", PATTERNS, offsetof(struct relay_config, targets), 0, 0, NULL },
    { "state", PATH, offsetof(struct relay_config, state), 0, 0, NULL },
    { "shards", COUNT, offsetof(struct relay_config, shards), 1, RELAY_SHARDS_MAX, "1" },
    { "copies", COUNT, offsetof(struct relay_config, copies), 1, 5, "3" },
    { "lease", DURATION, offsetof(struct relay_config, lease), HWT_MS(200), RELAY_LEASE_MAX, "2s" },
    { "clock_bound", DURATION, offsetof(struct relay_config, clock_bound), HWT_MS(10),
      HWT_SEC(3600), "1s" },
    { "attempts", COUNT, offsetof(struct relay_config, attempts), 1, 1000000, "20" },
    { "message_max", SIZE, offsetof(struct relay_config, message_max), 1024, UINT64_C(8) << 20,
      "1022K" },
    { "metrics", ADDRESS, offsetof(struct relay_config, metrics), 0, 0, "" },
};

enum { SETTINGS = sizeof(settings) / sizeof(settings[0]) };

__attribute__((format(printf, 2, 3))) static int mistake(const struct line *line,
                                                         const char *format, ...)
{
    va_list arguments;

    fprintf(stderr, "%s:%u: ", line->path, line->number);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    return -EINVAL;
}

/* Subjects, streams and files are called after it. */
static bool is_name(const char *word)
{
    size_t length = strlen(word);

    for (const char *c = word; *c; c++)
        if (!isalnum((unsigned char)*c) && *c != '_' && (*c != '-' || c == word))
            return false;
    return length > 0 && length < RELAY_NAME_MAX;
}

static bool is_subject(const char *word)
{
    size_t length = strlen(word);

    return *word != '.' && word[length - 1] != '.' && !strstr(word, "..") &&
           !strpbrk(word, "*> \t") && length < RELAY_NAME_MAX;
}

static int split(const struct line *line, struct relay_words *words)
{
    char *rest = line->value, *word;

    while ((word = strtok_r(rest, " \t", &rest))) {
        if (words->count == RELAY_WORDS_MAX)
            return mistake(line, "%s: more than %d words", line->name, RELAY_WORDS_MAX);
        for (size_t i = 0; i < words->count; i++)
            if (strcmp(words->word[i], word) == 0)
                return mistake(line, "%s: word %zu is there twice", line->name, i + 1);
        words->word[words->count++] = word;
    }
    return 0;
}

static int read_words(const struct line *line, enum kind kind, struct relay_words *words)
{
    int r = split(line, words);

    for (size_t i = 0; r == 0 && i < words->count; i++) {
        const char *word = words->word[i];
        if (kind == NAMES && !is_name(word))
            r = mistake(line, "%s: %s is no name; names are of letters, digits, _ and -",
                        line->name, word);
        else if (kind == PROPERTIES && (!strchr(word, '=') || *word == '='))
            r = mistake(line, "%s: word %zu is no property; it is name=value", line->name, i + 1);
        else if (kind == PATTERNS && relay_pattern_fault(word))
            r = mistake(line, "%s: %s %s", line->name, word, relay_pattern_fault(word));
    }
    if (r == 0 && kind == NAMES && words->count > RELAY_REPLICAS_MAX)
        r = mistake(line, "%s: more than %d", line->name, RELAY_REPLICAS_MAX);
    return r;
}

/* A number with a unit behind it. */
static bool read_number(const char *text, enum kind kind, uint64_t *ret_number)
{
    static const struct {
        enum kind kind;
        const char *unit;
        uint64_t size;
    } units[] = {
        { COUNT, "", 1 },
        { SIZE, "", 1 },
        { SIZE, "K", 1 << 10 },
        { SIZE, "M", 1 << 20 },
        { DURATION, "s", HWT_SEC(1) },
        { DURATION, "ms", HWT_MS(1) },
    };
    size_t digits = strspn(text, "0123456789");
    uint64_t number;
    char copy[20];

    if (digits == 0 || digits >= sizeof(copy))
        return false;
    memcpy(copy, text, digits);
    copy[digits] = 0;
    if (!relay_number_read(copy, &number))
        return false;
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
        if (units[i].kind == kind && strcmp(units[i].unit, text + digits) == 0) {
            *ret_number = number > UINT64_MAX / units[i].size ? UINT64_MAX : number * units[i].size;
            return true;
        }
    return false;
}

static int read_value(const struct line *line, const struct setting *setting, void *field)
{
    static const char *const forms[] = { [COUNT] = "a number",
                                         [SIZE] = "bytes, as 65536, 64K or 1M",
                                         [DURATION] = "a duration, as 2s or 500ms" };
    uint64_t number;

    switch (setting->kind) {
    case NAME:
        *(const char **)field = line->value;
        return is_name(line->value) ? 0
                                    : mistake(line,
                                              "%s: %s is no name; names are of letters, digits, "
                                              "_ and -",
                                              line->name, line->value);
    case PATH:
    case TEXT:
        *(const char **)field = line->value;
        return 0;
    case ADDRESS:
        *(const char **)field = line->value;
        return relay_address_is_fine(line->value)
                   ? 0
                   : mistake(line,
                             "%s: %s is no address; it is a number and a port, as 127.0.0.1:9464",
                             line->name, line->value);
    case SUBJECT:
        *(const char **)field = line->value;
        return is_subject(line->value)
                   ? 0
                   : mistake(line, "%s: %s is no subject, as $JS.hub.API", line->name, line->value);
    case ENGINE:
        *(const char **)field = line->value;
        return strcmp(line->value, "nats") == 0 || strcmp(line->value, "kafka") == 0
                   ? 0
                   : mistake(line, "%s: %s is neither nats nor kafka", line->name, line->value);
    case NAMES:
    case WORDS:
    case PROPERTIES:
    case PATTERNS:
        return read_words(line, setting->kind, field);
    default:
        if (!read_number(line->value, setting->kind, &number))
            return mistake(line, "%s: %s is not %s", line->name, line->value, forms[setting->kind]);
        if (number < setting->least || number > setting->most)
            return mistake(line, "%s: %s is out of range", line->name, line->value);
        *(uint64_t *)field = number;
        return 0;
    }
}

static int set(const struct line *line, struct relay_config *config, unsigned seen[SETTINGS])
{
    for (size_t i = 0; i < SETTINGS; i++) {
        if (strcmp(settings[i].name, line->name) != 0)
            continue;
        if (seen[i])
            return mistake(line, "%s is set in line %u already", line->name, seen[i]);
        seen[i] = line->number;
        if (!*line->value)
            return mistake(line, "%s has no value", line->name);
        return read_value(line, &settings[i], (char *)config + settings[i].offset);
    }
    return mistake(line, "there is no setting %s",
                   is_name(line->name) ? line->name : "of that name"); /* it may be a secret */
}

/* The text without blanks at its ends. */
static char *trimmed(char *text)
{
    size_t length;

    text += strspn(text, " \t\r");
    length = strlen(text);
    while (length > 0 && strchr(" \t\r", text[length - 1]))
        text[--length] = 0;
    return text;
}

/* A comment begins behind a blank only, since a password may have any character in it. */
static void cut_comment(char *text)
{
    for (char *c = text; *c; c++)
        if (*c == '#' && (c == text || strchr(" \t", c[-1]))) {
            *c = 0;
            return;
        }
}

static int read_line(struct line *line, char *text, struct relay_config *config,
                     unsigned seen[SETTINGS])
{
    char *value;

    cut_comment(text);
    text = trimmed(text);
    if (!*text)
        return 0;
    value = strchr(text, '=');
    if (!value)
        return mistake(line, "a line is: name = value");
    *value++ = 0;
    line->name = trimmed(text);
    line->value = trimmed(value);
    return set(line, config, seen);
}

/* Of two settings neither has a meaning alone. */
static int check_pairs(const struct line *line, const struct relay_config *config)
{
    const struct {
        const char *names, *one, *other;
    } pairs[] = { { "user and password", config->user, config->password },
                  { "nkey and nkey_seed", config->nkey, config->nkey_seed },
                  { "certificate and key", config->certificate, config->key } };
    int r = 0;

    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++)
        if (!*pairs[i].one != !*pairs[i].other)
            r = mistake(line, "%s belong together: set both", pairs[i].names);
    return r;
}

/* The topics of a space are hwt-SPACE, and that with these behind it. */
static int check_topics(const struct line *line, const char *space)
{
    static const char *const ends[] = { "-dead", "-entries", "-places" };
    const size_t length = strlen(space);

    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
        if (length > strlen(ends[i]) && strcmp(space + length - strlen(ends[i]), ends[i]) == 0)
            return mistake(
                line, "space: on Kafka no space ends with %s, as a topic of another space does",
                ends[i]);
    return 0;
}

static int read_missing(struct line *line, struct relay_config *config, unsigned seen[SETTINGS])
{
    int r = 0;

    for (size_t i = 0; i < SETTINGS; i++) {
        char value[16];
        if (seen[i])
            continue;
        if (!settings[i].missing) {
            r = mistake(line, "%s is not set up to here, and has to be", settings[i].name);
            continue;
        }
        if (settings[i].kind == ADDRESS || settings[i].kind == ENGINE ||
            settings[i].kind == SUBJECT || settings[i].kind == TEXT) {
            *(const char **)((char *)config + settings[i].offset) = settings[i].missing;
            continue;
        }
        snprintf(value, sizeof(value), "%s", settings[i].missing);
        line->name = settings[i].name;
        line->value = value;
        read_value(line, &settings[i], (char *)config + settings[i].offset);
    }
    return r;
}

/* What is wrong with values that are right each by itself. */
static int check_together(const struct line *line, const struct relay_config *config)
{
    int r = check_pairs(line, config), topics = 0;

    if (strcmp(config->engine, "kafka") == 0)
        topics = check_topics(line, config->space);
    for (size_t i = 0; i < config->replicas.count; i++)
        if (strcmp(config->replicas.word[i], config->replica) == 0)
            return r < 0 ? r : topics;
    return mistake(line, "replicas does not have this one, which is %s", config->replica);
}

static int read_text(const char *path, struct relay_config *config)
{
    struct line line = { .path = path };
    unsigned seen[SETTINGS] = { 0 };
    char *next = config->text;
    int r = 0;

    while (next) {
        char *text = strsep(&next, "\n");
        if (!next && !*text)
            break;
        line.number++;
        if (read_line(&line, text, config, seen) < 0)
            r = -EINVAL;
    }
    if (read_missing(&line, config, seen) < 0)
        r = -EINVAL;
    return r < 0 ? r : check_together(&line, config);
}

int relay_config_read(const char *path, struct relay_config *ret_config)
{
    struct relay_config config = { 0 };
    FILE *file = fopen(path, "r");
    size_t room = 0;
    int r = 0;

    if (!file || getdelim(&config.text, &room, 0, file) < 0)
        r = file && feof(file) ? -EINVAL : -errno;
    if (file)
        fclose(file);
    if (r < 0)
        fprintf(stderr, "%s: %s\n", path, r == -EINVAL ? "it is empty" : strerror(-r));
    else
        r = read_text(path, &config);
    if (r < 0)
        free(config.text);
    else
        *ret_config = config;
    return r;
}

void relay_config_free(struct relay_config *config)
{
    free(config->text);
    config->text = NULL;
}

static bool are_equal(enum kind kind, const void *one, const void *other)
{
    const struct relay_words *left = one, *right = other;

    switch (kind) {
    case COUNT:
    case SIZE:
    case DURATION:
        return *(const uint64_t *)one == *(const uint64_t *)other;
    case NAMES:
    case WORDS:
    case PROPERTIES:
    case PATTERNS:
        for (size_t i = 0; i < left->count && left->count == right->count; i++)
            if (strcmp(left->word[i], right->word[i]) != 0)
                return false;
        return left->count == right->count;
    default:
        return strcmp(*(const char *const *)one, *(const char *const *)other) == 0;
    }
}

void relay_config_compare(const struct relay_config *one, const struct relay_config *other,
                          void (*differs)(const char *name, void *arg), void *arg)
{
    for (size_t i = 0; i < SETTINGS; i++)
        if (!are_equal(settings[i].kind, (const char *)one + settings[i].offset,
                       (const char *)other + settings[i].offset))
            differs(settings[i].name, arg);
}
