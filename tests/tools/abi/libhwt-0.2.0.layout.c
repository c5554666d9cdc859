/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Made by abi.sh --release. */

#include <hwt/hwt.h>
#include <hwt/heartbeat.h>
#include <hwt/retry.h>
#include <stddef.h>

_Static_assert(sizeof(struct hwt_options) >= 88, "hwt_options");
_Static_assert(offsetof(struct hwt_options, size) == 0, "hwt_options.size");
_Static_assert(offsetof(struct hwt_options, tick_duration) == 8, "hwt_options.tick_duration");
_Static_assert(offsetof(struct hwt_options, ticks_per_wheel) == 16, "hwt_options.ticks_per_wheel");
_Static_assert(offsetof(struct hwt_options, flags) == 20, "hwt_options.flags");
_Static_assert(offsetof(struct hwt_options, max_pending) == 24, "hwt_options.max_pending");
_Static_assert(offsetof(struct hwt_options, executor) == 32, "hwt_options.executor");
_Static_assert(offsetof(struct hwt_options, executor_data) == 40, "hwt_options.executor_data");
_Static_assert(offsetof(struct hwt_options, clock) == 48, "hwt_options.clock");
_Static_assert(offsetof(struct hwt_options, clock_data) == 56, "hwt_options.clock_data");
_Static_assert(offsetof(struct hwt_options, clock_id) == 64, "hwt_options.clock_id");
_Static_assert(offsetof(struct hwt_options, worker_cpu) == 68, "hwt_options.worker_cpu");
_Static_assert(offsetof(struct hwt_options, worker_name) == 72, "hwt_options.worker_name");
_Static_assert(offsetof(struct hwt_options, initialised) == 80, "hwt_options.initialised");
_Static_assert(sizeof(struct hwt_task) == 16, "hwt_task");
_Static_assert(offsetof(struct hwt_task, run) == 0, "hwt_task.run");
_Static_assert(offsetof(struct hwt_task, cancelled) == 8, "hwt_task.cancelled");
_Static_assert(sizeof(struct hwt_timeout) == 16, "hwt_timeout");
_Static_assert(offsetof(struct hwt_timeout, entry) == 0, "hwt_timeout.entry");
_Static_assert(offsetof(struct hwt_timeout, generation) == 8, "hwt_timeout.generation");
_Static_assert(sizeof(struct hwt_backoff) == 64, "hwt_backoff");
_Static_assert(offsetof(struct hwt_backoff, first_delay) == 0, "hwt_backoff.first_delay");
_Static_assert(offsetof(struct hwt_backoff, max_delay) == 8, "hwt_backoff.max_delay");
_Static_assert(offsetof(struct hwt_backoff, factor) == 16, "hwt_backoff.factor");
_Static_assert(offsetof(struct hwt_backoff, delay) == 24, "hwt_backoff.delay");
_Static_assert(offsetof(struct hwt_backoff, random) == 32, "hwt_backoff.random");
_Static_assert(offsetof(struct hwt_backoff, jitter) == 40, "hwt_backoff.jitter");
_Static_assert(offsetof(struct hwt_backoff, seeded) == 44, "hwt_backoff.seeded");
_Static_assert(offsetof(struct hwt_backoff, jitter_fraction) == 48, "hwt_backoff.jitter_fraction");
_Static_assert(sizeof(struct hwt_retry_budget) == 32, "hwt_retry_budget");
_Static_assert(offsetof(struct hwt_retry_budget, tokens) == 0, "hwt_retry_budget.tokens");
_Static_assert(offsetof(struct hwt_retry_budget, max_tokens) == 8, "hwt_retry_budget.max_tokens");
_Static_assert(offsetof(struct hwt_retry_budget, token_ratio) == 16,
               "hwt_retry_budget.token_ratio");
_Static_assert(sizeof(struct hwt_retry_options) >= 80, "hwt_retry_options");
_Static_assert(offsetof(struct hwt_retry_options, size) == 0, "hwt_retry_options.size");
_Static_assert(offsetof(struct hwt_retry_options, first_delay) == 8,
               "hwt_retry_options.first_delay");
_Static_assert(offsetof(struct hwt_retry_options, max_delay) == 16, "hwt_retry_options.max_delay");
_Static_assert(offsetof(struct hwt_retry_options, factor) == 24, "hwt_retry_options.factor");
_Static_assert(offsetof(struct hwt_retry_options, attempt_timeout) == 32,
               "hwt_retry_options.attempt_timeout");
_Static_assert(offsetof(struct hwt_retry_options, total_timeout) == 40,
               "hwt_retry_options.total_timeout");
_Static_assert(offsetof(struct hwt_retry_options, seed) == 48, "hwt_retry_options.seed");
_Static_assert(offsetof(struct hwt_retry_options, max_attempts) == 56,
               "hwt_retry_options.max_attempts");
_Static_assert(offsetof(struct hwt_retry_options, jitter) == 60, "hwt_retry_options.jitter");
_Static_assert(offsetof(struct hwt_retry_options, jitter_fraction) == 64,
               "hwt_retry_options.jitter_fraction");
_Static_assert(offsetof(struct hwt_retry_options, budget) == 72, "hwt_retry_options.budget");
_Static_assert(sizeof(struct hwt_heartbeat) == 152, "hwt_heartbeat");
_Static_assert(offsetof(struct hwt_heartbeat, last_read) == 0, "hwt_heartbeat.last_read");
_Static_assert(offsetof(struct hwt_heartbeat, last_written) == 8, "hwt_heartbeat.last_written");
_Static_assert(offsetof(struct hwt_heartbeat, state) == 16, "hwt_heartbeat.state");
_Static_assert(offsetof(struct hwt_heartbeat, timer) == 24, "hwt_heartbeat.timer");
_Static_assert(offsetof(struct hwt_heartbeat, timeout) == 32, "hwt_heartbeat.timeout");
_Static_assert(offsetof(struct hwt_heartbeat, rules) == 48, "hwt_heartbeat.rules");
_Static_assert(offsetof(struct hwt_heartbeat, arg) == 56, "hwt_heartbeat.arg");
_Static_assert(offsetof(struct hwt_heartbeat, seen_read) == 64, "hwt_heartbeat.seen_read");
_Static_assert(offsetof(struct hwt_heartbeat, seen_written) == 72, "hwt_heartbeat.seen_written");
_Static_assert(offsetof(struct hwt_heartbeat, due) == 80, "hwt_heartbeat.due");
_Static_assert(offsetof(struct hwt_heartbeat, count) == 120, "hwt_heartbeat.count");
_Static_assert(sizeof(struct hwt_heartbeat_rules) == 80, "hwt_heartbeat_rules");
_Static_assert(offsetof(struct hwt_heartbeat_rules, dead) == 0, "hwt_heartbeat_rules.dead");
_Static_assert(offsetof(struct hwt_heartbeat_rules, reader_idle) == 8,
               "hwt_heartbeat_rules.reader_idle");
_Static_assert(offsetof(struct hwt_heartbeat_rules, writer_idle) == 16,
               "hwt_heartbeat_rules.writer_idle");
_Static_assert(offsetof(struct hwt_heartbeat_rules, all_idle) == 24,
               "hwt_heartbeat_rules.all_idle");
_Static_assert(offsetof(struct hwt_heartbeat_rules, send) == 32, "hwt_heartbeat_rules.send");
_Static_assert(offsetof(struct hwt_heartbeat_rules, notify) == 40, "hwt_heartbeat_rules.notify");
_Static_assert(offsetof(struct hwt_heartbeat_rules, limit) == 48, "hwt_heartbeat_rules.limit");
_Static_assert(sizeof(struct hwt_retry) == 184, "hwt_retry");
_Static_assert(offsetof(struct hwt_retry, state) == 0, "hwt_retry.state");
_Static_assert(offsetof(struct hwt_retry, timeout) == 8, "hwt_retry.timeout");
_Static_assert(offsetof(struct hwt_retry, timer) == 24, "hwt_retry.timer");
_Static_assert(offsetof(struct hwt_retry, task) == 32, "hwt_retry.task");
_Static_assert(offsetof(struct hwt_retry, arg) == 40, "hwt_retry.arg");
_Static_assert(offsetof(struct hwt_retry, backoff) == 48, "hwt_retry.backoff");
_Static_assert(offsetof(struct hwt_retry, attempt_timeout) == 112, "hwt_retry.attempt_timeout");
_Static_assert(offsetof(struct hwt_retry, deadline) == 120, "hwt_retry.deadline");
_Static_assert(offsetof(struct hwt_retry, attempts_left) == 128, "hwt_retry.attempts_left");
_Static_assert(offsetof(struct hwt_retry, wake) == 136, "hwt_retry.wake");
_Static_assert(offsetof(struct hwt_retry, budget) == 144, "hwt_retry.budget");
_Static_assert(offsetof(struct hwt_retry, pen) == 152, "hwt_retry.pen");
_Static_assert(offsetof(struct hwt_retry, told) == 160, "hwt_retry.told");
_Static_assert(sizeof(struct hwt_retry_task) == 16, "hwt_retry_task");
_Static_assert(offsetof(struct hwt_retry_task, attempt) == 0, "hwt_retry_task.attempt");
_Static_assert(offsetof(struct hwt_retry_task, ended) == 8, "hwt_retry_task.ended");
_Static_assert(sizeof(struct hwt_stats) >= 608, "hwt_stats");
_Static_assert(offsetof(struct hwt_stats, size) == 0, "hwt_stats.size");
_Static_assert(offsetof(struct hwt_stats, pending) == 8, "hwt_stats.pending");
_Static_assert(offsetof(struct hwt_stats, added) == 16, "hwt_stats.added");
_Static_assert(offsetof(struct hwt_stats, expired) == 24, "hwt_stats.expired");
_Static_assert(offsetof(struct hwt_stats, cancelled) == 32, "hwt_stats.cancelled");
_Static_assert(offsetof(struct hwt_stats, unprocessed) == 40, "hwt_stats.unprocessed");
_Static_assert(offsetof(struct hwt_stats, rescheduled) == 48, "hwt_stats.rescheduled");
_Static_assert(offsetof(struct hwt_stats, rejected) == 56, "hwt_stats.rejected");
_Static_assert(offsetof(struct hwt_stats, wakeups) == 64, "hwt_stats.wakeups");
_Static_assert(offsetof(struct hwt_stats, memory) == 72, "hwt_stats.memory");
_Static_assert(offsetof(struct hwt_stats, lateness_max) == 80, "hwt_stats.lateness_max");
_Static_assert(offsetof(struct hwt_stats, lateness) == 88, "hwt_stats.lateness");
_Static_assert(offsetof(struct hwt_stats, lateness_sum) == 600, "hwt_stats.lateness_sum");
