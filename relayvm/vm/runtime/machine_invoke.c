/* A call from the host: makes values of the machine's own from arrays, runs, and clears up. */
#include "tensor.h"
#include "value.h"

/* The wrapped array, owned; null where memory ran out. */
static rvm_tensor *wrap_array(rvm_machine *m, const rvm_argument *arg) {
    int64_t elements;
    if (!tensor_count_elements(arg->rank, arg->dims, arg->dtype, &elements)) {
        return NULL;
    }
    return tensor_wrap(&m->heap, arg->dtype, arg->rank, arg->dims, elements, (void *)(uintptr_t)arg->data);
}

static void drop_objects(rvm_machine *m, const rvm_function *code, const uint64_t *values, uint8_t param_class,
                         uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        if (code->param_class[i] == param_class && values[i]) {
            object_release(&m->heap, word_object(values[i]));
        }
    }
}

/* All or none: on failure nothing is owned. */
static bool take_arguments(rvm_machine *m, const rvm_function *code, const rvm_argument *args, uint64_t *values) {
    bool ok = true;
    for (uint32_t i = 0; i < code->num_params; i++) {
        values[i] = args[i].word;
        if (args[i].kind == RVM_ARGUMENT_ARRAY) {
            values[i] = ok ? object_word(wrap_array(m, &args[i])) : 0;
            ok = ok && values[i];
        }
    }
    if (!ok) {
        drop_objects(m, code, values, RVM_CLASS_OWNED, code->num_params);
        drop_objects(m, code, values, RVM_CLASS_BORROWED, code->num_params);
    }
    return ok;
}

static int32_t invoke(rvm_machine *m, uint32_t function, const rvm_argument *args, uint64_t *results,
                      rvm_value_info *infos) {
    const rvm_function *code = &m->program->functions[function];
    uint64_t *values = m->invoke_values;
    if (!take_arguments(m, code, args, values)) {
        int32_t trap = trap_out_of_memory(m);
        trap_unwind(m, NULL, NULL, trap);
        return trap;
    }
    int32_t trap = machine_run(m, function, values, results);
    drop_objects(m, code, values, RVM_CLASS_BORROWED, code->num_params);
    for (uint32_t i = 0; !trap && i < code->num_results; i++) {
        if (code->result_class[i] == RVM_CLASS_OWNED) {
            rvm_value_inspect(results[i], &infos[i]);
        }
    }
    machine_settle(m);
    return trap;
}

int32_t rvm_machine_invoke(rvm_machine *m, uint32_t function, const rvm_argument *args, uint64_t *results,
                           rvm_value_info *infos) {
    if (atomic_exchange(&m->running, 1)) {
        return -1;
    }
    int32_t trap = invoke(m, function, args, results, infos);
    atomic_store(&m->running, 0);
    return trap;
}

void rvm_machine_take_data(rvm_machine *m, uint64_t value, void *to) {
    rvm_value_copy_data(value, to);
    object_release(&m->heap, word_object(value));
}
