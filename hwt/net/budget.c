/* SPDX-License-Identifier: LGPL-2.1-or-later */

/*
 * A budget of retries that many share. See retry.h for what it does.
 *
 * GROUND RULES
 *
 * tokens    Anybody's, by compare-exchange. Relaxed: it is a number, and publishes nothing. The
 *           changes of one atomic word have one order, which is all that the count rests on. A
 *           full one is not written: where all goes well its line is shared by all processors.
 *
 * the rest  Written by hwt_retry_budget_init() alone, before the budget is shared.
 */

#include <errno.h>

#include "hwt/retry.h"

#define TOKEN UINT64_C(1000) /* the unit is a thousandth */
#define TOKENS_MAX 1000000

int hwt_retry_budget_init(hwt_retry_budget *budget, uint32_t max_tokens, double token_ratio)
{
    if (!budget || max_tokens == 0 || max_tokens > TOKENS_MAX)
        return -EINVAL;
    if (!(token_ratio >= 0.001 && token_ratio <= max_tokens)) /* nor is it not a number */
        return -EINVAL;
    *budget = (hwt_retry_budget){
        .tokens = max_tokens * TOKEN,
        .max_tokens = max_tokens * TOKEN,
        .token_ratio = (uint64_t)(token_ratio * (double)TOKEN + 0.5),
    };
    return 0;
}

static bool allows(const hwt_retry_budget *budget, uint64_t tokens)
{
    return tokens > budget->max_tokens / 2;
}

static bool exchange(hwt_retry_budget *budget, uint64_t *seen, uint64_t tokens)
{
    return __atomic_compare_exchange_n(&budget->tokens, seen, tokens, true, __ATOMIC_RELAXED,
                                       __ATOMIC_RELAXED);
}

bool hwt_retry_budget_failed(hwt_retry_budget *budget)
{
    if (!budget)
        return true;
    uint64_t seen = __atomic_load_n(&budget->tokens, __ATOMIC_RELAXED);
    uint64_t left;
    do {
        left = seen > TOKEN ? seen - TOKEN : 0;
    } while (left != seen && !exchange(budget, &seen, left));
    return allows(budget, left);
}

void hwt_retry_budget_succeeded(hwt_retry_budget *budget)
{
    if (!budget)
        return;
    uint64_t seen = __atomic_load_n(&budget->tokens, __ATOMIC_RELAXED);
    uint64_t more;
    do {
        more = seen + budget->token_ratio;
        more = more < budget->max_tokens ? more : budget->max_tokens;
    } while (more != seen && !exchange(budget, &seen, more));
}

bool hwt_retry_budget_allows(const hwt_retry_budget *budget)
{
    return !budget || allows(budget, __atomic_load_n(&budget->tokens, __ATOMIC_RELAXED));
}
