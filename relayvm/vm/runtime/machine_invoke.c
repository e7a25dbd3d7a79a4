/* A call from the host: makes values of the machine's own from arrays, runs, and clears up. */
#include "cycles.h"
#include "tensor.h"
#include "value.h"

static int32_t wrap_array(rvm_machine *m, const rvm_argument *arg, uint64_t *value) {
    int64_t elements;
    if (!tensor_count_elements(arg->rank, arg->dims, arg->dtype, &elements)) {
        return trap_set(m, RVM_TRAP_SIZE_OVERFLOW, "the sizes of an argument are too large");
    }
    *value = object_word(
        tensor_wrap(&m->heap, arg->dtype, arg->rank, arg->dims, elements, (void *)(uintptr_t)arg->data));
    return *value ? 0 : trap_out_of_memory(m);
}

static void drop_objects(rvm_machine *m, const rvm_function *code, const uint64_t *values, uint8_t param_class) {
    for (uint32_t i = 0; i < code->num_params; i++) {
        if (code->param_class[i] == param_class && values[i]) {
            object_release(&m->heap, word_object(values[i]));
        }
    }
}

/* All or none: on a trap nothing is owned. */
static int32_t take_arguments(rvm_machine *m, const rvm_function *code, const rvm_argument *args, uint64_t *values) {
    int32_t trap = 0;
    for (uint32_t i = 0; i < code->num_params; i++) {
        values[i] = args[i].word;
        if (args[i].kind == RVM_ARGUMENT_ARRAY) {
            values[i] = 0;
            trap = trap ? trap : wrap_array(m, &args[i], &values[i]);
        }
    }
    if (trap) {
        drop_objects(m, code, values, RVM_CLASS_OWNED);
        drop_objects(m, code, values, RVM_CLASS_BORROWED);
        trap_unwind(m, NULL, NULL, trap);
    }
    return trap;
}

static int32_t invoke(rvm_call *call) {
    rvm_machine *m = call->machine;
    const rvm_function *code = &m->program->functions[call->function];
    int32_t trap = take_arguments(m, code, call->args, m->invoke_values);
    if (!trap) {
        trap = machine_run(m, call->function, m->invoke_values, call->results);
        drop_objects(m, code, m->invoke_values, RVM_CLASS_BORROWED);
        machine_settle(m);
    }
    for (uint32_t i = 0; i < code->num_results; i++) {
        if (trap) {
            call->results[i] = 0;
        } else if (code->result_class[i] == RVM_CLASS_OWNED) {
            rvm_value_inspect(call->results[i], &call->infos[i]);
        }
    }
    return trap;
}

static int32_t invoke_measured(rvm_call *call) {
    rvm_machine *m = call->machine;
    const uint64_t steps = m->total_steps;
    const int64_t begin = machine_clock_ns();
    m->profile = call->profile->kernels;
    int32_t trap = invoke(call);
    m->profile = NULL;
    call->profile->time_ns += (uint64_t)(machine_clock_ns() - begin);
    call->profile->steps += m->total_steps - steps;
    return trap;
}

int32_t rvm_machine_invoke(rvm_call *call) {
    if (atomic_exchange(&call->machine->running, 1)) {
        return -1;
    }
    const bool cyclic = call->machine->program->cyclic;
    if (cyclic) {
        shared_cycles_enter();
    }
    int32_t trap = call->profile ? invoke_measured(call) : invoke(call);
    if (cyclic) {
        shared_cycles_leave();
        shared_cycles_settle(SHARED_CYCLES_RUN);
    }
    atomic_store(&call->machine->running, 0);
    return trap;
}

void rvm_machine_take_data(rvm_call *call, uint32_t result, void *to) {
    uint64_t value = call->results[result];
    call->results[result] = 0;
    rvm_value_copy_data(value, to);
    object_release(&call->machine->heap, word_object(value));
}
