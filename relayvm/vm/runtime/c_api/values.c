/* Values of C programs: handles of the runtime's objects, or of tensors in the caller's memory. Whatever is made of
 * others is checked against the layout of the program and the types of the manifest. */
#include "../array.h"
#include "../tensor.h"
#include "library.h"

#include <stdlib.h>

static rvm_value *new_value(rvm_executable *executable, const rvm_type *type, rvm_error *error) {
    rvm_value *value = calloc(1, sizeof *value);
    if (!value) {
        library_out_of_memory(error);
        return NULL;
    }
    value->references = 1;
    value->executable = executable;
    value->type = type;
    executable_retain(executable);
    rvm_program_retain(executable->program); /* goes with the object */
    return value;
}

/* Consumes the item. */
static rvm_value *value_of_item(rvm_executable *executable, const rvm_type *type, uint64_t item, rvm_error *error) {
    if (!item) {
        library_out_of_memory(error);
        return NULL;
    }
    rvm_value *value = new_value(executable, type, error);
    if (value) {
        value->item = item;
    } else {
        rvm_value_release(item);
    }
    return value;
}

rvm_value *rvm_value_again(const rvm_value *value) {
    rvm_value *same = (rvm_value *)(uintptr_t)value; /* the count is not what is constant */
    atomic_fetch_add_explicit(&same->references, 1, memory_order_relaxed);
    return same;
}

void rvm_value_free(rvm_value *value) {
    if (!value || atomic_fetch_sub_explicit(&value->references, 1, memory_order_acq_rel) != 1) {
        return;
    }
    if (value->item) {
        rvm_value_drop(value->item, value->executable->program);
    } else {
        rvm_program_release(value->executable->program);
    }
    rvm_executable_free(value->executable);
    sizes_free(value->sizes);
    free(value);
}

/* --- tensors ---------------------------------------------------------------------------------- */

static int check_tensor(rvm_dtype dtype, uint32_t rank, const int64_t *dims, const void *elements, int64_t *count,
                        rvm_error *error) {
    if (rank && library_need(dims, "sizes", error)) {
        return -1;
    }
    if ((unsigned)dtype >= RVM_NUM_DTYPES || rank > RVM_MAX_RANK ||
        !tensor_count_elements(rank, dims, (uint8_t)dtype, count)) {
        return library_fail(error, "wrong-argument", "a tensor of dtype %d and rank %u has no such sizes", (int)dtype,
                            rank);
    }
    if (*count && !elements) {
        return library_fail(error, "wrong-argument", "a tensor of %lld elements has none", (long long)*count);
    }
    return 0;
}

rvm_value *rvm_tensor_copy(rvm_executable *executable, rvm_dtype dtype, uint32_t rank, const int64_t *dims,
                           const void *elements, rvm_error *error) {
    int64_t count;
    if (library_need(executable, "executable", error) ||
        check_tensor(dtype, rank, dims, elements, &count, error)) {
        return NULL;
    }
    return value_of_item(executable, NULL, rvm_value_new_tensor((uint8_t)dtype, rank, dims, elements), error);
}

rvm_value *rvm_tensor_lend(rvm_executable *executable, rvm_dtype dtype, uint32_t rank, const int64_t *dims,
                           const void *elements, rvm_error *error) {
    int64_t count;
    if (library_need(executable, "executable", error) ||
        check_tensor(dtype, rank, dims, elements, &count, error)) {
        return NULL;
    }
    rvm_value *value = new_value(executable, NULL, error);
    if (value) {
        const size_t elements_count = (size_t)count;
        value->lent = (rvm_tensor_view){dtype, rank, {0}, elements_count, elements_count * rvm_dtype_bytes[dtype], elements};
        for (uint32_t i = 0; i < rank; i++) {
            value->lent.dims[i] = dims[i];
        }
    }
    return value;
}

rvm_tensor_view rvm_value_tensor(const rvm_value *value) {
    if (!value->item || word_object(value->item)->kind != RVM_TENSOR) {
        return value->lent;
    }
    const rvm_tensor *tensor = word_tensor(value->item);
    rvm_tensor_view view = {(rvm_dtype)tensor->dtype, tensor->rank, {0}, (size_t)tensor->elements,
                            (size_t)tensor_bytes(tensor), tensor->data};
    memcpy(view.dims, tensor->dims, tensor->rank * sizeof *tensor->dims);
    return view;
}

/* --- what a value is ----------------------------------------------------------------------------- */

static const rvm_layout *shape_of(const rvm_value *value) {
    const rvm_object *object = word_object(value->item);
    return object && object->kind != RVM_TENSOR ? ((const rvm_cell *)(const void *)object)->shape : NULL;
}

rvm_kind rvm_value_kind(const rvm_value *value) {
    static const rvm_kind kinds[] = {[RVM_LAYOUT_TUPLE] = RVM_KIND_OF_TUPLE,
                                     [RVM_LAYOUT_CONSTRUCTOR] = RVM_KIND_OF_DATA,
                                     [RVM_LAYOUT_CLOSURE] = RVM_KIND_OF_FUNCTION,
                                     [RVM_LAYOUT_REF] = RVM_KIND_OF_REFERENCE,
                                     [RVM_LAYOUT_ARRAY] = RVM_KIND_OF_ARRAY};
    const rvm_layout *shape = shape_of(value);
    return shape ? kinds[shape->kind] : RVM_KIND_OF_TENSOR;
}

const rvm_constructor *rvm_value_constructor(const rvm_value *value) {
    const rvm_layout *shape = shape_of(value);
    const rvm_data_type *type = shape && value->type ? value->type->data : NULL;
    for (size_t i = 0; type && i < type->num_constructors; i++) {
        if (type->constructors[i].layout == shape->number) {
            return &type->constructors[i];
        }
    }
    return NULL;
}

const rvm_layout *layout_of(const rvm_executable *executable, int32_t number, uint8_t kind, size_t num_fields) {
    const rvm_program *program = executable->program;
    if (number < 0 || (uint32_t)number >= program->num_layouts) {
        return NULL;
    }
    const rvm_layout *layout = &program->layouts[number];
    const bool one = kind == RVM_LAYOUT_REF || kind == RVM_LAYOUT_ARRAY;
    return layout->kind == kind && (one ? num_fields == 1 : layout->num_fields == num_fields) ? layout : NULL;
}

static bool is_constructed(const rvm_layout *shape, const rvm_data_type *type) {
    for (size_t i = 0; i < type->num_constructors; i++) {
        if (type->constructors[i].layout == shape->number) {
            return true;
        }
    }
    return false;
}

static bool has_type(const rvm_value *value, const rvm_type *type) {
    const rvm_layout *shape = shape_of(value);
    if (type->kind != rvm_value_kind(value)) {
        return false;
    }
    if (!shape) {
        const rvm_tensor_view view = rvm_value_tensor(value);
        bool same = view.dtype == type->dtype && view.rank == type->rank;
        for (uint32_t i = 0; same && i < type->rank; i++) {
            same = type->dims[i] < 0 || type->dims[i] == view.dims[i];
        }
        return same;
    }
    if (type->kind == RVM_KIND_OF_DATA) {
        return is_constructed(shape, type->data);
    }
    return type->kind == RVM_KIND_OF_FUNCTION ? shape->signature == type->signature : shape->number == type->layout;
}

static void describe_tensor(const rvm_tensor_view *view, char *text, size_t size) {
    int at = snprintf(text, size, "Tensor[(");
    for (uint32_t i = 0; i < view->rank; i++) {
        at += snprintf(text + at, size - (size_t)at, "%s%lld", i ? ", " : "", (long long)view->dims[i]);
    }
    snprintf(text + at, size - (size_t)at, "), %s]", library_dtype_names[view->dtype]);
}

/* Refuses a value whose layout is that of a type, but not the sizes in it. */
static int check_sizes(const rvm_value *value, const rvm_type *type, const char *where, rvm_error *error) {
    rvm_misfit misfit = {0};
    const int fits = shape_of(value) && value->type ? pairs_accept(value, type, &misfit) : 1;
    if (fits < 0) {
        return library_out_of_memory(error);
    }
    if (fits) {
        return 0;
    }
    char inside[160] = "";
    for (uint32_t i = 0, at = 0; i < misfit.rank; i++) {
        at += (uint32_t)snprintf(inside + at, sizeof inside - at, "%s%lld", i ? ", " : " in which a tensor has the sizes (",
                                 (long long)misfit.dims[i]);
    }
    return library_fail(error, "wrong-argument", "%s is `%.100s`, but `%.100s` was given%s%s", where, type->text,
                        value->type->text, inside, *inside ? ")" : "");
}

int value_check(const rvm_executable *executable, const rvm_value *value, const rvm_type *type, const char *where,
                rvm_error *error) {
    if (!value) {
        return library_fail(error, "wrong-argument", "%s is `%.200s`, but NULL was given", where, type->text);
    }
    if (shape_of(value) && value->executable->program != executable->program) {
        return library_fail(error, "wrong-argument", "%s is a value of another executable", where);
    }
    if (has_type(value, type)) {
        return check_sizes(value, type, where, error);
    }
    if (rvm_value_kind(value) == RVM_KIND_OF_TENSOR) {
        const rvm_tensor_view view = rvm_value_tensor(value);
        char given[160];
        describe_tensor(&view, given, sizeof given);
        return library_fail(error, "wrong-argument", "%s is `%.160s`, but `%s` was given", where, type->text, given);
    }
    return library_fail(error, "wrong-argument", "%s is `%.200s`, but a value of another type was given", where,
                        type->text);
}

/* --- places --------------------------------------------------------------------------------------- */

bool value_place(const rvm_value *value, bool is_word, uint64_t *place) {
    if (is_word) {
        const rvm_tensor_view view = rvm_value_tensor(value);
        *place = rvm_value_load_word((uint8_t)view.dtype, view.elements);
        return true;
    }
    if (value->item) {
        rvm_value_retain(value->item);
        *place = value->item;
    } else {
        const rvm_tensor_view *lent = &value->lent;
        *place = rvm_value_new_tensor((uint8_t)lent->dtype, lent->rank, lent->dims, lent->elements);
    }
    return *place != 0;
}

rvm_value *value_of_place(rvm_executable *executable, const rvm_type *type, known_sizes *sizes, bool is_word,
                          uint64_t place, rvm_error *error) {
    const uint64_t item = is_word ? rvm_value_new_word((uint8_t)type->dtype, place) : place;
    rvm_value *value = value_of_item(executable, type, item, error);
    if (value && shape_of(value)) {
        value->sizes = sizes_retain(sizes);
    }
    return value;
}

static bool is_word_type(const rvm_type *type) {
    return type->kind == RVM_KIND_OF_TENSOR && type->rank == 0;
}

static int bad_manifest(rvm_error *error) {
    return library_fail(error, "bad-executable", "the manifest and the layouts of the program disagree");
}

typedef struct places {
    uint64_t *words;
    size_t count;
} places;

static void drop_places(places *made, const rvm_layout *layout, bool one_row) {
    for (size_t i = 0; i < made->count; i++) {
        if (layout->field_class[one_row ? 0 : i] != RVM_CLASS_WORD) {
            rvm_value_release(made->words[i]);
        }
    }
    free(made->words);
}

/* Checks and converts the fields of a new object; one row of the layout, and one type, for all where it is an array. */
static int make_places(const rvm_executable *executable, const rvm_layout *layout, bool one_row,
                       const rvm_type *const *types, const rvm_value *const *fields, size_t count, places *made,
                       rvm_error *error) {
    made->count = 0;
    made->words = malloc((count ? count : 1) * sizeof *made->words);
    if (!made->words) {
        return library_out_of_memory(error);
    }
    for (size_t i = 0; i < count; i++) {
        const size_t row = one_row ? 0 : i;
        const bool is_word = layout->field_class[row] == RVM_CLASS_WORD;
        char where[32];
        snprintf(where, sizeof where, "%s %zu", one_row ? "item" : "field", i);
        int failed = is_word && !is_word_type(types[row]) ? bad_manifest(error)
                                                          : value_check(executable, fields[i], types[row], where, error);
        if (!failed && !value_place(fields[i], is_word, &made->words[i])) {
            failed = library_out_of_memory(error);
        }
        if (failed) {
            drop_places(made, layout, one_row);
            return -1;
        }
        made->count++;
    }
    return 0;
}

/* --- making objects --------------------------------------------------------------------------------- */

static rvm_value *make_cell(rvm_executable *executable, const rvm_type *type, int32_t number, uint8_t kind,
                            const rvm_type *const *types, size_t wanted, const rvm_value *const *fields,
                            size_t num_fields, rvm_error *error) {
    if (library_need(executable, "executable", error) || (num_fields && library_need(fields, "fields", error))) {
        return NULL;
    }
    if (num_fields != wanted) {
        library_fail(error, "wrong-argument", "there are %zu fields, %zu were given", wanted, num_fields);
        return NULL;
    }
    const rvm_layout *layout = layout_of(executable, number, kind, num_fields);
    places made;
    if (!layout) {
        bad_manifest(error);
        return NULL;
    }
    if (make_places(executable, layout, false, types, fields, num_fields, &made, error)) {
        return NULL;
    }
    const uint64_t item = rvm_value_new_cell(executable->program, (uint32_t)number, made.words);
    free(made.words);
    return value_of_item(executable, type, item, error);
}

rvm_value *rvm_data_make(rvm_executable *executable, const rvm_constructor *constructor, const rvm_value *const *fields,
                         size_t num_fields, rvm_error *error) {
    if (library_need(constructor, "constructor", error)) {
        return NULL;
    }
    for (size_t i = 0; executable && i < executable->num_data_types; i++) {
        if (constructor->data_type == &executable->data_types[i]) {
            return make_cell(executable, &executable->types_of_data[i], constructor->layout, RVM_LAYOUT_CONSTRUCTOR,
                             constructor->fields, constructor->num_fields, fields, num_fields, error);
        }
    }
    if (!library_need(executable, "executable", error)) {
        library_fail(error, "wrong-argument", "the constructor `%.200s` is of another executable", constructor->name);
    }
    return NULL;
}

static int check_kind(const rvm_executable *executable, const rvm_type *type, rvm_kind kind, rvm_error *error) {
    if (library_need(executable, "executable", error) || library_need(type, "type", error)) {
        return -1;
    }
    if (!arena_has(&executable->arena, type)) {
        return library_fail(error, "wrong-argument", "the type is of another executable");
    }
    return type->kind == kind
               ? 0
               : library_fail(error, "wrong-argument", "`%.200s` is not a type of that kind", type->text);
}

rvm_value *rvm_tuple_make(rvm_executable *executable, const rvm_type *type, const rvm_value *const *fields,
                          size_t num_fields, rvm_error *error) {
    if (check_kind(executable, type, RVM_KIND_OF_TUPLE, error)) {
        return NULL;
    }
    return make_cell(executable, type, type->layout, RVM_LAYOUT_TUPLE, type->fields, type->num_fields, fields,
                     num_fields, error);
}

static const rvm_layout *box_layout(const rvm_executable *executable, const rvm_type *type, bool array,
                                    rvm_error *error) {
    if (check_kind(executable, type, array ? RVM_KIND_OF_ARRAY : RVM_KIND_OF_REFERENCE, error)) {
        return NULL;
    }
    const uint8_t kind = array ? RVM_LAYOUT_ARRAY : RVM_LAYOUT_REF;
    const rvm_layout *layout = layout_of(executable, type->layout, kind, type->num_fields);
    if (!layout) {
        bad_manifest(error);
    }
    return layout;
}

rvm_value *rvm_array_make(rvm_executable *executable, const rvm_type *type, const rvm_value *const *items,
                          size_t num_items, rvm_error *error) {
    const rvm_layout *layout = box_layout(executable, type, true, error);
    places made;
    if (num_items && library_need(items, "items", error)) {
        return NULL;
    }
    if (!layout || make_places(executable, layout, true, type->fields, items, num_items, &made, error)) {
        return NULL;
    }
    const uint64_t item = rvm_value_new_array(executable->program, layout->number, made.words, num_items);
    free(made.words);
    return value_of_item(executable, type, item, error);
}

rvm_value *rvm_reference_make(rvm_executable *executable, const rvm_type *type, const rvm_value *content,
                              rvm_error *error) {
    const rvm_layout *layout = box_layout(executable, type, false, error);
    places made;
    if (!layout || make_places(executable, layout, true, type->fields, &content, 1, &made, error)) {
        return NULL;
    }
    const uint64_t item = rvm_value_new_reference(executable->program, layout->number, made.words[0]);
    free(made.words);
    return value_of_item(executable, type, item, error);
}

/* --- taking objects apart ------------------------------------------------------------------------- */

size_t rvm_value_num_fields(const rvm_value *value) {
    const rvm_layout *shape = shape_of(value);
    if (!shape) {
        return 0;
    }
    if (shape->kind == RVM_LAYOUT_ARRAY) {
        return (size_t)word_array(value->item)->length;
    }
    return shape->kind == RVM_LAYOUT_TUPLE || shape->kind == RVM_LAYOUT_CONSTRUCTOR ? shape->num_fields : 0;
}

rvm_value *rvm_value_field(const rvm_value *value, size_t index, rvm_error *error) {
    if (library_need(value, "value", error)) {
        return NULL;
    }
    const size_t count = rvm_value_num_fields(value);
    if (index >= count) {
        library_fail(error, "wrong-argument", "there is no field %zu: there are %zu", index, count);
        return NULL;
    }
    const rvm_layout *shape = shape_of(value);
    const rvm_constructor *constructor = shape->kind == RVM_LAYOUT_CONSTRUCTOR ? rvm_value_constructor(value) : NULL;
    const bool array = shape->kind == RVM_LAYOUT_ARRAY;
    const size_t row = array ? 0 : index;
    const rvm_type *type = value->type;
    const size_t known = constructor ? constructor->num_fields : type ? type->num_fields : 0;
    const rvm_type *const *types = constructor ? constructor->fields : type ? type->fields : NULL;
    const bool is_word = shape->field_class[row] == RVM_CLASS_WORD;
    if (row >= known || (is_word && !is_word_type(types[row]))) {
        bad_manifest(error);
        return NULL;
    }
    const rvm_cell *cell = (const rvm_cell *)(const void *)word_object(value->item);
    const uint64_t place = array ? word_array(value->item)->items[index] : cell->fields[index];
    if (!is_word) {
        rvm_value_retain(place);
    }
    return value_of_place(value->executable, types[row], value->sizes, is_word, place, error);
}

static const rvm_layout *reference_shape(const rvm_value *value, rvm_error *error) {
    if (library_need(value, "reference", error)) {
        return NULL;
    }
    const rvm_layout *shape = shape_of(value);
    if (!shape || shape->kind != RVM_LAYOUT_REF || !value->type) {
        library_fail(error, "wrong-argument", "the value is no reference");
        return NULL;
    }
    const rvm_type *type = value->type;
    if (type->kind != RVM_KIND_OF_REFERENCE || (shape->field_class[0] == RVM_CLASS_WORD && !is_word_type(type->fields[0]))) {
        bad_manifest(error);
        return NULL;
    }
    return shape;
}

rvm_value *rvm_reference_read(const rvm_value *reference, rvm_error *error) {
    const rvm_layout *shape = reference_shape(reference, error);
    uint64_t content;
    if (!shape) {
        return NULL;
    }
    if (!rvm_value_read_reference(reference->item, &content)) {
        library_fail(error, "empty-reference", "the reference has no value at present");
        return NULL;
    }
    const bool is_word = shape->field_class[0] == RVM_CLASS_WORD;
    return value_of_place(reference->executable, reference->type->fields[0], reference->sizes, is_word, content, error);
}

int rvm_reference_write(const rvm_value *reference, const rvm_value *content, rvm_error *error) {
    const rvm_layout *shape = reference_shape(reference, error);
    uint64_t place;
    if (!shape || value_check(reference->executable, content, reference->type->fields[0], "the content", error)) {
        return -1;
    }
    if (!value_place(content, shape->field_class[0] == RVM_CLASS_WORD, &place) ||
        !rvm_value_write_reference(reference->item, place, reference->executable->program)) {
        return library_out_of_memory(error);
    }
    return 0;
}
