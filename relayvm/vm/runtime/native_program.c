/* The compiled code of a program: where each function's stands, for all of its machines. */
#include "native.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "machine.h"

static rvm_native_code *native_rows(const rvm_program *program, const void *base,
                                    const rvm_image_function *functions) {
    rvm_native_code *rows = malloc((program->num_functions + 1) * sizeof *rows);
    for (uint32_t i = 0; rows && i < program->num_functions; i++) {
        rows[i].code = (const uint8_t *)base + functions[i].code;
        const void *enter = (const uint8_t *)base + functions[i].enter;
        memcpy(&rows[i].enter, &enter, sizeof enter);
    }
    return rows;
}

int32_t rvm_program_set_native(rvm_program *program, const void *base, const rvm_image_function *functions,
                               uint64_t margin_bytes) {
    rvm_native_code *rows = native_rows(program, base, functions);
    if (!rows) {
        return -1;
    }
    native_compile_lock();
    if (program->native) {
        free(rows);
    } else {
        for (uint32_t i = 0; i < program->num_layouts; i++) {
            rvm_layout *layout = &program->layouts[i];
            layout->native = layout->kind == RVM_LAYOUT_CLOSURE ? rows[layout->function].code : NULL;
        }
        program->native_margin_bytes = margin_bytes;
        __atomic_store_n(&program->native, rows, __ATOMIC_RELEASE);
    }
    native_compile_unlock();
    return 0;
}

int32_t rvm_program_set_profiled(rvm_program *program, const void *base, const rvm_image_function *functions) {
    rvm_native_code *rows = native_rows(program, base, functions);
    if (!rows) {
        return -1;
    }
    for (uint32_t i = 0; i < program->num_layouts; i++) {
        rvm_layout *layout = &program->layouts[i];
        layout->profiled = layout->kind == RVM_LAYOUT_CLOSURE ? rows[layout->function].code : NULL;
    }
    program->profiled = rows;
    return 0;
}

bool rvm_program_is_profiled(const rvm_program *program) {
    return program->profiled != NULL;
}

void native_drop(rvm_program *program) {
    free(program->native);
    free(program->profiled);
    program->native = program->profiled = NULL;
    free(program->compiler);
    if (program->native_memory) {
        munmap(program->native_memory, program->native_bytes);
    }
}

bool rvm_program_is_native(const rvm_program *program) {
    return __atomic_load_n(&program->native, __ATOMIC_ACQUIRE) != NULL;
}
