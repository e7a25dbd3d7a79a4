/* Which core a thread runs on, and moving threads to others, always within what users and containers allow them. Does
 * nothing where the system has no word for it. Knows nothing of the pool. */
#ifndef RVM_CORE_H
#define RVM_CORE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define CORE_MAX 8192 /* as many as Linux can have */
#define CORE_NONE (-1)

typedef struct core_set {
    uint64_t words[CORE_MAX / 64];
} core_set;

/* A thread that is held on some of its cores for a moment. */
typedef struct core_hold {
    pthread_t thread;
    core_set allowed, held;
} core_hold;

typedef enum core_answer { CORE_HELD, CORE_ALL_TAKEN, CORE_UNKNOWN } core_answer;

/* The core of this thread, or CORE_NONE. */
int32_t core_current(void);
void core_add(core_set *set, int32_t core);
/* Holds a thread off the cores of `taken`, which moves it if it is there. CORE_ALL_TAKEN: no other is allowed. Whatever
 * is held must be released; nobody else may hold the thread meanwhile. */
core_answer core_hold_off(core_hold *hold, pthread_t thread, const core_set *taken);
/* Holds a thread on one core, where that is allowed. */
core_answer core_hold_on(core_hold *hold, pthread_t thread, int32_t core);
/* Allows a thread again what it was allowed, unless somebody has changed that meanwhile. */
void core_release(const core_hold *hold);
/* How long a thread has had a core up to now, or -1. */
int64_t core_time_ns(pthread_t thread);

#endif
