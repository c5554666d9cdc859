#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""libhwt-delay from Python, by ctypes: copy this file, and import it.

    with hwt_delay.Store("/var/lib/shop/delays") as store:
        store.put([(store.now() + 2 * hwt_delay.SECOND, b"order-17", b"remind")])
        messages = store.take(100, wait=10 * hwt_delay.SECOND)
        for message in messages:
            handle(message)
        store.done(messages)                   # one flush of the disk for all of them

Calls wait without Python's lock, so threads may share a store. A call that fails raises an OSError with what
hwt_delay_strerror(3) says.

As a program it keeps what it reads, "SECONDS ID TEXT" a line, and prints it when it is due:

    python3 hwt_delay.py DIRECTORY
"""

import ctypes
import errno
import sys
import threading
from collections import namedtuple
from ctypes import POINTER, byref, c_char_p, c_int, c_int64, c_size_t, c_uint32, c_uint64, c_void_p, sizeof

SECOND = 1_000_000_000
NEVER = 2**64 - 1
CREATE = 1


class Options(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("flags", c_uint32), ("payload_max", c_uint32),
                ("lease", c_uint64), ("leased_max", c_uint64), ("memory", c_uint64),
                ("segment_size", c_uint64), ("clock_leap", c_uint64)]


class Message(ctypes.Structure):
    _fields_ = [("due", c_uint64), ("id", c_void_p), ("id_size", c_size_t), ("payload", c_void_p),
                ("payload_size", c_size_t), ("lease", c_uint64), ("retries", c_uint32),
                ("expired", c_uint32), ("deliveries", c_uint32), ("reserved32", c_uint32),
                ("first_due", c_uint64), ("reserved", c_uint64 * 2)]


Taken = namedtuple("Taken", "due id payload lease retries expired deliveries first_due")


def load(path="libhwt-delay.so.1"):
    library = ctypes.CDLL(path)
    for name, result, *arguments in [
            ("open", c_int, c_char_p, POINTER(Options), POINTER(c_void_p)),
            ("close", c_int, c_void_p),
            ("strerror", c_char_p, c_int),
            ("now", c_uint64, c_void_p),
            ("put", c_int, c_void_p, POINTER(Message), c_size_t),
            ("cancel", c_int, c_void_p, c_uint64, c_char_p, c_size_t),
            ("take", c_int64, c_void_p, c_size_t, c_uint64, POINTER(POINTER(Message))),
            ("free", None, POINTER(Message)),
            ("done", c_int64, c_void_p, POINTER(c_uint64), c_size_t),
            ("retry", c_int, c_void_p, c_uint64, c_uint64),
            ("wake", c_int, c_void_p)]:
        function = getattr(library, "hwt_delay_" + name)
        function.restype, function.argtypes = result, arguments
    return library


def check(result):
    if result < 0:
        raise OSError(-result, library.hwt_delay_strerror(result).decode())
    return result


def address(data):
    """Of bytes, which have to stay as long as it is used."""
    return ctypes.cast(c_char_p(data), c_void_p)


class Store:
    def __init__(self, path, **options):
        global library
        library = library or load()
        wanted = Options(size=sizeof(Options), flags=CREATE, **options)
        self.store = c_void_p()
        check(library.hwt_delay_open(str(path).encode(), byref(wanted), byref(self.store)))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """No other call may be under way or follow."""
        store, self.store = self.store, None
        check(library.hwt_delay_close(store))

    def now(self):
        return library.hwt_delay_now(self.store)

    def put(self, messages):
        """(due, id, payload) of each. They are on the disk when this returns, all of them."""
        array = (Message * len(messages))(*[
            Message(due=due, id=address(name), id_size=len(name), payload=address(payload), payload_size=len(payload))
            for due, name, payload in messages])
        check(library.hwt_delay_put(self.store, array, len(messages)))

    def cancel(self, due, name):
        check(library.hwt_delay_cancel(self.store, due, name, len(name)))

    def take(self, most, wait=0):
        taken = POINTER(Message)()
        count = check(library.hwt_delay_take(self.store, most, wait, byref(taken)))
        messages = [Taken(m.due, ctypes.string_at(m.id, m.id_size),
                          ctypes.string_at(m.payload, m.payload_size) if m.payload_size else b"",
                          m.lease, m.retries, m.expired, m.deliveries, m.first_due) for m in taken[:count]]
        if count > 0:
            library.hwt_delay_free(taken)
        return messages

    def done(self, messages):
        """Of a take, all at once: each call waits for a flush of the disk. How many were still held."""
        leases = (c_uint64 * len(messages))(*[message.lease for message in messages])
        return check(library.hwt_delay_done(self.store, leases, len(messages))) if messages else 0

    def retry(self, message, due):
        check(library.hwt_delay_retry(self.store, message.lease, due))

    def wake(self):
        check(library.hwt_delay_wake(self.store))


library = None


def say(line):
    sys.stdout.write(line + "\n")  # one write, so lines of two threads do not mix
    sys.stdout.flush()


def keep(store):
    for line in sys.stdin:
        seconds, name, text = line.split(maxsplit=2)
        store.put([(store.now() + int(float(seconds) * SECOND), name.encode(), text.strip().encode())])
        say(f"kept {name}")
    store.wake()


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with Store(sys.argv[1]) as store:
        reader = threading.Thread(target=keep, args=[store])
        reader.start()
        while True:
            try:
                messages = store.take(100, wait=SECOND)
            except OSError as error:
                if error.errno != errno.ECANCELED:  # by wake(): the end of the input
                    raise
                break
            for message in messages:
                say(f"due {message.id.decode()} {message.payload.decode()}")
            store.done(messages)
        reader.join()


if __name__ == "__main__":
    main()
