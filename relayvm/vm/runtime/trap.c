/* Traps and safepoints: the record of a failed run, the release of its frames, limits and interrupts. */
#include "machine.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int32_t trap_set(rvm_machine *m, int32_t code, const char *format, ...) {
    va_list list;
    va_start(list, format);
    vsnprintf(m->trap.message, sizeof m->trap.message, format, list);
    va_end(list);
    m->trap.kernel = NULL;
    return code;
}

static int write_value(char *out, size_t room, char kind, int64_t value, bool is_unsigned) {
    if (kind == 'g') {
        double number;
        memcpy(&number, &value, sizeof number);
        return snprintf(out, room, "%g", isnan(number) ? (double)NAN : number);
    }
    return is_unsigned ? snprintf(out, room, "%llu", (unsigned long long)value)
                       : snprintf(out, room, "%lld", (long long)value);
}

void trap_tell(rvm_machine *m, const char *kernel, uint32_t reason, bool is_unsigned, const int64_t *values) {
#define TEXT(text) text,
    static const char *const texts[RVM_NUM_TRAP_REASONS] = {RVM_TRAP_REASONS(TEXT)};
#undef TEXT
    char *out = m->trap.message;
    size_t left = sizeof m->trap.message;
    unsigned shown = 0;
    for (const char *c = texts[reason - 1]; *c && left > 32; c++) {
        if (*c == '%' && shown < 2) {
            const int written = write_value(out, left, *++c, values[shown], is_unsigned && shown == 0);
            shown++;
            out += written;
            left -= (size_t)written;
        } else {
            *out++ = *c;
            left--;
        }
    }
    *out = 0;
    m->trap.kernel = kernel;
}

int32_t trap_named(rvm_machine *m, uint16_t code) {
    static const char *const reasons[RVM_NUM_TRAPS] = {
        [RVM_TRAP_INDEX_OUT_OF_RANGE] = "an index is outside its axis",
        [RVM_TRAP_SHAPE_MISMATCH] = "a size is not what the program requires",
        [RVM_TRAP_MATCH_FAILED] = "no clause of the match fits the value",
        [RVM_TRAP_OUT_OF_MEMORY] = "the memory limit is reached",
        [RVM_TRAP_OUT_OF_STEPS] = "the step limit is reached",
        [RVM_TRAP_OUT_OF_DEPTH] = "the call depth limit is reached",
        [RVM_TRAP_INTERRUPTED] = "the run was interrupted",
        [RVM_TRAP_EMPTY_REFERENCE] = "a reference is read while its value is taken out",
        [RVM_TRAP_SIZE_OVERFLOW] = "a tensor would need more than 2^46 bytes",
        [RVM_TRAP_BAD_VALUE] = "a value is outside the operator's domain",
    };
    bool known = code > 0 && code < RVM_NUM_TRAPS && reasons[code];
    return trap_set(m, known ? code : RVM_TRAP_BAD_VALUE, "%s", reasons[known ? code : RVM_TRAP_BAD_VALUE]);
}

int32_t trap_out_of_memory(rvm_machine *m) {
    return trap_set(m, RVM_TRAP_OUT_OF_MEMORY, "the limit of %llu bytes is reached",
                    (unsigned long long)m->heap.limit_bytes);
}

int32_t trap_empty_reference(rvm_machine *m) {
    return trap_set(m, RVM_TRAP_EMPTY_REFERENCE, "a reference is read while its value is taken out");
}

void trap_begin(rvm_machine *m, int32_t code) {
    m->trap.code = code;
    m->trap.num_registers = 0;
    m->trap.skipped = 0; /* the number of frames, until trap_end */
}

void trap_add_frame(rvm_machine *m, const rvm_function *function, uint32_t unit) {
    const uint64_t total = m->trap.skipped++;
    /* Behind the innermost stands a ring that ends up with the outermost. */
    const uint64_t at = total < RVM_TRACE_FRAMES ? total : RVM_TRACE_FRAMES + total % RVM_TRACE_FRAMES;
    m->trap.frames[at] = (rvm_trace_frame){function->index, unit};
}

void trap_end(rvm_machine *m) {
    rvm_trap_record *trap = &m->trap;
    const uint64_t total = trap->skipped;
    if (total <= 2 * RVM_TRACE_FRAMES) {
        trap->num_frames = (uint32_t)total;
        trap->num_inner = trap->num_frames;
        trap->skipped = 0;
        return;
    }
    rvm_trace_frame ring[RVM_TRACE_FRAMES];
    memcpy(ring, trap->frames + RVM_TRACE_FRAMES, sizeof ring);
    for (uint64_t i = 0; i < RVM_TRACE_FRAMES; i++) {
        trap->frames[RVM_TRACE_FRAMES + i] = ring[(total + i) % RVM_TRACE_FRAMES];
    }
    trap->num_frames = 2 * RVM_TRACE_FRAMES;
    trap->num_inner = RVM_TRACE_FRAMES;
    trap->skipped = total - 2 * RVM_TRACE_FRAMES;
}

/* Callers wait in front of their list of results, which the call instruction ends with. */
static void record_stack(rvm_machine *m, const rvm_frame *frame, const uint16_t *pc) {
    for (const uint16_t *at = pc; frame; frame = frame->caller) {
        trap_add_frame(m, frame->function, (uint32_t)(at - frame->function->code));
        at = frame->caller ? frame->caller->results - 1 : NULL;
    }
    trap_end(m);
}

static bool is_parameter(const rvm_function *function, uint32_t slot) {
    for (uint32_t i = 0; i < function->num_params; i++) {
        if (function->param_slot[i] == slot) {
            return true;
        }
    }
    return false;
}

/* Only full owned registers, and words that are parameters: any other may not have been written, or be stale. */
void trap_add_registers(rvm_machine *m, const rvm_function *function, const uint64_t *slots) {
    rvm_trap_record *trap = &m->trap;
    for (uint32_t i = 0; i < function->num_register_names; i++) {
        uint32_t slot = function->register_names[i].slot;
        bool is_word = slot < function->words;
        uint64_t word = slot < (uint32_t)function->words + function->owned ? slots[slot] : 0;
        if ((is_word ? !is_parameter(function, slot) : !word) || trap->num_registers == RVM_TRACE_REGISTERS) {
            continue;
        }
        rvm_trace_register *row = &trap->registers[trap->num_registers++];
        memset(row, 0, sizeof *row);
        row->slot = slot;
        row->name = function->register_names[i].name;
        row->word = word;
        if (is_word) {
            continue;
        }
        const rvm_object *object = word_object(word);
        row->kind = object->kind;
        row->layout = object->layout;
        if (object->kind == RVM_TENSOR) {
            const rvm_tensor *tensor = (const rvm_tensor *)(const void *)object;
            row->dtype = tensor->dtype;
            row->rank = tensor->rank;
            memcpy(row->dims, tensor->dims, tensor->rank * sizeof(int64_t));
        }
    }
}

static void drop_frames(rvm_machine *m, rvm_frame *frame) {
    while (frame) {
        const rvm_function *function = frame->function;
        for (unsigned i = function->words, end = i + function->owned; i < end; i++) {
            if (frame->slots[i]) {
                object_release(&m->heap, word_object(frame->slots[i]));
            }
        }
        rvm_frame *caller = frame->caller;
        frame_pop(m, frame);
        frame = caller;
    }
}

void trap_unwind(rvm_machine *m, rvm_frame *frame, const uint16_t *pc, int32_t code) {
    trap_begin(m, code);
    record_stack(m, frame, pc);
    if (frame) {
        trap_add_registers(m, frame->function, frame->slots);
    }
    drop_frames(m, frame);
}

void trap_unwind_callers(rvm_machine *m, rvm_frame *frame) {
    record_stack(m, frame, frame ? frame->results - 1 : NULL);
    drop_frames(m, frame);
}

int32_t trap_poll(rvm_machine *m) {
    if (atomic_exchange_explicit(&m->interrupted, 0, memory_order_relaxed)) {
        return trap_set(m, RVM_TRAP_INTERRUPTED, "the run was interrupted");
    }
    if (m->poll) {
        int64_t now = machine_clock_ns();
        if (now - m->last_poll_ns >= RVM_POLL_NS) {
            int32_t answer = m->poll(m->poll_context);
            m->last_poll_ns = machine_clock_ns();
            if (answer) {
                return trap_set(m, RVM_TRAP_INTERRUPTED, "the run was interrupted");
            }
        }
    }
    return 0;
}

int32_t trap_safepoint(rvm_machine *m) {
    m->safepoints++;
    m->steps += (uint64_t)(m->slice - m->fuel);
    m->slice = m->fuel = 0;
    if (m->steps > m->max_steps) {
        return trap_set(m, RVM_TRAP_OUT_OF_STEPS, "the limit of %llu steps is reached",
                        (unsigned long long)m->max_steps);
    }
    uint64_t left = m->max_steps - m->steps;
    m->slice = m->fuel = left < RVM_FUEL_SLICE ? (int64_t)left : RVM_FUEL_SLICE;
    if (heap_scan_is_due(&m->heap)) {
        heap_scan_cycles(&m->heap);
    }
    return trap_poll(m);
}
