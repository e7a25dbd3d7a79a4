/* Cores of threads; see core.h. */
#include "core.h"

#include <string.h>
#include <time.h>

void core_add(core_set *set, int32_t core) {
    if (core >= 0 && core < CORE_MAX) {
        set->words[core / 64] |= (uint64_t)1 << core % 64;
    }
}

#ifdef __linux__

#include <sched.h>

int32_t core_current(void) {
    return sched_getcpu();
}

static bool read_allowed(pthread_t thread, core_set *set) {
    memset(set, 0, sizeof *set);
    return !pthread_getaffinity_np(thread, sizeof *set, (cpu_set_t *)(void *)set);
}

static bool allow(pthread_t thread, const core_set *set) {
    return !pthread_setaffinity_np(thread, sizeof *set, (const cpu_set_t *)(const void *)set);
}

static bool is_equal(const core_set *a, const core_set *b) {
    return !memcmp(a, b, sizeof *a);
}

static core_answer apply(core_hold *hold, pthread_t thread) {
    static const core_set nothing;
    if (is_equal(&hold->held, &nothing)) {
        return CORE_ALL_TAKEN;
    }
    hold->thread = thread;
    return allow(thread, &hold->held) ? CORE_HELD : CORE_UNKNOWN;
}

core_answer core_hold_off(core_hold *hold, pthread_t thread, const core_set *taken) {
    if (!read_allowed(thread, &hold->allowed)) {
        return CORE_UNKNOWN;
    }
    for (int i = 0; i < CORE_MAX / 64; i++) {
        hold->held.words[i] = hold->allowed.words[i] & ~taken->words[i];
    }
    return apply(hold, thread);
}

core_answer core_hold_on(core_hold *hold, pthread_t thread, int32_t core) {
    if (!read_allowed(thread, &hold->allowed)) {
        return CORE_UNKNOWN;
    }
    memset(&hold->held, 0, sizeof hold->held);
    core_add(&hold->held, core);
    for (int i = 0; i < CORE_MAX / 64; i++) {
        hold->held.words[i] &= hold->allowed.words[i];
    }
    return apply(hold, thread);
}

/* What a thread is allowed is what its user chose among the cores of its container. Where that is all of these, nothing
 * was chosen, and the thread must get all cores back: else it would not follow when the container gets more. */
void core_release(const core_hold *hold) {
    core_set now, all;
    if (!read_allowed(hold->thread, &now) || !is_equal(&now, &hold->held)) {
        return;
    }
    memset(&all, 0xff, sizeof all);
    if (!allow(hold->thread, &all) || !read_allowed(hold->thread, &now) || !is_equal(&now, &hold->allowed)) {
        allow(hold->thread, &hold->allowed);
    }
}

int64_t core_time_ns(pthread_t thread) {
    clockid_t clock;
    struct timespec time;
    if (pthread_getcpuclockid(thread, &clock) || clock_gettime(clock, &time)) {
        return -1;
    }
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

#else

int32_t core_current(void) {
    return CORE_NONE;
}

core_answer core_hold_off(core_hold *hold, pthread_t thread, const core_set *taken) {
    (void)hold, (void)thread, (void)taken;
    return CORE_UNKNOWN;
}

core_answer core_hold_on(core_hold *hold, pthread_t thread, int32_t core) {
    (void)hold, (void)thread, (void)core;
    return CORE_UNKNOWN;
}

void core_release(const core_hold *hold) {
    (void)hold;
}

int64_t core_time_ns(pthread_t thread) {
    (void)thread;
    return -1;
}

#endif
