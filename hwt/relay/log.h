/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_RELAY_LOG_H
#define HWT_RELAY_LOG_H

/* Writes a line for a human to stderr, after the shard's number. The tests have one of their own. */
void relay_log(unsigned shard, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
