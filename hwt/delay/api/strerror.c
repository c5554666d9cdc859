/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* What the errors of a store mean, and what to do. */

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "hwt/delay.h"

static const struct {
    int error;
    const char *text;
} explanations[] = {
    { 0, "it is done" },
    { EINVAL, "an argument is not allowed" },
    { ENOENT, "no store is there, or no message or lease; HWT_DELAY_CREATE or hwt-delay put "
              "--create makes a store, in a directory that exists" },
    { ENOTEMPTY, "the directory has other things in it: name one that is empty or not there yet" },
    { ENOTDIR, "not a directory: name the store's directory" },
    { EACCES, "not permitted: use the account that owns the store" },
    { EROFS, "the store is opened to be looked at, or the file system is read-only; stat, dump and "
             "check still work" },
    { ENOSPC, "the disk is full: make room; what was put before is safe" },
    { EMFILE, "too many open files: raise the limit (ulimit -n)" },
    { ENFILE, "too many open files on this machine" },
    { EAGAIN,
      "not without waiting: try again a little later; an opening found no thread: raise the "
      "limit (ulimit -u)" },
    { ENOMEM, "not enough memory" },
    { EBUSY, "another process owns the store: stop that one first, stat, dump and check still work; "
             "or the message is leased" },
    { EEXIST, "another message has this due time and id" },
    { EPERM, "the store stands by: hwt_delay_lead() ends that" },
    { ENOTSUP, "it was made by a later release: use that release" },
    { EPROTONOSUPPORT, "an earlier release made it: write it out with that release's "
                       "hwt-delay dump --messages, and read that with put --lines" },
    { EBADMSG, "it is damaged: hwt-delay check says where, hwt-delay salvage saves the rest" },
    { ESTALE, "its owner changes it too quickly to be read: try again" },
    { EIO, "reading or writing the disk failed, see the kernel's log; a store of which a flush has "
           "failed must be opened anew" },
    { EMSGSIZE, "a payload, a note or the batch is too long" },
    { ENOBUFS, "as many are leased, or as many drops are kept, as there is room for: be done with "
               "messages, or raise leased_max or memory" },
    { ETIME, "the clock has leapt forward, and nothing is handed over: put it right, or call "
             "hwt_delay_accept_clock() if it is right now" },
    { ECANCELED, "hwt_delay_wake() was called, or the change was not made because another was "
                 "refused" },
};

const char *hwt_delay_strerror(int error)
{
    int number = error < 0 && error > INT_MIN ? -error : error;
    for (size_t i = 0; i < sizeof(explanations) / sizeof(explanations[0]); i++)
        if (explanations[i].error == number)
            return explanations[i].text;
    return strerror(number);
}
