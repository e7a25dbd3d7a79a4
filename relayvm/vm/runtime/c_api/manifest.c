/* From the manifest's JSON to descriptions of entries and types. What memory safety needs is checked against the
 * program where it is used. */
#include <string.h>

#include "library.h"

typedef struct builder {
    rvm_executable *executable;
    const json *root;
    const rvm_type **parts; /* types that are written apart */
    size_t num_parts;
    const char *problem;
} builder;

#define NAME(name) #name,
const char *const library_dtype_names[RVM_NUM_DTYPES] = {RVM_DTYPES(NAME)};
#undef NAME
static const char *const kind_names[] = {"tensor", "tuple", "data", "function", "ref", "array"};

static void *take(builder *b, size_t count, size_t size) {
    void *taken = arena_take(&b->executable->arena, count ? count : 1, size);
    if (!taken) {
        b->problem = "there is no memory for it";
    }
    return taken;
}

static void *refuse(builder *b, const char *problem) {
    b->problem = b->problem ? b->problem : problem;
    return NULL;
}

static const char *text_of(builder *b, const json *object, const char *key) {
    const json *found = json_get(object, key);
    return found && found->kind == JSON_STRING ? found->text : refuse(b, "a text is missing");
}

static int number_of_name(const char *const *names, size_t count, const char *name) {
    for (size_t i = 0; name && i < count; i++) {
        if (strcmp(names[i], name) == 0) {
            return (int)i;
        }
    }
    return -1;
}

static int32_t small_number(const json *object, const char *key) {
    const json *found = json_get(object, key);
    return found && found->kind == JSON_NUMBER && found->number >= 0 && found->number < 0x10000 ? (int32_t)found->number
                                                                                               : -1;
}

static bool read_dims(builder *b, const json *data, rvm_type *type) {
    const json *dims = json_get(data, "dims");
    const int dtype = number_of_name(library_dtype_names, RVM_NUM_DTYPES, text_of(b, data, "dtype"));
    if (dtype < 0 || !dims || dims->kind != JSON_LIST || dims->count > RVM_MAX_RANK) {
        return refuse(b, "a tensor type is wrong") != NULL;
    }
    type->dtype = (rvm_dtype)dtype;
    type->rank = (uint32_t)dims->count;
    const json *dim = dims->first;
    for (uint32_t i = 0; i < type->rank; i++, dim = dim->next) {
        type->dims[i] = dim->kind == JSON_NUMBER ? dim->number : -1;
        type->dim_names[i] = dim->kind == JSON_STRING ? dim->text : NULL;
        if (dim->kind == JSON_NUMBER && dim->number < 0) {
            return refuse(b, "a dim is negative") != NULL;
        }
    }
    return true;
}

static const rvm_type *read_type(builder *b, const json *data);

static const rvm_type *const *read_types(builder *b, const json *list, size_t *count) {
    *count = list && list->kind == JSON_LIST ? list->count : 0;
    const rvm_type **types = take(b, *count, sizeof *types);
    const json *item = *count ? list->first : NULL;
    for (size_t i = 0; types && i < *count; i++, item = item->next) {
        if (!(types[i] = read_type(b, item))) {
            return NULL;
        }
    }
    return types;
}

static const rvm_data_type *find_data_type(builder *b, const char *name) {
    for (size_t i = 0; name && i < b->executable->num_data_types; i++) {
        if (strcmp(b->executable->data_types[i].name, name) == 0) {
            return &b->executable->data_types[i];
        }
    }
    return refuse(b, "a data type is missing");
}

/* The number of fields that a kind of type has; -1: any. */
static bool has_its_fields(const rvm_type *type) {
    const bool one = type->kind == RVM_KIND_OF_REFERENCE || type->kind == RVM_KIND_OF_ARRAY;
    return one ? type->num_fields == 1 : type->kind != RVM_KIND_OF_FUNCTION || type->num_fields > 0;
}

static const rvm_type *read_type(builder *b, const json *data) {
    const json *part = json_get(data, "part");
    if (part) {
        const bool known = part->kind == JSON_NUMBER && part->number >= 0 && (uint64_t)part->number < b->num_parts;
        return known ? b->parts[part->number] : refuse(b, "a part of a type is missing");
    }
    rvm_type *type = take(b, 1, sizeof *type);
    const int kind = number_of_name(kind_names, sizeof kind_names / sizeof *kind_names, text_of(b, data, "kind"));
    if (!type || kind < 0) {
        return refuse(b, "the kind of a type is unknown");
    }
    type->kind = (rvm_kind)kind;
    type->text = text_of(b, data, "text");
    type->layout = small_number(data, "layout");
    type->signature = small_number(data, "signature");
    if (type->kind == RVM_KIND_OF_TENSOR && !read_dims(b, data, type)) {
        return NULL;
    }
    if (type->kind == RVM_KIND_OF_DATA && !(type->data = find_data_type(b, text_of(b, data, "name")))) {
        return NULL;
    }
    type->fields = read_types(b, json_get(data, "fields"), &type->num_fields);
    if (!type->fields || !type->text || !has_its_fields(type)) {
        return refuse(b, "the fields of a type are wrong");
    }
    return type;
}

static bool read_parts(builder *b) {
    const json *parts = json_get(b->root, "parts");
    const size_t count = parts && parts->kind == JSON_LIST ? parts->count : 0;
    b->parts = take(b, count, sizeof *b->parts);
    const json *part = count ? parts->first : NULL;
    for (size_t i = 0; b->parts && i < count; i++, part = part->next) {
        if (!(b->parts[i] = read_type(b, part))) {
            return false;
        }
        b->num_parts = i + 1;
    }
    return b->parts != NULL;
}

/* Names first: types refer to data types in any order. */
static bool read_data_type_names(builder *b) {
    const json *types = json_get(b->root, "types");
    rvm_executable *executable = b->executable;
    const size_t count = types && types->kind == JSON_LIST ? types->count : 0;
    executable->data_types = take(b, count, sizeof *executable->data_types);
    const json *row = count ? types->first : NULL;
    for (size_t i = 0; executable->data_types && i < count; i++, row = row->next) {
        if (!(executable->data_types[i].name = text_of(b, row, "name"))) {
            return false;
        }
    }
    executable->num_data_types = executable->data_types ? count : 0;
    executable->types_of_data = take(b, executable->num_data_types, sizeof *executable->types_of_data);
    for (size_t i = 0; executable->types_of_data && i < executable->num_data_types; i++) {
        rvm_data_type *data = &executable->data_types[i];
        executable->types_of_data[i] = (rvm_type){.kind = RVM_KIND_OF_DATA, .text = data->name, .data = data};
    }
    return executable->data_types && executable->types_of_data;
}

static bool read_constructors(builder *b, rvm_data_type *type, const json *list) {
    type->num_constructors = list && list->kind == JSON_LIST ? list->count : 0;
    rvm_constructor *rows = take(b, type->num_constructors, sizeof *rows);
    type->constructors = rows;
    const json *row = type->num_constructors ? list->first : NULL;
    for (size_t i = 0; rows && i < type->num_constructors; i++, row = row->next) {
        rows[i].name = text_of(b, row, "name");
        rows[i].data_type = type;
        rows[i].layout = small_number(row, "layout");
        rows[i].fields = read_types(b, json_get(row, "fields"), &rows[i].num_fields);
        if (!rows[i].name || !rows[i].fields) {
            return false;
        }
    }
    return rows != NULL;
}

static bool read_data_types(builder *b) {
    const json *types = json_get(b->root, "types"), *row = types ? types->first : NULL;
    for (size_t i = 0; i < b->executable->num_data_types; i++, row = row->next) {
        if (!read_constructors(b, &b->executable->data_types[i], json_get(row, "constructors"))) {
            return false;
        }
    }
    return true;
}

/* Each parameter is the list [name, type]. */
static bool read_parameters(builder *b, const json *list, rvm_entry_description *entry) {
    entry->num_parameters = list && list->kind == JSON_LIST ? list->count : 0;
    const char **names = take(b, entry->num_parameters, sizeof *names);
    const rvm_type **types = take(b, entry->num_parameters, sizeof *types);
    const json *row = entry->num_parameters ? list->first : NULL;
    for (size_t i = 0; names && types && i < entry->num_parameters; i++, row = row->next) {
        if (row->kind != JSON_LIST || row->count != 2 || row->first->kind != JSON_STRING) {
            return refuse(b, "a parameter is wrong") != NULL;
        }
        names[i] = row->first->text;
        if (!(types[i] = read_type(b, row->first->next))) {
            return false;
        }
    }
    entry->parameter_names = names;
    entry->parameters = types;
    return names && types;
}

static bool read_results(builder *b, const json *data, const rvm_function *code, rvm_entry_description *entry) {
    const rvm_type *result = read_type(b, json_get(data, "result"));
    const rvm_type **single = take(b, 1, sizeof *single);
    const char **names = take(b, code->num_results, sizeof *names);
    if (!result || !single || !names) {
        return false;
    }
    *single = result;
    const bool alone = code->num_results == 1;
    if (!alone && (result->kind != RVM_KIND_OF_TUPLE || result->num_fields != code->num_results)) {
        return refuse(b, "an entry and its code disagree") != NULL;
    }
    const json *given = json_get(data, "results"), *name = given && given->kind == JSON_LIST ? given->first : NULL;
    for (size_t i = 0; i < code->num_results; i++) {
        names[i] = name && name->kind == JSON_STRING ? name->text : "output";
        name = name ? name->next : NULL;
    }
    entry->num_results = code->num_results;
    entry->results = alone ? single : result->fields;
    entry->result_names = names;
    return true;
}

static bool is_number(const rvm_type *type) {
    return type->kind == RVM_KIND_OF_TENSOR && type->rank == 0;
}

static bool read_entry(builder *b, const json *data, rvm_entry_description *entry) {
    const rvm_program *program = b->executable->program;
    const json *function = json_get(data, "function");
    entry->name = text_of(b, data, "name");
    if (!entry->name || !function || function->kind != JSON_NUMBER || function->number < 0 ||
        function->number >= (int64_t)program->num_functions) {
        return refuse(b, "an entry has no function") != NULL;
    }
    entry->function = (uint32_t)function->number;
    const rvm_function *code = &program->functions[entry->function];
    if (!read_parameters(b, json_get(data, "parameters"), entry) || !read_results(b, data, code, entry)) {
        return false;
    }
    bool agrees = entry->num_parameters == code->num_params;
    for (size_t i = 0; agrees && i < entry->num_parameters; i++) {
        agrees = code->param_class[i] != RVM_CLASS_WORD || is_number(entry->parameters[i]);
    }
    for (size_t i = 0; agrees && i < entry->num_results; i++) {
        agrees = code->result_class[i] != RVM_CLASS_WORD || is_number(entry->results[i]);
    }
    return agrees || refuse(b, "an entry and its code disagree") != NULL;
}

static bool read_entries(builder *b) {
    const json *entries = json_get(b->root, "entries");
    rvm_executable *executable = b->executable;
    const size_t count = entries && entries->kind == JSON_LIST ? entries->count : 0;
    executable->entries = take(b, count, sizeof *executable->entries);
    const json *row = count ? entries->first : NULL;
    for (size_t i = 0; executable->entries && i < count; i++, row = row->next) {
        if (!read_entry(b, row, &executable->entries[i])) {
            return false;
        }
    }
    executable->num_entries = executable->entries ? count : 0;
    return executable->entries != NULL;
}

int manifest_read(rvm_executable *executable, rvm_error *error) {
    const rvm_program *program = executable->program;
    builder b = {.executable = executable};
    size_t at = 0;
    b.root = json_read(&executable->arena, program->manifest, program->manifest_bytes, &at);
    if (!b.root) {
        return library_fail(error, "bad-executable", "byte %zu of the manifest is not JSON", at);
    }
    if (!read_data_type_names(&b) || !read_parts(&b) || !read_data_types(&b) || !read_entries(&b)) {
        return library_fail(error, "bad-executable", "the manifest cannot be read: %s", b.problem ? b.problem : "it is damaged");
    }
    return 0;
}
