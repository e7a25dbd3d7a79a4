/* One kernel call: sizes from the operands, checks, outputs, scratch, phases. What the signature says is enforced
 * here; nothing is believed because bytecode says so. */
#include "kernel_phases.h"
#include "machine.h"
#include "tensor.h"

#include <stdlib.h>

#define PAGE_BYTES 4096
#define NEAR_BYTES 1048576u /* a core's second cache */

typedef struct kernel_run {
    const rvm_kernel *kernel;
    uint64_t *r;
    const uint16_t *inputs, *outputs; /* registers */
    uint32_t given;
    uint32_t reused; /* inputs whose tensor became an output */
    bool gives;      /* whether any output has an element */
    rvm_tensor **results;
} kernel_run;

bool kernel_buffers_init(rvm_machine *m) {
    uint32_t operands = 1, dims = 1;
    for (uint32_t i = 0; i < m->program->num_kernels; i++) {
        const rvm_kernel *kernel = &m->program->kernels[i];
        uint32_t words = (uint32_t)kernel->num_vars + kernel->num_strides;
        operands = kernel->num_operands > operands ? kernel->num_operands : operands;
        dims = words > dims ? words : dims;
    }
    m->kernel_args = calloc((size_t)operands + 1, sizeof *m->kernel_args); /* and private memory */
    m->kernel_slots = calloc(operands, sizeof *m->kernel_slots);
    m->kernel_dims = calloc(dims, sizeof *m->kernel_dims);
    m->kernel_results = calloc(operands, sizeof *m->kernel_results);
    return m->kernel_args && m->kernel_slots && m->kernel_dims && m->kernel_results;
}

void kernel_buffers_free(rvm_machine *m) {
    free(m->kernel_args);
    free(m->kernel_slots);
    free(m->kernel_dims);
    free(m->kernel_results);
    kernel_scratch_free(m);
}

static void free_memory(rvm_machine *m, uint8_t **memory, uint64_t *memory_bytes) {
    free(*memory);
    heap_uncharge(&m->heap, *memory_bytes);
    *memory = NULL;
    *memory_bytes = 0;
}

void kernel_scratch_free(rvm_machine *m) {
    free_memory(m, &m->scratch, &m->scratch_bytes);
    free_memory(m, &m->private_memory, &m->private_bytes);
    free_memory(m, &m->worker_memory, &m->worker_bytes);
}

static rvm_tensor *input_tensor(const kernel_run *run, uint32_t operand) {
    return word_tensor(run->r[run->inputs[operand]]);
}

static int32_t wrong_operand(rvm_machine *m, const kernel_run *run, uint32_t operand) {
    return trap_set(m, RVM_TRAP_SHAPE_MISMATCH, "operand %u of `%s` has not the dtype and rank that are required",
                    operand, run->kernel->name);
}

int32_t kernel_dim_trap(rvm_machine *m, const rvm_kernel *kernel, int32_t trap) {
    return trap_set(m, trap,
                    trap == RVM_TRAP_SIZE_OVERFLOW ? "a size of `%s` is negative or too large"
                                                   : "sizes of the operands of `%s` do not fit together",
                    kernel->name);
}

static int32_t dim_trap(rvm_machine *m, const kernel_run *run, int32_t trap) {
    return kernel_dim_trap(m, run->kernel, trap);
}

/* Scalars are copied first: an output may go to the register that an input comes from. */
static int32_t take_inputs(rvm_machine *m, const kernel_run *run) {
    const rvm_kernel *kernel = run->kernel;
    for (uint32_t i = 0; i < kernel->num_inputs; i++) {
        const rvm_operand *operand = &kernel->operands[i];
        if (operand->access == RVM_ACCESS_SCALAR) {
            m->kernel_slots[i] = run->r[run->inputs[i]];
            m->kernel_args[i] = &m->kernel_slots[i];
            continue;
        }
        const rvm_tensor *tensor = input_tensor(run, i);
        if (tensor->head.kind != RVM_TENSOR || tensor->dtype != operand->dtype || tensor->rank != operand->rank) {
            return wrong_operand(m, run, i);
        }
        m->kernel_args[i] = tensor->data;
    }
    for (uint32_t v = 0; v < kernel->num_vars; v++) {
        const rvm_dim_source *source = &kernel->sources[v];
        m->kernel_dims[v] = source->axis < 0 ? (int64_t)m->kernel_slots[source->operand]
                                             : input_tensor(run, source->operand)->dims[source->axis];
        /* Nests are proved for sizes that are not negative and whose products stay in 63 bits. */
        if ((uint64_t)m->kernel_dims[v] >= RVM_MAX_BYTES) {
            return dim_trap(m, run, RVM_TRAP_SIZE_OVERFLOW);
        }
    }
    return 0;
}

/* Names what does not broadcast in a dim, of what it is the size, and both sizes. */
static int32_t clash_trap(rvm_machine *m, const kernel_run *run, const rvm_dim *dim, const char *what,
                          int32_t trap) {
    int64_t sizes[2];
    const rvm_clash clash = rvm_dim_clash(dim, m->kernel_dims, sizes);
    if (clash == RVM_CLASH_NONE) {
        return dim_trap(m, run, trap);
    }
    return trap_set(m, trap, "%s do not broadcast in `%s`: %lld and %lld",
                    clash == RVM_CLASH_WHOLE ? what : "sizes of operands", run->kernel->name, (long long)sizes[0],
                    (long long)sizes[1]);
}

static int32_t check_input(rvm_machine *m, const kernel_run *run, uint32_t i) {
    const rvm_operand *operand = &run->kernel->operands[i];
    const rvm_dim *dims = run->kernel->dims + operand->dims;
    const rvm_tensor *tensor = input_tensor(run, i);
    for (unsigned axis = 0; axis < operand->rank; axis++) {
        int64_t wanted;
        int32_t trap = rvm_dim_value(&dims[axis], m->kernel_dims, &wanted);
        if (trap) {
            return clash_trap(m, run, &dims[axis], "sizes of operands", trap);
        }
        if (wanted != tensor->dims[axis]) {
            return trap_set(m, RVM_TRAP_SHAPE_MISMATCH,
                            "axis %u of operand %u of `%s` has size %lld where %lld is required", axis, i,
                            run->kernel->name, (long long)tensor->dims[axis], (long long)wanted);
        }
    }
    return 0;
}

static int32_t check_sizes(rvm_machine *m, const kernel_run *run) {
    const rvm_kernel *kernel = run->kernel;
    /* First, because they say what of the program does not hold; that shapes are as required may follow from it. */
    for (uint32_t i = 0; i < kernel->num_checks; i++) {
        const rvm_dim_check *check = &kernel->checks[i];
        int64_t a, b;
        int32_t trap = rvm_dim_value(&check->a, m->kernel_dims, &a);
        if (trap) {
            return clash_trap(m, run, &check->a, check->what, trap);
        }
        trap = rvm_dim_value(&check->b, m->kernel_dims, &b);
        if (trap) {
            return clash_trap(m, run, &check->b, check->what, trap);
        }
        if (a != b) {
            return trap_set(m, RVM_TRAP_SHAPE_MISMATCH, "%s: %lld and %lld", check->what, (long long)a,
                            (long long)b);
        }
    }
    for (uint32_t i = 0; i < kernel->num_inputs; i++) {
        if (kernel->operands[i].access != RVM_ACCESS_SCALAR) {
            int32_t trap = check_input(m, run, i);
            if (trap) {
                return trap;
            }
        }
    }
    return 0;
}

static int64_t *write_strides(int64_t *strides, unsigned rank, const int64_t *dims) {
    int64_t step = 1;
    for (unsigned axis = rank; axis-- > 0;) {
        strides[axis] = dims[axis] == 1 ? 0 : step;
        step *= dims[axis];
    }
    return strides + rank;
}

/* The tensor of an input that may become output `o`: given, seen by nobody else, of the same size. */
static int64_t reusable_input(const kernel_run *run, uint32_t output, int64_t elements) {
    for (uint32_t i = 0; i < run->kernel->num_in_place; i++) {
        const rvm_in_place *pair = &run->kernel->in_place[i];
        if (pair->output != output || pair->input >= 32) {
            continue;
        }
        uint32_t bit = (uint32_t)1 << pair->input;
        if (!(run->given & bit) || (run->reused & bit)) {
            continue;
        }
        const rvm_tensor *tensor = input_tensor(run, pair->input);
        if (tensor->elements == elements && tensor_is_unique(tensor)) {
            return pair->input;
        }
    }
    return -1;
}

static rvm_tensor *make_output(rvm_machine *m, kernel_run *run, uint32_t operand, const int64_t *dims,
                               int64_t elements) {
    const rvm_operand *row = &run->kernel->operands[operand];
    int64_t input = reusable_input(run, operand, elements);
    if (input < 0) {
        return tensor_new(&m->heap, row->dtype, row->rank, dims, elements);
    }
    rvm_tensor *tensor = input_tensor(run, (uint32_t)input);
    if (tensor->rank != row->rank) {
        return tensor_view(&m->heap, tensor, row->rank, dims, elements, 0);
    }
    memcpy(tensor->dims, dims, row->rank * sizeof *dims);
    run->reused |= (uint32_t)1 << input;
    run->r[run->inputs[input]] = 0;
    return tensor;
}

static int32_t make_outputs(rvm_machine *m, kernel_run *run) {
    const rvm_kernel *kernel = run->kernel;
    int64_t *strides = m->kernel_dims + kernel->num_vars;
    for (uint32_t i = 0; i < kernel->num_inputs; i++) {
        if (kernel->operands[i].access == RVM_ACCESS_STRIDED) {
            const rvm_tensor *tensor = input_tensor(run, i);
            strides = write_strides(strides, tensor->rank, tensor->dims);
        }
    }
    for (uint32_t o = 0; o < kernel->num_outputs; o++) {
        uint32_t i = kernel->num_inputs + o;
        const rvm_operand *operand = &kernel->operands[i];
        int64_t dims[RVM_MAX_RANK], elements;
        if (operand->access == RVM_ACCESS_SCALAR) {
            m->kernel_slots[i] = 0;
            m->kernel_args[i] = &m->kernel_slots[i];
            run->gives = true;
            continue;
        }
        for (unsigned axis = 0; axis < operand->rank; axis++) {
            int32_t trap = rvm_dim_value(&kernel->dims[operand->dims + axis], m->kernel_dims, &dims[axis]);
            if (trap) {
                return dim_trap(m, run, trap);
            }
        }
        if (!tensor_count_elements(operand->rank, dims, operand->dtype, &elements)) {
            return dim_trap(m, run, RVM_TRAP_SIZE_OVERFLOW);
        }
        run->gives |= elements > 0;
        run->results[o] = make_output(m, run, i, dims, elements);
        if (!run->results[o]) {
            return trap_out_of_memory(m);
        }
        m->kernel_args[i] = run->results[o]->data;
        if (operand->access == RVM_ACCESS_STRIDED) {
            strides = write_strides(strides, operand->rank, dims);
        }
    }
    return 0;
}

/* Makes memory that is kept from call to call large enough; its start is a multiple of `align`. */
static bool need_bytes(rvm_machine *m, uint64_t bytes, uint64_t align, uint8_t **memory, uint64_t *memory_bytes) {
    if (bytes <= *memory_bytes) {
        return true;
    }
    uint64_t padded = heap_class_bytes(heap_size_class(bytes + RVM_ALIGN_BYTES));
    padded = (padded + align - 1) & ~(align - 1);
    free_memory(m, memory, memory_bytes);
    if (!heap_charge(&m->heap, padded)) {
        return false;
    }
    *memory = aligned_alloc(align, padded);
    if (!*memory) {
        heap_uncharge(&m->heap, padded);
        return false;
    }
    m->heap.system_calls++;
    *memory_bytes = padded;
    return true;
}

static int32_t need_memory(rvm_machine *m, const kernel_run *run, const rvm_dim *size, uint64_t align,
                           uint8_t **memory, uint64_t *memory_bytes) {
    int64_t bytes;
    int32_t trap = rvm_dim_value(size, m->kernel_dims, &bytes);
    if (trap || bytes < 0 || bytes >= RVM_MAX_BYTES) {
        return dim_trap(m, run, trap ? trap : RVM_TRAP_SIZE_OVERFLOW);
    }
    return need_bytes(m, (uint64_t)bytes, align, memory, memory_bytes) ? 0 : trap_out_of_memory(m);
}

/* Private memory has pages of its own, so that workers share no lines of the cache. */
static int32_t need_memories(rvm_machine *m, const kernel_run *run) {
    const rvm_kernel *kernel = run->kernel;
    int32_t trap = 0;
    if (kernel_wants(&kernel->scratch)) {
        trap = need_memory(m, run, &kernel->scratch, RVM_ALIGN_BYTES, &m->scratch, &m->scratch_bytes);
    }
    if (!trap && kernel_wants(&kernel->private_bytes)) {
        trap = need_memory(m, run, &kernel->private_bytes, PAGE_BYTES, &m->private_memory, &m->private_bytes);
        m->kernel_args[kernel->num_operands] = m->private_memory;
    }
    return trap;
}

bool kernel_worker_args(rvm_machine *m, const rvm_kernel *kernel, uint32_t parts) {
    int64_t bytes;
    if (rvm_dim_value(&kernel->private_bytes, m->kernel_dims, &bytes)) {
        return false; /* cannot be: the caller's memory has that size */
    }
    const uint64_t stride = ((uint64_t)bytes + PAGE_BYTES - 1) & ~(uint64_t)(PAGE_BYTES - 1);
    const uint64_t row = (uint64_t)kernel->num_operands + 1, others = parts - 1;
    /* The arrays of arguments stand behind the memory of all. */
    const uint64_t total = others * (stride + row * sizeof(void *));
    if (!need_bytes(m, total, PAGE_BYTES, &m->worker_memory, &m->worker_bytes)) {
        return false;
    }
    m->worker_args = (void **)(void *)(m->worker_memory + others * stride);
    for (uint64_t w = 0; w < others; w++) {
        memcpy(m->worker_args + w * row, m->kernel_args, kernel->num_operands * sizeof(void *));
        m->worker_args[w * row + kernel->num_operands] = m->worker_memory + w * stride;
    }
    return true;
}

/* An input whose memory an output took counts as it does, and that output is not new. */
static void count_bytes(const rvm_machine *m, const kernel_run *run, rvm_kernel_profile *row) {
    const rvm_kernel *kernel = run->kernel;
    for (uint32_t o = 0; o < kernel->num_outputs; o++) {
        const uint32_t operand = kernel->num_inputs + o;
        if (kernel->operands[operand].access == RVM_ACCESS_SCALAR) {
            continue;
        }
        const rvm_tensor *tensor = run->results[o];
        const uint64_t bytes = (uint64_t)tensor->elements * rvm_dtype_bytes[tensor->dtype];
        bool is_new = true;
        for (uint32_t i = 0; i < kernel->num_in_place; i++) {
            const rvm_in_place *pair = &kernel->in_place[i];
            is_new = is_new && (pair->output != operand || m->kernel_args[pair->input] != tensor->data);
        }
        row->bytes += is_new ? bytes : 2 * bytes;
        row->new_tensors += is_new;
        row->new_bytes += is_new ? bytes : 0;
    }
    for (uint32_t i = 0; i < kernel->num_inputs; i++) {
        if (kernel->operands[i].access != RVM_ACCESS_SCALAR && run->r[run->inputs[i]]) {
            const rvm_tensor *tensor = input_tensor(run, i);
            bool is_taken = false;
            for (uint32_t o = 0; o < kernel->num_outputs; o++) {
                is_taken = is_taken || (run->results[o] && run->results[o]->data == tensor->data && tensor->elements);
            }
            row->bytes += is_taken ? 0 : (uint64_t)tensor->elements * rvm_dtype_bytes[tensor->dtype];
        }
    }
}

__attribute__((noinline)) static int32_t run_measured(rvm_machine *m, const kernel_run *run, int64_t work,
                                                              uint64_t units) {
    const uint32_t number = (uint32_t)(run->kernel - m->program->kernels);
    rvm_kernel_profile *row = &m->profile->kernels[number];
    const uint64_t begin = profile_kernel_begin(m->profile, number);
    int32_t trap = kernel_run_phases(m, run->kernel, work, units);
    profile_kernel_end(m->profile, number, begin);
    row->calls++;
    count_bytes(m, run, row);
    if (__builtin_add_overflow(row->work, (uint64_t)work, &row->work)) {
        row->work = UINT64_MAX;
    }
    return trap;
}

/* The work, or the bytes of operands where these are more. A kernel that reads little of an operand does little work,
 * which bounds what it can touch. Values that fit the cache of the calling core count half: another fetches them there. */
static uint64_t units_of(const kernel_run *run, int64_t work) {
    const rvm_kernel *kernel = run->kernel;
    uint64_t constants = 0, values = 0;
    for (uint32_t i = 0; i < kernel->num_operands; i++) {
        bool is_input = i < kernel->num_inputs;
        if (kernel->operands[i].access != RVM_ACCESS_SCALAR && !(is_input && i < 32 && run->reused >> i & 1)) {
            const rvm_tensor *tensor = is_input ? input_tensor(run, i) : run->results[i - kernel->num_inputs];
            uint64_t bytes = (uint64_t)tensor->elements * rvm_dtype_bytes[tensor->dtype];
            *(tensor->storage ? &values : &constants) += bytes;
        }
    }
    const uint64_t done = (uint64_t)work, bytes = constants + (values < NEAR_BYTES ? values / 2 : values);
    return bytes < done ? done : bytes / RVM_BYTES_PER_WORK < done ? bytes : done * RVM_BYTES_PER_WORK;
}

static int32_t run_phases(rvm_machine *m, const kernel_run *run) {
    int64_t work;
    int32_t trap = rvm_dim_value(&run->kernel->work, m->kernel_dims, &work);
    if (trap || work < 0) { /* beyond 2^63: no limit of steps allows that */
        work = INT64_MAX;
    }
    m->kernel_calls++;
    m->fuel -= work / RVM_WORK_PER_STEP;
    const uint64_t units = m->num_threads > 1 && work >= RVM_SHARED_WORK ? units_of(run, work) : 0;
    return __builtin_expect(m->profile != NULL, 0) ? run_measured(m, run, work, units)
                                                   : kernel_run_phases(m, run->kernel, work, units);
}

static void drop_given(rvm_machine *m, const kernel_run *run) {
    for (uint32_t given = run->given & ~run->reused; given; given &= given - 1) {
        uint32_t i = (uint32_t)__builtin_ctz(given);
        object_release(&m->heap, word_object(run->r[run->inputs[i]]));
        run->r[run->inputs[i]] = 0;
    }
}

int32_t kernel_call(rvm_machine *m, const rvm_kernel *kernel, uint32_t given, const uint16_t *inputs,
                    const uint16_t *outputs, uint64_t *r) {
    kernel_run run;
    run.kernel = kernel;
    run.r = r;
    run.inputs = inputs + 1;
    run.outputs = outputs + 1;
    run.given = given;
    run.reused = 0;
    run.gives = false;
    run.results = m->kernel_results;
    for (uint32_t o = 0; o < kernel->num_outputs; o++) {
        run.results[o] = NULL;
    }
    int32_t trap = take_inputs(m, &run);
    trap = trap ? trap : check_sizes(m, &run);
    trap = trap ? trap : make_outputs(m, &run);
    if (run.gives) { /* what gives no element looks at no value */
        trap = trap ? trap : need_memories(m, &run);
        trap = trap ? trap : run_phases(m, &run);
    }
    drop_given(m, &run);
    for (uint32_t o = 0; o < kernel->num_outputs; o++) {
        const rvm_operand *operand = &kernel->operands[kernel->num_inputs + o];
        if (trap) {
            if (run.results[o]) {
                object_release(&m->heap, &run.results[o]->head);
            }
        } else if (operand->access == RVM_ACCESS_SCALAR) {
            r[run.outputs[o]] = tensor_load_word(operand->dtype, m->kernel_args[kernel->num_inputs + o]);
        } else {
            r[run.outputs[o]] = object_word(run.results[o]);
        }
    }
    return trap;
}
