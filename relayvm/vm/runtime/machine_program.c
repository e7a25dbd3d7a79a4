/* What the host asks of a program: its functions, layouts and places in sources; and kernels given from outside. */
#include "value.h"

uint32_t rvm_program_num_functions(const rvm_program *program) {
    return program->num_functions;
}

uint32_t rvm_program_num_late_constants(const rvm_program *program) {
    return program->num_late_constants;
}

uint32_t rvm_program_num_layouts(const rvm_program *program) {
    return program->num_layouts;
}

uint32_t rvm_program_num_kernels(const rvm_program *program) {
    return program->num_kernels;
}

bool rvm_program_function(const rvm_program *program, uint32_t function, rvm_function_info *info) {
    if (function >= program->num_functions) {
        return false;
    }
    const rvm_function *row = &program->functions[function];
    info->num_params = row->num_params;
    info->num_results = row->num_results;
    info->param_class = row->param_class;
    info->result_class = row->result_class;
    info->name = row->name;
    return true;
}

bool rvm_program_layout(const rvm_program *program, uint32_t layout, rvm_layout_info *info) {
    if (layout >= program->num_layouts) {
        return false;
    }
    const rvm_layout *row = &program->layouts[layout];
    info->kind = row->kind;
    info->num_fields = row->num_fields;
    info->constructor = row->constructor;
    info->num_constructors = row->num_constructors;
    info->function = row->function;
    info->signature = row->signature;
    info->field_class = row->field_class;
    info->field_dtype = row->field_dtype;
    info->name = row->name;
    info->type_name = row->type_name;
    return true;
}

void rvm_program_place(const rvm_program *program, uint32_t function, uint32_t unit, rvm_place *place) {
    const rvm_function *row = &program->functions[function];
    place->found = 0;
    for (uint32_t i = 0; i < row->num_lines && row->lines[i].unit <= unit; i++) {
        place->found = row->lines[i].source < program->num_sources;
        place->source = row->lines[i].source;
        place->line = row->lines[i].line;
        place->column = row->lines[i].column;
    }
}

const char *rvm_program_source_name(const rvm_program *program, uint32_t source) {
    return program->sources[source].name;
}

const char *rvm_program_source_text(const rvm_program *program, uint32_t source) {
    return program->sources[source].text;
}

const char *rvm_program_kernel_name(const rvm_program *program, uint32_t kernel) {
    return program->kernels[kernel].name;
}

bool rvm_kernel_bind(rvm_program *program, uint32_t kernel, const uint64_t *phases, uint32_t num_phases) {
    if (kernel >= program->num_kernels || program->kernels[kernel].num_phases != num_phases) {
        return false;
    }
    for (uint32_t i = 0; i < num_phases; i++) {
        rvm_program_set_phase(program, kernel, i, (const void *)(uintptr_t)phases[i]);
    }
    program->kernels[kernel].calls_host = 1;
    return true;
}

int32_t rvm_kernel_empty(void *const *args, const int64_t *dims, int64_t begin, int64_t end, void *scratch,
                         int64_t *values) {
    (void)args;
    (void)dims;
    (void)begin;
    (void)end;
    (void)scratch;
    (void)values;
    return 0;
}

uint64_t rvm_kernel_empty_address(void) {
    return (uint64_t)(uintptr_t)rvm_kernel_empty;
}
