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

static bool fits(const rvm_destination *to, const rvm_tensor *tensor) {
    if (tensor->head.kind != RVM_TENSOR || tensor->dtype != to->dtype || tensor->rank != to->rank) {
        return false;
    }
    for (unsigned i = 0; i < to->rank; i++) {
        if (tensor->dims[i] != to->dims[i]) {
            return false;
        }
    }
    return true;
}

/* A single one is copied before it is shared: most never become values that others see. */
static int32_t fill_destinations(rvm_call *call, const rvm_function *code) {
    int32_t answer = 0;
    for (uint32_t i = 0; i < code->num_results; i++) {
        const rvm_destination *to = &call->destinations[i];
        if (!to->data || code->result_class[i] != RVM_CLASS_OWNED) {
            continue;
        }
        if (!fits(to, word_tensor(call->results[i]))) {
            answer = RVM_CALL_MISFIT;
            continue;
        }
        rvm_value_copy_data(call->results[i], to->data);
        object_release(&call->machine->heap, word_object(call->results[i]));
        call->results[i] = 0;
    }
    return answer;
}

/* Runs the function of a call on a machine that is the caller's; results belong to the machine alone. */
static int32_t run(rvm_call *call) {
    rvm_machine *m = call->machine;
    const rvm_function *code = &m->program->functions[call->function];
    int32_t trap = take_arguments(m, code, call->args, m->invoke_values);
    if (!trap) {
        trap = machine_start(m, call->function, m->invoke_values, call->results);
        if (trap) {
            drop_objects(m, code, m->invoke_values, RVM_CLASS_BORROWED);
            machine_settle(m);
        }
    }
    for (uint32_t i = 0; trap && i < code->num_results; i++) {
        call->results[i] = 0;
    }
    return trap;
}

/* Makes the results that nobody took those of the host. */
static int32_t leave(rvm_call *call) {
    rvm_machine *m = call->machine;
    const rvm_function *code = &m->program->functions[call->function];
    const int32_t trap = call_share(call);
    drop_objects(m, code, m->invoke_values, RVM_CLASS_BORROWED);
    machine_settle(m);
    for (uint32_t i = 0; i < code->num_results; i++) {
        if (code->result_class[i] == RVM_CLASS_OWNED && call->results[i]) {
            rvm_value_inspect(call->results[i], &call->infos[i]);
        }
    }
    return trap;
}

int32_t call_share(rvm_call *call) {
    rvm_machine *m = call->machine;
    const rvm_function *code = &m->program->functions[call->function];
    const int32_t trap = machine_share_results(m, code, call->results);
    for (uint32_t i = 0; trap && i < code->num_results; i++) {
        call->results[i] = 0;
    }
    return trap;
}

static int32_t invoke(rvm_call *call) {
    const int32_t trap = run(call);
    if (trap) {
        return trap;
    }
    const rvm_function *code = &call->machine->program->functions[call->function];
    const int32_t early = call->destinations && code->num_results > 1 ? call_share(call) : 0;
    const int32_t answer = call->destinations && !early ? fill_destinations(call, code) : 0;
    const int32_t late = leave(call);
    return early ? early : late ? late : answer;
}

static int32_t invoke_measured(rvm_call *call) {
    rvm_machine *m = call->machine;
    profile_begin(m, call->profile);
    int32_t answer = invoke(call);
    profile_end(m);
    return answer;
}

static bool lock_machine(rvm_machine *m) {
    if (atomic_exchange(&m->running, 1)) {
        return false;
    }
    if (m->program->cyclic) {
        shared_cycles_enter();
    }
    return true;
}

static void unlock_machine(rvm_machine *m) {
    if (m->program->cyclic) {
        shared_cycles_leave();
        shared_cycles_settle(SHARED_CYCLES_RUN);
    }
    atomic_store(&m->running, 0);
}

int32_t rvm_machine_invoke_many(rvm_call *calls, uint32_t count, uint32_t *done) {
    rvm_machine *m = calls->machine;
    *done = 0;
    if (!lock_machine(m)) {
        return RVM_CALL_BUSY;
    }
    int32_t answer = 0;
    while (answer <= 0 && *done < count) {
        rvm_call *call = &calls[*done];
        int32_t last = call->profile ? invoke_measured(call) : invoke(call);
        answer = last ? last : answer;
        *done += last <= 0;
    }
    unlock_machine(m);
    return answer;
}

int32_t rvm_machine_invoke(rvm_call *call) {
    uint32_t done;
    return rvm_machine_invoke_many(call, 1, &done);
}

int32_t call_begin(rvm_call *call) {
    if (!lock_machine(call->machine)) {
        return RVM_CALL_BUSY;
    }
    const int32_t trap = run(call);
    if (trap) {
        unlock_machine(call->machine);
    }
    return trap;
}

int32_t call_end(rvm_call *call) {
    const int32_t trap = leave(call);
    unlock_machine(call->machine);
    return trap;
}

static void take(rvm_call *call, rvm_heap *heap) {
    const rvm_function *code = &call->machine->program->functions[call->function];
    for (uint32_t i = 0; i < code->num_results; i++) {
        if (code->result_class[i] == RVM_CLASS_OWNED && call->results[i] && call->destinations[i].data &&
            call->infos[i].kind == RVM_TENSOR) {
            rvm_value_copy_data(call->results[i], call->destinations[i].data);
            object_release(heap, word_object(call->results[i]));
            call->results[i] = 0;
        }
    }
}

void rvm_machine_take(rvm_call *calls, uint32_t count) {
    rvm_machine *m = calls->machine;
    const bool mine = !atomic_exchange(&m->running, 1);
    rvm_heap *heap = mine ? &m->heap : heap_host_lock();
    for (uint32_t i = 0; i < count; i++) {
        take(&calls[i], heap);
    }
    if (mine) {
        atomic_store(&m->running, 0);
    } else {
        heap_host_unlock();
    }
}
