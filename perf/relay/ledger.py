# SPDX-License-Identifier: LGPL-2.1-or-later
"""The ends of the messages, in all and after each fault, and a picture of their lateness."""

import bisect
import os

import plots
from faults import BOUND
from load import IN_TIME
from results import share, text_of

LATE = 1.0  # seconds
NAMED = 24  # faults whose names fit into a picture


def expected_at(message):
    """A message that was acknowledged after its due time could not come before."""
    return max(message.due / 1000, message.acked)


def lateness(message):
    return max(min(message.arrived) / 1e9 - expected_at(message), 0)


def met_at(message):
    """When it was under way last: a fault counts for what was not there yet."""
    return min(message.arrived) / 1e9 if message.arrived else message.due / 1000


def is_early(message, faults):
    """An owner whose clock is wrong by less than the bound sends too early by that."""
    if not message.arrived:
        return False
    at = min(message.arrived) / 1e9
    wrong = any(f.allows_early and f.at <= at <= (f.until or at) for f in faults)
    return at + (BOUND if wrong else 0) < message.due / 1000


def is_double(message):
    """A put that the broker has stored twice, in copies that differ, is two messages with an id each."""
    return message.there > max(len(message.ids), 1)


def is_revived(message):
    """Cancelled in time, and came."""
    return is_cancelled_in_time(message) and bool(message.arrived)


def is_cancelled_in_time(message):
    return bool(message.cancelled and message.cancel_acked and not message.cancel_lost
                and message.cancel_acked < message.due / 1000 - IN_TIME)


class Account:
    """The ends of some messages."""

    def __init__(self, messages, faults):
        wanted = [m for m in messages if m.is_wanted()]
        self.count = len(messages)
        self.late_by = [lateness(m) for m in wanted if m.arrived]
        self.missing = sum(not m.arrived and not m.lost for m in wanted)
        self.lost = sum(not m.arrived and m.lost for m in wanted)
        self.early = sum(is_early(m, faults) for m in messages)
        self.double = sum(is_double(m) for m in messages)
        self.late = sum(late > LATE for late in self.late_by)
        self.revived = sum(is_revived(m) for m in messages)

    def cells(self):
        ms = [f"{1000 * share(self.late_by, part):.1f}" for part in (0.5, 0.99, 1)]
        return [self.count, self.missing, self.early, self.double, self.revived, self.lost, self.late] + ms

    def is_fine(self, may_be_double):
        return self.missing + self.early + self.revived == 0 and (may_be_double or self.double == 0)


HEAD = ["messages", "missing", "early", "double", "cancelled, and came", "lost by the broker",
        "late by more than 1 s", "p50 ms", "p99 ms", "max ms"]


def by_kind(met):
    """The same kind of fault taken together: how many there were, and what became of the messages."""
    kinds = {}
    for fault, messages in met:
        kinds.setdefault(fault.kind, []).append(messages)
    return {f"{kind} ({len(lists)})": sum(lists, []) for kind, lists in sorted(kinds.items())}


def list_wrong(begin, messages):
    """Those that did not come, came twice, or came although they were cancelled, for those who look for the reason
    in the logs."""
    lines = []
    for m in messages:
        if not (m.is_wanted() and not m.arrived or m.there > 1 or is_revived(m)):
            continue
        line = (f"{m.name}: at {m.position} of its stream, acknowledged at {m.acked - begin:.3f} s, due at"
                f" {m.due / 1000 - begin:.3f} s") if m.acked else f"{m.name}: not acknowledged"
        if m.cancel_acked:
            line += f", cancelled at {m.cancel_position} of its stream, acknowledged at {m.cancel_acked - begin:.3f} s"
        line += "".join(f", came at {at / 1e9 - begin:.3f} s" for at in m.arrived)
        lines.append(line + ", lost by the broker" * m.lost + "\n")
    return "".join(lines)


def split(messages, faults):
    """Pairs of a fault and the messages that were under way after it, and before the next one; and those
    before all faults."""
    begins = [fault.at for fault in faults]
    met = [(fault, []) for fault in faults]
    before = []
    for message in messages:
        i = bisect.bisect_right(begins, met_at(message)) - 1
        (met[i][1] if i >= 0 else before).append(message)
    return before, met


def settle(begin, messages, strangers, dead, faults, may_be_double=False):
    """What is to be printed, the same for each fault, and whether nothing is wrong."""
    before, met = split(messages, faults)
    whole = Account(messages, faults)
    rows = [["all"] + whole.cells(), ["before any fault"] + Account(before, faults).cells()]
    rows += [[kind] + Account(some, faults).cells() for kind, some in by_kind(met).items()]
    each = [[f"{fault.at - begin:.0f} s: {fault.kind}, {fault.victim}"] + Account(some, faults).cells()
            for fault, some in met]
    silent = sum(m.acked is None for m in messages)
    gone = sum(1 for m in messages if m.arrived and m.there == 0)
    twice = sum(len(m.ids) > 1 for m in messages)
    late = [m for m in messages if m.cancelled and m.cancel_acked and not is_cancelled_in_time(m)]
    says = (f"{sum(m.cancelled for m in messages)} were cancelled, {sum(map(is_cancelled_in_time, messages))} of them"
            f" {IN_TIME} s before the due time or earlier; of {len(late)} others {sum(bool(m.arrived) for m in late)}"
            f" came. {silent} were never acknowledged to the"
            f" producer. {dead} are dead letters. {len(strangers)} came that nobody has put. {gone} had"
            f" come, and are not in the target's stream any more. {twice} were stored twice by the broker.\n")
    return (text_of(["after", *HEAD], rows) + "\n" + says, text_of(["after", *HEAD], each),
            whole.is_fine(may_be_double) and dead == 0 and not strangers)


def draw(begin, messages, faults, title, out):
    """lateness.svg: by the second at which messages were to come."""
    seconds = {}
    for message in messages:
        if message.is_wanted() and message.arrived:
            seconds.setdefault(int(expected_at(message) - begin), []).append(1000 * lateness(message))
    script = [*plots.begin(os.path.join(out, "lateness.svg"), title, "s", "late by ms"), "set logscale y",
              f"set yrange [0.1:{40 * max(map(max, seconds.values())) + 1:.0f}]"]
    for i, fault in enumerate(faults):
        at = f"{fault.at - begin:.2f}"
        script.append(f"set arrow {i + 1} from {at},graph 0 to {at},graph 1 nohead lc rgb '#c00030' dt 2")
        if len(faults) > NAMED:
            continue
        script.append(f"set label {i + 1} {plots.quoted(fault.kind + ', ' + fault.victim)} at {at},graph 0.99"
                      " right rotate by 90 offset 0.8,0 font ',10'")
    lines = [("median", 0.5, "#0060c0"), ("p99", 0.99, "#d07000"), ("latest", 1, "#808080")]
    script.append("plot " + ", ".join(f"'-' with lines lw 1.5 lc rgb '{colour}' title '{name}'"
                                      for name, _, colour in lines))
    for _, part, _ in lines:
        script += [f"{second + 0.5} {max(share(found, part), 0.1):.3f}"
                   for second, found in sorted(seconds.items())] + ["e"]
    plots.tell(script, os.path.join(out, "lateness.svg"))
