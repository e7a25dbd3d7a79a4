/* Phases that tell who runs them, for tests of the pool: out[i] says it of round i. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <xmmintrin.h>

static _Atomic int32_t gate;      /* 1 holds `hold` in its first round */
static _Atomic int32_t in_gate;   /* how many are held */
static _Atomic int64_t delay_ns;  /* of each round of most */

void set_gate(int32_t value) {
    atomic_store(&gate, value);
}

int32_t held(void) {
    return atomic_load(&in_gate);
}

void set_delay(int64_t ns) {
    atomic_store(&delay_ns, ns);
}

static void linger(void) {
    struct timespec start, now;
    clock_gettime(CLOCK_MONOTONIC, &start);
    do {
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((now.tv_sec - start.tv_sec) * 1000000000 + now.tv_nsec - start.tv_nsec < atomic_load(&delay_ns));
}

/* The number in the name of the thread; 0 for one that is not of the pool. */
static int64_t number(void) {
    char name[32] = "";
    pthread_getname_np(pthread_self(), name, sizeof name);
    return strncmp(name, "relayvm-", 8) ? 0 : atoi(name + 8);
}

int32_t who(void *const *args, const int64_t *dims, int64_t begin, int64_t end, void *scratch,
            int64_t *values) {
    int64_t *out = args[1];
    for (int64_t i = begin; i < end; i++) {
        linger();
        out[i] = number();
    }
    return 0;
}

/* The round that begins each slice. */
int32_t first(void *const *args, const int64_t *dims, int64_t begin, int64_t end, void *scratch,
            int64_t *values) {
    int64_t *out = args[1];
    for (int64_t i = begin; i < end; i++) {
        linger();
        out[i] = begin;
    }
    return 0;
}

/* Ends with the first status that is not 0, and tells where. */
int32_t trap(void *const *args, const int64_t *dims, int64_t begin, int64_t end, void *scratch,
            int64_t *values) {
    const int64_t *codes = args[0];
    int64_t *out = args[1];
    for (int64_t i = begin; i < end; i++) {
        linger();
        if (codes[i]) {
            values[0] = i;
            values[1] = codes[i];
            return (int32_t)codes[i];
        }
        out[i] = i;
    }
    return 0;
}

int32_t hold(void *const *args, const int64_t *dims, int64_t begin, int64_t end, void *scratch,
            int64_t *values) {
    if (begin == 0) {
        atomic_fetch_add(&in_gate, 1);
        while (atomic_load(&gate)) {
        }
        atomic_fetch_sub(&in_gate, 1);
    }
    return who(args, dims, begin, end, scratch, values);
}

/* The thread and the core of each round. */
int32_t where(void *const *args, const int64_t *dims, int64_t begin, int64_t end, void *scratch,
            int64_t *values) {
    int64_t *out = args[1];
    for (int64_t i = begin; i < end; i++) {
        linger();
        out[i] = number() | (int64_t)sched_getcpu() << 16;
    }
    return 0;
}

/* How many cores this thread is allowed. */
static int32_t allowed(void) {
    cpu_set_t set;
    CPU_ZERO(&set);
    pthread_getaffinity_np(pthread_self(), sizeof set, &set);
    return CPU_COUNT(&set);
}

/* A worker takes no time, as one without a core, until it is held on one; for ten seconds at most. */
int32_t stall(void *const *args, const int64_t *dims, int64_t begin, int64_t end, void *scratch,
            int64_t *values) {
    for (int i = 0; i < 10000 && number() && allowed() > 1; i++) {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return where(args, dims, begin, end, scratch, values);
}

/* What a thread inherits: whether a signal of the host can reach it, and how it rounds. */
int32_t manners(void *const *args, const int64_t *dims, int64_t begin, int64_t end, void *scratch,
            int64_t *values) {
    int64_t *out = args[1];
    for (int64_t i = begin; i < end; i++) {
        linger();
        sigset_t blocked;
        pthread_sigmask(SIG_BLOCK, NULL, &blocked);
        int64_t modes = _mm_getcsr() & 0xffc0;
        out[i] = number() | (int64_t)sigismember(&blocked, SIGALRM) << 16 | modes << 32;
    }
    return 0;
}

void set_modes(int32_t modes) {
    _mm_setcsr((_mm_getcsr() & ~0xffc0u) | (uint32_t)modes);
}

int32_t modes(void) {
    return (int32_t)(_mm_getcsr() & 0xffc0);
}
