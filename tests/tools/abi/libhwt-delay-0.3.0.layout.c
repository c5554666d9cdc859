/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Made by abi.sh --release. */

#include <hwt/delay.h>
#include <stddef.h>

_Static_assert(sizeof(struct hwt_delay_change) == 88, "hwt_delay_change");
_Static_assert(offsetof(struct hwt_delay_change, op) == 0, "hwt_delay_change.op");
_Static_assert(offsetof(struct hwt_delay_change, flags) == 4, "hwt_delay_change.flags");
_Static_assert(offsetof(struct hwt_delay_change, result) == 8, "hwt_delay_change.result");
_Static_assert(offsetof(struct hwt_delay_change, message) == 16, "hwt_delay_change.message");
_Static_assert(offsetof(struct hwt_delay_change, lease) == 24, "hwt_delay_change.lease");
_Static_assert(offsetof(struct hwt_delay_change, due) == 32, "hwt_delay_change.due");
_Static_assert(offsetof(struct hwt_delay_change, id) == 40, "hwt_delay_change.id");
_Static_assert(offsetof(struct hwt_delay_change, id_size) == 48, "hwt_delay_change.id_size");
_Static_assert(offsetof(struct hwt_delay_change, mark) == 56, "hwt_delay_change.mark");
_Static_assert(offsetof(struct hwt_delay_change, ticket) == 64, "hwt_delay_change.ticket");
_Static_assert(sizeof(struct hwt_delay_damage) >= 40, "hwt_delay_damage");
_Static_assert(offsetof(struct hwt_delay_damage, size) == 0, "hwt_delay_damage.size");
_Static_assert(offsetof(struct hwt_delay_damage, file) == 8, "hwt_delay_damage.file");
_Static_assert(offsetof(struct hwt_delay_damage, offset) == 16, "hwt_delay_damage.offset");
_Static_assert(offsetof(struct hwt_delay_damage, length) == 24, "hwt_delay_damage.length");
_Static_assert(offsetof(struct hwt_delay_damage, reason) == 32, "hwt_delay_damage.reason");
_Static_assert(sizeof(struct hwt_delay_message) == 88, "hwt_delay_message");
_Static_assert(offsetof(struct hwt_delay_message, due) == 0, "hwt_delay_message.due");
_Static_assert(offsetof(struct hwt_delay_message, id) == 8, "hwt_delay_message.id");
_Static_assert(offsetof(struct hwt_delay_message, id_size) == 16, "hwt_delay_message.id_size");
_Static_assert(offsetof(struct hwt_delay_message, payload) == 24, "hwt_delay_message.payload");
_Static_assert(offsetof(struct hwt_delay_message, payload_size) == 32,
               "hwt_delay_message.payload_size");
_Static_assert(offsetof(struct hwt_delay_message, lease) == 40, "hwt_delay_message.lease");
_Static_assert(offsetof(struct hwt_delay_message, retries) == 48, "hwt_delay_message.retries");
_Static_assert(offsetof(struct hwt_delay_message, expired) == 52, "hwt_delay_message.expired");
_Static_assert(offsetof(struct hwt_delay_message, deliveries) == 56,
               "hwt_delay_message.deliveries");
_Static_assert(offsetof(struct hwt_delay_message, first_due) == 64, "hwt_delay_message.first_due");
_Static_assert(sizeof(struct hwt_delay_options) >= 56, "hwt_delay_options");
_Static_assert(offsetof(struct hwt_delay_options, size) == 0, "hwt_delay_options.size");
_Static_assert(offsetof(struct hwt_delay_options, flags) == 8, "hwt_delay_options.flags");
_Static_assert(offsetof(struct hwt_delay_options, payload_max) == 12,
               "hwt_delay_options.payload_max");
_Static_assert(offsetof(struct hwt_delay_options, lease) == 16, "hwt_delay_options.lease");
_Static_assert(offsetof(struct hwt_delay_options, leased_max) == 24,
               "hwt_delay_options.leased_max");
_Static_assert(offsetof(struct hwt_delay_options, memory) == 32, "hwt_delay_options.memory");
_Static_assert(offsetof(struct hwt_delay_options, segment_size) == 40,
               "hwt_delay_options.segment_size");
_Static_assert(offsetof(struct hwt_delay_options, clock_leap) == 48,
               "hwt_delay_options.clock_leap");
_Static_assert(sizeof(struct hwt_delay_batch) >= 56, "hwt_delay_batch");
_Static_assert(offsetof(struct hwt_delay_batch, size) == 0, "hwt_delay_batch.size");
_Static_assert(offsetof(struct hwt_delay_batch, flags) == 8, "hwt_delay_batch.flags");
_Static_assert(offsetof(struct hwt_delay_batch, note) == 16, "hwt_delay_batch.note");
_Static_assert(offsetof(struct hwt_delay_batch, note_size) == 24, "hwt_delay_batch.note_size");
_Static_assert(offsetof(struct hwt_delay_batch, durable) == 32, "hwt_delay_batch.durable");
_Static_assert(offsetof(struct hwt_delay_batch, arg) == 40, "hwt_delay_batch.arg");
_Static_assert(offsetof(struct hwt_delay_batch, mark) == 48, "hwt_delay_batch.mark");
_Static_assert(sizeof(struct hwt_delay_stats) >= 752, "hwt_delay_stats");
_Static_assert(offsetof(struct hwt_delay_stats, size) == 0, "hwt_delay_stats.size");
_Static_assert(offsetof(struct hwt_delay_stats, pending) == 8, "hwt_delay_stats.pending");
_Static_assert(offsetof(struct hwt_delay_stats, leased) == 16, "hwt_delay_stats.leased");
_Static_assert(offsetof(struct hwt_delay_stats, put) == 24, "hwt_delay_stats.put");
_Static_assert(offsetof(struct hwt_delay_stats, cancelled) == 32, "hwt_delay_stats.cancelled");
_Static_assert(offsetof(struct hwt_delay_stats, taken) == 40, "hwt_delay_stats.taken");
_Static_assert(offsetof(struct hwt_delay_stats, done) == 48, "hwt_delay_stats.done");
_Static_assert(offsetof(struct hwt_delay_stats, retried) == 56, "hwt_delay_stats.retried");
_Static_assert(offsetof(struct hwt_delay_stats, expired) == 64, "hwt_delay_stats.expired");
_Static_assert(offsetof(struct hwt_delay_stats, rejected) == 72, "hwt_delay_stats.rejected");
_Static_assert(offsetof(struct hwt_delay_stats, commits) == 80, "hwt_delay_stats.commits");
_Static_assert(offsetof(struct hwt_delay_stats, syncs) == 88, "hwt_delay_stats.syncs");
_Static_assert(offsetof(struct hwt_delay_stats, log_bytes) == 96, "hwt_delay_stats.log_bytes");
_Static_assert(offsetof(struct hwt_delay_stats, slot_bytes) == 104, "hwt_delay_stats.slot_bytes");
_Static_assert(offsetof(struct hwt_delay_stats, checkpoints) == 112, "hwt_delay_stats.checkpoints");
_Static_assert(offsetof(struct hwt_delay_stats, replayed) == 120, "hwt_delay_stats.replayed");
_Static_assert(offsetof(struct hwt_delay_stats, cut) == 128, "hwt_delay_stats.cut");
_Static_assert(offsetof(struct hwt_delay_stats, salvaged) == 136, "hwt_delay_stats.salvaged");
_Static_assert(offsetof(struct hwt_delay_stats, salvaged_bytes) == 144,
               "hwt_delay_stats.salvaged_bytes");
_Static_assert(offsetof(struct hwt_delay_stats, clock_leaps) == 152, "hwt_delay_stats.clock_leaps");
_Static_assert(offsetof(struct hwt_delay_stats, memory) == 160, "hwt_delay_stats.memory");
_Static_assert(offsetof(struct hwt_delay_stats, disk) == 168, "hwt_delay_stats.disk");
_Static_assert(offsetof(struct hwt_delay_stats, files) == 176, "hwt_delay_stats.files");
_Static_assert(offsetof(struct hwt_delay_stats, hand) == 184, "hwt_delay_stats.hand");
_Static_assert(offsetof(struct hwt_delay_stats, next) == 192, "hwt_delay_stats.next");
_Static_assert(offsetof(struct hwt_delay_stats, gaps) == 200, "hwt_delay_stats.gaps");
_Static_assert(offsetof(struct hwt_delay_stats, held) == 208, "hwt_delay_stats.held");
_Static_assert(offsetof(struct hwt_delay_stats, full) == 212, "hwt_delay_stats.full");
_Static_assert(offsetof(struct hwt_delay_stats, poisoned) == 216, "hwt_delay_stats.poisoned");
_Static_assert(offsetof(struct hwt_delay_stats, not_durable) == 220, "hwt_delay_stats.not_durable");
_Static_assert(offsetof(struct hwt_delay_stats, lateness_max) == 224,
               "hwt_delay_stats.lateness_max");
_Static_assert(offsetof(struct hwt_delay_stats, lateness) == 232, "hwt_delay_stats.lateness");
_Static_assert(offsetof(struct hwt_delay_stats, lateness_sum) == 744,
               "hwt_delay_stats.lateness_sum");
