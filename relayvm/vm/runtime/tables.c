/* Functions, layouts, signatures, tensor types, constants, sources and entries of a file: checked
 * and given the form that the machine reads. Kernels and images are in kernel_tables.c. */
#include <string.h>

#include "loader.h"

#define ROWS(reader, name, NUMBER) \
    ((const file_##name *)(const void *)(reader)->section[RVM_SECTION_##NUMBER])

static int check_number_of_rows(const rvm_reader *reader, uint32_t section) {
    if (reader->count[section] < RVM_NO_INDEX) return 0;
    return reader_refuse(reader, reader->section[section], "section `%s` has more than 65534 rows",
                         section_names[section]);
}

/* Take a table whose rows are used as a whole. */
static int begin_table(rvm_reader *reader, uint32_t section, uint32_t *count) {
    if (check_number_of_rows(reader, section)) return -1;
    *count = reader->count[section];
    return reader_take(reader, reader->section[section], section, 0, *count) ? 0 : -1;
}

/* Classes up to `highest`; NULL if one is greater. */
static const uint8_t *take_classes(rvm_reader *reader, const void *place, uint32_t begin,
                                   uint32_t count, uint8_t highest) {
    const uint8_t *classes = reader_take(reader, place, RVM_SECTION_CLASSES, begin, count);
    if (classes == NULL) return NULL;
    for (uint32_t i = 0; i < count; i++) {
        if (classes[i] > highest) {
            reader_refuse(reader, classes + i, "%u is not the class of a register here",
                          classes[i]);
            return NULL;
        }
    }
    return classes;
}

/* --- functions ------------------------------------------------------------------------------- */

static int place_parameters(rvm_reader *reader, const void *place, rvm_function *function) {
    uint16_t *slots = reader_allocate(reader, function->num_params, sizeof *slots);
    if (slots == NULL) return -1;
    const uint32_t room[3] = {function->words, function->owned, function->borrowed};
    const uint32_t first[3] = {0, function->words,
                               (uint32_t)function->words + function->owned};
    uint32_t used[3] = {0, 0, 0};
    for (uint32_t i = 0; i < function->num_params; i++) {
        const uint8_t class = function->param_class[i];
        if (used[class] == room[class])
            return reader_refuse(reader, place, "function `%.100s` has no register for parameter %u",
                                 function->name, i);
        slots[i] = (uint16_t)(first[class] + used[class]++);
    }
    function->param_slot = slots;
    return 0;
}

static int read_lines(rvm_reader *reader, const file_functions *row, rvm_function *function) {
    function->num_lines = row->num_lines;
    function->lines =
        reader_take(reader, row, RVM_SECTION_LINES, row->lines_begin, row->num_lines);
    if (function->lines == NULL) return -1;
    uint32_t next = 0;
    for (uint32_t i = 0; i < row->num_lines; i++) {
        const rvm_line *line = &function->lines[i];
        if (line->unit < next || line->unit >= function->num_units ||
            line->source >= reader->program->num_sources)
            return reader_refuse(reader, line, "row %u of the line table of `%.100s` is wrong", i,
                                 function->name);
        next = line->unit + 1;
    }
    return 0;
}

static int read_register_names(rvm_reader *reader, const file_functions *row,
                               rvm_function *function) {
    const file_register_names *rows =
        reader_take(reader, row, RVM_SECTION_REGISTER_NAMES, row->register_names_begin,
                    row->num_register_names);
    rvm_register_name *names =
        rows ? reader_allocate(reader, row->num_register_names, sizeof *names) : NULL;
    if (names == NULL) return -1;
    for (uint32_t i = 0; i < row->num_register_names; i++) {
        names[i].slot = rows[i].slot;
        if (rows[i].slot >= function->slots)
            return reader_refuse(reader, &rows[i], "there is no register %u to be named",
                                 rows[i].slot);
        if (reader_string(reader, &rows[i], rows[i].name_begin, rows[i].name_bytes, &names[i].name))
            return -1;
    }
    function->num_register_names = row->num_register_names;
    function->register_names = names;
    return 0;
}

static int read_function(rvm_reader *reader, const file_functions *row, rvm_function *function) {
    if (reader_string(reader, row, row->name_begin, row->name_bytes, &function->name)) return -1;
    const uint32_t slots = (uint32_t)row->words + row->owned + row->borrowed;
    if (slots > UINT16_MAX)
        return reader_refuse(reader, row, "function `%.100s` has %u registers, at most 65535 can be",
                             function->name, slots);
    if (row->code_units == 0)
        return reader_refuse(reader, row, "function `%.100s` has no code", function->name);
    function->words = row->words;
    function->owned = row->owned;
    function->borrowed = row->borrowed;
    function->slots = (uint16_t)slots;
    function->num_params = row->num_params;
    function->num_results = row->num_results;
    function->num_units = row->code_units;
    function->code =
        reader_take(reader, row, RVM_SECTION_CODE, row->code_begin, row->code_units);
    if (function->code == NULL) return -1;
    function->code_offset = (uint64_t)((const uint8_t *)function->code - reader->base);
    function->param_class = take_classes(reader, row, row->classes_begin, row->num_params,
                                         RVM_CLASS_BORROWED);
    if (function->param_class == NULL) return -1;
    function->result_class = take_classes(reader, row, row->classes_begin + row->num_params,
                                          row->num_results, RVM_CLASS_OWNED);
    if (function->result_class == NULL) return -1;
    if (place_parameters(reader, row, function) || read_lines(reader, row, function)) return -1;
    return read_register_names(reader, row, function);
}

int reader_functions(rvm_reader *reader) {
    rvm_program *program = reader->program;
    if (begin_table(reader, RVM_SECTION_FUNCTIONS, &program->num_functions)) return -1;
    program->functions =
        reader_allocate(reader, program->num_functions, sizeof *program->functions);
    if (program->functions == NULL) return -1;
    for (uint32_t i = 0; i < program->num_functions; i++) {
        program->functions[i].index = i;
        if (read_function(reader, &ROWS(reader, functions, FUNCTIONS)[i], &program->functions[i]))
            return -1;
    }
    for (uint32_t i = 0; i < program->num_entries; i++)
        if (program->entries[i].function >= program->num_functions)
            return reader_refuse(reader, &ROWS(reader, entries, ENTRIES)[i],
                                 "entry `%.100s` is function %u of %u", program->entries[i].name,
                                 program->entries[i].function, program->num_functions);
    return 0;
}

/* --- closure signatures and layouts ------------------------------------------------------------ */

int reader_signatures(rvm_reader *reader) {
    rvm_program *program = reader->program;
    if (begin_table(reader, RVM_SECTION_SIGNATURES, &program->num_signatures)) return -1;
    program->signatures =
        reader_allocate(reader, program->num_signatures, sizeof *program->signatures);
    if (program->signatures == NULL) return -1;
    for (uint32_t i = 0; i < program->num_signatures; i++) {
        const file_signatures *row = &ROWS(reader, signatures, SIGNATURES)[i];
        rvm_signature *signature = &program->signatures[i];
        signature->num_params = row->num_params;
        signature->num_results = row->num_results;
        signature->param_class =
            take_classes(reader, row, row->classes_begin, row->num_params, RVM_CLASS_OWNED);
        if (signature->param_class == NULL) return -1;
        signature->result_class = take_classes(reader, row, row->classes_begin + row->num_params,
                                               row->num_results, RVM_CLASS_OWNED);
        if (signature->result_class == NULL) return -1;
    }
    return 0;
}

static int read_fields(rvm_reader *reader, const file_layouts *row, rvm_layout *layout) {
    const uint32_t count = row->num_fields;
    layout->field_class =
        take_classes(reader, row, row->classes_begin, count, RVM_CLASS_OWNED);
    if (layout->field_class == NULL) return -1;
    layout->field_dtype =
        reader_take(reader, row, RVM_SECTION_CLASSES, row->classes_begin + count, count);
    uint16_t *objects =
        layout->field_dtype ? reader_allocate(reader, count, sizeof *objects) : NULL;
    if (objects == NULL) return -1;
    for (uint32_t i = 0; i < count; i++) {
        const uint8_t dtype = layout->field_dtype[i];
        const int is_object = layout->field_class[i] == RVM_CLASS_OWNED;
        if (is_object ? dtype != RVM_DTYPE_OBJECT : dtype >= RVM_NUM_DTYPES)
            return reader_refuse(reader, &layout->field_dtype[i],
                                 "%u is not the dtype of field %u of layout `%.100s`", dtype, i,
                                 layout->name);
        if (is_object) objects[layout->num_object_fields++] = (uint16_t)i;
    }
    layout->object_fields = objects;
    return 0;
}

/* The body of a closure takes the closure itself, then what its signature says. */
static int check_closure(rvm_reader *reader, const file_layouts *row, const rvm_layout *layout) {
    const rvm_program *program = reader->program;
    if (layout->kind != RVM_LAYOUT_CLOSURE) {
        if (layout->function == RVM_NO_INDEX && layout->signature == RVM_NO_INDEX) return 0;
        return reader_refuse(reader, row, "layout `%.100s` is no closure but names a function",
                             layout->name);
    }
    if (layout->function >= program->num_functions ||
        layout->signature >= program->num_signatures)
        return reader_refuse(reader, row, "closure `%.100s` has function %u and signature %u",
                             layout->name, layout->function, layout->signature);
    const rvm_function *function = &program->functions[layout->function];
    const rvm_signature *signature = &program->signatures[layout->signature];
    if (function->num_params == (uint32_t)signature->num_params + 1 &&
        function->num_results == signature->num_results &&
        function->param_class[0] == RVM_CLASS_OWNED &&
        memcmp(function->param_class + 1, signature->param_class, signature->num_params) == 0 &&
        memcmp(function->result_class, signature->result_class, signature->num_results) == 0)
        return 0;
    return reader_refuse(reader, row, "closure `%.100s`: function `%.100s` does not fit signature %u",
                         layout->name, function->name, layout->signature);
}

static int check_constructors(rvm_reader *reader, const file_layouts *row, uint32_t number) {
    const rvm_program *program = reader->program;
    const rvm_layout *layout = &program->layouts[number];
    const uint32_t tags = layout->num_constructors, tag = layout->constructor;
    if (layout->kind != RVM_LAYOUT_CONSTRUCTOR) {
        if (tags == 0 && tag == 0) return 0;
        return reader_refuse(reader, row, "layout `%.100s` is no constructor but has a tag",
                             layout->name);
    }
    int good = tag < tags && tag <= number && tags <= program->num_layouts - (number - tag);
    if (good && tag > 0) {
        const rvm_layout *before = layout - 1;
        good = before->kind == RVM_LAYOUT_CONSTRUCTOR && before->num_constructors == tags &&
               before->constructor == tag - 1;
    }
    if (good && tag + 1 < tags) {
        const rvm_layout *next = layout + 1;
        good = next->kind == RVM_LAYOUT_CONSTRUCTOR && next->num_constructors == tags &&
               next->constructor == tag + 1;
    }
    if (good) return 0;
    return reader_refuse(reader, row, "constructor `%.100s` does not stand among its type's %u",
                         layout->name, tags);
}

static int read_layout(rvm_reader *reader, const file_layouts *row, rvm_layout *layout) {
    layout->kind = row->kind;
    layout->cyclic = row->cyclic;
    layout->num_fields = row->num_fields;
    layout->constructor = row->tag;
    layout->num_constructors = row->tags;
    layout->function = row->function;
    layout->signature = row->signature;
    if (reader_string(reader, row, row->name_begin, row->name_bytes, &layout->name) ||
        reader_string(reader, row, row->type_begin, row->type_bytes, &layout->type_name))
        return -1;
    if (row->kind > RVM_LAYOUT_ARRAY || row->cyclic > 1)
        return reader_refuse(reader, row, "layout `%.100s` has kind %u", layout->name, row->kind);
    if (row->kind >= RVM_LAYOUT_REF && row->num_fields != 1)
        return reader_refuse(reader, row, "layout `%.100s` has %u fields instead of 1",
                             layout->name, row->num_fields);
    return read_fields(reader, row, layout);
}

int reader_layouts(rvm_reader *reader) {
    rvm_program *program = reader->program;
    const file_layouts *rows = ROWS(reader, layouts, LAYOUTS);
    if (begin_table(reader, RVM_SECTION_LAYOUTS, &program->num_layouts)) return -1;
    program->layouts = reader_allocate(reader, program->num_layouts, sizeof *program->layouts);
    if (program->layouts == NULL) return -1;
    for (uint32_t i = 0; i < program->num_layouts; i++) {
        program->layouts[i].number = (uint16_t)i;
        if (read_layout(reader, &rows[i], &program->layouts[i])) return -1;
        program->cyclic |= program->layouts[i].cyclic;
    }
    for (uint32_t i = 0; i < program->num_layouts; i++)
        if (check_closure(reader, &rows[i], &program->layouts[i]) ||
            check_constructors(reader, &rows[i], i))
            return -1;
    return 0;
}

/* --- tensor types and constants ----------------------------------------------------------------- */

static const int64_t *take_dims(rvm_reader *reader, const void *place, uint8_t dtype, uint8_t rank,
                                uint32_t begin, int64_t least) {
    if (dtype >= RVM_NUM_DTYPES || rank > RVM_MAX_RANK) {
        reader_refuse(reader, place, "%u is not a dtype or %u is not a rank", dtype, rank);
        return NULL;
    }
    const int64_t *dims = reader_take(reader, place, RVM_SECTION_DIMS, begin, rank);
    if (dims == NULL) return NULL;
    for (uint32_t i = 0; i < rank; i++) {
        if (dims[i] < least || dims[i] > RVM_MAX_BYTES) {
            reader_refuse(reader, &dims[i], "%lld is not the size of an axis", (long long)dims[i]);
            return NULL;
        }
    }
    return dims;
}

/* Return where a constant begins after the one that ends at `end`: a large one in the middle of a page. */
static uint64_t constant_place(uint64_t end, uint64_t size) {
    if (size < RVM_LARGE_BYTES) return (end + 63) & ~UINT64_C(63);
    return ((end + RVM_PAGE_BYTES / 2 - 1) & ~(uint64_t)(RVM_PAGE_BYTES - 1)) + RVM_PAGE_BYTES / 2;
}

static int read_constant(rvm_reader *reader, const file_constants *row, rvm_constant *constant,
                         uint64_t *end) {
    constant->dtype = row->dtype;
    constant->rank = row->rank;
    constant->size_bytes = row->size_bytes;
    constant->dims = take_dims(reader, row, row->dtype, row->rank, row->dims_begin, 0);
    if (constant->dims == NULL) return -1;
    uint64_t size = rvm_dtype_bytes[row->dtype];
    int too_great = 0;
    for (uint32_t i = 0; i < row->rank; i++)
        too_great |= __builtin_mul_overflow(size, (uint64_t)constant->dims[i], &size);
    if (too_great || size != row->size_bytes || size > RVM_MAX_BYTES)
        return reader_refuse(reader, row, "a constant of %llu bytes does not fit its dims",
                             (unsigned long long)row->size_bytes);
    if (row->late > 1 || (row->late ? row->offset : row->checksum) != 0)
        return reader_refuse(reader, row, "a constant of %llu bytes is neither here nor bound late",
                             (unsigned long long)size);
    if (row->late) {
        reader->program->num_late_constants++;
        return 0;
    }
    const uint64_t room = reader->bytes[RVM_SECTION_DATA];
    if (row->offset != constant_place(*end, size) || row->offset > room ||
        size > room - row->offset)
        return reader_refuse(reader, row, "a constant of %llu bytes at %llu is out of its place",
                             (unsigned long long)size, (unsigned long long)row->offset);
    *end = row->offset + size;
    constant->data = reader->section[RVM_SECTION_DATA] + row->offset;
    return 0;
}

int reader_tensors(rvm_reader *reader) {
    rvm_program *program = reader->program;
    if (begin_table(reader, RVM_SECTION_TENSOR_TYPES, &program->num_tensor_types) ||
        begin_table(reader, RVM_SECTION_CONSTANTS, &program->num_constants))
        return -1;
    program->tensor_types =
        reader_allocate(reader, program->num_tensor_types, sizeof *program->tensor_types);
    program->constants =
        reader_allocate(reader, program->num_constants, sizeof *program->constants);
    if (program->tensor_types == NULL || program->constants == NULL) return -1;
    for (uint32_t i = 0; i < program->num_tensor_types; i++) {
        const file_tensor_types *row = &ROWS(reader, tensor_types, TENSOR_TYPES)[i];
        rvm_tensor_type *type = &program->tensor_types[i];
        type->dtype = row->dtype;
        type->rank = row->rank;
        type->dims = take_dims(reader, row, row->dtype, row->rank, row->dims_begin, -1);
        if (type->dims == NULL) return -1;
    }
    uint64_t end = 0;
    for (uint32_t i = 0; i < program->num_constants; i++)
        if (read_constant(reader, &ROWS(reader, constants, CONSTANTS)[i], &program->constants[i],
                          &end))
            return -1;
    return 0;
}

/* --- what hosts see ------------------------------------------------------------------------------ */

int reader_hosts(rvm_reader *reader) {
    rvm_program *program = reader->program;
    if (begin_table(reader, RVM_SECTION_SOURCES, &program->num_sources) ||
        begin_table(reader, RVM_SECTION_ENTRIES, &program->num_entries))
        return -1;
    program->sources = reader_allocate(reader, program->num_sources, sizeof *program->sources);
    program->entries = reader_allocate(reader, program->num_entries, sizeof *program->entries);
    if (program->sources == NULL || program->entries == NULL) return -1;
    for (uint32_t i = 0; i < program->num_sources; i++) {
        const file_sources *row = &ROWS(reader, sources, SOURCES)[i];
        rvm_source *source = &program->sources[i];
        source->text_bytes = row->text_bytes;
        if (reader_string(reader, row, row->name_begin, row->name_bytes, &source->name) ||
            reader_string(reader, row, row->text_begin, row->text_bytes, &source->text))
            return -1;
    }
    for (uint32_t i = 0; i < program->num_entries; i++) {
        const file_entries *row = &ROWS(reader, entries, ENTRIES)[i];
        program->entries[i].function = row->function;
        if (reader_string(reader, row, row->name_begin, row->name_bytes, &program->entries[i].name))
            return -1;
    }
    return 0;
}
