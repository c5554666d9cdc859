/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What hwt/base/barrier.h takes: it is for fork(), not for threads. */
#define cmm_smp_wmb() ((void)0)
