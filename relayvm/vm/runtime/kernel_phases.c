/* The phases of a kernel: on the calling thread, or in slices shared out to the pool where that pays. Slices depend on
 * sizes and the number of threads alone. */
#include "kernel_phases.h"

#include "pool.h"

/* Phases are cut into steps, between which the host can end the run. How long a round takes shows when it has run: a
 * scalar operation takes from a hundredth of a nanosecond to many, and memory that is touched first 1 ns a byte or more. So
 * steps begin small by estimate, and then follow the clock, up to what is estimated to take 20 ms. */
#define FIRST_WORK 4000000
#define SLICED_WORK 20000000
#define SHORT_STEP_NS 2000000
#define LONG_STEP_NS 8000000
#define UNITS_PER_NS 100     /* what one core does at best: scalar operations of a product, bytes from its cache */
#ifdef RVM_STRESS
#define SLICE_UNITS 1 /* whatever has two rounds is shared out */
#else
#define SLICE_UNITS 200000 /* 2 us at best, twice the cost of handing a slice over: less is not worth it */
#endif

/* A phase at work. Workers read it; what they write is atomic. */
typedef struct phase_run {
    rvm_machine *machine; /* for the caller alone */
    const rvm_kernel *kernel;
    rvm_phase phase;
    int64_t extent;
    int64_t first_step, most_step; /* after so many rounds there is a look at the host, at first and at most */
    int64_t chain;                 /* so many rounds are one thread's, in order */
    uint32_t parts;
    _Atomic uint64_t first_trap; /* part and status of the first slice that trapped, or NO_TRAP */
    int64_t (*values)[2];        /* what each part says of its trap */
    _Atomic int32_t stop;        /* the trap by which the host ends the run, or 0 */
} phase_run;

#define NO_TRAP UINT64_MAX

int32_t kernel_trap(rvm_machine *m, const rvm_kernel *kernel, int32_t status, const int64_t *values) {
    const uint32_t code = (uint32_t)status & 0xff, reason = (uint32_t)status >> RVM_STATUS_REASON_SHIFT & 0xff;
    if (reason && reason <= RVM_NUM_TRAP_REASONS && code < RVM_NUM_TRAPS) {
        trap_tell(m, kernel->name, reason, status & RVM_STATUS_UNSIGNED, values);
        return (int32_t)code;
    }
    /* A kernel of the host says a code alone. */
    return trap_set(m, status > 0 && status < RVM_NUM_TRAPS ? status : RVM_TRAP_BAD_VALUE, "`%s` stopped", kernel->name);
}

/* The slice that comes first decides, as it does where slices run one after the other. */
static void note_trap(phase_run *run, uint32_t part, int32_t status) {
    uint64_t mine = (uint64_t)part << 32 | (uint32_t)status;
    uint64_t first = atomic_load(&run->first_trap);
    while (mine < first && !atomic_compare_exchange_weak(&run->first_trap, &first, mine)) {
    }
}

static bool is_over(phase_run *run, uint32_t part, bool is_caller) {
    if (is_caller) {
        int32_t trap = trap_poll(run->machine);
        if (trap) {
            atomic_store_explicit(&run->stop, trap, memory_order_relaxed);
        }
    }
    return atomic_load_explicit(&run->stop, memory_order_relaxed) ||
           atomic_load_explicit(&run->first_trap, memory_order_relaxed) >> 32 < part;
}

static int64_t chains_of(const phase_run *run) {
    return run->extent / run->chain + (run->extent % run->chain != 0);
}

/* How many rounds the step after one of `step` rounds has, which took so long. */
static int64_t next_step(const phase_run *run, int64_t step, int64_t took_ns) {
    if (took_ns < SHORT_STEP_NS) {
        return step < run->most_step / 2 ? 2 * step : run->most_step;
    }
    return took_ns > LONG_STEP_NS && step > 1 ? step / 2 : step;
}

static void run_part(void *context, uint32_t part, bool is_caller) {
    phase_run *run = context;
    const rvm_machine *m = run->machine;
    void *const *args = m->kernel_args;
    if (part > 0 && kernel_wants(&run->kernel->private_bytes)) {
        args = m->worker_args + (part - 1) * ((size_t)run->kernel->num_operands + 1);
    }
    const int64_t chains = chains_of(run), share = chains / run->parts, more = chains % run->parts;
    const int64_t begins = share * part + (part < more ? part : more);
    const int64_t ends = begins + share + (part < more);
    const int64_t first = begins * run->chain, last = ends < chains ? ends * run->chain : run->extent;
    int64_t step = run->first_step, began_ns = 0;
    for (int64_t begin = first, end; begin < last; begin = end) {
        if ((begin > 0 || part > 0) && is_over(run, part, is_caller)) {
            return;
        }
        if (last - begin > step) { /* not where one step does all: a look at the clock is not free */
            const int64_t now_ns = machine_clock_ns();
            step = began_ns ? next_step(run, step, now_ns - began_ns) : step;
            began_ns = now_ns;
        }
        end = last - begin > step ? begin + step : last;
        int32_t status = run->phase(args, m->kernel_dims, begin, end, m->scratch, run->values[part]);
        if (status) {
            note_trap(run, part, status);
            return;
        }
    }
}

static void look_at_host(void *context) {
    phase_run *run = context;
    int32_t trap = atomic_load_explicit(&run->stop, memory_order_relaxed) ? 0 : trap_poll(run->machine);
    if (trap) {
        atomic_store_explicit(&run->stop, trap, memory_order_relaxed);
    }
}

/* How many slices a phase of that much work is worth. */
static uint32_t slices(const phase_run *run, uint64_t units) {
    const rvm_machine *m = run->machine;
    const int64_t chains = chains_of(run);
    if (m->num_threads < 2 || run->kernel->calls_host || units < 2 * SLICE_UNITS || chains < 2) {
        return 1;
    }
    uint64_t parts = units / SLICE_UNITS;
    parts = parts < m->num_threads ? parts : m->num_threads;
    parts = parts < POOL_MAX_THREADS ? parts : POOL_MAX_THREADS;
    return (uint32_t)(parts < (uint64_t)chains ? parts : (uint64_t)chains);
}

static void share_out(phase_run *run, uint64_t units) {
    const rvm_machine *m = run->machine;
    if (kernel_wants(&run->kernel->private_bytes) && run->parts > 1 &&
        !kernel_worker_args(run->machine, run->kernel, run->parts)) {
        run->parts = 1;
    }
    if (run->parts < 2) {
        run_part(run, 0, true);
        return;
    }
    const bool shared = pool_begin(m->num_threads, m->num_cores);
    if (shared) {
        pool_job job = {.run = run_part, .wait = look_at_host, .context = run, .parts = run->parts};
        job.gain_ns = units / UNITS_PER_NS / run->parts * (run->parts - 1);
        pool_run(&job);
    } else {
        run->parts = 1;
        run_part(run, 0, true);
    }
    pool_end(shared);
}

static int64_t rounds_of(int64_t extent, int64_t steps) {
    return extent / steps + (extent % steps != 0);
}

static int32_t run_long_phase(rvm_machine *m, const rvm_kernel *kernel, uint32_t phase, int64_t extent, int64_t work,
                              uint64_t units) {
    phase_run run = {.machine = m, .kernel = kernel, .phase = kernel->phases[phase], .extent = extent};
    int64_t values[POOL_MAX_THREADS][2];
    run.values = values;
    int32_t trap = rvm_dim_value(&kernel->phase_extents[kernel->num_phases + phase], m->kernel_dims, &run.chain);
    if (trap) {
        return kernel_dim_trap(m, kernel, trap);
    }
    run.chain = run.chain < 1 ? 1 : run.chain;
    run.first_step = rounds_of(extent, work / FIRST_WORK + 1);
    run.most_step = rounds_of(extent, work / SLICED_WORK + 1);
    run.parts = slices(&run, units);
    atomic_init(&run.first_trap, NO_TRAP);
    atomic_init(&run.stop, 0);
    share_out(&run, units);
    const uint64_t first_trap = atomic_load(&run.first_trap);
    trap = atomic_load(&run.stop);
    if (trap) {
        return trap; /* trap_poll has written the message */
    }
    return first_trap == NO_TRAP ? 0
                                 : kernel_trap(m, kernel, (int32_t)(uint32_t)first_trap, values[first_trap >> 32]);
}

static int32_t run_phase(rvm_machine *m, const rvm_kernel *kernel, uint32_t phase, int64_t work, uint64_t units) {
    int64_t extent;
    int32_t trap = rvm_dim_value(&kernel->phase_extents[phase], m->kernel_dims, &extent);
    if (trap) {
        return kernel_dim_trap(m, kernel, trap);
    }
    if (extent <= 0) {
        return 0;
    }
    if (units >= 2 * SLICE_UNITS || work >= FIRST_WORK) {
        return run_long_phase(m, kernel, phase, extent, work, units);
    }
    const int32_t status = kernel->phases[phase](m->kernel_args, m->kernel_dims, 0, extent, m->scratch, m->kernel_values);
    return status ? kernel_trap(m, kernel, status, m->kernel_values) : 0;
}

int32_t kernel_run_phases(rvm_machine *m, const rvm_kernel *kernel, int64_t work, uint64_t units) {
    for (uint32_t phase = 0; phase < kernel->num_phases; phase++) {
        int32_t trap = run_phase(m, kernel, phase, work, units / kernel->num_phases);
        if (trap) {
            return trap;
        }
    }
    return 0;
}
