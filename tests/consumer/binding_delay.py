# SPDX-License-Identifier: LGPL-2.1-or-later
"""hwt-delay by ctypes: the structs are laid out as this file and the recipe hwt_delay.py say, or it fails.

usage: binding_delay.py LIBRARY DIRECTORY
       binding_delay.py --layout        prints a C program that can be compiled only if the header says the same
"""
import ctypes
import errno
import glob
import os
import re
import sys
from ctypes import (CFUNCTYPE, POINTER, Structure, byref, c_char_p, c_int, c_int32, c_int64,
                    c_size_t, c_uint32, c_uint64, c_void_p, create_string_buffer, pointer, sizeof,
                    string_at)

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "recipes"))
import hwt_delay  # noqa: E402
from hwt_delay import CREATE, NEVER, SECOND, Options  # noqa: E402

EINVAL = 22
ENOENT = 2


class Message(Structure):
    _fields_ = [("due", c_uint64), ("id", c_char_p), ("id_size", c_size_t), ("payload", c_char_p),
                ("payload_size", c_size_t), ("lease", c_uint64), ("retries", c_uint32),
                ("expired", c_uint32), ("deliveries", c_uint32), ("reserved32", c_uint32),
                ("first_due", c_uint64), ("reserved", c_uint64 * 2)]


class Change(Structure):
    _fields_ = [("op", c_uint32), ("flags", c_uint32), ("result", c_int32),
                ("reserved32", c_uint32), ("message", POINTER(Message)), ("lease", c_uint64),
                ("due", c_uint64), ("id", c_char_p), ("id_size", c_size_t), ("mark", c_uint64),
                ("ticket", c_char_p), ("reserved", c_uint64 * 2)]


class Batch(Structure):
    _fields_ = [("size", c_size_t), ("flags", c_uint32), ("reserved", c_uint32),
                ("note", c_char_p), ("note_size", c_size_t), ("durable", c_void_p),
                ("arg", c_void_p), ("mark", c_uint64)]


PUT, CANCEL, DONE = 1, 2, 4
MAY_FAIL = 1


# Up to the first counters: what is not known here is not asked for.
NAMES = ("pending leased put cancelled taken done retried expired rejected commits syncs log_bytes "
         "slot_bytes checkpoints replayed cut salvaged salvaged_bytes clock_leaps memory disk files "
         "hand next gaps").split()


class Stats(Structure):
    _fields_ = ([("size", c_size_t)] + [(name, c_uint64) for name in NAMES] +
                [(name, c_uint32) for name in ("held", "full", "poisoned", "not_durable")])


class Damage(Structure):
    _fields_ = [("size", c_size_t), ("file", c_char_p), ("offset", c_uint64), ("length", c_uint64),
                ("reason", c_char_p)]


DURABLE = CFUNCTYPE(None, c_int, c_void_p)
VISIT = CFUNCTYPE(c_int, POINTER(Message), c_void_p)
FOUND = CFUNCTYPE(None, POINTER(Damage), c_void_p)


def load(path):
    lib = ctypes.CDLL(path)
    for name, result, *arguments in [
            ("hwt_delay_options_init", c_int, POINTER(Options), c_size_t),
            ("hwt_delay_stats_init", c_int, POINTER(Stats), c_size_t),
            ("hwt_delay_batch_init", c_int, POINTER(Batch), c_size_t),
            ("hwt_delay_apply", c_int, c_void_p, POINTER(Change), c_size_t, POINTER(Batch)),
            ("hwt_delay_note", c_int64, c_void_p, c_char_p, c_size_t, POINTER(c_uint64)),
            ("hwt_delay_open", c_int, c_char_p, POINTER(Options), POINTER(c_void_p)),
            ("hwt_delay_close", c_int, c_void_p),
            ("hwt_delay_checkpoint", c_int, c_void_p),
            ("hwt_delay_now", c_uint64, c_void_p),
            ("hwt_delay_put", c_int, c_void_p, POINTER(Message), c_size_t),
            ("hwt_delay_put_async", c_int, c_void_p, POINTER(Message), c_size_t, DURABLE, c_void_p),
            ("hwt_delay_take", c_int64, c_void_p, c_size_t, c_uint64, POINTER(POINTER(Message))),
            ("hwt_delay_free", None, POINTER(Message)),
            ("hwt_delay_done", c_int64, c_void_p, POINTER(c_uint64), c_size_t),
            ("hwt_delay_take_frontier", c_int64, c_void_p, c_size_t, c_uint64,
             POINTER(POINTER(Message)), POINTER(c_uint64)),
            ("hwt_delay_ticket", c_int64, POINTER(Message), c_char_p, c_size_t),
            ("hwt_delay_look_up", c_int, c_void_p, c_char_p, POINTER(POINTER(Message))),
            ("hwt_delay_move", c_int, c_void_p, c_char_p, c_uint64),
            ("hwt_delay_cancel_ticket", c_int, c_void_p, c_char_p),
            ("hwt_delay_check", c_int64, c_void_p, FOUND, c_void_p),
            ("hwt_delay_visit", c_int, c_void_p, c_uint64, c_uint64, VISIT, c_void_p),
            ("hwt_delay_get_stats", c_int, c_void_p, POINTER(Stats))]:
        function = getattr(lib, name)
        function.restype, function.argtypes = result, arguments
    return lib


def expect(what, got, wanted):
    if got != wanted:
        sys.exit(f"binding_delay.py: {what}: {got}, not {wanted}")


def test_layout(lib):
    options = Options()
    expect("init", lib.hwt_delay_options_init(byref(options), sizeof(options)), 0)
    expect("options", [getattr(options, name) for name, _ in Options._fields_],
           [sizeof(Options), 0, 1 << 20, 60 * SECOND, 65536, 128 << 20, 64 << 20, 3600 * SECOND])
    expect("a wrong size", lib.hwt_delay_options_init(byref(options), 7), -EINVAL)
    batch = Batch(mark=1)
    expect("init", lib.hwt_delay_batch_init(byref(batch), sizeof(batch)), 0)
    expect("batch", (batch.size, batch.note, batch.durable, batch.mark),
           (sizeof(batch), None, None, 0))
    expect("stats of a wrong size", lib.hwt_delay_stats_init(byref(Stats()), 8), -EINVAL)


def test_batch(lib, store):
    """A message is done in one step with a put, a note, and a cancel of what is not there."""
    now = lib.hwt_delay_now(store)
    first = Message(due=now, id=b"first", id_size=5)
    expect("put", lib.hwt_delay_put(store, byref(first), 1), 0)
    taken = POINTER(Message)()
    expect("take", lib.hwt_delay_take(store, 1, 30 * SECOND, byref(taken)), 1)
    expect("deliveries", taken[0].deliveries, 1)
    later = Message(due=now + 3600 * SECOND, id=b"next", id_size=4)
    changes = (Change * 3)(Change(op=DONE, lease=taken[0].lease),
                           Change(op=CANCEL, due=now, id=b"none", id_size=4, flags=MAY_FAIL),
                           Change(op=PUT, message=pointer(later)))
    batch = Batch(size=sizeof(Batch), note=b"here", note_size=4)
    expect("apply", lib.hwt_delay_apply(store, changes, 3, byref(batch)), 0)
    expect("results", [change.result for change in changes], [0, -ENOENT, 0])
    lib.hwt_delay_free(taken)
    note, mark = create_string_buffer(10), c_uint64()
    expect("note", lib.hwt_delay_note(store, note, 10, byref(mark)), 4)
    expect("its bytes and its mark", (note.value, mark.value), (b"here", batch.mark))
    cancel = Change(op=CANCEL, due=later.due, id=b"next", id_size=4)
    expect("cancel", lib.hwt_delay_apply(store, byref(cancel), 1, None), 0)


def test_ticket(lib, store):
    """A message is moved, looked up and cancelled by its ticket."""
    due = lib.hwt_delay_now(store) + 3600 * SECOND
    message = Message(due=due, id=b"named", id_size=5)
    expect("put", lib.hwt_delay_put(store, byref(message), 1), 0)
    ticket = create_string_buffer(784)
    expect("ticket", lib.hwt_delay_ticket(byref(message), ticket, 784), len(ticket.value))
    expect("move", lib.hwt_delay_move(store, ticket.value, due + SECOND), 0)
    found, frontier = POINTER(Message)(), c_uint64()
    expect("look_up", lib.hwt_delay_look_up(store, ticket.value, byref(found)), 0)
    expect("what it says", (found[0].due, found[0].first_due), (due + SECOND, due))
    lib.hwt_delay_free(found)
    expect("cancel", lib.hwt_delay_cancel_ticket(store, ticket.value), 0)
    expect("look_up", lib.hwt_delay_look_up(store, ticket.value, byref(found)), -ENOENT)
    expect("take", lib.hwt_delay_take_frontier(store, 1, 0, byref(found), byref(frontier)), 0)
    expect("frontier", due - 3600 * SECOND <= frontier.value < due, True)


def test_check(lib, directory):
    """A flipped bit of a slot is found, and told in a struct that says how long it is."""
    store, told = c_void_p(), []
    expect("open", lib.hwt_delay_open(directory.encode(), None, byref(store)), 0)
    expect("check", lib.hwt_delay_check(store, FOUND(0), None), 0)
    expect("checkpoint", lib.hwt_delay_checkpoint(store), 0)
    slot = glob.glob(directory + "/slot-*")[0]
    with open(slot, "r+b") as file:
        file.seek(-1, 2)
        last = file.read(1)
        file.seek(-1, 2)
        file.write(bytes([last[0] ^ 1]))
    found = FOUND(lambda damage, _: told.append((damage[0].size, damage[0].file)))
    expect("check", lib.hwt_delay_check(store, found, None), 1)
    expect("told", told, [(sizeof(Damage), os.path.basename(slot).encode())])
    expect("close", lib.hwt_delay_close(store), 0)


def test_life(lib, directory):
    """Two messages are put and seen, the first one is taken and done, in order."""
    store = c_void_p()
    options = Options(size=sizeof(Options), flags=CREATE, segment_size=8 << 20)
    expect("open", lib.hwt_delay_open(directory.encode(), byref(options), byref(store)), 0)
    test_batch(lib, store)
    test_ticket(lib, store)
    now = lib.hwt_delay_now(store)
    batch = (Message * 2)(Message(due=now + 3600 * SECOND, id=b"later", id_size=5),
                          Message(due=now, id=b"soon", id_size=4, payload=b"x\0y",
                                  payload_size=3))
    expect("put", lib.hwt_delay_put(store, batch, 2), 0)
    results = []
    durable = DURABLE(lambda result, arg: results.append((result, arg)))
    third = Message(due=now + 60 * SECOND, id=b"third", id_size=5)
    expect("put_async", lib.hwt_delay_put_async(store, byref(third), 1, durable, 7), 0)

    taken = POINTER(Message)()
    expect("take", lib.hwt_delay_take(store, 10, 30 * SECOND, byref(taken)), 1)
    expect("id", taken[0].id[:taken[0].id_size], b"soon")
    # c_char_p stops at a zero byte: the address itself is wanted.
    payload = c_void_p.from_buffer(taken[0], Message.payload.offset).value
    expect("payload", string_at(payload, taken[0].payload_size), b"x\0y")
    expect("done", lib.hwt_delay_done(store, byref(c_uint64(taken[0].lease)), 1), 1)
    lib.hwt_delay_free(taken)

    seen = []
    visit = VISIT(lambda message, _: seen.append(message[0].due - now) or 0)
    expect("visit", lib.hwt_delay_visit(store, 0, NEVER, visit, None), 0)
    expect("seen", seen, [60 * SECOND, 3600 * SECOND])
    stats = Stats()
    expect("init", lib.hwt_delay_stats_init(byref(stats), sizeof(stats)), 0)
    expect("stats", lib.hwt_delay_get_stats(store, byref(stats)), 0)
    expect("counters", (stats.put, stats.taken, stats.done, stats.held), (6, 2, 2, 0))
    expect("close", lib.hwt_delay_close(store), 0)
    expect("callbacks", results, [(0, 7)])


def print_layout():
    print("#include <hwt/delay.h>\n#include <stddef.h>")
    # Of the stats the first fields are here.
    for name, struct, whole in [("options", Options, True), ("message", Message, True),
                                ("message", hwt_delay.Message, True), ("change", Change, True),
                                ("batch", Batch, True), ("damage", Damage, True), ("stats", Stats, False)]:
        if whole:
            print(f'_Static_assert(sizeof(hwt_delay_{name}) == {sizeof(struct)}, "");')
        for field, _ in struct._fields_:
            place = getattr(struct, field)
            print(f'_Static_assert(offsetof(hwt_delay_{name}, {field}) == {place.offset}, "");')
            print(f'_Static_assert(sizeof(((hwt_delay_{name} *)0)->{field}) == {place.size}, "");')
    for name, value in [("HWT_DELAY_CREATE", CREATE), ("HWT_SEC(1)", SECOND), ("HWT_NEVER", NEVER),
                        ("HWT_DELAY_OP_PUT", PUT), ("HWT_DELAY_OP_CANCEL", CANCEL), ("HWT_DELAY_OP_DONE", DONE),
                        ("HWT_DELAY_MAY_FAIL", MAY_FAIL)]:
        print(f'_Static_assert({name} == UINT64_C({value}), "");')
    print("int main(void) { return 0; }")


def test_words(lib, header):
    """Each error that the header names has words of its own."""
    with open(header) as file:
        named = set(re.findall(r"-(E[A-Z]+)", file.read()))
    expect("errors are named", len(named) > 20, True)
    lib.hwt_delay_strerror.restype = c_char_p
    for name in named:
        number = getattr(errno, name)
        words = lib.hwt_delay_strerror(-number).decode()
        expect(f"words for {name}", words != os.strerror(number), True)


def main():
    if sys.argv[1:] == ["--layout"]:
        print_layout()
        return
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    lib = load(sys.argv[1])
    test_layout(lib)
    test_words(lib, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../hwt/delay.h"))
    test_life(lib, sys.argv[2])
    test_check(lib, sys.argv[2])


main()
