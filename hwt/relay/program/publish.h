/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_RELAY_PUBLISH_H
#define HWT_RELAY_PUBLISH_H

#include "hwt/relay/engine.h"
#include "hwt/relay/program/program.h"

/* A put, as the relay will judge it. 0; or `reason` says why it would be a dead letter. */
int publish_judge(const struct request *request, const struct relay_limits *limits,
                  const struct relay_message *message, const struct relay_order *order,
                  char reason[RELAY_REASON_MAX]);

#endif
