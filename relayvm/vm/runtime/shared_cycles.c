/* Cycles of shared objects: searched when somebody lets go of an object that may lie on one.
 *
 * A search reads counts and fields of objects that other threads may hold. It is made under the lock of the host heap,
 * under which the host makes and changes values, and only while no machine runs but the caller's; a machine that is to
 * start waits for its end. A thread that retains a value meanwhile has another count of it or of what holds it, which the
 * table does not explain. A value is searched at once if about as many objects were shared since the last searches;
 * what is too large for that waits, as do objects that are dropped while other machines run. */
#include "cycles.h"

#include <sched.h>

#define SMALL 64u
#define MOST_WAITING 1024u
#define SPARE_VISITS ((int64_t)100000)
#define VISITS_PER_OBJECT 2
#define RUNS_BEFORE_SEARCH 16u

typedef struct suspect {
    rvm_object *object;
    rvm_program *program; /* whose layouts describe the object */
} suspect;

static _Atomic int machines_running, searching;
static _Atomic int64_t visits_left = SPARE_VISITS;
/* guarded by the host lock */
static suspect waiting[MOST_WAITING];
static uint32_t num_waiting, due = SMALL, runs;

void shared_cycles_enter(void) {
    for (;;) {
        atomic_fetch_add(&machines_running, 1);
        if (!atomic_load(&searching)) {
            return;
        }
        atomic_fetch_sub(&machines_running, 1);
        while (atomic_load(&searching)) {
            sched_yield();
        }
    }
}

void shared_cycles_leave(void) {
    atomic_fetch_sub(&machines_running, 1);
}

void shared_cycles_made(uint64_t objects) {
    /* What many small values have paid must not be spent on one large one again and again. */
    const int64_t new = (int64_t)objects * VISITS_PER_OBJECT, most = new > SPARE_VISITS ? new : SPARE_VISITS;
    int64_t left = atomic_load_explicit(&visits_left, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&visits_left, &left, left + new < most ? left + new : most,
                                                  memory_order_relaxed, memory_order_relaxed)) {
    }
}

static bool begin_search(int running) {
    atomic_store(&searching, 1);
    if (atomic_load(&machines_running) == running) {
        return true;
    }
    atomic_store(&searching, 0);
    return false;
}

/* The objects visited, or 0 if they are more than `most` or memory is out. */
static uint32_t search(rvm_heap *heap, const suspect *roots, uint32_t num_roots, uint32_t most) {
    cycle_table table = {.shared = true, .most = most};
    for (uint32_t i = 0; i < num_roots; i++) {
        if (cycles_may_pass(roots[i].object, true)) {
            cycles_add(&table, roots[i].object, 1);
        }
    }
    const bool complete = cycles_follow(&table);
    const uint32_t visited = table.length;
    if (complete) {
        cycles_find_live(&table);
        cycles_free_dead(heap, &table);
    }
    cycles_free_table(&table);
    atomic_fetch_sub_explicit(&visits_left, visited > SMALL ? (int64_t)visited : 0, memory_order_relaxed);
    return complete ? visited : 0;
}

static uint32_t most_visits(void) {
    const int64_t left = atomic_load_explicit(&visits_left, memory_order_relaxed);
    return left < SMALL ? SMALL : left > INT32_MAX ? INT32_MAX : (uint32_t)left;
}

void shared_cycles_drop(rvm_heap *heap, rvm_object *object, rvm_program *program, int running) {
    if (!cycles_may_pass(object, true)) {
        object_release(heap, object);
        return;
    }
    const suspect root = {object, program};
    uint32_t visited = 0;
    if (begin_search(running)) {
        visited = search(heap, &root, 1, most_visits());
        atomic_store(&searching, 0);
    }
    if (visited || num_waiting == MOST_WAITING) {
        object_release(heap, object);
        return;
    }
    rvm_program_retain(program);
    waiting[num_waiting++] = root;
}

void shared_cycles_settle(shared_cycles_event event) {
    rvm_program *programs[MOST_WAITING];
    uint32_t count = 0;
    rvm_heap *heap = heap_host_lock();
    runs += event == SHARED_CYCLES_RUN && num_waiting;
    const bool now = event == SHARED_CYCLES_TRIM || runs >= RUNS_BEFORE_SEARCH || num_waiting >= due;
    if (num_waiting && now && begin_search(0)) {
        const uint32_t visited = search(heap, waiting, num_waiting, UINT32_MAX);
        atomic_store(&searching, 0);
        due = visited / SMALL;
        due = due < SMALL ? SMALL : due > MOST_WAITING ? MOST_WAITING : due;
        runs = 0;
        count = num_waiting;
        num_waiting = 0;
        for (uint32_t i = 0; i < count; i++) {
            programs[i] = waiting[i].program;
            object_release(heap, waiting[i].object);
        }
    }
    heap_host_unlock();
    for (uint32_t i = 0; i < count; i++) {
        rvm_program_release(programs[i]);
    }
}
