/* Kernels, their signatures, and stored native code of a file: checked and given the form that the
 * machine reads. */
#include "loader.h"
#include "native.h"

static int refuse_kernel(const rvm_reader *reader, const void *place, const rvm_kernel *kernel,
                         const char *what, uint32_t number) {
    return reader_refuse(reader, place, "kernel `%.100s`: %s %u is wrong", kernel->name, what,
                         number);
}

static int check_operand(const rvm_operand *operand, uint32_t number, const rvm_kernel *kernel) {
    const uint32_t direction = number < kernel->num_inputs ? RVM_DIRECTION_INPUT : RVM_DIRECTION_OUTPUT;
    if (operand->direction != direction || operand->dtype >= RVM_NUM_DTYPES ||
        operand->rank > RVM_MAX_RANK || operand->access > RVM_ACCESS_SCALAR)
        return -1;
    if (operand->access == RVM_ACCESS_SCALAR) return operand->rank == 0 ? 0 : -1;
    return direction == RVM_DIRECTION_OUTPUT && operand->access != RVM_ACCESS_DENSE ? -1 : 0;
}

static int read_operands(rvm_reader *reader, const file_kernels *row, rvm_kernel *kernel,
                         uint32_t *num_dims) {
    const file_operands *rows = reader_take(reader, row, RVM_SECTION_OPERANDS, row->operands_begin,
                                            kernel->num_operands);
    rvm_operand *operands =
        rows ? reader_allocate(reader, kernel->num_operands, sizeof *operands) : NULL;
    if (operands == NULL) return -1;
    uint32_t strides = 0;
    *num_dims = 0;
    for (uint32_t i = 0; i < kernel->num_operands; i++) {
        operands[i] = (rvm_operand){.direction = rows[i].direction,
                                    .dtype = rows[i].dtype,
                                    .rank = rows[i].rank,
                                    .access = rows[i].access,
                                    .dims = *num_dims};
        if (check_operand(&operands[i], i, kernel))
            return refuse_kernel(reader, &rows[i], kernel, "operand", i);
        *num_dims += operands[i].rank;
        if (operands[i].access == RVM_ACCESS_STRIDED) strides += operands[i].rank;
    }
    kernel->num_strides = (uint16_t)strides;
    kernel->operands = operands;
    return 0;
}

/* A postfix program: its operations, variables, and that its stack holds one value at the end. */
static int check_program(const int64_t *code, uint32_t length, uint32_t num_vars) {
    uint32_t depth = 0;
    for (uint32_t i = 0; i < length; i++) {
        const int64_t op = code[i];
        if (op == RVM_DIM_OP_CONSTANT || op == RVM_DIM_OP_VARIABLE) {
            if (++i == length || depth == RVM_MAX_DIM_STACK) return -1;
            if (op == RVM_DIM_OP_VARIABLE && (code[i] < 0 || code[i] >= (int64_t)num_vars))
                return -1;
            depth++;
        } else if (op >= RVM_DIM_OP_ADD && op <= RVM_DIM_OP_BROADCAST && depth >= 2) {
            depth--;
        } else {
            return -1;
        }
    }
    return depth == 1 ? 0 : -1;
}

static int read_dim(rvm_reader *reader, const file_expressions *row, const rvm_kernel *kernel,
                    rvm_dim *dim) {
    *dim = (rvm_dim){.kind = row->kind, .length = row->length, .value = row->value};
    int good = 0;
    if (row->kind == RVM_DIM_CONSTANT) {
        good = row->length == 0 && row->value >= 0 && row->value <= RVM_MAX_BYTES;
    } else if (row->kind == RVM_DIM_VARIABLE) {
        good = row->length == 0 && row->value >= 0 && row->value < (int64_t)kernel->num_vars;
    } else if (row->kind == RVM_DIM_PROGRAM && row->value >= 0 && row->value <= UINT32_MAX) {
        dim->code = reader_take(reader, row, RVM_SECTION_DIM_CODE, (uint32_t)row->value, row->length);
        if (dim->code == NULL) return -1;
        good = check_program(dim->code, row->length, kernel->num_vars) == 0;
    }
    return good ? 0 : reader_refuse(reader, row, "kernel `%.100s`: a dim is wrong", kernel->name);
}

/* The dims of a kernel stand together: operands, two for each check, scratch, private, work, extents of phases,
 * chains of phases. */
static int read_dims(rvm_reader *reader, const file_kernels *row, rvm_kernel *kernel,
                     uint32_t num_dims, const file_checks *checks) {
    const uint32_t total = num_dims + 2u * kernel->num_checks + 3u + 2u * kernel->num_phases;
    const file_expressions *rows =
        reader_take(reader, row, RVM_SECTION_EXPRESSIONS, row->expressions_begin, total);
    rvm_dim *dims = rows ? reader_allocate(reader, num_dims, sizeof *dims) : NULL;
    rvm_dim *extents = dims ? reader_allocate(reader, 2u * kernel->num_phases, sizeof *extents) : NULL;
    rvm_dim_check *made =
        extents ? reader_allocate(reader, kernel->num_checks, sizeof *made) : NULL;
    if (made == NULL) return -1;
    for (uint32_t i = 0; i < num_dims; i++)
        if (read_dim(reader, rows++, kernel, &dims[i])) return -1;
    for (uint32_t i = 0; i < kernel->num_checks; i++) {
        if (read_dim(reader, rows++, kernel, &made[i].a) ||
            read_dim(reader, rows++, kernel, &made[i].b) ||
            reader_string(reader, &checks[i], checks[i].what_begin, checks[i].what_bytes,
                          &made[i].what))
            return -1;
    }
    if (read_dim(reader, rows++, kernel, &kernel->scratch) ||
        read_dim(reader, rows++, kernel, &kernel->private_bytes) ||
        read_dim(reader, rows++, kernel, &kernel->work))
        return -1;
    for (uint32_t i = 0; i < 2u * kernel->num_phases; i++)
        if (read_dim(reader, rows++, kernel, &extents[i])) return -1;
    kernel->dims = dims;
    kernel->checks = made;
    kernel->phase_extents = extents;
    return 0;
}

static int check_source(const rvm_kernel *kernel, const rvm_dim_source *source) {
    if (source->operand >= kernel->num_inputs) return -1;
    const rvm_operand *operand = &kernel->operands[source->operand];
    if (source->axis >= 0)
        return operand->access != RVM_ACCESS_SCALAR && source->axis < operand->rank ? 0 : -1;
    const uint8_t kind = rvm_dtype_kind[operand->dtype];
    const int is_integer = kind == RVM_KIND_INT || kind == RVM_KIND_UINT;
    return source->axis == -1 && operand->access == RVM_ACCESS_SCALAR && is_integer ? 0 : -1;
}

static int read_sources(rvm_reader *reader, const file_kernels *row, rvm_kernel *kernel) {
    const file_dim_sources *rows = reader_take(reader, row, RVM_SECTION_DIM_SOURCES,
                                               row->sources_begin, kernel->num_vars);
    rvm_dim_source *sources =
        rows ? reader_allocate(reader, kernel->num_vars, sizeof *sources) : NULL;
    const char **names = sources ? reader_allocate(reader, kernel->num_vars, sizeof *names) : NULL;
    if (names == NULL) return -1;
    for (uint32_t i = 0; i < kernel->num_vars; i++) {
        sources[i] = (rvm_dim_source){.operand = rows[i].operand, .axis = rows[i].axis};
        if (check_source(kernel, &sources[i]))
            return refuse_kernel(reader, &rows[i], kernel, "the source of dim variable", i);
        if (reader_string(reader, &rows[i], rows[i].name_begin, rows[i].name_bytes, &names[i]))
            return -1;
    }
    kernel->sources = sources;
    kernel->var_names = names;
    return 0;
}

static int read_in_place(rvm_reader *reader, const file_kernels *row, rvm_kernel *kernel) {
    _Static_assert(sizeof(rvm_in_place) == sizeof(file_in_place), "read in place");
    const rvm_in_place *pairs = reader_take(reader, row, RVM_SECTION_IN_PLACE, row->in_place_begin,
                                            kernel->num_in_place);
    if (pairs == NULL) return -1;
    for (uint32_t i = 0; i < kernel->num_in_place; i++) {
        const uint32_t output = pairs[i].output, input = pairs[i].input;
        if (output < kernel->num_inputs || output >= kernel->num_operands ||
            input >= kernel->num_inputs)
            return refuse_kernel(reader, &pairs[i], kernel, "in-place pair", i);
        const rvm_operand *a = &kernel->operands[output], *b = &kernel->operands[input];
        if (a->access != RVM_ACCESS_DENSE || b->access != RVM_ACCESS_DENSE || a->dtype != b->dtype)
            return refuse_kernel(reader, &pairs[i], kernel, "in-place pair", i);
    }
    kernel->in_place = pairs;
    return 0;
}

static int read_kernel(rvm_reader *reader, const file_kernels *row, rvm_kernel *kernel) {
    if (reader_string(reader, row, row->name_begin, row->name_bytes, &kernel->name)) return -1;
    const uint32_t operands = (uint32_t)row->num_inputs + row->num_outputs;
    if (operands > RVM_MAX_OPERANDS || row->num_vars > RVM_MAX_VARS || row->num_phases == 0 ||
        row->num_phases > RVM_MAX_PHASES)
        return reader_refuse(reader, row, "kernel `%.100s` has too many operands, dims or phases",
                             kernel->name);
    kernel->num_inputs = row->num_inputs;
    kernel->num_outputs = row->num_outputs;
    kernel->num_operands = (uint16_t)operands;
    kernel->num_vars = row->num_vars;
    kernel->num_checks = row->num_checks;
    kernel->num_in_place = row->num_in_place;
    kernel->num_phases = row->num_phases;
    kernel->nest_bytes = row->nest_bytes;
    kernel->nest = reader_take(reader, row, RVM_SECTION_NESTS, row->nest_begin, row->nest_bytes);
    const file_checks *checks = reader_take(reader, row, RVM_SECTION_CHECKS, row->checks_begin,
                                            row->num_checks);
    kernel->phases = reader_allocate(reader, row->num_phases, sizeof *kernel->phases);
    uint32_t num_dims;
    if (kernel->nest == NULL || checks == NULL || kernel->phases == NULL) return -1;
    if (read_operands(reader, row, kernel, &num_dims) || read_sources(reader, row, kernel) ||
        read_dims(reader, row, kernel, num_dims, checks))
        return -1;
    return read_in_place(reader, row, kernel);
}

int reader_kernels(rvm_reader *reader) {
    rvm_program *program = reader->program;
    const file_kernels *rows = (const void *)reader->section[RVM_SECTION_KERNELS];
    const uint32_t count = reader->count[RVM_SECTION_KERNELS];
    if (count >= RVM_NO_INDEX) return reader_refuse(reader, rows, "there are %u kernels", count);
    if (reader_take(reader, rows, RVM_SECTION_KERNELS, 0, count) == NULL) return -1;
    program->num_kernels = count;
    program->kernels = reader_allocate(reader, count, sizeof *program->kernels);
    if (program->kernels == NULL) return -1;
    for (uint32_t i = 0; i < count; i++)
        if (read_kernel(reader, &rows[i], &program->kernels[i])) return -1;
    return 0;
}

/* --- images -------------------------------------------------------------------------------------- */

static int read_image(rvm_reader *reader, const file_images *row, uint32_t *end,
                      rvm_image *image) {
    const uint32_t size = reader->count[RVM_SECTION_IMAGE_CODE];
    const rvm_program *program = reader->program;
    if (reader_string(reader, row, row->triple_begin, row->triple_bytes, &image->triple) ||
        reader_string(reader, row, row->features_begin, row->features_bytes, &image->features))
        return -1;
    const uint32_t begin = row->code_begin, bytes = row->code_bytes;
    if (begin % RVM_ALIGN_BYTES != 0 || begin < *end || begin - *end >= RVM_ALIGN_BYTES ||
        begin > size || bytes > size - begin)
        return reader_refuse(reader, row, "an image of %u bytes at %u is out of its place", bytes,
                             begin);
    *end = begin + bytes;
    image->code = reader->section[RVM_SECTION_IMAGE_CODE] + begin;
    image->code_bytes = bytes;
    image->num_imports = row->num_imports;
    image->num_phases = row->num_phases;
    image->imports = reader_take(reader, row, RVM_SECTION_IMAGE_IMPORTS, row->imports_begin,
                                 row->num_imports);
    if (image->imports == NULL) return -1;
    image->phases = reader_take(reader, row, RVM_SECTION_IMAGE_PHASES, row->phases_begin,
                                row->num_phases);
    if (image->phases == NULL) return -1;
    image->functions = reader_take(reader, row, RVM_SECTION_IMAGE_FUNCTIONS, row->functions_begin,
                                   row->num_functions);
    if (image->functions == NULL) return -1;
    image->num_functions = row->num_functions;
    image->abi = row->abi;
    image->margin_bytes = row->margin_bytes;
    if (row->num_functions != 0 && row->num_functions != program->num_functions)
        return reader_refuse(reader, row, "an image has %u functions, the program %u",
                             row->num_functions, program->num_functions);
    if (row->margin_bytes > NATIVE_MOST_MARGIN_BYTES)
        return reader_refuse(reader, row, "the functions of an image need too much stack");
    for (uint32_t i = 0; i < row->num_imports; i++) {
        const rvm_image_import *import = &image->imports[i];
        if (import->symbol >= RVM_NUM_IMAGE_IMPORTS || import->slot % 8 != 0 || bytes < 8 ||
            import->slot > bytes - 8)
            return reader_refuse(reader, import, "import %u of an image is wrong", i);
    }
    for (uint32_t i = 0; i < row->num_phases; i++) {
        const rvm_image_phase *phase = &image->phases[i];
        if (phase->kernel >= program->num_kernels ||
            phase->phase >= program->kernels[phase->kernel].num_phases || phase->offset >= bytes)
            return reader_refuse(reader, phase, "phase %u of an image is wrong", i);
    }
    for (uint32_t i = 0; i < row->num_functions; i++) {
        const rvm_image_function *function = &image->functions[i];
        if (function->code >= bytes || function->enter >= bytes)
            return reader_refuse(reader, function, "function %u of an image is wrong", i);
    }
    return 0;
}

int reader_images(rvm_reader *reader) {
    _Static_assert(sizeof(rvm_image_import) == sizeof(file_image_imports), "read in place");
    _Static_assert(sizeof(rvm_image_phase) == sizeof(file_image_phases), "read in place");
    _Static_assert(sizeof(rvm_image_function) == sizeof(file_image_functions), "read in place");
    rvm_program *program = reader->program;
    const file_images *rows = (const void *)reader->section[RVM_SECTION_IMAGES];
    const uint32_t count = reader->count[RVM_SECTION_IMAGES];
    if (reader_take(reader, rows, RVM_SECTION_IMAGES, 0, count) == NULL) return -1;
    program->num_images = count;
    program->images = reader_allocate(reader, count, sizeof *program->images);
    if (program->images == NULL) return -1;
    uint32_t end = 0;
    for (uint32_t i = 0; i < count; i++)
        if (read_image(reader, &rows[i], &end, &program->images[i])) return -1;
    const uint32_t size = reader->count[RVM_SECTION_IMAGE_CODE];
    return reader_take(reader, rows, RVM_SECTION_IMAGE_CODE, 0, size) ? 0 : -1;
}
