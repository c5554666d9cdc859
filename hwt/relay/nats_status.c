/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "hwt/relay/nats_inside.h"

#include <string.h>

/*
 * A pull's answer without a message is a status of HTTP's kind and a text. These are all that the servers 2.9, 2.10, 2.12 and
 * 2.15 send. Behind some texts there is more. What is not here ends nothing: if it has ended a request, heartbeats stay away.
 *
 * That a request has timed out says nothing of the others, since 2.9.10 may drop those that are too old without a word. So all
 * are counted as ended, and asked again.
 */
static const struct {
    const char *status, *text;
    enum nats_status means;
} known[] = {
    { "100", "Idle Heartbeat", NATS_ALL_IS_WELL },
    { "100", "FlowControl Request", NATS_ALL_IS_WELL },
    { "409", "Batch Completed", NATS_ALL_IS_WELL }, /* since 2.10: with bytes left; all has come */
    { "409", "Message Size Exceeds MaxBytes", NATS_REQUEST_ENDS },
    { "404", "No Messages", NATS_REQUESTS_END },
    { "408", "Request Timeout", NATS_REQUESTS_END },
    { "408", "Interest Expired", NATS_REQUESTS_END },
    { "408", "Requests Pending", NATS_REQUESTS_END },
    { "400", "Bad Request", NATS_REQUEST_REFUSED },
    { "409", "Exceeded MaxRequestBatch", NATS_REQUEST_REFUSED },
    { "409", "Exceeded MaxRequestExpires", NATS_REQUEST_REFUSED },
    { "409", "Exceeded MaxRequestMaxBytes", NATS_REQUEST_REFUSED },
    { "409", "Exceeded MaxWaiting", NATS_REQUEST_REFUSED },
    { "412", "Required Api Level", NATS_REQUEST_REFUSED }, /* since 2.12 */
    { "423", "Nats-Wrong-Pin-Id", NATS_REQUEST_REFUSED },  /* since 2.12 */
    { "423", "Nats-Pin-Id mismatch", NATS_REQUEST_REFUSED },
    { "409", "Consumer Deleted", NATS_CONSUMER_ENDS },
    { "409", "Consumer is push based", NATS_CONSUMER_ENDS },
    { "409", "Leadership Change", NATS_CONSUMER_ENDS },
    { "409", "Server Shutdown", NATS_CONSUMER_ENDS },
    { "503", "", NATS_CONSUMER_ENDS }, /* nobody has it any more */
};

enum nats_status relay_nats_status(const char *status, const char *text)
{
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strcmp(status, known[i].status) == 0 &&
            strncmp(text, known[i].text, strlen(known[i].text)) == 0)
            return known[i].means;
    return NATS_UNKNOWN;
}
