/* The pool of workers: one slot a worker, handed over by one word in its cache line; see pool.h. */
#include "pool.h"

#include "core.h"
#include "park.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define SPIN_NS 200000      /* a worker looks for work that long before it sleeps */
#define WAIT_SPIN_NS 30000  /* the caller waits awake that long for others */
#define STALL_NS 20000      /* a worker whose own clock stands still that long has no core */
#define FIRST_NAP_NS 250000 /* the caller sleeps that long before it looks at such a clock again, then twice as long ... */
#define LAST_NAP_NS 20000000 /* ... at most, as it looks at its host after each */
#define WAKE_NS 50000       /* workers that sleep begin about that late */
#define WAKE_CALL_NS 8000   /* what waking one takes of the caller's time, at most */
#define LOOKS_PER_CLOCK 64
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
    _Atomic int32_t core; /* where the worker was seen last */
    bool is_offered; /* the owner's note: this part was given away */
    pthread_t thread;
} worker;

static worker workers[POOL_MAX_THREADS]; /* row 0 is unused: the owner is worker 0 */
static _Thread_local uint32_t self; /* how many jobs this thread is in: one, or more as its host calls again */
static _Atomic uintptr_t owner; /* the address of its `self`, or 0 */
static _Atomic uint32_t callers; /* jobs of all threads */
static _Atomic int32_t caller_core = CORE_NONE; /* of who called last */
/* Only the owner uses these. */
static uint32_t count = 1, refused = POOL_MAX_THREADS + 1;
static uint64_t missed_ns; /* what sharing out would have saved while workers slept */
static bool handles_fork;

static int64_t now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
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

/* Whether this worker has the core of the caller, which then has none. */
static bool is_in_the_way(void) {
    const int32_t core = core_current();
    return core != CORE_NONE && core == atomic_load_explicit(&caller_core, memory_order_relaxed);
}

/* Waits awake, for a bounded time, until the state is one of `wanted` (bits by state); returns the last one seen. */
static uint32_t spin(worker *w, uint32_t wanted, int64_t limit_ns, bool is_caller) {
    uint32_t state = atomic_load_explicit(&w->state, memory_order_acquire);
    int64_t end = -1;
    while (!(wanted >> state & 1)) {
        for (int i = 0; i < LOOKS_PER_CLOCK && !(wanted >> state & 1); i++) {
            relax();
            state = atomic_load_explicit(&w->state, memory_order_acquire);
        }
        int64_t now = now_ns();
        end = end < 0 ? now + limit_ns : end;
        if (now >= end || (!is_caller && is_in_the_way())) {
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

/* Leaves the caller's core to it. False where there is no other. */
static bool step_aside(void) {
    core_set taken = {0};
    core_hold hold;
    core_add(&taken, atomic_load_explicit(&caller_core, memory_order_relaxed));
    if (core_hold_off(&hold, pthread_self(), &taken) != CORE_HELD) {
        return false;
    }
    core_release(&hold);
    return true;
}

static void note_core(worker *w) {
    const int32_t core = core_current();
    if (atomic_load_explicit(&w->core, memory_order_relaxed) != core) {
        atomic_store_explicit(&w->core, core, memory_order_relaxed);
    }
}

/* Returns when there is a part to take, or the end: OFFERED or STOPPED. */
static uint32_t wait_for_work(worker *w) {
    const uint32_t wanted = 1u << OFFERED | 1u << STOPPED;
    bool may_move = true;
    for (;;) {
        uint32_t state = spin(w, wanted, SPIN_NS, false);
        if (wanted >> state & 1) {
            return state;
        }
        if (may_move && is_in_the_way() && step_aside()) {
            may_move = false; /* once: then it sleeps */
            continue;
        }
        note_core(w);
        uint32_t idle = IDLE;
        if (atomic_compare_exchange_strong(&w->state, &idle, PARKED)) {
            while (atomic_load_explicit(&w->state, memory_order_acquire) == PARKED) {
                park_wait(&w->state, PARKED, -1);
            }
            may_move = !is_in_the_way() || !step_aside();
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
        note_core(w);
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
    atomic_store(&w->core, CORE_NONE);
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
            state = spin(&workers[w], 1u << IDLE | 1u << OFFERED | 1u << PARKED, LAST_NAP_NS, true);
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
    atomic_store(&callers, self);
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

static void give(void) {
    atomic_store_explicit(&owner, 0, memory_order_release);
}

bool pool_begin(uint32_t threads, uint32_t cores) {
    const uint32_t others = atomic_fetch_add_explicit(&callers, 1, memory_order_relaxed);
    self++;
    uintptr_t nobody = 0;
    if (others + 1 >= cores || atomic_load_explicit(&owner, memory_order_relaxed) ||
        !atomic_compare_exchange_strong(&owner, &nobody, (uintptr_t)&self)) {
        return false;
    }
    threads = threads < POOL_MAX_THREADS ? threads : POOL_MAX_THREADS;
    if (count < threads) {
        grow(threads);
    }
    if (count == 1) {
        give();
        return false;
    }
    return true;
}

void pool_end(bool shared) {
    atomic_fetch_sub_explicit(&callers, 1, memory_order_relaxed);
    self--;
    if (shared) {
        give();
    }
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

/* Holds a worker that sleeps off the core of the caller, where a system that takes the other cores for busy would put it,
 * and off those of the others, where there are more. */
static core_answer hold_for_wake(core_hold *hold, const worker *sleeper, uint32_t limit) {
    core_set taken = {0};
    core_add(&taken, core_current());
    const core_set callers_own = taken;
    for (uint32_t w = 1; w < limit; w++) {
        if (&workers[w] != sleeper) {
            core_add(&taken, atomic_load_explicit(&workers[w].core, memory_order_relaxed));
        }
    }
    const core_answer answer = core_hold_off(hold, sleeper->thread, &taken);
    return answer == CORE_ALL_TAKEN ? core_hold_off(hold, sleeper->thread, &callers_own) : answer;
}

static void offer(worker *w, const pool_job *job, uint32_t modes) {
    w->run = job->run;
    w->context = job->context;
    w->arithmetic = modes;
    if (atomic_exchange(&w->state, OFFERED) == PARKED) {
        park_wake(&w->state);
    }
}

/* False where the worker could have no core but the caller's. */
static bool offer_to_sleeper(worker *w, const pool_job *job, uint32_t modes, uint32_t limit) {
    core_hold hold;
    const core_answer answer = hold_for_wake(&hold, w, limit);
    missed_ns = 0;
    if (answer == CORE_ALL_TAKEN) {
        return false;
    }
    offer(w, job, modes);
    if (answer == CORE_HELD) {
        core_release(&hold);
    }
    return true;
}

/* Offers parts to the workers, but for those that sleep and cannot be woken for so little. */
static void offer_parts(const pool_job *job, uint32_t limit) {
    const uint32_t modes = arithmetic_modes();
    uint64_t wakes = wakes_that_pay(limit, job->gain_ns);
    for (uint32_t w = 1; w < limit; w++) {
        if (atomic_load_explicit(&workers[w].state, memory_order_acquire) != PARKED) {
            workers[w].is_offered = true;
            offer(&workers[w], job, modes);
        } else {
            workers[w].is_offered = wakes > 0 && offer_to_sleeper(&workers[w], job, modes, limit);
            wakes -= wakes > 0;
        }
    }
}

/* Whether a worker in the middle of its part waits for a core, or for something else that takes none. */
static bool stands_still(worker *w, uint32_t done) {
    const int64_t before = core_time_ns(w->thread);
    if (before < 0 || done >> spin(w, done, STALL_NS, true) & 1) {
        return false;
    }
    return core_time_ns(w->thread) - before < STALL_NS / 4;
}

/* The caller sleeps until the worker is done, for a while. A worker that has lost its core to others gets the caller's,
 * which needs none now. */
static void nap(worker *w, const pool_job *job, uint32_t done, int64_t limit_ns) {
    core_hold hold;
    bool holds = stands_still(w, done) && core_hold_on(&hold, w->thread, core_current()) == CORE_HELD;
    uint32_t taken = TAKEN;
    if (atomic_compare_exchange_strong(&w->state, &taken, AWAITED) || taken == AWAITED) {
        park_wait(&w->state, AWAITED, limit_ns);
    }
    if (holds) {
        core_release(&hold);
    }
    if (job->wait) {
        job->wait(job->context);
    }
}

static void await(worker *w, const pool_job *job) {
    const uint32_t done = 1u << IDLE | 1u << PARKED;
    int64_t limit_ns = FIRST_NAP_NS;
    uint32_t state = spin(w, done, WAIT_SPIN_NS, true);
    while (!(done >> state & 1)) {
        nap(w, job, done, limit_ns);
        limit_ns = limit_ns < LAST_NAP_NS / 2 ? limit_ns * 2 : LAST_NAP_NS;
        state = atomic_load_explicit(&w->state, memory_order_acquire);
    }
}

/* Runs the caller's part and those that nobody has begun. */
static void run_parts(const pool_job *job, uint32_t limit) {
    job->run(job->context, 0, true);
    for (uint32_t w = 1; w < job->parts; w++) {
        uint32_t offered = OFFERED;
        bool given = w < limit && workers[w].is_offered;
        if (given && !atomic_compare_exchange_strong(&workers[w].state, &offered, IDLE)) {
            continue;
        }
        workers[w].is_offered = false;
        job->run(job->context, w, true);
    }
}

static void note_caller(void) {
    const int32_t core = core_current();
    if (atomic_load_explicit(&caller_core, memory_order_relaxed) != core) {
        atomic_store_explicit(&caller_core, core, memory_order_relaxed);
    }
}

void pool_run(const pool_job *job) {
    const uint32_t limit = job->parts < count ? job->parts : count;
    note_caller();
    offer_parts(job, limit);
    run_parts(job, limit);
    for (uint32_t w = 1; w < limit; w++) {
        if (workers[w].is_offered) {
            await(&workers[w], job);
        }
    }
}
