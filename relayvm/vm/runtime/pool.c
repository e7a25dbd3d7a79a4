/* The pool of workers: one slot a worker, handed over by one word in its cache line; see pool.h. */
#include "pool.h"

#include "park.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>

#define SPIN_NS 200000      /* a worker looks for work that long before it sleeps */
#define WAIT_SPIN_NS 50000  /* the caller waits awake that long for others */
#define LOOK_NS 20000000    /* sleeping, the caller looks at its host so often */
#define WAKE_NS 50000       /* workers that sleep begin about that late */
#define WAKE_CALL_NS 5000   /* what waking one takes of the caller's time, at most */
#define LOOKS_PER_CLOCK 64
#define LATE_NS 10000  /* sharing out cost that much: workers had no core */
#define REST_FACTOR 16 /* then the caller works alone for so many times what was lost */
#define LONGEST_REST_NS 200000000
#define LONG_JOB_NS 50000 /* the caller's own processor time, which takes longer to read, counts in such jobs */
#define STACK_BYTES ((size_t)1 << 20) /* nests hold at most 256 KiB of tiles; the rest is thread-local memory of others */

/* IDLE -> OFFERED by the owner, -> TAKEN by the worker, -> IDLE when done; the owner may take an OFFERED part back to
 * IDLE. PARKED: the worker sleeps. AWAITED: taken, and the owner sleeps until it is done. */
enum { IDLE, OFFERED, TAKEN, AWAITED, PARKED, STOPPED };

typedef struct worker {
    _Alignas(64) _Atomic uint32_t state;
    uint32_t arithmetic; /* rounding and flushing modes of the owner */
    void (*run)(void *context, uint32_t part, bool is_caller);
    void *context;
    uint32_t number;
    _Atomic uint32_t spin_ns;
    bool is_offered; /* the owner's note: this part was given away */
    pthread_t thread;
} worker;

static worker workers[POOL_MAX_THREADS]; /* row 0 is unused: the owner is worker 0 */
static _Thread_local char self;
static _Atomic uintptr_t owner; /* the address of its `self`, or 0 */
/* Only the owner uses these. */
static uint32_t count = 1, refused = POOL_MAX_THREADS + 1;
static uint64_t missed_ns; /* what sharing out would have saved while workers slept */
static int64_t rest_until_ns; /* the caller works alone till then */
static bool handles_fork;

static int64_t read_ns(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static int64_t now_ns(void) {
    return read_ns(CLOCK_MONOTONIC);
}

static inline void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Bits must not depend on the thread: a worker computes in the modes of the thread it works for. */
static inline uint32_t arithmetic_modes(void) {
#if defined(__SSE2__)
    return __builtin_ia32_stmxcsr() & ~0x3fu; /* without the flags of past exceptions */
#elif defined(__aarch64__)
    uint64_t modes;
    __asm__ volatile("mrs %0, fpcr" : "=r"(modes));
    return (uint32_t)modes;
#else
    return 0;
#endif
}

static inline void set_arithmetic_modes(uint32_t modes) {
    if (arithmetic_modes() == modes) {
        return;
    }
#if defined(__SSE2__)
    __builtin_ia32_ldmxcsr(modes);
#elif defined(__aarch64__)
    uint64_t wide = modes;
    __asm__ volatile("msr fpcr, %0" : : "r"(wide));
#endif
}

/* Waits awake, for a bounded time, until the state is one of `wanted` (bits by state); returns the last one seen. */
static uint32_t spin(worker *w, uint32_t wanted, int64_t limit_ns) {
    uint32_t state = atomic_load_explicit(&w->state, memory_order_acquire);
    int64_t end = -1;
    while (!(wanted >> state & 1)) {
        for (int i = 0; i < LOOKS_PER_CLOCK && !(wanted >> state & 1); i++) {
            relax();
            state = atomic_load_explicit(&w->state, memory_order_acquire);
        }
        int64_t now = now_ns();
        end = end < 0 ? now + limit_ns : end;
        if (now >= end) {
            break;
        }
    }
    return state;
}

/* --- workers ------------------------------------------------------------------------------------ */

static void name_thread(uint32_t number) {
    char name[16];
    snprintf(name, sizeof name, "relayvm-%u", number);
#ifdef __APPLE__
    pthread_setname_np(name);
#else
    pthread_setname_np(pthread_self(), name);
#endif
}

/* Returns when there is a part to take, or the end: OFFERED or STOPPED. */
static uint32_t wait_for_work(worker *w) {
    const uint32_t wanted = 1u << OFFERED | 1u << STOPPED;
    for (;;) {
        uint32_t state = spin(w, wanted, atomic_load_explicit(&w->spin_ns, memory_order_relaxed));
        if (wanted >> state & 1) {
            return state;
        }
        uint32_t idle = IDLE;
        if (atomic_compare_exchange_strong(&w->state, &idle, PARKED)) {
            while (atomic_load_explicit(&w->state, memory_order_acquire) == PARKED) {
                park_wait(&w->state, PARKED, -1);
            }
        }
    }
}

static void *work(void *argument) {
    worker *w = argument;
    name_thread(w->number);
    while (wait_for_work(w) == OFFERED) {
        uint32_t offered = OFFERED;
        if (!atomic_compare_exchange_strong(&w->state, &offered, TAKEN)) {
            continue; /* the owner was quicker */
        }
        set_arithmetic_modes(w->arithmetic);
        w->run(w->context, w->number, false);
        if (atomic_exchange(&w->state, IDLE) == AWAITED) {
            park_wake(&w->state);
        }
    }
    return NULL;
}

static bool start_worker(uint32_t number) {
    worker *w = &workers[number];
    w->number = number;
    atomic_store(&w->state, IDLE);
    pthread_attr_t attributes;
    if (pthread_attr_init(&attributes)) {
        return false;
    }
    /* The host's handlers run on its own threads. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = !pthread_attr_setstacksize(&attributes, STACK_BYTES) &&
                   !pthread_create(&w->thread, &attributes, work, w);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return started;
}

/* --- processes ---------------------------------------------------------------------------------- */

/* The caller may fork while others work for it, in what the host runs on its thread then: the child gets their parts
 * done. Parts that were not begun stay offered, so the owner takes them back in both processes. */
static void before_fork(void) {
    if (atomic_load(&owner) != (uintptr_t)&self) {
        return;
    }
    for (uint32_t w = 1; w < count; w++) {
        uint32_t state;
        do {
            state = spin(&workers[w], 1u << IDLE | 1u << OFFERED | 1u << PARKED, LOOK_NS);
        } while (state == TAKEN || state == AWAITED);
    }
}

static void after_fork_in_child(void) {
    bool owned = atomic_load(&owner) == (uintptr_t)&self;
    for (uint32_t w = 1; w < count; w++) {
        if (!owned || atomic_load(&workers[w].state) != OFFERED) {
            atomic_store(&workers[w].state, IDLE);
        }
    }
    count = 1;
    refused = POOL_MAX_THREADS + 1;
    missed_ns = 0;
    rest_until_ns = 0;
    park_forget();
    if (!owned) {
        atomic_store(&owner, 0);
    }
}

/* At the end of the process, or when the library goes. */
__attribute__((destructor)) static void stop_workers(void) {
    uintptr_t free_pool = 0;
    if (!atomic_compare_exchange_strong(&owner, &free_pool, (uintptr_t)&self)) {
        return; /* a thread is in a call, so the process ends */
    }
    for (uint32_t w = 1; w < count; w++) {
        if (atomic_exchange(&workers[w].state, STOPPED) == PARKED) {
            park_wake(&workers[w].state);
        }
    }
    for (uint32_t w = 1; w < count; w++) {
        pthread_join(workers[w].thread, NULL);
    }
    count = 1;
}

/* --- owners ------------------------------------------------------------------------------------- */

static void grow(uint32_t threads) {
    if (!handles_fork) {
        handles_fork = !pthread_atfork(before_fork, NULL, after_fork_in_child);
    }
    while (handles_fork && count < threads && count < refused) {
        if (!start_worker(count)) {
            refused = count;
            return;
        }
        count++;
    }
}

bool pool_take(uint32_t threads, uint32_t cores) {
    uintptr_t nobody = 0;
    if (atomic_load_explicit(&owner, memory_order_relaxed) ||
        !atomic_compare_exchange_strong(&owner, &nobody, (uintptr_t)&self)) {
        return false;
    }
    threads = threads < POOL_MAX_THREADS ? threads : POOL_MAX_THREADS;
    if (count < threads) {
        grow(threads);
    }
    for (uint32_t w = 1; w < count && w < threads; w++) {
        atomic_store_explicit(&workers[w].spin_ns, w < cores ? SPIN_NS : 0, memory_order_relaxed);
    }
    if (count == 1) {
        pool_give();
        return false;
    }
    return true;
}

void pool_give(void) {
    atomic_store_explicit(&owner, 0, memory_order_release);
}

/* How many sleeping workers below `limit` are worth waking now. */
static uint64_t wakes_that_pay(uint32_t limit, uint64_t gain_ns) {
    for (uint32_t w = 1; w < limit; w++) {
        if (atomic_load_explicit(&workers[w].state, memory_order_relaxed) == PARKED) {
            missed_ns = gain_ns > UINT64_MAX - missed_ns ? UINT64_MAX : missed_ns + gain_ns;
            return missed_ns < WAKE_NS ? 0 : missed_ns / WAKE_CALL_NS;
        }
    }
    missed_ns = 0;
    return 0;
}

static void offer(worker *w, const pool_job *job, uint32_t modes) {
    w->run = job->run;
    w->context = job->context;
    w->arithmetic = modes;
    if (atomic_exchange(&w->state, OFFERED) == PARKED) {
        park_wake(&w->state);
        missed_ns = 0;
    }
}

static void await(worker *w, const pool_job *job) {
    const uint32_t done = 1u << IDLE | 1u << PARKED;
    uint32_t state = spin(w, done, WAIT_SPIN_NS);
    while (!(done >> state & 1)) {
        uint32_t taken = TAKEN;
        if (atomic_compare_exchange_strong(&w->state, &taken, AWAITED) || taken == AWAITED) {
            park_wait(&w->state, AWAITED, LOOK_NS);
            if (job->wait) {
                job->wait(job->context);
            }
        }
        state = atomic_load_explicit(&w->state, memory_order_acquire);
    }
}

/* Offers parts to the workers, but for those that sleep and cannot be woken for so little. */
static void offer_parts(const pool_job *job, uint32_t limit) {
    const uint32_t modes = arithmetic_modes();
    uint64_t wakes = wakes_that_pay(limit, job->gain_ns);
    for (uint32_t w = 1; w < limit; w++) {
        bool sleeps = atomic_load_explicit(&workers[w].state, memory_order_acquire) == PARKED;
        workers[w].is_offered = !sleeps || wakes > 0;
        if (workers[w].is_offered) {
            wakes -= sleeps;
            offer(&workers[w], job, modes);
        }
    }
}

/* Runs the caller's part and those that nobody has begun; returns how many. */
static uint32_t run_parts(const pool_job *job, uint32_t limit) {
    uint32_t ran = 1;
    job->run(job->context, 0, true);
    for (uint32_t w = 1; w < job->parts; w++) {
        uint32_t offered = OFFERED;
        bool given = w < limit && workers[w].is_offered;
        if (given && !atomic_compare_exchange_strong(&workers[w].state, &offered, IDLE)) {
            continue;
        }
        workers[w].is_offered = false;
        job->run(job->context, w, true);
        ran++;
    }
    return ran;
}

/* Where others use the cores a worker may be stopped in the middle of its part, or have the caller's core. If sharing out
 * took longer than all parts one after the other would, the caller does without workers for a while. */
static void judge(int64_t took_ns, int64_t alone_ns) {
    const int64_t lost_ns = took_ns - alone_ns;
    if (lost_ns > LATE_NS) {
        const int64_t rest_ns = lost_ns * REST_FACTOR;
        rest_until_ns = now_ns() + (rest_ns < LONGEST_REST_NS ? rest_ns : LONGEST_REST_NS);
    }
}

void pool_run(const pool_job *job) {
    const uint32_t limit = job->parts < count ? job->parts : count;
    const int64_t begin_ns = now_ns();
    if (begin_ns < rest_until_ns) {
        for (uint32_t w = 0; w < job->parts; w++) {
            job->run(job->context, w, true);
        }
        return;
    }
    const clockid_t clock = job->gain_ns > LONG_JOB_NS ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
    const int64_t own_begin_ns = read_ns(clock);
    offer_parts(job, limit);
    const uint32_t ran = run_parts(job, limit);
    const int64_t alone_ns = (read_ns(clock) - own_begin_ns) / ran * job->parts;
    for (uint32_t w = 1; w < limit; w++) {
        if (workers[w].is_offered) {
            await(&workers[w], job);
        }
    }
    judge(now_ns() - begin_ns, alone_ns);
}
