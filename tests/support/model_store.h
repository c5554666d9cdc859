/* SPDX-License-Identifier: LGPL-2.1-or-later */
#ifndef HWT_TESTS_MODEL_STORE_H
#define HWT_TESTS_MODEL_STORE_H

/*
 * In what the stores that can be linked in place of hwt/wheel/wheel.c may differ from it. Without a
 * macro given to the compiler the oracles ask for what the wheel promises.
 */

/* The next tick may be one before that of the soonest timeout: for a timeout of
 * perf/stores/hierarchical.c once for each level that it comes down. It is never a later one. */
#ifndef MODEL_NEXT_IS_A_BOUND
#define MODEL_NEXT_IS_A_BOUND 0
#endif

/* Whether a sweep leaves all of several hints that are the same: of one that was moved and came back. */
#ifndef MODEL_KEEPS_TWINS
#define MODEL_KEEPS_TWINS 0
#endif

#endif
