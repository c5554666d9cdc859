/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "hwt/relay/message.h"

#include <string.h>

/*
 * The client library does not look at subjects, so this does. Whoever publishes to $JS.API...
 * commands the broker, and with the relay's rights. Whoever publishes to what is the relays' own, or
 * to where they are answered, can make them lose messages.
 */
static const struct {
    const char *begin, *fault;
} reserved[] = {
    { "$", "begins with $, as the broker's own do" },
    { "__", "begins with __, as the broker's own do" },
    { "_INBOX.", "begins with _INBOX., where answers go" },
    { "hwt.", "begins with hwt., as the relays' own do" },
    { "hwt-", "begins with hwt-, as the relays' own do" },
};

static const char *subject_fault(const char *subject)
{
    size_t length = strlen(subject);

    if (length == 0)
        return "is empty";
    if (length > RELAY_TARGET_MAX)
        return "is longer than 255 bytes";
    for (size_t i = 0; i < sizeof(reserved) / sizeof(reserved[0]); i++)
        if (strncmp(subject, reserved[i].begin, strlen(reserved[i].begin)) == 0)
            return reserved[i].fault;
    for (const char *c = subject; *c; c++)
        if ((unsigned char)*c <= ' ' || *c == 0x7f)
            return "has a blank or a control character";
    if (subject[0] == '.' || subject[length - 1] == '.' || strstr(subject, ".."))
        return "has an empty token";
    return NULL;
}

const char *relay_target_fault(const char *target)
{
    return strpbrk(target, "*>") ? "has a wildcard" : subject_fault(target);
}

const char *relay_pattern_fault(const char *pattern)
{
    const char *fault = subject_fault(pattern);

    for (const char *c = pattern; !fault && *c; c++) {
        bool alone = (c == pattern || c[-1] == '.') && (c[1] == 0 || c[1] == '.');
        if ((*c == '*' && !alone) || (*c == '>' && (!alone || c[1] != 0)))
            fault = "has a wildcard that is not a token, or > before the end";
    }
    return fault;
}

bool relay_pattern_matches(const char *pattern, const char *target)
{
    for (;;) {
        size_t wanted = strcspn(pattern, "."), given = strcspn(target, ".");
        if (*pattern == '>')
            return *target != 0;
        if (*pattern == '*' ? given == 0 : wanted != given || strncmp(pattern, target, wanted) != 0)
            return false;
        pattern += wanted;
        target += given;
        if (!*pattern || !*target)
            return *pattern == *target;
        pattern++;
        target++;
    }
}
