/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_TESTS_FUZZ_TARGET_H
#define HWT_TESTS_FUZZ_TARGET_H

#include <stddef.h>
#include <stdint.h>

/* Runs one input and returns 0; aborts where hwt does wrong. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

#endif
