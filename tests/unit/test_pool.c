/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Slabs, caches and batches; what goes back to the system, and what must hold when it does. */

#include "pool_fixture.h"

enum { MANY = 12 * SLAB };

static struct hwt_entry *all[MANY];

/* Of all slabs that were ever mapped. */
static uint64_t sites_bytes(void)
{
    return hwt_directory_bytes(&pool.directory) + pool.slabs * sizeof(struct hwt_site);
}

START_TEST(a_new_pool_holds_nothing)
{
    uint32_t number = 0, place = 0;
    ck_assert_uint_eq(hwt_pool_bytes(&pool), sites_bytes());
    ck_assert_uint_eq(sites_bytes(), SITES_FIRST * sizeof(void *) + sizeof(struct hwt_site));
    ck_assert_uint_eq(count_batches(), 0);
    ck_assert_ptr_null(hwt_pool_walk(&pool, &number, &place));
}
END_TEST

START_TEST(an_entry_its_id_its_timer_and_its_place_belong_together)
{
    take_many(all, 3 * SLAB);
    for (uint32_t i = 0; i < 3 * SLAB; i++) {
        struct hwt_entry *entry = all[i];
        must(hwt_pool_entry(&pool, hwt_entry_id(entry)) == entry);
        must(hwt_timer_of(entry) == (hwt_timer *)(void *)&owner);
        must(hwt_phase(hwt_entry_state(entry)) == HWT_PHASE_NEW);
        must((uintptr_t)entry % 16 == 0);
    }
}
END_TEST

/* All that a slab has, written over: no two of them share a byte, and the head is still right. */
START_TEST(heads_entries_and_places_of_a_slab_are_apart)
{
    take_many(all, 3 * SLAB);
    for (uint32_t i = 0; i < 3 * SLAB; i++) {
        memset(all[i], (int)(i % 251), sizeof(struct hwt_entry));
        memset(hwt_directory_place(&pool.directory, hwt_entry_id(all[i])), (int)(i % 241),
               sizeof(struct hwt_place));
    }
    for (uint32_t i = 0; i < 3 * SLAB; i++) {
        const unsigned char *entry = (const unsigned char *)all[i];
        const struct hwt_place *at = hwt_directory_place(&pool.directory, hwt_entry_id(all[i]));
        const unsigned char *place = (const unsigned char *)at;
        for (size_t k = 0; k < sizeof(struct hwt_entry); k++)
            must(entry[k] == i % 251);
        for (size_t k = 0; k < sizeof(struct hwt_place); k++)
            must(place[k] == i % 241);
        must(hwt_entry_id(all[i]) == hwt_entry_id(all[i]));
        must(hwt_slab_base(place) == hwt_slab_base(entry));
    }
}
END_TEST

START_TEST(each_entry_of_a_slab_is_given_out_once)
{
    static bool seen[HWT_SLAB_SEATS];
    memset(seen, 0, sizeof(seen));
    for (uint32_t i = 0; i < SLAB; i++) {
        uint32_t id = hwt_entry_id(take_one());
        must(id < HWT_SLAB_SEATS && !seen[id]);
        seen[id] = true;
    }
    ck_assert_uint_eq(pool.slabs, 1);
    ck_assert_uint_eq(cache.count, 0);
    ck_assert_uint_eq(count_batches(), 0);
    ck_assert_uint_eq(hwt_pool_bytes(&pool), sites_bytes() + HWT_SLAB_SIZE);
    ck_assert_uint_eq(hwt_entry_id(take_one()) >> HWT_ID_BITS, 1);
    ck_assert_uint_eq(hwt_pool_bytes(&pool), sites_bytes() + 2 * HWT_SLAB_SIZE);
    ck_assert_uint_eq(count_batches() + cache.count, SLAB - 1);
}
END_TEST

START_TEST(the_last_given_is_the_first_taken)
{
    take_many(all, 10);
    give_many(all, 10);
    for (int i = 9; i >= 0; i--)
        must(take_one() == all[i]);
}
END_TEST

START_TEST(a_full_cache_spills_its_oldest)
{
    enum { MOST = 2 * HWT_CACHE_BATCH };
    take_many(all, MOST + 1);
    memset(&cache, 0, sizeof(cache)); /* what is over of the last batch stays away */
    uint32_t before = count_batches();
    give_many(all, MOST);
    ck_assert_uint_eq(count_batches(), before);
    give_many(all + MOST, 1);
    ck_assert_uint_eq(count_batches(), before + HWT_CACHE_BATCH);
    ck_assert_uint_eq(cache.count, 1);
    for (uint32_t i = MOST + 1; i-- > 0;)
        must(take_one() == all[i]);
}
END_TEST

/* One to spare, and a short one. */
START_TEST(a_cache_is_flushed_to_its_last)
{
    enum { SOME = HWT_CACHE_BATCH + 3 };
    hwt_pool_flush(&pool, &cache);
    ck_assert_uint_eq(count_batches(), 0);
    take_many(all, 2 * HWT_CACHE_BATCH);
    memset(&cache, 0, sizeof(cache));
    give_many(all, SOME);
    uint32_t before = count_batches();
    hwt_pool_flush(&pool, &cache);
    ck_assert(!cache.first && !cache.spare && cache.count == 0);
    ck_assert_uint_eq(count_batches(), before + SOME);
    for (int i = SOME; i-- > 0;)
        must(take_one() == all[i]);
}
END_TEST

/* An eighth of what there is, up to 2 MiB; and numbers without a gap. */
START_TEST(slabs_are_mapped_in_regions_that_grow)
{
    enum { SLABS = 600 };
    for (uint32_t i = 0; i < SLABS * SLAB; i++)
        (void)take_one();
    uint32_t most = 0;
    for (uint32_t number = 0; number < pool.slabs;) {
        const struct hwt_site *site = hwt_pool_site(&pool, number);
        uint32_t n = number / 8 < 1 ? 1 : number / 8 > 32 ? 32 : number / 8;
        ck_assert_uint_eq(site->region, n);
        most = n > most ? n : most;
        for (uint32_t i = 0; i < n; i++) {
            char *base = hwt_pool_site(&pool, number + i)->base;
            must(base == site->base + i * HWT_SLAB_SIZE && (uintptr_t)base % HWT_SLAB_SIZE == 0);
        }
        must(n < 32 || (uintptr_t)site->base % (32 * HWT_SLAB_SIZE) == 0);
        number += n;
    }
    ck_assert_uint_eq(most, 32);
    ck_assert_uint_ge(pool.slabs, SLABS);
    /* The array was doubled four times; slabs that nobody has used are no memory yet. */
    ck_assert_uint_eq(hwt_directory_bytes(&pool.directory),
                      (1 + 2 + 4 + 8 + 16) * SITES_FIRST * sizeof(void *));
    ck_assert_uint_eq(hwt_pool_bytes(&pool), sites_bytes() + SLABS * HWT_SLAB_SIZE);
}
END_TEST

START_TEST(a_walk_meets_all_that_were_ever_used_and_no_other)
{
    uint32_t number = 0, place = 0, n = 0;
    take_many(all, 3 * SLAB);
    for (uint32_t i = 0; i < 3 * SLAB; i += 7)
        use(all[i]);
    struct hwt_entry *entry, *last = NULL;
    while ((entry = hwt_pool_walk(&pool, &number, &place)) != NULL) {
        must(hwt_phase(hwt_entry_state(entry)) == HWT_PHASE_EXPIRED);
        must(!last || hwt_entry_id(entry) > hwt_entry_id(last));
        last = entry;
        n++;
    }
    ck_assert_uint_eq(n, (3 * SLAB + 6) / 7);
    ck_assert_ptr_null(hwt_pool_walk(&pool, &number, &place));
}
END_TEST

/* ---- back to the system ---- */

/* Returns how many entries went. */
static uint32_t trim(void)
{
    uint64_t bytes = hwt_pool_bytes(&pool);
    if (hwt_pool_trim_at(&pool) != HWT_NEVER)
        trim_pool(0);
    return (uint32_t)((bytes - hwt_pool_bytes(&pool)) / HWT_SLAB_SIZE * SLAB);
}

static void spill_cache(void)
{
    hwt_pool_flush(&pool, &cache);
}

static uint64_t states[MANY];

/* All are used, and in the pool again. */
static void use_many(void)
{
    take_many(all, MANY);
    for (uint32_t i = 0; i < MANY; i++)
        states[i] = use(all[i]);
    give_many(all, MANY);
    spill_cache();
}

START_TEST(all_that_is_free_goes_back)
{
    use_many();
    uint32_t slabs = pool.slabs;
    ck_assert_uint_eq(count_batches(), MANY);
    ck_assert_uint_eq(trim(), MANY);
    ck_assert_uint_eq(hwt_pool_bytes(&pool), sites_bytes());
    ck_assert_uint_eq(count_batches(), 0);
    ck_assert_uint_eq(trim(), 0);
    take_many(all, MANY);
    ck_assert_uint_eq(pool.slabs, slabs); /* no new ones */
    ck_assert_uint_eq(hwt_pool_bytes(&pool), sites_bytes() + MANY / SLAB * HWT_SLAB_SIZE);
}
END_TEST

START_TEST(a_generation_that_was_never_comes_back)
{
    static uint64_t last[(2 * MANY / SLAB) << HWT_ID_BITS];
    for (int round = 0; round < 5; round++) {
        take_many(all, MANY);
        for (uint32_t i = 0; i < MANY; i++) {
            uint64_t state = 0;
            for (uint32_t times = 0; times <= i % 5; times++)
                state = use(all[i]);
            uint64_t *its = &last[hwt_entry_id(all[i])];
            must(round == 0 || hwt_generation(state) > hwt_generation(*its));
            *its = state;
        }
        give_many(all, MANY);
        spill_cache();
        if (round % 2) /* where the kernel refuses, the memory is cleared by hand */
            refuse_advice = !refuse_advice;
        ck_assert_uint_eq(trim(), MANY);
        for (uint32_t i = 0; i < MANY; i++) {
            must(hwt_entry_state(all[i]) == 0);
            must(hwt_timer_of(all[i]) == NULL);
            must(hwt_entry_place(all[i])->where == 0);
        }
    }
}
END_TEST

START_TEST(a_walk_meets_nothing_of_an_empty_slab)
{
    uint32_t number = 0, place = 0;
    use_many();
    trim();
    ck_assert_ptr_null(hwt_pool_walk(&pool, &number, &place));
    (void)take_one(); /* its slab has a floor, but nothing that was used since */
    number = place = 0;
    ck_assert_ptr_null(hwt_pool_walk(&pool, &number, &place));
}
END_TEST

START_TEST(a_slab_of_which_one_is_taken_stays)
{
    take_many(all, MANY);
    for (uint32_t i = 0; i < MANY; i++)
        use(all[i]);
    struct hwt_entry *kept = all[MANY / 2];
    uint64_t state = hwt_entry_state(kept);
    for (uint32_t i = 0; i < MANY; i++) {
        if (i != MANY / 2)
            give_many(&all[i], 1);
    }
    spill_cache();
    ck_assert_uint_eq(trim(), MANY - SLAB);
    ck_assert_uint_eq(count_batches(), SLAB - 1);
    ck_assert_uint_eq(hwt_pool_bytes(&pool), sites_bytes() + HWT_SLAB_SIZE);
    must(hwt_entry_state(kept) == state && hwt_entry_id(kept) == hwt_entry_id(kept));
    give_many(&kept, 1);
    for (uint32_t i = 0; i < SLAB; i++) /* these first, and each once */
        all[i] = take_one();
    for (uint32_t i = 0; i < SLAB; i++) {
        must(hwt_entry_id(all[i]) >> HWT_ID_BITS == hwt_entry_id(kept) >> HWT_ID_BITS);
        must(hwt_phase(hwt_entry_state(all[i])) == HWT_PHASE_EXPIRED);
        atomic_store(&all[i]->word.first, 0);
    }
}
END_TEST

/* A trim holds what may go, and nothing else. */
START_TEST(free_entries_of_a_slab_that_stays_are_had_during_a_trim)
{
    static const hwt_task task = { 0 };
    const uint32_t at = (uint32_t)_i * (MANY - 1) / 2; /* in the first slab, in one, in the last */
    take_many(all, MANY);
    for (uint32_t i = 0; i < MANY; i++)
        use(all[i]);
    struct hwt_entry *pending = all[at];
    (void)hwt_entry_begin(pending, &task, &owner, 1);
    for (uint32_t i = 0; i < MANY; i++) {
        if (i != at)
            give_many(&all[i], 1);
    }
    spill_cache();
    while (pool.trim.step != HWT_TRIM_SETTLES)
        must(!hwt_pool_trim(&pool, 0));
    ck_assert_uint_eq(count_batches(), SLAB - 1);
    trim_pool(0);
    ck_assert_uint_eq(count_batches(), SLAB - 1);
}
END_TEST

/* Generations are counted from the newest one of a slab that went: an older record of one that was used
 * much less would seem to be of times to come. */
START_TEST(a_slab_whose_entries_differ_much_in_use_stays)
{
    take_many(all, MANY);
    for (uint32_t i = 0; i < MANY; i++)
        use(all[i]);
    struct hwt_entry *busy = all[MANY / 2];
    uint64_t state = hwt_entry_state(busy) + ((SPREAD_MAX + 5) << HWT_GENERATION_SHIFT);
    atomic_store(&busy->word.first, state);
    give_many(all, MANY);
    spill_cache();
    ck_assert_uint_eq(trim(), MANY - SLAB);
    ck_assert_uint_eq(count_batches(), SLAB);
    must(hwt_entry_state(busy) == state && hwt_entry_id(busy) == hwt_entry_id(busy));
}
END_TEST

START_TEST(few_free_ones_are_not_looked_through)
{
    take_many(all, MANY);
    for (uint32_t i = 0; i < MANY; i++)
        use(all[i]);
    give_many(all, 8 * SLAB - 1);
    spill_cache();
    ck_assert_uint_eq(trim(), 0);
    give_many(all + 8 * SLAB - 1, 1);
    spill_cache();
    ck_assert_uint_eq(trim(), 8 * SLAB);
}
END_TEST

/* One of each slab is taken: a look has shown that there is nothing to give back. */
START_TEST(after_a_trim_in_vain_the_next_waits_for_a_change)
{
    take_many(all, MANY);
    for (uint32_t i = 0; i < MANY; i++) {
        use(all[i]);
        if (i % SLAB != 5)
            give_many(&all[i], 1);
    }
    spill_cache();
    ck_assert_uint_eq(trim(), 0);
    ck_assert_uint_eq(count_batches(), MANY - MANY / SLAB);
    ck_assert_uint_eq(hwt_pool_trim_at(&pool), HWT_NEVER);
    for (uint32_t i = 5; i < MANY; i += SLAB)
        give_many(&all[i], 1);
    spill_cache();
    ck_assert_uint_eq(trim(), MANY);
}
END_TEST

/* They end one by one, in any order, within three seconds: few looks, and in the end nothing is
 * left. */
START_TEST(trims_in_vain_are_seldom_and_do_not_put_off_the_last_one_for_ever)
{
    uint64_t seed = test_seed(), now = 0;
    uint32_t looks = 0;
    take_many(all, MANY);
    for (uint32_t i = MANY; i > 1; i--) {
        uint32_t other = (uint32_t)(test_random(&seed) % i);
        struct hwt_entry *one = all[other];
        all[other] = all[i - 1];
        all[i - 1] = one;
    }
    for (uint32_t i = 0; i < MANY; i++, now += HWT_SEC(3) / MANY) {
        use(all[i]);
        give_many(&all[i], 1);
        spill_cache();
        if (hwt_pool_trim_at(&pool) > now)
            continue;
        looks++;
        trim_pool(now);
        ck_assert(hwt_pool_trim_at(&pool) > now);
    }
    ck_assert_uint_le(looks, 4);
    now = hwt_pool_trim_at(&pool);
    ck_assert_uint_le(now, HWT_SEC(5));
    trim_pool(now);
    ck_assert_uint_eq(hwt_pool_bytes(&pool), sites_bytes());
    ck_assert_uint_eq(hwt_pool_trim_at(&pool), HWT_NEVER);
}
END_TEST

/* No slice is much longer than others, however many entries and slabs there are. */
START_TEST(a_trim_is_cut_into_slices)
{
    enum { SLABS = 200 };
    static struct hwt_entry *most[SLABS * HWT_SLAB_ENTRIES];
    uint32_t slices = 1;
    take_many(most, SLABS * SLAB);
    for (uint32_t i = 0; i < SLABS * SLAB; i++)
        use(most[i]);
    give_many(most, SLABS * SLAB);
    spill_cache();
    uint64_t free = hwt_pool_free(&pool), used = pool.slabs_used;
    while (!hwt_pool_trim(&pool, 0)) {
        uint64_t now_free = hwt_pool_free(&pool), now_used = pool.slabs_used;
        ck_assert_uint_le(free - now_free, COLLECT_ENTRIES + HWT_CACHE_BATCH);
        ck_assert_uint_le(used - now_used, SETTLE_SLABS + HWT_REGION_SLABS);
        ck_assert_uint_eq(hwt_pool_trim_at(&pool), 0);
        free = now_free;
        used = now_used;
        slices++;
    }
    ck_assert_uint_ge(slices, SLABS / SCAN_SLABS + SLABS * SLAB / COLLECT_ENTRIES);
    ck_assert_uint_eq(pool.slabs_used, 0);
}
END_TEST

/* Between two slices others find what they need, and what they give is not lost. */
START_TEST(beside_a_trim_entries_are_taken_and_given)
{
    struct hwt_cache own = { 0 };
    static struct hwt_entry *some[SLAB];
    use_many();
    for (int turn = 0; !hwt_pool_trim(&pool, 0); turn++) {
        for (uint32_t i = 0; i < SLAB; i++) {
            some[i] = hwt_pool_take(&pool, &own);
            must(some[i] != NULL);
            use(some[i]);
        }
        for (uint32_t i = 0; i < SLAB; i++)
            hwt_pool_give(&pool, &own, some[i]);
    }
    hwt_pool_flush(&pool, &own);
    ck_assert_uint_eq(count_batches(), pool.slabs_used * SLAB);
    trim_pool(0);
    ck_assert_uint_eq(pool.slabs_used, 0);
    ck_assert_uint_eq(count_batches(), 0);
}
END_TEST

/* Of a slab of which the executor has something, the head is read yet. */
START_TEST(a_slab_of_which_something_is_handed_over_stays)
{
    use_many();
    struct hwt_slab *slab = hwt_slab_of(all[MANY / 2]);
    slab->handed = 1;
    ck_assert_uint_eq(trim(), MANY - SLAB);
    ck_assert_ptr_eq(hwt_timer_of(all[MANY / 2]), (hwt_timer *)(void *)&owner);
    slab->handed = 0;
    trim_pool(0);
    ck_assert_uint_eq(pool.slabs_used, 0);
}
END_TEST

/* ---- want of memory ---- */

START_TEST(without_memory_nothing_is_taken_and_nothing_is_lost)
{
    struct hwt_pool other = { 0 };
    refuse_memory = true;
    ck_assert_int_eq(hwt_pool_init(&other, (hwt_timer *)(void *)&owner, REST), -ENOMEM);
    refuse_memory = false;
    take_many(all, SLAB);
    refuse_memory = true;
    for (int i = 0; i < 3; i++)
        ck_assert_ptr_null(hwt_pool_take(&pool, &cache));
    ck_assert_uint_eq(pool.slabs, 1);
    give_many(all, 3);
    take_many(all, 3);
    ck_assert_ptr_null(hwt_pool_take(&pool, &cache));
    refuse_memory = false;
    (void)take_one();
}
END_TEST

START_TEST(a_trim_needs_no_memory)
{
    use_many();
    refuse_memory = true;
    ck_assert_uint_eq(trim(), MANY);
    refuse_memory = false;
}
END_TEST

START_TEST(without_memory_for_the_next_array_a_slab_is_refused_and_no_number_is_lost)
{
    for (uint32_t i = 0; i < SITES_FIRST * SLAB; i++)
        (void)take_one();
    ck_assert_uint_eq(pool.slabs, SITES_FIRST);
    refuse_array = true;
    for (int i = 0; i < 1000; i++)
        must(!hwt_pool_take(&pool, &cache));
    ck_assert_uint_eq(pool.slabs, SITES_FIRST);
    refuse_array = false;
    (void)take_one();
    ck_assert_uint_gt(pool.slabs, SITES_FIRST);
}
END_TEST

/* What the pool's owner has in the first mapping is its own, before and after the slabs are used. */
START_TEST(behind_the_first_slab_there_is_room_for_the_owner)
{
    char *rest = pool.rest;
    for (int i = 0; i < REST; i++)
        must(rest[i] == 0);
    memset(rest, 7, REST);
    use_many();
    ck_assert_uint_eq(trim(), MANY);
    take_many(all, MANY);
    for (int i = 0; i < REST; i++)
        must(rest[i] == 7);
}
END_TEST

START_TEST(when_the_ids_are_used_up_nothing_more_is_taken)
{
    enum { LAST = 40 };
    pool.slabs = HWT_SLABS_MAX - LAST; /* besides the first one */
    uint32_t n = 0;
    struct hwt_entry *one, *last = NULL;
    while ((one = hwt_pool_take(&pool, &cache)) != NULL) {
        must(hwt_entry_id(one) != HWT_ID_NONE && hwt_entry_id(one) >> HWT_ID_BITS < HWT_SLABS_MAX);
        must(hwt_pool_entry(&pool, hwt_entry_id(one)) == one);
        last = one;
        n++;
    }
    ck_assert_uint_eq(n, (1 + LAST) *
                             SLAB); /* where there is no room for a region, a slab at a time */
    ck_assert_ptr_null(hwt_pool_take(&pool, &cache));
    hwt_pool_give(&pool, &cache, last);
    (void)take_one();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pool");
    TCase *slabs = unit_case(suite, "slabs", open_pool, close_pool);
    tcase_add_test(slabs, a_new_pool_holds_nothing);
    tcase_add_test(slabs, an_entry_its_id_its_timer_and_its_place_belong_together);
    tcase_add_test(slabs, heads_entries_and_places_of_a_slab_are_apart);
    tcase_add_test(slabs, each_entry_of_a_slab_is_given_out_once);
    tcase_add_test(slabs, slabs_are_mapped_in_regions_that_grow);
    tcase_add_test(slabs, a_walk_meets_all_that_were_ever_used_and_no_other);
    TCase *caches = unit_case(suite, "caches", open_pool, close_pool);
    tcase_add_test(caches, the_last_given_is_the_first_taken);
    tcase_add_test(caches, a_full_cache_spills_its_oldest);
    tcase_add_test(caches, a_cache_is_flushed_to_its_last);
    TCase *trims = unit_case(suite, "trim", open_pool, close_pool);
    tcase_add_test(trims, all_that_is_free_goes_back);
    tcase_add_test(trims, a_generation_that_was_never_comes_back);
    tcase_add_test(trims, a_walk_meets_nothing_of_an_empty_slab);
    tcase_add_test(trims, a_slab_of_which_one_is_taken_stays);
    tcase_add_loop_test(trims, free_entries_of_a_slab_that_stays_are_had_during_a_trim, 0, 3);
    tcase_add_test(trims, a_slab_whose_entries_differ_much_in_use_stays);
    tcase_add_test(trims, few_free_ones_are_not_looked_through);
    tcase_add_test(trims, after_a_trim_in_vain_the_next_waits_for_a_change);
    tcase_add_test(trims, trims_in_vain_are_seldom_and_do_not_put_off_the_last_one_for_ever);
    tcase_add_test(trims, a_trim_is_cut_into_slices);
    tcase_add_test(trims, beside_a_trim_entries_are_taken_and_given);
    tcase_add_test(trims, a_slab_of_which_something_is_handed_over_stays);
    TCase *want = unit_case(suite, "want", open_pool, close_pool);
    tcase_add_test(want, without_memory_nothing_is_taken_and_nothing_is_lost);
    tcase_add_test(want, a_trim_needs_no_memory);
    tcase_add_test(want, without_memory_for_the_next_array_a_slab_is_refused_and_no_number_is_lost);
    tcase_add_test(want, behind_the_first_slab_there_is_room_for_the_owner);
    tcase_add_test(want, when_the_ids_are_used_up_nothing_more_is_taken);
    return run_suite(suite);
}
